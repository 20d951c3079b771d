"""What a learner asks of its samples, wherever they are: N SPD matrices n x n."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from spdsl.arrays import Array
from spdsl.metrics import Metric
from spdsl.stacks import Stack

DistanceBlock = tuple[slice, slice, np.ndarray]  # rows, columns at or behind them, squared distances


class Samples(Protocol):
    """N SPD matrices n x n in memory, on disk, as factors, or on a cluster."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """N, n, n."""

    @property
    def model(self) -> Array:
        """An empty stack (0, n, n) of the array library, on the device, in which answers come."""

    def check(self, name: str = "X") -> None:
        """Raise a ValueError that names the first sample which is not SPD, by its index among all."""

    def to_device(self, device: Any) -> Samples:
        """The same samples, computed with on `device`; None leaves them where they are."""

    def unit_mean(self) -> Array:
        """Mean (n, n) of the matrices, each scaled to trace 1."""

    def first_copies(self) -> np.ndarray:
        """For every sample the index of the first one equal to it."""

    def sqdist_blocks(self, metric: Metric) -> Iterator[DistanceBlock]:
        """Squared distances between the samples, block by block, columns at or behind rows."""

    def vectors(self, metric: Metric) -> np.ndarray:
        """Vectors (N, d), float32, whose Euclidean distance is that of a flat metric."""

    def stack(self, m: int) -> Stack:
        """The samples as the solver sees them, through W (n, m)."""

    def reduce(self, W: Array) -> Array:
        """Reduced matrices `W'XW` (N, m, m)."""

    def release(self) -> None:
        """Give back what was taken for a fit: memory of workers, open files. The samples stay usable."""
