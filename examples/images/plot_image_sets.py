"""
A set of images as one matrix
=============================

A video, an album or a burst of photographs is a *set* of images of one thing. Instead of deciding on each image and
voting, one describes the whole set by its covariance, joined with its mean, and compares sets. This example builds
such matrices from 8 x 8 images of handwritten digits, looks at them, and shows what more images in a set are worth.
"""

# %%
# From images to a matrix
# -----------------------
#
# :func:`~spdsl.features.set_covariance` takes one sample a row. With `embedding="augmented"` it returns the paper's
# `[[S + m m', m], [m', 1]]`: the covariance `S`, with a ridge so that it is positive definite although there are
# fewer images than pixels, and the mean image `m` as one more row and column.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from spdsl import SPDSL, SPDNearestNeighbor
from spdsl.features import set_covariance

images, digit = load_digits(return_X_y=True)  # 1797 images of 64 pixels
images = images / 16

shown = [0, 3, 7]
figure, axes = plt.subplots(
    len(shown), 8, figsize=(8.4, 3.6), width_ratios=[1] * 6 + [0.25, 1.4]
)
for row, d in zip(axes, shown, strict=True):
    members = images[digit == d][:6]
    for axis, image in zip(row, members, strict=False):
        axis.imshow(image.reshape(8, 8), cmap="gray_r")
    row[6].text(0.5, 0.5, "→", ha="center", va="center", fontsize=16)
    row[7].imshow(np.cbrt(set_covariance(members, embedding="augmented")))
    for axis in row:
        axis.set_axis_off()
axes[0, 2].set_title("a set of six images")
axes[0, 7].set_title("its 65 x 65 matrix")

# %%
# Larger sets are easier
# ----------------------
#
# We form sets of two to six images and classify them with four training sets a digit; every image is in one set only.
# All other sets are test samples. The nearest neighbor under the plain log-Euclidean distance is compared with
# :class:`~spdsl.SPDSL` at its defaults, over four random draws.
set_sizes = [2, 3, 4, 6]
accuracy = {
    "nearest neighbor, plain distance": np.zeros((4, 4)),
    "SPDSL": np.zeros((4, 4)),
}
for s, size in enumerate(set_sizes):
    for draw in range(4):
        rng = np.random.default_rng(draw)
        matrices, labels, part = [], [], []
        for d in range(10):
            order = rng.permutation(np.flatnonzero(digit == d))[: 24 * size]
            matrices += [
                set_covariance(images[k], embedding="augmented")
                for k in order.reshape(-1, size)
            ]
            labels += [d] * 24
            part += ["train"] * 4 + ["test"] * 20
        X, y, train = (
            np.stack(matrices),
            np.array(labels),
            np.array(part) == "train",
        )
        for values, model in zip(
            accuracy.values(),
            (SPDNearestNeighbor("lem"), SPDSL(20)),
            strict=True,
        ):
            values[s, draw] = 100 * model.fit(X[train], y[train]).score(
                X[~train], y[~train]
            )

figure, axis = plt.subplots(figsize=(6, 3.6))
for name, values in accuracy.items():
    axis.errorbar(
        set_sizes,
        values.mean(axis=1),
        values.std(axis=1, ddof=1),
        fmt="o-",
        capsize=4,
        label=name,
    )
    print(
        name,
        " ".join(
            f"{m:.1f} +- {s:.1f}"
            for m, s in zip(values.mean(1), values.std(1, ddof=1), strict=True)
        ),
    )
axis.set(
    xticks=set_sizes,
    xlabel="images in a set",
    ylabel="accuracy on unseen sets (%)",
)
axis.legend(loc="lower right")

# %%
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/image-sets`.
# * Folders of images or videos as sets: :class:`~spdsl.SetCovariance`, :func:`~spdsl.datasets.load_set_folder`, and
#   :class:`~spdsl.FaceCovariance`, which finds the faces first.
# * Features with thousands of entries: :ref:`sphx_glr_auto_examples_images_plot_deep_features.py`.
# * Why learn a distance: :ref:`sphx_glr_auto_examples_basics_plot_learned_distance.py`.
