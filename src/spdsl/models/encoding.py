"""Objects as JSON and arrays, and back.

Numbers, strings, lists, True, False and None are stored as they are. Anything else is a JSON object with one of the keys
below, its kind; arrays are stored separately under the dotted names of their place.

============ ===================================================================================================
kind         content
============ ===================================================================================================
array        name of an array; `axes`: their memory order, on which the last digits of products depend
labels       entries of a 1-D array of strings, Python objects or classes; `dtype`
number       a NumPy scalar; `dtype`
float        "nan", "inf" or "-inf"
tuple, dict  entries; pairs of key and value
metric       a name of `spdsl.METRICS`; `blocks`: the number of blocks, if it is a sum over blocks
objective    a name of `spdsl.OBJECTIVES`
graph        number of samples of a `PairGraph`; `same` and, unless it is full, `i` and `j`
estimator    a name of `PARTS`; `params`, `fitted`
============ ===================================================================================================
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from spdsl import backend
from spdsl.geometry import METRICS, BlockSum, Metric, get_metric
from spdsl.learning.graph import PairGraph
from spdsl.learning.objectives import OBJECTIVES, Objective, get_objective
from spdsl.models.errors import ModelFileError
from spdsl.models.parts import PARTS, Part, get_part, part_of

KINDS = "biuf"  # dtype kinds of arrays: booleans, integers, floats
NOT_SAVED = ("callback", "checkpoint", "device")  # code, a local path, and a machine: not part of what was learned
LABEL_BYTES = 1 << 26  # the most memory that a file can request with a wide dtype for a few labels
_ODD_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Encoder:
    """Encode an estimator as JSON.

    Attributes
    ----------
    arrays : dict
        The arrays to store, C-contiguous.
    left_out : list of str
        Names of parameters that are not saved.
    packages : set of str
        Packages that the parts come from.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.left_out: list[str] = []
        self.packages: set[str] = set()

    def encode(self, value: Any, at: str) -> Any:
        """JSON for a value with the dotted name `at`."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, np.generic) and value.dtype.kind in KINDS:
            return {"number": self.encode(value.item(), at), "dtype": value.dtype.name}
        if isinstance(value, int | float):
            return value if isinstance(value, int) or math.isfinite(value) else {"float": str(value)}
        if backend.is_array(value):
            return self._array(backend.to_numpy(value), at)
        if isinstance(value, list | tuple):
            items = [self.encode(item, f"{at}.{k}") for k, item in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        if isinstance(value, dict):
            return {"dict": [[self.encode(k, at), self.encode(v, f"{at}.{k}")] for k, v in value.items()]}
        return self._object(value, at)

    def _object(self, value: Any, at: str) -> Any:
        if isinstance(value, BlockSum):
            return {**self._object(value.metric, at), "blocks": value.blocks}
        if isinstance(value, Metric):
            known = METRICS.get(value.name)
            if type(known) is not type(value) or vars(known) != vars(value):
                raise ModelFileError(
                    f"{at} is the metric {value.name!r}, which is not registered; call spdsl.register_metric before saving"
                )
            return {"metric": value.name}
        if isinstance(value, type) and issubclass(value, Objective):
            if OBJECTIVES.get(value.name) is not value:
                raise ModelFileError(
                    f"{at} is the objective {value.name!r}, which is not registered; call spdsl.register_objective before "
                    f"saving"
                )
            return {"objective": value.name}
        if isinstance(value, PairGraph):
            names = ("same",) if value.is_full else ("i", "j", "same")
            parts = {name: self.encode(getattr(value, name), f"{at}.{name}") for name in names}
            return {"graph": value.n_samples, **parts}
        if (type(value).__module__, type(value).__name__) == ("torch", "device"):
            return str(value)
        if isinstance(value, BaseEstimator):
            return self.estimator(value, at)
        raise ModelFileError(f"{at} is a {type(value).__name__}, which cannot be stored in a model file")

    def estimator(self, value: Any, at: str) -> dict[str, Any]:
        """JSON for an estimator, fitted or not."""
        part = part_of(value)
        if part is None:
            ours = ", ".join(name for name in PARTS if "." in name)
            if hasattr(value, "best_estimator_"):
                raise ModelFileError(f"{at} is a search; save what it found, its best_estimator_")
            raise ModelFileError(
                f"{at} is a {type(value).__module__}.{type(value).__name__}, which cannot be saved without pickle; "
                f"besides the estimators of spdsl, these can be saved: {ours}"
            )
        _check_fault(part, value, at)
        self.packages.add(part.package)
        params = value.get_params(deep=False)
        fitted = {name: item for name, item in vars(value).items() if name not in params}
        for name in fitted:
            _check_name(name, type(value))
        kept = self._kept(params, value, at)
        return {
            "estimator": part.name,
            "params": {name: self.encode(item, f"{at}.{name}") for name, item in kept.items()},
            "fitted": {
                name: self._labels(item) if name == "classes_" else self.encode(item, f"{at}.{name}")
                for name, item in fitted.items()
            },
        }

    def _kept(self, params: Mapping[str, Any], value: Any, at: str) -> dict[str, Any]:
        """Parameters to save; for other packages only non-default ones, since new versions may rename parameters."""
        kept = {}
        signature = inspect.signature(type(value)).parameters
        for name, item in params.items():
            if name in NOT_SAVED and item is not None:
                self.left_out.append(f"{at}.{name}")
                item = None
            elif name == "random_state" and not isinstance(item, int | np.integer | None):
                warnings.warn(
                    f"{at}.random_state={item!r} is not saved, and the loaded model has None; use an integer to save it",
                    UserWarning,
                    stacklevel=2,
                )
                self.left_out.append(f"{at}.{name}")
                item = None
            foreign = not type(value).__module__.startswith("spdsl.")
            if foreign and isinstance(item, str | int | float | None) and item == signature[name].default:
                continue
            kept[name] = item
        return kept

    def _array(self, value: np.ndarray, at: str) -> dict[str, Any]:
        if value.dtype.kind in "OU" and value.ndim == 1:
            return self._labels(value)
        value = np.asarray(value, dtype=value.dtype.newbyteorder("="))
        if value.dtype.kind not in KINDS or value.dtype.itemsize > 8:
            raise ModelFileError(f"{at} is an array of {value.dtype}, which cannot be stored in a model file")
        if at in self.arrays:
            raise ModelFileError(f"two arrays have the name {at}")
        axes = _memory_order(value)
        self.arrays[at] = np.ascontiguousarray(value.transpose(axes)).reshape([value.shape[axis] for axis in axes])
        return {"array": at} if axes == list(range(value.ndim)) else {"array": at, "axes": axes}

    def _labels(self, value: Any) -> dict[str, Any]:
        """Classes, or an array of strings."""
        value = backend.to_numpy(value)
        if value.ndim != 1 or value.dtype.kind not in KINDS + "OU" or value.nbytes > LABEL_BYTES:
            raise ModelFileError(
                f"labels of type {value.dtype} and shape {value.shape} cannot be stored in a model file"
            )
        entries = [item.item() if isinstance(item, np.generic) else item for item in value.tolist()]
        odd = [item for item in entries if not isinstance(item, str | int | float)]
        if odd:
            raise ModelFileError(
                f"the label {odd[0]!r} is a {type(odd[0]).__name__}; only strings and numbers can be saved"
            )
        text = "object" if value.dtype.kind == "O" else value.dtype.newbyteorder("=").str
        return {"labels": [self.encode(item, "labels") for item in entries], "dtype": text}


class Decoder:
    """Decode an estimator from JSON.

    Attributes
    ----------
    unused : set of str
        Arrays that have not been used.
    packages : set of str
    """

    def __init__(self, kept_aside: Mapping[str, np.ndarray]) -> None:
        self._arrays = kept_aside
        self.unused = set(kept_aside)
        self.packages: set[str] = set()

    def decode(self, node: Any) -> Any:
        """The value of a JSON node."""
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        for kind in (
            "array",
            "labels",
            "number",
            "float",
            "tuple",
            "dict",
            "metric",
            "objective",
            "graph",
            "estimator",
        ):
            if kind in node:
                return getattr(self, f"_{kind}")(node)
        raise ModelFileError(f"it contains an object of unknown kind ({', '.join(map(str, node))[:80]})")

    def _array(self, node: dict[str, Any]) -> np.ndarray:
        name = node["array"]
        if name not in self.unused:
            raise ModelFileError(f"the array {str(name)[:80]!r} is missing or used twice")
        self.unused.remove(name)
        value = self._arrays[name]
        axes = node.get("axes", list(range(value.ndim)))
        if sorted(axes) != list(range(value.ndim)):
            raise ModelFileError(f"the array {name!r} has axes {axes}")
        return value.transpose([axes.index(axis) for axis in range(value.ndim)])

    def _labels(self, node: dict[str, Any]) -> np.ndarray:
        dtype, entries = np.dtype(_text(node["dtype"])), [self.decode(item) for item in node["labels"]]
        if dtype.kind not in KINDS + "OU" or dtype.itemsize * len(entries) > LABEL_BYTES:
            raise ModelFileError(f"it contains labels of type {dtype}")
        if not all(isinstance(item, str | int | float) for item in entries):
            raise ModelFileError("it contains labels that are neither strings nor numbers")
        return np.array(entries, dtype=dtype)

    def _number(self, node: dict[str, Any]) -> Any:
        dtype = np.dtype(_text(node["dtype"]))
        if dtype.kind not in KINDS:
            raise ModelFileError(f"it contains a number of type {dtype}")
        return dtype.type(self.decode(node["number"]))

    def _float(self, node: dict[str, Any]) -> float:
        return _ODD_FLOATS[node["float"]]

    def _tuple(self, node: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.decode(item) for item in node["tuple"])

    def _dict(self, node: dict[str, Any]) -> dict[Any, Any]:
        return {self.decode(key): self.decode(item) for key, item in node["dict"]}

    def _metric(self, node: dict[str, Any]) -> Metric:
        try:
            metric = get_metric(_text(node["metric"], 80))
        except ValueError:
            raise ModelFileError(
                f"it uses the metric {str(node['metric'])[:80]!r}, which is not registered; register it with "
                f"spdsl.register_metric before loading"
            ) from None
        if "blocks" not in node:
            return metric
        if isinstance(node["blocks"], bool) or not isinstance(node["blocks"], int) or not 0 < node["blocks"] < 1 << 20:
            raise ModelFileError(f"it contains a metric with {str(node['blocks'])[:80]} blocks")
        return BlockSum(metric, node["blocks"])

    def _objective(self, node: dict[str, Any]) -> type[Objective]:
        try:
            return get_objective(_text(node["objective"], 80))
        except ValueError:
            raise ModelFileError(
                f"it uses the objective {str(node['objective'])[:80]!r}, which is not registered; register it with "
                f"spdsl.register_objective before loading"
            ) from None

    def _graph(self, node: dict[str, Any]) -> PairGraph:
        n, same = node["graph"], self.decode(node["same"])
        if "i" in node:
            return PairGraph(n, self.decode(node["i"]), self.decode(node["j"]), same)
        if len(same) != n * (n - 1) // 2:
            raise ModelFileError(f"its graph of {n} samples has {len(same)} pairs")
        return PairGraph(n, *np.triu_indices(n, 1), same)

    def _estimator(self, node: dict[str, Any]) -> Any:
        part = get_part(node["estimator"])
        cls: Any = part.find()
        self.packages.add(part.package)
        known = inspect.signature(cls).parameters
        params = {name: self.decode(item) for name, item in node["params"].items()}
        for name in params:
            if name not in known:
                raise ModelFileError(f"{part.name} has no parameter {name[:80]!r} in the installed version")
            if name == "device":  # files of earlier versions have it
                params[name] = None
            if name in NOT_SAVED and params[name] is not None:
                raise ModelFileError(f"it contains a {name}, which is never saved")
        value = cls(**params)  # constructors of estimators only store parameters
        for name, item in node["fitted"].items():
            _check_name(name, cls)
            vars(value)[name] = self.decode(item)
        for pair in part.renamed:
            for name, other in (pair, pair[::-1]):
                if other in vars(value) and not hasattr(value, name):
                    vars(value)[name] = vars(value)[other]
        # scikit-learn's own marker, without which an estimator cannot be used
        _check_whole(part, value, any(name.endswith("_") for name in node["fitted"]))
        return value


def _memory_order(value: np.ndarray) -> list[int]:
    """Axes from the slowest to the fastest; those of length one, whose stride is meaningless, come first."""
    if value.flags.c_contiguous:
        return list(range(value.ndim))
    return sorted(range(value.ndim), key=lambda axis: (value.shape[axis] > 1, -abs(value.strides[axis])))


def _text(value: Any, longest: int = 12) -> str:
    """The name of a dtype, which must be a short string: NumPy would parse longer ones as structured types."""
    if not isinstance(value, str) or len(value) > longest or "," in value:
        raise ModelFileError(f"it contains the invalid type {str(value)[:80]!r}")
    return value


def _check_name(name: str, cls: type) -> None:
    """Raise unless `name` is a valid name of a fitted attribute."""
    if not name.isidentifier() or name.startswith("__") or hasattr(cls, name):
        raise ModelFileError(f"{cls.__name__} cannot have a fitted attribute {name[:80]!r}")


def _check_whole(part: Part, value: Any, fitted: bool) -> None:
    """Raise if a fitted estimator lacks an attribute, or its parts do not fit together."""
    missing = [name for name in part.needed if name not in vars(value)] if fitted else []
    if missing:
        raise ModelFileError(f"the {part.name} in it lacks {missing[0]}")
    _check_fault(part, value, f"the {part.name} in it")


def _check_fault(part: Part, value: Any, what: str) -> None:
    """Raise if an object must not be saved or used."""
    fault = part.check(value) if part.check is not None else None
    if fault:
        raise ModelFileError(f"{what} cannot be used: {fault}")
