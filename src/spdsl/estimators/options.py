"""Options of the optimization that rarely need a change: the `solver` dict, checked and resolved."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from spdsl.data.parameters import check_choice, check_count, check_flag, check_number
from spdsl.geometry import MANIFOLDS, Manifold, Metric
from spdsl.learning.graph import Count, automatic_counts
from spdsl.learning.solver import BETA_RULES
from spdsl.learning.start import INITS
from spdsl.models.checkpoint import told

PRECISIONS = ("double", "mixed")
SEARCHES = ("exact", "approximate")
MAY_CHANGE = {"warm_start"}  # between a fit and the one that resumes its checkpoint


@dataclass(frozen=True)
class Options:
    """The options in the `solver` dict.

    Attributes
    ----------
    init : {"recentered", "pca", "identity", "random"} or array (n, m)
        "recentered" moves the log-Euclidean mean of the samples to the identity and starts in the directions in which they
        then differ most; "pca" in those of the mean.
    manifold : {"psd", "grassmann"}, optional
    gradient_tol : float
    patience : int
        Number of consecutive iterations with a relative decrease below `tol` after which the fit has converged.
    rule : {"hestenes-stiefel", "polak-ribiere", "fletcher-reeves", "dai-yuan"}
    search : {"exact", "approximate"}
        How neighbors are found; "approximate" searches the vectors of a Euclidean metric with faiss, or those of AIM's
        lower bound for candidates.
    warm_start : bool
        Start from the W of an earlier fit, e.g. one interrupted by Ctrl-C, and keep its beta.
    """

    init: Any = "pca"
    manifold: str | None = None
    gradient_tol: float = 1e-6
    patience: int = 3
    rule: str = "hestenes-stiefel"
    search: str = "exact"
    warm_start: bool = False

    @classmethod
    def of(cls, solver: Any, init: str = "pca") -> Options:
        """The checked options of a dict, with defaults for those it does not contain."""
        if not isinstance(solver, dict | None):
            raise ValueError(f"solver must be a dict of options or None, got {solver!r}")
        known = [option.name for option in fields(cls)]
        for name in solver or {}:
            if name not in known:
                raise ValueError(f"solver: unknown option {name!r}; choose one of {', '.join(map(repr, known))}")
        options = cls(**{"init": init, **(solver or {})})
        options._check()
        return options

    def _check(self) -> None:
        if isinstance(self.init, str):
            check_choice("init", self.init, INITS, "an array (n, m)")
        if self.manifold is not None:
            check_choice("manifold", self.manifold, ("psd", "grassmann"))
        check_number("gradient_tol", self.gradient_tol, low=0.0)
        check_count("patience", self.patience, low=1)
        check_choice("rule", self.rule, BETA_RULES)
        check_choice("search", self.search, SEARCHES)
        check_flag("warm_start", self.warm_start)

    @property
    def solver(self) -> dict[str, Any]:
        """Arguments of `minimize`."""
        return {name: getattr(self, name) for name in ("gradient_tol", "patience", "rule")}

    @property
    def starts_at_random(self) -> bool:
        return isinstance(self.init, str) and self.init == "random"

    def identity(self) -> dict[str, str]:
        """The options that identify a checkpoint."""
        return {f"solver.{o.name}": told(getattr(self, o.name)) for o in fields(self) if o.name not in MAY_CHANGE}


def check_precision(precision: Any) -> str:
    """ "double" or "mixed", or an error."""
    if not isinstance(precision, str) or precision not in PRECISIONS:
        raise ValueError(f"precision must be 'double' or 'mixed', got {precision!r}")
    return precision


def resolve_counts(
    n_within: Any, n_between: Any, labels: np.ndarray, metric: Metric, all_pairs: bool
) -> tuple[Count, Count]:
    """Neighbors within and between classes, with "auto" and None resolved."""
    automatic = automatic_counts(labels, metric.cheap_pairs, all_pairs)
    sizes = np.bincount(labels)
    within = int(min(sizes.min(), sizes.max() - 1)) if n_within is None else n_within
    return (
        automatic[0] if isinstance(within, str) and within == "auto" else within,
        automatic[1] if isinstance(n_between, str) and n_between == "auto" else n_between,
    )


def resolve_manifold(name: Any, metric: Metric) -> Manifold:
    """The manifold of this name, on which the metric must be well defined."""
    check_choice("manifold", name, ("psd", "grassmann"))
    if metric.invariance != "none":
        return MANIFOLDS[name]
    if name == "grassmann":
        raise ValueError(
            f"metric {metric.name!r} changes when the columns of W are rotated, so it is not a function on the "
            f"Grassmann manifold; use manifold='psd'"
        )
    return MANIFOLDS["full-rank"]


def warn_never_formed(who: str, lost: dict[str, bool]) -> None:
    """Warn of what of the defaults is out of reach because the matrices are never formed."""
    if any(lost.values()):
        warnings.warn(
            f"{who}: the matrices of X are never formed, so {' and '.join(what for what in lost if lost[what])}; the same "
            f"matrices in memory give another model. Set solver={{'init': 'pca'}} and another classifier, e.g. 'lda', for "
            f"the same model from both",
            UserWarning,
            stacklevel=5,
        )
