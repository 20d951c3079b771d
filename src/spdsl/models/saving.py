"""Save and load models."""

from __future__ import annotations

import importlib.metadata
import platform
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from spdsl import __version__
from spdsl.models.container import FORMAT, read, write
from spdsl.models.encoding import Decoder, Encoder
from spdsl.models.errors import ModelFileError, ModelVersionWarning
from spdsl.models.parts import part_of

_DISTRIBUTIONS = {"sklearn": "scikit-learn"}  # import name to distribution name


def as_path(path: Any) -> Path:
    """The path, or an error if it is not one."""
    if not isinstance(path, str | Path):
        raise TypeError(f"path must be a string or a Path that names a file, got {path!r}")
    return Path(path)


def save(model: Any, path: str | Path, *, notes: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to one safetensors file; `model.save(path)` does the same.

    Parameters
    ----------
    model : estimator
        An estimator of spdsl, or a scikit-learn Pipeline of these and of scikit-learn classes that spdsl itself uses.
    path : str or Path
        An existing file is replaced only when the new one is complete.
    notes : mapping, optional
        Anything that can be written as JSON; `load_with_notes` returns it.

    Notes
    -----
    Not saved are `callback`, `checkpoint`, `device`, and a `random_state` that is not an integer. Tensors are saved as arrays.

    Examples
    --------
    >>> import spdsl
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = spdsl.SPDSL(20).fit(X[::20], y[::20])
    >>> spdsl.save(model, "digits.safetensors")
    >>> spdsl.load("digits.safetensors").score(X[::20], y[::20])
    1.0
    """
    part = part_of(model)
    check_is_fitted(model, None if part is None else part.needed or None)
    encoder = Encoder()
    tree = encoder.estimator(model, type(model).__name__)
    header = {
        "format": FORMAT,
        "versions": {"python": platform.python_version(), **_versions({"spdsl", "numpy", *encoder.packages})},
        "left_out": encoder.left_out,
        "notes": dict(notes or {}),
        "model": tree,
    }
    write(as_path(path), header, encoder.arrays)


def load(path: str | Path) -> Any:
    """Load a model written by `save`. Nothing in the file is executed.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    estimator
        The fitted model, with NumPy arrays; it also predicts for tensors.

    Raises
    ------
    ModelFileError
        If the file is truncated, was changed, is not a model, or comes from a newer version; the message says which.

    Examples
    --------
    >>> import spdsl
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> spdsl.SPDSL(20).fit(X[::20], y[::20]).save("digits.safetensors")
    >>> spdsl.load("digits.safetensors").predict(X[[0, 400]]).tolist()
    [0, 4]
    """
    return load_with_notes(path)[0]


def load_with_notes(path: str | Path) -> tuple[Any, dict[str, Any]]:
    """A model, and the notes that were saved with it.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    estimator, dict

    Examples
    --------
    >>> import numpy as np
    >>> import spdsl
    >>> from spdsl.models import load_with_notes
    >>> model = spdsl.Regularize().fit(np.stack([np.eye(3)] * 4))
    >>> spdsl.save(model, "model.safetensors", notes={"made by": "me"})
    >>> load_with_notes("model.safetensors")[1]
    {'made by': 'me'}
    """
    path = as_path(path)
    header, kept_aside = read(path)
    if "model" not in header and "kind" in header:
        raise ModelFileError(
            f"{path}: is the {str(header['kind'])[:40]} of a fit, not a model; finish the fit and save it"
        )
    try:
        decoder = Decoder(kept_aside)
        model, versions, notes = (
            decoder.decode(header["model"]),
            dict(header["versions"]),
            dict(header.get("notes", {})),
        )
        if part_of(model) is None:
            raise ModelFileError("it contains no estimator")
        if decoder.unused:
            raise ModelFileError(f"its array {min(decoder.unused)!r} is not used")
    except ImportError:
        raise
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except Exception as error:  # anything can be wrong in a header: keys, types, lengths
        raise ModelFileError(f"{path}: invalid header ({type(error).__name__}: {error})") from error
    _compare_versions(path, versions, decoder.packages)
    return model, notes


def _versions(packages: set[str]) -> dict[str, str]:
    """Installed versions by import name."""
    known = {"spdsl": __version__}
    return {
        name: known.get(name) or importlib.metadata.version(_DISTRIBUTIONS.get(name, name)) for name in sorted(packages)
    }


def _compare_versions(path: Path, saved: dict[str, str], packages: set[str]) -> None:
    """Warn if a part of the model was saved with another version of its library; our own are read exactly."""
    for name, version in _versions(packages - {"spdsl"}).items():
        if version.split(".")[:2] != saved.get(name, "").split(".")[:2]:
            warnings.warn(
                f"{path}: a part of this model was saved with {name} {saved.get(name)}, but {version} is installed; check its "
                f"predictions, or fit it again",
                ModelVersionWarning,
                stacklevel=4,
            )
