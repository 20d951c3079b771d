"""The first W: named by `init`, or given as an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdsl import backend
from spdsl.backend import Array, namespace, symmetric
from spdsl.data import Data
from spdsl.data.parameters import check_seed

SIZES = (1e-50, 1e50)  # of the largest entry of a start: powers of W neither overflow nor underflow
MIN_RANK = 1e-6  # smallest singular value of a start relative to the largest: its square must exceed rounding errors
INITS = ("recentered", "identity", "pca", "random")


def start_matrix(init: Any, data: Data, m: int, random_state: Any) -> Array:
    """The first W, (n, m) or (b, n, m)."""
    X = data.model
    shape, xp = (*X.shape[1:-1], m), namespace(X)
    if not isinstance(init, str):
        W = as_start(init, X, "init")
        if W.shape[-1] != m:
            raise ValueError(f"init must have shape {shape}, got {tuple(W.shape)}")
        return W
    if init == "identity":
        return xp.zeros(shape, dtype=xp.float64, device=X.device) + xp.eye(
            *shape[-2:], dtype=xp.float64, device=X.device
        )
    if init == "pca":
        return xp.flip(xp.linalg.eigh(symmetric(data.unit_mean()))[1], axis=-1)[..., :m] + 0.0
    if init == "random":
        return backend.like(np.linalg.qr(check_seed(random_state).standard_normal(shape))[0], X)
    raise ValueError(f"init must be 'recentered', 'pca', 'identity', 'random' or an array {_shape(X)}, got {init!r}")


def as_start(W: Any, X: Array, name: str) -> Array:
    """A matrix that users pass, as a new full-rank float64 (n, m) on the device of X; errors call it `name`."""
    n, xp = X.shape[-1], namespace(X)
    try:
        host = backend.to_numpy(W)
        if W is None or host.dtype.kind == "c":
            raise TypeError
        W = backend.like(np.array(host, dtype=np.float64), X)
    except (TypeError, ValueError) as error:
        words = "'recentered', 'pca', 'identity', 'random' or " if name == "init" else ""
        raise ValueError(f"{name} must be {words}an array {_shape(X)} of real numbers, got {W!r}") from error
    if tuple(W.shape[:-1]) != tuple(X.shape[1:-1]) or not 1 <= W.shape[-1] <= n:
        raise ValueError(f"{name} must have shape {_shape(X)} with 1 <= m <= {n}, got {tuple(W.shape)}")
    if not bool(xp.all(xp.isfinite(W))):
        raise ValueError(f"{name} contains NaN or infinity; it must be finite and of full column rank")
    size = float(xp.max(xp.abs(W)))
    if not SIZES[0] <= size <= SIZES[1] and size > 0:
        span = f"{SIZES[0]:g} to {SIZES[1]:g}"
        raise ValueError(f"{name} has a largest entry of {size:.1e}, out of the range {span}; divide it by that")
    w = xp.linalg.svdvals(W / (size or 1.0))  # of unit size, as MIN_RANK is relative
    if not bool(xp.all(w[..., -1] > MIN_RANK * w[..., 0])):
        raise ValueError(f"{name} has linearly dependent columns; it must be of full column rank")
    return W


def _shape(X: Array) -> str:
    """The shape of W, for messages."""
    return f"({', '.join(map(str, X.shape[1:-1]))}, m)"
