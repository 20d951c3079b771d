"""Batched factorizations shared by the metrics, and the blocks in which pairs are processed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from spdsl import backend
from spdsl.backend import Array, namespace, symmetric

TRUST = 1e3 * 2.2e-16  # times the condition number: smaller results of a difference are computed from the pencil
CLOSE = 1e-8  # squared distance relative to the squared lengths below which a Gram product keeps too few digits
CHUNK_BLOCKS = 2  # of pairs whose derivatives are held at once
LINALG_ERRORS = ("LinAlgError", "_LinAlgError")  # of NumPy and torch, which have no common base class
SPREAD = 1e8  # eigenvalue ratio up to which eigh keeps 8 digits of the smallest; beyond it, the SVD of a factor


class NotPositiveDefiniteError(ValueError):
    """An intermediate matrix is not positive definite to working precision.

    Parameters
    ----------
    what : str
        Which one; the beginning of the message.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: the matrices are too ill-conditioned for this metric in double precision; add a ridge, e.g. "
            f"regularize(X, 1e-3)"
        )


def positive(w: Array) -> Array:
    """Return eigenvalues as they are, or raise if one is not positive."""
    xp = namespace(w)
    if w.shape[0] and not bool(xp.all(w > 0)):
        raise NotPositiveDefiniteError(f"an eigenvalue was computed as {float(xp.min(w)):.3g}")
    return w


def spread_out(w: Array) -> Array:
    """Which rows of ascending eigenvalues are so spread that the smallest is inaccurate or not positive."""
    return ~(w[:, 0] * SPREAD > w[:, -1])  # also true if the smallest is not positive


def pencil_roots(P: Array, Q: Array) -> Array:
    """Square roots of the eigenvalues of `P^-1 Q`, as singular values: for close P and Q exact to rounding beside 1."""
    K = backend.inverse_lower(cholesky(P)) @ cholesky(Q)
    if backend.slow_svd(K):  # for roots near 1 the eigenvalues of K'K have as many digits
        return positive(backend.eigvalsh(backend.gram(K))) ** 0.5
    return namespace(K).linalg.svdvals(K)


def left_singular(L: Array) -> tuple[Array, Array]:
    """Left singular vectors (N, m, m) and singular values (N, m) of square matrices.

    LAPACK's divide and conquer fails on rare matrices of which it decomposes the transpose (seen with OpenBLAS on one of 80
    Cholesky factors of size 401).
    """
    xp = namespace(L)
    try:
        U, s, _ = xp.linalg.svd(L)
        return U, s
    except Exception as error:
        if type(error).__name__ not in LINALG_ERRORS:
            raise
        if L.shape[0] > 1:  # the one that fails is not named
            parts = [left_singular(L[k : k + 1]) for k in range(L.shape[0])]
            return xp.concat([U for U, _ in parts]), xp.concat([s for _, s in parts])
        _, s, Vt = xp.linalg.svd(L.mT)
        return Vt.mT, s


def cholesky(P: Array, *, exact: bool = False) -> Array:
    """Batched Cholesky factors; one error class for all array libraries. `exact`: P is exactly symmetric."""
    xp = namespace(P)
    try:
        return xp.linalg.cholesky(P if exact else symmetric(P))
    except Exception as error:
        if type(error).__name__ not in LINALG_ERRORS:
            raise
        raise NotPositiveDefiniteError("a Cholesky factorization failed") from error


def logdet(L: Array) -> Array:
    """Log-determinant of `L L'` from the Cholesky factor."""
    xp = namespace(L)
    return 2 * xp.sum(xp.log(xp.linalg.diagonal(L)), axis=-1)


def spd_inverse(P: Array) -> Array:
    """Inverse of SPD matrices from their Cholesky factors."""
    return backend.gram(backend.inverse_lower(cholesky(P)))


def diagonal_matrix(d: Array) -> Array:
    """Diagonal matrices (a, m, m) from their diagonals (a, m)."""
    xp = namespace(d)
    return d[:, :, None] * xp.eye(d.shape[-1], dtype=d.dtype, device=d.device)


def nonnegative(d2: Array) -> Array:
    """Replace negative rounding errors by zero."""
    return d2.clip(0.0)


def gram_sqdist(A: Array, B: Array, *, exact_when_close: bool = False) -> Array:
    """Squared Euclidean distances between rows, through one matrix product.

    The product is inaccurate for pairs that are close compared with the length of the rows; `exact_when_close`
    recomputes those from their difference.
    """
    xp = namespace(A)
    squares = xp.sum(B * B, axis=-1)
    size = (squares if A is B else xp.sum(A * A, axis=-1))[:, None] + squares[None, :]
    d2 = nonnegative(size - 2 * backend.product(A, B.mT))
    if exact_when_close:
        i, j = xp.nonzero(d2 < CLOSE * size)
        if i.shape[0]:
            d2[i, j] = pair_blocks(lambda s: xp.sum((A[i[s]] - B[j[s]]) ** 2, axis=-1), i.shape[0], A)
    return d2


def gram_pairs(Z: Array, i: Array, j: Array) -> Array:
    """Squared Euclidean distances (p,) between the rows i and j of one array, as `gram_sqdist`."""
    G = backend.product_by_itself(Z)
    squares = namespace(Z).linalg.diagonal(G)
    d2 = squares[i] + squares[j]
    d2 -= 2 * backend.pair_entries(G, i, j)
    return nonnegative(d2)


class Taken:
    """The factors of selected matrices; a part is gathered when first used, since few formulas need all parts.

    For a slice the parts are views.
    """

    def __init__(self, F: tuple[Array, ...], index: Array | slice) -> None:
        self.F, self.index = F, index

    def __getitem__(self, part: int) -> Array:
        return self.F[part][self.index]

    def chosen(self, part: int, which: Array) -> Array:
        """The part of some of the pairs, marked in `which` (p,); a single matrix stands for all."""
        matrices = self[part]
        if matrices.shape[0] == which.shape[0]:
            return matrices[which]
        return namespace(matrices).broadcast_to(matrices, (int(which.sum()), *matrices.shape[1:]))

    def take(self, part: int) -> Array:
        """A copy of the part that may be changed."""
        return self[part] + 0.0 if isinstance(self.index, slice) else self[part]


def run_pair_blocks(function: Callable[[slice], Any], pairs: slice, rows: Array, *, matrices: int = 4) -> Iterator[Any]:
    """Run `function` on slices of the pairs, of bounded size given the number of matrices per pair."""
    first = pairs.start
    return backend.map_blocks(
        lambda s: function(slice(first + s.start, first + s.stop)),
        pairs.stop - first,
        8 * rows.shape[1] * matrices,
        on=rows,
    )


def pair_chunks(count: int, rows: Array) -> list[slice]:
    """Chunks of the pairs whose derivatives are held at once: a few blocks, so that they stay in cache."""
    blocks = CHUNK_BLOCKS if backend.is_numpy(rows) else 1
    size = max(1, blocks * backend.block_bytes(rows) // (8 * rows.shape[1]))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def upper_pairs(count: int, s: slice, model: Array) -> tuple[Array, Array]:
    """Rows and columns of the pairs i < j of `count` matrices, for a slice of the pairs in row order."""
    xp = namespace(model)
    row = xp.arange(count, device=model.device)
    first = row * (count - 1) - row * (row - 1) // 2  # index of the first pair of each row
    k = xp.arange(s.start, s.stop, device=model.device)
    i = xp.searchsorted(first, k, side="right") - 1
    return i, k - first[i] + i + 1


def pair_blocks(function: Callable[[slice], Any], count: int, rows: Array) -> Array:
    """Run `function` on slices of the pairs and concatenate the numbers it returns."""
    with backend.held_blas(rows):  # once for all blocks: switching takes as long as a block
        parts = list(run_pair_blocks(function, slice(0, count), rows, matrices=2))
    return backend.concat(parts) if parts else rows[:0, 0]
