"""Draw the figures of the theory pages into docs/theory/img, each for light and for dark pages.

A Sphinx extension; `python docs/_ext/theory_figures.py FOLDER` draws them too. Every figure is computed, none is sketched.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from scipy.linalg import expm

from spdsl import SPDSL, pairwise_sqdist
from spdsl.data import as_data
from spdsl.datasets import load_digit_sets
from spdsl.geometry import get_metric
from spdsl.geometry.means import geodesic
from spdsl.learning.graph import survey_pairs
from spdsl.learning.objectives import StochasticNeighbors
from spdsl.learning.problem import Problem

FOLDER = Path(__file__).parents[1] / "theory" / "img"
INK = {"light": "#222222", "dark": "#dddddd"}
COLORS = ["#2f86c8", "#e0670c", "#2a9d4a", "#9467bd"]  # told apart on white and on black, and by most color-blind eyes


def tilted(angle: float, long: float, short: float) -> np.ndarray:
    """The 2 x 2 matrix with these eigenvalues, the first along `angle` degrees."""
    V = expm(np.radians(angle) * np.array([[0, -1], [1, 0]]))
    return V @ np.diag([long, short]) @ V.T


A, B = tilted(78, 3.6, 0.22), tilted(12, 2.4, 0.06)


def straight(P: np.ndarray, Q: np.ndarray, t: float) -> np.ndarray:
    """The Euclidean geodesic."""
    return (1 - t) * P + t * Q


PATHS: dict[str, Callable[..., np.ndarray]] = {
    "Euclidean": straight,
    "AIM": geodesic,
    "LEM": lambda P, Q, t: geodesic(P, Q, t, metric="lem"),
}


def coordinates(P: np.ndarray) -> np.ndarray:
    """The coordinates of [[a, b], [b, c]] in which the cone is round: (a - c) / 2, b, (a + c) / 2."""
    return np.array([(P[0, 0] - P[1, 1]) / 2, P[0, 1], (P[0, 0] + P[1, 1]) / 2])


def cone() -> Any:
    """The cone of 2 x 2 SPD matrices, with the shortest paths of three metrics between two points."""
    figure = plt.figure(figsize=(5.6, 4.8))
    axis = figure.add_axes((0, 0.04, 0.86, 0.94), projection="3d", computed_zorder=False)
    radius, angle = np.meshgrid(np.linspace(0, 2.9, 12), np.linspace(0, 2 * np.pi, 49))
    axis.plot_surface(
        radius * np.cos(angle), radius * np.sin(angle), radius, color="#88aadd", alpha=0.22, linewidth=0, zorder=0
    )
    axis.plot(2.9 * np.cos(angle[:, 0]), 2.9 * np.sin(angle[:, 0]), 2.9, color="#88aadd", linewidth=1)
    for color, (name, path) in zip(COLORS, PATHS.items(), strict=False):
        points = np.stack([coordinates(path(A, B, t)) for t in np.linspace(0, 1, 60)])
        axis.plot(*points.T, color=color, linewidth=2.4, label=name)
    for P, name in ((A, "P"), (B, "Q")):
        x, y, z = coordinates(P)
        axis.scatter(x, y, z, color=plt.rcParams["text.color"], s=28)
        axis.text(x, y + 0.12, z + 0.22, name, fontsize=12)
    x, y, z = coordinates(np.eye(2))
    axis.scatter(x, y, z, color=plt.rcParams["text.color"], s=14)
    axis.text(x + 0.15, y, z + 0.05, "I", fontsize=11)
    axis.set(xlabel="(a − c) / 2", ylabel="b", zlabel="(a + c) / 2", zlim=(0, 2.9))
    axis.set_xticks([-2, 0, 2])
    axis.set_yticks([-2, 0, 2])
    axis.set_zticks([0, 1, 2])
    axis.view_init(elev=16, azim=-62)
    axis.set_box_aspect((1, 1, 0.62), zoom=1.1)
    for side in (axis.xaxis, axis.yaxis, axis.zaxis):
        side.set_pane_color((0.5, 0.5, 0.5, 0.06))
    axis.legend(loc="upper left", frameon=False)
    return figure


def draw_ellipse(axis: Any, P: np.ndarray, center: tuple[float, float], size: float, **style: Any) -> None:
    """The set of x with `x'P^-1 x = 1`, shrunk by `size`."""
    w, V = np.linalg.eigh(P)
    angle = np.degrees(np.arctan2(V[1, 1], V[0, 1]))
    axis.add_patch(Ellipse(center, 2 * size * w[1] ** 0.5, 2 * size * w[0] ** 0.5, angle=angle, **style))


def paths() -> Any:
    """The same paths as ellipses, and the determinants along them."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.3), width_ratios=(2.2, 1), layout="constrained")
    for row, (color, (name, path)) in enumerate(zip(COLORS, PATHS.items(), strict=False)):
        for k, t in enumerate(np.linspace(0, 1, 7)):
            draw_ellipse(left, path(A, B, t), (k, -0.95 * row), 0.27, facecolor=color, alpha=0.75, edgecolor="none")
        left.text(-0.75, -0.95 * row, name, ha="right", va="center", color=color)
        steps = np.linspace(0, 1, 60)
        style = "--" if name == "LEM" else "-"
        right.plot(steps, [np.linalg.det(path(A, B, t)) for t in steps], style, color=color, label=name)
    left.set(xlim=(-0.6, 6.6), ylim=(-2.4, 0.5), aspect="equal")
    left.set_axis_off()
    right.set(xlabel="t", ylabel="determinant", yscale="log")
    right.legend(frameon=False)
    return figure


def shadow() -> Any:
    """Ellipsoids of two classes, and what two different W make of them."""
    rng = np.random.default_rng(3)
    V = expm(0.6 * ((S := rng.standard_normal((3, 3))) - S.T))
    X, y = [], np.repeat([0, 1], 6)
    for label in y:  # loud differences within the classes in two directions, a quiet one between them in the third
        loud = np.exp(0.4 * rng.standard_normal(2))
        quiet = 0.62 if label else 0.16
        D = np.diag([2.2 * loud[0], 1.6 * loud[1], quiet * np.exp(0.12 * rng.standard_normal())])
        turn = V @ expm(0.04 * ((S := rng.standard_normal((3, 3))) - S.T))
        X.append(turn @ D @ turn.T)
    X = np.stack(X)
    figure = plt.figure(figsize=(9, 3.6), layout="constrained")
    solid = figure.add_subplot(1, 3, 1, projection="3d")
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 25), np.linspace(0, np.pi, 13))
    sphere = np.stack([np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v)]).reshape(3, -1)
    for k, shift in ((0, -1.6), (6, 1.6)):
        w, E = np.linalg.eigh(X[k])
        x = ((E * np.sqrt(w)) @ sphere).reshape(3, *u.shape)
        solid.plot_wireframe(x[0] + shift, x[1], x[2], color=COLORS[y[k]], linewidth=0.5, alpha=0.8)
    solid.set_axis_off()
    solid.set(title="X, 3 x 3: one of each class", aspect="equal")
    found = SPDSL(2, classifier="nn", max_iter=20, tol=0.02).fit(X, y)
    largest = np.linalg.eigh(X.mean(axis=0))[1][:, ::-1][:, :2]
    for k, (title, W) in enumerate(
        (("W'XW, W: largest directions", largest), ("W'XW, W: learned", found.components_)), 2
    ):
        axis = figure.add_subplot(1, 3, k)
        P = W.T @ X @ W
        d2 = pairwise_sqdist(P, metric="lem")
        same = (y[:, None] == y) & ~np.eye(len(y), dtype=bool)
        ratio = d2[y[:, None] != y].mean() / d2[same].mean()
        w, E = np.linalg.eigh(P.mean(axis=0))
        round_mean = (E / np.sqrt(w)) @ E.T  # drawn with a round mean, as distances are relative
        for matrix, label in zip(P, y, strict=True):
            moved = round_mean @ matrix @ round_mean
            draw_ellipse(axis, moved, (0, 0), 0.62, facecolor="none", edgecolor=COLORS[label], linewidth=1.3)
        axis.set(xlim=(-1.3, 1.3), ylim=(-1.4, 1.35), aspect="equal", title=title)
        axis.text(0, -1.38, f"mean d² between classes / within: {ratio:.1f}", ha="center", fontsize=9)
        axis.set_axis_off()
    for axis in figure.axes:
        axis.title.set_fontsize(10)
    return figure


def quotient() -> Any:
    """The plane without zero as a stack of circles: fibers, a horizontal line, and the space of fibers."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.6, 3.6), width_ratios=(1.5, 1), layout="constrained")
    ink = plt.rcParams["text.color"]
    turn = np.linspace(0, 2 * np.pi, 200)
    for radius in (0.6, 1.1, 1.6, 2.1):
        left.plot(radius * np.cos(turn), radius * np.sin(turn), color="#999999", linewidth=0.9)
    angle = 0.55
    W = 1.1 * np.array([np.cos(angle), np.sin(angle)])
    H, vertical = W / 1.1, np.array([-W[1], W[0]]) / 1.1
    ends = np.stack([0.35 * H, 2.4 * H])
    left.plot(*ends.T, "--", color=COLORS[1], linewidth=1.2)
    for vector, color, name in ((0.75 * H, COLORS[1], "horizontal H"), (0.75 * vertical, COLORS[0], "vertical WΩ")):
        left.annotate("", W + vector, W, arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 2})
        place = W + 1.2 * vector + (np.array([0.62, -0.2]) if name[0] == "h" else 0)
        left.text(*place, name, color=color, ha="center", va="center", fontsize=10)
    other = 1.1 * np.array([np.cos(angle + 2.2), np.sin(angle + 2.2)])
    for point, name in ((W, "W"), (other, "WR")):
        left.plot(*point, "o", color=ink, markersize=5)
        left.text(point[0], point[1] - 0.28, name, ha="center")
    left.plot(0, 0, "x", color=ink)
    left.text(0.08, -0.3, "rank lost", fontsize=9)
    left.set(aspect="equal", xlim=(-2.35, 3.0), ylim=(-2.3, 2.3), title="full-rank W; a circle is a fiber {WR}")
    left.set_axis_off()
    radii = np.linspace(0.35, 2.4, 50)
    right.plot(radii, radii**2, color=COLORS[1])
    for radius in (0.6, 1.1, 1.6, 2.1):
        right.plot(radius, radius**2, "o", color=ink, markersize=4)
    right.set(xlabel="|W|, distance along the horizontal line", ylabel="WW', one number a fiber")
    for axis in (left, right):
        axis.title.set_fontsize(10)
    return figure


def line() -> Any:
    """A real objective along a search line, with slopes that the search sees; an entry of P(t) beside it."""
    X, y = load_digit_sets()
    X, y = X[::14], y[::14]
    labels = np.unique(y, return_inverse=True)[1]
    data, metric = as_data(X), get_metric("lem")
    graph = survey_pairs(data, labels, metric, "all", "all", measure=False).graph
    W = np.linalg.eigh(X.mean(axis=0))[1][:, -5:]
    view = data.view(5)
    problem = Problem(view, metric, StochasticNeighbors(graph, labels, 0.4), graph.i, graph.j)
    P = view.start(W)
    evaluation = problem.evaluate(P)
    H = -view.gradient(evaluation.S)
    H /= np.linalg.norm(H)
    A1, A2 = view.look(H)
    steps = np.linspace(0, 4.0, 81)
    moved = [P + t * A1 + t * t * A2 for t in steps]
    values = [problem.evaluate(Q).value for Q in moved]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.2, 3.1), layout="constrained")
    left.plot(steps, values, color=COLORS[0])
    for t in (0.0, 0.5, 1.5, 3.0):
        Q = P + t * A1 + t * t * A2
        trial = problem.evaluate(Q)
        slope = float(np.sum(trial.S * (A1 + 2 * t * A2)))
        ends = np.array([t - 0.25, t + 0.25])
        left.plot(ends, trial.value + slope * (ends - t), color=COLORS[1], linewidth=2)
        left.plot(t, trial.value, "o", color=COLORS[1], markersize=5)
    left.set(xlabel="t", ylabel="J(W + tH)", title="value and slope of trials: no pass over the data")
    for k, color in zip(range(3), COLORS, strict=False):
        entries = np.array([Q[5 * k, 0, 0] for Q in moved])
        direct = [(W + t * H)[:, 0] @ X[5 * k] @ (W + t * H)[:, 0] for t in steps[::16]]
        right.plot(steps, entries, color=color)
        right.plot(steps[::16], direct, "o", color=color, markersize=4)
    right.set(xlabel="t", ylabel="first entry of P(t)", title="P + t A1 + t² A2 (lines), W'XW anew (dots)")
    for axis in (left, right):
        axis.title.set_fontsize(10)
    return figure


def exact_smallest(P: np.ndarray) -> float:
    """Smallest eigenvalue from the inverse in rational numbers: its largest eigenvalue is accurate."""
    n = len(P)
    rows = [[Fraction(float(v)) for v in row] + [Fraction(int(i == j)) for j in range(n)] for i, row in enumerate(P)]
    for c in range(n):
        rows[c] = [v / rows[c][c] for v in rows[c]]
        for r in range(n):
            if r != c:
                rows[r] = [a - rows[r][c] * b for a, b in zip(rows[r], rows[c], strict=True)]
    return float(1 / np.linalg.eigvalsh(np.array([[float(v) for v in row[n:]] for row in rows]))[-1])


def digits() -> Any:
    """Errors of divided differences, of small eigenvalues, and of the divergence of close pairs."""
    rng = np.random.default_rng(0)
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(8.8, 3.1), layout="constrained")
    gaps = np.logspace(-16, 2, 300)
    low, high = np.full_like(gaps, 0.7), 0.7 * (1 + gaps)
    with localcontext() as context, np.errstate(divide="ignore", invalid="ignore"):
        context.prec = 60
        pairs = [(Decimal(a), Decimal(b)) for a, b in zip(low, high, strict=True)]
        exact = np.array([float((b / a).ln() / (b - a)) if b != a else float(1 / a) for a, b in pairs])
        naive = (np.log(high) - np.log(low)) / (high - low)
    ours = get_metric("lem").divided_difference(low, high)
    for value, color, name in ((naive, COLORS[1], "(log b − log a) / (b − a)"), (ours, COLORS[0], "log1p(x) / (x a)")):
        error = np.nan_to_num(np.abs(value / exact - 1), nan=1.0)
        left.loglog(gaps, np.maximum(error, 1e-17), ".", color=color, markersize=3, label=name)
    left.set(xlabel="x = (b − a) / a", ylabel="relative error", ylim=(5e-18, 30), title="divided difference of log")
    conditions = np.logspace(0, 17, 90)
    errors: dict[str, list[float]] = {"eigenvalues of P": [], "factor of P, squared": []}
    for condition in conditions:
        V = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        P = V @ np.diag(np.geomspace(1, 1 / condition, 4)) @ V.T
        P = (P + P.T) / 2
        exact = exact_smallest(P)
        try:
            root = np.linalg.svd(np.linalg.cholesky(P), compute_uv=False)[-1]
        except np.linalg.LinAlgError:  # not positive definite as it is stored
            root = np.nan
        errors["eigenvalues of P"].append(np.linalg.eigvalsh(P)[0] / exact - 1)
        errors["factor of P, squared"].append(root**2 / exact - 1)
    for color, mark, (name, error) in zip((COLORS[1], COLORS[0]), ".+", errors.items(), strict=True):
        middle.loglog(conditions, np.maximum(np.abs(error), 1e-17), mark, color=color, markersize=4, label=name)
    middle.loglog(conditions, np.minimum(2.2e-16 * conditions, 1), color="#999999", linewidth=0.9, label="eps cond(P)")
    middle.set(xlabel="condition of P", title="smallest eigenvalue of P", ylim=(5e-18, 30))
    S = rng.standard_normal((6, 6))
    P = S @ S.T + np.eye(6)
    gaps = np.logspace(-12, 0, 120)
    exact_d2 = 3 * np.log1p(gaps**2 / (4 * (1 + gaps)))  # of P and (1 + gap) P
    plain = [_logdet((2 + g) / 2 * P) - (_logdet(P) + _logdet((1 + g) * P)) / 2 for g in gaps]
    careful = [pairwise_sqdist(P[None], ((1 + g) * P)[None], metric="stein")[0, 0] for g in gaps]
    for value, color, name in (
        (plain, COLORS[1], "three determinants"),
        (careful, COLORS[0], "from the pencil when close"),
    ):
        error = np.maximum(np.abs(np.array(value) / exact_d2 - 1), 1e-17)
        right.loglog(gaps, error, ".", color=color, markersize=3, label=name)
    right.set(xlabel="δ", title="Stein divergence of P and (1 + δ) P")
    for axis in (left, middle, right):
        axis.title.set_fontsize(10)
        axis.legend(frameon=False, fontsize=8)
    return figure


def _logdet(P: np.ndarray) -> float:
    return float(np.linalg.slogdet(P)[1])


FIGURES = (cone, paths, shadow, quotient, line, digits)


def draw(folder: Path) -> None:
    """All figures, unless this file has drawn them already."""
    digest = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    mark = folder / ".digest"
    if mark.exists() and mark.read_text() == digest:
        return
    folder.mkdir(parents=True, exist_ok=True)
    for theme, ink in INK.items():
        names = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
        style = {**dict.fromkeys(names, ink), "figure.facecolor": "none", "axes.facecolor": "none", "font.size": 10}
        style |= {"savefig.transparent": True, "svg.hashsalt": "spdsl", "axes3d.grid": False}
        with plt.rc_context({**style, "axes.spines.top": False, "axes.spines.right": False}):
            for make in FIGURES:
                figure = make()
                figure.savefig(folder / f"{make.__name__}-{theme}.svg", metadata={"Date": None})
                plt.close(figure)
    mark.write_text(digest)


def setup(app: Any) -> dict[str, bool]:
    """Draw before Sphinx reads the pages."""
    app.connect("builder-inited", lambda _: draw(FOLDER))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    plt.switch_backend("Agg")
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
