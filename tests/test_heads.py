"""Classifiers applied after the reduction, and the log-vectors."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from samples import aligned, labeled
from spdsl import SPDML, SPDSL, KernelSVC, LogVectors, SPDNearestNeighbor, backend, pairwise_sqdist
from spdsl.estimators.discriminant import LeaveOneOutDiscriminant
from spdsl.estimators.heads import HEADS
from spdsl.learning.graph import MANY_PAIRS, automatic_counts

X, Y = labeled()
TRAIN, TEST = np.arange(len(Y)) % 2 == 0, np.arange(len(Y)) % 2 == 1


class UnitLength(StandardScaler):
    """Center, and divide by one number so that the mean square length is one."""

    def fit(self, V, y=None):
        super().fit(V)
        self.scale_ = np.full(V.shape[1], np.sqrt(self.var_.sum()))
        return self


def test_distances_of_log_vectors_are_log_euclidean(as_array):
    V = backend.to_numpy(LogVectors().fit_transform(as_array(X)))
    n = X.shape[-1]
    assert V.shape == (len(X), n * (n + 1) // 2)
    d2 = ((V[:, None, :] - V[None, :, :]) ** 2).sum(axis=-1)
    np.testing.assert_allclose(d2, pairwise_sqdist(X, metric="lem"), atol=1e-10)


def test_svm_head_is_a_machine_on_the_learned_similarity():
    model = aligned(3, classifier="svm").fit(X[TRAIN], Y[TRAIN])
    machine = SVC(kernel="precomputed", C=10.0).fit(model.similarity(X[TRAIN]), Y[TRAIN])
    np.testing.assert_array_equal(model.predict(X[TEST]), machine.predict(model.similarity(X[TEST], X[TRAIN])))


@pytest.mark.parametrize("learner", [aligned, SPDML])
@pytest.mark.parametrize("head", ["lda", "logistic", RidgeClassifier(0.1)], ids=str)
def test_vector_heads_are_classifiers_on_log_vectors_of_the_reduction(learner, head):
    model = learner(3, metric="lem", classifier=head).fit(X[TRAIN], Y[TRAIN])
    own = {
        "lda": LeaveOneOutDiscriminant(),
        "logistic": LogisticRegression(C=300.0, max_iter=1000),
    }.get(head, head)
    route = make_pipeline(LogVectors(), UnitLength(), own).fit(model.transform(X[TRAIN]), Y[TRAIN])
    np.testing.assert_array_equal(model.predict(X[TEST]), route.predict(model.transform(X[TEST])))


@pytest.mark.parametrize("head", HEADS)
def test_fit_classifier_gives_the_head_that_fit_gives_and_leaves_the_reduction_alone(head):
    model = aligned(3).fit(X[TRAIN], Y[TRAIN])
    W = model.components_.copy()
    again = model.set_params(classifier=head).fit_classifier(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(again.components_, W)
    whole = aligned(3, classifier=head).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(again.predict(X[TEST]), whole.predict(X[TEST]))


def test_fit_classifier_needs_a_reduction_and_good_input():
    with pytest.raises(NotFittedError):
        aligned(3).fit_classifier(X, Y)
    model = aligned(3, max_iter=0).fit(X, Y)
    with pytest.raises(ValueError, match="classifier must be one of"):
        model.set_params(classifier="forest").fit_classifier(X, Y)
    with pytest.raises(ValueError, match="4 x 4 matrices"):
        model.set_params(classifier="lda").fit_classifier(X[:, :4, :4], Y)


@pytest.mark.parametrize("head", HEADS)
def test_every_head_predicts_on_every_array_library(as_array, head):
    model = aligned(3, classifier=head).fit(as_array(X[TRAIN]), Y[TRAIN])
    host = aligned(3, classifier=head).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(model.predict(as_array(X[TEST])), host.predict(X[TEST]))


def test_log_vectors_work_in_a_pipeline():
    assert cross_val_score(make_pipeline(LogVectors(), LogisticRegression(max_iter=1000)), X, Y, cv=3).mean() > 0.6


@pytest.mark.parametrize("head", ["tree", None, 3, SVC], ids=str)
def test_a_head_that_is_none_is_an_error(head):
    with pytest.raises(ValueError, match="classifier must be"):
        aligned(3, classifier=head).fit(X, Y)


@pytest.mark.parametrize(
    ("head", "free", "error", "message"),
    [
        (KernelSVC("lem", C=-1), None, ValueError, "C must be a finite number > 0, got -1"),
        (KernelSVC("lem", beta=-1), None, ValueError, "beta must be a finite number > 0, got -1"),
        (SPDNearestNeighbor("lem", n_neighbors=100), None, ValueError, "n_neighbors=100 is out of range"),
        (KernelSVC("lem"), 1000, MemoryError, "KernelSVC on 30 matrices holds a number for every pair"),
        ("svm", 1000, MemoryError, "KernelSVC on 30 matrices holds a number for every pair"),
    ],
    ids=repr,
)
def test_what_a_head_cannot_do_is_said_before_the_learning(head, free, error, message, monkeypatch):
    if free is not None:
        monkeypatch.setattr("spdsl.backend.memory.free_on_host", lambda: free)
    model = SPDSL(3, max_iter=3, classifier=head, callback=lambda *_: pytest.fail("learning has begun"))
    with pytest.raises(error, match=message):
        model.fit(X, Y)


def test_automatic_graph_takes_all_pairs_unless_classes_are_tiny():
    assert automatic_counts(np.repeat(np.arange(4), 5), True) == ("all", "all")
    assert automatic_counts(np.repeat(np.arange(10), 2), True) == ("all", 5)
    assert automatic_counts(np.repeat(np.arange(10), 2), True, all_pairs=True) == ("all", "all")
    assert automatic_counts(np.repeat(np.arange(4), 100), True) == ("all", "all")


@pytest.mark.parametrize("cheap", [True, False])
def test_automatic_graph_has_no_cliff(cheap):
    """Where all pairs become too many, nearly all of them stay; and their number hardly changes from there on."""
    few = int((2 * MANY_PAIRS[cheap]) ** 0.5)
    assert automatic_counts(np.arange(few) % 4, cheap) == ("all", "all")
    assert min(automatic_counts(np.arange(few + 4) % 4, cheap)) == (few + 4) // 4 + bool((few + 4) % 4) - 1  # a class
    assert automatic_counts(np.arange(few + 4) % 4, cheap)[1] >= 0.97 * (few - few // 4)
    for N in (4 * few, 16 * few):
        within, between = automatic_counts(np.arange(N) % 4, cheap)
        assert 10 <= between == within <= max(10, 2 * MANY_PAIRS[cheap] / N)


@pytest.mark.parametrize("cheap", [True, False])
def test_automatic_graph_of_tiny_classes_has_no_cliff(cheap):
    """The nearest quarter of the others stays the nearest quarter where all pairs become too many."""
    few = int((2 * MANY_PAIRS[cheap]) ** 0.5)
    for N in (few, few + 4):
        assert automatic_counts(np.arange(N) % (N // 2), cheap)[1] == round(N / 4)


def test_automatic_graph_is_the_one_that_fit_uses():
    labels = np.arange(len(Y)) // 2
    graph = aligned(3, max_iter=0).fit(X, labels).graph_
    asked = aligned(3, max_iter=0, n_within="all", n_between=round(len(Y) / 4)).fit(X, labels).graph_
    np.testing.assert_array_equal(graph.i, asked.i)
    np.testing.assert_array_equal(graph.j, asked.j)
