"""Approximate nearest neighbours of vectors, within and between classes, by an inverted file (faiss)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from spdsl import arrays
from spdsl.search.nearest import Nearest, lowest

FEW = 8192  # classes up to this size are searched exactly: an index would take as long and miss some
PROBED = 0.1  # share of the cells that a question looks at; more find more and take longer


def approximate_nearest(
    Z: np.ndarray, labels: np.ndarray, capacities: tuple[int | None, int | None], *, seed: int = 0
) -> tuple[Nearest, Nearest]:
    """Nearest rows of Z (N, d) within and between classes, most but not all of them right.

    Within: one index a class. Between: the number of a class is written in bits; for every bit there is one index of
    the classes with a 0 there and one of those with a 1, and a sample asks for every bit the index on the other side.
    Two classes differ in some bit, so no candidate is left out, with log2(classes) questions a sample.
    """
    Z = np.ascontiguousarray(Z, dtype=np.float32)
    within, between = (Nearest(len(Z), capacity) for capacity in capacities)
    if within.capacity:
        for members in _groups(labels):
            _search(Z, members, members, within, seed)
    if between.capacity:
        for bit in range(max(1, int(labels.max()).bit_length())):
            ones = (labels >> bit) & 1 == 1
            for asking in (ones, ~ones):
                _search(Z, np.flatnonzero(~asking), np.flatnonzero(asking), between, seed)
    return within, between


def _groups(labels: np.ndarray) -> Iterator[np.ndarray]:
    """Members of each class."""
    order = np.argsort(labels, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)


def _search(Z: np.ndarray, among: np.ndarray, asking: np.ndarray, nearest: Nearest, seed: int) -> None:
    """Offer to `asking` their nearest `among`; a sample is not its own neighbour, nor offered a second time."""
    if not len(among) or not len(asking):
        return
    own = among is asking
    count = min(len(among), (nearest.capacity or 0) + int(own))
    search = _exact if len(among) <= FEW else _inverted
    for rows, place, d2 in search(Z, among, asking, count, seed):
        index = among[place]
        # a candidate that an index of another bit has found before must not fill a second place
        known = (index[:, :, None] == nearest.index[rows][:, None, :]).any(axis=2)
        if own:
            known |= index == rows[:, None]
        d2 = np.where(known | (place < 0), np.inf, d2)
        order = np.argsort(d2, axis=1, kind="stable")
        nearest.merge(rows, np.take_along_axis(index, order, axis=1), np.take_along_axis(d2, order, axis=1))


Found = tuple[np.ndarray, np.ndarray, np.ndarray]  # who asked, the places found, squared distances


def _exact(Z: np.ndarray, among: np.ndarray, asking: np.ndarray, count: int, seed: int) -> Iterator[Found]:
    """By all distances, in blocks."""
    B = Z[among]
    square = np.einsum("nd,nd->n", B, B)
    for start in range(0, len(asking), 1024):
        rows = asking[start : start + 1024]
        d2 = square - 2 * (Z[rows] @ B.T) + np.einsum("nd,nd->n", Z[rows], Z[rows])[:, None]
        yield rows, *lowest(np.maximum(d2, 0), count)


def _inverted(Z: np.ndarray, among: np.ndarray, asking: np.ndarray, count: int, seed: int) -> Iterator[Found]:
    """By an inverted file: the vectors in cells around centres, of which a question looks at the nearest few."""
    faiss = _faiss()
    cells = math.isqrt(len(among))
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(Z.shape[1]), Z.shape[1], cells)
    index.cp.seed = seed
    with _threads(faiss):
        index.train(Z[among])
        index.add(Z[among])
        index.nprobe = math.ceil(PROBED * cells)
        for start in range(0, len(asking), 1 << 14):
            rows = asking[start : start + (1 << 14)]
            d2, place = index.search(Z[rows], count)
            yield rows, place, d2.astype(np.float64)


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise ImportError("search='approximate' needs faiss: pip install 'spdsl[ann]'") from error
    return faiss


@contextmanager
def _threads(faiss: Any) -> Iterator[None]:
    """Let faiss use the threads that we may use, and leave its setting as it was."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(arrays.threads())
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
