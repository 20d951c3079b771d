"""Batched factorisations that the metrics share, and the blocks in which pairs are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from spdsl import arrays
from spdsl.arrays import Array, namespace, symmetric

CLOSE = 1e-8  # squared distance relative to the squared lengths below which a Gram product keeps too few digits
SPREAD = 1e8  # eigenvalue ratio up to which eigh keeps 8 digits of the smallest; beyond it, the SVD of a factor


class NotPositiveDefiniteError(ValueError):
    """A matrix met on the way is not positive definite to working precision."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: matrices too badly conditioned for this metric in double precision; add a ridge, e.g. "
            f"regularize(X, 1e-3)"
        )


def positive(w: Array) -> Array:
    """Return eigenvalues as they are, or raise if one is not positive."""
    xp = namespace(w)
    if w.shape[0] and not bool(xp.all(w > 0)):
        raise NotPositiveDefiniteError(f"an eigenvalue came out as {float(xp.min(w)):.3g}")
    return w


def spread_out(w: Array) -> Array:
    """Which rows of ascending eigenvalues spread so far that the smallest has lost its digits, or is not positive."""
    return ~(w[:, 0] * SPREAD > w[:, -1])  # false where the smallest is not positive: the largest is not smaller


def cholesky(P: Array, *, exact: bool = False) -> Array:
    """Stacked Cholesky factors; one error class for all array libraries. `exact`: P is symmetric to the last digit."""
    xp = namespace(P)
    try:
        return xp.linalg.cholesky(P if exact else symmetric(P))
    except Exception as error:  # numpy.linalg.LinAlgError, torch.linalg.LinAlgError: no common base class
        if type(error).__name__ not in ("LinAlgError", "_LinAlgError"):
            raise
        raise NotPositiveDefiniteError("a Cholesky factorisation failed") from error


def logdet(L: Array) -> Array:
    """Log-determinant of `L L'` from the Cholesky factor."""
    xp = namespace(L)
    return 2 * xp.sum(xp.log(xp.linalg.diagonal(L)), axis=-1)


def spd_inverse(P: Array) -> Array:
    """Inverse of SPD matrices by their Cholesky factors."""
    return arrays.gram(arrays.inverse_lower(cholesky(P)))


def diagonal_matrix(d: Array) -> Array:
    """Stack (a, m) to diagonal matrices (a, m, m)."""
    xp = namespace(d)
    return d[:, :, None] * xp.eye(d.shape[-1], dtype=d.dtype, device=d.device)


def nonnegative(d2: Array) -> Array:
    """Clear what rounding leaves below zero."""
    xp = namespace(d2)
    return xp.maximum(d2, xp.zeros_like(d2))


def gram_sqdist(A: Array, B: Array, *, exact_when_close: bool = False) -> Array:
    """Squared Euclidean distances between rows, through one matrix product.

    The product loses the digits of pairs that are close beside the length of the rows; `exact_when_close` takes those
    again by their difference.
    """
    xp = namespace(A)
    squares = xp.sum(B * B, axis=-1)
    size = (squares if A is B else xp.sum(A * A, axis=-1))[:, None] + squares[None, :]
    d2 = nonnegative(size - 2 * arrays.product(A, B.mT))
    if exact_when_close:
        i, j = xp.nonzero(d2 < CLOSE * size)
        if i.shape[0]:
            d2[i, j] = pair_blocks(lambda s: xp.sum((A[i[s]] - B[j[s]]) ** 2, axis=-1), i.shape[0], A)
    return d2


class Taken:
    """The factors of chosen matrices, each part gathered when asked for: few formulas need all of them.

    Those of a slice are views.
    """

    def __init__(self, F: tuple[Array, ...], index: Array | slice) -> None:
        self.F, self.index = F, index

    def __getitem__(self, part: int) -> Array:
        return self.F[part][self.index]

    def take(self, part: int) -> Array:
        """The part as a copy that may be changed."""
        return self[part] + 0.0 if isinstance(self.index, slice) else self[part]


def run_pair_blocks(function: Callable[[slice], Any], pairs: slice, rows: Array, *, matrices: int = 4) -> Iterator[Any]:
    """Run `function` on slices of the pairs, sized so that the matrices of one slice, so many a pair, stay small."""
    first = pairs.start
    return arrays.map_blocks(
        lambda s: function(slice(first + s.start, first + s.stop)),
        pairs.stop - first,
        8 * rows.shape[1] * matrices,
        on=rows,
    )


def pair_chunks(count: int, rows: Array) -> list[slice]:
    """Chunks of the pairs whose derivatives are held at once: a few blocks for every thread, so that they stay in cache."""
    workers = arrays.threads() if arrays.is_numpy(rows) else 1
    size = max(1, workers * arrays.block_bytes(rows) // (8 * rows.shape[1]))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def upper_pairs(count: int, s: slice, model: Array) -> tuple[Array, Array]:
    """Rows and columns of the pairs i < j of `count` matrices, those of a slice of them in the order of rows."""
    xp = namespace(model)
    row = xp.arange(count, device=model.device)
    first = row * (count - 1) - row * (row - 1) // 2  # number of the first pair of each row
    k = xp.arange(s.start, s.stop, device=model.device)
    i = xp.searchsorted(first, k, side="right") - 1
    return i, k - first[i] + i + 1


def pair_blocks(function: Callable[[slice], Any], count: int, rows: Array) -> Array:
    """Run `function` on slices of the pairs and join the numbers that it returns."""
    with arrays.held_blas(rows):  # from end to end: to hold it takes as long as a block
        parts = list(run_pair_blocks(function, slice(0, count), rows, matrices=2))
    return arrays.concat(parts) if parts else rows[:0, 0]
