"""The pair graph against brute force, and its memory."""

import tracemalloc
import warnings

import numpy as np
import pytest

import plain
from spdsl import graphs
from spdsl.graphs import survey_pairs
from spdsl.metrics import METRICS
from spdsl.objectives import CenteredAlignment
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
