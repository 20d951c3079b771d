"""Materials in images: covariance of dense SIFT descriptors, and the classical region covariance."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.data.parameters import check_count
from spdsl.features.blocks import quadrants
from spdsl.features.covariance import RIDGE, Shrinkage, as_array, set_covariance
from spdsl.features.errors import FeatureError, require
from spdsl.features.images import as_gray, read_gray

#: features of the classical region covariance, in order
REGION_FEATURES = ("x", "y", "intensity", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|")


def dense_sift(image: np.ndarray, *, step: int = 4, patch: int = 16) -> np.ndarray:
    """SIFT descriptors on a regular grid: 4 x 4 bins of 8 angles over `patch` x `patch` pixels, upright.

    Parameters
    ----------
    image : ndarray (height, width) or (height, width, 3 or 4)
        Gray image of 8 bits, or what `as_gray` makes one of.
    step : int
        Pixels between grid points.
    patch : int
        Side of the descriptor's window in pixels; windows lie wholly inside the image.

    Returns
    -------
    ndarray of float32 (points, 128), row by row of the grid

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import dense_sift
    >>> rng = np.random.default_rng(0)
    >>> dense_sift(rng.integers(256, size=(64, 64), dtype=np.uint8)).shape
    (169, 128)
    """
    step, patch = check_count("step", step, low=1), check_count("patch", patch, low=4)
    if getattr(image, "dtype", None) != np.uint8 or image.ndim != 2:
        image = as_gray(image)
    height, width = image.shape
    if min(height, width) < patch:
        raise FeatureError(f"the image is {width} x {height}, smaller than one patch of {patch} x {patch}")
    return _sift().compute(image, _grid(height, width, step, patch))[1]


@cache
def _sift() -> Any:
    return require("cv2").SIFT_create()


@cache
def _grid(height: int, width: int, step: int, patch: int) -> tuple[Any, ...]:
    """Keypoints whose bins are `patch / 4` pixels wide: OpenCV makes a bin 3/2 of the keypoint's size."""
    cv2 = require("cv2")
    size = patch / 6
    ys, xs = (range(patch // 2, side - patch // 2 + 1, step) for side in (height, width))
    return tuple(cv2.KeyPoint(float(x), float(y), size, 0.0) for y in ys for x in xs)


def material_covariance(
    image: str | Path | np.ndarray,
    *,
    size: int = 400,
    step: int = 4,
    patch: int = 16,
    ridge: float = RIDGE,
    shrinkage: Shrinkage | None = None,
    quarters: bool = False,
) -> np.ndarray:
    """Region covariance of dense SIFT, 128 x 128: the image is made gray and `size` x `size` first.

    Parameters
    ----------
    image : str, Path, or ndarray (height, width) or (height, width, 3 or 4)
        Image file; or gray, BGR or BGRA image of 8 or 16 bits, or of floating point (0 to 1, or else stretched).
    size : int
        The image is resized to this side, whatever its shape (the paper: 400).
    step, patch
        As in `dense_sift`; the paper: every 4 pixels, 16 x 16.
    ridge, shrinkage
        As in `set_covariance`.
    quarters : bool
        A matrix of the whole image and of each of its quarters.

    Returns
    -------
    ndarray (128, 128), with quarters (5, 128, 128)

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import material_covariance
    >>> rng = np.random.default_rng(0)
    >>> material_covariance(rng.random((64, 64)), size=64).shape
    (128, 128)
    """
    check_count("size", size, low=1, high=1 << 15)
    gray, name = _gray(image)
    gray = _resized(gray, size)
    try:
        parts = quadrants(gray) if quarters else [gray]
        S = [
            set_covariance(dense_sift(part, step=step, patch=patch), ridge=ridge, shrinkage=shrinkage) for part in parts
        ]
        return np.stack(S) if quarters else S[0]
    except FeatureError as error:
        raise FeatureError(f"{name}{error}") from None


def region_covariance(image: str | Path | np.ndarray, *, size: int | None = None, ridge: float = RIDGE) -> np.ndarray:
    """Classical region covariance of Tuzel et al., 7 x 7: position, intensity, first and second derivatives per pixel.

    Parameters
    ----------
    image : str, Path, or ndarray (height, width) or (height, width, 3 or 4)
        Image file; gray image; or BGR or BGRA image. Whole numbers are read as 8 or 16 bits, as in `as_gray`; other numbers
        of a gray image are taken as they are. Position counts from 0 to 1 across the image, intensity from 0 for black
        to 1 for white. Derivatives are per pixel, so the matrix depends on the resolution: bring images to one size.
    size : int, optional
        The image is resized to this side, whatever its shape.
    ridge : float
        As in `set_covariance`.

    Returns
    -------
    ndarray (7, 7), in the order of `REGION_FEATURES`

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import region_covariance
    >>> rng = np.random.default_rng(0)
    >>> region_covariance(rng.random((32, 32))).shape
    (7, 7)
    """
    gray, name = _intensity(image)
    if size is not None:
        check_count("size", size, low=3, high=1 << 15)
        gray = _resized(gray if gray.dtype == np.uint8 else gray.astype(np.float64), size)
    if min(gray.shape) < 3:
        raise FeatureError(f"{name}the image is {gray.shape[1]} x {gray.shape[0]}: derivatives need 3 x 3")
    scale = 255.0 if gray.dtype == np.uint8 else 1.0
    intensity = gray.astype(np.float64) / scale
    y, x = np.meshgrid(*(np.linspace(0, 1, side) for side in gray.shape), indexing="ij")
    iy, ix = np.gradient(intensity)
    iyy, ixx = np.gradient(iy, axis=0), np.gradient(ix, axis=1)
    features = [x, y, intensity, *map(np.abs, (ix, iy, ixx, iyy))]
    return set_covariance(np.stack([feature.ravel() for feature in features], axis=1), ridge=ridge)


def _resized(gray: np.ndarray, size: int) -> np.ndarray:
    """The image with `size` x `size` pixels."""
    cv2 = require("cv2")
    how = cv2.INTER_AREA if min(gray.shape) > size else cv2.INTER_LINEAR
    return cv2.resize(gray, (size, size), interpolation=how)


def _gray(image: str | Path | np.ndarray) -> tuple[np.ndarray, str]:
    """The gray image, and its file's name for messages."""
    return (read_gray(image), f"{image}: ") if isinstance(image, str | Path) else (as_gray(image), "")


def _intensity(image: str | Path | np.ndarray) -> tuple[np.ndarray, str]:
    """`_gray`, but fractions in a gray image stay what they are; whole numbers are levels of gray, whatever their type."""
    if isinstance(image, str | Path):
        return _gray(image)
    pixels = as_array(image)
    if pixels.ndim != 2:
        return _gray(pixels)
    if pixels.dtype.kind not in "biuf" or not np.isfinite(pixels).all():
        raise FeatureError("the image holds NaN, infinity, or no numbers: fill it in or leave it out")
    low, high = (float(pixels.min()), float(pixels.max())) if pixels.size else (0.0, 0.0)
    levels = pixels.dtype.kind in "iu" or (high > 1 and not (pixels % 1).any())
    return (as_gray(pixels) if levels and pixels.size and low >= 0 and high <= 65535 else pixels), ""
