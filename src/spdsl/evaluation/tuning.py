"""Parameters by cross-validation inside a training part."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from spdsl.backend import pool, threads
from spdsl.data import CheckedOnce, as_data
from spdsl.data.labels import check_labels
from spdsl.data.parameters import check_seed
from spdsl.data.validation import as_samples, even
from spdsl.evaluation.fitting import REDUCTIONS, answering, bound, fit_samples, get_scorer
from spdsl.evaluation.splits import Split, check_groups, make_folds

Scores = Callable[[list[dict[str, Any]]], np.ndarray]
Failure = tuple[str, Exception]  # in words, and as it was raised
LONG = 12  # a range of more values than this is searched in two rounds
COARSE, FINE = 10, 6


@dataclass(frozen=True)
class Tuned:
    """The best parameters, their mean score over the folds, the number of folds, and what failed on the way.

    The score ranks the points of the grid: `RSR`, `LEK` and `LEML` compute it from shortened fits, and
    `TangentSpaceClassifier` at the log-Euclidean mean. For an estimate of the accuracy use `compare` or `cross_val_score`.
    """

    params: dict[str, Any]
    score: float
    n_folds: int
    failed: tuple[str, ...] = ()


def tune(
    estimator: BaseEstimator,
    grid: Mapping[str, Sequence[Any]],
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    n_folds: int = 5,
    scoring: str = "accuracy",
    random_state: int | None = 0,
) -> Tuned:
    """Choose parameters of `estimator` from `grid` by stratified cross-validation on (X, y).

    Estimators with `prepare` and `validate` compute what the matrices alone determine (logarithms, divergences) once
    for all folds and grid points, and share kernels and codes between points. Ties go to the first point of the grid.
    A long range (more than 12 values) is searched in two rounds: about ten values spread evenly in ratio, then those
    between the neighbors of the best. A point that fails in any fold is out; all failing is an error.

    Parameters
    ----------
    estimator : unfitted estimator
    grid : mapping
        Parameter names and the values to try. Empty: nothing is tuned and no fold is run.
    X : (n_matrices, n, n), or (n_samples, b, n, n)
    y : (n_matrices,)
    groups : (n_matrices,), optional
        Samples of one group stay in one fold; passed on to steps that request them by metadata routing.
    n_folds : int
        Fewer are used where a class has fewer samples, or occurs in fewer groups.
    scoring : str
        What to maximize: a name of `sklearn.metrics.get_scorer_names()`.
    random_state : int or None

    Returns
    -------
    Tuned

    Examples
    --------
    >>> import spdsl
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> best = spdsl.tune(spdsl.SPDNearestNeighbor("lem"), {"n_neighbors": [1, 5]}, X[::10], y[::10])
    >>> best.params, round(best.score, 2)
    ({'n_neighbors': 1}, 0.88)
    """
    X = even(as_samples(X), X)
    classes, labels = check_labels(y, X.shape[0])
    y = classes[labels]
    from sklearn.model_selection import ParameterGrid  # not above: it slows the import down

    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params") or isinstance(estimator, type):
        raise ValueError(f"estimator must be an unfitted estimator, e.g. METHODS['CDL'].factory(), got {estimator!r}")
    check_seed(random_state)
    groups = check_groups(groups, len(y))
    if not isinstance(grid, Mapping):
        raise ValueError(f"grid must map names of parameters to lists of values, got {grid!r}")
    known = estimator.get_params()
    for name, values in grid.items():
        if name not in known:
            raise ValueError(f"grid: {type(estimator).__name__} has no parameter {name!r}; it has {', '.join(known)}")
        if isinstance(values, str | Set) or not hasattr(values, "__len__") or np.ndim(values) == 0:
            raise ValueError(f"grid[{name!r}] must be a list of values to try, got {values!r}")
    empty = [name for name, values in grid.items() if not len(values)]
    if empty:
        raise ValueError(f"grid[{empty[0]!r}] is empty: give it a value to try, or leave it out")
    if len(ParameterGrid(dict(grid))) == 1:
        return Tuned(next(iter(ParameterGrid(dict(grid)))), float("nan"), 0)
    folds = make_folds(y, n_folds, random_state, groups)
    trials = _Trials(estimator, X, y, groups, folds, get_scorer(scoring))
    with warnings.catch_warnings():
        # a search passes through poor points on its way; the final fit speaks for itself
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        shared = hasattr(estimator, "validate") and scoring == "accuracy"
        params, score = _search(trials.shared if shared else trials.plain, grid)
    return Tuned(params, score, len(folds), tuple(trials.failed))


def _search(scores: Scores, grid: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Any], float]:
    """The best point and its mean accuracy, in two rounds where a range is long."""
    coarse = {name: _spread(values, COARSE) for name, values in grid.items()}
    best, score = _best_point(scores, coarse)
    fine = dict(coarse)
    for name in (name for name in grid if len(coarse[name]) < len(grid[name])):
        full, near = list(grid[name]), coarse[name].index(best[name])
        low = full.index(coarse[name][max(near - 1, 0)])
        high = full.index(coarse[name][min(near + 1, len(coarse[name]) - 1)])
        between = [value for value in full[low : high + 1] if value not in coarse[name]]
        fine[name] = _spread(between, FINE) or [best[name]]
    if fine == coarse:
        return best, score
    other, other_score = _best_point(scores, fine)
    return (other, other_score) if other_score > score else (best, score)


def _best_point(scores: Scores, grid: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Any], float]:
    """The first of the points with the highest mean accuracy."""
    from sklearn.model_selection import ParameterGrid

    points = list(ParameterGrid(dict(grid)))
    mean = scores(points).mean(axis=0)
    best = int(np.nanargmax(mean))
    return points[best], float(mean[best])


def _spread(values: Sequence[Any], count: int) -> list[Any]:
    """All of a short range; of a long one about `count` values, ends included, evenly in the ratio of their places."""
    if len(values) <= LONG:
        return list(values)
    places = np.unique(np.geomspace(1, len(values), count).round().astype(int)) - 1
    return [values[k] for k in places]


class _Trials:
    """Scores of grid points (fold, point); NaN throughout for a point that fails in any fold."""

    def __init__(
        self, estimator: Any, X: Any, y: np.ndarray, groups: np.ndarray | None, folds: list[Split], scorer: Any
    ) -> None:
        self.estimator, self.X, self.y, self.groups = estimator, X, y, groups
        self.folds, self.scorer = folds, scorer
        self.failed: list[str] = []
        self._prepared: Any = None

    def shared(self, points: list[dict[str, Any]]) -> np.ndarray:
        """With what the matrices alone determine computed once for all points and folds."""
        cheap = {key: value for key, value in self.estimator.tuning_params.items() if key not in points[0]}
        model = clone(self.estimator).set_params(**cheap)
        self._prepared = model.prepare(self.X) if self._prepared is None else self._prepared
        model.n_features_in_ = self.X.shape[-1]

        def score(train: np.ndarray, test: np.ndarray, some: list[dict[str, Any]]) -> list[float]:
            return model.validate(self._prepared, self.y, train, test, some)

        try:
            return np.array([score(train, test, points) for train, test in self.folds])
        except Exception:  # some point fails: each by itself, so that the others are not lost with it
            found = np.full((len(self.folds), len(points)), np.nan)
            errors: list[Failure] = []
            for p, point in enumerate(points):
                for f, (train, test) in enumerate(self.folds):
                    with self._noted(point, errors):
                        found[f, p] = score(train, test, [point])[0]
            return self._whole_columns(found, errors)

    def plain(self, points: list[dict[str, Any]]) -> np.ndarray:
        """By fits, each shared by the points that differ in the classifier or the number of iterations alone.

        The folds are computed in threads: the matrices of a fold are often too small to occupy more than one.
        """
        work = [(f, fit) for fit in _by_fit(self.estimator, points) for f in range(len(self.folds))]
        found = np.full((len(self.folds), len(points)), np.nan)
        errors: list[list[Failure]] = [[] for _ in work]

        def run(k: slice) -> None:
            f, fit = work[k.start]
            self._fold(self.folds[f], points, fit, found[f], errors[k.start])

        own = hasattr(self.estimator, "fit_classifier") and self.estimator.get_params().get("device") is None
        pool.map(run, [slice(k, k + 1) for k in range(len(work))], threads() if own else 1)
        return self._whole_columns(found, [failure for some in errors for failure in some])

    def _fold(
        self,
        fold: Split,
        points: list[dict[str, Any]],
        fit: _SharedFit,
        found: np.ndarray,
        errors: list[Failure],
    ) -> None:
        """Scores of the points that one fit serves, on one fold."""
        train, test = fold
        model = clone(self.estimator).set_params(**fit.params)
        seen, unseen = self._samples(model, train), self._samples(model, test)
        stops = _Stops(fit.iterations)
        if stops.wanted:
            model.set_params(callback=stops)
        for p in fit.members:
            with self._noted(points[p], errors):
                model.set_params(**{name: value for name, value in points[p].items() if name not in fit.params})
                with answering(model, [self.scorer]):
                    if not hasattr(model, "fit_classifier") or not hasattr(model, "components_"):
                        fit_samples(model, seen, self.y, self.groups, train)
                        stops.ended = getattr(model, "components_", None), points[p]
                    wanted = stops.at(points[p].get("max_iter"))
                    if points[p] is not stops.ended[1] or wanted is not stops.ended[0]:
                        model.components_ = wanted
                        model.fit_classifier(seen, self.y[train])
                    found[p] = float(self.scorer(bound(model, self.groups, test), unseen, self.y[test]))

    def _samples(self, model: Any, rows: np.ndarray) -> Any:
        """These samples, in a form that the classifiers after one reduction share where it is one of ours."""
        return CheckedOnce(as_data(self.X[rows], model.precision)) if type(model) in REDUCTIONS else self.X[rows]

    @contextmanager
    def _noted(self, point: dict[str, Any], errors: list[Failure]) -> Iterator[None]:
        """Note what goes wrong with a point instead of raising it."""
        try:
            yield
        except Exception as error:
            said = ", ".join(f"{name}={value}" for name, value in point.items())
            errors.append((f"in tuning {said} failed ({type(error).__name__}: {error}) and was left out", error))

    def _whole_columns(self, found: np.ndarray, errors: list[Failure]) -> np.ndarray:
        """Scores without the points that fail in any fold: a mean over fewer folds is no mean of the same thing."""
        self.failed = list(dict.fromkeys([*self.failed, *(said for said, _ in errors)]))
        found[:, np.isnan(found).any(axis=0)] = np.nan
        if np.all(np.isnan(found)):
            raise errors[0][1] if errors else ValueError("the score of every grid point is NaN: choose another scoring")
        return found


@dataclass(frozen=True)
class _SharedFit:
    """Parameters of a fit, the points that it serves, and the iterations at which some of them stop."""

    params: dict[str, Any]
    members: list[int]
    iterations: list[int]


class _Stops:
    """A callback of a fit that keeps W where a fit with fewer iterations would have ended."""

    def __init__(self, iterations: Sequence[int]) -> None:
        self.wanted, self.kept = set(iterations), dict[int, Any]()
        self.ended: tuple[Any, Any] = None, None  # the last W, and the point that the classifier was fitted for

    def __call__(self, row: Mapping[str, Any], W: Any) -> None:
        if row["iteration"] in self.wanted:
            self.kept[int(row["iteration"])] = W

    def at(self, max_iter: Any) -> Any:
        """W of the fit with so many iterations: the last one if it has converged before."""
        return self.kept.get(max_iter, self.ended[0])


def _by_fit(estimator: Any, points: list[dict[str, Any]]) -> list[_SharedFit]:
    """The fits to do: each point alone where fits cannot be shared.

    Those that differ in the classifier alone have the same W. A fit of fewer iterations is the beginning of a longer one.
    """
    if not hasattr(estimator, "fit_classifier"):
        return [_SharedFit(point, [p], []) for p, point in enumerate(points)]
    given = estimator.get_params(deep=False)
    counted = all(isinstance(point.get("max_iter"), int) for point in points)
    early = counted and given.get("callback") is None and given.get("checkpoint") is None
    free = {"classifier", "max_iter"} if early else {"classifier"}
    groups: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for p, point in enumerate(points):
        # by the objects themselves, which points of a grid share: the texts of two large arrays may be the same
        key = tuple(sorted((name, id(value)) for name, value in point.items() if name not in free))
        groups.setdefault(key, []).append(p)
    fits = []
    for members in groups.values():
        params = {name: value for name, value in points[members[0]].items() if name not in free}
        stops: list[int] = []
        if early:
            stops = sorted({points[p]["max_iter"] for p in members})
            params["max_iter"] = stops.pop()
        fits.append(_SharedFit(params, members, stops))
    return fits
