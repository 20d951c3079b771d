"""Probabilities from the scores of a classifier, by one temperature that samples left out of the fit have chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

import numpy as np

FOLDS = 5  # at most; five times four fifths of a fit
TEMPERATURES = np.geomspace(1e-2, 1e3, 121)  # inverse, for scores of unit spread: neighbors differ by a tenth
STRIDE = 5  # every so many are tried first, then those beside the best
TIED = 1e-9  # keys closer than this share of the largest one may differ by rounding only
SLACK = 0.01  # of the log-loss that one sample more may change: tells answers apart, and costs no calibration on 11 real sets

_uncalibrated: ContextVar[bool] = ContextVar("uncalibrated", default=False)


@contextmanager
def labels_only() -> Iterator[None]:
    """Leave the probabilities of fits inside uncalibrated, which saves most of their time: they are asked for labels alone."""
    token = _uncalibrated.set(True)
    try:
        yield
    finally:
        _uncalibrated.reset(token)


def probabilities(scores: np.ndarray, temperature: float, n_samples: float) -> np.ndarray:
    """Softmax of scores (N, n_classes) times the inverse temperature, no surer than `n_samples` samples allow.

    A share of 1 / (n_samples + 1) goes to all classes alike.
    """
    sure = softmax(temperature * scores)
    return (n_samples * sure + 1 / sure.shape[1]) / (n_samples + 1)


def fit_temperature(
    scores: np.ndarray, labels: np.ndarray, n_samples: float, weight: np.ndarray | None = None
) -> float:
    """The least sure inverse temperature that samples which the fit has not seen do not tell from the best.

    That is the smallest whose mean log-loss is within SLACK / (n_samples + 1) of the least one. Where all of the scores
    (N, n_classes) are right, the least log-loss itself would make every answer as sure as the next, and the probabilities
    could not rank them. `labels` are columns of `scores`; the samples may have weights. Without samples or differences to
    judge by it, and inside `labels_only`, it is one over the spread or one.
    """
    if _uncalibrated.get():
        return 1.0
    spread = rms(scores, weight) if len(scores) else 1.0
    if not len(scores) or not spread:
        return 1.0
    rows = np.arange(len(scores))

    @cache
    def loss(k: int) -> float:
        share = probabilities(scores, TEMPERATURES[k] / spread, n_samples)[rows, labels]
        return -float(np.average(np.log(share), weights=weight))

    last = len(TEMPERATURES) - 1
    near = min(range(0, last + 1, STRIDE), key=loss)
    best = min(range(max(0, near - STRIDE + 1), min(last + 1, near + STRIDE)), key=loss)
    bound = loss(best) + SLACK / (n_samples + 1)
    for step in (STRIDE, 1):
        while best >= step and loss(best - step) <= bound:
            best -= step
    # between two of them, so that rounding of the scores moves it by no more than rounding
    part = 0.0 if best == 0 else (bound - loss(best)) / (loss(best - 1) - loss(best))
    return float(TEMPERATURES[best] * (TEMPERATURES[best - 1] / TEMPERATURES[best]) ** part) / spread


def least_log_loss(scores: np.ndarray, labels: np.ndarray, weight: np.ndarray | None = None) -> float:
    """The mean log-loss of scores (N, n_classes) at the best of a few inverse temperatures."""
    spread = rms(scores, weight)
    if not spread:
        return float(np.log(scores.shape[1]))
    rows = (scores - scores.max(axis=1, keepdims=True)) / spread
    true = rows[np.arange(len(rows)), labels]
    each = (np.log(np.exp(t * rows).sum(axis=1)) - t * true for t in TEMPERATURES[::STRIDE])
    return min(float(np.average(loss, weights=weight)) for loss in each)


def rms(scores: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Root mean square of scores centered over the classes; the samples may have weights."""
    squares = (scores - scores.mean(axis=1, keepdims=True)) ** 2
    return float(np.sqrt(np.mean(squares) if weight is None else np.average(squares.mean(axis=1), weights=weight)))


def folds(labels: np.ndarray, key: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Training and test rows of at most five folds, none inside `labels_only`; a class of one is never tested.

    Every class is dealt out in the order of the numbers `key`, one for each sample: the order of the samples does not
    matter.
    """
    if _uncalibrated.get():
        return
    order = np.lexsort((key, labels))
    sizes = np.bincount(labels)
    place = np.empty(len(labels), int)
    place[order] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    count = min(FOLDS, int(sizes.max()))
    tested = sizes[labels] > 1
    for k in range(count if count > 1 else 0):
        test = tested & (place % count == k)
        yield np.flatnonzero(~test), np.flatnonzero(test)


def canonical_order(key: np.ndarray, content: Callable[[np.ndarray], np.ndarray], labels: np.ndarray) -> np.ndarray:
    """Indices that bring samples into one order, whatever order they come in.

    They are sorted by the numbers `key` (N,). Where those tell samples apart by rounding at most, as of an image and its mirror
    image, a fixed combination of their numbers `content(rows)` (k, d) decides, and then the label.
    """
    order = np.argsort(key, kind="stable")
    with np.errstate(invalid="ignore"):  # of infinite keys
        apart = np.diff(key[order]) > TIED * np.abs(key).max()
    group = np.empty(len(key), int)
    group[order] = np.concatenate([[0], np.cumsum(apart)])
    tied = np.flatnonzero(np.bincount(group)[group] > 1)
    mixed = np.zeros(len(key))
    if len(tied):
        numbers = content(tied)
        mixed[tied] = np.einsum("nd,d->n", numbers, np.cos(np.arange(1.0, numbers.shape[1] + 1)))
    return np.lexsort((labels, mixed, group))


def led_by(P: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Probabilities (N, n_classes) of which the largest one in every row belongs to the chosen class.

    Where another class is ahead, as votes and scores can disagree, the two exchange theirs; where another one is as probable,
    the chosen one is put ahead by the last digit, so that the first largest entry is its own.
    """
    rows, ahead = np.arange(len(P)), P.argmax(axis=1)
    P = P.copy()
    P[rows, ahead], P[rows, chosen] = P[rows, chosen], P[rows, ahead]
    tied = np.flatnonzero(P.argmax(axis=1) != chosen)
    P[tied, chosen[tied]] = np.nextafter(P[tied, chosen[tied]], 1.0)
    return P


def softmax(A: np.ndarray) -> np.ndarray:
    """Rows that sum to one, in the ratio of their exponentials."""
    E = np.exp(A - A.max(axis=1, keepdims=True))
    return E / E.sum(axis=1, keepdims=True)
