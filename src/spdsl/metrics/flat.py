"""Metrics of a flat embedding: log-Euclidean, power-Euclidean, Euclidean, Cholesky, log-Cholesky."""

from __future__ import annotations

import numpy as np

from spdsl import arrays
from spdsl.arrays import Array, namespace, over_blocks, symmetric
from spdsl.metrics.base import Metric, Pullback
from spdsl.metrics.factors import cholesky, diagonal_matrix, gram_sqdist, pair_blocks, positive, spread_out

TINY = 1e-150  # in place of zero under a quotient: the limits come out exactly, and nothing underflows


class FlatMetric(Metric):
    """Metrics of the form `d2 = |phi(P_i) - phi(P_j)|^2` for a smooth embedding phi into a Euclidean space.

    Sums over pairs are taken in the embedding before the derivative of phi is applied, once per matrix: all pairs cost
    N derivatives and one N x N by N x m^2 product.
    """

    flat = True

    def embed(self, P: Array) -> tuple[Array, ...]:
        """Return phi(P) (N, m, m), then what the derivative of phi needs."""
        raise NotImplementedError

    def pull(self, G: Array, *saved: Array) -> Array:
        """Adjoint of the derivative of phi: G (N, m, m) in the embedding to symmetric S (N, m, m)."""
        raise NotImplementedError

    def factor(self, P: Array) -> tuple[Array, ...]:
        Z = over_blocks(lambda block: self.embed(block)[0], P)
        return (Z.reshape(Z.shape[0], -1),)

    def cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        # a common shift changes no distance, and takes the part that all matrices share out of the cancellation
        shift = namespace(FB[0]).mean(FB[0], axis=0)
        B = FB[0] - shift
        return gram_sqdist(B if FA is FB else FA[0] - shift, B, exact_when_close=True)

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        Z, *saved = over_blocks(self.embed, P)
        shape = Z.shape
        Z = Z.reshape(shape[0], -1)
        Z = Z - Z.mean(axis=0)
        if i.shape[0] * 8 > shape[0] ** 2:
            d2 = gram_sqdist(Z, Z)[i, j]
        else:
            d2 = pair_blocks(lambda s: ((Z[i[s]] - Z[j[s]]) ** 2).sum(axis=-1), i.shape[0], Z)

        def pullback(c: Array) -> Array:
            degree = arrays.pair_sums(shape[0], i, j, c)
            G = (2 * degree)[:, None] * Z
            G -= arrays.pair_product(i, j, 2 * c, Z)
            return over_blocks(self.pull, G.reshape(shape), *saved)

        return d2, pullback


class SymmetricMetric(FlatMetric):
    """Flat metrics whose embedding is a symmetric matrix: its upper triangle tells all."""

    def compact(self, P: Array) -> tuple[Array, ...]:
        def triangle(block: Array) -> Array:
            return self.embed(block)[0][:, row, column] * weight

        row, column = np.triu_indices(P.shape[-1])
        weight = arrays.like(np.where(row == column, 1.0, 2.0**0.5), P)
        row, column = arrays.like(row, P), arrays.like(column, P)
        return (over_blocks(triangle, P),)


class SpectralMetric(SymmetricMetric):
    """Flat metrics whose embedding applies a scalar function to the eigenvalues."""

    def spectrum(self, w: Array) -> Array:
        """The scalar function, entry by entry."""
        raise NotImplementedError

    def divided_difference(self, low: Array, high: Array) -> Array:
        """First divided difference `(f(high) - f(low)) / (high - low)` for `0 < low <= high`, without cancellation."""
        raise NotImplementedError

    def embed(self, P: Array) -> tuple[Array, ...]:
        w, V = arrays.eigh(symmetric(P))
        wide = spread_out(w)
        if bool(wide.any()):  # singular values of a factor carry twice the digits of eigenvalues of the product
            V[wide], s, _ = namespace(P).linalg.svd(cholesky(P[wide]))
            w[wide] = positive(s * s)
        return (V * self.spectrum(w)[:, None, :]) @ V.mT, w, V

    def pull(self, G: Array, *saved: Array) -> Array:
        w, V = saved
        xp = namespace(w)
        a, b = w[:, :, None], w[:, None, :]
        F = self.divided_difference(xp.minimum(a, b), xp.maximum(a, b))
        return symmetric(V @ (F * (V.mT @ G @ V)) @ V.mT)


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
        # log1p(x)/x is exact to rounding for every ratio of the eigenvalues, from equal ones to 1e16
        xp = namespace(low)
        x = ((high - low) / low).clip(TINY)
        return xp.log1p(x) / (x * low)


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


class Euclidean(SymmetricMetric):
    """Plain Euclidean distance: `d2 = |P_i - P_j|_F^2`."""

    name = "euclid"
    aliases = ("euclidean",)
    invariance = "orthogonal"
    scale_free = False
    formula = "|P - Q|^2"

    def embed(self, P: Array) -> tuple[Array, ...]:
        return (P,)

    def pull(self, G: Array, *saved: Array) -> Array:
        return symmetric(G)


class Cholesky(FlatMetric):
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
        inverse = arrays.inverse_lower(L)
        return symmetric(inverse.mT @ inner @ inverse) / 2


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
