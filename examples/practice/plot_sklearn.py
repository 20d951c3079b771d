"""
Part of scikit-learn: pipelines and grids
=========================================

Recipes, reductions and classifiers of this package are scikit-learn estimators, so pipelines, grids and
cross-validation work as they do everywhere: also over the parameters of the recipe that makes the matrices. And
since pyRiemann uses the same arrays, its classifiers can follow a learned reduction. This example tunes a whole
chain on recordings of four activities.
"""

# %%
# Recordings of a wrist
# ---------------------
#
# Basic motions, as they come with aeon: acceleration and rotation in three directions each, ten steps a second, 40
# recordings to train on and 40 to test. Ten seconds of each would be too easy, so we keep the first two.
import matplotlib.pyplot as plt
import numpy as np
from aeon.datasets import load_basic_motions
from pyriemann.classification import MDM
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline

from spdsl import SPDSL, SignalCovariance

signals, activity = load_basic_motions(split="train")
unseen, unseen_activity = load_basic_motions(split="test")
signals, unseen = signals[:, :, :20], unseen[:, :, :20]

figure, axes = plt.subplots(1, 4, figsize=(8.6, 2.6), sharey=True)
for axis, name in zip(axes, np.unique(activity), strict=True):
    first = signals[np.flatnonzero(activity == name)[0]]
    axis.plot(first.T / np.abs(first).max() + 1.2 * np.arange(6), lw=1)
    axis.set(title=name, yticks=[], xlabel="time")
    axis.grid(visible=False)

# %%
# A grid over the recipe and the learner
# --------------------------------------
#
# The name of a step in lower case, two underscores, the name of the parameter: scikit-learn's convention. Five folds
# of the training part choose how many delayed copies of the channels go into the matrix, and its size after the
# reduction.
pipeline = make_pipeline(SignalCovariance(ridge=1e-3), SPDSL(classifier="nn"))
grid = {
    "signalcovariance__lags": [0, 1, 2, 4],
    "spdsl__n_components": [2, 4, 6],
}
folds = StratifiedKFold(5, shuffle=True, random_state=0)
search = GridSearchCV(pipeline, grid, cv=folds).fit(signals, activity)
print("chosen:", search.best_params_)
print(f"accuracy in the folds {100 * search.best_score_:.1f} percent")
print(
    f"accuracy on the unseen recordings {100 * search.score(unseen, unseen_activity):.1f} percent"
)

mean = search.cv_results_["mean_test_score"].reshape(4, 3)
std = search.cv_results_["std_test_score"].reshape(4, 3)
# sphinx_gallery_thumbnail_number = 2
figure, axis = plt.subplots(figsize=(4.8, 3.8))
picture = axis.imshow(
    100 * mean, vmin=100 * mean.min() - 5, vmax=100, aspect="auto"
)
for (row, column), value in np.ndenumerate(mean):
    ink = "white" if value < mean.min() + 0.3 * np.ptp(mean) else "black"
    text = f"{100 * value:.1f}\n± {100 * std[row, column]:.1f}"
    axis.text(
        column, row, text, ha="center", va="center", color=ink, fontsize=9
    )
axis.set_xticks(range(3), grid["spdsl__n_components"])
axis.set_yticks(range(4), grid["signalcovariance__lags"])
axis.set(
    xlabel="n_components", ylabel="lags", title="accuracy in five folds (%)"
)
axis.grid(visible=False)

# %%
# With eight recordings in a fold one error is 12 points, so several cells are equally good for all we know, and the
# best of twelve is too good, since it was chosen for that: on the unseen recordings, which are looked at once, it has
# less.
#
# A classifier of pyRiemann behind a learned reduction
# ----------------------------------------------------
#
# `SPDSL` is a transformer too: in a pipeline that goes on, it hands over the reduced matrices.
chains = {
    "MDM": make_pipeline(SignalCovariance(ridge=1e-3), MDM()),
    "SPDSL, then MDM": make_pipeline(
        SignalCovariance(ridge=1e-3), SPDSL(4), MDM()
    ),
}
for name, chain in chains.items():
    score = 100 * cross_val_score(chain, signals, activity, cv=folds)
    print(
        f"{name:16s} {score.mean():.1f} +- {score.std(ddof=1):.1f} percent in five folds"
    )

# %%
# Here the reduction gains nothing for the minimum distance to mean: the matrices are small, and their means lie far
# apart already.
#
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/signals` and :doc:`/guide/comparing`.
# * What lags do: :ref:`sphx_glr_auto_examples_signals_plot_lags.py`.
# * One file for the whole chain: :ref:`sphx_glr_auto_examples_images_plot_image_to_label.py`.
# * :class:`~spdsl.SignalCovariance`, :class:`~spdsl.SPDSL`.
