"""Approximate nearest neighbors within and between classes, by an inverted file of vectors (faiss)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from spdsl import backend
from spdsl.backend.extras import install_hint
from spdsl.data.bounded_search import Evaluate
from spdsl.data.neighbor_search import Capacities, Nearest, Neighbors, lowest, random_pairs, sampled_mean

FEW = 8192  # classes up to this size are searched exactly: an index would take as long and miss some
PROBED = 0.1  # fraction of the cells that a query visits; a larger one finds more neighbors and takes longer
CANDIDATES = 4  # vectors for every neighbor, among which those at the least distance are taken
RANKED = 1 << 12  # samples whose candidates are compared at a time


def search_vectors(
    Z: np.ndarray, evaluate: Evaluate | None, labels: np.ndarray, capacities: Capacities, *, measure: bool
) -> Neighbors:
    """Neighbors from an index of vectors, which misses a few of them; the mean distance is that of random pairs.

    Where the distances of vectors are only lower bounds, `evaluate` computes those of the samples.
    """
    if evaluate is None:
        return Neighbors(*approximate_nearest(Z, labels, capacities), sampled_mean(Z) if measure else None)
    wider = capacities[0] and CANDIDATES * capacities[0], capacities[1] and CANDIDATES * capacities[1]
    within, between = approximate_nearest(Z, labels, wider)
    ranked = _ranked(within, capacities[0], evaluate), _ranked(between, capacities[1], evaluate)
    return Neighbors(*ranked, float(np.mean(np.sqrt(evaluate(*random_pairs(len(Z)))))) if measure else None)


def _ranked(candidates: Nearest, capacity: int | None, evaluate: Evaluate) -> Nearest:
    """The nearest of the candidates; ties go to the lower index."""
    count = len(candidates.index)
    nearest = Nearest(count, capacity)
    for start in range(0, count if capacity else 0, RANKED):
        rows = slice(start, min(start + RANKED, count))
        index, d2 = candidates.index[rows], np.full(candidates.index[rows].shape, np.inf)
        row, place = np.nonzero(np.isfinite(candidates.d2[rows]))
        d2[row, place] = evaluate(start + row, index[row, place])
        order = np.lexsort((index, d2), axis=1)[:, :capacity]
        nearest.index[rows] = np.take_along_axis(index, order, axis=1)
        nearest.d2[rows] = np.take_along_axis(d2, order, axis=1)
    return nearest


def approximate_nearest(
    Z: np.ndarray, labels: np.ndarray, capacities: Capacities, *, seed: int = 0
) -> tuple[Nearest, Nearest]:
    """Nearest rows of Z (N, d) within and between classes, most but not all of them exact.

    Within: one index per class. Between: the class number is written in binary; for every bit there is one index of
    the classes with a 0 and one of those with a 1, and a sample queries, for every bit, the index of the other value.
    Two classes differ in at least one bit, so no candidate is missed, with log2(classes) queries per sample.
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
    """Offer each of `asking` its nearest `among`; a sample is neither its own neighbor nor offered twice."""
    if not len(among) or not len(asking):
        return
    own = among is asking
    count = min(len(among), (nearest.capacity or 0) + int(own))
    search = _exact if len(among) <= FEW else _inverted
    for rows, place, d2 in search(Z, among, asking, count, seed):
        index = among[place]
        # a candidate already found through another bit must not take a second place
        known = (index[:, :, None] == nearest.index[rows][:, None, :]).any(axis=2)
        if own:
            known |= index == rows[:, None]
        d2 = np.where(known | (place < 0), np.inf, d2)
        order = np.argsort(d2, axis=1, kind="stable")
        nearest.merge(rows, np.take_along_axis(index, order, axis=1), np.take_along_axis(d2, order, axis=1))


Found = tuple[np.ndarray, np.ndarray, np.ndarray]  # query indices, indices found, squared distances


def _exact(Z: np.ndarray, among: np.ndarray, asking: np.ndarray, count: int, seed: int) -> Iterator[Found]:
    """Exact search: all distances, in blocks."""
    B = Z[among]
    square = np.einsum("nd,nd->n", B, B)
    for start in range(0, len(asking), 1024):
        rows = asking[start : start + 1024]
        d2 = square - 2 * (Z[rows] @ B.T) + np.einsum("nd,nd->n", Z[rows], Z[rows])[:, None]
        yield rows, *lowest(np.maximum(d2, 0), count)


def _inverted(Z: np.ndarray, among: np.ndarray, asking: np.ndarray, count: int, seed: int) -> Iterator[Found]:
    """Search in an inverted file: vectors are grouped in cells around centers, and a query visits the nearest few cells."""
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
        raise ImportError(f"solver={{'search': 'approximate'}} needs faiss: {install_hint('ann')}") from error
    return faiss


@contextmanager
def _threads(faiss: Any) -> Iterator[None]:
    """Let faiss use the threads available to us, and restore its setting afterwards."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(backend.threads())
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)
