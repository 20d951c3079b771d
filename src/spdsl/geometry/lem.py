"""The log-Euclidean metric."""

from __future__ import annotations

from spdsl.backend import Array, namespace
from spdsl.geometry.embedded import TINY, SpectralMetric


class LogEuclidean(SpectralMetric):
    """Log-Euclidean metric (Eq. 2): `d2 = |log P_i - log P_j|_F^2`."""

    name = "lem"
    aliases = ("logeuclid", "log-euclidean")
    invariance = "orthogonal"
    scale_free = True
    formula = "|log P - log Q|^2"

    def spectrum(self, w: Array) -> Array:
        return namespace(w).log(w)

    def divided_difference(self, low: Array, high: Array) -> Array:
        # log1p(x)/x is accurate for all ratios of the eigenvalues, from 1 to 1e16
        xp = namespace(low)
        x = ((high - low) / low).clip(TINY)
        return xp.log1p(x) / (x * low)
