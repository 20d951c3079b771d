"""LEML: projections against a generic constrained solver, sweeps, statuses."""

import numpy as np
import pytest
import scipy.optimize
from sklearn.exceptions import ConvergenceWarning

import spdsl
from samples import labeled
from spdsl.baselines import leml
from spdsl.baselines.leml import project_closed_form, project_exact


def symmetric(rng, n):
    A = rng.standard_normal((n, n))
    return (A + A.T) / 2


@pytest.mark.parametrize("same", [True, False])
def test_projection_equals_a_generic_constrained_solver(same):
    rng = np.random.default_rng(3)
    n, eta = 3, 2.0
    Q0, D = np.eye(n) + 0.3 * symmetric(rng, n), symmetric(rng, n)
    M = D @ D
    xi0 = np.trace(Q0 @ M) * (0.5 if same else 2.0)  # violated
    low = np.tril_indices(n)

    def unpack(v):
        L = np.zeros((n, n))
        L[low] = v[:-1]
        return L @ L.T, np.exp(v[-1])

    def divergence(v):
        Q, xi = unpack(v)
        R = np.linalg.solve(Q0, Q)
        return np.trace(R) - np.linalg.slogdet(R)[1] - n + eta * (xi / xi0 - np.log(xi / xi0) - 1)

    def slack(v):
        Q, xi = unpack(v)
        return (xi - np.trace(Q @ M)) * (1 if same else -1)

    start = np.append(np.linalg.cholesky(Q0)[low], np.log(xi0))
    options = {"maxiter": 500, "ftol": 1e-15}
    constraint = {"type": "ineq", "fun": slack}
    found = scipy.optimize.minimize(divergence, start, method="SLSQP", constraints=constraint, options=options)
    Q_ref, xi_ref = unpack(found.x)
    Q, xi, multiplier = project_exact(Q0, D, xi0, 0.0, eta, same)
    assert np.allclose(Q, Q_ref, atol=1e-5)
    assert np.isclose(xi, xi_ref, rtol=1e-5)
    assert np.isclose(np.trace(Q @ M), xi, rtol=1e-10)
    assert multiplier > 0


def test_satisfied_constraint_without_multiplier_changes_nothing():
    D = symmetric(np.random.default_rng(0), 4)
    Q, xi, multiplier = project_exact(np.eye(4), D, 2 * np.sum(D**2), 0.0, 1.0, True)
    assert np.array_equal(Q, np.eye(4))
    assert (xi, multiplier) == (2 * np.sum(D**2), 0.0)


@pytest.mark.parametrize("same", [True, False])
def test_multiplier_is_given_back_when_the_constraint_is_slack(same):
    D = symmetric(np.random.default_rng(1), 4)
    violated = np.sum(D**2) * (0.8 if same else 1.25)
    Q, _, multiplier = project_exact(np.eye(4), D, violated, 0.0, 1.0, same)
    slack = np.trace(Q @ D @ D) * (10 if same else 0.1)
    Q2, _, left = project_exact(Q, D, slack, multiplier, 1.0, same)
    assert left == pytest.approx(0.0, abs=1e-12)
    assert np.allclose(Q2, np.eye(4))  # the whole step is undone


def test_closed_form_is_exact_for_rank_one():
    v = np.array([1.0, 2.0, -1.0])
    D = np.outer(v, v) / np.linalg.norm(v)
    # the closed form's slack is half-way at eta 1: it solves 1/p + a = 1/xi - a
    Q, xi, _ = project_closed_form(np.eye(3), D, 3.0, 0.0, 1.0, True)
    Q_exact, xi_exact, _ = project_exact(np.eye(3), D, 3.0, 0.0, 1.0, True)
    assert np.allclose(Q, Q_exact)
    assert np.isclose(xi, xi_exact)


def test_multipliers_settle_and_the_metric_stays_definite(small):
    X, y = small
    model = spdsl.LEML(eta=0.5, tol=1e-6, max_iter=300, max_pairs=40, random_state=0).fit(X[::2], y[::2])
    assert model.status_ == "converged"
    assert np.linalg.eigvalsh(model.metric_)[0] > 0


@pytest.mark.parametrize("update", ["exact", "closed-form"])
def test_distance_transform_and_reduction(small, update):
    X, y = small
    model = spdsl.LEML(3, update=update, max_pairs=50, max_iter=50, random_state=0).fit(X[::2], y[::2])
    assert model.transform(X).shape == (60, 3, 3)
    assert np.linalg.eigvalsh(model.transform(X)).min() > 0
    assert np.linalg.matrix_rank(model.metric_) == 3
    w, V = np.linalg.eigh(X)
    T = (V * np.log(w)[:, None, :]) @ V.mT
    D = T[1::2, None] - T[None, ::2]
    d = np.einsum("ij,tnjk,tnki->tn", model.metric_, D, D)
    assert np.array_equal(model.predict(X[1::2]), y[::2][d.argmin(axis=1)])


def test_equal_matrices_of_two_classes_are_infeasible_and_said_so(small):
    X, y = small[0][::3].copy(), small[1][::3]
    X[-1] = X[0]
    with pytest.warns(ConvergenceWarning, match="1 pairs of equal matrices have different labels"):
        model = spdsl.LEML(max_pairs=20, random_state=0).fit(X, y)
    assert model.status_ == "infeasible"
    assert np.isfinite(model.metric_).all()


def test_too_few_sweeps_are_said(small):
    with pytest.warns(ConvergenceWarning, match="max_iter after 1 sweeps"):
        assert spdsl.LEML(max_iter=1, tol=1e-9).fit(*small).status_ == "max_iter"


@pytest.mark.parametrize("parameters", [{"eta": 0.0}, {"zeta": np.inf}, {"zeta": 50.0}, {"update": "fast"}])
def test_bad_parameters(small, parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        spdsl.LEML(**parameters).fit(*small)
    with pytest.raises(ValueError, match="n_components=9"):
        spdsl.LEML(9).fit(*small)


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_toy_above_plain_log_euclidean(toy):
    X, y, X_test, y_test = toy
    plain = spdsl.SPDNearestNeighbor("lem").fit(X, y).score(X_test, y_test)
    learned = spdsl.LEML(eta=10.0, max_pairs=1000, max_iter=3, random_state=0).fit(X, y).score(X_test, y_test)
    assert learned > plain


def test_an_interrupted_fit_keeps_what_it_has_reached(monkeypatch):
    X, y = labeled(12)
    calls = 0

    def interrupted(*arguments):
        nonlocal calls
        calls += 1
        if calls == 30:
            raise KeyboardInterrupt
        return project_exact(*arguments)

    monkeypatch.setattr(leml, "project_exact", interrupted)
    model = spdsl.LEML(random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.status_ == "interrupted"
    assert "interrupted after" in model.message_
    assert np.linalg.eigvalsh(model.metric_)[0] > 0
    assert len(model.predict(X)) == 12
    calls = 0
    with pytest.raises(KeyboardInterrupt):  # a search must not swallow it
        spdsl.tune(spdsl.LEML(random_state=0), {"eta": [0.1, 1.0]}, X, y, n_folds=2)
