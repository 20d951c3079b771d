"""Neighbors found with lower bounds against all pairs: the same indices, the same distances to the last bit."""

import numpy as np
import pytest

from samples import make_spd
from spdsl import SPDNearestNeighbor
from spdsl.backend import like, pencil_logdets, to_numpy
from spdsl.data import DiskData, as_data
from spdsl.data.bounded_search import bound_of
from spdsl.data.neighbor_search import search_blocks
from spdsl.data.readers import FileReader
from spdsl.estimators import nearest
from spdsl.geometry import METRICS, metric_for

AIM = METRICS["aim"]
CAPACITIES = [(3, 4), (None, 5), (2, None), (1, 1)]


@pytest.fixture
def computed(monkeypatch):
    """Counts the pairs of which AIM distances are computed one by one."""
    counts = []
    matched = type(AIM).matched

    def counted(self, FA, i, FB, j):
        counts.append(len(i))
        return matched(self, FA, i, FB, j)

    monkeypatch.setattr(type(AIM), "matched", counted)
    return counts


def clustered(rng, count=90, n=4, classes=5):
    """Matrices around a few others, some of them copies and some in a grid with many equal distances; labels."""
    A = rng.standard_normal((classes, n, n))[np.arange(count) % classes] + 0.2 * rng.standard_normal((count, n, n))
    X = A @ A.mT + 0.1 * np.eye(n)
    X[60:75] = X[5:20]
    X[75:] = np.eye(n) * 2.0 ** rng.integers(-2, 3, (len(X) - 75, n))[:, None, :]
    return X, np.arange(count) % 4


def assert_same(found, wanted):
    for kind in ("within", "between"):
        np.testing.assert_array_equal(getattr(found, kind).index, getattr(wanted, kind).index)
        np.testing.assert_array_equal(getattr(found, kind).d2, getattr(wanted, kind).d2)


def neighbors(data, labels, capacities):
    return data.neighbors(AIM, labels, capacities, measure=False, approximate=False)


def all_pairs(data, labels, capacities):
    return search_blocks(data.sqdist_blocks(AIM), labels, capacities, measure=False)


@pytest.mark.parametrize("condition", [1e2, 1e7, 1e12])
def test_bounds_are_below_the_distances(as_array, condition, rng):
    X = as_array(np.concatenate([make_spd(rng, 20, 5, condition), rng.uniform(0.1, 10, (3, 1, 1)) * np.eye(5)]))
    F = AIM.factor(X)
    bound = bound_of(AIM, F)
    B = bound.factors(F)
    low, d2 = to_numpy(bound.cross(B, B)), to_numpy(AIM.cross(F, F))
    assert np.all(low <= d2 * (1 + 1e-9))
    assert condition > 1e11 or np.median(low[d2 > 1] / d2[d2 > 1]) > 0.5


@pytest.mark.parametrize("capacities", CAPACITIES)
@pytest.mark.parametrize("block", [1 << 9, 1 << 20])
def test_the_graph_is_that_of_all_pairs(as_array, capacities, block, computed, monkeypatch, rng):
    monkeypatch.setattr("spdsl.data.bounded_search.BLOCK_BOUNDS", block)
    X, labels = clustered(rng)
    data = as_data(as_array(X))
    assert_same(neighbors(data, labels, capacities), all_pairs(data, labels, capacities))
    assert 0 < sum(computed) < 0.6 * len(X) * (len(X) - 1) / 2


def test_the_graph_of_several_matrices_a_sample(rng):
    X, labels = clustered(rng)
    data = as_data(np.stack([X, X[::-1]], axis=1))
    together = zip(*(part.sqdist_blocks(AIM) for part in data.parts), strict=True)
    wanted = search_blocks(
        ((a[0], a[1], sum(part[2] for part in (a, b))) for a, b in together), labels, (3, 4), measure=False
    )
    found = data.neighbors(metric_for(AIM, data.shape), labels, (3, 4), measure=False, approximate=False)
    assert_same(found, wanted)


def test_the_graph_of_samples_on_disk(tmp_path, computed, monkeypatch, rng):
    monkeypatch.setattr("spdsl.data.neighbor_search.BLOCK_PAIRS", 900)
    X, labels = clustered(rng)
    np.save(tmp_path / "X.npy", X)
    found = neighbors(DiskData(FileReader.npy(tmp_path / "X.npy")), labels, (3, 4))
    assert_same(found, all_pairs(as_data(X), labels, (3, 4)))
    assert 0 < sum(computed) < 0.6 * len(X) * (len(X) - 1) / 2


def test_matrices_that_are_all_alike_tie(as_array):
    X = np.broadcast_to(np.diag([1.0, 2.0]), (40, 2, 2)) * 1.0
    labels = np.arange(40) % 2
    data = as_data(as_array(X))
    assert_same(neighbors(data, labels, (2, 3)), all_pairs(data, labels, (2, 3)))


@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("blocks", [1, 2])
def test_the_neighbors_of_new_matrices(as_array, k, blocks, computed, monkeypatch, rng):
    X, y = clustered(rng, 140)
    if blocks == 2:
        X = np.stack([X, X[::-1]], axis=1)
    train, new = as_array(X[:90]), as_array(X[50:])
    model = SPDNearestNeighbor("aim", n_neighbors=k).fit(train, y[:90])
    d2, index = model.kneighbors(new)
    share = sum(computed) / (blocks * 90 * 90)
    again = model.kneighbors(new)
    monkeypatch.setattr(nearest, "WORTH", np.inf)
    wanted_d2, wanted_index = model.kneighbors(new)
    np.testing.assert_array_equal(index, wanted_index)
    np.testing.assert_array_equal(d2, wanted_d2)
    np.testing.assert_array_equal(again[1], wanted_index)
    assert 0 < share < 0.6


def test_a_classifier_that_is_fitted_again_forgets_the_search(rng):
    X, y = clustered(rng, 140)
    model = SPDNearestNeighbor("aim").fit(X[:70], y[:70])
    model.predict(X)
    model.fit(X[70:], y[70:])
    np.testing.assert_array_equal(model.kneighbors(X[70:])[1][:, 0], np.argmin(AIM.sqdist(X[70:], X[70:]), axis=1))


def test_matrices_without_accurate_logarithms_are_compared_one_by_one(rng):
    """Where rounding is larger than the distances, the bound excludes nothing, and all pairs are computed."""
    X = make_spd(rng, 80, 4, 1e13)
    model = SPDNearestNeighbor("aim", n_neighbors=2).fit(X[:40], np.arange(40) % 2)
    wanted = np.argsort(AIM.sqdist(X[40:], X[:40]), axis=1, kind="stable")[:, :2]
    np.testing.assert_array_equal(model.kneighbors(X[40:])[1], wanted)


@pytest.mark.parametrize("condition", [1e2, 1e6, 1e12])
@pytest.mark.parametrize("blocks", [1, 2])
def test_closer_bounds_are_below_the_distances_and_close(as_array, condition, blocks, rng):
    X = make_spd(rng, 24, 6, condition)
    X = np.concatenate([X, X[:4], X[4:8] * (1 + 1e-7), 1e9 * X[:2]])
    X = as_array(X if blocks == 1 else np.stack([X, X[::-1].copy()], axis=1))
    metric = metric_for(AIM, X.shape)
    F = metric.factor(X)
    bound = bound_of(metric, F)
    i, j = (index.ravel() for index in np.indices((len(X), len(X))))
    low = to_numpy(bound.closer(F, like(i, F[0]), F, like(j, F[0]))).reshape(len(X), -1)
    d2, first = to_numpy(metric.cross(F, F)), to_numpy(bound.cross(bound.factors(F), bound.factors(F)))
    assert np.all(low <= d2 * (1 + 1e-9))
    near = (d2 > 1) & (d2 < 4)  # far from where q stops following the square
    if condition < 1e7 and near.any():
        assert np.median(low[near] / d2[near]) > max(0.97, np.median(first[near] / d2[near]))


def test_q_follows_the_square_from_below():
    """Two by two matrices diag(e^mu, e^-mu), whose squared distance from the identity is 2 mu^2."""
    mu = np.linspace(0, 12, 400)
    X = np.exp(np.stack([mu, -mu], axis=1))[:, :, None] * np.eye(2)
    bound, F = bound_of(AIM, AIM.factor(X)), AIM.factor(X)
    low = bound.closer(F, np.zeros(400, int), F, np.arange(400))
    assert np.all(low <= 2 * mu**2)
    small = (mu > 0.01) & (mu < 3)
    assert np.all(low[small] > 2 * mu[small] ** 2 * 0.98)


@pytest.mark.parametrize("hard", [-1.0, 0.05])
def test_closer_bounds_change_no_neighbor(as_array, hard, computed, monkeypatch, rng):
    """Matrices without classes, all about equally far: the first bounds leave nearly all pairs, the closer ones few."""
    X = rng.standard_normal((80, 12, 14))
    X = as_array(X @ X.swapaxes(1, 2) / 14 + 1e-2 * np.eye(12))
    labels, data = np.arange(80) % 4, as_data(X)
    queries = as_array(to_numpy(X)[::7] + 1e-3 * np.eye(12))
    found = []
    for share in (2.0, hard):  # never, and early
        monkeypatch.setattr("spdsl.data.bounded_search.hard_share", lambda x, share=share: share)
        computed.clear()
        graph = neighbors(data, labels, (3, 4))
        pairs = sum(computed)
        found.append((graph, SPDNearestNeighbor("aim", n_neighbors=3).fit(X, labels).kneighbors(queries), pairs))
    (graph, answer, all_of_it), (other, same, fewer) = found
    assert_same(other, graph)
    assert_same(other, all_pairs(data, labels, (3, 4)))
    for wanted, got in zip(answer, same, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert fewer < 0.7 * all_of_it


def test_sums_of_two_matrices_have_their_determinants(as_array, rng):
    A, B = as_array(make_spd(rng, 5, 7, 1e3)), as_array(make_spd(rng, 4, 7, 1e3))
    i, j = np.array([0, 4, 4, 2]), np.array([3, 0, 1, 1])
    found = to_numpy(pencil_logdets(A, like(i, A), B, like(j, A), [0.5, 1.0, 20.0]))
    A, B = to_numpy(A), to_numpy(B)
    wanted = [[np.linalg.slogdet(A[p] + t * B[q])[1] for t in (0.5, 1, 20)] for p, q in zip(i, j, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert pencil_logdets(A, i[:0], B, j[:0], [1.0]).shape == (0, 1)
    assert np.isnan(
        to_numpy(pencil_logdets(as_array(-A), like(i, as_array(A)), as_array(-B), like(j, as_array(A)), [1.0]))
    ).all()
