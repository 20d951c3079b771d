"""
Comparing methods honestly: groups
==================================

If trials of one person are in the training part and others of the same person in the test part, a method is
rewarded for recognizing the person. In use it will meet people it has never seen. :func:`~spdsl.compare` takes
`groups` and keeps each on one side. This example shows how much a careless split flatters, and that it hides the
one thing that helps.
"""

# %%
# Six persons, three movements
# ----------------------------
#
# Simulated signals of 12 channels. The movement decides which of three sources is strong. Each person has channels of
# other strengths and mixes them in another way, as sensors on another body would. How strongly is made up here, and
# so is the size of the effect below; its direction is not.
import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.pipeline import make_pipeline

import spdsl
from spdsl import SPDSL, Recenter

persons, trials, movements, channels = 6, 24, 3, 12
rng = np.random.default_rng(0)
sources = rng.standard_normal((channels, movements)) / 2
X, y, person = (
    [],
    np.tile(np.arange(movements), persons * trials // movements),
    np.repeat(np.arange(persons), trials),
)
for who in range(persons):
    body = np.diag(np.exp(0.4 * rng.standard_normal(channels))) @ (
        np.eye(channels) + 0.25 * rng.standard_normal((channels, channels))
    )
    for movement in y[person == who]:
        strength = np.where(
            np.arange(movements) == movement, 1.3, 0.6
        ) * rng.lognormal(0, 0.3, movements)
        signal = sources @ (
            strength[:, None] * rng.standard_normal((movements, 100))
        ) + 0.6 * rng.standard_normal((channels, 100))
        X.append(body @ signal @ signal.T @ body.T / 100)
X = np.stack(X)
y = np.array(["walk", "run", "jump"])[y]
print(X.shape, "of", persons, "persons")

# %%
# Two protocols
# -------------
#
# Random halves of all trials, as one finds them in many papers, against leaving out one person at a time. Methods are
# names of `spdsl.METHODS` or any scikit-learn classifier of matrices. The last one recenters every person by the mean
# of that person's own trials, without labels; for that, its first step is given the groups by scikit-learn's metadata
# routing. The careless comparison does not know who is who, so there it has one center for all. Nothing is tuned
# here, to be quick.
sklearn.set_config(enable_metadata_routing=True)
methods = {
    "nearest neighbor": "NN-LEM",
    "tangent space + LDA": "TS+LDA",
    "SPDSL": SPDSL(),
    "SPDSL, recentered": make_pipeline(Recenter(), SPDSL()),
}
options = {"tune": False, "reference": "SPDSL, recentered", "verbose": False}
careless = spdsl.compare(X, y, methods, splits=5, **options)
honest = spdsl.compare(
    X, y, methods, splits="leave-one-group-out", groups=person, **options
)
print("random halves\n", careless, "\n", sep="")
print("persons left out\n", honest, sep="")
sklearn.set_config(enable_metadata_routing=False)

# %%
# The table gives the mean and the standard deviation over the splits, an interval for the mean, and what the
# reference gains over each method with the chance that this is luck, corrected for training samples that the splits
# share. Judged by random halves, recentering would hardly be worth a line of code.
figure, axis = plt.subplots(figsize=(6.8, 3.6))
for k, name in enumerate(methods):
    for shift, color, table in ((-0.12, "C1", careless), (0.12, "C0", honest)):
        values = [
            100 * cell.accuracy for cell in table.cells if cell.method == name
        ]
        axis.plot(
            np.full(len(values), k + shift),
            values,
            "o",
            ms=4,
            alpha=0.45,
            color=color,
        )
        axis.plot(
            [k + shift - 0.09, k + shift + 0.09],
            [np.mean(values)] * 2,
            lw=3.5,
            color=color,
        )
axis.plot([], [], lw=3.5, color="C1", label="random halves")
axis.plot([], [], lw=3.5, color="C0", label="persons left out")
axis.axhline(100 / movements, color="0.4", ls=":", lw=1)
axis.text(
    3.45, 100 / movements + 1, "chance", ha="right", color="0.4", fontsize=9
)
axis.set_xticks(
    range(len(methods)),
    [name.replace(" + ", "\n+ ").replace(", ", ",\n") for name in methods],
)
axis.set(ylabel="accuracy (%), each dot a split", ylim=(25, 103))
axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2)
axis.grid(visible=False, axis="x")

# %%
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/comparing`.
# * :func:`~spdsl.compare` for one set of data, :func:`~spdsl.compare_many` for several, :func:`~spdsl.tune` for
#   parameters.
# * What recentering does: :ref:`sphx_glr_auto_examples_signals_plot_recenter_sessions.py`.
# * The same comparison as a page with figures: :ref:`sphx_glr_auto_examples_practice_plot_read_report.py`.
