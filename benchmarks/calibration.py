"""Probabilities of every classifier behind one reduction: log-loss, calibration error, reliability plot (docs/defaults.md).

    python benchmarks/calibration.py                              # KTH-TIPS and FPHA, the tables
    python benchmarks/calibration.py --figure reliability.png     # and the plot

W is learned once a draw by `SPDSL()`; every classifier is fitted behind it. The draws of a set are pooled. Needs SPDSL_DATA,
except for the digits.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from accuracy import BINS, calibration_error
from realdata import REAL_SETS, RealSet, missing
from spdsl import SPDSL
from spdsl.estimators.heads import HEADS
from spdsl.evaluation.figures import COLORS, styled, to_png

NAMES = {"kth": "KTH-TIPS", "fpha": "FPHA"}
FEWEST = 5  # samples in a bin of the plot; fewer are noise

Judged = tuple[np.ndarray, np.ndarray, np.ndarray]  # confidence, whether right, probability of the true class


def measure(data: RealSet) -> dict[str, Judged]:
    """Of every classifier, over all test samples of all draws."""
    found: dict[str, list[Judged]] = {head: [] for head in HEADS}
    for k, (train, test) in enumerate(data.draws):
        model = SPDSL()
        for head in HEADS:
            model.set_params(classifier=head)
            fit = model.fit_classifier if hasattr(model, "components_") else model.fit
            fit(data.X[train], data.y[train])
            found[head].append(judge(model, data.X[test], data.y[test]))
        print(f"draw {k + 1} of {len(data.draws)}", file=sys.stderr, flush=True)
    return {head: tuple(map(np.concatenate, zip(*parts, strict=True))) for head, parts in found.items()}


def judge(model: Any, X: np.ndarray, y: np.ndarray) -> Judged:
    P = model.predict_proba(X)
    true = P[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return P.max(axis=1), model.classes_[P.argmax(axis=1)] == y, true


def table(results: dict[str, dict[str, Judged]]) -> list[str]:
    """Lines of Markdown."""
    lines = ["| set | classifier | accuracy | mean confidence | log-loss | calibration error |", "|---" * 6 + "|"]
    for name, heads in results.items():
        for head, (confidence, right, true) in heads.items():
            figures = f"{100 * right.mean():.1f} | {100 * confidence.mean():.1f} | {-np.log(true).mean():.2f}"
            lines.append(f"| {name} | {head} | {figures} | {calibration_error(confidence, right):.3f} |")
    return lines


def draw(results: dict[str, dict[str, Judged]]) -> Any:
    """Accuracy against confidence, bin by bin; on the diagonal the probabilities are what they say."""
    from matplotlib.figure import Figure

    looks = zip([COLORS[c] for c in ("blue", "orange", "green", "muted", "ink")], "os^Dv", strict=True)
    style = dict(zip(HEADS, looks, strict=True))
    figure = Figure(figsize=(3.7 * len(results), 4.1), layout="constrained")
    for axes, (name, heads) in zip(np.atleast_1d(figure.subplots(1, len(results))), results.items(), strict=True):
        axes.plot([0, 1], [0, 1], "-", color=COLORS["faint"], lw=1.2)
        for head, (confidence, right, _) in heads.items():
            bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
            full = [bins == b for b in range(BINS) if np.sum(bins == b) >= FEWEST]
            at = [(confidence[mine].mean(), right[mine].mean()) for mine in full]
            color, marker = style[head]
            axes.plot(*np.transpose(at), marker=marker, color=color, lw=1.2, ms=5, label=head)
        axes.set(title=NAMES.get(name, name), xlabel="mean confidence", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    figure.axes[0].set_ylabel("share that is right")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(HEADS))
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=REAL_SETS, default=["kth", "fpha"])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--figure", type=Path, help="PNG file to write")
    parser.add_argument("--tiny", action="store_true", help="one draw of the digits")
    options = parser.parse_args()
    if options.tiny:
        options.sets, options.draws = ["digits"], 1
    results = {}
    for name in options.sets:
        if missing(name):
            print(f"{name} is left out: {missing(name)}", file=sys.stderr)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results[name] = measure(REAL_SETS[name](options.draws))
    print("\n".join(table(results)))
    if options.figure is not None and results:
        with styled():
            options.figure.write_bytes(to_png(draw(results)))


if __name__ == "__main__":
    main()
