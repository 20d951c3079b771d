"""Batched matrix operations that are not in the array API standard."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import scipy.linalg
from array_api_compat import is_torch_array

from spdsl.backend.arrays import Array, concat, is_numpy, namespace
from spdsl.backend.blocks import map_blocks
from spdsl.backend.extras import install_hint
from spdsl.backend.threads import one_blas_thread

TORCH_EIGH = 32  # size up to which torch's eigh on CUDA is batched; larger matrices are processed one by one
CUDA_BATCH = 1 << 14  # matrices in one call on CUDA: cuSOLVER's batched eigensolver fails beyond about 32,000
CUDA_NUMBERS = 1 << 27  # numbers in one call: the size of its workspace is a 32-bit integer
MANY = 16  # number of triangular matrices from which batched inversion is faster than LAPACK in a loop
FEW_ROWS = 512  # up to which the product of a matrix with itself is not worth a thread more
ROWS = 8  # rows of a triangular matrix that are inverted one by one; larger ones are halved


def eigh(A: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors of a stack of symmetric matrices (a,m,m)."""
    w, V = _eigen("eigh", A)
    return w, V


def eigvalsh(A: Array) -> Array:
    """Eigenvalues, ascending, of a stack of symmetric matrices (a,m,m)."""
    return _eigen("eigvalsh", A)


def _eigen(name: str, A: Array) -> Any:
    """The function of this name, on CUDA in batches that cuSOLVER takes."""
    most = _most_at_once(A)
    if A.ndim != 3 or A.shape[0] <= most:
        return _eigen_at_once(name, A)
    parts = [_eigen_at_once(name, A[k : k + most]) for k in range(0, A.shape[0], most)]
    return tuple(map(concat, zip(*parts, strict=True))) if name == "eigh" else concat(parts)


def _most_at_once(A: Array) -> int:
    """How many matrices fit in one call."""
    if not (is_torch_array(A) and A.is_cuda):
        return max(1, A.shape[0])
    return max(1, min(CUDA_BATCH, CUDA_NUMBERS // max(1, A.shape[-1] ** 2)))


def _eigen_at_once(name: str, A: Array) -> Any:
    """The function of this name; CuPy's, on the same memory, if torch's would be slow."""
    if not _beyond_torch(A) or (cupy := _cupy()) is None:
        return getattr(namespace(A).linalg, name)(A)
    with on_stream(A):
        found = getattr(cupy.linalg, name)(cupy.from_dlpack(A.contiguous()))
    import torch

    return tuple(map(torch.from_dlpack, found)) if name == "eigh" else torch.from_dlpack(found)


@contextmanager
def on_stream(A: Array) -> Iterator[ModuleType]:
    """CuPy, working on the device of a tensor and on torch's stream there."""
    import cupy
    import torch

    stream = torch.cuda.current_stream(A.device)
    shared = hasattr(stream, "__cuda_stream__") and hasattr(cupy.cuda.Stream, "from_external")
    taken = cupy.cuda.Stream.from_external(stream) if shared else cupy.cuda.ExternalStream(stream.cuda_stream)
    with cupy.cuda.Device(A.device.index), taken:
        yield cupy


def _beyond_torch(A: Array) -> bool:
    """Whether torch would process these matrices one by one."""
    return is_torch_array(A) and A.is_cuda and A.ndim == 3 and A.shape[0] > 1 and A.shape[-1] > TORCH_EIGH


def slow_svd(A: Array) -> bool:
    """Whether singular values of these matrices are computed one matrix after the other, and eigenvalues are not."""
    return _beyond_torch(A) and _cupy() is not None


@cache
def _cupy() -> ModuleType | None:
    """CuPy, or None and a warning that it is missing."""
    try:
        import cupy
    except ImportError:
        warnings.warn(
            f"without CuPy, eigen-decompositions of matrices beyond {TORCH_EIGH} x {TORCH_EIGH} are about 100 times slower "
            f"on this device; {install_hint('cuda13')} (for CUDA 12: {install_hint('cuda12')})",
            UserWarning,
            stacklevel=2,
        )
        return None
    return cupy


def product(A: Array, B: Array) -> Array:
    """Return `A @ B` of two matrices, with the rows of A distributed over threads."""
    if not is_numpy(A):
        return A @ B
    out = np.empty((A.shape[0], B.shape[1]), dtype=np.result_type(A, B))
    list(map_blocks(lambda s: np.matmul(A[s], B, out=out[s]), A.shape[0], out.itemsize * sum(B.shape), on=A))
    return out


def product_by_itself(Z: Array) -> Array:
    """Return the symmetric `Z Z'` of a matrix of rows."""
    if not is_numpy(Z) or Z.shape[0] > FEW_ROWS:
        return product(Z, Z.mT)
    with one_blas_thread:  # NumPy computes one half: as fast as the whole on two threads
        return np.matmul(Z, Z.mT)


def gram(K: Array) -> Array:
    """Return `K'K` of small matrices, symmetric to rounding.

    For small matrices BLAS computes this product several times faster than `K K'`. For an array and its own transpose
    NumPy would do a rank-k update and mirror it, which takes longer as well.
    """
    return np.matmul(K.mT, K.copy()) if is_numpy(K) else K.mT @ K


def product_into(A: Array, B: Array, out: Array) -> None:
    """Write `A @ B` to `out`."""
    if is_numpy(out):
        np.matmul(A, B, out=out)
    else:
        import torch

        torch.matmul(A, B, out=out)


def add_scaled(out: Array, x: Array, t: float) -> None:
    """Add `t x` to `out` in place."""
    if is_numpy(out):
        out += t * x
    else:
        out.add_(x, alpha=t)


def moved(x: Array, *terms: tuple[float, Array]) -> Array:
    """Return `x + t y + ...` for terms (t, y)."""
    if not is_numpy(x):
        for t, y in terms:
            x = x.add(y, alpha=t)
        return x
    total = terms[0][0] * terms[0][1]
    total += x
    for t, y in terms[1:]:
        total += t * y
    return total


def inner_products(*vectors: Array) -> list[list[float]]:
    """All inner products of arrays of one shape, with one synchronization with their device."""
    if is_numpy(vectors[0]):
        flat = [v.reshape(-1) for v in vectors]
        return [[float(a @ b) for b in flat] for a in flat]
    rows = namespace(vectors[0]).stack([v.reshape(-1) for v in vectors])
    return (rows @ rows.mT).tolist()


def symmetric(A: Array) -> Array:
    """Return the symmetric part of a stack of matrices."""
    return (A + A.mT) / 2


def inverse_lower(L: Array) -> Array:
    """Return the inverses of a stack of lower-triangular matrices (a,m,m)."""
    xp = namespace(L)
    if not is_numpy(L):
        eye = xp.eye(L.shape[-1], dtype=L.dtype, device=L.device)
        return xp.linalg.solve_triangular(L, eye, upper=False)
    L = np.asarray(L, dtype=np.float64)
    if len(L) >= MANY:
        out = np.zeros(L.shape)
        _invert_lower(L, out)
        return out
    out = np.tril(L)
    with one_blas_thread:  # SciPy's BLAS would start its threads for every small matrix
        for one in out.mT:  # in Fortran order this is an upper triangle, inverted in place
            scipy.linalg.lapack.dtrtri(one, 0, 0, 1)
    return out


def _invert_lower(L: np.ndarray, out: np.ndarray) -> None:
    """Write the inverses to `out`, which is zero: by halving, with batched products that release the interpreter lock.

    LAPACK's own routine is no faster for one matrix at a time, and holds the interpreter lock.
    """
    m = L.shape[-1]
    if m > ROWS:
        h = m // 2
        _invert_lower(L[:, :h, :h], out[:, :h, :h])
        _invert_lower(L[:, h:, h:], out[:, h:, h:])
        np.matmul(-out[:, h:, h:] @ L[:, h:, :h], out[:, :h, :h], out=out[:, h:, :h])
        return
    for row in range(m):
        np.divide(1.0, L[:, row, row], out=out[:, row, row])
        if row:
            np.matmul(L[:, row : row + 1, :row], out[:, :row, :row], out=out[:, row : row + 1, :row])
            out[:, row, :row] *= -out[:, row, row, None]
