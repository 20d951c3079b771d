"""SPDML: manifold-to-manifold dimensionality reduction by graph embedding."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from spdsl.estimators.options import Options
from spdsl.estimators.reduction import LearnedReduction
from spdsl.geometry import Metric
from spdsl.learning.graph import Count
from spdsl.learning.objectives import GraphEmbedding, Objective
from spdsl.learning.settings import Callback, Width
from spdsl.models import savable


@savable("classes_", "components_", "classifier_")
class SPDML(LearnedReduction):
    """SPD manifold learning: minimize `sum_ij a_ij d2(W'X_iW, W'X_jW)`, `a = G_w - G_b`, by graph embedding.

    On the Grassmann manifold (W orthonormal) it is the method that the paper compares with; with `manifold="psd"` the
    paper's SPDML*, for all metrics. There the objective is unbounded below for metrics that depend on the scale of the
    matrices (Euclidean, power, Cholesky, log-Cholesky, Bures-Wasserstein): the fit stops early, as `status_` says.

    Parameters
    ----------
    n_components : int, optional
        Size m of the reduced matrices. By default a third of n, at most 40.
    metric : str or Metric
        A name in `spdsl.METRICS` or an alias, or your own metric.
    manifold : {"grassmann", "psd"}
    n_within, n_between : int, "all" or "auto"
        Nearest neighbors of the same class and of other classes to pair with each sample (v_w, v_b). `n_within=None` is
        the size of the smallest class, as in the paper.
    max_iter : int
        Maximum number of iterations. The paper uses 50.
    tol : float
        The fit has converged when the relative decrease of the cost is below `tol` in three consecutive iterations.
    classifier : {"nn", "svm", "lda", "logistic", "auto"} or classifier
        Classifier after the reduction, as in `SPDSL`.
    solver, random_state, device, precision, checkpoint, callback, verbose
        As in `SPDSL`.

    Attributes
    ----------
    components_ : (n, m), or (b, n, m) where samples are b matrices
        The learned W.
    cost_, status_, n_iter_, history_, graph_, classifier_, patterns_
        As in `SPDSL`.

    Examples
    --------
    >>> from spdsl import SPDML
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = SPDML(n_components=20).fit(X[::20], y[::20])
    >>> model.transform(X[:3]).shape
    (3, 20, 20)
    >>> model.predict(X[[1, 401]]).tolist()
    [0, 4]
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        metric: str | Metric = "aim",
        manifold: Literal["grassmann", "psd"] = "grassmann",
        n_within: Count | Literal["auto"] | None = None,
        n_between: Count | Literal["auto"] = 5,
        max_iter: int = 100,
        tol: float = 1e-4,
        classifier: Any = "nn",
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
        self.manifold = manifold
        self.n_within = n_within
        self.n_between = n_between
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

    def _objective(self, options: Options) -> tuple[type[Objective], Width, str]:
        if options.manifold is not None:
            raise ValueError("solver: the manifold is a parameter of SPDML; use SPDML(manifold=...)")
        return GraphEmbedding, Width(), self.manifold
