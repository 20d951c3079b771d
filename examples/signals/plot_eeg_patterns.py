"""
Patterns of EEG: what a model looks at
======================================

The columns of a learned `W` are spatial filters: they weigh electrodes so that noise cancels, and say little about
where a source is. Patterns do. `patterns_` of a fitted :class:`~spdsl.SPDSL` holds what each filter responds to,
ordered by how well it tells the classes apart. This example plants two sources in simulated EEG and finds them
again.
"""

# %%
# Two sources that matter, and many that do not
# ---------------------------------------------
#
# 32 electrodes of a standard cap. Left and right hand change the power of a source over either motor area, `C3` and
# `C4`. Seven stronger sources elsewhere do not depend on the class; two of them lie right beside those that do, so
# that looking at the power of single electrodes does not tell.
import matplotlib.pyplot as plt
import mne
import numpy as np
from pyriemann.spatialfilters import CSP

from spdsl import SPDSL, SignalCovariance, plots

montage = mne.channels.make_standard_montage("biosemi32")
info = mne.create_info(montage.ch_names, sfreq=128, ch_types="eeg").set_montage(
    montage
)
place = np.array(
    [montage.get_positions()["ch_pos"][name] for name in info.ch_names]
)


def pattern(name, width=0.04):
    """A bump on the scalp around an electrode (32,)."""
    return np.exp(
        -np.sum((place - place[info.ch_names.index(name)]) ** 2, axis=1)
        / (2 * width**2)
    )


rng = np.random.default_rng(0)
hand = np.tile(["left hand", "right hand"], 100)
truth = {"C3": pattern("C3"), "C4": pattern("C4")}
others = 2 * np.array(
    [pattern(name) for name in ("CP5", "FC6", "Fz", "Pz", "Oz", "T7", "Fp2")]
)
trials = []
for side in hand:
    power = {
        "C3": 2.0 if side == "left hand" else 1.0,
        "C4": 1.0 if side == "left hand" else 2.0,
    }
    signal = 0.2 * rng.standard_normal((32, 256))
    for name, p in power.items():
        signal += (
            np.sqrt(p)
            * rng.lognormal(0, 0.2)
            * np.outer(truth[name], rng.standard_normal(256))
        )
    trials.append(
        signal
        + (others * rng.lognormal(0, 0.3, (7, 1))).T
        @ rng.standard_normal((7, 256))
    )
X = SignalCovariance().fit_transform(trials)

# %%
# Learn, and look
# ---------------
#
# We learn from the first half of the trials. For interpretation a wide similarity is best, `beta_scale=0.1`: a narrow
# one fits `W` to a few pairs of neighbors. :func:`~spdsl.plots.patterns` draws topographies where it is given MNE's
# `info`; the number in brackets is how much the pattern tells. Two tell something, the other two next to nothing.
train, test = slice(0, 100), slice(100, 200)
model = SPDSL(4, metric="aim", beta_scale=0.1, classifier="lda")
model.fit(X[train], hand[train])
accuracy = model.score(X[test], hand[test])
print(f"accuracy on the other half: {100 * accuracy:.0f} percent")
plots.patterns(model, info)

# %%
# Against the truth
# -----------------
#
# Here the sources are known. Common spatial patterns, the classical method for two classes, serves as a second check.
csp = CSP(nfilter=4).fit(X[train], hand[train])
rows = {
    "planted": list(truth.values()),
    "patterns_": list(model.patterns_.T[:2]),
    "filters_": list(model.filters_.T[:2]),
    "patterns of CSP": list(csp.patterns_[:2]),
}


def correlation(a, b):
    """How alike two maps are, without regard to size and sign."""
    return abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b)


# sphinx_gallery_thumbnail_number = 2
figure, axes = plt.subplots(2, 4, figsize=(8.4, 4.4))
for column, (name, maps) in zip(axes.T, rows.items(), strict=True):
    if correlation(maps[0], truth["C3"]) < correlation(maps[1], truth["C3"]):
        maps = maps[::-1]
    for axis, values, true in zip(column, maps, truth.values(), strict=True):
        largest = values[np.abs(values).argmax()]
        mne.viz.plot_topomap(
            values / largest,
            info,
            axes=axis,
            show=False,
            cmap="RdBu_r",
            vlim=(-1, 1),
            contours=0,
        )
        if name != "planted":
            axis.set_xlabel(f"{correlation(values, true):.2f} like the source")
    column[0].set_title(name)

# %%
# The patterns show the planted sources; the filters show what must be subtracted to hear them, such as the stronger
# sources next to them. The sign of a pattern has no meaning, nor has its size.
#
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/signals`.
# * Sessions on different days: :ref:`sphx_glr_auto_examples_signals_plot_recenter_sessions.py`.
# * :func:`~spdsl.plots.patterns` for skeletons and images; :class:`~spdsl.SPDSL`: `filters_`, `patterns_`,
#   `discriminability_`, and the basis in which they are given.
