"""Models as PyTorch modules: equal to the model, exported, saved and loaded."""

import io

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from samples import labeled
from spdsl import SPDML, SPDSL, SPDNearestNeighbor
from spdsl.data import recentering
from spdsl.estimators import learned_views

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.arrays, pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")]

HEADS = ["auto", "lda", "logistic", "nn", "svm", LogisticRegression(max_iter=500), RidgeClassifier()]


def said_by(model, X, train, labels):
    """What the module promises to equal."""
    named = model.classifier if isinstance(model.classifier, str) else None
    for name in ("predict_proba", "decision_function"):
        if hasattr(model, name) and named != "nn" and (named, name) != ("svm", "predict_proba"):
            return getattr(model, name)(X)
    d2 = model.sqdist(X, train)
    return -np.stack([d2[:, labels == c].min(axis=1) for c in model.classes_], axis=1)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("metric", ["lem", "aim", "stein"])
@pytest.mark.parametrize("head", HEADS, ids=str)
def test_the_module_equals_the_model(head, metric, n_classes):
    X, y = labeled(52, 6, n_classes)
    model = SPDSL(3, metric=metric, classifier=head, max_iter=3).fit(X[:40], y[:40])
    found = model.to_torch()(torch.from_numpy(X[40:])).numpy()
    np.testing.assert_allclose(found, said_by(model, X[40:], X[:40], y[:40]), rtol=1e-9, atol=1e-9)
    assert found.dtype == np.float64
    if head not in ("nn", "svm") and found.ndim == 2:
        np.testing.assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(X[40:]))


@pytest.mark.parametrize("head", ["auto", "nn"])
@pytest.mark.parametrize("metric", ["lem", "aim", "stein"])
def test_samples_of_several_matrices(head, metric):
    X, y = labeled(80, 5)
    X, y = X.reshape(40, 2, 5, 5), y[:40]
    model = SPDSL(2, metric=metric, classifier=head, max_iter=3).fit(X[:30], y[:30])
    found = model.to_torch()(torch.from_numpy(X[30:])).numpy()
    np.testing.assert_allclose(found, said_by(model, X[30:], X[:30], y[:30]), rtol=1e-9, atol=1e-9)


def test_a_square_reduction_and_float32():
    X, y = labeled(40, 4)
    model = SPDSL(max_iter=3).fit(X, y)
    single = X.astype(np.float32)
    found = model.to_torch()(torch.from_numpy(single)).numpy()
    np.testing.assert_allclose(found, model.predict_proba(single.astype(float)), atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_default_classifier_of_many_samples_and_of_large_matrices(n_classes, monkeypatch):
    monkeypatch.setattr(learned_views, "MOST", 30)
    monkeypatch.setattr(recentering, "BASE_SIZE", 4)
    X, y = labeled(50, 6, n_classes)
    model = SPDSL(3, max_iter=3).fit(X[:40], y[:40])
    assert model.reference_.shape == (6, 4)
    found = model.to_torch()(torch.from_numpy(X[40:])).numpy()
    np.testing.assert_allclose(found, model.predict_proba(X[40:]), atol=1e-9)


def test_badly_conditioned_matrices_keep_their_digits():
    X, y = labeled(40, 5)
    scale = np.logspace(0, -5, 5)
    X = X * np.outer(scale, scale)  # condition about 1e10
    model = SPDSL(3, classifier="lda", max_iter=3).fit(X, y)
    np.testing.assert_allclose(model.to_torch()(torch.from_numpy(X)).numpy(), model.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize(("head", "metric"), [("auto", "lem"), ("nn", "aim"), ("svm", "stein")])
def test_an_exported_module_is_saved_loaded_and_takes_other_batches(head, metric):
    X, y = labeled(60, 6)
    model = SPDSL(3, metric=metric, classifier=head, max_iter=3).fit(X[:40], y[:40])
    module = model.to_torch()
    few, file = torch.from_numpy(X[:5]), io.BytesIO()
    exported = torch.export.export(module, (few,), dynamic_shapes={"X": {0: torch.export.Dim("count")}})
    torch.export.save(exported, file)
    file.seek(0)
    again = torch.export.load(file).module()
    many = torch.from_numpy(np.tile(X, (17, 1, 1))[:1000])
    np.testing.assert_allclose(again(many).numpy(), module(many).numpy(), atol=1e-12)
    np.testing.assert_allclose(again(many[40:60]).numpy(), said_by(model, X[40:], X[:40], y[:40]), atol=1e-9)


def test_what_cannot_be_exported_says_so():
    X, y = labeled(30, 5)
    for model, message in (
        (SPDSL(2, classifier=GaussianNB(), max_iter=1), "a GaussianNB cannot be exported; use classifier='lda'"),
        (SPDSL(2, classifier="nn", metric="euclid", max_iter=1), "distances under the metric 'euclid' cannot be"),
        (SPDML(2, classifier=SPDNearestNeighbor("aim", n_neighbors=3), max_iter=1), "n_neighbors=3 cannot be exported"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y).to_torch()
