"""Samples in memory, as a NumPy array or a torch tensor, and their view through W."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from spdsl import backend
from spdsl.backend import Array, double, namespace, symmetric
from spdsl.data.base import Data, View
from spdsl.data.bounded_search import BoundBlock, Evaluate, bound_blocks, vector_bound
from spdsl.data.duplicates import first_copies
from spdsl.data.neighbor_search import (
    Capacities,
    DistanceBlock,
    Neighbors,
    single_vectors,
    upper_blocks,
)
from spdsl.data.recentering import Moments, Recentering, log_moments, log_sum, recentering_of, trace_sum
from spdsl.data.search import search
from spdsl.data.validation import check_part
from spdsl.geometry import Metric, log_vectors
from spdsl.geometry.lower_bounds import sample_places

SMALL = 18  # stacks of m x m matrices that a trial and its derivative hold at once


class MemoryData(Data):
    """Matrices (N, n, n) in memory. `check` also converts what users pass to a float64 array.

    Parameters
    ----------
    X : array or tensor (N, n, n)
    precision : {"double", "mixed"}

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.data import MemoryData
    >>> MemoryData(np.stack([np.eye(3)] * 4)).shape
    (4, 3, 3)
    """

    def __init__(self, X: Any, precision: str = "double") -> None:
        self.precision, self.single = precision, precision == "mixed"
        self._hold(X)

    def _hold(self, X: Any) -> None:
        self.X, self.shape = X, getattr(X, "shape", ())
        self.model = X[:0] if backend.is_array(X) and X.ndim else X

    def check(self, name: str = "X") -> None:
        self._hold(check_part(self.X, 0, name=name, precision=self.precision))  # as data on disk are: nothing is evened

    def to_device(self, device: Any) -> MemoryData:
        return MemoryData(backend.to_device(self.X, device, single=self.single), self.precision)

    def unit_mean(self) -> Array:
        return unit_sum(self.X) / self.shape[0]

    def first_copies(self) -> np.ndarray:
        return first_copies(self.X)

    def neighbors(
        self, metric: Metric, labels: np.ndarray, capacities: Capacities, *, measure: bool, approximate: bool
    ) -> Neighbors:
        return search(self, metric, labels, capacities, measure=measure, approximate=approximate)

    def sqdist_blocks(self, metric: Metric) -> Iterator[DistanceBlock]:
        """Squared distances block by block, columns at or after rows."""
        return upper_blocks(self.X, metric)

    def bound_blocks(self, metric: Metric) -> Iterator[BoundBlock]:
        """Lower bounds block by block, columns at or after rows."""
        return bound_blocks(self.X, metric)

    def vectors(self, metric: Metric) -> np.ndarray:
        """Vectors (N, d), float32, whose Euclidean distances are the distances of the metric, or lower bounds of them."""
        N, n, _ = self.shape
        bound = vector_bound(metric, lambda: double(self.X[backend.like(sample_places(N), self.X)]))
        parts = backend.map_blocks(lambda s: single_vectors(metric, self.X[s], bound), N, 8 * n * n, on=self.X)
        return np.concatenate(list(parts))

    def evaluator(self, metric: Metric) -> Evaluate | None:
        """The function of places (i, j) that gives squared distances, where they are not those of the vectors."""
        if metric.euclidean:
            return None
        F = metric.compact(double(self.X))
        return lambda i, j: backend.to_numpy(metric.matched(F, backend.like(i, F[0]), F, backend.like(j, F[0])))

    def recentering(self) -> Recentering:
        return recentering_of(
            self.shape,
            trace_sum(self.X),
            lambda unit: log_sum(self.X, unit),
            self.log_moments,
        )

    def log_moments(self, G: Array) -> Moments:
        return log_moments(self.X, backend.like(G, self.X))

    def map_log_vectors(self, A: Array, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        N, n, _ = self.shape
        A = backend.like(A, self.X)

        def part(s: slice) -> np.ndarray:
            return function(backend.to_numpy(log_vectors(symmetric(A.mT @ (double(self.X[s]) @ A)))))

        return np.concatenate(list(backend.map_blocks(part, N, 8 * n * n, on=self.X)))

    def view(self, m: int) -> View:
        return MemoryView(self.X)

    def reduce(self, W: Array) -> Array:
        return backend.over_blocks(lambda block: symmetric(W.mT @ (backend.double(block) @ W)), self.X)

    def bytes_needed(self, m: int) -> int:
        """Memory for X, the two products beside it, and the m x m matrices of one iteration."""
        N, n, _ = self.shape
        return N * ((4 if self.single else 8) * (n * n + 2 * n * m) + 8 * SMALL * m * m)


def unit_sum(X: Array) -> Array:
    """Sum (n, n) of the matrices, each scaled to trace 1 so that none dominates."""
    N, n, _ = X.shape

    def part(s: slice) -> Array:
        block = backend.double(X[s])
        return (1 / namespace(X).linalg.trace(block)) @ block.reshape(-1, n * n)

    return sum(backend.map_blocks(part, N, 8 * n * n, on=X)).reshape(n, n)


class MemoryView:
    """Matrices held in memory, as a NumPy array or a torch tensor, float64 or float32.

    Besides X it holds the m x n products `W'X_i` and `H'X_i`, in the precision of X; m x m matrices are always float64.
    X_i is symmetric, so `W'X_i` is `(X_i W)'`: products in this order read memory contiguously, and the gradient
    becomes one matrix product over all matrices.
    """

    def __init__(self, X: Array) -> None:
        self.X = X
        self.count = X.shape[0]
        self.passes = 0
        self.W: Any = None
        self.WX: Any = None
        self.HX: Any = None
        self._size = 1.0  # HX is that of H over this: a direction can be too long or short for the precision of X
        self._pending = 0.0  # step along H already applied to W but not yet to WX; applied while the gradient reads WX

    def start(self, W: Array) -> Array:
        if W is self.W:
            self._catch_up()
            return self._reduced()
        self.W, self._pending = W, 0.0
        return self.refresh()

    def refresh(self) -> Array:
        self._pending = 0.0
        self.WX = self.buffer(self.WX, self.W)
        return symmetric(self._pass(self.W, self.W, self.WX))

    def look(self, H: Array) -> tuple[Array, Array]:
        self._catch_up()
        self.H = H
        self.HX = self.buffer(self.HX, H)
        self._size, unit = self.sized(H)
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
        size, S = self.sized(S)
        S = self._cast(S)

        def part(s: slice) -> Array:
            if step:
                self._advance(s, step)
            left = namespace(S).permute_dims(S[s], (1, 0, 2)).reshape(m, -1)
            return double(left @ self.WX[s].reshape(-1, n))

        return (2 * size) * sum(self._blocks(part, m * n)).mT

    def sized(self, A: Array) -> tuple[float, Array]:
        """A as a scale times entries up to 1 if the precision of X may be too narrow for it; otherwise 1 times A."""
        if self.X.dtype == A.dtype:
            return 1.0, A
        size = float(namespace(A).max(abs(A))) or 1.0
        return size, A / size

    def _pass(self, H: Array, right: Array, out: Array) -> Array:
        """Write all `H'X_i` to `out` and return `H'X_i right`: one pass over the data."""
        self.passes += 1
        return backend.concat(self.products(self.X, H, right, out)).reshape(-1, H.shape[1], right.shape[1])

    def products(self, X: Array, H: Array, right: Array, out: Array) -> list[Array]:
        """`H'X_i` of these matrices to `out`; returns `H'X_i right` in parts."""
        _, m, n = out.shape
        left = self._cast(H.mT)

        def part(s: slice) -> Array:
            backend.product_into(left, X[s], out[s])
            return double(out[s]).reshape(-1, n) @ right

        # blocks of X fit the cache of a core; a device reads X as it is, and only conversions are bounded
        item = n * n // 2 if backend.is_numpy(X) else m * n
        return list(backend.map_blocks(part, X.shape[0], 8 * item, on=X))

    def _reduced(self) -> Array:
        """P from the current WX."""
        _, m, n = self.WX.shape
        parts = self._blocks(lambda s: double(self.WX[s]).reshape(-1, n) @ self.W, m * n)
        return symmetric(backend.concat(list(parts)).reshape(-1, m, m))

    def _catch_up(self) -> None:
        """Apply the pending step."""
        step, self._pending = self._pending, 0.0
        if step:
            _, m, n = self.WX.shape
            list(self._blocks(lambda s: self._advance(s, step), m * n))

    def _advance(self, s: slice, step: float) -> None:
        backend.add_scaled(self.WX[s], self.HX[s], step * self._size)

    def _blocks(self, function: Any, item: int) -> Any:
        """Run a function over blocks of the matrices, given how many numbers it needs for each matrix."""
        return backend.map_blocks(function, self.count, 8 * item, on=self.X)

    def buffer(self, held: Any, H: Array) -> Array:
        """The array for `H'X`, allocated once."""
        shape = (self.count, H.shape[1], H.shape[0])
        if held is not None and tuple(held.shape) == shape:
            return held
        return namespace(self.X).empty(shape, dtype=self.X.dtype, device=self.X.device)

    def _cast(self, A: Array) -> Array:
        """Convert to the precision of X."""
        return namespace(A).astype(A, self.X.dtype, copy=False)
