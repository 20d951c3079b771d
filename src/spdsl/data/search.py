"""The nearest samples, by the search that the metric and the caller allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from spdsl.data.approximate_search import search_vectors
from spdsl.data.bounded_search import BoundBlock, Evaluate, bounded, search_bounded
from spdsl.data.neighbor_search import Capacities, DistanceBlock, Neighbors, check_vectors, search_blocks
from spdsl.geometry import Metric


class Searchable(Protocol):
    """Samples that can be searched."""

    def sqdist_blocks(self, metric: Metric) -> Iterator[DistanceBlock]:
        """Squared distances block by block, columns at or after rows."""

    def bound_blocks(self, metric: Metric) -> Iterator[BoundBlock]:
        """Lower bounds block by block, columns at or after rows."""

    def vectors(self, metric: Metric) -> np.ndarray:
        """Vectors (N, d), float32, whose Euclidean distances are the distances of the metric, or lower bounds of them."""

    def evaluator(self, metric: Metric) -> Evaluate | None:
        """The function of places (i, j) that gives squared distances, where they are not those of the vectors."""


def search(
    data: Searchable, metric: Metric, labels: np.ndarray, capacities: Capacities, *, measure: bool, approximate: bool
) -> Neighbors:
    """As `Data.neighbors`."""
    if approximate:
        check_vectors(metric, bounds=True)
        return search_vectors(data.vectors(metric), data.evaluator(metric), labels, capacities, measure=measure)
    if bounded(metric, capacities, len(labels), measure=measure):
        return search_bounded(data.bound_blocks(metric), labels, capacities)
    return search_blocks(data.sqdist_blocks(metric), labels, capacities, measure=measure)
