"""The power-Euclidean metric."""

from __future__ import annotations

from spdsl.backend import Array, namespace
from spdsl.geometry.embedded import TINY, SpectralMetric


class PowerEuclidean(SpectralMetric):
    """Power-Euclidean metric: `d2 = |P_i^a - P_j^a|_F^2 / a^2`, here with `a = 1/2`."""

    name = "power"
    aliases = ("poweuclid", "power-euclidean")
    invariance = "orthogonal"
    scale_free = False
    formula = "|P^a - Q^a|^2 / a^2, a = 1/2"
    power: float = 0.5

    def spectrum(self, w: Array) -> Array:
        return w**self.power / self.power

    def divided_difference(self, low: Array, high: Array) -> Array:
        xp = namespace(low)
        x = ((high - low) / low).clip(TINY)
        return xp.expm1(self.power * xp.log1p(x)) / (x * self.power) * low ** (self.power - 1)
