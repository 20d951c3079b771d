"""What the parts of `scale.py` share: matrices, files, timed iterations."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from spdsl import METRICS, SPDSL
from spdsl.data import Data
from spdsl.geometry.manifolds import MANIFOLDS
from spdsl.learning.graph import PairGraph
from spdsl.learning.objectives import CenteredAlignment
from spdsl.learning.problem import Problem
from spdsl.learning.solver import minimize

CLASSES = 10
LEM = METRICS["lem"]


def covariances(count: int, n: int, first: int) -> np.ndarray:
    """Covariances n x n whose class shows in a few directions; sample k is class k mod 10 and always the same."""
    rng = np.random.default_rng(first)
    basis = np.random.default_rng(0).standard_normal((CLASSES, n, 4))
    F = rng.standard_normal((count, n, n // 4)) * np.geomspace(1, 0.1, n)[:, None]
    G = basis[np.arange(first, first + count) % CLASSES] * rng.uniform(0.5, 1.5, (count, 1, 4))
    X = (F @ F.mT + G @ G.mT) / n
    X[:, np.arange(n), np.arange(n)] += 1e-3 * np.trace(X, axis1=1, axis2=2)[:, None]
    return X


def write_stack(path: Path, N: int, n: int, start: int = 0) -> Path:
    """An `.npy` file of covariances, written block by block."""
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (N, n, n)})
        for k in range(0, N, 250):
            covariances(min(250, N - k), n, start + k).tofile(file)
    return path


def fit(model: SPDSL, X: object, y: np.ndarray) -> SPDSL:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def peak_mb() -> float:
    """Largest resident set of this process so far; `getrusage` would count that of the process it was forked from."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def some_pairs(N: int, per_sample: int = 12) -> PairGraph:
    """Random pairs, as many as a graph of nearest neighbors has; for timing iterations."""
    rng = np.random.default_rng(0)
    i, j = np.repeat(np.arange(N), per_sample), rng.integers(N, size=N * per_sample)
    keys = np.unique((np.minimum(i, j) * N + np.maximum(i, j))[i != j])
    i, j = keys // N, keys % N
    return PairGraph(N, i, j, i % CLASSES == j % CLASSES)


def iterate(samples: Data, m: int, iterations: int) -> tuple[np.ndarray, float, float]:
    """Seconds of each iteration over random pairs, the mean number of trials, and the last value."""
    N, n, _ = samples.shape
    graph = some_pairs(N)
    stack, W = samples.view(m), np.eye(n, m)
    P = stack.start(W)
    d2, _ = LEM.pairs(P, graph.i, graph.j)
    objective = CenteredAlignment(graph, np.arange(N) % CLASSES, 1 / float(np.mean(d2)))
    result = minimize(
        Problem(stack, LEM, objective, graph.i, graph.j), W, MANIFOLDS["psd"], max_iter=iterations, tol=0.0
    )
    rows = result.history[1:]
    return np.array([row["seconds"] for row in rows]), float(np.mean([row["trials"] for row in rows])), result.value
