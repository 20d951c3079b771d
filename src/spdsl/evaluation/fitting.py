"""Fits and scores with groups where estimators request them, and without probabilities where no scorer asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

import numpy as np

from spdsl.estimators import SPDML, SPDSL
from spdsl.estimators.calibration import labels_only

REDUCTIONS = (SPDSL, SPDML)  # not subclasses, whose `fit` may want an array


def fit_on(model: Any, X: np.ndarray, y: np.ndarray, groups: np.ndarray | None, rows: np.ndarray) -> Any:
    """Fit the model on these rows, with their groups where the model, or a step of it, requests them."""
    return fit_samples(model, X[rows], y, groups, rows)


def fit_samples(model: Any, seen: Any, y: np.ndarray, groups: np.ndarray | None, rows: np.ndarray) -> Any:
    """As `fit_on`, given the samples of these rows."""
    from sklearn import config_context

    if groups is None or not requests_groups(model, "fit"):
        return model.fit(seen, y[rows])
    with config_context(enable_metadata_routing=True):
        return model.fit(seen, y[rows], groups=groups[rows])


def answering(model: Any, scorers: Iterable[Any]) -> AbstractContextManager[None]:
    """Where the scorers ask for labels alone, fits of our reductions inside skip the calibration of probabilities.

    Not with a classifier of the user's, which may ask another one for probabilities.
    """
    labels = all(getattr(scorer, "_response_method", None) == "predict" for scorer in scorers)
    known = type(model) in REDUCTIONS and isinstance(model.classifier, str)
    return labels_only() if labels and known else nullcontext()


def requests_groups(model: Any, method: str) -> bool:
    """Whether the model or a step of it has asked for groups, as by `step.set_fit_request(groups=True)`."""
    from sklearn import config_context
    from sklearn.utils.metadata_routing import get_routing_for_object

    with config_context(enable_metadata_routing=True):
        try:
            return "groups" in get_routing_for_object(model).consumes(method, ["groups"])
        except (AttributeError, TypeError, ValueError):  # it knows nothing of routing, or not of this method
            return False


def bound(model: Any, groups: np.ndarray | None, rows: np.ndarray) -> Any:
    """The fitted model as something whose answers about these rows know their groups."""
    if groups is None or not requests_groups(model, "predict"):
        return model
    return type(type(model).__name__, (_Bound,), {})(model, groups[rows])  # messages name the model's class


class _Bound:
    """A fitted classifier that passes on the groups of the samples it is asked about; a scorer may ask it."""

    def __init__(self, model: Any, groups: np.ndarray) -> None:
        self._model, self._groups = model, groups
        self.classes_ = model.classes_
        self._estimator_type = "classifier"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._model, name)
        if name not in ("predict", "predict_proba", "decision_function"):
            return found

        @wraps(found)
        def answer(X: Any) -> Any:
            from sklearn import config_context

            with config_context(enable_metadata_routing=True):
                return found(X, groups=self._groups)

        return answer

    def __sklearn_tags__(self) -> Any:
        return self._model.__sklearn_tags__()


def get_scorer(name: str) -> Any:
    """scikit-learn's scorer of that name, or an error that names a few."""
    from sklearn.metrics import get_scorer as find
    from sklearn.metrics import get_scorer_names

    if not isinstance(name, str) or name not in get_scorer_names():
        raise ValueError(
            f"unknown scoring {name!r}; choose a name of sklearn.metrics.get_scorer_names(), for instance 'accuracy', "
            "'balanced_accuracy', 'f1_macro', 'neg_log_loss' or 'roc_auc_ovr'"
        )
    return find(name)


def check_scoring(scoring: Any) -> tuple[str, ...]:
    """One name or several as a tuple of known names, the first of which tunes."""
    if not isinstance(scoring, str | Iterable):
        raise ValueError(f"scoring must be a name or a list of names of scikit-learn's scorers, got {scoring!r}")
    names = (scoring,) if isinstance(scoring, str) else tuple(scoring)
    if not names:
        raise ValueError("scoring is empty: give at least one name, for instance 'accuracy'")
    for name in names:
        get_scorer(name)
    return tuple(dict.fromkeys(names))
