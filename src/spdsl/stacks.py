"""The data behind one small interface: X seen through W. Nothing else in the learner reads the n x n matrices."""

from __future__ import annotations

from typing import Any, Protocol

from spdsl.arrays import Array, namespace, symmetric


class Stack(Protocol):
    """X (N, n, n) seen through W (n, m). Along the line W + tH, `W'XW` is a quadratic in t with m x m coefficients."""

    passes: int  # how often all of X has been read

    def start(self, W: Array) -> Array:
        """Keep XW, return `P = W'XW` (N, m, m). One pass over the data; none if W is the one it started from last."""

    def refresh(self) -> Array:
        """Compute XW from W again, against rounding drift, and return P. One pass over the data."""

    def look(self, H: Array) -> tuple[Array, Array]:
        """Keep XH, return `A1 = W'XH + H'XW` and `A2 = H'XH` (N, m, m). One pass over the data."""

    def step(self, t: float, right: Array | None = None) -> Array:
        """Set `W <- (W + tH) right` and XW with it, return W. No pass over the data."""

    def scale(self, factor: float) -> Array:
        """Multiply W and XW by a number, return W. No pass over the data."""

    def gradient(self, S: Array) -> Array:
        """Return `2 sum_i X_i W S_i` (n, m). No pass over the data."""


class MemoryStack:
    """A stack held in memory, as a NumPy array or a torch tensor."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.passes = 0
        self.W: Any = None

    def start(self, W: Array) -> Array:
        if W is not self.W:
            self.W, self.XW = W, self._product(W)
        return symmetric(W.mT @ self.XW)

    def refresh(self) -> Array:
        self.XW = self._product(self.W)
        return symmetric(self.W.mT @ self.XW)

    def look(self, H: Array) -> tuple[Array, Array]:
        self.H = H
        self.XH = self._product(H)
        cross = self.W.mT @ self.XH
        return cross + cross.mT, symmetric(H.mT @ self.XH)

    def step(self, t: float, right: Array | None = None) -> Array:
        self.W = self.W + t * self.H
        self.XH *= t
        self.XW += self.XH
        if right is not None:
            self.W = self.W @ right
            self.XW = self.XW @ right
        return self.W

    def scale(self, factor: float) -> Array:
        self.W = self.W * factor
        self.XW *= factor
        return self.W

    def gradient(self, S: Array) -> Array:
        return 2 * namespace(S).sum(self.XW @ S, axis=0)

    def _product(self, W: Array) -> Array:
        """X_i W for all i as one matrix product."""
        self.passes += 1
        N, n, _ = self.X.shape
        return (self.X.reshape(N * n, n) @ W).reshape(N, n, W.shape[1])
