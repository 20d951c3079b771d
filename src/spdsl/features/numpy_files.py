"""NumPy files, read safely: no pickles, and no memory is allocated only because a header says so."""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Container
from itertools import pairwise
from pathlib import Path
from typing import IO

import numpy as np

from spdsl.features.errors import FeatureError

PACKED = 1100  # no compression of archives gains more than this
_HEADER = 30  # bytes before the name of an entry, at least


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
            _refuse_overlaps(archive)
            for info in archive.infolist():
                if info.filename.endswith(".npy") and (only is None or info.filename[:-4] in only):
                    if info.file_size > PACKED * max(info.compress_size, 1):
                        raise ValueError(
                            f"{info.filename} announces {info.file_size} bytes, but {info.compress_size} are stored"
                        )
                    with archive.open(info) as file:
                        arrays[info.filename[:-4]] = _read_member(file, info)
    except Exception as error:  # zipfile, zlib and numpy each raise their own
        raise _unreadable(path, error) from None
    return arrays


def _refuse_overlaps(archive: zipfile.ZipFile) -> None:
    """No two entries may share their bytes: a small file could promise, and take, any amount of work."""
    entries = sorted(archive.infolist(), key=lambda info: info.header_offset)
    for info, after in pairwise(entries):
        if info.header_offset + _HEADER + len(info.orig_filename) + info.compress_size > after.header_offset:
            raise ValueError(f"its entries {info.filename} and {after.filename} overlap; the file is damaged or forged")


def _read_member(file: IO[bytes], info: zipfile.ZipInfo) -> np.ndarray:
    """One array of an archive; an error names it."""
    try:
        return _read_array(file, info.file_size)
    except ValueError as error:
        raise ValueError(f"the array {info.filename[:-4]!r}: {error}") from error


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
        raise ValueError(f"format {version[0]}.{version[1]} does not hold plain numbers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy tells how to save headers of Python 2 again
        shape, fortran, kind = readers[version](file)
    if kind.hasobject:
        raise ValueError("it holds Python objects, which are not loaded; save numbers or strings, e.g. by .astype(str)")
    if any(not isinstance(side, int) or side < 0 for side in shape):
        raise ValueError(f"impossible shape {shape}")
    wanted = math.prod(shape) * kind.itemsize
    if wanted > size:
        raise ValueError(f"its header announces {wanted} bytes, but the file has {size}")
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
            raise ValueError(f"truncated: it has {done} of {len(view)} bytes")
        done += count


def _unreadable(path: Path, error: Exception) -> FeatureError:
    text = " ".join(str(error).split()) or type(error).__name__
    return FeatureError(f"{path}: not a readable NumPy file ({text})")
