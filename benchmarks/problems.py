"""Problems of a given size and graph, for the benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdsl import backend, regularize
from spdsl.data.memory import MemoryView
from spdsl.geometry import METRICS
from spdsl.geometry.manifolds import MANIFOLDS
from spdsl.learning.graph import PairGraph
from spdsl.learning.objectives import CenteredAlignment
from spdsl.learning.problem import Problem
from spdsl.learning.solver import minimize


def make(N: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Covariances of random sets of 60 frames with the paper's ridge, three sets per class."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((N, n, 60)) * np.geomspace(1, 0.03, n)[:, None]
    return regularize(F @ F.mT / 60), np.arange(N) % (N // 3)


def neighbors(N: int, between: int, seed: int = 0) -> tuple[PairGraph, np.ndarray]:
    """Labels with three samples a class, and a graph of all pairs within and so many drawn ones between, per sample."""
    labels = np.arange(N) % (N // 3)
    rng = np.random.default_rng(seed)
    i = np.repeat(np.arange(N), between)
    j = (i + rng.integers(1, N, len(i))) % N
    within = np.argwhere(np.triu(labels[:, None] == labels[None, :], 1)) if N < 5000 else None
    if within is None:  # class c holds c, c + N/3, c + 2N/3
        first = np.arange(N - N // 3)
        within = np.stack([first, first + N // 3], axis=1)
        first = np.arange(N - 2 * (N // 3))
        within = np.concatenate([within, np.stack([first, first + 2 * (N // 3)], axis=1)])
    keys = np.unique(np.concatenate([within.min(1) * N + within.max(1), np.minimum(i, j) * N + np.maximum(i, j)]))
    i, j = keys // N, keys % N
    return PairGraph(N, i, j, labels[i] == labels[j]), labels


def full_graph(N: int) -> tuple[PairGraph, np.ndarray]:
    labels = np.arange(N) % (N // 3)
    i, j = np.triu_indices(N, 1)
    return PairGraph(N, i, j, labels[i] == labels[j]), labels


def make_problem(X: Any, graph: PairGraph, labels: np.ndarray, m: int, metric: str = "lem") -> tuple[Problem, Any]:
    """SPDSL's problem on a given graph, with its default width and a start that knows nothing."""
    W = backend.like(np.linalg.qr(np.random.default_rng(0).standard_normal((X.shape[-1], m)))[0], X)
    stack, chosen = MemoryView(X), METRICS[metric]
    i, j = backend.like(graph.i, X), backend.like(graph.j, X)
    d2 = backend.to_numpy(chosen.pairs(stack.start(W), i, j)[0])
    objective = CenteredAlignment(graph, labels, 1 / np.mean(np.sqrt(d2)) ** 2)
    return Problem(stack, chosen, objective, i, j), W


def per_iteration(problem: Problem, W: Any, iterations: int, *, one_trial: bool = False) -> float:
    """Mean seconds of an iteration, line search and all; `one_trial`: of those whose first step was taken.

    How many steps are tried depends on the problem: sizes compare by the iterations that did the same work.
    """
    history = minimize(problem, W, MANIFOLDS["psd"], max_iter=iterations, tol=0.0, gradient_tol=0.0).history[1:]
    alike = [line for line in history if line["trials"] == 1] if one_trial else history
    return sum(line["seconds"] for line in alike) / len(alike)
