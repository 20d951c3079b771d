"""The columns of W made comparable: a basis that does not depend on what the metric cannot see."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spdsl import backend
from spdsl.backend import Array, namespace
from spdsl.geometry.joint_diagonal import joint_rotation


class Seen(NamedTuple):
    """What a fit keeps of its training matrices to give the columns of W a meaning.

    Attributes
    ----------
    filtered : (n, m) or (b, n, m)
        `C W` with the mean C of the training matrices.
    classes : (n_classes, m, m) or (n_classes, b, m, m)
        Mean of the reduced matrices of each class.
    shares : (n_classes,)
        Part of the training samples in each class.
    """

    filtered: np.ndarray
    classes: np.ndarray
    shares: np.ndarray


class Basis(NamedTuple):
    """Filters and patterns (n, m) or (b, n, m), column by column, and how much each tells the classes apart."""

    filters: np.ndarray
    patterns: np.ndarray
    power: np.ndarray


def class_means(P: Array, labels: np.ndarray, weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the matrices P (N, [b,] m, m) of each class, and the share of each class in the samples."""
    w = np.ones(len(labels)) if weight is None else weight
    share = np.zeros((int(labels.max()) + 1, len(labels)))
    share[labels, np.arange(len(labels))] = w
    total = share.sum(axis=1)
    rows = backend.like(share / total[:, None], P) @ namespace(P).reshape(P, (P.shape[0], -1))
    return backend.to_numpy(rows).reshape(-1, *P.shape[1:]), total / total.sum()


def canonical_basis(W: np.ndarray, seen: Seen, invariance: str) -> Basis:
    """The basis of `filters_` and `patterns_`, for each block by itself."""
    if W.ndim == 2:
        return _canonical(W, seen.filtered, seen.classes, seen.shares, invariance)
    parts = [_canonical(W[k], seen.filtered[k], seen.classes[:, k], seen.shares, invariance) for k in range(W.shape[0])]
    return Basis(*(np.stack(same) for same in zip(*parts, strict=True)))


def _canonical(W: np.ndarray, CW: np.ndarray, P: np.ndarray, shares: np.ndarray, invariance: str) -> Basis:
    mean = np.tensordot(shares, P, axes=1)  # W'CW
    T = _unit(mean, invariance)
    Q = T.T @ P @ T
    if invariance != "none":
        T = T @ joint_rotation(np.sqrt(shares)[:, None, None] * (Q - np.tensordot(shares, Q, axes=1)))
    spread = np.log(np.einsum("km,ckl,lm->cm", T, P, T))
    power = shares @ (spread - shares @ spread) ** 2
    T = T[:, np.argsort(-power, kind="stable")]
    patterns = np.linalg.solve(T.T @ mean @ T, (CW @ T).T).T
    largest = np.abs(patterns).argmax(axis=0)
    sign = np.sign(patterns[largest, np.arange(T.shape[1])])
    return Basis(W @ T * sign, patterns * sign, np.sort(power)[::-1])


def _unit(mean: np.ndarray, invariance: str) -> np.ndarray:
    """The T that makes the mean of the reduced matrices the identity; only of its size, where the metric sees more."""
    if invariance == "linear":
        w, V = np.linalg.eigh((mean + mean.T) / 2)
        return (V / np.sqrt(w)) @ V.T
    return np.eye(len(mean)) * np.sqrt(len(mean) / np.trace(mean))
