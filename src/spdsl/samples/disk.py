"""Samples on disk: every pass reads them in blocks, and no pass holds more than a few blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spdsl import arrays
from spdsl.arrays import Array
from spdsl.metrics import Metric
from spdsl.samples.base import DistanceBlock
from spdsl.samples.copies import copies_by_digest, row_digests
from spdsl.samples.memory import MemorySamples, single_vectors, unit_sum
from spdsl.samples.sources import ChosenSource, Source, stream
from spdsl.samples.spool import Spool
from spdsl.stacks import RereadStack, Stack, StreamedStack
from spdsl.validation import check_part

KEEP_BYTES = 1 << 29  # products W'X and H'X up to this size are kept; beyond it the gradient reads the data once more


class DiskSamples:
    """A stack (N, n, n) that is read in blocks. `samples[index]` are some of its matrices, still on disk."""

    ndim = 3

    def __init__(self, source: Source, precision: str = "double", device: Any = None) -> None:
        if len(source.shape) != 3 or source.shape[1] != source.shape[2]:
            raise ValueError(f"{source.label} must have shape (n_matrices, n, n), got {tuple(source.shape)}")
        if 0 in source.shape:
            raise ValueError(f"{source.label} has no matrices: its shape is {tuple(source.shape)}; choose one or more")
        self.source, self.precision, self.device = source, precision, device
        self.shape = source.shape
        self.model = self._moved(np.empty((0, *source.shape[1:])))
        self._digests: list[bytes] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> DiskSamples:
        index = index[0] if isinstance(index, tuple) else index  # scikit-learn asks for [index, ...]
        chosen = np.arange(len(self))[index]
        if chosen.ndim != 1:
            raise TypeError(f"choose samples by a slice or a list of indices, got {index!r}")
        return DiskSamples(ChosenSource(self.source, chosen), self.precision, self.device)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError(
            f"{self.source.label} is read in blocks, by SPDSL and SPDML only: for other methods load it, e.g. np.load(path)"
        )

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Blocks (b, n, n) as they are computed with; a block is overwritten when the next but one is read."""
        for where, block in stream(self.source):
            yield where, self._moved(block)

    def _moved(self, block: np.ndarray) -> Array:
        """A block on the device and in the precision of the products."""
        single = self.precision == "mixed"
        return arrays.to_device(block.astype(np.float32 if single else np.float64, copy=False), self.device)

    def check(self, name: str = "X", first: int = 0) -> None:
        """As for all samples; messages count from `first`, for a part of a larger stack."""
        digests: list[bytes] = []
        for where, block in stream(self.source):
            checked = check_part(block, first + where.start, name=name, precision=self.precision)
            digests += row_digests(checked)
        self._digests = digests

    def to_device(self, device: Any) -> DiskSamples:
        if device is None:
            return self
        moved = DiskSamples(self.source, self.precision, device)
        moved._digests = self._digests
        return moved

    def unit_mean(self) -> Array:
        return sum(unit_sum(block) for _, block in self.blocks()) / self.shape[0]

    def first_copies(self) -> np.ndarray:
        if self._digests is None:
            self._digests = [digest for _, block in stream(self.source) for digest in row_digests(block)]
        with self.source.reader() as read:
            return copies_by_digest(self._digests, lambda k: read(k, k + 1)[0])

    def sqdist_blocks(self, metric: Metric) -> Iterator[DistanceBlock]:
        with Spool(self.shape[0]) as spool:
            for _, block in self.blocks():
                spool.append(tuple(arrays.to_numpy(part) for part in metric.compact(arrays.double(block))))
            yield from spool.sqdist_blocks(metric)

    def vectors(self, metric: Metric) -> np.ndarray:
        return np.concatenate([single_vectors(metric, block) for _, block in self.blocks()])

    def stack(self, m: int) -> Stack:
        N, n, _ = self.shape
        if 2 * 8 * N * n * m > KEEP_BYTES:
            return RereadStack(self.blocks)
        return StreamedStack(self.blocks, N, self.model)

    def reduce(self, W: Array) -> Array:
        return arrays.concat([MemorySamples(block).reduce(W) for _, block in self.blocks()])

    def release(self) -> None:
        """Nothing was taken: files are open during a pass only."""
