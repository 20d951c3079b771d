"""Every method by name: how to make it, and over which ranges to tune it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from sklearn.base import BaseEstimator

from spdsl.baselines import CDL, LEK, LEML, MDM, RSR, TangentSpaceClassifier
from spdsl.estimators import SPDML, SPDSL
from spdsl.neighbors import SPDNearestNeighbor

Category = Literal[1, 2, 3, "proposed", "head", "alternative"]
Grid = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Method:
    """One row of a comparison.

    Attributes
    ----------
    name : str
    category : 1, 2, 3, "proposed", "head" or "alternative"
        The paper's: basic metrics, kernel methods, learned metrics and reductions, its own. Beyond the paper: SPDSL with
        other classifiers behind it, and what a user would take instead.
    factory : callable
        Returns an unfitted estimator with good defaults.
    grid : mapping
        Estimator parameters and the values to tune over; empty where there is nothing to tune.
    sizes : tuple of int
        Multiples of the given m among which `n_components` is tuned with the grid.
    """

    name: str
    category: Category
    factory: Callable[[], BaseEstimator]
    grid: Grid = field(default_factory=dict)
    sizes: tuple[int, ...] = (1,)

    def grid_at(self, n_components: int | None, n_features: int) -> Grid:
        """The grid with the sizes worked out: multiples of m (the method's default if None), below the size n of X."""
        if self.sizes == (1,):
            return self.grid
        model: Any = self.factory()
        m = model._n_components(n_features) if n_components is None else n_components
        sizes = dict.fromkeys(min(k * m, n_features - 1) for k in self.sizes)
        return {**self.grid, "n_components": tuple(sizes)}

    @property
    def reduces(self) -> bool:
        """Whether the method has a size m of reduced matrices to choose."""
        return "n_components" in self.factory().get_params()


PENALTY = (1e-1, 1e-2, 1e-3, 1e-4)
WIDTH = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # times 1 / mean squared distance: "around the order of"
CODING = {"penalty": PENALTY, "beta_scale": WIDTH}
DEGREE = {"degree": tuple(range(1, 51)), "penalty": PENALTY}
FEW_BETWEEN = {"n_between": (2, 5)}  # every pair costs a factorisation under AIM and Stein
SOME_BETWEEN = {"n_between": (3, 10, "all")}
EARLY = (100, 10)  # iterations: on small training parts stopping early can be worth more than the optimum
BY_TIES = ("logistic", "svm", "lda", "nn")  # heads, the one that should win a tie first: small training parts tie often

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("NN-AIM", 1, partial(SPDNearestNeighbor, "aim")),
        Method("NN-Stein", 1, partial(SPDNearestNeighbor, "stein")),
        Method("NN-LEM", 1, partial(SPDNearestNeighbor, "lem")),
        Method("CDL", 2, CDL, {"extra_components": (-1, 0, 1)}),
        Method("RSR", 2, RSR, CODING),
        Method("LEK-poly", 2, partial(LEK, "poly"), DEGREE),
        Method("LEK-exp", 2, partial(LEK, "exp"), DEGREE),
        Method("LEK-gauss", 2, partial(LEK, "gauss"), CODING),
        Method("LEML", 3, partial(LEML, random_state=0), {"eta": (0.1, 1.0, 10.0), "zeta": (0.1, 0.2, 0.3, 0.4, 0.5)}),
        Method("SPDML-AIM", 3, partial(SPDML, max_iter=50, metric="aim"), FEW_BETWEEN),
        Method("SPDML-Stein", 3, partial(SPDML, max_iter=50, metric="stein"), FEW_BETWEEN),
        Method("SPDML*-AIM", 3, partial(SPDML, max_iter=50, metric="aim", manifold="psd"), FEW_BETWEEN),
        Method("SPDML*-Stein", 3, partial(SPDML, max_iter=50, metric="stein", manifold="psd"), FEW_BETWEEN),
        Method("SPDML*-LEM", 3, partial(SPDML, max_iter=50, metric="lem", manifold="psd"), FEW_BETWEEN),
        Method(
            "SPDSL-AIM", "proposed", partial(SPDSL, max_iter=50, metric="aim", n_within=None, n_between=5), FEW_BETWEEN
        ),
        Method(
            "SPDSL-Stein",
            "proposed",
            partial(SPDSL, max_iter=50, metric="stein", n_within=None, n_between=5),
            FEW_BETWEEN,
        ),
        Method("SPDSL-LEM", "proposed", partial(SPDSL, max_iter=50, metric="lem"), SOME_BETWEEN),
        Method("SPDSL-LEM+SVM", "head", partial(SPDSL, metric="lem", classifier="svm"), SOME_BETWEEN),
        Method("SPDSL-LEM+LR", "head", partial(SPDSL, metric="lem", classifier="logistic"), SOME_BETWEEN),
        Method("SPDSL-LEM+LDA", "head", partial(SPDSL, metric="lem", classifier="lda"), SOME_BETWEEN),
        Method(
            "SPDSL-LEM+head",
            "head",
            partial(SPDSL, metric="lem"),
            {"classifier": BY_TIES, "n_between": ("all", 3), "max_iter": EARLY},
            (1, 2),
        ),
        Method("TS+LDA", "alternative", partial(TangentSpaceClassifier, "lda")),
        Method("TS+LR", "alternative", partial(TangentSpaceClassifier, "logistic"), {"C": (0.01, 0.1, 1.0, 10.0)}),
        Method("MDM", "alternative", MDM),
    )
}


def get_methods(names: str | Sequence[str] = "all") -> list[Method]:
    """The methods of these names, "all" of them, or those of the "paper"."""
    if isinstance(names, str):
        if names == "all":
            return list(METHODS.values())
        if names == "paper":
            return [method for method in METHODS.values() if method.category not in ("head", "alternative")]
        names = [names]
    unknown = [name for name in names if name not in METHODS]
    if unknown:
        raise ValueError(f"unknown method {unknown[0]!r}; choose among {', '.join(METHODS)}, or 'all', or 'paper'")
    return [METHODS[name] for name in names]
