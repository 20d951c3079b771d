"""
Several matrices a sample: the temporal pyramid
===============================================

A gesture and the same gesture backwards have the same covariance. One matrix of the whole clip and one of each of
its overlapping halves tell them apart: a sample is then four matrices, `(N, 4, n, n)`, and :class:`~spdsl.SPDSL`
learns a `W` for each. This example makes figures wave one arm and then the other, and asks which came first.
"""

# %%
# Synthetic motion
# ----------------
#
# A figure of ten joints. Four classes: it raises the left arm and then the right, or the other way round; it bends
# and then raises an arm, or raises it and then bends. Height, position, speed, timing and noise differ from clip to
# clip.
import matplotlib.pyplot as plt
import numpy as np

from spdsl import SPDSL, JointCovariance, SPDNearestNeighbor

# root, neck, head, elbow and hand left and right, knee left and right, both feet as one
REST = np.array(
    [
        [0, 1.0],
        [0, 1.5],
        [0, 1.7],
        [-0.3, 1.3],
        [-0.4, 1.0],
        [0.3, 1.3],
        [0.4, 1.0],
        [-0.15, 0.5],
        [0.15, 0.5],
        [0, 0],
    ]
)
BONES = [
    (9, 7),
    (9, 8),
    (7, 0),
    (8, 0),
    (0, 1),
    (1, 2),
    (1, 3),
    (3, 4),
    (1, 5),
    (5, 6),
]
CLASSES = {
    "left, right": ("left", "right"),
    "right, left": ("right", "left"),
    "bend, left": ("bend", "left"),
    "left, bend": ("left", "bend"),
}


def gesture(kind, amount):
    """Displacement of the joints (frames, 10, 2) at amounts (frames,) from 0 to 1."""
    moved = np.zeros((len(amount), 10, 2))
    if kind == "bend":
        moved[:, 1:7, 1] = (
            -np.array([0.25, 0.45, 0.3, 0.3, 0.3, 0.3]) * amount[:, None]
        )
        moved[:, 1:3, 0] = np.array([0.15, 0.3]) * amount[:, None]
    else:
        elbow, sign = (3, -1) if kind == "left" else (5, 1)
        moved[:, elbow] = amount[:, None] * [0.1 * sign, 0.25]
        moved[:, elbow + 1] = amount[:, None] * [0.1 * sign, 0.9]
    return moved


def clip(first, second, rng):
    """Tracks (60, 10, 3) of one clip."""
    time = np.linspace(0, 1, 60)
    tracks = np.zeros((60, 10, 3))
    tracks[:, :, :2] = REST * rng.uniform(0.85, 1.15)
    for kind, middle in ((first, 0.27), (second, 0.73)):
        bump = np.exp(
            -(
                (
                    (time - middle - rng.normal(0, 0.03))
                    / rng.uniform(0.08, 0.12)
                )
                ** 2
            )
        )
        tracks[:, :, :2] += gesture(kind, rng.uniform(0.7, 1.2) * bump)
    sway = 0.05 * np.sin(
        2 * np.pi * (time * rng.uniform(0.5, 1.5) + rng.random())
    )
    return (
        tracks
        + sway[:, None, None] * rng.standard_normal(3)
        + 0.03 * rng.standard_normal(tracks.shape)
    )


rng = np.random.default_rng(0)
clips = [clip(*parts, rng) for parts in CLASSES.values() for _ in range(30)]
y = np.repeat(list(CLASSES), 30)

figure, axes = plt.subplots(4, 7, figsize=(7.6, 5.4), sharex=True, sharey=True)
for row, name in zip(axes, CLASSES, strict=True):
    tracks = clips[int(np.flatnonzero(y == name)[0])]
    for axis, frame in zip(row, range(6, 60, 8), strict=True):
        for a, b in BONES:
            axis.plot(
                *tracks[frame, [a, b], :2].T,
                color="C0",
                lw=2,
                solid_capstyle="round",
            )
        axis.plot(*tracks[frame, 2, :2], "o", color="C0", ms=7)
        axis.plot(*tracks[frame, [4, 6], :2].T, "o", color="C1", ms=5)
        axis.set_aspect("equal")
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    row[0].set_ylabel(name)
figure.suptitle("one clip of each class, in time from left to right")

# %%
# One matrix, or four
# -------------------
#
# :class:`~spdsl.JointCovariance` takes joint tracks `(frames, joints, 3)`. With `levels=2` it gives a matrix of the
# whole clip and of its first, middle and last half. Everything else stays as it was: the learners take `(N, n, n)`
# and `(N, b, n, n)` alike.
stacks = {
    "one matrix a clip": JointCovariance(
        root_relative=True, ridge=1e-2
    ).fit_transform(clips),
    "pyramid of four": JointCovariance(
        root_relative=True, ridge=1e-2, levels=2
    ).fit_transform(clips),
}
classifiers = {
    "nearest neighbor": SPDNearestNeighbor("lem"),
    "SPDSL": SPDSL(10),
}
accuracy = {}
for stack, X in stacks.items():
    print(f"{stack}: {X.shape}")
    for name, classifier in classifiers.items():
        values = []
        for draw in range(5):
            order = np.random.default_rng(draw).permutation(30)
            chosen = np.concatenate([30 * c + order[:8] for c in range(4)])
            rest = np.concatenate([30 * c + order[8:] for c in range(4)])
            values.append(
                100
                * classifier.fit(X[chosen], y[chosen]).score(X[rest], y[rest])
            )
        accuracy[stack, name] = values
        print(
            f"  {name:17s} {np.mean(values):.1f} +- {np.std(values, ddof=1):.1f} percent"
        )

# %%
# Eight clips a class to train on, 22 to test, five draws of the same 120 clips. One matrix tells who bends and who
# does not, and can only guess what came first: the dotted line is the accuracy of such a guess. The pyramid tells
# both, with or without learning: the right description of the data matters more than the classifier.
figure, axis = plt.subplots(figsize=(6.2, 2.8))
for k, values in enumerate(accuracy.values()):
    axis.barh(
        k,
        np.mean(values),
        xerr=np.std(values, ddof=1),
        color=f"C{k // 2}",
        capsize=4,
        height=0.7,
    )
axis.set_yticks(
    range(4), [f"{name},\n{stack}" for stack, name in accuracy], fontsize=8.5
)
axis.invert_yaxis()
axis.axvline(50, color="0.3", ls=":")
axis.set(xlim=(0, 103), xlabel="accuracy on unseen clips (%)")

# %%
# What to read next
# -----------------
#
# * In the guide: :doc:`/guide/blocks` and :doc:`/guide/motion`.
# * :class:`~spdsl.JointCovariance`, :func:`~spdsl.features.temporal_pyramid`; :func:`~spdsl.features.quadrants` for
#   images and :func:`~spdsl.features.filter_bank` for signals.
# * Order from one step to the next: :ref:`sphx_glr_auto_examples_signals_plot_lags.py`.
