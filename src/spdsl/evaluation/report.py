"""One page about a run: a single HTML file that needs nothing beside itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.backend.extras import install_hint
from spdsl.evaluation.figure_data import FigureData
from spdsl.evaluation.plates import PLAIN, Plate, confusion, draw_plates, save_plates, shown_methods
from spdsl.evaluation.results import REFERENCE, Results, unit_of
from spdsl.evaluation.statistics import TEST
from spdsl.evaluation.tables import (
    SECTIONS,
    TableRow,
    caption,
    few_draws,
    gain_text,
    interval,
    make_table,
    mean_std,
    p_text,
)
from spdsl.models.files import written_whole
from spdsl.models.text import printable

REPORT = "report.html"
FIGURE_DATA = "figures.json"
FIGURES = "figures"
CLEAR = 0.05  # a p-value below which two methods count as different
CITATION = """\
@article{huang2018spdsl,
  author  = {Huang, Zhiwu and Wang, Ruiping and Li, Xianqiu and Liu, Wenxian and
             Shan, Shiguang and Van Gool, Luc and Chen, Xilin},
  title   = {Geometry-aware Similarity Learning on {SPD} Manifolds for Visual Recognition},
  journal = {IEEE Transactions on Circuits and Systems for Video Technology},
  year    = {2018}
}"""


@dataclass(frozen=True)
class Entry:
    """A cell of a table in the page: its text, what it sorts by (None sorts last), its deviation, if it stands out."""

    text: str
    value: float | str | None
    deviation: str = ""
    bold: bool = False


def write_report(
    results: Results, folder: str | Path, data: FigureData | None = None, *, output: str | Path | None = None
) -> dict[Path, str]:
    """Draw the figures of a run and write its page.

    Parameters
    ----------
    results : Results
    folder : str or Path
        Gets the page as report.html, the figures as SVG and PNG in `figures/`, and their numbers in figures.json. Each
        file is written whole or not at all.
    data : Studies, optional
        What the figures beyond the table's own are drawn from; they are left out without it.
    output : str or Path, optional
        Where the page goes instead; nothing else is then written, and nothing into `folder`.

    Returns
    -------
    dict
        What was written, the page first: paths, and what is there.
    """
    folder = Path(folder)
    page = folder / REPORT if output is None else Path(output)
    if data is not None and data.classes != results.classes:
        raise ValueError(f"{folder}: {FIGURE_DATA} and results.json are of different runs; run `spdsl reproduce` again")
    plates = draw_plates(results, data)
    html = render_report(results, data, plates)
    with written_whole(page) as file:
        file.write(html.encode())
    written = {page: "the report, to be opened in a browser"}
    if output is not None:
        return written
    save_plates(plates, folder / FIGURES)
    written[folder / FIGURES] = "its figures as SVG and PNG"
    if data is not None:
        with written_whole(folder / FIGURE_DATA) as file:
            file.write(data.to_json().encode())
        written[folder / FIGURE_DATA] = "their numbers"
    return written


def check_tools() -> None:
    """An ImportError, before any long work, where what a report needs is not installed."""
    for package in ("matplotlib", "jinja2"):
        if find_spec(package) is None:
            raise ImportError(f"a report needs {package}: {install_hint('report')}, or run with --no-report")


def read_figures(folder: str | Path) -> FigureData | None:
    """The numbers of the figures that a run has left in `folder`, None where it has left none."""
    path = Path(folder) / FIGURE_DATA
    if not path.is_file():
        return None
    try:
        return FigureData.from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def render_report(results: Results, data: FigureData | None, plates: list[Plate]) -> str:
    """The page as text."""
    check_tools()
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("spdsl.evaluation", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters["printable"] = printable
    page = environment.get_template("report.html")
    rows = make_table(results)
    return page.render(
        r=results,
        caption=caption(results),
        summary=summarize(results),
        test=TEST,
        head=_head(results, rows),
        rows=[_line(results, row, rows) for row in rows],
        failures=[row for row in rows if row.failed],
        compared=any(row.difference is not None for row in rows),
        tested=any(row.p is not None for row in rows),
        plates=plates,
        missing=data.missing if data is not None else [],
        no_data=data is None,
        facts=_facts(results),
        settings=_settings(results),
        chosen=_chosen(results),
        by_class=_by_class(results),
        seconds=_seconds(results),
        total=_duration(results.seconds),
        complaints=_complaints(results),
        citation=Markup.escape(CITATION),
        css=_asset("report.css"),
        script=_asset("report.js"),
    )


def _asset(name: str) -> str:
    return files("spdsl.evaluation").joinpath("templates", name).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------------ parts


def _head(results: Results, rows: list[TableRow]) -> list[tuple[str, str]]:
    """Columns of the table: heading, and how it first sorts."""
    columns = [("Method", "ascending"), ("Category", "ascending"), (_named(results.scoring[0]), "descending")]
    if any(row.low is not None for row in rows):
        columns.append(("95 % interval", "descending"))
    if results.published:
        columns.append(("Published (%)", "descending"))
    if any(row.difference is not None for row in rows):
        columns.append((f"Gain of {results.reference}", "descending"))
    if any(row.p is not None for row in rows):
        columns.append(("p", "ascending"))
    return [*columns, *((_named(name), "descending") for name in results.scoring[1:]), ("Fit (s)", "ascending")]


def _named(score: str) -> str:
    """A score as a heading."""
    return f"{score[0].upper()}{score[1:]}{' (%)' if unit_of(score) == 100 else ''}"


def _line(results: Results, row: TableRow, rows: list[TableRow]) -> dict[str, Any]:
    """One row of the table."""
    entries = [Entry(SECTIONS[row.section], list(SECTIONS).index(row.section))]
    if row.mean is None:
        entries.append(Entry("failed", None))
    else:
        few = f" ({row.draws} of {row.draws + row.failed} draws)" if row.failed else ""
        entries.append(Entry(f"{row.mean:.2f}", row.mean, f"{mean_std(row.std, None)}{few}", row.best))
    if any(other.low is not None for other in rows):
        entries.append(Entry(interval(row, results.scoring[0]), row.low))
    if results.published:
        entries.append(
            Entry(mean_std(row.published, None), row.published, mean_std(row.published_std, None), row.best_published)
        )
    if any(other.difference is not None for other in rows):
        gain = row.difference
        entries.append(Entry(gain_text(gain, results.scoring[0]).replace("-", "−"), gain))
    if any(other.p is not None for other in rows):
        entries.append(Entry(p_text(row.p), row.p))
    entries += [Entry(mean_std(value, None) + few_draws(row, k), value) for k, value in row.scores.items()]
    spent = [cell.fit_seconds for cell in results.cells if cell.method == row.method and not cell.error]
    mean = float(np.mean(spent)) if spent else None
    entries.append(Entry("" if mean is None else f"{mean:.2g}" if mean < 100 else f"{mean:.0f}", mean))
    return {"method": row.method, "failed": row.failed, "ours": row.method == results.reference, "entries": entries}


def _by_class(results: Results) -> list[tuple[str, list[tuple[str, int, list[str]]]]]:
    """By method: for each class its test samples, and precision and recall in percent, summed over the draws."""
    tables = []
    for method in shown_methods(results):
        counts = confusion(results, method)
        if counts is None:
            continue
        right, true, found = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
        precision = ["–" if not n else f"{100 * k / n:.1f}" for k, n in zip(right, found, strict=True)]
        recall = ["–" if not n else f"{100 * k / n:.1f}" for k, n in zip(right, true, strict=True)]
        figures = [list(pair) for pair in zip(precision, recall, strict=True)]
        tables.append((method, list(zip(results.classes, true.tolist(), figures, strict=True))))
    return tables


def _facts(results: Results) -> list[tuple[str, str]]:
    """The run in a few numbers."""
    facts = [
        ("samples", f"{results.n_matrices}"),
        ("classes", f"{results.n_classes}"),
        ("matrices", f"{results.n_features} × {results.n_features}"),
        ("draws", f"{results.n_draws}"),
    ]
    if results.n_components is not None:
        facts.insert(3, ("reduced to", f"{results.n_components} × {results.n_components}"))
    for k, name in enumerate(("training samples", "test samples")):
        counts = sorted({size[k] for size in results.sizes})
        if counts:
            facts.append((name, str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"))
    return facts


def _settings(results: Results) -> list[tuple[str, str]]:
    """The protocol in lines; what belongs to single methods stands in the table of parameters."""
    lines = [(name, _words(value)) for name, value in results.settings.items() if name not in ("grids", "iterations")]
    by_count: dict[int, list[str]] = {}
    for method, count in (results.settings.get("iterations") or {}).items():
        by_count.setdefault(count, []).append(method)
    if by_count:
        lines.append(("iterations", "; ".join(f"at most {n} in {', '.join(names)}" for n, names in by_count.items())))
    return lines


def _words(value: Any) -> str:
    """A setting as text."""
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_words(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        shown = [str(item) for item in value]
        return ", ".join(shown) if len(shown) <= 12 else f"{', '.join(shown[:3])}, … {shown[-1]} ({len(shown)} values)"
    return str(value)


def _chosen(results: Results) -> list[tuple[str, str, str]]:
    """By method: over what it was tuned, and what was chosen how often; nothing where nothing was tuned."""
    if not any(cell.params for cell in results.cells):
        return []
    grids = results.settings.get("grids") or {}
    lines = []
    for method in dict.fromkeys(cell.method for cell in results.cells):
        cells = [cell for cell in results.cells if cell.method == method and not cell.error]
        counts = Counter(", ".join(f"{name} = {value}" for name, value in sorted(c.params.items())) for c in cells)
        chosen = [f"{text} ({times} of {len(cells)})" for text, times in counts.most_common() if text]
        if chosen or method in grids:
            lines.append((method, _words(grids.get(method, {})), "; ".join(chosen) or "its defaults"))
    return lines


def _seconds(results: Results) -> list[tuple[str, list[Entry]]]:
    """By method: seconds of tuning, fitting and predicting, summed over the draws."""
    lines = []
    for method in dict.fromkeys(cell.method for cell in results.cells):
        cells = [cell for cell in results.cells if cell.method == method and not cell.error]
        spent = [(c.tune_seconds, c.fit_seconds, c.predict_seconds) for c in cells]
        if spent:
            sums = np.sum(spent, axis=0)
            lines.append((method, [Entry(f"{value:.1f}", float(value)) for value in (*sums, np.sum(sums))]))
    return lines


def _duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def _complaints(results: Results) -> list[tuple[str, str, int]]:
    """Warnings of the fits: method, text, in how many draws."""
    counts = Counter((cell.method, said) for cell in results.cells for said in cell.warnings)
    return [(method, said, times) for (method, said), times in counts.items()]


# ---------------------------------------------------------------------------------------------------------- in sentences


def summarize(results: Results) -> list[str]:
    """Sentences: who is best and by how much, what learning gains, how near the published figures are, what failed."""
    rows = make_table(results)
    some = sorted((row for row in rows if row.mean is not None), key=lambda row: -(row.mean or 0))
    good = [row for row in some if not row.failed] or some  # a mean over fewer draws is another mean
    if not good:
        return ["Every method failed; the table says why."]
    by_name = {row.method: row for row in good}
    told = [_winner(results, good, by_name.get(results.reference))]
    plain = by_name.get(PLAIN)
    if plain is not None and plain.difference is not None and results.reference == REFERENCE:
        told.append(
            f"Learning {'gains' if plain.difference >= 0 else 'loses'} {_points(results, abs(plain.difference))} against "
            f"{PLAIN}, the same distance and decision without it ({_p(plain.p)})."
        )
    told += _published(good)
    failed = sum(row.failed for row in rows)
    if failed:
        told.append(f"{failed} of {len(results.cells)} fits failed; the table marks them, and says why.")
    return told


def _winner(results: Results, good: list[TableRow], ours: TableRow | None) -> str:
    """Who is best, and where the reference stands."""
    first, rest = good[0], good[1:]
    over = f"Over {results.n_draws} draws" if results.n_draws > 1 else "In one draw"
    if not rest:
        return f"{over}, {first.method} {_does(results, first)}."
    level = [row.method for row in good if row.mean == first.mean]
    if len(level) > 1:
        names = ", ".join(level[:-1]) + f" and {level[-1]}" if len(level) < len(good) else f"all {len(good)} methods"
        told = f"{over}, {names} are level at the top: each {_does(results, first)}."
        return told if ours is None or ours.method in level else f"{told} {_behind(results, good, ours)}"
    begin = f"{over}, {first.method} is the best of {len(good)} methods: it {_does(results, first)}"
    following = rest[0]
    more = _points(results, (first.mean or 0) - (following.mean or 0))
    if ours is None:
        return f"{begin}, {more} more than the next, {following.method}."
    if ours is first:
        return f"{begin}, {more} more than the next, {following.method} ({_p(following.p)})."
    return f"{begin}. {_behind(results, good, ours)}"


def _does(results: Results, row: TableRow) -> str:
    """What a method reaches, in words."""
    name = results.scoring[0]
    if name == "accuracy":
        return f"recognizes {row.mean:.2f} % of the test samples"
    return f"has a mean {name} of {row.mean:.2f}{' %' if unit_of(name) == 100 else ''}"


def _points(results: Results, difference: float) -> str:
    return f"{difference:.1f} points" if unit_of(results.scoring[0]) == 100 else f"{difference:.3g}"


def _behind(results: Results, good: list[TableRow], ours: TableRow) -> str:
    """Where the reference stands when it is not first."""
    place = 1 + sum((row.mean or 0) > (ours.mean or 0) for row in good)
    gap = _points(results, (good[0].mean or 0) - (ours.mean or 0))
    unit = " %" if unit_of(results.scoring[0]) == 100 else ""
    return f"{ours.method} comes {_ordinal(place)} with {ours.mean:.2f}{unit}, {gap} behind ({_p(good[0].p)})."


def _published(good: list[TableRow]) -> list[str]:
    """How near the paper's figures are."""
    gaps = [row.mean - row.published for row in good if row.mean is not None and row.published is not None]
    if not gaps:
        return []
    same = f"{len(gaps)} methods" if len(gaps) > 1 else "one method"
    return [
        f"The figures differ from the published ones by {np.mean(np.abs(gaps)):.1f} points on average over {same} "
        f"(from {min(gaps):+.1f} to {max(gaps):+.1f})."
    ]


def _p(p: float | None) -> str:
    """A p-value with its reading."""
    if p is None:
        return "no test: it takes five draws"
    said = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    return said if p < CLEAR else f"{said}, no clear difference"


def _ordinal(k: int) -> str:
    words = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
    if k <= len(words):
        return words[k - 1]
    return f"{k}{'th' if k % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(k % 10, 'th')}"
