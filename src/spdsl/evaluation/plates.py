"""Which figures a run has, each with what it shows in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spdsl.evaluation import figures
from spdsl.evaluation.cells import LEARNED
from spdsl.evaluation.figure_data import FigureData, Samples, SweepPoint
from spdsl.evaluation.figures import inline, styled, to_png, to_svg
from spdsl.evaluation.results import Results, unit_of
from spdsl.evaluation.tables import make_table
from spdsl.models.files import written_whole
from spdsl.models.text import printable

PLAIN = "NN-LEM"  # the same distance and decision as LEARNED, without learning


@dataclass(frozen=True)
class Picture:
    """One drawing: `name` is that of its files, `alt` says what a reader who cannot see it should know."""

    name: str
    alt: str
    svg: str
    png: bytes
    title: str = ""

    @property
    def inline(self) -> str:
        """The drawing as part of a page."""
        return inline(self.svg, self.name)


@dataclass(frozen=True)
class Plate:
    """Pictures that belong together, under a heading, with a caption; `key` explains the codes of the classes."""

    name: str
    heading: str
    caption: str
    pictures: tuple[Picture, ...]
    key: str = ""


def draw_plates(results: Results, data: FigureData | None) -> list[Plate]:
    """All figures that the numbers allow."""
    with styled():
        plates = [*_methods(results)]
        if data is not None:
            plates += _sweep(data.sweep)
        plates += _convergence(results)
        if data is not None and data.samples is not None:
            plates += [*_similarity(data.samples, data.classes), *_embedding(data.samples, data.classes)]
        plates += _confusion(results)
    return plates


def save_plates(plates: list[Plate], folder: str | Path) -> list[Path]:
    """Every picture as SVG and PNG in `folder`, each file whole or not at all; the paths."""
    paths = []
    for picture in (picture for plate in plates for picture in plate.pictures):
        for suffix, content in ((".svg", picture.svg.encode()), (".png", picture.png)):
            path = Path(folder) / f"{picture.name}{suffix}"
            with written_whole(path, durable=False) as file:
                file.write(content)
            paths.append(path)
    return paths


def _picture(name: str, figure: object, alt: str, title: str = "") -> Picture:
    return Picture(name, alt, to_svg(figure), to_png(figure), title)


def _methods(results: Results) -> Iterator[Plate]:
    rows = [row for row in make_table(results) if row.mean is not None]
    if not rows:
        return
    name, unit = results.scoring[0], unit_of(results.scoring[0])
    values: dict[str, list[float]] = {}
    for cell in results.cells:
        if not cell.error and cell.score(name) == cell.score(name):
            values.setdefault(cell.method, []).append(unit * cell.score(name))
    order = sorted(rows, key=lambda row: -(row.mean or 0))
    said = ", ".join(f"{printable(row.method)} {row.mean:.1f}" for row in order)
    percent = " in percent" if unit == 100 else ""
    alt = f"Dots by method. Mean {name}{percent} from the best to the worst: {said}."
    caption = "A small ring is one draw, a disc with its line the mean and standard deviation over the draws" + (
        ", a diamond the mean that the paper prints." if results.published else "."
    )
    label = f"{name} (%)" if unit == 100 else name
    picture = _picture("methods", figures.draw_methods(rows, values, label), alt)
    heading = "Accuracy of the methods" if name == "accuracy" else f"{name} of the methods"
    yield Plate("methods", heading, caption, (picture,))


def _sweep(points: list[SweepPoint]) -> Iterator[Plate]:
    if not points:
        return
    draws = len({point.draw for point in points})
    pictures = []
    for value, name, title in (
        ("accuracy", "neighbors-accuracy", "Accuracy"),
        ("seconds", "neighbors-seconds", "Time of an iteration"),
    ):
        curves = figures.sweep_lines(points, value)
        alt = f"{title} against the number of neighbors. " + " ".join(
            f"SPDSL-{metric}: {_curve(counts, values, value)}." for metric, (counts, values) in curves.items()
        )
        pictures.append(_picture(name, figures.draw_sweep(points, value), alt, title))
    over = f"mean of the first {draws} draws" if draws > 1 else "first draw"
    caption = (
        "Each sample counts its v_b nearest of other classes, and as many of its own as the smallest class has; full: every "
        f"pair counts (the paper's Fig. 6 and 7). Accuracy: {over}, nothing else tuned. Time: median of the iterations, "
        "first draw, one fit at a time."
    )
    yield Plate("neighbors", "How many neighbors", caption, tuple(pictures))


def _curve(counts: list[int | str], values: list[float], value: str) -> str:
    """A curve in words: its ends and its extreme."""
    said = ["full" if count == "all" else f"v_b = {count}" for count in counts]
    unit = "{:.1f} %" if value == "accuracy" else "{:.2g} s"
    best = int(np.argmax(values))
    ends = f"{unit.format(values[0])} at {said[0]}, {unit.format(values[-1])} at {said[-1]}"
    return f"{ends}, most {unit.format(values[best])} at {said[best]}"


def _convergence(results: Results) -> Iterator[Plate]:
    curves = [[value for value, _ in cell.history] for cell in results.cells if cell.method == LEARNED]
    curves = [values for values in curves if len(values) > 1 and values[-1] > 0]
    if not curves:
        return
    steps = [len(values) - 1 for values in curves]
    tenth = [values[min(10, len(values) - 1)] / values[-1] for values in curves]
    caption = (
        f"The objective of {LEARNED} (alignment of similarities with the labels, maximized) over the iterations in "
        f"{len(curves)} {'draws' if len(curves) > 1 else 'draw'}, as in the paper's Fig. 8; each curve is divided by its last "
        f"value. It ends after {_span(steps)} iterations; after ten it has reached {100 * min(tenth):.0f} % of its last "
        "value or more."
    )
    alt = f"Curves that rise steeply over the first ten iterations and are flat at the end. {caption}"
    yield Plate(
        "convergence", "Convergence", caption, (_picture("convergence", figures.draw_convergence(curves), alt),)
    )


def _span(values: list[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _similarity(view: Samples, classes: list[str]) -> Iterator[Plate]:
    pictures = tuple(
        _picture(
            f"similarity-{when}",
            figures.draw_similarity(space, view.labels, classes),
            f"Matrix of the similarities of {len(view.labels)} test samples sorted by class, {when} learning; blocks on the "
            f"diagonal are samples of one class. Two of a class are closer than two of different classes in "
            f"{100 * space.closer:.1f} % of the cases.",
            f"{when.capitalize()} learning ({method})",
        )
        for when, method, space in (("before", PLAIN, view.before), ("after", LEARNED, view.after))
    )
    caption = (
        f"Similarities exp(−d²/s) of {len(view.labels)} test samples of the first draw, sorted by class; s is the tenth "
        "percentile of d². Bright blocks on the diagonal are classes that hold together. Two samples of a class are closer "
        f"than two of different classes in {100 * view.before.closer:.1f} % of the cases before learning and in "
        f"{100 * view.after.closer:.1f} % after."
    )
    yield Plate("similarity", "Similarities before and after learning", caption, pictures)


def _embedding(view: Samples, classes: list[str]) -> Iterator[Plate]:
    codes = figures.class_codes(classes)
    pictures = tuple(
        _picture(
            f"embedding-{when}",
            figures.draw_embedding(space, view.labels, codes),
            f"Map of {len(view.labels)} test samples in the plane {when} learning, each drawn as the code of its class.",
            f"{when.capitalize()} learning ({method})",
        )
        for when, method, space in (("before", PLAIN, view.before), ("after", LEARNED, view.after))
    )
    caption = (
        "The same test samples in the plane, near where their distance is small (t-SNE); the sign is the class. Only who is "
        "near whom has a meaning, not the distance between far groups."
    )
    key = "" if codes == classes else ", ".join(f"{c} {printable(n)}" for c, n in zip(codes, classes, strict=True))
    yield Plate("embedding", "Test samples in the plane", caption, pictures, key)


def confusion(results: Results, method: str) -> np.ndarray | None:
    """Test samples by true class (row) and predicted class, summed over the draws; None where nothing is known."""
    cells = [cell for cell in results.cells if cell.method == method and cell.predictions and results.truth]
    if not cells:
        return None
    counts = np.zeros((len(results.classes),) * 2, int)
    for cell in cells:
        np.add.at(counts, (results.truth[cell.split], cell.predictions), 1)
    return counts


def shown_methods(results: Results) -> list[str]:
    """The methods whose predictions are shown class by class: before and after learning, and the best of the table."""
    rows = [row for row in make_table(results) if row.mean is not None]
    best = next((row.method for row in rows if row.best), None)
    wanted = [PLAIN, results.reference, best]
    return list(dict.fromkeys(name for name in wanted if name in {row.method for row in rows}))


def _confusion(results: Results) -> Iterator[Plate]:
    pictures = []
    for k, method in enumerate(shown_methods(results)):
        counts = confusion(results, method)
        if counts is None:
            continue
        worst = np.where(np.eye(len(counts), dtype=bool), 0, counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
        true, found = np.unravel_index(int(np.argmax(worst)), worst.shape)
        right = 100 * np.trace(counts) / max(int(counts.sum()), 1)
        alt = f"Confusion matrix of {printable(method)}: {right:.1f} % right"
        if worst[true, found] > 0:
            names = [printable(results.classes[place]) for place in (true, found)]
            alt += f"; most often {names[0]} is taken for {names[1]}, {100 * worst[true, found]:.0f} %"
        drawing = figures.draw_confusion(counts, results.classes)
        pictures.append(_picture(f"confusion-{k + 1}", drawing, f"{alt}.", printable(method)))
    if pictures:
        over = f"summed over {results.n_draws} draws" if results.n_draws > 1 else "one draw"
        caption = f"Percent of the test samples of a class (row) that were recognized as each class (column), {over}."
        yield Plate("confusion", "Which class is taken for which", caption, tuple(pictures))
