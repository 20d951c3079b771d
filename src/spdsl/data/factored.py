"""Samples given by factors, `X_i = F_i F_i' + delta_i I`: matrices that are never formed, and their view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spdsl import backend
from spdsl.backend import Array, namespace, symmetric
from spdsl.data.base import Data
from spdsl.data.duplicates import copies_by_digest, digest
from spdsl.data.factored_input import as_entries, as_factor, as_mean, as_ridge, join_rows
from spdsl.data.low_rank import LowRankSpectra, block_rows, low_rank_sqdist
from spdsl.data.neighbor_search import Capacities, DistanceBlock, Neighbors, search_blocks
from spdsl.data.validation import DOUBLE, SIZES
from spdsl.geometry import Metric


class FactoredSPD(Data):
    """Matrices `X_i = F_i F_i' + delta_i I` given by their factors; with a mean, `[[X_i + m_i m_i', m_i], [m_i', 1]]`.

    For a set of r frames with d features, `F` holds the centered frames divided by sqrt(r - 1). `fit`, `transform`,
    `predict`, `score` and `pairwise_sqdist` accept it in place of an array (N, n, n); it takes the memory of the factors,
    and a product with W takes `n r m` operations instead of `n^2 m`.

    Parameters
    ----------
    factors : N arrays (d, r_i), or an array (N, d, r)
        The r_i may differ.
    ridge : float or (N,)
        delta, positive unless every factor has full row rank. It is not relative to the trace.
    mean : (N, d), optional
        The matrices are then (d + 1) x (d + 1).

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import FactoredSPD
    >>> rng = np.random.default_rng(0)
    >>> X = FactoredSPD(rng.standard_normal((3, 100, 4)), ridge=0.1)
    >>> X.shape, X.dense().shape
    ((3, 100, 100), (3, 100, 100))
    """

    ndim = 3

    def __init__(self, factors: Any, ridge: Any, mean: Any = None) -> None:
        parts = [as_factor(factor, k) for k, factor in enumerate(as_entries("factors", factors))]
        if not parts:
            raise ValueError("factors is empty; pass one factor (d, r) per sample")
        for k, part in enumerate(parts):
            if len(part) != len(parts[0]):
                raise ValueError(
                    f"factors[{k}] has {len(part)} rows but factors[0] has {len(parts[0])}; all factors need the same features"
                )
        N, d = len(parts), len(parts[0])
        means = [] if mean is None else as_entries("mean", mean)
        delta = as_ridge(ridge, N)
        for k, part in enumerate(parts):
            if delta[k] == 0 and part.shape[1] < d:
                raise ValueError(
                    f"ridge[{k}] is 0 and factors[{k}] has {part.shape[1]} columns for {d} rows: the matrix is singular; "
                    f"use a positive ridge, e.g. 1e-3 times the trace"
                )
        rows, starts = join_rows(parts, None if all(one is None for one in means) else as_mean(means, N, d))
        self._set(rows, starts, delta, d)

    def _set(self, rows: Array, starts: np.ndarray, ridge: Array, depth: int) -> None:
        """Set the rows [F_i', or F_i' and (m_i, 1)], and the number of coordinates that the ridge acts on."""
        self.rows, self.starts, self.ridge, self.depth = rows, starts, ridge, depth
        self.shape = (len(starts) - 1, rows.shape[1], rows.shape[1])
        self.model = rows[:0].reshape(0, 1, rows.shape[1])[:, [0] * rows.shape[1], :]

    @classmethod
    def _of(cls, rows: Array, starts: np.ndarray, ridge: Array, depth: int) -> FactoredSPD:
        made = cls.__new__(cls)
        made._set(rows, starts, ridge, depth)
        return made

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        sizes = np.diff(self.starts)
        return f"FactoredSPD({self.shape[0]} matrices {self.shape[1]} x {self.shape[1]} of rank {sizes.min()} to {sizes.max()})"

    def __getitem__(self, index: Any) -> FactoredSPD:
        index = index[0] if isinstance(index, tuple) else index  # scikit-learn asks for [index, ...]
        chosen = np.arange(len(self))[index]
        if chosen.ndim != 1:
            raise TypeError(f"samples must be selected by a slice or a list of indices, got {index!r}")
        if not len(chosen):
            raise ValueError("no samples are selected; select at least one")
        sizes = np.diff(self.starts)[chosen]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        take = np.repeat(self.starts[chosen] - starts[:-1], sizes) + np.arange(starts[-1])
        return FactoredSPD._of(self.rows[take], starts, self.ridge[chosen], self.depth)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("only SPDSL, SPDML and pairwise_sqdist accept FactoredSPD; for other methods use X.dense()")

    @property
    def augmented(self) -> bool:
        """Whether the matrices contain a mean."""
        return self.depth < self.shape[1]

    def dense(self) -> np.ndarray:
        """The matrices (N, n, n), formed."""
        rows, ridge = backend.to_numpy(self.rows), backend.to_numpy(self.ridge)
        plain = np.diag((np.arange(self.shape[1]) < self.depth).astype(float))
        return np.stack([F.T @ F + delta * plain for F, delta in zip(self._layers(rows), ridge, strict=True)])

    def _layers(self, rows: np.ndarray) -> list[np.ndarray]:
        return np.split(rows, self.starts[1:-1])

    # ------------------------------------------------------------------ the Data protocol

    def check(self, name: str = "X") -> None:
        """Raise if a matrix is not positive definite to working precision; NaN is rejected earlier."""
        n = self.shape[1]
        with np.errstate(over="ignore"):
            size = self._squares() + backend.to_numpy(self.ridge)
        odd = np.flatnonzero((size < SIZES["double"][0]) | (size > SIZES["double"][1]))
        if len(odd):
            raise ValueError(
                f"{name}[{odd[0]}] has a size of {size[odd[0]]:.1e}, out of the range {SIZES['double'][0]:g} to "
                f"{SIZES['double'][1]:g} in which squares are accurate; divide the factors and ridges by a common scale"
            )
        for k in np.flatnonzero(self._doubtful()):
            spectra = self._spectra(np.array([k]))
            low, high = spectra.values.min(), spectra.values.max()
            if spectra.basis.shape[1] < n:
                low, high = min(low, spectra.floor[0]), max(high, spectra.floor[0])
            if not low > n * DOUBLE * high:
                raise ValueError(
                    f"{name}[{k}] is not positive definite to working precision: smallest eigenvalue {low:.2g} against "
                    f"largest {high:.2g}; use a larger ridge for it, e.g. 1e-3 times the trace"
                )

    def _squares(self) -> np.ndarray:
        """Sums of the squared rows of every sample."""
        rows = backend.to_numpy(self.rows)
        return np.add.reduceat(np.einsum("rn,rn->r", rows, rows), self.starts[:-1])

    def _doubtful(self) -> np.ndarray:
        """Samples that may be singular, by a bound on the ratio of their extreme eigenvalues."""
        ridge, squares = backend.to_numpy(self.ridge), self._squares()
        high = squares + ridge
        low = ridge / (1 + squares) if self.augmented else ridge  # the mean may lower the smallest one, by its length
        return ~(np.minimum(low, 1) > 4 * self.shape[1] * DOUBLE * high)

    def to_device(self, device: Any) -> FactoredSPD:
        if device is None:
            return self
        rows, ridge = (backend.to_device(part, device) for part in (self.rows, self.ridge))
        return FactoredSPD._of(rows, self.starts, ridge, self.depth)

    def unit_mean(self) -> Array:
        N, n, _ = self.shape
        rows, ridge = backend.to_numpy(self.rows), backend.to_numpy(self.ridge)
        trace = self._squares() + self.depth * ridge
        weight = np.repeat(1 / (N * trace), np.diff(self.starts))
        mean = np.zeros((n, n))
        step = max(1, (1 << 24) // n)
        for k in range(0, len(rows), step):
            mean += (rows[k : k + step] * weight[k : k + step, None]).T @ rows[k : k + step]
        mean[np.arange(self.depth), np.arange(self.depth)] += np.mean(ridge / trace)
        return backend.like(mean, self.rows)

    def first_copies(self) -> np.ndarray:
        rows, ridge = backend.to_numpy(self.rows), backend.to_numpy(self.ridge)
        digests = [digest(rows[k]) for k in self.starts[:-1]]
        layers = self._layers(rows)
        return copies_by_digest(digests, lambda k: np.append(layers[k].ravel(), ridge[k]))

    def neighbors(
        self, metric: Metric, labels: np.ndarray, capacities: Capacities, *, measure: bool, approximate: bool
    ) -> Neighbors:
        if approximate:
            raise ValueError("solver={'search': 'approximate'} does not support FactoredSPD; use 'exact'")
        return search_blocks(self.sqdist_blocks(metric), labels, capacities, measure=measure)

    def sqdist_blocks(self, metric: Metric) -> Iterator[DistanceBlock]:
        """Squared distances block by block, columns at or after rows."""
        spectra = self.spectra()
        size = block_rows(spectra.basis.shape[1])
        blocks = [slice(k, min(k + size, len(self))) for k in range(0, len(self), size)]
        for a, rows in enumerate(blocks):
            for columns in blocks[a:]:
                yield rows, columns, low_rank_sqdist(metric, spectra[rows], spectra[columns])

    def sqdist(self, other: FactoredSPD, metric: Metric) -> np.ndarray:
        """Squared distances (a, b) between the matrices, exact, without forming them."""
        return low_rank_sqdist(metric, self.spectra(), other.spectra())

    def view(self, m: int) -> FactoredView:
        return FactoredView(self.rows, self.starts, self.ridge, self.depth)

    def reduce(self, W: Array) -> Array:
        return self.view(W.shape[1]).start(W)

    # ------------------------------------------------------------------ eigenvectors

    def spectra(self) -> LowRankSpectra:
        """Eigenvectors and eigenvalues in the span of the factors."""
        step = max(1, (1 << 24) // (self.shape[1] * int(np.diff(self.starts).max())))
        parts = [self._spectra(np.arange(k, min(k + step, len(self)))) for k in range(0, len(self), step)]
        return LowRankSpectra(
            *(np.concatenate([getattr(p, field) for p in parts]) for field in ("basis", "values", "floor"))
        )

    def _spectra(self, chosen: np.ndarray) -> LowRankSpectra:
        n = self.shape[1]
        rows = backend.to_numpy(self.rows)
        delta = backend.to_numpy(self.ridge)[chosen]
        width = int(np.diff(self.starts).max())
        F = np.zeros((len(chosen), n, width))  # shorter factors are padded with zero columns; their basis is completed
        for place, k in enumerate(chosen):
            layer = rows[self.starts[k] : self.starts[k + 1]]
            F[place, :, width - len(layer) :] = layer.T  # the mean, if any, stays last
        if self.augmented:
            return _augmented_spectra(F, delta)
        U, s, _ = np.linalg.svd(F, full_matrices=False)
        values = s**2 + delta[:, None]
        return LowRankSpectra(np.ascontiguousarray(U.mT), values, _floor(delta, values))


def _augmented_spectra(F: np.ndarray, delta: np.ndarray) -> LowRankSpectra:
    """LowRankSpectra of `F F' + delta (I - e e')`, e the last coordinate, where the last column of F is (m, 1).

    In a basis of the span the matrix is `K K'`; the singular values of K keep digits that its square would lose.
    """
    N, n, _ = F.shape
    Q, R = np.linalg.qr(F[:, :-1])
    q, width = R.shape[1:]
    K = np.zeros((N, q + 1, width + q))
    K[:, :q, :width] = R
    K[:, q, width - 1] = 1
    K[:, np.arange(q), width + np.arange(q)] = np.sqrt(delta)[:, None]
    U, s, _ = np.linalg.svd(K, full_matrices=False)
    basis = np.zeros((N, q + 1, n))
    basis[:, :, :-1] = U.mT[:, :, :q] @ Q.mT
    basis[:, :, -1] = U.mT[:, :, q]
    return LowRankSpectra(basis, s**2, _floor(delta, s**2))


def _floor(delta: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The eigenvalue outside the span; if the ridge is zero the span is everything, and any positive number will do."""
    with np.errstate(divide="ignore"):
        return np.where(delta > 0, delta, np.exp(np.mean(np.log(values), axis=1)))


class FactoredView:
    """Matrices seen through their factors: besides these it holds only `F_i'W` and `F_i'H`, r x m numbers per matrix.

    With `G_i = F_i'W`, `W'X_iW = G_i'G_i + delta_i W'W` and the gradient is `2 sum_i F_i G_i S_i + 2 W sum_i delta_i S_i`:
    an iteration multiplies by the factors twice, `4 n r m` operations per matrix instead of `2 n^2 m`.

    Parameters
    ----------
    rows : (R, n), the columns of all factors, stacked
    starts : (N + 1,), the first row of each matrix
    ridge : (N,), delta
    depth : the ridge acts on the first so many coordinates
    """

    def __init__(self, rows: Array, starts: np.ndarray, ridge: Array, depth: int) -> None:
        self.rows, self.ridge, self.depth = rows, ridge, depth
        self.segments = RaggedRows(starts, rows)
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
        joined = self.segments.join(backend.over_blocks(lambda G, s: G @ s, self.G, S))
        total = sum(backend.map_blocks(lambda s: self.rows[s].mT @ joined[s], R, 8 * n, on=self.rows))
        weighted = namespace(S).tensordot(self.ridge, S, axes=1)
        total[: self.depth] += self.W[: self.depth] @ weighted
        return 2 * total

    def _product(self, W: Array) -> Array:
        """F_i'W for all i, (N, r, m)."""
        self.passes += 1
        return self.segments.split(backend.product(self.rows, W))

    def _between(self, A: Array, B: Array, V: Array, W: Array) -> Array:
        """`V'X_iW` from `A_i = F_i'V` and `B_i = F_i'W`, (N, m, m)."""
        plain = V[: self.depth].mT @ W[: self.depth]
        return backend.over_blocks(lambda a, b: a.mT @ b, A, B) + self.ridge[:, None, None] * plain


class RaggedRows:
    """The rows of each sample as one layer of an array; shorter layers are padded with zeros."""

    def __init__(self, starts: np.ndarray, model: Array) -> None:
        sizes = np.diff(starts)
        self.count, self.size = len(sizes), int(sizes.max())
        self.even = bool((sizes == self.size).all())
        layer = np.repeat(np.arange(self.count), sizes)
        self.slot = backend.like(layer * self.size + np.arange(starts[-1]) - starts[layer], model)

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
