"""What a metric offers to the rest.

A metric never sees the projection `W` or the data `X`: it maps stacks of small SPD matrices to squared distances `d2`, and
coefficients `c = dJ/dd2` back to matrices `S` with `dJ = sum_i <S_i, dP_i>`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from spdsl.arrays import Array, namespace

Pullback = Callable[[Array], Array]


class Metric:
    """What every metric offers. Subclasses fill in `factor`, `cross` and `pairs`."""

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    #: for which A the distance survives P -> A'PA: every invertible A, rotations only, or none but the identity
    invariance: ClassVar[Literal["linear", "orthogonal", "none"]]
    #: whether the distance survives P -> s P, s > 0, applied to both sides
    scale_free: ClassVar[bool]
    #: whether d2 is a squared Euclidean distance between images of single matrices: all pairs then cost little
    flat: ClassVar[bool] = False
    formula: ClassVar[str]

    def factor(self, P: Array) -> tuple[Array, ...]:
        """What is computed once per matrix: a tuple of arrays with the stack axis first."""
        raise NotImplementedError

    def compact(self, P: Array) -> tuple[Array, ...]:
        """What `cross` needs of each matrix, in the least room: `factor` unless a metric knows better."""
        return self.factor(P)

    def cross(self, FA: tuple[Array, ...], FB: tuple[Array, ...]) -> Array:
        """Squared distances (a, b) between two factored stacks."""
        raise NotImplementedError

    def pairs(self, P: Array, i: Array, j: Array) -> tuple[Array, Pullback]:
        """Squared distances (p,) of the pairs (P[i], P[j]), and the map from `c` (p,) to `S` (N, m, m)."""
        raise NotImplementedError

    def within(self, F: tuple[Array, ...]) -> Array:
        """Squared distances (a, a) of a factored stack to itself, exactly symmetric with a zero diagonal."""
        d2 = self.cross(F, F)
        d2 = (d2 + d2.mT) / 2
        index = namespace(d2).arange(d2.shape[0], device=d2.device)
        d2[index, index] = 0.0
        return d2

    def sqdist(self, A: Array, B: Array) -> Array:
        """Squared distances (a, b) between the stacks `A` (a, m, m) and `B` (b, m, m)."""
        return self.cross(self.factor(A), self.factor(B))
