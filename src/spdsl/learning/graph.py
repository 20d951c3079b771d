"""The graph of pairs: nearest neighbors within and between classes, or all pairs."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from spdsl.data import Data
from spdsl.data.neighbor_search import Nearest, Neighbors
from spdsl.geometry import Metric

Count = int | Literal["all"]
FEW = 5  # samples per class; with fewer, distant pairs dominate, and the nearest quarter of them generalizes better
MANY_PAIRS = {
    True: 1 << 21,
    False: 1 << 14,
}  # use all pairs up to this number, for metrics with cheap pairs and for others
NEAREST = 10  # at least so many neighbors of either kind


@dataclass(frozen=True)
class PairGraph:
    """The selected pairs `i < j` of `n_samples` samples, and which of them share a class (G_w and G_b, Eq. 7 and 8)."""

    n_samples: int
    i: np.ndarray
    j: np.ndarray
    same: np.ndarray

    def __len__(self) -> int:
        return len(self.i)

    @property
    def is_full(self) -> bool:
        """Whether every pair is selected."""
        return len(self) == self.n_samples * (self.n_samples - 1) // 2


@dataclass(frozen=True)
class PairSurvey:
    """Result of one pass over all pairs in the original space: the graph and the mean distance."""

    graph: PairGraph
    mean_distance: float | None


def automatic_counts(labels: np.ndarray, cheap_pairs: bool, all_pairs: bool = False) -> tuple[Count, Count]:
    """Neighbors within and between classes.

    All pairs, as long as there are not too many for the metric; beyond that the nearest of either kind, as many as keep the
    number of pairs, so that one sample more changes little. `cheap_pairs`: whether the metric computes all pairs by matrix
    products. Unless the objective wants `all_pairs`, with fewer than five samples per class only the N / 4 nearest of the
    others count.
    """
    N = len(labels)
    few = FEW * (labels.max() + 1) > N and not all_pairs
    quarter = max(1, round(N / 4))
    if MANY_PAIRS[cheap_pairs] < N * (N - 1) // 2:
        sizes = np.bincount(labels)
        nearest = max(NEAREST, 2 * MANY_PAIRS[cheap_pairs] // N)
        between = quarter if few else N - int(sizes.min())
        return min(nearest, int(sizes.max()) - 1), min(nearest, between)
    return "all", quarter if few else "all"


def survey_pairs(
    data: Data,
    labels: np.ndarray,
    metric: Metric,
    n_within: Count,
    n_between: Count,
    *,
    measure: bool = True,
    approximate: bool = False,
) -> PairSurvey:
    """Build the pair graph of the samples and the mean distance over all pairs, in one blockwise pass.

    Parameters
    ----------
    data : Data
    labels : (N,) integer class labels
    metric : Metric, in the original space
    n_within, n_between : neighbors of the same and of other classes per sample (v_w, v_b), or "all"
    measure : whether to compute the mean distance; without it the full graph needs no distances
    approximate : search neighbors with an index of vectors, which misses a few; the mean distance is then that of
        random pairs

    Each pair of blocks is computed once. Besides what the metric needs of each matrix, memory holds one block of
    distances and the neighbors found so far. Ties go to the lower index.
    """
    N = len(labels)
    if N < 2:
        raise ValueError("a graph of pairs needs at least 2 matrices, got 1 sample")
    sizes = np.bincount(labels)[labels]
    capacities = _capacity("n_within", n_within, sizes - 1), _capacity("n_between", n_between, N - sizes)
    if measure or any(capacity is not None for capacity in capacities):
        found = data.neighbors(metric, labels, capacities, measure=measure, approximate=approximate)
    else:
        found = Neighbors(Nearest(N, None), Nearest(N, None), None)
    i_w, j_w = _select(labels, found.within, same_class=True)
    i_b, j_b = _select(labels, found.between, same_class=False)
    i, j = np.concatenate([i_w, i_b]), np.concatenate([j_w, j_b])
    same = np.concatenate([np.ones(len(i_w), bool), np.zeros(len(i_b), bool)])
    order = np.lexsort((j, i))
    return PairSurvey(PairGraph(N, i[order], j[order], same[order]), found.mean_distance)


def _capacity(name: str, count: Count, available: np.ndarray) -> int | None:
    """Number of neighbors to keep per sample; None for all."""
    if isinstance(count, str) and count == "all":
        return None
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise ValueError(f"{name} must be a positive integer, 'all' or 'auto', got {count!r}")
    if count > available.max():
        warnings.warn(
            f"{name}={count}, but no sample has more than {available.max()} such neighbors; all are used",
            UserWarning,
            stacklevel=7,
        )
    return None if count >= available.max() else int(count)


def _select(labels: np.ndarray, nearest: Nearest, *, same_class: bool) -> tuple[np.ndarray, np.ndarray]:
    """Selected pairs i < j: those where either is among the other's nearest."""
    N = len(labels)
    if nearest.capacity is None:
        i, j = np.triu_indices(N, 1)
        chosen = (labels[i] == labels[j]) == same_class
        return i[chosen], j[chosen]
    row = np.repeat(np.arange(N), nearest.capacity)
    column = nearest.index.ravel()
    found = np.isfinite(nearest.d2.ravel())
    low, high = np.minimum(row, column)[found], np.maximum(row, column)[found]
    key = np.unique(low * N + high)
    return key // N, key % N
