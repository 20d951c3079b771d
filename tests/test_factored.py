"""Matrices that are never formed: the same distances, fits and predictions as of the formed ones."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import cross_val_score

from samples import aligned
from spdsl import METRICS, SPDML, FactoredSPD, SPDNearestNeighbor, pairwise_sqdist
from spdsl.data import as_data, low_rank
from spdsl.features import FeatureError, set_covariance, set_factors
from spdsl.learning.graph import survey_pairs

N, D = 18, 9
LABELS = np.arange(N) % 3
EXACT = ["lem", "stein", "aim", "power", "euclid"]


def make(kind, *, seed=0):
    """Factored matrices whose class shows in the first directions."""
    rng = np.random.default_rng(seed)
    sizes = {"even": [4] * N, "ragged": [2, 5, 4] * (N // 3), "wide": [D + 3] * N, "mixed": [3, D + 2, 5] * (N // 3)}
    rank = sizes.get(kind.removesuffix("+mean"), [4] * N)
    factors = [rng.standard_normal((D, r)) for r in rank]
    for k, F in enumerate(factors):
        F[:3] *= 1 + LABELS[k]
    mean = rng.standard_normal((N, D)) + LABELS[:, None] if kind.endswith("+mean") else None
    return FactoredSPD(factors, rng.uniform(0.05, 0.2, N), mean)


KINDS = ["even", "ragged", "wide", "mixed", "even+mean", "ragged+mean", "wide+mean"]


def test_dense_is_the_formula():
    rng = np.random.default_rng(0)
    F, m = rng.standard_normal((2, 3, 2)), rng.standard_normal((2, 3))
    S = F @ F.mT + np.array([0.1, 0.2])[:, None, None] * np.eye(3)
    assert_allclose(FactoredSPD(F, [0.1, 0.2]).dense(), S)
    augmented = FactoredSPD(F, [0.1, 0.2], m).dense()
    assert_allclose(augmented[:, :3, :3], S + m[:, :, None] * m[:, None, :])
    assert_allclose(augmented[:, 3], np.concatenate([m, np.ones((2, 1))], axis=1))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", EXACT)
def test_distances_equal_those_of_the_formed_matrices(metric, kind, monkeypatch):
    monkeypatch.setattr(low_rank, "PAIR_BYTES", 8 * 5**2 * 14**2)
    X = make(kind)
    expected = pairwise_sqdist(X.dense(), metric=metric)
    assert_allclose(pairwise_sqdist(X, metric=metric), expected, rtol=1e-9, atol=1e-11)
    assert_allclose(pairwise_sqdist(X[:4], X[4:], metric=metric), expected[:4, 4:], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("metric", EXACT)
def test_distances_with_zero_ridge_and_full_rank(metric):
    rng = np.random.default_rng(1)
    X = FactoredSPD(rng.standard_normal((6, 4, 9)), 0.0)
    assert_allclose(pairwise_sqdist(X, metric=metric), pairwise_sqdist(X.dense(), metric=metric), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("metric", EXACT)
def test_distances_of_copies_and_near_copies_keep_their_digits(metric):
    rng = np.random.default_rng(2)
    F = rng.standard_normal((1, 30, 4))
    near = F + 1e-6 * rng.standard_normal(F.shape)
    a, b = FactoredSPD(F, 0.1), FactoredSPD(np.concatenate([F, near]), 0.1)
    same, close = pairwise_sqdist(a, b, metric=metric)[0]
    expected = pairwise_sqdist(a.dense(), b.dense(), metric=metric)[0, 1]
    assert same < 1e-12
    if metric != "stein":  # as small as what rounding leaves of a difference of determinants
        # the subspaces differ by angles near 1e-6, whose squares AIM takes from I - M'M: rounding is 1e-16 of 1
        assert_allclose(close, expected, rtol=1e-3 if metric == "aim" else 1e-4)


@pytest.mark.parametrize("kind", ["even", "ragged", "even+mean", "wide+mean"])
@pytest.mark.parametrize("metric", ["lem", "stein", "aim"])
def test_a_factored_fit_equals_the_dense_fit(metric, kind):
    X = make(kind)
    model = aligned(3, metric=metric, n_within=2, n_between=4, beta="original", max_iter=8, tol=0.0)
    dense = model.fit(X.dense(), LABELS)
    cost, d2, labels, beta = dense.cost_, dense.sqdist(X.dense()), dense.predict(X.dense()), dense.beta_
    model.fit(X, LABELS)
    assert_allclose(model.beta_, beta, rtol=1e-9)
    assert_allclose(model.cost_, cost, rtol=1e-9)
    assert_allclose(model.sqdist(X), d2, rtol=1e-9, atol=1e-9)
    assert_array_equal(model.predict(X), labels)
    assert_array_equal(model.predict(X.dense()), labels)


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_fits_where_no_distance_of_the_original_space_is_needed(metric):
    X = make("ragged")
    options = {"metric": metric, "n_within": "all", "n_between": "all", "max_iter": 5, "tol": 0.0}
    expected = aligned(3, **options).fit(X.dense(), LABELS)
    found = aligned(3, **options).fit(X, LABELS)
    assert_allclose(found.cost_, expected.cost_, rtol=1e-9)
    assert_allclose(found.transform(X), expected.transform(X.dense()), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("metric", EXACT)
def test_the_graph_equals_that_of_the_formed_matrices(metric, monkeypatch):
    monkeypatch.setattr(low_rank, "PAIR_BYTES", 8 * 5**2 * 7**2)
    X = make("ragged")
    expected, found = (survey_pairs(as_data(x), LABELS, METRICS[metric], 2, 3) for x in (X.dense(), X))
    assert_array_equal(found.graph.i, expected.graph.i)
    assert_array_equal(found.graph.j, expected.graph.j)
    assert_allclose(found.mean_distance, expected.mean_distance, rtol=1e-10)


def test_cost_has_the_gradient_of_the_dense_cost():
    X = make("ragged+mean")
    W = np.linalg.qr(np.random.default_rng(0).standard_normal((D + 1, 3)))[0]
    value, gradient = aligned(3).cost(X, LABELS)(W)
    expected, slope = aligned(3).cost(X.dense(), LABELS)(W)
    assert_allclose(value, expected, rtol=1e-11)
    assert_allclose(gradient, slope, rtol=1e-8, atol=1e-11)


def test_grassmann_and_cross_validation():
    X = make("ragged")
    model = SPDML(3, n_within=2, n_between=4, max_iter=10)
    assert_array_equal(cross_val_score(model, X, LABELS, cv=3), cross_val_score(model, X.dense(), LABELS, cv=3))


def test_matrices_are_not_formed(monkeypatch):
    monkeypatch.delattr(FactoredSPD, "dense")
    n = 20_000  # one formed matrix would be 3.2 GB
    rng = np.random.default_rng(0)
    X = FactoredSPD(rng.standard_normal((6, n, 2)), 1.0)
    model = aligned(2, solver={"init": "random"}, random_state=0, n_within=1, n_between=2, max_iter=3, tol=0.0).fit(
        X, [0, 1] * 3
    )
    assert model.transform(X).shape == (6, 2, 2)


def test_torch_factors_give_the_same(xp_name, as_array):
    X = make("ragged+mean")
    found = aligned(3, max_iter=5, device=None if xp_name == "numpy" else "cpu").fit(X, LABELS)
    assert_allclose(found.cost_, aligned(3, max_iter=5).fit(X.dense(), LABELS).cost_, rtol=1e-9)


def test_copies_are_found():
    X = make("ragged")
    assert X[[0, 1, 0, 2, 1]].first_copies().tolist() == [0, 1, 0, 3, 1]


@pytest.mark.parametrize("embedding", ["covariance", "augmented"])
def test_features_return_factors_of_what_they_form(embedding):
    rng = np.random.default_rng(0)
    sets = [rng.standard_normal((r, 2, 4)) for r in (3, 5, 20)]
    X = FactoredSPD(*zip(*(set_factors(frames, embedding=embedding) for frames in sets), strict=True))
    assert_allclose(X.dense(), [set_covariance(frames, embedding=embedding) for frames in sets], atol=1e-14)


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (np.ones((1, 3)), "at least 2 samples, got 1"),
        (np.ones((4, 3)), "all samples are identical"),
        (np.array([[1.0, 2], [np.nan, 3]]), "sample 1 holds NaN or infinity"),
    ],
)
def test_features_refuse_sets_without_factors(frames, message):
    with pytest.raises(FeatureError, match=message):
        set_factors(frames)


# ---------------------------------------------------------------------- what goes wrong

GOOD = np.ones((2, 3, 1))
NAN = np.array([[[1.0], [2], [3]], [[1], [np.nan], [2]]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([np.ones((3, 2)), np.ones((4, 2))], 1.0), "factors[1] has 4 rows but factors[0] has 3"),
        ((NAN, 1.0), "factors[1] contains NaN or infinity"),
        (
            (GOOD, 0.0),
            "ridge[0] is 0 and factors[0] has 1 columns for 3 rows: the matrix is singular; use a positive ridge",
        ),
        ((GOOD, [1.0, 0.0]), "ridge[1] is 0 and factors[1] has 1 columns for 3 rows"),
        ((GOOD, -1.0), "ridge[0] is -1.0: it must be finite and nonnegative"),
        ((GOOD, [1.0, np.nan]), "ridge[1] is nan"),
        ((GOOD, [1.0]), "ridge must be a number or (2,)"),
        ((GOOD, 1.0, np.ones((2, 4))), "mean must have shape (2, 3), one row of real numbers for each factor; mean[0]"),
        ((GOOD, 1.0, [np.ones(3), None]), "mean[1] has shape (), dtype object"),
        ((GOOD, 1.0, np.ones((1, 3))), "mean must have shape (2, 3), one row for each factor; got (1, 3)"),
        ((GOOD, 1.0, 3.0), "mean must hold one entry for each sample, got float"),
        ((GOOD, "a"), "ridge must be a number or (2,), one for each factor; got 'a'"),
        ((GOOD, 1j), "ridge must be a number or (2,), one for each factor; got 1j"),
        ((None, 1.0), "factors must hold one entry for each sample, got NoneType"),
        ((GOOD, 1.0, [[1, 2, 3], [1, np.inf, 3]]), "mean[1] contains NaN or infinity"),
        (([], 1.0), "factors is empty"),
        ((np.ones((3, 2)), 1.0), "factors[0] must be a matrix (d, r) of real numbers, got shape (2,)"),
        ((GOOD * 1j, 1.0), "factors[0] must be a matrix (d, r) of real numbers"),
    ],
)
def test_bad_factors(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        FactoredSPD(*arguments)


def test_arguments_may_come_one_by_one():
    X = FactoredSPD(iter(GOOD), iter([1.0, 2.0]), iter(np.ones((2, 3))))
    assert_allclose(X.dense(), FactoredSPD(GOOD, [1.0, 2.0], np.ones((2, 3))).dense())


def test_choosing_none_and_other_methods_are_errors():
    X = make("even")
    with pytest.raises(ValueError, match="no samples are selected"):
        X[[]]
    with pytest.raises(TypeError, match=r"only SPDSL, SPDML and pairwise_sqdist accept FactoredSPD; .* X\.dense\(\)"):
        SPDNearestNeighbor().fit(X, LABELS)


def test_a_ridge_below_working_precision_is_an_error():
    F = np.random.default_rng(0).standard_normal((4, 6, 2))
    with pytest.raises(
        ValueError, match=r"X\[2\] is not positive definite to working precision: smallest eigenvalue 1e-17"
    ):
        aligned(2).fit(FactoredSPD(F, [1, 1, 1e-17, 1]), [0, 0, 1, 1])


def test_metrics_without_factored_distances_say_what_remains():
    with pytest.raises(
        ValueError,
        match=r"'cholesky' does not support distances between FactoredSPD .* beta='reduced' needs no such distances",
    ):
        aligned(3, metric="cholesky", n_within=1, n_between=1).fit(make("even"), LABELS)


def test_mixed_and_mismatched_stacks_are_errors():
    X = make("even")
    with pytest.raises(TypeError, match="A is factored but B is not"):
        pairwise_sqdist(X, X.dense())
    with pytest.raises(ValueError, match="A holds 9 x 9 matrices and B 10 x 10"):
        pairwise_sqdist(X, make("even+mean"))
    with pytest.raises(ValueError, match="X holds 10 x 10 matrices, but SPDSL was fitted on 9 x 9"):
        aligned(3, max_iter=1).fit(X, LABELS).predict(make("even+mean"))
