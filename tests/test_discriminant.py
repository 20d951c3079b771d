"""Discriminant analysis by leave-one-out, and the automatic classifier on two views."""

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

import spdsl
from samples import labeled
from spdsl import SPDSL, TangentSpaceClassifier, backend
from spdsl.data import MemoryData, recentering
from spdsl.datasets import load_digit_sets
from spdsl.estimators import auto_head
from spdsl.estimators.auto_head import WEIGHT, AutoHead
from spdsl.estimators.discriminant import LeaveOneOutDiscriminant, _LeftOut
from spdsl.geometry import get_metric, log_vectors
from spdsl.geometry.means import riemannian_mean

X, Y = labeled(40, 6, seed=2)
TRAIN, TEST = np.arange(40) % 2 == 0, np.arange(40) % 2 == 1


def vectors(length, sizes, seed=0):
    """Gaussian classes of those sizes, with spreads of their own."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    centers = rng.standard_normal((len(sizes), length))
    return centers[y] + rng.standard_normal((len(y), length)) * (0.5 + 0.3 * y)[:, None], y


def by_hand(V, y, ridge, spread, left_out):
    """Scores of one sample under the rule that is fitted to all others, from its definition."""
    keep = np.arange(len(y)) != left_out
    others, labels = V[keep], y[keep]
    classes = np.arange(y.max() + 1)
    means = np.array([others[labels == c].mean(axis=0) for c in classes])
    residuals = others - means[labels]
    S = residuals.T @ residuals / len(others)
    B = np.linalg.inv(S + ridge * np.eye(V.shape[1]))
    sizes = np.bincount(labels)
    prior = np.log(np.bincount(y) / len(y))
    far = np.array([(V[left_out] - m) @ B @ (V[left_out] - m) for m in means])
    return prior - far / 2 + spread / (2 * sizes)


@pytest.mark.parametrize("sizes", [(4, 4, 4), (2, 7, 3), (2, 2)])
@pytest.mark.parametrize("ridge", [0.05, 2.0])
def test_leave_one_out_scores_equal_those_of_as_many_fits(sizes, ridge):
    V, y = vectors(5, sizes)
    V = V - V.mean(axis=0)
    counts = np.bincount(y)
    M = np.array([V[y == c].mean(axis=0) for c in range(len(sizes))])
    w, E = np.linalg.eigh((V - M[y]).T @ (V - M[y]) / len(V))
    judged = _LeftOut(V @ E, M @ E, y, counts, w).judge(ridge)
    expected = [by_hand(V, y, ridge, judged.spread, k) for k in range(len(y))]
    assert_allclose(judged.scores, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", [4, 60])
def test_a_rotation_of_the_features_changes_nothing(length):
    V, y = vectors(length, (5, 6, 7))
    Q = np.linalg.qr(np.random.default_rng(1).standard_normal((length, length)))[0]
    new, _ = vectors(length, (5, 6, 7), seed=3)
    plain, turned = LeaveOneOutDiscriminant().fit(V, y), LeaveOneOutDiscriminant().fit(V @ Q, y)
    assert plain.ridge_ == pytest.approx(turned.ridge_)
    assert_allclose(plain.predict_proba(new), turned.predict_proba(new @ Q), rtol=1e-6, atol=1e-9)


def test_features_beyond_the_span_add_nothing():
    V, y = vectors(6, (5, 6, 7))
    wide = np.hstack([V, np.zeros((18, 30))])
    assert_array_equal(
        LeaveOneOutDiscriminant().fit(wide, y).predict(wide), LeaveOneOutDiscriminant().fit(V, y).predict(V)
    )


def test_two_classes_have_one_decision_value():
    V, y = vectors(4, (6, 6))
    model = LeaveOneOutDiscriminant().fit(V, np.array(["a", "b"])[y])
    assert model.decision_function(V).shape == (12,)
    assert_array_equal(model.predict(V), np.array(["a", "b"])[(model.decision_function(V) > 0).astype(int)])


def test_no_probability_is_surer_than_the_samples_allow():
    V, y = vectors(4, (5, 5, 5))
    model = LeaveOneOutDiscriminant().fit(V + 100 * np.eye(4)[y], y)
    proba = model.predict_proba(V + 100 * np.eye(4)[y])
    assert_allclose(proba.sum(axis=1), 1.0)
    assert 0.999 < proba.max() / ((15 + 1 / 3) / 16) <= 1
    assert 1 <= proba.min() / (1 / 48) < 1.001


def test_copies_and_lone_samples_are_no_trouble():
    V, y = vectors(4, (3, 3, 1))
    assert np.isfinite(LeaveOneOutDiscriminant().fit(V, y).predict_proba(V)).all()
    same = np.eye(3)[[0, 0, 1, 1, 2, 2]]
    assert_array_equal(LeaveOneOutDiscriminant().fit(same, [0, 0, 1, 1, 2, 2]).predict(same), [0, 0, 1, 1, 2, 2])
    with pytest.raises(ValueError, match="every class has one sample"):
        LeaveOneOutDiscriminant().fit(V[:3], [0, 1, 2])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_two_samples_a_class_are_enough():
    """Where the covariance estimators of before found chance."""
    X, y = load_digit_sets()
    rng = np.random.default_rng(0)
    order = [rng.permutation(np.flatnonzero(y == c)) for c in range(10)]
    train, test = (np.concatenate([o[part] for o in order]) for part in (slice(2), slice(2, 22)))
    assert SPDSL(20, classifier="lda").fit(X[train], y[train]).score(X[test], y[test]) > 0.8
    assert SPDSL().fit(X[train], y[train]).score(X[test], y[test]) > 0.8
    tangent = TangentSpaceClassifier("lda", metric={"mean": "logeuclid", "map": "riemann"})
    assert tangent.fit(X[train], y[train]).score(X[test], y[test]) > 0.8


# ------------------------------------------------------------------ the automatic classifier


def test_the_automatic_classifier_adds_the_scores_of_its_two_views(as_array):
    model = SPDSL(3).fit(as_array(X[TRAIN]), Y[TRAIN])
    head = model.classifier_
    assert isinstance(head, AutoHead)
    G = base_map(X[TRAIN])
    base = head.discriminant_.scores(log_vectors(G @ X[TEST] @ G))
    second = head.learned_.scores(log_vectors(backend.to_numpy(model.transform(as_array(X[TEST])))))
    centered = [s - s.mean(axis=1, keepdims=True) for s in (base, second)]
    scores = centered[0] / head.discriminant_.spread_ + WEIGHT * centered[1] / head.learned_.spread_
    scores = scores / (1 + WEIGHT)
    assert_array_equal(model.predict(as_array(X[TEST])), model.classes_[scores.argmax(axis=1)])
    assert_allclose(model.decision_function(as_array(X[TEST])), scores, rtol=1e-6, atol=1e-8)
    assert_array_equal(model.predict_proba(as_array(X[TEST])).argmax(axis=1), scores.argmax(axis=1))


def base_map(X):
    data = MemoryData(X)
    return data.base_map(data.recentering())


def test_the_search_is_recentered_at_the_log_euclidean_mean():
    """The mean of the recentered logarithms is zero."""
    found = MemoryData(X).recentering()
    G = found.map
    assert_allclose(G, G.T)
    logs = log_vectors(X).mean(axis=0)
    assert_allclose(log_vectors(np.linalg.inv(G @ G)[None])[0], logs, atol=1e-10)
    spread = sum(T @ T for T in [_log(G @ P @ G) for P in X])
    w = np.diag(found.directions.T @ spread @ found.directions)
    assert (np.diff(w) <= 1e-10).all()


def test_the_base_vectors_are_those_of_the_riemannian_mean():
    """The mean of the recentered logarithms is near zero."""
    G = base_map(X)
    assert_allclose(G, G.T)
    logs = [_log(G @ P @ G) for P in X]
    assert np.linalg.norm(np.mean(logs, axis=0)) <= recentering.CLOSE * np.sqrt(
        np.mean(np.square(logs).sum(axis=(1, 2)))
    )
    mean = riemannian_mean(X)
    assert np.sqrt(get_metric("aim").sqdist(np.linalg.inv(G @ G)[None], mean[None])[0, 0]) < 0.1


def test_the_base_of_large_matrices_is_at_the_log_euclidean_mean(monkeypatch):
    monkeypatch.setattr(recentering, "LARGE", 3)
    assert_array_equal(base_map(X), MemoryData(X).recentering().map)


def test_the_riemannian_mean_is_found_where_matrices_are_far_apart():
    rng = np.random.default_rng(0)
    w = np.logspace(-5, 5, 6)
    Q = np.linalg.qr(rng.standard_normal((30, 6, 6)))[0]
    far = (Q * w) @ Q.swapaxes(1, 2)
    G = base_map(far)
    logs = np.stack([_log((M + M.T) / 2) for M in G @ far @ G])
    assert np.linalg.norm(logs.mean(axis=0)) <= 0.05 * np.sqrt(np.square(logs).sum(axis=(1, 2)).mean())


def test_large_matrices_are_seen_in_the_directions_in_which_they_differ_most(monkeypatch):
    monkeypatch.setattr(recentering, "BASE_SIZE", 4)
    A = base_map(X)
    assert A.shape == (X.shape[1], 4)
    found = recentering.nearer_mean(MemoryData(X).recentering(), len(X), lambda G: recentering.log_moments(X, G))
    assert_allclose(A, found.map @ found.directions[:, :4])
    spread = sum(T @ T for T in [_log(found.map @ P @ found.map) for P in X])
    w = np.diag(found.directions.T @ spread @ found.directions)
    assert (np.diff(w) <= 1e-10).all()
    model = SPDSL(2, max_iter=2).fit(X[TRAIN], Y[TRAIN])
    assert model.reference_.shape == (X.shape[1], 4)
    assert model.classifier_.discriminant_.coef_.shape[1] == 10
    assert model.score(X[TEST], Y[TEST]) > 0.5


def _log(P):
    w, V = np.linalg.eigh(P)
    return (V * np.log(w)) @ V.T


def test_a_square_reduction_has_two_views_too():
    clear, y = labeled(40, 6, signal=1.5, noise=0.4)
    model = SPDSL().fit(clear[TRAIN], y[TRAIN])
    assert model.components_.shape == (6, 6)
    assert model.reference_.shape == (6, 6)
    assert model.score(clear[TEST], y[TEST]) > 0.9


@pytest.mark.parametrize("place", ["memory map", "file", "factors", "blocks"])
def test_the_defaults_work_in_every_place(place, tmp_path):
    model = SPDSL(3, max_iter=5)
    if place == "factors":
        data = [spdsl.FactoredSPD(list(np.linalg.cholesky(part)), 1e-9) for part in (X[TRAIN], X[TEST])]
    elif place == "blocks":
        data = [np.stack([part, part @ part], axis=1) for part in (X[TRAIN], X[TEST])]
    else:
        for name, part in (("train", X[TRAIN]), ("test", X[TEST])):
            np.save(tmp_path / f"{name}.npy", part)
        files = [str(tmp_path / "train.npy"), str(tmp_path / "test.npy")]
        data = [np.load(file, mmap_mode="r") for file in files] if place == "memory map" else files
    told = pytest.warns(UserWarning, match="never formed") if place == "factors" else nullcontext()
    with told:
        model.fit(data[0], Y[TRAIN])
    said = model.predict(data[1])
    plain = SPDSL(3, max_iter=5).fit(X[TRAIN], Y[TRAIN])
    if place in ("memory map", "file"):
        assert_array_equal(said, plain.predict(X[TEST]))
        assert_array_equal(model.predict(X[TEST]), said)
    assert np.mean(said == Y[TEST]) > 0.6


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({}, "search started at init='pca' and classifier='auto' sees W'XW alone"),
        ({"classifier": "nn"}, "never formed, so the search started at init='pca'; the same"),
        ({"solver": {"init": "pca"}}, "never formed, so classifier='auto' sees W'XW alone; the same"),
    ],
)
def test_what_factors_cannot_give_is_named(changed, told):
    factors = spdsl.FactoredSPD(list(np.linalg.cholesky(X[TRAIN])), 1e-9)
    with pytest.warns(UserWarning, match=told):
        SPDSL(3, max_iter=2, **changed).fit(factors, Y[TRAIN])


def test_a_model_with_two_views_is_saved_and_loaded(tmp_path):
    model = SPDSL(3, max_iter=5).fit(X[TRAIN], Y[TRAIN])
    model.save(tmp_path / "model.safetensors")
    again = spdsl.load(tmp_path / "model.safetensors")
    assert_array_equal(again.predict_proba(X[TEST]), model.predict_proba(X[TEST]))


@pytest.mark.parametrize("metric", ["aim", "stein", "jeffreys", "cholesky", "euclid", "wasserstein"])
def test_the_defaults_work_under_every_kind_of_metric(metric):
    model = SPDSL(metric=metric).fit(X[TRAIN], Y[TRAIN])
    assert model.score(X[TEST], Y[TEST]) > 0.6
    assert np.isfinite(model.cost_)


@pytest.mark.parametrize("size", [2.0**-600, 2.0**600])
def test_vectors_of_any_size_are_classified_alike(size):
    V, y = vectors(6, (8, 5, 9))
    near, far = LeaveOneOutDiscriminant().fit(V, y), LeaveOneOutDiscriminant().fit(V * size, y)
    assert_array_equal(far.scores(V * size), near.scores(V))
    assert far.ridge_ == near.ridge_


def test_vectors_whose_mean_overflows_are_refused():
    V, y = vectors(6, (8, 5, 9))
    with pytest.raises(ValueError, match="rescale"), np.errstate(over="ignore", invalid="ignore"):
        LeaveOneOutDiscriminant().fit(V * 1e308, y)


@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_the_automatic_classifier_has_probabilities_far_from_all_training_matrices(scale):
    model = SPDSL(3, max_iter=3).fit(X[TRAIN], Y[TRAIN])
    P = model.predict_proba(scale * X[TEST])
    assert np.isfinite(P).all()
    assert np.isfinite(model.decision_function(scale * X[TEST])).all()
    assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(scale * X[TEST]))


@pytest.mark.parametrize("weight", [None, np.linspace(0.5, 2.0, 40)], ids=["plain", "weighted"])
def test_temperatures_judged_one_by_one_or_at_once_give_the_same_bits(monkeypatch, weight):
    V, y = vectors(6, [15, 25])
    at_once, one_by_one = [], []
    for kept, numbers in ((at_once, 1 << 20), (one_by_one, 1)):
        monkeypatch.setattr("spdsl.estimators.discriminant.AT_ONCE", numbers)
        model = LeaveOneOutDiscriminant().fit(V, y, weight)
        kept += [model.ridge_, model.temperature_, model.coef_]
    assert at_once[:2] == one_by_one[:2]
    assert_array_equal(at_once[2], one_by_one[2])


@pytest.mark.parametrize("classifier", ["auto", "lda"])
def test_less_weight_makes_no_class_more_likely(classifier):
    """The mean of a class is as well known as that of as many samples, however little they weigh."""
    clear, y = labeled(80, 6, 3, signal=1.2, noise=0.4)
    train, test = slice(0, 40), slice(40, 80)
    found = []
    for weight in (1.0, 0.1, 0.01, 1e-4):
        model = SPDSL(3, classifier=classifier, max_iter=3)
        model.fit(clear[train], y[train], np.where(y[train] == 0, weight, 1.0))
        found.append(np.mean(model.predict(clear[test]) == 0))
    assert max(found) <= found[0] + 0.05
    one = np.where(np.arange(40) == 0, 7, y[train])
    for weight in (0.2, 0.01):
        model = SPDSL(3, classifier=classifier, max_iter=3).fit(clear[train], one, np.where(one == 7, weight, 1.0))
        assert np.mean(model.predict(clear[test]) == 7) < 0.1


def test_labels_of_ties_are_those_of_the_probabilities():
    """Copies under three labels: nothing tells the classes apart but rounding."""
    model = SPDSL(3, max_iter=2).fit(np.concatenate([X, X, X]), np.repeat([0, 1, 2], len(X)))
    assert_array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))


@pytest.mark.parametrize("classifier", ["auto", "lda", "nn", "svm", "logistic"])
def test_identical_matrices_are_an_error_of_every_classifier(classifier):
    model = SPDSL(3, max_iter=2).fit(X, Y).set_params(classifier=classifier)
    with pytest.raises(ValueError, match="all training matrices are identical"):
        model.fit_classifier(np.repeat(X[:1], 8, axis=0), np.arange(8) % 2)


def test_answers_are_computed_on_one_blas_thread():
    large, y = labeled(60, 70, seed=1)
    model = SPDSL(3, max_iter=2).fit(large, y)
    for name in ("decision_function", "predict_proba"):
        found = []
        for count in (1, 2):
            with threadpool_limits(count):
                found.append(getattr(model, name)(large))
        assert_array_equal(*found)


def test_fit_classifier_on_factors_says_what_it_does_not_see():
    model = SPDSL(3, max_iter=2).fit(X, Y)
    with pytest.warns(UserWarning, match="never formed, so classifier='auto' sees W'XW alone"):
        model.fit_classifier(spdsl.FactoredSPD(list(np.linalg.cholesky(X)), 1e-9), Y)


def test_vectors_that_do_not_fit_into_memory_are_named(monkeypatch):
    monkeypatch.setattr(auto_head, "BASE_BYTES", 1000)
    with pytest.warns(UserWarning, match="log-vectors of all matrices would take 6.72e-06 GB"):
        model = SPDSL(3, max_iter=2).fit(X, Y)
    assert model.reference_ is None
