"""Checks of what users bring, and the ridge that most covariance matrices need.

Nothing is repaired: a check returns the data as float64, or raises an error that names the sample, what is wrong with it
and what to do about it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from spdsl import arrays
from spdsl.arrays import Array, namespace

ROUNDING = {"bfloat16": 8e-3, "float16": 1e-3, "float32": 1.2e-7}  # of coarse inputs; float64 for all others
DOUBLE = 2.3e-16
LARGEST = 1e300  # of a parameter: beyond it, and below its inverse, products with it are no numbers
#: largest entries of a matrix: in float64 their squares are still numbers, in float32 their products with W
SIZES = {"double": (1e-153, 1e153), "mixed": (1e-28, 1e28)}


def regularize(X: Array, ridge: float = 1e-3) -> Array:
    """Add `ridge * trace(X_i) * I` to every matrix, the paper's remedy for singular covariances.

    Parameters
    ----------
    X : (n_matrices, n, n)
        Symmetric matrices, positive semi-definite as covariances are.
    ridge : float
        Relative to the trace.

    Returns
    -------
    (n_matrices, n, n), a new array.
    """
    check_number("ridge", ridge, low=0.0)
    X = as_stack(X)
    xp = namespace(X)
    finite = xp.all(xp.isfinite(X), axis=(1, 2))
    if not bool(xp.all(finite)):
        raise ValueError(_not_finite("X", _first(~finite)))
    eye = xp.eye(X.shape[-1], dtype=X.dtype, device=X.device)
    with np.errstate(over="ignore", invalid="ignore"):  # said below, in our words
        added = X + ridge * xp.linalg.trace(X)[:, None, None] * eye
    finite = xp.all(xp.isfinite(added), axis=(1, 2))
    if not bool(xp.all(finite)):
        raise ValueError(
            f"X[{_first(~finite)}] plus the ridge is not finite: ridge={ridge:g} is too large for its trace"
        )
    return added


def check_spd(X: Any, *, name: str = "X", precision: str = "double") -> Array:
    """Return `X` as a float64 stack, or raise a ValueError that names the first sample which is not SPD.

    Parameters
    ----------
    X : array-like (n_matrices, n, n)
        NumPy array, nested lists, or torch tensor.
    name : str
        How messages call the data.
    precision : {"double", "mixed"}
        "mixed" leaves float32 as it is.

    Returns
    -------
    (n_matrices, n, n) float64, the input itself where it already is that.
    """
    return check_part(X, 0, name=name, precision=precision)


def check_part(X: Any, first: int, *, name: str = "X", precision: str = "double") -> Array:
    """`check_spd` of a part of a larger stack; messages count from `first`, the index of its first matrix."""
    if not isinstance(precision, str) or precision not in SIZES:
        raise ValueError(f"precision must be 'double' or 'mixed', got {precision!r}")
    kind = str(getattr(X, "dtype", "")).rpartition(".")[2]
    rounding = ROUNDING.get(kind, DOUBLE)
    stack = as_stack(X, name=name, keep_single=precision == "mixed")
    item_bytes = 8 * stack.shape[-1] ** 2
    checks = arrays.map_blocks(
        lambda s: _check_block(arrays.double(stack[s]), first + s.start, name, rounding, SIZES[precision]),
        stack.shape[0],
        item_bytes,
        on=stack,
    )
    for complaint in checks:
        if complaint is not None:
            raise ValueError(complaint)
    return stack


def as_stack(X: Any, *, name: str = "X", keep_single: bool = False) -> Array:
    """Return `X` as a real float64 array (or float32, where it may stay that) of shape (n_matrices, n, n), or raise."""
    X = arrays.detached(X) if arrays.is_array(X) else _from_sequence(X, name)
    if isinstance(X, np.ma.MaskedArray):
        X = _unmasked(X, name)
    xp = namespace(X)
    if isinstance(X, np.ndarray) and X.dtype.kind not in "biufc":
        raise ValueError(f"{name} must hold numbers, got dtype {X.dtype}; convert it, e.g. {name}.astype(float)")
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError(
            f"{name} is complex. Complex data not supported: pass real symmetric matrices, for instance the real form "
            f"[[Re, -Im], [Im, Re]] of Hermitian ones"
        )
    if X.ndim != 3 or X.shape[1] != X.shape[2]:
        raise ValueError(f"{name} must have shape (n_matrices, n, n), got {tuple(X.shape)}{_shape_hint(X, name)}")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"{name} has no matrices: its shape is {tuple(X.shape)}")
    return X if keep_single and X.dtype == xp.float32 else xp.astype(X, xp.float64, copy=False)


def check_labels(y: Any, n_matrices: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes and the labels as integers 0..c-1, or raise."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: this method learns from labels")
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        bad = int(np.flatnonzero(np.ma.getmaskarray(y))[0])
        raise ValueError(f"y[{bad}] is masked; remove that sample or label it")
    y = column_or_1d(arrays.to_numpy(y), warn=True)
    if len(y) != n_matrices:
        raise ValueError(
            f"X has {n_matrices} matrices but y has {len(y)} labels (inconsistent numbers of samples): "
            f"pass one label per matrix"
        )
    if y.dtype.kind in "fO":
        missing = [_is_missing(label) for label in y.tolist()]
        if any(missing):
            bad = missing.index(True)
            raise ValueError(f"y[{bad}] is {y[bad]}, which is no label: remove that sample or label it")
    if y.dtype.kind == "S" or (y.dtype.kind == "O" and any(isinstance(label, bytes) for label in y.tolist())):
        raise ValueError("y holds bytes, which are no text: decode them, e.g. y.astype(str)")
    if y.dtype.kind == "O":
        kinds = {"a string" if isinstance(label, str) else "a number" for label in y.tolist()}
        if len(kinds) > 1:
            raise ValueError("y mixes strings and numbers, which have no common order: use labels of one kind")
    check_classification_targets(y)
    classes, labels = np.unique(y, return_inverse=True)
    return classes, labels


def check_count(name: str, value: Any, *, low: int, high: int | None = None, remedy: str = "") -> int:
    """Return an integer parameter, or raise if it is none or out of range."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be an integer, got {value!r}")
    if value < low or (high is not None and value > high):
        span = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name}={value} is out of range: it must be {span}{remedy}")
    return int(value)


def check_number(name: str, value: Any, *, low: float, above: bool = False, high: float = LARGEST) -> float:
    """Return a real parameter, or raise if it is none, below `low` (or not clearly above it), or beyond `high`."""
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    try:
        number = float(value) if real else np.nan
    except OverflowError:  # an integer of more than 308 digits
        number = np.inf
    if not low <= number <= high or (above and number < low + 1 / LARGEST):
        span = f"at most {high:g}" if high < number < np.inf else f"{'above' if above else 'of at least'} {low:g}"
        raise ValueError(f"{name} must be a finite number {span}, got {value!r}")
    return number


def check_seed(random_state: Any) -> np.random.RandomState:
    """The generator that a `random_state` stands for, or raise."""
    try:
        return check_random_state(random_state)
    except ValueError as error:
        raise ValueError(
            f"random_state must be an integer from 0 to 2**32 - 1, a RandomState or None, got {random_state!r}"
        ) from error


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, infinite, or what pandas writes for missing."""
    return (
        label is None
        or type(label).__name__ in ("NAType", "NaTType")
        or (isinstance(label, float) and not np.isfinite(label))
    )


def _not_finite(name: str, index: int) -> str:
    return f"{name}[{index}] contains NaN or infinity: remove this sample, or find out where it went wrong"


def _unmasked(X: np.ma.MaskedArray, name: str) -> np.ndarray:
    """The plain array, if nothing in it is masked."""
    masked = np.ma.getmaskarray(X)
    if masked.any():
        bad = int(np.argwhere(masked)[0][0])
        raise ValueError(f"{name}[{bad}] has masked entries: remove this sample, or fill them, e.g. {name}.filled(...)")
    return X.data


def _shape_hint(X: Array, name: str) -> str:
    """What to do about a stack of wrong shape, where the shape tells."""
    if X.ndim != 2:
        return ""
    if X.shape[0] == X.shape[1]:
        return f"; for a single matrix pass {name}[None]"
    side = math.isqrt(X.shape[1])
    return f"; for flattened matrices pass {name}.reshape(-1, {side}, {side})" if side**2 == X.shape[1] > 1 else ""


def _from_sequence(X: Any, name: str) -> np.ndarray:
    """A NumPy array from lists, a data frame, or anything else that NumPy understands."""
    if hasattr(X, "toarray"):
        raise TypeError(f"{name} is a sparse container; a stack of SPD matrices is dense: pass {name}.toarray()")
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"{name} must have shape (n_matrices, n, n); {_odd_part(X, name)}") from error
    if array.ndim == 0:
        raise ValueError(f"{name} must be an array of shape (n_matrices, n, n), got {type(X).__name__}")
    return array


def _odd_part(X: Any, name: str) -> str:
    """The first part of a ragged sequence whose shape is not that of the first."""
    try:
        shapes = [np.shape(part) for part in X]
        odd = next(k for k, shape in enumerate(shapes) if shape != shapes[0])
    except (ValueError, TypeError, StopIteration):
        return "its parts have different shapes"
    return f"{name}[{odd}] has shape {shapes[odd]} where {name}[0] has {shapes[0]}; pass matrices of one size"


def _check_block(block: Array, start: int, name: str, rounding: float, sizes: tuple[float, float]) -> str | None:
    """What is wrong with the first bad matrix of a block, or None."""
    xp = namespace(block)
    finite = xp.all(xp.isfinite(block), axis=(1, 2))
    if not bool(xp.all(finite)):
        return _not_finite(name, start + _first(~finite))
    size = xp.max(xp.abs(block), axis=(1, 2))
    if not bool(xp.all(size > 0)):
        k = _first(size == 0)
        return f"{name}[{start + k}] is all zero, so not positive definite: remove this sample (no ridge can help it)"
    asymmetry = xp.max(xp.abs(block - block.mT), axis=(1, 2)) / size
    tolerance = max(1e-8, 64 * rounding)  # what sums of rounded products can explain
    if not bool(xp.all(asymmetry <= tolerance)):
        k = _first(asymmetry > tolerance)
        return (
            f"{name}[{start + k}] is not symmetric: entries differ from their mirror images by up to "
            f"{float(asymmetry[k]):.1e} of the largest entry; if that is rounding, pass ({name} + {name}.mT) / 2"
        )
    return _check_definite(block / size[:, None, None], size, start, name, rounding) or _check_size(
        size, sizes, start, name
    )


def _check_size(size: Array, sizes: tuple[float, float], start: int, name: str) -> str | None:
    """What is wrong with the first matrix whose largest entry is out of range."""
    odd = (size < sizes[0]) | (size > sizes[1])
    if not bool(namespace(size).any(odd)):
        return None
    k = _first(odd)
    return (
        f"{name}[{start + k}] has a largest entry of {float(size[k]):.1e}, out of the range {sizes[0]:g} to {sizes[1]:g} "
        f"in which squares keep their digits: divide {name} by its mean trace"
    )


def _check_definite(unit: Array, size: Array, start: int, name: str, rounding: float) -> str | None:
    """What is wrong with the first matrix that is not positive definite; `unit` is scaled to largest entry 1."""
    xp = namespace(unit)
    n = unit.shape[-1]
    limit = n * rounding  # below this the smallest eigenvalue is rounding
    try:
        pivots = xp.linalg.diagonal(xp.linalg.cholesky((unit + unit.mT) / 2)) ** 2
        if float(xp.min(pivots)) > 10 * n * limit:
            return None
    except Exception as error:  # the array libraries share no class for a failed factorisation
        if type(error).__name__ not in ("LinAlgError", "_LinAlgError"):
            raise
    for k in range(unit.shape[0]):
        w = xp.linalg.eigvalsh((unit[k] + unit[k].mT) / 2)
        if float(w[0]) <= limit * float(w[-1]):
            precision = " to working precision" if float(w[0]) > 0 else ""
            helps = float(w[0]) + 1e-3 * float(xp.sum(w)) > limit * float(w[-1])
            remedy = (
                f"add a ridge, e.g. regularize({name}, 1e-3)"
                if helps
                else f"a ridge such as regularize({name}, 1e-3) is too small to help: check its sign and how it was made"
            )
            return (
                f"{name}[{start + k}] is not positive definite{precision}: smallest eigenvalue "
                f"{float(w[0] * size[k]):.2g} against largest {float(w[-1] * size[k]):.2g}; {remedy}"
            )
    return None


def _first(mask: Array) -> int:
    return int(namespace(mask).argmax(namespace(mask).astype(mask, namespace(mask).int8)))
