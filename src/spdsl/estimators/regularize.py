"""The ridge as a transformer."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from spdsl import backend
from spdsl.backend import Array
from spdsl.data.parameters import check_number
from spdsl.data.validation import regularize
from spdsl.estimators.base import SPDEstimator
from spdsl.models import savable

LOOKED_AT = 32  # matrices that are enough to tell whether a stack has a ridge already


@savable("n_features_in_", "_added")
class Regularize(TransformerMixin, SPDEstimator):
    """Add `ridge * trace(X_i) * I` to every matrix, as `regularize` does, as a step of a pipeline.

    A saved pipeline keeps the ridge of its training, so that new matrices get the same. New matrices that have one already,
    where those of the training had none, are warned of.

    Parameters
    ----------
    ridge : float
        Relative to the trace of each matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import Regularize
    >>> X = np.stack([np.diag([1.0, 0.0]), np.diag([2.0, 0.0])])  # singular
    >>> Regularize(0.1).fit_transform(X)[1]
    array([[2.2, 0. ],
           [0. , 0.2]])
    """

    _takes_blocks = True

    def __init__(self, ridge: float = 1e-3) -> None:
        self.ridge = ridge

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the size of the matrices (n_matrices, n, n) or (n_samples, b, n, n), and the ridge."""
        with self._whole():
            self._added = check_number("ridge", self.ridge, low=0.0)
            self._check_size(regularize(X, self._added).shape, reset=True, name="X")
            self._bare = self._added > 0 and not any(_have_ridge(X, self._added))
        return self

    @property
    def ridge_(self) -> float:
        """The ridge of the fit, which later changes of the parameter do not change."""
        check_is_fitted(self, "_added")
        return self._added

    def transform(self, X: Any) -> Array:
        """Matrices with the ridge, in the shape of X: a new array, which the next step checks for positive definiteness."""
        check_is_fitted(self, "_added")
        added = regularize(X, self._added)
        self._check_size(added.shape, reset=False, name="X")
        if getattr(self, "_bare", False) and all(_have_ridge(X, self._added)):
            warnings.warn(
                f"X seems to have a ridge already, which the training matrices did not have; this step adds {self._added:g} "
                f"of the trace, so pass the matrices without it",
                UserWarning,
                stacklevel=2,
            )
        return added


def _have_ridge(X: Any, ridge: float) -> Iterator[bool]:
    """Whether matrices, evenly spread over X, have no eigenvalue below half of what the ridge would make the smallest."""
    for k in dict.fromkeys(np.linspace(0, len(X) - 1, LOOKED_AT).round().astype(int).tolist()):
        sample = backend.to_numpy(X[k]) if backend.is_array(X[k]) else np.asarray(X[k])
        n = sample.shape[-1]
        half = 0.5 * ridge / (1 + n * ridge) * np.trace(sample, axis1=-2, axis2=-1)
        try:
            np.linalg.cholesky(sample - half[..., None, None] * np.eye(n))
            yield True
        except np.linalg.LinAlgError:
            yield False
