"""Multichannel signals (EEG, EMG, radar): covariance of windows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from spdsl.data.parameters import check_count, check_number
from spdsl.features.blocks import filter_bank
from spdsl.features.covariance import EMBEDDINGS, Embedding, as_array, embed_gaussian, is_constant
from spdsl.features.errors import FeatureError
from spdsl.features.tables import read_table

Estimator = Literal["scm", "cov", "lwf", "oas"]
SIGNAL_SUFFIXES = (".npy", ".csv", ".tsv", ".txt")


def signal_covariance(
    X: np.ndarray,
    *,
    estimator: Estimator = "scm",
    ridge: float = 0.0,
    lags: int | Sequence[int] = 0,
    embedding: Embedding = "covariance",
) -> np.ndarray:
    """Covariance across channels of each window.

    Lags, which describe how a signal changes, and the mean make the matrices larger; they pay off with a learned W.

    Parameters
    ----------
    X : ndarray (..., channels, time)
        One window, or any stack of them.
    estimator : {"scm", "cov", "lwf", "oas"}
        Sample covariance divided by the number of samples, by one less, or the shrinkage estimators of Ledoit and Wolf
        and of Chen et al.; the names and the values are pyRiemann's.
    ridge : float
        Fraction of the trace added to the diagonal, for windows shorter than the number of channels.
    lags : int or sequence of int
        Add copies of all channels, delayed by these numbers of samples, as channels; a number L stands for 1 to L.
    embedding : {"covariance", "augmented", "gaussian"}
        Join the mean of the channels, as in `set_covariance`: one more row and column. Bring the signals to values around
        one first.

    Returns
    -------
    ndarray (..., n, n), n channels; with lags and mean `channels * (1 + lags) + 1`

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import signal_covariance
    >>> rng = np.random.default_rng(0)
    >>> signal_covariance(rng.standard_normal((3, 4, 200)), lags=1).shape
    (3, 8, 8)
    """
    check_number("ridge", ridge, low=0.0)
    if embedding not in EMBEDDINGS:
        raise ValueError(f"embedding={embedding!r}: choose from {', '.join(EMBEDDINGS)}")
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
    lagged = add_lags(X, lags)
    windows = lagged.reshape(-1, *lagged.shape[-2:])
    constant = is_constant(windows.min(axis=-1), windows.max(axis=-1))
    if constant.any():
        raise FeatureError(f"window {int(np.argmax(constant))} is constant: its covariance is zero")
    with np.errstate(all="ignore"):  # reported below
        S = np.stack([_estimate(window, estimator) for window in windows])
        trace = np.trace(S, axis1=1, axis2=2)
        S = S + (ridge * trace)[:, None, None] * np.eye(S.shape[-1])
    odd = ~(np.isfinite(S).all(axis=(1, 2)) & (trace > np.finfo(float).tiny))
    if odd.any():
        raise FeatureError(f"the covariance of window {int(np.argmax(odd))} overflows or vanishes: rescale the signal")
    if embedding != "covariance":
        S = np.stack([embed_gaussian(window.mean(axis=1), C, embedding) for window, C in zip(windows, S, strict=True)])
    return S.reshape(*X.shape[:-2], *S.shape[1:])


def add_lags(X: np.ndarray, lags: int | Sequence[int]) -> np.ndarray:
    """Channels beside copies of themselves from earlier: (..., channels, time) to (..., channels (1 + L), time - last lag).

    Parameters
    ----------
    X : ndarray (..., channels, time)
    lags : int or sequence of int
        A number L stands for the lags 1 to L; 0 for none.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import add_lags
    >>> rng = np.random.default_rng(0)
    >>> add_lags(rng.standard_normal((4, 200)), 2).shape
    (12, 198)
    """
    given = range(1, check_count("lags", lags, low=0) + 1) if isinstance(lags, int | np.integer) else lags
    try:
        steps = [check_count("lags", lag, low=1) for lag in given]
    except TypeError:
        raise ValueError(f"lags must be a number or a sequence of them, got {lags!r}") from None
    if len(set(steps)) < len(steps):
        raise ValueError(f"lags={lags!r} holds a lag twice: equal copies of a channel make every matrix singular")
    last, time = max(steps, default=0), X.shape[-1]
    if time - last < 2:
        raise FeatureError(
            f"lags of up to {last} samples leave {max(time - last, 0)} of {time} samples, a covariance needs 2"
        )
    return np.concatenate([X[..., last - lag : time - lag] for lag in (0, *steps)], axis=-2) if steps else X


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
    """Cut a signal (channels, time) into windows (n, channels, length), `step` samples apart (`length` by default).

    Parameters
    ----------
    signal : ndarray (channels, time)
    length : int
        Samples in a window.
    step : int, optional
        Samples between the starts of two windows; smaller than `length`, windows overlap.

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import cut_windows
    >>> rng = np.random.default_rng(0)
    >>> cut_windows(rng.standard_normal((4, 1000)), 250).shape
    (4, 4, 250)
    """
    signal = as_array(signal)
    check_count("length", length, low=2)
    step = length if step is None else step
    check_count("step", step, low=1)
    if signal.ndim != 2 or signal.shape[1] < length:
        raise FeatureError(f"the signal has shape {signal.shape}: expected (channels, time) with time >= {length}")
    views = np.lib.stride_tricks.sliding_window_view(signal, length, axis=1)[:, ::step]
    return views.transpose(1, 0, 2)


def signal_file_covariance(
    path: str | Path | np.ndarray,
    *,
    window: int | None = None,
    step: int | None = None,
    estimator: Estimator = "scm",
    ridge: float = 0.0,
    lags: int | Sequence[int] = 0,
    embedding: Embedding = "covariance",
    bands: Sequence[tuple[float, float]] | None = None,
    rate: float | None = None,
) -> np.ndarray:
    """`signal_covariance` of a file: one matrix, or one for each window of `window` samples.

    Parameters
    ----------
    path : str, Path, or ndarray (channels, time)
        `.npy` of shape (channels, time), or `.csv`, `.tsv`, `.txt` with a row a channel.
    window, step : int, optional
        Cut the signal into windows first, as `cut_windows` does.
    estimator, ridge, lags, embedding
        As in `signal_covariance`.
    bands, rate : optional
        As in `filter_bank`: each window gives a matrix a band.

    Returns
    -------
    ndarray (windows, n, n), with bands (windows, bands, n, n)

    Examples
    --------
    >>> import numpy as np
    >>> from spdsl.features import signal_file_covariance
    >>> np.save("recording.npy", np.random.default_rng(0).standard_normal((4, 1000)))
    >>> signal_file_covariance("recording.npy", window=250).shape
    (4, 4, 4)
    """
    name = "" if isinstance(path, np.ndarray) else f"{path}: "
    signal = path if isinstance(path, np.ndarray) else read_table(path)
    if bands is not None and rate is None:
        raise ValueError("bands need the sampling rate: pass rate, in samples per second")
    try:
        if signal.ndim != 2:
            raise FeatureError(f"shape {signal.shape} is not a signal; expected (channels, time)")
        filtered = signal[None] if bands is None or rate is None else np.stack(filter_bank(signal, bands, rate))
        cut = [band[None] if window is None else cut_windows(band, window, step) for band in filtered]
        S = signal_covariance(np.stack(cut, axis=1), estimator=estimator, ridge=ridge, lags=lags, embedding=embedding)
        return S[:, 0] if bands is None else S
    except FeatureError as error:
        raise FeatureError(f"{name}{error}") from None
