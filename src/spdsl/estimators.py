"""The scikit-learn face: learned reductions (SPDSL, SPDML) and the nearest neighbour under a metric."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from spdsl import arrays
from spdsl.arrays import Array, namespace, symmetric
from spdsl.graphs import Count, PairGraph, PairSurvey, survey_pairs
from spdsl.manifolds import MANIFOLDS, Manifold
from spdsl.metrics import Metric, NotPositiveDefiniteError, get_metric
from spdsl.objectives import CenteredAlignment, GraphEmbedding, Objective, PairAlignment
from spdsl.progress import Progress
from spdsl.solver import Problem, SolverResult, minimize
from spdsl.stacks import MemoryStack
from spdsl.validation import check_count, check_labels, check_number, check_spd

CENTERINGS: dict[str, Callable[[PairGraph, np.ndarray, float], Objective]] = {
    "graph": CenteredAlignment,
    "pairs": PairAlignment,
}
SOLVER_OPTIONS = {"rule", "gradient_tol", "patience"}  # arguments of `minimize` that are no parameter of their own
MIN_RANK = 1e-6  # smallest singular value of a start relative to the largest: its square must stay above rounding
PREDICT_BLOCK = 256  # test matrices compared with all training matrices at once


def pairwise_sqdist(A: Any, B: Any = None, *, metric: str | Metric = "lem") -> Array:
    """Squared distances between SPD matrices.

    Parameters
    ----------
    A : (a, n, n)
    B : (b, n, n), optional
        A itself by default; the diagonal is then zero.
    metric : str
        A name of `spdsl.METRICS` or an alias, e.g. "aim", "stein", "lem", "riemann", "logdet", "logeuclid".

    Returns
    -------
    (a, b) squared distances, in the array library of `A`.
    """
    chosen = get_metric(metric)
    A = check_spd(A, name="A")
    if B is None:
        return _sqdist_within(chosen, A)
    B = arrays.like(check_spd(B, name="B"), A)
    if A.shape[-1] != B.shape[-1]:
        raise ValueError(
            f"A holds {A.shape[-1]} x {A.shape[-1]} matrices and B {B.shape[-1]} x {B.shape[-1]}: pass one size"
        )
    return chosen.sqdist(A, B)


def _sqdist_within(metric: Metric, A: Array) -> Array:
    """Squared distances of a stack to itself, exactly symmetric with a zero diagonal."""
    factors = metric.factor(A)
    d2 = metric.cross(factors, factors)
    d2 = (d2 + d2.mT) / 2
    index = namespace(d2).arange(d2.shape[0], device=d2.device)
    d2[index, index] = 0.0
    return d2


class _SPDEstimator(BaseEstimator):
    """What all estimators on SPD stacks share: the check of X."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def _check_X(self, X: Any, *, reset: bool = False, name: str = "X") -> Array:
        X = check_spd(X, name=name)
        if reset:
            self.n_features_in_ = X.shape[-1]
        elif X.shape[-1] != self.n_features_in_:
            raise ValueError(
                f"{name} holds {X.shape[-1]} x {X.shape[-1]} matrices, but {type(self).__name__} was fitted on "
                f"{self.n_features_in_} x {self.n_features_in_} ones; pass matrices of that size, or fit again"
            )
        return X


class SPDNearestNeighbor(ClassifierMixin, _SPDEstimator):
    """Nearest-neighbour classifier under a metric on SPD matrices.

    Parameters
    ----------
    metric : str
        A name of `spdsl.METRICS` or an alias.
    n_neighbors : int
        Neighbours that vote; a tied vote goes to the class of the nearest among the tied.

    Attributes
    ----------
    classes_ : (n_classes,)
    n_features_in_ : int
        Size n of the matrices.
    """

    def __init__(self, metric: str | Metric = "lem", *, n_neighbors: int = 1) -> None:
        self.metric = metric
        self.n_neighbors = n_neighbors

    def fit(self, X: Any, y: Any) -> Self:
        """Store the training matrices (n_matrices, n, n), factored for the metric, and their labels."""
        X = self._check_X(X, reset=True)
        classes, labels = check_labels(y, X.shape[0])
        _check_neighbors(self.n_neighbors, X.shape[0])
        return self._store(X, classes, labels, _first_copies(X))

    def _store(self, X: Array, classes: np.ndarray, labels: np.ndarray, first: np.ndarray) -> Self:
        """Keep checked matrices; `first` is the index of the first copy of each."""
        self.classes_, self._labels, self._first = classes, labels, first
        self._factors = get_metric(self.metric).factor(X)
        return self

    def kneighbors(self, X: Any) -> tuple[Array, Array]:
        """Squared distances and indices (n_matrices, n_neighbors) of the nearest training matrices, nearest first."""
        check_is_fitted(self, "_factors")
        return self._nearest(self._check_X(X))

    def _nearest(self, X: Array) -> tuple[np.ndarray, np.ndarray]:
        """`kneighbors` of matrices that need no check."""
        metric = get_metric(self.metric)
        train = tuple(arrays.like(part, X) for part in self._factors)
        found = []
        for start in range(0, X.shape[0], PREDICT_BLOCK):
            d2 = arrays.to_numpy(metric.cross(metric.factor(X[start : start + PREDICT_BLOCK]), train))
            d2 = d2[:, self._first]  # copies tie exactly, where blocked products would round them apart
            # a stable sort sends ties to the first training sample
            order = np.argsort(d2, axis=1, kind="stable")[:, : self.n_neighbors]
            found.append((np.take_along_axis(d2, order, axis=1), order))
        return np.concatenate([d for d, _ in found]), np.concatenate([k for _, k in found])

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,) of the matrices X (n_matrices, n, n)."""
        return self._vote(self.kneighbors(X)[1])

    def _vote(self, index: np.ndarray) -> np.ndarray:
        """The label that most of the neighbours (n_matrices, n_neighbors) have."""
        votes = self._labels[index]
        if self.n_neighbors == 1:
            return self.classes_[votes[:, 0]]
        counts = np.zeros((len(votes), len(self.classes_)), dtype=int)
        np.add.at(counts, (np.arange(len(votes))[:, None], votes), 1)
        tied = np.take_along_axis(counts, votes, axis=1) == counts.max(axis=1, keepdims=True)
        return self.classes_[votes[np.arange(len(votes)), tied.argmax(axis=1)]]


class _LearnedReduction(TransformerMixin, ClassifierMixin, _SPDEstimator):
    """A reduction `W'XW` learned from labelled pairs, and the nearest neighbour behind it.

    Subclasses say which objective the pairs are put to.
    """

    n_components: int | None
    metric: str | Metric
    manifold: str
    n_within: Count | None
    n_between: Count
    init: str | Array
    max_iter: int
    tol: float
    solver_options: dict[str, Any] | None
    n_neighbors: int
    device: Any
    random_state: Any
    callback: Callable[[dict[str, float], Array], Any] | None
    verbose: bool

    def _make_objective(self, survey: PairSurvey, labels: np.ndarray, metric: Metric) -> Objective:
        raise NotImplementedError

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any) -> Self:
        """Learn W from the stack X (n_matrices, n, n) and its labels.

        Returns
        -------
        self. After Ctrl-C the best W so far is kept, `status_` is "interrupted", and KeyboardInterrupt goes on.
        """
        X = self._check_X(X, reset=True)
        self.classes_, labels = self._check_y(y, X.shape[0])
        self._check_parameters(X.shape[0])
        moved = arrays.to_device(X, self.device)
        start = self._initial(moved)
        problem, self.graph_ = self._problem(moved, labels)
        self._keep(problem.objective)
        self._settle(result := self._minimize(problem, start), X, labels)
        if result.status == "interrupted":
            raise KeyboardInterrupt
        return self

    def cost(self, X: Any, y: Any) -> Callable[[Array], tuple[float, Array]]:
        """The exact function that `fit(X, y)` minimises: `W (n, m) -> (value, Euclidean gradient (n, m))`.

        For use with any other optimiser. Each call reads the data once.
        """
        X = check_spd(X)
        _, labels = self._check_y(y, X.shape[0])
        self._check_parameters(X.shape[0])
        X = arrays.to_device(X, self.device)
        problem, _ = self._problem(X, labels)

        def function(W: Array) -> tuple[float, Array]:
            W = arrays.detached(W)
            if W.ndim != 2 or W.shape[0] != X.shape[-1]:
                raise ValueError(f"W must have shape ({X.shape[-1]}, n_components), got {tuple(W.shape)}")
            return problem.cost(W)

        return function

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
        check_count("max_iter", self.max_iter, low=0)
        check_number("tol", self.tol, low=0.0)
        _check_neighbors(self.n_neighbors, n_matrices)
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be a function of (history row, W), got {self.callback!r}")
        if not isinstance(self.solver_options, dict | None):
            raise ValueError(f"solver_options must be a dict or None, got {self.solver_options!r}")
        unknown = set(self.solver_options or {}) - SOLVER_OPTIONS
        if unknown:
            names = ", ".join(map(repr, sorted(SOLVER_OPTIONS)))
            raise ValueError(f"solver_options: unknown option {min(unknown)!r}; choose among {names}")

    def _keep(self, objective: Objective) -> None:
        """Keep what later calls need of the objective."""

    def _problem(self, X: Array, labels: np.ndarray) -> tuple[Problem, PairGraph]:
        metric = get_metric(self.metric)
        if bool(namespace(X).all(X[:1] == X)):
            raise ValueError("all training matrices are equal: there is no distance to learn from; bring others")
        sizes = np.bincount(labels)
        within = min(sizes.min(), sizes.max() - 1) if self.n_within is None else self.n_within
        survey = survey_pairs(X, labels, metric, within, self.n_between)
        graph = survey.graph
        objective = self._make_objective(survey, labels, metric)
        return Problem(MemoryStack(X), metric, objective, arrays.like(graph.i, X), arrays.like(graph.j, X)), graph

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

    def _initial(self, X: Array) -> Array:
        """The first W (n, m)."""
        n = X.shape[-1]
        xp = namespace(X)
        m = self._n_components(n)
        if isinstance(self.init, str):
            if self.init == "identity":
                return xp.eye(n, m, dtype=X.dtype, device=X.device)
            if self.init == "pca":
                # mean of the matrices, each scaled to trace 1 so that none of them speaks for all
                mean = xp.mean(X / xp.linalg.trace(X)[:, None, None], axis=0)
                return xp.flip(xp.linalg.eigh(symmetric(mean))[1], axis=1)[:, :m] + 0.0
            if self.init == "random":
                draw = check_random_state(self.random_state).standard_normal((n, m))
                return arrays.like(np.linalg.qr(draw)[0], X)
            raise ValueError(f"init must be 'identity', 'pca', 'random' or an array (n, m), got {self.init!r}")
        try:
            if self.init is None:
                raise TypeError
            W = arrays.like(np.asarray(arrays.to_numpy(self.init), dtype=np.float64), X)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"init must be 'identity', 'pca', 'random' or an array (n, m), got {self.init!r}"
            ) from error
        m = m if self.n_components is not None or W.ndim != 2 else min(W.shape[1], n - 1)
        if tuple(W.shape) != (n, m):
            raise ValueError(f"init must have shape ({n}, {m}), got {tuple(W.shape)}")
        if not bool(xp.all(xp.isfinite(W))):
            raise ValueError("init contains NaN or infinity: it must be finite and of full column rank")
        w = xp.linalg.svdvals(W)
        if not float(w[-1]) > MIN_RANK * float(w[0]):
            raise ValueError("init has dependent columns: it must be finite and of full column rank")
        return W + 0.0

    def _n_components(self, n: int) -> int:
        if n < 2:
            raise ValueError(f"X holds 1 x 1 matrices (1 feature(s)): {type(self).__name__} reduces n x n with n >= 2")
        if self.n_components is None:
            return max(1, min(round(n / 3), 40))
        remedy = f", below the size {n} of the matrices"
        return check_count("n_components", self.n_components, low=1, high=n - 1, remedy=remedy)

    def _minimize(self, problem: Problem, W: Array) -> SolverResult:
        with Progress(self.max_iter, type(self).__name__) if self.verbose else _Quiet() as progress:

            def report(row: dict[str, float], W: Array) -> Any:
                if row["iteration"] > 0:
                    progress.step(f"cost {row['value']:.6g}")
                return None if self.callback is None else self.callback(row, W)

            try:
                return minimize(
                    problem,
                    W,
                    self._search_space(),
                    max_iter=self.max_iter,
                    tol=self.tol,
                    callback=report,
                    **(self.solver_options or {}),
                )
            except NotPositiveDefiniteError as error:
                raise ValueError(f"W'XW at the start is not positive definite; {error}") from error

    def _settle(self, result: SolverResult, X: Array, labels: np.ndarray) -> None:
        """Take over the solver's result, and fit the classifier on the reduced training matrices."""
        self.components_ = arrays.like(result.W, X)
        self.cost_ = result.value
        self.history_ = result.history
        self.n_iter_ = len(result.history) - 1
        self.n_passes_ = result.passes
        self.status_, self.message_ = result.status, result.message
        # W'XW is not checked again: the solver has been there, and what is wrong with it is not wrong with X
        self.classifier_ = SPDNearestNeighbor(self.metric, n_neighbors=self.n_neighbors)
        self.classifier_._store(self._reduce(X), self.classes_, labels, _first_copies(X))
        self.classifier_.n_features_in_ = result.W.shape[-1]
        if result.status in ("max_iter", "rank", "unbounded") and self.max_iter > 0:
            remedy = (
                "increase max_iter, or raise tol"
                if result.status == "max_iter"
                else "use manifold='grassmann', or SPDSL"
            )
            warnings.warn(f"{type(self).__name__}: {result.message}; {remedy}", ConvergenceWarning, stacklevel=3)

    # ------------------------------------------------------------------ use

    def _reduce(self, X: Array) -> Array:
        W = arrays.like(self.components_, X)
        return symmetric(W.mT @ (X @ W))

    def transform(self, X: Any) -> Array:
        """Reduced matrices `W'XW` (n_matrices, m, m)."""
        return self._transform(X)

    def _transform(self, X: Any, name: str = "X") -> Array:
        check_is_fitted(self, "components_")
        return self._reduce(self._check_X(X, name=name))

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,): nearest neighbour under the learned distance."""
        reduced = self.transform(X)
        return self.classifier_._vote(self.classifier_._nearest(reduced)[1])

    def sqdist(self, A: Any, B: Any = None) -> Array:
        """Learned squared distances between stacks of the original matrices, (a, b)."""
        reduced, metric = self._transform(A, "A"), get_metric(self.metric)
        if B is None:
            return _sqdist_within(metric, reduced)
        return metric.sqdist(reduced, arrays.like(self._transform(B, "B"), reduced))


class SPDSL(_LearnedReduction):
    """SPD similarity learning: a full-rank W whose similarities of `W'XW` match the labels (Eq. 9).

    Maximises the centred alignment of `exp(-beta d2(W'X_iW, W'X_jW))` with the labels over a graph of pairs, by Riemannian
    conjugate gradient on the manifold of fixed-rank PSD matrices; classifies by the nearest neighbour under the learned
    distance.

    Parameters
    ----------
    n_components : int, optional
        Size m of the reduced matrices. By default a third of n, at most 40.
    metric : str
        A name of `spdsl.METRICS` or an alias: "lem", "aim", "stein", ...
    n_within, n_between : int, "all" or None
        Nearest neighbours of the same class and of the others that count for each sample (v_w, v_b). `n_within=None`
        is the size of the smallest class, as in the paper.
    centering : {"graph", "pairs"}
        "graph" centres the whole similarity matrix, absent pairs counted as zero, as printed in Eq. 9; "pairs" centres
        over the selected pairs alone.
    beta : float, optional
        Width of the similarity. By default `beta_scale / sigma^2` with sigma the mean distance of the training pairs.
    beta_scale : float
    manifold : {"psd", "grassmann"}
    init : {"identity", "pca", "random"} or array (n, m)
    max_iter : int
    tol : float
        Relative decrease of the cost below which, three times in a row, the fit has converged.
    solver_options : dict, optional
        Further arguments of the solver: `rule` ("hestenes-stiefel", "polak-ribiere", "fletcher-reeves", "dai-yuan"),
        `gradient_tol`, `patience`.
    n_neighbors : int
        Neighbours that vote in `predict`.
    device : optional
        Where to compute, e.g. "cuda" (needs PyTorch). By default where X is.
    random_state : int, RandomState or None
        For `init="random"`.
    callback : callable, optional
        Called with (history row, W) after every iteration; return True to stop.
    verbose : bool
        Show progress on standard error.

    Attributes
    ----------
    components_ : (n, m)
        W. For metrics that are invariant under rotations or all linear maps only the span, or WW', has a meaning.
    beta_ : float
    classes_, n_features_in_, n_iter_, cost_, status_, message_
    history_ : list of dict
        Per iteration: value, gradient_norm, step, trials, seconds.
    n_passes_ : int
        How often the fit read the n x n data.
    graph_ : PairGraph
    classifier_ : SPDNearestNeighbor
        Fitted on the reduced training matrices.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        metric: str | Metric = "lem",
        n_within: Count | None = "all",
        n_between: Count = "all",
        centering: Literal["graph", "pairs"] = "graph",
        beta: float | None = None,
        beta_scale: float = 1.0,
        manifold: str = "psd",
        init: str | Array = "pca",
        max_iter: int = 50,
        tol: float = 1e-4,
        solver_options: dict[str, Any] | None = None,
        n_neighbors: int = 1,
        device: Any = None,
        random_state: Any = None,
        callback: Callable[[dict[str, float], Array], Any] | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.metric = metric
        self.n_within = n_within
        self.n_between = n_between
        self.centering = centering
        self.beta = beta
        self.beta_scale = beta_scale
        self.manifold = manifold
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.solver_options = solver_options
        self.n_neighbors = n_neighbors
        self.device = device
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _make_objective(self, survey: PairSurvey, labels: np.ndarray, metric: Metric) -> Objective:
        beta = self.beta_scale / survey.mean_distance**2 if self.beta is None else self.beta
        return CENTERINGS[self.centering](survey.graph, labels, float(beta))

    def _check_parameters(self, n_matrices: int) -> None:
        super()._check_parameters(n_matrices)
        if self.beta is not None:
            check_number("beta", self.beta, low=0.0, above=True)
        check_number("beta_scale", self.beta_scale, low=0.0, above=True)
        if not isinstance(self.centering, str) or self.centering not in CENTERINGS:
            raise ValueError(f"centering must be 'graph' or 'pairs', got {self.centering!r}")

    def _keep(self, objective: Any) -> None:
        self.beta_ = objective.beta

    def similarity(self, A: Any, B: Any = None) -> Array:
        """Learned similarities `exp(-beta d2)` between stacks of the original matrices, (a, b) (Eq. 6)."""
        return namespace(d2 := self.sqdist(A, B)).exp(-self.beta_ * d2)


class SPDML(_LearnedReduction):
    """SPD manifold learning: minimise `sum_ij a_ij d2(W'X_iW, W'X_jW)`, `a = G_w - G_b`, by graph embedding.

    On the Grassmann manifold (W orthonormal) the method that the paper compares with; with `manifold="psd"` the paper's
    SPDML*, all metrics. There the objective need not be bounded below: the fit then stops when W is about to lose rank,
    and says so in `status_`.

    Parameters and attributes as in `SPDSL`, without similarity and its width. `n_within=None` is the size of the smallest
    class, as in the paper.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        metric: str | Metric = "aim",
        n_within: Count | None = None,
        n_between: Count = 5,
        manifold: str = "grassmann",
        init: str | Array = "pca",
        max_iter: int = 50,
        tol: float = 1e-4,
        solver_options: dict[str, Any] | None = None,
        n_neighbors: int = 1,
        device: Any = None,
        random_state: Any = None,
        callback: Callable[[dict[str, float], Array], Any] | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.metric = metric
        self.n_within = n_within
        self.n_between = n_between
        self.manifold = manifold
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.solver_options = solver_options
        self.n_neighbors = n_neighbors
        self.device = device
        self.random_state = random_state
        self.callback = callback
        self.verbose = verbose

    def _make_objective(self, survey: PairSurvey, labels: np.ndarray, metric: Metric) -> Objective:
        return GraphEmbedding(survey.graph)


def _first_copies(X: Array) -> np.ndarray:
    """For every matrix the index of the first one equal to it."""
    first = np.arange(X.shape[0])
    _, group, size = np.unique(arrays.to_numpy(X[:, 0, :]), axis=0, return_inverse=True, return_counts=True)
    seen: dict[bytes, int] = {}
    for k in np.flatnonzero(
        size[group.reshape(-1)] > 1
    ).tolist():  # only where the first rows agree is the rest looked at
        first[k] = seen.setdefault(blake2b(arrays.to_numpy(X[k]).tobytes()).digest(), k)
    return first


def _check_neighbors(n_neighbors: Any, n_matrices: int) -> None:
    remedy = f" (there are {n_matrices} training matrices)"
    check_count("n_neighbors", n_neighbors, low=1, high=n_matrices, remedy=remedy)


class _Quiet:
    """Stands in for a progress display when none is asked for."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def step(self, note: str = "") -> None:
        """Show nothing."""
