"""Squared distances between SPD matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from spdsl import backend
from spdsl.backend import Array
from spdsl.data import FactoredSPD, check_spd
from spdsl.geometry import Metric, get_metric, metric_for


def pairwise_sqdist(A: Any, B: Any = None, *, metric: str | Metric = "lem") -> Array:
    """Squared distances between SPD matrices.

    Parameters
    ----------
    A : (a, n, n), or `FactoredSPD`; (a, b, n, n) if a sample is b matrices: squared distances are summed over them
    B : like A, optional
        A itself by default; the diagonal is then zero.
    metric : str
        A name of `spdsl.METRICS` or an alias, e.g. "aim", "stein", "lem", "riemann", "logdet", "logeuclid".

    Returns
    -------
    Squared distances (len(A), len(B)), in the array library of `A`.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl import pairwise_sqdist
    >>> X = np.stack([np.eye(2), np.e * np.eye(2)])
    >>> pairwise_sqdist(X, metric="lem").round(6)
    array([[0., 2.],
           [2., 0.]])
    """
    chosen = get_metric(metric)
    if isinstance(A, FactoredSPD):
        return _factored_sqdist(A, A if B is None else B, chosen)
    A = check_spd(A, name="A", blocks=True)
    chosen = metric_for(chosen, A.shape)
    if B is None:
        return sqdist_within(chosen, A)
    B = backend.like(check_spd(B, name="B", blocks=True), A)
    if A.shape[1:] != B.shape[1:]:
        raise ValueError(
            f"A holds {' x '.join(map(str, A.shape[1:]))} matrices and B {' x '.join(map(str, B.shape[1:]))}; "
            f"both need the same size"
        )
    return chosen.sqdist(A, B)


def _factored_sqdist(A: FactoredSPD, B: Any, metric: Metric) -> np.ndarray:
    """`pairwise_sqdist` of factored matrices."""
    if not isinstance(B, FactoredSPD):
        raise TypeError("A is factored but B is not; pass both factored, or A.dense()")
    if A.shape[1] != B.shape[1]:
        raise ValueError(
            f"A holds {A.shape[1]} x {A.shape[1]} matrices and B {B.shape[1]} x {B.shape[1]}; both need the same size"
        )
    A.check("A")
    B.check("B")
    d2 = A.sqdist(B, metric)
    if A is B:
        d2 = (d2 + d2.T) / 2
        np.fill_diagonal(d2, 0.0)
    return d2


def sqdist_within(metric: Metric, A: Array) -> Array:
    """Squared distances between the matrices of one array, exactly symmetric with a zero diagonal."""
    return metric.within(metric.factor(A))
