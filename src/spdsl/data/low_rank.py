"""Distances between matrices that are a multiple of the identity outside a small subspace, exact, without forming them.

`X_i = c_i I + Q_i' diag(w_i - c_i) Q_i` with the k orthonormal rows of `Q_i` (k, n) and the eigenvalues `w_i` there. A
pair needs only the k x k cross-product `M = Q_i Q_j'`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spdsl import backend
from spdsl.backend import namespace
from spdsl.geometry import Metric
from spdsl.geometry.factorizations import CLOSE, cholesky, logdet, nonnegative, positive, spread_out

PAIR_BYTES = 1 << 25  # cross-products of one block of pairs


@dataclass(frozen=True)
class LowRankSpectra:
    """Eigenvectors `basis` (N, k, n), their eigenvalues `values` (N, k), and the eigenvalue `floor` (N,) of all others."""

    basis: np.ndarray
    values: np.ndarray
    floor: np.ndarray

    def __getitem__(self, index: slice | np.ndarray) -> LowRankSpectra:
        return LowRankSpectra(self.basis[index], self.values[index], self.floor[index])

    def __len__(self) -> int:
        return len(self.floor)


def low_rank_sqdist(metric: Metric, A: LowRankSpectra, B: LowRankSpectra) -> np.ndarray:
    """Squared distances (a, b) between two stacks, in blocks of bounded size."""
    function = _function(metric)
    k, r = A.basis.shape[1], B.basis.shape[1]
    d2 = np.empty((len(A), len(B)))
    width = max(1, min(len(B), int((PAIR_BYTES / 8) ** 0.5 / r)))
    height = max(1, PAIR_BYTES // (8 * k * r * width))
    for top in range(0, len(A), height):
        rows = slice(top, min(top + height, len(A)))
        for left in range(0, len(B), width):
            columns = slice(left, min(left + width, len(B)))
            d2[rows, columns] = function(A[rows], B[columns])
    return d2


def block_rows(k: int) -> int:
    """Number of samples on each side of a block of pairs of bounded size."""
    return max(1, int((PAIR_BYTES / 8) ** 0.5 / k))


def _function(metric: Metric) -> Callable[[LowRankSpectra, LowRankSpectra], np.ndarray]:
    """The distance of that metric between spectra."""
    spectrum = FLAT.get(metric.name)
    if spectrum is not None:
        return lambda A, B: _flat(spectrum, A, B)
    if metric.name not in COUPLED:
        names = ", ".join(map(repr, [*FLAT, *COUPLED]))
        raise ValueError(
            f"metric {metric.name!r} does not support distances between FactoredSPD matrices; those that do are {names}. "
            f"A fit with n_within='all', n_between='all' and beta='reduced' needs no such distances"
        )
    coupled = COUPLED[metric.name]
    return lambda A, B: _paired(coupled, A, B)


def _cross(A: LowRankSpectra, B: LowRankSpectra) -> np.ndarray:
    """Cross-products of the bases, (a, k, b, r)."""
    a, k, n = A.basis.shape
    b, r, _ = B.basis.shape
    return (A.basis.reshape(a * k, n) @ B.basis.reshape(b * r, n).T).reshape(a, k, b, r)


# ---------------------------------------------------------------------- Euclidean metrics: |f(X) - f(Y)|^2


def _flat(f: Callable[[np.ndarray], np.ndarray], A: LowRankSpectra, B: LowRankSpectra) -> np.ndarray:
    """`|f(X_i) - f(X_j)|^2`: f of a matrix is `f(c) I` plus f on its subspace."""
    n = A.basis.shape[2]
    (x, p, shift_a), (y, q, shift_b) = ((f(S.values) - f(S.floor)[:, None], S, f(S.floor)) for S in (A, B))
    M = _cross(A, B)
    np.square(M, out=M)
    a, k, b, r = M.shape
    inner = np.sum((x[:, None, :] @ M.reshape(a, k, b * r)).reshape(a, b, r) * y, axis=2)
    shift = shift_a[:, None] - shift_b
    size = np.sum(x * x, axis=1)[:, None] + np.sum(y * y, axis=1)
    d2 = size - 2 * inner + 2 * shift * (x.sum(axis=1)[:, None] - y.sum(axis=1)) + n * shift**2
    for i, j in zip(*np.nonzero(d2 < CLOSE * size), strict=True):  # cancellation: recomputed from the difference itself
        d2[i, j] = _close(x[i], p.basis[i], y[j], q.basis[j], shift[i, j])
    return nonnegative(d2)


def _close(x: np.ndarray, P: np.ndarray, y: np.ndarray, Q: np.ndarray, shift: float) -> float:
    """`|P' x P - Q' y Q + shift I|^2`, from the difference in the joint span."""
    M = P @ Q.T
    T = np.concatenate([M, np.linalg.qr((Q - M.T @ P).T, mode="r")])
    difference = -(T * y) @ T.T
    difference[np.arange(len(x)), np.arange(len(x))] += x
    return float(np.sum(difference**2) + 2 * shift * (x.sum() - y.sum()) + P.shape[1] * shift**2)


# ---------------------------------------------------------------------- metrics that couple the two matrices of a pair


def _paired(coupled: Callable[..., np.ndarray], A: LowRankSpectra, B: LowRankSpectra) -> np.ndarray:
    """Apply a distance between matched pairs to all pairs of two stacks."""
    a, b = len(A), len(B)
    M = np.ascontiguousarray(_cross(A, B).transpose(0, 2, 1, 3)).reshape(a * b, A.basis.shape[1], B.basis.shape[1])
    i, j = np.divmod(np.arange(a * b), b)
    n = A.basis.shape[2]

    def part(s: slice) -> np.ndarray:
        T = _in_joint_span(M[s], n)
        return coupled(T, A.values[i[s]], A.floor[i[s]], B.values[j[s]], B.floor[j[s]], n)

    parts = backend.map_blocks(part, a * b, 8 * 8 * M.shape[1] ** 2, on=M)
    return np.concatenate(list(parts)).reshape(a, b)


def _in_joint_span(M: np.ndarray, n: int) -> np.ndarray:
    """The second basis in coordinates of the joint span, `[M; N]` with `N'N = I - M'M`, (p, k + q, r).

    Only `N'N` matters, so square roots of rounding errors in place of zeros do no harm.
    """
    k, r = M.shape[1:]
    w, V = np.linalg.eigh(np.eye(r) - M.mT @ M)
    rest = min(r, n - k)  # the joint span has at most n dimensions; the largest eigenvalues come last
    N = np.sqrt(np.maximum(w, 0))[:, r - rest :, None] * V.mT[:, r - rest :]
    return np.concatenate([M, N], axis=1)


def _with_identity(T: np.ndarray, d: np.ndarray) -> np.ndarray:
    """`I + T diag(d) T'`."""
    out = (T * d[:, None, :]) @ T.mT
    index = np.arange(T.shape[1])
    out[:, index, index] += 1
    return out


def _own(values: np.ndarray, floor: np.ndarray, size: int) -> np.ndarray:
    """Diagonal of the first matrix in the joint span: its eigenvalues, then its floor, (p, size)."""
    rest = np.broadcast_to(floor[:, None], (len(floor), size - values.shape[1]))
    return np.concatenate([values, rest], axis=1)


def _aim(T: np.ndarray, u: np.ndarray, a: np.ndarray, v: np.ndarray, b: np.ndarray, n: int) -> np.ndarray:
    """Affine-invariant: squared singular values of `X_i^-1/2 X_j^1/2` in the joint span, and `b / a` outside it."""
    K = _with_identity(T, np.sqrt(v / b[:, None]) - 1) * np.sqrt(b)[:, None, None]
    K /= np.sqrt(_own(u, a, T.shape[1]))[:, :, None]
    w = np.linalg.eigvalsh(K @ K.mT)
    wide = spread_out(w)
    if wide.any():
        w[wide] = np.linalg.svdvals(K[wide]) ** 2
    return np.sum(np.log(positive(w)) ** 2, axis=1) + (n - T.shape[1]) * np.log(b / a) ** 2


def _stein(T: np.ndarray, u: np.ndarray, a: np.ndarray, v: np.ndarray, b: np.ndarray, n: int) -> np.ndarray:
    """Stein: the determinant of the mean in the joint span, and `(a + b) / 2` outside it."""
    size, k, r = T.shape[1], u.shape[1], v.shape[1]
    mean = _with_identity(T, v / b[:, None] - 1) * (b / 2)[:, None, None]
    index = np.arange(size)
    mean[:, index, index] += _own(u, a, size) / 2
    own = np.sum(np.log(u), axis=1) + (size - k) * np.log(a)
    other = np.sum(np.log(v), axis=1) + (size - r) * np.log(b)
    beside = np.log((a + b) / 2) - (np.log(a) + np.log(b)) / 2
    return nonnegative(logdet(cholesky(mean)) - (own + other) / 2 + (n - size) * beside)


#: f of the Euclidean metrics `|f(X) - f(Y)|^2`
FLAT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "lem": np.log,
    "power": lambda w: 2 * np.sqrt(w),
    "euclid": lambda w: namespace(w).astype(w, np.float64),
}
#: (basis in the joint span, values and floor of the first, values and floor of the second, n) -> squared distances
COUPLED: dict[str, Callable[..., np.ndarray]] = {"aim": _aim, "stein": _stein}
