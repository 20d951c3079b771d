"""Accuracy of `SPDSL()` and of what one would take instead, on every real set at hand: docs/defaults.md.

    python benchmarks/accuracy.py --results accuracy.json                 # everything; hours on one thread
    python benchmarks/accuracy.py --results accuracy.json --sets kth virus --methods SPDSL "TS+LR"
    python benchmarks/accuracy.py --results accuracy.json --table         # only print what is there
    python benchmarks/accuracy.py --results accuracy.json --table --ranks ranks.png   # and draw the mean ranks

Sets come from the folder in SPDSL_DATA; the signals of two more from aeon, SPDNet from spd_learn, where installed
(`pip install 'spdsl[bench]'`). Results are kept in the file by set, draw and method: what it holds is not computed
again. Set OMP_NUM_THREADS=1 for seconds that can be compared.

Tuning is by three inner folds on the training part: TS+LR over the grid of METHODS, CDL, LEK-gauss and RSR over two to four
points. Matrices larger than 100 x 100 are mapped to the tangent space at their log-Euclidean mean rather than the Riemannian
one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from realdata import REAL_SETS, RealSet, missing
from spdnet_peer import SPDNetClassifier
from spdsl import METHODS, SPDSL, tune
from spdsl.evaluation.figures import draw_ranks, styled, to_png
from spdsl.evaluation.statistics import rank_methods

Results = dict[str, dict[str, Any]]
BINS = 10  # of the calibration error
LARGE = 100  # rows above which a Riemannian mean takes minutes
FEW_POINTS = {"beta_scale": (0.2, 1.0), "penalty": (1e-3, 1e-2)}


def tuned(name: str, grid: dict[str, Any] | None = None) -> Callable[[np.ndarray, np.ndarray], Any]:
    """A row of METHODS, tuned inside the training part."""

    def fit(X: np.ndarray, y: np.ndarray) -> Any:
        method = METHODS[name]
        model = method.unfitted(None, 0)
        if name.startswith("TS") and X.shape[-1] > LARGE:
            model.set_params(metric={"mean": "logeuclid", "map": "riemann"})
        best = tune(model, method.grid if grid is None else grid, X, y, n_folds=3)
        return model.set_params(**best.params).fit(X, y)

    return fit


def fgmdm(X: np.ndarray, y: np.ndarray) -> Any:
    from pyriemann.classification import FgMDM

    return FgMDM(metric="riemann").fit(X, y)


def paper(X: np.ndarray, y: np.ndarray) -> Any:
    """The defaults of the paper's method, which were those of `SPDSL()` before."""
    n = X.shape[-1]
    m = max(1, min(round(n / 3), 40))
    return SPDSL(m, objective="alignment", classifier="nn", solver={"init": "pca"}, max_iter=100).fit(X, y)


@dataclass(frozen=True)
class Contender:
    """How to fit a method to (X, y), the packages it needs, and for which numbers of samples and rows it is quick enough."""

    fit: Callable[[np.ndarray, np.ndarray], Any]
    needs: tuple[str, ...] = ()
    most_samples: int = 10**9
    most_rows: int = 10**9


CONTENDERS: dict[str, Contender] = {
    "SPDSL": Contender(lambda X, y: SPDSL().fit(X, y)),
    "aligned NN": Contender(paper),
    "TS+LDA": Contender(tuned("TS+LDA"), ("pyriemann",)),
    "TS+LR": Contender(tuned("TS+LR"), ("pyriemann",)),
    "FgMDM": Contender(fgmdm, ("pyriemann",), most_rows=70),
    "CDL": Contender(tuned("CDL")),
    "LEK-gauss": Contender(tuned("LEK-gauss", FEW_POINTS)),
    "RSR": Contender(tuned("RSR", FEW_POINTS)),
    "SPDNet": Contender(lambda X, y: SPDNetClassifier().fit(X, y), ("torch", "spd_learn"), 2000, 200),
}


@cache
def load(name: str, draws: int) -> RealSet:
    return REAL_SETS[name](draws)


class TooLong(Exception):
    """The time limit of a cell has passed."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def measure(contender: Contender, data: RealSet, draw: int, limit: int) -> dict[str, Any]:
    """Accuracy and seconds of a fit; log-loss, and top probabilities with whether they were right, where there are any."""
    train, test = data.draws[draw]
    n = data.X.shape[-1]
    if len(train) > contender.most_samples or n > contender.most_rows:
        return {"failed": f"too slow for {len(train)} matrices of {n} x {n}"}
    began = time.perf_counter()
    try:
        with limited(limit):
            model = contender.fit(data.X[train], data.y[train])
            seconds = time.perf_counter() - began
            right = model.predict(data.X[test]) == data.y[test]
            found = {"accuracy": 100 * float(np.mean(right)), "seconds": round(seconds, 3)}
            if isinstance(model, SPDSL) and hasattr(model.classifier_, "discriminant_"):
                found |= judge_probabilities(model, data.X[test], data.y[test])
            return found
    except TooLong:
        return {"failed": f"more than {limit} s", "limit": limit}
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        return {"failed": f"{type(error).__name__}: {error}"}


def judge_probabilities(model: Any, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    P = model.predict_proba(X)
    top = P.argmax(axis=1)
    return {
        "log_loss": -float(np.mean(np.log(P[np.arange(len(y)), np.searchsorted(model.classes_, y)]))),
        "confidence": [round(float(p), 4) for p in P.max(axis=1)],
        "right": [int(hit) for hit in model.classes_[top] == y],
    }


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Mean over samples of |confidence - accuracy| of their bin, ten bins of equal width."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs(np.sum(confidence[bins == b]) - np.sum(right[bins == b])) for b in range(BINS)]
    return float(np.sum(gaps) / len(right))


def run(results: Results, path: Path, sets: list[str], methods: list[str], draws: int, limit: int) -> None:
    """Compute the cells that the results do not hold, and save after each."""
    for method in methods:
        absent = [package for package in CONTENDERS[method].needs if find_spec(package) is None]
        if absent:
            print(f"{method} is left out: {absent[0]} is not installed", file=sys.stderr)
            continue
        for name in sets:
            for k in range(len(load(name, draws).draws)):
                key = f"{name}/{k}/{method}"
                if key in results and results[key].get("limit", limit) >= limit:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    results[key] = measure(CONTENDERS[method], load(name, draws), k, limit)
                save(results, path)
                said = {field: v for field, v in results[key].items() if field not in ("confidence", "right")}
                print(key, said, file=sys.stderr, flush=True)


def save(results: Results, path: Path) -> None:
    """Write beside, then rename: an interruption leaves the file of the cell before."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(results, indent=0))
    os.replace(beside, path)


def values(results: Results, name: str, method: str, field: str = "accuracy") -> list[Any]:
    """A field of every draw that has it, in the order of the draws."""
    cells = [(int(key.split("/")[1]), cell) for key, cell in results.items() if _is(key, name, method)]
    return [cell[field] for _, cell in sorted(cells, key=lambda c: c[0]) if field in cell]


def _is(key: str, name: str, method: str) -> bool:
    return key.startswith(f"{name}/") and key.endswith(f"/{method}")


def show(found: list[float]) -> str:
    if not found:
        return "–"
    return f"{np.mean(found):.1f}" + (f" ± {np.std(found, ddof=1):.1f}" if len(found) > 1 else "")


def table(results: Results, sets: list[str], methods: list[str]) -> list[str]:
    """Lines of Markdown: a row a set, the means over sets, and the mean ranks of the methods that have every set."""
    sets, methods, mean = means_of(results, sets, methods)
    lines = ["| set | draws | " + " | ".join(methods) + " |", "|---" * (len(methods) + 2) + "|"]
    for name in sets:
        cells = [values(results, name, m) for m in methods]
        lines.append(f"| {name} | {max(map(len, cells))} | " + " | ".join(map(show, cells)) + " |")
    counts = (~np.isnan(mean)).sum(axis=0)
    means = [
        f"{m:.2f}" + ("" if c == len(sets) else f" ({c} sets)")
        for m, c in zip(np.nanmean(mean, 0), counts, strict=True)
    ]
    lines.append(f"| mean | {len(sets)} sets | " + " | ".join(means) + " |")
    full = counts == len(sets)
    ranking = rank_methods(mean[:, full])
    ranks = np.full(len(methods), np.nan)
    ranks[full] = ranking.ranks
    lines.append("| mean rank | | " + " | ".join("–" if np.isnan(r) else f"{r:.2f}" for r in ranks) + " |")
    if ranking.critical_difference is not None:
        lines += [
            "",
            f"Friedman p = {ranking.p:.3g}; critical difference of the ranks {ranking.critical_difference:.2f}.",
        ]
    return lines


def means_of(results: Results, sets: list[str], methods: list[str]) -> tuple[list[str], list[str], np.ndarray]:
    """Sets and methods that have results, and the mean accuracies (sets, methods); NaN where there are none."""
    methods = [m for m in methods if any(values(results, name, m) for name in sets)]
    sets = [name for name in sets if any(values(results, name, m) for m in methods)]
    cells = [[values(results, name, m) for m in methods] for name in sets]
    return sets, methods, np.array([[np.mean(c) if c else np.nan for c in row] for row in cells])


def draw(results: Results, sets: list[str], methods: list[str], path: Path) -> None:
    """The mean ranks of the methods that have every set, with the critical difference, as a PNG file."""
    _, methods, mean = means_of(results, sets, methods)
    full = ~np.isnan(mean).any(axis=0)
    with styled():
        figure = draw_ranks([m for m, whole in zip(methods, full, strict=True) if whole], rank_methods(mean[:, full]))
        path.write_bytes(to_png(figure))


def calibration(results: Results, sets: list[str]) -> list[str]:
    """Lines of Markdown: accuracy, log-loss and calibration error of `SPDSL()`, the draws of a set pooled."""
    lines = ["| set | accuracy | mean confidence | log-loss | calibration error |", "|---|---|---|---|---|"]
    for name in sets:
        losses = values(results, name, "SPDSL", "log_loss")
        if not losses:
            continue
        confidence = np.concatenate(values(results, name, "SPDSL", "confidence"))
        right = np.concatenate(values(results, name, "SPDSL", "right"))
        error = calibration_error(confidence, right)
        lines.append(
            f"| {name} | {100 * right.mean():.1f} | {100 * confidence.mean():.1f} | {np.mean(losses):.2f} | {error:.3f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, help="file of the results; those in it are reused")
    parser.add_argument("--sets", nargs="+", choices=REAL_SETS, default=list(REAL_SETS))
    parser.add_argument("--methods", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--draws", type=int, default=5, help="random draws of the sets without an official split")
    parser.add_argument("--limit", type=int, default=600, help="seconds after which a fit is given up")
    parser.add_argument("--table", action="store_true", help="print the results in the file, compute nothing")
    parser.add_argument("--ranks", type=Path, help="PNG file of the mean ranks to write")
    parser.add_argument("--tiny", action="store_true", help="one draw of the digits, and what is quick there")
    options = parser.parse_args()
    if options.tiny:
        options.sets, options.draws = ["digits"], 1
        options.methods = [m for m in options.methods if m not in ("FgMDM", "SPDNet")]
    if options.results is None and not options.tiny:
        parser.error("give --results FILE: an interrupted run resumes from it")
    with tempfile.TemporaryDirectory() as scratch:
        path = options.results or Path(scratch) / "accuracy.json"
        results: Results = json.loads(path.read_text()) if path.exists() else {}
        if not options.table:
            for name in options.sets:
                if missing(name):
                    print(f"{name} is left out: {missing(name)}", file=sys.stderr)
            sets = [name for name in options.sets if not missing(name)]
            run(results, path, sets, options.methods, options.draws, options.limit)
        print("\n".join([*table(results, options.sets, options.methods), "", *calibration(results, options.sets)]))
        if options.ranks is not None:
            draw(results, options.sets, options.methods, options.ranks)


if __name__ == "__main__":
    main()
