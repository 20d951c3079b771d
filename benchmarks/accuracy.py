"""Accuracy of SPDSL against the plain nearest neighbour on real data (the folder in SPDSL_DATA).

    python benchmarks/accuracy.py toy                 # graphs of different density on the synthetic 30 x 30 set
    python benchmarks/accuracy.py defaults            # only n_components given, four real sets, LEM
    python benchmarks/accuracy.py tuned fpha lem      # parameters by cross-validation inside the training part
    python benchmarks/accuracy.py tuned eth80 stein

Prints lines of a Markdown table: mean and standard deviation in percent over the splits of `realdata.splits`.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from realdata import splits
from spdsl import SPDSL, SPDNearestNeighbor

SETS = ("fpha", "hdm05", "kth", "eth80")


def show(values: list[float]) -> str:
    spread = f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}"


def toy() -> None:
    """Accuracy for v_w = v_b = 3, 10, all, with the paper's beta and 50 iterations, and for the defaults."""
    (split,) = splits("toy")
    plain = SPDNearestNeighbor("lem").fit(split.X_train, split.y_train).score(split.X_test, split.y_test)
    print(f"| plain LEM | {100 * plain:.1f} | |")
    for count in (3, 10, "all"):
        for centering in ("graph", "pairs"):
            began = time.perf_counter()
            model = SPDSL(
                10, n_within=count, n_between=count, centering=centering, beta="original", max_iter=50, tol=0.0
            ).fit(split.X_train, split.y_train)
            seconds = time.perf_counter() - began
            accuracy = 100 * model.score(split.X_test, split.y_test)
            print(f"| v_w = v_b = {count}, centering {centering} | {accuracy:.1f} | {seconds:.2f} s |")
    began = time.perf_counter()
    model = SPDSL(10).fit(split.X_train, split.y_train)
    seconds = time.perf_counter() - began
    print(f"| defaults | {100 * model.score(split.X_test, split.y_test):.1f} | {seconds:.2f} s |")


def defaults(names: list[str], metric: str = "lem") -> None:
    """Gain with nothing but n_components given."""
    gains = []
    for name in names:
        plain, learned, seconds = [], [], []
        for split in splits(name):
            nearest = SPDNearestNeighbor(metric).fit(split.X_train, split.y_train)
            plain.append(100 * nearest.score(split.X_test, split.y_test))
            began = time.perf_counter()
            model = SPDSL(split.n_components, metric=metric).fit(split.X_train, split.y_train)
            seconds.append(time.perf_counter() - began)
            learned.append(100 * model.score(split.X_test, split.y_test))
        gains.append(np.mean(learned) - np.mean(plain))
        print(f"| {name} | {show(plain)} | {show(learned)} | {gains[-1]:+.1f} | {np.mean(seconds):.1f} s |", flush=True)
    print(f"| mean gain | | | {np.mean(gains):+.1f} | |")


def grid(name: str, metric: str) -> dict[str, list[object]]:
    """What is tuned: the graph and the width of the similarity; small where a fit takes long."""
    if metric == "lem":
        return {"n_between": [5, 20, "all"], "n_within": ["all"], "beta_scale": [1.0, 3.0]}
    return {"n_between": [3, 8], "n_within": [5] if name == "fpha" else [None]}


def tuned(name: str, metric: str, draws: int = 10) -> None:
    plain, learned, chosen = [], [], []
    for split in splits(name, draws):
        nearest = SPDNearestNeighbor(metric).fit(split.X_train, split.y_train)
        plain.append(100 * nearest.score(split.X_test, split.y_test))
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        base = SPDSL(split.n_components, metric=metric, max_iter=50)
        search = GridSearchCV(base, grid(name, metric), cv=folds).fit(split.X_train, split.y_train)
        learned.append(100 * search.score(split.X_test, split.y_test))
        chosen.append(search.best_params_)
        print(
            f"  {name} {metric}: plain {plain[-1]:.1f}, SPDSL {learned[-1]:.1f}, {chosen[-1]}",
            file=sys.stderr,
            flush=True,
        )
    print(f"| {name} | {metric} | {show(plain)} | {show(learned)} | {np.mean(learned) - np.mean(plain):+.1f} |")


def main(arguments: list[str]) -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", message="n_(within|between)=")
    match arguments:
        case ["toy"]:
            toy()
        case ["defaults", *names]:
            defaults(names or list(SETS))
        case ["tuned", name, metric]:
            tuned(name, metric)
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
