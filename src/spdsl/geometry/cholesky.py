"""The Cholesky distance."""

from __future__ import annotations

from spdsl import backend
from spdsl.backend import Array, namespace, symmetric
from spdsl.geometry.embedded import EmbeddedMetric
from spdsl.geometry.factorizations import cholesky


class Cholesky(EmbeddedMetric):
    """Cholesky distance: `d2 = |chol P_i - chol P_j|_F^2`."""

    name = "cholesky"
    aliases = ("chol",)
    invariance = "none"
    scale_free = False
    formula = "|chol P - chol Q|^2"

    def embed(self, P: Array) -> tuple[Array, ...]:
        L = cholesky(P)
        return L, L

    def pull(self, G: Array, *saved: Array) -> Array:
        (L,) = saved
        xp = namespace(L)
        inner = xp.tril(L.mT @ xp.tril(G))
        inner = inner + xp.tril(inner, k=-1).mT  # symmetric completion: the diagonal is halved, then doubled
        inverse = backend.inverse_lower(L)
        return symmetric(inverse.mT @ inner @ inverse) / 2
