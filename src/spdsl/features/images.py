"""Images and video as gray frames, whatever their files hold."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from spdsl.features.covariance import as_array
from spdsl.features.errors import FeatureError, require

IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
VIDEO_SUFFIXES = (".avi", ".mp4", ".mov", ".mkv", ".m4v", ".mpg", ".mpeg", ".webm", ".wmv")

# A container announces how many frames it holds, and is often off by a few; well short of it, the file is cut off.
_COMPLETE = 0.9


def read_gray(path: str | Path) -> np.ndarray:
    """Read an image as gray, 8 bits: color, palette, CMYK and 16-bit images are converted, transparency is ignored.

    Parameters
    ----------
    path : str or Path
        An image file that OpenCV reads.

    Returns
    -------
    ndarray of uint8 (height, width)

    Examples
    --------
    >>> import cv2
    >>> import numpy as np
    >>> from spdsl.features import read_gray
    >>> _ = cv2.imwrite("image.png", np.full((20, 30, 3), 200, np.uint8))
    >>> read_gray("image.png").shape
    (20, 30)
    """
    cv2 = require("cv2")
    path = Path(path)
    data = np.fromfile(path, dtype=np.uint8)
    if len(data) == 0:
        raise FeatureError(f"{path}: the file is empty (0 bytes); copy it again")
    with _quiet(cv2):
        try:
            image = cv2.imdecode(data, cv2.IMREAD_GRAYSCALE | cv2.IMREAD_ANYDEPTH)
        except cv2.error as error:
            raise FeatureError(f"{path}: cannot be decoded as an image ({error.err})") from None
    if image is None:
        raise FeatureError(f"{path}: cannot be decoded as an image; it is damaged, or its extension is wrong")
    return _to_uint8(image, path)


def as_gray(image: object) -> np.ndarray:
    """An image in memory as gray, 8 bits.

    Parameters
    ----------
    image : ndarray (height, width), or (height, width, 1, 3 or 4)
        Gray, or BGR or BGRA as OpenCV reads them; transparency is ignored. `uint16` is read as 16 bits; other integers
        as 8 bits up to 255 and as 16 bits beyond; values from 0 to 1 as fractions of white; others are stretched from black
        to white.

    Returns
    -------
    ndarray of uint8 (height, width)

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import as_gray
    >>> as_gray(np.array([[0.0, 0.5, 1.0]]))
    array([[  0, 128, 255]], dtype=uint8)
    """
    pixels = as_array(image)
    if pixels.ndim not in (2, 3) or not pixels.size or (pixels.ndim == 3 and pixels.shape[2] not in (1, 3, 4)):
        raise FeatureError(
            f"the image has shape {pixels.shape}: expected gray (height, width), or BGR or BGRA (height, width, 3 or 4)"
        )
    if pixels.dtype.kind not in "biuf":
        raise FeatureError(f"the image has dtype {pixels.dtype}: expected real numbers")
    if not np.isfinite(pixels).all():
        raise FeatureError("the image holds NaN or infinity; fill it in or leave it out")
    pixels = _scaled(pixels[:, :, :3] if pixels.ndim == 3 else pixels)
    if pixels.ndim == 2:
        return pixels
    cv2 = require("cv2")
    return pixels[:, :, 0] if pixels.shape[2] == 1 else cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_BGR2GRAY)


def _scaled(pixels: np.ndarray) -> np.ndarray:
    """Finite numbers as 8 bits."""
    low, high = float(pixels.min()), float(pixels.max())
    if pixels.dtype == bool or (pixels.dtype.kind == "f" and low >= 0 and high <= 1):
        return np.round(pixels * 255.0).astype(np.uint8)
    if low >= 0 and high <= 65535 and (pixels.dtype.kind != "f" or not (pixels % 1).any()):
        wide = pixels.dtype == np.uint16 or high > 255
        return _to_uint8(pixels.astype(np.uint16 if wide else np.uint8), "the image")
    return _to_uint8(pixels.astype(np.float64), "the image")


def _to_uint8(image: np.ndarray, path: Path | str) -> np.ndarray:
    if image.dtype == np.uint8:
        return image
    if image.dtype == np.uint16:
        return np.round(image / 257.0).astype(np.uint8)  # 65535 = 255 * 257
    if not np.isfinite(image).all():
        raise FeatureError(f"{path}: the image holds NaN or infinity")
    low, high = float(image.min()), float(image.max())  # floating point images have no fixed white
    return np.round((image - low) * (255.0 / max(high - low, np.finfo(float).tiny))).astype(np.uint8)


def gray_frames(path: str | Path, *, truncated: str = "error") -> Iterator[np.ndarray]:
    """Yield the frames of a clip as gray uint8 images, one at a time.

    Parameters
    ----------
    path : str or Path
        A video file, or a folder of images that are its frames in order of name.
    truncated : {"error", "keep"}
        What to do when a video ends well before the frames its header announces.

    Examples
    --------
    >>> import os
    >>> import cv2
    >>> import numpy as np
    >>> from spdsl.features import gray_frames
    >>> os.mkdir("clip")
    >>> for k in range(3):
    ...     _ = cv2.imwrite(f"clip/{k}.png", np.full((20, 30, 3), 50 * k, np.uint8))
    >>> [frame.shape for frame in gray_frames("clip")]
    [(20, 30), (20, 30), (20, 30)]
    """
    path = Path(path)
    if truncated not in ("error", "keep"):
        raise ValueError(f"truncated={truncated!r}: choose 'error' or 'keep'")
    if path.is_dir():
        files = frame_files(path)
        if not files:
            raise FeatureError(f"{path}: the folder holds no images; expected the frames of a clip")
        yield from (read_gray(file) for file in files)
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
    if path.suffix.lower() in IMAGE_SUFFIXES:
        raise FeatureError(f"{path}: is a single image; pass a video, or the folder that holds the images of a set")
    if path.stat().st_size == 0:
        raise FeatureError(f"{path}: the file is empty (0 bytes); copy it again")
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
        raise FeatureError(
            f"{path}: no frame can be decoded; the video is damaged, or OpenCV does not support its format"
        )
    if truncated == "error" and count < _COMPLETE * announced:
        raise FeatureError(
            f"{path}: the video is truncated, {count} of {announced} frames can be decoded; "
            "copy it again, or use truncated='keep'"
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
