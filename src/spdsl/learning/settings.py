"""The settings of a fit, with every parameter resolved once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from spdsl.backend import Array
from spdsl.geometry import Manifold, Metric
from spdsl.learning.graph import Count
from spdsl.learning.objectives import Objective
from spdsl.learning.solver import Snapshot

Callback = Callable[[dict[str, float], Array], Any]


class Checkpoint(Protocol):
    """Storage of the solver's state."""

    def load(self, shape: tuple[int, ...], /) -> Snapshot | None:
        """The stored state for a W of this shape, or None."""

    def save(self, snapshot: Snapshot, /) -> None:
        """Store the state, replacing an earlier one."""

    def remove(self) -> None:
        """Remove the state of a finished fit."""


@dataclass(frozen=True)
class Width:
    """Width beta of the similarity: `value` if given, else `scale / sigma^2`.

    Attributes
    ----------
    rule : {"reduced", "original"}
        sigma is the mean distance over the selected pairs at the start of learning ("reduced"), or over all training
        pairs before the reduction ("original").
    """

    rule: Literal["reduced", "original"] = "reduced"
    scale: float = 1.0
    value: float | None = None


@dataclass(frozen=True)
class Settings:
    """Everything that `learn` needs besides the data and the labels.

    Attributes
    ----------
    who : str
        Name of the estimator, for messages.
    metric : Metric
    objective : subclass of Objective
    manifold : Manifold
    n_components : int
    n_within, n_between : int or "all"
    approximate : bool
        Whether neighbors are searched with an index of vectors.
    width : Width
    init : str or array
    start : array, optional
        The first W, if known; replaces `init`.
    random_state
        Seed of a random start.
    solver : dict
        Arguments of `minimize`.
    weight : (N,), optional
        Positive weights of the samples in the objective.
    vectors : bool
        Whether log-vectors of the matrices recentered at their mean are wanted beside W, for a classifier.
    device, callback, checkpoint, verbose
    """

    who: str
    metric: Metric
    objective: type[Objective]
    manifold: Manifold
    n_components: int
    n_within: Count
    n_between: Count
    approximate: bool = False
    width: Width = field(default_factory=Width)
    init: Any = "pca"
    start: Array | None = None
    random_state: Any = None
    solver: dict[str, Any] = field(default_factory=dict)
    weight: np.ndarray | None = None
    vectors: bool = False
    device: Any = None
    callback: Callback | None = None
    checkpoint: Checkpoint | None = None
    verbose: bool = False

    @property
    def recenters(self) -> bool:
        """Whether the search is to start from the matrices recentered at their mean."""
        return isinstance(self.init, str) and self.init == "recentered" and self.manifold.scalable
