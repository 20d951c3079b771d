"""SPDSL's solver beside pymanopt's conjugate gradient on `PSDFixedRank`, same cost, same start, on an ETH-80-sized problem.

    python benchmarks/pymanopt_peer.py            # 40 matrices of 401 x 401 (real ones where SPDSL_DATA is set), m = 40
    python benchmarks/pymanopt_peer.py --tiny

pymanopt takes cost and gradient as two functions. `shared` counts a value and a gradient at one point as one evaluation, as
kindly as can be; without it both are computed when asked for, as users would write it.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from typing import Any

import numpy as np
import pymanopt
from pymanopt.manifolds import PSDFixedRank
from pymanopt.optimizers import ConjugateGradient
from sklearn.exceptions import ConvergenceWarning

from problems import make
from spdsl import SPDSL
from spdsl.geometry.manifolds import MANIFOLDS
from spdsl.learning.problem import Problem
from spdsl.learning.solver import minimize


def peer(function: Any, W: np.ndarray, iterations: int, *, shared: bool, autograd: bool = False) -> dict[str, float]:
    """Run pymanopt on a function W -> (value, gradient), or on a torch function W -> value that it differentiates."""
    manifold = PSDFixedRank(*W.shape)
    count = 0
    last: dict[bytes, tuple[float, np.ndarray]] = {}

    def evaluate(point: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal count
        key = point.tobytes() if shared else b""
        if key in last and shared:
            return last[key]
        last.clear()
        last[key] = function(point)
        count += 1
        return last[key]

    if autograd:
        problem = pymanopt.Problem(manifold, pymanopt.function.pytorch(manifold)(function))
    else:
        cost = pymanopt.function.numpy(manifold)(lambda point: evaluate(point)[0])
        gradient = pymanopt.function.numpy(manifold)(lambda point: evaluate(point)[1])
        problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient)
    began = time.perf_counter()
    optimizer = ConjugateGradient(max_iterations=iterations, min_gradient_norm=0, min_step_size=0, verbosity=0)
    result = optimizer.run(problem, initial_point=W)
    return {
        "value": float(result.cost),
        "iterations": result.iterations,
        "evaluations": count,
        "passes": count,
        "seconds": time.perf_counter() - began,
    }


def ours(problem: Problem, W: np.ndarray, iterations: int) -> dict[str, float]:
    """The same by our solver."""
    before = problem.view.passes
    began = time.perf_counter()
    result = minimize(problem, W, MANIFOLDS["psd"], max_iter=iterations, tol=0.0, gradient_tol=0.0)
    return {
        "value": result.value,
        "iterations": len(result.history) - 1,
        "evaluations": int(sum(row["trials"] for row in result.history)),
        "passes": result.passes - before,
        "seconds": time.perf_counter() - began,
    }


def autograd_cost(X: np.ndarray, objective: Any, i: np.ndarray, j: np.ndarray) -> Any:
    """The cost of SPDSL-LEM as one would write it in torch, for autograd: no derivative, no order of sums."""
    import torch

    X, i, j = torch.as_tensor(X), torch.as_tensor(i), torch.as_tensor(j)
    N = len(X)
    target = torch.zeros(N, N, dtype=X.dtype)
    target[i, j] = target[j, i] = torch.as_tensor(objective.target_)
    eye, beta, trace = torch.eye(N, dtype=X.dtype), objective.beta, objective.trace_

    def cost(W: torch.Tensor) -> torch.Tensor:
        P = W.mT @ (X @ W)
        w, V = torch.linalg.eigh((P + P.mT) / 2)
        logs = (V * torch.log(w)[:, None, :]) @ V.mT
        k = torch.exp(-beta * ((logs[i] - logs[j]) ** 2).sum((-1, -2)))
        K = eye.index_put((torch.cat([i, j]), torch.cat([j, i])), torch.cat([k, k]))
        L = K - K.mean(0, keepdim=True) - K.mean(1, keepdim=True) + K.mean()
        return -((K * target).sum() + trace) / torch.linalg.norm(L)

    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true")
    tiny = parser.parse_args().tiny
    if os.environ.get("SPDSL_DATA") and not tiny:
        from realdata import splits

        split = next(splits("eth80", 1))
        X, y, source = split.X_train, split.y_train, "ETH-80, first draw"
    else:
        X, y = make(*((12, 20) if tiny else (40, 401)))
        source = "random covariances"
    m, iterations = (5, 20) if tiny else (40, 100)
    print(f"{source}: {X.shape[0]} matrices of {X.shape[1]} x {X.shape[1]}, m = {m}, {iterations} iterations")
    print(
        f"{'metric':8}{'solver':10}{'final cost':>14}{'iterations':>12}{'evaluations':>13}{'passes':>8}{'seconds':>9}"
    )
    for metric in ("lem", "stein"):
        W = np.linalg.qr(np.random.default_rng(0).standard_normal((X.shape[1], m)))[0]
        model = SPDSL(m, metric=metric, solver={"init": W}, max_iter=iterations, tol=0.0)
        for name, row in (
            ("spdsl", fitted(model, X, y)),
            ("pymanopt", peer(model.cost(X, y), W, iterations, shared=True)),
        ):
            print(
                f"{metric:8}{name:10}{row['value']:14.6f}{row['iterations']:12d}{row['evaluations']:13d}"
                f"{row['passes']:8d}{row['seconds']:9.2f}"
            )


def fitted(model: SPDSL, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """A whole fit, graph, check and classifier included."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - began
    return {
        "value": model.cost_,
        "iterations": model.n_iter_,
        "evaluations": int(sum(row["trials"] for row in model.history_)),
        "passes": model.n_passes_,
        "seconds": seconds,
    }


if __name__ == "__main__":
    main()
