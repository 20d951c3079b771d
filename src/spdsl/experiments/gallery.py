"""Which figures a run has, each with what it shows in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spdsl.experiments import figures
from spdsl.experiments.drawing import inline, styled, to_png, to_svg
from spdsl.experiments.results import Results
from spdsl.experiments.studies import LEARNED, PLAIN, Fit, Studies, SweepPoint, View
from spdsl.experiments.tables import make_table
from spdsl.writing import written_whole


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


def draw_plates(results: Results, studies: Studies | None) -> list[Plate]:
    """All figures that the numbers allow."""
    with styled():
        plates = [*_methods(results)]
        if studies is not None:
            plates += [*_sweep(studies.sweep), *_convergence(studies.fits)]
            if studies.view is not None:
                plates += [*_similarity(studies.view, studies), *_embedding(studies.view, studies)]
            plates += _confusion(studies.fits, studies.classes)
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
    accuracies: dict[str, list[float]] = {}
    for cell in results.cells:
        if not cell.error:
            accuracies.setdefault(cell.method, []).append(100 * cell.accuracy)
    order = sorted(rows, key=lambda row: -(row.mean or 0))
    said = ", ".join(f"{row.method} {row.mean:.1f}" for row in order)
    alt = f"Dots by method. Mean accuracy in percent from the best to the worst: {said}."
    caption = "A small ring is one draw, a disc with its line the mean and standard deviation over the draws" + (
        ", a diamond the mean that the paper prints." if results.published else "."
    )
    picture = _picture("methods", figures.draw_methods(rows, accuracies), alt)
    yield Plate("methods", "Accuracy of the methods", caption, (picture,))


def _sweep(points: list[SweepPoint]) -> Iterator[Plate]:
    if not points:
        return
    draws = len({point.draw for point in points})
    pictures = []
    for value, name, title in (
        ("accuracy", "neighbours-accuracy", "Accuracy"),
        ("seconds", "neighbours-seconds", "Time of an iteration"),
    ):
        curves = figures.sweep_lines(points, value)
        alt = f"{title} against the number of neighbours. " + " ".join(
            f"SPDSL-{metric}: {_curve(counts, values, value)}." for metric, (counts, values) in curves.items()
        )
        pictures.append(_picture(name, figures.draw_sweep(points, value), alt, title))
    over = f"mean of the first {draws} draws" if draws > 1 else "first draw"
    caption = (
        "Each sample counts its v_b nearest of other classes, and as many of its own as the smallest class has; full: every "
        f"pair counts (the paper's Fig. 6 and 7). Accuracy: {over}, nothing else tuned. Time: median of the iterations, "
        "first draw, one fit at a time."
    )
    yield Plate("neighbours", "How many neighbours", caption, tuple(pictures))


def _curve(counts: list[int | str], values: list[float], value: str) -> str:
    """A curve in words: its ends and its extreme."""
    said = ["full" if count == "all" else f"v_b = {count}" for count in counts]
    unit = "{:.1f} %" if value == "accuracy" else "{:.2g} s"
    best = int(np.argmax(values))
    ends = f"{unit.format(values[0])} at {said[0]}, {unit.format(values[-1])} at {said[-1]}"
    return f"{ends}, most {unit.format(values[best])} at {said[best]}"


def _convergence(fits: list[Fit]) -> Iterator[Plate]:
    fits = [fit for fit in fits if len(fit.values) > 1 and fit.values[-1] > 0]
    if not fits:
        return
    steps = [len(fit.values) - 1 for fit in fits]
    tenth = [fit.values[min(10, len(fit.values) - 1)] / fit.values[-1] for fit in fits]
    caption = (
        f"The objective of {LEARNED} (alignment of similarities with the labels, maximised) over the iterations in "
        f"{len(fits)} {'draws' if len(fits) > 1 else 'draw'}, as in the paper's Fig. 8; each curve is divided by its last "
        f"value. It ends after {_span(steps)} iterations; after ten it has reached {100 * min(tenth):.0f} % of its last "
        "value or more."
    )
    alt = f"Curves that rise steeply over the first ten iterations and are flat at the end. {caption}"
    yield Plate("convergence", "Convergence", caption, (_picture("convergence", figures.draw_convergence(fits), alt),))


def _span(values: list[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _similarity(view: View, studies: Studies) -> Iterator[Plate]:
    pictures = tuple(
        _picture(
            f"similarity-{when}",
            figures.draw_similarity(space, view.labels, studies.classes),
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


def _embedding(view: View, studies: Studies) -> Iterator[Plate]:
    codes = figures.class_codes(studies.classes)
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
    key = "" if codes == studies.classes else ", ".join(f"{c} {n}" for c, n in zip(codes, studies.classes, strict=True))
    yield Plate("embedding", "Test samples in the plane", caption, pictures, key)


def _confusion(fits: list[Fit], classes: list[str]) -> list[Plate]:
    if not fits:
        return []
    pictures = []
    for name, method in (("plain", PLAIN), ("learned", LEARNED)):
        counts = np.sum([getattr(fit, name) for fit in fits], axis=0)
        worst = np.where(np.eye(len(counts), dtype=bool), 0, counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
        true, found = np.unravel_index(int(np.argmax(worst)), worst.shape)
        right = 100 * np.trace(counts) / max(int(counts.sum()), 1)
        alt = f"Confusion matrix of {method}: {right:.1f} % right"
        if worst[true, found] > 0:
            alt += f"; most often {classes[true]} is taken for {classes[found]}, {100 * worst[true, found]:.0f} %"
        picture = _picture(f"confusion-{name}", figures.draw_confusion(counts, classes), f"{alt}.", f"{method}")
        pictures.append(picture)
    over = f"summed over {len(fits)} draws" if len(fits) > 1 else "one draw"
    caption = f"Percent of the test samples of a class (row) that were recognised as each class (column), {over}."
    return [Plate("confusion", "Which class is taken for which", caption, tuple(pictures))]
