"""The estimators as a user meets them: scikit-learn habits, outcomes, and what fit promises."""

import io
import itertools
import pickle
import re
import sys
import time
import warnings

import numpy as np
import pytest
import scipy.io
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from samples import aligned, labeled, random_spd, smallest_eigenvalue
from spdsl import METRICS, SPDML, SPDSL, SPDNearestNeighbor, pairwise_sqdist, regularize
from spdsl.data import MemoryData
from spdsl.learning.solver import minimize

X, Y = labeled()
X_NEW, Y_NEW = labeled(count=45, noise=0.6, seed=0)[0][30:], np.arange(30, 45) % 3
LEARNERS = [aligned(3, max_iter=100), SPDML(3, max_iter=100)]
ALL = [*LEARNERS, SPDNearestNeighbor()]
names = pytest.mark.parametrize
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def learned(**parameters):
    """SPDSL on the common sample, stopped early: most tests need no optimum."""
    parameters = {"n_components": 3, "max_iter": 8, "tol": 0.0, **parameters}
    return aligned(**parameters)


@pytest.fixture(scope="module")
def model():
    return aligned(3, max_iter=200).fit(X, Y)


# ------------------------------------------------------------------------------------------ scikit-learn habits


@names("estimator", ALL, ids=repr)
def test_clone_has_equal_parameters_and_no_state(estimator):
    fitted = clone(estimator).fit(X, Y)
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(X)


@names("estimator", ALL, ids=repr)
def test_pickle_round_trip_predicts_the_same(estimator):
    fitted = clone(estimator).fit(X, Y)
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict(X_NEW), fitted.predict(X_NEW))
    if hasattr(fitted, "transform"):
        np.testing.assert_array_equal(copy.transform(X_NEW), fitted.transform(X_NEW))
        np.testing.assert_array_equal(copy.sqdist(X_NEW), fitted.sqdist(X_NEW))


def test_set_params_changes_the_next_fit():
    estimator = learned().fit(X, Y)
    assert estimator.set_params(n_components=2, metric="stein").fit(X, Y) is estimator
    assert estimator.components_.shape == (6, 2)
    assert estimator.transform(X_NEW).shape == (15, 2, 2)
    with pytest.raises(ValueError, match="Invalid parameter 'components'"):
        estimator.set_params(components=2)


@names("estimator", [aligned(3, max_iter=30), SPDML(3, max_iter=30), SPDNearestNeighbor()], ids=repr)
def test_cross_val_score_beats_chance(estimator):
    scores = cross_val_score(estimator, X, Y, cv=StratifiedKFold(3))
    assert scores.shape == (3,)
    assert scores.mean() > 0.5  # chance is 1/3


def test_grid_search_finds_the_best_cell_and_refits():
    grid = {"n_components": [2, 3], "metric": ["lem", "stein"]}
    search = GridSearchCV(aligned(max_iter=10, tol=1e-2), grid, cv=3).fit(X, Y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_estimator_.components_.shape == (6, search.best_params_["n_components"])
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    np.testing.assert_array_equal(search.predict(X_NEW), search.best_estimator_.predict(X_NEW))


def test_pipeline_as_last_and_as_middle_step():
    ridge = FunctionTransformer(regularize, kw_args={"ridge": 1e-2})
    last = Pipeline([("ridge", ridge), ("spdsl", learned())]).fit(X, Y)
    alone = learned().fit(regularize(X, 1e-2), Y)
    np.testing.assert_array_equal(last.predict(X_NEW), alone.predict(regularize(X_NEW, 1e-2)))
    middle = make_pipeline(learned(), SPDNearestNeighbor("lem")).fit(X, Y)
    np.testing.assert_array_equal(middle.predict(X_NEW), learned().fit(X, Y).predict(X_NEW))


def test_pipeline_with_pyriemann():
    mdm = pytest.importorskip("pyriemann.classification").MDM
    pipe = make_pipeline(aligned(3, max_iter=200), mdm(metric="logeuclid")).fit(X, Y)
    assert pipe.score(X, Y) > 0.8
    assert set(pipe.predict(X_NEW)) <= set(Y)


# ------------------------------------------------------------------------------------------ transform and predict


@names("estimator", LEARNERS, ids=repr)
@names("m", [1, 2, 5])
def test_transform_is_the_congruence_by_components(estimator, m):
    fitted = clone(estimator).set_params(n_components=m, max_iter=5, tol=0.1).fit(X, Y)
    reduced = fitted.transform(X_NEW)
    W = fitted.components_
    assert W.shape == (6, m)
    np.testing.assert_allclose(reduced, np.einsum("ia,kij,jb->kab", W, X_NEW, W), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(reduced, reduced.mT)
    assert smallest_eigenvalue(reduced) > 0
    np.testing.assert_allclose(clone(fitted).fit_transform(X, Y), fitted.transform(X), rtol=1e-12)


@names(
    "labels",
    [np.array(["ox", "cow", "bull"]), np.array([-5, 0, 7]), np.array([2.0, 3.0, 10.0]), np.array([True, False, False])],
    ids=["strings", "negative", "whole floats", "booleans"],
)
@names("estimator", ALL, ids=repr)
def test_predict_gives_labels_of_the_kind_it_got(estimator, labels):
    y = labels[Y]
    fitted = clone(estimator).fit(X, y)
    predicted = fitted.predict(X)
    assert predicted.dtype == y.dtype
    np.testing.assert_array_equal(fitted.classes_, np.unique(y))
    assert fitted.score(X, y) == np.mean(predicted == y) > 0.9


def test_labels_as_list_or_objects():
    by_list = SPDNearestNeighbor().fit(X, [["a", "b", "c"][k] for k in Y])
    by_object = SPDNearestNeighbor().fit(X, np.array(["a", "b", "c"], dtype=object)[Y])
    np.testing.assert_array_equal(by_list.predict(X_NEW), by_object.predict(X_NEW))


@names("metric", ["lem", "aim"])
@names("k", [1, 2, 3, 5, 30])
def test_neighbors_vote_as_by_brute_force(metric, k):
    d2 = pairwise_sqdist(X_NEW, X, metric=metric)
    expected = []
    for row in d2:
        nearest = np.argsort(row, kind="stable")[:k]
        votes = [int(np.sum(Y[nearest] == c)) for c in range(3)]
        expected.append(next(Y[j] for j in nearest if votes[Y[j]] == max(votes)))
    fitted = SPDNearestNeighbor(metric, n_neighbors=k).fit(X, Y)
    np.testing.assert_array_equal(fitted.predict(X_NEW), expected)
    distance, index = fitted.kneighbors(X_NEW)
    assert distance.shape == index.shape == (15, k)
    np.testing.assert_allclose(distance, np.sort(d2, axis=1)[:, :k], rtol=1e-9, atol=1e-12)


def test_classifier_of_a_learner_works_on_reduced_matrices(model):
    reduced = model.transform(X_NEW)
    np.testing.assert_array_equal(model.classifier_.predict(reduced), model.predict(X_NEW))
    assert model.classifier_.n_features_in_ == 3


def test_learner_votes_under_the_learned_distance():
    fitted = learned(classifier=SPDNearestNeighbor("lem", n_neighbors=3)).fit(X, Y)
    nearest = np.argsort(fitted.sqdist(X_NEW, X), axis=1, kind="stable")[:, :3]
    majority = [np.bincount(Y[row], minlength=3) for row in nearest]
    clear = np.array([votes.max() > 1 for votes in majority])
    assert clear.sum() > 5
    np.testing.assert_array_equal(fitted.predict(X_NEW)[clear], np.array([v.argmax() for v in majority])[clear])


@names("metric", list(METRICS))
@names(("count", "n"), [(3, 7), (101, 3), (101, 5)])
def test_ties_go_to_the_first_training_sample(metric, count, n):
    # copies fall on the edges of blocks in matrix products, where they round differently
    base = random_spd(count, n, seed=count)
    for extra in (1, 2, 3):
        stack = np.concatenate([base, base, base[:extra]])
        y = np.repeat([7, 3], [count, count + extra])
        fitted = SPDNearestNeighbor(metric).fit(stack, y)
        np.testing.assert_array_equal(fitted.predict(random_spd(33, n, seed=99)), 7)
        np.testing.assert_array_equal(fitted.predict(base), 7)


def test_ties_go_to_the_first_training_sample_of_a_learner():
    stack = np.concatenate([X, X, X[:1]])
    fitted = learned().fit(stack, np.concatenate([Y, Y + 10, [99]]))
    assert fitted.predict(X_NEW).max() < 10


def test_prediction_in_blocks_equals_one_by_one():
    stack = random_spd(600, 3, seed=8)  # more than two blocks
    fitted = SPDNearestNeighbor("stein").fit(X[:, :3, :3], Y)
    singly = np.concatenate([fitted.predict(P[None]) for P in stack])
    np.testing.assert_array_equal(fitted.predict(stack), singly)


# ------------------------------------------------------------------------------------------ distances and similarity


def test_sqdist_and_similarity(model):
    d2 = model.sqdist(X_NEW)
    np.testing.assert_array_equal(d2, d2.T)
    np.testing.assert_array_equal(np.diag(d2), 0)
    assert d2[~np.eye(15, dtype=bool)].min() > 0
    np.testing.assert_allclose(d2, pairwise_sqdist(model.transform(X_NEW), metric="lem"), rtol=1e-12)
    np.testing.assert_allclose(model.sqdist(X_NEW, X), model.sqdist(X, X_NEW).T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.similarity(X_NEW, X), np.exp(-model.beta_ * model.sqdist(X_NEW, X)), rtol=1e-14)
    assert model.similarity(X_NEW).max() == 1


@names("where", ["original", "reduced"])
def test_beta_is_the_inverse_square_of_the_mean_distance(where):
    fitted = learned(max_iter=0, beta=where, n_within="all", n_between="all").fit(X, Y)
    stack = X if where == "original" else fitted.transform(X)  # no iteration: components_ is the start
    d = np.sqrt(pairwise_sqdist(stack, metric="lem")[np.triu_indices(30, 1)])
    assert fitted.beta_ == pytest.approx(1 / d.mean() ** 2, rel=1e-12)
    fitted.set_params(beta_scale=2.5).fit(X, Y)
    assert fitted.beta_ == pytest.approx(2.5 / d.mean() ** 2, rel=1e-12)


def test_beta_can_be_given():
    assert learned(max_iter=0, beta=0.7).fit(X, Y).beta_ == 0.7


@names("alias", ["riemann", "logdet", "logeuclid"])
def test_aliases_are_the_same_metric(alias):
    name = {"riemann": "aim", "logdet": "stein", "logeuclid": "lem"}[alias]
    one, two = learned(metric=alias).fit(X, Y), learned(metric=name).fit(X, Y)
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(
        SPDNearestNeighbor(alias).fit(X, Y).predict(X_NEW), SPDNearestNeighbor(name).fit(X, Y).predict(X_NEW)
    )
    np.testing.assert_array_equal(pairwise_sqdist(X, metric=alias), pairwise_sqdist(X, metric=name))


# ------------------------------------------------------------------------------------------ the cost


@names("estimator", [learned(), learned(objective="pairs", n_between=3), SPDML(3, max_iter=8, tol=0.0)], ids=repr)
def test_cost_is_what_fit_minimizes(estimator):
    fitted = clone(estimator).set_params(solver={"init": "identity"}).fit(X, Y)
    before = vars(fitted).copy()
    cost = fitted.cost(X, Y)
    assert vars(fitted) == before  # asking for the cost changes nothing
    assert cost(np.eye(6, 3))[0] == pytest.approx(fitted.history_[0]["value"], rel=1e-12)
    assert cost(fitted.components_)[0] == pytest.approx(fitted.cost_, rel=1e-9)
    assert fitted.cost_ == fitted.history_[-1]["value"] < fitted.history_[0]["value"]
    W = fitted.components_
    direction = np.random.default_rng(0).standard_normal(W.shape)
    h = 1e-5
    slope = (cost(W + h * direction)[0] - cost(W - h * direction)[0]) / (2 * h)
    assert np.sum(cost(W)[1] * direction) == pytest.approx(slope, rel=1e-6, abs=1e-9)


def test_cost_of_an_unfitted_model_leaves_it_unfitted():
    estimator = learned()
    estimator.cost(X, Y)
    with pytest.raises(NotFittedError):
        estimator.predict(X)


def test_cost_on_other_data_does_not_touch_the_fitted_similarity(model):
    before = model.similarity(X_NEW)
    model.cost(X**2 + np.eye(6), Y)(model.components_)
    np.testing.assert_array_equal(model.similarity(X_NEW), before)


def test_cost_rejects_a_point_of_wrong_shape():
    cost = learned().cost(X, Y)
    with pytest.raises(ValueError, match=r"\(6, m\) with 1 <= m <= 6, got \(5, 3\)"):
        cost(np.eye(5, 3))


def test_pymanopt_ends_where_we_end():
    pymanopt = pytest.importorskip("pymanopt")
    stack, y = labeled(count=40, n=8, n_classes=4, seed=3)
    ours = aligned(3, solver={"init": "identity"}, max_iter=500, tol=1e-7).fit(stack, y)
    cost = ours.cost(stack, y)
    manifold = pymanopt.manifolds.PSDFixedRank(8, 3)
    value = pymanopt.function.numpy(manifold)(lambda W: cost(W)[0])
    gradient = pymanopt.function.numpy(manifold)(lambda W: cost(W)[1])
    problem = pymanopt.Problem(manifold, value, euclidean_gradient=gradient)
    optimizer = pymanopt.optimizers.ConjugateGradient(max_iterations=500, verbosity=0)
    theirs = optimizer.run(problem, initial_point=np.eye(8, 3))
    assert theirs.cost < ours.history_[0]["value"] - 0.1  # it did work
    assert ours.cost_ == pytest.approx(theirs.cost, rel=0.01)


# ------------------------------------------------------------------------------------------ the fit


@names("init", ["identity", "pca", "random"])
def test_named_starts(init):
    start = learned(solver={"init": init}, max_iter=0, random_state=1).fit(X, Y).components_
    unit = np.linalg.norm(start[:, 0])
    assert np.log2(unit) == pytest.approx(round(np.log2(unit)), abs=1e-12)  # brings W'XW near one
    start = start / unit
    np.testing.assert_allclose(start.T @ start, np.eye(3), atol=1e-12)
    if init == "identity":
        np.testing.assert_array_equal(start, np.eye(6, 3))
    if init == "pca":
        mean = np.mean(X / np.trace(X, axis1=1, axis2=2)[:, None, None], axis=0)
        top = np.linalg.eigvalsh(mean)[-3:]
        np.testing.assert_allclose(np.diag(start.T @ mean @ start), top[::-1], rtol=1e-10)


@names("init", [np.eye(6, 3) + 0.1, (np.eye(6, 3) + 0.1).tolist(), np.eye(6, 3, dtype=np.float32)], ids=type)
def test_array_start(init):
    kept = np.array(init)
    fitted = learned(solver={"init": init}, max_iter=0).fit(X, Y)
    np.testing.assert_array_equal(fitted.components_, kept.astype(float))
    moved = learned(solver={"init": init}).fit(X, Y)
    np.testing.assert_array_equal(init, kept)  # the start is not written to
    assert moved.cost_ < fitted.cost_
    assert learned(solver={"init": init}, n_components=None, max_iter=0).fit(X, Y).components_.shape == (6, 3)


def test_default_size_is_n_and_at_most_forty_and_a_third_where_a_square_W_changes_nothing():
    assert SPDSL(max_iter=0).fit(X, Y).components_.shape == (6, 6)
    assert SPDSL(metric="aim", max_iter=0).fit(X, Y).components_.shape == (6, 2)
    assert SPDML(max_iter=0).fit(X, Y).components_.shape == (6, 2)
    large = np.eye(45) * (1 + np.arange(8))[:, None, None]
    assert SPDSL(max_iter=0).fit(large, np.arange(8) % 2).components_.shape == (45, 40)
    with pytest.raises(ValueError, match="below the size 6 of the matrices"):
        SPDSL(6, metric="stein").fit(X, Y)


def test_random_state_decides():
    one, two, other = (learned(solver={"init": "random"}, random_state=seed).fit(X, Y) for seed in (7, 7, 8))
    np.testing.assert_array_equal(one.components_, two.components_)
    assert not np.allclose(one.history_[0]["value"], other.history_[0]["value"])


def test_fit_lowers_the_cost_monotonically_and_tells_its_history(model):
    values = [row["value"] for row in model.history_]
    assert all(later < earlier for earlier, later in itertools.pairwise(values))
    assert [row["iteration"] for row in model.history_] == list(range(model.n_iter_ + 1))
    assert set(model.history_[0]) == {"iteration", "value", "gradient_norm", "step", "trials", "seconds"}
    assert model.status_ == "change"
    assert model.score(X, Y) == 1.0


@names("metric", ["aim", "stein", "lem"])
@names("estimator", [aligned(3, tol=0.0, max_iter=12), SPDML(3, tol=0.0, max_iter=12)], ids=repr)
def test_one_pass_over_the_data_per_iteration(estimator, metric):
    fitted = clone(estimator).set_params(metric=metric, n_between=4).fit(X, Y)
    assert fitted.n_iter_ == 12
    assert fitted.n_passes_ == fitted.n_iter_ + 1


def test_a_fit_takes_the_mean_of_the_samples_once(monkeypatch):
    """For the search and for the automatic classifier alike; so does a fit that needs it for the classifier only."""
    find, calls = MemoryData.recentering, []
    monkeypatch.setattr(MemoryData, "recentering", lambda data: calls.append(1) or find(data))
    for solver in (None, {"init": "pca"}):
        model = SPDSL(3, max_iter=2, solver=solver).fit(X, Y)
        assert len(calls) == 1
        np.testing.assert_array_equal(model.reference_, MemoryData(X).base_map(find(MemoryData(X))))
        calls.clear()


def test_warns_at_the_iteration_limit_only():
    with pytest.warns(ConvergenceWarning, match="SPDSL: the iteration limit was reached.*increase max_iter") as caught:
        assert learned(max_iter=3).fit(X, Y).status_ == "max_iter"
    assert caught[0].filename == __file__  # it points at the caller
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert aligned(3, max_iter=0).fit(X, Y).n_iter_ == 0  # asked for no iteration
        assert aligned(3, max_iter=200).fit(X, Y).status_ == "change"


def test_callback_sees_every_iteration_and_can_stop():
    seen = []

    def stop_at_four(row, W):
        seen.append((row["iteration"], row["value"], W.shape))
        return row["iteration"] == 4

    fitted = learned(max_iter=50, callback=stop_at_four).fit(X, Y)
    assert [iteration for iteration, _, _ in seen] == [0, 1, 2, 3, 4]
    assert {shape for _, _, shape in seen} == {(6, 3)}
    assert fitted.status_ == "callback"
    assert fitted.n_iter_ == 4
    assert fitted.cost_ == seen[-1][1]
    assert learned(callback=lambda row, W: True).fit(X, Y).n_iter_ == 0
    assert learned(callback=lambda row, W: "go on", max_iter=3).fit(X, Y).n_iter_ == 3  # only True stops


@names("at", [0, 3])
def test_interrupt_keeps_the_best_so_far_and_goes_on(at):
    def interrupt(row, W):
        if row["iteration"] == at:
            raise KeyboardInterrupt

    estimator = learned(max_iter=50, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X, Y)
    assert estimator.status_ == "interrupted"
    assert estimator.n_iter_ == at
    assert estimator.cost(X, Y)(estimator.components_)[0] == pytest.approx(estimator.cost_, rel=1e-9)
    stopped = learned(max_iter=50, callback=lambda row, W: row["iteration"] == at).fit(X, Y)
    np.testing.assert_array_equal(estimator.predict(X_NEW), stopped.predict(X_NEW))


def test_verbose_writes_plain_lines_to_stderr_only(capsys):
    learned(verbose=True).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert re.fullmatch(r"SPDSL: 8/8, about 0 s left, cost -\d+\.\d+", lines[-2])
    assert re.fullmatch(r"SPDSL: 8 of at most 8 in \d+\.\d s, the iteration limit was reached.*", lines[-1])
    assert "\x1b" not in err
    assert "\r" not in err
    learned(verbose=False).fit(X, Y)
    assert capsys.readouterr() == ("", "")


def test_verbose_draws_a_bar_in_a_terminal(monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    learned(verbose=True).fit(X, Y)
    assert "8/8" in screen.getvalue()
    assert "\x1b[" in screen.getvalue()
    assert capsys.readouterr().out == ""


def test_grassmann_keeps_columns_orthonormal():
    fitted = learned(solver={"manifold": "grassmann"}).fit(X, Y)
    np.testing.assert_allclose(fitted.components_.T @ fitted.components_, np.eye(3), atol=1e-12)
    assert fitted.cost_ < fitted.history_[0]["value"]


def test_psd_and_grassmann_agree_for_a_metric_of_linear_invariance():
    spaces = ("psd", "grassmann")
    costs = [
        aligned(3, metric="aim", solver={"manifold": space}, max_iter=300, tol=1e-8).fit(X, Y).cost_ for space in spaces
    ]
    assert costs[0] == pytest.approx(costs[1], rel=1e-3)


@names("metric", ["cholesky", "log-cholesky"])
@names(
    "make",
    [SPDML, lambda m, metric: aligned(m, metric=metric, solver={"manifold": "grassmann"})],
    ids=["SPDML", "SPDSL"],
)
def test_metrics_that_see_rotations_do_not_go_on_grassmann(make, metric):
    with pytest.raises(ValueError, match=f"'{metric}' changes when the columns.*use manifold='psd'"):
        make(3, metric=metric).fit(X, Y)


@names("metric", list(METRICS))
@names("graph", [{}, {"n_between": "all", "n_within": "all"}], ids=["sparse", "full"])
def test_spdml_on_the_psd_manifold_ends_cleanly(metric, graph):
    fitted = SPDML(3, metric=metric, manifold="psd", max_iter=200, **graph).fit(X, Y)
    assert np.isfinite(fitted.components_).all()
    assert np.isfinite(fitted.cost_)
    assert fitted.cost_ <= fitted.history_[0]["value"]
    assert np.linalg.matrix_rank(fitted.components_, tol=1e-12 * np.abs(fitted.components_).max()) == 3
    assert fitted.predict(X_NEW).shape == (15,)


@names("metric", list(METRICS))
def test_spdsl_learns_under_every_metric(metric):
    fitted = aligned(3, metric=metric, max_iter=60, n_between=8).fit(X, Y)
    assert np.isfinite(fitted.components_).all()
    assert fitted.cost_ < fitted.history_[0]["value"]
    assert fitted.score(X_NEW, Y_NEW) > 0.5


@names("rule", ["polak-ribiere", "fletcher-reeves", "dai-yuan", "hestenes-stiefel"])
def test_every_direction_rule_reaches_much_the_same_cost(rule, model):
    fitted = aligned(3, max_iter=300, tol=1e-6, solver={"rule": rule}).fit(X, Y)
    start = fitted.history_[0]["value"]
    assert fitted.cost_ - start == pytest.approx(model.cost_ - start, rel=0.05)


# ------------------------------------------------------------------------------------------ arrays of all kinds


def strided(A):
    """The same values, seen through a stride."""
    wide = np.zeros((*A.shape[:2], 2 * A.shape[2]))
    wide[:, :, ::2] = A
    return wide[:, :, ::2]


def locked(A):
    A = A.copy()
    A.flags.writeable = False
    return A


KINDS = {
    "read-only": locked,
    "fortran": np.asfortranarray,
    "strided": strided,
    "reversed": lambda A: A[::-1].copy()[::-1],
    "lists": np.ndarray.tolist,
    "big endian": lambda A: A.astype(">f8"),
    "list of matrices": list,
}


@names("kind", KINDS)
@names("estimator", ALL, ids=repr)
def test_the_layout_of_X_does_not_matter(estimator, kind):
    plain = clone(estimator).fit(X, Y)
    other = clone(estimator).fit(KINDS[kind](X), Y.tolist())
    np.testing.assert_array_equal(other.predict(KINDS[kind](X_NEW)), plain.predict(X_NEW))
    if hasattr(plain, "cost_"):
        assert other.cost_ == pytest.approx(plain.cost_, rel=1e-9)


@names("dtype", [np.float32, np.int64, np.uint8, np.float16])
@names("estimator", ALL, ids=repr)
def test_numbers_of_other_types_are_taken_at_their_value(estimator, dtype):
    A = np.clip(np.round(2 * X + 5), 0, 20) + 100 * np.eye(6)
    typed = A.astype(dtype)
    np.testing.assert_array_equal(typed, A)
    one, two = clone(estimator).fit(A, Y), clone(estimator).fit(typed, Y)
    np.testing.assert_array_equal(one.predict(A), two.predict(typed))
    if hasattr(one, "components_"):
        assert two.components_.dtype == np.float64
        np.testing.assert_array_equal(one.components_, two.components_)


@names("estimator", ALL, ids=repr)
def test_float32_with_its_rounding_is_accepted(estimator):
    rough = (X * (1 + 1e-7 * np.random.default_rng(0).standard_normal(X.shape))).astype(np.float32)
    assert (rough != rough.mT).any()
    fitted = clone(estimator).fit(rough, Y)
    np.testing.assert_array_equal(fitted.predict(X_NEW.astype(np.float32)), clone(estimator).fit(X, Y).predict(X_NEW))


@names("estimator", [*ALL, aligned(3, metric="cholesky"), aligned(3, metric="euclid")], ids=repr)
def test_nothing_the_user_brought_is_written_to(estimator):
    mine, labels, new = X.copy(), Y.copy(), X_NEW.copy()
    fitted = clone(estimator).fit(mine, labels)
    fitted.predict(new)
    if hasattr(fitted, "transform"):
        reduced = fitted.transform(new)
        reduced[:] = 0  # nor does the answer share memory with it
        fitted.sqdist(new, mine)
        fitted.cost(mine, labels)(fitted.components_)
    np.testing.assert_array_equal(mine, X)
    np.testing.assert_array_equal(labels, Y)
    np.testing.assert_array_equal(new, X_NEW)


@names("estimator", LEARNERS, ids=repr)
def test_a_model_does_not_change_when_its_data_do(estimator):
    mine = X.copy()
    fitted = clone(estimator).set_params(metric="aim").fit(mine, Y)
    before = fitted.predict(X_NEW)
    mine[:] = np.eye(6)
    np.testing.assert_array_equal(fitted.predict(X_NEW), before)


@names("scale", [1e-12, 1e12])
@names("metric", ["aim", "stein", "lem"])
@names("estimator", [learned(max_iter=20), SPDML(3, max_iter=20)], ids=repr)
def test_results_do_not_depend_on_the_unit(estimator, metric, scale):
    estimator = clone(estimator).set_params(metric=metric)
    one, two = clone(estimator).fit(X, Y), clone(estimator).fit(scale * X, Y)
    assert two.cost_ == pytest.approx(one.cost_, rel=1e-8)
    assert two.n_iter_ == one.n_iter_
    np.testing.assert_array_equal(two.predict(scale * X_NEW), one.predict(X_NEW))


def test_single_matrix_is_predicted(model):
    np.testing.assert_array_equal(model.predict(X_NEW[:1]), model.predict(X_NEW)[:1])


# ------------------------------------------------------------------------------------------ real data


@pytest.mark.data
def test_toy_data_full_graph(data_folder):
    toy = scipy.io.loadmat(data_folder / "toy_30x30.mat", simplify_cells=True)["covD_Struct"]
    train, test = (np.moveaxis(toy[part], -1, 0) for part in ("trn_X", "tst_X"))
    y_train, y_test = toy["trn_y"], toy["tst_y"]
    plain = SPDNearestNeighbor("lem").fit(train, y_train).score(test, y_test)
    assert plain == pytest.approx(0.645)
    began = time.perf_counter()
    fitted = aligned(10, metric="lem", n_within="all", n_between="all", max_iter=50).fit(train, y_train)
    assert fitted.score(test, y_test) >= 0.90
    assert time.perf_counter() - began < 60


@pytest.mark.parametrize("classifier", ["auto", "nn", "lda"])
def test_a_fit_asks_nothing_of_the_data_once_the_search_has_begun(classifier, monkeypatch):
    asked = []

    class Watched(MemoryData):
        def first_copies(self):
            asked.append("first_copies")
            return super().first_copies()

        def recentering(self):
            asked.append("recentering")
            return super().recentering()

        def map_log_vectors(self, G, function):
            asked.append("map_log_vectors")
            return super().map_log_vectors(G, function)

    def watched(*args, **options):
        asked.append("search")
        return minimize(*args, **options)

    monkeypatch.setattr("spdsl.learning.learn.minimize", watched)
    SPDSL(3, max_iter=2, classifier=classifier).fit(Watched(X), Y)
    assert asked[-1] == "search"
    assert sorted(asked) == sorted(set(asked))
    assert ("map_log_vectors" in asked) == (classifier == "auto")
