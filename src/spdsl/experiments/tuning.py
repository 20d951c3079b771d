"""Parameters by cross-validation inside a training part."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from spdsl.experiments.splits import Split, make_folds


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
    from sklearn.model_selection import ParameterGrid  # not above: it slows `import spdsl` down

    points = list(ParameterGrid(dict(grid)))
    y = np.asarray(y)
    if len(points) == 1:
        return Tuned(points[0], float("nan"), 0)
    folds = make_folds(y, n_folds, random_state)
    with warnings.catch_warnings():
        # a search passes through poor points on its way; the final fit speaks for itself
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        run = _shared_scores if hasattr(estimator, "validate") else _plain_scores
        scores = run(estimator, points, X, y, folds)
    mean = scores.mean(axis=0)
    best = int(np.nanargmax(mean))
    return Tuned(points[best], float(mean[best]), len(folds))


def _shared_scores(
    estimator: Any, points: list[dict[str, Any]], X: Any, y: np.ndarray, folds: list[Split]
) -> np.ndarray:
    """Accuracies (fold, point), with shared preparation."""
    cheap = {key: value for key, value in estimator.tuning_params.items() if key not in points[0]}
    model = clone(estimator).set_params(**cheap)
    prepared = model.prepare(X)
    return np.array([model.validate(prepared, y, train, test, points) for train, test in folds])


def _plain_scores(
    estimator: Any, points: list[dict[str, Any]], X: Any, y: np.ndarray, folds: list[Split]
) -> np.ndarray:
    """Accuracies (fold, point) by a fit each; a point that fails anywhere is out, and all failing is an error."""
    scores = np.full((len(folds), len(points)), np.nan)
    failure: Exception | None = None
    for p, point in enumerate(points):
        try:
            for f, (train, test) in enumerate(folds):
                scores[f, p] = clone(estimator).set_params(**point).fit(X[train], y[train]).score(X[test], y[test])
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            failure = failure or error
            scores[:, p] = np.nan
    if failure is not None and np.all(np.isnan(scores)):
        raise failure
    return scores
