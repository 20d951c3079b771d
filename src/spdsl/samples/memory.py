"""Samples held in memory, as a NumPy array or a torch tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spdsl import arrays
from spdsl.arrays import Array, namespace, symmetric
from spdsl.graphs import upper_blocks
from spdsl.metrics import Metric
from spdsl.samples.base import DistanceBlock
from spdsl.samples.copies import first_copies
from spdsl.stacks import MemoryStack, Stack
from spdsl.validation import check_spd


class MemorySamples:
    """A stack (N, n, n) in memory. `check` also turns what users bring into a float64 array."""

    def __init__(self, X: Any, precision: str = "double") -> None:
        self.X, self.precision = X, precision

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.X.shape

    @property
    def model(self) -> Array:
        return self.X[:0]

    def check(self, name: str = "X") -> None:
        self.X = check_spd(self.X, name=name, precision=self.precision)

    def to_device(self, device: Any) -> MemorySamples:
        return MemorySamples(arrays.to_device(self.X, device, single=self.precision == "mixed"), self.precision)

    def unit_mean(self) -> Array:
        return unit_sum(self.X) / self.shape[0]

    def first_copies(self) -> np.ndarray:
        return first_copies(self.X)

    def sqdist_blocks(self, metric: Metric) -> Iterator[DistanceBlock]:
        return upper_blocks(self.X, metric)

    def vectors(self, metric: Metric) -> np.ndarray:
        n = self.shape[1]
        parts = arrays.map_blocks(lambda s: single_vectors(metric, self.X[s]), self.shape[0], 8 * n * n, on=self.X)
        return np.concatenate(list(parts))

    def stack(self, m: int) -> Stack:
        return MemoryStack(self.X)

    def reduce(self, W: Array) -> Array:
        return arrays.over_blocks(lambda block: symmetric(W.mT @ (arrays.double(block) @ W)), self.X)

    def release(self) -> None:
        """Nothing was taken."""


def single_vectors(metric: Metric, X: Array) -> np.ndarray:
    """Vectors of a flat metric in float32, which is all that a search needs."""
    return arrays.to_numpy(metric.compact(arrays.double(X))[0]).astype(np.float32)


def unit_sum(X: Array) -> Array:
    """Sum (n, n) of the matrices, each scaled to trace 1 so that none of them speaks for all."""
    N, n, _ = X.shape

    def part(s: slice) -> Array:
        block = arrays.double(X[s])
        return (1 / namespace(X).linalg.trace(block)) @ block.reshape(-1, n * n)

    return sum(arrays.map_blocks(part, N, 8 * n * n, on=X)).reshape(n, n)
