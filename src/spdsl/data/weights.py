"""Weights of samples: checked, and samples without weight left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdsl import backend
from spdsl.backend import namespace
from spdsl.data.labels import as_names, check_missing
from spdsl.data.validation import as_samples, check_spd

MOST = 1e100  # a weight whose square, summed over samples, is finite
SPAN = 1e12  # largest weight over the smallest: sums keep digits of both


def check_weights(sample_weight: Any, n_samples: int) -> np.ndarray | None:
    """Weights (n_samples,) as float64, or None where all of them are one, so that nothing is weighed."""
    if sample_weight is None:
        return None
    w = backend.real_numbers(sample_weight, "sample_weight")
    if w.shape != (n_samples,):
        raise ValueError(f"sample_weight has shape {w.shape} for {n_samples} samples; pass one weight per sample")
    bad = np.flatnonzero(~(np.isfinite(w) & (w >= 0)))
    if len(bad):
        raise ValueError(f"sample_weight[{bad[0]}] is {w[bad[0]]}; weights must be finite numbers >= 0")
    if not w.any():
        raise ValueError("sample_weight is zero for every sample; give some of them a positive weight")
    positive = w[w > 0]
    if positive.max() > SPAN * positive.min():
        raise ValueError(
            f"sample_weight ranges from {positive.min():g} to {positive.max():g}; weights may differ by a factor of "
            f"{SPAN:g} at most, or be zero"
        )
    if positive.max() > MOST:
        raise ValueError(
            f"sample_weight has a weight of {positive.max():g}, whose powers overflow; divide the weights by their mean"
        )
    return None if (w == 1).all() else w


def with_weight(X: Any, y: Any, sample_weight: Any, precision: str = "double") -> tuple[Any, Any, np.ndarray | None]:
    """X, y and weights as `in_use` gives them: without the samples of weight zero, which are as if they were not there.

    What remains is checked here if any are left out, so that errors count the samples as the caller does.
    """
    if sample_weight is None:
        return X, y, None
    labels = np.asarray(sample_weight) if y is None else as_names(y, "y")  # without y, the next check says so
    w = check_weights(sample_weight, labels.shape[0] if labels.ndim else 1)
    if w is None or w.all():
        return X, y, None if w is None else in_use(w)[1]
    held = isinstance(X, list | tuple) and not any(isinstance(item, str) for item in X)
    if not held and (not backend.is_array(X) or isinstance(X, np.memmap)):
        raise ValueError(
            "sample_weight holds zeros, and X is not an array in memory; leave these samples out of X, y and sample_weight"
        )
    usable = backend.copy(as_samples(X))
    if y is None or usable.shape[0] != len(w):
        return X, y, w  # the check of y names what is wrong
    kept, positive = in_use(w)
    check_missing(labels, kept)
    xp = namespace(usable)
    usable[np.flatnonzero(w == 0)] = xp.eye(usable.shape[-1], dtype=usable.dtype, device=usable.device)
    if backend.is_array(X) and X.dtype != usable.dtype and xp.isdtype(X.dtype, "real floating"):
        usable = xp.astype(usable, X.dtype)  # again: how precise the numbers are decides what counts as rounding
    check_spd(usable, precision=precision, blocks=True)
    return usable[kept], labels[kept], positive


def in_use(w: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Which samples have a weight, and their weights, None where all of them are one.

    Weights of two and more count a sample as so many. Those of a mean below one, as if they add up to one, cannot mean that
    there is less than a sample for each of the samples: they are scaled to a mean of one.
    """
    kept = np.flatnonzero(w)
    w = w[kept]
    if (w == w[0]).all() and w[0] <= 1:
        return kept, None
    return kept, w / min(1.0, float(w.mean()))
