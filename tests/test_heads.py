"""What classifies behind the reduction, and the log-vectors."""

import numpy as np
import pytest
from sklearn.covariance import LedoitWolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from samples import labelled
from spdsl import SPDML, SPDSL, LogVectors, arrays, pairwise_sqdist
from spdsl.graphs import automatic_counts
from spdsl.heads import HEADS, span_discriminant

X, Y = labelled()
TRAIN, TEST = np.arange(len(Y)) % 2 == 0, np.arange(len(Y)) % 2 == 1


class UnitLength(StandardScaler):
    """Centre, and divide by one number so that the mean square length is one."""

    def fit(self, V, y=None):
        super().fit(V)
        self.scale_ = np.full(V.shape[1], np.sqrt(self.var_.sum()))
        return self


def test_distances_of_log_vectors_are_log_euclidean(as_array):
    V = arrays.to_numpy(LogVectors().fit_transform(as_array(X)))
    n = X.shape[-1]
    assert V.shape == (len(X), n * (n + 1) // 2)
    d2 = ((V[:, None, :] - V[None, :, :]) ** 2).sum(axis=-1)
    np.testing.assert_allclose(d2, pairwise_sqdist(X, metric="lem"), atol=1e-10)


def test_svm_head_is_a_machine_on_the_learned_similarity():
    model = SPDSL(3, classifier="svm").fit(X[TRAIN], Y[TRAIN])
    machine = SVC(kernel="precomputed", C=10.0).fit(model.similarity(X[TRAIN]), Y[TRAIN])
    np.testing.assert_array_equal(model.predict(X[TEST]), machine.predict(model.similarity(X[TEST], X[TRAIN])))


@pytest.mark.parametrize("learner", [SPDSL, SPDML])
@pytest.mark.parametrize("head", ["lda", "logistic", RidgeClassifier(0.1)], ids=str)
def test_vector_heads_are_classifiers_on_log_vectors_of_the_reduction(learner, head):
    model = learner(3, metric="lem", classifier=head).fit(X[TRAIN], Y[TRAIN])
    own = {
        "lda": LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=LedoitWolf()),
        "logistic": LogisticRegression(C=300.0, max_iter=1000),
    }.get(head, head)
    route = make_pipeline(LogVectors(), UnitLength(), own).fit(model.transform(X[TRAIN]), Y[TRAIN])
    np.testing.assert_array_equal(model.predict(X[TEST]), route.predict(model.transform(X[TEST])))


@pytest.mark.parametrize("length", [5, 40])
def test_span_discriminant_is_ledoit_wolf_discriminant_analysis(length):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 8)
    V = rng.standard_normal((24, length)) * np.linspace(0.1, 2, length) + y[:, None]
    new = rng.standard_normal((9, length)) + 1
    plain = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=LedoitWolf()).fit(V, y)
    span = span_discriminant(*V.shape).fit(V, y)
    # a rotation about another centre adds the same to the value of every class
    values, expected = (model.decision_function(new) for model in (span, plain))
    np.testing.assert_allclose(np.diff(values), np.diff(expected), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("head", HEADS)
def test_fit_classifier_gives_the_head_that_fit_gives_and_leaves_the_reduction_alone(head):
    model = SPDSL(3).fit(X[TRAIN], Y[TRAIN])
    W = model.components_.copy()
    again = model.set_params(classifier=head).fit_classifier(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(again.components_, W)
    whole = SPDSL(3, classifier=head).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(again.predict(X[TEST]), whole.predict(X[TEST]))


def test_fit_classifier_needs_a_reduction_and_good_input():
    with pytest.raises(NotFittedError):
        SPDSL(3).fit_classifier(X, Y)
    model = SPDSL(3, max_iter=0).fit(X, Y)
    with pytest.raises(ValueError, match="classifier must be one of"):
        model.set_params(classifier="forest").fit_classifier(X, Y)
    with pytest.raises(ValueError, match="4 x 4 matrices"):
        model.set_params(classifier="lda").fit_classifier(X[:, :4, :4], Y)


@pytest.mark.parametrize("head", HEADS)
def test_every_head_predicts_on_every_array_library(as_array, head):
    model = SPDSL(3, classifier=head).fit(as_array(X[TRAIN]), Y[TRAIN])
    host = SPDSL(3, classifier=head).fit(X[TRAIN], Y[TRAIN])
    np.testing.assert_array_equal(model.predict(as_array(X[TEST])), host.predict(X[TEST]))


def test_log_vectors_work_in_a_pipeline():
    assert cross_val_score(make_pipeline(LogVectors(), LogisticRegression(max_iter=1000)), X, Y, cv=3).mean() > 0.6


@pytest.mark.parametrize("head", ["tree", None, 3, SVC], ids=str)
def test_a_head_that_is_none_is_an_error(head):
    with pytest.raises(ValueError, match="classifier must be"):
        SPDSL(3, classifier=head).fit(X, Y)


def test_automatic_graph_takes_all_pairs_unless_classes_are_tiny_or_pairs_too_many():
    assert automatic_counts(np.repeat(np.arange(4), 5), True) == ("all", "all")
    assert automatic_counts(np.repeat(np.arange(10), 2), True) == ("all", 5)
    assert automatic_counts(np.repeat(np.arange(4), 100), True) == ("all", "all")
    assert automatic_counts(np.repeat(np.arange(4), 100), False) == (10, 10)
    assert automatic_counts(np.repeat(np.arange(100), 3), False) == (2, 10)


def test_automatic_graph_is_the_one_that_fit_uses():
    labels = np.arange(len(Y)) // 2
    graph = SPDSL(3, max_iter=0).fit(X, labels).graph_
    asked = SPDSL(3, max_iter=0, n_within="all", n_between=round(len(Y) / 4)).fit(X, labels).graph_
    np.testing.assert_array_equal(graph.i, asked.i)
    np.testing.assert_array_equal(graph.j, asked.j)
