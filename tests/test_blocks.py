"""Samples of several matrices: one W per block, distances summed over the blocks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import plain
import spdsl
from samples import labeled, make_spd
from spdsl import SPDML, SPDSL, KernelSVC, LogVectors, SPDNearestNeighbor, backend, pairwise_sqdist
from spdsl.geometry import METRICS

OBJECTIVES = ("alignment", "pairs", "stochastic-neighbors")
FIT = {"max_iter": 8, "tol": 0.0}


@pytest.fixture(scope="module")
def stack():
    """Samples of two matrices 6 x 6, of which each carries a part of the class."""
    parts = [labeled(24, 6, seed=seed)[0] for seed in (1, 2)]
    return np.stack(parts, axis=1), labeled(24, 6, seed=1)[1]


@pytest.mark.parametrize("metric", METRICS)
def test_distances_are_summed_over_the_blocks(as_array, metric, rng):
    A, B = make_spd(rng, 8, 4).reshape(4, 2, 4, 4), make_spd(rng, 6, 4).reshape(3, 2, 4, 4)
    expected = sum(plain.sqdist(metric, A[:, k], B[:, k]) for k in range(2))
    assert_allclose(backend.to_numpy(pairwise_sqdist(as_array(A), as_array(B), metric=metric)), expected, rtol=1e-6)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("metric", ["aim", "stein", "lem"])
def test_gradient_by_taylor_and_by_the_plain_formula(as_array, metric, objective, rng):
    X = make_spd(rng, 16, 4).reshape(8, 2, 4, 4)
    y = np.arange(8) % 3
    cost = SPDSL(2, metric=metric, objective=objective, beta=0.3, n_within="all", n_between="all").cost(as_array(X), y)
    W = np.linalg.qr(rng.standard_normal((2, 4, 2)))[0] + 0.1 * rng.standard_normal((2, 4, 2))
    H = rng.standard_normal(W.shape) / 4
    g = backend.to_numpy(cost(as_array(W))[1])
    order = plain.taylor_slope(lambda V: cost(as_array(V))[0], W, H, float(np.sum(g * H)), 3e-5, 1e-3)
    assert 1.9 < order < 2.1
    i, j = np.triu_indices(8, 1)

    def dense(V):
        D2 = sum(plain.pair_distances(metric, V[k].T @ X[:, k] @ V[k], i, j) for k in range(2))
        return plain.OBJECTIVES[objective](D2, plain.mask(8, i, j), y, 0.3)

    assert cost(as_array(W))[0] == pytest.approx(dense(W), rel=1e-9)
    assert_allclose(g, plain.gradient(dense, W, 0.01), atol=1e-6 * np.abs(g).max())


@pytest.mark.parametrize("learner", [SPDSL, SPDML])
@pytest.mark.parametrize("metric", ["aim", "stein", "lem"])
def test_one_block_gives_the_very_numbers_of_plain_matrices(learner, metric, stack):
    X, y = stack
    one = learner(3, metric=metric, **FIT).fit(X[:, 0], y)
    block = learner(3, metric=metric, **FIT).fit(X[:, :1], y)
    assert one.cost_ == block.cost_
    assert_array_equal(one.components_, block.components_[0])
    assert_array_equal(one.predict(X[:, 0]), block.predict(X[:, :1]))


@pytest.mark.parametrize("learner", [SPDSL(3, **FIT), SPDML(3, **FIT), SPDML(3, manifold="psd", **FIT)])
@pytest.mark.parametrize("metric", ["aim", "stein", "lem"])
def test_torch_gives_the_same(as_array, learner, metric, stack):
    X, y = stack
    model = clone(learner).set_params(metric=metric).fit(X, y)
    found = clone(model).fit(as_array(X), y)
    assert found.cost_ == pytest.approx(model.cost_, rel=1e-8)
    assert_array_equal(found.predict(as_array(X)), model.predict(X))


def test_a_fit_uses_every_block(stack):
    X, y = stack
    model = SPDSL(3, classifier="nn", max_iter=40).fit(X[::2], y[::2])
    assert model.components_.shape == (2, 6, 3)
    assert model.transform(X).shape == (24, 2, 3, 3)
    assert_allclose(model.transform(X)[:, 1], model.components_[1].T @ X[:, 1] @ model.components_[1], atol=1e-12)
    reduced = model.transform(X)
    assert_allclose(model.sqdist(X), pairwise_sqdist(reduced), atol=1e-9)
    assert_array_equal(SPDNearestNeighbor().fit(reduced[::2], y[::2]).predict(reduced), model.predict(X))


@pytest.mark.parametrize("classifier", ["nn", "svm", "lda", "logistic"])
def test_every_head_takes_blocks_and_is_saved_and_loaded(classifier, stack, tmp_path):
    X, y = stack
    model = SPDSL(3, metric="stein", classifier=classifier, max_iter=5, n_between=3).fit(X, y)
    model.save(tmp_path / "model.safetensors")
    again = spdsl.load(tmp_path / "model.safetensors")
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(again.sqdist(X), model.sqdist(X))


def test_estimators_on_plain_blocks(stack):
    X, y = stack
    assert KernelSVC().fit(X, y).score(X, y) == 1.0
    vectors = LogVectors().fit_transform(X)
    assert vectors.shape == (24, 42)
    assert_allclose(((vectors[0] - vectors[1]) ** 2).sum(), pairwise_sqdist(X[:2])[0, 1])


@pytest.mark.parametrize(
    "options", [{"init": "random"}, {"init": "identity"}, {"init": np.ones((2, 6, 3)) + np.eye(6, 3)}]
)
def test_every_start_has_the_block_axis(options, stack):
    X, y = stack
    assert SPDSL(3, solver=options, random_state=0, max_iter=2).fit(X, y).components_.shape == (2, 6, 3)


def test_copies_are_equal_in_every_block(stack):
    X, y = stack
    twice, labels = np.concatenate([X, X[:3]]), np.concatenate([y, (y[:3] + 1) % 3])
    model = SPDSL(3, classifier="nn", max_iter=2).fit(twice, labels)
    assert_array_equal(model.predict(X[:3]), y[:3])  # ties go to the first copy


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X: np.where(np.arange(24)[:, None, None, None] == 5, np.nan, X), r"X\[5, 0\] contains NaN"),
        (lambda X: X[:, :0], "X has no blocks"),
        (lambda X: X[:, :, :, :5], r"X\[:, 0\] must have shape \(n_matrices, n, n\), got \(24, 6, 5\)"),
        (lambda X: X * np.where(np.arange(2) == 1, -1, 1)[:, None, None], r"X\[0, 1\] is not positive definite"),
    ],
)
def test_bad_blocks_are_named(spoil, message, stack):
    X, y = stack
    with pytest.raises(ValueError, match=message):
        SPDSL(3).fit(spoil(X), y)


def test_another_number_of_blocks_is_an_error(stack):
    X, y = stack
    model = SPDSL(3, max_iter=2).fit(X, y)
    with pytest.raises(ValueError, match="X holds 1 matrices of 6 x 6 per sample, but SPDSL was fitted on 2 matrices"):
        model.predict(X[:, :1])
    with pytest.raises(
        ValueError, match="X holds 6 x 6 matrices, but SPDSL was fitted on 2 matrices of 6 x 6 per sample"
    ):
        model.predict(X[:, 0])


def test_methods_that_take_single_matrices_say_so(stack):
    X, y = stack
    with pytest.raises(ValueError, match=r"X must have shape \(n_matrices, n, n\), got \(24, 2, 6, 6\)"):
        spdsl.CDL().fit(X, y)


@pytest.mark.parametrize("metric", ["lem", "stein"])
@pytest.mark.parametrize("mapped", [False, True])
def test_blocks_are_read_from_an_npy_file(metric, mapped, stack, tmp_path):
    X, y = stack
    np.save(tmp_path / "stack.npy", X)
    file = np.load(tmp_path / "stack.npy", mmap_mode="r") if mapped else tmp_path / "stack.npy"
    model = SPDSL(3, metric=metric, n_between=4, max_iter=4, classifier="nn")
    plain = SPDSL(3, metric=metric, n_between=4, max_iter=4, classifier="nn").fit(X, y)
    assert_array_equal(model.fit(file, y).components_, plain.components_)
    assert_array_equal(model.predict(file), plain.predict(X))
    bad = X.copy()
    bad[5, 1] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    with pytest.raises(ValueError, match=r"X\[5, 1\] contains NaN"):
        SPDSL(3).fit(tmp_path / "bad.npy", y)
    with pytest.raises(ValueError, match="pass samples of several matrices as one file, not in a list"):
        SPDSL(3).fit([str(tmp_path / "stack.npy")], y)


@pytest.mark.parametrize("metric", ["logeuclid", {"mean": "logeuclid", "map": "riemann"}])
def test_the_tangent_space_takes_blocks(metric, stack, tmp_path):
    pytest.importorskip("pyriemann")
    X, y = stack
    both = spdsl.TangentSpaceClassifier("logistic", metric=metric).fit(X, y)
    parts = [spdsl.TangentSpaceClassifier(metric=metric).fit(X[:, k], y).transform(X[:, k]) for k in range(2)]
    assert_allclose(both.transform(X), np.concatenate(parts, axis=1), atol=1e-12)
    found = spdsl.tune(both, {"C": (0.1, 1.0)}, X, y, n_folds=2)
    assert found.n_folds == 2
    both.save(tmp_path / "model.safetensors")
    assert_array_equal(spdsl.load(tmp_path / "model.safetensors").predict(X), both.predict(X))


def test_methods_are_tuned_and_compared_on_blocks(stack):
    X, y = stack
    found = spdsl.tune(SPDSL(3, max_iter=1, classifier="nn"), {"n_components": (2, 3)}, X, y, n_folds=2)
    assert found.params["n_components"] in (2, 3)
    table = spdsl.compare(X, y, ["NN-LEM", "CDL"], splits=2, tune=False, verbose=False)
    learned, single = table.rows
    assert learned.failed == 0
    assert "X must have shape (n_matrices, n, n)" in single.error
    assert "24 samples of 2 matrices 6 x 6" in table.results.description
