"""Test a metric defined by a user: consistency of its distances, and its derivative by Taylor remainders."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spdsl.geometry.embedded import EmbeddedMetric
from spdsl.geometry.metric import Metric
from spdsl.geometry.registry import check_names, get_metric

SIZES = ((5, 3), (4, 1))  # (matrices, m) of the samples on which a metric is tested
CLOSE = 1e-8  # relative difference between two computations of the same distance
STEPS = 10.0 ** -np.arange(2.0, 4.1, 0.5)  # of the Taylor test: large enough for rounding, small enough for curvature
FACTORS = (2, 3, 4)  # that are easily forgotten, or counted twice
SLOPES = (1.7, 2.3)  # of the remainder against the step, on log-log axes; 2 if the derivative is exact


class CheckError(AssertionError):
    """A property that a metric or an objective lacks."""


def check_metric(metric: str | Metric, *, random_state: int = 0) -> None:
    """Test a metric, and say what is wrong with it.

    Distances must be finite, nonnegative, symmetric, zero between equal matrices, and equal in `sqdist`, `pairs` and
    `cross`. The pullback of `pairs` must be symmetric and the derivative (its Taylor remainder is of second order). The
    attributes `scale_free`, `invariance` and `euclidean` must be true. No method may modify its arguments.

    Parameters
    ----------
    metric : Metric, or a name
    random_state : int
        Seed of the matrices on which it is tested.

    Raises
    ------
    CheckError
        An AssertionError that names the first property that fails.

    Examples
    --------
    >>> import spdsl
    >>> spdsl.check_metric("stein")  # silent: nothing is wrong
    """
    metric = get_metric(metric)
    check_names(metric)
    rng = np.random.default_rng(random_state)
    for count, m in SIZES:
        P = _random_spd(rng, count, m)
        if isinstance(metric, EmbeddedMetric):
            _check_embedding(metric, P)
        d2 = _check_values(metric, P)
        _check_pairs(metric, P, d2, rng)
        _check_factors(metric, P, d2)
        _check_traits(metric, P, d2, rng)


def _check_embedding(metric: EmbeddedMetric, P: np.ndarray) -> None:
    """Test that `embed` returns what can be divided into blocks along the first axis."""
    answer = metric.embed(P.copy())
    good = isinstance(answer, tuple) and all(
        isinstance(part, np.ndarray) and part.shape[:1] == P.shape[:1] for part in answer
    )
    _require(
        good and len(answer) > 0 and answer[0].ndim > 1,
        f"{type(metric).__name__}.embed must return a tuple: the embedding, an array with one entry (at least a vector) per "
        f"matrix, and then the arrays that pull needs, with one entry per matrix too",
    )


def _check_values(metric: Metric, P: np.ndarray) -> np.ndarray:
    """Distances (N, N), after testing that they are distances."""
    name = f"{type(metric).__name__}.sqdist"
    before = P.copy()
    d2 = metric.sqdist(P, P)
    _require(np.array_equal(P, before), f"{name} modifies the matrices that are passed to it")
    _require(isinstance(d2, np.ndarray), f"{name} must return an array, got {type(d2).__name__}")
    _require(d2.shape == (len(P), len(P)), f"{name} returned shape {d2.shape} for two arrays of {len(P)} matrices")
    _require(bool(np.isfinite(d2).all()), f"{name} returned NaN or infinity")
    size = float(np.abs(d2).max()) or 1.0
    _require(bool((d2 >= -CLOSE * size).all()), f"{name} returned a negative value, {d2.min():.3g}")
    gap = float(np.abs(np.diagonal(d2)).max())
    _require(gap <= CLOSE * size, f"{name} is {gap:.3g} between equal matrices, but must be 0")
    _require(
        _near(d2, d2.T),
        f"{name} is not symmetric: exchanging its arguments changes it by {np.abs(d2 - d2.T).max():.3g}",
    )
    part = np.asarray(metric.sqdist(P[:2], P[2:]))
    _require(_near(part, d2[:2, 2:]), f"{name} of a pair depends on the other matrices in the array")
    return d2


def _check_factors(metric: Metric, P: np.ndarray, d2: np.ndarray) -> None:
    """Test that the neighbor search, which uses `cross` and `within`, sees the same distances."""
    name = type(metric).__name__
    for method in ("factor", "compact"):
        F = getattr(metric, method)(P)
        good = isinstance(F, tuple) and all(isinstance(part, np.ndarray) and len(part) == len(P) for part in F)
        _require(good, f"{name}.{method} must return a tuple of arrays with one entry per matrix")
        found = np.asarray(metric.cross(tuple(part[:2] for part in F), F))
        good = found.shape == (2, len(P)) and _near(found, d2[:2])
        _require(good, f"{name}.cross and sqdist disagree; define cross for what {method} returns")
        found = np.asarray(metric.within(F))
        _require(found.shape == d2.shape and _near(found, d2), f"{name}.within and sqdist disagree")


def _check_pairs(metric: Metric, P: np.ndarray, d2: np.ndarray, rng: np.random.Generator) -> None:
    """Test the distances of `pairs`, and its pullback by Taylor remainders."""
    name = f"{type(metric).__name__}.pairs"
    i, j = np.triu_indices(len(P), 1)
    before = P.copy()
    answer = metric.pairs(P, i, j)
    good = isinstance(answer, tuple) and len(answer) == 2 and callable(answer[1])
    _require(good, f"{name} must return a tuple (d2, pullback), where pullback is a function of c")
    values, pullback = np.asarray(answer[0]), answer[1]
    _require(values.shape == i.shape, f"{name} returned d2 of shape {values.shape} for {len(i)} pairs")
    _require(bool(np.isfinite(values).all()), f"{name} returned NaN or infinity")
    gap = np.abs(values - d2[i, j]).max()
    _require(_near(values, d2[i, j]), f"{name} and sqdist disagree by {gap:.3g}")
    c = rng.standard_normal(len(i))
    kept = c.copy()
    H = _symmetric(rng.standard_normal(P.shape)) * 0.1 * np.linalg.eigvalsh(P).min()

    def f(t: float) -> float:
        return float(c @ np.asarray(metric.pairs(P + t * H, i, j)[0]))

    S = np.asarray(pullback(c))
    _require(np.array_equal(c, kept), f"the pullback of {name} modifies the array c that is passed to it")
    _require(np.array_equal(P, before), f"{name} modifies the matrices that are passed to it")
    _require(S.shape == P.shape, f"the pullback of {name} returned shape {S.shape} for matrices of shape {P.shape}")
    _require(bool(np.isfinite(S).all()), f"the pullback of {name} returned NaN or infinity")
    _require(_near(S, np.swapaxes(S, 1, 2)), f"the pullback of {name} returned a matrix that is not symmetric")
    check_derivative(f, float(np.sum(S * H)), f"the pullback of {name}")


def _check_traits(metric: Metric, P: np.ndarray, d2: np.ndarray, rng: np.random.Generator) -> None:
    """Test the attributes of a metric."""
    name, m = type(metric).__name__, P.shape[1]
    if metric.scale_free:
        _require(
            _near(np.asarray(metric.sqdist(3 * P, 3 * P)), d2),
            f"{name}.scale_free is True, but distances depend on the scale",
        )
    _require(
        metric.invariance in ("linear", "orthogonal", "none"),
        f"{name}.invariance is {metric.invariance!r}; it must be 'linear', 'orthogonal' or 'none'",
    )
    A = rng.standard_normal((m, m)) + 2 * np.eye(m)
    A = {"linear": A, "orthogonal": np.linalg.qr(A)[0], "none": np.eye(m)}[metric.invariance]
    moved = _symmetric(A.T @ P @ A)
    _require(
        bool(np.allclose(metric.sqdist(moved, moved), d2, rtol=1e-6, atol=1e-8 * float(d2.max() or 1))),
        f"{name}.invariance is {metric.invariance!r}, but distances change under such maps",
    )
    if metric.euclidean:
        Z = np.asarray(metric.compact(P)[0])
        again = ((Z[:, None] - Z[None]) ** 2).reshape(len(P), len(P), -1).sum(axis=2)
        _require(_near(again, d2), f"{name}.euclidean is True, but compact(P)[0] has other distances than sqdist")


def check_derivative(f: Callable[[float], float], slope: float, what: str) -> None:
    """Raise a CheckError unless `slope` is the derivative of f at 0."""
    base = f(0.0)
    rest = np.array([abs(f(t) - base - t * slope) for t in STEPS])
    numeric = (f(STEPS[-1]) - f(-STEPS[-1])) / (2 * STEPS[-1])
    noise = 1e-13 * max(abs(base), abs(slope), 1e-300)
    good = rest > 10 * noise
    linear = not good[:2].all()  # to rounding
    order = 2.0 if linear else float(np.polyfit(np.log(STEPS[good]), np.log(rest[good]), 1)[0])
    if SLOPES[0] <= order <= SLOPES[1] + 2:  # a vanishing second derivative makes the remainder still smaller
        return
    if abs(numeric + slope) <= 1e-3 * max(abs(numeric), abs(slope)):
        raise CheckError(f"{what} has the wrong sign: its slope is {slope:.6g}, the function's {numeric:.6g}")
    ratio = slope / numeric if numeric else float("inf")
    raise CheckError(
        f"{what} is not the derivative: its slope is {slope:.6g}, the function's {numeric:.6g} (ratio {ratio:.4g}"
        f"{_missing(ratio)}); the Taylor remainder falls with order {order:.2f}, not 2"
    )


def _missing(ratio: float) -> str:
    """Say which factor a derivative lacks or has too much, if that is a small number."""
    sign = "" if ratio > 0 else ", and the sign is wrong"
    for factor in FACTORS:
        if abs(abs(ratio) * factor - 1) < 1e-3:
            return f": a factor {factor} is missing{sign}"
        if abs(abs(ratio) / factor - 1) < 1e-3:
            return f": a factor {factor} is too much{sign}"
    return ""


def _require(good: bool, message: str) -> None:
    if not good:
        raise CheckError(message)


def _near(A: np.ndarray, B: np.ndarray) -> bool:
    return bool(np.allclose(A, B, rtol=CLOSE, atol=CLOSE * float(np.abs(B).max() or 1)))


def _symmetric(A: np.ndarray) -> np.ndarray:
    return (A + np.swapaxes(A, -1, -2)) / 2


def _random_spd(rng: np.random.Generator, count: int, m: int) -> np.ndarray:
    """Matrices of condition about 10."""
    V = np.linalg.qr(rng.standard_normal((count, m, m)))[0]
    w = np.exp(rng.uniform(-1.2, 1.2, (count, m)))
    return _symmetric((V * w[:, None, :]) @ np.swapaxes(V, 1, 2))
