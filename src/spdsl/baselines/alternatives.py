"""Common alternatives for covariance matrices: tangent-space classifiers and minimum distance to mean."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from spdsl import backend
from spdsl.backend.extras import install_hint
from spdsl.baselines.pairwise import Factors, SPDClassifier
from spdsl.data.parameters import check_choice, check_number
from spdsl.estimators.discriminant import LeaveOneOutDiscriminant
from spdsl.geometry import log_euclidean_mean, log_vectors, riemannian_mean
from spdsl.models import savable

OWN_MEANS = {"riemann": riemannian_mean, "logeuclid": log_euclidean_mean}


def _pyriemann(module: str) -> ModuleType:
    """A module of pyRiemann, or an error that says how to install it."""
    try:
        return __import__(f"pyriemann.{module}", fromlist=["_"])
    except ImportError as error:
        raise ImportError(f"this method needs pyRiemann: {install_hint('pyriemann')}") from error


@contextmanager
def _in_our_words(doing: str) -> Iterator[None]:
    """Turn errors of pyRiemann or scikit-learn into one with a remedy, and silence NumPy's warnings."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except (ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError) as error:
        raise ValueError(
            f"{doing} failed: {' '.join(str(error).split())}; if matrices are nearly singular or of extreme scale add a ridge, "
            f"e.g. regularize(X, 1e-3), or divide X by its mean trace"
        ) from error


def _check_metric(metric: Any) -> None:
    """Raise unless the metric is a name, or a dict of names, as pyRiemann expects."""
    names = list(metric.values()) if isinstance(metric, dict) else [metric]
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(
            f"metric must be the name of a pyRiemann metric, or a dict of names for 'mean' and 'map', got {metric!r}"
        )


@savable("reference_", "map_")
class TangentVectors(BaseEstimator):
    """Mean and tangent vectors. The usual ones are computed here; other metrics are pyRiemann's.

    Parameters
    ----------
    metric : str or dict
        As in `TangentSpaceClassifier`.
    device : optional
        Device to compute on.

    Attributes
    ----------
    reference_ : (n, n), or (b, n, n) where samples are b matrices
        The mean of each block; vectors of the blocks are joined.
    map_ : str
        pyRiemann's name of the metric of the map.
    """

    def __init__(self, metric: str | dict[str, str], *, device: Any = None) -> None:
        self.metric = metric
        self.device = device

    def fit(self, X: np.ndarray) -> Self:
        """Find the mean of checked matrices (n_matrices, n, n), or (n_samples, b, n, n)."""
        mean = self.metric["mean"] if isinstance(self.metric, dict) else self.metric
        if mean in OWN_MEANS:
            means = [backend.to_numpy(OWN_MEANS[mean](backend.to_device(block, self.device))) for block in _blocks(X)]
        else:
            TangentSpace = _pyriemann("tangentspace").TangentSpace
            means = [TangentSpace(metric=self.metric).fit(block).reference_ for block in _blocks(X)]
        self.reference_ = means[0] if X.ndim == 3 else np.stack(means)
        self.map_ = self.metric["map"] if isinstance(self.metric, dict) else self.metric
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Tangent vectors (n_matrices, n (n + 1) / 2) of checked matrices."""
        if self.map_ == "riemann":
            w, V = np.linalg.eigh(self.reference_)
            G = backend.to_device((V / np.sqrt(w)[..., None, :]) @ V.mT, self.device)
            moved = G @ backend.to_device(X, self.device) @ G
            return backend.to_numpy(log_vectors((moved + moved.mT) / 2))
        other = _pyriemann("tangentspace").TangentSpace(metric=self.metric)
        parts = []
        for block, mean in zip(_blocks(X), _blocks(self.reference_[None]), strict=True):
            other.reference_ = mean[0]
            parts.append(other.transform(block))
        return np.concatenate(parts, axis=1)


def _blocks(X: np.ndarray) -> list[np.ndarray]:
    """The blocks (n_samples, n, n) of samples (n_samples, b, n, n); matrices (n_matrices, n, n) are one block."""
    return [X] if X.ndim == 3 else [X[:, k] for k in range(X.shape[1])]


@savable("classes_", "tangent_", "model_")
class TangentSpaceClassifier(SPDClassifier):
    """Linear classifier on tangent vectors `upper(log(M^-1/2 X M^-1/2))` at the mean M of the training matrices.

    Parameters
    ----------
    classifier : {"lda", "logistic"}
        Linear discriminant analysis (`LeaveOneOutDiscriminant`), or L2-penalized logistic regression.
    C : float
        Inverse regularization strength of "logistic".
    metric : str or dict
        pyRiemann's name of the metric of the mean and the tangent space, or one for each:
        {"mean": "logeuclid", "map": "riemann"} is much faster on large matrices. Means and maps other than these need
        pyRiemann.
    device : optional
        Device to compute means and tangent vectors on, e.g. "cuda" (needs PyTorch). By default the host.

    Attributes
    ----------
    tangent_ : TangentVectors
    model_ : scikit-learn classifier
    classes_, n_features_in_

    Examples
    --------
    >>> from spdsl import TangentSpaceClassifier
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = TangentSpaceClassifier("lda").fit(X[::20], y[::20])
    >>> model.predict(X[[1, 401]]).tolist()
    [0, 4]
    """

    _takes_blocks = True

    def __init__(
        self,
        classifier: Literal["lda", "logistic"] = "lda",
        *,
        C: float = 1.0,
        metric: str | dict[str, str] = "riemann",
        device: Any = None,
    ) -> None:
        self.classifier = classifier
        self.C = C
        self.metric = metric
        self.device = device

    def _prepare(self, X: np.ndarray) -> Factors:
        return (X,)

    def _learn(self, factors: Factors, labels: np.ndarray) -> None:
        self._check_parameters()
        with _in_our_words(f"the tangent space for metric {self.metric!r}"):
            self.tangent_ = TangentVectors(self.metric, device=self.device).fit(factors[0])
        self._learn_vectors(self._vectors(factors[0]), labels)

    def _check_parameters(self) -> None:
        check_choice("classifier", self.classifier, ("lda", "logistic"))
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
        # imported here because they would double the import time of the learners
        from sklearn.decomposition import PCA
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import Pipeline

        if self.classifier == "lda":
            model: Any = LeaveOneOutDiscriminant()
        else:
            # C per unit of variance, so that it is comparable between data sets and directions keep their proportions
            C = self.C / max(float(V.var(axis=0).mean()), np.finfo(float).tiny)
            steps: list[tuple[str, Any]] = [("rotate", PCA(svd_solver="full"))] if V.shape[1] > len(V) else []
            model = Pipeline([*steps, ("logistic", LogisticRegression(C=C, max_iter=2000))])
        with _in_our_words(f"the classifier {self.classifier!r} on tangent vectors"):
            self.model_ = model.fit(V, labels)

    def _decide(self, factors: Factors) -> np.ndarray:
        return self.model_.predict(self._vectors(factors[0]))

    def transform(self, X: Any) -> np.ndarray:
        """Tangent vectors (n_matrices, n (n + 1) / 2), joined over the blocks where samples are several matrices."""
        check_is_fitted(self)
        return self._vectors(self._checked_numpy(X))

    def validate(
        self, prepared: Factors, y: np.ndarray, train: np.ndarray, test: np.ndarray, points: list[dict[str, Any]]
    ) -> list[float]:
        """As in the base class, with one tangent space for all grid points that share it."""
        if any("metric" in point for point in points):
            return super().validate(prepared, y, train, test, points)
        # the log-Euclidean mean is close enough to rank penalties, and avoids an iterative mean in every fold
        metric = {"mean": "logeuclid", "map": self.metric} if isinstance(self.metric, str) else self.metric
        tangent = TangentVectors(metric, device=self.device).fit(prepared[0][train])
        left, right = tangent.transform(prepared[0][train]), tangent.transform(prepared[0][test])
        scores = []
        for point in points:
            model = self._at(point)
            model._learn_vectors(left, model.checked_labels(y[train], len(train)))
            scores.append(float(np.mean(model.classes_[model.model_.predict(right)] == y[test])))
        return scores


@savable("classes_", "model_")
class MDM(SPDClassifier):
    """Minimum distance to mean: the class whose mean matrix is nearest, `argmin_c d(X, M_c)`.

    Parameters
    ----------
    metric : str
        pyRiemann's name of the metric of the means and distances.

    Attributes
    ----------
    model_ : pyriemann.classification.MDM
    classes_, n_features_in_

    Examples
    --------
    >>> from spdsl import MDM
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = MDM(metric="logeuclid").fit(X[::20], y[::20])
    >>> model.predict(X[[1, 401]]).tolist()
    [0, 4]
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
