"""`python -m spdsl.demo`: SPDSL against the plain nearest neighbour on image sets of digits, over ten splits."""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from spdsl.datasets import load_digit_sets
from spdsl.estimators import SPDSL
from spdsl.neighbors import SPDNearestNeighbor
from spdsl.progress import Progress

METRICS = {"aim": "AIM", "stein": "Stein", "lem": "LEM"}
GALLERY, PROBE = 2, 20  # sets per digit for training and for testing
COMPONENTS = 20


def split(y: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw gallery and probe sets of every class."""
    rng = np.random.default_rng(seed)
    drawn = [rng.permutation(np.flatnonzero(y == label)) for label in np.unique(y)]
    return np.concatenate([d[:GALLERY] for d in drawn]), np.concatenate([d[GALLERY : GALLERY + PROBE] for d in drawn])


def run(n_splits: int = 10) -> dict[str, dict[str, list[float]]]:
    """Accuracies in percent by metric and method, and the seconds of a fit."""
    X, y = load_digit_sets()
    results: dict[str, dict[str, list[float]]] = {m: {"plain": [], "learned": [], "seconds": []} for m in METRICS}
    with Progress(n_splits * len(METRICS), "Learning on digit image sets") as progress:
        for seed in range(n_splits):
            train, test = split(y, seed)
            for metric, rows in results.items():
                plain = SPDNearestNeighbor(metric).fit(X[train], y[train])
                began = time.perf_counter()
                with warnings.catch_warnings():
                    # a fit that would gain a little more after max_iter is good enough for a demonstration
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    learned = SPDSL(COMPONENTS, metric=metric).fit(X[train], y[train])
                rows["seconds"].append(time.perf_counter() - began)
                rows["plain"].append(100 * plain.score(X[test], y[test]))
                rows["learned"].append(100 * learned.score(X[test], y[test]))
                progress.step(f"split {seed + 1}, {METRICS[metric]}")
    return results


def table(results: dict[str, dict[str, list[float]]]) -> str:
    """The results as lines of text."""
    head = f"{'metric':<8}{'plain nearest neighbour':>26}{'SPDSL':>16}{'gain':>8}{'fit':>10}"
    lines = [head, "-" * len(head)]
    for metric, rows in results.items():
        gain, seconds = np.mean(rows["learned"]) - np.mean(rows["plain"]), np.mean(rows["seconds"])
        plain, learned = (_mean_and_deviation(rows[key]) for key in ("plain", "learned"))
        lines.append(f"{METRICS[metric]:<8}{plain:>26}{learned:>16}{gain:>+8.1f}{seconds:>8.2f} s")
    return "\n".join(lines)


def _mean_and_deviation(values: list[float]) -> str:
    return f"{np.mean(values):.1f}" + (f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else "")


def main(n_splits: int = 10) -> None:
    """Run and print."""
    print(
        "Recognise a digit from a set of two 8 x 8 images, described by its 65 x 65 covariance-with-mean matrix.\n"
        f"{10 * GALLERY} labelled sets to learn from, {10 * PROBE} to recognise, {n_splits} random splits.\n"
        f"SPDSL learns W (65 x {COMPONENTS}) so that the distances of W'XW tell the digits apart.\n"
    )
    began = time.perf_counter()
    results = run(n_splits)
    print(f"\nAccuracy in percent, mean ± standard deviation over {n_splits} splits\n")
    print(table(results))
    print(f"\nDone in {time.perf_counter() - began:.0f} s.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
