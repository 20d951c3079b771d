"""Estimators, metrics, tuning and comparison under whatever arrays, labels and parameters bring."""

import numpy as np
import pytest
from fuzz_plans import labels, parameters, stacks
from fuzz_profile import PROFILE
from fuzz_verdict import judge
from hypothesis import given
from hypothesis import strategies as st

import spdsl
from spdsl import KernelSVC
from spdsl.data import as_data
from spdsl.estimators.vector_classifier import LogVectorClassifier
from spdsl.geometry import get_metric
from spdsl.learning.graph import survey_pairs
from spdsl.learning.solver import BETA_RULES

pytestmark = pytest.mark.fuzz
METRICS = (*spdsl.METRICS, "riemann", "logdet", "logeuclid")
NUMBERS = (-1, 0, 2.5, "3", True, None, float("nan"), float("inf"), 10**9, 1e308, 1e-320, [], 1j)
COUNTS = {"n_within": (1, 3, "all", "auto"), "n_between": (1, 2, "all", "auto")}
BAD_COUNTS = {"n_within": (0, -1, 2.5, "some", True, 10**9), "n_between": (0, -1, 2.5, "some", None, 10**9)}
LEARNER_GOOD = {
    "n_components": (None, 1, 2),
    "metric": METRICS,
    "manifold": ("psd", "grassmann"),
    "init": ("identity", "pca", "random"),
    "rule": tuple(BETA_RULES),
    "patience": (1, 3),
    "max_iter": (0, 1, 4),
    "tol": (0, 1e-4, 1.0),
    "classifier": ("nn", "svm", "lda", "logistic", spdsl.SPDNearestNeighbor("lem", n_neighbors=2), KernelSVC("lem")),
    "precision": ("double", "mixed"),
    "search": ("exact", "approximate"),
    "warm_start": (True, False),
    **COUNTS,
}
LEARNER_BAD = {
    "n_components": NUMBERS,
    "metric": ("nope", None, 3),
    "manifold": ("sphere", None),
    "init": ("zero", None, [[1.0]], np.zeros((4, 2)), np.full((4, 2), np.nan)),
    "max_iter": (-1, 2.5, "3", None),
    "tol": (-1, float("nan"), "x", None),
    "classifier": ("forest", None, 3, dict),
    "random_state": ("x", -1, 2**40, 2.5),
    "rule": ("nope", None, 3),
    "patience": NUMBERS,
    "gradient_tol": NUMBERS,
    "what": (1,),
    "solver": (3, "x", [("rule", "nope")]),
    "callback": (3,),
    "device": ("nowhere",),
    "precision": ("half", None, 64),
    "search": ("nope", None),
    "warm_start": ("yes", None),
    "checkpoint": (3, "", "/nowhere/at/all", b"x"),
    **BAD_COUNTS,
}
SPDSL_GOOD = LEARNER_GOOD | {
    "beta": ("reduced", "original", 1.0, 1e-300, 1e300),
    "beta_scale": (0.1, 1.0, 1e6),
    "objective": tuple(spdsl.OBJECTIVES),
}
SPDSL_BAD = LEARNER_BAD | {"beta": (0, -1, float("nan"), "x", None), "beta_scale": NUMBERS[:3], "objective": ("x", 2)}
IN_SOLVER = {"init", "rule", "patience", "gradient_tol", "search", "warm_start", "what"}

ODD_OPTIONS = {
    "n_components": NUMBERS,
    "n_jobs": (0, "3", 2.5, float("nan"), [], 10**9),
    "random_state": (-1, "x", 2**40),
    "methods": (3, None, "", {}),
}


def arranged(kind, params):
    """The parameters of an estimator, with those that belong there in the dict of its solver."""
    inside = {spdsl.SPDSL: IN_SOLVER | {"manifold"}, spdsl.SPDML: IN_SOLVER}.get(kind, set())
    options = {name: value for name, value in params.items() if name in inside}
    rest = {name: value for name, value in params.items() if name not in inside}
    return ({"solver": options} if options else {}) | rest


# estimator, allowed parameters, parameters at and past their limits
ESTIMATORS = {
    "SPDSL": (spdsl.SPDSL, SPDSL_GOOD, SPDSL_BAD),
    "SPDML": (spdsl.SPDML, LEARNER_GOOD, LEARNER_BAD),
    "SPDNearestNeighbor": (
        spdsl.SPDNearestNeighbor,
        {"metric": METRICS, "n_neighbors": (1, 3)},
        {"metric": ("nope", None), "n_neighbors": NUMBERS},
    ),
    "CDL": (
        spdsl.CDL,
        {"discriminant": ("pls", "lda")},
        {"discriminant": ("nope", None), "extra_components": (-100, 100, 2.5, "x")},
    ),
    "RSR": (
        spdsl.RSR,
        {"beta_scale": (0.1, 1.0), "penalty": (1e-1, 1e-4)},
        {"beta_scale": NUMBERS, "penalty": NUMBERS, "beta": (0, -1, "x", float("nan"), 1e300, 1e-300)},
    ),
    "LEK": (
        spdsl.LEK,
        {"kernel": ("poly", "exp", "gauss"), "degree": (1, 3, 50), "penalty": (1e-1, 1e-4)},
        {"kernel": ("nope", None), "degree": NUMBERS, "penalty": NUMBERS, "beta": (0, -1, "x")},
    ),
    "LEML": (
        spdsl.LEML,
        {"eta": (0.1, 10.0), "zeta": (0.1, 0.5), "max_iter": (1, 3), "n_components": (None, 1)},
        {"eta": NUMBERS, "zeta": NUMBERS, "max_iter": NUMBERS[:-5], "n_components": NUMBERS},
    ),
    "TangentSpaceClassifier": (
        spdsl.TangentSpaceClassifier,
        {"classifier": ("lda", "logistic")},
        {"classifier": ("nope", None, 3)},
    ),
    "MDM": (spdsl.MDM, {}, {"metric": ("nope", None, 3)}),
    "KernelSVC": (KernelSVC, {"metric": METRICS, "C": (0.1, 10.0)}, {"beta": (0, -1, "x"), "C": (0, -1, "x")}),
    "LogVectorClassifier": (LogVectorClassifier, {"classifier": ("lda", "logistic")}, {"classifier": ("x", None)}),
}


def use(make, X, y, new):
    """Fit, and ask everything that the model offers about the training matrices and about others."""
    model = make().fit(X, y)
    results = {}
    for name in ("components_", "beta_", "cost_"):
        if hasattr(model, name):
            results[name] = np.asarray(getattr(model, name))
    for part, stack in {"train": X, "new": new}.items():
        labels_out = model.predict(stack)
        assert set(labels_out.tolist()) <= set(model.classes_.tolist())
        assert len(labels_out) == len(stack)
        for name in ("transform", "decision_function", "predict_proba", "similarity"):
            if hasattr(model, name):
                results[f"{name} {part}"] = np.asarray(getattr(model, name)(stack))
    return results


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimator_ends_in_a_valid_result_or_a_clear_error(name, counted):
    kind, good, bad = ESTIMATORS[name]

    @PROFILE
    @given(st.data())
    def run(data):
        counted()
        X, _, _ = data.draw(stacks())
        y = data.draw(labels(len(X) if hasattr(X, "__len__") else 3))
        new = data.draw(stacks(flawed=0.1, max_count=4))[0] if data.draw(st.integers(0, 3)) == 0 else X
        params = arranged(kind, data.draw(parameters(good, bad)))
        judge(lambda X, y, new: use(lambda: kind(**params), X, y, new), X, y, new)

    run()


@pytest.mark.parametrize("name", list(spdsl.METRICS))
def test_distances_end_in_valid_numbers_or_a_clear_error(name, counted):
    metric = get_metric(name)

    @PROFILE
    @given(stacks(flawed=0.15), stacks(flawed=0.05), st.booleans())
    def run(A, B, alone):
        counted()
        d2 = judge(lambda A, B: spdsl.pairwise_sqdist(A, B, metric=name), A[0], None if alone else B[0])
        if d2 is not None:
            assert np.all(d2 >= 0)
            assert not alone or (np.array_equal(d2, d2.T) and np.all(np.diag(d2) == 0))
        checked = judge(spdsl.check_spd, A[0])
        if checked is not None and len(checked) > 1:
            i, j = np.zeros(len(checked) - 1, int), np.arange(1, len(checked))

            def both(P):
                d2, pullback = metric.pairs(P, i, j)
                return d2, pullback(np.ones(len(d2)))

            judge(both, checked)

    run()


def test_checks_end_in_a_stack_or_a_clear_error(counted):
    @PROFILE
    @given(stacks(), st.sampled_from([0, 1e-3, 1.0, 1e300, -1, float("nan"), "x", None]))
    def run(X, ridge):
        counted()
        judge(spdsl.check_spd, X[0])
        judge(spdsl.regularize, X[0], ridge)
        judge(lambda X: spdsl.LogVectors().fit(X).transform(X), X[0])

    run()


def test_graphs_end_in_pairs_or_a_clear_error(counted):
    @PROFILE
    @given(stacks(flawed=0.0), st.sampled_from(list(spdsl.METRICS)), parameters(COUNTS, BAD_COUNTS))
    def run(X, metric, counts):
        counted()
        checked = judge(spdsl.check_spd, X[0])
        if checked is None:
            return
        within, between = (counts.get(name, 1) for name in ("n_within", "n_between"))
        if "auto" in (within, between):
            return
        y = np.arange(len(checked)) % 2
        survey = judge(
            lambda X: survey_pairs(as_data(X), y, get_metric(metric), within, between, measure=True), checked
        )
        if survey is not None:
            graph = survey.graph
            assert np.all(graph.i != graph.j)

    run()


def test_tuning_and_comparison_end_in_tables_or_a_clear_error(counted):
    cheap = ["NN-LEM", "NN-Stein", "CDL", "RSR", "LEK-gauss", "SPDSL-LEM", "SPDML-Stein", "TS+LDA", "nope"]

    @PROFILE
    @given(st.data())
    def run(data):
        counted()
        X, _, _ = data.draw(stacks(max_size=4))
        y = data.draw(labels(len(X) if hasattr(X, "__len__") else 3))
        methods = data.draw(st.lists(st.sampled_from(cheap), max_size=2))
        splits = data.draw(st.sampled_from([1, 2, 0, -1, "x", None, [([0], [1])], [([0, 1], [1])], [([99], [0])]]))
        tuned = data.draw(st.booleans())
        folds = data.draw(st.sampled_from([2, 3, 0, "x"]))

        def compared(X, y):
            table = spdsl.compare(X, y, methods, splits=splits, tune=tuned, n_folds=folds, verbose=False)
            return [c.accuracy for c in table.cells if not c.error]

        judge(compared, X, y)
        odd = data.draw(parameters({"n_components": (None, 1)}, ODD_OPTIONS))
        options = {"methods": ["NN-LEM"], "splits": 1, "tune": False, "verbose": False} | odd
        judge(lambda X, y: spdsl.compare(X, y, **options).splits, X, y)
        grid = {"n_neighbors": data.draw(st.sampled_from([[1, 2], [], [0, 1], [10**9]]))}
        judge(lambda X, y: spdsl.tune(spdsl.SPDNearestNeighbor("lem"), grid, X, y, n_folds=folds).params, X, y)

    run()
