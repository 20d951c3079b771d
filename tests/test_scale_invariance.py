"""AIM, Stein and LEM do not change when all matrices are multiplied by a number, and so neither do the learners."""

import numpy as np
import pytest

from samples import labeled
from spdsl import MDM, SPDML, SPDSL, SPDNearestNeighbor, TangentSpaceClassifier, pairwise_sqdist

X, Y = labeled(40, n=8, noise=1.0)
TRAIN, TEST = np.arange(40) % 4 > 0, np.arange(40) % 4 == 0
METRICS = ("aim", "stein", "lem")
FACTORS = (1e-12, 1e12)


@pytest.mark.parametrize("factor", [*FACTORS, 1e-150, 1e150])
@pytest.mark.parametrize("metric", METRICS)
def test_distances_do_not_change(metric, factor):
    np.testing.assert_allclose(
        pairwise_sqdist(factor * X, metric=metric), pairwise_sqdist(X, metric=metric), rtol=1e-7, atol=1e-9
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("head", ["nn", "svm", "lda"])
@pytest.mark.parametrize("kind", [SPDSL, SPDML])
def test_learners_do_not_change(kind, metric, factor, head):
    model = kind(3, metric=metric, n_between=4, max_iter=15, classifier=head)
    plain = model.fit(X[TRAIN], Y[TRAIN])
    expected, cost = plain.predict(X[TEST]), plain.cost_
    distances = plain.sqdist(X[TEST], X[TRAIN])
    scaled = model.fit(factor * X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(scaled.predict(factor * X[TEST]), expected)
    assert scaled.cost_ == pytest.approx(cost, rel=1e-7)
    np.testing.assert_allclose(scaled.sqdist(factor * X[TEST], factor * X[TRAIN]), distances, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(
    "model", [*(SPDNearestNeighbor(m) for m in METRICS), TangentSpaceClassifier("lda"), MDM()], ids=str
)
def test_classifiers_do_not_change(model, factor):
    expected = model.fit(X[TRAIN], Y[TRAIN]).predict(X[TEST])
    scaled = model.fit(factor * X[TRAIN], Y[TRAIN]).predict(factor * X[TEST])
    np.testing.assert_array_equal(scaled, expected)
