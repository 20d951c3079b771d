"""Marker positions from C3D files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spdsl.features.errors import FeatureError, require

_BLOCK = 512
_PROCESSORS = {84: "<", 85: "<", 86: ">"}  # Intel, DEC, SGI/MIPS: how integers are stored


def read_c3d(path: str | Path) -> np.ndarray:
    """Marker positions (frames, markers, 3) of a C3D file; a hidden marker is NaN."""
    ezc3d = require("ezc3d")
    path = Path(path)
    _check_header(path)
    try:
        points = ezc3d.c3d(str(path))["data"]["points"]
    except Exception as error:  # the binding raises whatever its C++ side throws
        raise FeatureError(f"{path}: not a readable C3D file ({error})") from None
    return np.array(points[:3], dtype=np.float64).transpose(2, 1, 0)


def _check_header(path: Path) -> None:
    """Refuse a file whose header promises more than the file holds, before the C++ reader allocates for it."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        header = file.read(_BLOCK)
        if len(header) < _BLOCK or header[1] != 0x50:
            raise FeatureError(f"{path}: not a C3D file; its header must have {_BLOCK} bytes, the second being 0x50")
        file.seek(max(header[0] - 1, 0) * _BLOCK)
        parameters = file.read(4)
    if len(parameters) < 4 or parameters[3] not in _PROCESSORS:
        raise FeatureError(f"{path}: the parameter block of the C3D file is damaged or cut off")
    words = np.frombuffer(header, dtype=f"{_PROCESSORS[parameters[3]]}u2")
    points, first, last, start = (int(words[k]) for k in (1, 3, 4, 8))
    least = max(start - 1, 0) * _BLOCK + max(last - first + 1, 0) * points * 8  # a point takes 8 bytes or 16
    if points == 0 or least > size + _BLOCK:
        raise FeatureError(f"{path}: the C3D header promises {points} markers in {least} bytes, the file has {size}")
