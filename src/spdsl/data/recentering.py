"""The log-Euclidean mean of samples as a map that brings it to the identity, from sums over blocks of them."""

from __future__ import annotations

import math
from collections.abc import Callable

from spdsl import backend
from spdsl.backend import Array, double, namespace, symmetric
from spdsl.data.base import Recentering
from spdsl.geometry import get_metric


def recentering_of(
    shape: tuple[int, ...], trace: float, log_sum: Callable[[float], Array], spread_sum: Callable[[Array], Array]
) -> Recentering:
    """The recentering of N matrices n x n from three sums over them.

    The logarithms are those of `unit X`, with a power of four that brings the eigenvalues near one: X and 4 X then have
    the same recentered matrices to the last bit.
    """
    N, n = shape[0], shape[-1]
    unit = 4.0 ** -math.floor(math.log(trace / (N * n), 4) + 0.5)
    w, V = backend.eigh(symmetric(log_sum(unit))[None] / N)
    G = symmetric((V[0] * namespace(w).exp(-w[0] / 2)) @ V[0].mT) * unit**0.5
    _, directions = backend.eigh(symmetric(spread_sum(G))[None])
    return Recentering(G, namespace(G).flip(directions[0], axis=1) + 0.0)


def trace_sum(X: Array) -> float:
    """Sum of the traces of matrices (N, n, n)."""
    return float(namespace(X).sum(double(namespace(X).linalg.trace(X))))


def log_sum(X: Array, unit: float) -> Array:
    """Sum (n, n) of the logarithms of `unit X_i`."""
    return _sum_of(X, lambda block: _logarithms(unit * block))


def spread_sum(X: Array, G: Array) -> Array:
    """Sum (n, n) of the squares of `log(G X_i G)`."""

    def squares(block: Array) -> Array:
        T = _logarithms(symmetric(G @ block @ G))
        return T @ T

    return _sum_of(X, squares)


def _sum_of(X: Array, function: Callable[[Array], Array]) -> Array:
    N, n, _ = X.shape
    return sum(backend.map_blocks(lambda s: function(double(X[s])).sum(axis=0), N, 8 * n * n, on=X))


def _logarithms(X: Array) -> Array:
    return get_metric("lem").factor(X)[0].reshape(X.shape)
