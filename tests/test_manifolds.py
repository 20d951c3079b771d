"""Tangent spaces and curves of the manifolds."""

import numpy as np
import pytest

import plain
from spdsl import backend
from spdsl.geometry.manifolds import MANIFOLDS


@pytest.fixture
def points(rng):
    """A full-rank W that is not orthonormal, and two directions."""
    return rng.standard_normal((6, 3)), rng.standard_normal((6, 3)), rng.standard_normal((6, 3))


def at(as_array, name, W, *Z):
    manifold = MANIFOLDS[name]
    W = manifold.point(as_array(W))
    return backend.to_numpy(W), *(backend.to_numpy(manifold.project(W, as_array(z))) for z in Z)


@pytest.mark.parametrize("name", MANIFOLDS)
def test_projection_is_idempotent(as_array, name, points):
    W, Z = points[:2]
    W, once = at(as_array, name, W, Z)
    _, twice = at(as_array, name, W, once)
    np.testing.assert_allclose(twice, once, atol=1e-13)


@pytest.mark.parametrize("name", MANIFOLDS)
def test_projection_is_orthogonal(as_array, name, points):
    W, Z, Y = points
    _, PZ, PY = at(as_array, name, W, Z, Y)
    assert np.sum((Z - PZ) * PY) == pytest.approx(0, abs=1e-12)
    assert np.sum(PZ * Y) == pytest.approx(np.sum(Z * PY), rel=1e-12)


def test_psd_horizontal_vectors_have_symmetric_products(as_array, points):
    W, H = at(as_array, "psd", *points[:2])
    np.testing.assert_allclose(W.T @ H, H.T @ W, atol=1e-13)


def test_psd_projection_removes_rotations_and_nothing_else(as_array, points, rng):
    W = points[0]
    Omega = rng.standard_normal((3, 3))
    Omega = Omega - Omega.T
    symmetric = W @ np.linalg.inv(W.T @ W) @ (Omega @ Omega)  # W'H symmetric
    _, vertical, horizontal = at(as_array, "psd", W, W @ Omega, symmetric)
    np.testing.assert_allclose(vertical, 0, atol=1e-12)
    np.testing.assert_allclose(horizontal, symmetric, atol=1e-12)


def test_psd_and_full_rank_run_on_straight_lines(as_array, points):
    for name in ("psd", "full-rank"):
        assert MANIFOLDS[name].normalizer(as_array(points[1])) is None
        np.testing.assert_array_equal(backend.to_numpy(MANIFOLDS[name].point(as_array(points[0]))), points[0])


def test_grassmann_points_are_orthonormal_with_the_same_span(as_array, points):
    W = points[0]
    Q = backend.to_numpy(MANIFOLDS["grassmann"].point(as_array(W)))
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(Q @ (Q.T @ W), W, atol=1e-13)


def test_grassmann_tangent_vectors_are_orthogonal_to_the_point(as_array, points):
    W, H = at(as_array, "grassmann", *points[:2])
    np.testing.assert_allclose(W.T @ H, 0, atol=1e-14)


@pytest.mark.parametrize("t", [0.0, 1e-3, 0.7, 50.0])
def test_grassmann_normalizer_keeps_columns_orthonormal(as_array, points, t):
    W, H = at(as_array, "grassmann", *points[:2])
    right, _ = MANIFOLDS["grassmann"].normalizer(as_array(H))(t)
    V = (W + t * H) @ backend.to_numpy(right)
    np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-13)


@pytest.mark.parametrize("t", [0.0, 0.3, 2.0])
def test_derivative_of_the_normalizer(as_array, points, t):
    _, H = at(as_array, "grassmann", *points[:2])
    normalizer = MANIFOLDS["grassmann"].normalizer(as_array(H))
    _, rate = normalizer(t)
    for a, b in np.ndindex(3, 3):
        expected = plain.derivative(lambda s, a=a, b=b: float(normalizer(t + s)[0][a, b]), 0.01)
        assert float(rate[a, b]) == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_normalizer_survives_a_direction_without_full_rank(as_array):
    H = np.zeros((5, 2))
    H[4, 0] = 1.0
    right, rate = MANIFOLDS["grassmann"].normalizer(as_array(H))(1.0)
    np.testing.assert_allclose(backend.to_numpy(right), np.diag([2**-0.5, 1.0]), atol=1e-15)
    np.testing.assert_allclose(backend.to_numpy(rate), np.diag([-(2**-1.5), 0.0]), atol=1e-15)
