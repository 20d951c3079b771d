"""What classifies behind the reduction, and the log-vectors."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from samples import labelled
from spdsl import SPDML, SPDSL, LogVectors, arrays, pairwise_sqdist
from spdsl.graphs import automatic_counts
from spdsl.heads import HEADS

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
        "lda": LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        "logistic": LogisticRegression(C=300.0, max_iter=1000),
    }.get(head, head)
    route = make_pipeline(LogVectors(), UnitLength(), own).fit(model.transform(X[TRAIN]), Y[TRAIN])
    np.testing.assert_array_equal(model.predict(X[TEST]), route.predict(model.transform(X[TEST])))


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
