"""Base class of the estimators on SPD matrices: the check of X, fits that succeed or change nothing, and saving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import FunctionType
from typing import Any, Literal, Protocol, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from spdsl.backend import Array, one_blas_thread
from spdsl.data import check_spd
from spdsl.data.labels import check_labels
from spdsl.data.weights import check_weights
from spdsl.models import save

#: methods during which BLAS has one thread; our own threads share the work
COMPUTES = (
    "fit",
    "fit_checked",
    "fit_classifier",
    "partial_fit",
    "predict",
    "predict_proba",
    "decision_function",
    "answer",
    "transform",
    "kneighbors",
    "sqdist",
)
Answer = Literal["predict", "predict_proba", "decision_function"]


class Head(Protocol):
    """A classifier of reduced matrices (N, m, m) or (N, b, m, m) that have been checked."""

    def fit_checked(self, P: Array, y: np.ndarray) -> Self:
        """Fit to checked matrices and labels."""

    def answer(self, P: Array, kind: Answer) -> np.ndarray:
        """Result of `predict`, `predict_proba` or `decision_function` for checked matrices."""


def _on_one_blas_thread(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        with one_blas_thread:
            return method(*args, **kwargs)

    return run


class KeptInterrupt(KeyboardInterrupt):
    """Ctrl-C in a fit that has kept its best W so far."""


class SPDEstimator(BaseEstimator):
    """Base class of the estimators on SPD matrices.

    Attributes
    ----------
    n_features_in_ : int
        Size n of the matrices.
    n_blocks_in_ : int or None
        Number of matrices per sample, if a sample is several of them.
    """

    _takes_blocks = False  # whether X may be (N, b, n, n)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Hold BLAS to one thread in all that computes: results do not depend on the number of threads."""
        super().__init_subclass__(**kwargs)
        for name in COMPUTES:
            method = cls.__dict__.get(name)
            if isinstance(method, FunctionType):
                setattr(cls, name, _on_one_blas_thread(method))
            elif method is not None and hasattr(method, "fn"):  # under `available_if`
                method.fn = _on_one_blas_thread(method.fn)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one safetensors file, for `spdsl.load`.

        Parameters
        ----------
        path : str or Path
            An existing file is replaced once the new one is complete.

        Notes
        -----
        Needs safetensors (extra `models`). Not saved: `callback`, `checkpoint`, `device`, and a
        `random_state` that is not an integer.
        """
        save(self, path)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """If the fit fails inside this context, everything stays as it was, so that an earlier fit remains usable."""
        before = dict(vars(self))
        try:
            yield
        except KeptInterrupt:
            raise
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _check_X(self, X: Any, *, reset: bool = False, name: str = "X") -> Array:
        X = check_spd(X, name=name, precision=getattr(self, "precision", "double"), blocks=self._takes_blocks)
        self._check_size(X.shape, reset=reset, name=name)
        return X

    def _check_size(self, shape: tuple[int, ...], *, reset: bool, name: str) -> None:
        """Store the size of the samples, or raise if it differs from the stored one."""
        n, blocks = shape[-1], shape[1] if len(shape) == 4 else None
        if reset:
            self.n_features_in_ = n
            self.n_blocks_in_ = blocks
            return
        fitted = self.n_features_in_, getattr(self, "n_blocks_in_", None)
        if (n, blocks) != fitted:
            raise ValueError(
                f"{name} holds {_sized(n, blocks)}, but {type(self).__name__} was fitted on {_sized(*fitted)}; "
                f"pass matrices of this size, or fit again"
            )


class LabelScore(ClassifierMixin):
    """The score of a classifier, which refuses labels that are none as `fit` does."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of `predict(X)` for the labels y; a missing label is an error, not a wrong prediction.

        `sample_weight` (n_matrices,) must be what `fit` takes: a negative weight is an error.
        """
        classes, labels = check_labels(y, np.shape(y)[0] if np.ndim(y) else 1)
        return float(super().score(X, classes[labels], check_weights(sample_weight, len(labels))))


def _sized(n: int, blocks: int | None) -> str:
    """The size of a sample, for messages."""
    return f"{n} x {n} matrices" if blocks is None else f"{blocks} matrices of {n} x {n} per sample"
