"""One iteration of SPDSL-LEM at the size of the paper's face set: sparse against full graph, and passes over the data.

    python benchmarks/iteration.py            # 141 matrices of 401 x 401, m = 40
    python benchmarks/iteration.py --tiny     # a size for continuous integration

The paper reports about 465 s per iteration with v_b = 2 and 13,975 s with the full kernel matrix, a ratio of 30.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from spdsl import SPDSL


def make(N: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Random set covariances with ridge, three per class."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((N, n, n + 1)) * np.geomspace(1, 0.03, n)[:, None]
    X = F @ F.mT / n
    return X, np.arange(N) % (N // 3)


def iteration_seconds(X: np.ndarray, y: np.ndarray, m: int, iterations: int, **graph: object) -> tuple[float, SPDSL]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SPDSL(m, metric="lem", max_iter=iterations, tol=0.0, **graph).fit(X, y)
    return float(np.median([row["seconds"] for row in model.history_[1:]])), model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    tiny = parser.parse_args().tiny
    repeats = parser.parse_args().repeats
    N, n, m, iterations = (30, 40, 8, 5) if tiny else (141, 401, 40, 10)
    X, y = make(N, n)
    graphs = {
        "sparse, v_w = 3, v_b = 2": {"n_within": 3, "n_between": 2},
        "full": {"n_within": "all", "n_between": "all"},
    }
    flat = X.reshape(N * n, n)
    H = np.random.default_rng(1).standard_normal((n, m))
    seconds: dict[str, list[float]] = {name: [] for name in [*graphs, "bare product X H"]}
    for _ in range(repeats):
        for name, graph in graphs.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # v_w = 3 of 3 per class: all of them, and said so
                took, model = iteration_seconds(X, y, m, iterations, **graph)
            seconds[name].append(took)
            passes = (model.n_passes_ - 1) / model.n_iter_
            trials = np.mean([row["trials"] for row in model.history_[1:]])
            print(
                f"{name:26} {1000 * took:8.1f} ms   pairs {len(model.graph_):6}   passes {passes:.2f}   trials {trials:.2f}"
            )
        began = time.perf_counter()
        for _ in range(5):
            flat @ H
        seconds["bare product X H"].append((time.perf_counter() - began) / 5)
    print(f"\n{N} matrices of {n} x {n}, m = {m}; median of {repeats} repeats")
    middle = {name: float(np.median(values)) for name, values in seconds.items()}
    for name, value in middle.items():
        print(f"{name:26} {1000 * value:8.1f} ms")
    sparse, full, bare = middle["sparse, v_w = 3, v_b = 2"], middle["full"], middle["bare product X H"]
    print(f"full / sparse = {full / sparse:.2f};  sparse / bare product = {sparse / bare:.2f}")


if __name__ == "__main__":
    main()
