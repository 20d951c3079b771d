"""The nearest samples within and between classes, from blocks of distances that come one after the other."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Nearest:
    """The nearest candidates seen so far of every sample; `capacity` None means that all are wanted and none is kept."""

    def __init__(self, n_samples: int, capacity: int | None) -> None:
        self.capacity = capacity
        kept = capacity or 0
        self.d2 = np.full((n_samples, kept), np.inf)
        self.index = np.full((n_samples, kept), -1)

    def offer(self, rows: slice, columns: slice, d2: np.ndarray) -> None:
        """Merge candidates `columns` at squared distances `d2` into the lists of `rows`; infinity marks no candidate."""
        if not self.capacity:
            return
        # a later candidate at the same distance has a higher index and loses, so only what is strictly nearer counts
        touched = np.flatnonzero((d2 < self.d2[rows, -1:]).any(axis=1))
        if len(touched):
            best, values = lowest(d2[touched], self.capacity)
            self.merge(rows.start + touched, columns.start + best, values)

    def merge(self, rows: np.ndarray, index: np.ndarray, d2: np.ndarray) -> None:
        """Merge sorted candidates (a, k) into the lists of `rows`; they come in the order of their indices."""
        if not self.capacity:
            return
        merged = np.concatenate([self.d2[rows], d2], axis=1)
        both = np.concatenate([self.index[rows], index], axis=1)
        best = np.argsort(merged, axis=1, kind="stable")[:, : self.capacity]
        self.d2[rows] = np.take_along_axis(merged, best, axis=1)
        self.index[rows] = np.take_along_axis(both, best, axis=1)


def lowest(d2: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and values of the `count` lowest of every row, in order; ties go to the lower column."""
    count = min(count, d2.shape[1])
    last = np.partition(d2, count - 1, axis=1)[:, count - 1 : count]
    below, equal = d2 < last, d2 == last
    missing = count - below.sum(axis=1, keepdims=True)
    chosen = below | (equal & (np.cumsum(equal, axis=1, dtype=np.int32) <= missing))
    index = np.nonzero(chosen)[1].reshape(len(d2), count)
    values = np.take_along_axis(d2, index, axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    return np.take_along_axis(index, order, axis=1), np.take_along_axis(values, order, axis=1)


def offer_block(
    within: Nearest, between: Nearest, rows: slice, columns: slice, d2: np.ndarray, same: np.ndarray
) -> None:
    """Offer a block of distances, columns at or behind rows, to the lists of both kinds, from both sides."""
    diagonal = rows == columns
    if diagonal:  # both triangles at once, so that candidates come in the order of their indices
        upper = np.triu(np.ones(d2.shape, bool), 1)
        d2 = np.where(upper, d2, d2.T)
        np.fill_diagonal(d2, np.inf)
    for nearest, allowed in ((within, same), (between, ~same)):
        if nearest.capacity:
            offered = np.where(allowed, d2, np.inf)
            nearest.offer(rows, columns, offered)
            if not diagonal:
                nearest.offer(columns, rows, offered.T)


def block_total(rows: slice, columns: slice, d2: np.ndarray) -> float:
    """Sum of the distances of a block, each pair once."""
    return float(np.sqrt(d2[np.triu_indices(len(d2), 1)] if rows == columns else d2).sum())


class BlockSummary(NamedTuple):
    """What a block tells to one who does not see it: the sum of its distances, and offers `(rows, index, d2)` by kind."""

    total: float
    within: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    between: list[tuple[np.ndarray, np.ndarray, np.ndarray]]


def summarise(
    rows: slice, columns: slice, d2: np.ndarray, labels: np.ndarray, capacities: tuple[int | None, int | None]
) -> BlockSummary:
    """Reduce a block to the nearest of each of its samples; `labels` are those of the rows, then of the columns."""
    a, b = d2.shape
    here, there = slice(0, a), slice(0, b) if rows == columns else slice(a, a + b)
    lists = [Nearest(there.stop, capacity) for capacity in capacities]
    same = labels[:a, None] == labels[None, len(labels) - b :]
    offer_block(lists[0], lists[1], here, there, d2, same)
    place = np.arange(rows.start, rows.stop)
    if rows != columns:
        place = np.concatenate([place, np.arange(columns.start, columns.stop)])
    offers = [[(place, place[one.index], one.d2)] if one.capacity else [] for one in lists]
    return BlockSummary(block_total(rows, columns, d2), *offers)
