"""Exact nearest neighbors under metrics with lower bounds: candidates in the order of the bound, as long as it allows.

The pairs that are computed are those that brute force would keep, and some more; the others are infinite. Ties, copies
and every digit are those of brute force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from spdsl import backend
from spdsl.backend import Array
from spdsl.data.neighbor_search import Capacities, Nearest, Neighbors, lowest, offer_block
from spdsl.geometry import LowerBound, Metric
from spdsl.geometry.factorizations import NotPositiveDefiniteError
from spdsl.geometry.lower_bounds import sample_places

FEW = 32  # samples up to which the bounds take as long as the distances
BLOCK_BOUNDS = 1 << 20  # lower bounds held at once
MARGIN = 1 + 1e-6  # a bound counts as passed beyond this, for the rounding of the distance itself
HARD = 0.25  # share of the pairs left by the bounds from which closer ones pay on the host, where they cost half a distance
ROUNDS = 4  # in which the candidates of a block are computed; after each one fewer are left

Factors = tuple[Array, ...]
Evaluate = Callable[[np.ndarray, np.ndarray], np.ndarray]  # distances of pairs, by their places in a block


class BoundBlock(NamedTuple):
    """Lower bounds (r, c) of a block of distances, columns at or after rows, and how to know more of chosen pairs.

    Attributes
    ----------
    evaluate, closer : function of (i, j)
        Distances, and lower bounds that take longer.
    hard : float
        Closer bounds are computed where more than this share of the pairs is left.
    """

    rows: slice
    columns: slice
    low: np.ndarray
    evaluate: Evaluate
    closer: Evaluate
    hard: float


def bounded(metric: Metric, capacities: Capacities, count: int, *, measure: bool) -> bool:
    """Whether to search with bounds: not where all distances are needed anyway, or there are few."""
    return metric.bounded and not measure and any(capacities) and count > FEW


def bound_of(metric: Metric, F: Factors) -> LowerBound | None:
    """Bounds around the mean of a sample of matrices, given by their factors."""
    chosen = backend.like(sample_places(F[0].shape[0]), F[0])
    return LowerBound.around(metric, metric.matrices(tuple(part[chosen] for part in F)))


def vector_bound(metric: Metric, sample: Callable[[], Array]) -> LowerBound | None:
    """The bound whose vectors an index can search, around the mean of a sample; None for metrics with vectors of their own."""
    if metric.euclidean:
        return None
    bound = LowerBound.around(metric, sample())
    if bound is None:
        raise NotPositiveDefiniteError("the logarithm of a matrix failed")
    return bound


def make_block(
    metric: Metric, bound: LowerBound | None, rows: slice, columns: slice, left: list[Factors], right: list[Factors]
) -> BoundBlock:
    """A block from the factors of the metric and of the bound, of rows and of columns; without a bound all count."""
    FA, FB = left[0], right[0]
    shape = (rows.stop - rows.start, columns.stop - columns.start)
    low = np.zeros(shape) if bound is None else backend.to_numpy(bound.cross(left[1], right[1]))

    def evaluate(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return backend.to_numpy(metric.matched(FA, backend.like(i, FA[0]), FB, backend.like(j, FB[0])))

    def closer(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        if bound is None:
            return np.zeros(len(i))
        return backend.to_numpy(bound.closer(FA, backend.like(i, FA[0]), FB, backend.like(j, FB[0])))

    return BoundBlock(rows, columns, low, evaluate, closer, hard_share(FA[0]))


def hard_share(x: Array) -> float:
    """Share of pairs from which closer bounds pay: any on a device, where determinants cost a tenth of a distance."""
    return HARD if backend.is_numpy(x) else 0.0


def bound_blocks(X: Array, metric: Metric) -> Iterator[BoundBlock]:
    """Blocks of an array that cover all pairs once, columns at or after rows."""
    N = X.shape[0]
    F = metric.compact(backend.double(X))
    bound = bound_of(metric, F)
    B = () if bound is None else bound.factors(F)
    size = max(1, min(N, int(BLOCK_BOUNDS**0.5)))
    blocks = [slice(start, min(start + size, N)) for start in range(0, N, size)]
    for a, rows in enumerate(blocks):
        left = [tuple(part[rows] for part in parts) for parts in (F, B)]
        for columns in blocks[a:]:
            yield make_block(metric, bound, rows, columns, left, [tuple(p[columns] for p in parts) for parts in (F, B)])


def joined(blocks: tuple[BoundBlock, ...]) -> BoundBlock:
    """The same block of several matrices per sample, whose distances add up."""

    def evaluate(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return np.asarray(sum(block.evaluate(i, j) for block in blocks))

    def closer(i: np.ndarray, j: np.ndarray) -> np.ndarray:
        return np.asarray(sum(block.closer(i, j) for block in blocks))

    first, low = blocks[0], np.asarray(sum(block.low for block in blocks))
    return BoundBlock(first.rows, first.columns, low, evaluate, closer, first.hard)


def search_bounded(blocks: Iterable[BoundBlock], labels: np.ndarray, capacities: Capacities) -> Neighbors:
    """Exact neighbors from blocks that cover all pairs once, in the order of `search_blocks`."""
    within, between = (Nearest(len(labels), capacity) for capacity in capacities)
    for block in blocks:
        offer_bounded(within, between, block, labels[block.rows][:, None] == labels[block.columns])
    return Neighbors(within, between, None)


def offer_bounded(within: Nearest, between: Nearest, block: BoundBlock, same: np.ndarray) -> None:
    """Compute the pairs of a block that the lists of either kind may need, and offer them."""
    d2 = _Distances(block)
    kinds = [_Kind(nearest, block, allowed) for nearest, allowed in ((within, same), (between, ~same))]
    kinds = [kind for kind in kinds if kind.capacity]
    d2.compute(np.logical_or.reduce([kind.first() for kind in kinds]))
    for k in range(ROUNDS, 0, -1):
        candidates, rank = _candidates(kinds, d2)
        if k == ROUNDS and candidates.mean() > block.hard:
            _sharpen(block, candidates)
            candidates, rank = _candidates(kinds, d2)
        if k > 1 and candidates.any():
            candidates &= rank <= np.quantile(rank[candidates], 1 / k)
        d2.compute(candidates)
    offer_block(within, between, block.rows, block.columns, d2.values, same)


def _candidates(kinds: list[_Kind], d2: _Distances) -> tuple[np.ndarray, np.ndarray]:
    """Pairs that the lists of some kind may need and that are not computed yet, and their bounds relative to the lists."""
    candidates, rank = np.zeros(d2.values.shape, bool), np.zeros(d2.values.shape)
    for kind in kinds:
        kind.tighten(d2.values)
        kind.mark(candidates, rank)
    return candidates & np.isinf(d2.values), rank


def _sharpen(block: BoundBlock, chosen: np.ndarray) -> None:
    """Raise the bounds of the chosen pairs to the closer ones."""
    diagonal = block.rows == block.columns
    i, j = np.nonzero(np.triu(chosen | chosen.T, 1) if diagonal else chosen)
    block.low[i, j] = found = np.maximum(block.low[i, j], block.closer(i, j))
    if diagonal:
        block.low[j, i] = found


class _Distances:
    """The distances of a block that are computed so far; infinity for the others."""

    def __init__(self, block: BoundBlock) -> None:
        self.evaluate, self.diagonal = block.evaluate, block.rows == block.columns
        self.values = np.full(block.low.shape, np.inf)
        self.count = 0

    def compute(self, chosen: np.ndarray) -> None:
        """Compute the chosen pairs, each once; those of a block on the diagonal as brute force does, row < column."""
        if self.diagonal:
            chosen = np.triu(chosen | chosen.T, 1)
        i, j = np.nonzero(chosen)
        if len(i):
            self.values[i, j] = found = self.evaluate(i, j)
            self.count += len(i)
            if self.diagonal:
                self.values[j, i] = found


class _Kind:
    """Pairs of a block within classes, or between them, and how far the lists of its rows and columns reach."""

    def __init__(self, nearest: Nearest, block: BoundBlock, allowed: np.ndarray) -> None:
        self.capacity = nearest.capacity or 0
        self.allowed, self.low = allowed.copy(), block.low
        if block.rows == block.columns:
            np.fill_diagonal(self.allowed, False)
        self.lists = nearest.d2[block.rows], nearest.d2[block.columns]
        self.reach = [nearest.reach(block.rows), nearest.reach(block.columns)]

    def first(self) -> np.ndarray:
        """The pairs that are the nearest by the bound, from either side, unless the lists are nearer already."""
        chosen = np.zeros(self.low.shape, bool)
        offered = np.where(self.allowed & (self.low <= self._limit()), self.low, np.inf)
        for values, marks in ((offered, chosen), (offered.T, chosen.T)):
            count = min(self.capacity, values.shape[1])
            np.put_along_axis(marks, np.argpartition(values, count - 1, axis=1)[:, :count], True, axis=1)
        return chosen & np.isfinite(offered)

    def tighten(self, d2: np.ndarray) -> None:
        """Take note of what has been computed."""
        offered = np.where(self.allowed, d2, np.inf)
        for side, values in enumerate((offered, offered.T)):
            known = np.concatenate([self.lists[side], values], axis=1)
            self.reach[side] = np.minimum(
                self.reach[side], np.partition(known, self.capacity - 1, axis=1)[:, self.capacity - 1]
            )

    def mark(self, candidates: np.ndarray, rank: np.ndarray) -> None:
        """Mark the pairs that the bound does not exclude, and their bounds relative to the lists."""
        limit = self._limit()
        here = self.allowed & (self.low <= limit)
        candidates |= here
        np.divide(self.low, limit, out=rank, where=here & (limit > 0))

    def _limit(self) -> np.ndarray:
        """Bounds up to which a pair may be needed by its row or its column."""
        return MARGIN * np.maximum(self.reach[0][:, None], self.reach[1][None, :])


class RowSearch:
    """Squared distances of new samples to fixed ones: exact where they may be among the nearest, else infinite.

    Parameters
    ----------
    metric : Metric, with bounds
    factors : tuple of arrays
        Of the fixed samples.
    chosen : (N,) of bool
        Samples to compare with; the others stay at infinity.
    """

    def __init__(self, metric: Metric, factors: Factors, chosen: np.ndarray) -> None:
        self.metric, self.factors, self.chosen = metric, factors, chosen
        self.bound = bound_of(metric, factors)
        self.parts = () if self.bound is None else self.bound.factors(factors)

    def __call__(self, F: Factors, count: int) -> np.ndarray:
        """Distances (a, N) of the samples with factors F, complete for the `count` nearest of each."""
        if self.bound is None:
            return backend.to_numpy(self.metric.cross(F, self.factors))
        low = backend.to_numpy(self.bound.cross(self.bound.factors(F), self.parts))
        low[:, ~self.chosen] = np.inf
        d2 = np.full(low.shape, np.inf)
        count = min(count, int(self.chosen.sum()))
        best, _ = lowest(low, count)
        self._compute(np.repeat(np.arange(len(low)), count), best.ravel(), F, d2)
        taken, sharp = count, False
        while True:
            kth = np.partition(d2, count - 1, axis=1)[:, count - 1 : count]
            i, j = np.nonzero((low <= MARGIN * kth) & np.isinf(d2))
            if not len(i):
                return d2
            if not sharp and len(i) > hard_share(F[0]) * low.size:
                at = self.factors[0]
                found = self.bound.closer(F, backend.like(i, at), self.factors, backend.like(j, at))
                low[i, j] = np.maximum(low[i, j], backend.to_numpy(found))
                sharp = True
                continue
            sharp = True  # fewer are left from now on
            order = np.lexsort((low[i, j], i))
            i, j = i[order], j[order]
            place = np.arange(len(i)) - np.searchsorted(
                i, i
            )  # among the candidates of a row, in the order of the bound
            self._compute(i[place < taken], j[place < taken], F, d2)
            taken *= 2

    def _compute(self, i: np.ndarray, j: np.ndarray, F: Factors, d2: np.ndarray) -> None:
        at = self.factors[0]
        found = self.metric.matched(F, backend.like(i, at), self.factors, backend.like(j, at))
        d2[i, j] = backend.to_numpy(found)
