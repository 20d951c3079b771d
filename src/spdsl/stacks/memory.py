"""A stack held in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from spdsl import arrays
from spdsl.arrays import Array, double, namespace, symmetric

SMALL = 18  # stacks of m x m matrices that a trial and its derivative hold at once


class MemoryStack:
    """A stack held in memory, as a NumPy array or a torch tensor, float64 or float32.

    Beside X it holds the m x n products `W'X_i` and `H'X_i`, in the precision of X; what is m x m is float64 always.
    X_i is symmetric, so `W'X_i` is `(X_i W)'`: products in that order run through memory as it lies, and the gradient
    becomes one matrix product over all matrices.
    """

    def __init__(self, X: Array) -> None:
        self.X = X
        self.count = X.shape[0]
        self.passes = 0
        self.W: Any = None
        self.WX: Any = None
        self.HX: Any = None
        self._size = 1.0  # HX belongs to H over this: a direction can be too long or too short for the precision of X
        self._pending = 0.0  # step along H that W has taken and WX not yet: it is taken while the gradient reads WX

    def start(self, W: Array) -> Array:
        if W is self.W:
            self._catch_up()
            return self._reduced()
        self.W, self._pending = W, 0.0
        return self.refresh()

    def refresh(self) -> Array:
        self._pending = 0.0
        self.WX = self._buffer(self.WX, self.W)
        return symmetric(self._pass(self.W, self.W, self.WX))

    def look(self, H: Array) -> tuple[Array, Array]:
        self._catch_up()
        self.H = H
        self.HX = self._buffer(self.HX, H)
        self._size, unit = self._sized(H)
        both = self._pass(unit, namespace(H).concat([self.W, H], axis=1), self.HX)
        if self._size != 1.0:
            both *= self._size
        m = H.shape[1]
        cross = both[:, :, :m]
        return cross + cross.mT, symmetric(both[:, :, m:])

    def step(self, t: float, right: Array | None = None) -> Array:
        self._catch_up()
        self.W = self.W + t * self.H
        self._pending = t
        if right is not None:
            self._catch_up()
            self.W = self.W @ right
            self.WX = self._cast(right.mT) @ self.WX
        return self.W

    def scale(self, factor: float) -> Array:
        self._catch_up()
        self.W = self.W * factor
        self.WX *= factor
        return self.W

    def gradient(self, S: Array) -> Array:
        _, m, n = self.WX.shape
        step, self._pending = self._pending, 0.0
        size, S = self._sized(S)
        S = self._cast(S)

        def part(s: slice) -> Array:
            if step:
                self._advance(s, step)
            left = namespace(S).permute_dims(S[s], (1, 0, 2)).reshape(m, -1)
            return double(left @ self.WX[s].reshape(-1, n))

        return (2 * size) * sum(self._blocks(part, m * n)).mT

    def _sized(self, A: Array) -> tuple[float, Array]:
        """A as a number times entries up to 1, where the precision of X may have no room for their size; else 1 times A."""
        if self.X.dtype == A.dtype:
            return 1.0, A
        size = float(namespace(A).max(abs(A))) or 1.0
        return size, A / size

    def _pass(self, H: Array, right: Array, out: Array) -> Array:
        """Write all `H'X_i` to `out` and return `H'X_i right`: one pass over the data."""
        self.passes += 1
        return arrays.concat(self._products(self.X, H, right, out)).reshape(-1, H.shape[1], right.shape[1])

    def _products(self, X: Array, H: Array, right: Array, out: Array) -> list[Array]:
        """`H'X_i` of these matrices to `out`; returns `H'X_i right` in parts."""
        _, m, n = out.shape
        left = self._cast(H.mT)

        def part(s: slice) -> Array:
            arrays.product_into(left, X[s], out[s])
            return double(out[s]).reshape(-1, n) @ right

        # a core's cache wants small blocks of X; a device reads X as it is and bounds only what is converted
        item = n * n // 2 if arrays.is_numpy(X) else m * n
        return list(arrays.map_blocks(part, X.shape[0], 8 * item, on=X))

    def _reduced(self) -> Array:
        """P from WX as it stands."""
        _, m, n = self.WX.shape
        parts = self._blocks(lambda s: double(self.WX[s]).reshape(-1, n) @ self.W, m * n)
        return symmetric(arrays.concat(list(parts)).reshape(-1, m, m))

    def _catch_up(self) -> None:
        """Take the pending step."""
        step, self._pending = self._pending, 0.0
        if step:
            _, m, n = self.WX.shape
            list(self._blocks(lambda s: self._advance(s, step), m * n))

    def _advance(self, s: slice, step: float) -> None:
        arrays.add_scaled(self.WX[s], self.HX[s], step * self._size)

    def _blocks(self, function: Any, item: int) -> Any:
        """Run a function over blocks of the matrices, of which one takes so many numbers."""
        return arrays.map_blocks(function, self.count, 8 * item, on=self.X)

    def _buffer(self, held: Any, H: Array) -> Array:
        """The array for `H'X`, made once."""
        shape = (self.count, H.shape[1], H.shape[0])
        if held is not None and tuple(held.shape) == shape:
            return held
        return namespace(self.X).empty(shape, dtype=self.X.dtype, device=self.X.device)

    def _cast(self, A: Array) -> Array:
        """To the precision of X."""
        return namespace(A).astype(A, self.X.dtype, copy=False)


def bytes_needed(N: int, n: int, m: int, *, single: bool = False) -> int:
    """Memory for X, the two products beside it, and the m x m matrices of one iteration."""
    return N * ((4 if single else 8) * (n * n + 2 * n * m) + 8 * SMALL * m * m)


@contextmanager
def enough_memory(who: str, X: Array, m: int, device: Any, *, single: bool) -> Iterator[None]:
    """Turn a device too small for a fit inside into an error that says how much it takes and what else there is."""
    N, n, _ = X.shape
    needed = bytes_needed(N, n, m, single=single)
    free = arrays.free_bytes(device) if arrays.is_numpy(X) else None  # a tensor may be there already
    try:
        if free is not None and needed > free:
            raise MemoryError
        yield
    except Exception as error:
        if not arrays.is_out_of_memory(error):
            raise
        where = X.device if device is None else device
        room = "" if free is None else f", where {free / 1e9:.3g} GB are free"
        halves = "" if single else "precision='mixed' (about half of it), "
        host = "" if str(where) == "cpu" else ", or device='cpu'"
        raise MemoryError(
            f"{who} on {N} matrices of {n} x {n} with m = {m} needs about {needed / 1e9:.3g} GB on {str(where)!r}{room}, "
            f"and more with many pairs; use {halves}fewer neighbours, a smaller n_components, fewer matrices{host}"
        ) from error
