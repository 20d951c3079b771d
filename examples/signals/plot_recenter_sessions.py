"""
Recentering across sessions
===========================

On another day the cap sits differently, the skin conducts differently, and every covariance of the new session is
shifted in the same way. :class:`~spdsl.Recenter` moves each session to a common center by its own mean, for which
no labels are needed. This example simulates EEG in two sessions, looks at the shift, and measures what recentering
is worth.
"""

# %%
# Simulated EEG
# -------------
#
# 32 electrodes of a standard cap. Imagining a movement of one hand lowers the rhythm over the opposite motor area:
# there are two sources with a smooth pattern on the scalp, and the class decides which is weaker. Other sources only
# disturb. On the second day each electrode has another gain and one of the disturbing sources is stronger.
import matplotlib.pyplot as plt
import mne
import numpy as np
from sklearn.decomposition import PCA

from spdsl import (
    SPDSL,
    LogVectors,
    Recenter,
    SignalCovariance,
    SPDNearestNeighbor,
)

montage = mne.channels.make_standard_montage("biosemi32")
info = mne.create_info(montage.ch_names, sfreq=128, ch_types="eeg").set_montage(
    montage
)
place = np.array(
    [montage.get_positions()["ch_pos"][name] for name in info.ch_names]
)


def pattern(name, width=0.045):
    """A bump on the scalp around an electrode (32,)."""
    return np.exp(
        -np.sum((place - place[info.ch_names.index(name)]) ** 2, axis=1)
        / (2 * width**2)
    )


def record(rng):
    """Two sessions of 60 trials each: covariances (120, 32, 32), classes, sessions."""
    noise = np.array(
        [pattern(name) for name in ("Fp1", "Fz", "Pz", "O1", "O2", "T8")]
    ) * rng.uniform(0.5, 1.5, (6, 1))
    trials, classes, sessions = (
        [],
        np.tile(["left hand", "right hand"], 60),
        np.repeat(["day 1", "day 2"], 60),
    )
    for day in ("day 1", "day 2"):
        gain = (
            np.exp(0.25 * rng.standard_normal(32))
            if day == "day 2"
            else np.ones(32)
        )
        loud = np.array([1, 1, 1, 3 if day == "day 2" else 1, 1, 1])
        for hand in classes[:60]:
            power = {
                "C3": 0.9 if hand == "left hand" else 0.6,
                "C4": 0.6 if hand == "left hand" else 0.9,
            }
            signal = 0.3 * rng.standard_normal((32, 200))
            for name, amplitude in power.items():
                signal += (
                    amplitude
                    * rng.lognormal(0, 0.2)
                    * np.outer(pattern(name), rng.standard_normal(200))
                )
            signal += (noise * loud[:, None]).T @ rng.standard_normal((6, 200))
            trials.append(gain[:, None] * signal)
    return (
        SignalCovariance(estimator="oas").fit_transform(trials),
        classes,
        sessions,
    )


X, hand, day = record(np.random.default_rng(0))

# %%
# The topographies show the log power of each electrode, right hand less left hand. On both days the difference is
# over the motor areas; what differs between the days is everything else.
log_power = np.log(np.diagonal(X, axis1=1, axis2=2))
maps = {
    f"right - left, {name}": log_power[
        (day == name) & (hand == "right hand")
    ].mean(0)
    - log_power[(day == name) & (hand == "left hand")].mean(0)
    for name in ("day 1", "day 2")
} | {
    "day 2 - day 1": log_power[day == "day 2"].mean(0)
    - log_power[day == "day 1"].mean(0)
}

figure, axes = plt.subplots(1, 3, figsize=(7.6, 2.9))
for axis, (title, values) in zip(axes, maps.items(), strict=True):
    mne.viz.plot_topomap(
        values,
        info,
        axes=axis,
        show=False,
        cmap="RdBu_r",
        vlim=(-1.2, 1.2),
        contours=4,
    )
    axis.set_title(title)
figure.colorbar(axes[-1].images[0], ax=axes, shrink=0.7, label="log power")

# %%
# One line
# --------
#
# `fit` takes the mean of every group of its matrices. `transform` moves each group by its own mean; one that `fit`
# has not seen, as the second day here, by the mean of its own batch. Labels of the second day are not used.
recenter = Recenter().fit(X[day == "day 1"], groups=day[day == "day 1"])
moved = recenter.transform(X, groups=day)

# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(1, 2, figsize=(8, 3.8))
for axis, (title, matrices) in zip(
    axes, {"before": X, "recentered": moved}.items(), strict=True
):
    plane = PCA(2).fit_transform(LogVectors().fit_transform(matrices))
    for k, name in enumerate(("left hand", "right hand")):
        for which, style in (
            ("day 1", {"facecolors": "none"}),
            ("day 2", {"facecolors": f"C{k}"}),
        ):
            chosen = (hand == name) & (day == which)
            axis.scatter(
                *plane[chosen].T,
                s=26,
                edgecolors=f"C{k}",
                label=f"{name}, {which}",
                **style,
            )
    axis.set(title=title, xticks=[], yticks=[])
axes[1].legend(loc="center left", bbox_to_anchor=(1, 0.5))
figure.suptitle("log-vectors of all trials, first two principal components")

# %%
# Train on the first day, test on the second
# ------------------------------------------
#
# Six simulated persons. The shift hurts every classifier, and recentering helps every classifier.
classifiers = {"nearest neighbor": SPDNearestNeighbor("lem"), "SPDSL": SPDSL()}
accuracy = {
    (name, how): []
    for name in classifiers
    for how in ("as it is", "recentered")
}
for person in range(6):
    X, hand, day = record(np.random.default_rng(person))
    first = day == "day 1"
    moved = Recenter().fit(X[first], groups=day[first]).transform(X, groups=day)
    for name, classifier in classifiers.items():
        for how, matrices in (("as it is", X), ("recentered", moved)):
            model = classifier.fit(matrices[first], hand[first])
            accuracy[name, how].append(
                100 * model.score(matrices[~first], hand[~first])
            )
for (name, how), values in accuracy.items():
    print(
        f"{name:17s} {how:11s} {np.mean(values):.1f} +- {np.std(values, ddof=1):.1f} percent"
    )

# %%
# A mean is only as good as its trials: with few of them, or with other proportions of the classes than on the first
# day, recentering moves too far, and a `RecenterWarning` says so.
#
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/groups`.
# * :class:`~spdsl.Recenter`, also for trials that arrive one by one (`partial_fit`) and with rotations.
# * Judging a method on persons or sessions that it has not seen:
#   :ref:`sphx_glr_auto_examples_practice_plot_compare_groups.py`.
