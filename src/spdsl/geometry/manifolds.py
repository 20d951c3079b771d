"""Manifolds of W: fixed-rank PSD matrices WW', the Grassmann manifold, or all full-rank matrices.

A manifold defines its tangent spaces and the curve of a line search. All curves here are the straight line `W + tH`; on
the Grassmann manifold it is followed by the m x m factor `(I + t^2 H'H)^-1/2`, which restores orthonormal columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from spdsl.backend import Array, namespace

# t -> the m x m factor after W + tH, and its derivative
Normalizer = Callable[[float], tuple[Array, Array]]


class Manifold(Protocol):
    """Points are n x m matrices of full column rank, or (b, n, m) if samples are b matrices.

    Tangent vectors have the same shape; the inner product is tr(A'B).

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.geometry import MANIFOLDS
    >>> W = MANIFOLDS["grassmann"].point(np.random.default_rng(0).standard_normal((5, 2)))
    >>> np.allclose(W.T @ W, np.eye(2))
    True
    """

    name: str
    scalable: bool  # whether a multiple of a point is a point

    def point(self, W: Array) -> Array:
        """Map a full-rank matrix to the manifold."""

    def project(self, W: Array, Z: Array) -> Array:
        """Orthogonal projection of `Z` to the tangent (horizontal) space at `W`."""

    def gradient(self, W: Array, G: Array) -> Array:
        """Riemannian gradient at W from the Euclidean one."""

    def transport(self, W: Array, Z: Array) -> Array:
        """Transport a tangent vector of the previous point to the point W reached by a step along the curve.

        Accurate in inner products with the gradient and the last direction at W, which are all that the solver needs.
        """

    def normalizer(self, H: Array) -> Normalizer | None:
        """The factor that keeps `W + tH` on the manifold, or None if the line stays on it."""


class FullRank:
    """All n x m matrices of full column rank, for metrics that are not invariant under rotations of the columns."""

    name = "full-rank"
    scalable = True

    def point(self, W: Array) -> Array:
        return W

    def project(self, W: Array, Z: Array) -> Array:
        return Z

    def gradient(self, W: Array, G: Array) -> Array:
        return G

    def transport(self, W: Array, Z: Array) -> Array:
        return Z

    def normalizer(self, H: Array) -> Normalizer | None:
        return None


class FixedRankPSD(FullRank):
    """Rank-m PSD matrices `Q = WW'` as the quotient of full-rank W by rotations, with the flat metric.

    Vertical vectors are `W Omega` with Omega skew, m x m (the paper prints n x m); horizontal ones have `W'H` symmetric.
    The geodesic from a horizontal H is the straight line `W + tH`. The gradient of a rotation-invariant function is
    horizontal, and so is H along its own geodesic: `(W + tH)'H` is symmetric if `W'H` is. The transport of other
    vectors would need a projection, but that does not change inner products with horizontal vectors.
    """

    name = "psd"

    def project(self, W: Array, Z: Array) -> Array:
        # Omega solves  (W'W) Omega + Omega (W'W) = W'Z - Z'W ; in the eigenbasis of W'W this is a division
        xp = namespace(W)
        w, V = xp.linalg.eigh(W.mT @ W)
        skew = W.mT @ Z
        skew = V.mT @ (skew - skew.mT) @ V
        Omega = V @ (skew / (w[..., :, None] + w[..., None, :])) @ V.mT
        return Z - W @ Omega


class Grassmann:
    """Subspaces of dimension m, each represented by an orthonormal basis W."""

    name = "grassmann"
    scalable = False

    def point(self, W: Array) -> Array:
        return namespace(W).linalg.qr(W)[0]

    def project(self, W: Array, Z: Array) -> Array:
        return Z - W @ (W.mT @ Z)

    def gradient(self, W: Array, G: Array) -> Array:
        return self.project(W, G)

    def transport(self, W: Array, Z: Array) -> Array:
        return self.project(W, Z)

    def normalizer(self, H: Array) -> Normalizer | None:
        xp = namespace(H)
        w, V = xp.linalg.eigh(H.mT @ H)
        w = xp.maximum(w, xp.zeros_like(w))

        def factor(t: float) -> tuple[Array, Array]:
            base = (1 + t * t * w)[..., None, :]
            return (V * base**-0.5) @ V.mT, (V * (-t * w[..., None, :] * base**-1.5)) @ V.mT

        return factor


MANIFOLDS: dict[str, Manifold] = {"psd": FixedRankPSD(), "grassmann": Grassmann(), "full-rank": FullRank()}
