"""
What a metric sees
==================

SPD matrices form a curved cone, and a metric decides what lies between two of them. This example walks from one
ellipse to another under four metrics, and measures how strongly each reacts to three changes: of scale, of shape,
and of one nearly vanishing direction. It is meant to help with the choice of `metric`.
"""

# %%
# The way from one matrix to another
# ----------------------------------
#
# A 2 x 2 SPD matrix is an ellipse. The straight line, the Euclidean way, passes through ellipses that are much
# rounder and larger than both ends: it *swells*. Along the log-Euclidean and the affine-invariant way the
# determinant, the area, changes evenly. Under the Bures-Wasserstein metric, square roots move instead of logarithms.
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Ellipse
from scipy.linalg import sqrtm

from spdsl import pairwise_sqdist
from spdsl.geometry import geodesic


def ellipse(P, x, y, **options):
    """The ellipse `v'P^-1 v = 1` around (x, y)."""
    w, V = np.linalg.eigh(P)
    angle = np.degrees(np.arctan2(V[1, 1], V[0, 1]))
    return Ellipse(
        (x, y), 2 * np.sqrt(w[1]), 2 * np.sqrt(w[0]), angle=angle, **options
    )


def turned(angle, wide, narrow):
    """A matrix with these eigenvalues, turned by an angle."""
    R = np.array(
        [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    )
    return R @ np.diag([wide, narrow]) @ R.T


def wasserstein(A, B, t):
    """Optimal transport of a share t from A to B."""
    root = np.real(sqrtm(A))
    inverse = np.linalg.inv(root)
    move = (1 - t) * np.eye(2) + t * inverse @ np.real(
        sqrtm(root @ B @ root)
    ) @ inverse
    return move @ A @ move


A, B = turned(0.4, 1.0, 0.02), turned(1.8, 1.0, 0.02)
ways = {
    "euclid": lambda t: (1 - t) * A + t * B,
    "wasserstein": lambda t: wasserstein(A, B, t),
    "lem": lambda t: geodesic(A, B, t, metric="lem"),
    "aim": lambda t: geodesic(A, B, t, metric="aim"),
}
figure, axis = plt.subplots(figsize=(8.4, 4.6))
steps = np.linspace(0, 1, 7)
for row, (name, way) in enumerate(ways.items()):
    for t in steps:
        color = plt.cm.cividis(0.1 + 0.75 * t)
        axis.add_patch(
            ellipse(
                way(t),
                14.4 * t,
                -2.2 * row,
                facecolor=color,
                edgecolor="0.2",
                lw=0.6,
            )
        )
    print(
        f"{name:12s} area on the way, of that at the ends:",
        *(
            f"{np.sqrt(np.linalg.det(way(t) @ np.linalg.inv(A))):.1f}"
            for t in steps
        ),
    )
axis.set(xlim=(-1.2, 15.6), ylim=(-7.8, 1.2), aspect="equal", xticks=[])
axis.set_yticks(-2.2 * np.arange(4), ways)
axis.tick_params(length=0)
axis.grid(visible=False)
axis.spines[:].set_visible(False)

# %%
# Three changes, nine metrics
# ---------------------------
#
# From one matrix we go in three directions: everything doubles; the ellipse turns; a direction of small variance
# becomes ten times smaller. Each row is scaled to sum to one, since only the proportions within a metric mean
# anything.
start = np.diag([1.0, 0.3, 0.01])
turn = np.eye(3)
turn[:2, :2] = [[np.cos(0.6), -np.sin(0.6)], [np.sin(0.6), np.cos(0.6)]]
changes = {
    "scale x 2": 2 * start,
    "turned": turn @ start @ turn.T,
    "small variance / 10": np.diag([1.0, 0.3, 0.001]),
}
metrics = (
    "aim",
    "stein",
    "lem",
    "jeffreys",
    "cholesky",
    "log-cholesky",
    "power",
    "wasserstein",
    "euclid",
)
distance = {}
for name in metrics:
    d2 = pairwise_sqdist(
        start[None], np.stack(list(changes.values())), metric=name
    )[0]
    distance[name] = np.sqrt(d2) / np.sqrt(d2).sum()
order = sorted(distance, key=lambda name: distance[name][2])

figure, axis = plt.subplots(figsize=(7, 3.6))
left = np.zeros(len(order))
for k, change in enumerate(changes):
    share = np.array([distance[name][k] for name in order])
    axis.barh(order, share, left=left, color=f"C{k}", label=change)
    left += share
axis.set(xlim=(0, 1), xlabel="share of the distance")
axis.grid(visible=False)
axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3)

# %%
# How to choose
# -------------
#
# There are two families. For the metrics below, a variance that nearly vanishes is nearly nothing. For those above,
# which are built on ratios or logarithms, it is a large change. That is right where small variances are signal, and
# wrong where they are little but the ridge, so with these metrics the ridge matters. The log-Euclidean metric is the
# default: it is the cheapest of its family, and behaves much like the affine-invariant one. When in doubt, let
# :func:`~spdsl.compare` decide.
#
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/choosing` and :doc:`/theory/geometry`.
# * What learning adds to a metric: :ref:`sphx_glr_auto_examples_basics_plot_learned_distance.py`.
# * A metric of your own: :ref:`sphx_glr_auto_examples_extend_plot_own_metric.py`.
# * :func:`~spdsl.pairwise_sqdist`, :func:`~spdsl.riemannian_mean`, :func:`~spdsl.log_euclidean_mean`.
