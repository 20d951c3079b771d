"""One page about a run: a single HTML file that needs nothing beside itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.experiments.gallery import Plate, draw_plates, save_plates
from spdsl.experiments.results import Results
from spdsl.experiments.significance import TEST
from spdsl.experiments.studies import Studies
from spdsl.experiments.summary import summarise
from spdsl.experiments.tables import REFERENCE, SECTIONS, TableRow, make_table
from spdsl.writing import written_whole

REPORT = "report.html"
STUDIES = "figures.json"
FIGURES = "figures"
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
    results: Results, folder: str | Path, studies: Studies | None = None, *, output: str | Path | None = None
) -> dict[Path, str]:
    """Draw the figures of a run and write its page.

    Parameters
    ----------
    results : Results
    folder : str or Path
        Gets the page as report.html, the figures as SVG and PNG in `figures/`, and their numbers in figures.json. Each
        file is written whole or not at all.
    studies : Studies, optional
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
    plates = draw_plates(results, studies)
    html = render_report(results, studies, plates)
    with written_whole(page) as file:
        file.write(html.encode())
    written = {page: "the report, to be opened in a browser"}
    if output is not None:
        return written
    save_plates(plates, folder / FIGURES)
    written[folder / FIGURES] = "its figures as SVG and PNG"
    if studies is not None:
        with written_whole(folder / STUDIES) as file:
            file.write(studies.to_json().encode())
        written[folder / STUDIES] = "their numbers"
    return written


def check_tools() -> None:
    """An ImportError, before any long work, where what a report needs is not installed."""
    for package in ("matplotlib", "jinja2"):
        if find_spec(package) is None:
            raise ImportError(f"a report needs {package}: pip install 'spdsl[report]', or run with --no-report")


def read_studies(folder: str | Path) -> Studies | None:
    """The numbers of the figures that a run has left in `folder`, None where it has left none."""
    path = Path(folder) / STUDIES
    if not path.is_file():
        return None
    try:
        return Studies.from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def render_report(results: Results, studies: Studies | None, plates: list[Plate]) -> str:
    """The page as text."""
    check_tools()
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("spdsl.experiments", "templates")
    page = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).get_template("report.html")
    rows = make_table(results)
    return page.render(
        r=results,
        summary=summarise(results),
        reference=REFERENCE,
        test=TEST,
        head=_head(results),
        rows=[_line(results, row) for row in rows],
        failures=[row for row in rows if row.failed],
        plates=plates,
        missing=studies.missing if studies is not None else [],
        no_studies=studies is None,
        facts=_facts(results),
        settings=_settings(results),
        chosen=_chosen(results),
        seconds=_seconds(results),
        total=_duration(results.seconds),
        complaints=_complaints(results),
        citation=CITATION,
        css=_asset("report.css"),
        script=_asset("report.js"),
    )


def _asset(name: str) -> str:
    return files("spdsl.experiments").joinpath("templates", name).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------------ parts


def _head(results: Results) -> list[tuple[str, str]]:
    """Columns of the table: heading, and how it first sorts."""
    columns = [("Method", "ascending"), ("Category", "ascending"), ("Accuracy (%)", "descending")]
    if results.published:
        columns.append(("Published (%)", "descending"))
    return [*columns, (f"Gain of {REFERENCE}", "descending"), ("p", "ascending"), ("Fit (s)", "ascending")]


def _line(results: Results, row: TableRow) -> dict[str, Any]:
    """One row of the table."""
    entries = [Entry(SECTIONS[row.section], list(SECTIONS).index(row.section))]
    if row.mean is None:
        entries.append(Entry("failed", None))
    else:
        entries.append(_mean_std(row.mean, row.std, row.best))
    if results.published:
        entries.append(_mean_std(row.published, row.published_std, row.best_published))
    gain, p = row.difference, row.p
    entries.append(Entry("" if gain is None else f"{gain:+.1f}".replace("-", "−"), gain))
    entries.append(Entry("" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}", p))
    spent = [cell.fit_seconds for cell in results.cells if cell.method == row.method and not cell.error]
    mean = float(np.mean(spent)) if spent else None
    entries.append(Entry("" if mean is None else f"{mean:.2g}" if mean < 100 else f"{mean:.0f}", mean))
    return {"method": row.method, "failed": row.failed, "ours": row.method == REFERENCE, "entries": entries}


def _mean_std(mean: float | None, std: float | None, best: bool) -> Entry:
    text, deviation = ("" if value is None else f"{value:.2f}" for value in (mean, std))
    return Entry(text, mean, deviation, best)


def _facts(results: Results) -> list[tuple[str, str]]:
    """The run in a few numbers."""
    facts = [
        ("samples", f"{results.n_matrices}"),
        ("classes", f"{results.n_classes}"),
        ("matrices", f"{results.n_features} × {results.n_features}"),
        ("reduced to", f"{results.n_components} × {results.n_components}"),
        ("draws", f"{results.n_draws}"),
    ]
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
