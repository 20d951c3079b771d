"""The Python of the guide and of the theory pages runs, and what a page shows below a block is what the block says."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import shlex
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

import spdsl
from spdsl.backend.extras import PLUGINS
from test_cli import run

matplotlib.use("Agg")
DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for part in ("guide", "theory") for path in (DOCS / part).glob("*.md"))
# a block, the package that it needs, and what the page shows directly below it; or commands
BLOCK = re.compile(
    r"(?:<!-- needs: (\w+) -->\n)?```python\n(.*?)```\n(?:\n```text\n(.*?)```)?|<!-- run -->\n```console\n(.*?)```",
    re.DOTALL,
)
UNRUN = re.compile(r"```\{code-block\} python\n(.*?)```", re.DOTALL)


def outcome(code: str, name: str, scope: dict) -> str:
    """What a reader sees of a block: the error or else the warnings, else what it prints."""
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            exec(compile(code, name, "exec"), scope)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    return "\n".join(f"{w.category.__name__}: {w.message}" for w in caught) or printed.getvalue()


@pytest.fixture
def registries_as_they_were():
    registries = (spdsl.METRICS, spdsl.OBJECTIVES, spdsl.METHODS)
    before = [dict(registry) for registry in registries]
    yield
    for registry, kept in zip(registries, before, strict=True):
        registry.clear()
        registry.update(kept)
    plt.close("all")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("registries_as_they_were")
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PLUGINS, raising=False)
    scope = {"__name__": "page"}
    monkeypatch.setenv("SPDSL_CACHE", str(tmp_path / "cache"))
    for k, (needs, code, shown, commands) in enumerate(BLOCK.findall((DOCS / page).read_text())):
        for command in commands.splitlines():
            run(*shlex.split(command.removeprefix("$ spdsl ")))
        if needs and importlib.util.find_spec(needs) is None:
            continue
        said = outcome(code, f"{page}, block {k}", scope)
        if shown:
            assert said.split() == shown.split()
        else:
            assert not re.match(r"\w+(Error|Warning):", said), f"{code}\n{said}"


def test_blocks_that_are_not_run_are_few_and_parse():
    """They need a cluster, a GPU, or files that are not here."""
    blocks = [block for page in PAGES for block in UNRUN.findall((DOCS / page).read_text())]
    assert 1 <= len(blocks) <= 4
    for block in blocks:
        ast.parse(block)


ROOT = DOCS.parent
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
@pytest.mark.usefixtures("registries_as_they_were")
def test_the_commands_of_a_page_exist_with_their_options(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("mine.py").touch()  # what the pages call a plugin
    text = path.read_text()
    shown = re.findall(r"(?<!`)`(spdsl [a-z][^`]*|make [a-z-]+|python benchmarks/[^`]+)`", text)
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        shown += [line.removeprefix("$ ") for line in block.splitlines()]
    for line in shown:
        words = shlex.split(re.split(r" [|#] ", line)[0], comments=True)
        if words[:1] == ["spdsl"]:
            run(*words[1:], "--help")
        elif words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
        elif words[:1] == ["python"] and words[1].endswith(".py"):
            assert (ROOT / words[1]).exists(), line


def test_every_page_is_in_its_table_of_contents():
    for page in PAGES:
        folder, name = page.split("/")
        listed = (DOCS / folder / "index.md").read_text().partition("```{toctree}")[2].split()
        assert name == "index.md" or name.removesuffix(".md") in listed, page


def test_the_figures_of_the_theory_are_drawn(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("theory_figures", DOCS / "_ext" / "theory_figures.py")
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    monkeypatch.setattr(figures, "INK", {"light": "#222222"})
    figures.draw(tmp_path)
    drawn = {path.name for path in tmp_path.glob("*.svg") if path.stat().st_size > 5000}
    shown = re.findall(r"\{figure\} img/(\S+)", "".join((DOCS / page).read_text() for page in PAGES))
    assert drawn == {name for name in shown if "light" in name}
    assert {name.replace("dark", "light") for name in shown if "dark" in name} == drawn
    monkeypatch.setattr(figures, "FIGURES", None)  # the pictures are not made again
    figures.draw(tmp_path)
