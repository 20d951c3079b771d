"""Nearest samples within and between classes, and the mean distance, from blocks of distances or from vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from spdsl import backend
from spdsl.backend import Array
from spdsl.geometry import METRICS, LowerBound, Metric

BLOCK_PAIRS = 1 << 18  # distances held at once while neighbors are searched
MEASURED = 1 << 16  # random pairs that tell the mean distance to a few parts in a thousand

Capacities = tuple[int | None, int | None]  # neighbors to keep within and between classes; None: no search
DistanceBlock = tuple[slice, slice, np.ndarray]  # rows, columns at or after them, squared distances


class Nearest:
    """The nearest candidates of every sample so far; with `capacity` None all pairs are used and none is kept."""

    def __init__(self, n_samples: int, capacity: int | None) -> None:
        self.capacity = capacity
        kept = capacity or 0
        self.d2 = np.full((n_samples, kept), np.inf)
        self.index = np.full((n_samples, kept), -1)
        self.limit = np.full(n_samples, np.inf)  # distances beyond which no candidate is of use

    def reach(self, rows: slice) -> np.ndarray:
        """Distances up to which candidates may be of use to these rows."""
        return np.minimum(self.d2[rows, -1], self.limit[rows]) if self.capacity else self.limit[rows]

    def offer(self, rows: slice, columns: slice, d2: np.ndarray) -> None:
        """Merge candidates `columns` at squared distances `d2` into the lists of `rows`; infinity means no candidate."""
        if not self.capacity:
            return
        # a later candidate at the same distance has a higher index and loses, so only strictly nearer ones count
        touched = np.flatnonzero((d2 < self.d2[rows, -1:]).any(axis=1))
        if len(touched):
            best, values = lowest(d2[touched], self.capacity)
            self.merge(rows.start + touched, columns.start + best, values)

    def merge(self, rows: np.ndarray, index: np.ndarray, d2: np.ndarray) -> None:
        """Merge sorted candidates (a, k) into the lists of `rows`; blocks arrive in the order of their indices."""
        if not self.capacity:
            return
        merged = np.concatenate([self.d2[rows], d2], axis=1)
        both = np.concatenate([self.index[rows], index], axis=1)
        best = np.argsort(merged, axis=1, kind="stable")[:, : self.capacity]
        self.d2[rows] = np.take_along_axis(merged, best, axis=1)
        self.index[rows] = np.take_along_axis(both, best, axis=1)


def lowest(d2: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and values of the `count` lowest entries of every row, in order; ties go to the lower column."""
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
    """Offer a block of distances, columns at or after rows, to the lists of both kinds, for rows and columns."""
    diagonal = rows == columns
    if diagonal:  # both triangles at once, so that candidates arrive in the order of their indices
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
    """Sum of the distances of a block, counting each pair once."""
    return float(np.sqrt(d2[np.triu_indices(len(d2), 1)] if rows == columns else d2).sum())


class BlockSummary(NamedTuple):
    """Summary of a block of distances: their sum, and offers `(rows, index, d2)` by kind."""

    total: float
    within: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
    between: list[tuple[np.ndarray, np.ndarray, np.ndarray]]


class Neighbors(NamedTuple):
    """Result of a search over all pairs: the nearest of both kinds, and the mean distance if requested."""

    within: Nearest
    between: Nearest
    mean_distance: float | None


def search_blocks(
    blocks: Iterable[DistanceBlock], labels: np.ndarray, capacities: Capacities, *, measure: bool
) -> Neighbors:
    """Exact neighbors from blocks that cover all pairs once: an answer for `Data.neighbors`.

    Parameters
    ----------
    blocks : iterable of (rows, columns, d2)
        Slices, and the squared distances between these samples; columns at or after rows.
    labels : (N,) integers
    capacities, measure
        As passed to `Data.neighbors`.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import METRICS
    >>> from spdsl.data import search_blocks, upper_blocks
    >>> X = np.stack([k * np.eye(2) for k in (1.0, 2.0, 3.0, 6.0)])
    >>> found = search_blocks(upper_blocks(X, METRICS["lem"]), np.array([0, 0, 1, 1]), (1, 1), measure=False)
    >>> found.between.index[:, 0].tolist()
    [2, 2, 1, 1]
    """
    within, between = (Nearest(len(labels), capacity) for capacity in capacities)
    total = 0.0
    for rows, columns, d2 in blocks:
        if measure:
            total += block_total(rows, columns, d2)
        offer_block(within, between, rows, columns, d2, labels[rows][:, None] == labels[columns])
    return Neighbors(within, between, mean_of(total, len(labels)) if measure else None)


def mean_of(total: float, count: int) -> float:
    """Mean over the pairs of `count` samples."""
    return total / (count * (count - 1) / 2)


def block_size(count: int) -> int:
    """Number of rows, and of columns, of a block of distances."""
    return max(1, min(count, int(BLOCK_PAIRS**0.5)))


def upper_blocks(X: Array, metric: Metric) -> Iterator[DistanceBlock]:
    """Squared distances of an array in blocks (rows, columns) with columns at or after rows, as NumPy arrays.

    Parameters
    ----------
    X : (N, n, n)
    metric : Metric

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import METRICS
    >>> from spdsl.data import upper_blocks
    >>> [(rows, columns, d2.shape) for rows, columns, d2 in upper_blocks(np.stack([np.eye(2)] * 5), METRICS["lem"])]
    [(slice(0, 5, None), slice(0, 5, None), (5, 5))]
    """
    N = X.shape[0]
    factors = metric.compact(backend.double(X))
    size = block_size(N)
    blocks = [slice(start, min(start + size, N)) for start in range(0, N, size)]
    for a, rows in enumerate(blocks):
        left = tuple(part[rows] for part in factors)
        for columns in blocks[a:]:
            yield rows, columns, backend.to_numpy(metric.cross(left, tuple(part[columns] for part in factors)))


def check_vectors(metric: Metric, *, bounds: bool = False) -> None:
    """Raise unless distances under the metric are Euclidean distances between vectors, or have such `bounds`."""
    if not metric.euclidean and not (bounds and metric.bounded):
        known = [name for name, one in METRICS.items() if one.euclidean or (bounds and one.bounded)]
        kind = "a Euclidean distance between vectors" + (", or bounded by one" if bounds else "")
        raise ValueError(
            f"solver={{'search': 'approximate'}} needs a metric that is {kind} ({', '.join(map(repr, known))}), got "
            f"{metric.name!r}; use 'exact'"
        )


def single_vectors(metric: Metric, X: Array, bound: LowerBound | None = None) -> np.ndarray:
    """Vectors of matrices under such a metric or its bound, in float32, which is precise enough for a search."""
    F = metric.compact(backend.double(X))
    return backend.to_numpy((F if bound is None else bound.factors(F))[0]).astype(np.float32)


def random_pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs (i, j) of different ones of `count` samples, drawn with a fixed seed."""
    rng = np.random.default_rng(0)
    i = rng.integers(count, size=MEASURED)
    return i, (i + 1 + rng.integers(count - 1, size=MEASURED)) % count


def sampled_mean(Z: np.ndarray) -> float:
    """Mean distance of random pairs of rows."""
    i, j = random_pairs(len(Z))
    parts = np.array_split(np.arange(MEASURED), 64)
    return float(np.mean(np.concatenate([np.linalg.norm(Z[i[s]] - Z[j[s]], axis=1) for s in parts])))
