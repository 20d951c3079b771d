"""The gradient of the centered alignment (Eq. 9) at 50 digits, for AIM, Stein and LEM; dense and slow."""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy as np

DIGITS = 50
Matrix = mp.matrix


def _apply(P: Matrix, function: Callable) -> Matrix:
    w, V = mp.eigsy(P)
    return V * mp.diag([function(x) for x in w]) * V.T


def _dlog(P: Matrix, H: Matrix) -> Matrix:
    w, V = mp.eigsy(P)
    K = V.T * H * V
    for a in range(P.rows):
        for b in range(P.rows):
            K[a, b] *= 1 / w[a] if a == b else (mp.log(w[a]) - mp.log(w[b])) / (w[a] - w[b])
    return V * K * V.T


def _inner(A: Matrix, B: Matrix) -> mp.mpf:
    return mp.fsum(x * y for x, y in zip(A, B, strict=True))


def _aim(P: Matrix, Q: Matrix) -> tuple:
    half = _apply(P, lambda x: 1 / mp.sqrt(x))
    M = half * Q * half
    M = (M + M.T) / 2
    log = _apply(M, mp.log)
    return _inner(log, log), -2 * half * log * half, 2 * half * _apply(M, lambda x: mp.log(x) / x) * half


def _stein(P: Matrix, Q: Matrix) -> tuple:
    A = (P + Q) / 2
    d2 = mp.log(mp.det(A)) - (mp.log(mp.det(P)) + mp.log(mp.det(Q))) / 2
    return d2, (A**-1 - P**-1) / 2, (A**-1 - Q**-1) / 2


def _lem(P: Matrix, Q: Matrix) -> tuple:
    D = _apply(P, mp.log) - _apply(Q, mp.log)
    return _inner(D, D), 2 * _dlog(P, D), -2 * _dlog(Q, D)


LINKS = {"aim": _aim, "stein": _stein, "lem": _lem}


def gradient(name: str, X: np.ndarray, W: np.ndarray, labels: np.ndarray, beta: float) -> Matrix:
    """Gradient at W of minus the alignment over all pairs, for X and W taken as exact."""
    with mp.workdps(DIGITS):
        N = len(X)
        pairs = [(a, b) for a in range(N) for b in range(a + 1, N)]
        XW = [mp.matrix(x.tolist()) * mp.matrix(W.tolist()) for x in X]
        P = [mp.matrix(W.tolist()).T * xw for xw in XW]
        links = {pair: LINKS[name](P[pair[0]], P[pair[1]]) for pair in pairs}
        K, U = mp.eye(N), mp.eye(N) - mp.ones(N) / N
        for (a, b), link in links.items():
            K[a, b] = K[b, a] = mp.exp(-beta * link[0])
        Y = U * mp.matrix(np.eye(int(labels.max()) + 1)[labels].tolist())
        T, L = Y * Y.T, U * K * U
        norm = mp.sqrt(_inner(L, L))
        slope = U * (T / norm - _inner(L, T) / norm**3 * L) * U
        S = [mp.zeros(W.shape[1]) for _ in range(N)]
        for (a, b), (_, first, second) in links.items():
            c = 2 * beta * K[a, b] * slope[a, b]
            S[a] += c * first
            S[b] += c * second
        g = mp.zeros(*W.shape)
        for xw, s in zip(XW, S, strict=True):
            g += 2 * xw * s
        return g


def relative_error(g: np.ndarray | Matrix, exact: Matrix) -> float:
    """Frobenius norm of the difference over that of the exact matrix."""
    with mp.workdps(DIGITS):
        given = mp.matrix(g.tolist()) if isinstance(g, np.ndarray) else g
        return float(mp.norm(given - exact) / mp.norm(exact))
