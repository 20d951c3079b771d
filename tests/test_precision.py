"""Mixed precision: X in float32, m x m work in float64; and devices that are too small."""

import numpy as np
import pytest

from samples import aligned, make_spd
from spdsl import SPDML, SPDNearestNeighbor, backend, check_spd, compare, regularize, tune
from spdsl.data.disk import RereadView
from spdsl.data.memory import MemoryView

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def data(rng):
    """Three classes that differ in two of twelve directions."""
    y = np.arange(30) % 3
    X = make_spd(rng, 30, 12, 10)
    X[:, 2, 2] += 2.0 * y
    X[:, 4, 4] += 1.5 * (y == 1)
    return X, y


@pytest.mark.parametrize("metric", ["lem", "aim", "stein"])
def test_mixed_precision_learns_what_double_precision_learns(as_array, data, metric):
    X, y = data
    double = aligned(3, metric=metric, max_iter=15).fit(X, y)
    mixed = aligned(3, metric=metric, max_iter=15, precision="mixed").fit(as_array(X), y)
    assert mixed.cost_ == pytest.approx(double.cost_, rel=1e-4)
    assert mixed.cost_ != double.cost_
    assert "float64" in str(mixed.components_.dtype)
    np.testing.assert_array_equal(mixed.predict(as_array(X)), double.predict(X))


def test_mixed_precision_on_the_grassmann_manifold(data):
    double, mixed = (SPDML(3, max_iter=10, precision=p).fit(*data) for p in ("double", "mixed"))
    assert mixed.cost_ == pytest.approx(double.cost_, rel=1e-4)


@pytest.mark.parametrize(("precision", "single"), [("double", False), ("mixed", True)])
def test_what_the_stack_holds_is_in_the_precision_asked_for(as_array, data, monkeypatch, precision, single):
    held = []

    class Watched(MemoryView):
        def __init__(self, X):
            super().__init__(X)
            held.append(self)

    monkeypatch.setattr("spdsl.data.memory.MemoryView", Watched)
    aligned(3, max_iter=3, precision=precision).fit(as_array(data[0].astype(np.float32)), data[1])
    for part in (held[0].X, held[0].WX, held[0].HX):
        assert ("float32" in str(part.dtype)) == single
    assert "float64" in str(held[0].W.dtype)


def test_gradient_of_the_single_stack_is_exact_to_single_rounding(as_array, data, rng):
    X, W, S = data[0], rng.standard_normal((12, 3)), make_spd(rng, 30, 3)
    stack = MemoryView(as_array(X.astype(np.float32)))
    P = backend.to_numpy(stack.start(as_array(W)))
    np.testing.assert_allclose(P, W.T @ X @ W, rtol=1e-5, atol=1e-5)
    expected = 2 * np.sum(X @ W @ S, axis=0)
    np.testing.assert_allclose(backend.to_numpy(stack.gradient(as_array(S))), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("metric", ["euclid", "wasserstein"])  # their gradients grow with X
@pytest.mark.parametrize("size", [1e-20, 1e18])
def test_directions_that_single_precision_has_no_room_for(as_array, data, metric, size):
    X, y = size * data[0], data[1]
    double = SPDML(3, metric=metric, max_iter=5).fit(X, y)
    mixed = SPDML(3, metric=metric, max_iter=5, precision="mixed").fit(as_array(X), y)
    assert mixed.n_iter_ == double.n_iter_ == 5
    assert mixed.cost_ == pytest.approx(double.cost_, rel=1e-4)


def test_what_is_read_twice_has_room_for_any_direction_too(as_array, data, rng):
    X, W, H = data[0].astype(np.float32), rng.standard_normal((12, 3)), 1e60 * rng.standard_normal((12, 3))
    stack = RereadView(lambda: iter([(slice(0, 30), as_array(X))]))
    stack.start(as_array(W))
    _, A2 = stack.look(as_array(H))
    expected = H.T @ X.astype(float) @ H
    np.testing.assert_allclose(backend.to_numpy(A2), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("precision", ["single", 32, None])
def test_unknown_precision_is_named(data, precision):
    with pytest.raises(ValueError, match="precision must be 'double' or 'mixed'"):
        aligned(3, precision=precision).fit(*data)


def test_a_device_that_is_too_small_says_what_is_needed(data, monkeypatch):
    pytest.importorskip("torch", reason="needs PyTorch")
    monkeypatch.setattr("spdsl.backend.free_bytes", lambda device: 1000)
    with pytest.raises(
        MemoryError, match=r"30 matrices of 12 x 12 with m = 3 needs about .* GB on 'cpu', where 1e-06 GB"
    ):
        aligned(3, device="cpu").fit(*data)
    with pytest.raises(MemoryError, match=r"use precision='mixed' \(about half of it\), fewer neighbors"):
        aligned(3, device="cpu").cost(*data)
    with pytest.raises(MemoryError, match="pairs; use fewer neighbors"):
        aligned(3, device="cpu", precision="mixed").fit(*data)


def test_memory_that_runs_out_inside_the_fit_is_said_the_same_way(data):
    class OutOfMemoryError(RuntimeError):  # what torch and CuPy call theirs
        pass

    def callback(row, W):
        raise OutOfMemoryError("tried to allocate")

    with pytest.raises(MemoryError, match="SPDSL on 30 matrices of 12 x 12 with m = 3 needs about"):
        aligned(3, callback=callback).fit(*data)


def test_float32_that_a_fit_takes_is_taken_after_every_conversion(as_array, data):
    """Whatever returns float64 matrices hands on no asymmetry that only float32 explains; more of it stays an error."""
    X, y = data[0].astype(np.float32), data[1]
    X[:, 0, 1] *= 1 + 4e-7
    assert np.abs(X - X.mT).max() > 1e-8 * np.abs(X).max()
    given, pairs = as_array(X), np.stack([X, X], axis=1)
    aligned(3, max_iter=2).fit(given, y)
    for once in (check_spd(given), check_spd(pairs, blocks=True), regularize(given), regularize(pairs)):
        assert np.array_equal(backend.to_numpy(once), backend.to_numpy(once.mT))
        check_spd(once, blocks=True)
    np.testing.assert_allclose(backend.to_numpy(check_spd(given)), (X + X.mT) / 2, rtol=1e-6)
    table = compare(X, y, ["NN-LEM"], splits=2, tune=False, verbose=False)
    assert not table.rows[0].failed
    assert not tune(SPDNearestNeighbor(), {"n_neighbors": [1, 3]}, X, y, n_folds=2).failed
    X[7, 0, 1] *= 1.01
    with pytest.raises(ValueError, match=r"X\[7\] is not symmetric"):
        check_spd(regularize(X))
