"""Every method by name: how to make it, and over which ranges to tune it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from typing import Any, Literal, get_args

from sklearn.base import BaseEstimator, clone

from spdsl.backend.extras import install_hint, load_named_plugins
from spdsl.baselines import CDL, LEK, LEML, MDM, RSR, TangentSpaceClassifier
from spdsl.estimators import SPDML, SPDSL, SPDNearestNeighbor
from spdsl.estimators.reduction import third_size

Category = Literal[1, 2, 3, "proposed", "head", "alternative", "own"]
Grid = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Method:
    """One row of a comparison.

    Attributes
    ----------
    name : str
    category : 1, 2, 3, "proposed", "head", "alternative" or "own"
        The paper's: basic metrics, kernel methods, learned metrics and reductions, its own. Beyond the paper: SPDSL with
        other classifiers behind it, what a user would take instead, and estimators that a user brings.
    factory : callable
        Returns an unfitted estimator with good defaults.
    grid : mapping
        Estimator parameters and the values to tune over; empty where there is nothing to tune.
    sizes : tuple of int
        Multiples of the given m among which `n_components` is tuned with the grid.
    registered : bool
        Whether it came by `register_method`.
    fixed : bool
        Whether its estimator is taken as it is: a run sets neither `n_components` nor a `random_state` that is given.
    needs : tuple of str
        Optional packages without which it fails.

    Examples
    --------
    >>> import spdsl
    >>> method = spdsl.METHODS["CDL"]
    >>> method.category, method.factory().get_params()["ridge"]
    (2, 0.01)
    """

    name: str
    category: Category
    factory: Callable[[], BaseEstimator]
    grid: Grid = field(default_factory=dict)
    sizes: tuple[int, ...] = (1,)
    registered: bool = False
    fixed: bool = False
    needs: tuple[str, ...] = ()

    def unfitted(self, n_components: int | None, seed: int | None, device: Any = None) -> Any:
        """The estimator with the size, the seed and the device of a run, where it has such parameters."""
        model: Any = self.factory()
        own = model.get_params()
        if self.fixed:
            seeds = [name for name in own if name.endswith("random_state") and own[name] is None]
            return model.set_params(**dict.fromkeys(seeds, seed))
        fixed = {"n_components": n_components, "random_state": seed, "device": device}
        return model.set_params(**{name: v for name, v in fixed.items() if name in own and v is not None})

    def grid_at(self, n_components: int | None, n_features: int) -> Grid:
        """The grid with the sizes worked out: multiples of m (the method's default if None), below the size n of X."""
        if self.sizes == (1,):
            return self.grid
        m = third_size(n_features) if n_components is None else n_components
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
FEW_BETWEEN = {"n_between": (2, 5)}  # every pair costs a factorization under AIM and Stein
SOME_BETWEEN = {"n_between": ("auto", 3, 10)}  # the default first: it should win a tie
EARLY = (100, 10)  # iterations: on small training parts stopping early can be worth more than the optimum
BY_TIES = ("logistic", "svm", "lda", "nn")  # heads, the one that should win a tie first: small training parts tie often

PAPER: dict[str, Any] = {
    "objective": "alignment",
    "classifier": "nn",
    "solver": {"init": "pca"},
}  # SPDSL as the paper has it
ALIGNED: dict[str, Any] = {"objective": "alignment", "max_iter": 100, "solver": {"init": "pca"}}

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
            "SPDSL-AIM",
            "proposed",
            partial(SPDSL, **PAPER, max_iter=50, metric="aim", n_within=None, n_between=5),
            FEW_BETWEEN,
        ),
        Method(
            "SPDSL-Stein",
            "proposed",
            partial(SPDSL, **PAPER, max_iter=50, metric="stein", n_within=None, n_between=5),
            FEW_BETWEEN,
        ),
        Method("SPDSL-LEM", "proposed", partial(SPDSL, **PAPER, max_iter=50, metric="lem"), SOME_BETWEEN),
        Method("SPDSL-LEM+SVM", "head", partial(SPDSL, **ALIGNED, metric="lem", classifier="svm"), SOME_BETWEEN),
        Method("SPDSL-LEM+LR", "head", partial(SPDSL, **ALIGNED, metric="lem", classifier="logistic"), SOME_BETWEEN),
        Method("SPDSL-LEM+LDA", "head", partial(SPDSL, **ALIGNED, metric="lem", classifier="lda"), SOME_BETWEEN),
        Method(
            "SPDSL-LEM+head",
            "head",
            partial(SPDSL, **ALIGNED, metric="lem"),
            {"classifier": BY_TIES, "n_between": ("all", 3), "max_iter": EARLY},
            (1, 2),
        ),
        Method("SPDSL", "head", SPDSL),
        Method("TS+LDA", "alternative", partial(TangentSpaceClassifier, "lda")),
        Method(
            "TS+LR",
            "alternative",
            partial(TangentSpaceClassifier, "logistic"),
            {"C": (0.01, 0.1, 1.0, 10.0)},
        ),
        Method("MDM", "alternative", MDM, needs=("pyriemann",)),
    )
}


def register_method(method: Method) -> Method:
    """Add a method of your own to `spdsl.METHODS`, so that `compare`, `reproduce` and the command line know it by name.

    Parameters
    ----------
    method : Method
        Its factory returns an unfitted scikit-learn classifier of SPD matrices; where processes share the work, it must
        be one that can be pickled.

    Returns
    -------
    Method
        The same.

    Examples
    --------
    >>> import spdsl
    >>> three = spdsl.Method("3NN-LEM", "alternative", lambda: spdsl.SPDNearestNeighbor("lem", n_neighbors=3))
    >>> spdsl.register_method(three).name
    '3NN-LEM'
    >>> "3NN-LEM" in spdsl.METHODS
    True
    """
    if not isinstance(method, Method):
        raise TypeError(f"a method must be a spdsl.Method, got {method!r}")
    _check_method(method)
    known = METHODS.get(method.name)
    if known is not None and known != method and not known.registered:
        raise ValueError(f"the name {method.name!r} is already used; choose another name")
    METHODS[method.name] = replace(method, registered=True)
    return METHODS[method.name]


def _check_method(method: Method) -> None:
    """Raise unless the method can be tuned and listed."""
    who = f"method {method.name!r}"
    if not isinstance(method.name, str) or not method.name:
        raise ValueError(f"the name of a method must be a non-empty string, got {method.name!r}")
    if method.category not in get_args(Category):
        raise ValueError(f"{who}: the category must be one of {get_args(Category)}, got {method.category!r}")
    if isinstance(method.factory, BaseEstimator) or not callable(method.factory):
        raise TypeError(f"{who}: the factory must be a function that returns an estimator, got {method.factory!r}")
    model = method.factory()
    if not all(hasattr(model, known) for known in ("fit", "predict", "get_params")):
        raise TypeError(f"{who}: the factory must return an unfitted scikit-learn classifier, got {model!r}")
    if not isinstance(method.grid, Mapping):
        raise ValueError(f"{who}: the grid must map names of parameters to lists of values, got {method.grid!r}")
    for name in method.grid:
        if name not in model.get_params():
            raise ValueError(f"{who}: {type(model).__name__} has no parameter {name!r} to tune; correct the grid")


def get_methods(methods: Any = "all") -> list[Method]:
    """The methods of these names, "all" of them, or those of the "paper"; estimators become methods of their own.

    Parameters
    ----------
    methods : str, list or dict
        Names of `METHODS`, unfitted estimators and Methods, mixed as needed. In a list an estimator goes by the name of
        its class; in a dict by the key, and (estimator, grid) is tuned over that grid.
    """
    if isinstance(methods, str) and methods == "all":
        return list(METHODS.values())
    if isinstance(methods, str) and methods == "paper":
        return [
            method
            for method in METHODS.values()
            if method.category not in ("head", "alternative", "own") and not method.registered
        ]
    if isinstance(methods, Mapping):
        found = [_named(str(name), value) for name, value in methods.items()]
    else:
        given = [methods] if isinstance(methods, str | Method) or hasattr(methods, "fit") else list(methods)
        found = [_named(None, value) for value in given]
    names = [method.name for method in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ValueError(f"two methods are called {twice[0]!r}; give a dict of names and estimators")
    return found


def warn_of_missing(methods: Sequence[Method]) -> None:
    """Say, before any work, which methods will fail for want of a package."""
    for package in dict.fromkeys(package for method in methods for package in method.needs):
        if find_spec(package) is None:
            names = ", ".join(method.name for method in methods if package in method.needs)
            warnings.warn(
                f"{package} is not installed, so that {names} will fail: {install_hint(package)}",
                UserWarning,
                stacklevel=3,
            )


def _named(name: str | None, value: Any) -> Method:
    """The method of a name of the registry, of an estimator, or of an estimator with its grid."""
    if isinstance(value, str):
        if value not in METHODS and not (load_named_plugins() and value in METHODS):
            raise ValueError(f"unknown method {value!r}; choose among {', '.join(METHODS)}, or 'all', or 'paper'")
        return METHODS[value] if name in (None, value) else replace(METHODS[value], name=str(name), category="own")
    if isinstance(value, Method):
        return value if name is None else replace(value, name=name)
    estimator, grid = value if isinstance(value, tuple) and len(value) == 2 else (value, {})
    if isinstance(estimator, str):
        known = _named(name, estimator)
        return replace(known, name=name or estimator, category="own", grid=_grid_of(name, grid), sizes=(1,))
    if isinstance(estimator, type) or not all(hasattr(estimator, known) for known in ("fit", "predict", "get_params")):
        raise ValueError(
            f"{'methods' if name is None else repr(name)}: {estimator!r} is neither a name of spdsl.METHODS nor an unfitted "
            "scikit-learn classifier"
        )
    return Method(name or type(estimator).__name__, "own", partial(clone, estimator), _grid_of(name, grid), fixed=True)


def _grid_of(name: str | None, grid: Any) -> Grid:
    """The grid, if it is one."""
    if not isinstance(grid, Mapping):
        raise ValueError(f"{name!r}: the grid must map names of parameters to lists of values, got {grid!r}")
    return grid
