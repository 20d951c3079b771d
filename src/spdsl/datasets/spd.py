"""Ready-made SPD stacks from files."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from spdsl.features.errors import FeatureError, require
from spdsl.features.numpy_files import is_npz, read_npy, read_npz

#: names under which labels are looked for, in order
LABEL_NAMES = ("y", "labels", "label", "gnd", "targets", "target")
READER = Path(__file__).with_name("foreign_reader.py")


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
    if X is not None and X not in arrays:
        raise FeatureError(f"{path}: no array named {X!r}; the file holds {', '.join(arrays)}")
    stacks = {name: _as_stack(name, array) for name, array in arrays.items() if X in (None, name)}
    stacks = {name: stack for name, stack in stacks.items() if stack is not None}
    if len(stacks) > 1 and "X" in stacks:
        stacks = {"X": stacks["X"]}
    if len(stacks) != 1:
        shapes = ", ".join(f"{name} {array.shape} of {array.dtype}" for name, array in arrays.items()) or "nothing"
        problem = "no stack of real square matrices" if not stacks else "several stacks: call the one that is meant X"
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
        if labels is not None and (name is not None or candidate == "y"):
            raise FeatureError(
                f"{path}: {candidate!r} has shape {labels.shape}, the stack {count} matrices: one label each"
            )
    return None


# -------------------------------------------------------------------------------------------------------------- formats


def _read_numpy(path: Path) -> dict[str, np.ndarray]:
    return read_npz(path) if is_npz(path) else {"X": read_npy(path)}


def _read_foreign(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a MATLAB or HDF5 file, read by a process of its own: see `foreign_reader`."""
    if path.suffix.lower() != ".mat":
        require("h5py")
    with tempfile.TemporaryDirectory(prefix="spdsl-") as folder:  # private to the user
        output = Path(folder) / "arrays.npz"
        command = [sys.executable, "-W", "ignore", str(READER), str(path.resolve()), str(output)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return read_npz(output)
    why = done.stderr.strip().rpartition("\n")[2] if done.returncode == 3 else "it is damaged: its reader broke down"
    raise FeatureError(f"{path}: not a readable {path.suffix.lower()} file ({why})")


_READERS = {
    ".npz": _read_numpy,
    ".npy": _read_numpy,
    ".mat": _read_foreign,
    ".h5": _read_foreign,
    ".hdf5": _read_foreign,
}
