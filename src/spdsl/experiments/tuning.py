"""Parameters by cross-validation inside a training part."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from spdsl.experiments.splits import Split, make_folds
from spdsl.validation import as_stack, check_labels, check_seed

Scores = Callable[[list[dict[str, Any]]], np.ndarray]
LONG = 12  # a range of more values than this is searched in two rounds
COARSE, FINE = 10, 6


@dataclass(frozen=True)
class Tuned:
    """The best parameters, their mean accuracy over the folds, and the number of folds."""

    params: dict[str, Any]
    score: float
    n_folds: int


def tune(
    estimator: BaseEstimator,
    grid: Mapping[str, Sequence[Any]],
    X: Any,
    y: Any,
    *,
    n_folds: int = 5,
    random_state: int | None = 0,
) -> Tuned:
    """Choose parameters of `estimator` from `grid` by stratified cross-validation on (X, y).

    Estimators with `prepare` and `validate` compute what the matrices alone determine (logarithms, divergences) once
    for all folds and grid points, and share kernels and codes between points. Ties go to the first point of the grid.
    A long range (more than 12 values) is searched in two rounds: about ten values spread evenly in ratio, then those
    between the neighbours of the best.

    Parameters
    ----------
    estimator : unfitted estimator
    grid : mapping
        Parameter names and the values to try. Empty: nothing is tuned and no fold is run.
    X : (n_matrices, n, n)
    y : (n_matrices,)
    n_folds : int
        Fewer are used where a class has fewer samples.
    random_state : int or None

    Returns
    -------
    Tuned
    """
    X = as_stack(X)
    classes, labels = check_labels(y, X.shape[0])
    y = classes[labels]
    from sklearn.model_selection import ParameterGrid  # not above: it slows the import down

    if not hasattr(estimator, "fit") or not hasattr(estimator, "get_params") or isinstance(estimator, type):
        raise ValueError(f"estimator must be an unfitted estimator, e.g. METHODS['CDL'].factory(), got {estimator!r}")
    check_seed(random_state)
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
    folds = make_folds(y, n_folds, random_state)
    with warnings.catch_warnings():
        # a search passes through poor points on its way; the final fit speaks for itself
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        make = _shared_scores if hasattr(estimator, "validate") else _plain_scores
        params, score = _search(make(estimator, X, y, folds), grid)
    return Tuned(params, score, len(folds))


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


def _shared_scores(estimator: Any, X: Any, y: np.ndarray, folds: list[Split]) -> Scores:
    """A function from points to accuracies (fold, point), with shared preparation."""
    prepared: Any = None

    def scores(points: list[dict[str, Any]]) -> np.ndarray:
        nonlocal prepared
        cheap = {key: value for key, value in estimator.tuning_params.items() if key not in points[0]}
        model = clone(estimator).set_params(**cheap)
        prepared = model.prepare(X) if prepared is None else prepared
        model.n_features_in_ = X.shape[-1]
        return np.array([model.validate(prepared, y, train, test, points) for train, test in folds])

    return scores


def _plain_scores(estimator: Any, X: Any, y: np.ndarray, folds: list[Split]) -> Scores:
    """The same by a fit each, shared by points that differ in the classifier behind the reduction alone.

    A point that fails anywhere is out, and all failing is an error.
    """

    def scores(points: list[dict[str, Any]]) -> np.ndarray:
        found = np.full((len(folds), len(points)), np.nan)
        failures: list[Exception] = []
        for reduction, members in _by_reduction(estimator, points):
            for f, (train, test) in enumerate(folds):
                model = clone(estimator).set_params(**reduction)
                for k, p in enumerate(members):
                    try:
                        model.set_params(**points[p])
                        fit = model.fit_classifier if k and hasattr(model, "components_") else model.fit
                        found[f, p] = fit(X[train], y[train]).score(X[test], y[test])
                    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
                        failures.append(error)
        found[:, np.isnan(found).any(axis=0)] = np.nan
        if failures and np.all(np.isnan(found)):
            raise failures[0]
        return found

    return scores


def _by_reduction(estimator: Any, points: list[dict[str, Any]]) -> list[tuple[dict[str, Any], list[int]]]:
    """Points that one fit serves: what they share, and their places; each point alone where fits cannot be shared."""
    if not hasattr(estimator, "fit_classifier"):
        return [(point, [p]) for p, point in enumerate(points)]
    groups: dict[str, tuple[dict[str, Any], list[int]]] = {}
    for p, point in enumerate(points):
        shared = {name: value for name, value in point.items() if name != "classifier"}
        groups.setdefault(repr(sorted(shared.items())), (shared, []))[1].append(p)
    return list(groups.values())
