"""The Bures-Wasserstein distance."""

from __future__ import annotations

from spdsl import backend
from spdsl.backend import Array, namespace, over_blocks
from spdsl.geometry.factorizations import Taken, cholesky, nonnegative
from spdsl.geometry.pairwise import PairwiseMetric

ROOT_SPREAD = (
    1e6  # eigenvalue ratio up to which the root of the smallest has an error below 1e-13 of that of the largest
)
CLOSE_ROOTS = 1e-6  # squared distance, relative to the traces, below which their difference has too few correct digits


class BuresWasserstein(PairwiseMetric):
    """Bures-Wasserstein distance: `d2 = tr P_i + tr P_j - 2 tr (P_i^1/2 P_j P_i^1/2)^1/2`."""

    name = "wasserstein"
    kept = 2
    aliases = ("bures", "bures-wasserstein")
    invariance = "orthogonal"
    scale_free = False
    formula = "tr P + tr Q - 2 tr (P^1/2 Q P^1/2)^1/2"

    def factor(self, P: Array) -> tuple[Array, ...]:
        xp = namespace(P)
        return P, over_blocks(cholesky, P), xp.linalg.trace(P)

    def values(self, FA: Taken, FB: Taken) -> Array:
        K = FB[1].mT @ FA[1]
        xp = namespace(K)
        w = backend.eigvalsh(backend.gram(K))
        wide = ~(w[:, 0] * ROOT_SPREAD >= w[:, -1])
        s = xp.sqrt(nonnegative(w))
        if bool(wide.any()):
            s[wide] = xp.linalg.svdvals(K[wide])
        d2 = FA[2] + FB[2] - 2 * xp.sum(s, axis=-1)
        close = d2 < CLOSE_ROOTS * (FA[2] + FB[2])
        if bool(close.any()):
            U, _, Vt = xp.linalg.svd(K[close], full_matrices=False)
            d2[close] = _aligned(FA.chosen(1, close), FB.chosen(1, close), U @ Vt)
        return nonnegative(d2)

    def link(self, FA: Taken, FB: Taken) -> tuple[Array, tuple[Array, ...]]:
        K = FB[1].mT @ FA[1]
        xp = namespace(K)
        # singular values of L_j' L_i, instead of square roots of a product with inaccurate small eigenvalues
        U, s, Vt = xp.linalg.svd(K, full_matrices=False)
        d2 = FA[2] + FB[2] - 2 * xp.sum(s, axis=-1)
        close = d2 < CLOSE_ROOTS * (FA[2] + FB[2])
        if bool(close.any()):
            d2[close] = _aligned(FA.chosen(1, close), FB.chosen(1, close), U[close] @ Vt[close])
        return nonnegative(d2), (U, s, Vt)

    def derivative(self, FA: Taken, FB: Taken, saved: tuple[Array, ...], out: Array) -> None:
        U, s, Vt = saved
        xp = namespace(s)
        eye = xp.eye(s.shape[-1], dtype=s.dtype, device=s.device)
        # optimal transport maps: T P_i T = P_j with T = L_j U diag(1/s) U' L_j', and its inverse
        left = FB[1] @ U
        right = FA[1] @ Vt.mT
        out[:, 0] = eye - (left / s[:, None, :]) @ left.mT
        out[:, 1] = eye - (right / s[:, None, :]) @ right.mT


def _aligned(L: Array, M: Array, R: Array) -> Array:
    """`min |L - M R|^2` over rotations R, at its minimizer: the distance as a sum of squares, without cancellation."""
    return ((L - M @ R) ** 2).sum(axis=(-2, -1))
