"""Log-vectors of SPD matrices."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from spdsl.backend import Array
from spdsl.estimators.base import SPDEstimator
from spdsl.geometry import log_vectors
from spdsl.models import savable


@savable("n_features_in_", "_n_features_out")
class LogVectors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SPDEstimator):
    """Vectors of matrix logarithms: the upper triangle of `log X`, off-diagonal entries times sqrt(2).

    Euclidean distances between the vectors are log-Euclidean distances between the matrices, so any scikit-learn
    estimator can follow in a pipeline. For samples of several matrices (n_samples, b, n, n) vectors are concatenated.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from spdsl import LogVectors
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> LogVectors().fit_transform(X[:3]).shape
    (3, 2145)
    >>> model = make_pipeline(LogVectors(), LogisticRegression()).fit(X[::20], y[::20])
    """

    _takes_blocks = True

    def fit(self, X: Any, y: Any = None) -> Self:
        """Store the size of the matrices (n_matrices, n, n)."""
        with self._whole():
            shape = self._check_X(X, reset=True).shape
        self._n_features_out = (shape[1] if len(shape) == 4 else 1) * shape[-1] * (shape[-1] + 1) // 2
        return self

    def transform(self, X: Any) -> Array:
        """Vectors (n_matrices, n (n + 1) / 2)."""
        check_is_fitted(self, "n_features_in_")
        return log_vectors(self._check_X(X))
