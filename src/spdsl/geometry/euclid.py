"""The Euclidean metric."""

from __future__ import annotations

from spdsl.backend import Array, symmetric
from spdsl.geometry.embedded import SymmetricEmbedding


class Euclidean(SymmetricEmbedding):
    """Euclidean distance: `d2 = |P_i - P_j|_F^2`."""

    name = "euclid"
    aliases = ("euclidean",)
    invariance = "orthogonal"
    scale_free = False
    formula = "|P - Q|^2"

    def embed(self, P: Array) -> tuple[Array, ...]:
        return (P,)

    def pull(self, G: Array, *saved: Array) -> Array:
        return symmetric(G)
