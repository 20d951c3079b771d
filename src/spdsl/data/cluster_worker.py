"""What runs on the workers of a cluster: shards of the samples, seen through W.

The products with W and H that a fit keeps for a shard live in the worker process as long as the shard, and may be lost
with it: every order carries W, from which missing products are recomputed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from spdsl.backend import Array
from spdsl.data import recentering
from spdsl.data.base import Data, View
from spdsl.data.bounded_search import make_block, offer_bounded
from spdsl.data.disk import DiskData
from spdsl.data.duplicates import digest
from spdsl.data.memory import MemoryData
from spdsl.data.neighbor_search import (
    BlockSummary,
    Capacities,
    Nearest,
    block_size,
    block_total,
    offer_block,
    single_vectors,
)
from spdsl.data.readers import FileReader
from spdsl.data.validation import check_part
from spdsl.geometry import LowerBound, Metric


class Step(NamedTuple):
    """A move of W: `W <- (W + t H) right`, with the H of the last `look`."""

    look: int
    t: float
    right: Array | None


class Order(NamedTuple):
    """The W that a shard of a fit should be at: `version`, reached from the version before by `moves`."""

    token: str
    shard: int
    version: int
    W: np.ndarray
    moves: tuple[Step | float, ...] = ()  # a float scales W


@dataclass
class _Kept:
    """The view of a shard, the version of W that it is at, and the number of the last look."""

    view: Any
    version: int
    look: int = 0


_kept: dict[tuple[str, int], _Kept] = {}


class Shard:
    """A part of the samples: an array in the worker's memory."""

    def __init__(self, data: Any, label: str = "a chunk of the Dask array") -> None:
        self.data, self.label = data, label

    @cached_property
    def content(self) -> str:
        """Digest of all numbers: a shard that a worker loads again, after another one died, must be the same."""
        found = hashlib.blake2b(digest_size=16)
        for block in self.blocks():
            found.update(np.ascontiguousarray(block).view(np.uint8).data)
        return found.hexdigest()

    def __sizeof__(self) -> int:
        """What Dask counts as the memory of a shard."""
        return int(self.data.nbytes)

    def blocks(self) -> Iterator[np.ndarray]:
        """The matrices, in parts."""
        return iter([np.asarray(self.data)])

    def check(self, first: int, name: str, precision: str) -> None:
        """As `Data.check`; messages count from `first`."""
        check_part(self.data, first, name=name, precision=precision)

    def as_data(self, precision: str = "double") -> Data:
        """The samples to compute with."""
        kind = np.float32 if precision == "mixed" else np.float64
        return MemoryData(np.asarray(self.data).astype(kind, copy=False), precision)


class FileShard(Shard):
    """A part of the samples that the worker reads: `DiskData`, which has its own precision."""

    def __sizeof__(self) -> int:
        return 0

    def blocks(self) -> Iterator[np.ndarray]:
        return (block for _, block in self.data.blocks())

    def check(self, first: int, name: str, precision: str) -> None:
        self.data.check(name, first)

    def as_data(self, precision: str = "double") -> Data:
        return self.data


def load(path: str, in_memory: bool, precision: str) -> Shard:
    """A file as a shard."""
    try:
        source = FileReader.npy(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}, on a worker; put the files where all workers can read them") from error
    if not in_memory and source.shape[0]:
        return FileShard(DiskData(source, precision), source.label)
    with source.reader() as read:
        return Shard(read(0, source.shape[0]), source.label)


def describe(shard: Shard) -> tuple[tuple[int, ...], str]:
    """Shape and content of a shard."""
    return tuple(shard.data.shape), shard.content


def on_same(function: Callable[..., Any], content: str, shard: Shard, *arguments: Any) -> Any:
    """`function(shard, ...)`, or an error if the shard was loaded again and is another one now."""
    if shard.content != content:
        raise OSError(f"{shard.label} was changed after it was first read; do not modify it during a fit")
    return function(shard, *arguments)


def check(shard: Shard, first: int, name: str, precision: str) -> str | None:
    """The error of the first invalid matrix of a shard, named by its index in the whole, or None."""
    try:
        shard.check(first, name, precision)
    except ValueError as error:
        return str(error)
    return None


def digests(shard: Shard) -> list[bytes]:
    """A digest of every matrix."""
    return [digest(matrix) for block in shard.blocks() for matrix in block]


def unit_mean(shard: Shard) -> np.ndarray:
    """Mean of the matrices scaled to trace 1."""
    return shard.as_data().unit_mean()


def reduce(shard: Shard, W: np.ndarray) -> np.ndarray:
    """Triangles of `W'XW`."""
    return pack(shard.as_data().reduce(W))


def trace_sum(shard: Shard) -> float:
    """Sum of the traces of the matrices."""
    return sum(recentering.trace_sum(block) for block in shard.blocks())


def log_sum(shard: Shard, unit: float) -> np.ndarray:
    """Sum of the logarithms of `unit X_i`."""
    return sum(recentering.log_sum(block, unit) for block in shard.blocks())


def log_moments(shard: Shard, G: np.ndarray) -> recentering.Moments:
    """Sums over the logarithms of `G X_i G`."""
    return recentering.add_moments(recentering.log_moments(block, G) for block in shard.blocks())


def vectors(shard: Shard, metric: Metric) -> np.ndarray:
    """Vectors under a Euclidean metric."""
    return np.concatenate([single_vectors(metric, block) for block in shard.blocks()])


def map_log_vectors(shard: Shard, A: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """`function` of the log-vectors of `A'X_i A`."""
    return np.concatenate([MemoryData(block).map_log_vectors(A, function) for block in shard.blocks()])


# ---------------------------------------------------------------------- the View protocol


def start(shard: Shard, order: Order, precision: str) -> np.ndarray:
    """Upper triangles of P at W, computed from the data."""
    view = _view(shard, order.W, precision)
    P = view.start(order.W)
    _keep(shard, order, view)
    return pack(P)


def look(shard: Shard, order: Order, precision: str, number: int, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Upper triangles of A1 and A2 along H."""
    kept = _at(shard, order, precision)
    first, second = kept.view.look(H)
    kept.look = number
    return pack(first), pack(second)


def gradient(shard: Shard, order: Order, precision: str, S: np.ndarray) -> np.ndarray:
    """The shard's part of the gradient, given the upper triangles of S."""
    return _at(shard, order, precision).view.gradient(unpack(S, order.W.shape[1]))


def forget(token: str) -> None:
    """Drop what is kept for fits whose tokens start with this prefix."""
    for key in list(_kept):
        if key[0].startswith(token):
            _kept.pop(key, None)


def _at(shard: Shard, order: Order, precision: str) -> _Kept:
    """The view of the shard at the requested version: as kept, moved from the version before, or made anew."""
    kept = _kept.get((order.token, order.shard))
    if kept is not None and kept.version == order.version:
        return kept
    if kept is not None and kept.version == order.version - len(order.moves):
        # if another worker did the last look, the H kept here is an older one
        known = all(move.look == kept.look for move in order.moves if isinstance(move, Step))
        if known:
            return _moved(kept, order)
    view = _view(shard, order.W, precision)
    view.start(order.W)
    return _keep(shard, order, view)


def _moved(kept: _Kept, order: Order) -> _Kept:
    """Make the moves that lead to the requested version."""
    kept.version = -1  # until all are made, so that a failed move is not mistaken for a completed one
    for move in order.moves:
        if isinstance(move, Step):
            kept.view.step(move.t, move.right)
        else:
            kept.view.scale(move)
    kept.version = order.version
    return kept


def _keep(shard: Shard, order: Order, view: View) -> _Kept:
    """Keep a view as long as its shard, so that a driver that dies, or does not release, leaves nothing behind."""
    key = order.token, order.shard
    if key not in _kept:
        finalize(shard, _kept.pop, key, None).atexit = False
    kept = _kept[key] = _Kept(view, order.version)
    return kept


def _view(shard: Shard, W: np.ndarray, precision: str) -> View:
    return shard.as_data(precision).view(W.shape[1])


def pack(A: np.ndarray) -> np.ndarray:
    """Upper triangles (N, m (m + 1) / 2) of symmetric matrices."""
    return A[(slice(None), *np.triu_indices(A.shape[-1]))]


def unpack(triangles: np.ndarray, m: int) -> np.ndarray:
    """Symmetric matrices (N, m, m) from their upper triangles."""
    row, column = np.triu_indices(m)
    A = np.empty((len(triangles), m, m))
    A[:, row, column] = triangles
    A[:, column, row] = triangles
    return A


# ---------------------------------------------------------------------- distances between shards


def sampled(shard: Shard, places: np.ndarray) -> np.ndarray:
    """Some matrices of a shard."""
    found, first = [], 0
    for block in shard.blocks():
        here = places[(places >= first) & (places < first + len(block))]
        found.append(np.asarray(block, float)[here - first])
        first += len(block)
    return np.concatenate(found)


def compact(shard: Shard, metric: Metric, bound: LowerBound | None = None) -> tuple[tuple[np.ndarray, ...], ...]:
    """What the distances need of the samples of a shard, and what their lower bounds need."""
    parts = [metric.compact(np.asarray(block, float)) for block in shard.blocks()]
    F = tuple(np.concatenate(column) for column in zip(*parts, strict=True))
    return F, () if bound is None else bound.factors(F)


class Sides(NamedTuple):
    """Samples of two shards, or of one: places of the first ones, labels, and how far their lists reach by now."""

    places: tuple[int, int]
    labels: np.ndarray
    limits: tuple[np.ndarray, np.ndarray]


def summarize_pair(
    left: tuple[tuple[np.ndarray, ...], ...],
    right: tuple[tuple[np.ndarray, ...], ...] | None,
    sides: Sides,
    capacities: Capacities,
    metric: Metric,
    bound: LowerBound | None = None,
) -> BlockSummary:
    """Distances between two shards, or within one, reduced to the nearest neighbors of each sample.

    `places` are the indices of the first samples of both; `labels` and `limits` those of the left, then of the right.
    """
    a = len(left[0][0])
    other, offset = (left, 0) if right is None else (right, a)
    count = offset + len(other[0][0])
    lists = [Nearest(count, capacity) for capacity in capacities]
    for one, limit in zip(lists, sides.limits, strict=True):
        one.limit = limit
    total, size = 0.0, block_size(count)
    for top in range(0, a, size):
        rows = slice(top, min(top + size, a))
        there = [tuple(part[rows] for part in parts) for parts in left]
        for begin in range(top if right is None else 0, len(other[0][0]), size):
            columns = slice(offset + begin, offset + min(begin + size, len(other[0][0])))
            here = [tuple(part[begin : begin + size] for part in parts) for parts in other]
            same = sides.labels[rows][:, None] == sides.labels[columns]
            if bound is not None:
                offer_bounded(lists[0], lists[1], make_block(metric, bound, rows, columns, there, here), same)
                continue
            d2 = metric.cross(there[0], here[0])
            total += block_total(rows, columns, d2)
            offer_block(lists[0], lists[1], rows, columns, d2, same)
    place = sides.places[0] + np.arange(count)
    place[a:] += sides.places[1] - sides.places[0] - a
    offers = [[(place, place[one.index], one.d2)] if one.capacity else [] for one in lists]
    return BlockSummary(total, *offers)
