"""Stacks that are read in blocks, with and without room for the products that spare a second pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from spdsl import arrays
from spdsl.arrays import Array, namespace, symmetric
from spdsl.stacks.memory import MemoryStack

Blocks = Callable[[], Iterator[tuple[slice, Array]]]


class StreamedStack(MemoryStack):
    """X read in blocks; `W'X_i` and `H'X_i` are kept, so that an iteration reads X once, as in memory.

    Parameters
    ----------
    blocks : starts a pass, an iterator of `(where, block)`
    count : N
    model : empty stack (0, n, n) of the array library and device of the blocks
    """

    def __init__(self, blocks: Blocks, count: int, model: Array) -> None:
        super().__init__(model)
        self.blocks, self.count = blocks, count

    def _pass(self, H: Array, right: Array, out: Array) -> Array:
        self.passes += 1
        parts = [part for where, block in self.blocks() for part in self._products(block, H, right, out[where])]
        return arrays.concat(parts).reshape(-1, H.shape[1], right.shape[1])


class RereadStack:
    """X read in blocks where nothing of size N n m fits: the gradient is a second pass, and no rounding drifts."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.passes = 0
        self.W: Any = None

    def start(self, W: Array) -> Array:
        if W is not self.W:
            self.W = W
            self.P = self.refresh()
        return self.P

    def refresh(self) -> Array:
        return symmetric(self._between(self.W, self.W))

    def look(self, H: Array) -> tuple[Array, Array]:
        self.H = H
        both = self._between(H, namespace(H).concat([self.W, H], axis=1))
        cross = both[:, :, : H.shape[1]]
        return cross + cross.mT, symmetric(both[:, :, H.shape[1] :])

    def step(self, t: float, right: Array | None = None) -> Array:
        self.W = self.W + t * self.H
        if right is not None:
            self.W = self.W @ right
        return self.W

    def scale(self, factor: float) -> Array:
        self.W = self.W * factor
        return self.W

    def gradient(self, S: Array) -> Array:
        total = namespace(S).zeros_like(self.W)
        for where, block in self._pass():
            part = MemoryStack(block)
            part.start(self.W)
            total += part.gradient(S[where])
        return total

    def _between(self, H: Array, right: Array) -> Array:
        """`H'X_i right` (N, m, k)."""
        parts: list[Array] = []
        out: Any = None
        for _, block in self._pass():
            part = MemoryStack(block)
            out = part._buffer(out, H)
            size, unit = part._sized(H)
            parts += [size * product for product in part._products(block, unit, right, out)]
        return arrays.concat(parts).reshape(-1, H.shape[1], right.shape[1])

    def _pass(self) -> Iterator[tuple[slice, Array]]:
        self.passes += 1
        return self.blocks()
