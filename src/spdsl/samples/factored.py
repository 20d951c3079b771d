"""Samples known by factors: `X_i = F_i F_i' + delta_i I`, n x n matrices that are never formed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from spdsl import arrays
from spdsl.arrays import Array
from spdsl.metrics import Metric
from spdsl.samples.base import DistanceBlock
from spdsl.samples.copies import copies_by_digest, digest
from spdsl.samples.spectra import Spectra, block_rows, spectra_sqdist
from spdsl.stacks import FactoredStack
from spdsl.validation import DOUBLE, SIZES


class FactoredSPD:
    """Matrices `X_i = F_i F_i' + delta_i I` known by their factors; with a mean, `[[X_i + m_i m_i', m_i], [m_i', 1]]`.

    What a set of r frames with d features is: `F` holds the centred frames, divided by sqrt(r - 1). Takes the place of a
    stack (N, n, n) in `fit`, `transform`, `predict`, `score` and `pairwise_sqdist`; memory is that of the factors, and a
    product with W takes `n r m` operations where a formed matrix takes `n^2 m`.

    Parameters
    ----------
    factors : N arrays (d, r_i), or an array (N, d, r)
        The r_i may differ.
    ridge : float or (N,)
        delta, above zero unless every factor has full row rank. Not relative to the trace.
    mean : (N, d), optional
        The matrices are then (d + 1) x (d + 1).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = FactoredSPD(rng.standard_normal((3, 100, 4)), ridge=0.1)
    >>> X.shape, X.dense().shape
    ((3, 100, 100), (3, 100, 100))
    """

    ndim = 3

    def __init__(self, factors: Any, ridge: Any, mean: Any = None) -> None:
        parts = [_as_factor(factor, k) for k, factor in enumerate(_listed("factors", factors))]
        if not parts:
            raise ValueError("factors is empty: pass one factor (d, r) per sample")
        for k, part in enumerate(parts):
            if len(part) != len(parts[0]):
                raise ValueError(
                    f"factors[{k}] has {len(part)} rows where factors[0] has {len(parts[0])}: all need the same features"
                )
        N, d = len(parts), len(parts[0])
        means = [] if mean is None else _listed("mean", mean)
        delta = _as_ridge(ridge, N)
        for k, part in enumerate(parts):
            if delta[k] == 0 and part.shape[1] < d:
                raise ValueError(
                    f"ridge[{k}] is 0 and factors[{k}] has {part.shape[1]} columns for {d} rows: that matrix is singular; "
                    f"use a ridge above zero, e.g. 1e-3 times the trace"
                )
        rows, starts = _join(parts, None if all(one is None for one in means) else _as_mean(means, N, d))
        self._set(rows, starts, delta, d)

    def _set(self, rows: Array, starts: np.ndarray, ridge: Array, depth: int) -> None:
        """Take over rows [F_i', or F_i' and (m_i, 1)], and the number of coordinates that the ridge acts on."""
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
            raise TypeError(f"choose samples by a slice or a list of indices, got {index!r}")
        if not len(chosen):
            raise ValueError("no samples are chosen: choose one or more")
        sizes = np.diff(self.starts)[chosen]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        take = np.repeat(self.starts[chosen] - starts[:-1], sizes) + np.arange(starts[-1])
        return FactoredSPD._of(self.rows[take], starts, self.ridge[chosen], self.depth)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("FactoredSPD is for SPDSL, SPDML and pairwise_sqdist; for other methods form it, X.dense()")

    @property
    def augmented(self) -> bool:
        """Whether the matrices carry a mean."""
        return self.depth < self.shape[1]

    def dense(self) -> np.ndarray:
        """The matrices (N, n, n), formed."""
        rows, ridge = arrays.to_numpy(self.rows), arrays.to_numpy(self.ridge)
        plain = np.diag((np.arange(self.shape[1]) < self.depth).astype(float))
        return np.stack([F.T @ F + delta * plain for F, delta in zip(self._layers(rows), ridge, strict=True)])

    def _layers(self, rows: np.ndarray) -> list[np.ndarray]:
        return np.split(rows, self.starts[1:-1])

    # ------------------------------------------------------------------ what a learner asks for

    def check(self, name: str = "X") -> None:
        """Raise where a matrix is not positive definite to working precision; NaN does not get this far."""
        n = self.shape[1]
        with np.errstate(over="ignore"):
            size = self._squares() + arrays.to_numpy(self.ridge)
        odd = np.flatnonzero((size < SIZES["double"][0]) | (size > SIZES["double"][1]))
        if len(odd):
            raise ValueError(
                f"{name}[{odd[0]}] has a size of {size[odd[0]]:.1e}, out of the range {SIZES['double'][0]:g} to "
                f"{SIZES['double'][1]:g} in which squares keep their digits: divide the factors, and ridges, by a common scale"
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
        rows = arrays.to_numpy(self.rows)
        return np.add.reduceat(np.einsum("rn,rn->r", rows, rows), self.starts[:-1])

    def _doubtful(self) -> np.ndarray:
        """Samples that a bound on the ratio of their extreme eigenvalues does not clear."""
        ridge, squares = arrays.to_numpy(self.ridge), self._squares()
        high = squares + ridge
        low = ridge / (1 + squares) if self.augmented else ridge  # the mean may tilt the smallest one by its length
        return ~(np.minimum(low, 1) > 4 * self.shape[1] * DOUBLE * high)

    def to_device(self, device: Any) -> FactoredSPD:
        if device is None:
            return self
        rows, ridge = (arrays.to_device(part, device) for part in (self.rows, self.ridge))
        return FactoredSPD._of(rows, self.starts, ridge, self.depth)

    def unit_mean(self) -> Array:
        N, n, _ = self.shape
        rows, ridge = arrays.to_numpy(self.rows), arrays.to_numpy(self.ridge)
        trace = self._squares() + self.depth * ridge
        weight = np.repeat(1 / (N * trace), np.diff(self.starts))
        mean = np.zeros((n, n))
        step = max(1, (1 << 24) // n)
        for k in range(0, len(rows), step):
            mean += (rows[k : k + step] * weight[k : k + step, None]).T @ rows[k : k + step]
        mean[np.arange(self.depth), np.arange(self.depth)] += np.mean(ridge / trace)
        return arrays.like(mean, self.rows)

    def first_copies(self) -> np.ndarray:
        rows, ridge = arrays.to_numpy(self.rows), arrays.to_numpy(self.ridge)
        digests = [digest(rows[k]) for k in self.starts[:-1]]
        layers = self._layers(rows)
        return copies_by_digest(digests, lambda k: np.append(layers[k].ravel(), ridge[k]))

    def sqdist_blocks(self, metric: Metric) -> Iterator[DistanceBlock]:
        spectra = self.spectra()
        size = block_rows(spectra.basis.shape[1])
        blocks = [slice(k, min(k + size, len(self))) for k in range(0, len(self), size)]
        for a, rows in enumerate(blocks):
            for columns in blocks[a:]:
                yield rows, columns, spectra_sqdist(metric, spectra[rows], spectra[columns])

    def vectors(self, metric: Metric) -> np.ndarray:
        raise ValueError("search='approximate' needs formed matrices; factored ones have exact neighbours only")

    def sqdist(self, other: FactoredSPD, metric: Metric) -> np.ndarray:
        """Squared distances (a, b) between the matrices, exact, without forming them."""
        return spectra_sqdist(metric, self.spectra(), other.spectra())

    def stack(self, m: int) -> FactoredStack:
        return FactoredStack(self.rows, self.starts, self.ridge, self.depth)

    def reduce(self, W: Array) -> Array:
        return self.stack(W.shape[1]).start(W)

    def release(self) -> None:
        """Nothing was taken."""

    # ------------------------------------------------------------------ eigenvectors

    def spectra(self) -> Spectra:
        """Eigenvectors and eigenvalues in the span of the factors."""
        step = max(1, (1 << 24) // (self.shape[1] * int(np.diff(self.starts).max())))
        parts = [self._spectra(np.arange(k, min(k + step, len(self)))) for k in range(0, len(self), step)]
        return Spectra(*(np.concatenate([getattr(p, field) for p in parts]) for field in ("basis", "values", "floor")))

    def _spectra(self, chosen: np.ndarray) -> Spectra:
        n = self.shape[1]
        rows = arrays.to_numpy(self.rows)
        delta = arrays.to_numpy(self.ridge)[chosen]
        width = int(np.diff(self.starts).max())
        F = np.zeros((len(chosen), n, width))  # shorter factors end in zero columns: their basis is filled up
        for place, k in enumerate(chosen):
            layer = rows[self.starts[k] : self.starts[k + 1]]
            F[place, :, width - len(layer) :] = layer.T  # the mean, where there is one, stays the last
        if self.augmented:
            return _augmented_spectra(F, delta)
        U, s, _ = np.linalg.svd(F, full_matrices=False)
        values = s**2 + delta[:, None]
        return Spectra(np.ascontiguousarray(U.mT), values, _floor(delta, values))


def _augmented_spectra(F: np.ndarray, delta: np.ndarray) -> Spectra:
    """Spectra of `F F' + delta (I - e e')`, e the last coordinate, where the last column of F is (m, 1).

    In a basis of the span the matrix is `K K'`: singular values of K keep the digits that its square would lose.
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
    return Spectra(basis, s**2, _floor(delta, s**2))


def _floor(delta: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The eigenvalue beside the span; where the ridge is zero nothing is beside it, and any positive number serves."""
    with np.errstate(divide="ignore"):
        return np.where(delta > 0, delta, np.exp(np.mean(np.log(values), axis=1)))


def _as_factor(factor: Any, k: int) -> np.ndarray:
    """One factor as a finite float64 matrix."""
    factor = arrays.to_numpy(factor)
    if factor.ndim != 2 or 0 in factor.shape or factor.dtype.kind not in "fiu":
        raise ValueError(
            f"factors[{k}] must be a matrix (d, r) of real numbers, got shape {factor.shape}, dtype {factor.dtype}"
        )
    if not np.isfinite(factor).all():
        raise ValueError(f"factors[{k}] contains NaN or infinity: remove this sample, or find out where it went wrong")
    return factor


def _listed(name: str, parts: Any) -> list[Any]:
    """An argument with one entry a sample."""
    try:
        return list(parts)
    except TypeError as error:
        raise ValueError(f"{name} must hold one entry for each sample, got {type(parts).__name__}") from error


def _as_ridge(ridge: Any, N: int) -> np.ndarray:
    """delta (N,), finite and not negative."""
    try:
        given = np.asarray(list(ridge) if isinstance(ridge, Iterator) else ridge, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"ridge must be a number or ({N},), one for each factor; got {ridge!r}") from error
    delta = np.array(np.broadcast_to(given, N)) if given.ndim == 0 else given.copy()
    if delta.shape != (N,):
        raise ValueError(f"ridge must be a number or ({N},), one for each factor; got shape {delta.shape}")
    bad = np.flatnonzero(~(np.isfinite(delta) & (delta >= 0)))
    if len(bad):
        raise ValueError(f"ridge[{bad[0]}] is {delta[bad[0]]}: it must be finite and not below zero")
    return delta


def _as_mean(means: list[Any], N: int, d: int) -> np.ndarray:
    """Means (N, d), finite."""
    parts = [arrays.to_numpy(one) for one in means]
    for k, part in enumerate(parts):
        if part.shape != (d,) or part.dtype.kind not in "fiu":
            raise ValueError(
                f"mean must have shape ({N}, {d}), one row of real numbers for each factor; mean[{k}] has shape "
                f"{part.shape}, dtype {part.dtype}"
            )
    mean = np.array(parts, dtype=np.float64)
    if len(mean) != N:
        raise ValueError(f"mean must have shape ({N}, {d}), one row for each factor; got {mean.shape}")
    bad = np.flatnonzero(~np.isfinite(mean).all(axis=1))
    if len(bad):
        raise ValueError(
            f"mean[{bad[0]}] contains NaN or infinity: remove this sample, or find out where it went wrong"
        )
    return mean


def _join(parts: Sequence[np.ndarray], mean: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """All columns as rows, one sample below the other, and where each begins; with a mean, (m, 1) ends each sample."""
    d, extra = len(parts[0]), int(mean is not None)
    starts = np.cumsum([0, *(part.shape[1] + extra for part in parts)])
    rows = np.zeros((starts[-1], d + extra))
    for k, part in enumerate(parts):
        rows[starts[k] : starts[k] + part.shape[1], :d] = part.T
    if mean is not None:
        rows[starts[1:] - 1, :d] = mean
        rows[starts[1:] - 1, d] = 1
    return rows, starts
