"""Which of these methods works best on my covariances? One call, one table."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from spdsl.arrays import to_numpy
from spdsl.experiments.cells import Cell, run_cell, run_jobs
from spdsl.experiments.splits import Split, fold_count, make_splits
from spdsl.methods import Method, get_methods
from spdsl.progress import Progress, Quiet
from spdsl.validation import check_count, check_labels, check_seed, check_spd

MOST_JOBS = 1024  # more processes than that are a slip
HEAD = ("method", "accuracy", "tune s", "fit s", "predict s", "parameters")


@dataclass(frozen=True)
class Row:
    """One method over all splits: mean accuracy and its standard deviation, commonest parameters, mean seconds."""

    method: str
    category: Any
    accuracy: float
    std: float
    params: dict[str, Any]
    tune_seconds: float
    fit_seconds: float
    predict_seconds: float
    n_splits: int
    failed: int
    error: str


@dataclass(frozen=True)
class Comparison:
    """What `compare` returns.

    Attributes
    ----------
    rows : list of Row
        In the order of the methods.
    cells : list of Cell
        Every method on every split.
    splits : list of (train, test)
    """

    rows: list[Row]
    cells: list[Cell]
    splits: list[Split]

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame, indexed by method."""
        try:
            import pandas  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        return pandas.DataFrame([asdict(row) for row in self.rows]).set_index("method")

    def to_csv(self) -> str:
        """The rows as CSV with full precision; parameters as JSON."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(field.name for field in fields(Row))
        for row in self.rows:
            writer.writerow((asdict(row) | {"params": json.dumps(row.params, default=str)}).values())
        return text.getvalue()

    def to_markdown(self) -> str:
        """What `print` shows, as a Markdown table."""
        lines = [" | ".join(text.replace("|", "\\|") for text in line) for line in (HEAD, *map(_line, self.rows))]
        rule = "|".join(["---"] * len(HEAD))
        return (
            "".join(f"| {line} |\n" for line in lines[:1])
            + f"|{rule}|\n"
            + "".join(f"| {line} |\n" for line in lines[1:])
        )

    def __str__(self) -> str:
        head, body = HEAD, [_line(row) for row in self.rows]
        widths = [max(len(line[k]) for line in [head, *body]) for k in range(len(head))]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in body
        ]
        title = "  ".join(text.ljust(width) for text, width in zip(head, widths, strict=True)).rstrip()
        return "\n".join([title, *lines])


def compare(
    X: Any,
    y: Any,
    methods: str | Sequence[str] = "all",
    *,
    splits: Any = 10,
    tune: bool = True,
    n_components: int | None = None,
    n_folds: int = 5,
    groups: Any = None,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    verbose: bool = True,
) -> Comparison:
    """Accuracy of several methods on the same splits of your data.

    Parameters
    ----------
    X : (n_matrices, n, n)
        SPD matrices.
    y : (n_matrices,)
    methods : "all", "paper", or names of `spdsl.METHODS`
    splits : int, scikit-learn splitter, or list of (train, test)
        An integer draws that many stratified halves.
    tune : bool
        Choose parameters by cross-validation inside each training part, over the grid of `spdsl.METHODS`.
    n_components : int, optional
        Size m for all methods that reduce; their own default otherwise.
    n_folds : int
        Of the tuning; fewer where a class of a training part has fewer samples.
    groups : (n_matrices,), optional
        For splitters that want them.
    n_jobs : int, optional
        Processes; each holds its linear algebra to its share of the cores.
    random_state : int or None
        Fixes splits, folds and every random start.
    verbose : bool
        Show progress on standard error.

    Returns
    -------
    Comparison
        Print it, or call `to_pandas()`. A method that fails on a split says so in its cell; the others go on.

    Examples
    --------
    >>> import numpy as np, spdsl
    >>> data = np.load("mine.npz")  # doctest: +SKIP
    >>> X = spdsl.regularize(data["X"], 1e-3)  # doctest: +SKIP
    >>> print(spdsl.compare(X, data["y"], ["NN-LEM", "CDL", "SPDSL-LEM"], splits=5))  # doctest: +SKIP
    """
    X = to_numpy(check_spd(X))
    classes, labels = check_labels(y, X.shape[0])
    y = classes[labels]
    chosen = get_methods(methods)
    check_count("n_folds", n_folds, low=2)
    check_seed(random_state)
    if n_jobs is not None and check_count("n_jobs", n_jobs, low=-MOST_JOBS, high=MOST_JOBS) == 0:
        raise ValueError("n_jobs=0: give a number of processes, -1 for as many as cores, or None for one")
    pairs = make_splits(splits, y, groups=groups, random_state=random_state)
    if tune:
        _announce_folds(pairs, y, n_folds)
    options: dict[str, Any] = {"tuned": tune, "n_components": n_components, "n_folds": n_folds, "seed": random_state}
    jobs = [(X, y, method, k, split) for k, split in enumerate(pairs) for method in chosen]
    cells = []
    with Progress(len(jobs), "compare") if verbose else Quiet() as progress:
        for cell in run_jobs(partial(run_cell, **options), jobs, n_jobs):
            cells.append(cell)
            progress.step(f"{cell.method} {cell.error or f'{100 * cell.accuracy:.1f}'}")
    order = {method.name: k for k, method in enumerate(chosen)}
    cells.sort(key=lambda cell: (order[cell.method], cell.split))
    rows = [_summarise(method, [cell for cell in cells if cell.method == method.name]) for method in chosen]
    return Comparison(rows, cells, pairs)


def _announce_folds(pairs: list[Split], y: np.ndarray, n_folds: int) -> None:
    """Say once that some training parts are too small for the folds asked for."""
    fewest = min(fold_count(y[train], n_folds) for train, _ in pairs)
    if fewest < n_folds:
        warnings.warn(
            f"a class has fewer training samples than n_folds={n_folds}: tuning uses as few as {fewest} folds",
            UserWarning,
            stacklevel=3,
        )


def _summarise(method: Method, cells: list[Cell]) -> Row:
    """One row of the table from the cells of a method."""
    good = [cell for cell in cells if not cell.error]
    accuracy = [cell.accuracy for cell in good] or [float("nan")]
    spent = [[cell.tune_seconds, cell.fit_seconds, cell.predict_seconds] for cell in good]
    seconds = np.mean(spent, axis=0) if spent else np.full(3, np.nan)
    often = Counter(tuple(sorted(cell.params.items(), key=lambda item: item[0])) for cell in good).most_common(1)
    return Row(
        method.name,
        method.category,
        float(np.mean(accuracy)),
        float(np.std(accuracy, ddof=1)) if len(accuracy) > 1 else 0.0,
        dict(often[0][0]) if often else {},
        float(seconds[0]),
        float(seconds[1]),
        float(seconds[2]),
        len(cells),
        len(cells) - len(good),
        next((cell.error for cell in cells if cell.error), ""),
    )


def _line(row: Row) -> tuple[str, ...]:
    """The texts of one row."""
    seconds = tuple(f"{s:.3g}" for s in (row.tune_seconds, row.fit_seconds, row.predict_seconds))
    note = ", ".join(f"{name}={value}" for name, value in row.params.items())
    if row.failed:
        note = f"{note}  [{row.failed} of {row.n_splits} failed: {row.error}]".strip()
    if row.failed == row.n_splits:
        return row.method, "failed", "", "", "", note
    return row.method, f"{100 * row.accuracy:.1f} +- {100 * row.std:.1f}", *seconds, note
