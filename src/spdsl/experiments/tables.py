"""The table of a run in the layout of the paper's Tables 1 to 3: for the terminal, Markdown, LaTeX, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from spdsl.experiments.cells import Cell
from spdsl.experiments.results import Results
from spdsl.experiments.significance import SHORT, TEST, corrected_t_test
from spdsl.methods import METHODS

REFERENCE = "SPDSL-LEM"  # the proposed method, against which the others are tested
SECTIONS = {
    "1": "Category 1: metrics",
    "2": "Category 2: kernels",
    "3": "Category 3: learned metrics",
    "proposed": "The proposed",
    "head": "The proposed, other heads",
    "alternative": "Alternatives",
}


@dataclass(frozen=True)
class TableRow:
    """One method: accuracies in percent; `p` is that of the test against `REFERENCE`, None where there is none.

    `best` and `best_published` mark the highest mean of their column.
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


def section_of(method: str) -> str:
    """Part of the table: as in the paper, SPDML* counts among the proposed."""
    if method.startswith("SPDML*"):
        return "proposed"
    return str(METHODS[method].category) if method in METHODS else "alternative"


def make_table(results: Results) -> list[TableRow]:
    """The rows, in the paper's order."""
    names = list(dict.fromkeys(cell.method for cell in results.cells))
    names.sort(key=lambda name: list(SECTIONS).index(section_of(name)))
    by_method = {name: [cell for cell in results.cells if cell.method == name] for name in names}
    means = {name: _mean(cells) for name, cells in by_method.items()}
    best = max((mean for mean in means.values() if mean is not None), default=None)
    known = [results.published[name][0] for name in names if name in results.published]
    return [
        _row(results, name, by_method, means[name] == best, bool(known) and _published(results, name)[0] == max(known))
        for name in names
    ]


def _row(results: Results, name: str, by_method: dict[str, list[Cell]], best: bool, best_published: bool) -> TableRow:
    cells = by_method[name]
    good = {cell.split: 100 * cell.accuracy for cell in cells if not cell.error}
    values = list(good.values())
    reference = {cell.split: 100 * cell.accuracy for cell in by_method.get(REFERENCE, []) if not cell.error}
    shared = sorted(good.keys() & reference.keys()) if name != REFERENCE else []
    ours, theirs = [good[k] for k in shared], [reference[k] for k in shared]
    n_test = float(np.mean([results.sizes[k][1] for k in shared])) if shared and results.sizes else 0.0
    return TableRow(
        section_of(name),
        name,
        len(values),
        float(np.mean(values)) if values else None,
        float(np.std(values, ddof=1)) if len(values) > 1 else None,
        *_published(results, name),
        float(np.mean(theirs) - np.mean(ours)) if shared else None,
        corrected_t_test(theirs, ours, n_test, results.n_matrices) if shared else None,
        best and bool(values),
        best_published,
        len(cells) - len(good),
        next((cell.error for cell in cells if cell.error), ""),
    )


def _mean(cells: Sequence[Cell]) -> float | None:
    good = [100 * cell.accuracy for cell in cells if not cell.error]
    return float(np.mean(good)) if good else None


def _published(results: Results, name: str) -> tuple[float | None, float | None]:
    return results.published.get(name, (None, None))


# -------------------------------------------------------------------------------------------------------------- formats


def to_markdown(results: Results) -> str:
    """A Markdown table under a heading, with what was done and which test below it."""
    head, body = _columns(results, "±", lambda text: f"**{text}**")
    lines = [f"## {results.title}", "", results.description, "", _caption(results), ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "|".join(["---"] * len(head)) + "|"]
    for section, rows in body:
        lines.append(f"| *{section}* |" + " |" * (len(head) - 1))
        lines += ["| " + " | ".join(row).replace("SPDML*", r"SPDML\*") + " |" for row in rows]
    return "\n".join([*lines, "", *_test_note(results, TEST), *_failures(results)]) + "\n"


def to_latex(results: Results) -> str:
    """A LaTeX table (package booktabs)."""
    head, body = _columns(results, r"$\pm$", lambda text: rf"\textbf{{{text}}}")
    lines = [
        r"\begin{table}",
        rf"\caption{{{_tex(f'{results.title}. {_caption(results)}')}}}",
        r"\centering",
        rf"\begin{{tabular}}{{l{'c' * (len(head) - 1)}}}",
        r"\toprule",
        " & ".join(_tex(text) for text in head) + r" \\",
    ]
    for section, rows in body:
        lines += [r"\midrule", rf"\multicolumn{{{len(head)}}}{{l}}{{\emph{{{_tex(section)}}}}} \\"]
        lines += [" & ".join(_tex_cell(text) for text in row) + r" \\" for row in rows]
    below = [rf"\par\smallskip\footnotesize {_tex(note)}" for note in notes(results)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", *below, r"\end{table}"]) + "\n"


def to_csv(results: Results) -> str:
    """A line a method. No seconds: whoever finds the same cells writes the same bytes."""
    columns = ("section", "method", "draws", "mean", "std", "published", "published_std", "difference", "p", "failed")
    rows = [asdict(row) for row in make_table(results)]
    return _csv(columns, [[_figure(row[name]) for name in columns] for row in rows])


def cells_to_csv(results: Results) -> str:
    """A line a cell: accuracy, chosen parameters, error."""
    rows = [
        [c.method, c.split + 1, "" if c.error else repr(c.accuracy), json.dumps(c.params, sort_keys=True), c.error]
        for c in results.cells
    ]
    return _csv(("method", "draw", "accuracy", "params", "error"), rows)


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
        "caption": _caption(results),
        "reference": REFERENCE,
        "test": TEST,
        "rows": [asdict(row) for row in make_table(results)],
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def to_rich(results: Results) -> Any:
    """A table for the terminal (needs rich)."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    head, body = _columns(results, "±", lambda text: f"[bold]{text}[/bold]")
    table = Table(
        title=escape(results.title), caption=escape(_caption(results)), box=box.SIMPLE_HEAD, caption_justify="left"
    )
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


def _columns(
    results: Results, plus_minus: str, bold: Callable[[str], str]
) -> tuple[list[str], list[tuple[str, list[list[str]]]]]:
    """Heads, and the texts of the rows by section."""
    table = make_table(results)
    published = bool(results.published)
    tested = _tested(results)
    head = ["method", "ours", *(["published"] if published else []), *(["gain", "p"] if tested else [])]
    body: dict[str, list[list[str]]] = {}
    for row in table:
        ours = _mean_std(row.mean, row.std, plus_minus) if row.mean is not None else "failed"
        theirs = _mean_std(row.published, row.published_std, plus_minus)
        texts = [row.method + (" !" if row.failed else "")]
        texts.append(bold(ours) if row.best else ours)
        texts += [bold(theirs) if row.best_published else theirs] if published else []
        if tested:
            texts.append("" if row.difference is None else f"{row.difference:+.1f}")
            texts.append("" if row.p is None else "< 0.001" if row.p < 0.001 else f"{row.p:.3f}")
        body.setdefault(SECTIONS[row.section], []).append(texts)
    return head, list(body.items())


def _mean_std(mean: float | None, std: float | None, plus_minus: str) -> str:
    if mean is None:
        return ""
    return f"{mean:.2f}" + ("" if std is None else f" {plus_minus} {std:.2f}")


def _caption(results: Results) -> str:
    many = results.n_draws > 1
    figures = "mean ± standard deviation of the accuracy" if many else "accuracy"
    return (
        f"{figures[0].upper()}{figures[1:]} in percent; {results.settings.get('splits', f'{results.n_draws} draws')}; "
        f"m = {results.n_components}; {results.settings.get('tuning', '')}"
    ).rstrip("; ")


def _tested(results: Results) -> bool:
    """Whether there is anything to test against."""
    return {REFERENCE} < {cell.method for cell in results.cells}


def _test_note(results: Results, test: str) -> list[str]:
    return [f"gain: mean of {REFERENCE} minus that of the method. p: {test}."] if _tested(results) else []


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
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()


def _tex(text: str) -> str:
    """Text with LaTeX's special characters made harmless."""
    return "".join(_TEX.get(character, character) for character in text)


_TEX = {c: rf"\{c}" for c in "%&_#${}"} | {
    "\\": r"\textbackslash{}",
    "^": r"\^{}",
    "~": r"\~{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
}


def _tex_cell(text: str) -> str:
    """A cell of `_columns` with the signs that LaTeX sets otherwise."""
    minus = f"$-${text[1:]}" if text.startswith("-") else text
    return minus.replace("SPDML*", "SPDML$^{*}$").replace("< ", "$<$ ")
