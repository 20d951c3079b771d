"""Objectives: value and derivative with respect to the squared distances of pairs, in one call.

Every objective is minimized. An objective never sees a matrix, only the squared distances of the selected pairs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from spdsl import backend
from spdsl.backend import Array, namespace
from spdsl.backend.extras import load_named_plugins
from spdsl.learning.graph import PairGraph

FARTHEST = 1e300  # beta d2 of stochastic neighbors: differences of such numbers are numbers


class Objective(ABC):
    """A function of the squared distances of the selected pairs, to be minimized.

    To define your own objective, subclass it with a `name`: `SPDSL(objective=YourClass)` uses it,
    `spdsl.check_objective` tests it, and `spdsl.register_objective` makes it available by name.

    Parameters
    ----------
    graph : PairGraph
        The selected pairs `i < j` (p of them), and which of them share a class (`same`).
    labels : (N,) integers 0 .. n_classes - 1
    beta : float
        Width of the similarity `exp(-beta d2)`; NaN where `width` is False.
    weight : (N,), optional
        Positive weights of the samples, for an objective that is `weighted`.

    Attributes
    ----------
    name : str
    width : bool
        Whether the objective uses a width beta.
    weighted : bool
        Whether the objective takes weights of the samples as the last argument.
    scale : float
        beta where it is not given, in units of one over the squared mean distance.
    iterations : int
        Of the optimization where they are not given.
    all_pairs : bool
        Whether the automatic graph takes all pairs even if classes are tiny.

    Examples
    --------
    >>> import numpy as np
    >>> import spdsl
    >>> class Spread(spdsl.Objective):
    ...     '''Mean squared distance within classes over that of all pairs.'''
    ...
    ...     name = "spread"
    ...     width = False
    ...
    ...     def __call__(self, d2):
    ...         same = self.graph.same
    ...         within, all_pairs = d2[same].sum(), d2.sum()
    ...         return float(within / all_pairs), same / all_pairs - within / all_pairs**2
    >>> spdsl.check_objective(Spread)
    """

    name: ClassVar[str]
    width: ClassVar[bool] = True
    weighted: ClassVar[bool] = False
    scale: ClassVar[float] = 1.0
    iterations: ClassVar[int] = 100
    all_pairs: ClassVar[bool] = False

    def __init__(self, graph: PairGraph, labels: np.ndarray, beta: float, weight: np.ndarray | None = None) -> None:
        self.graph, self.labels, self.beta = graph, labels, beta
        self.weight = None if weight is None else weight / weight.mean()
        self._moved: dict[str, tuple[Array, ...]] = {}

    def pair_weights(self) -> np.ndarray | None:
        """`w_i w_j` of the selected pairs; None without weights."""
        w = self.weight
        return None if w is None else w[self.graph.i] * w[self.graph.j]

    @abstractmethod
    def __call__(self, d2: Array) -> tuple[float, Array]:
        """Value, and its derivative dJ/dd2 (p,), at the squared distances d2 (p,) of the graph's pairs."""

    def beside(self, model: Array, *hosts: np.ndarray) -> tuple[Array, ...]:
        """Convert NumPy arrays to arrays like `model`, once per device."""
        if backend.is_numpy(model):
            return hosts
        key = str(model.device)
        if key not in self._moved:
            self._moved[key] = tuple(backend.like(host, model) for host in hosts)
        return self._moved[key]


class CenteredAlignment(Objective):
    """Centered kernel-target alignment over the graph (Eq. 9), negated: `-<L, T> / |L|`.

    `L = U (G o K) U` with `K = exp(-beta d2)`, `T = G o (Y Y')` with Y centered, `U` the centering matrix; G has ones on
    the diagonal. Centering adds a rank-two term to a sparse matrix, so only the pairs and their row sums are needed:

        <L, T> = <A, T> - 2/N a't + s_A s_T / N^2,   |L|^2 = <A, A> - 2/N a'a + s_A^2 / N^2

    with `A = G o K`, row sums `a`, `t`, totals `s`. The derivative includes the mask that Eq. 12, as printed, omits.

    With weights, entry (i, j) of every inner product counts `w_i w_j`, row sums are `sum_j w_j A_ij`, and U subtracts
    weighted means: the value for integer weights, times their mean, is that of as many copies of each sample, similar (1) to
    each other.
    """

    name = "alignment"
    weighted = True

    def __init__(self, graph: PairGraph, labels: np.ndarray, beta: float, weight: np.ndarray | None = None) -> None:
        super().__init__(graph, labels, beta, weight)
        N = graph.n_samples
        w = np.ones(N) if self.weight is None else self.weight  # of mean one, so their sum is N
        share = np.bincount(labels, w) / N
        mean = float(np.sum(share**2))
        target = graph.same - share[labels[graph.i]] - share[labels[graph.j]] + mean
        diagonal = 1 - 2 * share[labels] + mean
        rows = (
            w * diagonal + np.bincount(graph.i, w[graph.j] * target, N) + np.bincount(graph.j, w[graph.i] * target, N)
        )
        total = (w * rows).sum()
        self.target_ = target - (rows[graph.i] + rows[graph.j]) / N + total / N**2  # U T U at the pairs
        self.diagonal_ = float(np.sum(w**2))
        self.trace_ = float(np.sum(w**2 * (diagonal - 2 * rows / N + total / N**2)))  # as the diagonal of K is 1

    def __call__(self, d2: Array) -> tuple[float, Array]:
        if self.weight is not None:
            return self._weighted(d2, self.weight)
        xp = namespace(d2)
        i, j, target = self.beside(d2, self.graph.i, self.graph.j, self.target_)
        N = self.graph.n_samples
        # centering removes constants: on the full graph K - 1 gives the same L without cancellation when K is near 1
        full = self.graph.is_full
        with np.errstate(over="ignore"):  # a similarity of zero
            a = xp.expm1(-self.beta * d2) if full else xp.exp(-self.beta * d2)
        diagonal = 0.0 if full else 1.0
        rows = backend.pair_sums(N, i, j, a)
        rows = rows if full else rows + diagonal
        # all scalars at once, to synchronize with the device only once
        aa, at, rr, total = xp.stack([a @ a, a @ target, rows @ rows, rows.sum()]).tolist()
        square = N * diagonal + 2 * aa - 2 / N * rr + total**2 / N**2
        product = diagonal * self.trace_ + 2 * at
        if not square > 0:  # all similarities are equal: the gradient is zero
            return 0.0, xp.zeros_like(d2)
        norm = math.sqrt(square)
        value = product / norm
        shift = rows / N - total / (2 * N**2)
        slope = target / norm
        slope -= (value / square) * (a - shift[i] - shift[j])  # U A U at the pairs
        slope *= a + 1 if full else a
        slope *= 2 * self.beta
        return -value, slope

    def _weighted(self, d2: Array, weight: np.ndarray) -> tuple[float, Array]:
        """The same sums with weights."""
        xp = namespace(d2)
        i, j, target, w = self.beside(d2, self.graph.i, self.graph.j, self.target_, weight)
        both = w[i] * w[j]
        N, full = self.graph.n_samples, self.graph.is_full
        with np.errstate(over="ignore"):
            a = xp.expm1(-self.beta * d2) if full else xp.exp(-self.beta * d2)
        rows = backend.pair_sums(N, i, j, w[j] * a, w[i] * a) + (0.0 if full else w)
        terms = [(both * a) @ a, (both * a) @ target, (w * rows) @ rows, w @ rows]
        aa, at, rr, total = xp.stack(terms).tolist()
        square = 2 * aa - 2 / N * rr + total**2 / N**2 + (0.0 if full else self.diagonal_)
        if not square > 0:
            return 0.0, xp.zeros_like(d2)
        norm = math.sqrt(square)
        value = (2 * at + (0.0 if full else self.trace_)) / norm
        shift = rows / N - total / (2 * N**2)
        slope = target / norm - (value / square) * (a - shift[i] - shift[j])
        return -value, (2 * self.beta) * both * (a + 1 if full else a) * slope


class PairAlignment(Objective):
    """Alignment centered over the selected pairs only, negated: minus the correlation of `k` with the targets.

    `k_p = exp(-beta d2_p)`, target 1 for pairs of one class and 0 for the others. Pairs outside the graph are ignored,
    whereas Eq. 9 as printed counts each as a similarity of zero. With weights, pair (i, j) counts `w_i w_j`: for integer
    weights that is the value of as many copies of each sample, without the pairs of two copies.
    """

    name = "pairs"
    weighted = True

    def __init__(self, graph: PairGraph, labels: np.ndarray, beta: float, weight: np.ndarray | None = None) -> None:
        super().__init__(graph, labels, beta, weight)
        both = self.pair_weights()
        self.share_ = None if both is None else both / both.mean()
        w = 1.0 if self.share_ is None else self.share_
        target = graph.same - (w * graph.same).mean()
        norm = math.sqrt(np.sum(w * target**2))
        if norm == 0:
            raise ValueError(
                "objective='pairs' needs pairs within and between classes; "
                "use n_within >= 1 and n_between >= 1, and at least two samples in some class"
            )
        self.target_ = target / norm

    def __call__(self, d2: Array) -> tuple[float, Array]:
        if self.share_ is not None:
            return self._weighted(d2, self.share_)
        xp = namespace(d2)
        (target,) = self.beside(d2, self.target_)
        with np.errstate(over="ignore"):
            a = xp.expm1(-self.beta * d2)  # k - 1: where similarities are near 1 their differences keep their digits
        centered = a - a.mean()
        square, product = xp.stack([centered @ centered, centered @ target]).tolist()
        if square == 0:
            return 0.0, xp.zeros_like(d2)
        norm = math.sqrt(square)
        value = product / norm
        slope = (target - value * centered / norm) / norm
        return -value, self.beta * (a + 1) * slope

    def _weighted(self, d2: Array, share: np.ndarray) -> tuple[float, Array]:
        """The same sums with weights."""
        xp = namespace(d2)
        target, w = self.beside(d2, self.target_, share)
        with np.errstate(over="ignore"):
            a = xp.expm1(-self.beta * d2)
        centered = a - (w * a).mean()
        square, product = xp.stack([(w * centered) @ centered, (w * centered) @ target]).tolist()
        if square == 0:
            return 0.0, xp.zeros_like(d2)
        norm = math.sqrt(square)
        value = product / norm
        return -value, self.beta * (a + 1) * w * (target - value * centered / norm) / norm


class GraphEmbedding(Objective):
    """Graph embedding (SPDML): `sum_ij a_ij d2_ij`, `a = G_w - G_b`, divided by the number of ordered pairs.

    The division does not change the minimizer and makes step sizes comparable between data sets. With weights, pair (i, j)
    counts `w_i w_j`, as if there were as many copies of each sample.
    """

    name = "embedding"

    width = False
    weighted = True

    def __init__(
        self, graph: PairGraph, labels: np.ndarray, beta: float = math.nan, weight: np.ndarray | None = None
    ) -> None:
        super().__init__(graph, labels, beta, weight)
        both = self.pair_weights()
        self.weight_ = np.where(graph.same, 1.0, -1.0) / len(graph)
        if both is not None:
            self.weight_ = self.weight_ * (both / both.mean())

    def __call__(self, d2: Array) -> tuple[float, Array]:
        (weight,) = self.beside(d2, self.weight_)
        return float(weight @ d2), weight


class StochasticNeighbors(Objective):
    """Stochastic neighbors: minus the mean log probability that a sample picks a neighbor of its own class.

    Sample i picks j among its pairs with probability `p_ij = exp(-beta d2_ij) / sum_k exp(-beta d2_ik)`, and
    `q_i = sum_{j of class i} p_ij`. The value is `-mean log q_i` over the samples that have a pair within their class.
    With `s_ij = p_ij [same class] / q_i`, `dJ/dd2_ij = beta / N (s_ij - p_ij)` plus the same with i and j exchanged.
    Sums over the pairs of a sample are computed as log-sum-exp, so that similarities do not underflow.

    With weights, `p_ij = w_j exp(-beta d2_ij) / sum_k w_k exp(-beta d2_ik)`, and the mean over i is weighted: for integer
    weights that is the value of as many copies of each sample, none of which picks another copy of itself.
    """

    name = "stochastic-neighbors"
    weighted = True
    scale = (
        3.0  # of 0.5, 1, 3 and 10 the best compromise on real data: nearest neighbors want more, vectors do not care
    )
    iterations = 20  # more change the accuracy on real data by less than a point
    all_pairs = True

    def __init__(self, graph: PairGraph, labels: np.ndarray, beta: float, weight: np.ndarray | None = None) -> None:
        super().__init__(graph, labels, beta, weight)
        N = graph.n_samples
        partners = np.bincount(graph.i[graph.same], minlength=N) + np.bincount(graph.j[graph.same], minlength=N)
        if not partners.any():
            raise ValueError(
                "objective='stochastic-neighbors' needs pairs within classes; use n_within >= 1 and at least two samples in "
                "some class"
            )
        self.weight_ = (partners > 0) / np.sum(partners > 0)  # samples without a partner have no term
        if self.weight is not None:
            self.weight_ = self.weight_ * self.weight / (self.weight_ @ self.weight)

    def __call__(self, d2: Array) -> tuple[float, Array]:
        xp = namespace(d2)
        w = np.ones(1) if self.weight is None else self.weight
        i, j, same, weight, w = self.beside(d2, self.graph.i, self.graph.j, self.graph.same, self.weight_, w)
        N = self.graph.n_samples
        with np.errstate(over="ignore"):  # pairs beyond all numbers are equally far, and a step changes nothing
            a = xp.maximum(-self.beta * d2, xp.full_like(d2, -FARTHEST))
        minus_infinity = xp.full_like(a, -math.inf)
        log_all = self._log_sums(N, i, j, a, w)
        log_same = self._log_sums(N, i, j, xp.where(same, a, minus_infinity), w)
        counted = weight > 0
        zero = xp.zeros_like(log_all)
        value = float(xp.sum(weight * (xp.where(counted, log_all, zero) - xp.where(counted, log_same, zero))))
        slope = xp.zeros_like(a)
        for end, other in ((i, j), (j, i)):
            picked = xp.exp(a - log_all[end])
            wanted = xp.where(
                same & counted[end], xp.exp(xp.where(same, a - log_same[end], zero[end])), xp.zeros_like(a)
            )
            picks = wanted - picked
            slope = slope + weight[end] * (picks if self.weight is None else w[other] * picks)
        return value, self.beta * xp.where(a > -FARTHEST, slope, xp.zeros_like(slope))

    def _log_sums(self, N: int, i: Array, j: Array, a: Array, w: Array) -> Array:
        """`log sum w exp(a)` over the pairs of every sample; minus infinity for a sample without pairs."""
        xp = namespace(a)
        top = backend.pair_max(N, i, j, a)
        shift = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
        from_i, from_j = xp.exp(a - shift[i]), xp.exp(a - shift[j])
        if self.weight is not None:
            from_i, from_j = w[j] * from_i, w[i] * from_j
        total = backend.pair_sums(N, i, j, from_i, from_j)
        with np.errstate(divide="ignore"):
            return shift + xp.log(total)


OBJECTIVES: dict[str, type[Objective]] = {
    objective.name: objective for objective in (CenteredAlignment, PairAlignment, StochasticNeighbors, GraphEmbedding)
}


def register_objective(objective: type[Objective]) -> type[Objective]:
    """Add an objective to `spdsl.OBJECTIVES`, so that `SPDSL(objective=name)` and saved models find it.

    Parameters
    ----------
    objective : subclass of Objective
        Test it with `check_objective` first.

    Returns
    -------
    The class, so that `register_objective` can be used as a decorator.

    Examples
    --------
    >>> import numpy as np
    >>> import spdsl
    >>> class Spread(spdsl.Objective):
    ...     '''Mean squared distance within classes over that of all pairs.'''
    ...
    ...     name = "spread"
    ...     width = False
    ...
    ...     def __call__(self, d2):
    ...         same = self.graph.same
    ...         within, all_pairs = d2[same].sum(), d2.sum()
    ...         return float(within / all_pairs), same / all_pairs - within / all_pairs**2
    >>> spdsl.register_objective(Spread).name
    'spread'
    >>> "spread" in spdsl.OBJECTIVES
    True
    """
    if not (isinstance(objective, type) and issubclass(objective, Objective)):
        raise TypeError(f"an objective must be a subclass of spdsl.Objective, got {objective!r}")
    name = getattr(objective, "name", None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"{objective.__name__} has no name; set the class attribute `name` to a non-empty string")
    known = OBJECTIVES.get(name)
    again = known is not None and (known.__module__, known.__qualname__) == (
        objective.__module__,
        objective.__qualname__,
    )
    if known is not None and not again:
        raise ValueError(f"the name {name!r} is already used by {known.__name__}; choose another name")
    OBJECTIVES[name] = objective
    return objective


def get_objective(objective: str | type[Objective]) -> type[Objective]:
    """The objective of that name; a subclass of `Objective` is returned as it is."""
    if isinstance(objective, type) and issubclass(objective, Objective):
        return objective
    if isinstance(objective, str) and objective in OBJECTIVES:
        return OBJECTIVES[objective]
    if isinstance(objective, str) and load_named_plugins():
        return get_objective(objective)
    names = ", ".join(map(repr, OBJECTIVES))
    if isinstance(objective, Objective):
        raise ValueError(
            f"objective must be a name or a class, got an instance; pass the class {type(objective).__name__}"
        )
    raise ValueError(f"objective must be one of {names} or a subclass of spdsl.Objective, got {objective!r}")
