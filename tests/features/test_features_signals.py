from __future__ import annotations

import numpy as np
import pytest
from pyriemann.estimation import Covariances

from spdsl.features import FeatureError, cut_windows, signal_covariance, signal_file_covariance
from spdsl.features.tables import read_table


@pytest.fixture
def windows() -> np.ndarray:
    return np.random.default_rng(0).normal(2, 3, (7, 5, 200))


@pytest.mark.parametrize("estimator", ["scm", "cov", "lwf", "oas"])
def test_agrees_with_pyriemann(windows, estimator):
    expected = Covariances(estimator).fit_transform(windows)
    np.testing.assert_allclose(signal_covariance(windows, estimator=estimator), expected, rtol=1e-13, atol=1e-14)


def test_any_stack_of_windows(windows):
    stacked = signal_covariance(windows.reshape(1, 7, 5, 200))
    np.testing.assert_array_equal(stacked[0, 3], signal_covariance(windows[3]))


def test_windows_are_cut_in_order():
    signal = np.arange(20.0).reshape(2, 10)
    np.testing.assert_array_equal(cut_windows(signal, 4, 3)[1], signal[:, 3:7])
    assert cut_windows(signal, 4).shape == (2, 2, 4)
    with pytest.raises(FeatureError, match="time >= 11"):
        cut_windows(signal, 11)


def test_files(tmp_path, windows):
    np.save(tmp_path / "s.npy", windows[0])
    np.savetxt(tmp_path / "s.csv", windows[0], delimiter=",")
    np.testing.assert_allclose(
        signal_file_covariance(tmp_path / "s.npy"), signal_file_covariance(tmp_path / "s.csv"), rtol=1e-12
    )
    assert signal_file_covariance(tmp_path / "s.npy", window=50, step=25).shape == (7, 5, 5)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((3, 10)), "constant"),
        (np.ones((3, 1)), "at least 2 samples"),
        (np.array([[1.0, np.nan, 2], [1, 2, 3]]), "channel 0 holds NaN"),
        (np.ones(4), "channels, time"),
    ],
)
def test_bad_signals_are_refused(tmp_path, X, message):
    with pytest.raises(FeatureError, match=message):
        signal_covariance(X)
    np.save(tmp_path / "bad.npy", X)
    with pytest.raises(FeatureError, match=r"bad\.npy: "):
        signal_file_covariance(tmp_path / "bad.npy")


@pytest.mark.parametrize("header", ["a,b,c", ",b,c", "t_0,t_1,t_2"])
def test_a_header_holds_no_number(tmp_path, header):
    (tmp_path / "s.csv").write_text(f"{header}\n1,2,3\n4,5,7\n")
    np.testing.assert_array_equal(read_table(tmp_path / "s.csv"), [[1, 2, 3], [4, 5, 7]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2,x\n4,5,6\n7,8,9\n", "row 1, column 3: 'x' is not a number"),
        ("Fz,2,3\nCz,5,6\n", "row 1, column 1: 'Fz' is not a number"),
        ("1,2\n3,4_0\n", "row 2, column 2: '4_0' is not a number"),
        ("1_0,2_0\n3,4\n", "row 1, column 1: '1_0' is not a number"),
        ("a,b\n", "a header but no numbers"),
    ],
)
def test_text_among_numbers_is_named_and_no_row_dropped(tmp_path, text, message):
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(FeatureError, match=message):
        read_table(tmp_path / "s.csv")


def test_empty_cells_of_the_first_row_are_gaps(tmp_path):
    (tmp_path / "s.csv").write_text(",2\n3,4\n")
    np.testing.assert_array_equal(read_table(tmp_path / "s.csv"), [[np.nan, 2], [3, 4]])
