"""Probabilities of every classifier: calibrated, led by the label of `predict`, and the same however they are come by."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import log_loss

import spdsl
from samples import labeled
from spdsl import SPDSL, KernelSVC, SPDNearestNeighbor, pairwise_sqdist
from spdsl.estimators.calibration import fit_temperature, folds, led_by, probabilities
from spdsl.estimators.heads import HEADS
from spdsl.estimators.vector_classifier import LogVectorClassifier

X, Y = labeled(60, 5, seed=3)
NEW, TRUE = labeled(150, 5, seed=3)
NEW, TRUE = NEW[60:], TRUE[60:]  # of the same classes: the centers are drawn first
NAMES = np.array(["b", "c", "a"])
CLASSIFIERS = [
    SPDNearestNeighbor(),
    SPDNearestNeighbor("stein", n_neighbors=3),
    KernelSVC(),
    LogVectorClassifier("lda"),
    LogVectorClassifier("logistic"),
]


@pytest.mark.parametrize("head", HEADS)
def test_every_head_says_probabilities_that_its_labels_lead(head, as_array, tmp_path):
    model = SPDSL(3, classifier=head, max_iter=3).fit(as_array(X), NAMES[Y])
    P = model.predict_proba(as_array(NEW))
    assert P.shape == (90, 3)
    assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
    assert P.min() > 0
    assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(as_array(NEW)))
    model.save(tmp_path / "model.safetensors")
    assert_array_equal(spdsl.load(tmp_path / "model.safetensors").predict_proba(NEW), model.predict_proba(NEW))
    assert_array_equal(model.predict_proba(as_array(NEW)), P)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=repr)
def test_probabilities_follow_the_names_of_the_classes(model):
    P = model.fit(X, Y).predict_proba(NEW)
    turned = model.fit(X, (Y + 1) % 3).predict_proba(NEW)
    iterated = model if isinstance(model, KernelSVC) else getattr(model, "classifier", None)  # to a tolerance
    assert_allclose(turned[:, [1, 2, 0]], P, atol=1e-9 if iterated in (None, "lda") else 2e-3)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=repr)
def test_probabilities_are_the_same_bits_with_any_number_of_threads(model, monkeypatch):
    said = []
    for count in ("1", "3"):
        monkeypatch.setenv("OMP_NUM_THREADS", count)
        said.append(model.fit(X, Y).predict_proba(NEW))
    assert_array_equal(*said)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=repr)
def test_probabilities_beat_the_classes_shares_and_are_as_sure_as_right(model):
    P = model.fit(X, Y).predict_proba(NEW)
    assert log_loss(TRUE, P) < 0.8 * np.log(3)
    assert abs(P.max(axis=1).mean() - np.mean(P.argmax(axis=1) == TRUE)) < 0.12


def test_the_nearest_neighbor_by_hand():
    model = SPDNearestNeighbor("stein").fit(X, Y)
    d2 = pairwise_sqdist(X, metric="stein")
    np.fill_diagonal(d2, np.inf)
    closeness = -0.5 * np.log(np.stack([d2[:, c == Y].min(axis=1) for c in range(3)], axis=1))
    t = fit_temperature(closeness, Y, 60)
    d2 = pairwise_sqdist(NEW, X, metric="stein")
    weights = np.stack([d2[:, c == Y].min(axis=1) for c in range(3)], axis=1) ** (-t / 2)
    expected = (60 * weights / weights.sum(axis=1, keepdims=True) + 1 / 3) / 61
    assert_allclose(model.predict_proba(NEW), expected, rtol=1e-6)


def test_asking_for_probabilities_changes_no_label_and_nothing_that_was_fitted():
    model = SPDNearestNeighbor().fit(X, Y)
    before, names = model.predict(NEW), set(vars(model))
    assert_array_equal(model.predict_proba(NEW[:2]), model.predict_proba(NEW)[:2])
    assert_array_equal(model.predict(NEW), before)
    assert set(vars(model)) == names
    other, _ = labeled(60, 5, seed=4)
    fresh = SPDNearestNeighbor().fit(other, Y).predict_proba(NEW)
    assert_array_equal(model.fit(other, Y).predict_proba(NEW), fresh)  # nothing is left of the earlier fit


@pytest.mark.parametrize("metric", ["lem", "stein"])
@pytest.mark.parametrize("order", ["permuted", "sorted by class"])
def test_nearest_neighbors_are_calibrated_on_the_same_matrices_in_any_order(metric, order):
    """Of more than 512 training matrices a part is used; probabilities were up to 0.05 apart."""
    X, y = labeled(700, 3)
    unseen, _ = labeled(20, 3, seed=1)
    p = np.random.default_rng(0).permutation(700) if order == "permuted" else np.argsort(y, kind="stable")
    plain = SPDNearestNeighbor(metric).fit(X, y).predict_proba(unseen)
    other = SPDNearestNeighbor(metric).fit(X[p], y[p]).predict_proba(unseen)
    np.testing.assert_allclose(other, plain, atol=1e-10)


def test_copies_and_lone_samples():
    few = np.concatenate([X[:4], X[:1]])
    model = SPDNearestNeighbor().fit(few, [0, 1, 2, 0, 1])  # X[0] is of class 0 and of class 1
    P = model.predict_proba(few)
    assert np.isfinite(P).all()
    assert_allclose(P[0, 0], P[0, 1])
    assert_array_equal(SPDNearestNeighbor().fit(X[:1], [7]).predict_proba(NEW[:2]), np.ones((2, 1)))
    assert_array_equal(SPDNearestNeighbor().fit(X[:3], [0, 1, 2]).predict_proba(X[:3]).argmax(axis=1), [0, 1, 2])
    assert np.isfinite(KernelSVC().fit(X[:3], [0, 1, 1]).predict_proba(NEW)).all()
    assert np.isfinite(KernelSVC().fit(X[:2], [0, 1]).predict_proba(NEW)).all()


@pytest.mark.parametrize("classes", [2, 3])
def test_the_machine_scores_each_class_by_its_worst_pair(classes):
    keep = classes > Y
    model = KernelSVC().fit(X[keep], Y[keep])
    P = model.predict_proba(NEW)
    values = model._machine.set_params(decision_function_shape="ovo").decision_function(model._similarities(NEW))
    if classes == 2:
        scores = np.stack([-values, values], axis=1) / 2
    else:
        scores = np.stack(
            [values[:, :2].min(1), np.minimum(-values[:, 0], values[:, 2]), (-values[:, 1:]).min(1)], axis=1
        )
    expected = led_by(probabilities(scores, model._temperature, int(keep.sum())), model.predict(NEW))
    assert_allclose(P, expected)


def test_a_machine_of_an_older_version_still_predicts():
    model = KernelSVC().fit(X, Y)
    del model._temperature
    assert len(model.predict(NEW)) == 90
    with pytest.raises(ValueError, match="fit it again"):
        model.predict_proba(NEW)


def test_folds_keep_every_class_in_training_and_test_each_sample_once():
    labels = np.array([0, 0, 1, 2, 2, 2, 0, 2, 2, 2, 2])
    tested = []
    key = np.cos(np.arange(11))
    for train, test in folds(labels, key):
        assert set(labels[train]) == {0, 1, 2}
        assert not set(train) & set(test)
        tested += test.tolist()
    assert sorted(tested) == [k for k in range(11) if labels[k] != 1]
    assert list(folds(np.arange(4), np.zeros(4))) == []


def test_folds_follow_the_samples_in_any_order():
    labels = np.array([0, 0, 1, 2, 2, 2, 0, 2, 2, 2, 2])
    key, p = np.cos(np.arange(11)), np.random.default_rng(0).permutation(11)
    for (_, test), (_, moved) in zip(folds(labels, key), folds(labels[p], key[p]), strict=True):
        assert sorted(p[moved]) == test.tolist()


def test_the_temperature_is_that_of_the_scores():
    rng = np.random.default_rng(0)
    scores = 3 * rng.standard_normal((4000, 3))
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)  # softmax at temperature one
    assert fit_temperature(scores, labels, 10**6) == pytest.approx(1.0, rel=0.1)
    assert fit_temperature(50 * scores, labels, 10**6) == pytest.approx(0.02, rel=0.1)
    assert fit_temperature(scores[:0], labels[:0], 5) == 1.0


def test_where_all_is_right_answers_are_still_told_apart():
    """The least log-loss alone would make each as sure as the next."""
    labels = np.arange(60) % 3
    margin = np.linspace(2, 6, 60)
    scores = margin[:, None] * np.eye(3)[labels]
    P = probabilities(scores, fit_temperature(scores, labels, 60), 60)
    assert_array_equal(P.argmax(axis=1), labels)
    assert (np.diff(P.max(axis=1)) > 0).all()
    assert P.max(axis=1).min() > 0.95


def test_the_temperature_moves_little_where_the_scores_do():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    start, change = 4 * np.eye(3)[labels] + rng.standard_normal((60, 3)), rng.standard_normal((60, 3))
    found = [fit_temperature(start + share * change, labels, 60) for share in np.linspace(0, 0.2, 100)]
    assert np.abs(np.diff(np.log(found))).max() < 0.06


def test_exchange_keeps_the_other_probabilities():
    P = np.array([[0.5, 0.3, 0.2], [0.1, 0.7, 0.2]])
    assert_array_equal(led_by(P, np.array([2, 1])), [[0.2, 0.3, 0.5], [0.1, 0.7, 0.2]])


def test_the_label_leads_where_copies_have_different_classes():
    """The first of equal neighbors decides, whose class need not be the first."""
    model = SPDNearestNeighbor().fit(np.concatenate([X, X[:3]]), np.concatenate([Y, (Y[:3] + 2) % 3]))
    P = model.predict_proba(X[:3])
    assert_array_equal(P.argmax(axis=1), model.predict(X[:3]))
    assert_allclose(P.sum(axis=1), 1.0, atol=1e-12)
