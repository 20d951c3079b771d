"""Imports point one way, and the optional array libraries are imported in one file, when asked for."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import spdsl
from spdsl.models.parts import PARTS

SOURCE = Path(__file__).parents[1] / "src" / "spdsl"
# a room may import those on lower floors, and nothing on its own floor but itself
FLOORS = [
    {"threads"},
    {"arrays"},
    {"validation", "progress", "writing"},
    {"metrics"},
    {"search"},
    {"graphs"},
    {"objectives"},
    {"stacks"},
    {"samples"},
    {"manifolds", "lines", "starts"},
    {"models"},
    {"solver", "neighbors"},
    {"heads", "checkpoints"},
    {"reduction"},
    {"estimators"},
    {"baselines"},
    {"methods"},
    {"experiments"},
    {"commands"},
    {"cli"},
]
SIDE_ROOMS = {"features": {"arrays", "validation"}, "datasets": {"arrays", "validation", "writing", "features"}}
LEVEL = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
OPTIONAL = {"torch", "cupy"}


def room_of(path):
    """First part of the module's name below spdsl."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(tree, path):
    """Rooms of spdsl that a module imports, with line numbers."""
    package = ["spdsl", *path.relative_to(SOURCE).parts[:-1]]
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "spdsl" else [module]
        for name in names:
            parts = name.split(".")
            if parts[0] == "spdsl":  # the bare package gives access to every room: no room may import it
                yield parts[1] if len(parts) > 1 else "spdsl", node.lineno


def complaint(room, target):
    """Why `room` must not import `target`, or None."""
    if target == room or room in ("__init__", "__main__") or target.startswith("__"):
        return None
    if room in SIDE_ROOMS:
        return None if target in SIDE_ROOMS[room] else f"{room} may import only {sorted(SIDE_ROOMS[room])}"
    if room not in LEVEL:
        return f"{room} has no floor: add it to FLOORS in this test"
    if target in SIDE_ROOMS:
        return None if LEVEL[room] >= LEVEL["experiments"] else f"the core must not import {target}"
    if target not in LEVEL:
        return f"{target} has no floor: add it to FLOORS in this test"
    return None if LEVEL[target] < LEVEL[room] else f"the arrow {room} -> {target} points back"


MODULES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path):
    tree = ast.parse(path.read_text())
    found = [
        f"line {line}: {why}"
        for target, line in imports_of(tree, path)
        if (why := complaint(room_of(path), target)) is not None
    ]
    assert found == []


@pytest.mark.parametrize(
    ("room", "line", "allowed"),
    [
        ("metrics", "from spdsl import arrays", True),
        ("metrics", "from spdsl.graphs import PairGraph", False),
        ("arrays", "import spdsl.solver", False),
        ("solver", "from .estimators import SPDSL", False),
        ("estimators", "from . import solver", True),
        ("datasets", "from spdsl.features import x", True),
        ("features", "from spdsl.datasets import x", False),
        ("objectives", "def f():\n    from spdsl.cli import main", False),
        ("metrics", "import spdsl", False),
        ("metrics", "from spdsl import SPDSL", False),
        ("models", "from spdsl import __version__", True),
    ],
)
def test_the_check_itself_sees_arrows_that_point_back(room, line, allowed):
    whys = [complaint(room, target) for target, _ in imports_of(ast.parse(line), SOURCE / f"{room}.py")]
    assert len(whys) == 1
    assert (whys[0] is None) == allowed


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_torch_and_cupy_are_imported_in_arrays_only_and_late(path):
    tree = ast.parse(path.read_text())
    top = {id(node) for node in ast.iter_child_nodes(tree)}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        if any(name.split(".")[0] in OPTIONAL for name in names):
            assert path.name == "arrays.py", f"line {node.lineno}: only arrays.py imports {names}"
            assert id(node) not in top, f"line {node.lineno}: {names} is imported at module level"


def run_python(code):
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_an_import_brings_in_nothing_slow_and_starts_nothing():
    code = "import sys; known = set(sys.modules); import spdsl, spdsl.cli; print(*set(sys.modules) - known)"
    tops = {name.partition(".")[0] for name in run_python(code)}
    assert tops - set(sys.stdlib_module_names) == {"spdsl"}
    code = "import spdsl, threading; print(threading.active_count())"
    if Path("/proc/self/task").is_dir():  # threads of compiled libraries too
        code += "; import os; print(len(os.listdir('/proc/self/task')))"
    assert set(run_python(code)) == {"1"}


def test_the_learners_import_neither_torch_nor_what_extras_bring():
    # rich is not among them: scikit-learn itself may bring it
    extras = ("torch", "cupy", "cv2", "typer", "pyriemann", "matplotlib", "safetensors")
    assert run_python(f"import sys; from spdsl import *; print(*(m for m in {extras} if m in sys.modules))") == []


def test_public_names_are_found_when_asked_for():
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    typed = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("spdsl.")
        for alias in node.names
    }
    assert typed == {(f"spdsl.{module}", name) for name, module in spdsl._HOME.items()}
    assert sorted(spdsl.__all__) == sorted(spdsl._HOME)
    for name in spdsl.__all__:
        assert getattr(spdsl, name) is getattr(importlib.import_module(f"spdsl.{spdsl._HOME[name]}"), name)
    assert set(spdsl.__all__) <= set(dir(spdsl))
    assert run_python("import spdsl; print(spdsl.metrics.get_metric('lem').name)") == ["lem"]
    for name in ("SPDLS", "_secret", "no.module", ""):
        assert not hasattr(spdsl, name)


def test_a_model_finds_its_classes_though_nothing_else_is_imported():
    code = "from spdsl.models.parts import get_part; print(*(get_part(name).find().__name__ for name in {}))"
    ours = [name for name, part in PARTS.items() if part.package == "spdsl"]
    assert run_python(code.format(ours)) == ours
