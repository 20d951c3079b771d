"""Materials in images: covariance of dense SIFT descriptors, and the classical region covariance."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.features.covariance import RIDGE, Shrinkage, as_array, set_covariance
from spdsl.features.errors import FeatureError, require
from spdsl.features.images import read_grey

#: features of the classical region covariance, in order
REGION_FEATURES = ("x", "y", "intensity", "|Ix|", "|Iy|", "|Ixx|", "|Iyy|")


def dense_sift(image: np.ndarray, *, step: int = 4, patch: int = 16) -> np.ndarray:
    """SIFT descriptors on a regular grid: 4 x 4 bins of 8 angles over `patch` x `patch` pixels, upright.

    Parameters
    ----------
    image : ndarray of uint8 (height, width)
        Grey image.
    step : int
        Pixels between grid points.
    patch : int
        Side of the descriptor's window in pixels; windows lie wholly inside the image.

    Returns
    -------
    ndarray of float32 (points, 128), row by row of the grid
    """
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
) -> np.ndarray:
    """Region covariance of dense SIFT, 128 x 128: the image is made grey and `size` x `size` first.

    Parameters
    ----------
    image : str, Path, or ndarray of uint8 (height, width)
        Image file or grey image.
    size : int
        The image is resized to this side, whatever its shape (the paper: 400).
    step, patch
        As in `dense_sift`; the paper: every 4 pixels, 16 x 16.
    ridge, shrinkage
        As in `set_covariance`.

    Returns
    -------
    ndarray (128, 128)
    """
    cv2 = require("cv2")
    grey, name = _grey(image)
    how = cv2.INTER_AREA if min(grey.shape) > size else cv2.INTER_LINEAR
    grey = cv2.resize(grey, (size, size), interpolation=how)
    try:
        return set_covariance(dense_sift(grey, step=step, patch=patch), ridge=ridge, shrinkage=shrinkage)
    except FeatureError as error:
        raise FeatureError(f"{name}{error}") from None


def region_covariance(image: str | Path | np.ndarray, *, ridge: float = RIDGE) -> np.ndarray:
    """Classical region covariance of Tuzel et al., 7 x 7: position, intensity, first and second derivatives per pixel.

    Parameters
    ----------
    image : str, Path, or ndarray (height, width)
        Image file or grey image. Position counts from 0 to 1 across the image, intensity from 0 to 1 for uint8.
        Derivatives are per pixel, so the matrix depends on the resolution: bring images to one size first.
    ridge : float
        As in `set_covariance`.

    Returns
    -------
    ndarray (7, 7), in the order of `REGION_FEATURES`
    """
    grey, name = _grey(image)
    if min(grey.shape) < 3:
        raise FeatureError(f"{name}the image is {grey.shape[1]} x {grey.shape[0]}: derivatives need 3 x 3")
    scale = 255.0 if grey.dtype == np.uint8 else 1.0
    intensity = grey.astype(np.float64) / scale
    y, x = np.meshgrid(*(np.linspace(0, 1, side) for side in grey.shape), indexing="ij")
    iy, ix = np.gradient(intensity)
    iyy, ixx = np.gradient(iy, axis=0), np.gradient(ix, axis=1)
    features = [x, y, intensity, *map(np.abs, (ix, iy, ixx, iyy))]
    return set_covariance(np.stack([feature.ravel() for feature in features], axis=1), ridge=ridge)


def _grey(image: str | Path | np.ndarray) -> tuple[np.ndarray, str]:
    """The grey image, and its file's name for messages."""
    if isinstance(image, (str, Path)):
        return read_grey(image), f"{image}: "
    image = as_array(image)
    if image.ndim != 2 or image.dtype.kind not in "biuf":
        raise FeatureError(f"the image has shape {image.shape}, dtype {image.dtype}: expected grey (height, width)")
    if not np.isfinite(image).all():
        raise FeatureError("the image holds NaN or infinity: fill it in or leave it out")
    return image, ""
