"""What the columns of W mean: a basis that does not depend on what the metric cannot see, and its patterns."""

from itertools import combinations

import numpy as np
import pytest
from scipy.linalg import eigh, subspace_angles

import spdsl
from samples import labeled, random_spd, symmetric
from spdsl import SPDML, SPDSL
from spdsl.estimators.patterns import Seen, canonical_basis, class_means
from spdsl.geometry.joint_diagonal import joint_rotation

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
X, Y = labeled(40, 6, 3)


def seen(X, W, labels):
    """What a fit would keep for this W."""
    return Seen(X.mean(axis=0) @ W, *class_means(W.mT @ X @ W, labels))


def columns_apart(A, B):
    """Largest angle between columns of the same place, in degrees; signs count."""
    cosine = np.sum(A * B, axis=0) / np.linalg.norm(A, axis=0) / np.linalg.norm(B, axis=0)
    return np.degrees(np.arccos(np.clip(cosine, -1, 1))).max()


def simulate(rng, trials=60, channels=22, sources=4):
    """Covariances of channels that see sources through a known mixing; some sources differ between two classes."""
    mixing = rng.standard_normal((channels, channels)) / np.sqrt(channels)
    y = np.arange(trials) % 2
    power = np.exp(rng.standard_normal((trials, channels)) * np.where(np.arange(channels) < sources, 0.3, 0.5))
    power[:, :sources] *= np.where(np.arange(sources) % 2 == y[:, None], 2.0, 0.5)
    Z = mixing @ (rng.standard_normal((trials, channels, 150)) * np.sqrt(power)[:, :, None])
    return Z @ Z.mT / 150, y, mixing[:, :sources]


def test_matrices_that_commute_become_diagonal(rng):
    R = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    for count in (1, 2, 4):
        D = (R * rng.standard_normal((count, 1, 5))) @ R.T
        found = joint_rotation(D)
        T = found.T @ D @ found
        np.testing.assert_allclose(T, T * np.eye(5), atol=1e-12)
        np.testing.assert_allclose(found.T @ found, np.eye(5), atol=1e-12)


def test_what_is_off_the_diagonal_cannot_be_made_less(rng):
    D = symmetric(rng.standard_normal((4, 5, 5)))

    def off(R):
        T = R.T @ D @ R
        return np.sum((T - T * np.eye(5)) ** 2)

    R = joint_rotation(D)
    assert off(R) < 0.9 * off(np.eye(5))
    for _ in range(20):
        S = 1e-3 * rng.standard_normal((5, 5))
        assert off(R @ np.linalg.qr(np.eye(5) + S - S.T)[0]) > off(R)


@pytest.mark.parametrize("invariance", ["linear", "orthogonal"])
def test_the_basis_does_not_see_what_the_metric_does_not(invariance, rng):
    W, A = rng.standard_normal((6, 3)), rng.standard_normal((3, 3))
    if invariance == "orthogonal":
        A = 7.0 * np.linalg.qr(A)[0]  # and scale
    one = canonical_basis(W, seen(X, W, Y), invariance)
    other = canonical_basis(W @ A, seen(X, W @ A, Y), invariance)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


def test_of_two_classes_filters_are_generalized_eigenvectors_as_in_csp():
    labels = Y % 2
    model = SPDSL(3, metric="aim", max_iter=5).fit(X, labels)
    first, second = (model.transform(X[labels == c]).mean(axis=0) for c in (0, 1))
    w, V = eigh(first, first + second)
    order = np.argsort(-abs(np.log(w / (1 - w))))
    csp = model.components_ @ V[:, order]
    cosine = np.sum(csp * model.filters_, axis=0) / np.linalg.norm(csp, axis=0) / np.linalg.norm(model.filters_, axis=0)
    np.testing.assert_allclose(abs(cosine), 1, atol=1e-9)


@pytest.mark.parametrize("metric", ["lem", "aim", "log-cholesky"])
@pytest.mark.parametrize(
    "estimator", [SPDSL(3, max_iter=5), SPDML(3, max_iter=5, manifold="psd")], ids=["spdsl", "spdml"]
)
def test_filters_span_W_and_patterns_are_those_of_haufe(estimator, metric):
    model = estimator.set_params(metric=metric).fit(X, Y)
    F, A = model.filters_, model.patterns_
    C = X.mean(axis=0)
    np.testing.assert_allclose(A, C @ F @ np.linalg.inv(F.T @ C @ F), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(F.T @ A, np.eye(3), atol=1e-8)
    assert np.degrees(subspace_angles(F, model.components_).max()) < 1e-5
    assert (np.diff(model.discriminability_) <= 0).all()
    assert (A[abs(A).argmax(axis=0), range(3)] > 0).all()
    if metric == "log-cholesky":  # it sees every change of W but its signs and size
        size = np.linalg.norm(F) / np.linalg.norm(model.components_)
        columns = [np.abs(abs(F[:, [k]]) - size * abs(model.components_)).max(axis=0).min() for k in range(3)]
        assert max(columns) < 1e-9
    else:
        R = np.linalg.lstsq(model.components_, F)[0]
        np.testing.assert_allclose(model.components_ @ R, F, atol=1e-9)


def test_each_block_has_its_own_basis():
    model = SPDSL(2, max_iter=5).fit(X.reshape(20, 2, 6, 6), Y[:20])
    assert model.filters_.shape == model.patterns_.shape == (2, 6, 2)
    assert model.discriminability_.shape == (2, 2)
    for k in range(2):
        C, F = X.reshape(20, 2, 6, 6)[:, k].mean(axis=0), model.filters_[k]
        np.testing.assert_allclose(model.patterns_[k], C @ F @ np.linalg.inv(F.T @ C @ F), atol=1e-9)


@pytest.mark.parametrize("metric", ["lem", "aim", "stein"])
def test_random_starts_that_reach_one_optimum_have_the_same_patterns(metric):
    options = {"metric": metric, "beta": 0.3, "max_iter": 100, "tol": 1e-10, "classifier": "lda"}
    models = [SPDSL(3, **options, solver={"init": "random"}, random_state=seed).fit(X, Y) for seed in range(3)]
    for a, b in combinations(models, 2):
        assert a.cost_ == pytest.approx(b.cost_, rel=1e-6)
        assert columns_apart(a.patterns_, b.patterns_) < 1
        assert columns_apart(a.components_, b.components_) > 5  # of W itself this is not true


def test_patterns_find_the_sources_of_a_simulation_as_csp_does():
    spatialfilters = pytest.importorskip("pyriemann.spatialfilters")
    X, y, truth = simulate(np.random.default_rng(1), trials=80)
    csp = np.degrees(subspace_angles(spatialfilters.CSP(nfilter=4).fit(X, y).patterns_.T, truth).max())
    for metric in ("lem", "aim"):
        model = SPDSL(4, metric=metric, beta_scale=0.1, classifier="lda", max_iter=15).fit(X, y)
        assert np.degrees(subspace_angles(model.patterns_, truth).max()) < csp + 5


def test_on_every_array_library_and_after_loading(as_array, tmp_path):
    expected = SPDSL(3, max_iter=5).fit(X, Y)
    model = SPDSL(3, max_iter=5).fit(as_array(X), Y)
    np.testing.assert_allclose(model.patterns_, expected.patterns_, rtol=1e-6, atol=1e-9)
    model.save(tmp_path / "model.safetensors")
    again = spdsl.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.patterns_, model.patterns_)
    del again._seen  # as in a file of an older version
    with pytest.raises(AttributeError, match="fit again"):
        _ = again.patterns_


def test_an_interrupted_fit_and_data_on_disk_have_patterns_too(tmp_path):
    def stop(row, W):
        if row["iteration"] == 2:
            raise KeyboardInterrupt

    model = SPDSL(3, callback=stop, classifier="lda")
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    C, F = X.mean(axis=0), model.filters_
    np.testing.assert_allclose(model.patterns_, C @ F @ np.linalg.inv(F.T @ C @ F), atol=1e-9)
    np.save(tmp_path / "x.npy", X)
    on_disk = SPDSL(3, max_iter=5, classifier="lda").fit(tmp_path / "x.npy", Y)
    in_memory = SPDSL(3, max_iter=5, classifier="lda").fit(X, Y)
    np.testing.assert_allclose(on_disk.patterns_, in_memory.patterns_, rtol=1e-6, atol=1e-9)


def test_the_larger_contrast_comes_first():
    P = np.eye(4) + 0.05 * random_spd(40, 4)
    P[::2, 0, 0] *= 1.5
    P[1::2, 1, 1] *= 4
    W = np.eye(4)
    basis = canonical_basis(W, seen(P, W, np.arange(40) % 2), "linear")
    assert abs(basis.filters).argmax(axis=0)[:2].tolist() == [1, 0]
