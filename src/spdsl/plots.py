"""Pictures of fitted models: patterns, similarities, an embedding, and the way of the cost.

Every function draws on the axes it is given, or makes a figure of pyplot, and returns the axes. Needs matplotlib (extra
`plot`), imported when the first of them is called; topographies need MNE.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spdsl import backend
from spdsl.data.labels import check_labels
from spdsl.data.parameters import check_count
from spdsl.evaluation.figure_data import space_of
from spdsl.evaluation.figures import (
    CLASS_COLORS,
    COLORS,
    FAINT,
    INK,
    MUTED,
    class_codes,
    short_name,
    show_embedding,
    show_similarity,
    styled,
)

__all__ = ["convergence", "embedding", "patterns", "similarity"]

SHOWN = 6  # patterns drawn where no number is given
ROW = 3  # of them beside each other
DIVERGING = "RdBu_r"
NAMED_BARS = 40  # bars of which each has a tick
LEGEND_ROWS = 20  # classes below each other
LONGEST = 20  # letters of a name in a legend


def patterns(
    model: Any,
    info: Any = None,
    *,
    joints: Any = None,
    edges: Sequence[tuple[int, int]] = (),
    patch: tuple[int, int] | None = None,
    names: Sequence[str] | None = None,
    count: int | None = None,
    block: int = 0,
    ax: Any = None,
) -> np.ndarray:
    """Draw the `patterns_` of a model, those that tell the classes apart most first.

    As topographies where an MNE `info` is given, skeletons where `joints` are, images where the size of a `patch` is, and
    bars otherwise. Every pattern has its own scale; its sign has no meaning. The title is the place of a pattern and, in
    brackets, its `discriminability_`.

    Parameters
    ----------
    model : fitted SPDSL or SPDML
    info : mne.Info, optional
        Channels as in the matrices, with a montage.
    joints : (n_joints, 2 or 3), optional
        Positions of a pose, of which the first two coordinates are drawn: `pose[:, [2, 1]]` is another view. The matrices are
        of joints (n = n_joints), or of their coordinates, joint by joint (n a multiple of n_joints, as in
        `joint_covariance`): color and size are then the length over the coordinates.
    edges : sequence of (int, int)
        Joints that are connected.
    patch : (height, width), optional
        Size of the image whose pixels, row by row, are the first features.
    names : sequence of str, optional
        Of the features, for bars.
    count : int, optional
        Number of patterns; 6 or as many as there are, or as many as `ax` has axes.
    block : int
        Which block to draw, for models of samples of several matrices.
    ax : axes or array of axes, optional

    Returns
    -------
    array of axes (count,)

    Examples
    --------
    >>> from spdsl import SPDSL, plots
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = SPDSL(n_components=10, metric="aim").fit(X[::20], y[::20])
    >>> plots.patterns(model, patch=(8, 8)).shape
    (6,)
    """
    _check_learner(model, "patterns")
    A, power = model.patterns_, model.discriminability_
    if A.ndim == 3:
        block = check_count("block", block, low=0, high=len(A) - 1)
        A, power = A[block], power[block]
    draw = _way(A.shape[0], info, joints, edges, patch, names)
    given = None if ax is None else np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
    usual = min(A.shape[1], SHOWN if given is None else len(given))
    count = usual if count is None else check_count("count", count, low=1, high=A.shape[1])
    if given is not None and len(given) < count:
        raise ValueError(f"ax has {len(given)} axes for {count} patterns; pass as many, or a smaller count")
    with styled():
        axes = _grid(count) if given is None else given[:count]
        for k, one in enumerate(axes):
            draw(one, A[:, k])
            one.set_title(f"{k + 1}  ({power[k]:.2g})", fontsize=9)
    return axes


def _grid(count: int) -> np.ndarray:
    """Axes in rows, as many as asked for."""
    import matplotlib.pyplot as plt

    columns = count if count <= ROW + 1 else ROW
    rows = -(-count // columns)
    size = (1.9 * columns + 0.3, 2.0 * rows + 0.2)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for spare in axes.ravel()[count:]:
        figure.delaxes(spare)
    return axes.ravel()[:count]


def _way(
    n: int,
    info: Any,
    joints: Any,
    edges: Sequence[tuple[int, int]],
    patch: tuple[int, int] | None,
    names: Sequence[str] | None,
) -> Any:
    """The function `(axes, pattern)` that fits what is known of the features."""
    if sum(known is not None for known in (info, joints, patch)) > 1:
        raise ValueError("pass only one of info, joints and patch")
    if info is not None:
        return _topography(n, info)
    if joints is not None:
        return _skeleton(n, np.asarray(joints, float), np.asarray(edges, int).reshape(-1, 2))
    if patch is not None:
        return _image(n, *patch)
    if names is not None and len(names) != n:
        raise ValueError(f"names has {len(names)} entries for {n} features; pass one for each")
    return _bars(n, names)


def _topography(n: int, info: Any) -> Any:
    try:
        import mne
    except ImportError as error:
        raise ImportError("topographies need MNE: pip install mne") from error
    if len(info["ch_names"]) != n:
        raise ValueError(
            f"info has {len(info['ch_names'])} channels for {n} features; pick the channels of the matrices, in their order"
        )

    def draw(axes: Any, pattern: np.ndarray) -> None:
        limit = float(np.abs(pattern).max())
        mne.viz.plot_topomap(pattern, info, axes=axes, show=False, cmap=DIVERGING, vlim=(-limit, limit), contours=4)

    return draw


def _skeleton(n: int, joints: np.ndarray, edges: np.ndarray) -> Any:
    if joints.ndim != 2 or joints.shape[1] not in (2, 3):
        raise ValueError(f"joints has shape {joints.shape}; pass positions (n_joints, 2) or (n_joints, 3)")
    if n % len(joints):
        raise ValueError(f"{len(joints)} joints do not fit {n} features, which must be a multiple of them")
    if len(edges) and not 0 <= edges.min() <= edges.max() < len(joints):
        odd = edges.min() if edges.min() < 0 else edges.max()
        raise ValueError(f"edges names joint {odd}, but there are {len(joints)}; count from 0")

    def draw(axes: Any, pattern: np.ndarray) -> None:
        signed = n == len(joints)
        value = pattern if signed else np.linalg.norm(pattern.reshape(len(joints), -1), axis=1)
        limit = float(np.abs(value).max())
        style = (
            {"cmap": DIVERGING, "vmin": -limit, "vmax": limit}
            if signed
            else {"cmap": "Blues", "vmin": 0, "vmax": limit}
        )
        for a, b in edges.tolist():
            axes.plot(*joints[[a, b], :2].T, color=MUTED, lw=1, zorder=1)
        size = 8 + 52 * np.abs(value) / limit
        axes.scatter(*joints[:, :2].T, c=value, s=size, edgecolors=INK, linewidths=0.5, zorder=2, **style)
        axes.set_aspect("equal")
        axes.margins(0.1)
        axes.set_axis_off()

    return draw


def _image(n: int, height: int, width: int) -> Any:
    if height * width > n:
        raise ValueError(f"a patch of {height} x {width} has {height * width} pixels, but there are {n} features")

    def draw(axes: Any, pattern: np.ndarray) -> None:
        pixels = pattern[: height * width].reshape(height, width)
        limit = float(np.abs(pixels).max()) or 1.0
        axes.imshow(pixels, cmap=DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
        axes.set(xticks=[], yticks=[])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)

    return draw


def _bars(n: int, names: Sequence[str] | None) -> Any:
    def draw(axes: Any, pattern: np.ndarray) -> None:
        color = np.where(pattern > 0, COLORS["orange"], COLORS["blue"])
        axes.barh(np.arange(n), pattern, color=color, height=0.8)
        axes.axvline(0, color=MUTED, lw=0.8)
        axes.set_ylim(n - 0.4, -0.6)
        axes.set_xticks([0])
        axes.tick_params(length=0, labelsize=8)
        axes.grid(visible=False)
        if names is None:
            axes.set_ylabel("feature", fontsize=8)
        elif n <= NAMED_BARS:
            axes.set_yticks(np.arange(n), names, fontsize=8 if n <= NAMED_BARS // 2 else 6)

    return draw


def similarity(model: Any, X: Any, y: Any, *, ax: Any = None) -> Any:
    """Draw the learned similarities of samples sorted by class, `exp(-d2/s)` with s the tenth percentile of d2.

    Parameters
    ----------
    model : fitted, with a method `sqdist`
    X : (n_samples, n, n)
    y : (n_samples,) labels
    ax : axes, optional

    Returns
    -------
    axes

    Examples
    --------
    >>> from spdsl import SPDSL, plots
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = SPDSL(n_components=10, classifier="lda").fit(X[::20], y[::20])
    >>> axes = plots.similarity(model, X[1::20], y[1::20])
    """
    classes, labels, d2 = _measured(model, X, y)
    order = np.argsort(labels, kind="stable")
    d2, labels = d2[np.ix_(order, order)], labels[order]
    upper = d2[np.triu_indices(len(d2), 1)]
    scale = max(float(np.quantile(upper, 0.1)), np.finfo(float).tiny)
    with styled():
        ax = _single(ax, (4.4, 3.6))
        show_similarity(ax, np.exp(-d2 / scale), labels, classes)
    return ax


def embedding(model: Any, X: Any, y: Any, *, ax: Any = None) -> Any:
    """Draw samples in the plane, near where their learned distance is small (t-SNE), each as its class.

    Classes whose names are longer than two letters are drawn as numbers, with a legend.

    Only who is near whom has a meaning, not the distance between far groups. The same samples give the same picture.

    Parameters
    ----------
    model : fitted, with a method `sqdist`
    X : (n_samples, n, n)
    y : (n_samples,) labels
    ax : axes, optional

    Returns
    -------
    axes

    Examples
    --------
    >>> from spdsl import SPDSL, plots
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = SPDSL(n_components=10, classifier="lda").fit(X[::20], y[::20])
    >>> axes = plots.embedding(model, X[1::20], y[1::20])
    """
    classes, labels, d2 = _measured(model, X, y)
    points = space_of(d2, labels).embedding
    with styled():
        codes = class_codes(classes)
        columns = 0 if codes == classes else -(-len(classes) // LEGEND_ROWS)
        ax = _single(ax, (4.0 + 2.0 * columns, 4.0))
        show_embedding(ax, points, labels, codes)
        if columns:
            names = [short_name(name, LONGEST) for name in classes]
            handles = ax.collections[-len(names) :]  # one for each class
            ax.legend(handles, names, loc="center left", bbox_to_anchor=(1.0, 0.5), ncols=columns, fontsize=8)
    return ax


def convergence(model: Any, *, ax: Any = None) -> Any:
    """Draw the cost over the iterations of a fit, or of several.

    Parameters
    ----------
    model : fitted SPDSL or SPDML, or a dict of names and such models
    ax : axes, optional

    Returns
    -------
    axes

    Examples
    --------
    >>> from spdsl import SPDSL, plots
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> model = SPDSL(n_components=10, classifier="lda").fit(X[::20], y[::20])
    >>> axes = plots.convergence(model)
    """
    models = model if isinstance(model, dict) else {"": model}
    for one in models.values():
        _check_learner(one, "iterations")
    with styled():
        ax = _single(ax, (4.6, 3.0))
        for k, (name, one) in enumerate(models.items()):
            costs = [row["value"] for row in one.history_]
            style = {"color": COLORS[CLASS_COLORS[k % len(CLASS_COLORS)]], "marker": ".", "ms": 4}
            ax.plot(np.arange(len(costs)), costs, label=name, lw=1.6, **style)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("iteration")
        ax.set_ylabel("cost")
        ax.grid(color=FAINT)
        if len(models) > 1:
            ax.legend()
    return ax


def _check_learner(model: Any, what: str) -> None:
    """Raise unless the model is a fitted one that learns W."""
    if not hasattr(type(model), "patterns_"):
        raise ValueError(
            f"a {type(model).__name__} has no {what} to draw; pass a fitted SPDSL or SPDML, of a pipeline that step, e.g. "
            f"model[-1]"
        )
    check_is_fitted(model, "components_")


def _single(ax: Any, size: tuple[float, float]) -> Any:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def _measured(model: Any, X: Any, y: Any) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names of the classes, labels as integers, and squared distances."""
    if not hasattr(model, "sqdist"):
        raise ValueError(
            f"a {type(model).__name__} has no distances to draw; pass a model with sqdist, e.g. SPDSL, of a pipeline that step "
            f"with the matrices that reach it"
        )
    d2 = backend.to_numpy(model.sqdist(X))
    if len(d2) < 2:
        raise ValueError("X has 1 sample, which has no distance to another; pass two or more")
    classes, labels = check_labels(y, len(d2))
    return [str(name) for name in classes.tolist()], labels, d2
