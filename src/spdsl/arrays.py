"""Which array library is this, and the few batched operations that the array standard does not name.

The only module that imports torch or CuPy, and it does so only when the caller brings a tensor or asks for a device.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from types import ModuleType
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from array_api_compat import array_namespace, is_numpy_array, is_torch_array

from spdsl.threads import one_blas_thread, pool, threads

Array = Any  # a NumPy array or a torch tensor; the standard has no common base class

BLOCK_BYTES = 1 << 22  # working set of one block of small matrices: a few of these fit in a core's share of cache
TORCH_BLOCK_BYTES = 1 << 28  # the same for torch on the CPU, which spreads one call over the cores itself
DEVICE_BLOCK_BYTES = 1 << 31  # the same on a GPU, which wants all the work at once that its memory can hold
KEEP_BYTES = 1 << 28  # factors of pairs up to this size are kept for the derivative; beyond it they are computed again
CHUNK_BYTES = 1 << 28  # of a stack on its way to a device
DENSE = 512  # matrices up to which a dense product costs a device less than setting up a sparse one
TORCH_EIGH = 32  # size up to which torch's batched eigh on CUDA is a batched kernel; beyond, one matrix after the other
MANY = 16  # triangular matrices from which on inverting all at once beats LAPACK, one after the other
ROWS = 8  # of a triangular matrix that are inverted one by one; larger ones by halves
ROUND = 16  # blocks per thread in one round; the results of a round are held at once


def namespace(*arrays: Array) -> ModuleType:
    """Return the array-API namespace shared by `arrays` (NumPy or torch)."""
    xp: ModuleType = array_namespace(*arrays)
    return xp


def is_numpy(x: Array) -> bool:
    """Tell whether `x` is a NumPy array."""
    return bool(is_numpy_array(x))


def is_array(x: Any) -> bool:
    """Tell whether `x` is a NumPy array or a torch tensor."""
    return bool(is_numpy_array(x) or is_torch_array(x))


def detached(x: Array) -> Array:
    """Return a tensor without its autograd history: derivatives here are exact without it. Arrays stay as they are."""
    return x.detach() if is_torch_array(x) else x


def to_numpy(x: Array) -> np.ndarray:
    """Return `x` as a NumPy array on the host."""
    if is_torch_array(x):
        return x.detach().cpu().numpy()
    return np.asarray(x)


def like(x: Array, model: Array) -> Array:
    """Return `x` in the array library and on the device of `model`."""
    if is_numpy_array(model):
        return to_numpy(x)
    xp = namespace(model)
    if is_torch_array(x):
        return x.to(model.device)
    return xp.asarray(_shareable(x), device=model.device)


def double(x: Array) -> Array:
    """Return `x` as float64, itself where it already is that."""
    return namespace(x).astype(x, namespace(x).float64, copy=False)


def to_device(x: Array, device: Any, *, single: bool = False) -> Array:
    """Move `x` to `device`, as float32 if `single`; NumPy arrays become torch tensors there. `None` leaves it in place.

    What goes to another device goes in chunks, so that no second copy of `x` is held on either side.
    """
    xp = namespace(x)
    if device is None:
        return xp.astype(x, xp.float32, copy=False) if single else x
    torch, target = _torch_device(device)
    if is_torch_array(x) and x.device == target:
        return x.to(torch.float32) if single else x
    dtype = torch.float32 if single else torch.as_tensor(_shareable(x[:0])).dtype
    if target.type == "cpu":
        return torch.as_tensor(_shareable(x), dtype=dtype, device=target)
    out = torch.empty(tuple(x.shape), dtype=dtype, device=target)
    rows = max(1, CHUNK_BYTES // max(1, x.nbytes // max(1, x.shape[0])))
    for start in range(0, x.shape[0], rows):
        out[start : start + rows] = torch.as_tensor(_shareable(x[start : start + rows]))
    return out


def _torch_device(device: Any) -> tuple[ModuleType, Any]:
    """PyTorch, and the device of that name, or an error that says what to use."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"device={device!r} needs PyTorch: pip install 'spdsl[torch]'") from error
    try:
        target = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device={device!r} is none that PyTorch knows; use device=None, 'cpu' or 'cuda'") from error
    if target.type != "cuda":
        return torch, target
    if not torch.cuda.is_available():
        raise ValueError(f"device={device!r}: this PyTorch sees no CUDA device; use device=None or 'cpu'")
    index = torch.cuda.current_device() if target.index is None else target.index
    return torch, torch.device("cuda", index)


def free_bytes(device: Any) -> int | None:
    """Memory free on a CUDA device, with what the allocators hold and do not use; None for the host, where it can grow."""
    if device is None:
        return None
    torch, target = _torch_device(device)
    if target.type != "cuda":
        return None
    held = torch.cuda.memory_reserved(target) - torch.cuda.memory_allocated(target)
    return int(torch.cuda.mem_get_info(target)[0] + held)


def keep_bytes(x: Array) -> int:
    """How much may be kept beside `x` to save computing it again."""
    free = None if is_numpy_array(x) else free_bytes(x.device)
    return KEEP_BYTES if free is None else free // 4


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there is no memory left: torch and CuPy have a class of that name each."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def _shareable(x: Array) -> Array:
    """A copy of a NumPy array whose memory torch cannot share: read-only, or with negative strides; else `x` itself."""
    if not is_numpy_array(x) or (x.flags.writeable and min(x.strides, default=0) >= 0):
        return x
    return np.array(x, order="C")


def own_threads(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function of (self or problem, W, ...) that does all its large work over our threads.

    BLAS is held to one thread from end to end: its own threads wait for more work by spinning, on the cores that ours need.
    """

    @wraps(function)
    def run(first: Any, W: Array, *args: Any, **kwargs: Any) -> Any:
        with held_blas(W):
            return function(first, W, *args, **kwargs)

    return run


def held_blas(x: Array) -> AbstractContextManager[None]:
    """BLAS held to one thread where `x` is of NumPy; other libraries look after their threads themselves."""
    return one_blas_thread if is_numpy_array(x) else nullcontext()


def map_blocks(function: Callable[[slice], Any], count: int, item_bytes: int, *, on: Array) -> Iterator[Any]:
    """Yield `function` of the slices that cover `range(count)`, in order, sized for the device that holds `on`.

    NumPy's stacked LAPACK loops use one core but release the interpreter lock, so their blocks are spread over threads
    with the BLAS underneath held to one thread each.
    """
    workers = threads() if is_numpy_array(on) else 1
    per_block = max(1, block_bytes(on) // max(1, item_bytes))
    if workers > 1 and count * item_bytes > BLOCK_BYTES // 16:
        rounds = -(-count // (per_block * workers))
        per_block = -(-count // (rounds * workers))  # as many for every thread: three blocks on two leave one idle
    slices = [slice(start, min(start + per_block, count)) for start in range(0, count, per_block)]
    for start in range(0, len(slices), ROUND * workers):
        # nothing is yielded inside: a consumer that stops half-way must not leave the BLAS setting behind
        yield from pool.map(function, slices[start : start + ROUND * workers], workers)


def block_bytes(x: Array) -> int:
    """Working set of one block beside `x`."""
    if is_numpy_array(x):
        return BLOCK_BYTES
    return DEVICE_BLOCK_BYTES if x.device.type == "cuda" else TORCH_BLOCK_BYTES


def over_blocks(function: Callable[..., Any], *arrays: Array) -> Any:
    """Apply a function of stacks to stacks, block by block along the first axis, and join what it returns."""
    first = arrays[0]
    count = first.shape[0]
    item_bytes = 8 * sum(int(np.prod(a.shape[1:])) for a in arrays)
    parts = list(map_blocks(lambda s: function(*(a[s] for a in arrays)), count, item_bytes, on=first))
    if isinstance(parts[0], tuple):
        return tuple(concat(column) for column in zip(*parts, strict=True))
    return concat(parts)


def eigh(A: Array) -> tuple[Array, Array]:
    """Eigenvalues, ascending, and eigenvectors of a stack of symmetric matrices (a,m,m)."""
    w, V = _eigen("eigh", A)
    return w, V


def eigvalsh(A: Array) -> Array:
    """Eigenvalues, ascending, of a stack of symmetric matrices (a,m,m)."""
    return _eigen("eigvalsh", A)


def _eigen(name: str, A: Array) -> Any:
    """The function of that name, by CuPy on the same memory where torch's would be slow."""
    if not _beyond_torch(A) or (cupy := _cupy()) is None:
        return getattr(namespace(A).linalg, name)(A)
    import torch

    stream = torch.cuda.current_stream(A.device)
    shared = hasattr(stream, "__cuda_stream__") and hasattr(cupy.cuda.Stream, "from_external")
    taken = cupy.cuda.Stream.from_external(stream) if shared else cupy.cuda.ExternalStream(stream.cuda_stream)
    with cupy.cuda.Device(A.device.index), taken:
        found = getattr(cupy.linalg, name)(cupy.from_dlpack(A.contiguous()))
    return tuple(map(torch.from_dlpack, found)) if name == "eigh" else torch.from_dlpack(found)


def _beyond_torch(A: Array) -> bool:
    """Whether torch would take the matrices of this stack one after the other."""
    return is_torch_array(A) and A.is_cuda and A.ndim == 3 and A.shape[0] > 1 and A.shape[-1] > TORCH_EIGH


@cache
def _cupy() -> ModuleType | None:
    """CuPy, or None and a warning that says what it costs."""
    try:
        import cupy
    except ImportError:
        warnings.warn(
            f"without CuPy, eigen-decompositions of matrices beyond {TORCH_EIGH} x {TORCH_EIGH} are about 100 times slower "
            f"on this device; pip install 'spdsl[cuda13]', or 'spdsl[cuda12]', as your CUDA is",
            UserWarning,
            stacklevel=2,
        )
        return None
    return cupy


def product(A: Array, B: Array) -> Array:
    """Return `A @ B` of two matrices, the rows of A spread over our threads."""
    if not is_numpy_array(A):
        return A @ B
    out = np.empty((A.shape[0], B.shape[1]), dtype=np.result_type(A, B))
    list(map_blocks(lambda s: np.matmul(A[s], B, out=out[s]), A.shape[0], out.itemsize * sum(B.shape), on=A))
    return out


def gram(K: Array) -> Array:
    """Return `K'K` of a stack of small matrices, symmetric to rounding.

    Of small matrices BLAS makes this product several times faster than `K K'`; of an array and its own transpose NumPy would
    make a rank-k update and mirror it, which takes longer too.
    """
    return np.matmul(K.mT, K.copy()) if is_numpy_array(K) else K.mT @ K


def product_into(A: Array, B: Array, out: Array) -> None:
    """Write `A @ B` to `out`."""
    if is_numpy_array(out):
        np.matmul(A, B, out=out)
    else:
        import torch

        torch.matmul(A, B, out=out)


def add_scaled(out: Array, x: Array, t: float) -> None:
    """Add `t x` to `out` in place."""
    if is_numpy_array(out):
        out += t * x
    else:
        out.add_(x, alpha=t)


def moved(x: Array, *terms: tuple[float, Array]) -> Array:
    """Return `x + t y + ...` for terms (t, y)."""
    if not is_numpy_array(x):
        for t, y in terms:
            x = x.add(y, alpha=t)
        return x
    total = terms[0][0] * terms[0][1]
    total += x
    for t, y in terms[1:]:
        total += t * y
    return total


def inner_products(*vectors: Array) -> list[list[float]]:
    """All inner products of arrays of one shape, with one wait for the device that holds them."""
    if is_numpy_array(vectors[0]):
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
    if not is_numpy_array(L):
        eye = xp.eye(L.shape[-1], dtype=L.dtype, device=L.device)
        return xp.linalg.solve_triangular(L, eye, upper=False)
    L = np.asarray(L, dtype=np.float64)
    if len(L) >= MANY:
        out = np.zeros(L.shape)
        _invert_lower(L, out)
        return out
    out = np.tril(L)
    with one_blas_thread:  # SciPy's BLAS would wake its threads for every small matrix
        for one in out.mT:  # in Fortran's order an upper triangle, inverted in place
            scipy.linalg.lapack.dtrtri(one, 0, 0, 1)
    return out


def _invert_lower(L: np.ndarray, out: np.ndarray) -> None:
    """Write the inverses to `out`, zero before: by halves, as stacked products that leave the interpreter to other threads.

    LAPACK's own routine is no faster one matrix at a time, and holds the interpreter's lock for each.
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


def pair_sums(count: int, i: Array, j: Array, values: Array) -> Array:
    """Return `out` (count,) with the sum of `values[p]` over all pairs p that k is an end of."""
    if is_numpy_array(values):
        return np.bincount(i, values, count) + np.bincount(j, values, count)
    out = namespace(values).zeros(count, dtype=values.dtype, device=values.device)
    return out.index_add_(0, i, values).index_add_(0, j, values)


def add_pairs(out: Array, i: Array, j: Array, c: Array, D: Array) -> None:
    """Add `c_p D[p, 0]` to `out[i_p]` and `c_p D[p, -1]` to `out[j_p]` for all pairs p, in place. D is (p, 1 or 2, m, m)."""
    if not is_numpy_array(out):
        weighted = c[:, None, None, None] * D
        out.index_add_(0, i, weighted[:, 0])
        out.index_add_(0, j, weighted[:, -1])
        return
    N, (count, sides) = len(out), D.shape[:2]
    first = sides * np.arange(count)
    places = np.concatenate([i, j]), np.concatenate([first, first + sides - 1])
    C = scipy.sparse.csr_array((np.concatenate([c, c]), places), shape=(N, sides * count))
    flat, D = out.reshape(N, -1), D.reshape(sides * count, -1)

    def add(s: slice) -> None:
        flat[s] += C[s] @ D

    list(map_blocks(add, N, flat[:1].nbytes, on=out))


def pair_product(i: Array, j: Array, c: Array, Z: Array) -> Array:
    """Return `C Z` for the symmetric N x N matrix C that holds `c` at the pairs (i, j) and (j, i), never dense if sparse."""
    count = Z.shape[0]
    if len(c) * 8 > count * count or (count <= DENSE and not is_numpy_array(Z)):
        return product(pair_matrix(i, j, c, count), Z)
    xp = namespace(Z)
    row, column, both = xp.concat([i, j]), xp.concat([j, i]), xp.concat([c, c])
    if is_numpy_array(Z):
        return scipy.sparse.csr_array((both, (row, column)), shape=(count, count)) @ Z
    import torch

    with torch.sparse.check_sparse_tensor_invariants(False):
        return torch.sparse_coo_tensor(xp.stack([row, column]), both, (count, count)) @ Z


def pair_matrix(i: Array, j: Array, c: Array, count: int) -> Array:
    """Return the dense symmetric matrix with `c` at (i, j) and (j, i) and zero elsewhere."""
    xp = namespace(c)
    C = xp.zeros((count, count), dtype=c.dtype, device=c.device)
    C[i, j] = c
    C[j, i] = c
    return C


def empty(shape: tuple[int, ...], model: Array) -> Array:
    """Return an array not yet filled, of the library, kind and device of `model`."""
    return namespace(model).empty(shape, dtype=model.dtype, device=model.device)


def concat(parts: Sequence[Array]) -> Array:
    """Join arrays along their first axis."""
    return parts[0] if len(parts) == 1 else namespace(parts[0]).concat(list(parts), axis=0)
