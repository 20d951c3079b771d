"""Names and messages of users are text: in a terminal, a spreadsheet, a page, a drawing, LaTeX and Markdown."""

from __future__ import annotations

import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import spdsl
from runs import HOSTILE, hostile_results, make_figures
from samples import labeled
from spdsl.cli.app import app
from spdsl.evaluation import tables
from spdsl.evaluation.report import write_report
from spdsl.evaluation.results import read_results
from spdsl.evaluation.text import markdown, tex
from spdsl.models.text import csv_cell, printable

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_executes_and_hides_nothing(tmp_path):
    results = hostile_results()
    path = next(iter(write_report(results, tmp_path, make_figures(list(HOSTILE.values())))))
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "img" not in {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert not CONTROL.search(text)
    shown = "".join(page.text)
    for name in HOSTILE.values():
        assert printable(name) in shown, name
    for drawing in (tmp_path / "figures").glob("*.svg"):
        content = drawing.read_text(encoding="utf-8")
        ElementTree.fromstring(content)
        assert not CONTROL.search(content)
        assert "<script" not in content
        assert "onerror" not in re.sub(r"<!--.*?-->", "", content, flags=re.DOTALL)


def test_no_cell_of_a_spreadsheet_is_a_formula():
    results = hostile_results()
    comparison = tables.to_csv(results), tables.cells_to_csv(results), tables.seconds_to_csv(results)
    for text in comparison:
        assert not CONTROL.search(text)
        for row in csv.reader(io.StringIO(text)):
            for cell in row:
                assert not cell.startswith(("=", "+", "@", "\t", "\r")), cell
                assert not cell.startswith("-") or re.fullmatch(r"-[\d.e+-]+", cell), cell
    names = {row[1] for row in csv.reader(io.StringIO(tables.to_csv(results)))}
    assert "'" + HOSTILE["formula"] in names


def test_the_terminal_sees_no_code_and_no_markup():
    results = hostile_results()
    shown = io.StringIO()
    console = Console(file=shown, width=2000, force_terminal=False)
    console.print(tables.to_rich(results))
    for note in tables.notes(results):
        assert not CONTROL.search(printable(note))
    text = shown.getvalue()
    assert not CONTROL.search(text)
    assert "[bold red]x[/bold red]" in text
    assert r"\x1b]0;owned\x07" in text


def test_latex_has_no_command_of_a_user():
    text = tables.to_latex(hostile_results())
    known = {
        "begin",
        "end",
        "caption",
        "centering",
        "toprule",
        "midrule",
        "bottomrule",
        "multicolumn",
        "emph",
        "textbf",
    }
    known |= {"pm", "par", "smallskip", "footnotesize", "textbackslash"}
    assert set(re.findall(r"\\([a-zA-Z]+)", text)) <= known
    assert len(re.findall(r"(?<!\\)\{", text)) == len(re.findall(r"(?<!\\)\}", text))
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert len({len(re.findall(r"(?<!\\)&", line)) for line in rows}) == 1


def test_markdown_has_no_tag_and_whole_rows():
    text = tables.to_markdown(hostile_results())
    assert not CONTROL.search(text)
    assert not re.search(r"<(?!/?sub)", text)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1


@pytest.mark.parametrize("name", HOSTILE.values(), ids=list(HOSTILE))
def test_each_escape_keeps_one_line_and_is_stable(name):
    for escape in (printable, csv_cell, markdown, tex):
        assert "\n" not in escape(name)
        assert not CONTROL.search(escape(name))
    assert printable(printable(name)) == printable(name)


def test_plain_names_and_numbers_stay_as_they_are():
    for name in ("SPDSL-LEM", "walk left", "größer", "日本", "-1.5e-3", "+2", "a=b"):
        assert printable(name) == csv_cell(name) == name
    assert csv_cell("-x") == "'-x"


def test_a_run_with_hostile_classes_methods_and_file_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["<script>alert(1)</script>", "=1+1", "\x1b[31mred"]
    X, y = labeled(30, 6, 3, seed=4)
    name = "<b>\x1b[31m=x.npz"
    np.savez(name, X=X, y=np.array(names)[y])
    monkeypatch.setitem(spdsl.METHODS, "=cmd\x1b[0m", spdsl.Method("=cmd\x1b[0m", "own", spdsl.SPDNearestNeighbor))
    methods = ("--methods", "NN-LEM,SPDSL-LEM,=cmd\x1b[0m")
    result = CliRunner().invoke(app, ["reproduce", "--data", name, "--quick", *methods, "-j", "1", "-o", "out"])
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert read_results("out").classes == sorted(names)
    for path in [*Path("out").glob("*.csv"), *Path("out").glob("*.md"), *Path("out").glob("*.html")]:
        assert "\x1b" not in path.read_text()
        assert "<script>alert" not in path.read_text()
    result = CliRunner().invoke(
        app, ["compare", name, *methods, "-j", "1", "--no-tune", "--splits", "2", "-o", "t.csv"]
    )
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output + Path("t.csv").read_text()
    assert "\n'=cmd" in Path("t.csv").read_text()
