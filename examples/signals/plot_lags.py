"""
Lags: what a covariance forgets
===============================

The covariance of the channels of a signal does not change when its samples are shuffled in time: it forgets what
comes after what. Delayed copies of the channels, taken in as further channels, bring that back. This example shows
two signals that no covariance tells apart without a lag, and then what lags and the mean are worth on recordings of
nine speakers.
"""

# %%
# Clockwise or not
# ----------------
#
# Two channels that go around a circle, one way or the other. Their covariance is the same. With `lags=1` the matrix
# has a block for the channels now against the channels one step ago, and there the direction shows as a sign.
import matplotlib.pyplot as plt
import numpy as np
from aeon.datasets import load_japanese_vowels
from sklearn.pipeline import make_pipeline

from spdsl import SPDSL, SignalCovariance, SPDNearestNeighbor
from spdsl.features import signal_covariance

rng = np.random.default_rng(0)
angle = np.arange(400) * 0.9
turns = {
    name: np.array([np.cos(angle), sign * np.sin(angle)])
    + 0.15 * rng.standard_normal((2, 400))
    for name, sign in (("counterclockwise", 1), ("clockwise", -1))
}

figure, axes = plt.subplots(2, 3, figsize=(7.2, 4.6), width_ratios=[1.3, 1, 1])
for row, (name, signal) in zip(axes, turns.items(), strict=True):
    row[0].plot(*signal[:, :7], "-", lw=1, color="0.6")
    row[0].scatter(*signal[:, :7], c=np.arange(7), s=30, zorder=3)
    row[0].set(
        title=name,
        aspect="equal",
        xlim=(-1.5, 1.5),
        ylim=(-1.5, 1.5),
        xticks=[],
        yticks=[],
    )
    row[1].imshow(signal_covariance(signal), cmap="RdBu_r", vmin=-0.6, vmax=0.6)
    row[2].imshow(
        signal_covariance(signal, lags=1), cmap="RdBu_r", vmin=-0.6, vmax=0.6
    )
    row[2].axhline(1.5, color="0.2", lw=1)
    row[2].axvline(1.5, color="0.2", lw=1)
    for axis in row[1:]:
        axis.set(xticks=[], yticks=[])
        axis.grid(visible=False)
    row[2].set_yticks(
        [0.5, 2.5], ["now", "a step ago"], rotation=90, va="center"
    )
axes[0, 1].set_title("covariance")
axes[0, 2].set_title("with lags=1")

# %%
# Nine speakers
# -------------
#
# Japanese vowels, as they come with aeon: 12 cepstral coefficients over 7 to 29 steps in time, 270 utterances to
# train on and 370 to test. We keep that split, so there is one figure for each setting and no spread: 0.9 points are
# three or four utterances, which may be chance.
signals, speaker = load_japanese_vowels(
    split="train"
)  # a list of arrays (12, time)
unseen, unseen_speaker = load_japanese_vowels(split="test")

# %%
# The matrices grow, to `channels * (1 + lags)`, and by one more row where `embedding="augmented"` joins the mean.
# Utterances are short, so a ridge is needed.
lags = [0, 1, 2]
figure, axis = plt.subplots(figsize=(6.4, 3.6))
for color, name in enumerate(("nearest neighbor", "SPDSL")):
    for embedding, style in (("covariance", "o:"), ("augmented", "s-")):
        accuracy = []
        for count in lags:
            recipe = SignalCovariance(
                lags=count, embedding=embedding, ridge=1e-3
            )
            model = make_pipeline(
                recipe,
                SPDSL() if name == "SPDSL" else SPDNearestNeighbor("lem"),
            )
            accuracy.append(
                100 * model.fit(signals, speaker).score(unseen, unseen_speaker)
            )
        label = f"{name}, {'with the mean' if embedding == 'augmented' else 'no mean'}"
        axis.plot(lags, accuracy, style, color=f"C{color}", label=label)
        print(f"{label:34s}", " ".join(f"{value:5.1f}" for value in accuracy))
axis.set(
    xticks=lags,
    xlabel="lags",
    ylabel="accuracy (%), 370 unseen utterances",
    ylim=(50, 101),
)
axis.legend(loc="lower left", ncols=2)

# %%
# The mean is worth more than any lag here. To the plain nearest neighbor, lags do harm: they add entries, most of
# them noise, and the plain distance counts them all. :class:`~spdsl.SPDSL` can leave out what does not help, so
# trying lags costs it little.
#
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/signals`.
# * Order over a whole clip rather than from step to step:
#   :ref:`sphx_glr_auto_examples_signals_plot_temporal_pyramid.py`.
# * :class:`~spdsl.SignalCovariance`, :func:`~spdsl.features.add_lags`, :func:`~spdsl.features.filter_bank` for
#   frequency bands.
