"""A stack held in memory."""

from __future__ import annotations

from typing import Any

from spdsl.arrays import Array, namespace, symmetric


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
