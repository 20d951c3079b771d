"""Reads a MATLAB or HDF5 file in a process of its own, and leaves its arrays as an .npz file.

Run as `python foreign_reader.py FILE OUTPUT`; it imports nothing of spdsl. The readers behind SciPy and h5py can crash on a
damaged file, and here that costs a child process and not the user's session.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

PACKED = 1100  # no compression that such files use gains more than this
DEPTH = 8  # of structs in structs


def read_mat(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a MATLAB file of any version."""
    import scipy.io

    try:
        contents: dict[str, Any] = scipy.io.loadmat(path)
    except NotImplementedError:  # version 7.3 is HDF5
        return {name: array.T for name, array in read_h5(path).items()}
    arrays: dict[str, np.ndarray] = {}
    for name, value in contents.items():
        if isinstance(value, np.ndarray) and name[:2] != "__":
            unpack(name, value, arrays)
    return arrays


def unpack(name: str, value: np.ndarray, arrays: dict[str, np.ndarray], depth: int = 0) -> None:
    """An array under its name; of a struct every field, as `name.field`, and of a struct array each field as one array."""
    if value.dtype.names is None:
        arrays[name] = value
        return
    for field in value.dtype.names if depth < DEPTH else ():
        cells = value[field]
        inner = cells.ravel()[0] if cells.size == 1 else cells
        if isinstance(inner, np.ndarray):
            unpack(f"{name}.{field}", inner, arrays, depth + 1)


def read_h5(path: Path) -> dict[str, np.ndarray]:
    """Arrays of an HDF5 file, groups included."""
    import h5py

    arrays: dict[str, np.ndarray] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind in "biufSO":
            if item.is_virtual or item.external:
                raise ValueError(f"{name} is stored in other files; write it into this one")
            stored = item.id.get_storage_size()
            if item.nbytes > PACKED * max(stored, 1):
                raise ValueError(f"{name} announces {item.nbytes} bytes, but {stored} are stored")
            values = item.asstr()[()] if h5py.check_string_dtype(item.dtype) else item[()]
            arrays[name] = np.asarray(values)

    with h5py.File(path, "r") as file:
        file.visititems(visit)
    return arrays


def plain(array: np.ndarray) -> np.ndarray | None:
    """An array without Python objects, or None: cells that hold one string or number each, or matrices of one size."""
    if array.dtype.kind != "O":
        return array if array.dtype.kind in "biufcSU" else None
    cells = [np.asarray(cell) for cell in array.ravel()]
    shapes = {cell.shape for cell in cells}
    if len(shapes) == 1 and min(cells[0].shape, default=0) > 1 and all(cell.dtype.kind in "biuf" for cell in cells):
        return np.stack(cells)
    if not cells or any(cell.size != 1 or cell.dtype.kind not in "biufU" for cell in cells):
        return None
    return np.array([cell.reshape(-1)[0] for cell in cells]).reshape(array.shape)


def main(source: str, output: str) -> int:
    """Write what the file holds; 3 and a line on the error stream where it cannot be read."""
    path = Path(source)
    try:
        arrays = read_mat(path) if path.suffix.lower() == ".mat" else read_h5(path)
    except Exception as error:  # a damaged file ends in any of a dozen classes
        print(" ".join(str(error).split()) or type(error).__name__, file=sys.stderr)
        return 3
    kept = {name: plain(array) for name, array in arrays.items()}
    with zipfile.ZipFile(output, "w") as archive:  # not np.savez: it has arguments of its own, such as `file`
        for name, array in kept.items():
            if array is not None:
                with archive.open(f"{name.replace('/', '.')}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
