"""The mean of samples as a map that brings it to the identity, from sums over blocks of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from spdsl import backend
from spdsl.backend import Array, double, namespace, symmetric
from spdsl.geometry.factorizations import left_singular
from spdsl.geometry.lem import LogEuclidean

BASE_SIZE = 64  # rows of the recentered matrices that a classifier sees, at least; then a quarter of n
LARGE = 100  # n up to which a classifier is given the Riemannian mean, which takes several passes over the data
STEPS = 12  # toward it, at most: matrices of condition 1e10 take six
CLOSE = 0.02  # length of the mean logarithm beside the root mean square, at which it is near enough

#: sums over samples of `T = log(G X_i G)` (n, n), of `T T` (n, n), and of the curvature of the distance to X_i
Moments = tuple[Array, Array, float]


class Recentering(NamedTuple):
    """The map to the mean of samples, and the directions in which they differ.

    Attributes
    ----------
    map : (n, n) or (b, n, n), symmetric
        `G = M^-1/2` of the log-Euclidean mean M: `G X G` has the mean I.
    directions : (n, n) or (b, n, n)
        Eigenvectors of `sum_i log(G X_i G)^2`, those of the largest eigenvalues first.
    """

    map: Array
    directions: Array


def recentering_of(
    shape: tuple[int, ...], trace: float, log_sum: Callable[[float], Array], moments: Callable[[Array], Moments]
) -> Recentering:
    """The recentering of N matrices n x n from three kinds of sums over them.

    The logarithms are those of `unit X`, with a power of four that brings the eigenvalues near one: X and 4 X then have
    the same recentered matrices to the last bit.
    """
    N, n = shape[0], shape[-1]
    unit = 4.0 ** -math.floor(math.log(trace / (N * n), 4) + 0.5)
    w, V = backend.eigh(symmetric(log_sum(unit))[None] / N)
    G = symmetric((V[0] * namespace(w).exp(-w[0] / 2)) @ V[0].mT) * unit**0.5
    return _found(G, moments(G)[1])


def base_size(n: int) -> int:
    """Size k of the recentered matrices n x n that a classifier sees. Logarithms of all of a large matrix take long."""
    return min(n, max(BASE_SIZE, n // 4))


def base_of(found: Recentering, N: int, moments: Callable[[Array], Moments | None]) -> Array:
    """The map A (n, k) to `A'XA`: recentered at the nearer mean, in the k directions in which the matrices differ most."""
    found, k = nearer_mean(found, N, moments), base_size(found.map.shape[-1])
    return found.map if k == found.map.shape[-1] else found.map @ found.directions[:, :k]


def nearer_mean(found: Recentering, N: int, moments: Callable[[Array], Moments | None]) -> Recentering:
    """The recentering at the Riemannian mean, for matrices that are not LARGE and whose moments can be had.

    The search for it begins at the mean found before. Its step is two over one plus the mean curvature, within which the
    sum of squared distances falls. It stops early: a mean that is near does as well as the mean.
    """
    linalg, steps = namespace(found.map).linalg, STEPS if found.map.shape[-1] <= LARGE else 0
    for _ in range(steps):
        sums = moments(found.map)
        if sums is None:
            break
        total, squares, curved = sums
        found = _found(found.map, squares)
        if float(linalg.matrix_norm(total)) <= CLOSE * math.sqrt(N * float(linalg.trace(squares))):
            break
        found = Recentering(_toward(found.map, symmetric(total) * (2 / (N + curved))), found.directions)
    return found


def _found(G: Array, squares: Array) -> Recentering:
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


def _logarithms(X: Array) -> tuple[Array, Array]:
    """Logarithms (N, n, n), and eigenvalues (N, n)."""
    T, w, _ = LogEuclidean().embed(X)
    return T, w
