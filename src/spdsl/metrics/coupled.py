"""Metrics that couple the two matrices of a pair: Jeffreys, affine-invariant, Stein, Bures-Wasserstein."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from spdsl import arrays
from spdsl.arrays import Array, namespace, over_blocks, symmetric
from spdsl.metrics.base import Metric, Pullback
from spdsl.metrics.factors import (
    Taken,
    cholesky,
    logdet,
    nonnegative,
    pair_blocks,
    pair_chunks,
    positive,
    run_pair_blocks,
    spd_inverse,
    spread_out,
    upper_pairs,
)

ROOT_SPREAD = 1e6  # eigenvalue ratio up to which the root of the smallest is exact to 1e-13 of that of the largest


class Jeffreys(Metric):
    """Jeffreys divergence: `d2 = (tr P_i^-1 P_j + tr P_j^-1 P_i) / 2 - m`, bilinear in the matrices and their inverses."""

    name = "jeffreys"
    flat = True  # not an embedding, but bilinear: all pairs cost two matrix products
    aliases = ("kullback_sym",)
    invariance = "linear"
    scale_free = True
    formula = "(tr P^-1 Q + tr Q^-1 P) / 2 - m"

    def factor(self, P: Array) -> tuple[Array, ...]:
        inverse = over_blocks(spd_inverse, P)
        return P.reshape(P.shape[0], -1), inverse.reshape(P.shape[0], -1)

    def cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        m = round(FA[0].shape[1] ** 0.5)
        return nonnegative((arrays.product(FA[1], FB[0].mT) + arrays.product(FA[0], FB[1].mT)) / 2 - m)

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        xp = namespace(P)
        N, m, _ = P.shape
        flat, inverse = self.factor(P)
        if i.shape[0] * 8 > N * N:
            K = arrays.product(flat, inverse.mT)
            d2 = (K[i, j] + K[j, i]) / 2 - m
        else:
            d2 = pair_blocks(
                lambda s: xp.sum(flat[i[s]] * inverse[j[s]] + flat[j[s]] * inverse[i[s]], axis=-1) / 2 - m,
                i.shape[0],
                flat,
            )

        def pullback(c: Array) -> Array:
            sum_P = arrays.pair_product(i, j, c, flat).reshape(N, m, m)
            sum_inverse = arrays.pair_product(i, j, c, inverse).reshape(N, m, m)
            Q = inverse.reshape(N, m, m)
            return over_blocks(lambda a, q, b: symmetric(a - q @ b @ q) / 2, sum_inverse, Q, sum_P)

        return nonnegative(d2), pullback


class PairMetric(Metric):
    """Metrics that need a factorisation of its own for every pair, taken in blocks of bounded size."""

    kept: ClassVar[int]  # m x m matrices that `link` leaves for `derivative`
    sides: ClassVar[int] = 2  # matrices in the derivative of a pair: one where both sides have the same

    def values(self, FA: Taken, FB: Taken) -> Array:
        """Squared distances of matched stacks of factors."""
        raise NotImplementedError

    def link(self, FA: Taken, FB: Taken) -> tuple[Array, tuple[Array, ...]]:
        """Squared distances of matched stacks, and what `derivative` needs of each pair."""
        raise NotImplementedError

    def derivative(self, FA: Taken, FB: Taken, saved: tuple[Array, ...], out: Array) -> None:
        """Write the derivatives of d2 with respect to the first and the second matrix to `out` (pairs, sides, m, m)."""
        raise NotImplementedError

    def finish(self, S: Array, F: tuple[Array, ...], degree: Array) -> Array:
        """Add to the sums over pairs what depends on one matrix alone, given the sum of `c` over its pairs."""
        return S

    def cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        xp = namespace(FA[0])
        a, b = FA[0].shape[0], FB[0].shape[0]
        if arrays.is_numpy(FA[0]):
            d2 = xp.empty((a, b))
            self._fill(d2, FA, FB, [0] * a)
            return d2
        row = xp.arange(a * b, device=FA[0].device) // b
        column = xp.arange(a * b, device=FA[0].device) % b
        d2 = pair_blocks(lambda s: self.values(Taken(FA, row[s]), Taken(FB, column[s])), a * b, FA[0].reshape(a, -1))
        return d2.reshape(a, b)

    def within(self, F: tuple[Array, ...]) -> Array:
        N = F[0].shape[0]
        if arrays.is_numpy(F[0]):
            d2 = namespace(F[0]).zeros((N, N))
            self._fill(d2, F, F, range(1, N + 1))
            return d2 + d2.mT

        def value(s: slice) -> Array:
            i, j = upper_pairs(N, s, F[0])
            return self.values(Taken(F, i), Taken(F, j))

        count = N * (N - 1) // 2
        d2 = pair_blocks(value, count, F[0].reshape(N, -1))
        i, j = upper_pairs(N, slice(0, count), F[0])
        return arrays.pair_matrix(i, j, d2, N)

    def _fill(self, d2: Array, FA: tuple[Array, ...], FB: tuple[Array, ...], firsts: Sequence[int]) -> None:
        """Write the distances of every row from its first column on: on the host rows need not be gathered pair by pair."""
        size = FB[0][:1].nbytes
        step = max(1, arrays.block_bytes(d2) // (2 * size))

        def fill(rows: slice) -> None:
            for i in range(rows.start, rows.stop):
                for k in range(firsts[i], d2.shape[1], step):
                    columns = slice(k, k + step)
                    d2[i, columns] = self.values(Taken(FA, slice(i, i + 1)), Taken(FB, columns))

        with arrays.held_blas(d2):
            list(arrays.map_blocks(fill, d2.shape[0], 2 * size * d2.shape[1], on=d2))

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        N, m, _ = P.shape
        F = self.factor(P)
        keep = self.kept * i.shape[0] * m * m * 8 <= arrays.keep_bytes(P)
        kept: dict[tuple[int, int], tuple[Array, ...]] = {}

        def value(s: slice) -> Array:
            d2, saved = self.link(Taken(F, i[s]), Taken(F, j[s]))
            if keep:
                kept[s.start, s.stop] = saved
            return d2

        rows = P.reshape(N, -1)
        parts = [part for s in pair_chunks(i.shape[0], rows) for part in run_pair_blocks(value, s, rows)]
        d2 = arrays.concat(parts) if parts else rows[:0, 0]

        def pullback(c: Array) -> Array:
            S = namespace(P).zeros(P.shape, dtype=P.dtype, device=P.device)  # in order, whatever the order of P
            chunks = pair_chunks(i.shape[0], rows)
            D = arrays.empty((chunks[0].stop if chunks else 0, self.sides, m, m), P)

            def differentiate(first: int, s: slice) -> None:
                FA, FB = Taken(F, i[s]), Taken(F, j[s])
                saved = kept.pop((s.start, s.stop), None)  # used up
                saved = self.link(FA, FB)[1] if saved is None else saved
                self.derivative(FA, FB, saved, D[s.start - first : s.stop - first])

            for chunk in chunks:
                list(run_pair_blocks(partial(differentiate, chunk.start), chunk, rows))
                arrays.add_pairs(S, i[chunk], j[chunk], c[chunk], D[: chunk.stop - chunk.start])
            degree = arrays.pair_sums(N, i, j, c)
            return symmetric(self.finish(S, F, degree))

        return d2, pullback


class AffineInvariant(PairMetric):
    """Affine-invariant metric (Eq. 1): `d2 = sum log^2 eig(P_i^-1 P_j)`."""

    name = "aim"
    kept = 1
    aliases = ("riemann", "affine-invariant")
    invariance = "linear"
    scale_free = True
    formula = "sum log^2 eig(P^-1 Q)"

    # with P_i = L_i L_i' and K = L_i^-1 L_j = U diag(s) V', the eigenvalues of P_i^-1 P_j are s^2: their ratio can be the
    # product of both condition numbers, which K carries only the root of

    def factor(self, P: Array) -> tuple[Array, ...]:
        L = over_blocks(cholesky, P)
        return L, over_blocks(arrays.inverse_lower, L)

    def values(self, FA: Taken, FB: Taken) -> Array:
        K = FA[1] @ FB[0]
        xp = namespace(K)
        w = arrays.eigvalsh(arrays.gram(K))
        wide = spread_out(w)
        if bool(wide.any()):
            w[wide] = positive(xp.linalg.svdvals(K[wide]) ** 2)
        return xp.sum(xp.log(w) ** 2, axis=-1)

    def link(self, FA: Taken, FB: Taken) -> tuple[Array, tuple[Array, ...]]:
        K = FA[1] @ FB[0]
        xp = namespace(K)
        w, V = arrays.eigh(arrays.gram(K))
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
        arrays.product_into(both.mT, right, out.reshape(k, 2 * m, m))
        if wide:  # but not to working precision where the eigenvalues spread far
            where, left = wide
            out[where, 0] = left.mT @ (left * (-2 * log_w[where])[:, :, None])


class Stein(PairMetric):
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
        # of P + Q, not of its half: logdet then carries m log 2 too much, and the inverse is half of the other's
        both = FB.take(0)
        both += FA[0]
        L = cholesky(both, exact=True)
        return nonnegative(logdet(L) - L.shape[-1] * math.log(2) - (FA[1] + FB[1]) / 2), (L,)

    def derivative(self, FA: Taken, FB: Taken, saved: tuple[Array, ...], out: Array) -> None:
        out[:, 0] = arrays.gram(arrays.inverse_lower(saved[0]))

    def finish(self, S: Array, F: tuple[Array, ...], degree: Array) -> Array:
        return over_blocks(lambda S, P, c: S - spd_inverse(P) * (c / 2)[:, None, None], S, F[0], degree)


class BuresWasserstein(PairMetric):
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
        w = arrays.eigvalsh(arrays.gram(K))
        wide = ~(w[:, 0] * ROOT_SPREAD >= w[:, -1])
        s = xp.sqrt(nonnegative(w))
        if bool(wide.any()):
            s[wide] = xp.linalg.svdvals(K[wide])
        return nonnegative(FA[2] + FB[2] - 2 * xp.sum(s, axis=-1))

    def link(self, FA: Taken, FB: Taken) -> tuple[Array, tuple[Array, ...]]:
        K = FB[1].mT @ FA[1]
        xp = namespace(K)
        # singular values of L_j' L_i: the square root is never taken of a product that has lost its small eigenvalues
        U, s, Vt = xp.linalg.svd(K, full_matrices=False)
        return nonnegative(FA[2] + FB[2] - 2 * xp.sum(s, axis=-1)), (U, s, Vt)

    def derivative(self, FA: Taken, FB: Taken, saved: tuple[Array, ...], out: Array) -> None:
        U, s, Vt = saved
        xp = namespace(s)
        eye = xp.eye(s.shape[-1], dtype=s.dtype, device=s.device)
        # optimal maps: T P_i T = P_j with T = L_j U diag(1/s) U' L_j', and its inverse from the other side
        left = FB[1] @ U
        right = FA[1] @ Vt.mT
        out[:, 0] = eye - (left / s[:, None, :]) @ left.mT
        out[:, 1] = eye - (right / s[:, None, :]) @ right.mT
