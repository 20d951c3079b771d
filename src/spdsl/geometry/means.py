"""Means of SPD matrices, and the geodesics along which a running mean moves."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spdsl import backend
from spdsl.backend import Array, namespace, symmetric
from spdsl.geometry.factorizations import NotPositiveDefiniteError
from spdsl.geometry.registry import get_metric

EPS = 2.3e-16
SHRINK = 0.5  # of the step, where the gradient has grown
SMALLEST_STEP = 1e-4
INDEFINITE = 1e-8  # share of the largest eigenvalue below which a negative one may be rounding, which a ridge mends
ASYMMETRY = 1e-5  # of the largest entry: rounding of float32, from which matrices are often converted


def riemannian_mean(X: Array, *, weights: Any = None, tol: float = 1e-9, max_iter: int = 100) -> Array:
    """Affine-invariant mean: the M with `sum_i w_i log(M^-1/2 X_i M^-1/2) = 0`.

    Gradient descent with the step of Bini and Iannazzo (2013), which the condition numbers of the `M^-1/2 X_i M^-1/2` give,
    from the log-Euclidean mean. The mean of `A X_i A'` is `A M A'`.

    Parameters
    ----------
    X : (n_matrices, n, n)
        SPD matrices, NumPy or torch.
    weights : (n_matrices,), optional
        Nonnegative; they are divided by their sum.
    tol : float
        Norm of the sum above at which the mean is accepted. For matrices so badly conditioned that rounding is larger,
        rounding.
    max_iter : int
        Maximum number of iterations; a ConvergenceWarning is given if they do not suffice.

    Returns
    -------
    (n, n), symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import riemannian_mean
    >>> riemannian_mean(np.stack([np.eye(2), 4 * np.eye(2)])).round(6)
    array([[2., 0.],
           [0., 2.]])
    """
    X, w = _checked(X, weights)
    if not (isinstance(max_iter, int | np.integer) and max_iter >= 1):
        raise ValueError(f"max_iter must be an integer of at least 1, got {max_iter!r}")
    if isinstance(tol, bool) or not isinstance(tol, int | float | np.number) or not 0 <= tol < math.inf:
        raise ValueError(f"tol must be a finite number of at least 0, got {tol!r}")
    start = _log_sum(X, w)
    if X.shape[0] == 1:
        return symmetric(X[0])
    G, _ = _roots(_exp(start))
    damping, last = 1.0, math.inf
    for _ in range(max_iter):
        T, step, floor = _gradient(X, w, G)
        norm = float(namespace(T).linalg.matrix_norm(T))
        if norm <= max(tol, floor):
            return symmetric(G @ G.mT)
        if norm > last:  # never seen with this step; a guard against rounding and matrices far apart
            damping *= SHRINK
            if damping < SMALLEST_STEP:
                break
        last = norm
        G = G @ _exp(T * (damping * step / 2))
    from sklearn.exceptions import ConvergenceWarning  # here: scikit-learn takes a second to import

    warnings.warn(
        f"the Riemannian mean of {X.shape[0]} matrices has not converged (gradient norm {norm:.1e}, tol={tol:g}); increase "
        f"max_iter, or add a ridge to the matrices, e.g. regularize(X, 1e-3)",
        ConvergenceWarning,
        stacklevel=2,
    )
    return symmetric(G @ G.mT)


def log_euclidean_mean(X: Array, *, weights: Any = None) -> Array:
    """Log-Euclidean mean: `exp(sum_i w_i log X_i)`.

    Parameters
    ----------
    X : (n_matrices, n, n)
        SPD matrices, NumPy or torch.
    weights : (n_matrices,), optional
        Nonnegative; they are divided by their sum.

    Returns
    -------
    (n, n), symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import log_euclidean_mean
    >>> log_euclidean_mean(np.stack([np.eye(2), 4 * np.eye(2)])).round(6)
    array([[2., 0.],
           [0., 2.]])
    """
    return _exp(_log_sum(*_checked(X, weights)))


def geodesic(A: Array, B: Array, t: float, *, metric: str = "aim") -> Array:
    """The point at `t` of the geodesic from A (t = 0) to B (t = 1), both (n, n).

    Affine-invariant: `A^1/2 (A^-1/2 B A^-1/2)^t A^1/2`; log-Euclidean: `exp((1 - t) log A + t log B)`.

    Parameters
    ----------
    A, B : array (n, n)
    t : float
    metric : {"aim", "lem"}

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.geometry import geodesic
    >>> geodesic(np.eye(2), np.diag([4.0, 1.0]), 0.5).round(6)
    array([[2., 0.],
           [0., 1.]])
    """
    name = mean_name(metric)
    if isinstance(t, bool) or not isinstance(t, int | float | np.number) or not math.isfinite(t):
        raise ValueError(f"t must be a finite number, got {t!r}")
    for end, M in (("A", A), ("B", B)):
        if not backend.is_array(M) or M.ndim != 2 or M.shape[0] != M.shape[1]:
            shape = tuple(M.shape) if backend.is_array(M) else type(M).__name__
            raise ValueError(f"{end} must be an array of shape (n, n), got {shape}")
    if A.shape != B.shape:
        raise ValueError(f"A is {A.shape[0]} x {A.shape[0]} and B is {B.shape[0]} x {B.shape[0]}; pass one size")
    A, B = _matrices(A[None], "A")[0], _matrices(B[None], "B")[0]
    if name == "lem":
        return _exp((1 - t) * _log(A[None])[0] + t * _log(B[None])[0])
    root, inverse = _roots(A)
    return symmetric(root @ _exp(t * _log(symmetric(inverse @ B @ inverse)[None])[0]) @ root)


#: the means by the name of their metric
MEANS: dict[str, Callable[..., Array]] = {"aim": riemannian_mean, "lem": log_euclidean_mean}


def mean_name(metric: Any) -> str:
    """The name in `MEANS` of a metric's name or alias, or an error."""
    name = get_metric(metric).name
    if name not in MEANS:
        raise ValueError(f"metric {metric!r} has no mean in spdsl; use 'riemann' or 'logeuclid'")
    return name


def inverse_root(M: Array) -> Array:
    """`M^-1/2` of an SPD matrix (n, n), symmetric."""
    return _roots(M)[1]


def logm(X: Array) -> Array:
    """Matrix logarithms of a stack of SPD matrices."""
    return backend.over_blocks(_log, X)


# ---------------------------------------------------------------------------------------------------------------- parts


def _checked(X: Array, weights: Any) -> tuple[Array, Array]:
    """The matrices, and weights with sum one in their library, once both are found usable."""
    if not backend.is_array(X) or X.ndim != 3 or X.shape[1] != X.shape[2]:
        shape = tuple(X.shape) if backend.is_array(X) else type(X).__name__
        raise ValueError(f"X must be an array of shape (n_matrices, n, n), got {shape}")
    if not X.shape[0] or not X.shape[1]:
        raise ValueError(f"X has no matrices to take the mean of: its shape is {tuple(X.shape)}")
    X = _matrices(X, "X[{}]")
    w = np.ones(X.shape[0]) if weights is None else backend.real_numbers(weights, "weights")
    if w.shape != (X.shape[0],):
        raise ValueError(f"weights have shape {w.shape}; pass one for each of the {X.shape[0]} matrices")
    if not (np.isfinite(w).all() and (w >= 0).all() and w.sum() > 0):
        raise ValueError("weights must be finite, zero or more, and not all zero")
    return X, backend.like(w / w.sum(), X)


def _matrices(X: Array, called: str) -> Array:
    """Matrices (N, n, n) as float64, if they are real, finite and symmetric; `called` is the name of a matrix."""
    name = called.partition("[")[0]
    if isinstance(X, np.ma.MaskedArray):
        if np.ma.is_masked(X):
            raise ValueError(f"{name} has masked entries; remove them, or fill them, e.g. {name}.filled(...)")
        X = X.data
    xp = namespace(X)
    if not xp.isdtype(X.dtype, ("bool", "integral", "real floating")):
        raise ValueError(f"{name} must hold real numbers, got dtype {X.dtype}")
    X = backend.double(X)
    finite = backend.to_numpy(xp.all(xp.isfinite(X), axis=(1, 2)))
    if not finite.all():
        raise ValueError(f"{called.format(int(np.argmin(finite)))} contains NaN or infinity: remove this sample")
    apart = backend.to_numpy(xp.max(xp.abs(X - X.mT), axis=(1, 2)) > ASYMMETRY * xp.max(xp.abs(X), axis=(1, 2)))
    if apart.any():
        bad = called.format(int(np.argmax(apart)))
        raise ValueError(f"{bad} is not symmetric; if that is rounding, pass ({name} + {name}.mT) / 2")
    return X


def _log_sum(X: Array, w: Array) -> Array:
    """`sum_i w_i log X_i`; an error names the first matrix that has no logarithm."""

    def part(s: slice) -> Array:
        values, V = backend.eigh(symmetric(backend.double(X[s])))
        smallest, largest = backend.to_numpy(values[:, 0]), backend.to_numpy(values[:, -1])
        if not (smallest > 0).all():
            k = int(np.argmax(~(smallest > 0)))
            if smallest[k] < -INDEFINITE * abs(largest[k]):
                raise ValueError(
                    f"X[{s.start + k}] is not positive definite: smallest eigenvalue {smallest[k]:.3g} against largest "
                    f"{largest[k]:.3g}; pass SPD matrices"
                )
            raise NotPositiveDefiniteError(f"X[{s.start + k}] is not positive definite: eigenvalue {smallest[k]:.3g}")
        return _weighted(V, namespace(X).log(values), w[s])

    return symmetric(sum(_over_blocks(part, X)))


def _gradient(X: Array, w: Array, G: Array) -> tuple[Array, float, float]:
    """`sum_i w_i log(G^-1 X_i G'^-1)`, the step, and the norm that rounding alone can have."""
    inverse = namespace(G).linalg.inv(G)

    def part(s: slice) -> tuple[Array, float, float]:
        values, V = backend.eigh(symmetric(inverse @ backend.double(X[s]) @ inverse.mT))
        tiny = EPS * values[:, -1:]
        values = namespace(X).maximum(values, tiny)
        half = backend.to_numpy(namespace(X).log(values[:, -1] / values[:, 0])) / 2
        share = backend.to_numpy(w[s])
        # the Hessian along the geodesics lies between 1 and this
        curved = float(share @ (half / np.tanh(np.maximum(half, 1e-8)) + (half < 1e-8)))
        rounding = float(share @ np.minimum(np.exp(2 * half), 1 / EPS)) * EPS
        return _weighted(V, namespace(X).log(values), w[s]), curved, rounding

    # what a block finds is summed in the order of the blocks, whichever is finished first
    T, curved, rounding = map(sum, zip(*_over_blocks(part, X), strict=True))
    return symmetric(T), 2 / (1 + curved), 4 * X.shape[-1] * rounding


def _over_blocks(part: Callable[[slice], Any], X: Array) -> Iterator[Any]:
    return backend.map_blocks(part, X.shape[0], 24 * X.shape[-1] ** 2, on=X)


def _weighted(V: Array, values: Array, w: Array) -> Array:
    """`sum_i w_i V_i diag(values_i) V_i'`, as one product."""
    n = V.shape[-1]
    left = namespace(V).permute_dims(V, (1, 0, 2)).reshape(n, -1)
    return (left * (w[:, None] * values).reshape(1, -1)) @ left.mT


def _log(X: Array) -> Array:
    values, V = backend.eigh(symmetric(X))
    if not bool(namespace(X).all(values > 0)):
        raise NotPositiveDefiniteError(f"an eigenvalue was computed as {float(namespace(X).min(values)):.3g}")
    return symmetric((V * namespace(X).log(values)[:, None, :]) @ V.mT)


def _exp(S: Array) -> Array:
    """Matrix exponential of one symmetric matrix."""
    values, V = backend.eigh(symmetric(S)[None])
    return symmetric((V[0] * namespace(S).exp(values[0])) @ V[0].mT)


def _roots(M: Array) -> tuple[Array, Array]:
    """`M^1/2` and `M^-1/2` of one SPD matrix."""
    values, V = backend.eigh(symmetric(M)[None])
    if not bool(namespace(M).all(values > 0)):
        raise NotPositiveDefiniteError(f"a mean has the eigenvalue {float(namespace(M).min(values)):.3g}")
    root = namespace(M).sqrt(values[0])
    return symmetric((V[0] * root) @ V[0].mT), symmetric((V[0] / root) @ V[0].mT)
