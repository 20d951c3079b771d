"""
An objective of your own
========================

What the learner maximizes is one class as well. It sees the squared distances of pairs of samples, and which pairs
share a class, and returns a number and its derivative: no matrix, no `W`. This example writes a contrastive
objective, checks its derivative, and compares what it does to the distances with what the two built-in objectives
do.
"""

# %%
# The class
# ---------
#
# `self.graph.same` says which pairs share a class, `self.beta` is the width that the learner has chosen for these
# data. Small is good: pairs of a class should have a small distance, pairs of different classes a similarity near
# zero.
import matplotlib.pyplot as plt
import numpy as np

import spdsl
from spdsl import SPDSL, pairwise_sqdist
from spdsl.datasets import load_digit_sets


class Contrast(spdsl.Objective):
    """Mean of `beta d2` within classes plus mean of `exp(-beta d2)` between classes, to be minimized."""

    name = "contrast"

    def __call__(self, d2):
        same, far = self.graph.same, np.exp(-self.beta * d2)
        value = self.beta * d2[same].mean() + far[~same].mean()
        slope = np.where(
            same, self.beta / same.sum(), -self.beta * far / (~same).sum()
        )
        return float(value), slope


spdsl.check_objective(
    Contrast
)  # the derivative against finite differences, for several graphs
spdsl.register_objective(Contrast)

# %%
# Three objectives on the same data
# ---------------------------------
#
# Four training sets of each digit, ten unseen ones of each. Every model has its own `W`; we compare the distances
# that it gives to *unseen* pairs: in each panel one curve for pairs of one digit, one for pairs of two digits. The
# less they overlap, the better. Distances are divided by their mean, since their scale means nothing.
X, y = load_digit_sets()


def draw(seed):
    """Training and test samples."""
    rng = np.random.default_rng(seed)
    of_digit = [
        rng.permutation(np.flatnonzero(y == digit)) for digit in range(10)
    ]
    return np.concatenate([k[:4] for k in of_digit]), np.concatenate(
        [k[4:14] for k in of_digit]
    )


objectives = ["stochastic-neighbors", "alignment", "contrast"]
train, test = draw(0)
upper = np.triu_indices(len(test), 1)
same = (y[test][:, None] == y[test])[upper]
models = {
    name: SPDSL(20, objective=name, classifier="nn").fit(X[train], y[train])
    for name in objectives
}
distances = {"no learning": pairwise_sqdist(X[test])} | {
    name: m.sqdist(X[test]) for name, m in models.items()
}

figure, axes = plt.subplots(4, 1, figsize=(6.4, 5.6), sharex=True)
for axis, (name, d2) in zip(axes, distances.items(), strict=True):
    d = np.sqrt(d2[upper])
    d /= d.mean()
    axis.hist(
        d[~same],
        bins=np.linspace(0.3, 1.6, 66),
        density=True,
        color="C0",
        alpha=0.55,
        label="two digits",
    )
    axis.hist(
        d[same],
        bins=np.linspace(0.3, 1.6, 66),
        density=True,
        color="C1",
        alpha=0.7,
        label="one digit",
    )
    axis.set_title(name, loc="left", fontsize=10)
    axis.set_yticks([])
    axis.grid(visible=False)
axes[0].legend(loc="upper right")
axes[-1].set_xlabel("distance between unseen samples / mean distance")

# %%
# Accuracy over five draws, by the nearest neighbor so that nothing but the learned distance decides:
for name in objectives:
    accuracy = []
    for seed in range(5):
        train, test = draw(seed)
        model = SPDSL(20, objective=name, classifier="nn").fit(
            X[train], y[train]
        )
        accuracy.append(100 * model.score(X[test], y[test]))
    print(
        f"{name:21s} {np.mean(accuracy):.1f} +- {np.std(accuracy, ddof=1):.1f} percent"
    )

# %%
# Our objective has an obvious weakness: it pulls *all* pairs of a class together, although a class may consist of
# several groups. Stochastic neighbors asks only that the nearest ones be of the same class.
#
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/extending`.
# * The same for metrics: :ref:`sphx_glr_auto_examples_extend_plot_own_metric.py`.
# * :func:`~spdsl.register_objective`, :func:`~spdsl.check_objective`, :class:`~spdsl.Objective`.
