"""The numbers behind the figures: neighbours against accuracy and time, convergence, test samples before and after."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

FORMAT = 1
LEARNED, PLAIN = "SPDSL-LEM", "NN-LEM"


@dataclass(frozen=True)
class SweepPoint:
    """SPDSL with v_b = `n_between` ("all" is the full graph): accuracy, and median seconds of an iteration."""

    metric: str
    n_between: int | str
    draw: int
    pairs: int
    accuracy: float
    seconds: float


@dataclass(frozen=True)
class Fit:
    """SPDSL-LEM as in the table on one draw.

    `values` is the objective J at the start and after each iteration; `plain` and `learned` count test samples by true
    class (row) and recognised class, (classes, classes), under NN-LEM and SPDSL-LEM.
    """

    draw: int
    values: list[float]
    plain: np.ndarray
    learned: np.ndarray


@dataclass(frozen=True)
class Space:
    """Test samples of the first draw under a distance.

    `similarity` is exp(-d2 / s) (k, k) in 256 levels, s the tenth percentile of d2, so that the nearest pairs stand out
    whatever the scale of the distance; `embedding` (k, 2) keeps near ones near (t-SNE); `closer` is how often two samples
    of a class are closer than two of different classes.
    """

    similarity: np.ndarray
    embedding: np.ndarray
    closer: float


@dataclass(frozen=True)
class View:
    """The samples shown, sorted by class (`labels`: places in `Studies.classes`), before and after learning."""

    labels: np.ndarray
    before: Space
    after: Space


@dataclass(frozen=True)
class Studies:
    """All of them. `missing` says what could not be found, and why."""

    classes: list[str]
    sweep: list[SweepPoint] = field(default_factory=list)
    fits: list[Fit] = field(default_factory=list)
    view: View | None = None
    missing: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """All of it as JSON."""
        view = self.view
        content = {
            "spdsl-figures": FORMAT,
            "classes": self.classes,
            "sweep": [asdict(point) for point in self.sweep],
            "fits": [fit_to_row(fit) | {"draw": fit.draw} for fit in self.fits],
            "view": None if view is None else view_to_row(view),
            "missing": self.missing,
        }
        return json.dumps(content, allow_nan=False, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Studies:
        """Studies from `to_json`, or a ValueError that says what is wrong with the text."""
        try:
            content = json.loads(text)
            if content.pop("spdsl-figures") != FORMAT:
                raise ValueError("another version of spdsl wrote them")
            return cls(
                content["classes"],
                [SweepPoint(**point) for point in content["sweep"]],
                [fit_from_row(row["draw"], row) for row in content["fits"]],
                None if content["view"] is None else view_from_row(content["view"]),
                content["missing"],
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error) as error:
            raise ValueError(f"not figures of spdsl ({error}); run `spdsl reproduce` again") from None


def fit_to_row(fit: Fit) -> dict[str, Any]:
    """A fit as plain JSON values, without its draw."""
    return {"values": fit.values, "plain": fit.plain.tolist(), "learned": fit.learned.tolist()}


def fit_from_row(draw: int, row: dict[str, Any]) -> Fit:
    """The fit again."""
    return Fit(draw, row["values"], np.array(row["plain"], int), np.array(row["learned"], int))


def view_to_row(view: View) -> dict[str, Any]:
    """A view as plain JSON values."""
    return {"labels": view.labels.tolist(), "before": _space_row(view.before), "after": _space_row(view.after)}


def view_from_row(row: dict[str, Any]) -> View:
    """The view again."""
    k = len(row["labels"])
    return View(np.array(row["labels"], int), _read_space(row["before"], k), _read_space(row["after"], k))


def _space_row(space: Space) -> dict[str, Any]:
    """Similarities packed: a matrix of 300 x 300 numbers in words would fill half a megabyte."""
    levels = np.round(255 * space.similarity).astype(np.uint8)
    packed = base64.b64encode(zlib.compress(levels.tobytes(), 9)).decode()
    return {"similarity": packed, "embedding": np.round(space.embedding, 3).tolist(), "closer": space.closer}


def _read_space(row: dict[str, Any], k: int) -> Space:
    levels = np.frombuffer(zlib.decompress(base64.b64decode(row["similarity"])), np.uint8)
    return Space(levels.reshape(k, k) / 255, np.array(row["embedding"], float), row["closer"])
