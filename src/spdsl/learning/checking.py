"""Test an objective defined by a user."""

from __future__ import annotations

import math

import numpy as np

from spdsl.geometry.checking import CheckError, check_derivative
from spdsl.learning.graph import PairGraph
from spdsl.learning.objectives import Objective, get_objective

LABELS = np.array([0, 1, 0, 2, 1, 0, 2, 1])
BETA = 0.7


def check_objective(objective: str | type[Objective], *, random_state: int = 0) -> None:
    """Test an objective, and say what is wrong with it.

    It must return a finite value and a derivative of the shape of d2. The derivative is confirmed by the second-order
    Taylor remainder on the full graph and on a sparse one. The order of the pairs must not change the value. All this is
    tested with weights too if the objective is `weighted`; equal weights must be as good as none, others must count.

    Parameters
    ----------
    objective : subclass of Objective, or a name
    random_state : int
        Seed of the distances at which it is tested.

    Raises
    ------
    CheckError
        An AssertionError that names the first property that fails.

    Examples
    --------
    >>> import spdsl
    >>> spdsl.check_objective("alignment")  # silent: nothing is wrong
    """
    objective = get_objective(objective)
    rng = np.random.default_rng(random_state)
    N = len(LABELS)
    i, j = np.triu_indices(N, 1)
    for chosen, where in (
        (np.ones(len(i), bool), "on the full graph"),
        (rng.random(len(i)) < 0.6, "on a sparse graph"),
    ):
        a, b = i[chosen], j[chosen]
        graph = PairGraph(N, a, b, LABELS[a] == LABELS[b])
        d2 = rng.uniform(0.5, 2.0, len(a))
        name = f"{objective.__name__} {where}"
        value = _check_on(objective, graph, d2, rng, name)
        if objective.weighted:
            weighted = _check_on(objective, graph, d2, rng, f"{name}, with weights", rng.uniform(0.2, 2.0, N))
            if np.isclose(weighted, value, rtol=1e-9):
                raise CheckError(f"{name} is weighted, but its value does not depend on the weights")
            equal = float(objective(graph, LABELS, _beta(objective), np.full(N, 3.0))(d2)[0])
            if not np.isclose(equal, value, rtol=1e-9, atol=1e-12):
                raise CheckError(f"{name} is {value:.6g} without weights, but {equal:.6g} with equal ones")


def _beta(objective: type[Objective]) -> float:
    """The width that an objective is given: in a fit too, one that uses none gets NaN."""
    return BETA if objective.width else math.nan


def _check_on(
    objective: type[Objective],
    graph: PairGraph,
    d2: np.ndarray,
    rng: np.random.Generator,
    name: str,
    *weights: np.ndarray,
) -> float:
    """The value of the objective, after testing it."""
    before = d2.copy()
    function = objective(graph, LABELS, _beta(objective), *weights)
    answer = function(d2)
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise CheckError(f"{name} must return (value, derivative), got {type(answer).__name__}")
    value, slope = answer
    if not isinstance(value, float | int | np.floating):
        raise CheckError(f"{name} must return the value as a float, got {type(value).__name__}")
    if not np.isfinite(value):
        unset = "" if objective.width else "; beta is NaN for an objective with width = False"
        raise CheckError(f"{name} returned the value {value}{unset}")
    if not isinstance(slope, np.ndarray) or slope.shape != d2.shape:
        got = f"shape {slope.shape}" if isinstance(slope, np.ndarray) else type(slope).__name__
        raise CheckError(f"{name} must return the derivative as an array of shape {d2.shape}, got {got}")
    if not np.isfinite(slope).all():
        raise CheckError(f"{name} returned a derivative with NaN or infinity")
    if not np.array_equal(d2, before):
        raise CheckError(f"{name} modifies the array d2 that is passed to it")
    H = rng.uniform(-0.3, 0.3, len(d2))
    check_derivative(lambda t: float(function(d2 + t * H)[0]), float(slope @ H), f"the derivative of {name}")
    order = rng.permutation(len(d2))
    turned = objective(
        PairGraph(graph.n_samples, graph.i[order], graph.j[order], graph.same[order]),
        LABELS,
        _beta(objective),
        *weights,
    )
    if not np.isclose(turned(d2[order])[0], value, rtol=1e-9, atol=1e-12):
        raise CheckError(f"{name} depends on the order of the pairs")
    return float(value)
