"""Metrics that need a factorization for every pair, computed in blocks of bounded size."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from spdsl import backend
from spdsl.backend import Array, namespace, symmetric
from spdsl.geometry.factorizations import Taken, pair_blocks, pair_chunks, run_pair_blocks, upper_pairs
from spdsl.geometry.metric import Metric, Pullback


class PairwiseMetric(Metric):
    """Metrics that need a factorization for every pair, computed in blocks of bounded size.

    Examples
    --------
    >>> import spdsl
    >>> from spdsl.geometry import PairwiseMetric
    >>> class Frobenius(PairwiseMetric):
    ...     '''|P - Q|^2, pair by pair.'''
    ...
    ...     name = "frobenius"
    ...     invariance = "orthogonal"
    ...     kept = 0
    ...
    ...     def factor(self, P):  # what a pair needs of each matrix
    ...         return (P,)
    ...
    ...     def values(self, FA, FB):
    ...         return ((FA[0] - FB[0]) ** 2).sum((-2, -1))
    ...
    ...     def link(self, FA, FB):  # the value, and what the derivative needs
    ...         return self.values(FA, FB), ()
    ...
    ...     def derivative(self, FA, FB, saved, out):
    ...         out[:, 0] = 2 * (FA[0] - FB[0])
    ...         out[:, 1] = -out[:, 0]
    >>> spdsl.check_metric(Frobenius())
    """

    kept: ClassVar[int]  # number of m x m matrices that `link` keeps for `derivative`
    sides: ClassVar[int] = 2  # matrices in the derivative of a pair: one if both sides have the same

    @abstractmethod
    def values(self, FA: Taken, FB: Taken) -> Array:
        """Squared distances between matched factors."""

    @abstractmethod
    def link(self, FA: Taken, FB: Taken) -> tuple[Array, tuple[Array, ...]]:
        """Squared distances between matched factors, and what `derivative` needs of each pair."""

    @abstractmethod
    def derivative(self, FA: Taken, FB: Taken, saved: tuple[Array, ...], out: Array) -> None:
        """Write the derivatives of d2 with respect to the first and the second matrix to `out` (pairs, sides, m, m)."""

    def finish(self, S: Array, F: tuple[Array, ...], degree: Array) -> Array:
        """Add the terms that depend on one matrix only, given the sum of `c` over its pairs."""
        return S

    def cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        xp = namespace(FA[0])
        a, b = FA[0].shape[0], FB[0].shape[0]
        if backend.is_numpy(FA[0]):
            d2 = xp.empty((a, b))
            self._fill(d2, FA, FB, [0] * a)
            return d2
        row = xp.arange(a * b, device=FA[0].device) // b
        column = xp.arange(a * b, device=FA[0].device) % b
        d2 = pair_blocks(lambda s: self.values(Taken(FA, row[s]), Taken(FB, column[s])), a * b, FA[0].reshape(a, -1))
        return d2.reshape(a, b)

    def matched(self, FA: tuple[Array, ...], i: Array, FB: tuple[Array, ...], j: Array) -> Array:
        rows = FA[0].reshape(FA[0].shape[0], -1)
        return pair_blocks(lambda s: self.values(Taken(FA, i[s]), Taken(FB, j[s])), i.shape[0], rows)

    def within(self, F: tuple[Array, ...]) -> Array:
        N = F[0].shape[0]
        if backend.is_numpy(F[0]):
            d2 = namespace(F[0]).zeros((N, N))
            self._fill(d2, F, F, range(1, N + 1))
            return d2 + d2.mT

        def value(s: slice) -> Array:
            i, j = upper_pairs(N, s, F[0])
            return self.values(Taken(F, i), Taken(F, j))

        count = N * (N - 1) // 2
        d2 = pair_blocks(value, count, F[0].reshape(N, -1))
        i, j = upper_pairs(N, slice(0, count), F[0])
        return backend.pair_matrix(i, j, d2, N)

    def _fill(self, d2: Array, FA: tuple[Array, ...], FB: tuple[Array, ...], firsts: Sequence[int]) -> None:
        """Write the distances of every row from its first column on, without gathering the pairs; for the host."""
        size = FB[0][:1].nbytes
        step = max(1, backend.block_bytes(d2) // (2 * size))

        def fill(rows: slice) -> None:
            for i in range(rows.start, rows.stop):
                for k in range(firsts[i], d2.shape[1], step):
                    columns = slice(k, k + step)
                    d2[i, columns] = self.values(Taken(FA, slice(i, i + 1)), Taken(FB, columns))

        with backend.held_blas(d2):
            list(backend.map_blocks(fill, d2.shape[0], 2 * size * d2.shape[1], on=d2))

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        N, m, _ = P.shape
        F = self.factor(P)
        keep = self.kept * i.shape[0] * m * m * 8 <= backend.keep_bytes(P)
        kept: dict[tuple[int, int], tuple[Array, ...]] = {}

        def value(s: slice) -> Array:
            d2, saved = self.link(Taken(F, i[s]), Taken(F, j[s]))
            if keep:
                kept[s.start, s.stop] = saved
            return d2

        rows = P.reshape(N, -1)
        parts = [part for s in pair_chunks(i.shape[0], rows) for part in run_pair_blocks(value, s, rows)]
        d2 = backend.concat(parts) if parts else rows[:0, 0]

        def pullback(c: Array) -> Array:
            S = namespace(P).zeros(P.shape, dtype=P.dtype, device=P.device)  # in C order, whatever the order of P
            chunks = pair_chunks(i.shape[0], rows)
            D = backend.empty((chunks[0].stop if chunks else 0, self.sides, m, m), P)

            def differentiate(first: int, s: slice) -> None:
                FA, FB = Taken(F, i[s]), Taken(F, j[s])
                saved = kept.pop((s.start, s.stop), None)  # used only once
                saved = self.link(FA, FB)[1] if saved is None else saved
                self.derivative(FA, FB, saved, D[s.start - first : s.stop - first])

            for chunk in chunks:
                list(run_pair_blocks(partial(differentiate, chunk.start), chunk, rows))
                backend.add_pairs(S, i[chunk], j[chunk], c[chunk], D[: chunk.stop - chunk.start])
            degree = backend.pair_sums(N, i, j, c)
            return symmetric(self.finish(S, F, degree))

        return d2, pullback
