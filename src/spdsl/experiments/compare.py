"""Which of these methods works best on my covariances? One call, one table."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config

from spdsl.arrays import to_numpy
from spdsl.experiments.splits import Split, fold_count, make_splits
from spdsl.experiments.tuning import tune as choose_parameters
from spdsl.methods import Method, get_methods
from spdsl.progress import Progress, Quiet
from spdsl.validation import check_labels, check_spd


@dataclass(frozen=True)
class Cell:
    """One method on one split; `error` says what went wrong, and the figures are then NaN."""

    method: str
    split: int
    accuracy: float = float("nan")
    params: dict[str, Any] = field(default_factory=dict)
    tune_seconds: float = float("nan")
    fit_seconds: float = float("nan")
    predict_seconds: float = float("nan")
    warnings: tuple[str, ...] = ()
    error: str = ""


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

    def __str__(self) -> str:
        head = ("method", "accuracy", "tune s", "fit s", "predict s", "parameters")
        body = [_line(row) for row in self.rows]
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
    pairs = make_splits(splits, y, groups=groups, random_state=random_state)
    if tune:
        _announce_folds(pairs, y, n_folds)
    options = {"tuned": tune, "n_components": n_components, "n_folds": n_folds, "seed": random_state}
    jobs = [(method, k, split) for k, split in enumerate(pairs) for method in chosen]
    cells = []
    with Progress(len(jobs), "compare") if verbose else Quiet() as progress:
        for cell in _run(X, y, jobs, options, n_jobs):
            cells.append(cell)
            progress.step(f"{cell.method} {cell.error or f'{100 * cell.accuracy:.1f}'}")
    order = {method.name: k for k, method in enumerate(chosen)}
    cells.sort(key=lambda cell: (order[cell.method], cell.split))
    rows = [_summarise(method, [cell for cell in cells if cell.method == method.name]) for method in chosen]
    return Comparison(rows, cells, pairs)


def _run(X: np.ndarray, y: np.ndarray, jobs: list[Any], options: dict[str, Any], n_jobs: int | None) -> Iterator[Cell]:
    """Run all cells, here or in worker processes, and yield them as they are done."""
    workers = effective_n_jobs(n_jobs)
    if workers == 1:
        yield from (_cell(X, y, *job, **options) for job in jobs)
        return
    # the workers' BLAS and the library's own threads both read what this sets
    cores = max(1, effective_n_jobs(-1) // workers)
    with parallel_config(backend="loky", inner_max_num_threads=cores):
        run = Parallel(n_jobs=workers, return_as="generator_unordered")
        yield from run(delayed(_cell)(X, y, *job, **options) for job in jobs)


def _cell(
    X: np.ndarray,
    y: np.ndarray,
    method: Method,
    k: int,
    split: Split,
    *,
    tuned: bool,
    n_components: int | None,
    n_folds: int,
    seed: int | None,
) -> Cell:
    """Tune, fit and score one method on one split."""
    train, test = split
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model: Any = method.factory()
            own = model.get_params()
            fixed = {"n_components": n_components, "random_state": seed}
            model.set_params(**{name: v for name, v in fixed.items() if name in own and v is not None})
            clock = [time.perf_counter()]
            params: dict[str, Any] = {}
            if tuned and method.grid:
                params = choose_parameters(
                    model, method.grid, X[train], y[train], n_folds=n_folds, random_state=seed
                ).params
            clock.append(time.perf_counter())
            model.set_params(**params).fit(X[train], y[train])
            clock.append(time.perf_counter())
            accuracy = float(np.mean(model.predict(X[test]) == y[test]))
            clock.append(time.perf_counter())
        except Exception as error:  # whatever one method trips over must not cost the user the rest of the table
            return Cell(method.name, k, error=f"{type(error).__name__}: {error}")
    said = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    spent = np.diff(clock)
    return Cell(method.name, k, accuracy, params, float(spent[0]), float(spent[1]), float(spent[2]), said)


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
