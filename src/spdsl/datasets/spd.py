"""Ready-made SPD stacks from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.features.errors import FeatureError, require

#: names under which labels are looked for, in order
LABEL_NAMES = ("y", "labels", "label", "gnd", "targets", "target")


def load_spd(path: str | Path, *, X: str | None = None, y: str | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Load a stack of SPD matrices, and its labels where the file has them.

    Parameters
    ----------
    path : str or Path
        `.npz`, `.npy`, `.mat` (any version) or `.h5`/`.hdf5`.
    X : str, optional
        Name of the stack in the file. By default `X`, or the only array that can be one: (N, n, n), or (n, n, N) as
        MATLAB stores it, or rows of upper triangles `triu` (N, n(n+1)/2).
    y : str, optional
        Name of the labels. By default `y`, `labels`, `label`, `gnd`, `targets` or `target`, if one has N entries.

    Returns
    -------
    X : ndarray of float64 (N, n, n)
    y : ndarray (N,) or None
    """
    path = Path(path)
    if not path.is_file():
        raise FeatureError(f"{path}: no such file")
    if path.suffix.lower() not in _READERS:
        raise FeatureError(f"{path}: unknown kind of file; known are {', '.join(_READERS)}")
    arrays = _READERS[path.suffix.lower()](path)
    stacks = {name: _as_stack(name, array) for name, array in arrays.items() if X in (None, name)}
    stacks = {name: stack for name, stack in stacks.items() if stack is not None}
    if len(stacks) > 1 and "X" in stacks:
        stacks = {"X": stacks["X"]}
    if len(stacks) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items()) or "nothing"
        problem = "no stack of square matrices" if not stacks else "several stacks: name one with X=..."
        raise FeatureError(f"{path}: {problem}; the file holds {shapes}")
    (stack,) = stacks.values()
    assert stack is not None
    _check(stack, path)
    return stack, _labels(arrays, len(stack), y, path)


def _as_stack(name: str, array: np.ndarray) -> np.ndarray | None:
    """The array as (N, n, n) of float64, or None when it cannot be that."""
    if array.dtype.kind not in "iuf":
        return None
    if array.ndim == 3 and array.shape[1] == array.shape[2]:
        return array.astype(np.float64)
    if array.ndim == 3 and array.shape[0] == array.shape[1]:
        return np.ascontiguousarray(array.transpose(2, 0, 1), dtype=np.float64)
    if array.ndim == 2 and name.startswith("triu"):
        n = int((np.sqrt(8 * array.shape[1] + 1) - 1) / 2)
        if n * (n + 1) // 2 != array.shape[1]:
            return None
        stack = np.zeros((len(array), n, n))
        rows, columns = np.triu_indices(n)
        stack[:, rows, columns] = stack[:, columns, rows] = array
        return stack
    return None


def _check(stack: np.ndarray, path: Path) -> None:
    """Finite and symmetric; definiteness is left to whoever uses the stack, since real files hold zero matrices."""
    for i, matrix in enumerate(stack):  # one at a time: no second copy of a large stack
        if not np.isfinite(matrix).all():
            raise FeatureError(f"{path}: matrix {i} holds NaN or infinity; leave it out")
        if np.abs(matrix - matrix.T).max(initial=0) > 1e-6 * max(np.abs(matrix).max(initial=0), 1e-300):
            raise FeatureError(f"{path}: matrix {i} is not symmetric; is the stack's first axis the samples?")


def _labels(arrays: Mapping[str, np.ndarray], count: int, name: str | None, path: Path) -> np.ndarray | None:
    if name is not None and name not in arrays:
        raise FeatureError(f"{path}: no array named {name!r}; the file holds {', '.join(arrays)}")
    for candidate in LABEL_NAMES if name is None else (name,):
        labels = arrays.get(candidate)
        if labels is not None and labels.size == count:
            return labels.ravel()
        if labels is not None and name is not None:
            raise FeatureError(f"{path}: {name!r} has shape {labels.shape}, the stack has {count} matrices")
    return None


# -------------------------------------------------------------------------------------------------------------- formats


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        with path.open("rb") as file:  # ours to close: NumPy leaves a file open in which it finds no archive
            saved = np.load(file, allow_pickle=False)
            if isinstance(saved, np.ndarray):
                return {"X": saved}
            with saved:
                return {name: saved[name] for name in saved.files}
    except Exception as error:  # zipfile, zlib and numpy each raise their own
        raise FeatureError(f"{path}: not a readable NumPy file ({error})") from None


def _read_mat(path: Path) -> dict[str, np.ndarray]:
    import scipy.io

    try:
        contents: dict[str, Any] = scipy.io.loadmat(path)
    except NotImplementedError:  # version 7.3 is HDF5
        return {name: array.T for name, array in _read_h5(path).items()}
    except Exception as error:
        raise FeatureError(f"{path}: not a readable MATLAB file ({error})") from None
    return {name: array for name, array in contents.items() if isinstance(array, np.ndarray) and name[:2] != "__"}


def _read_h5(path: Path) -> dict[str, np.ndarray]:
    h5py = require("h5py")
    arrays: dict[str, np.ndarray] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "iufSO":
            values = item.asstr()[()] if h5py.check_string_dtype(item.dtype) else item[()]
            arrays[name] = np.asarray(values)

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except OSError as error:
        raise FeatureError(f"{path}: not a readable HDF5 file ({error})") from None
    return {name: np.array(array.tolist()) if array.dtype.kind == "O" else array for name, array in arrays.items()}


_READERS = {".npz": _read_npz, ".npy": _read_npz, ".mat": _read_mat, ".h5": _read_h5, ".hdf5": _read_h5}
