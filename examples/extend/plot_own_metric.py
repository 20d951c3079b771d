"""
A metric of your own
====================

A metric on SPD matrices is one class with two methods. Once registered, :class:`~spdsl.SPDSL` learns under it,
:func:`~spdsl.pairwise_sqdist` computes it, and model files store its name. This example adds a metric for matrices
whose overall scale is an accident, of the amplifier or the lighting: it compares only their shapes.
"""

# %%
# The class
# ---------
#
# Multiplying a matrix by a number s adds `log(s)` to the diagonal of its logarithm. So the metric is the
# log-Euclidean one after the mean of that diagonal has been removed: `phi(P) = log P - tr(log P) / m I`.
#
# Metrics of the form `|phi(P) - phi(Q)|^2` define `embed`, which returns `phi(P)` and whatever its derivative needs,
# and `pull`, the adjoint of the derivative, which takes a gradient in the embedding back to the matrices. Logarithm
# and derivative are inherited from the log-Euclidean metric; removing the mean is an orthogonal projection, its own
# adjoint. A metric from scratch derives from :class:`~spdsl.geometry.EmbeddedMetric` in the same way.
import matplotlib.pyplot as plt
import numpy as np

import spdsl
from spdsl import SPDSL, SPDNearestNeighbor, pairwise_sqdist
from spdsl.datasets import load_digit_sets
from spdsl.geometry import METRICS


def without_scale(Z):
    """Symmetric matrices (N, m, m) without the mean of their diagonal."""
    m = Z.shape[-1]
    return Z - np.trace(Z, axis1=1, axis2=2)[:, None, None] / m * np.eye(m)


class Shape(type(METRICS["lem"])):
    """Log-Euclidean distance of matrices of determinant one: `|log P - log Q|^2` without the part along I."""

    name = "shape"
    aliases = ()

    def embed(self, P):
        logarithm, *saved = super().embed(P)
        return without_scale(logarithm), *saved

    def pull(self, G, *saved):
        return super().pull(without_scale(G), *saved)


# %%
# Check it, then register it
# --------------------------
#
# `check_metric` tests what learning relies on: symmetry, the derivative against finite differences, the declared
# invariance, and more. A forgotten line does not survive it:
class Forgotten(Shape):
    """The same with a mistake."""

    name = "forgotten"

    def pull(self, G, *saved):
        return super(Shape, self).pull(2 * G, *saved)


spdsl.check_metric(Shape())
try:
    spdsl.check_metric(Forgotten())
except AssertionError as error:
    print("Forgotten:", error)

spdsl.register_metric(Shape)

# %%
# What it considers near
# ----------------------
#
# Squared distances of diagonal matrices from the one at the cross, under three metrics. Along the diagonal of a
# picture only the scale of the matrix changes: the new metric does not see it.
u, v = np.meshgrid(np.linspace(-1, 1, 120), np.linspace(-1, 1, 120))
matrices = np.zeros((u.size, 2, 2))
matrices[:, 0, 0], matrices[:, 1, 1] = np.exp(u.ravel()), np.exp(v.ravel())
center = np.diag(np.exp([0.3, -0.2]))[None]

figure, axes = plt.subplots(1, 3, figsize=(8.6, 3.3), sharey=True)
for axis, metric in zip(axes, ("euclid", "lem", "shape"), strict=True):
    field = pairwise_sqdist(matrices, center, metric=metric).reshape(u.shape)
    axis.contourf(u, v, np.sqrt(field), levels=12, cmap="cividis_r")
    axis.plot(0.3, -0.2, "+", ms=12, mew=2.5, color="C1")
    axis.set(
        title=f'metric="{metric}"',
        aspect="equal",
        xlabel="log of the first entry",
        xticks=[-1, 0, 1],
    )
axes[0].set(ylabel="log of the second entry", yticks=[-1, 0, 1])

# %%
# Learn with it
# -------------
#
# Digit image sets whose matrices have been multiplied by an unknown gain between 1/4 and 4, each its own. Two
# training sets a digit, twenty unseen ones, five draws; everything but the metric is the same.
X, y = load_digit_sets()
gain = np.exp(np.random.default_rng(0).uniform(-np.log(4), np.log(4), len(X)))
X = X * gain[:, None, None]

for metric in ("lem", "shape"):
    accuracy = {
        "nearest neighbor, not learned": [],
        "nearest neighbor, learned": [],
    }
    for seed in range(5):
        rng = np.random.default_rng(seed)
        of_digit = [
            rng.permutation(np.flatnonzero(y == digit)) for digit in range(10)
        ]
        train, test = (
            np.concatenate([k[part] for k in of_digit])
            for part in (slice(2), slice(2, 22))
        )
        plain, learned = (
            SPDNearestNeighbor(metric),
            SPDSL(20, metric=metric, classifier="nn"),
        )
        for values, model in zip(
            accuracy.values(), (plain, learned), strict=True
        ):
            values.append(
                100 * model.fit(X[train], y[train]).score(X[test], y[test])
            )
    for name, values in accuracy.items():
        print(
            f"{metric:6s} {name:30s} {np.mean(values):.1f} +- {np.std(values, ddof=1):.1f} percent"
        )

# %%
# Under the log-Euclidean metric learning wins back most of what the gains destroyed, but not all: a `W` multiplies
# all samples alike, so each gain stays in `W'XW`. Under the metric that fits the data, the plain distance is as good
# as the learned one. Knowing what does *not* matter is worth as much as labels.
#
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/extending`.
# * The same for objectives: :ref:`sphx_glr_auto_examples_extend_plot_own_objective.py`.
# * :func:`~spdsl.register_metric`, :func:`~spdsl.check_metric`, :class:`~spdsl.Metric`.
# * A metric that is no embedding derives from :class:`~spdsl.geometry.PairwiseMetric`. For PyTorch tensors, take
#   functions from `spdsl.backend.namespace(P)` instead of NumPy.
