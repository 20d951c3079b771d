"""What runs on the workers of a cluster: shards of the samples, seen through W.

What a fit keeps beside a shard, the products with W and H, is kept in the worker's process as long as the shard, and may
be lost with it: every order carries W, from which it is computed again where it is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from spdsl.arrays import Array
from spdsl.graphs import block_size
from spdsl.metrics import Metric
from spdsl.samples.base import Samples
from spdsl.samples.copies import digest
from spdsl.samples.disk import DiskSamples
from spdsl.samples.memory import MemorySamples, single_vectors
from spdsl.samples.sources import FileSource
from spdsl.search import BlockSummary, Nearest, block_total, offer_block
from spdsl.stacks import Stack


class Step(NamedTuple):
    """A move of W: `W <- (W + t H) right`, with the H of that look."""

    look: int
    t: float
    right: Array | None


class Order(NamedTuple):
    """Which shard of which fit is to be where: at W, which is `version`, reached from the version before by `moves`."""

    token: str
    shard: int
    version: int
    W: np.ndarray
    moves: tuple[Step | float, ...] = ()  # a number scales W


@dataclass
class _Kept:
    """A shard's stack, the version of W that it is at, and the number of the last look."""

    stack: Any
    version: int
    look: int = 0


_kept: dict[tuple[str, int], _Kept] = {}


class Shard:
    """A part of the samples: an array in the worker's memory, or `DiskSamples` that the worker reads."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __sizeof__(self) -> int:
        """What Dask counts as the memory of a shard."""
        return 0 if isinstance(self.data, DiskSamples) else int(self.data.nbytes)

    def blocks(self) -> Iterator[np.ndarray]:
        """The matrices, a part at a time."""
        if isinstance(self.data, DiskSamples):
            return (block for _, block in self.data.blocks())
        return iter([np.asarray(self.data)])


def load(path: str, in_memory: bool, precision: str) -> Shard:
    """A file as a shard."""
    try:
        source = FileSource.npy(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}, as a worker sees it: put files where all workers can read them") from error
    if not in_memory and source.shape[0]:
        return Shard(DiskSamples(source, precision))
    with source.reader() as read:
        return Shard(read(0, source.shape[0]))


def describe(shard: Shard) -> tuple[int, ...]:
    """Shape of a shard."""
    return tuple(shard.data.shape)


def check(shard: Shard, first: int, name: str, precision: str) -> str | None:
    """What is wrong with the first bad matrix of a shard, named by its index among all, or None."""
    from spdsl.validation import check_part

    try:
        if isinstance(shard.data, DiskSamples):
            shard.data.check(name, first)
        else:
            check_part(shard.data, first, name=name, precision=precision)
    except ValueError as error:
        return str(error)
    return None


def digests(shard: Shard) -> list[bytes]:
    """A digest of every matrix."""
    return [digest(matrix) for block in shard.blocks() for matrix in block]


def unit_mean(shard: Shard) -> np.ndarray:
    """Mean of the matrices scaled to trace 1."""
    return _samples(shard).unit_mean()


def reduce(shard: Shard, W: np.ndarray) -> np.ndarray:
    """Triangles of `W'XW`."""
    return pack(_samples(shard).reduce(W))


def vectors(shard: Shard, metric: Metric) -> np.ndarray:
    """Vectors of a flat metric."""
    return np.concatenate([single_vectors(metric, block) for block in shard.blocks()])


# ---------------------------------------------------------------------- what the solver asks for


def start(shard: Shard, order: Order, precision: str) -> np.ndarray:
    """Triangles of P at W, computed from the data."""
    stack = _stack(shard, order.W, precision)
    P = stack.start(order.W)
    _keep(shard, order, stack)
    return pack(P)


def look(shard: Shard, order: Order, precision: str, number: int, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Triangles of A1 and A2 along H."""
    kept = _at(shard, order, precision)
    first, second = kept.stack.look(H)
    kept.look = number
    return pack(first), pack(second)


def gradient(shard: Shard, order: Order, precision: str, S: np.ndarray) -> np.ndarray:
    """The shard's part of the gradient, for triangles of S."""
    return _at(shard, order, precision).stack.gradient(unpack(S, order.W.shape[1]))


def forget(token: str) -> None:
    """Drop what is kept for fits whose tokens begin so."""
    for key in list(_kept):
        if key[0].startswith(token):
            _kept.pop(key, None)


def _at(shard: Shard, order: Order, precision: str) -> _Kept:
    """The shard's stack at the version asked for: as kept, moved on from the version before, or made anew."""
    kept = _kept.get((order.token, order.shard))
    if kept is not None and kept.version == order.version:
        return kept
    if kept is not None and kept.version == order.version - len(order.moves):
        # a look that another worker took over would leave the H of an earlier one here
        known = all(move.look == kept.look for move in order.moves if isinstance(move, Step))
        if known:
            return _moved(kept, order)
    stack = _stack(shard, order.W, precision)
    stack.start(order.W)
    return _keep(shard, order, stack)


def _moved(kept: _Kept, order: Order) -> _Kept:
    """Make the moves that led to the version asked for."""
    kept.version = -1  # until all are made: a move that fails half-way must not be taken for one that was made
    for move in order.moves:
        if isinstance(move, Step):
            kept.stack.step(move.t, move.right)
        else:
            kept.stack.scale(move)
    kept.version = order.version
    return kept


def _keep(shard: Shard, order: Order, stack: Stack) -> _Kept:
    """Keep a stack as long as its shard: a driver that dies, or forgets to release, leaves nothing behind."""
    key = order.token, order.shard
    if key not in _kept:
        finalize(shard, _kept.pop, key, None).atexit = False
    kept = _kept[key] = _Kept(stack, order.version)
    return kept


def _samples(shard: Shard, precision: str = "double") -> Samples:
    if isinstance(shard.data, DiskSamples):
        return shard.data
    kind = np.float32 if precision == "mixed" else np.float64
    return MemorySamples(np.asarray(shard.data).astype(kind, copy=False), precision)


def _stack(shard: Shard, W: np.ndarray, precision: str) -> Stack:
    return _samples(shard, precision).stack(W.shape[1])


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


def compact(shard: Shard, metric: Metric) -> tuple[np.ndarray, ...]:
    """What distances need of the samples of a shard."""
    parts = [metric.compact(np.asarray(block, float)) for block in shard.blocks()]
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def summarise_pair(
    left: tuple[np.ndarray, ...],
    right: tuple[np.ndarray, ...] | None,
    places: Sequence[int],
    labels: np.ndarray,
    capacities: tuple[int | None, int | None],
    metric: Metric,
) -> BlockSummary:
    """Distances between two shards, or within one, reduced to the nearest of each of their samples.

    `places` are the indices of the first samples of both; `labels` those of the left, then of the right.
    """
    a = len(left[0])
    factors, offset = (left, 0) if right is None else (right, a)
    count = offset + len(factors[0])
    lists = [Nearest(count, capacity) for capacity in capacities]
    total, size = 0.0, block_size(count)
    for top in range(0, a, size):
        rows = slice(top, min(top + size, a))
        for begin in range(top if right is None else 0, len(factors[0]), size):
            columns = slice(offset + begin, offset + min(begin + size, len(factors[0])))
            here, there = (tuple(part[begin : begin + size] for part in factors), tuple(part[rows] for part in left))
            d2 = metric.cross(there, here)
            total += block_total(rows, columns, d2)
            offer_block(lists[0], lists[1], rows, columns, d2, labels[rows][:, None] == labels[columns])
    place = places[0] + np.arange(count)
    place[a:] += places[1] - places[0] - a
    offers = [[(place, place[one.index], one.d2)] if one.capacity else [] for one in lists]
    return BlockSummary(total, *offers)
