"""What tells one estimator from another as JSON: class, parameters, and the code that a user has written for it.

Of installed packages the name of a class is enough; the code of a user changes between two runs under the same name.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import joblib
import numpy as np

Seen = frozenset[int]  # functions that are being told: one may call itself


def told(value: Any, seen: Seen = frozenset()) -> Any:
    """What tells one value of a parameter from another: estimators by class and parameters, arrays by digest."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        return [_name(type(value)), not_default(value, seen), *_code_of_class(type(value), seen)]
    if isinstance(value, list | tuple):
        return [told(item, seen) for item in value]
    if isinstance(value, Mapping):
        return {str(name): told(item, seen) for name, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(repr(told(item, seen)) for item in value)
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"array {value.shape} {value.dtype} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, partial):
        return ["partial", told(value.func, seen), told(value.args, seen), told(value.keywords, seen)]
    if isinstance(value, FunctionType):
        return _told_function(value, seen)
    if isinstance(value, type):
        return [_name(value), *_code_of_class(value, seen)]
    if isinstance(value, ModuleType):
        return value.__name__  # without its folder: an environment may move
    if isinstance(value, str | int | float | complex | np.generic | None):
        return repr(value)
    return [repr(value), _content(value)]  # the text of a table or tensor leaves numbers out


def not_default(model: Any, seen: Seen = frozenset()) -> dict[str, Any]:
    """Parameters that are not the default: a version that adds a parameter then still knows the cells of the one before.

    One that changes a default raises RESULT_VERSION.
    """
    usual = {name: parameter.default for name, parameter in inspect.signature(type(model)).parameters.items()}
    params = {name: told(value, seen) for name, value in sorted(model.get_params(deep=False).items())}
    return {name: found for name, found in params.items() if name not in usual or found != told(usual[name], seen)}


def _name(thing: Any) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _content(value: Any) -> str:
    """Digest of an object, or nothing for one that cannot be pickled."""
    try:
        return str(joblib.hash(value))
    except Exception:
        return ""


def _installed(module: str | None) -> bool:
    """Whether a module comes with Python or an installed package."""
    module = module or ""
    if module.partition(".")[0] in ("spdsl", "builtins"):
        return True  # RESULT_VERSION tells our versions apart
    file = getattr(sys.modules.get(module), "__file__", None)
    if module == "__main__" or file is None:
        return module != "__main__" and module in sys.builtin_module_names
    at = Path(file)
    return at.is_relative_to(sysconfig.get_path("stdlib")) or bool({"site-packages", "dist-packages"} & set(at.parts))


def _told_function(function: FunctionType, seen: Seen) -> list[Any]:
    """A function by its name, and one of the user by its code, defaults, and the variables that it takes from outside."""
    if id(function) in seen or _installed(function.__module__):
        return [_name(function)]
    seen |= {id(function)}
    enclosed = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    nonlocals = {name: cell.cell_contents for name, cell in enclosed if cell != CellType()}
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    used = {name: function.__globals__[name] for name in sorted(names & function.__globals__.keys())}
    return [
        _name(function),
        [_instructions(code) for code in _codes(function.__code__)],
        told([function.__defaults__, function.__kwdefaults__, nonlocals, used], seen),
    ]


def _code_of_class(cls: type, seen: Seen) -> list[Any]:
    """The methods of a class of the user, and of those that it inherits from."""
    found: list[Any] = []
    for part in cls.__mro__:
        if id(part) in seen or _installed(part.__module__):
            continue
        seen |= {id(part)}
        for name, value in sorted(vars(part).items()):
            if isinstance(value, staticmethod | classmethod):
                value = value.__func__
            if isinstance(value, property):
                value = value.fget
            if isinstance(value, _DEFINING) and name not in _OF_FILE:
                found.append([name, told(value, seen)])
    return found


_DEFINING = (FunctionType, str, int, float, tuple, list, dict, np.ndarray)
_OF_FILE = ("__module__", "__doc__", "__firstlineno__", "__static_attributes__", "__annotations__")


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of those defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _instructions(code: CodeType) -> list[Any]:
    """What a function does, wherever in a file it stands."""
    constants = [
        sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)
        for constant in code.co_consts
        if not isinstance(constant, CodeType)
    ]
    return [code.co_code.hex(), list(code.co_names), list(code.co_varnames), constants]
