"""
One sample at a time: latency
=============================

A model in use often gets one sample and has to answer at once. How long it takes depends on the size of the
matrices and on the classifier. This example measures the whole way from matrix to label, one matrix per call, as a
service would.
"""

# %%
# Models
# ------
#
# Digit image sets as 65 x 65 matrices, forty of each digit to learn from. The nearest neighbor without learning
# compares a new matrix with all 400, after the logarithm of a 65 x 65 matrix; behind a reduction it does the same at
# 20 x 20.
import time
from copy import deepcopy

import matplotlib.pyplot as plt
import numpy as np

from spdsl import SPDSL, SPDNearestNeighbor
from spdsl.datasets import load_digit_sets

X, y = load_digit_sets()
train = np.concatenate([np.flatnonzero(y == digit)[:40] for digit in range(10)])
test = np.setdiff1d(np.arange(len(y)), train)

learned = SPDSL(20).fit(X[train], y[train])
models = {
    "nearest neighbor, 65 x 65": SPDNearestNeighbor("lem").fit(
        X[train], y[train]
    ),
    "SPDSL, auto": learned,
}
for head in ("logistic", "nn"):  # on the same W
    models[f"SPDSL, {head}"] = (
        deepcopy(learned)
        .set_params(classifier=head)
        .fit_classifier(X[train], y[train])
    )

# %%
# One call per matrix
# -------------------
#
# The first calls of a process are slow, and a mean would hide how often an answer comes late. So we warm up, and
# report the median and the 95 % quantile of 200 calls. `predict` on all test samples at once shows what a batch
# saves.
milliseconds = {}
for name, model in models.items():
    spent = []
    for k in test[:220]:
        began = time.perf_counter()
        model.predict(X[k : k + 1])
        spent.append(1000 * (time.perf_counter() - began))
    milliseconds[name] = np.array(spent[20:])
    began = time.perf_counter()
    right = np.mean(model.predict(X[test]) == y[test])
    batch = 1000 * (time.perf_counter() - began) / len(test)
    median, late = np.quantile(milliseconds[name], [0.5, 0.95])
    print(
        f"{name:26s} median {median:.2f} ms, 95 % below {late:.2f} ms; in a batch {batch:.2f} ms"
    )
    print(f"{'':26s} {100 * right:.1f} percent of {len(test)} right")

figure, axis = plt.subplots(figsize=(6.8, 3.4))
for k, (name, values) in enumerate(milliseconds.items()):
    ordered = np.sort(values)
    axis.step(
        ordered,
        100 * np.arange(1, len(ordered) + 1) / len(ordered),
        where="post",
        color=f"C{k}",
        label=name,
    )
axis.set_xscale("log")
axis.axhline(95, color="0.5", ls=":", lw=1)
axis.set(
    xlabel="milliseconds for one matrix",
    ylabel="% of the answers by then",
    ylim=(0, 101),
)
axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, fontsize=9)

# %%
# These are times of the machine that built this page; with other loads on it they vary, which is why the whole
# distribution is shown. Accuracy is that of one split. All of the calls check that the matrix is symmetric and
# positive definite.
#
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/saving`.
# * From an image file to a label, with one file as the model:
#   :ref:`sphx_glr_auto_examples_images_plot_image_to_label.py`.
# * :func:`~spdsl.save`, :func:`~spdsl.load`; :meth:`to_torch <spdsl.SPDSL.to_torch>` for a service without spdsl.
