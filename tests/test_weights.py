"""Weights of samples: what they equal, their derivative three ways, and what they must be."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import plain
from samples import aligned, labeled
from spdsl import METRICS, SPDML, SPDSL, KernelSVC, Objective, Regularize, backend
from spdsl.data import MemoryData
from spdsl.estimators.discriminant import LeaveOneOutDiscriminant, _LeftOut
from spdsl.estimators.vector_classifier import LogVectorClassifier
from spdsl.learning.graph import PairGraph
from spdsl.learning.objectives import OBJECTIVES
from spdsl.learning.problem import Problem

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
LABELS = np.array([0, 0, 0, 1, 1, 2, 2, 3])  # the last one has no partner
N = len(LABELS)
TIMES = np.array([1, 3, 2, 1, 4, 2, 1, 2])
X, Y = labeled(30, 6)
WEIGHT = np.random.default_rng(5).uniform(0.2, 3.0, 30)
KNOWN = [name for name, objective in OBJECTIVES.items() if objective.weighted]


def make(full, rng):
    i, j = np.triu_indices(N, 1)
    chosen = np.ones(len(i), bool) if full else (rng.random(len(i)) < 0.6) | (LABELS[i] == LABELS[j])
    i, j = i[chosen], j[chosen]
    return PairGraph(N, i, j, LABELS[i] == LABELS[j]), rng.uniform(0.2, 3.0, len(i))


def repeated(graph, d2, copies_are_pairs):
    """The graph of as many copies of every sample, its distances, and the pair each comes from (-1: of two copies)."""
    owner = np.repeat(np.arange(N), TIMES)
    pair = np.full((N, N), -2)
    pair[graph.i, graph.j] = pair[graph.j, graph.i] = np.arange(len(graph))
    if copies_are_pairs:
        np.fill_diagonal(pair, -1)
    i, j = np.triu_indices(len(owner), 1)
    origin = pair[owner[i], owner[j]]
    i, j, origin = i[origin > -2], j[origin > -2], origin[origin > -2]
    same = LABELS[owner[i]] == LABELS[owner[j]]
    distances = np.where(origin < 0, 0.0, d2[origin])
    return PairGraph(len(owner), i, j, same), LABELS[owner], distances, origin


@pytest.mark.parametrize("full", [True, False], ids=["full", "sparse"])
@pytest.mark.parametrize("name", KNOWN)
def test_integer_weights_equal_copies(as_array, name, full, rng):
    """Of the alignment with the pairs of copies, as its diagonal counts, and it grows with the samples; of others without."""
    size = TIMES.mean() if name == "alignment" else 1.0
    graph, d2 = make(full, rng)
    many, labels, distances, origin = repeated(graph, d2, name == "alignment")
    expected, slopes = OBJECTIVES[name](many, labels, 0.7)(distances)
    value, slope = OBJECTIVES[name](graph, LABELS, 0.7, 2.5 * TIMES)(as_array(d2))
    assert size * value == pytest.approx(expected, rel=1e-12)
    summed = np.bincount(origin[origin >= 0], slopes[origin >= 0], len(graph))
    assert_allclose(size * backend.to_numpy(slope), summed, atol=1e-14)


@pytest.mark.parametrize("full", [True, False], ids=["full", "sparse"])
@pytest.mark.parametrize("name", KNOWN)
def test_derivative_equals_that_of_the_value(as_array, name, full, rng):
    graph, d2 = make(full, rng)
    function = OBJECTIVES[name](graph, LABELS, 0.7, rng.uniform(0.1, 4.0, N))
    found = backend.to_numpy(function(as_array(d2))[1])
    assert_allclose(found, plain.gradient(lambda d: function(d)[0], d2, 0.05), atol=1e-9)


@pytest.mark.parametrize("metric", ["aim", "stein", "lem"])
@pytest.mark.parametrize("name", KNOWN)
def test_taylor_remainder_has_order_two(name, metric, rng):
    graph, _ = make(False, rng)
    objective = OBJECTIVES[name](graph, LABELS, 0.7, rng.uniform(0.1, 4.0, N))
    problem = Problem(MemoryData(X[:N]).view(3), METRICS[metric], objective, graph.i, graph.j)
    W, H = np.linalg.qr(rng.standard_normal((6, 3)))[0], rng.standard_normal((6, 3)) / 4
    slope = float(np.sum(problem.cost(W)[1] * H))
    assert 1.9 < plain.taylor_slope(lambda V: problem.cost(V)[0], W, H, slope, 3e-5, 1e-3) < 2.1


def test_three_samples_by_hand():
    """Sample 0 has its partner 1 at distance 0 and sample 2 at log 2: it picks 1 with w_1 / (w_1 + w_2 / 2)."""
    graph = PairGraph(3, *np.triu_indices(3, 1), np.array([True, False, False]))
    d2 = np.array([0.0, np.log(2.0), np.log(2.0)])
    value, _ = OBJECTIVES["stochastic-neighbors"](graph, np.array([0, 0, 1]), 1.0, np.array([1.0, 3.0, 2.0]))(d2)
    assert value == pytest.approx((1 * np.log((3 + 1) / 3) + 3 * np.log((1 + 1) / 1)) / 4)
    value, slope = OBJECTIVES["embedding"](graph, np.array([0, 0, 1]), np.nan, np.array([1.0, 3.0, 2.0]))(d2)
    assert value == pytest.approx(-(2 + 6) * np.log(2) / 11)
    assert_allclose(slope, [3 / 11, -2 / 11, -6 / 11])


MODELS = [
    *(SPDSL(3, max_iter=3, classifier=head) for head in ("auto", "lda", "logistic", "svm", "nn")),
    aligned(3, max_iter=3),
    SPDML(3, max_iter=3, classifier=LogisticRegression()),
    KernelSVC(),
    LogVectorClassifier("lda"),
]


def said(model):
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: repr(m).replace("\n", "")[:50])
def test_weights_of_one_change_no_bit_and_weight_zero_leaves_out(as_array, model):
    expected = said(model.fit(X, Y))
    assert_array_equal(said(model.fit(X, Y, sample_weight=np.ones(30))), expected)
    weight = np.where(np.arange(30) % 5 == 1, 0.0, WEIGHT)
    kept = weight > 0
    expected = said(model.fit(X[kept], Y[kept], sample_weight=weight[kept]))
    assert_array_equal(said(model.fit(X, Y, sample_weight=weight)), expected)
    assert_allclose(said(model.fit(as_array(X), Y, sample_weight=as_array(weight))), expected, atol=1e-6)
    assert_array_equal(
        said(model.fit(X.tolist(), Y.tolist(), sample_weight=kept.tolist())), said(model.fit(X[kept], Y[kept]))
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda m: repr(m).replace("\n", "")[:50])
def test_weights_with_a_sum_of_one_have_the_effect_of_a_mean_of_one(model):
    expected = said(model.fit(X, Y))
    assert_array_equal(said(model.fit(X, Y, sample_weight=np.full(30, 1 / 30))), expected)
    weight = np.where(np.arange(30) % 5 == 1, 0.0, WEIGHT)
    expected = said(model.fit(X, Y, sample_weight=weight / weight[weight > 0].mean()))
    assert_allclose(said(model.fit(X, Y, sample_weight=weight / weight.sum())), expected, atol=1e-6)


@pytest.mark.parametrize("model", MODELS[:2] + MODELS[-2:], ids=lambda m: repr(m).replace("\n", "")[:50])
def test_weight_zero_leaves_the_precision_of_the_numbers_as_it_is(model):
    single = X.astype(np.float32)
    single[:, 0, 1] *= 1 + 4e-7  # rounding of float32, which would be asymmetry in float64
    assert np.abs(single - single.mT).max() > 1e-8 * np.abs(single).max()
    weight = np.where(np.arange(30) % 5 == 1, 0.0, WEIGHT)
    expected = said(model.fit(single[weight > 0], Y[weight > 0], sample_weight=weight[weight > 0]))
    assert_array_equal(said(model.fit(single, Y, sample_weight=weight)), expected)


def test_discriminant_of_vectors_leaves_out_weight_zero(rng):
    V, y = rng.standard_normal((12, 4)), np.arange(12) % 3
    weight = np.where(np.arange(12) == 4, 0.0, WEIGHT[:12])
    kept = weight > 0
    expected = LeaveOneOutDiscriminant().fit(V[kept], y[kept], weight[kept])
    assert_array_equal(LeaveOneOutDiscriminant().fit(V, y, weight).coef_, expected.coef_)


@pytest.mark.parametrize("objective", KNOWN[:3])
def test_a_fit_minimizes_the_weighted_cost_whatever_its_scale(objective):
    model = SPDSL(3, objective=objective, max_iter=5, classifier="nn").fit(X, Y, sample_weight=WEIGHT)
    cost = model.cost(X, Y, sample_weight=WEIGHT)
    assert cost(model.components_)[0] == pytest.approx(model.cost_, rel=1e-9)
    assert abs(cost(model.components_)[0] - model.cost(X, Y)(model.components_)[0]) > 1e-4
    again = SPDSL(3, objective=objective, max_iter=5, classifier="nn").fit(X, Y, sample_weight=4 * WEIGHT)
    assert_array_equal(again.components_, model.components_)
    scale = WEIGHT / WEIGHT.mean()
    C, F = np.mean(scale[:, None, None] * X, axis=0), model.filters_
    assert_allclose(model.patterns_, C @ F @ np.linalg.inv(F.T @ C @ F), atol=1e-9)


def test_discriminant_leaves_a_sample_out_with_its_weight(rng):
    y = np.repeat([0, 1, 2], [4, 5, 6])
    V = rng.standard_normal((15, 4)) + y[:, None]
    w = rng.uniform(0.2, 3.0, 15)
    V = V - np.average(V, axis=0, weights=w)

    def rule(keep, ridge):
        sizes = np.bincount(y[keep], w[keep])
        means = np.array([np.average(V[keep & (y == c)], axis=0, weights=w[keep & (y == c)]) for c in range(3)])
        R = (V - means[y])[keep]
        return sizes, means, np.linalg.inv((w[keep, None] * R).T @ R / w[keep].sum() + ridge * np.eye(4))

    sizes, means, _ = rule(np.ones(15, bool), 0.1)
    R = V - means[y]
    eigenvalues, E = np.linalg.eigh((w[:, None] * R).T @ R / w.sum())
    judged = _LeftOut(V @ E, means @ E, y, sizes, eigenvalues, w).judge(0.1)
    for k in range(15):
        others, centers, B = rule(np.arange(15) != k, 0.1)
        far = np.array([(V[k] - m) @ B @ (V[k] - m) for m in centers])
        assert_allclose(judged.scores[k], np.log(sizes / w.sum()) - far / 2 + judged.spread / (2 * others), atol=1e-9)


def test_heads_count_copies_as_weights():
    times = np.arange(30) % 3 + 1
    V = LogVectorClassifier().fit(X, Y, sample_weight=times)
    many = np.repeat(np.arange(30), times)
    assert_allclose(V.mean_, LogVectorClassifier().fit(X[many], Y[many]).mean_, atol=1e-12)
    weighted, copies = KernelSVC(beta=0.5).fit(X, Y, sample_weight=times), KernelSVC(beta=0.5).fit(X[many], Y[many])
    decide = [model.answer(X, "decision_function") for model in (weighted, copies)]
    assert_allclose(*decide, atol=2e-2)  # the tolerance of libsvm's solver
    flat = X.reshape(30, -1)
    one = LeaveOneOutDiscriminant().fit(flat, Y, times)
    other = LeaveOneOutDiscriminant().fit(flat[many], Y[many])
    assert_allclose(one.mean_, other.mean_, atol=1e-12)
    assert one.n_samples_ == other.n_samples_


def test_weights_reach_a_learner_through_a_pipeline_and_a_search():
    with sklearn.config_context(enable_metadata_routing=True):
        learner = SPDSL(3, max_iter=2).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(Regularize(1e-3), learner)
        found = pipeline.fit(X, Y, sample_weight=WEIGHT).predict_proba(X)
        search = GridSearchCV(pipeline, {"spdsl__n_components": [2, 3]}, cv=2).fit(X, Y, sample_weight=WEIGHT)
        assert search.best_score_ > 0
    moved = Regularize(1e-3).fit_transform(X)
    assert_array_equal(found, SPDSL(3, max_iter=2).fit(moved, Y, sample_weight=WEIGHT).predict_proba(moved))


class Contrast(Objective):
    name, width = "contrast", False

    def __call__(self, d2):
        weight = np.where(self.graph.same, 1.0, -1.0)
        return float(weight @ d2), weight


@pytest.mark.parametrize(
    ("model", "weight", "message"),
    [
        (SPDSL(2), -WEIGHT, r"sample_weight\[0\] is -"),
        (SPDSL(2), np.full(30, np.nan), r"sample_weight\[0\] is nan; weights must be finite numbers >= 0"),
        (SPDSL(2), WEIGHT[:-1], r"sample_weight has shape \(29,\) for 30 samples; pass one weight per sample"),
        (SPDSL(2), np.zeros(30), "sample_weight is zero for every sample"),
        (SPDSL(2), np.ma.masked_array(WEIGHT, np.arange(30) == 5), "sample_weight has masked entries"),
        (KernelSVC(), ["a"] * 30, "sample_weight must be an array of real numbers"),
        (SPDSL(2), WEIGHT * (1 + 1j), "must be an array of real numbers, got dtype complex128"),
        (SPDSL(2), np.where(np.arange(30) == 0, 1e-14, 1.0), "may differ by a factor of 1e"),
        (SPDSL(2), WEIGHT * 1e200, "whose powers overflow; divide the weights by their mean"),
        (SPDSL(2), np.where(Y == 0, 1.0, 0.0), "needs at least 2 classes"),
        (SPDSL(2, objective=Contrast), WEIGHT, "objective 'contrast' takes no sample_weight"),
        (
            SPDSL(2, max_iter=1, classifier=KNeighborsClassifier()),
            WEIGHT,
            "a KNeighborsClassifier takes no sample_weight",
        ),
    ],
    ids=[
        "negative",
        "nan",
        "short",
        "zero",
        "masked",
        "text",
        "complex",
        "wide",
        "huge",
        "one class",
        "objective",
        "classifier",
    ],
)
def test_bad_weights_are_named(model, weight, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize(
    ("weight", "message"),
    [(-WEIGHT, r"sample_weight\[0\] is -"), (np.ma.masked_array(WEIGHT, np.arange(30) == 5), "has masked entries")],
    ids=["negative", "masked"],
)
def test_score_takes_the_weights_that_fit_takes(weight, message):
    model = KernelSVC().fit(X, Y)
    with pytest.raises(ValueError, match=message):
        model.score(X, Y, weight)
    right = model.predict(X) == Y
    assert model.score(X, Y, WEIGHT) == pytest.approx(np.average(right, weights=WEIGHT), rel=1e-12)
    assert model.score(X, Y, np.full(30, 1 / 30)) == pytest.approx(right.mean(), rel=1e-12)


HOLE = X.copy()
HOLE[5, 0, 0] = np.nan


@pytest.mark.parametrize(
    "model", [SPDSL(2), SPDML(2), KernelSVC(), LogVectorClassifier()], ids=lambda m: type(m).__name__
)
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (X, [*"abcab", float("nan"), *"abc" * 8], r"y\[5\] is nan"),
        (X, np.ma.masked_array(Y, np.arange(30) == 5), r"y\[5\] is masked"),
        (X, ["1", "b", 1] * 10, "y mixes labels of the types int and str"),
        (HOLE, Y, r"X\[5\] contains NaN"),
        (list(np.ma.masked_array(X, np.isnan(HOLE))), Y, r"X\[5\] has masked entries"),
    ],
    ids=["nan", "masked", "mixed", "hole", "masked matrix"],
)
def test_weights_of_zero_hide_no_error_and_do_not_shift_its_index(model, X, y, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, sample_weight=np.arange(30) > 1)
    if "mixes" not in message:  # nor is what has no weight an error
        left_out = (np.arange(30) != 5) & (np.arange(30) < 28)
        sound = X if "masked entries" not in message and "masked" not in message else globals()["X"]
        labels = Y if "masked" in message else y
        assert hasattr(model.fit(sound, labels, sample_weight=left_out), "classes_")


def test_weight_zero_needs_data_in_memory(tmp_path):
    np.save(tmp_path / "x.npy", X)
    model = SPDSL(2, max_iter=1, classifier="nn")
    with pytest.raises(ValueError, match="leave these samples out"):
        model.fit(tmp_path / "x.npy", Y, sample_weight=WEIGHT * (np.arange(30) > 3))
    on_disk = model.fit(tmp_path / "x.npy", Y, sample_weight=WEIGHT).components_
    assert_allclose(on_disk, model.fit(X, Y, sample_weight=WEIGHT).components_, atol=1e-9)
