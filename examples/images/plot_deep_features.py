"""
Thousands of features: keep the factors
=======================================

The covariance of network features with 4,096 entries is a matrix of 134 megabytes, and almost all of it says
nothing: a set of eight images has a covariance of rank seven. :class:`~spdsl.FactoredSPD` holds the factors
instead, and :class:`~spdsl.SPDSL` learns on them without ever forming a matrix. This example measures memory and
time as the features grow.
"""

# %%
# Features
# --------
#
# So that the example runs anywhere, the features are those of one random layer, `relu(images @ R)`, which stands for
# the last layers of a network; any array (images, features) will do. A sample is a set of eight images of a digit,
# and :func:`~spdsl.features.set_factors` turns its features into factor, ridge and mean.
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from spdsl import SPDSL, FactoredSPD, pairwise_sqdist
from spdsl.features import set_factors

images, digit = load_digits(return_X_y=True)
images = images / 16 - 0.3
rng = np.random.default_rng(0)
sets = [
    rng.permutation(np.flatnonzero(digit == d))[:160].reshape(20, 8)
    for d in range(10)
]
y = np.repeat(np.arange(10), 20)
train = np.tile(np.arange(20) < 4, 10)


def factored(d):
    """The 200 sets in d random features, as factored matrices (d + 1) x (d + 1)."""
    R = np.random.default_rng(1).standard_normal((64, d)) / 8
    features = np.maximum(images @ R, 0) / np.sqrt(d)
    return FactoredSPD(
        *zip(
            *(
                set_factors(features[k], embedding="augmented")
                for rows in sets
                for k in rows
            ),
            strict=True,
        )
    )


# %%
# Learn without forming a matrix
# ------------------------------
#
# `FactoredSPD` goes where an array of matrices would go, in `fit`, `transform`, `predict` and `score`. A product with
# `W` takes `n r m` operations instead of `n^2 m`, where r is the rank. The start of the learner, eigenvectors of one
# n x n matrix, is what grows fastest in the end. For a fair comparison both fits use a start and a classifier that
# exist for either kind of data.
settings = {
    "n_components": 10,
    "classifier": "logistic",
    "solver": {"init": "pca"},
}
sizes = [64, 128, 256, 512, 1024, 2048]
formed = 512  # the largest size at which we also form the matrices
seconds, accuracy, held = {"factors": [], "matrices": []}, [], []
for d in sizes:
    X = factored(d)
    began = time.perf_counter()
    model = SPDSL(**settings).fit(X[train], y[train])
    seconds["factors"].append(time.perf_counter() - began)
    accuracy.append(100 * model.score(X[~train], y[~train]))
    held.append(X.rows.nbytes / 1e6)
    print(
        f"{X!r}: {held[-1]:4.1f} MB, fit {seconds['factors'][-1]:.2f} s, accuracy {accuracy[-1]:.1f} percent"
    )
    if d <= formed:
        matrices = X[train].dense()
        began = time.perf_counter()
        SPDSL(**settings).fit(matrices, y[train])
        seconds["matrices"].append(time.perf_counter() - began)

# %%
# The same numbers come out
# -------------------------
#
# Factors are no approximation. Where the matrices are small enough to be formed, distances agree to rounding:
X = factored(64)[:20]
difference = np.abs(pairwise_sqdist(X) - pairwise_sqdist(X.dense())).max()
print(
    f"largest difference of squared distances: {difference:.1e}, of up to {pairwise_sqdist(X).max():.0f}"
)

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4))
left.loglog(
    sizes,
    [8 * len(y) * (d + 1) ** 2 / 1e6 for d in sizes],
    "s--",
    color="C1",
    label="matrices",
)
left.loglog(sizes, held, "o-", color="C0", label="factors")
left.set(ylabel="megabytes for 200 samples")
right.loglog(
    sizes[: len(seconds["matrices"])],
    seconds["matrices"],
    "s--",
    color="C1",
    label="matrices",
)
right.loglog(sizes, seconds["factors"], "o-", color="C0", label="factors")
right.set(ylabel="seconds of a fit on 40 samples")
for axis in (left, right):
    axis.set_xlabel("features")
    axis.set_xticks(sizes, [f"{d:,}" for d in sizes])
    axis.minorticks_off()
    axis.legend()

# %%
# The point here is the cost, so there is one draw only, and nothing follows from the accuracies: sets of eight digits
# are easy.
#
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/scale`.
# * :class:`~spdsl.FactoredSPD` and :func:`~spdsl.features.set_factors`.
# * Many samples instead of large ones: :ref:`sphx_glr_auto_examples_practice_plot_on_disk.py`.
