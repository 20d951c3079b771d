"""The learners: SPDSL (alignment of similarities) and SPDML (graph embedding)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from spdsl.arrays import Array, namespace
from spdsl.graphs import Count, PairGraph, PairSurvey
from spdsl.metrics import Metric, get_metric
from spdsl.models import savable
from spdsl.objectives import CenteredAlignment, GraphEmbedding, Objective, PairAlignment
from spdsl.reduction import LearnedReduction
from spdsl.validation import LARGEST, check_number

LEAST, MOST = 1e-20, 1e20  # distances whose fourth powers, times as many pairs as there may be, are numbers
CENTERINGS: dict[str, Callable[[PairGraph, np.ndarray, float], Objective]] = {
    "graph": CenteredAlignment,
    "pairs": PairAlignment,
}


@savable("classes_", "components_", "beta_", "classifier_")
class SPDSL(LearnedReduction):
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
    n_within, n_between : int, "all" or "auto"
        Nearest neighbours of the same class and of the others that count for each sample (v_w, v_b). "auto" takes all
        pairs, fewer where classes are tiny or the data large (`spdsl.graphs.automatic_counts`). `n_within=None` is the
        size of the smallest class, the paper's choice.
    search : {"exact", "approximate"}
        How those neighbours are found. "approximate" searches the vectors of a flat metric ("lem", "euclid", ...) with
        faiss, for some ten thousand samples and more (docs/scale.md).
    centering : {"graph", "pairs"}
        "graph" centres the whole similarity matrix, absent pairs counted as zero, as printed in Eq. 9; "pairs" centres
        over the selected pairs alone.
    beta : {"reduced", "original"} or float
        Width of the similarity. A word means `beta_scale / sigma^2`, sigma the mean distance: "original" over all training
        pairs before the reduction, as in the paper; "reduced" over the pairs that count, at the start of the learning.
    beta_scale : float
    manifold : {"psd", "grassmann"}
    init : {"identity", "pca", "random"} or array (n, m)
    max_iter : int
        The paper takes 50; most fits here converge before 100.
    tol : float
        Relative decrease of the cost below which, three times in a row, the fit has converged.
    solver_options : dict, optional
        Further arguments of the solver: `rule` ("hestenes-stiefel", "polak-ribiere", "fletcher-reeves", "dai-yuan"),
        `gradient_tol`, `patience`.
    classifier : {"nn", "svm", "lda", "logistic"} or scikit-learn classifier
        What `predict` uses: nearest neighbours under the learned distance, a support vector machine on the learned
        similarity; discriminant analysis with shrinkage, logistic regression, or the given classifier on the log-vectors
        of W'XW (centred, and scaled to mean square length one).
    n_neighbors : int
        Neighbours that vote under "nn".
    device : optional
        Where to compute, e.g. "cuda" (needs PyTorch). By default where X is.
    precision : {"double", "mixed"}
        "mixed" holds X and its products with W in float32 and does all m x m work in float64: half the memory, and faster
        where n is large beside m. For matrices whose condition is far below 1e7.
    random_state : int, RandomState or None
        For `init="random"`.
    callback : callable, optional
        Called with (history row, W) after every iteration; return True to stop.
    warm_start : bool
        Start from the W of an earlier fit, one interrupted by Ctrl-C for instance, and keep its beta.
    checkpoint : str or Path, optional
        A file in which the fit leaves its state every ten iterations. A fit that finds the file of a killed one goes on
        from there and ends where that would have ended; the file is removed when the fit is done. Needs safetensors.
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
        How often the solver read the n x n data: once at the start and once per iteration, more if it had to restart.
    graph_ : PairGraph
    classifier_ : estimator
        Fitted on the reduced training matrices.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        metric: str | Metric = "lem",
        n_within: Count | Literal["auto"] | None = "auto",
        n_between: Count | Literal["auto"] = "auto",
        search: Literal["exact", "approximate"] = "exact",
        centering: Literal["graph", "pairs"] = "graph",
        beta: float | Literal["reduced", "original"] = "reduced",
        beta_scale: float = 1.0,
        manifold: str = "psd",
        init: str | Array = "pca",
        max_iter: int = 100,
        tol: float = 1e-4,
        solver_options: dict[str, Any] | None = None,
        classifier: Any = "nn",
        n_neighbors: int = 1,
        device: Any = None,
        precision: Literal["double", "mixed"] = "double",
        random_state: Any = None,
        callback: Callable[[dict[str, float], Array], Any] | None = None,
        warm_start: bool = False,
        checkpoint: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.metric = metric
        self.n_within = n_within
        self.n_between = n_between
        self.search = search
        self.centering = centering
        self.beta = beta
        self.beta_scale = beta_scale
        self.manifold = manifold
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.solver_options = solver_options
        self.classifier = classifier
        self.n_neighbors = n_neighbors
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.callback = callback
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _make_objective(
        self, survey: PairSurvey, labels: np.ndarray, reduced_distance: Callable[[], float]
    ) -> Objective:
        if isinstance(self.beta, str) and self.warm_start and hasattr(self, "beta_"):
            beta = self.beta_  # the objective of the fit that this one goes on from
        elif isinstance(self.beta, str):
            sigma = survey.mean_distance if self.beta == "original" else reduced_distance()
            if not sigma:
                raise ValueError("all reduced training matrices are equal at the start; use another init")
            beta = self.beta_scale / sigma**2
            if not 0 < beta <= LARGEST:
                raise ValueError(
                    f"beta_scale={self.beta_scale:g} makes beta {beta:g}, which is no width: choose another"
                )
        else:
            beta = self.beta
        return CENTERINGS[self.centering](survey.graph, labels, float(beta))

    def _wants_mean_distance(self) -> bool:
        return isinstance(self.beta, str) and self.beta == "original"

    def _similarity_width(self) -> float | None:
        return self.beta_

    def _check_parameters(self, n_matrices: int) -> None:
        super()._check_parameters(n_matrices)
        if not isinstance(self.beta, str):
            check_number("beta", self.beta, low=0.0, above=True)
        elif self.beta not in ("reduced", "original"):
            raise ValueError(f"beta must be 'reduced', 'original' or a positive number, got {self.beta!r}")
        check_number("beta_scale", self.beta_scale, low=0.0, above=True)
        if not isinstance(self.centering, str) or self.centering not in CENTERINGS:
            raise ValueError(f"centering must be 'graph' or 'pairs', got {self.centering!r}")

    def _keep(self, objective: Any) -> None:
        self.beta_ = objective.beta

    def similarity(self, A: Any, B: Any = None) -> Array:
        """Learned similarities `exp(-beta d2)` between stacks of the original matrices, (a, b) (Eq. 6)."""
        d2 = self.sqdist(A, B)
        with np.errstate(over="ignore"):  # a similarity of zero
            return namespace(d2).exp(-self.beta_ * d2)


@savable("classes_", "components_", "classifier_")
class SPDML(LearnedReduction):
    """SPD manifold learning: minimise `sum_ij a_ij d2(W'X_iW, W'X_jW)`, `a = G_w - G_b`, by graph embedding.

    On the Grassmann manifold (W orthonormal) the method that the paper compares with; with `manifold="psd"` the paper's
    SPDML*, all metrics. There the objective is not bounded below for metrics that change with the scale of the matrices
    (Euclidean, power, Cholesky, log-Cholesky, Bures-Wasserstein): the fit then stops, finite, and says so in `status_`.

    Parameters and attributes as in `SPDSL`, without similarity and its width. `n_within=None` is the size of the smallest
    class, as in the paper.
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        metric: str | Metric = "aim",
        n_within: Count | Literal["auto"] | None = None,
        n_between: Count | Literal["auto"] = 5,
        search: Literal["exact", "approximate"] = "exact",
        manifold: str = "grassmann",
        init: str | Array = "pca",
        max_iter: int = 100,
        tol: float = 1e-4,
        solver_options: dict[str, Any] | None = None,
        classifier: Any = "nn",
        n_neighbors: int = 1,
        device: Any = None,
        precision: Literal["double", "mixed"] = "double",
        random_state: Any = None,
        callback: Callable[[dict[str, float], Array], Any] | None = None,
        warm_start: bool = False,
        checkpoint: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.metric = metric
        self.n_within = n_within
        self.n_between = n_between
        self.search = search
        self.manifold = manifold
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.solver_options = solver_options
        self.classifier = classifier
        self.n_neighbors = n_neighbors
        self.device = device
        self.precision = precision
        self.random_state = random_state
        self.callback = callback
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _make_objective(
        self, survey: PairSurvey, labels: np.ndarray, reduced_distance: Callable[[], float]
    ) -> Objective:
        metric = get_metric(self.metric)
        if not metric.scale_free and not LEAST < (distance := reduced_distance()) < MOST:
            raise ValueError(
                f"the mean distance of the reduced matrices is {distance:.1e} at the start, and its powers leave the range of "
                f"numbers: metric {metric.name!r} changes with the scale of X; divide X by its mean trace"
            )
        return GraphEmbedding(survey.graph)
