"""Samples seen through G W, where the search moves W: the same matrices, recentered at their mean without a copy of them."""

from __future__ import annotations

from spdsl.backend import Array
from spdsl.data.base import View


class PreconditionedView:
    """A view in which `W` stands for `G W`: its reduced matrices are `W'G X G W`, its gradients are taken to W."""

    def __init__(self, view: View, G: Array) -> None:
        self.view, self.G = view, G
        self.passes = 0
        self.W: Array = None
        self.P: Array = None  # of that W, where it is known

    def start(self, W: Array) -> Array:
        if W is not self.W:
            self.W = W
            return self._read(self.view.start(self.G @ W))
        return self.view.refresh() if self.P is None else self.P

    def refresh(self) -> Array:
        return self._read(self.view.refresh())

    def look(self, H: Array) -> tuple[Array, Array]:
        self._H = H
        found = self.view.look(self.G @ H)
        self.passes = self.view.passes
        return found

    def step(self, t: float, right: Array | None = None) -> Array:
        self.view.step(t, right)
        W = self.W + t * self._H
        return self._moved(W if right is None else W @ right)

    def scale(self, factor: float) -> Array:
        self.view.scale(factor)
        P, W = self.P, self.W * factor
        self._moved(W)
        self.P = None if P is None else P * factor**2
        return W

    def gradient(self, S: Array) -> Array:
        gradient = self.G @ self.view.gradient(S)
        self.passes = self.view.passes
        return gradient

    def _read(self, P: Array) -> Array:
        self.P, self.passes = P, self.view.passes
        return P

    def _moved(self, W: Array) -> Array:
        self.W, self.P = W, None
        return W
