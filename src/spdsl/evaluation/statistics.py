"""Is one method better than another, or was it the draw? Tests and intervals for draws that share samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST_DRAWS = 5  # below which a variance of differences says next to nothing
FEWEST_SETS = 5  # the same for data sets
LEVEL = 0.05
SHORT = (
    "paired t-test over the draws, corrected for the samples that draws share (Nadeau and Bengio 2003) and for the number "
    "of methods (Holm 1979)"
)
TEST = (
    "paired t-test over the draws with the correction of Nadeau and Bengio (2003): draws share samples, so that their "
    "differences are correlated and a plain t or signed-rank test would find too much; the variance of the mean is taken "
    "as (1/J + rho/(1 - rho)) times that of the J differences, rho = test samples / all samples, and the latter as at "
    "least what one test sample more or less in a draw makes; two-sided; the p-values are multiplied for the number of "
    f"methods by the procedure of Holm (1979); none is given for fewer than {FEWEST_DRAWS} draws. The correction is an "
    "approximation: no unbiased estimate of that variance exists"
)


def corrected_t_test(a: Sequence[float], b: Sequence[float], n_test: float, n_all: int) -> float | None:
    """Two-sided p-value that two methods have the same mean score, from paired draws.

    `t = mean(d) / sqrt((1/J + rho/(1 - rho)) var(d))` with J - 1 degrees of freedom; where a draw uses every sample,
    `rho/(1 - rho)` is n_test/n_train, as Nadeau and Bengio print it. rho is the share of its test samples that a random
    draw has in common with another. `var(d)` is at least `1/n_test^2`: a test part cannot tell smaller differences.

    Parameters
    ----------
    a, b : scores in [0, 1] of the same distinct draws
    n_test : mean number of test samples in a draw
    n_all : samples of the dataset

    Returns
    -------
    float or None
        None for fewer than five draws. Equal scores in all draws give 1.
    """
    from scipy.stats import t as student  # slow to import

    difference = np.asarray(a, float) - np.asarray(b, float)
    J = len(difference)
    if J < FEWEST_DRAWS:
        return None
    error = standard_error(difference, n_test, n_all)
    mean = float(np.mean(difference))
    return 1.0 if mean == 0 else float(2 * student.sf(abs(mean) / error, J - 1)) if error else 0.0


def standard_error(values: Sequence[float] | np.ndarray, n_test: float, n_all: int) -> float:
    """Corrected standard error of the mean of scores, or of differences, over draws that share samples."""
    J = len(values)
    rho = min(n_test / n_all, 1 - 1 / n_all)  # tests of nearly all samples say nearly nothing, not an error
    finest = 1 / n_test if n_test else 0.0
    variance = max(float(np.var(values, ddof=1)), finest**2)
    return math.sqrt((1 / J + rho / (1 - rho)) * variance)


def confidence_interval(values: Sequence[float], n_test: float, n_all: int) -> tuple[float, float] | None:
    """Bounds of the mean score at 95 percent, by the same correction; None for fewer than five draws."""
    from scipy.stats import t as student

    J = len(values)
    if J < FEWEST_DRAWS:
        return None
    mean, half = float(np.mean(values)), student.ppf(1 - LEVEL / 2, J - 1) * standard_error(values, n_test, n_all)
    return mean - float(half), mean + float(half)


def holm(p: Sequence[float | None]) -> list[float | None]:
    """The p-values adjusted for their number by Holm's procedure; None stays None and does not count."""
    known = sorted((value, k) for k, value in enumerate(p) if value is not None)
    adjusted: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, k) in enumerate(known):
        largest = max(largest, min(1.0, (len(known) - rank) * value))
        adjusted[k] = largest
    return adjusted


@dataclass(frozen=True)
class Ranking:
    """Methods over several data sets.

    Attributes
    ----------
    ranks : (n_methods,)
        Mean rank over the data sets; 1 is best, equal scores share their ranks.
    p : float or None
        Of the hypothesis that all methods are equal: Friedman's test with the correction of Iman and Davenport. None for
        fewer than five data sets.
    critical_difference : float or None
        Mean ranks that differ by more differ at the 5 percent level (Nemenyi).
    """

    ranks: np.ndarray
    p: float | None
    critical_difference: float | None


def rank_methods(scores: np.ndarray) -> Ranking:
    """Ranks, Friedman's test and critical difference from mean scores (n_sets, n_methods), larger is better."""
    from scipy.stats import f as fisher
    from scipy.stats import rankdata, studentized_range

    scores = np.asarray(scores, float)
    N, k = scores.shape
    ranks = rankdata(-scores, axis=1)
    mean = ranks.mean(axis=0)
    if N < FEWEST_SETS or k < 2:
        return Ranking(mean, None, None)
    between, total = N * np.sum((mean - (k + 1) / 2) ** 2), np.sum((ranks - (k + 1) / 2) ** 2)
    if total == 0:
        p = 1.0
    elif total - between < 1e-12 * total:  # every set ranks the methods alike: exactly, one of all their orders
        ties = np.unique(ranks[0], return_counts=True)[1].tolist()
        p = (math.prod(map(math.factorial, ties)) / math.factorial(k)) ** (N - 1)
    else:
        p = float(fisher.sf((N - 1) * between / (total - between), k - 1, (k - 1) * (N - 1)))
    q = studentized_range.ppf(1 - LEVEL, k, np.inf) / math.sqrt(2)
    return Ranking(mean, p, float(q * math.sqrt(k * (k + 1) / (6 * N))))
