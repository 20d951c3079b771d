"""Multichannel signals (EEG, EMG, radar): covariance of windows."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np

from spdsl.features.covariance import as_array, is_constant
from spdsl.features.errors import FeatureError
from spdsl.features.tables import read_table
from spdsl.validation import check_count, check_number

Estimator = Literal["scm", "cov", "lwf", "oas"]
SIGNAL_SUFFIXES = (".npy", ".csv", ".tsv", ".txt")


def signal_covariance(X: np.ndarray, *, estimator: Estimator = "scm", ridge: float = 0.0) -> np.ndarray:
    """Covariance across channels of each window.

    Parameters
    ----------
    X : ndarray (..., channels, time)
        One window, or any stack of them.
    estimator : {"scm", "cov", "lwf", "oas"}
        Sample covariance divided by the number of samples, by one less, or the shrinkage estimators of Ledoit and Wolf
        and of Chen et al.; the names and the values are pyRiemann's.
    ridge : float
        Fraction of the trace added to the diagonal, for windows shorter than the number of channels.

    Returns
    -------
    ndarray (..., channels, channels)
    """
    check_number("ridge", ridge, low=0.0)
    X = as_array(X)
    if X.ndim < 2 or X.dtype.kind not in "iuf":
        raise FeatureError(
            f"the signal has shape {X.shape}, dtype {X.dtype}: expected real numbers (..., channels, time)"
        )
    X = X.astype(np.float64, copy=False)
    if X.shape[-1] < 2 or X.size == 0:
        raise FeatureError(f"the signal has shape {X.shape}: a covariance needs at least 2 samples in time")
    bad = np.argwhere(~np.isfinite(X).all(axis=-1))
    if len(bad):
        *window, channel = bad[0].tolist()
        raise FeatureError(f"window {window or 0}, channel {channel} holds NaN or infinity: fill it in or leave it out")
    windows = X.reshape(-1, *X.shape[-2:])
    constant = is_constant(windows.min(axis=-1), windows.max(axis=-1))
    if constant.any():
        raise FeatureError(f"window {int(np.argmax(constant))} is constant: its covariance is zero")
    with np.errstate(all="ignore"):  # said below, in our words
        S = np.stack([_estimate(window, estimator) for window in windows])
        trace = np.trace(S, axis1=1, axis2=2)
        S = S + (ridge * trace)[:, None, None] * np.eye(S.shape[-1])
    odd = ~(np.isfinite(S).all(axis=(1, 2)) & (trace > np.finfo(float).tiny))
    if odd.any():
        raise FeatureError(f"the covariance of window {int(np.argmax(odd))} overflows or vanishes: rescale the signal")
    return S.reshape(*X.shape[:-1], X.shape[-2])


def _estimate(window: np.ndarray, estimator: str) -> np.ndarray:
    from sklearn.covariance import empirical_covariance, ledoit_wolf, oas

    estimators = {
        "scm": lambda Z: empirical_covariance(Z),
        "cov": lambda Z: np.cov(Z, rowvar=False).reshape(Z.shape[1], -1),
        "lwf": lambda Z: ledoit_wolf(Z)[0],
        "oas": lambda Z: oas(Z)[0],
    }
    if estimator not in estimators:
        raise ValueError(f"estimator={estimator!r}: choose from {', '.join(estimators)}")
    return estimators[estimator](window.T)


def cut_windows(signal: np.ndarray, length: int, step: int | None = None) -> np.ndarray:
    """Cut a signal (channels, time) into windows (n, channels, length), `step` samples apart (`length` by default)."""
    signal = as_array(signal)
    check_count("length", length, low=2)
    step = length if step is None else step
    check_count("step", step, low=1)
    if signal.ndim != 2 or signal.shape[1] < length:
        raise FeatureError(f"the signal has shape {signal.shape}: expected (channels, time) with time >= {length}")
    views = np.lib.stride_tricks.sliding_window_view(signal, length, axis=1)[:, ::step]
    return views.transpose(1, 0, 2)


def signal_file_covariance(
    path: str | Path,
    *,
    window: int | None = None,
    step: int | None = None,
    estimator: Estimator = "scm",
    ridge: float = 0.0,
) -> np.ndarray:
    """`signal_covariance` of a file: one matrix, or one for each window of `window` samples.

    Parameters
    ----------
    path : str or Path
        `.npy` of shape (channels, time), or `.csv`, `.tsv`, `.txt` with a row a channel.
    window, step : int, optional
        Cut the signal into windows first, as `cut_windows` does.
    estimator, ridge
        As in `signal_covariance`.

    Returns
    -------
    ndarray (windows, channels, channels)
    """
    path = Path(path)
    signal = read_table(path)
    try:
        if signal.ndim != 2:
            raise FeatureError(f"shape {signal.shape} is no signal; expected (channels, time)")
        windows = signal[None] if window is None else cut_windows(signal, window, step)
        return signal_covariance(windows, estimator=estimator, ridge=ridge)
    except FeatureError as error:
        raise FeatureError(f"{path}: {error}") from None
