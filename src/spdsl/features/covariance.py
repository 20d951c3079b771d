"""A set of vectors (frames, descriptors, joint positions) as one SPD matrix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

import numpy as np

from spdsl.features.errors import FeatureError

Embedding = Literal["covariance", "augmented", "gaussian"]
EMBEDDINGS: tuple[Embedding, ...] = ("covariance", "augmented", "gaussian")
Shrinkage = Literal["ledoit_wolf", "oas"]

RIDGE = 1e-3  # the paper's delta, as a fraction of the trace
_EQUAL = "all samples are identical: their covariance is zero, and a ridge relative to it cannot help"


def is_constant(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Whether no coordinate (last axis) varies between its bounds `low` and `high` by more than rounding.

    The covariance itself does not tell: that of equal samples is rounding noise rather than zero, since their mean is
    rounded.
    """
    rounding = 64 * np.finfo(float).eps * np.maximum(np.abs(low), np.abs(high))
    return ~(high / 2 - low / 2 > rounding / 2).any(axis=-1)  # halves: the difference may overflow


class StreamingCovariance:
    """Mean and covariance of samples that arrive in chunks; memory is `d x d` however many arrive.

    Chunks are merged by the pairwise update of Chan, Golub and LeVeque: no sum of raw squares is ever formed, so
    nothing cancels when the mean is large against the spread.

    Attributes
    ----------
    count : int
        Samples seen so far.
    mean : ndarray (d,)
        Their mean.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import StreamingCovariance
    >>> rng = np.random.default_rng(0)
    >>> stream = StreamingCovariance()
    >>> for _ in range(3):
    ...     _ = stream.update(rng.random((100, 4)))
    >>> stream.covariance().shape
    (4, 4)
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean = np.zeros(0)
        self._scatter = np.zeros((0, 0))
        self._low = self._high = np.zeros(0)

    def update(self, samples: np.ndarray) -> StreamingCovariance:
        """Add `samples` (k, d), or (k, ...) that is flattened to (k, d); returns itself."""
        samples = _as_rows(samples)
        if len(samples) == 0:
            return self
        if self.count == 0:
            self.mean = np.zeros(samples.shape[1])
            self._scatter = np.zeros((samples.shape[1],) * 2)
            self._low, self._high = np.full((2, samples.shape[1]), [[np.inf], [-np.inf]])
        elif samples.shape[1] != len(self.mean):
            raise FeatureError(f"samples have {samples.shape[1]} entries, those before them had {len(self.mean)}")
        bad = np.flatnonzero(~np.isfinite(samples).all(axis=1))
        if len(bad):
            raise FeatureError(f"sample {self.count + bad[0]} holds NaN or infinity; remove it or fill it in first")
        k, mean = len(samples), samples.mean(axis=0)
        centered, delta = samples - mean, mean - self.mean
        total = self.count + k
        self._scatter += centered.T @ centered + np.outer(delta, delta) * (self.count * k / total)
        self.mean = self.mean + delta * (k / total)
        self.count = total
        self._low = np.minimum(self._low, samples.min(axis=0))
        self._high = np.maximum(self._high, samples.max(axis=0))
        return self

    def covariance(self, ddof: int = 1) -> np.ndarray:
        """Covariance (d, d) of everything seen, divided by `count - ddof`; samples that are all equal are refused."""
        if self.count - ddof < 1:
            raise FeatureError(f"a covariance needs at least {ddof + 1} samples, got {self.count}")
        if is_constant(self._low, self._high):
            raise FeatureError(_EQUAL)
        return self._scatter / (self.count - ddof)


def set_covariance(
    samples: np.ndarray | Iterable[np.ndarray],
    *,
    embedding: Embedding = "covariance",
    ridge: float = RIDGE,
    shrinkage: Shrinkage | None = None,
) -> np.ndarray:
    """SPD matrix of a set of samples: `S = cov + ridge * trace(cov) * I`, by itself or joined with the mean.

    Parameters
    ----------
    samples : ndarray (n, ...) or iterable of such chunks
        One sample a row (an image is flattened). An iterable is read once, chunk by chunk, in constant memory; a list
        or tuple of arrays (n, d) is such an iterable, so images of one set come as one array (n, height, width).
    embedding : {"covariance", "augmented", "gaussian"}
        What to return: `S` (d, d); the paper's `[[S + m m', m], [m', 1]]` (d + 1, d + 1); or that matrix times
        `det(S)^(-1/(d+1))`, the embedding of the Gaussian N(m, S), which has determinant one.
    ridge : float
        Fraction of the trace added to the diagonal (the paper: 1e-3). Zero leaves the covariance as it is.
    shrinkage : {"ledoit_wolf", "oas"}, optional
        Use scikit-learn's shrinkage estimator instead of the sample covariance; needs the samples as one array.

    Returns
    -------
    ndarray, symmetric; positive definite wherever `ridge > 0`.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import set_covariance
    >>> rng = np.random.default_rng(0)
    >>> set_covariance(rng.random((10, 5)), embedding="augmented").shape
    (6, 6)
    """
    if embedding not in EMBEDDINGS:
        raise ValueError(f"embedding={embedding!r}: choose from {', '.join(EMBEDDINGS)}")
    if not 0 <= ridge < np.inf:
        raise ValueError(f"ridge={ridge!r}: it must be a fraction of the trace, zero or more")
    moments = StreamingCovariance()
    for chunk in _chunks(samples):
        moments.update(chunk)
    S = moments.covariance()
    if shrinkage is not None:
        S = _shrunk(samples, shrinkage)
    return embed_gaussian(moments.mean, add_ridge(S, ridge), embedding)


class SetFactors(NamedTuple):
    """What `FactoredSPD` takes of one set: `F` (d, r), the ridge delta, the mean (d,) or None."""

    factor: np.ndarray
    ridge: float
    mean: np.ndarray | None


def set_factors(
    samples: np.ndarray | Iterable[np.ndarray], *, embedding: Embedding = "covariance", ridge: float = RIDGE
) -> SetFactors:
    """Factors of the matrix that `set_covariance` forms: `F F' + delta I`, for features too many to form it.

    Parameters
    ----------
    samples : ndarray (r, ...), or iterable of such chunks
        One sample a row.
    embedding : {"covariance", "augmented"}
        With "augmented" the mean is returned too.
    ridge : float
        Fraction of the trace, above zero unless there are more samples than features; `delta = ridge * trace(F F')`.

    Returns
    -------
    SetFactors, for `FactoredSPD(*zip(*map(set_factors, sets)))`.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import set_factors
    >>> rng = np.random.default_rng(0)
    >>> F, delta, mean = set_factors(rng.random((10, 50)), embedding="augmented")
    >>> F.shape, mean.shape
    ((50, 10), (50,))
    """
    if embedding not in ("covariance", "augmented"):
        raise ValueError(f"embedding={embedding!r}: factors exist for 'covariance' and 'augmented'")
    if not 0 <= ridge < np.inf:
        raise ValueError(f"ridge={ridge!r}: it must be a fraction of the trace, zero or more")
    chunks = [_as_rows(chunk) for chunk in _chunks(samples)]
    rows = np.concatenate(chunks) if chunks else np.empty((0, 0))
    if len(rows) < 2:
        raise FeatureError(f"a covariance needs at least 2 samples, got {len(rows)}")
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        raise FeatureError(f"sample {bad[0]} holds NaN or infinity; remove it or fill it in first")
    if is_constant(rows.min(axis=0), rows.max(axis=0)):
        raise FeatureError(_EQUAL)
    mean = rows.mean(axis=0)
    factor = (rows - mean).T / math.sqrt(len(rows) - 1)
    return SetFactors(factor, ridge * float(np.sum(factor**2)), mean if embedding == "augmented" else None)


def add_ridge(S: np.ndarray, ridge: float = RIDGE) -> np.ndarray:
    """Return `S + ridge * trace(S) * I`, exactly symmetric; a set without any spread is refused.

    Parameters
    ----------
    S : ndarray (d, d)
    ridge : float
        Fraction of the trace added to the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import add_ridge
    >>> add_ridge(np.diag([1.0, 0.0]), 0.1)
    array([[1.1, 0. ],
           [0. , 0.1]])
    """
    trace = np.trace(S)
    if not trace > np.finfo(float).tiny:
        raise FeatureError(_EQUAL)
    if not np.isfinite(trace):
        raise FeatureError("the covariance overflows: rescale the samples")
    S = (S + S.T) / 2
    S[np.diag_indices(len(S))] += ridge * trace
    return S


def embed_gaussian(mean: np.ndarray, S: np.ndarray, embedding: Embedding = "augmented") -> np.ndarray:
    """Join mean (d,) and covariance (d, d) into one SPD matrix; see `set_covariance` for the three forms.

    Parameters
    ----------
    mean : ndarray (d,)
    S : ndarray (d, d)
    embedding : {"covariance", "augmented", "gaussian"}

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import embed_gaussian
    >>> embed_gaussian(np.ones(2), np.eye(2))
    array([[2., 1., 1.],
           [1., 2., 1.],
           [1., 1., 1.]])
    """
    if embedding == "covariance":
        return S
    P = np.block([[S + np.outer(mean, mean), mean[:, None]], [mean[None, :], np.ones((1, 1))]])
    if embedding == "augmented":
        return P
    sign, logdet = np.linalg.slogdet(S)
    if sign <= 0 or not np.isfinite(logdet):
        raise FeatureError("the Gaussian embedding needs a positive definite covariance; use a positive ridge")
    return P * np.exp(-logdet / len(P))


def as_array(samples: object) -> np.ndarray:
    """Anything that NumPy understands as an array, or an error that says so; masked entries are not dropped unseen."""
    if any(map(np.ma.is_masked, samples if isinstance(samples, (list, tuple)) else [samples])):
        raise FeatureError("the data have masked entries; remove these rows, or fill them, e.g. data.filled(...)")
    try:
        return np.asarray(samples)
    except (ValueError, TypeError) as error:
        raise FeatureError(f"not an array: {' '.join(str(error).split())}; pass rows of equal length") from None


def _as_rows(samples: np.ndarray) -> np.ndarray:
    """(k, ...) of numbers to (k, d) float64."""
    samples = as_array(samples)
    if samples.ndim < 2:
        raise FeatureError(f"samples have shape {samples.shape}: expected (n, d), one sample a row")
    if samples.dtype.kind not in "biuf":
        raise FeatureError(f"samples have dtype {samples.dtype}: expected real numbers")
    return samples.reshape(len(samples), math.prod(samples.shape[1:])).astype(np.float64, copy=False)


def _chunks(samples: np.ndarray | Iterable[np.ndarray], rows: int = 4096) -> Iterator[np.ndarray]:
    """Slices of an array (so that its float64 copy stays small), or the chunks of an iterable."""
    if _is_array(samples):
        array = as_array(samples)
        if array.ndim < 2:
            _as_rows(array)
        yield from (array[i : i + rows] for i in range(0, len(array), rows))
    else:
        yield from samples


def _is_array(samples: np.ndarray | Iterable[np.ndarray]) -> bool:
    """Whether these are the samples themselves: an array, or a list of rows; a list of (n, d) arrays is one of chunks."""
    if isinstance(samples, (list, tuple)):
        return not any(getattr(chunk, "ndim", 0) >= 2 for chunk in samples)
    return hasattr(samples, "__array__")


def _shrunk(samples: np.ndarray | Iterable[np.ndarray], shrinkage: str) -> np.ndarray:
    from sklearn.covariance import ledoit_wolf, oas

    estimators = {"ledoit_wolf": ledoit_wolf, "oas": oas}
    if shrinkage not in estimators:
        raise ValueError(f"shrinkage={shrinkage!r}: choose from {', '.join(estimators)}")
    if isinstance(samples, (list, tuple)) and not _is_array(samples):
        samples = np.concatenate([_as_rows(chunk) for chunk in samples])
    if not _is_array(samples):
        raise FeatureError(f"shrinkage={shrinkage!r} needs all samples at once: pass an array, not an iterable")
    rows = _as_rows(as_array(samples))
    size = float(np.abs(rows).max())  # both estimators are equivariant; squares of tiny numbers would vanish in them
    with np.errstate(all="ignore"):
        S = estimators[shrinkage](rows / size)[0] * size**2
    if not np.isfinite(S).all():
        raise FeatureError("the covariance overflows or vanishes: rescale the samples")
    return S
