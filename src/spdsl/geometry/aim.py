"""The affine-invariant metric."""

from __future__ import annotations

from spdsl import backend
from spdsl.backend import Array, namespace, over_blocks
from spdsl.geometry.factorizations import Taken, cholesky, positive, spread_out
from spdsl.geometry.pairwise import PairwiseMetric


class AffineInvariant(PairwiseMetric):
    """Affine-invariant metric (Eq. 1): `d2 = sum log^2 eig(P_i^-1 P_j)`."""

    name = "aim"
    kept = 1
    aliases = ("riemann", "affine-invariant")
    invariance = "linear"
    scale_free = True
    bounded = True
    formula = "sum log^2 eig(P^-1 Q)"

    # with P_i = L_i L_i' and K = L_i^-1 L_j = U diag(s) V', the eigenvalues of P_i^-1 P_j are s^2: the condition
    # number of K is only the square root of that of P_i^-1 P_j

    def factor(self, P: Array) -> tuple[Array, ...]:
        L = over_blocks(cholesky, P)
        return L, over_blocks(backend.inverse_lower, L)

    def matrices(self, F: tuple[Array, ...]) -> Array:
        return F[0] @ F[0].mT

    def values(self, FA: Taken, FB: Taken) -> Array:
        K = FA[1] @ FB[0]
        xp = namespace(K)
        w = backend.eigvalsh(backend.gram(K))
        wide = spread_out(w)
        if bool(wide.any()):
            w[wide] = positive(xp.linalg.svdvals(K[wide]) ** 2)
        return xp.sum(xp.log(w) ** 2, axis=-1)

    def link(self, FA: Taken, FB: Taken) -> tuple[Array, tuple[Array, ...]]:
        K = FA[1] @ FB[0]
        xp = namespace(K)
        w, V = backend.eigh(backend.gram(K))
        wide = spread_out(w)
        other: tuple[Array, ...] = ()
        if bool(wide.any()):
            U, s, Vt = xp.linalg.svd(K[wide])
            w[wide], V[wide] = positive(s * s), Vt.mT
            other = wide, U.mT @ FA[1][wide]
        log_w = xp.log(w)
        return xp.sum(log_w**2, axis=-1), (w, log_w, V.mT @ FB[1], *other)

    def derivative(self, FA: Taken, FB: Taken, saved: tuple[Array, ...], out: Array) -> None:
        w, log_w, right, *wide = saved  # right = V'L_j^-1, of which diag(s) right is U'L_i^-1
        k, m, _ = right.shape
        weights = namespace(w).stack([-2 * w * log_w, 2 * log_w], axis=-1)
        both = (weights[..., None] * right[:, :, None, :]).reshape(k, m, 2 * m)
        backend.product_into(both.mT, right, out.reshape(k, 2 * m, m))
        if wide:  # but not accurately enough for widely spread eigenvalues
            where, left = wide
            out[where, 0] = left.mT @ (left * (-2 * log_w[where])[:, :, None])
