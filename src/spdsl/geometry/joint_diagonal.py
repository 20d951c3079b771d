"""The rotation that brings several symmetric matrices closest to diagonal at once."""

from __future__ import annotations

import numpy as np

SWEEPS = 100  # over all pairs of axes; it converges quadratically, in about six
SMALL = 1e-12  # angle below which a rotation is rounding


def joint_rotation(D: np.ndarray) -> np.ndarray:
    """Orthogonal R (m, m) that minimizes the sum of squares of the off-diagonal entries of `R' D_c R`, D (c, m, m).

    Jacobi's rotations with the angles of Cardoso and Souloumiac (1996), from the eigenvectors of the combination of the
    matrices that has the largest norm. Matrices that commute become diagonal; two that differ by a factor, at once.
    The result for `U' D_c U` with a rotation U is `U' R`, up to order and signs of the columns.
    """
    m = D.shape[-1]
    lead = np.linalg.svd(D.reshape(len(D), -1), full_matrices=False)[2][0].reshape(m, m)
    R = np.linalg.eigh((lead + lead.T) / 2)[1]
    D = R.T @ D @ R
    for _ in range(SWEEPS):
        largest = 0.0
        for p in range(m - 1):
            for q in range(p + 1, m):
                largest = max(largest, _rotate(D, R, p, q))
        if largest <= SMALL:
            break
    return R


def _rotate(D: np.ndarray, R: np.ndarray, p: int, q: int) -> float:
    """Rotate the axes p and q of D and R in place; the sine of the angle."""
    half, off = D[:, p, p] - D[:, q, q], 2 * D[:, p, q]
    on, cross = float(half @ half - off @ off), 2 * float(half @ off)
    angle = 0.5 * np.arctan2(cross, on + np.hypot(on, cross))
    c, s = np.cos(angle), np.sin(angle)
    if abs(s) > SMALL:
        turn = np.array([[c, -s], [s, c]])
        for A in (D.swapaxes(1, 2), D, R):  # the rows of D, its columns, and those of R
            A[..., [p, q]] = A[..., [p, q]] @ turn
    return abs(float(s))
