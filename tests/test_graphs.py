"""The pair graph against brute force, and its memory."""

import tracemalloc
import warnings

import numpy as np
import pytest

import plain
from spdsl.data import as_data
from spdsl.data.cluster_worker import Shard, Sides, compact, summarize_pair
from spdsl.data.memory import MemoryView
from spdsl.data.neighbor_search import Nearest, lowest, search_blocks, upper_blocks
from spdsl.geometry import METRICS, LowerBound
from spdsl.learning.graph import survey_pairs
from spdsl.learning.objectives import CenteredAlignment
from spdsl.learning.problem import Problem

LABELS = np.array([0, 1, 0, 2, 1, 0, 2, 0, 1, 0, 1])
N = len(LABELS)


def brute_force(D2, labels, n_within, n_between):
    """Pairs i < j with one among the other's nearest, ties to the lower index."""
    chosen = set()
    for a in range(len(labels)):
        for count, same in ((n_within, True), (n_between, False)):
            others = [b for b in range(len(labels)) if b != a and (labels[a] == labels[b]) == same]
            others.sort(key=lambda b: (D2[a, b], b))
            chosen |= {(min(a, b), max(a, b)) for b in (others if count == "all" else others[:count])}
    return sorted(chosen)


def edges(graph):
    return list(zip(graph.i.tolist(), graph.j.tolist(), strict=True))


@pytest.mark.filterwarnings("ignore:n_within")
@pytest.mark.parametrize("n_within", [1, 2, 3, 4, "all"])
@pytest.mark.parametrize("n_between", [1, 2, 5, 9, "all"])
def test_graph_equals_brute_force(as_array, n_within, n_between, rng, spd):
    X = spd(rng, N, 3)
    graph = survey_pairs(as_data(as_array(X)), LABELS, METRICS["lem"], n_within, n_between).graph
    assert edges(graph) == brute_force(plain.sqdist("lem", X, X), LABELS, n_within, n_between)
    np.testing.assert_array_equal(graph.same, LABELS[graph.i] == LABELS[graph.j])
    assert np.all(graph.i < graph.j)
    assert len(graph) == len(graph.i)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_builds_its_own_graph(name, rng, spd):
    X = spd(rng, N, 3)
    survey = survey_pairs(as_data(X), LABELS, METRICS[name], 1, 2)
    D2 = plain.sqdist(name, X, X)
    assert edges(survey.graph) == brute_force(D2, LABELS, 1, 2)
    assert survey.mean_distance == pytest.approx(np.sqrt(D2[np.triu_indices(N, 1)]).mean(), rel=1e-9)


def test_all_pairs_are_the_full_graph(rng, spd):
    graph = survey_pairs(as_data(spd(rng, N, 2)), LABELS, METRICS["euclid"], "all", "all").graph
    assert graph.is_full
    assert len(graph) == N * (N - 1) // 2
    assert not survey_pairs(as_data(spd(rng, N, 2)), LABELS, METRICS["euclid"], 1, 1).graph.is_full


def test_neighbors_count_from_either_side():
    """On a line 0 - 1 - 3 - 7 the nearest of 7 is 3, though 7 is not the nearest of 3."""
    X = (10.0 + np.array([0.0, 1.0, 3.0, 7.0]))[:, None, None]
    graph = survey_pairs(as_data(X), np.zeros(4, int), METRICS["euclid"], 1, "all").graph
    assert edges(graph) == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize("block_pairs", [1, 4, 9, 1 << 18])
def test_ties_go_to_the_lower_index(monkeypatch, block_pairs):
    monkeypatch.setattr("spdsl.data.neighbor_search.BLOCK_PAIRS", block_pairs)
    X = np.broadcast_to(np.eye(2), (8, 2, 2)) * 1.0  # all distances are zero
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    graph = survey_pairs(as_data(X), labels, METRICS["euclid"], 1, 1).graph
    assert edges(graph) == brute_force(np.zeros((8, 8)), labels, 1, 1)


@pytest.mark.parametrize("block_pairs", [1, 4, 30])
def test_blocks_give_the_same_graph(monkeypatch, block_pairs, rng, spd):
    X = spd(rng, N, 3)
    whole = survey_pairs(as_data(X), LABELS, METRICS["aim"], 2, 3)
    monkeypatch.setattr("spdsl.data.neighbor_search.BLOCK_PAIRS", block_pairs)
    parts = survey_pairs(as_data(X), LABELS, METRICS["aim"], 2, 3)
    assert edges(parts.graph) == edges(whole.graph)
    assert parts.mean_distance == pytest.approx(whole.mean_distance, rel=1e-12)


def test_more_neighbors_than_there_are_use_all_and_warn(rng, spd):
    X = spd(rng, N, 2)
    with pytest.warns(UserWarning, match="n_between=50, but no sample has more than 9"):
        graph = survey_pairs(as_data(X), LABELS, METRICS["euclid"], "all", 50).graph
    assert graph.is_full
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        survey_pairs(as_data(X), LABELS, METRICS["euclid"], 4, 9)


def test_a_class_of_one_has_no_neighbors_within(rng, spd):
    labels = np.array([0, 0, 0, 1])
    graph = survey_pairs(as_data(spd(rng, 4, 2)), labels, METRICS["lem"], 1, 1).graph
    assert not graph.same[(graph.i == 3) | (graph.j == 3)].any()


@pytest.mark.parametrize("bad", [0, -1, 1.5, "some"])
def test_a_count_that_is_none_is_an_error(bad, rng, spd):
    with pytest.raises(ValueError, match="n_between must be a positive integer, 'all' or 'auto'"):
        survey_pairs(as_data(spd(rng, N, 2)), LABELS, METRICS["euclid"], 1, bad)


@pytest.mark.parametrize("name", ["lem", "stein", "jeffreys"])
def test_graph_value_and_derivative_never_hold_n_by_n_numbers(monkeypatch, name, rng, spd):
    count = 3000 if name != "stein" else 1500  # Stein factorizes every pair of the original space
    monkeypatch.setattr("spdsl.data.neighbor_search.BLOCK_PAIRS", 1 << 14)
    X = spd(rng, count, 2)
    labels = rng.integers(0, 4, count)
    tracemalloc.start()
    survey = survey_pairs(as_data(X), labels, METRICS[name], 3, 2)
    graph = survey.graph
    objective = CenteredAlignment(graph, labels, 1 / survey.mean_distance**2)
    value, g = Problem(MemoryView(X), METRICS[name], objective, graph.i, graph.j).cost(np.eye(2)[:, :1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(value)
    assert np.isfinite(g).all()
    assert peak < 8 * count * count / 2


def recall(found, expected):
    """Share of the expected pairs that were found."""
    keys = [set((g.i * g.n_samples + g.j).tolist()) for g in (found, expected)]
    return len(keys[0] & keys[1]) / len(keys[1])


@pytest.mark.parametrize("n_classes", [2, 5])
def test_approximate_neighbors_are_exact_where_classes_are_small(n_classes, rng, spd):
    labels = np.arange(60) % n_classes
    X = spd(rng, 60, 4)
    exact, approximate = (
        survey_pairs(as_data(X), labels, METRICS["lem"], 3, 4, approximate=choice) for choice in (False, True)
    )
    np.testing.assert_array_equal(approximate.graph.i, exact.graph.i)
    np.testing.assert_array_equal(approximate.graph.j, exact.graph.j)
    np.testing.assert_array_equal(approximate.graph.same, exact.graph.same)
    np.testing.assert_allclose(approximate.mean_distance, exact.mean_distance, rtol=0.02)


def test_approximate_neighbors_of_an_index_are_nearly_all_found(monkeypatch, rng, spd):
    pytest.importorskip("faiss")
    monkeypatch.setattr("spdsl.data.approximate_search.FEW", 10)
    labels = np.sort(rng.integers(3, size=3000))
    X = spd(rng, 3000, 3) * (1 + labels[:, None, None])
    exact, approximate = (
        survey_pairs(as_data(X), labels, METRICS["lem"], 5, 5, approximate=choice).graph for choice in (False, True)
    )
    assert recall(approximate, exact) > 0.9
    assert np.array_equal(approximate.same, labels[approximate.i] == labels[approximate.j])
    assert (approximate.i < approximate.j).all()


@pytest.mark.parametrize("place", ["memory", "disk", "blocks"])
def test_approximate_neighbors_under_a_metric_with_bounds_have_its_distances(place, tmp_path, monkeypatch, rng, spd):
    monkeypatch.setattr("spdsl.data.approximate_search.RANKED", 70)
    monkeypatch.setattr("spdsl.data.disk.PAIR_BYTES", 1 << 14)
    X, labels, aim = spd(rng, 200, 5), np.arange(200) % 3, METRICS["aim"]
    if place == "blocks":
        X = np.stack([X, X[::-1]], axis=1)
    np.save(tmp_path / "X.npy", X)
    data = as_data(tmp_path / "X.npy" if place == "disk" else X)
    exact, approximate = (survey_pairs(data, labels, aim, 3, 4, approximate=choice) for choice in (False, True))
    assert recall(approximate.graph, exact.graph) > 0.98
    np.testing.assert_allclose(approximate.mean_distance, exact.mean_distance, rtol=0.02)


def test_approximate_neighbors_of_several_matrices_on_disk(tmp_path, rng, spd):
    X, labels = np.stack([spd(rng, 60, 4), spd(rng, 60, 4)], axis=1), np.arange(60) % 3
    np.save(tmp_path / "X.npy", X)
    found = [
        survey_pairs(as_data(x), labels, METRICS["lem"], 3, 4, approximate=True).graph for x in (X, tmp_path / "X.npy")
    ]
    np.testing.assert_array_equal(found[0].i, found[1].i)
    np.testing.assert_array_equal(found[0].j, found[1].j)


def test_approximate_neighbors_need_vectors(rng, spd):
    with pytest.raises(
        ValueError,
        match=r"'approximate'} needs .* a Euclidean distance between vectors, or bounded by one \('aim', 'lem'",
    ):
        survey_pairs(as_data(spd(rng, N, 2)), LABELS, METRICS["stein"], 1, 1, approximate=True)


@pytest.mark.parametrize("metric", ["stein", "aim"])
@pytest.mark.parametrize("block_pairs", [36, 1 << 18])
def test_pairs_of_shards_reduced_elsewhere_tell_the_same(monkeypatch, block_pairs, metric, rng, spd):
    """What workers of a cluster send back of every pair of shards, merged, is what one search over all pairs finds."""
    X, labels, metric, capacities = spd(rng, 23, 3), np.arange(23) % 3, METRICS[metric], (2, 3)
    bound = LowerBound.around(metric, X)
    expected = search_blocks(upper_blocks(X, metric), labels, capacities, measure=True)
    monkeypatch.setattr("spdsl.data.neighbor_search.BLOCK_PAIRS", block_pairs)
    parts = [slice(0, 9), slice(9, 10), slice(10, 23)]
    factors = [compact(Shard(X[part]), metric, bound) for part in parts]
    within, between, total = Nearest(23, 2), Nearest(23, 3), 0.0
    for a, b in [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]:
        both = np.concatenate([labels[parts[k]] for k in sorted({a, b})])
        places = parts[a].start, parts[b].start
        limits = tuple(np.concatenate([one.reach(parts[k]) for k in sorted({a, b})]) for one in (within, between))
        sides = Sides(places, both, limits)
        told = summarize_pair(factors[a], None if a == b else factors[b], sides, capacities, metric, bound)
        total += told.total
        for nearest, offers in ((within, told.within), (between, told.between)):
            for offer in offers:
                nearest.merge(*offer)
    for found, wanted in ((within, expected.within), (between, expected.between)):
        np.testing.assert_array_equal(found.index, wanted.index)
        np.testing.assert_allclose(found.d2, wanted.d2, rtol=1e-12)
    if bound is None:
        assert total / (23 * 22 / 2) == pytest.approx(expected.mean_distance, rel=1e-12)


def test_the_lowest_are_those_of_a_stable_sort(rng):
    d2 = rng.integers(6, size=(200, 17)).astype(float)
    d2[rng.random(d2.shape) < 0.3] = np.inf
    order = np.argsort(d2, axis=1, kind="stable")
    for count in (1, 4, 17, 30):
        index, values = lowest(d2, count)
        np.testing.assert_array_equal(index, order[:, :count])
        np.testing.assert_array_equal(values, np.take_along_axis(d2, order[:, :count], axis=1))
