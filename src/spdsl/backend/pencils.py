"""Determinants of many sums of two matrices: `log det(A + t B)` for chosen pairs and several t."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from spdsl.backend.arrays import Array, concat, is_numpy, namespace
from spdsl.backend.blocks import map_blocks
from spdsl.backend.linalg import on_stream

SHARED_SIZE = 160  # of matrices whose lower triangle fits in the shared memory of a CUDA block, twice per processor
THREADS = 256

# One block of threads a pair. Two columns are eliminated between barriers, in the packed lower triangle; the pivots stay
# on its diagonal. Batched library routines take five times as long at size 93: they go through global memory.
KERNEL = r"""
extern "C" __global__ void pencil_logdets(const double* A, const long long* i, const double* B, const long long* j,
                                          const double* t, double* out, int n, int count) {
  extern __shared__ double S[];
  const double* a = A + i[blockIdx.x] * (long long)n * n;
  const double* b = B + j[blockIdx.x] * (long long)n * n;
  int x = threadIdx.x % 16, y = threadIdx.x / 16, rows = blockDim.x / 16;
  for (int q = 0; q < count; q++) {
    for (int r = y; r < n; r += rows)
      for (int c = x; c <= r; c += 16) S[r * (r + 1) / 2 + c] = a[r * n + c] + t[q] * b[r * n + c];
    __syncthreads();
    for (int c = 0; c + 1 < n; c += 2) {
      int next = (c + 1) * (c + 2) / 2 + c;
      double first = 1 / S[c * (c + 1) / 2 + c], e = S[next], g = e * first, pivot = S[next + 1] - g * e, second = 1 / pivot;
      for (int r = c + 2 + y; r < n; r += rows) {
        int row = r * (r + 1) / 2;
        double u = S[row + c], f = u * first, h = (S[row + c + 1] - u * g) * second;
        for (int s = c + 2 + x; s <= r; s += 16) {
          int other = s * (s + 1) / 2 + c;
          double v = S[other];
          S[row + s] -= f * v + h * (S[other + 1] - v * g);
        }
      }
      __syncthreads();
      if (threadIdx.x == 0) S[next + 1] = pivot;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
      double sum = 0;
      for (int c = threadIdx.x; c < n; c += 32) sum += log(S[c * (c + 1) / 2 + c]);
      for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_down_sync(0xffffffff, sum, lane);
      if (threadIdx.x == 0) out[blockIdx.x * (long long)count + q] = sum;
    }
    __syncthreads();
  }
}
"""


def pencil_logdets(A: Array, i: Array, B: Array, j: Array, shifts: Sequence[float]) -> Array:
    """`log det(A_i + t B_j)` (pairs, shifts) for stacks of SPD matrices; NaN where rounding makes one indefinite."""
    n = A.shape[-1]
    if n <= SHARED_SIZE and is_torch_array(A) and A.is_cuda and (kernel := _kernel()) is not None:
        return _on_cuda(kernel, A, i, B, j, shifts)
    parts = map_blocks(lambda s: _by_library(A, i[s], B, j[s], shifts), i.shape[0], 32 * n * n, on=A)
    return concat([namespace(A).zeros((0, len(shifts)), dtype=A.dtype, device=A.device), *parts])


def _by_library(A: Array, i: Array, B: Array, j: Array, shifts: Sequence[float]) -> Array:
    """The same through Cholesky factors of all pairs."""
    xp, first, second = namespace(A), A[i], B[j]
    return xp.stack([_logdet(first + t * second) for t in shifts], axis=-1)


def _logdet(C: Array) -> Array:
    xp = namespace(C)
    if is_numpy(C):
        try:
            L = np.linalg.cholesky(C)
        except np.linalg.LinAlgError:  # which of them is not said
            return np.full(len(C), np.nan)
    else:
        L, info = xp.linalg.cholesky_ex(C)
        L[info > 0] = xp.nan
    return 2 * xp.sum(xp.log(xp.linalg.diagonal(L)), axis=-1)


@cache
def _kernel() -> Any:
    """The compiled kernel, or None without CuPy."""
    try:
        import cupy
    except ImportError:
        return None
    kernel = cupy.RawKernel(KERNEL, "pencil_logdets")
    kernel.max_dynamic_shared_size_bytes = 8 * SHARED_SIZE * (SHARED_SIZE + 1) // 2
    return kernel


def _on_cuda(kernel: Any, A: Array, i: Array, B: Array, j: Array, shifts: Sequence[float]) -> Array:
    import torch

    n, pairs = A.shape[-1], i.shape[0]
    t = torch.tensor(shifts, dtype=torch.float64, device=A.device)
    out = torch.empty((pairs, len(shifts)), dtype=torch.float64, device=A.device)
    with on_stream(A) as cupy:
        given = [cupy.from_dlpack(x.contiguous()) for x in (A, i, B, j, t)]
        if pairs:
            kernel((pairs,), (THREADS,), (*given, cupy.from_dlpack(out), n, len(shifts)), shared_mem=4 * n * (n + 1))
    return out
