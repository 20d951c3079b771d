"""Distances of pairs that are close beside their condition number, against exact arithmetic."""

import mpmath
import numpy as np
import pytest

from spdsl import METRICS, SPDNearestNeighbor, backend, pairwise_sqdist
from spdsl.learning.graph import PairGraph
from spdsl.learning.objectives import PairAlignment

COUPLED = ("aim", "stein", "jeffreys", "wasserstein")


def exact(metric, P, Q):
    """The squared distance in 60 digits."""
    with mpmath.workdps(60):
        A, B = mpmath.matrix(P.tolist()), mpmath.matrix(Q.tolist())
        L = mpmath.cholesky(A)
        inverse = L**-1
        w = mpmath.eigsy(inverse * B * inverse.T, eigvals_only=True)
        if metric == "aim":
            return float(sum(mpmath.log(x) ** 2 for x in w))
        if metric == "stein":
            return float(sum(mpmath.log((mpmath.sqrt(x) + 1 / mpmath.sqrt(x)) / 2) for x in w))
        if metric == "jeffreys":
            return float(sum((mpmath.sqrt(x) - 1 / mpmath.sqrt(x)) ** 2 for x in w) / 2)
        s = mpmath.eigsy(L.T * B * L, eigvals_only=True)
        return float(sum(A[k, k] + B[k, k] for k in range(len(P))) - 2 * sum(mpmath.sqrt(x) for x in s))


def near(condition, gap, seed=0):
    """A matrix of that condition number, and one whose logarithm differs by about the gap."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    root = V * np.sqrt(np.logspace(0, -np.log10(condition), 5))
    H = rng.standard_normal((5, 5)) * gap
    P, Q = root @ root.T, root @ (np.eye(5) + (H + H.T) / 2) @ root.T
    return (P + P.T) / 2, (Q + Q.T) / 2


@pytest.mark.parametrize("gap", [1e-5, 1e-2])
@pytest.mark.parametrize("condition", [1e2, 1e8])
@pytest.mark.parametrize("metric", COUPLED)
def test_close_pairs_keep_their_digits(as_array, metric, condition, gap):
    P, Q = near(condition, gap)
    expected = exact(metric, P, Q)
    stack, i, j = as_array(np.stack([P, Q])), as_array(np.array([0])), as_array(np.array([1]))
    assert float(pairwise_sqdist(stack, metric=metric)[0, 1]) == pytest.approx(expected, rel=1e-3)
    assert float(METRICS[metric].pairs(stack, i, j)[0][0]) == pytest.approx(expected, rel=1e-3)
    assert float(METRICS[metric].sqdist(stack[:1], stack[1:])[0, 0]) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("metric", COUPLED)
def test_the_nearest_of_close_matrices_is_found(metric):
    """Classes that differ by 1e-6 in the logarithm at condition 1e8."""
    P, _ = near(1e8, 0)
    root = np.linalg.cholesky(P)
    rng = np.random.default_rng(1)
    centers = [1e-6 * (H + H.T) for H in rng.standard_normal((4, 5, 5))]
    y = np.arange(48) % 4
    noise = rng.standard_normal((48, 5, 5)) * 1e-7
    X = np.stack([root @ (np.eye(5) + centers[k] + (E + E.T) / 2) @ root.T for k, E in zip(y, noise, strict=True)])
    X = (X + X.mT) / 2
    assert SPDNearestNeighbor(metric).fit(X[:24], y[:24]).score(X[24:], y[24:]) == 1.0


@pytest.mark.parametrize("beta", [1e-9, 1e-12, 1e-14])
def test_similarities_near_one_keep_their_differences(as_array, beta, rng):
    """There the correlation is that of -d2 itself."""
    labels = np.array([0, 0, 1, 1, 2, 2])
    i, j = np.triu_indices(6, 1)
    d2 = rng.uniform(0.5, 2, len(i))
    value, slope = PairAlignment(PairGraph(6, i, j, labels[i] == labels[j]), labels, beta)(as_array(d2))
    assert value == pytest.approx(-np.corrcoef(-d2, labels[i] == labels[j])[0, 1], rel=1e-8)
    assert np.isfinite(backend.to_numpy(slope)).all()


def test_close_pairs_under_stein_whose_pivots_are_alike(as_array):
    """Equal pivots do not mean a good condition: the second is what is left of a much larger entry."""
    rng = np.random.default_rng(1)
    for _ in range(5):
        root = np.array([[1e-2, 0.0], [1.0, 1e-2 * rng.uniform(0.5, 2.0)]])  # a condition of 1e8 or more
        H = 1e-8 * rng.standard_normal((2, 2))
        P, Q = root @ root.T, root @ (np.eye(2) + (H + H.T) / 2) @ root.T
        P, Q = (P + P.T) / 2, (Q + Q.T) / 2
        found = backend.to_numpy(pairwise_sqdist(as_array(P[None]), as_array(Q[None]), metric="stein"))[0, 0]
        assert found == pytest.approx(exact("stein", P, Q), rel=1e-3, abs=1e-15)
