"""scikit-learn's own estimator checks, on every estimator through an adapter that feeds flattened matrices.

The checks bring 2-D tables of features. An adapter turns a row into an SPD matrix and hands the stack to the estimator;
everything else (labels, parameters, fitted attributes, pickling, state) is the estimator's own doing.
"""

import math

import numpy as np
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

from samples import symmetric_exp
from spdsl import SPDML, SPDSL, KernelSVC, SPDNearestNeighbor

LARGEST_LOG = 3.0  # logarithms of the eigenvalues stay below this, whatever the features


def to_spd(X):
    """Rows (N, f) as the upper triangles of symmetric matrices, bounded and exponentiated, (N, k, k) with k >= 2."""
    f = X.shape[1]
    k = max(2, math.ceil((math.sqrt(8 * f + 1) - 1) / 2))
    S = np.zeros((X.shape[0], k, k))
    row, column = (index[:f] for index in np.triu_indices(k))
    S[:, row, column] = S[:, column, row] = LARGEST_LOG / k * X / (1 + abs(X))
    return symmetric_exp(S)


class Flattened:
    """Mixin in front of an estimator: checks X as a table, then passes matrices on."""

    def _matrices(self, X, *, reset):
        return to_spd(validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=2 if reset else 1))

    def _check_size(self, shape, *, reset, name):
        """The size that counts here is that of the table, which `validate_data` has checked."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = True, False
        return tags


class FlatLearner(Flattened):
    """In front of a learner."""

    def fit(self, X, y, sample_weight=None):
        with self._whole():
            return super().fit(self._matrices(X, reset=True), y, sample_weight)

    def _transform(self, X, name="X"):
        return super()._transform(self._matrices(X, reset=False), name)

    def _answer(self, X, kind):
        return super()._answer(self._matrices(X, reset=False), kind)


class FlatClassifier(Flattened):
    """In front of a classifier on matrices."""

    def _check_X(self, X, *, reset=False, name="X"):
        return super()._check_X(self._matrices(X, reset=reset), reset=reset, name=name)


class FlatSPDSL(FlatLearner, SPDSL):
    pass


class FlatSPDML(FlatLearner, SPDML):
    pass


class FlatNearestNeighbor(FlatClassifier, SPDNearestNeighbor):
    pass


class FlatKernelSVC(FlatClassifier, KernelSVC):
    def fit(self, X, y, sample_weight=None):
        with self._whole():
            return super().fit(self._matrices(X, reset=True), y, sample_weight)

    def _check_X(self, X, *, reset=False, name="X"):
        return super(Flattened, self)._check_X(X, reset=True, name=name) if reset else super()._check_X(X, name=name)


ESTIMATORS = [
    FlatSPDSL(),
    FlatSPDSL(metric="aim", n_between=3),
    FlatSPDML(),
    FlatNearestNeighbor(),
    FlatKernelSVC(),
]


def known_to_differ(estimator):
    """Weights and copies: copies are neighbors of each other and lie in other folds of a calibration; a weight does neither."""
    if isinstance(estimator, FlatNearestNeighbor):
        return {}
    return {"check_sample_weight_equivalence_on_dense_data": "tests/test_weights.py states which equality holds"}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=known_to_differ)
def test_estimator_passes_scikit_learn_check(estimator, check):
    check(estimator)
