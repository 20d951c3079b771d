"""What the learner asks of its data: X seen through W. Nothing else in the learner reads the n x n matrices."""

from __future__ import annotations

from typing import Protocol

from spdsl.arrays import Array


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
