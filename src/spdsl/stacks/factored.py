"""A stack of matrices `F_i F_i' + delta_i I` that are never formed."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdsl import arrays
from spdsl.arrays import Array, namespace, symmetric


class FactoredStack:
    """Matrices seen through their factors: beside these it holds only `F_i'W` and `F_i'H`, r x m numbers per matrix.

    With `G_i = F_i'W`, `W'X_iW = G_i'G_i + delta_i W'W` and the gradient is `2 sum_i F_i G_i S_i + 2 W sum_i delta_i S_i`:
    an iteration multiplies with the factors twice, `4 n r m` operations a matrix where the formed matrix takes `2 n^2 m`.

    Parameters
    ----------
    rows : (R, n), the columns of all factors one below the other
    starts : (N + 1,), where the rows of each matrix begin
    ridge : (N,), delta
    depth : the ridge acts on the first so many coordinates
    """

    def __init__(self, rows: Array, starts: np.ndarray, ridge: Array, depth: int) -> None:
        self.rows, self.ridge, self.depth = rows, ridge, depth
        self.segments = Segments(starts, rows)
        self.passes = 0
        self.W: Any = None

    def start(self, W: Array) -> Array:
        if W is not self.W:
            self.W = W
            return self.refresh()
        return self._between(self.G, self.G, W, W)

    def refresh(self) -> Array:
        self.G = self._product(self.W)
        return self._between(self.G, self.G, self.W, self.W)

    def look(self, H: Array) -> tuple[Array, Array]:
        self.H, self.GH = H, self._product(H)
        cross = self._between(self.G, self.GH, self.W, H)
        return cross + cross.mT, symmetric(self._between(self.GH, self.GH, H, H))

    def step(self, t: float, right: Array | None = None) -> Array:
        self.W = self.W + t * self.H
        self.G = self.G + t * self.GH
        if right is not None:
            self.W, self.G = self.W @ right, self.G @ right
        return self.W

    def scale(self, factor: float) -> Array:
        self.W, self.G = self.W * factor, self.G * factor
        return self.W

    def gradient(self, S: Array) -> Array:
        self.passes += 1
        R, n = self.rows.shape
        joined = self.segments.join(arrays.over_blocks(lambda G, s: G @ s, self.G, S))
        total = sum(arrays.map_blocks(lambda s: self.rows[s].mT @ joined[s], R, 8 * n, on=self.rows))
        weighted = namespace(S).tensordot(self.ridge, S, axes=1)
        total[: self.depth] += self.W[: self.depth] @ weighted
        return 2 * total

    def _product(self, W: Array) -> Array:
        """F_i'W for all i, (N, r, m)."""
        self.passes += 1
        return self.segments.split(arrays.product(self.rows, W))

    def _between(self, A: Array, B: Array, V: Array, W: Array) -> Array:
        """`V'X_iW` from `A_i = F_i'V` and `B_i = F_i'W`, (N, m, m)."""
        plain = V[: self.depth].mT @ W[: self.depth]
        return arrays.over_blocks(lambda a, b: a.mT @ b, A, B) + self.ridge[:, None, None] * plain


class Segments:
    """Rows that belong to samples, as a stack with one layer a sample; shorter layers end in zeros."""

    def __init__(self, starts: np.ndarray, model: Array) -> None:
        sizes = np.diff(starts)
        self.count, self.size = len(sizes), int(sizes.max())
        self.even = bool((sizes == self.size).all())
        layer = np.repeat(np.arange(self.count), sizes)
        self.slot = arrays.like(layer * self.size + np.arange(starts[-1]) - starts[layer], model)

    def split(self, rows: Array) -> Array:
        """(R, m) to (N, r, m)."""
        if not self.even:
            xp = namespace(rows)
            whole = xp.zeros((self.count * self.size, rows.shape[1]), dtype=rows.dtype, device=rows.device)
            whole[self.slot] = rows
            rows = whole
        return rows.reshape(self.count, self.size, rows.shape[1])

    def join(self, layers: Array) -> Array:
        """(N, r, m) to (R, m)."""
        rows = layers.reshape(self.count * self.size, layers.shape[2])
        return rows if self.even else rows[self.slot]
