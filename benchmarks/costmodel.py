"""What one iteration moves, computes and holds, as functions of the sizes; `docs/guide/scale.md` explains each line.

N matrices n x n, m columns of W, p pairs, s shards on w workers, t trials of the line search per iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

BLOCK = 8 << 20  # bytes read at once
KEEP = 512 << 20  # bytes of products that a stack on disk keeps
SMALL = 14  # arrays (N, m, m) alive at the same time, counted at the peak of an iteration under LEM
PAIR = 12  # arrays (p,) alive at the same time


@dataclass(frozen=True)
class Size:
    """The sizes of a fit; `item` is the bytes of a stored number."""

    N: int
    n: int
    m: int
    pairs: int
    shards: int = 1
    workers: int = 1
    item: int = 8

    @property
    def data(self) -> float:
        """Bytes of X."""
        return self.item * self.N * self.n**2

    @property
    def product_flops(self) -> float:
        """H'X, then H'X (W H), then the gradient: what is done with arrays that carry n."""
        return 2 * self.N * self.n**2 * self.m + 6 * self.N * self.n * self.m**2

    @property
    def small_flops(self) -> float:
        """Eigen-decomposition, logarithm and its derivative of N matrices m x m (about 30 m^3), and the pairs; per trial."""
        return 30 * self.N * self.m**3 + 8 * self.pairs * self.m**2

    @property
    def products(self) -> float:
        """Bytes of W'X and H'X."""
        return 16 * self.N * self.n * self.m

    @property
    def small(self) -> float:
        """Bytes of what is m x m, and of the pairs: this is on the driver wherever the data is."""
        return 8 * (SMALL * self.N * self.m**2 + PAIR * self.pairs)

    @property
    def disk_memory(self) -> float:
        """Bytes beside the interpreter of a fit on disk."""
        return 4 * BLOCK + (self.products if self.products <= KEEP else 0) + self.small

    @property
    def disk_read(self) -> float:
        """Bytes read per iteration."""
        return self.data * (1 if self.products <= KEEP else 2)

    @property
    def sent(self) -> float:
        """Bytes that leave the driver per iteration: W and H for the look, W and the triangles of S for the gradient."""
        return 8 * (3 * self.shards * self.n * self.m + self.N * self.m * (self.m + 1) / 2)

    @property
    def received(self) -> float:
        """Bytes that reach the driver per iteration: the triangles of A1 and A2, and one gradient a shard."""
        return 8 * (self.shards * self.n * self.m + self.N * self.m * (self.m + 1))

    @property
    def worker_memory(self) -> float:
        """Bytes on a worker: its shards, their products, and what is m x m of them."""
        return (self.data + self.products + 8 * 6 * self.N * self.m**2) / self.workers


@dataclass(frozen=True)
class Rates:
    """What a machine does in a second, measured."""

    read: float  # bytes of X through a pass: read and multiplied
    small: float  # matrices m x m, with their pairs, evaluated with their gradient
    wire: float = float("inf")  # bytes through driver and scheduler
    task: float = 0.0  # seconds a task takes beside its work


def disk_seconds(size: Size, rates: Rates, trials: float) -> float:
    """An iteration on disk."""
    return size.disk_read / rates.read + trials * size.N / rates.small


def cluster_seconds(size: Size, rates: Rates, trials: float) -> float:
    """An iteration on a cluster: the workers in parallel, then what passes through the driver, then the driver's own work."""
    wire = (size.sent + size.received) / rates.wire + 2 * size.shards * rates.task
    return size.data / (rates.read * size.workers) + wire + trials * size.N / rates.small
