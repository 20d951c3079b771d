"""Metrics that are Euclidean distances of an embedding: `d2 = |phi(P_i) - phi(P_j)|^2`."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from spdsl import backend
from spdsl.backend import Array, namespace, over_blocks, symmetric
from spdsl.geometry.factorizations import (
    cholesky,
    gram_pairs,
    gram_sqdist,
    left_singular,
    pair_blocks,
    positive,
    spread_out,
)
from spdsl.geometry.metric import Metric, Pullback

TINY = 1e-150  # replaces zero in a quotient: the limits are exact, and nothing underflows


class EmbeddedMetric(Metric):
    """Metrics of the form `d2 = |phi(P_i) - phi(P_j)|^2` for a smooth embedding phi into a Euclidean space.

    Sums over pairs are computed in the embedding, and the derivative of phi is applied once per matrix: all pairs cost
    N derivatives and one product of N x N by N x m^2.

    Examples
    --------
    >>> import spdsl
    >>> from spdsl.geometry import EmbeddedMetric
    >>> class Squares(EmbeddedMetric):
    ...     '''|P^2 - Q^2|^2.'''
    ...
    ...     name = "squares"
    ...     invariance = "orthogonal"
    ...
    ...     def embed(self, P):  # the embedding, and what its derivative needs
    ...         return P @ P, P
    ...
    ...     def pull(self, G, P):  # d(P^2) = dP P + P dP
    ...         G = (G + G.mT) / 2
    ...         return G @ P + P @ G
    >>> spdsl.check_metric(Squares())
    """

    cheap_pairs = True
    euclidean = True

    @abstractmethod
    def embed(self, P: Array) -> tuple[Array, ...]:
        """Return phi(P), (N, m, m) or (N, d), followed by the arrays (N, ...) that the derivative of phi needs."""

    @abstractmethod
    def pull(self, G: Array, *saved: Array) -> Array:
        """Adjoint of the derivative of phi: G, of the shape of phi(P), to symmetric S (N, m, m)."""

    def factor(self, P: Array) -> tuple[Array, ...]:
        Z = over_blocks(lambda block: self.embed(block)[0], P)
        return (Z.reshape(Z.shape[0], -1),)

    def cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        # a common shift changes no distance and reduces cancellation
        shift = namespace(FB[0]).mean(FB[0], axis=0)
        B = FB[0] - shift
        return gram_sqdist(B if FA is FB else FA[0] - shift, B, exact_when_close=True)

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        Z, *saved = over_blocks(self.embed, P)
        shape = Z.shape
        Z = Z.reshape(shape[0], -1)
        Z = Z - Z.mean(axis=0)
        if i.shape[0] * 8 > shape[0] ** 2:
            d2 = gram_pairs(Z, i, j)
        else:
            d2 = pair_blocks(lambda s: ((Z[i[s]] - Z[j[s]]) ** 2).sum(axis=-1), i.shape[0], Z)

        def pullback(c: Array) -> Array:
            G = backend.pair_differences(i, j, 2 * c, Z)
            return over_blocks(self.pull, G.reshape(shape), *saved)

        return d2, pullback


class SymmetricEmbedding(EmbeddedMetric):
    """Embedded metrics with values in the symmetric matrices, of which the upper triangle suffices."""

    def compact(self, P: Array) -> tuple[Array, ...]:
        def triangle(block: Array) -> Array:
            return self.embed(block)[0][:, row, column] * weight

        row, column = np.triu_indices(P.shape[-1])
        weight = backend.like(np.where(row == column, 1.0, 2.0**0.5), P)
        row, column = backend.like(row, P), backend.like(column, P)
        return (over_blocks(triangle, P),)


class SpectralMetric(SymmetricEmbedding):
    """Embedded metrics that apply a scalar function to the eigenvalues."""

    @abstractmethod
    def spectrum(self, w: Array) -> Array:
        """The scalar function, elementwise."""

    @abstractmethod
    def divided_difference(self, low: Array, high: Array) -> Array:
        """First divided difference `(f(high) - f(low)) / (high - low)` for `0 < low <= high`, without cancellation."""

    def embed(self, P: Array) -> tuple[Array, ...]:
        w, V = backend.eigh(symmetric(P))
        wide = spread_out(w)
        if bool(wide.any()):  # singular values of a factor are never negative, as computed eigenvalues can be
            V[wide], s = left_singular(cholesky(P[wide]))
            w[wide] = positive(s * s)
        return (V * self.spectrum(w)[:, None, :]) @ V.mT, w, V

    def pull(self, G: Array, *saved: Array) -> Array:
        w, V = saved
        xp = namespace(w)
        a, b = w[:, :, None], w[:, None, :]
        F = self.divided_difference(xp.minimum(a, b), xp.maximum(a, b))
        return symmetric(V @ (F * (V.mT @ G @ V)) @ V.mT)
