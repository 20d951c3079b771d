"""Small labeled SPD stacks for the estimator tests."""

import os

import numpy as np

import spdsl

LIBRARIES = [name.strip() for name in os.environ.get("SPDSL_TEST_ARRAYS", "numpy").split(",") if name.strip()]


def symmetric_exp(S):
    """Matrix exponentials of a stack of symmetric matrices."""
    w, V = np.linalg.eigh(S)
    return symmetric((V * np.exp(w)[:, None, :]) @ V.mT)


def symmetric(A):
    """Symmetric part, exactly symmetric in floating point."""
    return (A + A.mT) / 2


def random_spd(count, n, *, spread=0.5, seed=0):
    """`count` SPD matrices n x n, exponentials of symmetric noise."""
    rng = np.random.default_rng(seed)
    return symmetric_exp(spread * symmetric(rng.standard_normal((count, n, n))))


def labeled(count=30, n=6, n_classes=3, *, signal=0.8, noise=0.6, seed=0):
    """SPD matrices whose logarithms carry the class in the first n // 2 directions and noise everywhere.

    Returns X (count, n, n) and y (count,), classes in turn.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(count) % n_classes
    centers = symmetric(rng.standard_normal((n_classes, n, n)))
    centers[:, n // 2 :, :] = centers[:, :, n // 2 :] = 0
    S = signal * centers[y] + noise * symmetric(rng.standard_normal((count, n, n)))
    return symmetric_exp(S), y


def smallest_eigenvalue(P):
    """Over the whole stack."""
    return float(np.linalg.eigvalsh(np.asarray(P)).min())


def make_spd(rng: np.random.Generator, N: int, n: int, condition: float = 30.0) -> np.ndarray:
    """N random SPD matrices (N, n, n) with log-spaced eigenvalues, the largest near 1, and random eigenvectors."""
    V = np.linalg.qr(rng.standard_normal((N, n, n)))[0]
    w = np.logspace(0, -np.log10(condition), n) * rng.uniform(0.7, 1.4, (N, n))
    X = (V * w[:, None, :]) @ V.mT
    return (X + X.mT) / 2


def aligned(*args, **params):
    """SPDSL as the paper has it: alignment from a start at the principal directions, and the nearest neighbor."""
    usual = {"objective": "alignment", "classifier": "nn", "max_iter": 100, "solver": {"init": "pca"}}
    if isinstance(params.get("solver"), dict):
        params["solver"] = usual["solver"] | params["solver"]
    return spdsl.SPDSL(*args, **usual | params)
