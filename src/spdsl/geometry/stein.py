"""The Stein divergence."""

from __future__ import annotations

import math

from spdsl import backend
from spdsl.backend import Array, namespace, over_blocks, symmetric
from spdsl.geometry.factorizations import TRUST, Taken, cholesky, logdet, nonnegative, pencil_roots, spd_inverse
from spdsl.geometry.pairwise import PairwiseMetric


class Stein(PairwiseMetric):
    """Stein divergence (Eq. 3): `d2 = logdet((P_i + P_j)/2) - (logdet P_i + logdet P_j)/2`."""

    name = "stein"
    kept = 1
    sides = 1
    aliases = ("logdet",)
    invariance = "linear"
    scale_free = True
    formula = "logdet((P + Q)/2) - (logdet P + logdet Q)/2"

    def factor(self, P: Array) -> tuple[Array, ...]:
        P = symmetric(P)
        return P, over_blocks(lambda block: logdet(cholesky(block, exact=True)), P)

    def values(self, FA: Taken, FB: Taken) -> Array:
        return self.link(FA, FB)[0]

    def link(self, FA: Taken, FB: Taken) -> tuple[Array, tuple[Array, ...]]:
        # of P + Q instead of (P + Q)/2: logdet is too large by m log 2, and the inverse is half that of the mean
        both = FB.take(0)
        both += FA[0]
        L = cholesky(both, exact=True)
        d2 = logdet(L) - L.shape[-1] * math.log(2) - (FA[1] + FB[1]) / 2
        xp = namespace(L)
        # a pivot is the rest of a diagonal entry of P + Q, of whose size its rounding error is
        largest, pivot = xp.max(xp.linalg.diagonal(both), axis=-1), xp.min(xp.linalg.diagonal(L), axis=-1) ** 2
        close = d2 < TRUST * L.shape[-1] * largest / pivot
        if bool(close.any()):  # log cosh(log(w) / 2) of the eigenvalues w of the pencil, without cancellation
            s = pencil_roots(FA.chosen(0, close), FB.chosen(0, close))
            d2[close] = xp.sum(xp.log1p((s - 1) ** 2 / (2 * s)), axis=-1)
        return nonnegative(d2), (L,)

    def derivative(self, FA: Taken, FB: Taken, saved: tuple[Array, ...], out: Array) -> None:
        out[:, 0] = backend.gram(backend.inverse_lower(saved[0]))

    def finish(self, S: Array, F: tuple[Array, ...], degree: Array) -> Array:
        return over_blocks(lambda S, P, c: S - spd_inverse(P) * (c / 2)[:, None, None], S, F[0], degree)
