"""Parts of the reference that are not docstrings: every command with its options, and tables of the registries."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

import typer
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import spdsl
from spdsl.cli.app import app
from spdsl.cli.listing import CATEGORIES

OUTSIDE = {
    "](../CONTRIBUTING.md": "](/contributing.md",
    "[benchmarks/NOTES.md](../benchmarks/NOTES.md)": "`benchmarks/NOTES.md`",
}


def inline(text: str) -> nodes.paragraph:
    """A paragraph in which what stands between backticks is code."""
    found = nodes.paragraph()
    for k, part in enumerate(re.split(r"`+([^`]+)`+", " ".join(text.split()))):
        if part:
            found += nodes.literal(part, part) if k % 2 else nodes.Text(part)
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> nodes.table:
    """A table whose cells are text with code between backticks; the same in Markdown and reStructuredText."""
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in head), cols=len(head))
    for part, lines in ((nodes.thead(), [head]), (nodes.tbody(), rows)):
        part += [nodes.row("", *(nodes.entry("", inline(str(cell))) for cell in line)) for line in lines]
        group += part
    return nodes.table("", group, classes=["colwidths-auto"])


def code(text: Any) -> str:
    """The text as code, or nothing."""
    return f"`{text}`" if str(text) else ""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command with its full name."""
    for name, command in typer.main.get_command(app).commands.items():
        for inner, nested in getattr(command, "commands", {}).items():
            yield f"{name} {inner}", nested
        if not hasattr(command, "commands"):
            yield name, command


def option(parameter: Any) -> nodes.definition_list_item:
    """Name with its value, help, default."""
    value = parameter.metavar or parameter.name.upper()
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    argument = parameter.param_type_name == "argument"
    name = value if argument else names if parameter.is_flag else f"{names} {value}"
    fixed = parameter.default in (None, False) or callable(parameter.default) or argument
    text = (parameter.help or "") + ("" if fixed else f" Default: `{parameter.default}`.")
    term = nodes.term("", "", nodes.literal(name, name))
    return nodes.definition_list_item("", term, nodes.definition("", inline(text)))


class Commands(SphinxDirective):
    """Every command: what it does, its arguments and options."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        found: list[nodes.Node] = []
        for name, command in commands():
            section = nodes.section(ids=[f"spdsl-{name.replace(' ', '-')}"])
            section += nodes.title("", f"spdsl {name}")
            section += [inline(text) for text in inspect.cleandoc(command.help or "").split("\n\n")]
            section += nodes.definition_list("", *(option(p) for p in command.params if p.name != "help"))
            found.append(section)
        return found


class Registry(SphinxDirective):
    """The built-in metrics, objectives or methods."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        return [table(*getattr(self, self.arguments[0])())]

    def metrics(self) -> tuple[Sequence[str], list[Sequence[str]]]:
        """Names, formulas and invariances."""
        rows = [
            (
                code(m.name),
                ", ".join(map(code, m.aliases)),
                code(m.formula),
                m.invariance + (", scale" if m.scale_free else ""),
            )
            for m in spdsl.METRICS.values()
        ]
        return ("name", "aliases", "squared distance", "invariance"), rows

    def objectives(self) -> tuple[Sequence[str], list[Sequence[str]]]:
        """Names and first lines."""
        rows = [(code(name), (inspect.getdoc(o) or "").split("\n\n")[0]) for name, o in spdsl.OBJECTIVES.items()]
        return ("name", "what it does"), rows

    def methods(self) -> tuple[Sequence[str], list[Sequence[str]]]:
        """Names, estimators and what is tuned."""
        rows = [
            (code(m.name), CATEGORIES[m.category], code(" ".join(repr(m.factory()).split())), ", ".join(m.grid))
            for m in spdsl.METHODS.values()
            if not m.registered
        ]
        return ("name", "category", "estimator", "tuned over"), rows


def inside(app: Any, docname: str, source: list[str]) -> None:
    """Links that lead to the repository lead to the site, where the page is part of it."""
    for before, after in OUTSIDE.items():
        source[0] = source[0].replace(before, after)


def link_pages(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Pages that a docstring names become links."""
    lines[:] = [re.sub(r"\bdocs/([\w/-]+)\.md\b", r":doc:`/\1`", line) for line in lines]


def skip_borrowed(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what scikit-learn adds to every estimator."""
    borrowed = str(getattr(member, "__module__", "")).startswith("sklearn") or name.endswith("_request")
    return True if borrowed else None


def by_short_name(app: Any, env: Any, node: Any, content: nodes.Element) -> nodes.Node | None:
    """A name in a docstring of another module: the only documented object that is called so."""
    if node.get("reftype") != "obj" or not node["reftarget"].isidentifier():
        return None
    domain = env.domains["py"]
    found = [name for name in domain.objects if name.rpartition(".")[2] == node["reftarget"]]
    if len(found) != 1 or domain.objects[found[0]].objtype not in ("class", "function", "exception", "data"):
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", found[0], node, content)


def setup(app: Any) -> dict[str, bool]:
    """Add the directives and the rules."""
    app.connect("autodoc-process-docstring", link_pages)
    app.connect("autodoc-skip-member", skip_borrowed)
    app.connect("missing-reference", by_short_name, priority=100)
    app.connect("source-read", inside)
    app.add_directive("spdsl-commands", Commands)
    app.add_directive("spdsl-registry", Registry)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
