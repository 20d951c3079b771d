"""The rotation that brings some symmetric matrices closest to others."""

from __future__ import annotations

from spdsl import backend
from spdsl.backend import Array, namespace


def procrustes(A: Array, B: Array, weights: Array, *, tol: float = 1e-10, max_iter: int = 1000) -> Array:
    """Orthogonal U (n, n) that minimizes `sum_c w_c |A_c - U' B_c U|^2` of symmetric A_c and B_c (c, n, n).

    That is to maximize `sum_c w_c <A_c, U' B_c U>`. A multiple of the identity, added to A_c and B_c, changes it by a constant
    and makes it convex in U; the polar factor of its gradient then never decreases it. Steps have Nesterov's momentum, and
    start again without where it leads down. It starts from the identity and finds the maximum nearby: recentering leaves a
    small rotation.
    """
    xp = namespace(A)
    n = A.shape[-1]
    eye = xp.eye(n, dtype=A.dtype, device=A.device)
    lift = [max(0.0, -float(xp.min(backend.eigvalsh(C)))) for C in (A, B)]
    A, B = A + lift[0] * eye, B + lift[1] * eye
    U = before = eye
    t, reached = 1.0, -float("inf")
    for _ in range(max_iter):
        later = (1 + (1 + 4 * t * t) ** 0.5) / 2
        left, _, right = xp.linalg.svd(
            xp.sum(weights[:, None, None] * (B @ (U + (t - 1) / later * (U - before)) @ A), axis=0)
        )
        moved = left @ right
        value = float(xp.sum(weights[:, None, None] * A * (moved.mT @ B @ moved)))
        if value < reached:
            if t == 1.0:  # without momentum it falls by rounding only
                break
            before, t = U, 1.0
            continue
        step = float(xp.max(xp.abs(moved - U)))
        before, U, t, reached = U, moved, later, value
        if step <= tol:
            break
    return U
