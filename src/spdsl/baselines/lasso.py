"""Lasso for many right-hand sides that share one Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from spdsl import backend
from spdsl.backend import Array, one_blas_thread

FIRST_CHECK = 12  # iterations before the first check of the gaps; later checks come after 1.5 times as many
RELAXATION = 1.7  # over-relaxation; 1.5 to 1.8 is customary for the alternating direction method
EXCHANGES = 4  # active-set steps of one polish: nearly all columns that converge do so within four
POLISH_COST = 2  # an exchange of a column may cost as much as this many iterations of it; denser sets keep iterating
POLISH_SHARE = 1 / 8  # or as this share of the iterations since the last check, where those have become many
STEPS = np.geomspace(
    0.1, 10.0, 5
)  # ADMM steps, each with an inverse; within 1.8 times what a column would choose itself
TIED = 1e-9  # violations this close, as those of equal atoms, enter together: rounding chooses none of them
TINY = np.finfo(float).tiny


@dataclass(frozen=True)
class LassoResult:
    """Codes (N, T), the duality gap of every column (T,), and the iterations taken."""

    codes: np.ndarray
    gaps: np.ndarray
    n_iter: int


@dataclass
class _Columns:
    """The remaining right-hand sides: correlations (N, T), squared norms, penalties, and the two ADMM iterates."""

    C: np.ndarray
    sqnorm: np.ndarray
    penalty: np.ndarray
    Z: np.ndarray
    U: np.ndarray

    def keep(self, mask: np.ndarray) -> _Columns:
        """Drop the columns that have converged."""
        return _Columns(self.C[:, mask], self.sqnorm[mask], self.penalty[mask], self.Z[:, mask], self.U[:, mask])


def lasso_gram(
    K: np.ndarray,
    C: np.ndarray,
    sqnorm: np.ndarray,
    penalty: float | np.ndarray,
    *,
    tol: float = 1e-6,
    max_iter: int = 1000,
    start: np.ndarray | None = None,
    device: Any = None,
) -> LassoResult:
    """Minimize `s_t - 2 a'c_t + a'Ka + penalty_t |a|_1` over a, for all columns c_t of C at once.

    With `K = A'A`, `C = A'B` and `s_t = |b_t|^2` these are ordinary lasso problems `|b_t - A a|^2 + penalty |a|_1`. The
    alternating direction method runs on all columns together (one factorization of K, then one N x N by N x T product
    per iteration). Occasionally the problem is solved on the current active sets, which avoids its long tail.

    Every decision is made for a column from that column alone: where many codes are minimizers, which one is found does not
    depend on the other columns.

    Parameters
    ----------
    K : (N, N)
        Positive semi-definite.
    C : (N, T)
    sqnorm : (T,)
        At least `c' K^+ c`, so that the objective cannot be negative.
    penalty : float or (T,)
    tol : float
        Duality gap, relative to `sqnorm`, at which a column has converged.
    max_iter : int
    start : (N, T), optional
        Initial codes, e.g. those of a larger penalty.
    device : optional
        Device for the iterations on all columns; active sets, each small and another one, are solved on the host.

    Returns
    -------
    LassoResult
        A column with `gap > tol * sqnorm` reached `max_iter`.
    """
    N, T = C.shape
    sqnorm, penalty = np.asarray(sqnorm, dtype=float), np.broadcast_to(np.asarray(penalty, dtype=float), (T,))
    codes = np.zeros((N, T)) if start is None else start.copy()
    gaps = duality_gap(K, C, sqnorm, penalty, codes)
    index = np.flatnonzero(gaps > tol * sqnorm)
    if not len(index):
        return LassoResult(codes, gaps, 0)
    steps, done = _steps(K, C, penalty), 0
    for rho in np.unique(steps[index]):
        part = index[steps[index] == rho]
        inverse = backend.to_device(_inverse(K, rho), device)
        start_at = codes[:, part]
        dual = np.zeros_like(start_at) if start is None else 2 * (C[:, part] - K @ start_at) / rho
        work = _Columns(C[:, part], sqnorm[part], penalty[part], start_at, dual)
        codes[:, part], gaps[part], count = _descend(K, inverse, rho, work, tol, max_iter)
        done = max(done, count)
    return LassoResult(codes, gaps, done)


def duality_gap(
    K: np.ndarray, C: np.ndarray, sqnorm: np.ndarray, penalty: float | np.ndarray, A: np.ndarray
) -> np.ndarray:
    """Objective of the codes A (N, T) minus the dual one at their scaled residual: a bound on the possible decrease."""
    KA = K @ A
    fit = np.einsum("nt,nt->t", A, C)
    residual = np.maximum(sqnorm - 2 * fit + np.einsum("nt,nt->t", A, KA), 0.0)
    largest = np.abs(C - KA).max(axis=0)
    scale = np.minimum(1.0, penalty / np.maximum(2 * largest, TINY))
    return (1 + scale**2) * residual - 2 * scale * (sqnorm - fit) + penalty * np.abs(A).sum(axis=0)


def _steps(K: np.ndarray, C: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """The ADMM step (T,) of every column.

    It grows with the square root of the relative penalty; within 3 times the best on real kernels.
    """
    size = float(np.trace(K)) / len(K)
    wanted = 10 * np.sqrt(penalty / np.maximum(2 * np.abs(C).max(axis=0), TINY))
    between = np.sqrt(STEPS[1:] * STEPS[:-1])
    return size * STEPS[np.searchsorted(between, wanted)]


def _inverse(K: np.ndarray, rho: float) -> np.ndarray:
    """`(2K + rho I)^-1` as a matrix: a product with it is much faster than two triangular solves."""
    factor = scipy.linalg.cho_factor(2 * K + rho * np.eye(len(K)), lower=True)
    return scipy.linalg.cho_solve(factor, np.eye(len(K)))


def _descend(
    K: np.ndarray, inverse: Array, rho: float, work: _Columns, tol: float, max_iter: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Codes and gaps of columns that share a step, and the iterations taken."""
    codes, gaps, index = work.Z.copy(), np.full(len(work.sqnorm), np.inf), np.arange(len(work.sqnorm))
    done, until = 0, FIRST_CHECK
    while len(index) and done < max_iter:
        count = min(until, max_iter) - done
        _iterate(inverse, rho, work, count)
        done, until = done + count, until + until // 2
        found, gap = _best(K, work, tol, max(POLISH_COST, POLISH_SHARE * count))
        codes[:, index], gaps[index] = found, gap
        is_open = gap > tol * work.sqnorm
        index, work = index[is_open], work.keep(is_open)
    return codes, gaps, done


def _iterate(inverse: Array, rho: float, work: _Columns, count: int) -> None:
    """Run ADMM iterations on all remaining columns, where the inverse is."""
    C, Z, U, most = (backend.like(part, inverse) for part in (work.C, work.Z, work.U, work.penalty / rho))
    for _ in range(count):
        A = inverse @ (2 * C + rho * (Z - U))
        H = RELAXATION * A + (1 - RELAXATION) * Z + U
        U = H.clip(-most, most)
        Z = H - U
    work.Z, work.U = backend.to_numpy(Z), backend.to_numpy(U)


def _best(K: np.ndarray, work: _Columns, tol: float, budget: float) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the remaining columns, polished if that lowers the gap, and their gaps.

    An exchange of a column may cost as much as `budget` iterations of it.
    """
    codes = work.Z.copy()
    gap = duality_gap(K, work.C, work.sqnorm, work.penalty, codes)
    todo = np.flatnonzero(gap > tol * work.sqnorm)
    signs = np.sign(codes)
    for _ in range(EXCHANGES):
        todo = _affordable(todo, signs, budget)
        if not len(todo):
            break
        C, penalty = work.C[:, todo], work.penalty[todo]
        with one_blas_thread:
            A = _solve_active(K, C, penalty, signs[:, todo])
        polished = duality_gap(K, C, work.sqnorm[todo], penalty, A)
        better = polished < gap[todo]
        codes[:, todo[better]], gap[todo[better]] = A[:, better], polished[better]
        signs[:, todo] = _exchange(K, C, penalty, A, signs[:, todo])
        todo = todo[polished > tol * work.sqnorm[todo]]
    return codes, gap


def _affordable(todo: np.ndarray, signs: np.ndarray, budget: float) -> np.ndarray:
    """The columns whose active sets are small enough to be solved for in the time of so many iterations."""
    cost = np.count_nonzero(signs[:, todo], axis=0).astype(float) ** 3 / 3
    return todo[cost <= budget * 2 * len(signs) ** 2]


def _solve_active(K: np.ndarray, C: np.ndarray, penalty: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Minimizers for the given active sets and signs; zero if an active set is singular."""
    A = np.zeros_like(C)
    for t in range(C.shape[1]):
        S = np.flatnonzero(signs[:, t])
        block = K[S[:, None], S]
        block[np.diag_indices(len(S))] *= 1 + 1e-12  # allows equal atoms
        factor, failed = scipy.linalg.lapack.dpotrf(block, lower=1, overwrite_a=1) if len(S) else (block, 1)
        if not failed:
            A[S, t] = scipy.linalg.lapack.dpotrs(factor, C[S, t] - penalty[t] / 2 * signs[S, t], lower=1)[0]
    return A


def _exchange(K: np.ndarray, C: np.ndarray, penalty: np.ndarray, A: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Next active sets: without the atoms whose sign changed, and with the worst violators."""
    gradient = C - K @ A
    excess = np.where(signs == 0, np.abs(gradient) - penalty / 2, 0.0)
    incoming = np.zeros(signs.shape, bool)
    # adding all violators at once can cycle; a third of the size of the set is fast enough
    counts = np.maximum(1, np.count_nonzero(signs, axis=0) // 3)
    for t, count in enumerate(counts):
        worst = np.partition(excess[:, t], len(K) - count)[len(K) - count]
        incoming[:, t] = (excess[:, t] > 0) & (excess[:, t] >= (1 - TIED) * worst)
    return np.where(np.sign(A) != signs, 0.0, signs) + np.where(incoming, np.sign(gradient), 0.0)
