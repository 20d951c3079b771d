"""Squared distances between SPD matrices, and their exact derivatives.

One class a metric, one registry `METRICS`. A metric never sees the projection `W` or the data `X`: it maps stacks of small
SPD matrices to squared distances `d2`, and coefficients `c = dJ/dd2` back to matrices `S` with `dJ = sum_i <S_i, dP_i>`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

from spdsl import arrays
from spdsl.arrays import Array, namespace, over_blocks, symmetric

Pullback = Callable[[Array], Array]
SPREAD = 1e8  # eigenvalue ratio up to which eigh keeps 8 digits of the smallest; beyond it, the SVD of a factor
KEEP_BYTES = 1 << 28  # per-pair factors up to this size are kept for the derivative; beyond it they are computed again


class Metric:
    """What every metric offers. Subclasses fill in `factor`, `cross` and `pairs`."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    #: for which A the distance survives P -> A'PA: every invertible A, rotations only, or none but the identity
    invariance: ClassVar[Literal["linear", "orthogonal", "none"]]
    #: whether the distance survives P -> s P, s > 0, applied to both sides
    scale_free: ClassVar[bool]
    formula: ClassVar[str]

    def factor(self, P: Array) -> tuple[Array, ...]:
        """What is computed once per matrix: a tuple of arrays with the stack axis first."""
        raise NotImplementedError

    def cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        """Squared distances (a, b) between two factored stacks."""
        raise NotImplementedError

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        """Squared distances (p,) of the pairs (P[i], P[j]), and the map from `c` (p,) to `S` (N, m, m)."""
        raise NotImplementedError

    def sqdist(self, A: Array, B: Array) -> Array:
        """Squared distances (a, b) between the stacks `A` (a, m, m) and `B` (b, m, m)."""
        return self.cross(self.factor(A), self.factor(B))


# --------------------------------------------------------------------------------------- metrics of a flat embedding


class FlatMetric(Metric):
    """Metrics of the form `d2 = |phi(P_i) - phi(P_j)|^2` for a smooth embedding phi into a Euclidean space.

    Sums over pairs are taken in the embedding before the derivative of phi is applied, once per matrix: all pairs cost
    N derivatives and one N x N by N x m^2 product.
    """

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
        return _gram_sqdist(FA[0] - shift, FB[0] - shift)

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        xp = namespace(P)
        Z, *saved = over_blocks(self.embed, P)
        shape = Z.shape
        Z = Z.reshape(shape[0], -1)
        Z = Z - xp.mean(Z, axis=0)
        if i.shape[0] * 8 > shape[0] ** 2:
            d2 = _gram_sqdist(Z, Z)[i, j]
        else:
            d2 = _pair_blocks(lambda s: xp.sum((Z[i[s]] - Z[j[s]]) ** 2, axis=-1), i.shape[0], Z)

        def pullback(c: Array) -> Array:
            degree = arrays.scatter_add(shape[0], i, c) + arrays.scatter_add(shape[0], j, c)
            G = 2 * (degree[:, None] * Z - arrays.pair_product(i, j, c, Z))
            return over_blocks(self.pull, G.reshape(shape), *saved)

        return d2, pullback


class SpectralMetric(FlatMetric):
    """Flat metrics whose embedding applies a scalar function to the eigenvalues."""

    def spectrum(self, w: Array) -> Array:
        """The scalar function, entry by entry."""
        raise NotImplementedError

    def divided_difference(self, low: Array, high: Array) -> Array:
        """First divided difference `(f(high) - f(low)) / (high - low)` for `0 < low <= high`, without cancellation."""
        raise NotImplementedError

    def embed(self, P: Array) -> tuple[Array, ...]:
        w, V = namespace(P).linalg.eigh(symmetric(P))
        wide = _wide(w)
        if bool(wide.any()):  # singular values of a factor carry twice the digits of eigenvalues of the product
            V[wide], s, _ = namespace(P).linalg.svd(_cholesky(P[wide]))
            w[wide] = s * s
        return (V * self.spectrum(_positive(w))[:, None, :]) @ V.mT, w, V

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
        x = (high - low) / low
        safe = xp.where(x == 0, xp.ones_like(x), x)
        return xp.where(x == 0, xp.ones_like(x), xp.log1p(safe) / safe) / low


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
        x = (high - low) / low
        safe = xp.where(x == 0, xp.ones_like(x), x)
        ratio = xp.expm1(self.power * xp.log1p(safe)) / (safe * self.power)
        return xp.where(x == 0, xp.ones_like(x), ratio) * low ** (self.power - 1)


class Euclidean(FlatMetric):
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
        L = _cholesky(P)
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
        L = _cholesky(P)
        diagonal = xp.linalg.diagonal(L)
        return xp.tril(L, k=-1) + _diagonal_matrix(xp.log(diagonal)), L

    def pull(self, G: Array, *saved: Array) -> Array:
        (L,) = saved
        xp = namespace(L)
        diagonal = xp.linalg.diagonal(G) / xp.linalg.diagonal(L)
        return super().pull(xp.tril(G, k=-1) + _diagonal_matrix(diagonal), L)


# --------------------------------------------------------------------------------------- metrics that couple the pair


class Jeffreys(Metric):
    """Jeffreys divergence: `d2 = (tr P_i^-1 P_j + tr P_j^-1 P_i) / 2 - m`, bilinear in the matrices and their inverses."""

    name = "jeffreys"
    aliases = ("kullback_sym",)
    invariance = "linear"
    scale_free = True
    formula = "(tr P^-1 Q + tr Q^-1 P) / 2 - m"

    def factor(self, P: Array) -> tuple[Array, ...]:
        inverse = over_blocks(_inverse, P)
        return P.reshape(P.shape[0], -1), inverse.reshape(P.shape[0], -1)

    def cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        m = int(round(FA[0].shape[1] ** 0.5))
        return _nonnegative((FA[1] @ FB[0].mT + FA[0] @ FB[1].mT) / 2 - m)

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        xp = namespace(P)
        N, m, _ = P.shape
        flat, inverse = self.factor(P)
        if i.shape[0] * 8 > N * N:
            K = flat @ inverse.mT
            d2 = (K[i, j] + K[j, i]) / 2 - m
        else:
            d2 = _pair_blocks(
                lambda s: xp.sum(flat[i[s]] * inverse[j[s]] + flat[j[s]] * inverse[i[s]], axis=-1) / 2 - m,
                i.shape[0],
                flat,
            )

        def pullback(c: Array) -> Array:
            sum_P = arrays.pair_product(i, j, c, flat).reshape(N, m, m)
            sum_inverse = arrays.pair_product(i, j, c, inverse).reshape(N, m, m)
            Q = inverse.reshape(N, m, m)
            return symmetric(sum_inverse - Q @ sum_P @ Q) / 2

        return _nonnegative(d2), pullback


class PairMetric(Metric):
    """Metrics that need a factorisation of its own for every pair, taken in blocks of bounded size."""

    def values(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        """Squared distances of matched stacks of factors."""
        raise NotImplementedError

    def link(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
        """Squared distances of matched stacks, and what `derivative` needs of each pair."""
        raise NotImplementedError

    def derivative(
        self, FA: tuple[Array, ...], FB: tuple[Array, ...], saved: tuple[Array, ...]
    ) -> tuple[Array, Array | None]:
        """Derivatives of d2 with respect to the first and the second matrix; None where the second equals the first."""
        raise NotImplementedError

    def own(self, F: tuple[Array, ...], degree: Array) -> Array | None:
        """The part of S that depends on one matrix alone, given the sum of `c` over its pairs."""
        return None

    def cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        xp = namespace(FA[0])
        a, b = FA[0].shape[0], FB[0].shape[0]
        row = xp.arange(a * b, device=FA[0].device) // b
        column = xp.arange(a * b, device=FA[0].device) % b
        d2 = _pair_blocks(lambda s: self.values(_take(FA, row[s]), _take(FB, column[s])), a * b, FA[0].reshape(a, -1))
        return d2.reshape(a, b)

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        N, m, _ = P.shape
        F = self.factor(P)
        keep = i.shape[0] * m * m * 8 <= KEEP_BYTES
        kept: dict[int, tuple[Array, ...]] = {}

        def value(s: slice) -> Array:
            d2, saved = self.link(_take(F, i[s]), _take(F, j[s]))
            if keep:
                kept[s.start] = saved
            return d2

        d2 = _pair_blocks(value, i.shape[0], P.reshape(N, -1))

        def pullback(c: Array) -> Array:
            def contribution(s: slice) -> tuple[slice, Array, Array]:
                FA, FB = _take(F, i[s]), _take(F, j[s])
                saved = kept[s.start] if keep else self.link(FA, FB)[1]
                first, second = self.derivative(FA, FB, saved)
                weight = c[s][:, None, None]
                first = weight * first
                return s, first, first if second is None else weight * second

            S = namespace(P).zeros_like(P)
            for s, first, second in _run_pair_blocks(contribution, i.shape[0], P.reshape(N, -1)):
                arrays.add_at(S, i[s], first)
                arrays.add_at(S, j[s], second)
            degree = arrays.scatter_add(N, i, c) + arrays.scatter_add(N, j, c)
            own = self.own(F, degree)
            return symmetric(S if own is None else S + own)

        return d2, pullback


class AffineInvariant(PairMetric):
    """Affine-invariant metric (Eq. 1): `d2 = sum log^2 eig(P_i^-1 P_j)`."""

    name = "aim"
    aliases = ("riemann", "affine-invariant")
    invariance = "linear"
    scale_free = True
    formula = "sum log^2 eig(P^-1 Q)"

    # with P_i = L_i L_i' and K = L_i^-1 L_j = U diag(s) V', the eigenvalues of P_i^-1 P_j are s^2: their ratio can be the
    # product of both condition numbers, which K carries only the root of

    def factor(self, P: Array) -> tuple[Array, ...]:
        L = over_blocks(_cholesky, P)
        return L, over_blocks(arrays.inverse_lower, L)

    def values(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        xp = namespace(FA[0])
        K = FA[1] @ FB[0]
        w = xp.linalg.eigvalsh(K @ K.mT)
        wide = _wide(w)
        if bool(wide.any()):
            w[wide] = xp.linalg.svdvals(K[wide]) ** 2
        return xp.sum(xp.log(_positive(w)) ** 2, axis=-1)

    def link(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
        xp = namespace(FA[0])
        K = FA[1] @ FB[0]
        w, U = xp.linalg.eigh(K @ K.mT)
        wide = _wide(w)
        V = None
        if bool(wide.any()):
            U[wide], s, Vt = xp.linalg.svd(K[wide])
            w[wide], V = s * s, Vt.mT
        log_w = xp.log(_positive(w))
        left = FA[1].mT @ U  # L_i^-T U
        right = left / xp.sqrt(w)[:, None, :]  # L_j^-T V, the same in exact arithmetic
        if V is not None:
            right[wide] = FB[1][wide].mT @ V
        return xp.sum(log_w**2, axis=-1), (log_w, left, right)

    def derivative(
        self, FA: tuple[Array, ...], FB: tuple[Array, ...], saved: tuple[Array, ...]
    ) -> tuple[Array, Array | None]:
        log_w, left, right = saved
        return (left * (-2 * log_w)[:, None, :]) @ left.mT, (right * (2 * log_w)[:, None, :]) @ right.mT


class Stein(PairMetric):
    """Stein divergence (Eq. 3): `d2 = logdet((P_i + P_j)/2) - (logdet P_i + logdet P_j)/2`."""

    name = "stein"
    aliases = ("logdet",)
    invariance = "linear"
    scale_free = True
    formula = "logdet((P + Q)/2) - (logdet P + logdet Q)/2"

    def factor(self, P: Array) -> tuple[Array, ...]:
        return P, over_blocks(lambda block: _logdet(_cholesky(block)), P)

    def values(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        return self.link(FA, FB)[0]

    def link(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
        L = _cholesky((FA[0] + FB[0]) / 2)
        return _nonnegative(_logdet(L) - (FA[1] + FB[1]) / 2), (L,)

    def derivative(
        self, FA: tuple[Array, ...], FB: tuple[Array, ...], saved: tuple[Array, ...]
    ) -> tuple[Array, Array | None]:
        inverse = arrays.inverse_lower(saved[0])
        return inverse.mT @ inverse / 2, None

    def own(self, F: tuple[Array, ...], degree: Array) -> Array | None:
        return -over_blocks(_inverse, F[0]) * (degree / 2)[:, None, None]


class BuresWasserstein(PairMetric):
    """Bures-Wasserstein distance: `d2 = tr P_i + tr P_j - 2 tr (P_i^1/2 P_j P_i^1/2)^1/2`."""

    name = "wasserstein"
    aliases = ("bures", "bures-wasserstein")
    invariance = "orthogonal"
    scale_free = False
    formula = "tr P + tr Q - 2 tr (P^1/2 Q P^1/2)^1/2"

    def factor(self, P: Array) -> tuple[Array, ...]:
        xp = namespace(P)
        return P, over_blocks(_cholesky, P), xp.linalg.trace(P)

    def values(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        return self.link(FA, FB)[0]

    def link(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
        xp = namespace(FA[0])
        # singular values of L_j' L_i: the square root is never taken of a product that has lost its small eigenvalues
        U, s, Vt = xp.linalg.svd(FB[1].mT @ FA[1], full_matrices=False)
        return _nonnegative(FA[2] + FB[2] - 2 * xp.sum(s, axis=-1)), (U, s, Vt)

    def derivative(
        self, FA: tuple[Array, ...], FB: tuple[Array, ...], saved: tuple[Array, ...]
    ) -> tuple[Array, Array | None]:
        U, s, Vt = saved
        xp = namespace(s)
        eye = xp.eye(s.shape[-1], dtype=s.dtype, device=s.device)
        # optimal maps: T P_i T = P_j with T = L_j U diag(1/s) U' L_j', and its inverse from the other side
        left = FB[1] @ U
        right = FA[1] @ Vt.mT
        first = eye - (left / s[:, None, :]) @ left.mT
        second = eye - (right / s[:, None, :]) @ right.mT
        return first, second


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        AffineInvariant(),
        Stein(),
        LogEuclidean(),
        Jeffreys(),
        Cholesky(),
        LogCholesky(),
        PowerEuclidean(),
        BuresWasserstein(),
        Euclidean(),
    )
}


def get_metric(metric: str | Metric) -> Metric:
    """Return the metric of that name or alias; a `Metric` is returned as it is."""
    if isinstance(metric, Metric):
        return metric
    for candidate in METRICS.values():
        if metric == candidate.name or metric in candidate.aliases:
            return candidate
    raise ValueError(f"unknown metric {metric!r}; choose one of {', '.join(map(repr, METRICS))}")


# --------------------------------------------------------------------------------------- private helpers


class NotPositiveDefiniteError(ValueError):
    """A matrix met on the way is not positive definite to working precision."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: matrices too badly conditioned for this metric in double precision; add a ridge, e.g. "
            f"regularize(X, 1e-3)"
        )


def _positive(w: Array) -> Array:
    """Return eigenvalues as they are, or raise if one is not positive."""
    xp = namespace(w)
    if w.shape[0] and not bool(xp.all(w > 0)):
        raise NotPositiveDefiniteError(f"an eigenvalue came out as {float(xp.min(w)):.3g}")
    return w


def _wide(w: Array) -> Array:
    """Which rows of ascending eigenvalues spread so far that the smallest has lost its digits."""
    return w[:, 0] * SPREAD < w[:, -1]


def _cholesky(P: Array) -> Array:
    """Stacked Cholesky factors; one error class for all array libraries."""
    xp = namespace(P)
    try:
        return xp.linalg.cholesky(symmetric(P))
    except Exception as error:  # numpy.linalg.LinAlgError, torch.linalg.LinAlgError: no common base class
        if type(error).__name__ not in ("LinAlgError", "_LinAlgError"):
            raise
        raise NotPositiveDefiniteError("a Cholesky factorisation failed") from error


def _logdet(L: Array) -> Array:
    """Log-determinant of `L L'` from the Cholesky factor."""
    xp = namespace(L)
    return 2 * xp.sum(xp.log(xp.linalg.diagonal(L)), axis=-1)


def _inverse(P: Array) -> Array:
    """Inverse of SPD matrices by their Cholesky factors."""
    half = arrays.inverse_lower(_cholesky(P))
    return half.mT @ half


def _diagonal_matrix(d: Array) -> Array:
    """Stack (a, m) to diagonal matrices (a, m, m)."""
    xp = namespace(d)
    return d[:, :, None] * xp.eye(d.shape[-1], dtype=d.dtype, device=d.device)


def _nonnegative(d2: Array) -> Array:
    """Clear what rounding leaves below zero."""
    xp = namespace(d2)
    return xp.maximum(d2, xp.zeros_like(d2))


def _gram_sqdist(A: Array, B: Array) -> Array:
    """Squared Euclidean distances between rows, through one matrix product."""
    xp = namespace(A)
    d2 = xp.sum(A * A, axis=-1)[:, None] + xp.sum(B * B, axis=-1)[None, :] - 2 * (A @ B.mT)
    return _nonnegative(d2)


def _take(F: tuple[Array, ...], index: Array) -> tuple[Array, ...]:
    return tuple(part[index] for part in F)


def _run_pair_blocks(function: Callable[[slice], Any], count: int, rows: Array) -> Iterator[Any]:
    """Run `function` on slices of the pairs, sized so that the matrices of one slice stay small."""
    threaded = arrays.is_numpy(rows)
    item_bytes = 8 * rows.shape[1] * 4 if threaded else 8 * rows.shape[1] // 64  # a GPU wants larger blocks
    return arrays.map_blocks(function, count, item_bytes, threaded=threaded)


def _pair_blocks(function: Callable[[slice], Any], count: int, rows: Array) -> Array:
    parts = list(_run_pair_blocks(function, count, rows))
    return arrays.concat(parts) if parts else rows[:0, 0]
