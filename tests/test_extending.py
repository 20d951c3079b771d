"""What strangers add from outside the package: one class each, known everywhere once it is registered."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

import spdsl
from samples import labeled
from spdsl import METRICS, OBJECTIVES, SPDML, SPDSL, SPDNearestNeighbor, check_metric, check_objective
from spdsl.geometry import EmbeddedMetric
from spdsl.geometry.checking import CheckError
from spdsl.models.encoding import ModelFileError

PLUGINS = Path(__file__).parent / "plugins"
X, Y = labeled(30, 5)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The module of a stranger, registered; everything is forgotten again afterwards."""
    kept = [(registry, dict(registry)) for registry in (METRICS, OBJECTIVES, spdsl.METHODS)]
    sys.path.insert(0, str(PLUGINS))
    try:
        import own_parts

        yield own_parts
    finally:
        sys.path.remove(str(PLUGINS))
        sys.modules.pop("own_parts", None)
        for registry, before in kept:
            registry.clear()
            registry.update(before)


def test_the_checks_pass(own):
    check_metric("own-inverse")
    check_objective("own-contrast")
    check_objective(own.Contrast)


@pytest.mark.parametrize("learner", [SPDSL, SPDML])
def test_a_metric_of_ones_own_learns_and_classifies(own, learner, tmp_path):
    manifold = {} if learner is SPDSL else {"manifold": "psd"}
    model = learner(3, metric="own-inverse", max_iter=5, **manifold).fit(X, Y)
    assert model.cost_ < model.history_[0]["value"]
    model.save(tmp_path / "model.safetensors")
    assert_array_equal(spdsl.load(tmp_path / "model.safetensors").predict(X), model.predict(X))
    assert SPDNearestNeighbor("own-inverse").fit(X, Y).score(X, Y) == 1.0
    assert_array_equal(
        learner(3, metric=own.LogDeterminant(), max_iter=5, **manifold).fit(X, Y).predict(X), model.predict(X)
    )


@pytest.mark.parametrize("objective", ["own-contrast", "class"])
@pytest.mark.parametrize("metric", ["aim", "stein", "lem"])
def test_an_objective_of_ones_own_learns(own, objective, metric, tmp_path):
    model = SPDSL(3, metric=metric, objective=own.Contrast if objective == "class" else objective, max_iter=5).fit(X, Y)
    assert model.cost_ < model.history_[0]["value"]
    model.save(tmp_path / "model.safetensors")
    again = spdsl.load(tmp_path / "model.safetensors")
    assert_array_equal(again.predict(X), model.predict(X))
    assert again.objective == model.objective


def test_what_is_registered_passes_the_tests_of_the_package():
    """The tests of metrics and objectives read the registries: a new entry needs no line in them."""
    here = Path(__file__).parent
    tests = [here / f"test_{name}.py" for name in ("metrics", "objectives", "gradients")]
    command = [sys.executable, "-m", "pytest", "-p", "own_parts", "-p", "no:cacheprovider", "-vv", "-k", "own", *tests]
    path = os.pathsep.join([str(PLUGINS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "SPDSL_TEST_ARRAYS": "numpy"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=here.parent)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.count("own-inverse") > 10
    assert done.stdout.count("own-contrast") > 10


def test_a_method_of_ones_own_is_compared(own):
    table = spdsl.compare(X, Y, ["NN-LEM", "own-majority"], splits=2, n_folds=2, verbose=False)
    assert [row.method for row in table.rows] == ["NN-LEM", "own-majority"]
    assert all(row.failed == 0 for row in table.rows)


def test_a_place_of_ones_own_is_learned_from(own):
    factors = np.linalg.cholesky(X)
    data = own.FromCholesky(factors)
    model = SPDSL(3, max_iter=5).fit(data, Y)
    plain = SPDSL(3, max_iter=5).fit(X, Y)
    assert_array_equal(model.predict(data), plain.predict(X))
    assert model.cost_ == pytest.approx(plain.cost_, rel=1e-9)


@pytest.fixture
def signals(own):
    rng = np.random.default_rng(0)
    shapes = [np.eye(6), np.diag([3.0, 1, 1, 1, 1, 1]), np.diag([1.0, 1, 1, 1, 1, 3])]
    y = np.repeat([0, 1, 2], 8)
    return own.Signals([shapes[k] @ rng.standard_normal((6, rng.integers(40, 80))) for k in y]), y


@pytest.mark.parametrize("n_neighbors", ["auto", 3])
@pytest.mark.parametrize(("metric", "manifold"), [("lem", "psd"), ("aim", "grassmann"), ("own-inverse", "psd")])
@pytest.mark.parametrize("classifier", ["nn", "lda"])
def test_a_place_made_from_the_contract_alone_is_learned_from(
    signals, metric, manifold, classifier, n_neighbors, tmp_path
):
    data, y = signals
    X = data.times(np.eye(6))
    model = SPDSL(3, metric=metric, classifier=classifier, max_iter=5, n_within=n_neighbors, n_between=n_neighbors)
    model.set_params(solver={"init": "pca", "manifold": manifold})
    plain = clone(model).fit(X, y)
    model.fit(data, y)
    assert model.cost_ == pytest.approx(plain.cost_, rel=1e-9)
    assert model.n_passes_ == plain.n_passes_
    assert_array_equal(model.predict(data), plain.predict(X))
    model.save(tmp_path / "model.safetensors")
    assert_array_equal(spdsl.load(tmp_path / "model.safetensors").predict(data), model.predict(X))


def test_a_fit_asks_a_place_everything_once(signals):
    data, y = signals
    SPDSL(3, max_iter=3, n_within=2, n_between=2, classifier="nn", solver={"init": "pca"}).fit(data, y)
    assert data.calls == ["check", "first_copies", "view", "neighbors"]


def test_what_a_place_says_of_a_bad_sample_reaches_the_caller(signals):
    data, y = signals
    data.signals[5] = np.full((6, 50), np.nan)
    with pytest.raises(ValueError, match=r"X\[5\] has values that are not finite; leave it out"):
        SPDSL(3).fit(data, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"metric": "own-inverse"}, "uses the metric 'own-inverse', which is not registered; register it with"),
        ({"objective": "own-contrast"}, "uses the objective 'own-contrast', which is not registered; register it with"),
    ],
)
def test_without_the_registration_the_error_names_what_to_register(own, parameters, message, tmp_path):
    path = tmp_path / "model.safetensors"
    SPDSL(3, max_iter=2, **parameters).fit(X, Y).save(path)
    code = f"import spdsl; spdsl.load({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr


def test_an_unregistered_metric_is_not_saved(own, tmp_path):
    class Hidden(own.LogDeterminant):
        name = "hidden"

    model = SPDSL(3, metric=Hidden(), max_iter=2).fit(X, Y)
    with pytest.raises(
        ModelFileError, match=r"the metric 'hidden', which is not registered; call spdsl\.register_metric"
    ):
        model.save(tmp_path / "model.safetensors")


def test_names_belong_to_the_first_who_takes_them(own):
    class Other(own.LogDeterminant):
        aliases = ("lem",)

    class Alignment(own.Contrast):
        name = "alignment"

    with pytest.raises(
        ValueError, match="the name 'own-inverse' is already used by LogDeterminant; choose another name"
    ):
        spdsl.register_metric(Other)
    with pytest.raises(
        ValueError, match="the name 'alignment' is already used by CenteredAlignment; choose another name"
    ):
        spdsl.register_objective(Alignment)
    with pytest.raises(ValueError, match=r"the name 'CDL' is already used; choose another name"):
        spdsl.register_method(spdsl.Method("CDL", "alternative", own.Majority))
    with pytest.raises(TypeError, match=r"must be an instance of a subclass of spdsl\.Metric"):
        spdsl.register_metric("lem")


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_of_the_package_passes_its_check(name):
    check_metric(name)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_of_the_package_passes_its_check(name):
    check_objective(name)


def spoiled(base, change):
    """The metric with another pullback."""

    class Spoiled(base):
        name = "spoiled"

        def pairs(self, P, i, j):
            d2, pullback = super().pairs(P, i, j)
            return d2, lambda c: change(pullback(c))

    return Spoiled()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda S: -S, "pairs has the wrong sign"),
        (lambda S: S / 2, r"pairs is not the derivative: .*ratio 0\.5: a factor 2 is missing\)"),
        (lambda S: -4 * S, r"pairs is not the derivative: .*ratio -4: a factor 4 is too much, and the sign is wrong\)"),
        (lambda S: S + np.triu(np.ones(S.shape[1:]), 1), "returned a matrix that is not symmetric"),
        (lambda S: S[:, 0], "the pullback of Spoiled.pairs returned shape"),
    ],
)
def test_a_wrong_derivative_of_a_metric_is_named(own, change, message):
    with pytest.raises(CheckError, match=message):
        check_metric(spoiled(own.LogDeterminant, change))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (lambda self, A, B: -spdsl.METRICS["lem"].sqdist(A, B), "sqdist returned a negative value"),
        (lambda self, A, B: spdsl.METRICS["lem"].sqdist(A, B) + 1, "between equal matrices, but must be 0"),
        (
            lambda self, A, B: spdsl.METRICS["lem"].sqdist(A, B) * np.trace(A, axis1=1, axis2=2)[:, None],
            "not symmetric",
        ),
        (lambda self, A, B: spdsl.METRICS["lem"].sqdist(A, B) * 2, "pairs and sqdist disagree"),
        (lambda self, A, B: spdsl.METRICS["lem"].sqdist(A, B)[0], "returned shape"),
    ],
)
def test_wrong_distances_of_a_metric_are_named(method, message):
    lem = type(spdsl.METRICS["lem"])
    spoiled_class = type("Spoiled", (lem,), {"name": "spoiled", "sqdist": method})
    with pytest.raises(CheckError, match=message):
        check_metric(spoiled_class())


@pytest.mark.parametrize(
    ("trait", "message"),
    [({"invariance": "linear"}, "invariance is 'linear'"), ({"scale_free": True}, "scale_free is True")],
)
def test_wrong_traits_of_a_metric_are_named(own, trait, message):
    with pytest.raises(CheckError, match=message):
        check_metric(type("Spoiled", (own.LogDeterminant,), {"name": "spoiled", **trait})())


def test_a_metric_without_its_methods_says_what_is_missing():
    class Empty(spdsl.Metric):
        name = "empty"

    with pytest.raises(TypeError, match="Empty defines neither sqdist nor cross; define sqdist"):
        check_metric(Empty())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value, slope: (value, -slope), "has the wrong sign"),
        (lambda value, slope: (value, 3 * slope), r"is not the derivative: .*ratio 3"),
        (lambda value, slope: (value, slope[:-1]), "must return the derivative as an array of shape"),
        (lambda value, slope: value, r"must return \(value, derivative\)"),
        (lambda value, slope: (float("nan"), slope), "returned the value nan"),
    ],
)
def test_a_wrong_objective_is_named(own, change, message):
    class Spoiled(own.Contrast):
        name = "spoiled"

        def __call__(self, d2):
            return change(*super().__call__(d2))

    with pytest.raises(CheckError, match=message):
        check_objective(Spoiled)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d2, pullback: d2, r"must return a tuple \(d2, pullback\)"),
        (lambda d2, pullback: (d2, pullback(np.ones(len(d2)))), r"must return a tuple \(d2, pullback\)"),
        (lambda d2, pullback: (d2[:-1], pullback), r"returned d2 of shape \(9,\) for 10 pairs"),
        (lambda d2, pullback: (d2[:, None], pullback), r"returned d2 of shape \(10, 1\) for 10 pairs"),
        (lambda d2, pullback: (d2 * np.nan, pullback), "pairs returned NaN or infinity"),
        (lambda d2, pullback: (d2, lambda c: pullback(c) * np.nan), "pullback of Spoiled.pairs returned NaN"),
        (lambda d2, pullback: (d2, lambda c: pullback(np.multiply(c, 2, out=c))), "modifies the array c"),
    ],
)
def test_wrong_pairs_of_a_metric_are_named(own, change, message):
    class Spoiled(own.LogDeterminant):
        name = "spoiled"

        def pairs(self, P, i, j):
            return change(*super().pairs(P, i, j))

    with pytest.raises(CheckError, match=message):
        check_metric(Spoiled())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"within": lambda self, F: np.zeros((len(F[0]),) * 2)}, "within and sqdist disagree"),
        ({"compact": lambda self, P: (2 * P,)}, "cross and sqdist disagree; define cross for what compact returns"),
        ({"factor": lambda self, P: P}, "factor must return a tuple of arrays"),
        ({"sqdist": lambda self, A, B: None}, "sqdist must return an array, got NoneType"),
        ({"sqdist": lambda self, A, B: np.multiply(A, 2, out=A)[:, 0, 0]}, "sqdist modifies the matrices"),
    ],
)
def test_distances_that_only_the_neighbor_search_sees_are_checked(own, change, message):
    with pytest.raises(CheckError, match=message):
        check_metric(type("Spoiled", (own.LogDeterminant,), {"name": "spoiled", **change})())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value, slope, d2: (np.array([value]), slope), "must return the value as a float, got ndarray"),
        (lambda value, slope, d2: (slope, value), "must return the value as a float, got ndarray"),
        (lambda value, slope, d2: (value, slope.tolist()), "derivative as an array of shape .*, got list"),
        (lambda value, slope, d2: (value, slope * np.nan), "returned a derivative with NaN or infinity"),
        (lambda value, slope, d2: (value + 0 * np.add(d2, 1, out=d2)[0], slope), "modifies the array d2"),
    ],
)
def test_a_wrong_answer_of_an_objective_is_named(own, change, message):
    class Spoiled(own.Contrast):
        name = "spoiled"

        def __call__(self, d2):
            return change(*super().__call__(d2), d2)

    with pytest.raises(CheckError, match=message):
        check_objective(Spoiled)


@pytest.mark.parametrize(
    ("traits", "change", "message"),
    [
        (
            {"width": False},
            lambda self, answer: answer,
            "returned the value nan; beta is NaN for an objective with width",
        ),
        ({"weighted": True}, lambda self, answer: answer, "is weighted, but its value does not depend on the weights"),
        (
            {"weighted": True},
            lambda self, answer: answer if self.weight is None else (answer[0] * (1 + self.weight[0]), answer[1]),
            "with weights is not the derivative",
        ),
        (
            {"weighted": True},
            lambda self, answer: answer if self.weight is None else tuple((1 + self.weight[0]) * x for x in answer),
            r"is .* without weights, but .* with equal ones",
        ),
    ],
)
def test_what_an_objective_says_of_itself_is_tested(own, traits, change, message):
    def call(self, d2):
        return change(self, own.Contrast.__call__(self, d2))

    with pytest.raises(CheckError, match=message):
        check_objective(type("Spoiled", (own.Contrast,), {"name": "spoiled", "__call__": call, **traits}))


class Trace(EmbeddedMetric):
    """Squared difference of the traces, and of nothing else."""

    name = "trace"
    invariance = "orthogonal"

    def embed(self, P):
        return np.trace(P, axis1=1, axis2=2)[:, None], P

    def pull(self, G, P):
        return G[:, :, None] * np.eye(P.shape[-1])


@pytest.mark.parametrize(
    "embed",
    [
        lambda self, P: np.linalg.inv(P),
        lambda self, P: (np.trace(P, axis1=1, axis2=2), P),
        lambda self, P: (Trace.embed(self, P)[0], P.shape[-1]),
        lambda self, P: (P.sum(axis=0), P),
    ],
)
def test_an_embedding_that_cannot_be_divided_into_blocks_is_named(embed):
    check_metric(Trace())
    with pytest.raises(CheckError, match=r"Spoiled\.embed must return a tuple: the embedding"):
        check_metric(type("Spoiled", (Trace,), {"name": "spoiled", "embed": embed})())


def test_what_a_metric_lacks_is_named():
    class Half(EmbeddedMetric):
        name = "half"

    with pytest.raises(TypeError, match="Half does not define embed and pull"):
        spdsl.register_metric(Half)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value, slope: (np.nan, slope), "objective 'spoiled': its value is NaN or infinite at the start"),
        (
            lambda value, slope: (value, slope * np.nan),
            "objective 'spoiled': its derivative is NaN or infinite at the start",
        ),
    ],
)
def test_a_fit_says_that_an_objective_is_not_finite(own, change, message):
    class Spoiled(own.Contrast):
        name = "spoiled"

        def __call__(self, d2):
            return change(*super().__call__(d2))

    with pytest.raises(ValueError, match=message + r".* test an objective of your own with spdsl\.check_objective"):
        SPDSL(3, objective=Spoiled).fit(X, Y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d2, pullback: (d2 * np.nan, pullback), "metric 'spoiled': distances are NaN at the start"),
        (
            lambda d2, pullback: (d2, lambda c: pullback(c) * np.nan),
            "metric 'spoiled': its derivative is NaN or infinite",
        ),
    ],
)
def test_a_fit_says_that_a_metric_is_not_finite(own, change, message):
    class Spoiled(own.LogDeterminant):
        name = "spoiled"

        def pairs(self, P, i, j):
            return change(*super().pairs(P, i, j))

    with pytest.raises(ValueError, match=message + r".* test a metric of your own with spdsl\.check_metric"):
        SPDSL(3, metric=Spoiled()).fit(X, Y)


def test_classes_and_instances_are_told_apart(own):
    class Scaled(own.LogDeterminant):
        name = "scaled"

        def __init__(self, factor):
            self.factor_ = factor

    with pytest.raises(TypeError, match=r"Scaled cannot be created without arguments .* pass an instance"):
        spdsl.register_metric(Scaled)
    with pytest.raises(ValueError, match=r"got the class LogDeterminant; pass LogDeterminant\(\)"):
        SPDSL(3, metric=own.LogDeterminant).fit(X, Y)
    with pytest.raises(ValueError, match="got an instance; pass the class Contrast"):
        SPDSL(3, objective=own.Contrast(None, None, 1.0)).fit(X, Y)
    with pytest.raises(ValueError, match="aliases must be a tuple of strings, got 'lem'"):
        spdsl.register_metric(type("Alias", (own.LogDeterminant,), {"name": "alias", "aliases": "lem"}))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("", "alternative", SPDNearestNeighbor), "name of a method must be a non-empty string"),
        (("mine", "other", SPDNearestNeighbor), "method 'mine': the category must be one of"),
        (("mine", "alternative", SPDNearestNeighbor()), "the factory must be a function that returns an estimator"),
        (("mine", "alternative", dict), "the factory must return an unfitted scikit-learn classifier"),
        (("mine", "alternative", SPDNearestNeighbor, {"k": (1,)}), "SPDNearestNeighbor has no parameter 'k' to tune"),
    ],
)
def test_a_method_that_cannot_be_compared_is_not_registered(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        spdsl.register_method(spdsl.Method(*arguments))
    assert arguments[0] not in spdsl.METHODS


def test_without_beta_there_is_no_similarity():
    model = SPDSL(3, objective="embedding", max_iter=2).fit(X, Y)
    with pytest.raises(ValueError, match="objective 'embedding' has no beta, so there is no similarity; use sqdist"):
        model.similarity(X[:2])
