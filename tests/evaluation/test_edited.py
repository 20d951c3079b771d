"""Files that somebody has edited end in one clear error, whatever was changed."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from runs import make_figures, make_results
from spdsl.cli.report import report
from spdsl.evaluation.figure_data import FigureData
from spdsl.evaluation.report import write_report
from spdsl.evaluation.results import Results
from spdsl.evaluation.tables import write_outputs

EDITS = int(os.environ.get("SPDSL_FUZZ", "20"))  # of each file that go through the command
STRANGE: tuple[Any, ...] = (None, -1, 10**9, 0.5, "x", "", [], {}, [[]], {"a": None}, True, [1, "a"], 1e308)


def places(content: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in the content of a JSON file."""
    if path:
        yield path
    if isinstance(content, dict):
        for name, value in content.items():
            yield from places(value, (*path, name))
    if isinstance(content, list):
        for k, value in enumerate(content[:2]):
            yield from places(value, (*path, k))


def put(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The content with another value at a place."""
    copy = json.loads(json.dumps(content))
    at = copy
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return copy


def survives(results: Any, figures: Any, folder: Path) -> bool:
    """Whether the page can be made; anything but a ValueError that names the file is a failure of the test."""
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "figures.json").write_text(json.dumps(figures))
    app = typer.Typer()
    app.command()(report)
    done = CliRunner().invoke(app, [str(folder), "-o", str(folder / "page.html")])
    if done.exit_code == 0:
        return True
    lines = [line for line in done.stderr.splitlines() if line]
    assert done.exit_code == 1, done.output
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: "), lines
    assert str(folder) in lines[0], lines
    assert "spdsl reproduce" in lines[0], lines
    return False


@pytest.fixture
def written(tmp_path: Path) -> tuple[Any, Any, Path]:
    results, figures = make_results(draws=2), make_figures()
    write_outputs(results, tmp_path)
    write_report(results, tmp_path, figures)
    return json.loads(results.to_json()), json.loads(figures.to_json()), tmp_path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("which", ["results", "figures"])
def test_an_edit_anywhere_ends_in_a_page_or_in_one_line_that_names_the_file(written, which, monkeypatch):
    results, figures, folder = written
    # to draw is matplotlib's affair, and slow; what is drawn has been put into a figure before
    monkeypatch.setattr("spdsl.evaluation.plates.to_png", lambda _: b"")
    monkeypatch.setattr("spdsl.evaluation.plates.to_svg", lambda _: "<svg></svg>")
    changed = results if which == "results" else figures
    every = [(path, value) for path in places(changed) for value in STRANGE]
    chosen = random.Random(0).sample(every, EDITS)
    for path, value in chosen:
        new = put(changed, path, value)
        pair = (new, figures) if which == "results" else (results, new)
        survives(*pair, folder)


def test_every_edit_is_read_or_refused_with_a_reason(written):
    results, figures, _ = written
    for content, read in ((results, Results.from_json), (figures, FigureData.from_json)):
        refused = 0
        for path in places(content):
            for value in STRANGE:
                try:
                    read(json.dumps(put(content, path, value)))
                except ValueError as error:
                    assert "run `spdsl reproduce` again" in str(error)  # noqa: PT017
                    refused += 1
        assert refused > 200


def test_files_of_two_runs_do_not_mix(written):
    results, _, folder = written
    other = json.loads(make_figures(["a", "b"]).to_json())
    assert not survives(results, other, folder)
