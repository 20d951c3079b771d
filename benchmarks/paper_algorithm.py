"""Fig. 7, seconds per iteration of SPDSL-LEM against v_b, beside the paper's algorithm: logarithms of 2m x 2m for every pair.

    python benchmarks/paper_algorithm.py            # 141 matrices of 401 x 401, m = 40, as the paper's face set
    python benchmarks/paper_algorithm.py --tiny     # a size for continuous integration

The paper's gradient (Eq. 12 and 17 with Theorem 1) is timed on a sample of pairs and scaled to all pairs of the graph; it is
counted as kindly as can be: products XW and logarithms of W'XW (by eigenvalues) once per matrix, two block logarithms per
pair, and nothing for its line search. Ours is a whole iteration, line search included. On the sample both must find the same
gradient. Seconds are those of the processor with one thread, so that other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from problems import make
from spdsl import SPDSL
from spdsl.data.memory import MemoryView
from spdsl.geometry import METRICS

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from plain import lem_pair_gradient

BETWEEN = (*range(1, 9), 20, 100, "full")
PAPER = {2: 465, "full": 13975}  # seconds per iteration that the paper reports


def paper_seconds(X: np.ndarray, W: np.ndarray, i: np.ndarray, j: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Seconds of what is done once for all matrices, median seconds of a pair, and the sum of the pairs' gradients."""
    began = time.process_time()
    B = X @ W
    P = W.T @ B
    P = (P + P.mT) / 2
    w, V = np.linalg.eigh(P)
    logs = (V * np.log(w)[:, None, :]) @ V.mT
    once = time.process_time() - began
    gradient, seconds = np.zeros_like(W), []
    for a, b in zip(i, j, strict=True):
        began = time.process_time()
        gradient += lem_pair_gradient(B[a], B[b], P[a], P[b], logs[a] - logs[b])
        seconds.append(time.process_time() - began)
    return once, float(np.median(seconds)), gradient


def our_seconds(X: np.ndarray, y: np.ndarray, m: int, iterations: int, between: int | str) -> tuple[float, int]:
    """Median seconds of an iteration, and the number of pairs."""
    clock: list[float] = []
    model = SPDSL(
        m,
        metric="lem",
        n_within="all",
        n_between="all" if between == "full" else between,
        max_iter=iterations,
        tol=0.0,
        callback=lambda *_: clock.append(time.process_time()),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return float(np.median(np.diff(clock))), len(model.graph_)


def our_gradient(X: np.ndarray, W: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """The same sum by the library."""
    stack = MemoryView(X)
    _, pullback = METRICS["lem"].pairs(stack.start(W), i, j)
    return stack.gradient(pullback(np.ones(len(i))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--pairs", type=int, default=20, help="size of the sample")
    parser.add_argument("--json", help="write the figures to this file too")
    arguments = parser.parse_args()
    N, n, m, iterations = (30, 40, 8, 5) if arguments.tiny else (141, 401, 40, 10)
    X, y = make(N, n)
    rng = np.random.default_rng(1)
    W = np.linalg.qr(rng.standard_normal((n, m)))[0]
    i, j = np.triu_indices(N, 1)
    sample = rng.choice(len(i), arguments.pairs, replace=False)
    once, each, theirs = paper_seconds(X, W, i[sample], j[sample])
    ours = our_gradient(X, W, i[sample], j[sample])
    difference = float(np.linalg.norm(theirs - ours) / np.linalg.norm(ours))
    print(f"{N} matrices of {n} x {n}, m = {m}; {arguments.pairs} pairs timed, {1000 * each:.1f} ms a pair")
    print(f"relative difference of the two gradients: {difference:.1e}")
    if difference > 1e-6:
        raise SystemExit("the two gradients differ: nothing to compare")
    rows = [_row(X, y, m, iterations, once, each, v) for v in (BETWEEN if not arguments.tiny else (2, "full"))]
    found = {
        "matrices": N,
        "size": n,
        "m": m,
        "pairs timed": arguments.pairs,
        "seconds per pair": each,
        "relative difference": difference,
        "rows": rows,
    }
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found))


def _row(
    X: np.ndarray, y: np.ndarray, m: int, iterations: int, once: float, each: float, between: int | str
) -> dict[str, float | str]:
    """Both algorithms with v_b = `between`, printed."""
    seconds, pairs = our_seconds(X, y, m, iterations, between)
    scaled = once + each * pairs
    line = f"v_b {between:>4} {pairs:6} pairs   paper's algorithm {scaled:8.2f} s   ours {seconds:6.3f} s"
    said = f"   (the paper reports {PAPER[between]} s)" if between in PAPER and len(X) == 141 else ""
    print(f"{line}   ratio {scaled / seconds:6.0f}{said}", flush=True)
    return {"v_b": between, "pairs": pairs, "paper": scaled, "ours": seconds, "ratio": scaled / seconds}


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
