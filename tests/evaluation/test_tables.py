"""The tables of a run: figures, order, marks and formats."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats
from rich.console import Console

from samples import labeled
from spdsl.evaluation import tables
from spdsl.evaluation.compare import compare
from spdsl.evaluation.methods import METHODS, get_methods
from spdsl.evaluation.protocols import PUBLISHED
from spdsl.evaluation.results import Cell, Results, read_results
from spdsl.evaluation.statistics import confidence_interval, corrected_t_test, holm, rank_methods

PAPER = [method.name for method in get_methods("paper")]
# the paper's Tables 1 to 3 as prose has them: one line a family, methods and figures between strokes
PRINTED = """
NN-AIM / NN-Stein / NN-LEM | 62.85 3.46 / 61.46 3.52 / 63.91 3.25 | 46.30 2.90 / 42.87 2.27 / 46.30 2.86 | 42.70 1.74 / 42.13 2.63 / 43.98 2.13
CDL | 72.67 2.47 | 54.91 4.72 | 41.74 1.92
RSR | 72.77 2.69 | 52.41 4.03 | 41.12 2.53
LEK-poly / LEK-exp / LEK-gauss | 61.85 3.24 / 62.17 3.52 / 56.30 3.62 | 48.89 3.29 / 49.54 3.67 / 49.63 3.03 | 47.22 1.62 / 46.87 1.72 / 48.72 3.00
LEML | 70.53 2.95 | 52.53 2.13 | 46.87 2.19
SPDML-AIM / SPDML-Stein | 64.66 2.92 / 61.57 3.43 | 48.09 1.82 / 49.17 2.37 | 47.25 2.78 / 46.21 2.65
SPDML*-AIM / SPDML*-Stein / SPDML*-LEM | 64.27 2.84 / 62.31 3.48 / 69.32 2.04 | 50.00 3.60 / 49.35 2.47 / 50.28 3.78 | 47.93 2.62 / 46.35 2.45 / 48.88 3.18
SPDSL-AIM / SPDSL-Stein / SPDSL-LEM | 71.60 2.45 / 71.03 2.39 / 72.29 1.58 | 52.31 3.55 / 51.57 4.16 / 52.13 3.49 | 48.09 2.49 / 49.02 2.93 / 49.13 2.74
"""  # noqa: E501


def make_results(names: list[str] = PAPER, draws: int = 10, *, dataset: str = "ytc", seed: int = 0, **changes: Any):
    """Made-up accuracies, multiples of 1/282 as on YTC."""
    rng = np.random.default_rng(seed)
    cells = [
        Cell(name, k, int(rng.integers(150, 250)) / 282, {"v": 1}, *rng.random(3))
        for name in names
        for k in range(draws)
    ]
    published = {name: pair for name, pair in PUBLISHED.get(dataset, {}).items() if name in names}
    found = Results(
        *(dataset, "YouTube Celebrities", "A person in a clip.", 423, 401, 47, 40, draws, cells, published),
        settings={"splits": f"{draws} draws"},
        sizes=[(141, 282)] * draws,
        sections={name: str(METHODS[name].category) for name in names},
    )
    return replace(found, **changes)


def means(results: Results) -> dict[str, float]:
    return {
        name: float(np.mean([100 * c.accuracy for c in results.cells if c.method == name]))
        for name in dict.fromkeys(c.method for c in results.cells)
    }


def failing(results: Results, name: str, draws: set[int], error: str = "ValueError: no") -> Results:
    cells = [
        Cell(c.method, c.split, error=error) if c.method == name and c.split in draws else c for c in results.cells
    ]
    return replace(results, cells=cells)


# -------------------------------------------------------------------------------------------------------------- figures


@pytest.mark.parametrize(("column", "dataset"), [(1, "ytc"), (2, "uiuc"), (3, "hdm05")])
def test_the_published_figures_are_those_of_the_paper(column, dataset):
    printed = {}
    for line in PRINTED.strip().splitlines():
        parts = [[text.strip() for text in part.split(" / ")] for part in line.split(" | ")]
        for name, figures in zip(parts[0], parts[column], strict=True):
            printed[name] = tuple(map(float, figures.split()))
    assert printed == PUBLISHED[dataset]
    assert list(printed) == PAPER


def test_a_row_holds_mean_deviation_gain_and_p():
    results = make_results()
    rows = {row.method: row for row in tables.make_table(results)}
    by = {name: [100 * c.accuracy for c in results.cells if c.method == name] for name in PAPER}
    for name, row in rows.items():
        assert row.mean == pytest.approx(np.mean(by[name]))
        assert row.std == pytest.approx(np.std(by[name], ddof=1))
        assert (row.published, row.published_std) == PUBLISHED["ytc"][name]
        if name == "SPDSL-LEM":
            assert row.difference is row.p is None
        else:
            assert row.difference == pytest.approx(np.mean(by["SPDSL-LEM"]) - np.mean(by[name]))
    others = [name for name in PAPER if name != "SPDSL-LEM"]
    shares = {name: np.array(values) / 100 for name, values in by.items()}
    plain = [corrected_t_test(shares["SPDSL-LEM"], shares[name], 282, 423) for name in others]
    order = np.argsort(plain)
    largest = np.maximum.accumulate(np.minimum(1, np.sort(plain) * np.arange(16, 0, -1)))
    assert [rows[others[k]].p for k in order] == pytest.approx(largest)
    low, high = confidence_interval(shares["CDL"], 282, 423)
    assert (rows["CDL"].low, rows["CDL"].high) == (100 * low, min(100 * high, 100.0))


def test_the_paired_test_without_shared_samples_is_that_of_scipy(rng):
    for _ in range(20):
        a, b = rng.normal(0.70, 0.03, 10), rng.normal(0.68, 0.03, 10)
        assert corrected_t_test(a, b, 0, 100) == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue)


def test_the_correction_is_that_of_nadeau_and_bengio(rng):
    a, b = rng.normal(0.7, 0.03, 10), rng.normal(0.68, 0.03, 10)
    n_test, n_train = 30, 70
    d = a - b
    t = d.mean() / np.sqrt((1 / 10 + n_test / n_train) * d.var(ddof=1))
    assert corrected_t_test(a, b, n_test, 100) == pytest.approx(2 * scipy.stats.t.sf(abs(t), 9))


def test_fewer_than_five_draws_have_no_p_value():
    assert corrected_t_test([0.8, 0.85], [0.7, 0.75], 24, 48) is None
    assert corrected_t_test([0.8] * 4, [0.7] * 4, 24, 48) is None
    assert confidence_interval([0.8] * 4, 24, 48) is None


def test_the_test_at_its_edges():
    a = np.array([0.70, 0.71, 0.72, 0.73, 0.74])
    assert corrected_t_test(a, a, 10, 20) == 1.0
    # the same difference everywhere is not certainty: a test of 24 samples cannot tell differences below 1/24
    same = corrected_t_test([0.8] * 5, [0.7] * 5, 24, 48)
    assert same == pytest.approx(2 * scipy.stats.t.sf(0.1 / np.sqrt((1 / 5 + 1) / 24**2), 4))
    assert 0.05 < same < 0.2
    assert corrected_t_test(a, a[::-1], 10, 20) == 1.0
    assert 0 < corrected_t_test(a, a - [0.01, 0.02, 0.01, 0.02, 0.01], 20, 20) < 1  # every sample is tested


def test_intervals_hold_the_mean_as_often_as_they_say(rng):
    inside = 0
    for _ in range(400):
        low, high = confidence_interval(rng.normal(0.7, 0.05, 10), 0, 100)
        inside += low <= 0.7 <= high
    assert 0.92 < inside / 400 < 0.98


def test_holm_by_hand():
    assert holm([0.01, 0.04, None, 0.03]) == pytest.approx([0.03, 0.06, None, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([None]) == [None]


def test_ranks_over_data_sets_are_those_of_demsar():
    # Demsar 2006, table 6: AUC of four variants of C4.5 on 14 data sets; section 3.2.2 gives ranks and CD
    auc = np.array(
        [
            [0.763, 0.768, 0.771, 0.798],
            [0.599, 0.591, 0.590, 0.569],
            [0.954, 0.971, 0.968, 0.967],
            [0.628, 0.661, 0.654, 0.657],
            [0.882, 0.888, 0.886, 0.898],
            [0.936, 0.931, 0.916, 0.931],
            [0.661, 0.668, 0.609, 0.685],
            [0.583, 0.583, 0.563, 0.625],
            [0.775, 0.838, 0.866, 0.875],
            [1.000, 1.000, 1.000, 1.000],
            [0.940, 0.962, 0.965, 0.962],
            [0.619, 0.666, 0.614, 0.669],
            [0.972, 0.981, 0.9751, 0.975],
            [0.957, 0.978, 0.946, 0.970],
        ]
    )
    ranking = rank_methods(auc)
    np.testing.assert_allclose(ranking.ranks, [3.143, 2.000, 2.893, 1.964], atol=1e-3)
    chi2 = scipy.stats.friedmanchisquare(*auc.T).statistic  # corrected for ties; Demsar prints 9.28 without
    assert ranking.p == pytest.approx(scipy.stats.f.sf(13 * chi2 / (14 * 3 - chi2), 3, 39))
    assert 9.28 < chi2 < 10.5
    assert ranking.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), rel=1e-3)
    few = rank_methods(auc[:4])
    assert few.p is few.critical_difference is None


def test_sets_that_agree_with_ties_have_the_p_value_of_all_orders():
    scores = np.tile([0.9, 0.9, 0.5], (5, 1))
    orders = list(set(itertools.permutations(scores[0])))
    # Friedman's statistic is largest where all sets rank alike, whichever order that is
    alike = sum(len(set(choice)) == 1 for choice in itertools.product(orders, repeat=5)) / len(orders) ** 5
    assert rank_methods(scores).p == pytest.approx(alike)


def test_sections_stand_in_the_order_of_the_paper():
    shuffled = [PAPER[k] for k in np.random.default_rng(1).permutation(17)]
    rows = tables.make_table(make_results([*shuffled, "MDM", "SPDSL-LEM+SVM"]))
    form = tables._Format("±", str, str)
    assert [key for key, _ in tables._columns(make_results(["MDM", *shuffled]), form)[1]] == [
        "Category 1: metrics",
        "Category 2: kernels",
        "Category 3: learned metrics",
        "The proposed",
        "Alternatives",
    ]
    order = [row.section for row in rows]
    assert order == sorted(order, key=list(tables.SECTIONS).index)
    assert {row.section for row in rows if row.method.startswith(("SPDML*", "SPDSL-"))} == {"proposed", "head"}
    assert {tables.section_of(make_results(list(METHODS)), name) for name in METHODS} <= set(tables.SECTIONS)


def test_of_a_single_draw_no_deviation_and_no_p_are_told():
    row = tables.make_table(make_results(draws=1))[0]
    assert row.std is row.p is None
    assert row.difference is not None


# ---------------------------------------------------------------------------------------------------------------- marks


def bold_in(text: str, pattern: str) -> list[str]:
    return re.findall(pattern, text)


def test_the_best_of_each_column_is_bold_in_every_format():
    results = make_results()
    best = max(means(results).values())
    wanted = [f"{best:.2f}", f"{max(mean for mean, _ in PUBLISHED['ytc'].values()):.2f}"]
    assert sorted(bold_in(tables.to_markdown(results), r"\*\*([\d.]+) ± ")) == sorted(wanted)
    assert sorted(bold_in(tables.to_latex(results), r"\\textbf{([\d.]+) \$")) == sorted(wanted)
    shown = io.StringIO()
    Console(file=shown, force_terminal=True, width=100).print(tables.to_rich(results))
    assert sorted(bold_in(shown.getvalue(), r"\x1b\[1m([\d.]+) ± ")) == sorted(wanted)
    flags = {row.method for row in tables.make_table(results) if row.best}
    assert flags == {name for name, mean in means(results).items() if mean == best}


def test_equal_means_are_both_best():
    results = make_results(["NN-LEM", "CDL"])
    cells = [replace(c, accuracy=0.5) for c in results.cells]
    assert all(row.best for row in tables.make_table(replace(results, cells=cells)))


def test_draws_that_failed_are_marked_and_explained_and_the_others_count():
    results = failing(make_results(), "CDL", {0, 3}, "ValueError: no way")
    row = next(row for row in tables.make_table(results) if row.method == "CDL")
    assert (row.draws, row.failed, row.error) == (8, 2, "ValueError: no way")
    assert row.mean == pytest.approx(
        np.mean([100 * c.accuracy for c in results.cells if c.method == "CDL" and not c.error])
    )
    for text in (tables.to_markdown(results), tables.to_latex(results), "\n".join(tables.notes(results))):
        assert "! CDL: 2 of 10 draws failed: ValueError: no way" in text
    assert "| CDL ! |" in tables.to_markdown(results)


def test_a_further_score_that_some_draws_lack_says_of_how_many_it_is_the_mean():
    lists = {"A": [0.5, 0.7, float("nan"), 0.6], "B": [0.5] * 4, "C": [float("nan")] * 4}
    cells = [Cell(m, k, 0.5, {}, 1.0, 1.0, 1.0, scores={"f1_macro": v}) for m in lists for k, v in enumerate(lists[m])]
    results = make_results(["NN-AIM"], 4, cells=cells, sections={}, scoring=("accuracy", "f1_macro"), reference="B")
    for text in (tables.to_markdown(results), tables.to_latex(results)):
        assert "60.00 (3 of 4 draws)" in text
        assert text.count("of 4 draws") == 1
    rows = {row["method"]: row["score_draws"] for row in json.loads(tables.to_json(results))["rows"]}
    assert rows == {"A": {"f1_macro": 3}, "B": {"f1_macro": 4}, "C": {"f1_macro": 0}}


def test_a_comparison_says_of_how_many_draws_a_further_score_is_the_mean():
    X, y = labeled(30, 4, 3)
    half, whole = np.arange(15), np.arange(15, 30)
    splits = [(half, whole), (whole, half), (half, whole[y[whole] > 0])]  # a class that is not tested has no AUC
    options = {"splits": splits, "tune": False, "verbose": False}
    table = compare(X, y, ["NN-LEM"], scoring=["accuracy", "roc_auc_ovr"], **options)
    assert "(2 of 3 draws)" in str(table)
    assert "(2 of 3 draws)" in table.to_markdown()
    assert "draws)" not in str(compare(X, y, ["NN-LEM"], scoring=["accuracy", "f1_macro"], **options))


def test_a_method_that_always_failed_has_no_figure_and_is_never_best():
    results = failing(make_results(), "CDL", set(range(10)))
    row = next(row for row in tables.make_table(results) if row.method == "CDL")
    assert row.mean is row.std is row.p is row.difference is None
    assert not row.best
    assert "| CDL ! | failed |" in tables.to_markdown(results)
    everything = failing(make_results(["CDL"]), "CDL", set(range(10)))
    assert not any(row.best for row in tables.make_table(everything))


def test_without_the_proposed_method_there_is_no_gain_and_no_test():
    results = make_results(["NN-LEM", "CDL"])
    assert "| method | ours | 95 % interval | published |\n" in tables.to_markdown(results)
    assert tables.notes(results) == []
    assert "| method | ours | 95 % interval | published | gain | p |\n" in tables.to_markdown(make_results())


def test_without_published_figures_there_is_no_such_column():
    assert "| method | accuracy | 95 % interval | gain | p |\n" in tables.to_markdown(make_results(dataset="digits"))


# -------------------------------------------------------------------------------------------------------------- formats


def test_every_line_of_the_markdown_table_has_as_many_cells():
    lines = [line for line in tables.to_markdown(make_results()).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 4 + 17
    assert {line.count("|") for line in lines} == {7}


def test_every_line_of_the_latex_table_has_as_many_cells_and_nothing_special_is_left():
    results = failing(make_results(title=r"50% of a_b & {c} #1 \x ^ ~ $"), "CDL", {1}, "KeyError: a_b")
    text = tables.to_latex(results)
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "multicolumn" not in line]
    assert len(rows) == 18
    assert {len(re.findall(r"(?<!\\)&", line)) for line in rows} == {5}
    assert r"50\% of a\_b \& \{c\} \#1 \textbackslash{}x \^{} \~{} \$" in text
    assert r"KeyError: a\_b" in text
    assert text.count(r"\begin") == text.count(r"\end") == 2
    assert not re.search(r"(?<!\$)<(?!\$)", text)  # a bare < prints as another sign
    assert "SPDML$^{*}$-LEM" in text
    opened = len(re.findall(r"(?<!\\)\{", text))
    assert opened == len(re.findall(r"(?<!\\)\}", text))
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0


def test_csv_and_json_hold_all_digits():
    results = failing(make_results(), "CDL", {1})
    rows = tables.make_table(results)
    read = list(csv.DictReader(io.StringIO(tables.to_csv(results))))
    assert [float(row["mean"]) for row in read] == [row.mean for row in rows]
    assert [float(row["p"]) if row["p"] else None for row in read] == [row.p for row in rows]
    content = json.loads(tables.to_json(results))
    assert [row["p"] for row in content["rows"]] == [row.p for row in rows]
    assert content["reference"] == "SPDSL-LEM"
    cells = list(csv.DictReader(io.StringIO(tables.cells_to_csv(results))))
    assert [float(row["accuracy"]) for row in cells if row["accuracy"]] == [
        c.accuracy for c in results.cells if not c.error
    ]
    assert json.loads(cells[0]["params"]) == {"v": 1}


def test_csv_tables_do_not_depend_on_how_long_it_took():
    results = make_results()
    slow = replace(results, cells=[replace(c, fit_seconds=99.0) for c in results.cells], seconds=1e4)
    assert tables.to_csv(slow) == tables.to_csv(results)
    assert tables.cells_to_csv(slow) == tables.cells_to_csv(results)
    assert tables.seconds_to_csv(slow) != tables.seconds_to_csv(results)


def test_the_terminal_table_fits_into_eighty_columns_and_a_title_is_no_markup():
    shown = io.StringIO()
    Console(file=shown, width=80).print(tables.to_rich(make_results(title="[red]x[/red]")))
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert "[red]x[/red]" in shown.getvalue()
    for name in PAPER:
        assert any(line.split()[:1] == [name] for line in lines)
    assert "…" not in shown.getvalue()


def test_every_output_is_written_and_the_results_can_be_read_back(tmp_path):
    results = make_results()
    written = tables.write_outputs(results, tmp_path / "new")
    assert {path.name for path in written} == set(tables.OUTPUTS)
    assert all(path.stat().st_size for path in written)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(tables.OUTPUTS)
    assert read_results(tmp_path / "new") == results


def test_results_that_are_missing_or_damaged_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"results\.json: no such file; `spdsl reproduce"):
        read_results(tmp_path)
    (tmp_path / "results.json").write_text('{"spdsl-results": 1, "cel')
    with pytest.raises(ValueError, match=r"results\.json: not results of spdsl"):
        read_results(tmp_path)
