"""SPDSL's solver beside pymanopt's conjugate gradient on `PSDFixedRank`, same cost, same start, on an ETH-80-sized problem.

python benchmarks/pymanopt_peer.py            # 40 matrices of 401 x 401 (real ones where SPDSL_DATA is set), m = 40
python benchmarks/pymanopt_peer.py --tiny
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

import numpy as np
import pymanopt
from pymanopt.manifolds import PSDFixedRank
from pymanopt.optimizers import ConjugateGradient
from sklearn.exceptions import ConvergenceWarning

from iteration import make
from spdsl import SPDSL


def peer(model: SPDSL, X: np.ndarray, y: np.ndarray, W: np.ndarray, iterations: int) -> dict[str, float]:
    """Run pymanopt on `model.cost`; value and gradient at one point share one evaluation, as kindly as can be."""
    function = model.cost(X, y)
    manifold = PSDFixedRank(*W.shape)
    last: dict[bytes, tuple[float, np.ndarray]] = {}
    count = 0

    def evaluate(point: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal count
        key = point.tobytes()
        if key not in last:
            last.clear()
            last[key] = function(point)
            count += 1
        return last[key]

    cost = pymanopt.function.numpy(manifold)(lambda point: evaluate(point)[0])
    gradient = pymanopt.function.numpy(manifold)(lambda point: evaluate(point)[1])
    problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient)
    began = time.perf_counter()
    result = ConjugateGradient(max_iterations=iterations, verbosity=0).run(problem, initial_point=W)
    seconds = time.perf_counter() - began
    return {
        "value": result.cost,
        "iterations": result.iterations,
        "evaluations": count,
        "passes": count,
        "seconds": seconds,
    }


def ours(model: SPDSL, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        began = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - began
    evaluations = sum(row["trials"] for row in model.history_)
    return {
        "value": model.cost_,
        "iterations": model.n_iter_,
        "evaluations": evaluations,
        "passes": model.n_passes_,
        "seconds": seconds,
    }


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
        f"{'metric':8}{'solver':10}{'final cost':>14}{'iterations':>12}{'evaluations':>13}{'passes over X':>15}{'seconds':>9}"
    )
    for metric in ("lem", "stein"):
        W = np.linalg.qr(np.random.default_rng(0).standard_normal((X.shape[1], m)))[0]
        model = SPDSL(m, metric=metric, init=W, max_iter=iterations, tol=0.0)
        for name, row in (("spdsl", ours(model, X, y)), ("pymanopt", peer(model, X, y, W, iterations))):
            print(
                f"{metric:8}{name:10}{row['value']:14.6f}{row['iterations']:12d}{row['evaluations']:13d}"
                f"{row['passes']:15d}{row['seconds']:9.2f}"
            )


if __name__ == "__main__":
    main()
