"""The pair graph against brute force, and its memory."""

import tracemalloc
import warnings

import numpy as np
import pytest

import plain
from spdsl import graphs
from spdsl.graphs import survey_pairs, upper_blocks
from spdsl.metrics import METRICS
from spdsl.objectives import CenteredAlignment
from spdsl.search.nearest import lowest, summarise
from spdsl.solver import Problem
from spdsl.stacks import MemoryStack

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
    graph = survey_pairs(as_array(X), LABELS, METRICS["lem"], n_within, n_between).graph
    assert edges(graph) == brute_force(plain.sqdist("lem", X, X), LABELS, n_within, n_between)
    np.testing.assert_array_equal(graph.same, LABELS[graph.i] == LABELS[graph.j])
    assert np.all(graph.i < graph.j)
    assert len(graph) == len(graph.i)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_builds_its_own_graph(name, rng, spd):
    X = spd(rng, N, 3)
    survey = survey_pairs(X, LABELS, METRICS[name], 1, 2)
    D2 = plain.sqdist(name, X, X)
    assert edges(survey.graph) == brute_force(D2, LABELS, 1, 2)
    assert survey.mean_distance == pytest.approx(np.sqrt(D2[np.triu_indices(N, 1)]).mean(), rel=1e-9)


def test_all_pairs_are_the_full_graph(rng, spd):
    graph = survey_pairs(spd(rng, N, 2), LABELS, METRICS["euclid"], "all", "all").graph
    assert graph.is_full
    assert len(graph) == N * (N - 1) // 2
    assert not survey_pairs(spd(rng, N, 2), LABELS, METRICS["euclid"], 1, 1).graph.is_full


def test_neighbours_count_from_either_side():
    """On a line 0 - 1 - 3 - 7 the nearest of 7 is 3, though 7 is not the nearest of 3."""
    X = (10.0 + np.array([0.0, 1.0, 3.0, 7.0]))[:, None, None]
    graph = survey_pairs(X, np.zeros(4, int), METRICS["euclid"], 1, "all").graph
    assert edges(graph) == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize("block_pairs", [1, 4, 9, 1 << 18])
def test_ties_go_to_the_lower_index(monkeypatch, block_pairs):
    monkeypatch.setattr(graphs, "BLOCK_PAIRS", block_pairs)
    X = np.broadcast_to(np.eye(2), (8, 2, 2)) * 1.0  # all distances are zero
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    graph = survey_pairs(X, labels, METRICS["euclid"], 1, 1).graph
    assert edges(graph) == brute_force(np.zeros((8, 8)), labels, 1, 1)


@pytest.mark.parametrize("block_pairs", [1, 4, 30])
def test_blocks_give_the_same_graph(monkeypatch, block_pairs, rng, spd):
    X = spd(rng, N, 3)
    whole = survey_pairs(X, LABELS, METRICS["aim"], 2, 3)
    monkeypatch.setattr(graphs, "BLOCK_PAIRS", block_pairs)
    parts = survey_pairs(X, LABELS, METRICS["aim"], 2, 3)
    assert edges(parts.graph) == edges(whole.graph)
    assert parts.mean_distance == pytest.approx(whole.mean_distance, rel=1e-12)


def test_more_neighbours_than_there_are_use_all_and_warn(rng, spd):
    X = spd(rng, N, 2)
    with pytest.warns(UserWarning, match="n_between=50, but no sample has more than 9"):
        graph = survey_pairs(X, LABELS, METRICS["euclid"], "all", 50).graph
    assert graph.is_full
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        survey_pairs(X, LABELS, METRICS["euclid"], 4, 9)


def test_a_class_of_one_has_no_neighbours_within(rng, spd):
    labels = np.array([0, 0, 0, 1])
    graph = survey_pairs(spd(rng, 4, 2), labels, METRICS["lem"], 1, 1).graph
    assert not graph.same[(graph.i == 3) | (graph.j == 3)].any()


@pytest.mark.parametrize("bad", [0, -1, 1.5, "some"])
def test_a_count_that_is_none_is_an_error(bad, rng, spd):
    with pytest.raises(ValueError, match="n_between must be a positive integer or 'all'"):
        survey_pairs(spd(rng, N, 2), LABELS, METRICS["euclid"], 1, bad)


@pytest.mark.parametrize("name", ["lem", "stein", "jeffreys"])
def test_graph_value_and_derivative_never_hold_n_by_n_numbers(monkeypatch, name, rng, spd):
    count = 3000 if name != "stein" else 1500  # Stein factorises every pair of the original space
    monkeypatch.setattr(graphs, "BLOCK_PAIRS", 1 << 14)
    X = spd(rng, count, 2)
    labels = rng.integers(0, 4, count)
    tracemalloc.start()
    survey = survey_pairs(X, labels, METRICS[name], 3, 2)
    graph = survey.graph
    objective = CenteredAlignment(graph, labels, 1 / survey.mean_distance**2)
    value, g = Problem(MemoryStack(X), METRICS[name], objective, graph.i, graph.j).cost(np.eye(2)[:, :1])
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
def test_approximate_neighbours_are_exact_where_classes_are_small(n_classes, rng, spd):
    labels = np.arange(60) % n_classes
    X = spd(rng, 60, 4)
    exact, approximate = (survey_pairs(X, labels, METRICS["lem"], 3, 4, approximate=choice) for choice in (False, True))
    np.testing.assert_array_equal(approximate.graph.i, exact.graph.i)
    np.testing.assert_array_equal(approximate.graph.j, exact.graph.j)
    np.testing.assert_array_equal(approximate.graph.same, exact.graph.same)
    np.testing.assert_allclose(approximate.mean_distance, exact.mean_distance, rtol=0.02)


def test_approximate_neighbours_of_an_index_are_nearly_all_found(monkeypatch, rng, spd):
    pytest.importorskip("faiss")
    monkeypatch.setattr("spdsl.search.approximate.FEW", 10)
    labels = np.sort(rng.integers(3, size=3000))
    X = spd(rng, 3000, 3) * (1 + labels[:, None, None])
    exact, approximate = (
        survey_pairs(X, labels, METRICS["lem"], 5, 5, approximate=choice).graph for choice in (False, True)
    )
    assert recall(approximate, exact) > 0.9
    assert np.array_equal(approximate.same, labels[approximate.i] == labels[approximate.j])
    assert (approximate.i < approximate.j).all()


def test_approximate_neighbours_need_vectors(rng, spd):
    with pytest.raises(ValueError, match="search='approximate' needs a metric that is a distance of vectors, 'lem'"):
        survey_pairs(spd(rng, N, 2), LABELS, METRICS["aim"], 1, 1, approximate=True)


def test_a_block_reduced_elsewhere_tells_the_same(rng, spd):
    X, labels = spd(rng, 23, 3), np.arange(23) % 3

    class Elsewhere:
        def block_summaries(self, metric, labels, capacities):
            for rows, columns, d2 in upper_blocks(X, metric):
                parts = [labels[rows]] if rows == columns else [labels[rows], labels[columns]]
                yield summarise(rows, columns, d2, np.concatenate(parts), capacities)

    expected = survey_pairs(X, labels, METRICS["stein"], 2, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spdsl.graphs.BLOCK_PAIRS", 36)
        found = survey_pairs(Elsewhere(), labels, METRICS["stein"], 2, 3)
    np.testing.assert_array_equal(found.graph.i, expected.graph.i)
    np.testing.assert_array_equal(found.graph.j, expected.graph.j)
    np.testing.assert_allclose(found.mean_distance, expected.mean_distance, rtol=1e-12)


def test_the_lowest_are_those_of_a_stable_sort(rng):
    d2 = rng.integers(6, size=(200, 17)).astype(float)
    d2[rng.random(d2.shape) < 0.3] = np.inf
    order = np.argsort(d2, axis=1, kind="stable")
    for count in (1, 4, 17, 30):
        index, values = lowest(d2, count)
        np.testing.assert_array_equal(index, order[:, :count])
        np.testing.assert_array_equal(values, np.take_along_axis(d2, order[:, :count], axis=1))
