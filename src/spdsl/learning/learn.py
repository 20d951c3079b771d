"""From labeled samples to W: graph, objective, solver."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from spdsl import backend
from spdsl.backend import Array, namespace
from spdsl.data import Data, View, at_work
from spdsl.data.parameters import LARGEST
from spdsl.data.preconditioned import PreconditionedView
from spdsl.data.recentering import Recentering
from spdsl.geometry import NotPositiveDefiniteError
from spdsl.learning.graph import PairGraph, survey_pairs
from spdsl.learning.objectives import Objective
from spdsl.learning.problem import Problem
from spdsl.learning.progress import Progress, Quiet
from spdsl.learning.settings import Settings
from spdsl.learning.solver import minimize
from spdsl.learning.start import as_start, start_matrix

LEAST, MOST = 1e-20, 1e20  # distances whose fourth powers, summed over all pairs, neither overflow nor underflow


@dataclass(frozen=True)
class Base:
    """Log-vectors (N, d) of the matrices recentered by the map `reference` (n, k) or (b, n, k), on the host."""

    reference: np.ndarray
    vectors: np.ndarray

    @classmethod
    def of(cls, data: Data, found: Recentering | None = None) -> Self | None:
        """Those of the data, with the recentering if it is known. None of matrices that are never formed."""
        found = data.recentering() if found is None else found
        if found is None:
            return None
        here = Recentering(*(backend.like(part, data.model) for part in found))  # the search may be on a device
        reference = backend.to_numpy(data.base_map(here))
        return cls(reference, data.map_log_vectors(reference, lambda V: V))


@dataclass
class Learned:
    """Result of learning: W, the reduced training matrices P and `C W` with the mean C of X, and the history.

    W, P and filtered are in the array library of the data; `recentered` says whether the search was at the mean of X;
    `base` are the recentered log-vectors, if they were wanted and can be had; `first` is the index of the first sample equal
    to each.
    """

    W: Array
    P: Array
    filtered: Array
    recentered: bool
    base: Base | None
    first: np.ndarray
    graph: PairGraph
    objective: Objective
    value: float
    status: str
    message: str
    history: list[dict[str, float]]
    passes: int


def learn(data: Data, labels: np.ndarray, settings: Settings) -> Learned:
    """Learn W from checked samples and their labels 0 .. n_classes - 1."""
    checkpoint = settings.checkpoint
    with at_work(data, settings.who, settings.n_components, settings.device):
        problem, W, found, first = pose(data, labels, settings)
        G = None if found is None else found.map
        # now rather than later: Ctrl-C after the search must not lose its W
        base = Base.of(data, found) if settings.vectors else None
        with _named_start(), _Report(settings, G) as report:
            result = minimize(
                problem,
                W,
                settings.manifold,
                callback=report,
                resume=None if checkpoint is None else checkpoint.load(tuple(W.shape)),
                save=None if checkpoint is None else checkpoint.save,
                **settings.solver,
            )
            report.finish(result.message)
        W = backend.like(result.W if G is None else G @ result.W, data.model)
        if result.status == "interrupted":  # it may have come between a step of W and that of P
            view = data.view(W.shape[-1])
            P = view.start(W)
            filtered = _mean_filtered(view, P, None, settings.weight)
        else:  # of the last step: no further pass over the data
            P, filtered = backend.like(result.P, data.model), _mean_filtered(problem.view, result.P, G, settings.weight)
    objective = problem.objective
    return Learned(
        W,
        P,
        backend.like(filtered, data.model),
        G is not None,
        base,
        first,
        objective.graph,
        objective,
        result.value,
        result.status,
        result.message,
        result.history,
        result.passes,
    )


def _mean_filtered(view: View, P: Array, G: Array | None, weight: np.ndarray | None) -> Array:
    """`C W` with the mean C of the matrices, at the W of the view; where that stands for G W, `C G W`."""
    xp = namespace(P)
    each = xp.zeros_like(P) + xp.eye(P.shape[-1], dtype=P.dtype, device=P.device) / (2 * P.shape[0])
    if weight is not None:
        each = each * backend.like((weight / weight.mean()).reshape(-1, *[1] * (P.ndim - 1)), P)
    mean = view.gradient(each)
    return mean if G is None else xp.linalg.solve(G, mean)  # its gradients are multiplied by G


def cost_function(data: Data, labels: np.ndarray, settings: Settings) -> Callable[[Array], tuple[float, Array]]:
    """The function that `learn` minimizes, `W -> (value, Euclidean gradient)`; safe to call from several threads."""
    with at_work(data, settings.who, settings.n_components, settings.device):
        problem, *_ = pose(data, labels, settings)
    moved = data.to_device(settings.device)

    def function(W: Array) -> tuple[float, Array]:
        W = as_start(W, moved.model, "W")
        view = moved.view(W.shape[-1])  # one view per call, for thread safety
        try:
            return Problem(view, problem.metric, problem.objective, problem.i, problem.j).cost(W)
        finally:
            data.release()

    return function


def pose(data: Data, labels: np.ndarray, settings: Settings) -> tuple[Problem, Array, Recentering | None, np.ndarray]:
    """The problem, the first W, a point on the manifold, the recentering if W stands for G W, and which samples are equal."""
    moved, metric = data.to_device(settings.device), settings.metric
    first = differing(moved)
    view, W, found = _first_view(moved, settings)
    if settings.start is None and isinstance(settings.init, str) and settings.manifold.scalable and metric.scale_free:
        W = _unit_sized(view, W)
    width = settings.width
    survey = survey_pairs(
        moved,
        labels,
        metric,
        settings.n_within,
        settings.n_between,
        measure=settings.objective.width and width.value is None and width.rule == "original",
        approximate=settings.approximate,
    )
    graph = survey.graph
    i, j = backend.like(graph.i, moved.model), backend.like(graph.j, moved.model)

    def reduced_distance() -> float:
        with _named_start():
            d2, _ = metric.pairs(view.start(W), i, j)
        distance = namespace(d2).sqrt(d2)
        if settings.weight is not None:
            both = settings.weight[graph.i] * settings.weight[graph.j]
            distance = distance * backend.like(both / both.mean(), distance)
        return float(namespace(d2).mean(distance))

    beta = math.nan
    if settings.objective.width:
        beta = _width(settings, survey.mean_distance, reduced_distance)
    elif not metric.scale_free:
        _check_distance(metric.name, reduced_distance())
    weights = () if settings.weight is None else (settings.weight,)  # an objective of a user may know of none
    return Problem(view, metric, settings.objective(graph, labels, beta, *weights), i, j), W, found, first


def differing(data: Data) -> np.ndarray:
    """For every sample, the index of the first sample equal to it; an error if all are equal."""
    first = data.first_copies()
    if not first.any():
        raise ValueError("all training matrices are identical; provide matrices that differ")
    return first


def _first_view(data: Data, settings: Settings) -> tuple[View, Array, Recentering | None]:
    """The samples as the search sees them, its first W, and the recentering if W stands for G W: see `Data.recentering`."""
    view, start, init = data.view(settings.n_components), settings.start, settings.init
    if isinstance(init, str) and init == "recentered":
        found = data.recentering() if settings.recenters else None
        if found is not None:
            G, W = found.map, found.directions[..., : settings.n_components] + 0.0
            if start is not None:
                W = namespace(G).linalg.solve(G, backend.like(start, data.model))
            return PreconditionedView(view, G), W, found
        init = "pca"
    if start is None:
        start = start_matrix(init, data, settings.n_components, settings.random_state)
    return view, settings.manifold.point(backend.like(start, data.model)), None


def _unit_sized(view: View, W: Array) -> Array:
    """W times a power of two that brings the eigenvalues of W'XW near one.

    Where the metric does not see the scale of the matrices, X and 4 X then have the same reduced matrices to the last bit.
    """
    P = view.start(W)
    size = float(namespace(P).mean(namespace(P).linalg.trace(P))) / P.shape[-1]
    if not 0 < size < math.inf:
        return W
    return view.scale(2.0 ** -math.floor(math.log2(size) / 2 + 0.5))


def _width(settings: Settings, mean_distance: float | None, reduced_distance: Callable[[], float]) -> float:
    """beta, or an error that says why it cannot be computed."""
    width = settings.width
    if width.value is not None:
        return float(width.value)
    sigma = mean_distance if width.rule == "original" else reduced_distance()
    if sigma is not None and math.isnan(sigma):
        raise ValueError(
            f"metric {settings.metric.name!r}: distances are NaN at the start; test a metric of your own with "
            f"spdsl.check_metric"
        )
    if not sigma:
        raise ValueError("all reduced training matrices are identical at the start; use another init")
    beta = width.scale * settings.objective.scale / sigma**2
    if not 0 < beta <= LARGEST:
        raise ValueError(f"beta is out of range ({beta:g} with beta_scale={width.scale:g}); choose another beta_scale")
    return beta


def _check_distance(name: str, distance: float) -> None:
    """Raise if powers of the distances would overflow or underflow."""
    if not LEAST < distance < MOST:
        raise ValueError(
            f"the mean distance of the reduced matrices is {distance:.1e} at the start, and its powers overflow or "
            f"underflow: metric {name!r} depends on the scale of X; divide X by its mean trace"
        )


class _Report:
    """Show progress if requested, and pass every iteration on to the callback."""

    def __init__(self, settings: Settings, G: Array | None) -> None:
        self._callback, self._G = settings.callback, G
        self._progress = Progress(settings.solver["max_iter"], settings.who) if settings.verbose else Quiet()

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._progress.__exit__(*error)

    def __call__(self, row: dict[str, float], W: Array) -> Any:
        if row["iteration"] > 0:
            self._progress.step(f"cost {row['value']:.6g}")
        # copies, so that the callback cannot change the state of the fit
        if self._callback is None:
            return None
        return self._callback(dict(row), backend.copy(W) if self._G is None else self._G @ W)

    def finish(self, message: str) -> None:
        self._progress.finish(message)


class _named_start:
    """Say where in the fit a matrix was found not to be positive definite."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, NotPositiveDefiniteError):
            raise ValueError(f"W'XW is not positive definite at the start: {error}") from error
