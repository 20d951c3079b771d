"""Is one method better than another, or was it the draw?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

SHORT = "paired t-test over the draws, corrected for the samples that draws share (Nadeau and Bengio 2003)"
TEST = (
    "paired t-test over the draws with the correction of Nadeau and Bengio (2003): draws share samples, so that their "
    "differences are correlated and a plain t or signed-rank test would find too much; the variance of the mean is taken "
    "as (1/J + rho/(1 - rho)) times that of the J differences, rho = test samples / all samples; two-sided, not corrected "
    "for the number of methods"
)


def corrected_t_test(a: Sequence[float], b: Sequence[float], n_test: float, n_all: int) -> float | None:
    """Two-sided p-value that two methods have the same mean accuracy, from paired draws.

    `t = mean(d) / sqrt((1/J + rho/(1 - rho)) var(d))` with J - 1 degrees of freedom; where a draw uses every sample,
    `rho/(1 - rho)` is n_test/n_train, as Nadeau and Bengio print it. rho is the share of its test samples that a random
    draw has in common with another.

    Parameters
    ----------
    a, b : accuracies of the same draws
    n_test : mean number of test samples in a draw
    n_all : samples of the dataset

    Returns
    -------
    float or None
        None for fewer than two draws. Equal accuracies in all draws give 1, the same difference in all draws gives 0.
    """
    from scipy.stats import t as student  # slow to import

    difference = np.asarray(a, float) - np.asarray(b, float)
    J = len(difference)
    if J < 2:
        return None
    mean = float(np.mean(difference))
    variance = float(np.var(difference, ddof=1))
    rounding = 1e-12  # differences of accuracies are multiples of 1/n_test
    if abs(mean) < rounding:
        return 1.0
    if variance < rounding**2:
        return 0.0
    rho = min(n_test / n_all, 1 - 1 / n_all)  # tests of nearly all samples say nearly nothing, not an error
    statistic = mean / math.sqrt((1 / J + rho / (1 - rho)) * variance)
    return float(2 * student.sf(abs(statistic), J - 1))
