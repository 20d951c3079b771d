"""The table of a run in the layout of the paper's Tables 1 to 3: for the terminal, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.evaluation.results import RESULTS, Cell, Results, unit_of
from spdsl.evaluation.statistics import FEWEST_DRAWS, SHORT, TEST, confidence_interval, corrected_t_test, holm
from spdsl.evaluation.text import markdown, tex
from spdsl.models.files import written_whole
from spdsl.models.text import csv_cell, printable

SECTIONS = {
    "1": "Category 1: metrics",
    "2": "Category 2: kernels",
    "3": "Category 3: learned metrics",
    "proposed": "The proposed",
    "head": "The proposed, other heads",
    "alternative": "Alternatives",
    "own": "Your own",
}


@dataclass(frozen=True)
class TableRow:
    """One method: scores in percent where they are shares; `p` is that of the test against the reference, after Holm.

    `low` and `high` bound the mean at 95 percent. `best` and `best_published` mark the highest mean of their column;
    a method that failed in some draws is not compared by the mean of the others. `scores` holds further means,
    `score_draws` of how many draws.
    """

    section: str
    method: str
    draws: int
    mean: float | None
    std: float | None
    published: float | None
    published_std: float | None
    difference: float | None
    p: float | None
    best: bool = False
    best_published: bool = False
    failed: int = 0
    error: str = ""
    low: float | None = None
    high: float | None = None
    scores: dict[str, float | None] = field(default_factory=dict)
    score_draws: dict[str, int] = field(default_factory=dict)


def section_of(results: Results, method: str) -> str:
    """Part of the table: as in the paper, SPDML* counts among the proposed."""
    if method.startswith("SPDML*"):
        return "proposed"
    section = results.sections.get(method, "alternative")
    return section if section in SECTIONS else "own"


def make_table(results: Results) -> list[TableRow]:
    """The rows, in the paper's order."""
    names = list(dict.fromkeys(cell.method for cell in results.cells))
    names.sort(key=lambda name: list(SECTIONS).index(section_of(results, name)))
    by_method = {name: [cell for cell in results.cells if cell.method == name] for name in names}
    rows = [_row(results, name, by_method) for name in names]
    whole = [row.mean for row in rows if row.mean is not None and not row.failed]
    best = max(whole, default=None)
    known = max((row.published for row in rows if row.published is not None), default=None)
    adjusted = holm([row.p for row in rows])
    return [
        replace(
            row,
            p=p,
            best=best is not None and row.mean == best and not row.failed,
            best_published=known is not None and row.published == known,
        )
        for row, p in zip(rows, adjusted, strict=True)
    ]


def _row(results: Results, name: str, by_method: dict[str, list[Cell]]) -> TableRow:
    first, unit = results.scoring[0], unit_of(results.scoring[0])
    cells = by_method[name]
    good = _scores(cells, first)
    values = list(good.values())
    reference = _scores(by_method.get(results.reference, []), first)
    shared = sorted(good.keys() & reference.keys()) if name != results.reference else []
    ours, theirs = [good[k] for k in shared], [reference[k] for k in shared]
    interval = confidence_interval(values, _n_test(results, list(good)), results.n_matrices)
    low, high = (None, None) if interval is None else (_bounded(bound, first) * unit for bound in interval)
    published, published_std = results.published.get(name, (None, None))
    further = {other: _scores(cells, other) for other in results.scoring[1:]}
    return TableRow(
        section=section_of(results, name),
        method=name,
        draws=len(values),
        mean=float(np.mean([unit * value for value in values])) if values else None,
        std=float(np.std([unit * value for value in values], ddof=1)) if len(values) > 1 else None,
        published=published,
        published_std=published_std,
        difference=unit * float(np.mean(theirs) - np.mean(ours)) if shared else None,
        p=corrected_t_test(theirs, ours, _n_test(results, shared), results.n_matrices) if shared else None,
        failed=len(cells) - len(values),
        error=next((_why(cell, first) for cell in cells if cell.split not in good), ""),
        low=low,
        high=high,
        scores={other: _mean(found, unit_of(other)) for other, found in further.items()},
        score_draws={other: len(found) for other, found in further.items()},
    )


def few_draws(row: TableRow, score: str) -> str:
    """How many draws a further score is the mean of, if some of them have none."""
    found, count = row.score_draws.get(score, 0), row.draws + row.failed
    return f" ({found} of {count} draws)" if 0 < found < count else ""


def _scores(cells: Sequence[Cell], name: str) -> dict[int, float]:
    """The score by draw, of the cells that have it."""
    return {cell.split: cell.score(name) for cell in cells if not cell.error and cell.score(name) == cell.score(name)}


def _why(cell: Cell, name: str) -> str:
    """What went wrong with a cell, or with its first score."""
    return cell.error or next((said for said in cell.warnings if said.startswith(f"no {name}: ")), f"no {name}")


def _mean(scores: dict[int, float], unit: int) -> float | None:
    return unit * float(np.mean(list(scores.values()))) if scores else None


def _bounded(value: float, score: str) -> float:
    return min(max(value, 0.0), 1.0) if unit_of(score) == 100 else value


def _n_test(results: Results, draws: Sequence[int]) -> float:
    return float(np.mean([results.sizes[k][1] for k in draws])) if draws and results.sizes else 0.0


# -------------------------------------------------------------------------------------------------------------- formats


@dataclass(frozen=True)
class _Format:
    """How a format writes deviations, the best, and text of users."""

    plus_minus: str
    bold: Callable[[str], str]
    escape: Callable[[str], str]
    intervals: bool = True


def to_markdown(results: Results) -> str:
    """A Markdown table under a heading, with what was done and which test below it."""
    head, body = _columns(results, _Format("±", lambda text: f"**{text}**", markdown))
    lines = [f"## {markdown(results.title)}", "", markdown(results.description), "", markdown(caption(results)), ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "|".join(["---"] * len(head)) + "|"]
    for section, rows in body:
        lines.append(f"| *{section}* |" + " |" * (len(head) - 1))
        lines += ["| " + " | ".join(row) + " |" for row in rows]
    below = [markdown(line) for line in [*_test_note(results, TEST), *_failures(results)]]
    return "\n".join([*lines, "", *below]) + "\n"


def to_latex(results: Results) -> str:
    """A LaTeX table (package booktabs)."""
    head, body = _columns(results, _Format(r"$\pm$", lambda text: rf"\textbf{{{text}}}", _tex_name))
    lines = [
        r"\begin{table}",
        rf"\caption{{{tex(f'{results.title}. {caption(results)}')}}}",
        r"\centering",
        rf"\begin{{tabular}}{{l{'c' * (len(head) - 1)}}}",
        r"\toprule",
        " & ".join(head) + r" \\",
    ]
    for section, rows in body:
        lines += [r"\midrule", rf"\multicolumn{{{len(head)}}}{{l}}{{\emph{{{tex(section)}}}}} \\"]
        lines += [" & ".join(_tex_figure(text) for text in row) + r" \\" for row in rows]
    below = [rf"\par\smallskip\footnotesize {tex(note)}" for note in notes(results)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *below, r"\end{table}"]) + "\n"


def _tex_name(text: str) -> str:
    return tex(text).replace("SPDML*", "SPDML$^{*}$")


def _tex_figure(text: str) -> str:
    """A figure with the signs that LaTeX sets otherwise."""
    minus = f"$-${text[1:]}" if text.startswith("-") and text[1:2].isdigit() else text
    return f"$<$ {minus[2:]}" if minus.startswith("< ") else minus


def to_csv(results: Results) -> str:
    """A line a method. No seconds: whoever finds the same cells writes the same bytes."""
    columns = ["section", "method", "draws", "mean", "std", "low", "high", "published", "published_std", "difference"]
    columns += ["p", "failed"]
    rows = []
    for row in make_table(results):
        content = asdict(row)
        others = [_figure(value) for value in row.scores.values()]
        rows.append([*(_figure(content[name]) for name in columns), *others])
    return _csv([*columns, *results.scoring[1:]], rows)


def cells_to_csv(results: Results) -> str:
    """A line a cell: scores, chosen parameters, error."""
    names = list(dict.fromkeys(["accuracy", *results.scoring]))
    rows = [
        [
            *(c.method, c.split + 1),
            *("" if c.error or c.score(name) != c.score(name) else repr(c.score(name)) for name in names),
            *(json.dumps(c.params, sort_keys=True), c.error),
        ]
        for c in results.cells
    ]
    return _csv(("method", "draw", *names, "params", "error"), rows)


def seconds_to_csv(results: Results) -> str:
    """A line a cell: seconds of tuning, fit and prediction."""
    rows = [
        [c.method, c.split + 1, *(_figure(s) for s in (c.tune_seconds, c.fit_seconds, c.predict_seconds))]
        for c in results.cells
        if not c.error
    ]
    return _csv(("method", "draw", "tune_seconds", "fit_seconds", "predict_seconds"), rows)


def to_json(results: Results) -> str:
    """The rows as JSON, with the test in words."""
    content = {
        "dataset": results.dataset,
        "title": results.title,
        "caption": caption(results),
        "scoring": results.scoring,
        "reference": results.reference,
        "test": TEST,
        "rows": [asdict(row) for row in make_table(results)],
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def to_rich(results: Results) -> Any:
    """A table for the terminal (needs rich)."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    form = _Format("±", lambda text: f"[bold]{text}[/bold]", lambda text: escape(printable(text)), intervals=False)
    head, body = _columns(results, form)
    about = escape(printable(caption(results)))
    table = Table(title=form.escape(results.title), caption=about, box=box.SIMPLE_HEAD, caption_justify="left")
    for k, text in enumerate(head):
        table.add_column(text, justify="left" if k == 0 else "right", no_wrap=True)
    for section, rows in body:
        table.add_row(f"[italic]{section}[/italic]", *[""] * (len(head) - 1))
        for row in rows:
            table.add_row(f"  {row[0]}", *row[1:])
        table.add_section()
    return table


def notes(results: Results) -> list[str]:
    """What a reader of the table must know: the test in short, and what failed."""
    return [*_test_note(results, SHORT), *_failures(results)]


def _columns(results: Results, form: _Format) -> tuple[list[str], list[tuple[str, list[list[str]]]]]:
    """Heads, and the texts of the rows by section."""
    table = make_table(results)
    published, compared = bool(results.published), is_tested(results)
    tested = any(row.p is not None for row in table)
    intervals = form.intervals and any(row.low is not None for row in table)
    head = ["method", "ours" if published else form.escape(results.scoring[0])]
    head += ["95 % interval"] * intervals + ["published"] * published + ["gain"] * compared + ["p"] * tested
    head = [form.escape(text) for text in (*head, *results.scoring[1:])]
    body: dict[str, list[list[str]]] = {}
    for row in table:
        ours = mean_std(row.mean, row.std, form.plus_minus) if row.mean is not None else "failed"
        if row.failed and row.draws:
            ours += f" ({row.draws} of {row.draws + row.failed} draws)"
        theirs = mean_std(row.published, row.published_std, form.plus_minus)
        texts = [form.escape(row.method) + (" !" if row.failed else "")]
        texts.append(form.bold(ours) if row.best else ours)
        texts += [interval(row, results.scoring[0])] * intervals
        texts += [form.bold(theirs) if row.best_published else theirs] * published
        texts += [gain_text(row.difference, results.scoring[0])] * compared + [p_text(row.p)] * tested
        texts += [f"{value:.2f}{few_draws(row, k)}" if value is not None else "" for k, value in row.scores.items()]
        body.setdefault(SECTIONS[row.section], []).append(texts)
    return head, list(body.items())


def mean_std(mean: float | None, std: float | None, plus_minus: str = "±") -> str:
    """Mean and standard deviation, as far as they are there."""
    if mean is None:
        return ""
    return f"{mean:.2f}" + ("" if std is None else f" {plus_minus} {std:.2f}")


def interval(row: TableRow, score: str) -> str:
    """The interval of the mean."""
    digits = 1 if unit_of(score) == 100 else 3
    return "" if row.low is None or row.high is None else f"{row.low:.{digits}f} to {row.high:.{digits}f}"


def gain_text(gain: float | None, score: str) -> str:
    """A difference of means."""
    return "" if gain is None else f"{gain:+.1f}" if unit_of(score) == 100 else f"{gain:+.3f}"


def p_text(p: float | None) -> str:
    """A p-value as tables print it."""
    return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def caption(results: Results) -> str:
    """What the figures are, and how they were found."""
    name = results.scoring[0]
    figures = f"mean ± standard deviation of the {name}" if results.n_draws > 1 else name
    percent = " in percent" if unit_of(name) == 100 else ""
    m = "" if results.n_components is None else f"m = {results.n_components}; "
    return (
        f"{figures[0].upper()}{figures[1:]}{percent}; {results.settings.get('splits', f'{results.n_draws} draws')}; "
        f"{m}{results.settings.get('tuning', '')}"
    ).rstrip("; ")


def is_tested(results: Results) -> bool:
    """Whether there is anything to test against."""
    return {results.reference} < {cell.method for cell in results.cells}


def _test_note(results: Results, test: str) -> list[str]:
    if not is_tested(results):
        return []
    gain = f"gain: mean of {results.reference} minus that of the method"
    few = results.n_draws < FEWEST_DRAWS
    return [f"{gain}. No p-values: they take five distinct draws."] if few else [f"{gain}. p: {test}."]


def _failures(results: Results) -> list[str]:
    return [
        f"! {row.method}: {row.failed} of {row.failed + row.draws} draws failed: {row.error}"
        for row in make_table(results)
        if row.failed
    ]


def _figure(value: Any) -> Any:
    """A number so that it reads back as the same number; nothing for None."""
    return "" if value is None else repr(value) if isinstance(value, float) else value


def _csv(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    safe = [[csv_cell(value) if isinstance(value, str) else value for value in row] for row in [head, *rows]]
    csv.writer(text, lineterminator="\n").writerows(safe)
    return text.getvalue()


# ---------------------------------------------------------------------------------------------------------------- files


@dataclass(frozen=True)
class Output:
    """A file of a run: what is in it, and how its text comes of the results."""

    about: str
    render: Callable[[Results], str]


OUTPUTS = {
    "table.md": Output("the table in Markdown", to_markdown),
    "table.tex": Output("in LaTeX (booktabs)", to_latex),
    "table.csv": Output("as CSV, with all digits", to_csv),
    "table.json": Output("as JSON", to_json),
    "cells.csv": Output("scores and parameters of each method in each draw", cells_to_csv),
    "seconds.csv": Output("how long each took", seconds_to_csv),
    RESULTS: Output("everything, with settings, versions and hardware", Results.to_json),
}


def write_outputs(results: Results, folder: str | Path) -> dict[Path, str]:
    """Write everything that comes of a run into `folder`, each file whole or not at all; the paths, and what is there."""
    written = {}
    for name, output in OUTPUTS.items():
        path = Path(folder) / name
        with written_whole(path) as file:
            file.write(output.render(results).encode())
        written[path] = output.about
    return written
