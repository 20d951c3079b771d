"""The same fit on NumPy arrays and on the array library under test, and what goes in and out of the estimators."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from samples import aligned, labeled, smallest_eigenvalue
from spdsl import METRICS, SPDML, SPDNearestNeighbor, check_spd, pairwise_sqdist, regularize
from spdsl.backend.extras import install_hint

X, Y = labeled()
X_NEW = labeled(count=45)[0][30:]
names = pytest.mark.parametrize
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def host(x):
    """As a NumPy array."""
    return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)


LEARNERS = [
    aligned(3, max_iter=15, tol=0.0),
    aligned(3, max_iter=15, tol=0.0, n_between=4, n_within=None, objective="pairs"),
    SPDML(3, max_iter=8, manifold="psd"),
]


@names("metric", list(METRICS))
@names("estimator", LEARNERS, ids=["SPDSL", "SPDSL-pairs", "SPDML"])
def test_the_same_fit(as_array, estimator, metric):
    estimator = clone(estimator).set_params(metric=metric)
    plain, other = clone(estimator).fit(X, Y), clone(estimator).fit(as_array(X), Y)
    assert [row["value"] for row in other.history_] == pytest.approx([row["value"] for row in plain.history_], rel=1e-9)
    assert other.cost_ == pytest.approx(plain.cost_, rel=1e-9)
    assert other.status_ == plain.status_
    np.testing.assert_array_equal(other.predict(as_array(X_NEW)), plain.predict(X_NEW))
    np.testing.assert_array_equal(other.graph_.i, plain.graph_.i)


@names(
    "estimator",
    [aligned(3, solver={"manifold": "grassmann"}), SPDML(3), aligned(3, metric="stein", n_between=3)],
    ids=repr,
)
def test_the_same_fit_to_the_end(as_array, estimator):
    plain, other = clone(estimator).fit(X, Y), clone(estimator).fit(as_array(X), Y)
    assert other.n_iter_ == plain.n_iter_
    assert other.cost_ == pytest.approx(plain.cost_, rel=1e-9)
    np.testing.assert_array_equal(other.predict(as_array(X_NEW)), plain.predict(X_NEW))


@names("metric", list(METRICS))
@names("k", [1, 4])
def test_the_same_neighbors(as_array, metric, k):
    plain = SPDNearestNeighbor(metric, n_neighbors=k).fit(X, Y)
    other = SPDNearestNeighbor(metric, n_neighbors=k).fit(as_array(X), Y)
    np.testing.assert_array_equal(other.predict(as_array(X_NEW)), plain.predict(X_NEW))
    for mine, theirs in zip(other.kneighbors(as_array(X_NEW)), plain.kneighbors(X_NEW), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8)


def test_out_comes_the_kind_that_went_in(as_array):
    stack, new = as_array(X), as_array(X_NEW)
    fitted = aligned(3, max_iter=5).fit(stack, Y)
    kind = type(stack)
    for out in (
        fitted.components_,
        fitted.transform(new),
        fitted.sqdist(new),
        fitted.sqdist(new, stack),
        fitted.similarity(new, stack),
        pairwise_sqdist(stack),
        pairwise_sqdist(stack, new, metric="aim"),
        regularize(stack),
        check_spd(stack),
        fitted.cost(stack, Y)(fitted.components_)[1],
    ):
        assert type(out) is kind
        assert "float64" in str(out.dtype)
    assert type(fitted.predict(new)) is np.ndarray
    assert type(fitted.cost_) is float
    assert all(type(value) in (int, float) for row in fitted.history_ for value in row.values())
    assert smallest_eigenvalue(host(fitted.transform(new))) > 0


@names("estimator", [*LEARNERS, SPDNearestNeighbor("aim"), SPDNearestNeighbor("lem")], ids=repr)
def test_fitted_on_one_kind_predicts_on_the_other(as_array, estimator):
    plain, other = clone(estimator).fit(X, Y), clone(estimator).fit(as_array(X), Y)
    expected = plain.predict(X_NEW)
    np.testing.assert_array_equal(plain.predict(as_array(X_NEW)), expected)
    np.testing.assert_array_equal(other.predict(X_NEW), expected)
    if hasattr(plain, "transform"):
        assert type(plain.transform(as_array(X_NEW))) is type(as_array(X_NEW))
        assert type(other.transform(X_NEW)) is np.ndarray
        np.testing.assert_allclose(
            host(other.sqdist(X_NEW, as_array(X))), plain.sqdist(X_NEW, X), rtol=1e-7, atol=1e-10
        )
        assert type(plain.sqdist(as_array(X_NEW), X)) is type(as_array(X))


def test_labels_and_starts_of_the_same_kind(as_array):
    plain = aligned(solver={"init": np.eye(6, 3)}, max_iter=5).fit(X, Y)
    other = aligned(solver={"init": as_array(np.eye(6, 3))}, max_iter=5).fit(as_array(X), as_array(Y))
    mixed = aligned(solver={"init": as_array(np.eye(6, 3))}, max_iter=5).fit(X, as_array(Y))
    for fitted in (other, mixed):
        assert fitted.cost_ == pytest.approx(plain.cost_, rel=1e-9)
        np.testing.assert_array_equal(fitted.classes_, [0, 1, 2])
    assert type(mixed.components_) is np.ndarray


def test_float32_and_integers_are_computed_in_float64(as_array):
    whole = np.clip(np.round(2 * X + 5), 0, 20) + 100 * np.eye(6)
    plain = aligned(3, max_iter=5).fit(whole, Y)
    for dtype in (np.float32, np.int64):
        fitted = aligned(3, max_iter=5).fit(as_array(whole.astype(dtype)), Y)
        assert "float64" in str(fitted.components_.dtype)
        assert fitted.cost_ == pytest.approx(plain.cost_, rel=1e-9)
    rough = as_array((X * (1 + 1e-7 * np.random.default_rng(0).standard_normal(X.shape))).astype(np.float32))
    assert aligned(3, max_iter=5).fit(rough, Y).predict(rough).shape == (30,)


@names("what", ["nan", "zero", "asymmetric", "indefinite", "complex", "flat"])
def test_bad_matrices_are_named(as_array, what):
    bad = X.copy()
    if what == "flat":
        with pytest.raises(ValueError, match=r"got \(30, 36\); for flattened matrices pass X.reshape\(-1, 6, 6\)"):
            check_spd(as_array(X.reshape(30, 36)))
        return
    if what == "complex":
        with pytest.raises(ValueError, match="X is complex"):
            check_spd(as_array(X + 0j))
        return
    bad[17] = {"nan": np.nan, "zero": 0.0, "asymmetric": X[17] + np.eye(6, k=2), "indefinite": -X[17]}[what]
    message = {
        "nan": "contains NaN",
        "zero": "is all zero",
        "asymmetric": "is not symmetric",
        "indefinite": "is not positive",
    }
    for call in (check_spd, pairwise_sqdist, lambda A: aligned(3).fit(A, Y), SPDNearestNeighbor().fit(X, Y).predict):
        with pytest.raises(ValueError, match=rf"[XA]\[17\] {message[what]}"):
            call(as_array(bad))


def test_what_the_user_brought_is_not_written_to(as_array):
    stack, new = as_array(X.copy()), as_array(X_NEW.copy())
    for metric in ("lem", "aim", "euclid"):
        aligned(3, metric=metric, max_iter=3).fit(stack, Y).predict(new)
    np.testing.assert_array_equal(host(stack), X)
    np.testing.assert_array_equal(host(new), X_NEW)


# ------------------------------------------------------------------------------------------ torch alone


@pytest.fixture
def torch(as_array):
    if type(as_array(X)) is np.ndarray:
        pytest.skip("needs torch among SPDSL_TEST_ARRAYS")
    return pytest.importorskip("torch")


def test_autograd_history_is_left_behind(torch):
    stack = torch.tensor(X, requires_grad=True)
    plain = aligned(3, max_iter=5).fit(X, Y)
    fitted = aligned(3, max_iter=5).fit(stack, Y)
    assert fitted.cost_ == pytest.approx(plain.cost_, rel=1e-9)
    for out in (
        fitted.components_,
        fitted.transform(stack),
        fitted.sqdist(stack),
        pairwise_sqdist(stack, metric="stein"),
    ):
        assert not out.requires_grad
    W = fitted.components_.clone().requires_grad_(True)
    value, gradient = fitted.cost(stack, Y)(W)
    assert value == pytest.approx(plain.cost_, rel=1e-9)
    assert not gradient.requires_grad
    np.testing.assert_array_equal(SPDNearestNeighbor("aim").fit(stack, Y).predict(stack), Y)


def test_device_from_numpy_gives_numpy_back(torch):
    plain = aligned(3, max_iter=10).fit(X, Y)
    for device in ("cpu", torch.device("cpu")):
        fitted = aligned(3, max_iter=10, device=device).fit(X, Y)
        assert type(fitted.components_) is np.ndarray
        assert type(fitted.transform(X_NEW)) is np.ndarray
        assert fitted.cost_ == pytest.approx(plain.cost_, rel=1e-9)
        np.testing.assert_array_equal(fitted.predict(X_NEW), plain.predict(X_NEW))


@names("kind", ["read-only", "reversed", "big endian", "fortran"])
def test_arrays_that_torch_cannot_share_are_copied(torch, kind):
    stack = {
        "read-only": np.broadcast_to(X, X.shape),
        "reversed": X[::-1].copy()[::-1],
        "big endian": X.astype(">f8"),
        "fortran": np.asfortranarray(X),
    }[kind]
    plain = aligned(3, max_iter=5, solver={"init": X[0][:, :3]}).fit(X, Y)
    fitted = aligned(3, max_iter=5, device="cpu", solver={"init": stack[0][:, :3]}).fit(stack, Y)
    assert fitted.cost_ == pytest.approx(plain.cost_, rel=1e-9)
    by_aim = SPDNearestNeighbor("aim").fit(stack, Y)
    np.testing.assert_array_equal(by_aim.predict(torch.tensor(X_NEW)), by_aim.predict(X_NEW))


def test_device_that_is_not_there(torch):
    with pytest.raises(ValueError, match=r"device='abacus' is not a PyTorch device; use device=None"):
        aligned(3, device="abacus").fit(X, Y)
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    for stack in (X, torch.tensor(X)):
        with pytest.raises(ValueError, match="device='cuda': PyTorch finds no CUDA device; use device=None or 'cpu'"):
            aligned(3, device="cuda").fit(stack, Y)


def test_slices_and_transposed_views(torch):
    stack = torch.tensor(X)
    plain = aligned(3, max_iter=5).fit(X, Y)
    for view in (
        stack.mT,
        torch.tensor(np.repeat(X, 2, axis=0))[::2],
        stack.permute(1, 2, 0).contiguous().permute(2, 0, 1),
    ):
        assert aligned(3, max_iter=5).fit(view, Y).cost_ == pytest.approx(plain.cost_, rel=1e-9)


# ------------------------------------------------------------------------------------------ no torch at all


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_spdsl_does_not_import_torch():
    code = """
import sys
import numpy as np
from spdsl import SPDSL
X = np.eye(3) * np.arange(1.0, 7)[:, None, None] + np.diag([0, 1, 2.0]) * np.array([1.0, 5, 2, 3, 1, 4])[:, None, None]
SPDSL(2, max_iter=0).fit(X, [0, 1, 0, 1, 0, 1]).predict(X)
print("torch" in sys.modules)
"""
    done = run(code)
    assert done.stdout.strip() == "False", done.stderr


def test_device_without_torch_says_how_to_get_it():
    code = """
import sys
class NoTorch:  # as if it were not installed
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoTorch())
import numpy as np
from spdsl import SPDSL
X = np.eye(3) * np.arange(1.0, 7)[:, None, None]
try:
    SPDSL(2, device="cpu").fit(X, [0, 1, 0, 1, 0, 1])
except ImportError as error:
    print(error)
"""
    done = run(code)
    assert done.stdout.strip() == f"device='cpu' needs PyTorch: {install_hint('torch')}", done.stderr
