"""Lower bounds of distances that need the eigenvalues of every pair.

From one matrix product over all pairs: with `Y = G X G` for any symmetric G, `|log Y_i - log Y_j|_F <= d_AIM(X_i, X_j)`,
since AIM does not change under G and the exponential map does not decrease distances. The closer the `Y_i` are to the
identity, the closer the bound: `G = M^-1/2` for a mean M. (The Stein divergence has a bound of the same kind, but one of its
pairs costs too little for it to pay.)

From a few determinants of a pair: let mu be the logarithms of the eigenvalues of `A^-1 B`, whose squares AIM adds up, and

    q(mu) = 2h sum_k [log cosh((mu - s_k)/2) - log cosh(s_k/2)],   s_k = +-h/2, +-3h/2, ...

Then `q(0) = q'(0) = 0` and `q'' = h/2 sum_k sech^2((mu - s_k)/2)`, which by Poisson's formula is at most `2 (1 + eps)` with
`eps = 2x / sinh x`, `x = 2 pi^2 / h` (and a square of that): so `q(mu) <= (1 + eps) mu^2`, nearly with equality where |mu| is
below the last s_k. The sum over the eigenvalues needs no eigenvalue: `sum log cosh((mu - s)/2) = logdet(A + e^-s B) -
(logdet A + logdet B)/2 - n log 2 + n s/2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np

from spdsl import backend
from spdsl.backend import Array, namespace, over_blocks, symmetric
from spdsl.geometry.block_sum import of_single
from spdsl.geometry.factorizations import NotPositiveDefiniteError, cholesky, gram_sqdist, logdet
from spdsl.geometry.means import inverse_root, log_euclidean_mean
from spdsl.geometry.metric import Metric

SAMPLE = 128  # matrices whose mean is taken; with all of them the bounds are hardly closer
ROUNDING = 8 * 2.2e-16  # times the size and a condition number: error of the logarithm and of the distance itself
CANCELLATION = 1e-7  # of the length of a vector: error of a distance that is the difference of squares
PARTS = 2  # of every matrix: log-vector, slack
STEP = 2.0  # h: d2 is then met to 1.5 percent where distances are hard to tell apart, and eps is 0.002
SHIFTS = STEP * (np.arange(6) - 2.5)  # s_k
EXCESS = 4 * np.pi**2 / STEP / np.sinh(2 * np.pi**2 / STEP) * 1.01  # eps, and the terms beyond the first

Factors = tuple[Array, ...]


class LowerBound:
    """Lower bounds of the squared distances of a metric with `Metric.bounded`, valid in the presence of rounding.

    Parameters
    ----------
    metric : Metric
    maps : sequence of (n, n)
        G, for each matrix of a sample.

    Examples
    --------
    >>> import numpy as np
    >>> import spdsl
    >>> from spdsl.geometry import LowerBound
    >>> X, aim = np.stack([np.diag([1.0, 2.0]), np.diag([3.0, 1.0])]), spdsl.METRICS["aim"]
    >>> bound = LowerBound.around(aim, X)
    >>> F = bound.factors(aim.factor(X))
    >>> bool((bound.cross(F, F) <= spdsl.pairwise_sqdist(X, metric="aim")).all())
    True
    """

    def __init__(self, metric: Metric, maps: Sequence[Array]) -> None:
        self.metric, self.maps = of_single(metric), list(maps)

    @classmethod
    def around(cls, metric: Metric, X: Array) -> Self | None:
        """Bounds around the mean of some matrices (k, n, n) or (k, b, n, n); None if the metric has none."""
        if not metric.bounded:
            return None
        blocks = [X] if X.ndim == 3 else [X[:, k] for k in range(X.shape[1])]
        try:
            return cls(metric, [inverse_root(log_euclidean_mean(block)) for block in blocks])
        except NotPositiveDefiniteError:  # to the precision of eigenvalues; the metric itself may need less
            return None

    def factors(self, F: Factors) -> Factors:
        """What `cross` needs of each matrix, from the factors of the metric."""
        count = len(F) // len(self.maps)
        parts = [F[k * count : (k + 1) * count] for k in range(len(self.maps))]
        return tuple(
            one for G, part in zip(self.maps, parts, strict=True) for one in self._of_block(backend.like(G, F[0]), part)
        )

    def _of_block(self, G: Array, F: Factors) -> Factors:
        n = G.shape[0]
        row, column = np.triu_indices(n)
        weight = backend.like(np.where(row == column, 1.0, 2.0**0.5), G)
        row, column = backend.like(row, G), backend.like(column, G)
        xp = namespace(G)
        size = float(xp.linalg.vector_norm(G)) ** 2

        def part(*F: Array) -> Factors:
            X = self.metric.matrices(F)
            w, V = backend.eigh(symmetric(G @ X @ G))
            w = xp.maximum(w, ROUNDING * abs(w[:, -1:]) + 1e-300)
            log_w = xp.log(w)
            Z = ((V * log_w[:, None, :]) @ V.mT)[:, row, column] * weight
            length = xp.linalg.vector_norm(Z, axis=-1)
            rounding = ROUNDING * n * size * xp.linalg.matrix_norm(X) / w[:, 0]
            return Z, rounding + CANCELLATION * length

        found: Factors = over_blocks(part, *F)
        return found

    def cross(self, FA: Factors, FB: Factors) -> Array:
        """Lower bounds (a, b) between two sets of factors."""
        low = 0.0
        for k in range(0, len(FA), PARTS):
            (A, slack_a), (B, slack_b) = FA[k : k + PARTS], FB[k : k + PARTS]
            d = (namespace(A).sqrt(gram_sqdist(A, B)) - slack_a[:, None] - slack_b[None, :]).clip(0.0)
            low = low + d * d
        return low

    def closer(self, FA: Factors, i: Array, FB: Factors, j: Array) -> Array:
        """Closer bounds (p,) of the pairs (i, j) of two sets of factors of the metric; zero where rounding allows none."""
        count, low = len(FA) // len(self.maps), 0.0
        for k in range(0, len(FA), count):
            low = low + self._closer_of_block(FA[k : k + count], i, FB[k : k + count], j)
        return low

    def _closer_of_block(self, FA: Factors, i: Array, FB: Factors, j: Array) -> Array:
        (A, half_a, slack_a), (B, half_b, slack_b) = (over_blocks(self._determined, *F) for F in (FA, FB))
        xp, n = namespace(A), A.shape[-1]
        shift = n * float(np.sum(np.log(2 * np.cosh(SHIFTS / 2))))
        logs = backend.pencil_logdets(A, i, B, j, np.exp(-SHIFTS).tolist())
        q = 2 * STEP * (xp.sum(logs, axis=-1) - len(SHIFTS) * (half_a[i] + half_b[j]) - shift)
        low = (q - xp.maximum(slack_a[i], slack_b[j])) / (1 + EXCESS)
        return xp.where(low > 0, low, xp.zeros_like(low))  # also where it is not a number

    def _determined(self, *F: Array) -> Factors:
        """Matrices, half of the logarithms of their determinants, and the error of q for sums with them."""
        X = self.metric.matrices(F)
        xp, L = namespace(X), cholesky(X)
        inverse = backend.inverse_lower(L)
        condition = xp.sum(L * L, axis=(-2, -1)) * xp.sum(inverse * inverse, axis=(-2, -1))
        return X, logdet(L) / 2, 2 * STEP * len(SHIFTS) * ROUNDING * X.shape[-1] * condition


def sample_places(count: int) -> np.ndarray:
    """Samples among `count` whose mean is taken."""
    return np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(int))
