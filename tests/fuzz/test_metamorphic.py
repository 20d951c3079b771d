"""What must not change an answer: another order, other names or units, copies, threads, later changes, order of calls.

No right answer is needed: two runs that should tell the same are compared, for every estimator.
"""

import copy
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from fuzz_profile import COUNT, PROFILE
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import spdsl
from samples import labeled
from spdsl import CDL, LEK, LEML, MDM, METRICS, RSR, SPDML, SPDSL, KernelSVC, SPDNearestNeighbor, TangentSpaceClassifier
from spdsl.backend import blocks
from spdsl.estimators.vector_classifier import LogVectorClassifier

pytestmark = [
    pytest.mark.fuzz,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
#: of every relation and estimator, of which there are some three hundred
CASES = settings(PROFILE, max_examples=max(COUNT // 16, 2))
CHOLESKY = ("cholesky", "log-cholesky")  # these depend on the order of the features


class Kind(NamedTuple):
    """An estimator, other values of its parameters, and what its answers depend on."""

    make: Callable[[], object]
    others: dict
    ordered: bool = False  # on the order of the training samples
    basis: bool = False  # on the order of the features
    unit: bool = False  # on the unit of the matrices
    names: bool = (
        False  # on the order of the names of the classes: scikit-learn's machines count votes of pairs of classes
    )
    digits: float = 1e-3  # that differ: inner tolerances, and a long first step of a learner, make so much of rounding


LEARNER = {
    "n_components": 1,
    "metric": "euclid",
    "n_within": 1,
    "n_between": 1,
    "max_iter": 4,
    "tol": 1.0,
    "solver": {"init": "pca"},
    "random_state": 3,
}
KINDS = {
    "SPDSL": Kind(lambda: SPDSL(max_iter=1), {**LEARNER, "objective": "pairs", "beta_scale": 9.0, "classifier": "nn"}),
    "SPDSL-2": Kind(lambda: SPDSL(2, max_iter=1), {**LEARNER, "classifier": "svm", "beta": 7.0}),
    "SPDSL-2-stein-svm": Kind(
        lambda: SPDSL(2, metric="stein", objective="alignment", classifier="svm", max_iter=1),
        {**LEARNER, "classifier": "auto"},
        names=True,
    ),
    "SPDSL-2-aim-nn": Kind(
        lambda: SPDSL(2, metric="aim", classifier="nn", max_iter=1), {**LEARNER, "classifier": "lda"}
    ),
    "SPDSL-2-pairs-lda": Kind(
        lambda: SPDSL(2, objective="pairs", classifier="lda", max_iter=1), {**LEARNER, "classifier": "logistic"}
    ),
    "SPDML": Kind(lambda: SPDML(2, max_iter=1), {**LEARNER, "manifold": "psd", "classifier": "svm"}),
    **{
        f"NN-{name}": Kind(
            lambda name=name: SPDNearestNeighbor(name),
            {"metric": "stein" if name == "lem" else "lem", "n_neighbors": 3},
            basis=name in CHOLESKY,
            unit=name == "log-cholesky",
        )
        for name in METRICS
    },
    **{
        f"SVC-{name}": Kind(
            lambda name=name: KernelSVC(name),
            {"metric": "stein" if name == "lem" else "lem", "beta": 9.0, "C": 0.01},
            basis=name in CHOLESKY,
            unit=name == "log-cholesky",
            names=True,
        )
        for name in METRICS
    },
    "LogVectorClassifier": Kind(lambda: LogVectorClassifier("lda"), {"classifier": "logistic"}),
    "CDL-pls": Kind(CDL, {"discriminant": "lda", "extra_components": 1, "ridge": 5.0}),
    "CDL-lda": Kind(lambda: CDL("lda"), {"discriminant": "pls", "ridge": 5.0}),
    "RSR": Kind(
        RSR,
        {"penalty": 0.5, "beta": 9.0, "beta_scale": 9.0, "normalize": False, "tol": 0.1, "max_iter": 1},
    ),
    "LEK-gauss": Kind(LEK, {"kernel": "poly", "penalty": 0.5, "normalize": False, "tol": 0.1}),
    "LEK-poly": Kind(lambda: LEK("poly"), {"kernel": "gauss", "degree": 2, "penalty": 0.5}, unit=True),
    # projections onto the constraints one after the other: their order matters until they have converged
    "LEML": Kind(
        lambda: LEML(max_iter=4, random_state=0), {"n_components": 1, "eta": 9.0, "update": "closed-form"}, ordered=True
    ),
    "TS-lda": Kind(TangentSpaceClassifier, {"classifier": "logistic", "metric": "logeuclid", "C": 0.1}),
    "TS-logistic": Kind(lambda: TangentSpaceClassifier("logistic"), {"classifier": "lda", "metric": "logeuclid"}),
    "MDM": Kind(MDM, {"metric": "euclid"}),
}
METHODS = (
    "predict",
    "transform",
    "decision_function",
    "predict_proba",
    "sqdist",
    "similarity",
    "kneighbors",
    "sparse_codes",
)
#: answers that are meaningful up to a rotation only, or that count the training samples
ROTATED, INDEXED = ("transform",), ("kneighbors", "sparse_codes")
LABELS = "predict"


class Trial(NamedTuple):
    """Training and test matrices, and their labels."""

    X: np.ndarray
    y: np.ndarray
    T: np.ndarray
    rng: np.random.Generator


@st.composite
def trials(draw):
    n, classes, seed = draw(st.integers(3, 5)), draw(st.integers(2, 3)), draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    X, y = labeled(draw(st.integers(6, 9)) * classes, n, classes, seed=seed)
    if draw(st.booleans()):  # classes of unequal sizes
        kept = (y > 0) | (np.cumsum(y == 0) <= 2)
        X, y = X[kept], y[kept]
    if draw(st.booleans()):  # some samples twice
        X, y = np.concatenate([X, X[:4]]), np.concatenate([y, y[:4]])
    T, _ = labeled(9, n, classes, seed=seed + 1)
    unit = 10.0 ** draw(st.sampled_from((0, 0, -6, 6)))
    return Trial(unit * X, y, unit * T, rng)


def said(model, T, leaving=()):
    """Everything that a fitted model tells of matrices."""
    answers = {}
    for name in METHODS:
        if name not in leaving and hasattr(model, name):
            found = getattr(model, name)(T)
            parts = found if isinstance(found, tuple) else (found,)
            answers |= {f"{name} {k}": np.array(part) for k, part in enumerate(parts)}
    return answers


def alike(a, b, digits=None):
    """The same answers: to the bit, or up to so much of the largest number."""
    assert a.keys() == b.keys()
    for name in a:
        if digits is None or a[name].dtype.kind not in "fc":
            assert_array_equal(a[name], b[name], err_msg=name)
        else:
            scale = max(np.abs(a[name]).max(), np.finfo(float).tiny)
            assert_allclose(b[name] / scale, a[name] / scale, rtol=0, atol=digits, err_msg=name)


def every(relation):
    """Run a relation of (kind, trial) on drawn trials for every estimator."""

    @pytest.mark.parametrize("name", KINDS)
    def test(name, counted):
        @CASES
        @given(trials())
        def run(trial):
            counted()
            relation(KINDS[name], trial)

        run()

    test.__doc__ = relation.__doc__
    return test


def fitted(kind, trial):
    return kind.make().fit(trial.X.copy(), trial.y)


@every
def test_order_of_the_samples(kind, trial):
    if kind.ordered:
        return
    p = trial.rng.permutation(len(trial.y))
    other = kind.make().fit(trial.X[p], trial.y[p])
    hidden = ROTATED + INDEXED
    alike(said(fitted(kind, trial), trial.T, hidden), said(other, trial.T, hidden), digits=kind.digits)


@every
def test_order_of_the_features(kind, trial):
    if kind.basis:
        return
    p = trial.rng.permutation(trial.X.shape[-1])
    turned = [A[:, p][:, :, p] for A in (trial.X, trial.T)]
    other = kind.make().fit(turned[0], trial.y)
    hidden = ROTATED + (() if hasattr(other, "kneighbors") else INDEXED)
    alike(said(fitted(kind, trial), trial.T, hidden), said(other, turned[1], hidden), digits=kind.digits)


@every
def test_names_of_the_classes(kind, trial):
    """Names in the same order change no bit; in another order, no label."""
    plain = said(fitted(kind, trial), trial.T)
    names = np.array(["ant", "bee", "cow"])
    named = said(kind.make().fit(trial.X, names[trial.y]), trial.T)
    assert_array_equal(named.pop("predict 0"), names[plain["predict 0"]])
    alike({k: v for k, v in plain.items() if not k.startswith(LABELS + " ")}, named)
    if kind.names:
        return
    p = trial.rng.permutation(3)
    mixed = kind.make().fit(trial.X, p[trial.y])
    assert_array_equal(mixed.predict(trial.T), p[plain["predict 0"]])


@every
def test_unit_of_the_matrices(kind, trial):
    if kind.unit:
        return
    factor = 10.0 ** trial.rng.uniform(-8, 8)
    other = kind.make().fit(factor * trial.X, trial.y)
    hidden = (*ROTATED, "kneighbors", "sqdist")  # distances have a unit under some metrics
    alike(said(fitted(kind, trial), trial.T, hidden), said(other, factor * trial.T, hidden), digits=kind.digits)


@every
def test_copies_and_company_of_test_samples(kind, trial):
    model = fitted(kind, trial)
    hidden = ("sqdist", "similarity")  # of all pairs
    together, few = said(model, trial.T, hidden), trial.rng.integers(0, len(trial.T), 4)
    alike({k: v[few] for k, v in together.items()}, said(model, trial.T[few], hidden), digits=kind.digits)
    twice = said(model, np.concatenate([trial.T, trial.T]), hidden)
    alike(
        {k: v[: len(trial.T)] for k, v in twice.items()},
        {k: v[len(trial.T) :] for k, v in twice.items()},
        digits=kind.digits,
    )


@every
def test_number_of_threads(kind, trial):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", 1 << 10)
        found = []
        for count in (1, 3):
            patch.setattr(blocks, "threads", lambda count=count: count)
            found.append(said(fitted(kind, trial), trial.T))
    alike(*found)


@every
def test_later_changes_of_arrays(kind, trial):
    X, y, T = trial.X.copy(), trial.y.copy(), trial.T.copy()
    model = kind.make().fit(X, y)
    before = said(model, T)
    assert_array_equal(X, trial.X)
    assert_array_equal(T, trial.T)
    X[:], y[:] = np.eye(X.shape[-1]), 0
    alike(before, said(model, trial.T))
    for answer in said(model, T).values():  # what was answered belongs to the caller
        answer[...] = answer.flat[0]
    alike(before, said(model, trial.T))


@every
def test_later_parameters(kind, trial):
    """Also in a copy, and in a model that was saved and loaded."""
    model = fitted(kind, trial)
    before = said(model, trial.T)
    names = sorted(kind.others)
    chosen = [name for name in names if trial.rng.random() < 0.5] or names
    model.set_params(**{name: kind.others[name] for name in chosen})
    alike(before, said(model, trial.T))
    alike(before, said(copy.deepcopy(model), trial.T))


@every
def test_order_of_calls(kind, trial):
    """Asking changes nothing, and a second fit is that of a new object, whatever was fitted before."""
    model = fitted(kind, trial)
    plain = said(model, trial.T)
    backwards = kind.make().fit(trial.X, trial.y)
    for name in reversed(METHODS):
        if hasattr(backwards, name):
            getattr(backwards, name)(trial.T)
    alike(plain, said(backwards, trial.T))
    alike(plain, said(model.fit(trial.X, trial.y), trial.T))
    other, labels = labeled(8, trial.X.shape[-1] + 1, 2)
    model.fit(other, labels)
    alike(plain, said(model.fit(trial.X, trial.y), trial.T))


def test_later_parameters_of_loaded_models(tmp_path):
    pytest.importorskip("safetensors")
    X, y = labeled(24, 4)
    for kind in KINDS.values():
        model = kind.make().fit(X, y)
        before = said(model, X)
        model.save(tmp_path / "model")
        loaded = spdsl.load(tmp_path / "model")
        alike(before, said(loaded, X))
        loaded.set_params(**kind.others)
        alike(before, said(loaded, X))
