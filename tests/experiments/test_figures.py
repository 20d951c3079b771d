"""What is drawn is what was given, and it can be read in grey, in the dark and without seeing it."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from runs import make_results, make_studies
from spdsl.experiments import figures
from spdsl.experiments.drawing import COLOURS, inline, styled, to_png, to_svg
from spdsl.experiments.gallery import draw_plates, save_plates
from spdsl.experiments.tables import make_table

STUDIES = make_studies()


@pytest.fixture(autouse=True)
def _style():
    with styled():
        yield


def curves(figure):
    """Lines of a figure by their label."""
    axes = figure.axes[0]
    return {line.get_label(): line.get_xydata() for line in axes.get_lines()}


def test_accuracies_against_neighbours_are_means_over_the_draws():
    drawn = curves(figures.draw_sweep(STUDIES.sweep, "accuracy"))
    assert list(drawn) == ["LEM", "AIM", "Stein"]
    np.testing.assert_allclose(drawn["LEM"], [[0, 50.5], [1, 60.5], [2, 70.5]])
    np.testing.assert_allclose(drawn["Stein"][:, 1], [50.7, 60.7, 70.7])


def test_seconds_against_neighbours_are_those_of_the_timed_draw():
    points = [*STUDIES.sweep, *(p for p in make_studies().sweep if p.draw == 0)]
    drawn = curves(figures.draw_sweep(points, "seconds"))
    np.testing.assert_allclose(drawn["AIM"][:, 1], [0.002, 0.004, 0.006])


def test_neighbours_are_named_along_the_axis():
    figure = figures.draw_sweep(STUDIES.sweep, "accuracy")
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["1", "2", "full"]


def test_metrics_differ_in_marker_and_dashes_and_not_in_colour_alone():
    for key in ("marker", "linestyle", "color"):
        assert len({line[key] for line in figures.LINES.values()}) == len(figures.LINES)


def test_convergence_is_the_objective_over_its_last_value():
    drawn = [line.get_xydata() for line in figures.draw_convergence(STUDIES.fits).axes[0].get_lines()]
    whole = {len(line): line for line in drawn if len(line) > 1}
    for fit in STUDIES.fits:
        np.testing.assert_allclose(whole[len(fit.values)][:, 1], np.array(fit.values) / fit.values[-1])


def test_methods_show_every_draw_mean_deviation_and_published():
    results = make_results(published={"NN-LEM": (63.9, 3.2)})
    rows = make_table(results)
    accuracies = {row.method: [100 * c.accuracy for c in results.cells if c.method == row.method] for row in rows}
    axes = figures.draw_methods(rows, accuracies).axes[0]
    places = dict(zip([text.get_text() for text in axes.get_yticklabels()], axes.get_yticks(), strict=True))
    for row in rows:
        lines = [line.get_xydata() for line in axes.get_lines() if np.all(line.get_ydata() == places[row.method])]
        found = {len(xy): xy[:, 0] for xy in lines if len(xy) > 2} | {0: []}
        np.testing.assert_allclose(found[4], accuracies[row.method])
        ends = [row.mean - row.std, row.mean + row.std]
        assert any(len(xy) == 2 and np.allclose(xy[:, 0], ends) for xy in lines)
        single = [float(xy[0, 0]) for xy in lines if len(xy) == 1]
        assert single == pytest.approx([row.mean, *([63.9] if row.method == "NN-LEM" else [])])


def test_similarities_and_confusions_are_drawn_as_given():
    view = STUDIES.view
    image = figures.draw_similarity(view.after, view.labels, STUDIES.classes).axes[0].images[0]
    np.testing.assert_array_equal(image.get_array(), view.after.similarity)
    axes = figures.draw_confusion(np.array([[3, 1], [0, 0]]), ["a", "b"]).axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), [[75, 25], [0, 0]])
    assert [text.get_text() for text in axes.texts] == ["75", "25"]


def test_samples_in_the_plane_are_where_they_were_put():
    view = STUDIES.view
    drawn = figures.draw_embedding(view.before, view.labels, figures.class_codes(STUDIES.classes)).axes[0].collections
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
    one, other = (to_svg(figures.draw_sweep(STUDIES.sweep, "seconds")) for _ in range(2))
    assert one == other


def test_a_drawing_in_a_page_takes_the_colours_of_the_page_and_keeps_its_names_to_itself():
    element = inline(to_svg(figures.draw_methods(make_table(make_results()), _accuracies())), "one")
    ElementTree.fromstring(element)
    assert set(re.findall(r"var\(--fig-(\w+)", element)) >= {"ink", "muted", "faint", "blue", "paper"}
    bare = re.sub(r"var\([^)]*\)", "", element)
    assert not any(value in bare for value in COLOURS.values())
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
    plates = draw_plates(make_results(), STUDIES)
    pictures = [picture for plate in plates for picture in plate.pictures]
    assert [plate.name for plate in plates] == [
        *("methods", "neighbours", "convergence", "similarity", "embedding", "confusion")
    ]
    assert all(len(picture.alt) > 40 for picture in pictures)
    assert "the worst: SPDSL-LEM 87.7, CDL 83.0" in pictures[0].alt
    paths = save_plates(plates, tmp_path)
    assert {path.name for path in paths} == {f"{p.name}.{kind}" for p in pictures for kind in ("svg", "png")}
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in paths}


def test_numbers_that_are_missing_leave_their_figures_out():
    assert [plate.name for plate in draw_plates(make_results(), None)] == ["methods"]
    studies = make_studies()
    bare = type(studies)(studies.classes)
    assert [plate.name for plate in draw_plates(make_results(), bare)] == ["methods"]


def test_settings_of_the_user_are_left_as_they_were():
    import matplotlib

    matplotlib.rcParams["font.size"] = 33
    draw_plates(make_results(), None)
    assert matplotlib.rcParams["font.size"] == 33
