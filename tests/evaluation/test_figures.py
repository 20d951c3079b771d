"""What is drawn is what was given, and it can be read in gray, in the dark and without seeing it."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from runs import make_figures, make_results
from spdsl.evaluation import figures
from spdsl.evaluation.figures import COLORS, inline, styled, to_png, to_svg
from spdsl.evaluation.plates import confusion, draw_plates, save_plates
from spdsl.evaluation.statistics import Ranking
from spdsl.evaluation.tables import make_table

DATA = make_figures()


@pytest.fixture(autouse=True)
def _style():
    with styled():
        yield


def curves(figure):
    """Lines of a figure by their label."""
    axes = figure.axes[0]
    return {line.get_label(): line.get_xydata() for line in axes.get_lines()}


def test_accuracies_against_neighbors_are_means_over_the_draws():
    drawn = curves(figures.draw_sweep(DATA.sweep, "accuracy"))
    assert list(drawn) == ["LEM", "AIM", "Stein"]
    np.testing.assert_allclose(drawn["LEM"], [[0, 50.5], [1, 60.5], [2, 70.5]])
    np.testing.assert_allclose(drawn["Stein"][:, 1], [50.7, 60.7, 70.7])


def test_seconds_against_neighbors_are_those_of_the_timed_draw():
    points = [*DATA.sweep, *(p for p in make_figures().sweep if p.draw == 0)]
    drawn = curves(figures.draw_sweep(points, "seconds"))
    np.testing.assert_allclose(drawn["AIM"][:, 1], [0.002, 0.004, 0.006])


def test_neighbors_are_named_along_the_axis():
    figure = figures.draw_sweep(DATA.sweep, "accuracy")
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["1", "2", "full"]


def test_metrics_differ_in_marker_and_dashes_and_not_in_color_alone():
    for key in ("marker", "linestyle", "color"):
        assert len({line[key] for line in figures.LINES.values()}) == len(figures.LINES)


def test_convergence_is_the_objective_over_its_last_value():
    curves = [np.linspace(1.0, 2.0 + k, 5 + k) for k in range(3)]
    drawn = [line.get_xydata() for line in figures.draw_convergence(curves).axes[0].get_lines()]
    whole = {len(line): line for line in drawn if len(line) > 1}
    for values in curves:
        np.testing.assert_allclose(whole[len(values)][:, 1], values / values[-1])


def test_methods_show_every_draw_mean_deviation_and_published():
    results = make_results(published={"NN-LEM": (63.9, 3.2)})
    rows = make_table(results)
    accuracies = {row.method: [100 * c.accuracy for c in results.cells if c.method == row.method] for row in rows}
    axes = figures.draw_methods(rows, accuracies).axes[0]
    places = dict(zip([text.get_text() for text in axes.get_yticklabels()], axes.get_yticks(), strict=True))
    for row in rows:
        lines = [line.get_xydata() for line in axes.get_lines() if np.all(line.get_ydata() == places[row.method])]
        found = {len(xy): xy[:, 0] for xy in lines if len(xy) > 2} | {0: []}
        np.testing.assert_allclose(found[5], accuracies[row.method])
        ends = [row.mean - row.std, row.mean + row.std]
        assert any(len(xy) == 2 and np.allclose(xy[:, 0], ends) for xy in lines)
        single = [float(xy[0, 0]) for xy in lines if len(xy) == 1]
        assert single == pytest.approx([row.mean, *([63.9] if row.method == "NN-LEM" else [])])


def test_similarities_and_confusions_are_drawn_as_given():
    view = DATA.samples
    image = figures.draw_similarity(view.after, view.labels, DATA.classes).axes[0].images[0]
    np.testing.assert_array_equal(image.get_array(), view.after.similarity)
    axes = figures.draw_confusion(np.array([[3, 1], [0, 0]]), ["a", "b"]).axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), [[75, 25], [0, 0]])
    assert [text.get_text() for text in axes.texts] == ["75", "25"]


def test_samples_in_the_plane_are_where_they_were_put():
    view = DATA.samples
    drawn = figures.draw_embedding(view.before, view.labels, figures.class_codes(DATA.classes)).axes[0].collections
    np.testing.assert_array_equal(np.concatenate([dots.get_offsets() for dots in drawn]), view.before.embedding)


@pytest.mark.parametrize(
    ("names", "codes"),
    [(["0", "1"], ["0", "1"]), (["ab", "c"], ["ab", "c"]), (["apple", "b"], ["1", "2"]), (["$", "a"], ["1", "2"])],
)
def test_classes_are_drawn_by_short_names_or_numbers(names, codes):
    assert figures.class_codes(names) == codes


def test_names_of_classes_are_text_whatever_they_hold():
    counts = np.eye(3, dtype=int)
    figure = figures.draw_confusion(counts, ["$x_1", "<b>&", "ein sehr langer Name"])
    texts = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert texts == ["$x_1", "<b>&", "ein sehr la…"]
    assert to_png(figure).startswith(b"\x89PNG")


def test_many_classes_leave_no_names_and_no_numbers():
    figure = figures.draw_confusion(np.eye(130, dtype=int), [f"class {k}" for k in range(130)])
    assert not figure.axes[0].get_yticklabels()
    assert not figure.axes[0].texts


def test_the_same_numbers_give_the_same_file():
    one, other = (to_svg(figures.draw_sweep(DATA.sweep, "seconds")) for _ in range(2))
    assert one == other


def test_a_drawing_in_a_page_takes_the_colors_of_the_page_and_keeps_its_names_to_itself():
    element = inline(to_svg(figures.draw_methods(make_table(make_results()), _accuracies())), "one")
    ElementTree.fromstring(element)
    assert set(re.findall(r"var\(--fig-(\w+)", element)) >= {"ink", "muted", "faint", "blue", "paper"}
    bare = re.sub(r"var\([^)]*\)", "", element)
    assert not any(value in bare for value in COLORS.values())
    assert "#000000" not in bare  # black ink would vanish on dark paper
    names = re.findall(r'\bid="([^"]+)"', element)
    assert all(name.startswith("one-") for name in names)
    assert {ref.removeprefix("#") for ref in re.findall(r'href="([^"]+)"', element)} <= set(names)


def _accuracies():
    results = make_results()
    return {
        row.method: [100 * c.accuracy for c in results.cells if c.method == row.method] for row in make_table(results)
    }


def test_every_picture_has_words_and_two_files(tmp_path):
    plates = draw_plates(make_results(), DATA)
    pictures = [picture for plate in plates for picture in plate.pictures]
    assert [plate.name for plate in plates] == [
        *("methods", "neighbors", "convergence", "similarity", "embedding", "confusion")
    ]
    assert all(len(picture.alt) > 40 for picture in pictures)
    order = sorted(make_table(make_results()), key=lambda row: -row.mean)
    said = ", ".join(f"{row.method} {row.mean:.1f}" for row in order)
    assert f"the worst: {said}." in pictures[0].alt
    paths = save_plates(plates, tmp_path)
    assert {path.name for path in paths} == {f"{p.name}.{kind}" for p in pictures for kind in ("svg", "png")}
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in paths}


def test_numbers_that_are_missing_leave_their_figures_out():
    own = ["methods", "convergence", "confusion"]  # drawn from the cells of the table
    assert [plate.name for plate in draw_plates(make_results(), None)] == own
    bare = type(DATA)(DATA.classes)
    assert [plate.name for plate in draw_plates(make_results(), bare)] == own
    poor = make_results(methods={"CDL": 0.8}, truth=[])
    assert [plate.name for plate in draw_plates(poor, bare)] == ["methods"]


def test_confusions_count_the_predictions_of_the_cells():
    results = make_results()
    for method in ("NN-LEM", "SPDSL-LEM"):
        counts = confusion(results, method)
        right = [cell.accuracy * 60 for cell in results.cells if cell.method == method]
        assert np.trace(counts) == pytest.approx(sum(right))
        assert counts.sum() == 60 * 5


def test_ranks_are_drawn_with_bars_over_methods_that_do_not_differ():
    ranking = Ranking(np.array([1.2, 3.9, 2.0, 2.9]), 0.01, 1.0)
    axes = figures.draw_ranks(["a", "b", "c", "d"], ranking).axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "c", "d", "b"]
    bars = [line.get_xdata().tolist() for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert bars == [[1.2, 2.0], [2.0, 2.9], [2.9, 3.9]]
    assert figures.level_groups([1.0, 1.2, 1.4, 3.0], 0.5) == [(0, 2)]
    assert figures.level_groups([1.0, 3.0], 0.5) == []


def test_settings_of_the_user_are_left_as_they_were():
    import matplotlib

    matplotlib.rcParams["font.size"] = 33
    draw_plates(make_results(), None)
    assert matplotlib.rcParams["font.size"] == 33
