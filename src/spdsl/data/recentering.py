"""The mean of samples as a map that brings it to the identity, from sums over blocks of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from spdsl import backend
from spdsl.backend import Array, double, namespace, symmetric
from spdsl.data.base import Recentering
from spdsl.geometry.factorizations import left_singular
from spdsl.geometry.lem import LogEuclidean

LARGE = (
    100  # n up to which the mean is the Riemannian one; it takes several passes, each with eigenvectors of all matrices
)
STEPS = 12  # toward it, at most: matrices of condition 1e10 take six
CLOSE = 0.02  # length of the mean logarithm beside the root mean square, at which it is near enough

#: sums over samples of `T = log(G X_i G)` (n, n), of `T T` (n, n), and of the curvature of the distance to X_i
Moments = tuple[Array, Array, float]


def recentering_of(
    shape: tuple[int, ...], trace: float, log_sum: Callable[[float], Array], moments: Callable[[Array], Moments]
) -> Recentering:
    """The recentering of N matrices n x n from three kinds of sums over them.

    The logarithms are those of `unit X`, with a power of four that brings the eigenvalues near one: X and 4 X then have
    the same recentered matrices to the last bit.

    The search for the Riemannian mean begins at the log-Euclidean one. Its step is two over one plus the mean curvature,
    within which the sum of squared distances falls. It stops early: a mean that is near does as well as the mean.
    """
    N, n = shape[0], shape[-1]
    unit = 4.0 ** -math.floor(math.log(trace / (N * n), 4) + 0.5)
    G = _inverse_root_of_exp(symmetric(log_sum(unit)) / N) * unit**0.5
    total, squares, curved = moments(G)
    for _ in range(STEPS if n <= LARGE else 0):
        norm = namespace(G).linalg.matrix_norm
        if float(norm(total)) <= CLOSE * math.sqrt(N * float(namespace(G).linalg.trace(squares))):
            break
        G = _toward(G, symmetric(total) * (2 / (N + curved)))
        total, squares, curved = moments(G)
    _, directions = backend.eigh(symmetric(squares)[None])
    return Recentering(G, namespace(G).flip(directions[0], axis=1) + 0.0)


def trace_sum(X: Array) -> float:
    """Sum of the traces of matrices (N, n, n)."""
    return float(namespace(X).sum(double(namespace(X).linalg.trace(X))))


def log_sum(X: Array, unit: float) -> Array:
    """Sum (n, n) of the logarithms of `unit X_i`."""
    N, n, _ = X.shape
    parts = backend.map_blocks(lambda s: _logarithms(unit * double(X[s]))[0].sum(axis=0), N, 8 * n * n, on=X)
    return sum(parts)


def log_moments(X: Array, G: Array) -> Moments:
    """Sums over the logarithms of `G X_i G`."""
    N, n, _ = X.shape

    def part(s: slice) -> Moments:
        T, w = _logarithms(symmetric(G @ double(X[s]) @ G))
        xp = namespace(w)
        half = np.log(backend.to_numpy(xp.max(w, axis=1) / xp.min(w, axis=1))) / 2
        curved = half / np.tanh(np.maximum(half, 1e-8)) + (half < 1e-8)  # 1 where the eigenvalues are equal
        return T.sum(axis=0), (T @ T).sum(axis=0), float(curved.sum())

    return add_moments(backend.map_blocks(part, N, 8 * n * n, on=X))


def add_moments(parts: Iterable[Moments]) -> Moments:
    """The sums over all of the parts, in their order."""
    total, squares, curved = zip(*parts, strict=True)
    return sum(total), sum(squares), sum(curved)


def _toward(G: Array, T: Array) -> Array:
    """The map to the mean `G^-1 exp(T) G^-1`."""
    w, V = backend.eigh(G[None])
    t, U = backend.eigh(T[None])
    half = (V[0] / w[0]) @ V[0].mT @ (U[0] * namespace(G).exp(t[0] / 2))  # M = half half'
    V, s = left_singular(half[None])  # twice the digits of eigenvectors of M
    return symmetric((V[0] / s[0]) @ V[0].mT)


def _inverse_root_of_exp(T: Array) -> Array:
    """`exp(T)^-1/2`."""
    w, V = backend.eigh(T[None])
    return symmetric((V[0] * namespace(T).exp(-w[0] / 2)) @ V[0].mT)


def _logarithms(X: Array) -> tuple[Array, Array]:
    """Logarithms (N, n, n), and eigenvalues (N, n)."""
    T, w, _ = LogEuclidean().embed(X)
    return T, w
