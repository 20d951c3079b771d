"""Values of the metrics: against independent routes, and the properties that each declares."""

import itertools

import numpy as np
import pyriemann.geometry.distance as pyriemann_distance
import pytest
import scipy.linalg

import plain
from samples import make_spd
from spdsl import backend, check_metric, pairwise_sqdist
from spdsl.geometry import METRICS, NotPositiveDefiniteError, get_metric

# pyRiemann's names; Jeffreys is a divergence there too, not to be squared
PYRIEMANN = {
    "aim": "distance_riemann",
    "stein": "distance_logdet",
    "lem": "distance_logeuclid",
    "jeffreys": "distance_kullback_sym",
    "cholesky": "distance_chol",
    "log-cholesky": "distance_logchol",
    "power": "distance_poweuclid",
    "wasserstein": "distance_wasserstein",
    "euclid": "distance_euclid",
}
# metrics that others register need no formula here: `check_metric` and the properties below hold them to what they declare
KNOWN = [name for name in METRICS if name in plain.SQDIST]
# the square root is a distance; of Jeffreys it is not
TRUE_METRICS = [name for name in KNOWN if name != "jeffreys"]

every_metric = pytest.mark.parametrize("name", METRICS)
known_metric = pytest.mark.parametrize("name", KNOWN)


def values(as_array, name, A, B):
    return backend.to_numpy(METRICS[name].sqdist(as_array(A), as_array(B)))


@every_metric
def test_every_registered_metric_passes_the_public_check(name):
    check_metric(name)


@known_metric
@pytest.mark.parametrize("size", [1, 2, 5])
def test_values_equal_the_plain_formula(as_array, name, size, rng, spd):
    A, B = spd(rng, 4, size), spd(rng, 3, size)
    np.testing.assert_allclose(values(as_array, name, A, B), plain.sqdist(name, A, B), rtol=1e-10)


def test_plain_logarithm_is_a_logarithm(rng, spd):
    for P in spd(rng, 3, 5, 1e3):
        np.testing.assert_allclose(plain.log(P), scipy.linalg.logm(P), atol=1e-11)


@pytest.mark.parametrize("name", PYRIEMANN)
def test_values_equal_pyriemann(name, rng, spd):
    A, B = spd(rng, 3, 4), spd(rng, 3, 4)
    distance = getattr(pyriemann_distance, PYRIEMANN[name])
    options = (0.5,) if name == "power" else ()
    expected = np.array([[distance(P, Q, *options) for Q in B] for P in A])
    if name != "jeffreys":
        expected **= 2
    np.testing.assert_allclose(values(np.asarray, name, A, B), expected, rtol=1e-9)


@every_metric
def test_symmetry(as_array, name, rng, spd):
    A, B = spd(rng, 4, 3), spd(rng, 5, 3)
    np.testing.assert_allclose(values(as_array, name, A, B), values(as_array, name, B, A).T, rtol=1e-11)


@every_metric
def test_positive_and_zero_only_at_equal_matrices(as_array, name, rng, spd):
    A = spd(rng, 5, 4)
    d2 = values(as_array, name, A, A)
    assert np.abs(np.diag(d2)).max() < 1e-12
    assert d2[~np.eye(5, dtype=bool)].min() > 1e-3 * d2.max()
    assert not np.diag(backend.to_numpy(pairwise_sqdist(as_array(A), metric=name))).any()


@known_metric
@pytest.mark.parametrize("gap", [1e-2, 1e-5])
def test_close_matrices_keep_their_distance(name, gap, rng, spd):
    """d2 of nearly equal matrices is never negative, and right to the rounding of its terms."""
    P = spd(rng, 1, 4)[0]
    Q = P * (1 + gap)
    d2 = values(np.asarray, name, P[None], Q[None])[0, 0]
    assert d2 >= 0
    assert d2 == pytest.approx(plain.SQDIST[name](P, Q), rel=1e-6, abs=1e-13)


@pytest.mark.parametrize("name", TRUE_METRICS)
def test_triangle_inequality_of_the_root(name, rng, spd):
    A = np.concatenate([spd(rng, 8, 3, 1e3), 1e-2 * spd(rng, 4, 3)])
    d = np.sqrt(pairwise_sqdist(A, metric=name))
    for a, b, c in itertools.permutations(range(len(A)), 3):
        assert d[a, c] <= d[a, b] + d[b, c] + 1e-9


def test_root_of_jeffreys_breaks_the_triangle_inequality():
    A = np.array([1.0, 10.0, 100.0]).reshape(3, 1, 1)
    d = np.sqrt(pairwise_sqdist(A, metric="jeffreys"))
    assert d[0, 2] > d[0, 1] + d[1, 2] + 1


@every_metric
def test_permutation_equivariance(as_array, name, rng, spd):
    A, B = spd(rng, 5, 3), spd(rng, 4, 3)
    p, q = rng.permutation(5), rng.permutation(4)
    np.testing.assert_allclose(
        values(as_array, name, A[p], B[q]), values(as_array, name, A, B)[np.ix_(p, q)], rtol=1e-10, atol=1e-12
    )


# ------------------------------------------------------------------ invariance, as declared and no further


def congruent(name, A, M):
    """Largest relative change of the distances when P -> M'PM."""
    before = pairwise_sqdist(A, metric=name)
    after = pairwise_sqdist(M.T @ A @ M, metric=name)
    off = ~np.eye(len(A), dtype=bool)
    return np.max(np.abs(after - before)[off] / before[off])


@every_metric
def test_invariance_is_what_the_metric_declares(name, rng, spd):
    A = spd(rng, 4, 3)
    rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    linear = rotation @ np.diag([0.5, 1.0, 2.0]) @ np.linalg.qr(rng.standard_normal((3, 3)))[0]
    changes = {"orthogonal": congruent(name, A, rotation), "linear": congruent(name, A, linear)}
    kept = {"linear": ["orthogonal", "linear"], "orthogonal": ["orthogonal"], "none": []}[METRICS[name].invariance]
    for group, change in changes.items():
        assert change < 1e-10 if group in kept else change > 1e-2, (group, change)


@every_metric
def test_scale_free_is_what_the_metric_declares(name, rng, spd):
    change = congruent(name, spd(rng, 4, 3), np.sqrt(7.0) * np.eye(3))
    assert change < 1e-10 if METRICS[name].scale_free else change > 1e-2


@known_metric
def test_inversion_changes_nothing_where_geometry_says_so(name, rng, spd):
    A = spd(rng, 4, 3)
    inverse = np.linalg.inv(A)
    before, after = pairwise_sqdist(A, metric=name), pairwise_sqdist((inverse + inverse.mT) / 2, metric=name)
    same = np.allclose(before, after, rtol=1e-9)
    assert same == (name in ("aim", "stein", "lem", "jeffreys"))


# ------------------------------------------------------------------ routes that must agree


@every_metric
@pytest.mark.parametrize("count", [6, 40])  # 40 with 30 pairs takes the sparse route
def test_pairs_equal_cross(as_array, name, count, rng, spd):
    P = spd(rng, count, 3)
    i, j = np.triu_indices(count, 1)
    chosen = np.sort(rng.choice(len(i), min(30, len(i)), replace=False))
    i, j = i[chosen], j[chosen]
    d2, _ = METRICS[name].pairs(as_array(P), as_array(i), as_array(j))
    np.testing.assert_allclose(backend.to_numpy(d2), values(as_array, name, P, P)[i, j], rtol=1e-9)


@every_metric
def test_blocks_change_no_value(monkeypatch, name, rng, spd):
    A, B = spd(rng, 9, 4), spd(rng, 8, 4)
    whole = values(np.asarray, name, A, B)
    monkeypatch.setattr("spdsl.backend.blocks.BLOCK_BYTES", 300)
    np.testing.assert_allclose(values(np.asarray, name, A, B), whole, rtol=1e-12)


@every_metric
def test_derivatives_do_not_depend_on_the_order_in_memory(name, rng, spd):
    P, (i, j) = spd(rng, 8, 3), np.triu_indices(8, 1)
    c = rng.standard_normal(len(i))
    expected = METRICS[name].pairs(P, i, j)[1](c)
    found = METRICS[name].pairs(np.ascontiguousarray(P.mT).mT, i, j)[1](c)
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


def set_threads(monkeypatch, count):
    """The number of threads, wherever it is asked for."""
    monkeypatch.setattr("spdsl.backend.blocks.threads", lambda: count)
    monkeypatch.setattr(backend, "threads", lambda: count)


@pytest.mark.parametrize("name", ["aim", "stein", "wasserstein"])
def test_another_number_of_threads_between_value_and_derivative_is_harmless(monkeypatch, name, rng, spd):
    P, (i, j) = spd(rng, 40, 12), np.triu_indices(40, 1)  # enough for more than one block
    set_threads(monkeypatch, 1)
    expected = METRICS[name].pairs(P, i, j)[1](np.ones(len(i)))
    _, pullback = METRICS[name].pairs(P, i, j)
    set_threads(monkeypatch, 3)
    np.testing.assert_allclose(pullback(np.ones(len(i))), expected, atol=1e-12 * np.abs(expected).max())


@every_metric
def test_no_pairs_give_no_distances_and_zero_derivative(as_array, name, rng, spd):
    none = as_array(np.zeros(0, int))
    d2, pullback = METRICS[name].pairs(as_array(spd(rng, 3, 2)), none, none)
    assert tuple(d2.shape) == (0,)
    assert not backend.to_numpy(pullback(as_array(np.zeros(0)))).any()


@every_metric
def test_every_alias_and_the_metric_itself_are_accepted(name):
    metric = METRICS[name]
    assert get_metric(metric) is metric
    for alias in (name, *metric.aliases):
        assert get_metric(alias) is metric


def test_names_and_aliases_are_unique():
    names = [alias for metric in METRICS.values() for alias in (metric.name, *metric.aliases)]
    assert len(names) == len(set(names))


def test_unknown_metric_is_an_error_that_lists_the_known():
    with pytest.raises(ValueError, match=r"unknown metric 'nonsense'.*'aim'.*'lem'"):
        get_metric("nonsense")


@pytest.mark.parametrize("name", [name for name in KNOWN if name != "euclid"])
def test_indefinite_matrices_raise_one_class_of_error(as_array, name):
    P = as_array(np.stack([np.eye(2), np.diag([1.0, -1.0])]))
    index = as_array(np.array([0])), as_array(np.array([1]))
    with pytest.raises(NotPositiveDefiniteError):
        METRICS[name].pairs(P, *index)


# ------------------------------------------------------------------ accuracy on ill-conditioned matrices


@pytest.mark.parametrize("name", ["aim", "lem"])
def test_a_common_scale_of_the_features_costs_no_digits(name, rng):
    """Features in units that differ by 1e6: AIM does not change at all, LEM is right to 1e-9 on diagonal matrices."""
    s = np.logspace(0, -6, 5)
    if name == "aim":
        A = make_spd(rng, 3, 5)
        scaled = s[:, None] * A * s
        off = ~np.eye(3, dtype=bool)
        before, after = pairwise_sqdist(A, metric="aim"), pairwise_sqdist(scaled, metric="aim")
        np.testing.assert_allclose(after[off], before[off], rtol=1e-11)
    else:
        w = s**2 * rng.uniform(0.5, 2, (2, 5))
        A = w[:, :, None] * np.eye(5)
        expected = np.sum(np.log(w[0] / w[1]) ** 2)
        assert pairwise_sqdist(A, metric="lem")[0, 1] == pytest.approx(expected, rel=1e-12)


def test_aim_between_matrices_whose_large_directions_cross():
    """P = diag(1, e), Q = diag(e, 1), rotated: the eigenvalues of P^-1 Q spread by 1e20, beyond double precision."""
    e = 1e-10
    V = np.array([[3.0, -4.0], [4.0, 3.0]]) / 5
    P, Q = V @ np.diag([1.0, e]) @ V.T, V @ np.diag([e, 1.0]) @ V.T
    d2 = METRICS["aim"].sqdist(P[None], Q[None])[0, 0]
    assert d2 == pytest.approx(2 * np.log(e) ** 2, rel=1e-6)


def test_a_singular_value_decomposition_that_fails_is_taken_of_the_transpose(spd, rng, monkeypatch):
    P = spd(rng, 5, 6, condition=1e10)
    expected = get_metric("lem").factor(P)[0]
    real, bad, failed = np.linalg.svd, np.linalg.cholesky(P[2]), []

    def svd(A, *args, **kwargs):  # as LAPACK has done to a Cholesky factor of a real matrix
        if any(np.allclose(L, bad, rtol=1e-12, atol=0) for L in np.atleast_3d(A)):
            failed.append(len(A))
            raise np.linalg.LinAlgError("SVD did not converge")
        return real(A, *args, **kwargs)

    monkeypatch.setattr(np.linalg, "svd", svd)
    np.testing.assert_allclose(get_metric("lem").factor(P)[0], expected, rtol=1e-10, atol=1e-12)
    assert failed == [5, 1]
