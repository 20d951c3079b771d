"""Plain, slow, independent forms of what the library computes: pair by pair, dense N x N matrices, scipy's functions.

Nothing here imports a formula from the library.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import scipy.linalg as sl


def _aim(P: np.ndarray, Q: np.ndarray) -> float:
    return float(np.sum(np.log(sl.eigh(Q, P, eigvals_only=True)) ** 2))


def _stein(P: np.ndarray, Q: np.ndarray) -> float:
    return float(np.linalg.slogdet((P + Q) / 2)[1] - np.linalg.slogdet(P)[1] / 2 - np.linalg.slogdet(Q)[1] / 2)


_NODES = np.polynomial.legendre.leggauss(100)


def log(P: np.ndarray) -> np.ndarray:
    """Matrix logarithm, for condition numbers up to 1e4, without eigenvectors: `int (A - I) (I + t (A - I))^-1 dt`.

    Gauss-Legendre quadrature; a tenth of the time of scipy's logm, which it is tested against.
    """
    scale = np.exp(np.linalg.slogdet(P)[1] / len(P))
    eye = np.eye(len(P))
    D = P / scale - eye
    x, weight = _NODES
    terms = np.linalg.solve(eye + (x[:, None, None] + 1) / 2 * D, np.broadcast_to(D, (len(x), *D.shape)))
    return np.tensordot(weight / 2, terms, 1) + np.log(scale) * eye


def dlog(P: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Dlog(P)[H] by Theorem 1: the (1, 2) block of the logarithm of [[P, H], [0, P]], a matrix of twice the size."""
    k = len(P)
    return sl.logm(np.block([[P, H], [np.zeros((k, k)), P]]))[:k, k:]


def lem_pair_gradient(
    Bi: np.ndarray, Bj: np.ndarray, Pi: np.ndarray, Pj: np.ndarray, difference: np.ndarray
) -> np.ndarray:
    """d(d2_ij)/dW (n, m) as the paper computes it for each pair (Eq. 13 to 17): B = XW, difference = log P_i - log P_j."""
    return 4 * (Bi @ dlog(Pi, difference) - Bj @ dlog(Pj, difference))


def _lem(P: np.ndarray, Q: np.ndarray) -> float:
    return float(np.sum((log(P) - log(Q)) ** 2))


def _jeffreys(P: np.ndarray, Q: np.ndarray) -> float:
    return float(np.trace(np.linalg.solve(P, Q) + np.linalg.solve(Q, P)) / 2 - len(P))


def _cholesky(P: np.ndarray, Q: np.ndarray) -> float:
    return float(np.sum((sl.cholesky(P, lower=True) - sl.cholesky(Q, lower=True)) ** 2))


def _log_cholesky(P: np.ndarray, Q: np.ndarray) -> float:
    L, M = sl.cholesky(P, lower=True), sl.cholesky(Q, lower=True)
    off = np.tril(L - M, -1)
    return float(np.sum(off**2) + np.sum((np.log(np.diag(L)) - np.log(np.diag(M))) ** 2))


def _power(P: np.ndarray, Q: np.ndarray) -> float:
    return float(np.sum((sl.sqrtm(P) - sl.sqrtm(Q)).real ** 2) * 4)


def _wasserstein(P: np.ndarray, Q: np.ndarray) -> float:
    # eig(P Q) are those of P^1/2 Q P^1/2
    return float(np.trace(P) + np.trace(Q) - 2 * np.sum(np.sqrt(np.linalg.eigvals(P @ Q).real)))


def _euclid(P: np.ndarray, Q: np.ndarray) -> float:
    return float(np.linalg.norm(P - Q) ** 2)


SQDIST: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "aim": _aim,
    "stein": _stein,
    "lem": _lem,
    "jeffreys": _jeffreys,
    "cholesky": _cholesky,
    "log-cholesky": _log_cholesky,
    "power": _power,
    "wasserstein": _wasserstein,
    "euclid": _euclid,
}


def sqdist(name: str, A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Squared distances (a, b), one pair at a time."""
    return np.array([[SQDIST[name](P, Q) for Q in B] for P in A])


def mask(N: int, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """G: ones at the selected pairs and on the diagonal."""
    G = np.eye(N)
    G[i, j] = G[j, i] = 1
    return G


def centering(N: int) -> np.ndarray:
    """U = I - 11'/N."""
    return np.eye(N) - np.ones((N, N)) / N


def target(labels: np.ndarray) -> np.ndarray:
    """YY' with Y centered."""
    Y = centering(len(labels)) @ np.eye(labels.max() + 1)[labels]
    return Y @ Y.T


def centered_alignment(D2: np.ndarray, G: np.ndarray, labels: np.ndarray, beta: float) -> float:
    """Eq. 9 with its matrices, negated."""
    U = centering(len(G))
    L = U @ (G * np.exp(-beta * D2)) @ U
    return -float(np.sum(L * G * target(labels)) / np.linalg.norm(L))


def pair_alignment(D2: np.ndarray, G: np.ndarray, labels: np.ndarray, beta: float) -> float:
    """Correlation of similarities and targets over the selected pairs, negated."""
    chosen = np.triu(G, 1) > 0
    same = (labels[:, None] == labels[None, :])[chosen]
    return -float(np.corrcoef(np.exp(-beta * D2[chosen]), same)[0, 1])


def graph_embedding(D2: np.ndarray, G: np.ndarray, labels: np.ndarray, beta: float) -> float:
    """Sum of a_ij d2_ij over ordered pairs, a = G_w - G_b, divided by their number."""
    off = G - np.eye(len(G))
    a = np.where(labels[:, None] == labels[None, :], off, -off)
    return float(np.sum(a * D2) / np.sum(off))


def stochastic_neighbors(D2: np.ndarray, G: np.ndarray, labels: np.ndarray, beta: float) -> float:
    """Minus the mean log probability of picking a neighbor of the own class, over the samples that have one."""
    off = G - np.eye(len(G))
    weight = off * np.exp(-beta * D2)
    same = labels[:, None] == labels[None, :]
    own, every = np.sum(weight * same, axis=1), np.sum(weight, axis=1)
    counted = np.sum(off * same, axis=1) > 0
    return -float(np.mean(np.log(own[counted] / every[counted])))


OBJECTIVES = {
    "alignment": centered_alignment,
    "pairs": pair_alignment,
    "embedding": graph_embedding,
    "stochastic-neighbors": stochastic_neighbors,
}


def pair_distances(name: str, P: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Dense symmetric matrix of the squared distances of the pairs, zero elsewhere."""
    D2 = np.zeros((len(P), len(P)))
    logs = [log(p) for p in P] if name == "lem" else []  # once a matrix, not once a pair
    for a, b in zip(i, j, strict=True):
        D2[a, b] = D2[b, a] = np.sum((logs[a] - logs[b]) ** 2) if logs else SQDIST[name](P[a], P[b])
    return D2


def derivative(function: Callable[[float], float], step: float = 0.02, levels: int = 4) -> float:
    """Derivative at 0 by central differences and Richardson extrapolation, error of order step^(2 levels)."""
    table = [(function(h) - function(-h)) / (2 * h) for h in step * 0.5 ** np.arange(levels)]
    for order in range(1, levels):
        table = [(4**order * fine - coarse) / (4**order - 1) for coarse, fine in pairwise(table)]
    return table[0]


def gradient(function: Callable[[np.ndarray], float], W: np.ndarray, step: float = 0.02) -> np.ndarray:
    """Gradient by `derivative`, entry by entry."""
    g = np.empty_like(W)
    for index in np.ndindex(*W.shape):
        E = np.zeros_like(W)
        E[index] = 1
        g[index] = derivative(lambda t, E=E: function(W + t * E), step)
    return g


def taylor_slope(
    function: Callable[[np.ndarray], float], W: np.ndarray, H: np.ndarray, slope: float, low: float, high: float
) -> float:
    """Order of the Taylor remainder |f(W + tH) - f(W) - t slope| over t in [low, high]: 2 where the slope is right."""
    steps = np.geomspace(low, high, 9)
    start = function(W)
    remainder = [abs(function(W + t * H) - start - t * slope) for t in steps]
    return float(np.polyfit(np.log(steps), np.log(remainder), 1)[0])
