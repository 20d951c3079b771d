"""What classifiers after one reduction share in tuning, and what is left out where nobody asks for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import ParameterGrid
from trials import make_experiment

import spdsl
from samples import labeled
from spdsl import SPDSL
from spdsl.data import CheckedOnce, MemoryData
from spdsl.estimators import calibration
from spdsl.estimators.calibration import labels_only
from spdsl.evaluation.cells import Settings, find_cell
from spdsl.evaluation.fitting import answering
from spdsl.evaluation.splits import make_folds

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, Y = labeled(60, 6, 3, seed=4)
HEADS = ["logistic", "svm", "lda", "nn", "auto"]


@pytest.fixture
def calibrated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each set of probabilities that is calibrated."""
    seen: list[int] = []
    plain = calibration.probabilities
    monkeypatch.setattr(calibration, "probabilities", lambda *given: seen.append(1) or plain(*given))
    return seen


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_tuning_scores_as_separate_fits_do(scoring: str, calibrated: list[int]) -> None:
    model = SPDSL(3, max_iter=2)
    plain = {}
    for point in ParameterGrid({"classifier": HEADS}):
        fits = [(clone(model).set_params(**point).fit(X[a], Y[a]), b) for a, b in make_folds(Y, 3, 0)]
        plain[point["classifier"]] = np.mean([get_scorer(scoring)(fit, X[b], Y[b]) for fit, b in fits])
    calibrated.clear()
    tuned = spdsl.tune(model, {"classifier": HEADS}, X, Y, n_folds=3, scoring=scoring)
    # the reduced matrices of a fit are sums over its steps: their last digits show in probabilities, not in labels
    assert tuned.score == pytest.approx(max(plain.values()), rel=0 if scoring == "accuracy" else 1e-9)
    assert plain[tuned.params["classifier"]] == max(plain.values())
    assert bool(calibrated) == (scoring == "neg_log_loss")


def test_a_cell_calibrates_what_its_scores_need(calibrated: list[int]) -> None:
    experiment = make_experiment(X=X, y=Y)
    method = spdsl.Method("ours", "own", lambda: SPDSL(3, max_iter=2, classifier="logistic"))
    for scoring, needed in ((("accuracy",), False), (("accuracy", "neg_log_loss"), True)):
        calibrated.clear()
        row = find_cell(X, Y, None, method, experiment.splits[0], {}, 3, Settings(scoring=scoring))
        assert bool(calibrated) == needed
    assert np.isfinite(row["scores"]["neg_log_loss"])


@pytest.mark.parametrize("head", HEADS)
def test_labels_do_not_depend_on_the_calibration(head: str) -> None:
    model = SPDSL(3, max_iter=2, classifier=head)
    labels = model.fit(X[::2], Y[::2]).predict(X[1::2])
    with labels_only():
        assert np.array_equal(model.fit(X[::2], Y[::2]).predict(X[1::2]), labels)


def test_classifiers_of_the_user_are_calibrated(calibrated: list[int]) -> None:
    """They may ask for the probabilities of what they hold."""

    class Own(SPDSL):
        pass

    scorers = [get_scorer("accuracy")]
    for model in (SPDSL(3, classifier=LogisticRegression()), Own(3), BaseEstimator()):
        with answering(model, scorers):
            assert calibration.fit_temperature(np.eye(4)[:, :2], np.array([0, 1, 0, 0]), 4) != 1.0


def test_samples_are_checked_once_and_reduced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("check", "reduce", "first_copies"):
        plain = getattr(MemoryData, name)

        def spy(self: Any, *given: Any, name: str = name, plain: Any = plain) -> Any:
            calls.append(name)
            return plain(self, *given)

        monkeypatch.setattr(MemoryData, name, spy)
    data = CheckedOnce(MemoryData(X))
    model = SPDSL(3, max_iter=2, classifier="nn").fit(data, Y)
    same = [model.set_params(classifier=head).fit_classifier(data, Y).predict(data) for head in HEADS[:4]]
    assert sorted(calls) == ["check", "first_copies", "reduce"]
    model.set_params(classifier="nn").fit_classifier(X, Y)
    assert np.array_equal(model.predict(X), same[3])


def test_wrong_samples_are_an_error_each_time() -> None:
    data = CheckedOnce(MemoryData(-X))
    for _ in range(2):
        with pytest.raises(ValueError, match="not positive definite"):
            data.check()
