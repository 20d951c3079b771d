"""Base class of SPDSL and SPDML: a reduction `W'XW` learned from labeled pairs, followed by a classifier."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from spdsl import backend
from spdsl.backend import Array, modules
from spdsl.data import Data, checked_data
from spdsl.data.labels import check_labels
from spdsl.data.parameters import check_count, check_flag, check_number
from spdsl.data.weights import with_weight
from spdsl.estimators.auto_head import AutoHead, sees_vectors
from spdsl.estimators.base import Answer, LabelScore, SPDEstimator
from spdsl.estimators.distances import sqdist_within
from spdsl.estimators.heads import check_head, fit_head, head_offers
from spdsl.estimators.options import Options, check_precision, resolve_counts, resolve_manifold, warn_never_formed
from spdsl.estimators.patterns import Basis, Seen, canonical_basis, class_means
from spdsl.geometry import Metric, get_metric, metric_for
from spdsl.learning.learn import Base, Learned, cost_function, differing, learn
from spdsl.learning.objectives import Objective
from spdsl.learning.settings import Settings, Width
from spdsl.learning.solver import STATUSES
from spdsl.models.checkpoint import Checkpoint, digest_labels, told

ALONE = "classifier='auto' sees W'XW alone"
#: parameters that may change between a fit and the one that resumes its checkpoint
NOT_THE_FIT = {"max_iter", "tol", "classifier", "device", "callback", "checkpoint", "verbose", "solver"}


class LearnedReduction(TransformerMixin, LabelScore, SPDEstimator):
    """A reduction `W'XW` learned from labeled pairs, followed by a classifier.

    Subclasses define the objective over the pairs.
    """

    _takes_blocks = True
    _usual_init = "pca"
    n_components: Any
    metric: Any
    n_within: Any
    n_between: Any
    max_iter: Any
    tol: Any
    classifier: Any
    solver: Any
    random_state: Any
    device: Any
    precision: Any
    checkpoint: Any
    callback: Any
    verbose: Any
    classifier_: Any

    @abstractmethod
    def _objective(self, options: Options) -> tuple[type[Objective], Width, str]:
        """The objective, the width of its similarity, and the name of the manifold, from checked parameters."""

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn W from the matrices X and their labels.

        Parameters
        ----------
        X : array (n_matrices, n, n), or data that is not in memory
            A memory map, an HDF5 or Zarr array, the path of an `.npy` file or a list of such paths: docs/guide/scale.md.
            In an array (n_samples, b, n, n) every sample is b matrices: W is then (b, n, m), and distances are summed.
        y : (n_matrices,) labels
        sample_weight : (n_matrices,), optional
            Nonnegative. Samples of weight zero are left out; integer weights count a sample so many times, but no copy is a
            neighbor of another (each objective states what that means). Weights of a mean below one, as those with a sum of
            one, are scaled to a mean of one. The objective, beta unless it is "original", and the
            classifier after the reduction are weighted; the numbers of neighbors, nearest neighbors and the start are not.

        Returns
        -------
        self. Ctrl-C during the iterations keeps the best W so far, sets `status_` to "interrupted", and raises
        KeyboardInterrupt. A fit that fails, or is interrupted earlier, leaves the model as it was.
        """
        precision = check_precision(self.precision)
        X, y, weight = with_weight(X, y, sample_weight, precision)
        with self._whole(), checked_data(X, precision) as data:
            classes, labels = self._check_y(y, data.shape)
            settings = self._settings(data, labels, weight)
            learned = learn(data, labels, settings)
            self._keep(learned, data, classes, labels, settings)
        self._conclude(learned, settings)
        return self

    def cost(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """The exact function that `fit(X, y, sample_weight)` minimizes: `W (n, m) -> (value, Euclidean gradient (n, m))`.

        For use with other optimizers. Each call reads the data once; several threads may call it. If beta depends on
        the start, that is the start of `fit`. The function reads X itself, not a copy: leave X as it is while you use it.
        """
        precision = check_precision(self.precision)
        X, y, weight = with_weight(X, y, sample_weight, precision)
        with checked_data(X, precision, keep=True) as data:
            _, labels = self._check_y(y, data.shape)
            return cost_function(data, labels, self._settings(data, labels, weight))

    def _check_y(self, y: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        classes, labels = check_labels(y, *shape[:-2])
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 classes, y has 1 class: every label is {classes[0]}"
            )
        if len(classes) == shape[0]:
            raise ValueError(
                f"every class has one sample; {type(self).__name__} needs at least two samples of some class"
            )
        return classes, labels

    def _settings(self, data: Data, labels: np.ndarray, weight: np.ndarray | None) -> Settings:
        """Every parameter checked and resolved."""
        options = Options.of(self.solver, self._usual_init)
        metric = get_metric(self.metric)
        check_head(self.classifier, metric, data.shape[0])
        if self.max_iter is not None:
            check_count("max_iter", self.max_iter, low=0)
        check_number("tol", self.tol, low=0.0)
        if self.callback is not None and not callable(self.callback):
            raise ValueError(f"callback must be a function of (history row, W), got {self.callback!r}")
        objective, width, manifold = self._objective(options)
        if weight is not None and not objective.weighted:
            raise ValueError(f"objective {objective.name!r} takes no sample_weight; fit without it")
        max_iter = objective.iterations if self.max_iter is None else self.max_iter
        m = self._size(data.shape[-1], metric)
        start = self._earlier(data, m) if options.warm_start else None
        if start is not None:
            width = Width(value=getattr(self, "beta_", None)) if objective.width else width
        n_within, n_between = resolve_counts(self.n_within, self.n_between, labels, metric, objective.all_pairs)
        return Settings(
            who=type(self).__name__,
            metric=metric_for(metric, data.shape),
            objective=objective,
            manifold=resolve_manifold(manifold, metric),
            n_components=m if start is None else start.shape[-1],
            n_within=n_within,
            n_between=n_between,
            approximate=options.search == "approximate",
            width=width,
            init=options.init,
            start=start,
            random_state=self.random_state,
            solver={"max_iter": max_iter, "tol": self.tol, **options.solver},
            weight=weight,
            vectors=sees_vectors(self.classifier, data.shape),
            device=self.device,
            callback=self.callback,
            checkpoint=self._checkpoint(data.shape, labels, options, weight),
            verbose=check_flag("verbose", self.verbose),
        )

    def _size(self, n: int, metric: Metric) -> int:
        """m: the parameter, the number of columns of a given init, or the default for matrices of size n."""
        if n < 2:
            raise ValueError(f"X holds 1 x 1 matrices (1 feature(s)): {type(self).__name__} reduces n x n with n >= 2")
        linear = metric.invariance == "linear"  # a square W then changes nothing
        if self.n_components is not None:
            remedy = f", {'below' if linear else 'at most'} the size {n} of the matrices"
            return check_count("n_components", self.n_components, low=1, high=n - linear, remedy=remedy)
        given = (self.solver or {}).get("init", "pca")
        shape: list[int] = [] if isinstance(given, str) else list(np.shape(given))
        return int(shape[-1]) if len(shape) >= 2 and 1 <= shape[-1] <= n else self._usual_size(n, metric)

    def _usual_size(self, n: int, metric: Metric) -> int:
        """m where none is given."""
        return third_size(n)

    def _earlier(self, data: Data, m: int) -> Array | None:
        """The W of an earlier fit to start from, or None."""
        if not hasattr(self, "components_"):
            return None
        shape = (*data.shape[1:-1], m)
        if tuple(self.components_.shape) != shape:
            raise ValueError(
                f"warm_start: the earlier W has shape {tuple(self.components_.shape)}, but this fit needs {shape}; set "
                f"warm_start to False to start afresh"
            )
        return backend.like(self.components_, data.model) + 0.0

    def _checkpoint(
        self, shape: tuple[int, ...], labels: np.ndarray, options: Options, weight: np.ndarray | None
    ) -> Checkpoint | None:
        """The file that the fit resumes from and writes snapshots to, or None."""
        if self.checkpoint is None:
            return None
        if not isinstance(self.checkpoint, str | Path):
            raise ValueError(f"checkpoint must be the path of a file or None, got {self.checkpoint!r}")
        if options.starts_at_random and not isinstance(self.random_state, int | np.integer):
            raise ValueError(
                "a checkpoint with solver={'init': 'random'} needs an integer random_state, so that every run has the same "
                "start"
            )
        params = {name: told(v) for name, v in self.get_params(deep=False).items() if name not in NOT_THE_FIT}
        data = {"estimator": type(self).__name__, "shape": list(shape), "labels": digest_labels(labels)}
        if weight is not None:
            data["weight"] = told(weight)
        return Checkpoint(self.checkpoint, data | params | options.identity())

    def _keep(self, learned: Learned, data: Data, classes: np.ndarray, labels: np.ndarray, settings: Settings) -> None:
        """Store the result of learning, and fit the classifier on the reduced training matrices."""
        self._check_size(data.shape, reset=True, name="X")
        self._precision = check_precision(self.precision)
        self.classes_, self.metric_, self.graph_ = classes, settings.metric, learned.graph
        self.components_, self.objective_ = learned.W, settings.objective
        self.cost_, self.history_, self.n_passes_ = learned.value, learned.history, learned.passes
        self.n_iter_ = len(learned.history) - 1
        if learned.objective.width:
            self.beta_ = learned.objective.beta
        self.status_, self.message_ = learned.status, learned.message
        self._seen = tuple(Seen(backend.to_numpy(learned.filtered), *class_means(learned.P, labels, settings.weight)))
        try:
            self._fit_classifier(learned.P, classes[labels], learned.first, settings.weight, learned.base)
        except KeyboardInterrupt:  # W took longer to learn: keep it; `fit_classifier` can do the rest
            self.__dict__.pop("classifier_", None)
            self.status_, self.message_ = "interrupted", STATUSES["interrupted"]

    def _conclude(self, learned: Learned, settings: Settings) -> None:
        """Remove the checkpoint of a finished fit, and warn of defaults that were out of reach and of no convergence."""
        if settings.checkpoint is not None and self.status_ not in ("interrupted", "callback"):
            settings.checkpoint.remove()
        if self.status_ == "interrupted":
            raise KeyboardInterrupt
        name, wanted = type(self).__name__, self.max_iter is None or self.max_iter > 0
        lost = {
            "the search started at init='pca'": settings.recenters and not learned.recentered,
            ALONE: settings.vectors and learned.base is None,
        }
        warn_never_formed(name, lost)
        if wanted and self.n_iter_ == 0 and self.status_ in ("gradient", "precision"):
            warnings.warn(
                f"{name}: the objective does not change around the start, so nothing was learned; use another init or, if "
                f"all similarities are 0 or 1 there, another beta; test your own objective or metric with "
                f"check_objective or check_metric",
                ConvergenceWarning,
                stacklevel=4,
            )
        if self.status_ == "max_iter" and self.max_iter is None:
            return  # enough for accuracy, which is what the default number is for
        if self.status_ in ("max_iter", "rank", "unbounded") and wanted:
            bounded = "use SPDSL" if settings.metric.invariance == "none" else "use manifold='grassmann', or SPDSL"
            remedy = "increase max_iter, or raise tol" if self.status_ == "max_iter" else bounded
            warnings.warn(f"{name}: {self.message_}; {remedy}", ConvergenceWarning, stacklevel=4)

    def fit_classifier(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the current `classifier` on the W learned before, without learning W again.

        To try several classifiers on one reduction: `model.set_params(classifier="lda").fit_classifier(X, y)`.
        """
        check_is_fitted(self, "components_")
        X, y, weight = with_weight(X, y, sample_weight, self._fitted_precision())
        with self._whole(), checked_data(X, self._fitted_precision()) as data:
            self._check_size(data.shape, reset=False, name="X")
            self.classes_, labels = self._check_y(y, data.shape)
            check_head(self.classifier, self.metric_, data.shape[0])
            first, P = differing(data), self._reduce(data)
            wanted = sees_vectors(self.classifier, data.shape)
            base = Base.of(data) if wanted else None
            warn_never_formed(type(self).__name__, {ALONE: wanted and base is None})
            self._fit_classifier(P, self.classes_[labels], first, weight, base)
        return self

    def _fit_classifier(
        self, P: Array, y: np.ndarray, first: np.ndarray, weight: np.ndarray | None, base: Base | None
    ) -> None:
        # W'XW is not checked again: the solver has evaluated it, and what is wrong with it is not wrong with X
        self.reference_ = None if base is None else base.reference
        if base is not None:
            self.classifier_ = AutoHead().fit_views(base.vectors, P, y, weight)
            return
        beta = getattr(self, "beta_", None)
        self.classifier_ = fit_head(self.classifier, P, y, metric=self.metric_, beta=beta, first=first, weight=weight)

    # ------------------------------------------------------------------ what W means

    @property
    def filters_(self) -> np.ndarray:
        """W in the basis that the notes describe (n, m) or (b, n, m), a filter a column, those that tell most first."""
        return self._basis().filters

    @property
    def patterns_(self) -> np.ndarray:
        """What each of `filters_` responds to, column by column (Haufe et al. 2014): `A = C F (F'CF)^-1`."""
        return self._basis().patterns

    @property
    def discriminability_(self) -> np.ndarray:
        """Variance over the classes of the log mean response of each of `filters_`, (m,) or (b, m), largest first."""
        return self._basis().power

    def _basis(self) -> Basis:
        check_is_fitted(self, "components_")
        if not hasattr(self, "_seen"):
            raise AttributeError(
                f"this {type(self).__name__} was saved by an older version without patterns; fit again"
            )
        return canonical_basis(backend.to_numpy(self.components_), Seen(*self._seen), self.metric_.invariance)

    # ------------------------------------------------------------------ use

    def _fitted_precision(self) -> str:
        """The precision of the fit; models saved by older versions have it as a parameter only."""
        return getattr(self, "_precision", None) or check_precision(self.precision)

    def _reduce(self, data: Data) -> Array:
        return data.reduce(backend.like(self.components_, data.model))

    def transform(self, X: Any) -> Array:
        """Reduced matrices `W'XW` (n_matrices, m, m), or (n_samples, b, m, m)."""
        return self._transform(X)

    def _transform(self, X: Any, name: str = "X") -> Array:
        check_is_fitted(self, "components_")
        with checked_data(X, self._fitted_precision(), name) as data:
            self._check_size(data.shape, reset=False, name=name)
            return self._reduce(data)

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n_matrices,)."""
        return self._answer(X, "predict")

    @available_if(lambda self: head_offers(getattr(self, "classifier_", self.classifier), "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities (n_matrices, n_classes), if the classifier has them."""
        return self._answer(X, "predict_proba")

    @available_if(lambda self: head_offers(getattr(self, "classifier_", self.classifier), "decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values, if the classifier has them."""
        return self._answer(X, "decision_function")

    def _answer(self, X: Any, kind: Answer) -> np.ndarray:
        check_is_fitted(self, "classifier_")
        with checked_data(X, self._fitted_precision()) as data:
            self._check_size(data.shape, reset=False, name="X")
            data = data.to_device(self.device)
            if self.reference_ is None:
                return self.classifier_.answer(self._reduce(data), kind)
            scores = data.map_log_vectors(self.reference_, self.classifier_.discriminant_.scores)
            return self.classifier_.answer_views(scores, self._reduce(data), kind)

    def to_torch(self) -> Any:
        """The fitted model as a float64 `torch.nn.Module` from X (N, n, n) or (N, b, n, n) to what it says of the classes.

        That is `predict_proba`; for `classifier="svm"` `decision_function`; for the nearest neighbor minus the least squared
        distance to each class. The columns are in the order of `classes_`. `torch.export.export` takes the module.

        Raises
        ------
        ValueError
            The classifier, or under "nn" and "svm" the metric, cannot be exported; the error says what can.

        Examples
        --------
        >>> module = model.to_torch()  # doctest: +SKIP
        >>> module(torch.from_numpy(X)).argmax(dim=1)  # doctest: +SKIP
        """
        check_is_fitted(self, "classifier_")
        before, head = modules.reduction(self.components_), self.classifier_
        if isinstance(head, AutoHead):
            return head.to_torch(before, self.reference_)
        return modules.double_in(modules.chain(type(self).__name__, before, head.to_torch()))

    def sqdist(self, A: Any, B: Any = None) -> Array:
        """Learned squared distances between the original matrices of A and B, (a, b)."""
        reduced = self._transform(A, "A")
        if B is None:
            return sqdist_within(self.metric_, reduced)
        return self.metric_.sqdist(reduced, backend.like(self._transform(B, "B"), reduced))


def third_size(n: int) -> int:
    """A third of n, at most 40."""
    return max(1, min(round(n / 3), 40))
