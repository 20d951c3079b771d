"""Images and video as grey frames, whatever their files hold."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from spdsl.features.errors import FeatureError, require

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
VIDEO_SUFFIXES = (".avi", ".mp4", ".mov", ".mkv", ".m4v", ".mpg", ".mpeg", ".webm", ".wmv")

# A container announces how many frames it holds, and is often off by a few; well short of it, the file is cut off.
_COMPLETE = 0.9


def read_grey(path: str | Path) -> np.ndarray:
    """Read an image as grey, 8 bits: colour, palette, CMYK and 16-bit images are converted, transparency is ignored.

    Parameters
    ----------
    path : str or Path
        An image file that OpenCV reads.

    Returns
    -------
    ndarray of uint8 (height, width)
    """
    cv2 = require("cv2")
    path = Path(path)
    data = np.fromfile(path, dtype=np.uint8)
    if len(data) == 0:
        raise FeatureError(f"{path}: the file is empty (0 bytes); fetch it again")
    with _quiet(cv2):
        try:
            image = cv2.imdecode(data, cv2.IMREAD_GRAYSCALE | cv2.IMREAD_ANYDEPTH)
        except cv2.error as error:
            raise FeatureError(f"{path}: cannot be decoded as an image ({error.err})") from None
    if image is None:
        raise FeatureError(
            f"{path}: cannot be decoded as an image; it is damaged or of another kind than its name says"
        )
    return _to_uint8(image, path)


def _to_uint8(image: np.ndarray, path: Path) -> np.ndarray:
    if image.dtype == np.uint8:
        return image
    if image.dtype == np.uint16:
        return np.round(image / 257.0).astype(np.uint8)  # 65535 = 255 * 257
    if not np.isfinite(image).all():
        raise FeatureError(f"{path}: the image holds NaN or infinity")
    low, high = float(image.min()), float(image.max())  # floating point images have no fixed white
    return np.round((image - low) * (255.0 / max(high - low, np.finfo(float).tiny))).astype(np.uint8)


def grey_frames(path: str | Path, *, truncated: str = "error") -> Iterator[np.ndarray]:
    """Yield the frames of a clip as grey uint8 images, one at a time.

    Parameters
    ----------
    path : str or Path
        A video file, or a folder of images that are its frames in order of name.
    truncated : {"error", "keep"}
        What to do when a video ends well before the frames its header announces.
    """
    path = Path(path)
    if truncated not in ("error", "keep"):
        raise ValueError(f"truncated={truncated!r}: choose 'error' or 'keep'")
    if path.is_dir():
        files = frame_files(path)
        if not files:
            raise FeatureError(f"{path}: the folder holds no images; expected the frames of a clip")
        yield from (read_grey(file) for file in files)
    else:
        yield from _video_frames(path, truncated)


def frame_files(folder: Path) -> list[Path]:
    """Images directly in `folder`, numbers in their names in numeric order (frame2 before frame10)."""
    files = (p for p in folder.iterdir() if p.suffix.lower() in IMAGE_SUFFIXES and not p.name.startswith("."))
    return sorted(filter(readable_kind, files), key=lambda p: natural_key(p.name))


def readable_kind(path: Path) -> bool:
    """False for pipes, sockets and devices, which would be waited for; a link to nothing passes, to fail by name."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return True
    return stat.S_ISREG(mode)


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Sort key under which `frame2` comes before `frame10`."""
    key: list[tuple[int, int, str]] = []
    digits = ""
    for letter in [*name, ""]:
        if letter in "0123456789" and letter:
            digits += letter
            continue
        if digits:
            # as text: int() refuses numbers of thousands of digits
            key.append((0, len(digits.lstrip("0")), digits.lstrip("0")))
            digits = ""
        key.append((1, 0, letter))
    return key


def _video_frames(path: Path, truncated: str) -> Iterator[np.ndarray]:
    cv2 = require("cv2")
    if not path.is_file():
        raise FeatureError(f"{path}: no such file")
    if path.stat().st_size == 0:
        raise FeatureError(f"{path}: the file is empty (0 bytes); fetch it again")
    with _quiet(cv2):
        capture = cv2.VideoCapture(str(path))
        try:
            announced = int(capture.get(cv2.CAP_PROP_FRAME_COUNT)) if capture.isOpened() else 0
            count = 0
            while capture.isOpened():
                ok, frame = capture.read()
                if not ok:
                    break
                count += 1
                yield frame if frame.ndim == 2 else cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY)
        finally:
            capture.release()
    if count == 0:
        raise FeatureError(f"{path}: no frame can be decoded; the video is damaged or of a kind OpenCV does not read")
    if truncated == "error" and count < _COMPLETE * announced:
        raise FeatureError(
            f"{path}: the video is cut off, {count} of {announced} frames can be decoded; "
            "fetch it again, or use truncated='keep'"
        )


@contextmanager
def _quiet(cv2: object) -> Iterator[None]:
    """Keep OpenCV and FFmpeg from writing to the terminal: what they complain about becomes an error of ours."""
    os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
    logging = cv2.utils.logging  # type: ignore[attr-defined]
    level = logging.getLogLevel()
    logging.setLogLevel(logging.LOG_LEVEL_SILENT)
    try:
        yield
    finally:
        logging.setLogLevel(level)
