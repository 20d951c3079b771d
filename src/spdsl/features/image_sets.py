"""Image sets: one SPD matrix from all images of an object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from spdsl.data.parameters import check_count
from spdsl.features.covariance import RIDGE, Embedding, Shrinkage, set_covariance
from spdsl.features.errors import FeatureError, require
from spdsl.features.images import as_gray, gray_frames

_CHUNK = 256  # images taken together


def image_set_covariance(
    images: str | Path | Iterable[np.ndarray],
    *,
    size: int = 20,
    equalize: bool = True,
    embedding: Embedding = "augmented",
    ridge: float = RIDGE,
    shrinkage: Shrinkage | None = None,
    truncated: str = "error",
) -> np.ndarray:
    """SPD matrix of a set of images: each `size` x `size`, histogram equalized, their covariance with the mean, 401 x 401.

    The paper's recipe for faces without face detection: for sets of cropped images.

    Parameters
    ----------
    images : str, Path, or iterable of ndarray
        A folder of images, a video, or the images themselves, as `material_covariance` takes them.
    size : int
        Images are resized to this side, whatever their shape.
    equalize : bool
        Equalize the histogram of each image, so that brightness and contrast do not matter.
    embedding, ridge, shrinkage
        As in `set_covariance`.
    truncated : {"error", "keep"}
        As in `gray_frames`, for a truncated video.

    Returns
    -------
    ndarray (size**2 + 1, size**2 + 1), without the one for `embedding="covariance"`

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import image_set_covariance
    >>> rng = np.random.default_rng(0)
    >>> image_set_covariance(rng.random((8, 32, 32)), size=6).shape
    (37, 37)
    """
    check_count("size", size, low=2)
    name = str(images) if isinstance(images, str | Path) else ""
    if isinstance(images, str | Path):
        frames = gray_frames(images, truncated=truncated)
    else:
        frames = (as_gray(image) for image in images)
    chunks = _chunks(_prepared(frame, size, equalize) for frame in frames)
    try:
        samples = chunks if shrinkage is None else np.concatenate([np.zeros((0, size, size)), *chunks])
        return set_covariance(samples, embedding=embedding, ridge=ridge, shrinkage=shrinkage)
    except FeatureError as error:
        if not name or str(error).startswith(name):
            raise
        raise FeatureError(f"{name}: {error}") from None


def _prepared(frame: np.ndarray, size: int, equalize: bool) -> np.ndarray:
    cv2 = require("cv2")
    shrinking = cv2.INTER_AREA if min(frame.shape) >= size else cv2.INTER_LINEAR
    small = cv2.resize(frame, (size, size), interpolation=shrinking)
    return cv2.equalizeHist(small) if equalize else small


def _chunks(images: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """Arrays (k, size, size), so that a long set is never in memory as a whole."""
    chunk: list[np.ndarray] = []
    for image in images:
        chunk.append(image)
        if len(chunk) == _CHUNK:
            yield np.stack(chunk)
            chunk = []
    if chunk:
        yield np.stack(chunk)
