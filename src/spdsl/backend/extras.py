"""Optional libraries: how to install them, and modules of users that register metrics, objectives and methods."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata

PLUGINS = "SPDSL_PLUGINS"  # environment variable: worker processes inherit it


def install_hint(extra: str) -> str:
    """A pip command that installs the requirements of an extra of spdsl.

    It names the requirements themselves, so it works whether spdsl came from a clone or from an index. Where spdsl has no
    such extra, it is the name of a package that a method of somebody else's needs.
    """
    try:
        lines = metadata.requires("spdsl") or []
    except metadata.PackageNotFoundError:  # run from the sources
        lines = []
    parts = dict.fromkeys(_requirements(extra, lines)) or [extra if lines else f"spdsl[{extra}]"]
    return f"pip install {' '.join(map(repr, parts))}"


def _requirements(extra: str, lines: list[str]) -> Iterator[str]:
    """Requirements of an extra among those of the package; extras of spdsl itself are resolved."""
    for line in lines:
        requirement, _, marker = line.partition(";")
        if f"extra=='{extra}'" not in re.sub(r"\s", "", marker).replace('"', "'"):
            continue
        own = re.match(r"spdsl\[(.*)\]", requirement.strip())
        if own is None:
            yield requirement.strip()
        else:
            for name in own[1].split(","):
                yield from _requirements(name.strip(), lines)


def load_plugins(names: Iterable[str]) -> None:
    """Import modules that register metrics, objectives or methods.

    The environment variable SPDSL_PLUGINS is set to their names, so that worker processes import them as well.
    """
    names = list(names)
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:  # anything can happen in the code of a user
            raise ImportError(
                f"plugin {name!r} cannot be imported ({type(error).__name__}: {error}); {_remedy(name, error)}"
            ) from error
    if names:
        os.environ[PLUGINS] = ",".join(dict.fromkeys([*named_plugins(), *names]))


def _remedy(name: str, error: Exception) -> str:
    """What to do about a plugin that cannot be imported."""
    if name.endswith(".py"):
        return f"pass the name of the module, {name.removesuffix('.py')!r}"
    if isinstance(error, ModuleNotFoundError) and error.name is not None and f"{name}.".startswith(f"{error.name}."):
        return "check the name of the module, and that it is in the current folder or installed"
    return "correct the module"


def load_named_plugins() -> bool:
    """Import the modules named in SPDSL_PLUGINS that are not imported yet; whether there were any."""
    missing = [name for name in named_plugins() if name not in sys.modules]
    load_plugins(missing)
    return bool(missing)


def named_plugins() -> list[str]:
    """The modules named in SPDSL_PLUGINS."""
    return [name for name in os.environ.get(PLUGINS, "").split(",") if name]
