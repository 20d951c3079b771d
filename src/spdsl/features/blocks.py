"""One sample as several: parts of a clip, bands of a signal, quarters of an image, with a matrix for each.

Stacked, the matrices of a sample are (b, n, n), and those of many samples (N, b, n, n) are what the learners take.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from spdsl.data.parameters import check_count, check_number
from spdsl.features.covariance import as_array
from spdsl.features.errors import FeatureError


def temporal_pyramid(frames: np.ndarray, levels: int = 2) -> list[np.ndarray]:
    """The whole clip, its three halves that overlap by half, its seven quarters, and so on.

    Parameters
    ----------
    frames : ndarray (time, ...)
        Frames, joint positions, or anything else whose first axis is time.
    levels : int
        1 is the whole clip, 2 adds the halves, 3 the quarters: 1, 4, 11, ... parts.

    Returns
    -------
    list of ndarray (part of time, ...), views of `frames`

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import temporal_pyramid
    >>> rng = np.random.default_rng(0)
    >>> [len(part) for part in temporal_pyramid(rng.random((40, 5, 3)), 2)]
    [40, 20, 20, 20]
    """
    check_count("levels", levels, low=1, high=16)
    frames = as_array(frames)
    if frames.ndim < 1 or len(frames) < 2**levels:
        count = len(frames) if frames.ndim else 0
        raise FeatureError(
            f"the clip has {count} frames: {levels} levels need at least {2**levels}, two in every part; use fewer levels"
        )
    parts = []
    for level in range(levels):
        length = len(frames) / 2**level
        starts = [k * length / 2 for k in range(2 ** (level + 1) - 1)]
        parts += [frames[round(start) : round(start + length)] for start in starts]
    return parts


def filter_bank(
    signal: np.ndarray, bands: Sequence[tuple[float, float]], rate: float, *, order: int = 4
) -> list[np.ndarray]:
    """The signal in frequency bands, by Butterworth filters run forward and backward, which shift nothing in time.

    Parameters
    ----------
    signal : ndarray (..., channels, time)
        One signal, or a stack of windows; filter a long signal before it is cut.
    bands : sequence of (low, high)
        In units of `rate`, e.g. `[(8, 12), (12, 30)]` in Hz; above 0, below half of `rate`.
    rate : float
        Samples per second.
    order : int
        Of the filter; running it twice doubles it.

    Returns
    -------
    list of ndarray (..., channels, time), one a band

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import filter_bank
    >>> signal = np.random.default_rng(0).standard_normal((4, 500))
    >>> [part.shape for part in filter_bank(signal, [(8, 12), (12, 30)], rate=250)]
    [(4, 500), (4, 500)]
    """
    from scipy.signal import butter, sosfiltfilt

    check_number("rate", rate, low=0.0, above=True)
    check_count("order", order, low=1, high=32)
    signal = as_array(signal)
    if signal.ndim < 2 or signal.dtype.kind not in "biuf" or not signal.size:
        raise FeatureError(
            f"the signal has shape {signal.shape}, dtype {signal.dtype}: expected numbers (channels, time)"
        )
    if not np.isfinite(signal).all():
        channel = np.argwhere(~np.isfinite(signal).all(axis=-1))[0][-1]
        raise FeatureError(
            f"channel {channel} holds NaN or infinity, which a filter spreads over the whole channel; fill it in first"
        )
    filters = [butter(order, band, "bandpass", fs=rate, output="sos") for band in _checked_bands(bands, rate)]
    if not filters:
        raise ValueError("bands is empty; pass at least one (low, high)")
    needed = 3 * (2 * len(filters[0]) + 1) + 1  # what sosfiltfilt mirrors at either end, at most
    if signal.shape[-1] < needed:
        raise FeatureError(
            f"the signal has {signal.shape[-1]} samples: a filter of order {order} needs at least {needed}; use a lower order, "
            f"or filter before cutting windows"
        )
    return [sosfiltfilt(sos, signal.astype(np.float64, copy=False), axis=-1) for sos in filters]


def _checked_bands(bands: Sequence[tuple[float, float]], rate: float) -> list[tuple[float, float]]:
    checked = []
    if not isinstance(bands, Iterable):
        raise ValueError(f"bands must be a sequence of pairs (low, high), got {bands!r}")
    for band in bands:
        try:
            low, high = (float(edge) for edge in band)
        except (TypeError, ValueError):
            raise ValueError(f"bands holds {band!r}; each band is a pair (low, high)") from None
        if not 0 < low < high < rate / 2:
            raise ValueError(
                f"the band ({low:g}, {high:g}) does not lie between 0 and half of rate={rate:g}, low edge first"
            )
        checked.append((low, high))
    return checked


def quadrants(image: np.ndarray) -> list[np.ndarray]:
    """The image (height, width, ...) and its four quarters, row by row, as views: five parts.

    Parameters
    ----------
    image : ndarray (height, width, ...)

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import quadrants
    >>> rng = np.random.default_rng(0)
    >>> [part.shape for part in quadrants(rng.random((64, 64)))]
    [(64, 64), (32, 32), (32, 32), (32, 32), (32, 32)]
    """
    image = as_array(image)
    if image.ndim < 2 or min(image.shape[:2]) < 2:
        raise FeatureError(f"the image has shape {image.shape}: quadrants need at least 2 x 2 pixels")
    y, x = image.shape[0] // 2, image.shape[1] // 2
    return [image, image[:y, :x], image[:y, x:], image[y:, :x], image[y:, x:]]
