"""What SPDSL and SPDML share: a reduction `W'XW` learned from labelled pairs, with a classifier behind it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from spdsl import arrays
from spdsl.arrays import Array, namespace
from spdsl.checkpoints import Checkpoint, digest_labels, told
from spdsl.graphs import Count, PairGraph, PairSurvey, automatic_counts, survey_pairs
from spdsl.heads import KernelSVC, LogVectorClassifier, check_head, head_offers
from spdsl.manifolds import MANIFOLDS, Manifold
from spdsl.metrics import Metric, NotPositiveDefiniteError, get_metric
from spdsl.neighbors import SPDEstimator, SPDNearestNeighbor, check_neighbors, sqdist_within
from spdsl.objectives import Objective
from spdsl.progress import Progress, Quiet
from spdsl.samples import Samples, as_samples, at_work, let_go
from spdsl.solver import BETA_RULES, STATUSES, Problem, SolverResult, minimize
from spdsl.starts import as_start, start_matrix
from spdsl.validation import check_count, check_labels, check_number

SOLVER_OPTIONS = {"rule", "gradient_tol", "patience"}  # arguments of `minimize` that are no parameter of their own
#: parameters that may change between a fit and the one that goes on from its checkpoint
NOT_THE_FIT = {
    "max_iter",
    "tol",
    "classifier",
    "n_neighbors",
    "device",
    "callback",
    "warm_start",
    "checkpoint",
    "verbose",
}
PRECISIONS = ("double", "mixed")
SEARCHES = ("exact", "approximate")


class LearnedReduction(TransformerMixin, ClassifierMixin, SPDEstimator):
    """A reduction `W'XW` learned from labelled pairs, and the classifier behind it.

    Subclasses say which objective the pairs are put to.
    """

    n_components: int | None
    metric: str | Metric
    manifold: str
    n_within: Count | Literal["auto"] | None
    n_between: Count | Literal["auto"]
    search: str
    init: str | Array
    max_iter: int
    tol: float
    solver_options: dict[str, Any] | None
    classifier: Any
    n_neighbors: int
    device: Any
    precision: str
    random_state: Any
    callback: Callable[[dict[str, float], Array], Any] | None
    warm_start: bool
    checkpoint: str | Path | None
    verbose: bool

    def _make_objective(
        self, survey: PairSurvey, labels: np.ndarray, reduced_distance: Callable[[], float]
    ) -> Objective:
        """The objective over the surveyed pairs; `reduced_distance` gives their mean distance at the start."""
        raise NotImplementedError

    def _wants_mean_distance(self) -> bool:
        """Whether the objective needs the mean distance of all pairs in the original space."""
        return False

    def _similarity_width(self) -> float | None:
        """The beta of a similarity that a kernel head should use."""
        return None

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any) -> Self:
        """Learn W from the stack X (n_matrices, n, n) and its labels.

        Parameters
        ----------
        X : array (n_matrices, n, n), or data that is not in memory
            A memory map, an HDF5 or Zarr array, the path of an `.npy` file or a list of such paths: docs/scale.md.
        y : (n_matrices,) labels

        Returns
        -------
        self. After Ctrl-C during the iterations the best W so far is kept, `status_` is "interrupted", and
        KeyboardInterrupt goes on. A fit that fails, or is interrupted before, leaves the model as it was.
        """
        with self._whole(), self._opened(X, reset=True) as samples:
            classes, labels = self._check_y(y, samples.shape[0])
            self._check_parameters(samples.shape[0])
            checkpoint = self._checkpoint(samples.shape, labels)
            with self._at_work(samples):
                moved = samples.to_device(self.device)
                start = self._initial(moved)
                problem, graph = self._problem(moved, labels, start)
                result = self._minimize(problem, start, checkpoint)
            self.classes_, self.graph_ = classes, graph
            self._keep(problem.objective)
            self._settle(result, samples, labels)
        if checkpoint is not None and result.status not in ("interrupted", "callback"):
            checkpoint.remove()
        self._warn(result)
        if result.status == "interrupted":
            raise KeyboardInterrupt
        return self

    def cost(self, X: Any, y: Any) -> Callable[[Array], tuple[float, Array]]:
        """The exact function that `fit(X, y)` minimises: `W (n, m) -> (value, Euclidean gradient (n, m))`.

        For use with any other optimiser. Each call reads the data once. Where beta follows from the start, it is the
        start that `fit` would take.
        """
        samples = as_samples(X, self._precision())
        samples.check()
        _, labels = self._check_y(y, samples.shape[0])
        self._check_parameters(samples.shape[0])
        with self._at_work(samples):
            moved = samples.to_device(self.device)
            problem, _ = self._problem(moved, labels, self._initial(moved))

        def function(W: Array) -> tuple[float, Array]:
            W = as_start(W, moved.model, "W")
            try:
                value, gradient = problem.cost(W)
                return value, gradient
            finally:
                samples.release()

        return function

    def _precision(self) -> str:
        if not isinstance(self.precision, str) or self.precision not in PRECISIONS:
            raise ValueError(f"precision must be 'double' or 'mixed', got {self.precision!r}")
        return self.precision

    def _at_work(self, samples: Samples) -> AbstractContextManager[None]:
        m = self._n_components(samples.shape[-1])
        return at_work(samples, type(self).__name__, m, self.device)

    def _approximate(self) -> bool:
        if not isinstance(self.search, str) or self.search not in SEARCHES:
            raise ValueError(f"search must be 'exact' or 'approximate', got {self.search!r}")
        return self.search == "approximate"

    def _check_y(self, y: Any, n_matrices: int) -> tuple[np.ndarray, np.ndarray]:
        classes, labels = check_labels(y, n_matrices)
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 classes, y has 1 class: every label is {classes[0]}"
            )
        if len(classes) == n_matrices:
            raise ValueError(f"every class has one sample: {type(self).__name__} needs two or more of some class")
        return classes, labels

    def _check_parameters(self, n_matrices: int) -> None:
        """Complain about parameters before any long work."""
        self._search_space()
        self._approximate()
        check_count("max_iter", self.max_iter, low=0)
        check_number("tol", self.tol, low=0.0)
        check_neighbors(self.n_neighbors, n_matrices)
        check_head(self.classifier)
        if not isinstance(self.checkpoint, str | Path | None):
            raise ValueError(f"checkpoint must be the path of a file or None, got {self.checkpoint!r}")
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be a function of (history row, W), got {self.callback!r}")
        if not isinstance(self.solver_options, dict | None):
            raise ValueError(f"solver_options must be a dict or None, got {self.solver_options!r}")
        options = self.solver_options or {}
        unknown = [option for option in options if option not in SOLVER_OPTIONS]
        if unknown:
            names = ", ".join(map(repr, sorted(SOLVER_OPTIONS)))
            raise ValueError(f"solver_options: unknown option {unknown[0]!r}; choose among {names}")
        if options.get("rule", "hestenes-stiefel") not in list(BETA_RULES):
            raise ValueError(
                f"unknown conjugate-gradient rule {options['rule']!r}; choose one of {', '.join(BETA_RULES)}"
            )
        check_number("gradient_tol", options.get("gradient_tol", 0.0), low=0.0)
        check_count("patience", options.get("patience", 1), low=1)

    def _keep(self, objective: Objective) -> None:
        """Keep what later calls need of the objective."""

    def _problem(self, X: Samples, labels: np.ndarray, start: Array) -> tuple[Problem, PairGraph]:
        metric = get_metric(self.metric)
        if not X.first_copies().any():
            raise ValueError("all training matrices are equal: there is no distance to learn from; bring others")
        within, between = self._counts(labels, metric)
        survey = survey_pairs(
            X, labels, metric, within, between, measure=self._wants_mean_distance(), approximate=self._approximate()
        )
        graph, stack = survey.graph, X.stack(start.shape[1])
        i, j = arrays.like(graph.i, X.model), arrays.like(graph.j, X.model)

        def reduced_distance() -> float:
            try:
                d2, _ = metric.pairs(stack.start(start), i, j)
            except NotPositiveDefiniteError as error:
                raise ValueError(f"W'XW at the start is not positive definite; {error}") from error
            return float(namespace(d2).mean(namespace(d2).sqrt(d2)))

        return Problem(stack, metric, self._make_objective(survey, labels, reduced_distance), i, j), graph

    def _counts(self, labels: np.ndarray, metric: Metric) -> tuple[Count, Count]:
        """Neighbours within and between classes, with "auto" and None worked out."""
        automatic = automatic_counts(labels, metric.flat)
        sizes = np.bincount(labels)
        smallest = int(min(sizes.min(), sizes.max() - 1))
        within = smallest if self.n_within is None else self.n_within
        return (
            automatic[0] if isinstance(within, str) and within == "auto" else within,
            automatic[1] if isinstance(self.n_between, str) and self.n_between == "auto" else self.n_between,
        )

    def _search_space(self) -> Manifold:
        metric = get_metric(self.metric)
        if self.manifold not in ("psd", "grassmann"):
            raise ValueError(f"manifold must be 'psd' or 'grassmann', got {self.manifold!r}")
        if metric.invariance == "none":
            if self.manifold == "grassmann":
                raise ValueError(
                    f"metric {metric.name!r} changes when the columns of W are rotated, so it is not a function on the "
                    f"Grassmann manifold; use manifold='psd'"
                )
            return MANIFOLDS["full-rank"]
        return MANIFOLDS[self.manifold]

    def _initial(self, X: Samples) -> Array:
        """The first W (n, m), a point of the search space: with `warm_start` the one that an earlier fit has left."""
        if self._continues(X.shape[-1]):
            return self._search_space().point(arrays.like(self.components_, X.model) + 0.0)
        m = self._n_components(X.shape[-1])
        bound = self.n_components is not None
        return self._search_space().point(start_matrix(self.init, X, m, self.random_state, bound=bound))

    def _continues(self, n: int) -> bool:
        """Whether this fit goes on from an earlier one."""
        if not isinstance(self.warm_start, bool | np.bool_):
            raise ValueError(f"warm_start must be True or False, got {self.warm_start!r}")
        if not self.warm_start or not hasattr(self, "components_"):
            return False
        if tuple(self.components_.shape) != (n, self._n_components(n)):
            raise ValueError(
                f"warm_start: the earlier W has shape {tuple(self.components_.shape)}, this fit needs "
                f"{(n, self._n_components(n))}; set warm_start=False to start anew"
            )
        return True

    def _n_components(self, n: int) -> int:
        if n < 2:
            raise ValueError(f"X holds 1 x 1 matrices (1 feature(s)): {type(self).__name__} reduces n x n with n >= 2")
        if self.n_components is None:
            return max(1, min(round(n / 3), 40))
        remedy = f", below the size {n} of the matrices"
        return check_count("n_components", self.n_components, low=1, high=n - 1, remedy=remedy)

    def _checkpoint(self, shape: tuple[int, ...], labels: np.ndarray) -> Checkpoint | None:
        """The file that the fit goes on from and leaves snapshots in, where one is asked for."""
        if self.checkpoint is None:
            return None
        if isinstance(self.init, str) and self.init == "random" and not isinstance(self.random_state, int | np.integer):
            raise ValueError("a checkpoint with init='random' needs an integer random_state: the same start every time")
        params = {name: told(v) for name, v in self.get_params(deep=False).items() if name not in NOT_THE_FIT}
        data = {"estimator": type(self).__name__, "shape": list(shape), "labels": digest_labels(labels)}
        return Checkpoint(self.checkpoint, data | params)

    def _minimize(self, problem: Problem, W: Array, checkpoint: Checkpoint | None = None) -> SolverResult:
        with Progress(self.max_iter, type(self).__name__) if self.verbose else Quiet() as progress:

            def report(row: dict[str, float], W: Array) -> Any:
                if row["iteration"] > 0:
                    progress.step(f"cost {row['value']:.6g}")
                return None if self.callback is None else self.callback(row, W)

            try:
                result = minimize(
                    problem,
                    W,
                    self._search_space(),
                    max_iter=self.max_iter,
                    tol=self.tol,
                    callback=report,
                    resume=None if checkpoint is None else checkpoint.load((W.shape[0], W.shape[1])),
                    save=None if checkpoint is None else checkpoint.save,
                    **(self.solver_options or {}),
                )
                progress.finish(result.message)
                return result
            except NotPositiveDefiniteError as error:
                raise ValueError(f"W'XW at the start is not positive definite; {error}") from error

    def _settle(self, result: SolverResult, X: Samples, labels: np.ndarray) -> None:
        """Take over the solver's result, and fit the classifier on the reduced training matrices."""
        self.components_ = arrays.like(result.W, X.model)
        self.cost_ = result.value
        self.history_ = result.history
        self.n_iter_ = len(result.history) - 1
        self.n_passes_ = result.passes
        try:
            self._fit_classifier(X, labels)
        except KeyboardInterrupt:  # W has taken longer: it is kept, and `fit_classifier` does the rest
            self.__dict__.pop("classifier_", None)
            result.status, result.message = "interrupted", STATUSES["interrupted"]
        self.status_, self.message_ = result.status, result.message

    def _warn(self, result: SolverResult) -> None:
        """Say so where the solver has not converged."""
        if self.max_iter > 0 and self.n_iter_ == 0 and result.status in ("gradient", "precision"):
            warnings.warn(
                f"{type(self).__name__}: the objective does not change around the start, so nothing was learned; use "
                f"another init or, if similarities are all 0 or all 1 there, another beta",
                ConvergenceWarning,
                stacklevel=3,
            )
        if result.status in ("max_iter", "rank", "unbounded") and self.max_iter > 0:
            bounded = (
                "use SPDSL" if get_metric(self.metric).invariance == "none" else "use manifold='grassmann', or SPDSL"
            )
            remedy = "increase max_iter, or raise tol" if result.status == "max_iter" else bounded
            warnings.warn(f"{type(self).__name__}: {result.message}; {remedy}", ConvergenceWarning, stacklevel=3)

    def fit_classifier(self, X: Any, y: Any) -> Self:
        """Fit the classifier that `classifier` now names on the W learned before, without learning W again.

        For trying several heads on one reduction: `model.set_params(classifier="lda").fit_classifier(X, y)`.
        """
        check_is_fitted(self, "components_")
        with self._whole(), self._opened(X) as samples:
            classes, labels = self._check_y(y, samples.shape[0])
            check_neighbors(self.n_neighbors, samples.shape[0])
            check_head(self.classifier)
            self.classes_ = classes
            self._fit_classifier(samples, labels)
        return self

    def _fit_classifier(self, X: Samples, labels: np.ndarray) -> None:
        """Fit the head on the reduced training matrices."""
        # W'XW is not checked again: the solver has been there, and what is wrong with it is not wrong with X
        reduced, y = self._reduce(X), self.classes_[labels]
        if isinstance(self.classifier, str) and self.classifier == "nn":
            neighbor = SPDNearestNeighbor(self.metric, n_neighbors=self.n_neighbors)
            self.classifier_ = neighbor._fit(reduced, y, X.first_copies())
        elif isinstance(self.classifier, str) and self.classifier == "svm":
            self.classifier_ = KernelSVC(self.metric, beta=self._similarity_width())._fit(reduced, y)
        else:
            self.classifier_ = LogVectorClassifier(self.classifier)._fit(reduced, y)
        self.classifier_.n_features_in_ = reduced.shape[-1]

    # ------------------------------------------------------------------ use

    def _check_X(self, X: Any, *, reset: bool = False, name: str = "X") -> Samples:
        """X as checked samples, of the size that was fitted."""
        samples = as_samples(X, self._precision())
        try:
            samples.check(name)
            self._check_size(samples.shape[-1], reset=reset, name=name)
        except BaseException:
            let_go(samples, X)
            raise
        return samples

    @contextmanager
    def _opened(self, X: Any, *, reset: bool = False, name: str = "X") -> Iterator[Samples]:
        """The same, for as long as they are needed."""
        samples = self._check_X(X, reset=reset, name=name)
        try:
            yield samples
        finally:
            let_go(samples, X)

    def _reduce(self, X: Samples) -> Array:
        return X.reduce(arrays.like(self.components_, X.model))

    def transform(self, X: Any) -> Array:
        """Reduced matrices `W'XW` (n_matrices, m, m)."""
        return self._transform(X)

    def _transform(self, X: Any, name: str = "X") -> Array:
        check_is_fitted(self, "components_")
        with self._opened(X, name=name) as samples:
            return self._reduce(samples)

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,): by default those of the nearest neighbours under the learned distance."""
        check_is_fitted(self, "classifier_")
        return self.classifier_._predict(self.transform(X))

    def _soft(self, X: Any, name: str) -> np.ndarray:
        check_is_fitted(self, "classifier_")
        return self.classifier_._soft(self.transform(X), name)

    @available_if(lambda self: head_offers(self.classifier, "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities (n_matrices, n_classes), where the head has them."""
        return self._soft(X, "predict_proba")

    @available_if(lambda self: head_offers(self.classifier, "decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values of the head, where it has them."""
        return self._soft(X, "decision_function")

    def sqdist(self, A: Any, B: Any = None) -> Array:
        """Learned squared distances between stacks of the original matrices, (a, b)."""
        reduced, metric = self._transform(A, "A"), get_metric(self.metric)
        if B is None:
            return sqdist_within(metric, reduced)
        return metric.sqdist(reduced, arrays.like(self._transform(B, "B"), reduced))
