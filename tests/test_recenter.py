"""Recentering by group: where the groups go, which mean is used when, and what is refused or warned of."""

import functools
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline

import spdsl
from samples import labeled, random_spd, symmetric
from spdsl import SPDSL, LogVectors, Recenter, Regularize, SPDNearestNeighbor, riemannian_mean
from spdsl.backend import to_numpy
from spdsl.estimators.recenter import RecenterWarning

METRICS = ["riemann", "logeuclid"]


def sessions(count=60, n=5, n_groups=3, seed=0):
    """Labeled matrices of which every group is moved by a congruence of its own: X, y, groups."""
    X, y = labeled(count, n, seed=seed)
    rng = np.random.default_rng(seed)
    groups = np.arange(count) // (count // n_groups)
    A = np.eye(n) + 0.4 * rng.standard_normal((n_groups, n, n))
    X = A[groups] @ X @ A[groups].mT
    return (X + X.mT) / 2, y, np.array([f"s{g}" for g in groups])


X, Y, GROUPS = sessions()
NEW = GROUPS == "s2"


def commuting(factors, n_each=12):
    """Diagonal groups around the given diagonals, whose means are known: X, groups."""
    rng = np.random.default_rng(0)
    logs = rng.uniform(-1, 1, (n_each, len(factors[0])))
    logs -= logs.mean(axis=0)
    D = np.concatenate([np.exp(logs) * np.asarray(f) for f in factors])
    return D[:, :, None] * np.eye(D.shape[1]), np.repeat(np.arange(len(factors)), n_each), np.exp(logs)


@pytest.mark.parametrize("metric", METRICS)
def test_every_group_moves_to_the_identity_by_its_own_mean(metric, as_array):
    P, groups, centered = commuting([[1.0, 4.0, 9.0], [25.0, 0.5, 1.0]])
    model = Recenter(metric)
    moved = to_numpy(model.fit_transform(as_array(P), groups=groups))
    np.testing.assert_allclose(moved[groups == 0], centered[:, :, None] * np.eye(3), atol=1e-8)
    np.testing.assert_allclose(moved[groups == 0], moved[groups == 1], atol=1e-8)
    np.testing.assert_allclose(to_numpy(model.means_[1]), np.diag([25.0, 0.5, 1.0]), atol=1e-7)
    assert model.groups_ == [0, 1]
    assert model.counts_.tolist() == [12, 12]


def test_a_congruence_of_a_group_changes_its_matrices_by_a_rotation_only():
    A = np.random.default_rng(1).standard_normal((5, 5))
    P = random_spd(15, 5)
    one, other = Recenter().fit_transform(P), Recenter().fit_transform((A @ P @ A.T + (A @ P @ A.T).mT) / 2)
    np.testing.assert_allclose(np.linalg.eigvalsh(one), np.linalg.eigvalsh(other), rtol=1e-6)
    np.testing.assert_allclose(riemannian_mean(one), np.eye(5), atol=1e-8)


def test_which_mean_is_used():
    model = Recenter().fit(X[~NEW], groups=GROUPS[~NEW])
    whole = model.transform(X[~NEW], groups=GROUPS[~NEW])
    some = np.flatnonzero(GROUPS == "s1")[:3]
    np.testing.assert_allclose(model.transform(X[some], groups=GROUPS[some]), whole[some])  # that of the training
    new = model.transform(X[NEW], groups=GROUPS[NEW])
    np.testing.assert_allclose(riemannian_mean(new), np.eye(5), atol=1e-8)  # that of the batch
    np.testing.assert_allclose(model.transform(X[NEW]), new)  # without a name: new as well
    assert model.groups_ == ["s0", "s1"]
    nameless = Recenter().fit(X[~NEW])
    np.testing.assert_allclose(nameless.transform(X[:2]), nameless.transform(X[~NEW])[:2])


@pytest.mark.parametrize("metric", METRICS)
def test_each_block_has_its_own_mean(metric, as_array):
    blocks = np.stack([X, np.roll(X, 7, axis=0)], axis=1)
    together = to_numpy(Recenter(metric).fit_transform(as_array(blocks), groups=GROUPS))
    for k in range(2):
        alone = Recenter(metric).fit_transform(blocks[:, k], groups=GROUPS)
        np.testing.assert_allclose(together[:, k], alone, atol=1e-12)


def test_a_running_mean_comes_to_the_mean_of_all():
    for metric, close in (("logeuclid", 1e-10), ("riemann", 0.1)):  # along geodesics of the second: near it
        model = Recenter(metric, prior=0)
        for P in X[NEW]:
            model.partial_fit(P[None], groups=["new"])
        batch = Recenter(metric).fit(X[NEW])
        np.testing.assert_allclose(model.means_[0], batch.means_[0], rtol=close, atol=close)
        assert model.counts_.tolist() == [NEW.sum()]


def test_a_new_group_starts_from_the_training_groups():
    model = Recenter(prior=4).fit(X[~NEW], groups=GROUPS[~NEW])
    model.partial_fit(X[NEW][:1], groups=["s2"])
    assert model.groups_ == ["s0", "s1", "s2"]
    assert model.counts_.tolist() == [20, 20, 5]
    start, goal = riemannian_mean(model.means_[:2]), X[NEW][0]
    np.testing.assert_allclose(model.means_[2], spdsl.geometry.geodesic(start, goal, 1 / 5), atol=1e-8)
    without = Recenter(prior=0).fit(X[~NEW], groups=GROUPS[~NEW]).partial_fit(X[NEW][:1], groups=["s2"])
    np.testing.assert_allclose(without.transform(X[NEW][:1], groups=["s2"])[0], np.eye(5), atol=1e-8)


def test_partial_fit_goes_on_with_a_group_of_the_fit_and_leaves_the_fit_it_came_from():
    model = Recenter().fit(X, groups=GROUPS)
    before = model.means_
    kept = before.copy()
    model.partial_fit(random_spd(40, 5, seed=8), groups=["s0"] * 40)
    assert model.counts_.tolist() == [60, 20, 20]
    assert np.abs(model.means_[0] - kept[0]).max() > 0.01
    np.testing.assert_array_equal(model.means_[1:], kept[1:])
    np.testing.assert_array_equal(before, kept)


def turned(seed=0, n=5, each=60):
    """A second group that is the first one moved by a congruence: recentered, it is rotated."""
    P, y = labeled(each, n, noise=0.2, signal=1.0, seed=seed)
    A = np.eye(n) + 0.8 * np.random.default_rng(5).standard_normal((n, n))
    Q = A @ P @ A.T
    return P, (Q + Q.mT) / 2, y


def test_rotation_brings_class_means_together():
    P, Q, y = turned()
    both, groups = np.concatenate([P, Q]), np.repeat(["a", "b"], len(P))

    def gap(Z):
        return np.linalg.norm(Z[: len(P)] - Z[len(P) :])

    plain = gap(Recenter().fit_transform(both, groups=groups))
    model = Recenter(rotate=True).fit(both, np.tile(y, 2), groups=groups)
    assert gap(model.transform(both, groups=groups)) < 0.05 * plain
    U = model.rotations_
    np.testing.assert_allclose(U.mT @ U, np.broadcast_to(np.eye(5), U.shape), atol=1e-12)


def test_rotations_do_not_depend_on_the_order_of_the_samples():
    """Of groups with as many matrices the first name leads, not the one that happens to come first."""
    rng = np.random.default_rng(0)
    P, y = labeled(60, 4)
    groups, C = np.repeat(["b", "a", "c"], 20), rng.standard_normal((3, 4, 4)) + 2 * np.eye(4)
    P = symmetric(np.repeat(C, 20, axis=0) @ P @ np.repeat(C, 20, axis=0).mT)
    p = np.arange(60)[::-1]
    plain = Recenter(rotate=True).fit(P, y, groups=groups).transform(P, groups=groups)
    other = Recenter(rotate=True).fit(P[p], y[p], groups=groups[p]).transform(P[p], groups=groups[p])
    np.testing.assert_allclose(other, plain[p], atol=1e-5)


def test_numbers_of_numpy_in_a_list_or_an_array_of_objects_are_names():
    plain = Recenter().fit(X, groups=[1] * 30 + [2] * 30)
    mixed = Recenter().fit(X, groups=np.array([np.int64(1)] * 30 + [np.float32(2)] * 30, dtype=object))
    assert mixed.groups_ == plain.groups_
    np.testing.assert_array_equal(mixed.means_, plain.means_)


def test_a_few_labeled_matrices_rotate_a_new_group():
    P, Q, y = turned()
    train = Recenter(rotate=True).fit(P, y, groups=["a"] * len(P))
    reference = train.transform(P, groups=["a"] * len(P))
    plain = np.linalg.norm(train.transform(Q, groups=["b"] * len(Q)) - reference)
    few = slice(0, 30)
    train.partial_fit(Q[few], y[few], groups=["b"] * 30)
    rotated = np.linalg.norm(train.transform(Q, groups=["b"] * len(Q)) - reference)
    assert rotated < 0.5 * plain
    with pytest.raises(ValueError, match="class 7, which was not in fit"):
        train.partial_fit(Q[:1], [7], groups=["b"])
    train.partial_fit(Q[:1], groups=["c"])  # no labels, no rotation
    np.testing.assert_array_equal(train.rotations_[2], np.eye(5))


def test_rotation_works_block_by_block():
    P, Q, y = turned()
    both, groups = np.concatenate([P, Q]), np.repeat(["a", "b"], len(P))
    blocks = np.stack([both, both[:, ::-1, ::-1]], axis=1)
    moved = Recenter(rotate=True).fit_transform(blocks, np.tile(y, 2), groups=groups)
    alone = Recenter(rotate=True).fit_transform(both, np.tile(y, 2), groups=groups)
    np.testing.assert_allclose(moved[:, 0], alone, atol=1e-8)


# ------------------------------------------------------------------------------------------------------- in scikit-learn


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_groups_are_routed_through_pipelines_and_searches():
    pipe = make_pipeline(Recenter(), SPDNearestNeighbor())
    pipe.fit(X[~NEW], Y[~NEW], groups=GROUPS[~NEW])
    moved = Recenter().fit(X[~NEW], groups=GROUPS[~NEW])
    head = SPDNearestNeighbor().fit(moved.transform(X[~NEW], groups=GROUPS[~NEW]), Y[~NEW])
    expected = head.predict(moved.transform(X[NEW], groups=GROUPS[NEW]))
    np.testing.assert_array_equal(pipe.predict(X[NEW], groups=GROUPS[NEW]), expected)

    scores = cross_val_score(pipe, X, Y, cv=LeaveOneGroupOut(), params={"groups": GROUPS})
    plain = cross_val_score(SPDNearestNeighbor(), X, Y, cv=LeaveOneGroupOut(), params={"groups": GROUPS})
    assert scores[2] == np.mean(expected == Y[NEW])
    assert scores.mean() > plain.mean() + 0.1
    search = GridSearchCV(pipe, {"recenter__metric": METRICS}, cv=LeaveOneGroupOut())
    search.fit(X, Y, groups=GROUPS)
    assert search.best_estimator_[0].groups_ == ["s0", "s1", "s2"]
    assert search.score(X, Y, groups=GROUPS) == 1.0


@pytest.mark.usefixtures("routing")
def test_groups_can_be_asked_for_and_declined():
    asked = Recenter().set_fit_request(groups=True).set_transform_request(groups=True)
    pipe = make_pipeline(asked, LogVectors()).fit(X, Y, groups=GROUPS)
    assert pipe[0].groups_ == ["s0", "s1", "s2"]
    declined = Recenter().set_fit_request(groups=False).set_transform_request(groups=False)
    with pytest.raises(TypeError, match="groups"):
        make_pipeline(declined, LogVectors()).fit(X, Y, groups=GROUPS)


def test_without_routing_the_fit_of_a_pipeline_takes_groups_by_the_name_of_the_step():
    pipe = make_pipeline(Recenter(), SPDNearestNeighbor()).fit(X[~NEW], Y[~NEW], recenter__groups=GROUPS[~NEW])
    assert pipe[0].groups_ == ["s0", "s1"]
    moved = pipe[0].transform(X[NEW])
    np.testing.assert_allclose(riemannian_mean(moved), np.eye(5), atol=1e-8)


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("rotate", [False, True])
def test_saved_and_loaded(tmp_path, blocks, rotate):
    P = np.stack([X, X[::-1]], axis=1) if blocks else X
    pipe = make_pipeline(Regularize(1e-2), Recenter(rotate=rotate), LogVectors())
    pipe.fit(P, Y, recenter__groups=GROUPS)
    spdsl.models.save(pipe, tmp_path / "m.safetensors")
    again = spdsl.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(pipe.transform(P), again.transform(P), strict=True)
    recenter, other = pipe[1], again[1]
    seen = other.transform(P, groups=GROUPS)
    np.testing.assert_array_equal(recenter.transform(P, groups=GROUPS), seen, strict=True)
    recenter.partial_fit(P[:2], Y[:2], groups=["n", "s0"])
    other.partial_fit(P[:2], Y[:2], groups=["n", "s0"])
    np.testing.assert_array_equal(
        recenter.transform(P[:2], groups=["n", "s0"]), other.transform(P[:2], groups=["n", "s0"])
    )
    clone(other).fit(P, Y)


def test_parameters_set_after_the_fit_wait_for_the_next():
    model = Recenter().fit(X, groups=GROUPS)
    before = model.transform(X[NEW], groups=["new"] * NEW.sum())
    model.set_params(metric="logeuclid", rotate=True)
    np.testing.assert_array_equal(model.transform(X[NEW], groups=["new"] * NEW.sum()), before)


# ------------------------------------------------------------------------------------------------- refused and warned of


@functools.cache
def fitted():
    return Recenter().fit(X, groups=GROUPS)


HOLE = np.stack([X, X], axis=1)
HOLE[3, 1, 0, 0] = np.nan


@pytest.mark.parametrize(
    ("do", "message"),
    [
        (lambda: Recenter().fit(X, groups=GROUPS[:-1]), "groups has 59 entries for 60 samples"),
        (lambda: Recenter().fit(X, groups=[]), "groups has 0 entries for 60 samples"),
        (lambda: Recenter().fit(X, groups=GROUPS[:, None]), r"groups has shape \(60, 1\)"),
        (lambda: Recenter().fit(X, groups=[None] * 60), r"groups\[0\] is None; name every group"),
        (lambda: Recenter().fit(X, groups=[1.0] * 59 + [np.nan]), r"groups\[59\] is nan"),
        (lambda: Recenter().fit(X[:0], groups=[]), "no matrices"),
        (lambda: Recenter().fit(HOLE), r"X\[3, 1\] contains NaN"),
        (lambda: Recenter().fit(np.zeros((4, 0, 3, 3))), "without matrices"),
        (lambda: Recenter("stein").fit(X), "use 'riemann' or 'logeuclid'"),
        (lambda: Recenter(rotate="yes").fit(X), "rotate must be True or False"),
        (lambda: Recenter(prior=-1).fit(X), "prior=-1 is out of range"),
        (lambda: Recenter(rotate=True).fit(X), "rotate=True needs y"),
        (lambda: Recenter(rotate=True).partial_fit(X, Y), "needs a fit with y before"),
        (
            lambda: fitted().transform(X[:1], groups=["new"]),
            "group 'new' is not known from fit and comes as a single matrix",
        ),
        (lambda: fitted().transform(X[:1]), "the group without a name is not known"),
        (lambda: fitted().transform(X, groups=GROUPS[1:]), "groups has 59 entries"),
        (lambda: fitted().transform(X[:, :3, :3], groups=GROUPS), "was fitted on 5 x 5"),
        (lambda: Recenter().fit(X[:3], groups=["a", float("nan"), "b"]), r"groups\[1\] is nan; name every group"),
        (lambda: fitted().partial_fit(X[:2], groups=["s0"]), "groups has 1 entries for 2"),
    ],
)
def test_bad_input_is_named(do, message):
    with pytest.raises(ValueError, match=message):
        do()


def test_a_failed_fit_leaves_the_one_before():
    model = Recenter().fit(X, groups=GROUPS)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full((1, 5, 5), np.nan), groups=["s0"])
    with pytest.raises(ValueError, match="groups has"):
        model.fit(X, groups=[1])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)


def test_small_and_lopsided_groups_are_warned_of():
    with pytest.warns(RecenterWarning, match="group 'b' has 3 matrices: their mean is too uncertain"):
        Recenter().fit(X[:30], groups=["a"] * 27 + ["b"] * 3)
    with pytest.warns(RecenterWarning, match="group 'new' has 4 matrices"):
        fitted().transform(X[:4], groups=["new"] * 4)
    order = np.argsort(Y, kind="stable")
    with pytest.warns(RecenterWarning, match="of group 'a' differ from those of the other groups by 67 %") as said:
        Recenter().fit(X[order], Y[order], groups=["a"] * 30 + ["b"] * 30)
    assert len(said) == 1
    some = np.r_[np.flatnonzero(Y == 0), np.flatnonzero(Y != 0)[:4]]
    with pytest.warns(RecenterWarning, match="the group without a name differ from equal shares by"):
        Recenter().fit(X[some], Y[some])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Recenter().fit(X, Y, groups=GROUPS).partial_fit(X[:1], groups=["new"])
        Recenter().fit(X, np.linspace(0, 1, len(X)), groups=GROUPS)  # a regression has no classes


# ------------------------------------------------------------------------------------------------------------- the ridge


def test_regularize_takes_singular_matrices_and_blocks(as_array):
    P = np.stack([np.diag([1.0, 0.0, 3.0])] * 4)
    added = Regularize(0.1).fit_transform(as_array(P))
    np.testing.assert_allclose(to_numpy(added), P + 0.4 * np.eye(3))
    blocks = np.stack([P, 2 * P], axis=1)
    np.testing.assert_allclose(
        to_numpy(Regularize(0.1).fit_transform(as_array(blocks)))[:, 1], 2 * (P + 0.4 * np.eye(3))
    )
    assert np.array_equal(spdsl.regularize(blocks, 0.1)[:, 0], spdsl.regularize(P, 0.1))
    model = Regularize(0.1).fit(P)
    model.set_params(ridge=0.5)
    np.testing.assert_allclose(model.transform(P), P + 0.4 * np.eye(3))
    with pytest.raises(ValueError, match="fitted on 3 x 3 matrices"):
        model.transform(np.eye(2)[None])
    with pytest.raises(ValueError, match="ridge must be a finite number"):
        Regularize(-1).fit(P)
    blocks[2, 1, 0, 0] = np.inf
    with pytest.raises(ValueError, match=r"X\[2, 1\] contains NaN or infinity"):
        Regularize().fit(blocks)


def test_blocks_of_different_size_are_named():
    ragged = [[np.eye(3), np.eye(3)], [np.eye(3), np.eye(4)]]
    for model in (Recenter(), Regularize(), LogVectors()):
        with pytest.raises(ValueError, match=r"X\[1, 1\] has shape \(4, 4\) where X\[1, 0\] has \(3, 3\)"):
            model.fit(ragged)
        with pytest.raises(ValueError, match="samples without matrices"):
            model.fit(np.zeros((4, 0, 3, 3)))


# ------------------------------------------------------------------------------------------------------------- real data


def eeg(folder, subject):
    stored = np.load(folder / "eeg_2a.npz")
    triu, n = stored[f"triu_{subject}"], int(stored["dim"])
    P = np.zeros((len(triu), n, n))
    row, column = np.triu_indices(n)
    P[:, row, column] = P[:, column, row] = triu
    return P, stored[f"y_{subject}"], stored[f"session_{subject}"]


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "one-by-one"])
def test_eeg_across_sessions(data_folder, streaming):
    """From the first session to the second: recentering gains more than 3 points on average."""
    learner = SPDSL(classifier="lda", random_state=0)
    gains, scores = [], []
    for subject in (7, 9):
        P, y, session = eeg(data_folder, subject)
        old, new = session == 1, session == 2
        recenter = Recenter().fit(P[old], y[old], groups=session[old])
        train = recenter.transform(P[old], groups=session[old])
        if streaming:
            test = [recenter.partial_fit(p[None], groups=[2]).transform(p[None], groups=[2])[0] for p in P[new]]
        else:
            test = recenter.transform(P[new], groups=session[new])
        scores.append(clone(learner).fit(train, y[old]).score(np.asarray(test), y[new]))
        gains.append(scores[-1] - clone(learner).fit(P[old], y[old]).score(P[new], y[new]))
    assert np.mean(gains) > 0.03
    assert np.mean(scores) > 0.82
