"""The classes that may be stored in a model file. Names in a file are looked up only here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from spdsl.backend.extras import install_hint
from spdsl.models.errors import ModelFileError

C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Part:
    """A class that may be stored in a model file.

    Attributes
    ----------
    name : str
        Name in files; our own classes have no prefix.
    module, attribute : str
        Where the class is defined.
    needed : tuple of str
        Fitted attributes that it requires.
    check : callable, optional
        Returns what is wrong with an object, or None; for classes that could do harm if a file was edited.
    renamed : tuple of pairs
        Two names of the same attribute in different versions; files have either one, objects get both.
    """

    name: str
    module: str
    attribute: str
    needed: tuple[str, ...]
    check: Callable[[Any], str | None] | None = None
    renamed: tuple[tuple[str, str], ...] = ()

    @property
    def package(self) -> str:
        """The package that the class comes from."""
        return self.module.partition(".")[0]

    def find(self) -> type:
        """The class itself, imported on demand, since most models need only a few."""
        try:
            return getattr(importlib.import_module(self.module), self.attribute)
        except (ImportError, AttributeError) as error:
            hint = f"; {install_hint('pyriemann')}" if self.package == "pyriemann" else ""
            raise ImportError(f"this model contains a {self.name}, which cannot be imported ({error}){hint}") from error


PARTS: dict[str, Part] = {}
_OURS = ("spdsl.baselines", "spdsl.estimators", "spdsl.features.transformers")  # their classes are added by `savable`


def savable(*needed: str) -> Callable[[C], C]:
    """Class decorator: objects of this class, but not of its subclasses, can be saved.

    Parameters
    ----------
    *needed : str
        Fitted attributes without which a file is refused.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from spdsl.models import savable
    >>> @savable("mean_")
    ... class Center(BaseEstimator):
    ...     def fit(self, X, y=None):
    ...         self.mean_ = X.mean(axis=0)
    ...         return self
    """

    def register(cls: C) -> C:
        PARTS[cls.__name__] = Part(cls.__name__, cls.__module__, cls.__name__, needed)
        return cls

    return register


def part_of(value: Any) -> Part | None:
    """The entry of an object's class, if it has one."""
    cls = type(value)
    for part in PARTS.values():
        # compared by name, so that no module is imported
        if part.attribute == cls.__name__ and part.package == cls.__module__.partition(".")[0] and part.find() is cls:
            return part
    return None


def get_part(name: Any) -> Part:
    """The entry of this name, or an error."""
    for module in _OURS if isinstance(name, str) and name not in PARTS else ():
        importlib.import_module(module)
    if not isinstance(name, str) or name not in PARTS:
        raise ModelFileError(f"it contains an unknown class {str(name)[:80]!r}")
    return PARTS[name]


# ------------------------------------------------------------------------------------- classes of other packages


def _pipeline_fault(pipeline: Any) -> str | None:
    """A pipeline with a memory would, when fitted again, read pickles from a folder given in the file."""
    return (
        None
        if pipeline.memory is None
        else f"its memory is {pipeline.memory!r}, and only None can be saved; call set_params(memory=None)"
    )


def _machine_fault(machine: Any) -> str | None:
    """What is wrong with the arrays of a support vector machine, which its compiled code does not check, or None."""
    if not hasattr(machine, "support_"):
        return None
    try:
        count, pairs = len(machine.classes_), len(machine.classes_) * (len(machine.classes_) - 1) // 2
        vectors = len(machine.support_)
        width = (0, 0) if machine.kernel == "precomputed" else (vectors, machine.n_features_in_)
        shapes = {
            "support_": ("int32", (vectors,)),
            "support_vectors_": ("float64", width),
            "_n_support": ("int32", (count,)),
            "_dual_coef_": ("float64", (count - 1, vectors)),
            "_intercept_": ("float64", (pairs,)),
            "_probA": ("float64", (pairs if len(machine._probA) else 0,)),
            "_probB": ("float64", (len(machine._probA),)),
        }
        for name, (dtype, shape) in shapes.items():
            array = getattr(machine, name)
            if array.dtype != dtype or array.shape != shape:
                return f"its {name} is {array.dtype} {array.shape} but must be {dtype} {shape}"
            if not array.flags.c_contiguous:
                return f"its {name} has the wrong order of axes"
        index, shares = machine.support_, machine._n_support
        if vectors and not (index.min() >= 0 and index.max() < machine.shape_fit_[0]):
            return "its support_ has indices outside the training set"
        if shares.min() < 0 or int(shares.sum()) != vectors:
            return "its _n_support has a wrong sum"
        if not isinstance(machine.kernel, str) or machine._sparse or not np.isfinite(float(machine._gamma)):
            return "its kernel cannot be saved"
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        return f"its arrays do not fit together ({error})"
    return None


_LINEAR = ("classes_", "coef_", "intercept_")
_MACHINE = ("classes_", "support_", "support_vectors_", "_n_support", "_dual_coef_", "_intercept_", "_probA", "_probB")

_RENAMED = (
    ("metric_mean", "_metric_mean"),
    ("metric_map", "_metric_map"),
    ("metric_dist", "_metric_dist"),
)  # pyRiemann

for _module, _attribute, _needed, _check in (
    ("sklearn.pipeline", "Pipeline", (), _pipeline_fault),
    ("sklearn.preprocessing", "StandardScaler", ("n_features_in_",), None),
    ("sklearn.preprocessing", "MinMaxScaler", ("n_features_in_",), None),
    ("sklearn.preprocessing", "RobustScaler", ("n_features_in_",), None),
    ("sklearn.preprocessing", "Normalizer", ("n_features_in_",), None),
    ("sklearn.preprocessing", "LabelBinarizer", ("classes_", "y_type_"), None),
    ("sklearn.decomposition", "PCA", ("components_", "mean_"), None),
    ("sklearn.discriminant_analysis", "LinearDiscriminantAnalysis", _LINEAR, None),
    ("sklearn.linear_model", "LogisticRegression", _LINEAR, None),
    ("sklearn.linear_model", "RidgeClassifier", ("coef_", "intercept_"), None),
    ("sklearn.naive_bayes", "GaussianNB", ("classes_", "theta_", "var_"), None),
    ("sklearn.svm", "LinearSVC", _LINEAR, None),
    ("sklearn.svm", "SVC", _MACHINE, _machine_fault),
    ("pyriemann.estimation", "Covariances", (), None),
    ("pyriemann.estimation", "Shrinkage", (), None),
    ("pyriemann.tangentspace", "FGDA", ("classes_", "_W"), None),
    ("pyriemann.classification", "FgMDM", ("classes_", "_mdm", "_fgda"), None),
    ("pyriemann.tangentspace", "TangentSpace", ("reference_",), None),
    ("pyriemann.classification", "MDM", ("classes_", "covmeans_"), None),
):
    _name = f"{_module}.{_attribute}"
    PARTS[_name] = Part(_name, _module, _attribute, _needed, _check, _RENAMED if _module[:9] == "pyriemann" else ())
