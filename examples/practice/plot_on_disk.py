"""
Fifty thousand matrices on disk
===============================

`fit`, `predict` and `transform` of :class:`~spdsl.SPDSL` take the path of an `.npy` file in place of an array, and
read it in blocks: memory does not grow with the file. This example writes 50,000 matrices, learns on growing parts
of them, labels 10,000 others, and watches memory while it does.
"""

# %%
# A file
# ------
#
# Simulated signals of 20 channels in five states. A state has its own directions of large variance, and the channels
# of every sample are rotated a little at random, so that states are not trivial to tell apart. The file is written
# block by block, too.
import tempfile
import time
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from spdsl import SPDSL
from spdsl.data import as_data

count, n, states = 50_000, 20, 5
rng = np.random.default_rng(0)
y = rng.integers(0, states, count)
directions = 0.1 * rng.standard_normal((states, n, n))
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "matrices.npy"

file = np.lib.format.open_memmap(path, "w+", np.float64, (count, n, n))
for start in range(0, count, 5000):
    rows = slice(start, start + 5000)
    mixing = (
        np.eye(n)
        + directions[y[rows]]
        + 0.3 * rng.standard_normal((5000, n, n))
    )
    signals = mixing @ rng.standard_normal((5000, n, 2 * n))
    file[rows] = signals @ signals.mT / (2 * n)
file.flush()
del file
megabytes = path.stat().st_size / 1e6
print(f"{path.name}: {count} matrices {n} x {n}, {megabytes:.0f} MB")

# %%
# Learn on a part, still on disk
# ------------------------------
#
# `as_data(path)` is what `fit` makes of a path; indexing it selects matrices without reading them. With thousands of
# samples nobody wants all pairs: three neighbors of the same class and three of other classes for each sample are
# enough here, and searching them costs most of the time. The last 10,000 matrices are for the test, in every line.
data = as_data(path)
test = np.arange(40_000, count)
results = []
for size in (100, 500, 2500):
    train = np.arange(size)
    tracemalloc.start()
    began = time.perf_counter()
    model = SPDSL(8, n_within=3, n_between=3).fit(data[train], y[train])
    fitted = time.perf_counter()
    accuracy = 100 * model.score(data[test], y[test])
    scored = time.perf_counter()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    results.append((size, accuracy, peak))
    print(
        f"{size:5d} to learn from: fit {fitted - began:.1f} s, 10,000 labels in {scored - fitted:.1f} s, "
        f"{accuracy:.1f} percent right, at most {peak:.0f} MB in memory"
    )

# %%
# What memory is needed depends on the part that is learned from and on the size of a block, 8 MB, but not on the
# length of the file.
sizes, accuracy, peak = zip(*results, strict=True)
figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4))
left.semilogx(sizes, accuracy, "o-")
left.set(
    xlabel="matrices to learn from", ylabel="accuracy on 10,000 others (%)"
)
right.bar(range(4), [*peak, megabytes], color=["C0"] * 3 + ["C1"], width=0.7)
right.set_xticks(range(4), [*(f"{size:,}" for size in sizes), "whole\nfile"])
right.set(
    xlabel="matrices to learn from", ylabel="megabytes in memory, at most"
)
left.set_xticks(sizes, [f"{size:,}" for size in sizes])
left.minorticks_off()

folder.cleanup()

# %%
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/scale`.
# * The same for HDF5 and Zarr arrays, lists of files, and Dask clusters: pass them to :class:`~spdsl.SPDSL` as they
#   are.
# * Few samples, but each of them large: :ref:`sphx_glr_auto_examples_images_plot_deep_features.py`.
# * A place of your own for data: :class:`~spdsl.Data`.
