"""The figures: how they look, each a function from numbers to a drawing, and how they become files.

One drawing is readable on white and on dark paper, in color and in gray. Call the functions inside `styled`.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from spdsl.backend.extras import install_hint
from spdsl.evaluation.figure_data import Space, SweepPoint
from spdsl.evaluation.statistics import Ranking
from spdsl.evaluation.tables import SECTIONS, TableRow
from spdsl.models.text import printable

# The colors of the drawing on white paper. In a report each becomes a style-sheet variable `--fig-NAME`, so that the page
# can choose another for dark paper; no two names may share a color. Hues from the set of Okabe and Ito, which people who
# do not tell red from green can tell apart; lines differ in marker and dashes as well.
COLORS = {
    "ink": "#1c2127",
    "muted": "#5b6672",
    "faint": "#dfe3e8",
    "paper": "#fefefe",
    "blue": "#0072b2",
    "orange": "#c04f00",
    "green": "#00795a",
}
INK, MUTED, FAINT, PAPER = (COLORS[name] for name in ("ink", "muted", "faint", "paper"))
HEAT = "cividis"  # even steps of lightness, so that it means the same in gray
WIDTH = 4.6  # inches; with 10-point letters still legible on a telephone
PNG_DPI = 160
_STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
    "svg.fonttype": "path",
    "svg.hashsalt": "spdsl",
}


@contextmanager
def styled() -> Iterator[None]:
    """matplotlib's settings of these figures, for as long as it lasts; an ImportError where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError(f"figures need matplotlib: {install_hint('plot')}") from error
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # not what a user's own file says
        settings: Any = matplotlib.rcParams
        settings.update(_STYLE)
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from")  # a box stands for it
        yield


def new_figure(height: float, width: float = WIDTH) -> tuple[Any, Any]:
    """A figure that belongs to no window, and its axes; call inside `styled`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def to_svg(figure: Any) -> str:
    """The drawing as a file of its own, on white; the same drawing gives the same text. Call inside `styled`."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def to_png(figure: Any) -> bytes:
    """The drawing in pixels, on white; call inside `styled`."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return file.getvalue()


def inline(svg: str, name: str) -> str:
    """The `<svg>` element for a page that holds several: names of its own, the page's colors, the page's width."""
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", element, flags=re.DOTALL)
    element = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', element)
    element = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', element)
    element = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", element)
    for color, value in COLORS.items():
        element = element.replace(value, f"var(--fig-{color}, {value})")
    head, rest = element.split(">", 1)
    head = re.sub(r'\s(width|height)="[^"]*"', "", head)
    return f'{head} aria-hidden="true" focusable="false">{rest}'.strip()


# ------------------------------------------------------------------------------------------------------------ the figures

LINES: dict[str, dict[str, Any]] = {
    "LEM": {"color": COLORS["blue"], "marker": "o", "linestyle": "-"},
    "AIM": {"color": COLORS["orange"], "marker": "s", "linestyle": "--"},
    "Stein": {"color": COLORS["green"], "marker": "^", "linestyle": ":"},
}
CLASS_COLORS = ("blue", "orange", "green", "ink")
NAMED = 20  # classes whose names fit beside a matrix
COUNTED = 12  # classes whose counts fit inside it
LONGEST = 12  # letters of a name
MUCH = 10  # ratio of times from which a scale from zero hides the short ones
BRIGHT = 0.6  # similarity of the brightest color; only a sample and itself reach 1


def draw_methods(rows: Sequence[TableRow], values: dict[str, list[float]], label: str = "accuracy (%)") -> Any:
    """The score of every method: each draw, mean with standard deviation, and the published mean."""
    shown = [row for row in rows if row.mean is not None]
    figure, axes = new_figure(1.2 + 0.26 * len(shown))
    places, headings = _places(shown)
    for row, at in zip(shown, places, strict=True):
        drawn = values[row.method]
        if row.mean is not None and row.std is not None:
            axes.plot([row.mean - row.std, row.mean + row.std], [at, at], "-", color=COLORS["blue"], lw=1.6, zorder=2)
        axes.plot(drawn, [at] * len(drawn), "o", ms=4, mfc=PAPER, mec=MUTED, mew=0.8, ls="none", zorder=3)
        axes.plot([row.mean], [at], "o", ms=7, color=COLORS["blue"], mec=PAPER, mew=0.8, zorder=4)
        if row.published is not None:
            axes.plot([row.published], [at], "D", ms=6.5, mfc="none", mec=COLORS["orange"], mew=1.6, zorder=5)
    axes.set_yticks(places, [short_name(row.method, 24) for row in shown])
    for tick, row in zip(axes.get_yticklabels(), shown, strict=True):
        tick.set_fontweight("bold" if row.best else "normal")
        tick.set_parse_math(False)  # a name is text, whatever signs it holds
    for section, at in headings:
        axes.text(
            0.015, at, SECTIONS[section], transform=axes.get_yaxis_transform(), color=MUTED, size=8.5, va="center"
        )
    axes.set_ylim(max(places, default=0) + 0.7, -1.5)
    axes.set_xlabel(label)
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
        Line2D([], [], marker="o", ms=7, color=COLORS["blue"], mec=PAPER, lw=2.4, label="mean ± s.d."),
    ]
    if published:
        orange = COLORS["orange"]
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
    axes.set_xlabel("neighbors of other classes, $v_b$")
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


def draw_convergence(curves: Sequence[Sequence[float]]) -> Any:
    """J over the iterations, each draw's relative to its end, since J of different graphs differs in size (Fig. 8)."""
    figure, axes = new_figure(3.3)
    for k, values in reversed(list(enumerate(curves))):
        curve = np.array(values) / values[-1]
        style = {"color": COLORS["blue"], "lw": 2.4, "zorder": 3} if k == 0 else {"color": MUTED, "lw": 0.9}
        label = "first draw" if k == 0 else "other draws" if k == len(curves) - 1 else None
        axes.plot(np.arange(len(curve)), curve, label=label, **style)
        end = {"ms": 5, "mfc": PAPER, "color": style["color"], "zorder": 4}
        axes.plot([len(curve) - 1], [1], "o" if k == 0 else ".", **end)
    axes.set_xlabel("iteration")
    axes.set_ylabel("objective / its last value")
    if len(curves) > 1:
        axes.legend(loc="lower right")
    return figure


def draw_similarity(space: Space, labels: np.ndarray, names: Sequence[str]) -> Any:
    """Similarities of test samples sorted by class; bright is similar."""
    figure, axes = new_figure(WIDTH * 0.86)
    show_similarity(axes, space.similarity, labels, names)
    return figure


def show_similarity(axes: Any, similarity: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> None:
    """Similarities of samples sorted by class on axes, with a bar of colors."""
    k = len(labels)
    picture = axes.imshow(similarity, cmap=HEAT, vmin=0, vmax=BRIGHT, interpolation="nearest")
    ends = np.flatnonzero(np.diff(labels)) + 0.5
    if len(ends) < NAMED:
        for edge in ends:
            axes.plot([-0.5, k - 0.5], [edge, edge], color="white", lw=0.4, alpha=0.6)
            axes.plot([edge, edge], [-0.5, k - 0.5], color="white", lw=0.4, alpha=0.6)
    edges = np.array([-0.5, *ends, k - 0.5])
    _name_classes(axes, (edges[:-1] + edges[1:]) / 2, [names[c] for c in labels[np.r_[0, np.ceil(ends).astype(int)]]])
    axes.set(xlim=(-0.5, k - 0.5), ylim=(k - 0.5, -0.5))
    axes.grid(visible=False)
    bar = axes.figure.colorbar(picture, ax=axes, shrink=0.85, label="similarity", extend="max")
    bar.outline.set_edgecolor(MUTED)


def draw_embedding(space: Space, labels: np.ndarray, codes: Sequence[str]) -> Any:
    """Test samples in the plane, each drawn as the code of its class."""
    figure, axes = new_figure(WIDTH * 0.86)
    show_embedding(axes, space.embedding, labels, codes)
    return figure


def show_embedding(axes: Any, points: np.ndarray, labels: np.ndarray, codes: Sequence[str]) -> None:
    """Points in the plane on axes, each drawn as the code of its class."""
    for k in np.unique(labels):
        own = points[labels == k]
        color = COLORS[CLASS_COLORS[k % len(CLASS_COLORS)]]
        size = 34 * max(1, len(codes[k])) ** 1.3
        axes.scatter(own[:, 0], own[:, 1], s=size, marker=f"${codes[k]}$", color=color, linewidths=0)
    axes.set(xticks=[], yticks=[], aspect="equal")
    axes.set_box_aspect(1)
    axes.set_adjustable("datalim")
    axes.spines[:].set_visible(True)


def draw_confusion(counts: np.ndarray, names: Sequence[str]) -> Any:
    """Share of each class's test samples (row) that were recognized as each class, in percent."""
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
    axes.set_xlabel("recognized as")
    axes.set_ylabel("true class")
    bar = figure.colorbar(picture, ax=axes, shrink=0.85, label="% of the class")
    bar.outline.set_edgecolor(MUTED)
    return figure


def _name_classes(axes: Any, places: Sequence[float] | np.ndarray, names: Sequence[str]) -> None:
    """Names of the classes along both sides of a matrix, or nothing where they are too many."""
    if len(places) > NAMED:
        axes.set(xticks=[], yticks=[])
        return
    short = [short_name(name, LONGEST) for name in names]
    long = max(map(len, short)) > 2
    axes.set_xticks(places, short, rotation=90 if long else 0)
    axes.set_yticks(places, short)
    for text in [*axes.get_xticklabels(), *axes.get_yticklabels()]:
        text.set_parse_math(False)
        text.set_fontsize(9 if len(places) <= COUNTED else 7)
        text.set_color(INK)
    axes.tick_params(length=0)


def short_name(name: str, longest: int) -> str:
    """The beginning of a name, without characters that no drawing can hold."""
    name = printable(name)
    return name if len(name) <= longest else name[: longest - 1] + "…"


def draw_ranks(names: Sequence[str], ranking: Ranking) -> Any:
    """Mean ranks of methods over several data sets; methods under one bar do not differ at the 5 percent level."""
    order = np.argsort(ranking.ranks, kind="stable")
    ranks = ranking.ranks[order]
    figure, axes = new_figure(0.9 + 0.3 * len(order))
    axes.plot(ranks, np.arange(len(order)), "o", ms=7, color=COLORS["blue"], mec=PAPER, mew=0.8, zorder=3)
    axes.set_yticks(np.arange(len(order)), [short_name(names[k], 24) for k in order])
    for tick in axes.get_yticklabels():
        tick.set_parse_math(False)
    if ranking.critical_difference is not None:
        for first, last in level_groups(ranks, ranking.critical_difference):
            axes.plot([ranks[first], ranks[last]], [first - 0.3] * 2, "-", color=COLORS["orange"], lw=2.4, zorder=2)
    axes.set_ylim(len(order) - 0.4, -0.8)
    axes.set_xlabel("mean rank (1 is best)")
    return figure


def level_groups(ranks: Sequence[float] | np.ndarray, difference: float) -> list[tuple[int, int]]:
    """First and last place of every largest group of sorted ranks within the critical difference of its first."""
    groups: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.max(np.flatnonzero(np.asarray(ranks) <= ranks[first] + difference)))
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups


def class_codes(names: Sequence[str]) -> list[str]:
    """Signs for the classes in a plane: their names where all are a letter or two, else numbers from 1."""
    if all(name.isascii() and name.isalnum() and len(name) <= 2 for name in names):
        return list(names)
    return [str(k + 1) for k in range(len(names))]
