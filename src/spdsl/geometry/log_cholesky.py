"""The log-Cholesky metric."""

from __future__ import annotations

from spdsl.backend import Array, namespace
from spdsl.geometry.cholesky import Cholesky
from spdsl.geometry.factorizations import cholesky, diagonal_matrix


class LogCholesky(Cholesky):
    """Log-Cholesky metric: strict lower triangles plus logarithms of the diagonals of the Cholesky factors."""

    name = "log-cholesky"
    aliases = ("logchol",)
    invariance = "none"
    scale_free = False
    formula = "|tril chol P - tril chol Q|^2 + |log diag chol P - log diag chol Q|^2"

    def embed(self, P: Array) -> tuple[Array, ...]:
        xp = namespace(P)
        L = cholesky(P)
        diagonal = xp.linalg.diagonal(L)
        return xp.tril(L, k=-1) + diagonal_matrix(xp.log(diagonal)), L

    def pull(self, G: Array, *saved: Array) -> Array:
        (L,) = saved
        xp = namespace(L)
        diagonal = xp.linalg.diagonal(G) / xp.linalg.diagonal(L)
        return super().pull(xp.tril(G, k=-1) + diagonal_matrix(diagonal), L)
