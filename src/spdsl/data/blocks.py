"""Samples of several matrices: one W per block, squared distances summed over the blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from spdsl.backend import Array, namespace
from spdsl.data.base import Data, View
from spdsl.data.bounded_search import BoundBlock, Evaluate, joined
from spdsl.data.neighbor_search import Capacities, DistanceBlock, Neighbors
from spdsl.data.recentering import Recentering
from spdsl.data.search import search
from spdsl.geometry import Metric, of_single


class BlockData(Data):
    """N samples of b matrices n x n each, X (N, b, n, n).

    Parameters
    ----------
    parts : sequence of b MemoryData, or DiskData, of shape (N, n, n)
        Part k holds block k of every sample.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.data import BlockData, MemoryData
    >>> X = np.stack([np.eye(3)] * 4)
    >>> BlockData([MemoryData(X), MemoryData(2 * X)]).shape
    (4, 2, 3, 3)
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        if not parts:
            raise ValueError("X has no blocks: its shape must be (n_samples, n_blocks, n, n) with at least one block")
        self.parts = list(parts)
        self.single = self.parts[0].single
        self._describe()

    def _describe(self) -> None:
        self.shape = (self.parts[0].shape[0], len(self.parts), *self.parts[0].shape[1:])
        self.model = _stacked([part.model for part in self.parts])

    def check(self, name: str = "X") -> None:
        for k, part in enumerate(self.parts):
            part.check(f"{name}[:, {k}]")
        self._describe()

    def to_device(self, device: Any) -> BlockData:
        return BlockData([part.to_device(device) for part in self.parts])

    def unit_mean(self) -> Array:
        return _stacked([part.unit_mean() for part in self.parts], axis=0)

    def first_copies(self) -> np.ndarray:
        """A sample is a duplicate if all of its blocks are."""
        rows = np.stack([part.first_copies() for part in self.parts], axis=1)
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        return first[inverse.reshape(-1)]

    def neighbors(
        self, metric: Metric, labels: np.ndarray, capacities: Capacities, *, measure: bool, approximate: bool
    ) -> Neighbors:
        return search(self, of_single(metric), labels, capacities, measure=measure, approximate=approximate)

    def sqdist_blocks(self, metric: Metric) -> Iterator[DistanceBlock]:
        """Sums of the blocks' squared distances, under the metric of a single matrix; so below."""
        for same in zip(*(part.sqdist_blocks(metric) for part in self.parts), strict=True):
            yield same[0][0], same[0][1], sum(d2 for _, _, d2 in same)

    def bound_blocks(self, metric: Metric) -> Iterator[BoundBlock]:
        return map(joined, zip(*(part.bound_blocks(metric) for part in self.parts), strict=True))

    def vectors(self, metric: Metric) -> np.ndarray:
        return np.concatenate([part.vectors(metric) for part in self.parts], axis=1)

    def evaluator(self, metric: Metric) -> Evaluate | None:
        parts = [part.evaluator(metric) for part in self.parts]
        return None if None in parts else lambda i, j: np.asarray(sum(part(i, j) for part in parts))

    def recentering(self) -> Recentering | None:
        parts = [part.recentering() for part in self.parts]
        return Recentering(*(_stacked(list(same), axis=0) for same in zip(*parts, strict=True)))

    def base_map(self, found: Recentering) -> Array:
        each = (Recentering(*same) for same in zip(*found, strict=True))
        return _stacked([part.base_map(own) for part, own in zip(self.parts, each, strict=True)], axis=0)

    def map_log_vectors(self, A: Array, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The vectors of the blocks are joined."""
        parts = [part.map_log_vectors(A[k], lambda V: V) for k, part in enumerate(self.parts)]
        return function(np.concatenate(parts, axis=1))

    def view(self, m: int) -> View:
        return BlockView([part.view(m) for part in self.parts])

    def bytes_needed(self, m: int) -> int | None:
        needed = [part.bytes_needed(m) for part in self.parts]
        return None if None in needed else sum(needed)

    def release(self) -> None:
        for part in self.parts:
            part.release()

    def close(self) -> None:
        for part in self.parts:
            part.close()


class BlockView:
    """Each block seen through its own W (n, m); W is (b, n, m) and P (N, b, m, m)."""

    def __init__(self, views: Sequence[View]) -> None:
        self.views = list(views)
        self.passes = 0
        self._W: list[Array] = []
        self._of: Any = None

    def start(self, W: Array) -> Array:
        if W is not self._of:
            self._of, self._W = W, [W[k] for k in range(len(self.views))]
        return self._read([view.start(part) for view, part in zip(self.views, self._W, strict=True)])

    def refresh(self) -> Array:
        return self._read([view.refresh() for view in self.views])

    def look(self, H: Array) -> tuple[Array, Array]:
        both = [view.look(H[k]) for k, view in enumerate(self.views)]
        return self._read([first for first, _ in both]), _stacked([second for _, second in both])

    def step(self, t: float, right: Array | None = None) -> Array:
        return self._keep([view.step(t, None if right is None else right[k]) for k, view in enumerate(self.views)])

    def scale(self, factor: float) -> Array:
        return self._keep([view.scale(factor) for view in self.views])

    def gradient(self, S: Array) -> Array:
        gradient = _stacked([view.gradient(S[:, k]) for k, view in enumerate(self.views)], axis=0)
        self.passes = self.views[0].passes
        return gradient

    def _read(self, parts: list[Array]) -> Array:
        self.passes = self.views[0].passes
        return _stacked(parts)

    def _keep(self, W: list[Array]) -> Array:
        self._W, self._of = W, _stacked(W, axis=0)
        return self._of


def _stacked(parts: list[Array], axis: int = 1) -> Array:
    return namespace(parts[0]).stack(parts, axis=axis)
