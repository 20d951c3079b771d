"""Fits that are interrupted or killed: nothing lost, and the end is the one it would have been."""

import errno
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from samples import aligned, labeled
from spdsl import SPDML, SPDSL, backend
from spdsl.estimators.vector_classifier import LogVectorClassifier
from spdsl.models.checkpoint import told

X, Y = labeled(40, n=10, noise=1.0)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Killed(BaseException):
    """Stands in for the end of the process."""


def kill_at(iteration):
    def callback(row, W):
        if row["iteration"] == iteration:
            raise Killed

    return callback


def learner(path, kind=SPDSL, **params):
    settings = {"metric": "lem", "tol": 0.0, "max_iter": 60, "checkpoint": path} | params
    return kind(4, **settings)


@pytest.mark.parametrize("kind", [SPDSL, SPDML])
@pytest.mark.parametrize("metric", ["lem", "stein"])
@pytest.mark.parametrize("iteration", [5, 10, 11, 37])
def test_a_killed_fit_ends_with_the_numbers_of_one_that_was_not(tmp_path, as_array, kind, metric, iteration):
    params = {"kind": kind, "metric": metric, "n_between": 5}
    whole = learner(tmp_path / "a", **params).fit(as_array(X), Y)
    with pytest.raises(Killed):
        learner(tmp_path / "b", callback=kill_at(iteration), **params).fit(as_array(X), Y)
    assert (tmp_path / "b").exists() == (iteration > 10)
    resumed = learner(tmp_path / "b", **params).fit(as_array(X), Y)
    assert resumed.cost_ == whole.cost_
    np.testing.assert_array_equal(backend.to_numpy(resumed.components_), backend.to_numpy(whole.components_))
    assert [row["value"] for row in resumed.history_] == [row["value"] for row in whole.history_]
    assert resumed.status_ == whole.status_
    assert sorted(p.name for p in tmp_path.iterdir()) == []  # done, so removed


def test_a_process_killed_at_any_moment_goes_on(tmp_path):
    path = tmp_path / "fit.checkpoint"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_checkpoints import X, Y, learner\n"
        "import time\n"
        "learner(sys.argv[2], callback=lambda row, W: time.sleep(0.02)).fit(X, Y)\n"
        "print('done')"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, os.path.dirname(__file__), str(path)]
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        limit = time.monotonic() + 60
        while not path.exists() and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert b"done" not in process.communicate()[0]
        assert path.exists()
    resumed = learner(path).fit(X, Y)
    assert resumed.cost_ == learner(tmp_path / "other").fit(X, Y).cost_


def test_more_iterations_and_another_head_may_be_asked_of_a_checkpoint(tmp_path):
    with pytest.raises(Killed):
        learner(tmp_path / "a", callback=kill_at(25), max_iter=30).fit(X, Y)
    resumed = learner(tmp_path / "a", max_iter=60, classifier="lda").fit(X, Y)
    assert resumed.cost_ == learner(tmp_path / "b").fit(X, Y).cost_


def test_the_checkpoint_of_another_fit_is_refused(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(Killed):
        learner(path, callback=kill_at(15)).fit(X, Y)
    kept = path.read_bytes()
    with pytest.raises(ValueError, match=r"another fit .*beta_scale"):
        learner(path, beta_scale=2.0).fit(X, Y)
    with pytest.raises(ValueError, match=r"another fit .*labels"):
        learner(path).fit(X, np.roll(Y, 1))
    with pytest.raises(ValueError, match="other data"):
        learner(path).fit(X + 0.1 * np.eye(10), Y)
    with pytest.raises(ValueError, match=r"another fit .*shape"):
        learner(path).fit(X[:-1], Y[:-1])
    assert path.read_bytes() == kept


def test_a_start_is_told_from_another_that_prints_the_same():
    first = np.zeros((60, 30))
    second = first.copy()
    second[30, 15] = 1.0
    assert repr(first) == repr(second)
    assert told(first) != told(second)
    assert told("pca") == repr("pca")


def test_damaged_files_and_places_that_are_none_are_refused(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(Killed):
        learner(path, callback=kill_at(15)).fit(X, Y)
    whole = path.read_bytes()
    for damaged in (whole[:-9], b"", whole[:50] + b"!" + whole[51:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=str(path)):
            learner(path).fit(X, Y)
    aligned(4, max_iter=1).fit(X, Y).save(tmp_path / "model")
    with pytest.raises(ValueError, match="not a checkpoint"):
        learner(tmp_path / "model").fit(X, Y)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        learner(tmp_path / "nowhere" / "a").fit(X, Y)
    with pytest.raises(ValueError, match="random_state"):
        learner(tmp_path / "b", solver={"init": "random"}).fit(X, Y)
    with pytest.raises(ValueError, match="checkpoint must be"):
        learner(3).fit(X, Y)


def interrupt_at(iteration):
    def callback(row, W):
        if row["iteration"] == iteration:
            raise KeyboardInterrupt

    return callback


def test_an_interrupted_fit_is_usable_and_goes_on(tmp_path):
    model = aligned(4, tol=0.0, max_iter=200, callback=interrupt_at(7))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.status_ == "interrupted"
    assert len(model.predict(X)) == len(X)
    reached, beta = model.cost_, model.beta_
    model.set_params(callback=None, solver={"warm_start": True}).fit(X, Y)
    assert model.beta_ == beta
    assert model.cost_ < reached
    whole = aligned(4, tol=0.0, max_iter=200).fit(X, Y)
    assert model.cost_ == pytest.approx(whole.cost_, rel=1e-2)


def test_warm_start_goes_on_from_the_cost_that_was_reached():
    model = aligned(4, max_iter=5, tol=0.0).fit(X, Y)
    again = model.set_params(solver={"warm_start": True}, max_iter=0)
    reached = model.cost_
    assert again.fit(X, Y).cost_ == pytest.approx(reached, rel=1e-9)
    with pytest.raises(ValueError, match="warm_start: the earlier W"):
        again.set_params(n_components=3).fit(X, Y)
    with pytest.raises(ValueError, match="warm_start must be"):
        again.set_params(n_components=4, solver={"warm_start": "yes"}).fit(X, Y)


def test_ctrl_c_while_the_head_is_fitted_keeps_W(monkeypatch):
    model = aligned(4, max_iter=5, classifier="lda").fit(X, Y)
    fit = LogVectorClassifier.fit_checked

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(LogVectorClassifier, "fit_checked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(max_iter=7).fit(X, Y)
    assert (model.status_, model.n_iter_) == ("interrupted", 7)
    with pytest.raises(NotFittedError):
        model.predict(X)
    monkeypatch.setattr(LogVectorClassifier, "fit_checked", fit)
    np.testing.assert_array_equal(
        model.fit_classifier(X, Y).predict(X), aligned(4, max_iter=7, classifier="lda").fit(X, Y).predict(X)
    )


def test_ctrl_c_before_the_iterations_leaves_the_older_model(monkeypatch):
    model = aligned(4, max_iter=3).fit(X, Y)
    before = dict(vars(model))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("spdsl.learning.learn.survey_pairs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:, :5, :5], Y)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


def test_a_full_disk_costs_the_checkpoint_and_not_the_fit(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("spdsl.models.checkpoint.write", full)
    model = aligned(4, tol=0.0, max_iter=30, checkpoint=tmp_path / "state")
    with pytest.warns(UserWarning, match="could not be written") as caught:
        model.fit(X, Y)
    assert sum("could not be written" in str(one.message) for one in caught) == 1
    monkeypatch.undo()
    whole = aligned(4, tol=0.0, max_iter=30, checkpoint=tmp_path / "state").fit(X, Y)
    assert model.cost_ == whole.cost_
    for odd in ("", "a\0b", tmp_path, "/dev/null"):
        with pytest.raises((ValueError, OSError), match=r"folder|not a valid file name|regular file"):
            aligned(4, checkpoint=odd).fit(X, Y)
