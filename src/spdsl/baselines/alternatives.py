"""What users of covariance matrices would pick instead: tangent-space classifiers and minimum distance to mean."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spdsl.baselines.pairwise import Factors, SPDClassifier
from spdsl.heads import span_discriminant
from spdsl.models import savable
from spdsl.validation import check_number

LONGEST = 4096  # vectors up to this length have their full covariance estimated


def _pyriemann(module: str) -> ModuleType:
    """A module of pyRiemann, or an error that says how to get it."""
    try:
        return __import__(f"pyriemann.{module}", fromlist=["_"])
    except ImportError as error:
        raise ImportError("this method needs pyRiemann: pip install 'spdsl[pyriemann]'") from error


@contextmanager
def _in_our_words(doing: str) -> Iterator[None]:
    """What goes wrong in pyRiemann or scikit-learn, as an error that says what to do; no warning of NumPy's comes out."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except (ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError) as error:
        raise ValueError(
            f"{doing} failed: {' '.join(str(error).split())}; for matrices near singular or of extreme scale add a ridge, "
            f"e.g. regularize(X, 1e-3), or divide X by its mean trace"
        ) from error


def _check_metric(metric: Any) -> None:
    """Raise unless pyRiemann could know the metric."""
    names = list(metric.values()) if isinstance(metric, dict) else [metric]
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"metric must be a name of pyRiemann's, or a dict of them for 'mean' and 'map', got {metric!r}"
        )


@savable("classes_", "tangent_", "model_")
class TangentSpaceClassifier(SPDClassifier):
    """Linear classifier on tangent vectors `upper(log(M^-1/2 X M^-1/2))` at the mean M of the training matrices.

    Long vectors are rotated into the span of the training vectors: for "logistic" that changes nothing. For "lda" it is
    done only beyond 4096 entries, where a covariance matrix of the vectors is out of reach, and the Ledoit-Wolf
    shrinkage is then that of the full vectors, without scikit-learn's scaling of the entries.

    Parameters
    ----------
    classifier : {"lda", "logistic"}
        Linear discriminant analysis with Ledoit-Wolf shrinkage, or L2-penalised logistic regression.
    C : float
        Inverse penalty of "logistic".
    metric : str or dict
        pyRiemann's name of the metric of mean and tangent space, or one each: {"mean": "logeuclid", "map": "riemann"}
        saves much time on large matrices.

    Attributes
    ----------
    tangent_ : pyriemann.tangentspace.TangentSpace
    model_ : scikit-learn classifier
    classes_, n_features_in_
    """

    def __init__(
        self,
        classifier: Literal["lda", "logistic"] = "lda",
        *,
        C: float = 1.0,
        metric: str | dict[str, str] = "riemann",
    ) -> None:
        self.classifier = classifier
        self.C = C
        self.metric = metric

    def _prepare(self, X: np.ndarray) -> Factors:
        return (X,)

    def _learn(self, factors: Factors, labels: np.ndarray) -> None:
        self._check_parameters()
        with _in_our_words(f"the tangent space for metric {self.metric!r}"):
            self.tangent_ = _pyriemann("tangentspace").TangentSpace(metric=self.metric).fit(factors[0])
        self._learn_vectors(self._vectors(factors[0]), labels)

    def _check_parameters(self) -> None:
        if self.classifier not in ("lda", "logistic"):
            raise ValueError(f"classifier must be 'lda' or 'logistic', got {self.classifier!r}")
        check_number("C", self.C, low=0.0, above=True)
        _check_metric(self.metric)

    def _vectors(self, X: np.ndarray) -> np.ndarray:
        """Tangent vectors of checked matrices."""
        with _in_our_words("the map to the tangent space"):
            V = self.tangent_.transform(X)
            if not np.all(np.isfinite(V)):
                raise ValueError("tangent vectors are not finite")
        return V

    def _learn_vectors(self, V: np.ndarray, labels: np.ndarray) -> None:
        # imported here, not above: they would double the time that the learners take to import
        from sklearn.decomposition import PCA
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import Pipeline

        if self.classifier == "lda":
            few = V.shape[1] > max(LONGEST, len(V))
            model = span_discriminant(*V.shape) if few else LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        else:
            # C per unit of variance: it means the same for every data set, and directions keep their proportions
            C = self.C / max(float(V.var(axis=0).mean()), np.finfo(float).tiny)
            steps: list[tuple[str, Any]] = [("rotate", PCA(svd_solver="full"))] if V.shape[1] > len(V) else []
            model = Pipeline([*steps, ("logistic", LogisticRegression(C=C, max_iter=2000))])
        with _in_our_words(f"the classifier {self.classifier!r} on tangent vectors"):
            self.model_ = model.fit(V, labels)

    def _decide(self, factors: Factors) -> np.ndarray:
        return self.model_.predict(self._vectors(factors[0]))

    def transform(self, X: Any) -> np.ndarray:
        """Tangent vectors (n_matrices, n (n + 1) / 2)."""
        check_is_fitted(self)
        return self._vectors(self._checked_numpy(X))

    def validate(
        self, prepared: Factors, y: np.ndarray, train: np.ndarray, test: np.ndarray, points: list[dict[str, Any]]
    ) -> list[float]:
        """As in the base class, with one tangent space for all points that do not change it."""
        if any("metric" in point for point in points):
            return super().validate(prepared, y, train, test, points)
        # the log-Euclidean mean is near enough to rank penalties, and spares an iterative mean in every fold
        metric = {"mean": "logeuclid", "map": self.metric} if isinstance(self.metric, str) else self.metric
        tangent = _pyriemann("tangentspace").TangentSpace(metric=metric).fit(prepared[0][train])
        left, right = tangent.transform(prepared[0][train]), tangent.transform(prepared[0][test])
        scores = []
        for point in points:
            model = self._at(point)
            model._learn_vectors(left, model._checked_labels(y[train], len(train)))
            scores.append(float(np.mean(model.classes_[model.model_.predict(right)] == y[test])))
        return scores


@savable("classes_", "model_")
class MDM(SPDClassifier):
    """Minimum distance to mean: the class whose mean matrix is nearest, `argmin_c d(X, M_c)`.

    Parameters
    ----------
    metric : str
        pyRiemann's name of the metric of means and distances.

    Attributes
    ----------
    model_ : pyriemann.classification.MDM
    classes_, n_features_in_
    """

    def __init__(self, *, metric: str = "riemann") -> None:
        self.metric = metric

    def _prepare(self, X: np.ndarray) -> Factors:
        return (X,)

    def _learn(self, factors: Factors, labels: np.ndarray) -> None:
        _check_metric(self.metric)
        with _in_our_words(f"the means for metric {self.metric!r}"):
            self.model_ = _pyriemann("classification").MDM(metric=self.metric).fit(factors[0], labels)
            if not np.all(np.isfinite(self.model_.covmeans_)):
                raise ValueError("a mean is not finite")

    def _decide(self, factors: Factors) -> np.ndarray:
        with _in_our_words("the distances to the means"):
            return self.model_.predict(factors[0])
