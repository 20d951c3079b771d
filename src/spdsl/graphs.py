"""Which pairs of samples count: nearest neighbours within and between classes, or all pairs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from spdsl import arrays
from spdsl.arrays import Array
from spdsl.metrics import METRICS, FlatMetric, Metric
from spdsl.search import Nearest, approximate_nearest, block_total, offer_block

Count = int | Literal["all"]
BLOCK_PAIRS = 1 << 18  # distances held at once while the graph is built
FEW = 5  # samples per class; below, far pairs outweigh the rest and the nearest quarter of them generalises better
MANY_PAIRS = {True: 1 << 21, False: 1 << 14}  # for metrics with and without a flat embedding: all pairs up to here
MEASURED = 1 << 16  # random pairs that tell the mean distance to a few parts in a thousand
NEAREST = 10  # neighbours of either kind where all pairs would be too many


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
    """What one pass over all pairs of the original space tells: the graph and the mean distance."""

    graph: PairGraph
    mean_distance: float | None


def automatic_counts(labels: np.ndarray, flat: bool) -> tuple[Count, Count]:
    """Neighbours within and between classes that served well on real data (docs/defaults.md).

    All pairs; with fewer than five samples per class all within and the N / 4 nearest of the others; the ten nearest
    of either kind where all pairs would take too long. `flat`: whether the metric has a flat embedding, where pairs are
    nearly free.
    """
    N = len(labels)
    if MANY_PAIRS[flat] < N * (N - 1) // 2:
        sizes = np.bincount(labels)
        return min(NEAREST, int(sizes.max()) - 1), min(NEAREST, N - int(sizes.min()))
    if FEW * (labels.max() + 1) > N:
        return "all", max(1, round(N / 4))
    return "all", "all"


def survey_pairs(
    X: Any,
    labels: np.ndarray,
    metric: Metric,
    n_within: Count,
    n_between: Count,
    *,
    measure: bool = True,
    approximate: bool = False,
) -> PairSurvey:
    """Build the pair graph of `X` (N, n, n) and the mean distance over all pairs, in one blockwise pass.

    Parameters
    ----------
    X : (N, n, n) stack of SPD matrices, or `spdsl.samples.Samples`
    labels : (N,) integer class labels
    metric : the metric of the original space
    n_within, n_between : neighbours of the same and of other classes per sample (v_w, v_b), or "all"
    measure : whether the mean distance is wanted; without it the full graph needs no distance at all
    approximate : search neighbours by an index of vectors, which a few of them escape; the mean distance is then that of
        `MEASURED` random pairs

    Each pair of blocks is computed once. Beside the factored stack, memory holds one block of distances and the
    neighbours found so far. Ties go to the lower index.
    """
    N = len(labels)
    if N < 2:
        raise ValueError("a graph of pairs needs at least 2 matrices, got 1")
    sizes = np.bincount(labels)[labels]
    capacities = _capacity("n_within", n_within, sizes - 1), _capacity("n_between", n_between, N - sizes)
    searched = any(capacity is not None for capacity in capacities)
    if approximate and (searched or measure):
        Z = _vectors(X, metric)
        within, between = approximate_nearest(Z, labels, capacities)
        mean = _sampled_mean(Z) if measure else None
    else:
        within, between = (Nearest(N, capacity) for capacity in capacities)
        total = _offer_all(X, labels, metric, within, between, measure) if measure or searched else 0.0
        mean = total / (N * (N - 1) / 2) if measure else None
    i_w, j_w = _select(labels, within, same_class=True)
    i_b, j_b = _select(labels, between, same_class=False)
    i, j = np.concatenate([i_w, i_b]), np.concatenate([j_w, j_b])
    same = np.concatenate([np.ones(len(i_w), bool), np.zeros(len(i_b), bool)])
    order = np.lexsort((j, i))
    return PairSurvey(PairGraph(N, i[order], j[order], same[order]), mean)


def _offer_all(X: Any, labels: np.ndarray, metric: Metric, within: Nearest, between: Nearest, measure: bool) -> float:
    """Offer all distances to the lists; returns their sum, or zero where it is not wanted."""
    total = 0.0
    if hasattr(X, "block_summaries"):  # blocks that are reduced where they are
        for summary in X.block_summaries(metric, labels, (within.capacity, between.capacity)):
            total += summary.total
            for nearest, offers in ((within, summary.within), (between, summary.between)):
                for offer in offers:
                    nearest.merge(*offer)
        return total
    for rows, columns, d2 in _distance_blocks(X, metric):
        if measure:
            total += block_total(rows, columns, d2)
        offer_block(within, between, rows, columns, d2, labels[rows][:, None] == labels[columns])
    return total


def _vectors(X: Any, metric: Metric) -> np.ndarray:
    """Vectors (N, d) whose Euclidean distance is that of the metric."""
    if not isinstance(metric, FlatMetric):
        names = ", ".join(repr(name) for name, known in METRICS.items() if isinstance(known, FlatMetric))
        raise ValueError(
            f"search='approximate' needs a metric that is a distance of vectors, {names}; {metric.name!r} is none"
        )
    if hasattr(X, "vectors"):
        return np.asarray(X.vectors(metric))
    return arrays.to_numpy(metric.compact(arrays.double(X))[0])


def _sampled_mean(Z: np.ndarray) -> float:
    """Mean distance of random pairs of different rows, the same ones every time."""
    rng = np.random.default_rng(0)
    i = rng.integers(len(Z), size=MEASURED)
    j = (i + 1 + rng.integers(len(Z) - 1, size=MEASURED)) % len(Z)
    parts = np.array_split(np.arange(MEASURED), 64)
    return float(np.mean(np.concatenate([np.linalg.norm(Z[i[s]] - Z[j[s]], axis=1) for s in parts])))


def _capacity(name: str, count: Count, available: np.ndarray) -> int | None:
    """Neighbours to keep per sample; None for all of them."""
    if isinstance(count, str) and count == "all":
        return None
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise ValueError(f"{name} must be a positive integer or 'all', got {count!r}")
    if count > available.max():
        warnings.warn(
            f"{name}={count}, but no sample has more than {available.max()} such neighbours: all of them are used",
            UserWarning,
            stacklevel=5,
        )
    return None if count >= available.max() else int(count)


def _select(labels: np.ndarray, nearest: Nearest, *, same_class: bool) -> tuple[np.ndarray, np.ndarray]:
    """Selected pairs i < j: those where one is among the other's nearest (OR-symmetrised)."""
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


def _distance_blocks(X: Any, metric: Metric) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Squared distances in blocks of an array, or of samples that know how to get at theirs."""
    if hasattr(X, "sqdist_blocks"):
        blocks: Iterator[tuple[slice, slice, np.ndarray]] = X.sqdist_blocks(metric)
        return blocks
    return upper_blocks(X, metric)


def block_size(count: int) -> int:
    """Rows, and columns, of a block of distances."""
    return max(1, min(count, int(BLOCK_PAIRS**0.5)))


def upper_blocks(X: Array, metric: Metric) -> Iterator[tuple[slice, slice, np.ndarray]]:
    """Squared distances in blocks (rows, columns) with columns at or behind rows, as NumPy arrays."""
    N = X.shape[0]
    factors = metric.compact(arrays.double(X))
    size = block_size(N)
    blocks = [slice(start, min(start + size, N)) for start in range(0, N, size)]
    for a, rows in enumerate(blocks):
        left = tuple(part[rows] for part in factors)
        for columns in blocks[a:]:
            yield rows, columns, arrays.to_numpy(metric.cross(left, tuple(part[columns] for part in factors)))
