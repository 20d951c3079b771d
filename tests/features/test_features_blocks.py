"""Samples of several matrices: pyramids of clips, bands of signals, quarters of images; and lagged signals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from acclaim import write_pair
from clips import write_frames

from spdsl import LogVectors
from spdsl.datasets import load_image_folder, load_mocap_folder, load_spd
from spdsl.datasets.exporting import export_stack
from spdsl.features import (
    FeatureError,
    Recipe,
    add_lags,
    filter_bank,
    joint_covariance,
    material_covariance,
    quadrants,
    set_covariance,
    signal_covariance,
    signal_file_covariance,
    temporal_pyramid,
)


@pytest.fixture
def signal() -> np.ndarray:
    return np.random.default_rng(0).normal(2, 3, (4, 300))


def test_a_pyramid_is_the_clip_its_overlapping_halves_and_so_on():
    frames = np.arange(16)
    assert [part.tolist() for part in temporal_pyramid(frames)] == [
        [*range(16)],
        [*range(8)],
        [*range(4, 12)],
        [*range(8, 16)],
    ]
    assert [len(part) for part in temporal_pyramid(frames, 3)] == [16, 8, 8, 8, *[4] * 7]
    assert temporal_pyramid(frames, 3)[-1].tolist() == [12, 13, 14, 15]
    assert temporal_pyramid(frames, 1)[0] is not None
    assert min(len(part) for part in temporal_pyramid(np.arange(5))) >= 2
    with pytest.raises(FeatureError, match="the clip has 3 frames: 2 levels need at least 4"):
        temporal_pyramid(np.arange(3))
    with pytest.raises(ValueError, match="levels=0 is out of range"):
        temporal_pyramid(frames, 0)


def test_bands_keep_what_is_theirs_and_shift_nothing():
    t = np.arange(2000) / 250
    slow, fast = np.sin(2 * np.pi * 10 * t), np.sin(2 * np.pi * 40 * t)
    low, high = filter_bank(np.stack([slow + fast, slow]), [(8, 12), (35, 45)], 250)
    middle = slice(500, 1500)  # off the ends
    np.testing.assert_allclose(low[0, middle], slow[middle], atol=0.02)
    np.testing.assert_allclose(high[0, middle], fast[middle], atol=0.02)
    assert np.abs(high[1, middle]).max() < 0.02


@pytest.mark.parametrize(
    ("bands", "rate", "message"),
    [
        ([(8, 130)], 250, r"\(8, 130\) does not lie between 0 and half of rate=250"),
        ([(12, 8)], 250, "low edge first"),
        ([(0, 8)], 250, "between 0"),
        ([8], 250, "each band is a pair"),
        ([], 250, "bands is empty"),
        (None, 250, "bands must be a sequence of pairs"),
        ([(8, 12)], 0, "rate must be"),
        ([(8, 12)], 250, "needs at least 28"),
    ],
)
def test_bands_that_cannot_be_are_refused(bands, rate, message):
    with pytest.raises(ValueError, match=message):
        filter_bank(np.random.default_rng(0).normal(size=(2, 20)), bands, rate)


def test_the_shortest_signal_is_filtered_and_holes_are_named(signal):
    assert filter_bank(signal[:, :28], [(8, 12)], 250)[0].shape == (4, 28)
    signal[2, 7] = np.nan
    with pytest.raises(FeatureError, match="channel 2 holds NaN"):
        filter_bank(signal, [(8, 12)], 250)


def test_quadrants():
    image = np.arange(30).reshape(5, 6)
    whole, *quarters = quadrants(image)
    assert whole.shape == (5, 6)
    assert [quarter[0, 0] for quarter in quarters] == [0, 3, 12, 15]
    assert sum(quarter.size for quarter in quarters) == 30
    with pytest.raises(FeatureError, match="at least 2 x 2"):
        quadrants(image[:1])


# ------------------------------------------------------------------------------------------------------------------ lags


def test_lagged_copies_are_earlier_samples(signal):
    lagged = add_lags(signal, (1, 5))
    assert lagged.shape == (12, 295)
    np.testing.assert_array_equal(lagged[:4], signal[:, 5:])
    np.testing.assert_array_equal(lagged[4:8], signal[:, 4:-1])
    np.testing.assert_array_equal(lagged[8:], signal[:, :-5])
    np.testing.assert_array_equal(add_lags(signal, 3), add_lags(signal, [1, 2, 3]))
    assert add_lags(signal, 0) is signal


def test_lags_show_how_a_signal_moves():
    """Two processes with the same covariance and opposite dynamics are told apart by a lag, and by nothing else."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((2, 5000))
    smooth, rough = np.zeros((2, 5000)), np.zeros((2, 5000))
    for t in range(1, 5000):
        smooth[:, t] = 0.8 * smooth[:, t - 1] + noise[:, t]
        rough[:, t] = -0.8 * rough[:, t - 1] + noise[:, t]
    plain = [signal_covariance(s) for s in (smooth, rough)]
    assert np.abs(plain[0] - plain[1]).max() < 0.1 * plain[0].max()
    lagged = [signal_covariance(s, lags=1) for s in (smooth, rough)]
    variance = 1 / (1 - 0.8**2)
    np.testing.assert_allclose([lagged[0][0, 2], lagged[1][0, 2]], [0.8 * variance, -0.8 * variance], atol=0.15)


def test_the_mean_is_joined_after_the_ridge(signal):
    S = signal_covariance(signal, estimator="cov", ridge=0.01, lags=2, embedding="augmented")
    expected = set_covariance(add_lags(signal, 2).T, ridge=0.01, embedding="augmented")
    np.testing.assert_allclose(S, expected, rtol=1e-12)
    assert signal_covariance(signal[None, None], embedding="gaussian").shape == (1, 1, 5, 5)
    assert np.linalg.slogdet(signal_covariance(signal, embedding="gaussian"))[1] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lags": 299}, "lags of up to 299 samples leave 1 of 300 samples"),
        ({"lags": 400}, "leave 0 of 300"),
        ({"lags": -1}, "lags=-1 is out of range"),
        ({"lags": (0, 1)}, "lags=0 is out of range: it must be at least 1"),
        ({"lags": 1.5}, "lags must be a number or a sequence"),
        ({"lags": [2, 1, 2]}, "holds a lag twice"),
        ({"lags": True}, "lags must be"),
        ({"embedding": "mean"}, "choose from covariance"),
    ],
)
def test_bad_lags_are_refused(signal, options, message):
    with pytest.raises(ValueError, match=message):
        signal_covariance(signal, **options)


# -------------------------------------------------------------------------------------------------------- files, folders


def test_a_signal_file_gives_a_matrix_a_window_and_band(tmp_path, signal):
    np.save(tmp_path / "s.npy", signal)
    bands = [(8, 12), (12, 30)]
    S = signal_file_covariance(tmp_path / "s.npy", window=100, bands=bands, rate=250, lags=1)
    assert S.shape == (3, 2, 8, 8)
    filtered = filter_bank(signal, bands, 250)  # before it is cut
    np.testing.assert_allclose(S[2, 1], signal_covariance(filtered[1][:, 200:], lags=1))
    with pytest.raises(ValueError, match="bands need the sampling rate"):
        signal_file_covariance(tmp_path / "s.npy", bands=bands)
    with pytest.raises(FeatureError, match=r"s\.npy: lags of up to 200"):
        signal_file_covariance(tmp_path / "s.npy", window=100, lags=200)


def test_clips_of_several_matrices_are_cached_exported_and_read(tmp_path):
    root = tmp_path / "data"
    rng = np.random.default_rng(0)
    for k in range(4):
        (root / f"class{k % 2}").mkdir(parents=True, exist_ok=True)
        np.save(root / f"class{k % 2}" / f"{k}.npy", rng.normal(size=(40, 5, 3)).cumsum(axis=0))
    first = load_mocap_folder(root, levels=2)
    fresh: list[bool] = []
    again = load_mocap_folder(root, levels=2, progress=lambda outcome, *_: fresh.append(outcome.fresh))
    assert first.X.shape == again.X.shape == (4, 4, 15, 15)
    assert not any(fresh)
    np.testing.assert_array_equal(first.X, again.X)
    tracks = np.load(root / "class0" / "0.npy")
    np.testing.assert_array_equal(first.X[0, 2], joint_covariance(tracks[10:30]))
    for _ in range(2):  # the second takes the first's rows
        export_stack(root, tmp_path / "out.npz", Recipe("motion", {"levels": 2}))
    X, y = load_spd(tmp_path / "out.npz")
    np.testing.assert_array_equal(X, first.X)
    assert y is not None
    assert LogVectors().fit_transform(X).shape == (4, 4 * 15 * 16 // 2)


def test_a_clip_too_short_for_its_levels_is_left_out_by_name(tmp_path):
    path = write_pair(tmp_path / "m" / "walk")
    with pytest.raises(FeatureError, match=f"{Path(path).name}: the clip has .* frames: 9 levels need"):
        load_mocap_folder(tmp_path / "m", levels=9, errors="raise")


def test_quarters_of_an_image(tmp_path):
    write_frames(tmp_path / "class0", [True])
    X = load_image_folder(tmp_path, size=64, quarters=True).X
    assert X.shape == (1, 5, 128, 128)
    (file,) = (tmp_path / "class0").iterdir()
    np.testing.assert_array_equal(X[0, 0], material_covariance(file, size=64))
