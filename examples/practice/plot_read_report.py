"""
Reading a report
================

Every comparison can be written as one HTML page with tables and figures, by `spdsl.evaluation.report.write_report`
from Python or by `spdsl reproduce` on the command line. This example makes a small one and explains its figures:
what a dot is, what a bar is, and which conclusions they allow.
"""

# %%
# A comparison to report on
# -------------------------
#
# 120 image sets of digits, five random halves, four methods. The first two choose no parameters, the third chooses
# its own by cross-validation inside each training part, and the last is used at its defaults.
import io
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import spdsl
from spdsl.datasets import load_digit_sets
from spdsl.evaluation.plates import draw_plates
from spdsl.evaluation.report import write_report

X, y = load_digit_sets()
some = np.concatenate([np.flatnonzero(y == digit)[:12] for digit in range(10)])
methods = ["NN-LEM", "NN-Stein", "CDL", "SPDSL"]
comparison = spdsl.compare(
    X[some],
    y[some],
    methods,
    splits=5,
    n_folds=3,
    reference="SPDSL",
    random_state=0,
    verbose=False,
)

# %%
# The table
# ---------
#
# *Accuracy* is the mean and the standard deviation over the five splits. The *interval* is where the mean of many
# such splits would lie; it is wider than the deviation suggests, because the splits share samples and so tell less
# than five independent experiments. *Gain* is what the reference has over the method, and *p* the probability of such
# a difference by chance, if the two were equally good; it accounts for shared samples and for the number of methods.
print(comparison)

# %%
# The page
# --------
#
# One file that needs nothing beside it: it can be mailed, and opens without a network. The figures are also written
# as SVG and PNG.
with tempfile.TemporaryDirectory() as folder:
    written = write_report(comparison.results, folder)
    for path, about in written.items():
        size = (
            f"{path.stat().st_size / 1000:.0f} kB"
            if path.is_file()
            else f"{len(list(path.iterdir()))} files"
        )
        print(f"{path.name}: {about} ({size})")
    page = (Path(folder) / "report.html").read_text()
print(page.count("<svg"), "figures inside the page")

# %%
# Its first figure: the methods
# -----------------------------
#
# A small ring is one split, a disc the mean, its line one standard deviation to either side. If the rings of two
# methods overlap as much as their neighbors' do, the order of the discs means little; the table's p says how little.


def show(plate, width):
    """Draw the pictures of a plate side by side."""
    images = [plt.imread(io.BytesIO(picture.png)) for picture in plate.pictures]
    rows, columns, _ = images[0].shape
    height = width * rows / columns / len(images)
    _, axes = plt.subplots(
        1, len(images), figsize=(width, height + 0.3), squeeze=False
    )
    for axis, image, picture in zip(
        axes[0], images, plate.pictures, strict=True
    ):
        axis.imshow(image)
        axis.set_title(picture.title)
        axis.set_axis_off()


plates = {plate.name: plate for plate in draw_plates(comparison.results, None)}
show(plates["methods"], 6)
print(plates["methods"].caption)

# %%
# Who is taken for whom
# ---------------------
#
# Rows are the true classes, columns the answers; each row sums to 100. Look for bright fields off the diagonal: if
# one pair of classes makes most of the errors, a better description of the data may help more than another method.
show(plates["confusion"], 9)
# sphinx_gallery_thumbnail_number = 2
print(plates["confusion"].caption)

# %%
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/reproducing`.
# * Groups that must stay together: :ref:`sphx_glr_auto_examples_practice_plot_compare_groups.py`.
# * The figures of the paper, which `spdsl reproduce` adds to its report:
#   :ref:`sphx_glr_auto_examples_basics_plot_paper_figures.py`.
# * :func:`~spdsl.compare`.
