"""Every bad input has an outcome: handled as it stands, or an error that names sample, property and remedy."""

import functools
import importlib.util
import inspect
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

from samples import aligned, labeled
from spdsl import (
    CDL,
    LEK,
    LEML,
    METRICS,
    RSR,
    SPDML,
    SPDSL,
    KernelSVC,
    SPDNearestNeighbor,
    TangentSpaceClassifier,
    check_spd,
    pairwise_sqdist,
    regularize,
)
from spdsl.estimators.options import Options

ROOT = Path(__file__).parents[1]
X, Y = labeled(count=12, n=4)
names = pytest.mark.parametrize
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


IN_SOLVER = {"init", "gradient_tol", "patience", "rule", "search", "warm_start"}  # options that travel in a dict


def options(inside, parameters):
    """Parameters of a learner, those of the solver in the dict where they belong."""
    solver = {name: parameters.pop(name) for name in list(parameters) if name in inside}
    return parameters | ({"solver": solver} if solver else {})


def spdsl(**parameters):
    return aligned(**{"n_components": 2, "max_iter": 5, **options(IN_SOLVER | {"manifold"}, parameters)})


def spdml(**parameters):
    return SPDML(**{"n_components": 2, "max_iter": 5, "n_between": 3, **options(IN_SOLVER, parameters)})


@functools.cache
def fitted(name):
    """A model of each kind, fitted when it is first asked for."""
    make = {"SPDSL": lambda: spdsl(max_iter=200), "SPDML": lambda: spdml(max_iter=200), "NN": SPDNearestNeighbor}
    return make[name]().fit(X, Y)


# every way in for a stack, and what it calls the argument
FIT = {
    "SPDSL.fit": lambda A: spdsl().fit(A, Y),
    "SPDML.fit": lambda A: spdml().fit(A, Y),
    "SPDNearestNeighbor.fit": lambda A: SPDNearestNeighbor().fit(A, Y),
    "SPDSL.cost": lambda A: spdsl().cost(A, Y),
    "check_spd": check_spd,
}
USE = {
    "SPDSL.predict": lambda A: fitted("SPDSL").predict(A),
    "SPDSL.transform": lambda A: fitted("SPDSL").transform(A),
    "SPDML.predict": lambda A: fitted("SPDML").predict(A),
    "SPDML.transform": lambda A: fitted("SPDML").transform(A),
    "SPDNearestNeighbor.predict": lambda A: fitted("NN").predict(A),
    "SPDNearestNeighbor.kneighbors": lambda A: fitted("NN").kneighbors(A),
}
NAMED = {
    "SPDSL.sqdist.A": ("A", lambda A: fitted("SPDSL").sqdist(A)),
    "SPDSL.similarity.B": ("B", lambda B: fitted("SPDSL").similarity(X, B)),
    "SPDML.sqdist.B": ("B", lambda B: fitted("SPDML").sqdist(X, B)),
    "pairwise_sqdist.A": ("A", pairwise_sqdist),
    "pairwise_sqdist.B": ("B", lambda B: pairwise_sqdist(X, B, metric="aim")),
}
ENTRANCES = {**{name: ("X", call) for name, call in {**FIT, **USE}.items()}, **NAMED}


def changed(index, value, dtype=float):
    stack = X.astype(dtype)
    stack[index] = value
    return stack


def masked():
    stack = np.ma.masked_array(X, mask=np.zeros(X.shape, bool))
    stack[3, 1, 1] = np.ma.masked
    return stack


ASYMMETRIC = X[7] + 0.01 * np.eye(4, k=1)
INDEFINITE = X[7] - 2 * np.linalg.eigvalsh(X[7])[0] * np.eye(4)
RANK_ONE = np.outer([1.0, 2, 3, 4], [1.0, 2, 3, 4])

# what is wrong: the stack, then parts that the message must have (with {} for the argument's name)
BAD = {
    "nan": (changed((7, 2, 1), np.nan), ["{}[7]", "contains NaN or infinity", "remove this sample"]),
    "infinite": (changed((7, 2, 2), -np.inf), ["{}[7]", "contains NaN or infinity", "remove this sample"]),
    "first of several": (changed(np.array([9, 4]), np.nan), ["{}[4]", "contains NaN"]),
    "asymmetric": (changed(7, ASYMMETRIC), ["{}[7]", "is not symmetric", "({} + {}.mT) / 2"]),
    "indefinite": (
        changed(7, INDEFINITE),
        ["{}[7]", "not positive definite: smallest eigenvalue -", "regularize({}, 1e-3)"],
    ),
    "negative definite": (changed(7, -X[7]), ["{}[7]", "not positive definite: smallest eigenvalue -", "regularize("]),
    "rank one": (
        changed(7, RANK_ONE),
        ["{}[7]", "not positive definite", "smallest eigenvalue", "regularize({}, 1e-3)"],
    ),
    "all zero": (changed(7, 0.0), ["{}[7]", "is all zero, so not positive definite", "remove this sample"]),
    "all zero, last": (changed(11, 0.0), ["{}[11]", "is all zero", "remove this sample"]),
    "one matrix": (X[0], ["{} must have shape (n_matrices, n, n)", "(4, 4)", "pass {}[None]"]),
    "flattened": (X.reshape(12, 16), ["{} must have shape", "(12, 16)", "{}.reshape(-1, 4, 4)"]),
    "vector": (X[0, 0], ["{} must have shape (n_matrices, n, n), got (4,)"]),
    "five axes": (X[None, None], ["{} must have shape (n_matrices, n, n), got (1, 1, 12, 4, 4)"]),
    "blocks that are not square": (np.stack([X[:, :3], X[:, :3]], axis=1), ["{}", "must have shape", "(", "3, 4)"]),
    "wide": (X[:, :3], ["{} must have shape (n_matrices, n, n), got (12, 3, 4)"]),
    "tall": (X[:, :, :3], ["{} must have shape (n_matrices, n, n), got (12, 4, 3)"]),
    "no matrices": (X[:0], ["{} has no matrices", "(0, 4, 4)"]),
    "no rows": (X[:, :0, :0], ["{} has no matrices", "(12, 0, 0)"]),
    "empty list": ([], ["{} must have shape (n_matrices, n, n), got (0,)"]),
    "complex": (X + 0j, ["{} is complex", "pass real symmetric matrices"]),
    "strings": (X.astype(str), ["{} must hold numbers", "<U", "{}.astype(float)"]),
    "objects": (X.astype(object), ["{} must hold numbers", "object", "{}.astype(float)"]),
    "dates": (X.astype("datetime64[s]"), ["{} must hold numbers", "datetime64"]),
    "ragged": (
        [*X[:7], X[7, :3, :3], *X[8:]],
        ["{}[7] has shape (3, 3) but {}[0] has shape (4, 4)", "matrices of one size"],
    ),
    "ragged deeper": ([[[1.0, 0.0], [0.0]]], ["{} must have shape (n_matrices, n, n)", "pass blocks of one size"]),
    "data frame": (pd.DataFrame(X[0]), ["{} must have shape (n_matrices, n, n), got (4, 4)", "pass {}[None]"]),
    "masked": (masked(), ["{}[3] has masked entries", "remove this sample, or fill them"]),
    "text": ("matrices", ["{} must be an array of shape (n_matrices, n, n), got str"]),
    "None": (None, ["{} must be an array of shape (n_matrices, n, n), got NoneType"]),
}


CASES = [(entrance, what) for entrance in ENTRANCES for what in BAD]


@names(("entrance", "what"), [case for case in CASES if not (case[0].endswith(".B") and case[1] == "None")])
def test_bad_stack(entrance, what):
    name, call = ENTRANCES[entrance]
    stack, parts = BAD[what]
    with pytest.raises(ValueError, match=r"\w") as caught:
        call(stack)
    for part in parts:
        assert part.replace("{}", name) in str(caught.value)


@names("entrance", ENTRANCES)
def test_sparse_matrix(entrance):
    name, call = ENTRANCES[entrance]
    for container in (scipy.sparse.csr_array, scipy.sparse.csr_matrix):
        with pytest.raises(TypeError, match=rf"{name} is a sparse container.*pass {name}\.toarray\(\)"):
            call(container(X[0]))


@names("entrance", [*USE, "SPDSL.sqdist.A", "SPDSL.similarity.B", "SPDML.sqdist.B"])
def test_other_size_than_fitted(entrance):
    name, call = ENTRANCES[entrance]
    message = rf"{name} holds 3 x 3 matrices, but {entrance.split('.')[0]} was fitted on 4 x 4 matrices; pass matrices of this"
    with pytest.raises(ValueError, match=message):
        call(X[:, :3, :3])


def test_two_sizes():
    with pytest.raises(ValueError, match="A holds 4 x 4 matrices and B 3 x 3; both need the same size"):
        pairwise_sqdist(X, X[:, :3, :3])


@names("estimator", [spdsl(), spdml(), SPDNearestNeighbor()], ids=repr)
def test_before_fit(estimator):
    uses = [name for name in ("predict", "transform", "sqdist", "similarity", "kneighbors") if hasattr(estimator, name)]
    assert len(uses) >= 2
    for use in uses:
        with pytest.raises(NotFittedError, match=r"not fitted yet. Call 'fit'"):
            getattr(estimator, use)(X)


@names("estimator", [spdsl(n_components=9), spdml(n_components=9), SPDNearestNeighbor(n_neighbors=99)], ids=repr)
def test_a_failed_fit_leaves_no_fitted_model(estimator):
    with pytest.raises(ValueError, match="out of range"):
        estimator.fit(X, Y)
    with pytest.raises(NotFittedError):
        estimator.predict(X)


def test_unmasked_masked_array_is_an_array():
    stack = np.ma.masked_array(X, mask=False)
    model = spdsl(max_iter=200).fit(stack, np.ma.masked_array(Y, mask=False))
    assert type(model.components_) is np.ndarray
    np.testing.assert_array_equal(model.predict(stack), fitted("SPDSL").predict(X))


@names("size", [1e-150, 1e-12, 1e12, 1e150])
def test_definiteness_does_not_depend_on_the_unit(size):
    assert check_spd(size * X).shape == X.shape
    for what in ("indefinite", "rank one", "asymmetric"):
        with pytest.raises(ValueError, match=r"X\[7\] is not"):
            check_spd(size * BAD[what][0])


@names("power", [8, 12, 14])
def test_ill_conditioned_is_not_singular(power):
    V = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    matrix = (V * np.logspace(0, -power, 4)) @ V.T
    matrix = (matrix + matrix.T) / 2
    assert check_spd(matrix[None]).shape == (1, 4, 4)
    with pytest.raises(ValueError, match="not positive definite"):
        check_spd(matrix[None] - 2 * 10.0**-power * np.eye(4))


def ill_conditioned(power=12):
    """Condition 10^power, no two with the same eigenvectors."""
    V = np.linalg.qr(np.random.default_rng(2).standard_normal((12, 4, 4)))[0]
    stack = (V * np.logspace(0, -power, 4)) @ V.mT
    return (stack + stack.mT) / 2


@names("metric", list(METRICS))
@names("make", [spdsl, lambda **p: spdml(manifold="psd", **p)], ids=["SPDSL", "SPDML"])
def test_condition_1e12_gives_finite_components(make, metric):
    fitted = make(metric=metric, max_iter=30).fit(ill_conditioned(), Y)
    assert np.isfinite(fitted.components_).all()
    assert np.isfinite(fitted.cost_)


@names("metric", sorted(set(METRICS) - {"euclid"}))
def test_metrics_themselves_say_what_to_do(metric):
    with pytest.raises(ValueError, match=r"too ill-conditioned.*add a ridge, e\.g\. regularize\(X, 1e-3\)"):
        METRICS[metric].sqdist(X, -X)


@names("make", [spdsl, spdml])
@names("metric", list(METRICS))
def test_start_with_nearly_dependent_columns(make, metric):
    init = np.eye(4, 2)
    init[:, 1] = init[:, 0] + [0, 1e-5, 0, 0]
    fitted = make(metric=metric, init=init, manifold="psd").fit(X, Y)
    assert np.isfinite(fitted.components_).all()
    init[:, 1] = init[:, 0] + [0, 1e-7, 0, 0]
    with pytest.raises(ValueError, match="init has linearly dependent columns"):
        make(metric=metric, init=init, manifold="psd").fit(X, Y)


def test_check_spd_returns_float64_without_copying_what_is():
    assert check_spd(X) is X
    assert check_spd(X.astype(np.float32)).dtype == np.float64
    assert check_spd(np.ones((2, 1, 1), dtype=int)).dtype == np.float64


# ------------------------------------------------------------------------------------------ regularize


def test_regularize_makes_the_singular_definite_and_says_what_it_cannot():
    singular = changed(7, RANK_ONE)
    ridged = regularize(singular, 1e-3)
    np.testing.assert_allclose(ridged[7], RANK_ONE + 1e-3 * 30 * np.eye(4), rtol=1e-14)
    check_spd(ridged)
    with pytest.raises(ValueError, match=r"X\[7\] is all zero"):
        check_spd(regularize(changed(7, 0.0)))
    with pytest.raises(ValueError, match=r"X\[7\] contains NaN"):
        regularize(changed((7, 0, 0), np.nan))
    np.testing.assert_array_equal(singular[7], RANK_ONE)


@names("ridge", [-1e-3, np.nan, np.inf, "1e-3", None])
def test_regularize_rejects(ridge):
    with pytest.raises(ValueError, match="ridge must be a finite number >= 0, got"):
        regularize(X, ridge)


# ------------------------------------------------------------------------------------------ labels

WITH_NAN, WITH_NONE, MIXED, OBJECT_NAN = (Y.astype(kind) for kind in (float, object, object, object))
WITH_NAN[5], WITH_NONE[5], MIXED[5], OBJECT_NAN[5] = np.nan, None, "five", np.nan
MASKED = np.ma.masked_array(Y, mask=np.arange(12) == 5)


class Color(Enum):
    """Labels that NumPy keeps as objects."""

    RED, GREEN, BLUE = range(3)


BAD_LABELS = {
    "short": (Y[:-1], "X has 12 matrices but y has 11 labels.*one label per matrix"),
    "long": ([*Y, 0], "X has 12 matrices but y has 13 labels.*one label per matrix"),
    "empty": ([], "X has 12 matrices but y has 0 labels"),
    "None": (None, "the target y is None: this method learns from labels"),
    "nan": (WITH_NAN, r"y\[5\] is nan, which is not a label; remove that sample or label it"),
    "infinite": (np.where(np.arange(12) == 5, np.inf, Y), r"y\[5\] is inf, which is not a label"),
    "None inside": (WITH_NONE, r"y\[5\] is None, which is not a label; remove that sample or label it"),
    "nan among objects": (OBJECT_NAN, r"y\[5\] is nan, which is not a label"),
    "series with nan": (pd.Series(WITH_NAN), r"y\[5\] is nan, which is not a label"),
    "series with NA": (pd.Series(WITH_NONE).astype("Int64"), r"y\[5\] is (nan|<NA>), which is not a label"),
    "NA among objects": (
        np.where(np.arange(12) == 5, pd.NA, Y.astype(object)),
        r"y\[5\] is <NA>, which is not a label",
    ),
    "masked": (MASKED, r"y\[5\] is masked; remove that sample or label it"),
    "nan among strings": ([*"abc" * 3, "a", "b", float("nan")], r"y\[11\] is nan, which is not a label"),
    "numbers among strings": ([*"120" * 3, "1", "2", 0], "y mixes labels of the types int and str"),
    "mixed": (MIXED, "y mixes labels of the types int and str, .*use labels of one type"),
    "integers as objects": (Y.astype(object), r"y holds objects of type int; convert them, e\.g\. y\.astype\(int\)"),
    "booleans as objects": ((Y > 0).astype(object), r"y holds objects of type bool; .* y\.astype\(bool\)"),
    "huge integers": ([10**30 + int(label) for label in Y], r"objects of type int; .* \[str\(label\) for label in y\]"),
    "decimals": ([Decimal(int(label)) for label in Y], r"objects of type Decimal; .* \[str\(label\) for label in y\]"),
    "members of an enum": ([Color(label) for label in Y], r"objects of type Color; .* \[str\(label\) for label in y\]"),
    "dates": ([date(2020, 1, 1 + label) for label in Y], "y holds objects of type date"),
    "days": (np.datetime64("2020-01-01") + Y, "y holds objects of type date"),
    "a day is missing": (np.where(np.arange(12) == 5, np.datetime64("NaT"), np.datetime64(0, "D")), r"y\[5\] is NaT"),
    "strings of variable width": (
        np.array(["a", "b"], np.dtypes.StringDType())[Y % 2],
        r"StringDType.*y\.astype\(object\)",
    ),
    "two axes": (np.stack([Y, Y], axis=1), r"y should be a 1d array, got an array of shape \(12, 2\)"),
    "continuous": (Y + 0.5, "Unknown label type: continuous"),
    "complex": (Y + 1j, "[Cc]omplex"),
    "scalar": (3, "y should be a 1d array"),
}


@names("what", BAD_LABELS)
@names("make", [spdsl, spdml, SPDNearestNeighbor])
def test_bad_labels(make, what):
    y, message = BAD_LABELS[what]
    with pytest.raises(ValueError, match=message):
        make().fit(X, y)


def test_a_score_of_no_labels_says_how_many_there_are():
    model = SPDNearestNeighbor().fit(X, Y)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[0, 12\]"):
        model.score(X, [])


@names("make", [spdsl, spdml, SPDNearestNeighbor, KernelSVC])
def test_labels_of_matrices_that_were_taken_for_one_sample(make):
    with pytest.raises(ValueError, match=r"X has 1 sample of 12 matrices but y has 12 labels.*\(n_matrices, n, n\)"):
        make().fit(X[None], Y)


@names("make", [spdsl, spdml])
def test_classes_too_few_or_too_small(make):
    with pytest.raises(ValueError, match="needs at least 2 classes, y has 1 class: every label is ox"):
        make().fit(X, ["ox"] * 12)
    with pytest.raises(ValueError, match=r"every class has one sample; SPD.* needs at least two samples of some class"):
        make().fit(X, np.arange(12))
    with pytest.raises(ValueError, match="needs at least 2 classes"):
        make().fit(X[:2], [0, 0])
    with pytest.raises(ValueError, match="every class has one sample"):
        make().fit(X[:2], [0, 1])
    with pytest.raises(ValueError, match="needs at least 2 classes"):
        make().fit(X[:1], [0])


def test_nearest_neighbor_needs_no_second_class():
    np.testing.assert_array_equal(SPDNearestNeighbor().fit(X, ["ox"] * 12).predict(X), "ox")
    np.testing.assert_array_equal(SPDNearestNeighbor().fit(X, np.arange(12)).predict(X), np.arange(12))
    assert SPDNearestNeighbor().fit(X[:1], [4]).predict(X).tolist() == [4] * 12


@names(
    "make",
    [
        spdsl,
        lambda **p: spdml(manifold="psd", **p),
        lambda **p: spdsl(objective="pairs", n_within=None, n_between=2, **p),
    ],
    ids=["SPDSL", "SPDML", "SPDSL-pairs"],
)
@names("metric", ["lem", "aim"])
def test_a_class_with_one_sample_among_others(make, metric):
    y = np.where(np.arange(12) == 0, 9, Y)
    fitted = make(metric=metric).fit(X, y)
    assert np.isfinite(fitted.components_).all()
    assert fitted.predict(X[:1]) == 9
    assert list(fitted.classes_) == [0, 1, 2, 9]


def test_three_samples_are_enough():
    fitted = spdsl().fit(X[:3], [0, 0, 1])
    assert np.isfinite(fitted.components_).all()
    np.testing.assert_array_equal(fitted.predict(X[:3]), [0, 0, 1])


@names("metric", list(METRICS))
def test_identical_matrices_everywhere(metric):
    same = np.repeat(X[:1], 12, axis=0)
    for make in (spdsl, lambda **p: spdsl(beta=1.0, **p), spdml):
        with pytest.raises(ValueError, match="all training matrices are identical; provide matrices that differ"):
            make(metric=metric, manifold="psd").fit(same, Y)
    np.testing.assert_array_equal(SPDNearestNeighbor(metric).fit(same, Y[::-1]).predict(X), Y[-1])


@names("metric", list(METRICS))
@names("make", [spdsl, spdml])
def test_copies_under_different_labels(make, metric):
    stack, y = np.concatenate([X, X]), np.concatenate([Y, (Y + 1) % 3])
    # few iterations: graph embedding shrinks W without end under metrics that see its size
    fitted = make(metric=metric, manifold="psd", max_iter=5).fit(stack, y)
    assert np.isfinite(fitted.components_).all()
    assert np.isfinite(fitted.cost_)
    np.testing.assert_array_equal(fitted.predict(X), Y)  # the first copy wins


@names("make", [spdsl, spdml])
def test_classes_of_copies(make):
    # every class is one matrix repeated: all distances within are zero
    fitted = make(max_iter=100).fit(X[Y], Y)
    assert np.isfinite(fitted.components_).all()
    np.testing.assert_array_equal(fitted.predict(X[Y]), Y)


@names("make", [spdsl, spdml])
@names("metric", ["lem", "aim", "stein"])
def test_commuting_and_scaled_copies(make, metric):
    diagonal = np.stack([np.diag(row) for row in np.exp(np.random.default_rng(0).standard_normal((12, 4)))])
    scaled = np.arange(1.0, 13)[:, None, None] * X[:1]
    for stack in (diagonal, scaled):
        fitted = make(metric=metric, max_iter=30).fit(stack, Y)
        assert np.isfinite(fitted.components_).all()
        np.testing.assert_array_equal(fitted.predict(stack), Y)


def test_labels_of_pandas():
    by_series = spdsl(max_iter=200).fit(X, pd.Series(Y, index=np.arange(12) + 100))
    np.testing.assert_array_equal(by_series.predict(X), fitted("SPDSL").predict(X))
    categories = pd.Series(np.array(["a", "b", "c"])[Y], dtype="category")
    assert set(spdsl().fit(X, categories).predict(X)) <= {"a", "b", "c"}


# ------------------------------------------------------------------------------------------ parameters

NOT_POSITIVE = "must be a finite number > 0, got"
NEIGHBORS = "must be a positive integer, 'all' or 'auto', got"
PARAMETERS = [
    ("n_components", 0, "n_components=0 is out of range: it must be between 1 and [34], .* the size 4 of"),
    ("n_components", -1, "n_components=-1 is out of range"),
    ("n_components", 5, "n_components=5 is out of range: it must be between 1 and [34], .* the size 4 of"),
    ("n_components", 7, "n_components=7 is out of range"),
    ("n_components", 2.5, "n_components must be an integer, got 2.5"),
    ("n_components", 2.0, "n_components must be an integer, got 2.0"),
    ("n_components", "3", "n_components must be an integer, got '3'"),
    ("n_components", True, "n_components must be an integer, got True"),
    ("metric", "mahalanobis", "unknown metric 'mahalanobis'; choose one of 'aim', 'stein', 'lem'"),
    ("metric", None, "unknown metric None"),
    ("n_within", 0, f"n_within {NEIGHBORS} 0"),
    ("n_within", "none", f"n_within {NEIGHBORS} 'none'"),
    ("n_between", 0, f"n_between {NEIGHBORS} 0"),
    ("n_between", -1, f"n_between {NEIGHBORS} -1"),
    ("n_between", 1.5, f"n_between {NEIGHBORS} 1.5"),
    ("n_between", np.nan, f"n_between {NEIGHBORS} nan"),
    ("n_between", None, f"n_between {NEIGHBORS} None"),
    ("n_between", True, f"n_between {NEIGHBORS} True"),
    ("manifold", "sphere", "manifold must be 'psd' or 'grassmann', got 'sphere'"),
    ("manifold", "full-rank", "manifold must be 'psd' or 'grassmann', got 'full-rank'"),
    ("init", "zeros", "init must be 'recentered', .*'random' or an array"),
    ("init", None, "init must be"),
    ("init", np.eye(3, 2), r"init must have shape \(4, m\) with 1 <= m <= 4, got \(3, 2\)"),
    ("init", np.eye(4, 3), r"init must have shape \(4, 2\), got \(4, 3\)"),
    ("init", np.ones(4), r"init must have shape \(4, m\) with 1 <= m <= 4, got \(4,\)"),
    ("init", 1.0, r"init must have shape \(4, m\) with 1 <= m <= 4, got \(\)"),
    ("init", np.ones((4, 2)), "init has linearly dependent columns; it must be of full column rank"),
    ("init", np.zeros((4, 2)), "init has linearly dependent columns"),
    ("init", np.full((4, 2), np.nan), "init contains NaN or infinity"),
    ("init", [["a", "b"]] * 4, "init must be"),
    ("init", 1e100 * np.eye(4, 2), r"init has a largest entry of 1\.0e\+100, out of the range 1e-50 to 1e\+50"),
    ("init", 1e-100 * np.eye(4, 2), "init has a largest entry of 1.0e-100, out of the range"),
    ("max_iter", -1, "max_iter=-1 is out of range: it must be at least 0"),
    ("max_iter", 2.5, "max_iter must be an integer, got 2.5"),
    ("tol", np.nan, "tol must be a finite number >= 0, got nan"),
    ("tol", -1e-3, "tol must be a finite number >= 0, got -0.001"),
    ("tol", "small", "tol must be a finite number >= 0, got 'small'"),
    ("rule", "newton", "rule must be 'hestenes-stiefel', .* or 'dai-yuan', got 'newton'"),
    ("solver", {"steps": 3}, "solver: unknown option 'steps'; choose one of 'init', 'manifold', 'gradient_tol'"),
    ("solver", "newton", "solver must be a dict"),
    ("gradient_tol", -1.0, "gradient_tol must be a finite number >= 0, got -1.0"),
    ("patience", 0, "patience=0 is out of range: it must be at least 1"),
    ("search", "fast", "search must be 'exact' or 'approximate', got 'fast'"),
    ("warm_start", "yes", "warm_start must be True or False, got 'yes'"),
    ("callback", "print", r"callback must be a function of \(history row, W\), got 'print'"),
    ("random_state", "seed", "random_state must be an integer from 0 to"),
]
OF_SPDSL = [
    ("beta", -1.0, f"beta {NOT_POSITIVE} -1.0"),
    ("beta", 0, f"beta {NOT_POSITIVE} 0"),
    ("beta", np.nan, f"beta {NOT_POSITIVE} nan"),
    ("beta", np.inf, f"beta {NOT_POSITIVE} inf"),
    ("beta", "wide", "beta must be 'reduced', 'original' or a positive number, got 'wide'"),
    ("beta_scale", 0.0, f"beta_scale {NOT_POSITIVE} 0.0"),
    ("beta_scale", None, f"beta_scale {NOT_POSITIVE} None"),
    (
        "objective",
        "rows",
        "objective must be one of 'alignment', 'pairs'.* or a subclass of spdsl.Objective, got 'rows'",
    ),
    ("objective", None, "objective must be one of .*, got None"),
]
OF_NEAREST = [
    *(row for row in PARAMETERS if row[0] == "metric"),
    ("n_neighbors", 0, r"n_neighbors=0 is out of range: it must be between 1 and 12 \(there are 12 training"),
    ("n_neighbors", 13, "n_neighbors=13 is out of range: it must be between 1 and 12"),
    ("n_neighbors", 1.5, "n_neighbors must be an integer, got 1.5"),
]


@names(("name", "value", "message"), PARAMETERS)
@names("make", [spdsl, spdml])
def test_parameter_out_of_range(make, name, value, message):
    needed = {"init": "random"} if name == "random_state" else {}
    with pytest.raises(ValueError, match=message):
        make(**needed, **{name: value}).fit(X, Y)


@names(("name", "value", "message"), OF_SPDSL)
def test_parameter_of_spdsl_out_of_range(name, value, message):
    with pytest.raises(ValueError, match=message):
        spdsl(**{name: value}).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        spdsl(**{name: value}).cost(X, Y)


@names(("name", "value", "message"), OF_NEAREST)
def test_parameter_of_nearest_neighbor_out_of_range(name, value, message):
    with pytest.raises(ValueError, match=message):
        SPDNearestNeighbor(**{name: value}).fit(X, Y)


ESTIMATORS = [SPDSL, SPDML, SPDNearestNeighbor, KernelSVC, CDL, RSR, LEK, LEML, TangentSpaceClassifier]


@names("value", [pd.NA, np.array([1, 2])], ids=["NA", "array"])
@names(
    ("make", "name"),
    [(estimator, name) for estimator in ESTIMATORS for name in inspect.signature(estimator).parameters],
)
def test_values_that_have_no_truth_are_refused_in_our_words(make, name, value):
    try:
        make(**{name: value}).fit(X, Y)
    except ValueError as error:
        said = str(error)
    else:  # a parameter that this fit does not use
        return
    assert name in said
    assert "ambiguous" not in said


@names("value", [pd.NA, np.array([1, 2])], ids=["NA", "array"])
@names("name", list(Options.__dataclass_fields__))
def test_options_that_have_no_truth_are_refused_in_our_words(name, value):
    with pytest.raises(ValueError, match=f"{name}.* must "):
        aligned(2, solver={name: value}).fit(X, Y)


def test_parameters_are_checked_before_the_data_are_surveyed(monkeypatch):
    def survey(*_):
        raise AssertionError("long work began")

    monkeypatch.setattr("spdsl.learning.learn.survey_pairs", survey)
    for wrong in (
        {"n_components": 9},
        {"tol": -1},
        {"rule": 3, "patience": 0},
        {"beta": -1},
        {"init": "zeros"},
        {"max_iter": -1},
    ):
        with pytest.raises(ValueError, match="must be"):
            spdsl(**wrong).fit(X, Y)


@names("make", [spdsl, spdml])
@names("name", ["n_within", "n_between"])
def test_more_neighbors_than_there_are(make, name):
    with pytest.warns(UserWarning, match=f"{name}=1000, but no sample has more than . such neighbors") as caught:
        fitted = make(**{name: 1000}).fit(X, Y)
    assert [w.filename for w in caught if w.category is UserWarning] == [__file__]  # it points at the caller
    everything = make(**{name: "all"}).fit(X, Y)
    assert len(fitted.graph_) == len(everything.graph_)
    assert fitted.cost_ == everything.cost_


def test_one_by_one_matrices():
    small = X[:, :1, :1]
    for make in (spdsl, spdml):
        with pytest.raises(ValueError, match=r"X holds 1 x 1 matrices.*n >= 2"):
            make().fit(small, Y)
    assert SPDNearestNeighbor("aim").fit(small, Y).score(small, Y) == 1.0


def test_numpy_scalars_are_numbers():
    fitted = spdsl(n_components=np.int64(2), max_iter=np.int32(3), tol=np.float32(0.1), beta=np.float64(1)).fit(X, Y)
    assert fitted.components_.shape == (4, 2)


# ------------------------------------------------------------------------------------------ real data, the page


@pytest.mark.data
def test_fpha_has_an_all_zero_sample(data_folder):
    data = np.load(data_folder / "fpha_63.npz")
    stack = np.zeros((len(data["y"]), 63, 63))
    row, column = np.triu_indices(63)
    stack[:, row, column] = stack[:, column, row] = data["triu"]
    with pytest.raises(ValueError, match=r"X\[921\] is all zero, so not positive definite; remove this sample"):
        check_spd(stack)
    with pytest.raises(ValueError, match=r"X\[921\] is all zero"):
        aligned().fit(stack, data["y"])
    rest = np.delete(stack, 921, axis=0)
    assert check_spd(rest) is rest


def test_the_page_shows_what_users_see():
    spec = importlib.util.spec_from_file_location("bad_input_table", ROOT / "benchmarks" / "bad_input_table.py")
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    page = (ROOT / "docs" / "bad-input.md").read_text()
    assert table.page() == page, "run: python benchmarks/bad_input_table.py > docs/bad-input.md"


def test_matrices_along_the_last_axis_are_recognized_where_the_axes_are_equally_long():
    turned = np.moveaxis(np.array([[[2.0, k], [k, 3.0]] for k in (0.1, 0.7)]), 0, -1)
    with pytest.raises(ValueError, match=r"pass X.transpose\(2, 0, 1\)"):
        SPDSL(1).fit(turned, ["a", "b"])


@names("value", [np.inf, np.nan, 1e308])
def test_a_stack_as_long_as_its_matrices_with_extreme_entries_is_refused_without_a_warning(value):
    with pytest.raises(ValueError, match=r"X\[0\] "):
        SPDSL(1).fit(np.array([[[value, -value], [-value, 1.0]], [[0.4, -0.5], [-0.5, 1.4]]]), ["a", "b"])
