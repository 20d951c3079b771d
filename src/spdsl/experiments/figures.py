"""The figures, each a function from numbers to a drawing. Call them inside `drawing.styled`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spdsl.experiments.drawing import COLOURS, HEAT, INK, MUTED, PAPER, WIDTH, new_figure
from spdsl.experiments.studies import Fit, Space, SweepPoint
from spdsl.experiments.tables import SECTIONS, TableRow

LINES: dict[str, dict[str, Any]] = {
    "LEM": {"color": COLOURS["blue"], "marker": "o", "linestyle": "-"},
    "AIM": {"color": COLOURS["orange"], "marker": "s", "linestyle": "--"},
    "Stein": {"color": COLOURS["green"], "marker": "^", "linestyle": ":"},
}
CLASS_COLOURS = ("blue", "orange", "green", "ink")
NAMED = 20  # classes whose names fit beside a matrix
COUNTED = 12  # classes whose counts fit inside it
LONGEST = 12  # letters of a name
MUCH = 10  # ratio of times from which a scale from zero hides the short ones
BRIGHT = 0.6  # similarity of the brightest colour; only a sample and itself reach 1


def draw_methods(rows: Sequence[TableRow], accuracies: dict[str, list[float]]) -> Any:
    """Accuracy in percent of every method: each draw, mean with standard deviation, and the published mean."""
    shown = [row for row in rows if row.mean is not None]
    figure, axes = new_figure(1.2 + 0.26 * len(shown))
    places, headings = _places(shown)
    for row, at in zip(shown, places, strict=True):
        values = accuracies[row.method]
        if row.mean is not None and row.std is not None:
            axes.plot([row.mean - row.std, row.mean + row.std], [at, at], "-", color=COLOURS["blue"], lw=1.6, zorder=2)
        axes.plot(values, [at] * len(values), "o", ms=4, mfc=PAPER, mec=MUTED, mew=0.8, ls="none", zorder=3)
        axes.plot([row.mean], [at], "o", ms=7, color=COLOURS["blue"], mec=PAPER, mew=0.8, zorder=4)
        if row.published is not None:
            axes.plot([row.published], [at], "D", ms=6.5, mfc="none", mec=COLOURS["orange"], mew=1.6, zorder=5)
    axes.set_yticks(places, [row.method for row in shown])
    for tick, row in zip(axes.get_yticklabels(), shown, strict=True):
        tick.set_fontweight("bold" if row.best else "normal")
    for section, at in headings:
        axes.text(
            0.015, at, SECTIONS[section], transform=axes.get_yaxis_transform(), color=MUTED, size=8.5, va="center"
        )
    axes.set_ylim(max(places, default=0) + 0.7, -1.5)
    axes.set_xlabel("accuracy (%)")
    _legend_methods(figure, any(row.published is not None for row in shown))
    return figure


def _places(rows: Sequence[TableRow]) -> tuple[list[float], list[tuple[str, float]]]:
    """Heights of the rows, and of the headings of their sections."""
    places: list[float] = []
    headings: list[tuple[str, float]] = []
    at = -1.0
    for k, row in enumerate(rows):
        at += 1
        if k == 0 or row.section != rows[k - 1].section:
            headings.append((row.section, at - (0.9 if k == 0 else 0)))
            at += 0 if k == 0 else 1
        places.append(at)
    return places, headings


def _legend_methods(figure: Any, published: bool) -> None:
    from matplotlib.lines import Line2D

    keys = [
        Line2D([], [], marker="o", ms=4, mfc="none", mec=MUTED, ls="none", label="one draw"),
        Line2D([], [], marker="o", ms=7, color=COLOURS["blue"], mec=PAPER, lw=2.4, label="mean ± s.d."),
    ]
    if published:
        orange = COLOURS["orange"]
        keys.append(Line2D([], [], marker="D", ms=6.5, mfc="none", mec=orange, mew=1.6, ls="none", label="published"))
    figure.legend(handles=keys, loc="outside lower center", ncols=len(keys), handletextpad=0.4, columnspacing=1.4)


def sweep_lines(points: Sequence[SweepPoint], value: str) -> dict[str, tuple[list[int | str], list[float]]]:
    """Curves by metric: the values of v_b, and the mean over the draws in percent ("accuracy"), or the first draw's."""
    curves: dict[str, tuple[list[int | str], list[float]]] = {}
    for metric in dict.fromkeys(point.metric for point in points):
        own = [p for p in points if p.metric == metric and (value == "accuracy" or p.draw == 0)]
        counts = sorted({p.n_between for p in own}, key=lambda v: (isinstance(v, str), v))
        scale = 100 if value == "accuracy" else 1
        means = [scale * float(np.mean([getattr(p, value) for p in own if p.n_between == v])) for v in counts]
        curves[metric] = (counts, means)
    return curves


def draw_sweep(points: Sequence[SweepPoint], value: str) -> Any:
    """Accuracy ("accuracy", Fig. 6) or time of an iteration ("seconds", Fig. 7) against v_b."""
    figure, axes = new_figure(3.3)
    curves = sweep_lines(points, value)
    counts = sorted({v for own, _ in curves.values() for v in own}, key=lambda v: (isinstance(v, str), v))
    for metric, (own, values) in curves.items():
        axes.plot([counts.index(v) for v in own], values, label=metric, **LINES[metric])
    axes.set_xticks(range(len(counts)), ["full" if v == "all" else str(v) for v in counts])
    axes.set_xlabel("neighbours of other classes, $v_b$")
    axes.set_ylabel("accuracy (%)" if value == "accuracy" else "seconds per iteration")
    if value == "seconds":
        _scale_seconds(axes, [second for _, values in curves.values() for second in values])
    if len(curves) > 1:
        axes.legend(loc="best", handlelength=3)
    return figure


def _scale_seconds(axes: Any, seconds: Sequence[float]) -> None:
    """From zero, or in powers of ten where the times differ much; short ones in milliseconds."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    if max(seconds, default=1.0) < 1:
        axes.set_ylabel("milliseconds per iteration")
    unit = 1000 if max(seconds, default=1.0) < 1 else 1
    if min(seconds, default=1.0) * MUCH < max(seconds, default=1.0):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda second, _: f"{unit * second:g}"))


def draw_convergence(fits: Sequence[Fit]) -> Any:
    """J over the iterations, each draw's relative to its end, since J of different graphs differs in size (Fig. 8)."""
    figure, axes = new_figure(3.3)
    for fit in reversed(fits):
        curve = np.array(fit.values) / fit.values[-1]
        first = fit.draw == fits[0].draw
        style = {"color": COLOURS["blue"], "lw": 2.4, "zorder": 3} if first else {"color": MUTED, "lw": 0.9}
        label = "first draw" if first else "other draws" if fit is fits[-1] else None
        axes.plot(np.arange(len(curve)), curve, label=label, **style)
        end = {"ms": 5, "mfc": PAPER, "color": style["color"], "zorder": 4}
        axes.plot([len(curve) - 1], [1], "o" if first else ".", **end)
    axes.set_xlabel("iteration")
    axes.set_ylabel("objective / its last value")
    if len(fits) > 1:
        axes.legend(loc="lower right")
    return figure


def draw_similarity(space: Space, labels: np.ndarray, names: Sequence[str]) -> Any:
    """Similarities of test samples sorted by class; bright is similar."""
    figure, axes = new_figure(WIDTH * 0.86)
    k = len(labels)
    picture = axes.imshow(space.similarity, cmap=HEAT, vmin=0, vmax=BRIGHT, interpolation="nearest")
    ends = np.flatnonzero(np.diff(labels)) + 0.5
    if len(ends) < NAMED:
        for edge in ends:
            axes.plot([-0.5, k - 0.5], [edge, edge], color="white", lw=0.4, alpha=0.6)
            axes.plot([edge, edge], [-0.5, k - 0.5], color="white", lw=0.4, alpha=0.6)
    edges = np.array([-0.5, *ends, k - 0.5])
    _name_classes(axes, (edges[:-1] + edges[1:]) / 2, [names[c] for c in labels[np.r_[0, np.ceil(ends).astype(int)]]])
    axes.set(xlim=(-0.5, k - 0.5), ylim=(k - 0.5, -0.5))
    axes.grid(visible=False)
    bar = figure.colorbar(picture, ax=axes, shrink=0.85, label="similarity", extend="max")
    bar.outline.set_edgecolor(MUTED)
    return figure


def draw_embedding(space: Space, labels: np.ndarray, codes: Sequence[str]) -> Any:
    """Test samples in the plane, each drawn as the code of its class."""
    figure, axes = new_figure(WIDTH * 0.86)
    for k in np.unique(labels):
        own = space.embedding[labels == k]
        colour = COLOURS[CLASS_COLOURS[k % len(CLASS_COLOURS)]]
        size = 34 * max(1, len(codes[k])) ** 1.3
        axes.scatter(own[:, 0], own[:, 1], s=size, marker=f"${codes[k]}$", color=colour, linewidths=0)
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.set_box_aspect(1)
    axes.set_adjustable("datalim")
    axes.spines[:].set_visible(True)
    return figure


def draw_confusion(counts: np.ndarray, names: Sequence[str]) -> Any:
    """Share of each class's test samples (row) that were recognised as each class, in percent."""
    figure, axes = new_figure(WIDTH * 0.86)
    share = 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    picture = axes.imshow(share, cmap=HEAT, vmin=0, vmax=100, interpolation="nearest")
    if len(counts) <= COUNTED:
        for (true, found), percent in np.ndenumerate(share):
            if percent >= 0.5:
                ink = "black" if percent > 55 else "white"
                axes.text(found, true, f"{percent:.0f}", ha="center", va="center", color=ink, size=8)
    _name_classes(axes, np.arange(len(counts)), names)
    axes.grid(visible=False)
    axes.set_xlabel("recognised as")
    axes.set_ylabel("true class")
    bar = figure.colorbar(picture, ax=axes, shrink=0.85, label="% of the class")
    bar.outline.set_edgecolor(MUTED)
    return figure


def _name_classes(axes: Any, places: Sequence[float] | np.ndarray, names: Sequence[str]) -> None:
    """Names of the classes along both sides of a matrix, or nothing where they are too many."""
    if len(places) > NAMED:
        axes.set(xticks=[], yticks=[])
        return
    short = [name if len(name) <= LONGEST else name[: LONGEST - 1] + "…" for name in names]
    long = max(map(len, short)) > 2
    axes.set_xticks(places, short, rotation=90 if long else 0)
    axes.set_yticks(places, short)
    for text in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        text.set_parse_math(False)  # a name is text, whatever signs it holds
        text.set_fontsize(9 if len(places) <= COUNTED else 7)
        text.set_color(INK)
    axes.tick_params(length=0)


def class_codes(names: Sequence[str]) -> list[str]:
    """Signs for the classes in a plane: their names where all are a letter or two, else numbers from 1."""
    if all(name.isascii() and name.isalnum() and len(name) <= 2 for name in names):
        return list(names)
    return [str(k + 1) for k in range(len(names))]
