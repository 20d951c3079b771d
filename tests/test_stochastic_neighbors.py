"""The stochastic-neighbor objective: its dense definition, its derivative three ways, extreme widths, lone samples."""

import numpy as np
import pytest

import plain
from samples import labeled, make_spd
from spdsl import SPDSL, backend
from spdsl.data import MemoryData
from spdsl.geometry import METRICS
from spdsl.learning.graph import PairGraph, survey_pairs
from spdsl.learning.objectives import StochasticNeighbors
from spdsl.learning.problem import Problem

LABELS = np.array([0, 0, 0, 1, 1, 2, 2, 3])  # the last one has no partner
N = len(LABELS)


def dense(D2, G, labels, beta):
    """-mean log q_i by loops over samples and their pairs."""
    terms = []
    for a in range(len(labels)):
        others = [b for b in range(len(labels)) if b != a and G[a, b]]
        mine = [b for b in others if labels[b] == labels[a]]
        if mine:
            p = np.exp(-beta * D2[a, others])
            terms.append(-np.log(np.exp(-beta * D2[a, mine]).sum() / p.sum()))
    return float(np.mean(terms))


def make(share, rng):
    """A graph with about this share of all pairs, and distances."""
    i, j = np.triu_indices(N, 1)
    chosen = (rng.random(len(i)) < share) | (LABELS[i] == LABELS[j])
    i, j = i[chosen], j[chosen]
    graph = PairGraph(N, i, j, LABELS[i] == LABELS[j])
    d2 = rng.uniform(0.2, 3.0, len(i))
    D2 = np.zeros((N, N))
    D2[i, j] = D2[j, i] = d2
    return graph, d2, D2


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_value_and_derivative_equal_the_dense_definition(as_array, share, rng):
    graph, d2, D2 = make(share, rng)
    G = plain.mask(N, graph.i, graph.j)
    value, slope = StochasticNeighbors(graph, LABELS, 0.8)(as_array(d2))
    assert value == pytest.approx(dense(D2, G, LABELS, 0.8), rel=1e-12)

    def at(d):
        other = np.zeros((N, N))
        other[graph.i, graph.j] = other[graph.j, graph.i] = d
        return dense(other, G, LABELS, 0.8)

    np.testing.assert_allclose(backend.to_numpy(slope), plain.gradient(at, d2, 0.05), atol=1e-9)


def test_two_classes_of_two_by_hand():
    """Partners at distance 0, all others at log 3 / beta: q = 1 / (1 + 2/3), and the derivative follows."""
    graph = PairGraph(4, *np.triu_indices(4, 1), np.array([True, False, False, False, False, True]))
    d2 = np.where(graph.same, 0.0, np.log(3.0) / 2)
    value, slope = StochasticNeighbors(graph, np.array([0, 0, 1, 1]), 2.0)(d2)
    assert value == pytest.approx(np.log(5 / 3))
    # each end of a partner pair: beta / N (1 - 3/5); of another pair: beta / N (0 - 1/5)
    np.testing.assert_allclose(slope, np.where(graph.same, 2 * 2 / 4 * 0.4, -2 * 2 / 4 * 0.2))


@pytest.mark.parametrize("beta", [1e-12, 1e3, 1e200])
def test_extreme_widths_stay_finite(as_array, beta, rng):
    graph, d2, _ = make(1.0, rng)
    value, slope = StochasticNeighbors(graph, LABELS, beta)(as_array(d2))
    assert np.isfinite(value)
    assert np.isfinite(backend.to_numpy(slope)).all()


def test_pairs_within_classes_are_needed():
    i, j = np.array([0, 1]), np.array([3, 4])
    with pytest.raises(ValueError, match="needs pairs within classes; use n_within >= 1"):
        StochasticNeighbors(PairGraph(N, i, j, np.zeros(2, bool)), LABELS, 1.0)


@pytest.mark.parametrize("metric", ["aim", "stein", "lem"])
@pytest.mark.parametrize("counts", [(1, 2), ("all", "all")], ids=["sparse", "full"])
def test_taylor_remainder_has_order_two(as_array, metric, counts, rng):
    X = make_spd(rng, N, 5)
    W = np.linalg.qr(rng.standard_normal((5, 3)))[0] + 0.1 * rng.standard_normal((5, 3))
    survey = survey_pairs(MemoryData(X), LABELS, METRICS[metric], *counts)
    objective = StochasticNeighbors(survey.graph, LABELS, 2 / survey.mean_distance**2)
    i, j = as_array(survey.graph.i), as_array(survey.graph.j)
    problem = Problem(MemoryData(as_array(X)).view(3), METRICS[metric], objective, i, j)
    H = rng.standard_normal(W.shape) / 4
    slope = float(np.sum(backend.to_numpy(problem.cost(as_array(W))[1]) * H))
    order = plain.taylor_slope(lambda V: problem.cost(as_array(V))[0], W, H, slope, 3e-5, 1e-3)
    assert 1.9 < order < 2.1


@pytest.mark.parametrize("metric", ["aim", "stein", "lem"])
def test_a_fit_is_the_same_on_every_array_library(as_array, metric):
    X, y = labeled(24, 6)
    options = {"metric": metric, "objective": "stochastic-neighbors", "max_iter": 10, "tol": 0.0}
    expected, found = SPDSL(3, **options).fit(X, y), SPDSL(3, **options).fit(as_array(X), y)
    assert found.cost_ == pytest.approx(expected.cost_, rel=1e-9)
    assert (found.predict(as_array(X)) == expected.predict(X)).all()
    assert expected.cost_ < expected.history_[0]["value"]
