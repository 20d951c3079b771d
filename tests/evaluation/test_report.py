"""The page: complete, self-contained, safe, and honest in its sentences."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest
import typer
from typer.testing import CliRunner

from runs import METHODS, make_figures, make_results
from spdsl.cli.report import report
from spdsl.evaluation.report import _ordinal, check_tools, read_figures, summarize, write_report
from spdsl.evaluation.results import Cell
from spdsl.evaluation.tables import write_outputs

NASTY = "<script>alert('x')</script>--><img src=http://evil.example/x.png onerror=alert(1)> & \"quotes\""


VOID = {"meta", "link", "img", "br", "path", "use", "image", "rect"}


class Page(HTMLParser):
    """Tags with their attributes, text by tag, and whether tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.open = [], {}, []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def page_of(results, tmp_path, data=None):
    path = next(iter(write_report(results, tmp_path, data)))
    return path.read_text(encoding="utf-8")


def words(text):
    """The page without styles, scripts and drawings, and without what makes letters bold or gray."""
    hidden = r"<style>.*?</style>|<script>.*?</script>|<svg.*?</svg>|</?strong>|</?span[^>]*>"
    return re.sub(hidden, "", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    results = make_results(published={"NN-LEM": (63.91, 3.25), "SPDSL-LEM": (72.29, None)})
    return page_of(results, tmp_path_factory.mktemp("full"), make_figures())


def test_the_page_needs_nothing_beside_itself(full):
    page = Page(full)
    assert not page.open
    for _, attributes in page.tags:
        for name in ("src", "href", "xlink:href", "data", "poster", "action"):
            target = attributes.get(name) or ""
            assert not target or target.startswith(("#", "data:")), target
    assert not re.search(r"@import|url\((?!#)", full)
    policy = next(meta["content"] for meta in page.all("meta") if meta.get("http-equiv"))
    assert "default-src 'none'" in policy


def test_headings_go_down_one_level_at_a_time(full):
    levels = [int(tag[1]) for tag, _ in Page(full).tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))


def test_every_drawing_is_told_in_words(full):
    page = Page(full)
    drawings = [a for _, a in page.tags if a.get("role") == "img"]
    assert len(drawings) == len(page.all("svg")) == 10
    assert all(len(a["aria-label"]) > 40 for a in drawings)


def test_names_in_the_page_are_unique(full):
    names = [a["id"] for _, a in Page(full).tags if "id" in a]
    assert len(names) == len(set(names))


def test_the_page_holds_what_a_reader_looks_for(full):
    text = words(full)
    for wanted in (
        "63.91 ± 3.25",
        "72.29",
        "CDL",
        "seed",
        "abacus",
        "0.1.0",
        "12 seconds",
        "@article{huang2018spdsl",
        "Nadeau",
    ):
        assert wanted in text, wanted


def test_numbers_in_the_table_are_those_of_the_results(tmp_path):
    results = make_results()
    text = words(page_of(results, tmp_path))
    for method in METHODS:
        values = [100 * cell.accuracy for cell in results.cells if cell.method == method]
        assert f"{sum(values) / len(values):.2f} ± " in text


@pytest.mark.parametrize(
    "place", ["title", "description", "dataset", "environment", "settings", "classes", "error", "params"]
)
def test_strings_of_users_stay_strings(tmp_path, place):
    results, data = make_results(), None
    if place == "environment":
        results = replace(results, environment={NASTY: NASTY})
    elif place == "settings":
        results = replace(results, settings={NASTY: NASTY, "splits": NASTY, "tuning": [NASTY]})
    elif place == "classes":
        names = [NASTY, f"{NASTY}2", "$\\frac{"]
        results, data = make_results(classes=names), make_figures(names)
    elif place == "error":
        results = replace(results, cells=[*results.cells, Cell("NN-AIM", 0, error=NASTY, warnings=(NASTY,))])
    elif place == "params":
        results = replace(results, cells=[replace(cell, params={NASTY: NASTY}) for cell in results.cells])
    else:
        results = replace(results, **{place: NASTY})
    text = page_of(results, tmp_path, data)
    page = Page(text)
    assert len(page.all("script")) == 1
    assert not page.all("img")
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert "<img src=http://evil" not in text
    if place != "dataset":  # of which the page does not speak
        assert "evil.example" in text


def test_cells_that_failed_are_shown(tmp_path):
    cells = [*make_results().cells, *(Cell("SPDSL-AIM", k, error="ValueError: out of luck") for k in range(4))]
    cells[0] = Cell("NN-LEM", 0, error="ValueError: one bad draw")
    text = words(page_of(make_results(cells=cells), tmp_path))
    assert "What failed" in text
    assert "4 of 4 draws: ValueError: out of luck" in text
    assert "1 of 5 draws: ValueError: one bad draw" in text
    assert "5 of 24 fits failed" in text


def test_nothing_but_failures_still_makes_a_page(tmp_path):
    cells = [Cell("SPDSL-LEM", 0, error="ValueError: no")]
    text = words(page_of(make_results(cells=cells, n_draws=1), tmp_path))
    assert "Every method failed" in text


def test_one_draw_has_no_deviation_and_no_test(tmp_path):
    results = make_results(draws=1)
    text = words(page_of(results, tmp_path))
    assert "In one draw, SPDSL-LEM is the best of 4 methods" in text
    assert "no test: it takes five draws" in text
    assert "±" not in text


def test_iterations_are_told_by_number(tmp_path):
    results = make_results(settings={"iterations": {"LEML": 20, "SPDSL-LEM": 50, "SPDML-AIM": 50}})
    assert "at most 20 in LEML; at most 50 in SPDSL-LEM, SPDML-AIM" in page_of(results, tmp_path)


def test_parameters_are_shown_where_something_was_tuned(tmp_path):
    results = make_results()
    assert ">Parameters<" not in page_of(results, tmp_path)
    cells = [replace(c, params={"a": 1 + (c.split == 3)}) if c.method == "CDL" else c for c in results.cells]
    assert "a = 1 (4 of 5); a = 2 (1 of 5)" in page_of(replace(results, cells=cells), tmp_path)


def test_without_published_figures_there_is_no_such_column(tmp_path, full):
    assert "Published" in words(full)
    assert "ublished" not in words(page_of(make_results(), tmp_path))


def test_a_page_can_be_made_again_from_its_folder(tmp_path):
    results, data = make_results(), make_figures()
    write_outputs(results, tmp_path)
    first = page_of(results, tmp_path, data)
    assert read_figures(tmp_path).to_json() == data.to_json()
    assert page_of(results, tmp_path, read_figures(tmp_path)) == first


def test_a_failure_leaves_the_old_page_as_it_was(tmp_path, monkeypatch):
    results = make_results()
    before = page_of(results, tmp_path)
    monkeypatch.setattr("spdsl.evaluation.report.summarize", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(results, tmp_path)
    assert (tmp_path / "report.html").read_text() == before
    assert not list(tmp_path.glob(".*"))


# ---------------------------------------------------------------------------------------------------------------- command


def spdsl_report(*arguments):
    app = typer.Typer()
    app.command()(report)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_command_makes_the_page_again(tmp_path):
    write_outputs(make_results(), tmp_path)
    before = sorted(tmp_path.iterdir())
    done = spdsl_report(tmp_path, "-o", tmp_path / "sub" / "page.html")
    assert done.exit_code == 0, done.output
    assert "Report:" in done.stdout
    assert "no figures.json" in done.stderr
    assert (tmp_path / "sub" / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert sorted(tmp_path.iterdir()) == sorted([*before, tmp_path / "sub"])
    assert spdsl_report(tmp_path).exit_code == 0
    assert (tmp_path / "report.html").read_text() == (tmp_path / "sub" / "page.html").read_text()
    assert (tmp_path / "figures" / "methods.svg").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("results.json", None, "no such file; `spdsl reproduce --out"),
        ("results.json", "{", "run `spdsl reproduce` again"),
        ("figures.json", '{"spdsl-figures": 2}', "figures.json: not figures of spdsl"),
    ],
)
def test_the_command_says_what_is_wrong_with_a_folder(tmp_path, name, content, message):
    write_outputs(make_results(), tmp_path)
    (tmp_path / name).write_text(content or "")
    if content is None:
        (tmp_path / name).unlink()
    done = spdsl_report(tmp_path)
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("package", ["matplotlib", "jinja2"])
def test_a_missing_package_is_named_with_its_remedy(monkeypatch, package):
    monkeypatch.setattr("spdsl.evaluation.report.find_spec", lambda name: None if name == package else name)
    with pytest.raises(
        ImportError,
        match=rf"a report needs {package}: pip install 'jinja2>=3.1' 'matplotlib>=3.8', or run with --no-report",
    ):
        check_tools()


# -------------------------------------------------------------------------------------------------------------- sentences


def test_summary_names_the_winner_and_the_gain_of_learning():
    told = " ".join(summarize(make_results()))
    assert "Over 5 draws, SPDSL-LEM is the best of 4 methods" in told
    assert "more than the next, CDL" in told
    assert "Learning gains" in told


def test_summary_is_honest_when_another_method_wins():
    told = summarize(make_results(methods={"CDL": 0.95, "NN-LEM": 0.9, "SPDSL-LEM": 0.8}))
    assert "CDL is the best of 3 methods" in told[0]
    assert "SPDSL-LEM comes third" in told[0]
    assert "points behind" in told[0]
    assert told[1].startswith("Learning loses")


def test_summary_says_when_the_draws_do_not_tell_methods_apart():
    told = summarize(make_results(methods={"CDL": 0.901, "SPDSL-LEM": 0.9}))
    assert "no clear difference" in told[0]


def test_summary_without_the_proposed_method_compares_the_first_two():
    told = summarize(make_results(methods={"CDL": 0.95, "NN-LEM": 0.7}))
    assert len(told) == 1
    assert re.search(r"CDL is the best of 2 methods.* 2\d\.\d points more than the next, NN-LEM\.", told[0])


def test_summary_counts_a_tie_as_a_tie():
    cells = [Cell(name, k, 0.9) for name in ("CDL", "SPDSL-LEM") for k in range(3)]
    assert "all 2 methods are level" in summarize(make_results(cells=cells))[0]
    third = [*cells, *(Cell("NN-LEM", k, 0.8) for k in range(3))]
    assert "CDL and SPDSL-LEM are level at the top" in summarize(make_results(cells=third))[0]
    behind = [replace(cell, method="LEML" if cell.method == "SPDSL-LEM" else "SPDSL-LEM") for cell in third[3:]]
    assert (
        "level at the top: each recognizes 90.00 % of the test samples. SPDSL-LEM comes third with 80.00 %"
        in (summarize(make_results(cells=[*cells[:3], *behind]))[0])
    )


def test_summary_measures_the_distance_from_the_published_figures():
    results = make_results(draws=1, methods={"CDL": 0.8, "SPDSL-LEM": 0.9})
    cells = [replace(cell, accuracy=a) for cell, a in zip(results.cells, (0.8, 0.9), strict=True)]
    told = summarize(replace(results, cells=cells, published={"CDL": (79.0, 1.0), "SPDSL-LEM": (93.0, None)}))
    assert "by 2.0 points on average over 2 methods (from -3.0 to +1.0)" in told[-1]


def test_places_in_words():
    assert [_ordinal(k) for k in (2, 3, 4, 11, 12, 13, 21, 22)] == [
        "second",
        "third",
        "fourth",
        "11th",
        "12th",
        "13th",
        "21st",
        "22nd",
    ]


def test_methods_level_at_the_top_are_all_named():
    results = make_results()
    level = replace(results, cells=[replace(cell, accuracy=0.9, error="") for cell in results.cells])
    assert f"all {len({c.method for c in level.cells})} methods are level at the top" in summarize(level)[0]
