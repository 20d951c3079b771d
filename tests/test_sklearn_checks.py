"""scikit-learn's own estimator checks, on every estimator through an adapter that feeds flattened matrices.

The checks bring 2-D tables of features. An adapter turns a row into an SPD matrix and hands the stack to the estimator;
everything else (labels, parameters, fitted attributes, pickling, state) is the estimator's own doing.
"""

import math

import numpy as np
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

from samples import symmetric_exp
from spdsl import SPDML, SPDSL, SPDNearestNeighbor

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

    def _check_X(self, X, *, reset=False, name="X"):
        table = validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=2 if reset else 1)
        n_features = self.n_features_in_
        matrices = super()._check_X(to_spd(table), reset=True, name=name)
        self.n_features_in_ = n_features
        return matrices

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.three_d_array = True, False
        return tags


class FlatSPDSL(Flattened, SPDSL):
    pass


class FlatSPDML(Flattened, SPDML):
    pass


class FlatNearestNeighbor(Flattened, SPDNearestNeighbor):
    pass


ESTIMATORS = [FlatSPDSL(), FlatSPDSL(metric="aim", n_between=3), FlatSPDML(), FlatNearestNeighbor()]


@parametrize_with_checks(ESTIMATORS)
def test_estimator_passes_scikit_learn_check(estimator, check):
    check(estimator)
