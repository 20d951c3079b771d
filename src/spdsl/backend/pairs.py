"""Sums over pairs (i, j) of samples, computed as products with sparse or dense symmetric matrices."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse

from spdsl.backend.arrays import Array, is_numpy, namespace
from spdsl.backend.blocks import map_blocks
from spdsl.backend.linalg import product

DENSE = 512  # number of samples up to which a dense product on a device is cheaper than setting up a sparse one


def pair_sums(count: int, i: Array, j: Array, values: Array, others: Array | None = None) -> Array:
    """Return `out` (count,), where `out[k]` is the sum of `values[p]` over all pairs p that contain k.

    With `others`, `values` are added to the samples i and `others` to the samples j.
    """
    others = values if others is None else others
    if is_numpy(values):
        return np.bincount(i, values, count) + np.bincount(j, others, count)
    out = namespace(values).zeros(count, dtype=values.dtype, device=values.device)
    return out.index_add_(0, i, values).index_add_(0, j, others)


def pair_max(count: int, i: Array, j: Array, values: Array) -> Array:
    """Return `out` (count,), where `out[k]` is the maximum of `values[p]` over the pairs that contain k, or minus infinity."""
    xp = namespace(values)
    out = xp.full((count,), -math.inf, dtype=values.dtype, device=values.device)
    for end in (i, j):
        if is_numpy(values):
            np.maximum.at(out, end, values)
        else:
            out = out.scatter_reduce(0, end, values, reduce="amax")
    return out


def add_pairs(out: Array, i: Array, j: Array, c: Array, D: Array) -> None:
    """Add `c_p D[p, 0]` to `out[i_p]` and `c_p D[p, -1]` to `out[j_p]` for all pairs p, in place. D is (p, 1 or 2, m, m)."""
    if not is_numpy(out):
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
    """Return `C Z` for the symmetric N x N matrix C that holds `c` at the pairs (i, j) and (j, i), sparse or dense."""
    count = Z.shape[0]
    if len(c) * 8 > count * count or (count <= DENSE and not is_numpy(Z)):
        return product(pair_matrix(i, j, c, count), Z)
    xp = namespace(Z)
    row, column, both = xp.concat([i, j]), xp.concat([j, i]), xp.concat([c, c])
    if is_numpy(Z):
        return scipy.sparse.csr_array((both, (row, column)), shape=(count, count)) @ Z
    import torch

    with torch.sparse.check_sparse_tensor_invariants(False):
        return torch.sparse_coo_tensor(xp.stack([row, column]), both, (count, count)) @ Z


def pair_differences(i: Array, j: Array, c: Array, Z: Array) -> Array:
    """Return `out[k] = sum c_p (Z[k] - Z[l])` over all pairs p of k and another row l of Z."""
    count = Z.shape[0]
    if is_numpy(Z) and len(c) * 8 > count * count:
        C = pair_matrix(i, j, c, count)
        out = C.sum(axis=1)[:, None] * Z
        out -= product(C, Z)
        return out
    degree = pair_sums(count, i, j, c)
    return degree[:, None] * Z - pair_product(i, j, c, Z)


def pair_matrix(i: Array, j: Array, c: Array, count: int) -> Array:
    """Return the dense symmetric matrix with `c` at (i, j) and (j, i), i < j, and zero elsewhere."""
    xp = namespace(c)
    C = xp.zeros((count, count), dtype=c.dtype, device=c.device)
    if is_numpy(c):  # half the time of two assignments by rows and columns
        C.reshape(-1)[i * count + j] = c
        return C + C.T
    C[i, j] = c
    C[j, i] = c
    return C


def pair_entries(A: Array, i: Array, j: Array) -> Array:
    """Return the entries (p,) of a matrix at the pairs (i, j)."""
    return A.reshape(-1).take(i * A.shape[1] + j) if is_numpy(A) else A[i, j]
