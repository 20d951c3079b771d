"""Save a model, load a model."""

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
from spdsl.models.errors import ModelFileError, ModelVersionWarning
from spdsl.models.parts import part_of
from spdsl.models.trees import Decoder, Encoder

_DISTRIBUTIONS = {"sklearn": "scikit-learn"}  # import name to the name in which versions are asked for


def as_path(path: Any) -> Path:
    """The path, or an error where it is none."""
    if not isinstance(path, str | Path):
        raise TypeError(f"path must be a string or a Path that names a file, got {path!r}")
    return Path(path)


def save(model: Any, path: str | Path, *, notes: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to one safetensors file; `model.save(path)` does the same.

    Parameters
    ----------
    model : estimator
        Of spdsl, or a scikit-learn Pipeline of such and of the scikit-learn classes that spdsl itself uses.
    path : str or Path
        Replaced only when the new file is whole.
    notes : mapping, optional
        Anything that JSON can say, for `load_with_notes`.

    Notes
    -----
    `callback` and `checkpoint` are not saved, nor is a `random_state` that is no integer. Tensors are saved as arrays.
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
    """Read a model that `save` has written. Nothing in the file is executed.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    estimator
        Fitted as it was, on NumPy arrays; it predicts for tensors as well.

    Raises
    ------
    ModelFileError
        The file is cut off, was changed, is no model, or comes from a newer version; the message says which.
    """
    return load_with_notes(path)[0]


def load_with_notes(path: str | Path) -> tuple[Any, dict[str, Any]]:
    """A model as `load` reads it, and the notes that were saved with it."""
    path = as_path(path)
    header, kept_aside = read(path)
    try:
        decoder = Decoder(kept_aside)
        model, versions, notes = (
            decoder.decode(header["model"]),
            dict(header["versions"]),
            dict(header.get("notes", {})),
        )
        if part_of(model) is None:
            raise ModelFileError("it holds no estimator")
        if decoder.unused:
            raise ModelFileError(f"nothing uses its array {min(decoder.unused)!r}")
    except ImportError:
        raise
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from None
    except Exception as error:  # whatever a header can get wrong: keys, types, lengths
        raise ModelFileError(f"{path}: its header makes no sense ({type(error).__name__}: {error})") from error
    _compare_versions(path, versions, decoder.packages)
    return model, notes


def _versions(packages: set[str]) -> dict[str, str]:
    """Installed versions by import name."""
    known = {"spdsl": __version__}
    return {
        name: known.get(name) or importlib.metadata.version(_DISTRIBUTIONS.get(name, name)) for name in sorted(packages)
    }


def _compare_versions(path: Path, saved: dict[str, str], packages: set[str]) -> None:
    """Warn where a part of the model was saved by another version of its library; our own are read exactly."""
    for name, version in _versions(packages - {"spdsl"}).items():
        if version.split(".")[:2] != saved.get(name, "").split(".")[:2]:
            warnings.warn(
                f"{path}: a part of this model is of {name} {saved.get(name)}, and {version} is installed: compare its "
                f"predictions, or fit it again",
                ModelVersionWarning,
                stacklevel=4,
            )
