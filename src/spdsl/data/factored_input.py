"""Checks of the factors, ridges and means that users pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spdsl import backend


def as_factor(factor: Any, k: int) -> np.ndarray:
    """One factor as a finite float64 matrix."""
    factor = backend.to_numpy(factor)
    if factor.ndim != 2 or 0 in factor.shape or factor.dtype.kind not in "fiu":
        raise ValueError(
            f"factors[{k}] must be a matrix (d, r) of real numbers, got shape {factor.shape}, dtype {factor.dtype}"
        )
    if not np.isfinite(factor).all():
        raise ValueError(
            f"factors[{k}] contains NaN or infinity; remove this sample, or correct the data it was computed from"
        )
    return factor


def as_entries(name: str, parts: Any) -> list[Any]:
    """An argument with one entry per sample."""
    try:
        return list(parts)
    except TypeError as error:
        raise ValueError(f"{name} must hold one entry for each sample, got {type(parts).__name__}") from error


def as_ridge(ridge: Any, N: int) -> np.ndarray:
    """delta (N,), finite and not negative."""
    try:
        given = np.asarray(list(ridge) if isinstance(ridge, Iterator) else ridge, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"ridge must be a number or ({N},), one for each factor; got {ridge!r}") from error
    delta = np.array(np.broadcast_to(given, N)) if given.ndim == 0 else given.copy()
    if delta.shape != (N,):
        raise ValueError(f"ridge must be a number or ({N},), one for each factor; got shape {delta.shape}")
    bad = np.flatnonzero(~(np.isfinite(delta) & (delta >= 0)))
    if len(bad):
        raise ValueError(f"ridge[{bad[0]}] is {delta[bad[0]]}: it must be finite and nonnegative")
    return delta


def as_mean(means: list[Any], N: int, d: int) -> np.ndarray:
    """Means (N, d), finite."""
    parts = [backend.to_numpy(one) for one in means]
    for k, part in enumerate(parts):
        if part.shape != (d,) or part.dtype.kind not in "fiu":
            raise ValueError(
                f"mean must have shape ({N}, {d}), one row of real numbers for each factor; mean[{k}] has shape "
                f"{part.shape}, dtype {part.dtype}"
            )
    mean = np.array(parts, dtype=np.float64)
    if len(mean) != N:
        raise ValueError(f"mean must have shape ({N}, {d}), one row for each factor; got {mean.shape}")
    bad = np.flatnonzero(~np.isfinite(mean).all(axis=1))
    if len(bad):
        raise ValueError(
            f"mean[{bad[0]}] contains NaN or infinity; remove this sample, or correct the data it was computed from"
        )
    return mean


def join_rows(parts: Sequence[np.ndarray], mean: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """All columns as rows, sample after sample, and where each sample starts; with a mean, (m, 1) is its last row."""
    d, extra = len(parts[0]), int(mean is not None)
    starts = np.cumsum([0, *(part.shape[1] + extra for part in parts)])
    rows = np.zeros((starts[-1], d + extra))
    for k, part in enumerate(parts):
        rows[starts[k] : starts[k] + part.shape[1], :d] = part.T
    if mean is not None:
        rows[starts[1:] - 1, :d] = mean
        rows[starts[1:] - 1, d] = 1
    return rows, starts
