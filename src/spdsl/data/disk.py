"""Samples on disk and their views: every pass reads blocks and holds only a few of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spdsl import backend
from spdsl.backend import Array, namespace, symmetric
from spdsl.data.base import Data, View
from spdsl.data.bounded_search import BoundBlock, Evaluate, make_block, vector_bound
from spdsl.data.duplicates import copies_by_digest, row_digests
from spdsl.data.factor_file import FactorFile
from spdsl.data.memory import MemoryData, MemoryView, unit_sum
from spdsl.data.neighbor_search import (
    Capacities,
    DistanceBlock,
    Neighbors,
    single_vectors,
)
from spdsl.data.readers import Reader, SelectedReader, stream
from spdsl.data.recentering import Moments, Recentering, add_moments, log_moments, log_sum, recentering_of, trace_sum
from spdsl.data.search import search
from spdsl.data.validation import check_part
from spdsl.geometry import LowerBound, Metric
from spdsl.geometry.lower_bounds import sample_places

PAIR_BYTES = 1 << 27  # matrices of pairs that are read at once, where single pairs are compared
KEEP_BYTES = 1 << 29  # larger products W'X and H'X are not kept: the gradient then reads the data once more


class DiskData(Data):
    """Matrices (N, n, n) that are read in blocks. `data[index]` selects some of them, still on disk.

    Parameters
    ----------
    source : Reader
        Reads the blocks; `as_data` makes one of a path, a memory map, or an HDF5 or Zarr array.
    precision : {"double", "mixed"}
    device : device, optional
        Where blocks are moved to be computed on.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.data import DiskData, as_data
    >>> np.save("stack.npy", np.stack([np.eye(3)] * 6))
    >>> isinstance(as_data("stack.npy"), DiskData)
    True
    """

    ndim = 3

    def __init__(self, source: Reader, precision: str = "double", device: Any = None) -> None:
        if len(source.shape) != 3 or source.shape[1] != source.shape[2]:
            raise ValueError(f"{source.label} must have shape (n_matrices, n, n), got {tuple(source.shape)}")
        if 0 in source.shape:
            raise ValueError(
                f"{source.label} has no matrices: its shape is {tuple(source.shape)}; provide at least one"
            )
        self.source, self.precision, self.device = source, precision, device
        self.single = precision == "mixed"
        self.shape = source.shape
        self.model = self._moved(np.empty((0, *source.shape[1:])))
        self._digests: list[bytes] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> DiskData:
        index = index[0] if isinstance(index, tuple) else index  # scikit-learn asks for [index, ...]
        chosen = np.arange(len(self))[index]
        if chosen.ndim != 1:
            raise TypeError(f"samples must be selected by a slice or a list of indices, got {index!r}")
        return DiskData(SelectedReader(self.source, chosen), self.precision, self.device)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError(
            f"{self.source.label} is read in blocks, which only SPDSL and SPDML support; "
            f"for other methods load it, e.g. np.load(path)"
        )

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Blocks (b, n, n) on the device; a block is overwritten when the next but one is read."""
        for where, block in stream(self.source):
            yield where, self._moved(block)

    def _moved(self, block: np.ndarray) -> Array:
        """A block on the device and in the precision of the products."""
        return backend.to_device(block.astype(np.float32 if self.single else np.float64, copy=False), self.device)

    def check(self, name: str = "X", first: int = 0) -> None:
        """As in `Data`; messages count from `first`, for a part of a larger stack."""
        digests: list[bytes] = []
        for where, block in stream(self.source):
            checked = check_part(block, first + where.start, name=name, precision=self.precision)
            digests += row_digests(checked)
        self._digests = digests

    def to_device(self, device: Any) -> DiskData:
        if device is None:
            return self
        moved = DiskData(self.source, self.precision, device)
        moved._digests = self._digests
        return moved

    def unit_mean(self) -> Array:
        return sum(unit_sum(block) for _, block in self.blocks()) / self.shape[0]

    def first_copies(self) -> np.ndarray:
        if self._digests is None:
            self._digests = [digest for _, block in stream(self.source) for digest in row_digests(block)]
        with self.source.reader() as read:
            return copies_by_digest(self._digests, lambda k: read(k, k + 1)[0])

    def neighbors(
        self, metric: Metric, labels: np.ndarray, capacities: Capacities, *, measure: bool, approximate: bool
    ) -> Neighbors:
        return search(self, metric, labels, capacities, measure=measure, approximate=approximate)

    def sqdist_blocks(self, metric: Metric) -> Iterator[DistanceBlock]:
        """Squared distances block by block, through a temporary file of the factors that the metric needs."""
        with FactorFile(self.shape[0]) as file:
            for _, block in self.blocks():
                file.append(tuple(backend.to_numpy(part) for part in metric.compact(backend.double(block))))
            yield from file.sqdist_blocks(metric)

    def vectors(self, metric: Metric) -> np.ndarray:
        """As of samples in memory."""
        bound = vector_bound(metric, self._sample)
        return np.concatenate([single_vectors(metric, block, bound) for _, block in self.blocks()])

    def evaluator(self, metric: Metric) -> Evaluate | None:
        """As of samples in memory; what a pair needs is read again."""
        if metric.euclidean:
            return None
        step = max(1, PAIR_BYTES // (2 * 8 * int(np.prod(self.shape[1:]))))

        def evaluate(i: np.ndarray, j: np.ndarray) -> np.ndarray:
            d2 = np.empty(len(i))
            for s in (slice(start, start + step) for start in range(0, len(i), step)):
                places, index = np.unique(np.concatenate([i[s], j[s]]), return_inverse=True)
                F = metric.compact(self._moved(self._read(places)))
                left, right = (backend.like(part, F[0]) for part in np.split(index, 2))
                d2[s] = backend.to_numpy(metric.matched(F, left, F, right))
            return d2

        return evaluate

    def _sample(self) -> np.ndarray:
        return self._read(sample_places(self.shape[0])).astype(float)

    def _read(self, places: np.ndarray) -> np.ndarray:
        """Some of the matrices."""
        with SelectedReader(self.source, places).reader() as read:
            return read(0, len(places))

    def bound_blocks(self, metric: Metric) -> Iterator[BoundBlock]:
        """Lower bounds block by block, through a temporary file of what the distances and the bounds need."""
        bound = LowerBound.around(metric, self._sample())
        with FactorFile(self.shape[0]) as file:
            for _, block in self.blocks():
                F = metric.compact(backend.double(block))
                count = len(F)
                parts = F if bound is None else (*F, *bound.factors(F))
                file.append(tuple(backend.to_numpy(part) for part in parts))
            for row, column, *sides in file.block_pairs():
                left, right = ([side[:count], side[count:]] for side in sides)
                yield make_block(metric, bound, row, column, left, right)

    def recentering(self) -> Recentering:
        return recentering_of(
            self.shape,
            sum(trace_sum(block) for _, block in self.blocks()),
            lambda unit: sum(log_sum(block, unit) for _, block in self.blocks()),
            self.log_moments,
        )

    def log_moments(self, G: Array) -> Moments:
        return add_moments(log_moments(block, G) for _, block in self.blocks())

    def map_log_vectors(self, A: Array, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        return np.concatenate([MemoryData(block).map_log_vectors(A, function) for _, block in self.blocks()])

    def view(self, m: int) -> View:
        N, n, _ = self.shape
        if 2 * 8 * N * n * m > KEEP_BYTES:
            return RereadView(self.blocks)
        return StreamedView(self.blocks, N, self.model)

    def reduce(self, W: Array) -> Array:
        return backend.concat([MemoryData(block).reduce(W) for _, block in self.blocks()])


Blocks = Callable[[], Iterator[tuple[slice, Array]]]  # each call starts a pass


class StreamedView(MemoryView):
    """X read in blocks; `W'X_i` and `H'X_i` are kept, so that an iteration reads X only once, as in memory.

    Parameters
    ----------
    blocks : function that starts a pass and returns an iterator of `(where, block)`
    count : N
    model : empty stack (0, n, n) of the array library and device of the blocks
    """

    def __init__(self, blocks: Blocks, count: int, model: Array) -> None:
        super().__init__(model)
        self.blocks, self.count = blocks, count

    def _pass(self, H: Array, right: Array, out: Array) -> Array:
        self.passes += 1
        parts = [part for where, block in self.blocks() for part in self.products(block, H, right, out[where])]
        return backend.concat(parts).reshape(-1, H.shape[1], right.shape[1])


class RereadView:
    """X read in blocks where arrays of size N n m do not fit: the gradient takes a second pass, and no drift builds up."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.passes = 0
        self.W: Any = None
        self.P: Any = None  # at W, as long as that has not moved

    def start(self, W: Array) -> Array:
        if W is not self.W or self.P is None:
            self.W = W
            self.P = self.refresh()
        return self.P

    def refresh(self) -> Array:
        return symmetric(self._between(self.W, self.W))

    def look(self, H: Array) -> tuple[Array, Array]:
        self.H = H
        both = self._between(H, namespace(H).concat([self.W, H], axis=1))
        cross = both[:, :, : H.shape[1]]
        return cross + cross.mT, symmetric(both[:, :, H.shape[1] :])

    def step(self, t: float, right: Array | None = None) -> Array:
        self.W, self.P = self.W + t * self.H, None
        if right is not None:
            self.W = self.W @ right
        return self.W

    def scale(self, factor: float) -> Array:
        self.W = self.W * factor
        self.P = None if self.P is None else self.P * factor**2
        return self.W

    def gradient(self, S: Array) -> Array:
        total = namespace(S).zeros_like(self.W)
        for where, block in self._pass():
            part = MemoryView(block)
            part.start(self.W)
            total += part.gradient(S[where])
        return total

    def _between(self, H: Array, right: Array) -> Array:
        """`H'X_i right` (N, m, k)."""
        parts: list[Array] = []
        out: Any = None
        for _, block in self._pass():
            part = MemoryView(block)
            out = part.buffer(out, H)
            size, unit = part.sized(H)
            parts += [size * product for product in part.products(block, unit, right, out)]
        return backend.concat(parts).reshape(-1, H.shape[1], right.shape[1])

    def _pass(self) -> Iterator[tuple[slice, Array]]:
        self.passes += 1
        return self.blocks()
