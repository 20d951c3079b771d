"""Marker positions from C3D files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spdsl.features.errors import FeatureError

MAX_BYTES = 1 << 30
_BLOCK = 512
_INTEL, _DEC, _SGI = 84, 85, 86  # processor types: how numbers are stored


def read_c3d(path: str | Path) -> np.ndarray:
    """Marker positions of a C3D file.

    Read from the header and the data section alone, within the bytes the file has: a damaged file can do no harm.

    Parameters
    ----------
    path : str or Path
        The file; integer or floating point, from Intel, DEC or SGI machines, with or without analog channels.

    Returns
    -------
    ndarray (frames, markers, 3)
        In the file's units; NaN where a marker was hidden (its residual is negative).

    Examples
    --------
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from spdsl.features import read_c3d
    >>> words = np.zeros(256, "<u2")
    >>> words[[0, 1, 3, 4, 8]] = 0x5002, 2, 1, 3, 3  # two markers, frames 1 to 3, data from the third block on
    >>> words[6:8] = np.array([-1.0], "<f4").view("<u2")  # floating point
    >>> parameters = bytes([0, 0, 0, 84]) + bytes(508)  # Intel
    >>> positions = np.ones((3, 2, 4), "<f4")  # x, y, z, residual
    >>> _ = Path("clip.c3d").write_bytes(words.tobytes() + parameters + positions.tobytes())
    >>> read_c3d("clip.c3d").shape
    (3, 2, 3)
    """
    path = Path(path)
    if path.stat().st_size > MAX_BYTES:
        raise FeatureError(f"{path}: larger than {MAX_BYTES >> 20} MiB; cut it into shorter files")
    data = path.read_bytes()
    processor = _processor(data, path)
    words = _integers(data[:_BLOCK], processor, signed=False)
    points, analog, first, last, start = (int(words[k]) for k in (1, 2, 3, 4, 8))
    scale = float(_floats(data[12:16], processor)[0])
    frames = last - first + 1
    if last == 0xFFFF:
        raise FeatureError(f"{path}: more than 65,534 frames, which the header cannot count; cut it into shorter files")
    if points == 0 or frames < 1 or start < 2 or not np.isfinite(scale) or scale == 0:
        raise FeatureError(f"{path}: the C3D header is damaged ({points} markers, {frames} frames, scale {scale})")
    size = 4 if scale < 0 else 2  # a negative scale marks floating point data
    row, begin = 4 * points + analog, (start - 1) * _BLOCK
    needed, there = frames * row * size, max(len(data) - begin, 0)
    if there < needed:
        raise FeatureError(f"{path}: truncated; the header announces {needed} bytes of data, but there are {there}")
    section = data[begin : begin + needed]
    values = _floats(section, processor) if scale < 0 else _integers(section, processor, signed=True)
    with np.errstate(invalid="ignore"):  # damaged numbers may be signaling NaN
        quads = values.reshape(frames, row)[:, : 4 * points].reshape(frames, points, 4).astype(np.float64)
    tracks = quads[:, :, :3] * (1.0 if scale < 0 else scale)
    tracks[~(quads[:, :, 3] >= 0)] = np.nan
    return tracks


def _processor(data: bytes, path: Path) -> int:
    """Processor type, from the parameter block to which the first byte of the header points."""
    if len(data) < _BLOCK or data[1] != 0x50:
        raise FeatureError(f"{path}: not a C3D file; its header must have {_BLOCK} bytes, the second being 0x50")
    at = (data[0] - 1) * _BLOCK + 3
    if not 0 < at < len(data) or data[at] not in (_INTEL, _DEC, _SGI):
        raise FeatureError(f"{path}: the parameter block of the C3D file is damaged or truncated")
    return data[at]


def _integers(data: bytes, processor: int, *, signed: bool) -> np.ndarray:
    return np.frombuffer(data, dtype=f"{'>' if processor == _SGI else '<'}{'i' if signed else 'u'}2")


def _floats(data: bytes, processor: int) -> np.ndarray:
    if processor != _DEC:
        return np.frombuffer(data, dtype=">f4" if processor == _SGI else "<f4")
    # DEC keeps the two halves the other way round, and its exponent counts two more
    halves = np.frombuffer(data, dtype="<u2").reshape(-1, 2)[:, ::-1]
    return np.ascontiguousarray(halves).view("<f4").ravel() / 4
