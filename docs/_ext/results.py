"""What the committed results of real runs say: the figures of the start page, and tables of the page on benchmarks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from docutils import nodes
from matplotlib.figure import Figure
from reference import table
from sphinx.util.docutils import SphinxDirective
from theory_figures import INK

from spdsl import SPDSL, pairwise_sqdist
from spdsl.datasets import load_digit_sets

HERE = Path(__file__).parents[1]
RESULTS = HERE.parent / "benchmarks" / "results"
FOLDER = HERE / "img" / "drawn"
OURS, OTHER = "#2f86c8", "#8a8f98"
DIGITS = (0, 3, 5, 8)  # look alike: the task is not too easy for a picture


def read(name: str) -> Any:
    """The results of that name."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def accuracies() -> dict[str, dict[str, list[float]]]:
    """Method to set to the accuracies of its draws."""
    found: dict[str, dict[str, list[float]]] = {}
    for key, cell in read("accuracy").items():
        name, _, method = key.split("/")
        found.setdefault(method, {}).setdefault(name, []).append(cell["accuracy"])
    return found


# --------------------------------------------------------------------------------------------------------- the figures
def example() -> tuple[SPDSL, np.ndarray, np.ndarray]:
    """A model of some digits, and unseen image sets of them with their labels."""
    X, y = load_digit_sets()
    rng = np.random.default_rng(0)
    drawn = [rng.permutation(np.flatnonzero(y == digit)) for digit in DIGITS]
    train, test = np.concatenate([d[:6] for d in drawn]), np.concatenate([d[6:26] for d in drawn])
    return SPDSL(20, classifier="nn").fit(X[train], y[train]), X[test], y[test]


def matrices(ink: str) -> Figure:
    """Three matrices, W, and the three small ones."""
    model, X, _ = example()
    figure = plt.figure(figsize=(5.0, 3.2))
    grid = figure.add_gridspec(3, 5, width_ratios=[1, 0.34, 0.55, 0.34, 1], wspace=0.1, hspace=0.14)
    for row, k in enumerate(len(X) * np.arange(3) // 3 + 2):
        heat(figure.add_subplot(grid[row, 0]), X[k, :64, :64], ink, "$X_i$  65 x 65" if row == 0 else "")
        small = model.transform(X[k : k + 1])[0]
        heat(figure.add_subplot(grid[row, 4]), small, ink, "$W'X_iW$  20 x 20" if row == 0 else "")
    heat(figure.add_subplot(grid[:, 2]), model.components_, ink, "learned $W$")
    for column in (1, 3):
        axis = figure.add_subplot(grid[:, column])
        axis.axis("off")
        axis.annotate("", (1, 0.5), (0, 0.5), arrowprops={"arrowstyle": "-|>", "color": ink, "lw": 1.6})
    return figure


def planes(ink: str) -> Figure:
    """Unseen sets in the plane by their distances before and after."""
    model, X, y = example()
    figure, axes = plt.subplots(1, 2, figsize=(5.0, 3.2), gridspec_kw={"wspace": 0.08})
    views = {"distances before": pairwise_sqdist(X, metric="lem"), "distances learned": model.sqdist(X)}
    for axis, (title, d2) in zip(axes, views.items(), strict=True):
        scatter(axis, plane(d2), y, title, ink)
    return figure


def plane(d2: np.ndarray) -> np.ndarray:
    """Classical scaling: the points in the plane whose distances come closest."""
    J = np.eye(len(d2)) - 1 / len(d2)
    values, vectors = np.linalg.eigh(-J @ d2 @ J / 2)
    return vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))


def heat(axis: Any, M: np.ndarray, ink: str, title: str) -> None:
    """A matrix as a picture."""
    high = np.quantile(np.abs(M), 0.98)
    axis.imshow(M, cmap="RdBu_r", vmin=-high, vmax=high, aspect="auto", interpolation="nearest")
    axis.set(xticks=[], yticks=[])
    axis.set_title(title, fontsize=9, color=ink)
    for spine in axis.spines.values():
        spine.set(visible=True, color=ink, linewidth=0.5)


def scatter(axis: Any, points: np.ndarray, labels: np.ndarray, title: str, ink: str) -> None:
    """Points in the plane, a color and a letter for each class."""
    for digit, color in zip(DIGITS, ("#2f86c8", "#e0670c", "#2a9d4a", "#9467bd"), strict=True):
        own = points[labels == digit]
        axis.scatter(*own.T, s=34, marker=f"${digit}$", color=color, linewidths=0.4)
    axis.set(xticks=[], yticks=[])
    axis.set_title(title, fontsize=9, color=ink)
    for spine in axis.spines.values():
        spine.set(visible=True, color=ink, linewidth=0.5)


def accuracy(ink: str) -> Figure:
    """Mean accuracy over the sets that all of these methods have figures for."""
    names = {
        "SPDSL": "SPDSL(), defaults",
        "TS+LDA": "tangent space + LDA",
        "TS+LR": "tangent space + LR, tuned",
        "CDL": "CDL, tuned",
        "aligned NN": "paper's objective, 1-NN",
    }
    found = accuracies()
    sets = set.intersection(*(set(found[name]) for name in names))
    means = {name: fmean(fmean(found[name][s]) for s in sets) for name in names}
    figure, axis = plt.subplots(figsize=(4.8, 2.7), layout="constrained")
    ordered = sorted(names, key=means.__getitem__)
    for k, name in enumerate(ordered):
        color = OURS if name == "SPDSL" else OTHER
        axis.plot([70, means[name]], [k, k], color=color, lw=1.2)
        axis.plot(means[name], k, "o", color=color, ms=9)
        axis.text(means[name] + 0.7, k, f"{means[name]:.1f}", va="center", color=ink, fontsize=11)
    axis.set_yticks(range(len(names)), [names[name] for name in ordered])
    axis.set(xlim=(70, 93), ylim=(-0.6, len(names) - 0.4), xlabel=f"accuracy in percent, mean of {len(sets)} real sets")
    return figure


def seconds(ink: str) -> Figure:
    """One iteration at the size of the paper's face set, beside its algorithm and pymanopt's."""
    rows = {row["what"]: row for row in read("speed")["rows"] if "seconds" in row}

    def of(start: str) -> float:
        return next(row["seconds"] for what, row in rows.items() if what.startswith(start))

    bars = {
        "spdsl": of("ours, per iteration"),
        "pymanopt, our gradient": of("pymanopt, the same gradient"),
        "pymanopt, autograd": of("pymanopt, torch autograd"),
        "paper's, 414 pairs": of("block logarithm per pair, sparse"),
        "paper's, all pairs": of("block logarithm per pair, full"),
    }
    figure, axis = plt.subplots(figsize=(4.8, 2.7), layout="constrained")
    for k, (name, value) in enumerate(reversed(bars.items())):
        axis.barh(k, value, left=0, color=OURS if name == "spdsl" else OTHER, height=0.62)
        text = f"{value:.0f} s" if value > 100 else f"{value:.2g} s" if value < 1 else f"{value:.1f} s"
        axis.text(value * 1.15, k, text, va="center", color=ink, fontsize=11)
    axis.set_yticks(range(len(bars)), list(reversed(bars)))
    axis.set(xscale="log", xlim=(0.02, 2500), xlabel="seconds per iteration (log scale)")
    return figure


FIGURES: tuple[Callable[[str], Figure], ...] = (matrices, planes, accuracy, seconds)


def draw(app: Any) -> None:
    """All figures for light and for dark pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for theme, ink in INK.items():
        names = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
        style = {**dict.fromkeys(names, ink), "figure.facecolor": "none", "axes.facecolor": "none", "font.size": 11}
        style |= {
            "savefig.transparent": True,
            "svg.hashsalt": "spdsl",
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
        with plt.rc_context(style):
            for make in FIGURES:
                figure = make(ink)
                figure.savefig(FOLDER / f"{make.__name__}-{theme}.svg", metadata={"Date": None}, bbox_inches="tight")
                plt.close(figure)


# ---------------------------------------------------------------------------------------------------------- the tables
class Results(SphinxDirective):
    """A table of one of the results."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        head, rows = getattr(self, self.arguments[0])()
        return [nodes.container("", table(head, rows), classes=["sortable", self.arguments[0]])]

    def accuracy(self) -> tuple[list[str], list[list[str]]]:
        """A row a set, a column a method; the last row is the mean of the sets that a method has."""
        found = accuracies()
        sets = list(found["SPDSL"])
        rows = []
        for name in sets:
            draws = [found[m].get(name, []) for m in found]
            cells = [f"{fmean(d):.1f} ± {stdev(d):.1f}" if len(d) > 1 else f"{d[0]:.1f}" if d else "" for d in draws]
            rows.append([name, str(max(map(len, draws))), *cells])
        means = [f"{fmean(map(fmean, by.values())):.1f} ({len(by)})" for by in found.values()]
        return ["set", "draws", *found], [*rows, ["mean (sets)", "", *means]]

    def speed(self) -> tuple[list[str], list[list[str]]]:
        """A row a contender."""
        rows = []
        for row in read("speed")["rows"]:
            ratio = f"{row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}]" if "ratio" in row else ""
            time = f"{row['seconds']:.4g}" if "seconds" in row else ""
            rows.append([row["section"], row["what"], time, ratio, row.get("note", "")])
        return ["part", "what", "seconds", "ratio [low, high]", ""], rows

    def scale(self) -> tuple[list[str], list[list[str]]]:
        """A row a size and place."""
        rows = [[str(r["matrices"]), r["place"], f"{r['seconds']:.3f}", f"{r['predicted']:.3f}"] for r in read("scale")]
        return ["matrices", "place", "seconds per iteration", "by the cost model"], rows


def setup(app: Any) -> dict[str, bool]:
    """Draw before Sphinx reads the pages; add the directive."""
    app.connect("builder-inited", draw)
    app.add_directive("spdsl-results", Results)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
