"""Objectives against their dense definitions, and where there is nothing to align."""

import tracemalloc

import numpy as np
import pytest

import plain
from spdsl import backend
from spdsl.learning.checking import check_objective
from spdsl.learning.graph import PairGraph
from spdsl.learning.objectives import OBJECTIVES, CenteredAlignment, PairAlignment

BETA = 0.7
KNOWN = [name for name in OBJECTIVES if name in plain.OBJECTIVES]  # registered ones need no plain formula


def make(N, n_pairs, rng):
    """Labels of unequal classes, a graph of `n_pairs` random pairs (None: all), and squared distances."""
    labels = np.concatenate([[0, 0, 1], rng.integers(0, 3, N - 3)])
    i, j = np.triu_indices(N, 1)
    if n_pairs is not None:
        chosen = np.sort(rng.choice(len(i), n_pairs, replace=False))
        i, j = i[chosen], j[chosen]
    return labels, PairGraph(N, i, j, labels[i] == labels[j]), rng.uniform(0.1, 3, len(i))


def dense(graph, d2):
    D2 = np.zeros((graph.n_samples, graph.n_samples))
    D2[graph.i, graph.j] = D2[graph.j, graph.i] = d2
    return D2


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_registered_objective_passes_the_public_check(name):
    check_objective(name)


@pytest.mark.parametrize("n_pairs", [15, 40, None])
@pytest.mark.parametrize("name", KNOWN)
def test_value_equals_the_dense_definition(as_array, name, n_pairs, rng):
    labels, graph, d2 = make(11, n_pairs, rng)
    value, _ = OBJECTIVES[name](graph, labels, BETA)(as_array(d2))
    expected = plain.OBJECTIVES[name](dense(graph, d2), plain.mask(11, graph.i, graph.j), labels, BETA)
    assert isinstance(value, float)
    assert value == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n_pairs", [15, 40, None])
@pytest.mark.parametrize("name", KNOWN)
def test_derivative_equals_that_of_the_dense_definition(as_array, name, n_pairs, rng):
    labels, graph, d2 = make(11, n_pairs, rng)
    G = plain.mask(11, graph.i, graph.j)
    _, c = OBJECTIVES[name](graph, labels, BETA)(as_array(d2))
    expected = plain.gradient(lambda d: plain.OBJECTIVES[name](dense(graph, d), G, labels, BETA), d2, 0.05)
    np.testing.assert_allclose(backend.to_numpy(c), expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["alignment", "pairs"])
@pytest.mark.parametrize("level", [0.0, 1.0])
def test_equal_distances_on_the_full_graph_give_a_finite_value(as_array, name, level, rng):
    """Nothing to align: no NaN. At distance zero the value is zero and there is no direction to go."""
    labels, graph, d2 = make(9, None, rng)
    value, c = OBJECTIVES[name](graph, labels, BETA)(as_array(np.full_like(d2, level)))
    assert np.isfinite(value)
    assert np.isfinite(backend.to_numpy(c)).all()
    if level == 0 or name == "pairs":
        assert value == pytest.approx(0, abs=1e-12)
        assert np.abs(backend.to_numpy(c)).max() < 1e-12


@pytest.mark.parametrize("name", ["alignment", "pairs"])
def test_similarities_that_underflow_give_a_finite_value(as_array, name, rng):
    labels, graph, d2 = make(9, 12, rng)
    value, c = OBJECTIVES[name](graph, labels, BETA)(as_array(d2 * 1e5))
    assert np.isfinite(value)
    assert not backend.to_numpy(c).any()


def test_near_equal_similarities_do_not_cancel(as_array, rng):
    """With beta d2 near 1e-9 the similarities differ in the ninth digit; K - 1 keeps all of them."""
    labels, graph, d2 = make(9, None, rng)
    small, _ = CenteredAlignment(graph, labels, 1e-9)(as_array(d2))
    U, D2 = plain.centering(9), dense(graph, d2)
    L = U @ -D2 @ U  # the limit of (K - 1) / beta
    assert small == pytest.approx(-np.sum(L * plain.target(labels)) / np.linalg.norm(L), rel=1e-7)


def test_perfect_similarities_reach_the_largest_alignment(rng):
    """K = 1 within classes and 0 between them is aligned with the labels: J = |U YY' U|."""
    labels, graph, _ = make(11, None, rng)
    value, c = CenteredAlignment(graph, labels, 1.0)(np.where(graph.same, 0.0, 1e3))
    assert value == pytest.approx(-np.linalg.norm(plain.target(labels)), rel=1e-12)
    assert np.abs(c[graph.same]).max() < 1e-12


def test_pair_alignment_is_minus_one_at_its_best(rng):
    labels, graph, _ = make(11, 40, rng)
    assert PairAlignment(graph, labels, 1.0)(np.where(graph.same, 0.1, 2.0))[0] == pytest.approx(-1)


def test_pair_alignment_needs_both_kinds_of_pairs():
    graph = PairGraph(3, np.array([0, 0]), np.array([1, 2]), np.array([True, True]))
    with pytest.raises(ValueError, match="within and between"):
        PairAlignment(graph, np.zeros(3, int), 1.0)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_order_of_the_samples_does_not_matter(name, rng):
    labels, graph, d2 = make(11, 30, rng)
    value, c = OBJECTIVES[name](graph, labels, BETA)(d2)
    p = rng.permutation(11)
    back = np.argsort(p)
    i, j = back[graph.i], back[graph.j]
    moved = PairGraph(11, np.minimum(i, j), np.maximum(i, j), graph.same)
    again, c_again = OBJECTIVES[name](moved, labels[p], BETA)(d2)
    assert again == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(c_again, c, atol=1e-13)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_sparse_graph_needs_no_dense_array(name, rng):
    N = 3000
    i = np.repeat(np.arange(N - 5), 5)
    j = i + np.tile(np.arange(1, 6), N - 5)
    labels = np.arange(N) // 2
    graph = PairGraph(N, i, j, labels[i] == labels[j])
    d2 = rng.random(len(i))
    tracemalloc.start()
    OBJECTIVES[name](graph, labels, BETA)(d2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * N * N / 10
