"""Where W lives: fixed-rank PSD matrices WW', the Grassmann manifold, or all full-rank matrices.

A manifold knows its tangent spaces and the curve on which a line search runs. All curves here are the straight line
`W + tH`, for Grassmann followed by the m x m factor `(I + t^2 H'H)^-1/2` that makes the columns orthonormal again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from spdsl.arrays import Array, namespace

# t -> the m x m factor behind W + tH, and its derivative
Normaliser = Callable[[float], tuple[Array, Array]]


class Manifold(Protocol):
    """Points are n x m matrices of full column rank; tangent vectors have their shape; the inner product is tr(A'B)."""

    name: str

    def point(self, W: Array) -> Array:
        """Bring a full-rank matrix onto the manifold."""

    def project(self, W: Array, Z: Array) -> Array:
        """Orthogonal projection of `Z` to the tangent (horizontal) space at `W`."""

    def gradient(self, W: Array, G: Array) -> Array:
        """Riemannian gradient at W from the Euclidean one."""

    def transport(self, W: Array, Z: Array) -> Array:
        """Bring a tangent vector of the last point to the point W that a step along the curve reached.

        Good for inner products with the gradient and the last direction at W, which is all that the solver takes.
        """

    def normaliser(self, H: Array) -> Normaliser | None:
        """The factor that keeps `W + tH` on the manifold, or None where the line itself stays on it."""


class FullRank:
    """All n x m matrices of full column rank, for metrics that change even under rotations of the columns."""

    name = "full-rank"

    def point(self, W: Array) -> Array:
        return W

    def project(self, W: Array, Z: Array) -> Array:
        return Z

    def gradient(self, W: Array, G: Array) -> Array:
        return G

    def transport(self, W: Array, Z: Array) -> Array:
        return Z

    def normaliser(self, H: Array) -> Normaliser | None:
        return None


class FixedRankPSD(FullRank):
    """Rank-m PSD matrices `Q = WW'` as the quotient of full-rank W by rotations, with the flat metric.

    Vertical vectors are `W Omega` with Omega skew, m x m (the paper prints n x m); horizontal ones have `W'H` symmetric.
    The geodesic from a horizontal H is the straight line `W + tH`. The gradient of a rotation-invariant function is
    horizontal as it stands, and so is H all along its own geodesic: `(W + tH)'H` is symmetric where `W'H` is. Other
    vectors would have to be projected for the transport, but products with horizontal vectors do not see the difference.
    """

    name = "psd"

    def project(self, W: Array, Z: Array) -> Array:
        # Omega solves  (W'W) Omega + Omega (W'W) = W'Z - Z'W ; in the eigenbasis of W'W that is a division
        xp = namespace(W)
        w, V = xp.linalg.eigh(W.mT @ W)
        skew = W.mT @ Z
        skew = V.mT @ (skew - skew.mT) @ V
        Omega = V @ (skew / (w[:, None] + w[None, :])) @ V.mT
        return Z - W @ Omega


class Grassmann:
    """Subspaces of dimension m, each represented by an orthonormal basis W."""

    name = "grassmann"

    def point(self, W: Array) -> Array:
        return namespace(W).linalg.qr(W)[0]

    def project(self, W: Array, Z: Array) -> Array:
        return Z - W @ (W.mT @ Z)

    def gradient(self, W: Array, G: Array) -> Array:
        return self.project(W, G)

    def transport(self, W: Array, Z: Array) -> Array:
        return self.project(W, Z)

    def normaliser(self, H: Array) -> Normaliser | None:
        xp = namespace(H)
        w, V = xp.linalg.eigh(H.mT @ H)
        w = xp.maximum(w, xp.zeros_like(w))

        def factor(t: float) -> tuple[Array, Array]:
            base = 1 + t * t * w
            return (V * base**-0.5) @ V.mT, (V * (-t * w * base**-1.5)) @ V.mT

        return factor


MANIFOLDS: dict[str, Manifold] = {"psd": FixedRankPSD(), "grassmann": Grassmann(), "full-rank": FullRank()}
