"""
One file from image to label
============================

A model that expects matrices is of little use to someone who has images. The recipe that turns an image into a
matrix belongs in the model: a scikit-learn pipeline of a recipe and :class:`~spdsl.SPDSL` is saved to one file,
without pickle, and whoever loads it passes images and gets labels. Here it learns three textures from photographs
and finds them in a collage.
"""

# %%
# Photographs that come with scikit-image
# ---------------------------------------
#
# Brick, grass and gravel, 512 x 512 pixels each. We learn from tiles of the left halves only; the right halves are
# kept for the test.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from skimage import data
from sklearn.pipeline import make_pipeline

import spdsl
from spdsl import SPDSL, RegionCovariance, SPDNearestNeighbor

photographs = {
    "brick": data.brick(),
    "grass": data.grass(),
    "gravel": data.gravel(),
}
names = list(photographs)


def tiles(image, step, size=32):
    """All windows of an image, row by row."""
    rows, columns = (range(0, side - size + 1, step) for side in image.shape)
    return [image[r : r + size, c : c + size] for r in rows for c in columns]


train = [
    (tile, name)
    for name, photo in photographs.items()
    for tile in tiles(photo[:, :256], 32)
]
test = [
    (tile, name)
    for name, photo in photographs.items()
    for tile in tiles(photo[:, 256:], 32)
]
print(len(train), "tiles to learn from,", len(test), "unseen ones")

# %%
# The pipeline
# ------------
#
# :class:`~spdsl.RegionCovariance` describes an image by the 7 x 7 covariance of position, intensity and derivatives
# over its pixels. We also look at the nearest neighbor without learning. There is one split, left against right, and
# so no spread: neighboring tiles of one photograph are too much alike for random splits to be honest.
model = make_pipeline(RegionCovariance(), SPDSL())
plain = make_pipeline(RegionCovariance(), SPDNearestNeighbor("lem"))
for name, pipeline in {"SPDSL": model, "nearest neighbor": plain}.items():
    pipeline.fit([tile for tile, _ in train], [label for _, label in train])
    right = np.mean(
        pipeline.predict([tile for tile, _ in test])
        == [label for _, label in test]
    )
    print(f"{name:17s} {100 * right:.1f} percent of the unseen tiles")

# %%
# Save, load, use
# ---------------
#
# The file holds the recipe with all of its parameters and the fitted classifier. Loading runs no code from the file, so
# a model from a stranger may be wrong, but cannot take over the machine.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "textures.safetensors"
    spdsl.save(model, path)
    print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    loaded = spdsl.load(path)

# %%
# A collage of the unseen halves, in three sectors. The loaded model labels every window of 32 x 32 pixels, 8 pixels
# apart; :meth:`predict_proba <spdsl.SPDSL.predict_proba>` says how sure it is.
r, c = np.mgrid[:256, :256] - 127.5
sector = ((np.arctan2(r, c) + np.pi) / (2 * np.pi) * 3).astype(int) % 3
collage = np.choose(
    sector, [photographs[name][128:384, 256:] for name in names]
)

windows = tiles(collage, 8)
probability = loaded.predict_proba(windows)
side = int(np.sqrt(len(windows)))
found = np.array([names.index(label) for label in loaded.classes_])[
    probability.argmax(axis=1)
].reshape(side, side)

colors = np.array([[192, 79, 0], [0, 121, 90], [0, 114, 178]]) / 255
sure = probability.max(axis=1).reshape(side, side)
figure, axes = plt.subplots(1, 3, figsize=(8.6, 3.2))
axes[0].imshow(collage, cmap="gray")
axes[0].set_title("collage of unseen photographs")
axes[1].imshow(collage, cmap="gray", extent=(0, 256, 256, 0))
axes[1].imshow(colors[found], alpha=0.6, extent=(12, 244, 244, 12))
for k, name in enumerate(names):
    angle = (k + 0.5) / 3 * 2 * np.pi - np.pi
    place = (128 + 75 * np.cos(angle), 128 + 75 * np.sin(angle))
    axes[1].text(
        *place,
        name,
        ha="center",
        color="white",
        weight="bold",
        bbox={"color": colors[k], "pad": 3},
    )
axes[1].set_title("labels of the loaded model")
picture = axes[2].imshow(sure, vmin=1 / 3, vmax=1, extent=(12, 244, 244, 12))
axes[2].set_title("its probability")
figure.colorbar(picture, ax=axes[2], shrink=0.8)
for axis in axes:
    axis.set(xlim=(0, 256), ylim=(256, 0))
    axis.set_axis_off()

# %%
# Windows across a border hold two textures: there the model is wrong or, rightly, unsure.
#
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/textures` and :doc:`/guide/saving`.
# * The other recipes: :class:`~spdsl.MaterialCovariance`, :class:`~spdsl.SetCovariance`,
#   :class:`~spdsl.JointCovariance`, :class:`~spdsl.SignalCovariance`.
# * :func:`~spdsl.save` and :func:`~spdsl.load`; on the command line, `spdsl predict` applies such a file to a folder.
