"""Imports point one way, and the optional array libraries are imported in one file, when asked for."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import spdsl
from spdsl.models.parts import PARTS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "spdsl"
# a room imports only rooms above it
ROOMS = (
    "backend",
    "geometry",
    "data",
    "learning",
    "models",
    "estimators",
    "baselines",
    "features",
    "datasets",
    "evaluation",
    "plots",
    "cli",
)
OPTIONAL = {"torch", "cupy"}
DOORS = {"place.py", "validation.py", "cluster.py"}  # of the data room: where anything at all may come in from a user
# scikit-learn has no public names for the arrays that make up a support vector machine
FOREIGN = {"models/parts.py": {"_n_support", "_probA", "_sparse", "_gamma"}}


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
    if target == room or room.startswith("__") or target.startswith("__"):
        return None
    unknown = [name for name in (room, target) if name not in ROOMS]
    if unknown:
        return f"{unknown[0]} is no room: add it to ROOMS in this test"
    return None if ROOMS.index(target) < ROOMS.index(room) else f"the arrow {room} -> {target} points back"


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
        ("geometry", "from spdsl import backend", True),
        ("geometry", "from spdsl.learning.graph import PairGraph", False),
        ("backend", "import spdsl.learning.solver", False),
        ("learning", "from .estimators import SPDSL", False),
        ("estimators", "from . import learning", True),
        ("datasets", "from spdsl.features import x", True),
        ("features", "from spdsl.datasets import x", False),
        ("learning", "def f():\n    from spdsl.cli import main", False),
        ("geometry", "import spdsl", False),
        ("geometry", "from spdsl import SPDSL", False),
        ("geometry", "from spdsl.workshop import x", False),
        ("models", "from spdsl import __version__", True),
    ],
)
def test_the_check_itself_sees_arrows_that_point_back(room, line, allowed):
    whys = [complaint(room, target) for target, _ in imports_of(ast.parse(line), SOURCE / f"{room}.py")]
    assert len(whys) == 1
    assert (whys[0] is None) == allowed


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_torch_and_cupy_are_imported_in_the_backend_only_and_late(path):
    tree = ast.parse(path.read_text())
    top = {id(node) for node in ast.iter_child_nodes(tree)}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        if any(name.split(".")[0] in OPTIONAL for name in names):
            assert room_of(path) == "backend", f"line {node.lineno}: only the backend imports {names}"
            assert id(node) not in top, f"line {node.lineno}: {names} is imported at module level"


def private_names_from_elsewhere(source):
    """Uses `other._name` of names that the module itself does not define: the private parts of another module's class."""
    tree = ast.parse(source)
    defined, imported = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
                defined.add(node.attr)
        elif isinstance(node, ast.Import):
            imported |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "spdsl":
            yield from (
                alias.name for alias in node.names if alias.name.startswith("_") and alias.name != "__version__"
            )
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls", *(imported - {"spdsl"})}
        parent = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super"
        if not own and not parent and node.attr not in defined:
            yield node.attr


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_private_name_is_used_across_classes(path):
    found = set(private_names_from_elsewhere(path.read_text()))
    assert found <= FOREIGN.get(str(path.relative_to(SOURCE)), set())


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("view._pass()", ["_pass"]),
        ("def f(part):\n    return [part.view._W for _ in part]", ["_W"]),
        ("from spdsl.data.memory import _sum", ["_sum"]),
        ("spdsl._HOME", ["_HOME"]),
        ("class A:\n    def _pass(self):\n        return self._rest\ndef f(a):\n    a._pass()", []),
        ("import os\nos._exit(0)", []),
        ("class A(B):\n    def f(self):\n        super()._f(self._g)", []),
    ],
)
def test_the_check_itself_sees_private_names_of_others(source, found):
    assert list(private_names_from_elsewhere(source)) == found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_promised_method_is_missing(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Raise) and node.exc is not None:
            assert "NotImplementedError" not in ast.unparse(node.exc), f"line {node.lineno}"


LEARNING = [path for path in MODULES if room_of(path) in ("data", "learning")]


@pytest.mark.parametrize("path", LEARNING, ids=lambda p: str(p.relative_to(SOURCE)))
def test_what_a_protocol_promises_is_not_asked_for(path):
    """No question what kind of object X is but at its doors."""
    found = [] if path.name in DOORS else list(questions(path.read_text()))
    assert found == []


PLACES = {"Data", "View"} | {
    f"{place}{kind}"
    for place in ("Memory", "Disk", "Factored", "Cluster", "Block", "Streamed", "Reread", "Preconditioned")
    for kind in ("Data", "View")
}


def questions(source):
    """Uses of `hasattr`, and of `isinstance` with a class of the data room."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("hasattr", "isinstance"):
            classes = {inner.id for inner in ast.walk(node.args[1]) if isinstance(inner, ast.Name)}
            if node.func.id == "hasattr" or classes & PLACES:
                yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("source", ["hasattr(X, 'neighbors')", "isinstance(X, DiskData)", "isinstance(X, str | Data)"])
def test_the_check_itself_sees_what_is_asked_for(source):
    assert len(list(questions(source))) == 1
    assert list(questions("isinstance(error, ValueError)")) == []


WORK = {"fit", "fit_transform", "fit_predict", "cost", "compare"}  # that takes time


def work_at_import(source):
    """Calls that do work outside of every function, so that even collecting the tests takes their time."""
    waiting = [ast.parse(source)]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WORK:
                yield f"line {node.lineno}: {ast.unparse(node)}"
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                waiting.append(node)


@pytest.mark.parametrize("path", sorted(ROOT.glob("tests/**/*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_is_fitted_when_tests_are_collected(path):
    assert list(work_at_import(path.read_text())) == []


def test_the_check_itself_sees_a_fit_at_import():
    assert list(work_at_import("A = {'a': [model().fit(X, y)]}")) == ["line 1: model().fit(X, y)"]
    assert list(work_at_import("A = lambda: model().fit(X, y)\ndef f():\n    model().fit(X, y)")) == []


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
    assert run_python("import spdsl; print(spdsl.geometry.get_metric('lem').name)") == ["lem"]
    for name in ("SPDLS", "_secret", "no.module", ""):
        assert not hasattr(spdsl, name)


def test_a_model_finds_its_classes_though_nothing_else_is_imported():
    code = "from spdsl.models.parts import get_part; print(*(get_part(name).find().__name__ for name in {}))"
    ours = [name for name, part in PARTS.items() if part.package == "spdsl"]
    assert run_python(code.format(ours)) == ours
