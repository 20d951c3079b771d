"""SPDSL: similarity learning."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spdsl.backend import Array, namespace
from spdsl.data.parameters import check_number
from spdsl.estimators.options import Options
from spdsl.estimators.reduction import LearnedReduction, third_size
from spdsl.geometry import Metric
from spdsl.learning.graph import Count
from spdsl.learning.objectives import Objective, get_objective
from spdsl.learning.settings import Callback, Width
from spdsl.models import savable


@savable("classes_", "components_", "classifier_")
class SPDSL(LearnedReduction):
    """SPD similarity learning: a full-rank W whose similarities of `W'XW` match the labels (Eq. 9).

    Learns W by Riemannian conjugate gradient on the manifold of fixed-rank PSD matrices, so that samples of a class are
    close under the learned distance `d2(W'X_iW, W'X_jW)`, and classifies. The defaults are chosen for accuracy on data
    nobody tuned for (docs/defaults.md). The method of the paper, centered alignment of `exp(-beta d2)` with the labels over
    a graph of pairs and the nearest neighbor, is::

        SPDSL(m, objective="alignment", classifier="nn", solver={"init": "pca"})

    Parameters
    ----------
    n_components : int, optional
        Size m of the reduced matrices. By default n, at most 40; under metrics that a square W does not change ("aim",
        "stein", "jeffreys") a third of n, at most 40.
    metric : str or Metric
        A name in `spdsl.METRICS` or an alias ("lem", "aim", "stein", ...), or your own metric.
    objective : str or subclass of Objective
        A name in `spdsl.OBJECTIVES`: "stochastic-neighbors" maximizes the probability that a sample picks a neighbor of its
        own class; "alignment" centers the whole similarity matrix and counts absent pairs as zero, as in Eq. 9; "pairs"
        centers over the selected pairs only. Or your own objective.
    n_within, n_between : int, "all" or "auto"
        Nearest neighbors of the same class and of other classes to pair with each sample (v_w, v_b). "auto" takes all
        pairs, or fewer if classes are tiny or the data are large (`spdsl.learning.graph.automatic_counts`).
        `n_within=None` is the size of the smallest class, as in the paper.
    beta : {"reduced", "original"} or float
        Width of the similarity. A string means `beta_scale / sigma^2` (three times that for stochastic neighbors) with
        sigma the mean distance: "original" over all training pairs before the reduction, as in the paper; "reduced" over
        the selected pairs at the start of learning.
    beta_scale : float
        Factor of the width if `beta` is a string: a larger one makes similarities narrower.
    max_iter : int, optional
        Maximum number of iterations; by default 20 for stochastic neighbors, where more change the accuracy little, and
        100 for other objectives. The paper uses 50.
    tol : float
        The fit has converged when the relative decrease of the cost is below `tol` in three consecutive iterations.
    classifier : {"auto", "nn", "svm", "lda", "logistic"} or classifier
        "auto" adds the scores of discriminant analysis on log-vectors of the recentered matrices before the reduction and
        of kernel ridge regression on those of W'XW (`AutoHead`). The others see W'XW only: the nearest neighbor under the
        learned distance ("nn"); a support vector machine on the learned similarity ("svm"); discriminant analysis ("lda"),
        logistic regression, or the given scikit-learn classifier on the log-vectors (centered, and scaled to mean square
        length one).
        `SPDNearestNeighbor(metric, n_neighbors=3)` and `KernelSVC(metric, ...)` are used as they are. All but a classifier of
        scikit-learn have calibrated probabilities, of which the largest is that of the label.
    solver : dict, optional
        Options that rarely need a change: `init` ("recentered", "pca", "identity", "random" or an array
        (n, m)), `manifold` ("psd" or "grassmann"), `gradient_tol`, `patience`, `rule` ("hestenes-stiefel", "polak-ribiere",
        "fletcher-reeves", "dai-yuan"), `search` ("exact" or "approximate" neighbors: docs/guide/scale.md), `warm_start` (start
        from the W of an earlier fit of this object).
    random_state : int, RandomState or None
        Seed of a random start.
    device : optional
        Device to compute on, e.g. "cuda" (needs PyTorch). By default that of X.
    precision : {"double", "mixed"}
        "mixed" holds X and its products with W in float32 and does all m x m work in float64: half the memory, and faster
        if n is much larger than m. For matrices with a condition number far below 1e7.
    checkpoint : str or Path, optional
        File to which the fit saves its state every ten iterations. A fit that finds the file of a killed one resumes there,
        with the same result as if it had not been killed. The file is removed at the end. Needs safetensors.
    callback : callable, optional
        Called with (history row, W) after every iteration; return True to stop.
    verbose : bool
        Show progress on standard error.

    Attributes
    ----------
    components_ : (n, m), or (b, n, m) where samples are b matrices
        The learned W. If the metric is invariant under rotations, only WW' is meaningful; under all linear maps, only
        the span of W.
    beta_ : float
        Width of the similarity, if the objective uses one.
    classes_, n_features_in_, n_iter_, cost_, status_, message_
        Labels, size n of the matrices, number of iterations, final cost, and why the fit ended, in a word and a sentence.
    history_ : list of dict
        For each iteration: value, gradient_norm, step, trials, seconds.
    n_passes_ : int
        Number of passes over the n x n data: one at the start and one per iteration, more if it had to restart.
    graph_ : PairGraph
    reference_ : (n, k), or (b, n, k), or None
        The map A to the recentered matrices `A'XA` that the automatic classifier sees: `M^-1/2` with the mean M of the training
        matrices (Riemannian, or log-Euclidean for n above 100), for n above 64 in the k directions in which they differ most.
    metric_, objective_ : Metric, subclass of Objective
    classifier_ : estimator
        Fitted on the reduced training matrices.
    filters_, patterns_ : (n, m), or (b, n, m)
        W in a basis that makes its columns comparable, and what each column responds to: see the notes.
    discriminability_ : (m,), or (b, m)
        How much each of `filters_` tells the classes apart, largest first.

    Notes
    -----
    W is known only up to what the metric cannot see, so `components_` has no meaningful columns. `filters_` is the F = W T
    of that family (T invertible for "aim", "stein" and "jeffreys"; a rotation times a number for "lem" and others; that
    number and the order for "cholesky" and "log-cholesky") for which, with `P_c` the mean of the reduced matrices of class
    c, P the mean of all and `p_c` the share of the class,

    1. the mean response is one: `T'PT = I` if T is any invertible map, else `trace(T'PT) = m`;
    2. the `sqrt(p_c) T'(P_c - P)T` are jointly as diagonal as rotations can make them (two classes under an invertible
       T: exactly, which are the generalized eigenvectors of CSP within the span of W);
    3. columns are ordered by `sum_c p_c (log v_cj - sum_d p_d log v_dj)^2` with `v_cj = (T'P_cT)_jj` (`discriminability_`);
    4. the entry of largest modulus of each pattern is positive.

    `patterns_` is `A = C F (F'CF)^-1` with C the mean of the training matrices (Haufe et al. 2014): of data
    with covariance C, the A of the forward model in which the `F'x` are the sources. Filters weigh channels so that noise
    cancels; where a source is, only patterns tell. For interpretation take a wide similarity, e.g. `beta_scale=0.1`: a
    narrow one fits W to few pairs of neighbors.

    Examples
    --------
    >>> from spdsl import SPDSL
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = SPDSL(n_components=20).fit(X[::20], y[::20])
    >>> model.predict(X[[1, 401, 801]]).tolist()
    [0, 4, 8]
    >>> model.transform(X[:3]).shape
    (3, 20, 20)
    >>> model.sqdist(X[:2], X[:3]).shape
    (2, 3)
    >>> model.patterns_.shape
    (65, 20)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        metric: str | Metric = "lem",
        objective: str | type[Objective] = "stochastic-neighbors",
        n_within: Count | Literal["auto"] | None = "auto",
        n_between: Count | Literal["auto"] = "auto",
        beta: float | Literal["reduced", "original"] = "reduced",
        beta_scale: float = 1.0,
        max_iter: int | None = None,
        tol: float = 1e-4,
        classifier: Any = "auto",
        solver: dict[str, Any] | None = None,
        random_state: Any = None,
        device: Any = None,
        precision: Literal["double", "mixed"] = "double",
        checkpoint: str | Path | None = None,
        callback: Callback | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.metric = metric
        self.objective = objective
        self.n_within = n_within
        self.n_between = n_between
        self.beta = beta
        self.beta_scale = beta_scale
        self.max_iter = max_iter
        self.tol = tol
        self.classifier = classifier
        self.solver = solver
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.checkpoint = checkpoint
        self.callback = callback
        self.verbose = verbose

    _usual_init = "recentered"

    def _usual_size(self, n: int, metric: Metric) -> int:
        return third_size(n) if metric.invariance == "linear" else min(n, 40)

    def _objective(self, options: Options) -> tuple[type[Objective], Width, str]:
        objective = get_objective(self.objective)
        check_number("beta_scale", self.beta_scale, low=0.0, above=True)
        manifold = options.manifold or "psd"
        if not isinstance(self.beta, str):
            return objective, Width(value=check_number("beta", self.beta, low=0.0, above=True)), manifold
        if self.beta not in ("reduced", "original"):
            raise ValueError(f"beta must be 'reduced', 'original' or a positive number, got {self.beta!r}")
        return objective, Width("original" if self.beta == "original" else "reduced", self.beta_scale), manifold

    def similarity(self, A: Any, B: Any = None) -> Array:
        """Learned similarities `exp(-beta d2)` between the original matrices of A and B, (a, b) (Eq. 6)."""
        check_is_fitted(self, "components_")
        if not hasattr(self, "beta_"):
            raise ValueError(f"objective {self.objective_.name!r} has no beta, so there is no similarity; use sqdist")
        d2 = self.sqdist(A, B)
        with np.errstate(over="ignore"):  # a similarity of zero
            return namespace(d2).exp(-self.beta_ * d2)
