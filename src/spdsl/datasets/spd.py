"""SPD matrices from files."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from spdsl.features.errors import FeatureError, require
from spdsl.features.numpy_files import is_npz, read_npy, read_npz

SYMMETRIC = 1e-6  # largest difference of mirrored entries, relative to the largest entry: of single precision
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
        Name of the stack in the file; fields of a MATLAB struct are `struct.field`, and the field alone will do. By default
        `X`, or the only array that can be one: (N, n, n), or (n, n, N) as MATLAB stores it, samples of several matrices
        (N, b, n, n), or rows of upper triangles `triu` (N, n(n+1)/2).
    y : str, optional
        Name of the labels. By default that of X with a y (`trn_X`, `trn_y`), or `y`, `labels`, `label`, `gnd`, `targets` or
        `target`, if one has N entries.

    Returns
    -------
    X : ndarray of float64 (N, n, n) or (N, b, n, n)
    y : ndarray (N,) or None

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.datasets import load_spd
    >>> np.savez("mine.npz", X=np.stack([np.eye(3)] * 4), y=[0, 0, 1, 1])
    >>> X, y = load_spd("mine.npz")
    >>> X.shape, y.tolist()
    ((4, 3, 3), [0, 0, 1, 1])
    """
    path = Path(path)
    if not path.is_file():
        raise FeatureError(f"{path}: no such file")
    if path.suffix.lower() not in _READERS:
        raise FeatureError(f"{path}: unknown kind of file; use one of {', '.join(_READERS)}")
    arrays = _READERS[path.suffix.lower()](path)
    X = _full_name(X, arrays, path)
    stacks = {name: _as_stack(name, array) for name, array in arrays.items() if X in (None, name)}
    stacks = {name: stack for name, stack in stacks.items() if stack is not None}
    if len(stacks) > 1 and "X" in stacks:
        stacks = {"X": stacks["X"]}
    if len(stacks) != 1:
        shapes = ", ".join(f"{name} {array.shape} of {array.dtype}" for name, array in arrays.items()) or "nothing"
        several = f"several stacks: call the one that is meant X, or name it, e.g. load_spd(path, X={next(iter(stacks), '')!r})"
        problem = several if stacks else "no stack of real square matrices"
        raw = not stacks and any(array.ndim == 3 and array.dtype.kind in "iuf" for array in arrays.values())
        hint = "; for signals (trials, channels, time) pass their covariances, signal_covariance(X)" if raw else ""
        raise FeatureError(f"{path}: {problem}; the file holds {shapes}{hint}")
    ((name, stack),) = stacks.items()
    assert stack is not None
    _check(stack, path)
    return stack, _labels(arrays, len(stack), _full_name(y, arrays, path), name, path)


def _full_name(name: str | None, arrays: Mapping[str, np.ndarray], path: Path) -> str | None:
    """The name of an array, also by its last part: `trn_X` for `data.trn_X`."""
    if name is None or name in arrays:
        return name
    fields = [full for full in arrays if full.rpartition(".")[2] == name]
    if len(fields) != 1:
        raise FeatureError(f"{path}: no array named {name!r}; the file holds {', '.join(arrays)}")
    return fields[0]


def _as_stack(name: str, array: np.ndarray) -> np.ndarray | None:
    """The array as (N, n, n) of float64, or None when it cannot be that."""
    if array.dtype.kind not in "iuf":
        return None
    if array.ndim == 4 and array.shape[2] == array.shape[3]:
        return array.astype(np.float64)
    if array.ndim == 3 and array.shape[1] == array.shape[2]:
        # as many matrices as rows: symmetry tells which axis counts them; where both do, both are the same stack
        last = len(set(array.shape)) == 1 and not _is_symmetric(array) and _is_symmetric(array.transpose(2, 0, 1))
        return np.ascontiguousarray(array.transpose(2, 0, 1) if last else array, dtype=np.float64)
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


def _is_symmetric(stack: np.ndarray) -> bool:
    """Whether all matrices are symmetric to 6 digits; NaN is not looked at here."""
    return bool(np.nanmax(np.abs(stack - stack.mT), initial=0) <= SYMMETRIC * np.nanmax(np.abs(stack), initial=1e-300))


def _check(stack: np.ndarray, path: Path) -> None:
    """Finite and symmetric; definiteness is left to whoever uses the stack, since real files hold zero matrices."""
    for i, matrix in enumerate(stack):  # one at a time: no second copy of a large stack
        if not np.isfinite(matrix).all():
            raise FeatureError(f"{path}: matrix {_place(i, ~np.isfinite(matrix))} holds NaN or infinity; remove it")
        off = np.abs(matrix - matrix.mT) > SYMMETRIC * max(np.abs(matrix).max(initial=0), 1e-300)
        if off.any():
            raise FeatureError(
                f"{path}: matrix {_place(i, off)} is not symmetric; is the stack's first axis the samples?"
            )


def _place(sample: int, bad: np.ndarray) -> str:
    """Index of the first bad matrix, with its block where a sample is several matrices."""
    return f"{sample}" if bad.ndim == 2 else f"{sample} of block {np.argwhere(bad)[0][0]}"


def _labels(
    arrays: Mapping[str, np.ndarray], count: int, name: str | None, stack: str, path: Path
) -> np.ndarray | None:
    """The labels of that name, or those that lie beside the stack."""
    struct, dot, _ = stack.rpartition(".")
    twin = stack[:-1] + "y" if stack.endswith("X") else stack  # trn_X, trn_y
    usual = [twin, *(struct + dot + label for label in LABEL_NAMES), *LABEL_NAMES]
    for candidate in usual if name is None else [name]:
        labels = arrays.get(candidate)
        if labels is not None and labels.size == count and candidate != stack:
            return labels.ravel()
        if labels is not None and candidate != stack and (name is not None or candidate in (twin, "y")):
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

#: endings of the files that `load_spd` reads
STACK_SUFFIXES = tuple(_READERS)
