"""The Jeffreys divergence."""

from __future__ import annotations

from spdsl import backend
from spdsl.backend import Array, namespace, over_blocks, symmetric
from spdsl.geometry.factorizations import TRUST, nonnegative, pair_blocks, pencil_roots, spd_inverse
from spdsl.geometry.metric import Metric, Pullback


class Jeffreys(Metric):
    """Jeffreys divergence: `d2 = (tr P_i^-1 P_j + tr P_j^-1 P_i) / 2 - m`, bilinear in the matrices and their inverses."""

    name = "jeffreys"
    cheap_pairs = True  # not an embedding but bilinear: all pairs cost two matrix products
    aliases = ("kullback_sym",)
    invariance = "linear"
    scale_free = True
    formula = "(tr P^-1 Q + tr Q^-1 P) / 2 - m"

    def factor(self, P: Array) -> tuple[Array, ...]:
        inverse = over_blocks(spd_inverse, P)
        return P.reshape(P.shape[0], -1), inverse.reshape(P.shape[0], -1)

    def cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        m = round(FA[0].shape[1] ** 0.5)
        d2 = (backend.product(FA[1], FB[0].mT) + backend.product(FA[0], FB[1].mT)) / 2 - m
        xp = namespace(d2)
        i, j = xp.nonzero(d2 < xp.maximum(_doubt(FA)[:, None], _doubt(FB)[None, :]))
        if i.shape[0]:
            d2[i, j] = _from_pencil(FA[0], FB[0], i, j)
        return nonnegative(d2)

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        xp = namespace(P)
        N, m, _ = P.shape
        flat, inverse = self.factor(P)
        if i.shape[0] * 8 > N * N:
            K = backend.product(flat, inverse.mT)
            d2 = (K[i, j] + K[j, i]) / 2 - m
        else:
            d2 = pair_blocks(
                lambda s: xp.sum(flat[i[s]] * inverse[j[s]] + flat[j[s]] * inverse[i[s]], axis=-1) / 2 - m,
                i.shape[0],
                flat,
            )

        doubt = _doubt((flat, inverse))
        (close,) = xp.nonzero(d2 < xp.maximum(doubt[i], doubt[j]))
        if close.shape[0]:
            d2[close] = _from_pencil(flat, flat, i[close], j[close])

        def pullback(c: Array) -> Array:
            sum_P = backend.pair_product(i, j, c, flat).reshape(N, m, m)
            sum_inverse = backend.pair_product(i, j, c, inverse).reshape(N, m, m)
            Q = inverse.reshape(N, m, m)
            return over_blocks(lambda a, q, b: symmetric(a - q @ b @ q) / 2, sum_inverse, Q, sum_P)

        return nonnegative(d2), pullback


def _doubt(F: tuple[Array, ...]) -> Array:
    """Distances (N,) below which the bilinear form has too few correct digits."""
    flat, inverse = F
    step = round(flat.shape[1] ** 0.5) + 1
    return TRUST * flat[:, ::step].sum(axis=1) * inverse[:, ::step].sum(axis=1)


def _from_pencil(A: Array, B: Array, i: Array, j: Array) -> Array:
    """The same distance from the eigenvalues w of `A_i^-1 B_j`: `sum (w^1/2 - w^-1/2)^2 / 2`."""
    m = round(A.shape[1] ** 0.5)

    def part(s: slice) -> Array:
        w = pencil_roots(A[i[s]].reshape(-1, m, m), B[j[s]].reshape(-1, m, m))
        return ((w - 1 / w) ** 2).sum(axis=-1) / 2

    return pair_blocks(part, i.shape[0], A)
