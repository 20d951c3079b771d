"""Samples that several fits and answers share: checked once, and reduced once by each W."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from spdsl.backend import Array
from spdsl.data.base import Data, View
from spdsl.data.neighbor_search import Capacities, Neighbors
from spdsl.data.recentering import Recentering
from spdsl.geometry import Metric


class CheckedOnce(Data):
    """Samples of which every answer is computed once, for as long as this object lives.

    The reduced matrices of every W are kept: use it for a few W, not for a search.

    Parameters
    ----------
    data : Data

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.data import CheckedOnce, as_data
    >>> data = CheckedOnce(as_data(np.stack([np.eye(3)] * 4)))
    >>> data.check()
    >>> W = np.eye(3, 2)
    >>> data.reduce(W) is data.reduce(W)
    True
    """

    def __init__(self, data: Data) -> None:
        self.data = data
        self._checked = False
        self._reduced: dict[int, tuple[Array, Array]] = {}  # by identity, with the W that it is of
        self._moved: dict[Any, CheckedOnce] = {}
        self._describe()

    def _describe(self) -> None:
        self.shape, self.model, self.single = self.data.shape, self.data.model, self.data.single

    def check(self, name: str = "X") -> None:
        if not self._checked:
            self.data.check(name)
            self._describe()
            self._checked = True

    def to_device(self, device: Any) -> CheckedOnce:
        if device is None:
            return self
        if device not in self._moved:
            self._moved[device] = CheckedOnce(self.data.to_device(device))
        return self._moved[device]

    def unit_mean(self) -> Array:
        return self._unit_mean

    @cached_property
    def _unit_mean(self) -> Array:
        return self.data.unit_mean()

    def first_copies(self) -> np.ndarray:
        return self._first_copies

    @cached_property
    def _first_copies(self) -> np.ndarray:
        return self.data.first_copies()

    def neighbors(
        self, metric: Metric, labels: np.ndarray, capacities: Capacities, *, measure: bool, approximate: bool
    ) -> Neighbors:
        return self.data.neighbors(metric, labels, capacities, measure=measure, approximate=approximate)

    def recentering(self) -> Recentering | None:
        return self._recentering

    @cached_property
    def _recentering(self) -> Recentering | None:
        return self.data.recentering()

    def base_map(self, found: Recentering) -> Array:
        return self._base_map

    @cached_property
    def _base_map(self) -> Array:
        found = self.recentering()
        return None if found is None else self.data.base_map(found)

    def map_log_vectors(self, A: Array, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        return self.data.map_log_vectors(A, function)

    def view(self, m: int) -> View:
        return self.data.view(m)

    def reduce(self, W: Array) -> Array:
        if id(W) not in self._reduced:
            self._reduced[id(W)] = W, self.data.reduce(W)
        return self._reduced[id(W)][1]

    def bytes_needed(self, m: int) -> int | None:
        return self.data.bytes_needed(m)

    def release(self) -> None:
        self.data.release()

    def close(self) -> None:
        self.data.close()
