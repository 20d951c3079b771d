"""The base class of metrics.

A metric never sees the projection `W` or the data `X`: it maps small SPD matrices to squared distances `d2`, and
coefficients `c = dJ/dd2` back to matrices `S` with `dJ = sum_i <S_i, dP_i>`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import ClassVar, Literal

from spdsl.backend import Array, namespace

Pullback = Callable[[Array], Array]


class Metric(ABC):
    """Squared distances between SPD matrices, with their derivatives.

    To define your own metric, subclass it with a `name` and two methods: `sqdist`, and `pairs` with its pullback.
    `spdsl.check_metric` tests it, and `spdsl.register_metric` makes it available by name. `EmbeddedMetric` and
    `PairwiseMetric` are more convenient base classes for metrics of their kind.

    Attributes
    ----------
    name : str
    aliases : tuple of str
    invariance : {"linear", "orthogonal", "none"}
        For which A the distance is invariant under P -> A'PA: every invertible A, rotations, or only the identity.
    scale_free : bool
        Whether the distance is invariant under P -> s P, s > 0, applied to both arguments.
    cheap_pairs : bool
        Whether all pairs cost only a few matrix products, rather than a factorization for every pair.
    euclidean : bool
        Whether d2 is the squared Euclidean distance between the vectors that `compact` returns.
    bounded : bool
        Whether d2 is at least `|log GAG - log GBG|_F^2` for every symmetric G: nearest neighbors are then found without
        computing most pairs; see `LowerBound`. Needs `matrices` and `matched`.
    formula : str
        Shown in lists and tables.

    Examples
    --------
    >>> import spdsl
    >>> metric = spdsl.METRICS["lem"]
    >>> metric.aliases, metric.invariance
    (('logeuclid', 'log-euclidean'), 'orthogonal')
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    invariance: ClassVar[Literal["linear", "orthogonal", "none"]] = "none"
    scale_free: ClassVar[bool] = False
    cheap_pairs: ClassVar[bool] = False
    euclidean: ClassVar[bool] = False
    bounded: ClassVar[bool] = False
    formula: ClassVar[str] = ""

    def sqdist(self, A: Array, B: Array) -> Array:
        """Squared distances (a, b) between `A` (a, m, m) and `B` (b, m, m)."""
        if type(self).cross is Metric.cross:
            raise TypeError(f"{type(self).__name__} defines neither sqdist nor cross; define sqdist(self, A, B)")
        return self.cross(self.factor(A), self.factor(B))

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        """Squared distances (p,) of the pairs (P[i], P[j]), and the map from `c` (p,) to `S` (N, m, m).

        `S` is symmetric, with `dJ = sum_i <S_i, dP_i>` for coefficients `c = dJ/dd2`.
        """
        raise TypeError(f"{type(self).__name__} does not define pairs(self, P, i, j); learning needs it")

    def factor(self, P: Array) -> tuple[Array, ...]:
        """What is computed once per matrix: a tuple of arrays with one entry per matrix along the first axis."""
        return (P,)

    def compact(self, P: Array) -> tuple[Array, ...]:
        """What `cross` needs of each matrix, in as little memory as possible; `factor` by default."""
        return self.factor(P)

    def cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        """Squared distances (a, b) between two sets of factors."""
        return self.sqdist(FA[0], FB[0])

    def within(self, F: tuple[Array, ...]) -> Array:
        """Squared distances (a, a) within one set of factors, exactly symmetric with a zero diagonal."""
        d2 = self.cross(F, F)
        d2 = (d2 + d2.mT) / 2
        index = namespace(d2).arange(d2.shape[0], device=d2.device)
        d2[index, index] = 0.0
        return d2

    def matched(self, FA: tuple[Array, ...], i: Array, FB: tuple[Array, ...], j: Array) -> Array:
        """Squared distances (p,) of pairs (i, j) of two sets of factors, to the last bit those of `cross`."""
        raise TypeError(
            f"{type(self).__name__} does not define matched(self, FA, i, FB, j); metrics with bounds need it"
        )

    def matrices(self, F: tuple[Array, ...]) -> Array:
        """The matrices (a, m, m) of a set of factors."""
        return F[0]
