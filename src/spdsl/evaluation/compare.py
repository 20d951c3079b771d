"""Which of these methods works best on my covariances? One call, one table."""

from __future__ import annotations

import csv
import io
import json
import warnings
from collections import Counter
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.backend import to_numpy
from spdsl.data.labels import check_labels
from spdsl.data.parameters import check_count, check_seed
from spdsl.data.validation import check_spd
from spdsl.evaluation.cells import Experiment, Tuning
from spdsl.evaluation.fitting import check_scoring
from spdsl.evaluation.methods import get_methods
from spdsl.evaluation.results import REFERENCE, Cell, Results, unit_of
from spdsl.evaluation.runner import run_experiment
from spdsl.evaluation.splits import LEAVE_ONE_GROUP_OUT, Split, check_groups, fold_count, make_splits, warn_of_unlearned
from spdsl.evaluation.store import MemoryStore, Store
from spdsl.evaluation.tables import TableRow, few_draws, gain_text, interval, make_table, notes, p_text
from spdsl.evaluation.text import count_matrices, markdown
from spdsl.models.text import csv_cell, printable

MOST_JOBS = 1024  # more processes than that are a slip


@dataclass(frozen=True)
class Row:
    """One method over all splits.

    `accuracy`, `std` and `scores` are means and deviation of the splits that did not fail, in the units of the scores;
    `low` and `high` bound the mean of the first score at 95 percent, `gain` is that of the reference over the method, `p`
    whether it may be chance (corrected for shared samples and the number of methods), None below five splits. `params`
    are the ones chosen most often; seconds are means.
    """

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
    scores: dict[str, float]
    low: float | None
    high: float | None
    gain: float | None
    p: float | None


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
    results : Results
        All of it; `spdsl.evaluation.tables` and `spdsl.evaluation.report` turn it into files.

    Examples
    --------
    >>> import spdsl
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> table = spdsl.compare(X[::16], y[::16], ["NN-LEM", "CDL"], splits=2, tune=False, verbose=False)
    >>> [(row.method, row.failed) for row in table.rows]
    [('NN-LEM', 0), ('CDL', 0)]
    """

    rows: list[Row]
    cells: list[Cell]
    splits: list[Split]
    results: Results

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame, indexed by method."""
        try:
            import pandas  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        return pandas.DataFrame([asdict(row) for row in self.rows]).set_index("method")

    def to_csv(self) -> str:
        """The rows as CSV with full precision; parameters and scores as JSON."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(field.name for field in fields(Row))
        for row in self.rows:
            packed = {"params": json.dumps(row.params, default=str), "scores": json.dumps(row.scores)}
            writer.writerow(map(csv_cell, (asdict(row) | packed).values()))
        return text.getvalue()

    def to_markdown(self) -> str:
        """What `print` shows, as a Markdown table."""
        head, body = self._texts()
        lines = [" | ".join(map(markdown, line)) for line in (head, *body)]
        rule = "|".join(["---"] * len(head))
        return "\n".join([f"| {lines[0]} |", f"|{rule}|", *(f"| {line} |" for line in lines[1:])]) + "\n"

    def __str__(self) -> str:
        head, body = self._texts()
        lines = [[printable(text) for text in line] for line in (head, *body)]
        widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
        padded = [
            "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        tested = [printable(note) for note in notes(self.results) if note.startswith("gain")]
        return "\n".join([*padded, *tested])

    def _texts(self) -> tuple[list[str], list[list[str]]]:
        """Heads, and the texts of the rows."""
        names = self.results.scoring
        table = {row.method: row for row in make_table(self.results)}
        shown = {
            "95 % interval": any(row.low is not None for row in self.rows),
            "gain": any(row.gain is not None for row in self.rows),
            "p": any(row.p is not None for row in self.rows),
        }
        head = ["method", names[0], *(name for name, wanted in shown.items() if wanted), *names[1:]]
        body = []
        for row in self.rows:
            line = [row.method, _first(table[row.method], names[0])]
            line += [interval(table[row.method], names[0])] * shown["95 % interval"]
            line += [gain_text(table[row.method].difference, names[0])] * shown["gain"]
            line += [p_text(row.p)] * shown["p"]
            line += [_told(row.scores[name], name) + few_draws(table[row.method], name) for name in names[1:]]
            body.append([*line, *_seconds(row), _note(row)])
        return [*head, "tune s", "fit s", "predict s", "parameters"], body


def _first(row: TableRow, name: str) -> str:
    """Mean and deviation of the first score."""
    digits = 1 if unit_of(name) == 100 else 3
    return "failed" if row.mean is None else f"{row.mean:.{digits}f} +- {row.std or 0.0:.{digits}f}"


def _told(value: float, name: str) -> str:
    return "" if value != value else f"{100 * value:.1f}" if unit_of(name) == 100 else f"{value:.3f}"


def _seconds(row: Row) -> list[str]:
    seconds = (row.tune_seconds, row.fit_seconds, row.predict_seconds)
    return ["" if s != s else f"{s:.3g}" for s in seconds]


def _note(row: Row) -> str:
    """Parameters, and what failed."""
    note = ", ".join(f"{name}={value}" for name, value in row.params.items())
    return f"{note}  [{row.failed} of {row.n_splits} failed: {row.error}]".strip() if row.failed else note


def compare(
    X: Any,
    y: Any,
    methods: Any = "all",
    *,
    splits: Any = 10,
    groups: Any = None,
    tune: bool = True,
    n_components: int | None = None,
    n_folds: int = 5,
    scoring: Any = "accuracy",
    reference: str | None = None,
    folder: str | Path | None = None,
    device: str | None = None,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    verbose: bool = True,
) -> Comparison:
    """Scores of several methods on the same splits of your data.

    Parameters
    ----------
    X : (n_matrices, n, n)
        SPD matrices. Samples of several matrices, (n_samples, b, n, n), too; methods for single matrices then fail.
    y : (n_matrices,)
    methods : "all", "paper", list or dict
        Names of `spdsl.METHODS` and scikit-learn classifiers of SPD matrices, pipelines for instance. A dict names its
        values, which may also be (estimator, grid).
    splits : int, "leave-one-group-out", scikit-learn splitter, or list of (train, test)
        An integer draws that many distinct stratified halves; with groups, halves of the groups. Where fewer exist, all
        of them are used, with a warning.
    groups : (n_matrices,), optional
        Samples of one group (a person, a session) stay on one side of every draw and in one fold of the tuning. Steps of
        a pipeline that request `groups` by scikit-learn's metadata routing are given them.
    tune : bool
        Choose parameters by cross-validation inside each training part, over the grid of the method.
    n_components : int, optional
        Size m for all methods of `spdsl.METHODS` that reduce; their own default otherwise.
    n_folds : int
        Of the tuning; fewer where a class of a training part has fewer samples or groups.
    scoring : str or list of str
        scikit-learn's names, for instance "balanced_accuracy", "f1_macro", "neg_log_loss", "roc_auc_ovr". Tuning
        maximizes the first one.
    reference : str, optional
        The method that the others are tested against: by default SPDSL-LEM, where it is among them, else the first.
    folder : path, optional
        Keeps finished cells, so that the same call goes on after an interruption.
    device : str, optional
        Device of the methods that compute on one, e.g. "cuda": one fit after the other, in this process.
    n_jobs : int, optional
        Processes; each holds its linear algebra to its share of the cores.
    random_state : int or None
        Fixes splits, folds and every random start that an estimator has not fixed itself.
    verbose : bool
        Show progress on standard error.

    Returns
    -------
    Comparison
        Print it, or call `to_pandas()`. A method that fails on a split says so in its cell; the others go on.

    Examples
    --------
    >>> import spdsl
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> table = spdsl.compare(X[::16], y[::16], ["NN-LEM", "CDL"], splits=2, n_folds=2, n_jobs=1)
    >>> max(table.rows, key=lambda row: row.accuracy).method
    'CDL'
    """
    X = to_numpy(check_spd(X, blocks=True))
    classes, labels = check_labels(y, X.shape[0])
    y = classes[labels]
    chosen = get_methods(methods)
    n_folds, n_components, random_state = _checked(n_folds, n_components, random_state, n_jobs)
    names = [method.name for method in chosen]
    if not names:
        raise ValueError("methods is empty: name at least one")
    if reference is not None and reference not in names:
        raise ValueError(f"reference={reference!r} is not among the methods: {', '.join(names)}")
    groups = check_groups(groups, len(y))
    check_scoring(scoring)
    pairs = make_splits(splits, y, groups=groups, random_state=random_state)
    warn_of_unlearned(pairs, y)
    if tune:
        _announce_folds(pairs, y, groups, n_folds)
    how = _how(splits, pairs, groups, random_state)
    about = f"{count_matrices(X)} of {len(classes)} classes."
    experiment = Experiment("comparison", "compare", about, X, y, pairs, how, n_components, groups=groups)
    tuning: Tuning = "each" if tune else "none"
    store = MemoryStore() if folder is None else Store(folder)
    options: dict[str, Any] = {
        "tuning": tuning,
        "n_folds": n_folds,
        "scoring": scoring,
        "seed": random_state,
        "device": device,
    }
    results = run_experiment(experiment, store, chosen, n_jobs=n_jobs, verbose=verbose, **options)
    results = replace(results, reference=reference or (REFERENCE if REFERENCE in names else names[0]))
    table = {row.method: row for row in make_table(results)}
    rows = [_summarize(table[m.name], m.category, results) for m in chosen]
    return Comparison(rows, results.cells, pairs, results)


def _checked(n_folds: Any, n_components: Any, seed: Any, n_jobs: Any) -> tuple[int, int | None, int | None]:
    """Number of folds, m and seed as Python's integers, which results are stored under."""
    n_folds = check_count("n_folds", n_folds, low=2)
    if n_components is not None:
        n_components = check_count("n_components", n_components, low=1)
    check_seed(seed)
    if seed is not None:
        if not isinstance(seed, int | np.integer):
            raise ValueError(f"random_state must be an integer or None, got {seed!r}: results are stored under it")
        seed = int(seed)
    if n_jobs is not None and check_count("n_jobs", n_jobs, low=-MOST_JOBS, high=MOST_JOBS) == 0:
        raise ValueError("n_jobs=0: give a number of processes, -1 for as many as cores, or None for one")
    return n_folds, n_components, seed


def _how(splits: Any, pairs: list[Split], groups: np.ndarray | None, seed: int | None) -> str:
    """The splits in words."""
    if isinstance(splits, str):
        return f"{LEAVE_ONE_GROUP_OUT}: each of {len(pairs)} groups is tested once"
    if not isinstance(splits, int | np.integer):
        return f"{len(pairs)} given splits"
    return f"{len(pairs)} random {'stratified halves' if groups is None else 'halves of the groups'} (seed {seed})"


def _announce_folds(pairs: list[Split], y: np.ndarray, groups: np.ndarray | None, n_folds: int) -> None:
    """Say once that some training parts are too small for the folds asked for."""
    inside = [None if groups is None else groups[train] for train, _ in pairs]
    fewest = min(fold_count(y[train], n_folds, own) for (train, _), own in zip(pairs, inside, strict=True))
    if fewest < n_folds:
        few = "samples" if groups is None else "groups"
        warnings.warn(
            f"a class has fewer training {few} than n_folds={n_folds}: tuning uses as few as {fewest} folds",
            UserWarning,
            stacklevel=3,
        )
    if any(own is not None and len(np.unique(own)) == 1 for own in inside):
        warnings.warn(
            "some training parts hold a single group: their folds of tuning divide its samples",
            UserWarning,
            stacklevel=3,
        )


def _summarize(row: TableRow, category: Any, results: Results) -> Row:
    """One row of the comparison from that of the table and its cells."""
    cells = [cell for cell in results.cells if cell.method == row.method]
    good = [cell for cell in cells if not cell.error]
    accuracy = [cell.accuracy for cell in good] or [float("nan")]
    spent = [[cell.tune_seconds, cell.fit_seconds, cell.predict_seconds] for cell in good]
    seconds = np.mean(spent, axis=0) if spent else np.full(3, np.nan)
    often = Counter(json.dumps(cell.params, sort_keys=True) for cell in good).most_common(1)
    unit = unit_of(results.scoring[0])
    scores = {
        name: [cell.score(name) for cell in good if cell.score(name) == cell.score(name)] for name in results.scoring
    }
    return Row(
        method=row.method,
        category=category,
        accuracy=float(np.mean(accuracy)),
        std=float(np.std(accuracy, ddof=1)) if len(accuracy) > 1 else 0.0,
        params=json.loads(often[0][0]) if often else {},
        tune_seconds=float(seconds[0]),
        fit_seconds=float(seconds[1]),
        predict_seconds=float(seconds[2]),
        n_splits=len(cells),
        failed=row.failed,
        error=row.error,
        scores={name: float(np.mean(values)) if values else float("nan") for name, values in scores.items()},
        low=None if row.low is None else row.low / unit,
        high=None if row.high is None else row.high / unit,
        gain=None if row.difference is None else row.difference / unit,
        p=row.p,
    )
