"""NumPy's files, read without trust: no pickles, and no memory taken on the word of a header alone."""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Container
from pathlib import Path
from typing import IO

import numpy as np

from spdsl.features.errors import FeatureError

PACKED = 1100  # no compression of archives gains more than this


def read_npy(path: Path) -> np.ndarray:
    """The array of an .npy file."""
    try:
        with path.open("rb") as file:
            return _read_array(file, path.stat().st_size)
    except Exception as error:  # a damaged header ends in any of half a dozen classes
        raise _unreadable(path, error) from None


def read_npz(path: Path, only: Container[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of an .npz file by name, or `only` some of them; what is not an array is left out."""
    arrays: dict[str, np.ndarray] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.filename.endswith(".npy") and (only is None or info.filename[:-4] in only):
                    if info.file_size > PACKED * max(info.compress_size, 1):
                        raise ValueError(
                            f"{info.filename} promises {info.file_size} bytes, {info.compress_size} are stored"
                        )
                    with archive.open(info) as file:
                        arrays[info.filename[:-4]] = _read_array(file, info.file_size)
    except Exception as error:  # zipfile, zlib and numpy each raise their own
        raise _unreadable(path, error) from None
    return arrays


def is_npz(path: Path) -> bool:
    """Whether the file is an archive, whatever its name says."""
    try:
        with path.open("rb") as file:
            return file.read(2) == b"PK"
    except OSError as error:
        raise _unreadable(path, error) from None


def _read_array(file: IO[bytes], size: int) -> np.ndarray:
    """An array from an open file of `size` bytes."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"format {version[0]}.{version[1]} holds no plain numbers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy tells how to save headers of Python 2 again
        shape, fortran, kind = readers[version](file)
    if kind.hasobject:
        raise ValueError("it holds Python objects, which are not loaded")
    if any(not isinstance(side, int) or side < 0 for side in shape):
        raise ValueError(f"impossible shape {shape}")
    wanted = math.prod(shape) * kind.itemsize
    if wanted > size:
        raise ValueError(f"its header promises {wanted} bytes, the file has {size}")
    array = np.empty(math.prod(shape), kind)
    _fill(file, array)
    return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)


def _fill(file: IO[bytes], array: np.ndarray) -> None:
    """Read an array's bytes into it; archives hand them out in pieces."""
    view = array.view(np.uint8) if array.nbytes else np.empty(0, np.uint8)
    done = 0
    while done < len(view):
        count = file.readinto(view[done:].data)  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"cut off: {done} of {len(view)} bytes are there")
        done += count


def _unreadable(path: Path, error: Exception) -> FeatureError:
    text = " ".join(str(error).split()) or type(error).__name__
    return FeatureError(f"{path}: not a readable NumPy file ({text})")
