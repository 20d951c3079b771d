"""Where the search for W begins: what `init` names or brings."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdsl import arrays
from spdsl.arrays import Array, namespace, symmetric
from spdsl.samples import Samples
from spdsl.validation import check_seed

MIN_RANK = 1e-6  # smallest singular value of a start relative to the largest: its square must stay above rounding


def start_matrix(init: Any, samples: Samples, m: int, random_state: Any, *, bound: bool) -> Array:
    """The first W (n, m). An array brings its own number of columns, unless m is `bound`."""
    X = samples.model
    n, xp = X.shape[-1], namespace(X)
    if isinstance(init, str):
        if init == "identity":
            return xp.eye(n, m, dtype=xp.float64, device=X.device)
        if init == "pca":
            return xp.flip(xp.linalg.eigh(symmetric(samples.unit_mean()))[1], axis=1)[:, :m] + 0.0
        if init == "random":
            draw = check_seed(random_state).standard_normal((n, m))
            return arrays.like(np.linalg.qr(draw)[0], X)
        raise ValueError(f"init must be 'identity', 'pca', 'random' or an array (n, m), got {init!r}")
    W = as_start(init, X, "init")
    if bound and W.shape[1] != m:
        raise ValueError(f"init must have shape ({n}, {m}), got {tuple(W.shape)}")
    return W


def as_start(W: Any, X: Array, name: str) -> Array:
    """A matrix that users bring, as a new full-rank float64 (n, m) beside X, or an error that calls it by `name`."""
    n, xp = X.shape[-1], namespace(X)
    try:
        host = arrays.to_numpy(W)
        if W is None or host.dtype.kind == "c":
            raise TypeError
        W = arrays.like(np.array(host, dtype=np.float64), X)
    except (TypeError, ValueError) as error:
        words = "'identity', 'pca', 'random' or " if name == "init" else ""
        raise ValueError(f"{name} must be {words}an array ({n}, m) of real numbers, got {W!r}") from error
    if W.ndim != 2 or W.shape[0] != n or not 1 <= W.shape[1] < n:
        raise ValueError(f"{name} must have shape ({n}, m) with 1 <= m < {n}, got {tuple(W.shape)}")
    if not bool(xp.all(xp.isfinite(W))):
        raise ValueError(f"{name} contains NaN or infinity: it must be finite and of full column rank")
    w = xp.linalg.svdvals(W)
    if not float(w[-1]) > MIN_RANK * float(w[0]):
        raise ValueError(f"{name} has dependent columns: it must be finite and of full column rank")
    return W
