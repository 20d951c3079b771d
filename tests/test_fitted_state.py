"""What was fitted stays as it was: whatever becomes of the data, of the parameters, or of what a callback was given."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from samples import labeled
from spdsl import (
    CDL,
    LEK,
    LEML,
    METRICS,
    RSR,
    SPDML,
    SPDSL,
    KernelSVC,
    SPDNearestNeighbor,
    TangentSpaceClassifier,
    backend,
)

X, Y = labeled(40, 6)
OTHER, _ = labeled(40, 6, seed=5)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ESTIMATORS = [
    *(SPDNearestNeighbor(metric) for metric in METRICS),
    *(KernelSVC(metric) for metric in METRICS),
    SPDSL(3, max_iter=3),
    SPDSL(3, metric="euclid", max_iter=3, classifier="svm"),
    SPDSL(3, max_iter=3, classifier="lda"),
    SPDML(3, max_iter=3),
    CDL(),
    CDL("lda"),
    RSR(),
    LEK("poly"),
    LEK("gauss"),
    LEML(max_iter=5),
    TangentSpaceClassifier("logistic"),
]


@pytest.mark.parametrize("model", ESTIMATORS, ids=repr)
def test_changing_the_training_array_changes_no_prediction(as_array, model):
    train = as_array(X.copy())
    model.fit(train, Y)
    before = model.predict(as_array(OTHER))
    train *= 0
    train += as_array(np.eye(6))
    assert_array_equal(model.predict(as_array(OTHER)), before)


@pytest.mark.parametrize(
    ("model", "change"),
    [
        (KernelSVC("lem"), {"metric": "stein"}),
        (SPDNearestNeighbor("lem"), {"metric": "stein", "n_neighbors": 3}),
        (SPDSL(3, max_iter=3), {"metric": "stein", "n_components": 2, "classifier": "lda"}),
        (SPDSL(3, max_iter=3, classifier="lda"), {"classifier": "nn"}),
        (SPDSL(3, max_iter=3), {"precision": "no such"}),
        (SPDML(3, max_iter=3), {"metric": "lem", "manifold": "psd"}),
        (RSR(), {"penalty": 1.0, "beta": 100.0, "beta_scale": 9.0}),
        (LEK("poly"), {"kernel": "gauss", "degree": 9}),
        (LEK("gauss"), {"kernel": "poly", "penalty": 5.0}),
        (CDL(), {"discriminant": "lda", "extra_components": 1}),
        (TangentSpaceClassifier("logistic"), {"classifier": "lda", "metric": "logeuclid"}),
    ],
    ids=repr,
)
def test_set_params_after_fit_changes_no_prediction(model, change):
    model.fit(X, Y)
    said = [model.predict(OTHER), *([model.sqdist(OTHER)] if hasattr(model, "sqdist") else [])]
    model.set_params(**change)
    again = [model.predict(OTHER), *([model.sqdist(OTHER)] if hasattr(model, "sqdist") else [])]
    for a, b in zip(said, again, strict=True):
        assert_array_equal(a, b)


def test_probabilities_are_offered_by_what_was_fitted():
    model = SPDSL(3, max_iter=3, classifier="lda").fit(X, Y)
    before = model.predict_proba(OTHER)
    model.set_params(classifier="nn")
    assert_array_equal(model.predict_proba(OTHER), before)


def test_a_callback_cannot_spoil_the_fit(as_array):
    def spoil(row, W):
        W *= 0
        row["value"] = np.nan

    plain = SPDSL(3, max_iter=6, tol=0.0).fit(as_array(X), Y)
    watched = SPDSL(3, max_iter=6, tol=0.0, callback=spoil).fit(as_array(X), Y)
    assert_array_equal(backend.to_numpy(plain.components_), backend.to_numpy(watched.components_))
    assert np.isfinite([row["value"] for row in watched.history_]).all()


@pytest.mark.parametrize("metric", ["lem", "stein"])
def test_cost_may_be_called_from_several_threads(metric, rng):
    cost = SPDSL(3, metric=metric).cost(X, Y)
    points = [np.linalg.qr(rng.standard_normal((6, 3)))[0] for _ in range(40)]
    alone = [cost(W) for W in points]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(cost, points))
    for (value, gradient), (other, other_gradient) in zip(alone, together, strict=True):
        assert value == other
        assert_array_equal(gradient, other_gradient)
