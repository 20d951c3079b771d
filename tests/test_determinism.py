"""The same fit to the last bit: on any number of threads, in any order of memory, scaled by a power of four."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from samples import labeled
from spdsl import CDL, LEK, RSR, SPDML, SPDSL, KernelSVC, Recenter, SPDNearestNeighbor, TangentSpaceClassifier
from spdsl.backend import blocks
from spdsl.datasets import load_digit_sets

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def digits():
    """Some 45 image sets of digits, and as many others."""
    X, y = load_digit_sets()
    return X[::20], y[::20], X[1::20]


def bits(model, X, other):
    """All that a fitted model says."""
    said = [model.predict(other)]
    if hasattr(model, "components_"):
        said += [np.array(model.cost_), model.components_, model.sqdist(other[:20], X[:20])]
    return said


def threads(monkeypatch, count):
    monkeypatch.setattr("spdsl.backend.blocks.threads", lambda: count)


@pytest.mark.parametrize("objective", ["alignment", "stochastic-neighbors"])
@pytest.mark.parametrize("metric", ["lem", "stein", "aim"])
def test_threads_do_not_change_a_bit_to_the_end_of_the_fit(metric, objective, digits, monkeypatch):
    X, y, other = digits
    found = []
    for count in (1, 2, 4):
        threads(monkeypatch, count)
        found.append(bits(SPDSL(10, metric=metric, objective=objective).fit(X, y), X, other))
    for one in found[1:]:
        for a, b in zip(found[0], one, strict=True):
            assert_array_equal(a, b)


@pytest.mark.parametrize(
    "model", [SPDML(10), CDL(), RSR(), LEK("gauss"), SPDNearestNeighbor("stein"), TangentSpaceClassifier("logistic")]
)
def test_threads_do_not_change_the_other_methods(model, digits, monkeypatch):
    X, y, other = digits
    found = []
    for count in (1, 3):
        threads(monkeypatch, count)
        found.append(bits(model.fit(X, y), X, other))
    for a, b in zip(*found, strict=True):
        assert_array_equal(a, b)


@pytest.mark.parametrize("metric", ["lem", "stein", "aim", "jeffreys"])
def test_powers_of_four_do_not_change_a_bit(metric, digits):
    X, y, other = digits
    plain, scaled = (SPDSL(10, metric=metric).fit(s * X, y) for s in (1.0, 2.0**20))
    assert plain.cost_ == scaled.cost_
    assert_array_equal(plain.sqdist(X[:20], other), scaled.sqdist(2.0**20 * X[:20], 2.0**20 * other))
    assert_array_equal(plain.predict(other), scaled.predict(2.0**20 * other))


@pytest.mark.parametrize("metric", ["lem", "stein", "aim"])
def test_the_order_in_memory_does_not_change_a_bit(metric, digits):
    X, y, other = digits
    plain, turned = (SPDSL(10, metric=metric).fit(A, y) for A in (X, np.asfortranarray(X)))
    assert_array_equal(plain.components_, turned.components_)
    assert_array_equal(plain.transform(other), turned.transform(np.asfortranarray(other)))


@pytest.mark.parametrize(
    "model",
    [
        SPDSL(3, max_iter=3),
        SPDSL(3, metric="aim", max_iter=3, n_within=3, n_between=3),
        SPDSL(3, metric="stein", objective="alignment", max_iter=3, classifier="svm"),
        SPDML(3, max_iter=3),
        KernelSVC("wasserstein"),
        SPDNearestNeighbor("aim"),
        Recenter(),
        Recenter("logeuclid"),
        TangentSpaceClassifier("lda"),
        CDL(),
        RSR(),
        LEK("gauss"),
    ],
    ids=repr,
)
def test_which_block_is_finished_first_does_not_change_a_bit(model, monkeypatch):
    X, y = labeled(60, 6)
    other, _ = labeled(60, 6, seed=1)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 10)

    def answers():
        model.fit(X, y)
        said = [model.predict(other)] if hasattr(model, "predict") else []
        return said + [
            getattr(model, name)(other) for name in ("transform", "sqdist", "kneighbors") if hasattr(model, name)
        ]

    plain = answers()
    monkeypatch.setattr(blocks.pool, "map", lambda function, slices, _: [function(s) for s in slices[::-1]][::-1])
    for a, b in zip(plain, answers(), strict=True):
        assert_array_equal(a, b)
