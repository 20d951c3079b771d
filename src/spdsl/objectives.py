"""What is optimised over the pairs: value and derivative with respect to the squared distances, in one call.

Every objective is minimised. An objective never sees a matrix, only the squared distances of the selected pairs.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from spdsl import arrays
from spdsl.arrays import Array, namespace
from spdsl.graphs import PairGraph


class Objective(Protocol):
    """Value to minimise and its derivative, from the squared distances (p,) of the graph's pairs."""

    def __call__(self, d2: Array) -> tuple[float, Array]:
        """Return the value and dJ/dd2 (p,)."""


class CenteredAlignment:
    """Centred kernel-target alignment over the graph (Eq. 9), negated: `-<L, T> / |L|`.

    `L = U (G o K) U` with `K = exp(-beta d2)`, `T = G o (Y Y')` with Y centred, `U` the centring matrix; G has ones on
    the diagonal. Centring adds a rank-two term to a sparse matrix, so only row sums and the pairs themselves are needed:

        <L, T> = <A, T> - 2/N a't + s_A s_T / N^2,   |L|^2 = <A, A> - 2/N a'a + s_A^2 / N^2

    with `A = G o K`, row sums `a`, `t`, totals `s`. The derivative carries the mask that the printed Eq. 12 leaves out.
    """

    name = "alignment"

    def __init__(self, graph: PairGraph, labels: np.ndarray, beta: float) -> None:
        self.graph, self.beta = graph, beta
        N = graph.n_samples
        share = np.bincount(labels) / N
        mean = float(np.sum(share**2))
        target = graph.same - share[labels[graph.i]] - share[labels[graph.j]] + mean
        diagonal = 1 - 2 * share[labels] + mean
        rows = diagonal + np.bincount(graph.i, target, N) + np.bincount(graph.j, target, N)
        total = rows.sum()
        self.target_ = target - (rows[graph.i] + rows[graph.j]) / N + total / N**2  # U T U at the pairs
        self.trace_ = float(np.sum(diagonal - 2 * rows / N + total / N**2))  # its trace: the diagonal of K is 1
        self._moved: dict[str, tuple[Array, ...]] = {}

    def __call__(self, d2: Array) -> tuple[float, Array]:
        xp = namespace(d2)
        i, j, target = _on_device(self._moved, d2, self.graph.i, self.graph.j, self.target_)
        N = self.graph.n_samples
        # centring removes a constant: on the full graph K - 1 gives the same L without cancellation when K is near 1
        full = self.graph.is_full
        with np.errstate(over="ignore"):  # a similarity of zero
            a = xp.expm1(-self.beta * d2) if full else xp.exp(-self.beta * d2)
        diagonal = 0.0 if full else 1.0
        rows = arrays.pair_sums(N, i, j, a)
        rows = rows if full else rows + diagonal
        # all scalars at once: one wait for the device
        aa, at, rr, total = xp.stack([a @ a, a @ target, rows @ rows, rows.sum()]).tolist()
        square = N * diagonal + 2 * aa - 2 / N * rr + total**2 / N**2
        product = diagonal * self.trace_ + 2 * at
        if not square > 0:  # all similarities equal: nothing to align, and no direction to go
            return 0.0, xp.zeros_like(d2)
        norm = math.sqrt(square)
        value = product / norm
        shift = rows / N - total / (2 * N**2)
        centred = a - shift[i] - shift[j]  # U A U at the pairs
        slope = target / norm - (value / square) * centred
        k = a + 1 if full else a
        return -value, (2 * self.beta) * k * slope


class PairAlignment:
    """Alignment centred over the selected pairs alone, negated: minus the correlation of `k` with the targets.

    `k_p = exp(-beta d2_p)`, target 1 for pairs of one class and 0 for the others. Absent pairs do not enter, where the
    printed objective counts each as a similarity of zero.
    """

    name = "pairs"

    def __init__(self, graph: PairGraph, labels: np.ndarray, beta: float) -> None:
        self.graph, self.beta = graph, beta
        target = graph.same - graph.same.mean()
        norm = np.linalg.norm(target)
        if norm == 0:
            raise ValueError(
                "centering='pairs' needs pairs within and between classes; "
                "use n_within >= 1 and n_between >= 1, and at least two samples in some class"
            )
        self.target_ = target / norm
        self._moved: dict[str, tuple[Array, ...]] = {}

    def __call__(self, d2: Array) -> tuple[float, Array]:
        xp = namespace(d2)
        (target,) = _on_device(self._moved, d2, self.target_)
        with np.errstate(over="ignore"):
            k = xp.exp(-self.beta * d2)
        centred = k - k.mean()
        square, product = xp.stack([centred @ centred, centred @ target]).tolist()
        if square == 0:
            return 0.0, xp.zeros_like(d2)
        norm = math.sqrt(square)
        value = product / norm
        slope = (target - value * centred / norm) / norm
        return -value, self.beta * k * slope


class GraphEmbedding:
    """Graph embedding (SPDML): `sum_ij a_ij d2_ij`, `a = G_w - G_b`, divided by the number of ordered pairs.

    The division changes no minimiser and keeps step sizes comparable between data sets.
    """

    name = "embedding"

    def __init__(self, graph: PairGraph) -> None:
        self.graph = graph
        self.weight_ = np.where(graph.same, 1.0, -1.0) / len(graph)
        self._moved: dict[str, tuple[Array, ...]] = {}

    def __call__(self, d2: Array) -> tuple[float, Array]:
        (weight,) = _on_device(self._moved, d2, self.weight_)
        return float(weight @ d2), weight


def _on_device(cache: dict, model: Array, *hosts: np.ndarray) -> tuple[Array, ...]:
    """The host arrays beside `model`, moved once per device."""
    if arrays.is_numpy(model):
        return hosts
    key = str(model.device)
    if key not in cache:
        cache[key] = tuple(arrays.like(host, model) for host in hosts)
    return cache[key]
