"""A metric on samples of several matrices: the sum over the blocks."""

from __future__ import annotations

from spdsl.backend import Array, namespace
from spdsl.geometry.metric import Metric, Pullback


class BlockSum(Metric):
    """Squared distances of samples (b, m, m), `d2 = sum_k d2(P_k, Q_k)`; stacks are (N, b, m, m).

    Parameters
    ----------
    metric : Metric
        Metric of the single matrices.
    blocks : int
        Number b of matrices per sample.

    Examples
    --------
    >>> import spdsl
    >>> from spdsl.geometry import BlockSum
    >>> BlockSum(spdsl.METRICS["lem"], 2).name
    'lem'
    """

    def __init__(self, metric: Metric, blocks: int) -> None:
        self.metric, self.blocks = metric, blocks
        for trait in ("name", "aliases", "invariance", "scale_free", "cheap_pairs", "euclidean", "bounded", "formula"):
            setattr(self, trait, getattr(metric, trait))

    def factor(self, P: Array) -> tuple[Array, ...]:
        """The factors of all first blocks, then those of the second, and so on."""
        return tuple(part for k in range(self.blocks) for part in self.metric.factor(P[:, k]))

    def compact(self, P: Array) -> tuple[Array, ...]:
        return tuple(part for k in range(self.blocks) for part in self.metric.compact(P[:, k]))

    def cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        return sum(self.metric.cross(a, b) for a, b in zip(self._split(FA), self._split(FB), strict=True))

    def matched(self, FA: tuple[Array, ...], i: Array, FB: tuple[Array, ...], j: Array) -> Array:
        return sum(self.metric.matched(a, i, b, j) for a, b in zip(self._split(FA), self._split(FB), strict=True))

    def matrices(self, F: tuple[Array, ...]) -> Array:
        return namespace(F[0]).stack([self.metric.matrices(part) for part in self._split(F)], axis=1)

    def within(self, F: tuple[Array, ...]) -> Array:
        return sum(self.metric.within(part) for part in self._split(F))

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        parts = [self.metric.pairs(P[:, k], i, j) for k in range(self.blocks)]

        def pullback(c: Array) -> Array:
            return namespace(P).stack([pull(c) for _, pull in parts], axis=1)

        return sum(d2 for d2, _ in parts), pullback

    def _split(self, F: tuple[Array, ...]) -> list[tuple[Array, ...]]:
        count = len(F) // self.blocks
        return [F[k * count : (k + 1) * count] for k in range(self.blocks)]


def of_single(metric: Metric) -> Metric:
    """The metric of the single matrices.

    Parameters
    ----------
    metric : Metric
        A sum over blocks, or a metric that is returned as it is.

    Examples
    --------
    >>> import spdsl
    >>> from spdsl.geometry import BlockSum, of_single
    >>> of_single(BlockSum(spdsl.METRICS["lem"], 2)) is spdsl.METRICS["lem"]
    True
    """
    return metric.metric if isinstance(metric, BlockSum) else metric


def metric_for(metric: Metric, shape: tuple[int, ...]) -> Metric:
    """The metric for arrays of this shape: itself for (N, n, n), its sum over the blocks for (N, b, n, n).

    Parameters
    ----------
    metric : Metric
    shape : tuple of int

    Examples
    --------
    >>> import spdsl
    >>> from spdsl.geometry import metric_for
    >>> metric_for(spdsl.METRICS["lem"], (10, 2, 4, 4)).blocks
    2
    """
    return metric if len(shape) == 3 or isinstance(metric, BlockSum) else BlockSum(metric, shape[1])
