"""The examples in the docstrings run as they stand, and no public name lacks one."""

import doctest
import functools
import inspect
import re
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import spdsl
import spdsl.datasets

ROOT = Path(__file__).parents[1]
REGISTRIES = ("METHODS", "METRICS", "OBJECTIVES")
BARE = {"Pullback", "Skeleton"}  # an alias of a type; what `read_asf` returns


def reference():
    """(module, name) of everything with a page of its own in the reference."""
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        module = "spdsl"
        for line in page.read_text().splitlines():
            if line.startswith(".. currentmodule:: "):
                module = line.split()[-1]
            elif re.fullmatch(r"   [A-Za-z][\w.]*", line):
                *inner, name = line.strip().split(".")
                yield ".".join([module, *inner]), name


NAMES = list(dict.fromkeys(reference()))

PUBLIC = ["data", "datasets", "estimators", "evaluation", "features", "geometry", "models", "plots"]


@pytest.mark.parametrize("module", ["spdsl", *(f"spdsl.{name}" for name in PUBLIC)])
def test_every_public_name_is_in_the_reference(module):
    listed = set(re.findall(r"\w+", "\n".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))))
    assert sorted(set(import_module(module).__all__) - listed) == []


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_parameter_is_described(module, name):
    public = getattr(import_module(module), name)
    if not is_error(public) and name not in BARE:
        expected = set(inspect.signature(public).parameters) - {"args", "kwargs"}
        assert sorted(expected - parameters(inspect.getdoc(public))) == []


def parameters(text):
    """Names in the section `Parameters`, for a record (a dataclass) in `Attributes`."""
    found = re.findall(r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    heads = [line.partition(" : ")[0] for line in "".join(found).splitlines() if line[:1].strip()]
    return {name.strip(" *") for head in heads for name in head.split(",")}


def is_error(public):
    return isinstance(public, type) and issubclass(public, Exception)


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """An empty folder to work in; what an example registers is forgotten; the digits are computed once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(spdsl.datasets, "load_digit_sets", digits)
    kept = {name: dict(getattr(spdsl, name)) for name in REGISTRIES}
    yield
    for name, before in kept.items():
        getattr(spdsl, name).clear()
        getattr(spdsl, name).update(before)


original = spdsl.datasets.load_digit_sets
digits = functools.wraps(original)(functools.cache(original))


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(("module", "name"), NAMES)
def test_the_example_of_a_docstring_runs(module, name):
    public = getattr(import_module(module), name)
    if is_error(public) or name in BARE:
        return
    text = inspect.getdoc(public) or ""
    example = doctest.DocTestParser().get_doctest(text, {"__name__": "example"}, f"{module}.{name}", None, 0)
    assert example.examples, f"{module}.{name} has no example"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert not said, "".join(said)
