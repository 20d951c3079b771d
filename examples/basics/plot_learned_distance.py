"""
Learned against plain distances
===============================

A plain metric on SPD matrices counts every difference between two matrices, whether it says something about their
class or not. :class:`~spdsl.SPDSL` learns a small matrix `W` so that the distances between the reduced matrices
`W'XW` match the labels. This example shows the same hundred unseen samples under both distances, and what the same
nearest-neighbor rule makes of them.
"""

# %%
# The data
# --------
#
# A sample is a *set* of two images of one handwritten digit, described by a 65 x 65 matrix that holds their
# covariance and their mean. We train on four sets of each digit and look at ten others of each: few to learn from,
# which is where plain distances have the hardest time.
import matplotlib.pyplot as plt
import numpy as np

from spdsl import SPDSL, SPDNearestNeighbor, pairwise_sqdist
from spdsl.datasets import load_digit_sets

X, y = load_digit_sets()


def draw(seed):
    """Indices of 40 training and 100 test samples."""
    rng = np.random.default_rng(seed)
    of_digit = [
        rng.permutation(np.flatnonzero(y == digit)) for digit in range(10)
    ]
    return np.concatenate([k[:4] for k in of_digit]), np.concatenate(
        [k[4:14] for k in of_digit]
    )


train, test = draw(0)
print(X.shape, "train on", len(train), "test on", len(test))

# %%
# Two distances
# -------------
#
# The plain one is the log-Euclidean distance between the 65 x 65 matrices. The learned one is the same distance
# between 20 x 20 matrices `W'XW`; `sqdist` computes it for matrices that `fit` has not seen.
model = SPDSL(n_components=20, metric="lem").fit(X[train], y[train])
d2 = {
    "plain log-Euclidean distance": pairwise_sqdist(X[test], metric="lem"),
    "learned distance": model.sqdist(X[test]),
}

figure, axes = plt.subplots(1, 2, figsize=(8.4, 4.3))
for axis, (name, values) in zip(axes, d2.items(), strict=True):
    similarity = np.exp(
        -values / np.quantile(values, 0.1)
    )  # the same rule for both: the scale of d2 does not matter
    axis.imshow(similarity, vmin=0, vmax=0.7)
    axis.set(
        title=name,
        xlabel="digit",
        xticks=np.arange(4.5, 100, 10),
        yticks=np.arange(4.5, 100, 10),
    )
    axis.set_xticklabels(range(10))
    axis.set_yticklabels(range(10))
    axis.grid(visible=False)
figure.suptitle(
    "Similarity of 100 unseen image sets, sorted by digit (bright: similar)"
)

# %%
# Bright squares along the diagonal are digits whose sets resemble each other; bright spots elsewhere are confusions.
#
# What it is worth
# ----------------
#
# One draw proves little. Over ten draws we compare three classifiers: the nearest neighbor under either distance, so
# that only the distance differs, and the default classifier of :class:`~spdsl.SPDSL`, which adds two further views of
# the data.
classifiers = {
    "nearest neighbor,\nplain distance": SPDNearestNeighbor("lem"),
    "nearest neighbor,\nlearned distance": SPDSL(20, classifier="nn"),
    "SPDSL\nwith its default classifier": SPDSL(20),
}
accuracy = {name: [] for name in classifiers}
for seed in range(10):
    train, test = draw(seed)
    for name, classifier in classifiers.items():
        accuracy[name].append(
            100 * classifier.fit(X[train], y[train]).score(X[test], y[test])
        )

for name, values in accuracy.items():
    print(
        f"{' '.join(name.split()):40s} {np.mean(values):.1f} +- {np.std(values, ddof=1):.1f} percent"
    )

figure, axis = plt.subplots(figsize=(6.4, 2.8))
for k, values in enumerate(accuracy.values()):
    axis.plot(
        values,
        np.full(10, k) + np.linspace(-0.15, 0.15, 10),
        "o",
        ms=4,
        alpha=0.5,
        color=f"C{k}",
    )
    axis.errorbar(
        np.mean(values),
        k,
        xerr=np.std(values, ddof=1),
        fmt="s",
        ms=8,
        color=f"C{k}",
        capsize=4,
    )
axis.set(
    yticks=range(3),
    yticklabels=list(accuracy),
    ylim=(2.5, -0.5),
    xlabel="accuracy on unseen sets (%), ten draws",
)

# %%
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/start`.
# * Which classifier should follow the reduction: :ref:`sphx_glr_auto_examples_basics_plot_which_head.py`.
# * How the same images become one matrix: :ref:`sphx_glr_auto_examples_images_plot_image_sets.py`.
# * Every parameter: :class:`~spdsl.SPDSL`; distances without learning: :func:`~spdsl.pairwise_sqdist`.
