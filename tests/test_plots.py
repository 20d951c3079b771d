"""What the pictures of a model show."""

import sys

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from samples import labeled
from spdsl import SPDSL, LogVectors, Regularize, SPDNearestNeighbor, plots

X, Y = labeled(30, 6)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def model():
    return SPDSL(4, max_iter=5).fit(X, Y)


@pytest.fixture(autouse=True)
def unseen():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def test_bars_are_the_entries_of_each_pattern(model):
    names = list("abcdef")
    axes = plots.patterns(model, names=names)
    assert axes.shape == (4,)
    for k, one in enumerate(axes):
        assert [bar.get_width() for bar in one.patches] == pytest.approx(model.patterns_[:, k])
        assert [text.get_text() for text in one.get_yticklabels()] == names
        assert one.get_title().startswith(f"{k + 1}  (")


def test_images_hold_the_first_features(model):
    (first, second) = plots.patterns(model, patch=(2, 2), count=2)
    np.testing.assert_array_equal(first.images[0].get_array(), model.patterns_[:4, 0].reshape(2, 2))
    low, high = second.images[0].get_clim()
    assert low == -high == -abs(model.patterns_[:4, 1]).max()


@pytest.mark.parametrize("count", [6, 2])
def test_skeletons_show_joints_or_the_length_over_coordinates(model, count):
    joints = np.random.default_rng(0).standard_normal((count, 3))
    (one,) = plots.patterns(model, joints=joints, edges=[(0, 1)], count=1)
    pattern = model.patterns_[:, 0]
    wanted = pattern if count == 6 else np.linalg.norm(pattern.reshape(2, 3), axis=1)
    np.testing.assert_allclose(one.collections[0].get_array(), wanted)
    np.testing.assert_allclose(one.collections[0].get_offsets(), joints[:, :2])
    np.testing.assert_allclose(one.lines[0].get_xydata(), joints[:2, :2])


def test_topographies_come_from_mne(model, monkeypatch):
    drawn = []

    class Viz:
        @staticmethod
        def plot_topomap(pattern, info, *, axes, vlim, **style):
            drawn.append((pattern, vlim))

    monkeypatch.setitem(sys.modules, "mne", type(sys)("mne"))
    sys.modules["mne"].viz = Viz
    plots.patterns(model, {"ch_names": list("abcdef")}, count=2)
    np.testing.assert_array_equal(drawn[1][0], model.patterns_[:, 1])
    assert drawn[1][1][1] == abs(model.patterns_[:, 1]).max()


def test_blocks_and_given_axes():
    model = SPDSL(2, max_iter=2).fit(X.reshape(15, 2, 6, 6), Y[:15])
    _, given = plt.subplots(1, 2)
    assert plots.patterns(model, block=1, ax=given)[1] is given[1]
    assert [bar.get_width() for bar in given[1].patches] == pytest.approx(model.patterns_[1, :, 1])


def test_similarities_are_sorted_by_class_and_the_cost_falls(model):
    image = plots.similarity(model, X, Y).images[0].get_array()
    order = np.argsort(Y, kind="stable")
    d2 = model.sqdist(X)[np.ix_(order, order)]
    np.testing.assert_allclose(image, np.exp(-d2 / np.quantile(d2[np.triu_indices(30, 1)], 0.1)), atol=1e-9)
    _, ax = plt.subplots()
    assert plots.convergence({"one": model, "other": model}, ax=ax) is ax
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [row["value"] for row in model.history_])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one", "other"]


def test_the_embedding_draws_every_sample_once(model):
    ax = plots.embedding(model, X, Y)
    assert sum(len(part.get_offsets()) for part in ax.collections) == len(X)
    assert ax.get_legend() is None  # the signs are the names


def test_numbers_that_stand_for_classes_are_explained(model):
    ax = plots.embedding(model, X[5:], np.array(["left hand", "feet", "tongue"])[Y[5:]])
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["feet", "left hand", "tongue"]
    for handle, count, drawn in zip(legend.legend_handles, (8, 8, 9), ax.collections, strict=True):
        assert len(drawn.get_offsets()) == count
        np.testing.assert_array_equal(handle.get_paths()[0].vertices, drawn.get_paths()[0].vertices)


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"patch": (3, 3)}, "a patch of 3 x 3 has 9 pixels, but there are 6 features"),
        ({"joints": np.zeros((4, 2))}, "4 joints do not fit 6 features"),
        ({"joints": np.zeros(4)}, r"joints has shape \(4,\)"),
        ({"joints": np.zeros((3, 2)), "edges": [(0, 3)]}, "edges names joint 3, but there are 3"),
        ({"joints": np.zeros((3, 2)), "edges": [(-1, 2)]}, "edges names joint -1, but there are 3"),
        ({"joints": np.zeros((3, 2)), "patch": (2, 2)}, "pass only one of info, joints and patch"),
        ({"names": ["a"]}, "names has 1 entries for 6 features"),
        ({"count": 5}, "count=5 is out of range"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(model, known, message):
    with pytest.raises(ValueError, match=message):
        plots.patterns(model, **known)


def test_models_without_distances_and_too_few_axes_are_named(model):
    with pytest.raises(ValueError, match="a LogVectors has no distances to draw"):
        plots.similarity(LogVectors(), X, Y)
    with pytest.raises(ValueError, match="ax has 1 axes for 2 patterns"):
        plots.patterns(model, count=2, ax=plt.subplots()[1])


def test_a_fitted_model_without_patterns_is_not_called_unfitted(model):
    for other in (make_pipeline(Regularize().fit(X), model), SPDNearestNeighbor().fit(X, Y)):
        with pytest.raises(ValueError, match=f"a {type(other).__name__} has no patterns to draw; pass a fitted SPDSL"):
            plots.patterns(other)
        with pytest.raises(ValueError, match="has no iterations to draw"):
            plots.convergence(other)
    with pytest.raises(NotFittedError, match="This SPDSL instance is not fitted yet"):
        plots.patterns(SPDSL())


@pytest.mark.parametrize("draw", [plots.similarity, plots.embedding])
def test_one_sample_has_no_distances(draw, model):
    with pytest.raises(ValueError, match="X has 1 sample, which has no distance to another"):
        draw(model, X[:1], Y[:1])
