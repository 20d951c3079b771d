"""The classes that may stand in a model file. A name in a file is looked up here and nowhere else."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from spdsl.models.errors import ModelFileError

C = TypeVar("C", bound=type)


@dataclass(frozen=True)
class Part:
    """A class that may stand in a model file.

    Attributes
    ----------
    name : str
        In files; our own classes by their bare name.
    module, attribute : str
        Where the class is found.
    needed : tuple of str
        Fitted attributes without which it cannot be used.
    check : callable, optional
        What is wrong with an object, or None; for classes that could do harm with what an edited file gives them.
    renamed : tuple of pairs
        Two names that different versions give to the same attribute; a file has either, an object gets both.
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
        """The class itself; imported on demand, since most models need few of them."""
        try:
            return getattr(importlib.import_module(self.module), self.attribute)
        except (ImportError, AttributeError) as error:
            raise ImportError(f"this model holds a {self.name}, which cannot be imported ({error})") from error


PARTS: dict[str, Part] = {}
_OURS = ("spdsl.baselines", "spdsl.estimators", "spdsl.heads", "spdsl.neighbors")  # their classes enter by `savable`


def savable(*needed: str) -> Callable[[C], C]:
    """Class decorator: objects of this class, but not of its subclasses, can be saved; `needed` as in `Part`."""

    def register(cls: C) -> C:
        PARTS[cls.__name__] = Part(cls.__name__, cls.__module__, cls.__name__, needed)
        return cls

    return register


def part_of(value: Any) -> Part | None:
    """The entry of an object's class, if it has one."""
    cls = type(value)
    for part in PARTS.values():
        # modules that are compared by name only are not imported for it
        if part.attribute == cls.__name__ and part.package == cls.__module__.partition(".")[0] and part.find() is cls:
            return part
    return None


def get_part(name: Any) -> Part:
    """The entry of that name, or an error."""
    for module in _OURS if isinstance(name, str) and name not in PARTS else ():
        importlib.import_module(module)
    if not isinstance(name, str) or name not in PARTS:
        raise ModelFileError(f"it names the class {str(name)[:80]!r}, which is none that spdsl saves")
    return PARTS[name]


# ------------------------------------------------------------------------------------- what other packages contribute


def _pipeline_fault(pipeline: Any) -> str | None:
    """A pipeline with a memory would, when fitted again, read pickles from a folder that the file names."""
    return None if pipeline.memory is None else f"its memory is {pipeline.memory!r} where only None can be saved"


def _machine_fault(machine: Any) -> str | None:
    """Whether the arrays of a support vector machine fit together: its compiled code does not look."""
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
                return f"its {name} is {array.dtype} {array.shape} instead of {dtype} {shape}"
            if not array.flags.c_contiguous:
                return f"its {name} has the wrong order of axes"
        index, shares = machine.support_, machine._n_support
        if vectors and not (index.min() >= 0 and index.max() < machine.shape_fit_[0]):
            return "its support_ points outside the training set"
        if shares.min() < 0 or int(shares.sum()) != vectors:
            return "its _n_support does not add up"
        if not isinstance(machine.kernel, str) or machine._sparse or not np.isfinite(float(machine._gamma)):
            return "its kernel is none that can be saved"
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
    ("sklearn.preprocessing", "LabelBinarizer", ("classes_", "y_type_"), None),
    ("sklearn.decomposition", "PCA", ("components_", "mean_"), None),
    ("sklearn.discriminant_analysis", "LinearDiscriminantAnalysis", _LINEAR, None),
    ("sklearn.linear_model", "LogisticRegression", _LINEAR, None),
    ("sklearn.linear_model", "RidgeClassifier", ("coef_", "intercept_"), None),
    ("sklearn.naive_bayes", "GaussianNB", ("classes_", "theta_", "var_"), None),
    ("sklearn.svm", "LinearSVC", _LINEAR, None),
    ("sklearn.svm", "SVC", _MACHINE, _machine_fault),
    ("pyriemann.tangentspace", "TangentSpace", ("reference_",), None),
    ("pyriemann.classification", "MDM", ("classes_", "covmeans_"), None),
):
    _name = f"{_module}.{_attribute}"
    PARTS[_name] = Part(_name, _module, _attribute, _needed, _check, _RENAMED if _module[:9] == "pyriemann" else ())
