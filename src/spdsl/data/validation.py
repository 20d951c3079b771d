"""Checks of matrices that users pass, and the ridge that most covariance matrices need.

Nothing is repaired: a check returns the data as float64, or raises an error that names the sample, the problem and the
remedy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from spdsl import backend
from spdsl.backend import Array, namespace
from spdsl.data.parameters import check_number

ROUNDING = {"bfloat16": 8e-3, "float16": 1e-3, "float32": 1.2e-7}  # of low-precision inputs; others count as float64
DOUBLE = 2.3e-16
#: range of the largest entry of a matrix: its square in float64, or its product with W in float32, stays finite
SIZES = {"double": (1e-153, 1e153), "mixed": (1e-28, 1e28)}


def regularize(X: Array, ridge: float = 1e-3) -> Array:
    """Add `ridge * trace(X_i) * I` to every matrix, the paper's remedy for singular covariances.

    Parameters
    ----------
    X : (n_matrices, n, n) or (n_samples, b, n, n)
        Symmetric matrices, positive semi-definite as covariances are.
    ridge : float
        Relative to the trace.

    Returns
    -------
    A new array in the shape of X.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import regularize
    >>> regularize(np.diag([1.0, 0.0])[None], 0.1)[0]
    array([[1.1, 0. ],
           [0. , 0.1]])
    """
    check_number("ridge", ridge, low=0.0)
    parts = _block_parts(X, "X")
    if parts is None:
        return _with_ridge(X, ridge, "X")
    added = [_with_ridge(part, ridge, f"X[:, {k}]") for k, part in enumerate(parts)]
    return namespace(added[0]).stack(added, axis=1)


def _with_ridge(X: Any, ridge: float, name: str) -> Array:
    """`regularize` of a stack (n_matrices, n, n)."""
    X = even(as_stack(X, name=name), X)
    xp = namespace(X)
    finite = xp.all(xp.isfinite(X), axis=(1, 2))
    if not bool(xp.all(finite)):
        raise ValueError(_not_finite(name, _first(~finite)))
    eye = xp.eye(X.shape[-1], dtype=X.dtype, device=X.device)
    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        added = X + ridge * xp.linalg.trace(X)[:, None, None] * eye
    finite = xp.all(xp.isfinite(added), axis=(1, 2))
    if not bool(xp.all(finite)):
        raise ValueError(
            f"{entry(name, _first(~finite))} plus the ridge is not finite: use a smaller ridge than {ridge:g}"
        )
    return added


def check_spd(X: Any, *, name: str = "X", precision: str = "double", blocks: bool = False) -> Array:
    """Return `X` as a float64 array, or raise a ValueError that names the first sample that is not SPD.

    Parameters
    ----------
    X : array-like (n_matrices, n, n)
        NumPy array, nested lists, or torch tensor.
    name : str
        Name of the data in messages.
    precision : {"double", "mixed"}
        "mixed" keeps float32 as it is.
    blocks : bool
        Whether samples of several matrices, (n_samples, b, n, n), are accepted.

    Returns
    -------
    (n_matrices, n, n) float64; the input itself if it already is. Numbers of low precision that are symmetric up to their
    rounding become exactly so: in float64 nothing tells that it was rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import check_spd
    >>> check_spd(np.stack([np.eye(2), np.diag([1.0, -1.0])]))
    Traceback (most recent call last):
        ...
    ValueError: X[1] is not positive definite: smallest eigenvalue -1 against largest 1; ...
    """
    parts = _block_parts(X, name) if blocks else None
    if parts is None:
        return even(check_part(X, 0, name=name, precision=precision), X)
    parts = [check_part(part, 0, name=f"{name}[:, {k}]", precision=precision) for k, part in enumerate(parts)]
    return even(namespace(parts[0]).stack(parts, axis=1), X)


def even(X: Array, given: Any) -> Array:
    """Float64 matrices (..., n, n) without the asymmetry that is rounding of the numbers they were `given` as: in place.

    What takes them next cannot know any more that it was rounding.
    """
    rounding, xp = _rounding(given), namespace(X)
    if rounding == DOUBLE or X.dtype != xp.float64:
        return X

    def mend(s: slice) -> None:
        part = X[s]
        with np.errstate(invalid="ignore"):  # what is not finite is reported later
            apart, size = (xp.max(xp.abs(Y), axis=(-2, -1)) for Y in (part - part.mT, part))
            close = apart <= _tolerance(rounding) * size
        X[s] = xp.where(close[..., None, None], part / 2 + part.mT / 2, part)

    list(backend.map_blocks(mend, X.shape[0], 8 * math.prod(X.shape[1:]), on=X))
    return X


def _rounding(X: Any) -> float:
    """How precise the numbers of an array are."""
    return ROUNDING.get(str(getattr(X, "dtype", "")).rpartition(".")[2], DOUBLE)


def _tolerance(rounding: float) -> float:
    """Asymmetry, relative to the largest entry, that rounding in sums of products can explain."""
    return max(1e-8, 64 * rounding)


def _block_parts(X: Any, name: str) -> list[Array] | None:
    """Block after block of samples of several matrices (n_samples, b, n, n); None of anything else."""
    X = X if hasattr(X, "ndim") or hasattr(X, "toarray") else _from_sequence(X, name)
    if getattr(X, "ndim", 3) != 4:
        return None
    if not X.shape[0] or not X.shape[1]:
        raise ValueError(
            f"{name} has {'samples without' if X.shape[0] else 'no'} matrices: its shape is {tuple(X.shape)}"
        )
    return [X[:, k] for k in range(X.shape[1])]


def as_samples(X: Any, *, name: str = "X") -> Array:
    """`as_stack`, also of samples of several matrices (n_samples, b, n, n)."""
    parts = _block_parts(X, name)
    if parts is None:
        return as_stack(X, name=name)
    stacks = [as_stack(part, name=f"{name}[:, {k}]") for k, part in enumerate(parts)]
    return namespace(stacks[0]).stack(stacks, axis=1)


def check_part(X: Any, first: int, *, name: str = "X", precision: str = "double") -> Array:
    """`check_spd` of a part of a larger stack; messages count from `first`, the index of its first matrix."""
    if not isinstance(precision, str) or precision not in SIZES:
        raise ValueError(f"precision must be 'double' or 'mixed', got {precision!r}")
    rounding = _rounding(X)
    stack = as_stack(X, name=name, keep_single=precision == "mixed")
    item_bytes = 8 * stack.shape[-1] ** 2
    checks = backend.map_blocks(
        lambda s: _check_block(backend.double(stack[s]), first + s.start, name, rounding, SIZES[precision]),
        stack.shape[0],
        item_bytes,
        on=stack,
    )
    for complaint in checks:
        if complaint is not None:
            raise ValueError(complaint + _order_hint(stack, name))
    return stack


def as_stack(X: Any, *, name: str = "X", keep_single: bool = False) -> Array:
    """Return `X` as a real float64 array (or float32 if that is kept) of shape (n_matrices, n, n), or raise."""
    X = backend.detached(X) if backend.is_array(X) else _from_sequence(X, name)
    if isinstance(X, np.ma.MaskedArray):
        X = _unmasked(X, name)
    xp = namespace(X)
    if isinstance(X, np.ndarray) and X.dtype.kind not in "biufc":
        raise ValueError(f"{name} must hold numbers, got dtype {X.dtype}; convert it, e.g. {name}.astype(float)")
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError(
            f"{name} is complex. Complex data not supported: pass real symmetric matrices, e.g. the real form "
            f"[[Re, -Im], [Im, Re]] of Hermitian ones"
        )
    if X.ndim != 3 or X.shape[1] != X.shape[2]:
        raise ValueError(f"{name} must have shape (n_matrices, n, n), got {tuple(X.shape)}{_shape_hint(X, name)}")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"{name} has no matrices: its shape is {tuple(X.shape)}; provide at least one")
    X = X if keep_single and X.dtype == xp.float32 else xp.astype(X, xp.float64, copy=False)
    # rows one behind the other, as products want them: the last digits do not depend on the order in memory
    return np.ascontiguousarray(X) if isinstance(X, np.ndarray) and not X[:1].flags.c_contiguous else X


def entry(name: str, index: int) -> str:
    """Name of sample `index` of the array `name`: "X[3]", or "X[3, 1]" if the name is "X[:, 1]"."""
    head, colon, tail = name.rpartition("[:")
    return f"{head}[{index}{tail}" if colon else f"{name}[{index}]"


def _not_finite(name: str, index: int) -> str:
    return (
        f"{entry(name, index)} contains NaN or infinity; remove this sample, or correct the data it was computed from"
    )


def _unmasked(X: np.ma.MaskedArray, name: str) -> np.ndarray:
    """The plain array, if nothing in it is masked."""
    masked = np.ma.getmaskarray(X)
    if masked.any():
        bad = int(np.argwhere(masked)[0][0])
        raise ValueError(
            f"{entry(name, bad)} has masked entries; remove this sample, or fill them, e.g. {name}.filled(...)"
        )
    return X.data


def _shape_hint(X: Array, name: str) -> str:
    """A remedy for an array of wrong shape, if the shape suggests one."""
    if X.ndim == 3 and X.shape[0] == X.shape[1]:
        return f"; for matrices along the last axis, as MATLAB stores them, pass {name}.transpose(2, 0, 1)"
    if X.ndim == 3:
        signals = f"spdsl.features.signal_covariance({name})"
        return f"; for signals (trials, channels, time) pass their covariances, e.g. {signals}"
    if X.ndim != 2:
        return ""
    if X.shape[0] == X.shape[1]:
        return f"; for a single matrix pass {name}[None]"
    side = math.isqrt(X.shape[1])
    return f"; for flattened matrices pass {name}.reshape(-1, {side}, {side})" if side**2 == X.shape[1] > 1 else ""


def _order_hint(X: Array, name: str) -> str:
    """What to do about a bad stack with as many matrices as rows, where the matrices seem to lie along the last axis."""
    if X.shape[0] != X.shape[1] or X.shape[0] < 2:
        return ""
    xp = namespace(X)
    size = float(xp.max(xp.abs(X)))
    if not 0 < size < math.inf:
        return ""
    X = backend.double(X) / size  # differences of the largest numbers would overflow
    if float(xp.max(xp.abs(X - xp.permute_dims(X, (1, 0, 2))))) > 1e-8 or float(xp.max(xp.abs(X - X.mT))) <= 1e-8:
        return ""
    return f". Its matrices seem to lie along the last axis, as MATLAB stores them: pass {name}.transpose(2, 0, 1)"


def _from_sequence(X: Any, name: str) -> np.ndarray:
    """A NumPy array from lists, a data frame, or anything else that NumPy understands."""
    if hasattr(X, "toarray"):
        raise TypeError(f"{name} is a sparse container, but SPD matrices must be dense; pass {name}.toarray()")
    if isinstance(X, list | tuple):
        for k, part in enumerate(X):
            if any(map(np.ma.is_masked, part if isinstance(part, list | tuple) else [part])):
                raise ValueError(f"{entry(name, k)} has masked entries; remove this sample, or fill them")
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ValueError(f"{name} must have shape (n_matrices, n, n); {_odd_part(X, name)}") from error
    if array.ndim == 0:
        raise ValueError(f"{name} must be an array of shape (n_matrices, n, n), got {type(X).__name__}")
    return array


def _odd_part(X: Any, name: str) -> str:
    """The first part of a ragged sequence whose shape differs from that of part 0."""
    try:
        shapes = []
        for k, part in enumerate(X):
            try:
                shapes.append(np.shape(part))
            except ValueError:  # ragged itself: a sample of several matrices
                blocks = [np.shape(block) for block in part]
                odd = next(b for b, shape in enumerate(blocks) if shape != blocks[0])
                sizes = f"{blocks[odd]} where {name}[{k}, 0] has {blocks[0]}"
                return f"{name}[{k}, {odd}] has shape {sizes}; pass blocks of one size"
        odd = next(k for k, shape in enumerate(shapes) if shape != shapes[0])
    except (ValueError, TypeError, StopIteration):
        return "its parts have different shapes"
    return f"{entry(name, odd)} has shape {shapes[odd]} but {name}[0] has shape {shapes[0]}; pass matrices of one size"


def _check_block(block: Array, start: int, name: str, rounding: float, sizes: tuple[float, float]) -> str | None:
    """The error of the first invalid matrix of a block, or None."""
    xp = namespace(block)
    finite = xp.all(xp.isfinite(block), axis=(1, 2))
    if not bool(xp.all(finite)):
        return _not_finite(name, start + _first(~finite))
    size = xp.max(xp.abs(block), axis=(1, 2))
    if not bool(xp.all(size > 0)):
        k = _first(size == 0)
        return (
            f"{entry(name, start + k)} is all zero, so not positive definite; remove this sample (a ridge cannot help)"
        )
    asymmetry = xp.max(xp.abs(block - block.mT), axis=(1, 2)) / size
    tolerance = _tolerance(rounding)
    if not bool(xp.all(asymmetry <= tolerance)):
        k = _first(asymmetry > tolerance)
        return (
            f"{entry(name, start + k)} is not symmetric: entries differ from their mirror images by up to "
            f"{float(asymmetry[k]):.1e} of the largest entry; if that is rounding, pass ({name} + {name}.mT) / 2"
        )
    return _check_definite(block / size[:, None, None], size, start, name, rounding) or _check_size(
        size, sizes, start, name
    )


def _check_size(size: Array, sizes: tuple[float, float], start: int, name: str) -> str | None:
    """The error of the first matrix whose largest entry is out of range."""
    odd = (size < sizes[0]) | (size > sizes[1])
    if not bool(namespace(size).any(odd)):
        return None
    k = _first(odd)
    return (
        f"{entry(name, start + k)} has a largest entry of {float(size[k]):.1e}, out of the range {sizes[0]:g} to {sizes[1]:g} "
        f"in which squares are accurate; divide {name} by its mean trace"
    )


def _check_definite(unit: Array, size: Array, start: int, name: str, rounding: float) -> str | None:
    """The error of the first matrix that is not positive definite; `unit` is scaled to a largest entry of 1."""
    xp = namespace(unit)
    n = unit.shape[-1]
    limit = n * rounding  # below this the smallest eigenvalue is rounding
    try:
        pivots = xp.linalg.diagonal(xp.linalg.cholesky((unit + unit.mT) / 2)) ** 2
        if float(xp.min(pivots)) > 10 * n * limit:
            return None
    except Exception as error:  # the array libraries have no common exception for a failed factorization
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
                else f"a ridge such as regularize({name}, 1e-3) is too small to help; check its sign and how it was computed"
            )
            return (
                f"{entry(name, start + k)} is not positive definite{precision}: smallest eigenvalue "
                f"{float(w[0] * size[k]):.2g} against largest {float(w[-1] * size[k]):.2g}; {remedy}"
            )
    return None


def _first(mask: Array) -> int:
    return int(namespace(mask).argmax(namespace(mask).astype(mask, namespace(mask).int8)))
