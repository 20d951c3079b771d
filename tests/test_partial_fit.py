"""Training matrices that arrive in parts: the result is that of one fit on all of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import spdsl
from samples import labeled
from spdsl import METRICS, SPDNearestNeighbor

X, Y = labeled(40, 5)
NEW, _ = labeled(20, 5, seed=7)
NAMES = np.array(["a", "b", "c"])


@pytest.mark.parametrize("n_neighbors", [1, 3])
@pytest.mark.parametrize("metric", list(METRICS))
def test_parts_equal_one_fit(as_array, metric, n_neighbors):
    matrices, labels = X.copy(), NAMES[Y]
    matrices[30:35] = matrices[2:7]  # copies tie, and the first of them wins
    whole = SPDNearestNeighbor(metric, n_neighbors=n_neighbors).fit(as_array(matrices), labels)
    parts = SPDNearestNeighbor(metric, n_neighbors=n_neighbors)
    for part in np.split(np.arange(40), [1, 12, 31]):
        parts.partial_fit(as_array(matrices[part]), labels[part], classes=NAMES)
    (d2, index), (expected, wanted) = parts.kneighbors(as_array(NEW)), whole.kneighbors(as_array(NEW))
    assert_array_equal(index, wanted)
    assert_allclose(d2, expected, rtol=1e-12)  # torch rounds stacks of other sizes differently
    assert_array_equal(whole.predict(as_array(matrices)), parts.predict(as_array(matrices)))
    assert_array_equal(whole.classes_, parts.classes_)


def test_after_a_fit_with_blocks_and_after_loading(tmp_path):
    pairs = X.reshape(20, 2, 5, 5)
    whole = SPDNearestNeighbor("aim").fit(pairs, Y[:20])
    begun = SPDNearestNeighbor("aim").fit(pairs[:8], Y[:8])
    begun.save(tmp_path / "model.safetensors")
    for model in (begun, spdsl.load(tmp_path / "model.safetensors")):
        model.predict(pairs)
        assert_array_equal(model.partial_fit(pairs[8:], Y[8:20]).kneighbors(pairs)[0], whole.kneighbors(pairs)[0])


def test_a_class_may_come_late_and_few_matrices_vote_together():
    model = SPDNearestNeighbor(n_neighbors=5).partial_fit(X[:1], [2], classes=[2, 0, 1])
    assert_array_equal(model.classes_, [0, 1, 2])
    assert_array_equal(model.predict(NEW[:3]), [2, 2, 2])
    assert_array_equal(model.partial_fit(X[1:], Y[1:]).predict(X[Y == 1])[:1], [1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SPDNearestNeighbor().partial_fit(X, Y), "classes must be given in the first call"),
        (lambda: SPDNearestNeighbor().partial_fit(X, Y, classes=[0, 1]), "y holds the class 2, which was not in fit"),
        (lambda: SPDNearestNeighbor().fit(X, Y).partial_fit(X, Y, classes=[0, 1]), r"classes=\[0, 1\] is not the same"),
        (lambda: SPDNearestNeighbor().fit(X, Y).partial_fit(X[:, :4, :4], Y), "was fitted on 5 x 5"),
        (lambda: SPDNearestNeighbor().fit(X, Y).partial_fit(X, Y[:3]), "40 matrices but y has 3 labels"),
        (lambda: SPDNearestNeighbor(n_neighbors=0).partial_fit(X, Y, classes=NAMES), "n_neighbors=0 is out of range"),
    ],
)
def test_bad_parts_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_part_that_fails_leaves_the_model_as_it_was():
    model = SPDNearestNeighbor().fit(X, Y)
    before = model.predict(NEW)
    with pytest.raises(ValueError, match="which was not in fit"):
        model.partial_fit(X[:2], [0, 9])
    assert_array_equal(model.predict(NEW), before)
    assert len(model.kneighbors(X)[0]) == 40
