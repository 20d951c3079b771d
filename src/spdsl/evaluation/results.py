"""What a run found: a cell for each method and draw, all that a table, a figure or the report needs, and as JSON."""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

FORMAT = 2
RESULTS = "results.json"
PACKAGES = ("spdsl", "numpy", "scipy", "scikit-learn", "joblib", "pyriemann", "torch")
GIT_SECONDS = 5  # to wait for git's answer
NAN = float("nan")
REFERENCE = "SPDSL-LEM"  # the proposed method, against which the others are tested where it is among them


#: scores between 0 and 1, by how their scikit-learn names begin; they are told in percent
SHARES = ("accuracy", "balanced_accuracy", "f1", "precision", "recall", "jaccard", "roc_auc", "top_k_accuracy")


@dataclass(frozen=True)
class Cell:
    """One method on one draw; `error` says what went wrong, and the figures are then NaN.

    Attributes
    ----------
    method : str
    split : int
        Which draw, from 0.
    accuracy : float
        In [0, 1].
    params : dict
        Chosen or given; the others are the method's defaults.
    tune_seconds, fit_seconds, predict_seconds : float
    warnings : tuple of str
    error : str
    scores : dict
        Scores beside the accuracy, by their scikit-learn names.
    predictions : tuple of int
        For each test sample the place of the predicted label in `Results.classes`.
    history : tuple of (float, float)
        The objective J at the start and after each iteration of a learner that has one, and the seconds that it took.
    key : str
        Under which the store has it.
    """

    method: str
    split: int
    accuracy: float = NAN
    params: dict[str, Any] = field(default_factory=dict)
    tune_seconds: float = NAN
    fit_seconds: float = NAN
    predict_seconds: float = NAN
    warnings: tuple[str, ...] = ()
    error: str = ""
    scores: dict[str, float] = field(default_factory=dict)
    predictions: tuple[int, ...] = ()
    history: tuple[tuple[float, float], ...] = ()
    key: str = ""

    def score(self, name: str) -> float:
        """The accuracy or another score by name, NaN where there is none."""
        return self.accuracy if name == "accuracy" else self.scores.get(name, NAN)


@dataclass(frozen=True)
class Results:
    """The outcome of a run.

    Attributes
    ----------
    dataset : str
        Short name ("digits", "ytc", "uiuc", "hdm05", or the stem of a user's file).
    title, description : str
        A heading, and what is recognized from what, in a sentence.
    n_matrices, n_features, n_classes : int
        N, n, classes.
    n_components : int or None
        m, where one was given.
    n_draws : int
    cells : list of Cell
        One per method and draw that is done, in the order of the methods and of the draws.
    published : dict
        Method name to (mean, standard deviation or None) in percent, where the paper has a figure for this dataset.
    settings : dict
        The protocol in words: folds, iterations, seeds, grids, what was tuned on what.
    environment : dict
        Date, command line, versions and hardware.
    seconds : float
        Work done in all, summed over cells and processes.
    sizes : list of (int, int)
        Training and test samples of each draw.
    scoring : list of str
        What was measured; the first is what tables sort, mark and test.
    classes : list of str
        Names of the classes.
    truth : list of list of int
        For each draw the classes of its test samples.
    sections : dict
        Method name to the part of the table that it belongs to.
    reference : str
        The method against which the others are tested.
    """

    dataset: str
    title: str
    description: str
    n_matrices: int
    n_features: int
    n_classes: int
    n_components: int | None
    n_draws: int
    cells: list[Cell]
    published: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    sizes: list[tuple[int, int]] = field(default_factory=list)
    scoring: list[str] = field(default_factory=lambda: ["accuracy"])
    classes: list[str] = field(default_factory=list)
    truth: list[list[int]] = field(default_factory=list)
    sections: dict[str, str] = field(default_factory=dict)
    reference: str = REFERENCE

    def to_json(self) -> str:
        """All of it as JSON, a cell a line; figures that a failed cell lacks are null."""
        content = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "cells"}
        lines = [f"{json.dumps(name)}: {_dumps(value)}" for name, value in content.items()]
        cells = ",\n  ".join(_dumps(cell_to_dict(cell)) for cell in self.cells)
        return "{\n " + ",\n ".join([f'"spdsl-results": {FORMAT}', *lines, f'"cells": [\n  {cells}\n ]']) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> Results:
        """Results from `to_json`, or a ValueError that says what is wrong with the text."""
        try:
            content = json.loads(text)
            version = content.pop("spdsl-results")
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
            raise ValueError(f"not results of spdsl ({error}); run `spdsl reproduce` again") from None
        if version != FORMAT:
            raise ValueError(
                f"results of format {version}, and this version of spdsl reads format {FORMAT}; run `spdsl reproduce` again"
            )
        try:
            content["cells"] = [cell_from_dict(cell) for cell in content["cells"]]
            found = cls(**content)
            _check(found)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"incomplete or edited results of spdsl ({error}); run `spdsl reproduce` again") from None
        pairs = {name: (mean, std) for name, (mean, std) in found.published.items()}
        return replace(found, published=pairs, sizes=[(a, b) for a, b in found.sizes])


def unit_of(score: str) -> int:
    """What a score is multiplied by where it is shown: shares are told in percent."""
    return 100 if score.startswith(SHARES) else 1


def read_results(folder: str | Path) -> Results:
    """The results that a run has left in `folder`; a ValueError or FileNotFoundError says what is wrong with them."""
    path = Path(folder) / RESULTS
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; `spdsl reproduce --out {folder}` makes it")
    try:
        return Results.from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def cell_to_dict(cell: Cell) -> dict[str, Any]:
    """A cell as plain JSON values; NaN becomes None."""
    content = {key: None if value != value else value for key, value in vars(cell).items()}
    scores = {name: None if value != value else value for name, value in cell.scores.items()}
    return content | {"params": plain_params(cell.params), "scores": scores, "warnings": list(cell.warnings)}


def cell_from_dict(content: Mapping[str, Any]) -> Cell:
    """The cell again; a TypeError where the values are not those of a cell."""
    figures: dict[str, Any] = {key: NAN if value is None else value for key, value in content.items()}
    figures["scores"] = {name: NAN if v is None else v for name, v in dict(content.get("scores") or {}).items()}
    figures["warnings"] = tuple(content["warnings"])
    figures["predictions"] = tuple(content.get("predictions") or ())
    figures["history"] = tuple((value, seconds) for value, seconds in content.get("history") or ())
    cell = Cell(**figures)
    numbers = (cell.accuracy, cell.tune_seconds, cell.fit_seconds, cell.predict_seconds, *cell.scores.values())
    _must("a figure of a cell", all(_number(x) for x in (*numbers, *(x for pair in cell.history for x in pair))))
    _must(
        "a text of a cell", all(isinstance(text, str) for text in (cell.method, cell.error, cell.key, *cell.warnings))
    )
    _must("accuracy", not (cell.accuracy < 0 or cell.accuracy > 1))
    _must("the draw of a cell", _count(cell.split))
    _must("params", isinstance(cell.params, dict))
    _must("predictions", all(_count(code) for code in cell.predictions))
    return cell


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as JSON knows them."""
    return {name: plain(value) for name, value in params.items()}


def plain(value: Any) -> Any:
    """A parameter as JSON knows it: NumPy's numbers as Python's, objects by name."""
    if hasattr(value, "item") and getattr(value, "size", 1) == 1:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)  # JSON has no word for it
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _dumps(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


# ----------------------------------------------------------------------------------------------------------- what is read


def _check(r: Results) -> None:
    """Raise a TypeError that names the first part which is not what a run writes."""
    texts = (r.dataset, r.title, r.description, r.reference, *r.scoring, *r.classes)
    _must("a text", all(isinstance(text, str) for text in texts) and isinstance(r.scoring, list) and bool(r.scoring))
    counts = (r.n_matrices, r.n_features, r.n_classes, r.n_draws)
    _must("a count", all(_count(n) and n > 0 for n in counts) and (r.n_components is None or _count(r.n_components)))
    _must("seconds", _number(r.seconds))
    for name in ("settings", "environment", "published", "sections"):
        _must(name, isinstance(getattr(r, name), dict))
    _must("environment", all(isinstance(text, str) for text in r.environment.values()))
    _must("sections", all(isinstance(text, str) for text in r.sections.values()))
    pairs = list(r.published.values())
    _must("published", all(len(p) == 2 and _number(p[0]) and (p[1] is None or _number(p[1])) for p in pairs))
    _must("sizes", all(len(pair) == 2 and all(map(_count, pair)) for pair in r.sizes))
    _must("sizes", len(r.sizes) in (0, r.n_draws))
    _must("classes", len(r.classes) in (0, r.n_classes))
    _must("truth", len(r.truth) in (0, r.n_draws))
    _must("truth", all(_count(code) and code < len(r.classes) for draw in r.truth for code in draw))
    _must("the draw of a cell", all(cell.split < r.n_draws for cell in r.cells))
    _must("a method twice", len({(cell.method, cell.split) for cell in r.cells}) == len(r.cells))
    for cell in r.cells:
        if cell.predictions and r.truth:
            _must("predictions", len(cell.predictions) == len(r.truth[cell.split]))
            _must("predictions", max(cell.predictions) < len(r.classes))
    for name in ("folds", "grids", "iterations"):
        kind = list if name == "folds" else dict
        _must(f"settings: {name}", isinstance(r.settings.get(name, kind()), kind))
    grids, iterations = r.settings.get("grids", {}), r.settings.get("iterations", {})
    _must("settings: iterations", all(_count(n) for n in iterations.values()))
    _must("settings: grids", all(isinstance(grid, dict) for grid in grids.values()))


def _must(what: str, holds: bool) -> None:
    if not holds:
        raise TypeError(f"{what} is not what a run writes")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# ------------------------------------------------------------------------------------------------------------ environment


def describe_environment(command: str = "") -> dict[str, str]:
    """Date, command line, versions of what computes, revisions of the source, processor, cores, memory, system."""
    found = {"date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %z"), "command": command}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    found["revision of spdsl"] = _revision(Path(__file__).parent, Path(__file__).name)
    found["revision of the working folder"] = _revision(Path.cwd())
    found["python"] = platform.python_version()
    blas = {f"{lib['internal_api']} {lib.get('version')}" for lib in threadpool_info() if lib["user_api"] == "blas"}
    found["linear algebra"] = ", ".join(sorted(blas))
    found["processor"] = _processor()
    found["cores"] = str(os.cpu_count())
    memory = _memory()
    if memory:
        found["memory"] = f"{memory / 2**30:.0f} GiB"
    found["system"] = f"{platform.system()} {platform.release()}"
    return {name: text for name, text in found.items() if text}


@cache
def _revision(folder: Path, tracked: str = "") -> str:
    """Revision of the git repository that holds the folder, where one does; `tracked` must then be a file of it."""
    if tracked and not _git(folder, "ls-files", tracked):
        return ""  # installed somewhere inside a repository of something else
    commit = _git(folder, "rev-parse", "--short=12", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no") if commit else ""
    return f"{commit} with changes" if changed else commit


def _git(folder: Path, *arguments: str) -> str:
    quiet = os.environ | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=GIT_SECONDS, env=quiet
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _processor() -> str:
    """Model of the processor, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _memory() -> int:
    """Bytes of memory, 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
