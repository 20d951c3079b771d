from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf, oas

from spdsl.features import (
    FeatureError,
    StreamingCovariance,
    embed_gaussian,
    joint_covariance,
    set_covariance,
    signal_covariance,
)


@pytest.fixture
def samples() -> np.ndarray:
    return np.random.default_rng(0).normal(3, 2, (40, 6))


def test_ridge_is_a_fraction_of_the_trace(samples):
    S = np.cov(samples, rowvar=False)
    np.testing.assert_allclose(set_covariance(samples), S + 1e-3 * np.trace(S) * np.eye(6), rtol=1e-12)


def test_augmented_matrix_is_the_papers(samples):
    S, m = set_covariance(samples), samples.mean(axis=0)
    P = set_covariance(samples, embedding="augmented")
    np.testing.assert_allclose(P[:6, :6], S + np.outer(m, m), rtol=1e-12)
    np.testing.assert_allclose(P[6], np.append(m, 1), rtol=1e-12)
    np.testing.assert_allclose(np.linalg.det(P), np.linalg.det(S), rtol=1e-9)


def test_gaussian_embedding_has_determinant_one(samples):
    P = set_covariance(samples, embedding="gaussian")
    np.testing.assert_allclose(np.linalg.det(P), 1, rtol=1e-9)
    ratio = P / set_covariance(samples, embedding="augmented")
    np.testing.assert_allclose(ratio, ratio[0, 0], rtol=1e-9)


def test_gaussian_embedding_by_hand():
    P = embed_gaussian(np.array([3.0]), np.array([[4.0]]), "gaussian")
    np.testing.assert_allclose(P, np.array([[13.0, 3.0], [3.0, 1.0]]) / 2)


@pytest.mark.parametrize(("name", "estimator"), [("ledoit_wolf", ledoit_wolf), ("oas", oas)])
def test_shrinkage_is_scikit_learns(samples, name, estimator):
    np.testing.assert_allclose(set_covariance(samples, shrinkage=name, ridge=0), estimator(samples)[0], rtol=1e-12)


def test_images_are_flattened_and_integers_do_not_overflow():
    images = np.random.default_rng(1).integers(0, 256, (30, 4, 4)).astype(np.uint8)
    expected = np.cov(images.reshape(30, 16).astype(float), rowvar=False)
    np.testing.assert_allclose(set_covariance(images, ridge=0), expected, rtol=1e-10)


def test_streaming_equals_in_memory_with_flat_memory():
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((60, 60))
    frames = 1e4 + rng.standard_normal((50_000, 60)) @ mix
    tracemalloc.start()
    moments, peaks = StreamingCovariance(), []
    for i in range(0, len(frames), 500):
        moments.update(frames[i : i + 500])
        peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    expected = np.cov(frames, rowvar=False)
    assert np.abs(moments.covariance() - expected).max() < 1e-10 * np.abs(expected).max()
    assert peaks[-1] < 1.05 * peaks[4]


@given(st.lists(st.integers(0, 7), min_size=1, max_size=8), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_chunk_sizes_do_not_matter(sizes, seed):
    samples = np.random.default_rng(seed).normal(100, 1, (sum(sizes) + 2, 3))
    chunks = np.split(samples, np.cumsum(sizes))
    np.testing.assert_allclose(set_covariance(iter(chunks)), set_covariance(samples), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.ones((1, 3)), "at least 2 samples"),
        (np.ones((9, 3)), "all samples are identical"),
        (np.array([[1.0, 2], [np.nan, 1], [0, 0]]), "sample 1 holds NaN"),
        (np.array([["a", "b"], ["c", "d"]]), "real numbers"),
        (np.ones(5), "one sample a row"),
        (np.array([[1e200], [-1e200]]), "overflows"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_has_no_covariance_is_refused(samples, message):
    with pytest.raises(FeatureError, match=message):
        set_covariance(samples)


def test_options_are_checked(samples):
    with pytest.raises(ValueError, match="augmented"):
        set_covariance(samples, embedding="mean")
    with pytest.raises(ValueError, match="fraction of the trace"):
        set_covariance(samples, ridge=-1)
    with pytest.raises(ValueError, match="ledoit_wolf, oas"):
        set_covariance(samples, shrinkage="lw")
    with pytest.raises(FeatureError, match="all samples at once"):
        set_covariance(iter([samples]), shrinkage="oas")


@pytest.mark.data
def test_image_sets_separate_objects(data):
    saved = np.load(data / "eth80_20x20.npz")
    sets = [saved["faces20"][saved["set_id"] == k] for k in range(80)]
    X = np.stack([set_covariance(s, embedding="augmented") for s in sets])
    assert X.shape == (80, 401, 401)
    w, V = np.linalg.eigh(X)
    assert w.min() > 0
    logs = ((V * np.log(w)[:, None, :]) @ V.transpose(0, 2, 1)).reshape(80, -1)
    d2 = ((logs**2).sum(1)[:, None] + (logs**2).sum(1)) - 2 * logs @ logs.T
    np.fill_diagonal(d2, np.inf)
    assert (saved["set_label"][d2.argmin(axis=1)] == saved["set_label"]).mean() > 0.85  # leave one out


@pytest.mark.parametrize("value", [0.1, 1e-9, 123456.789, -1e8 / 3, 0.0])
@pytest.mark.parametrize("count", [7, 4099])
def test_equal_samples_are_refused_whatever_their_size(value, count):
    samples = np.full((count, 6), value)
    for form in (samples, iter(np.array_split(samples, 3))):
        with pytest.raises(FeatureError, match="all samples are identical"):
            set_covariance(form, embedding="augmented")
    with pytest.raises(FeatureError, match="all samples are identical"):
        StreamingCovariance().update(samples).covariance()
    with pytest.raises(FeatureError, match="all samples are identical"):
        joint_covariance(samples.reshape(count, 2, 3))
    for estimator in ("scm", "cov", "lwf", "oas"):
        with pytest.raises(FeatureError, match="window 1 is constant"):
            signal_covariance(np.stack([np.arange(6.0 * count).reshape(6, count), samples.T]), estimator=estimator)


def test_little_spread_is_kept():
    rows = np.random.default_rng(0).normal(size=(50, 3))
    np.testing.assert_allclose(set_covariance(1e-100 * rows), 1e-200 * set_covariance(rows), rtol=1e-9)
    np.testing.assert_allclose(set_covariance(1e6 + rows), set_covariance(rows), rtol=1e-6)
    beside = np.column_stack([rows[:, 0], np.full(50, 2.0**60)])  # a large constant beside it does not hide it
    assert set_covariance(beside, ridge=0)[0, 0] > 0.5


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_arrays_is_one_of_chunks(samples, kind):
    expected = set_covariance(samples)
    for cuts in ([3, 7], 2):  # of unequal and of equal length
        chunks = kind(np.split(samples[: len(samples) // 2 * 2], cuts))
        whole = set_covariance(np.concatenate(chunks))
        np.testing.assert_allclose(set_covariance(chunks), whole, rtol=1e-10, atol=1e-12)
        for shrinkage in ("oas", "ledoit_wolf"):
            whole = set_covariance(np.concatenate(chunks), shrinkage=shrinkage)
            np.testing.assert_allclose(set_covariance(chunks, shrinkage=shrinkage), whole, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(set_covariance(kind(samples)), expected)
    np.testing.assert_array_equal(set_covariance(samples.tolist()), expected)
