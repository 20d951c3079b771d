"""
What the columns of W respond to
================================

`W` is learned to tell classes apart, but its columns are no measurements: a metric does not see certain changes of
`W`, and a filter also cancels what disturbs. `patterns_` answers the question behind it: which part of the data does
each column respond to? This example draws the patterns of digits beside their filters.
"""

# %%
# Patterns of digits
# ------------------
#
# Every sample is a set of images of one digit, as a covariance of the 64 pixels that includes their mean. Under the
# affine-invariant metric only the span of `W` matters. Patterns are columns in a basis of that span that does not
# depend on `W`, those that tell the classes apart most first; the number in brackets is the variance of their log
# response over the classes. A wide similarity (`beta_scale`) looks at all samples instead of the nearest ones.
import matplotlib.pyplot as plt

from spdsl import SPDSL, plots
from spdsl.datasets import load_digit_sets

X, y = load_digit_sets()
X, y = X[::10], y[::10]
model = SPDSL(9, metric="aim", beta_scale=0.1, classifier="lda").fit(X, y)
plots.patterns(model, patch=(8, 8))

# %%
# The pixels are the first 64 of 65 features, and `patch` makes an image of them. With an `Info` of MNE,
# :func:`~spdsl.plots.patterns` draws topographies, with `joints` and `edges` skeletons.
#
# Filters are no patterns
# -----------------------
#
# A filter weighs the pixels so that what the classes share cancels, as far as that can be told from few samples: its
# large weights may lie where there is nothing to see. The first row shows filters, the second their patterns.
figure, axes = plt.subplots(2, 4, figsize=(7.5, 4), layout="constrained")
for column in range(4):
    weights = model.filters_[:64, column].reshape(8, 8)
    limit = abs(weights).max()
    axes[0, column].imshow(weights, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes[0, column].set(xticks=[], yticks=[], title=f"filter {column + 1}")
plots.patterns(model, patch=(8, 8), ax=axes[1], count=4)
plt.show()

# %%
# What to read next
# -----------------
#
# The notes of :class:`~spdsl.SPDSL` define the basis, and :func:`~spdsl.plots.patterns` has the ways to draw it.
# :ref:`sphx_glr_auto_examples_basics_plot_metrics.py` says what a metric does not see.
