"""Computations as PyTorch modules that `torch.export` takes: reduced matrices, log-vectors, distances, scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from spdsl.backend.arrays import to_numpy
from spdsl.backend.extras import install_hint

Compute = Callable[..., Any]
TRAIN_BLOCK = 64  # training matrices that a batch is compared with at a time
DISTANCES = ("lem", "aim", "stein")


def module(name: str, compute: Compute, **parts: Any) -> Any:
    """A `torch.nn.Module` whose `forward(X)` is `compute(self, X)`.

    Arrays among the parts become buffers, lists lists of modules; what else they are, attributes.
    """
    return _module_class()(name, compute, parts)


@cache
def _module_class() -> Any:
    """The class, defined when first asked for: only then is torch imported."""
    torch = _torch()

    class SPDModule(torch.nn.Module):  # type: ignore[name-defined]
        """A computation on SPD matrices with fitted arrays as buffers."""

        def __init__(self, name: str, compute: Compute, parts: dict[str, Any]) -> None:
            super().__init__()
            self._called, self._compute = name, compute
            for key, part in parts.items():
                if isinstance(part, np.ndarray):
                    self.register_buffer(key, torch.from_numpy(np.array(part, order="C")))
                else:
                    setattr(self, key, torch.nn.ModuleList(part) if isinstance(part, list) else part)

        def _get_name(self) -> str:
            return self._called

        def forward(self, X: Any) -> Any:
            return self._compute(self, X)

    return SPDModule


def _torch() -> ModuleType:
    try:
        import torch
    except ImportError as error:
        raise ImportError(f"to_torch needs PyTorch: {install_hint('torch')}") from error
    return torch


def double_in(inner: Any) -> Any:
    """The module on X of any precision, in float64."""
    torch = _torch()
    return module("Float64", lambda self, X: self.inner(X.to(torch.float64)), inner=inner)


def reduction(W: Any) -> Any:
    """`W'XW` of X (N, n, n), or (N, b, n, n) for W (b, n, m)."""
    return module("Reduction", lambda self, X: _symmetric(self.W.mT @ (X @ self.W)), W=to_numpy(W))


def log_vectors(n: int, G: np.ndarray | None = None) -> Any:
    """Log-vectors of X (N, [b,] n, n), or of `G'XG` if those are n x n: upper triangles, off-diagonal entries times sqrt(2)."""
    row, column = np.triu_indices(n)
    weight = np.where(row == column, 1.0, math.sqrt(2.0))

    def compute(self: Any, X: Any) -> Any:
        if G is not None:
            X = _symmetric(self.G.mT @ (X @ self.G))
        return (_log(X)[..., self.row, self.column] * self.weight).flatten(1)

    arrays = {"row": row, "column": column, "weight": weight} | ({} if G is None else {"G": G})
    return module("LogVectors", compute, **arrays)


def affine(coef: np.ndarray, intercept: np.ndarray, mean: np.ndarray, scale: float = 1.0) -> Any:
    """`(V - mean) / scale @ coef' + intercept`."""

    def compute(self: Any, V: Any) -> Any:
        return (V - self.mean) / scale @ self.coef.mT + self.intercept

    coef = np.atleast_2d(coef)
    return module("Affine", compute, coef=coef, intercept=np.broadcast_to(intercept, len(coef)), mean=mean)


def gaussian_regression(centers: np.ndarray, width: float, coef: np.ndarray, intercept: np.ndarray) -> Any:
    """`exp(-|v - c|^2 / width) @ coef + intercept` over the centers c (T, d)."""
    exact = "donot_use_mm_for_euclid_dist"

    def compute(self: Any, V: Any) -> Any:
        d2 = _torch().cdist(V, self.centers, compute_mode=exact) ** 2
        return _torch().exp(-d2 / width) @ self.coef + self.intercept

    return module("GaussianRegression", compute, centers=centers, coef=coef, intercept=intercept)


def chain(name: str, *steps: Any) -> Any:
    """One module after the other."""

    def compute(self: Any, X: Any) -> Any:
        for step in self.steps:
            X = step(X)
        return X

    return module(name, compute, steps=list(steps))


def decision() -> Any:
    """Decision values (N, C) as they are, or (N,) from (N, 1)."""
    return module("Decision", lambda self, scores: scores[:, 0] if scores.shape[1] == 1 else scores)


def shares() -> Any:
    """Probabilities (N, C) from decision values (N, C), or from (N, 1) for two classes."""
    return module("Probabilities", lambda self, scores: _torch().exp(_log_shares(scores)))


def sure_shares(temperature: float, n_samples: float) -> Any:
    """Probabilities of scores (N, C), or of decision values (N, 1) for two classes, at an inverse temperature.

    A share of 1 / (N + 1) goes to all classes alike.
    """

    def compute(self: Any, scores: Any) -> Any:
        scores = _log_shares(scores) if scores.shape[1] == 1 else scores
        sure = _torch().softmax(temperature * scores, dim=1)
        return (n_samples * sure + 1 / sure.shape[1]) / (n_samples + 1)

    return module("Probabilities", compute)


def two_views(base: Any, learned: Any, scales: tuple[float, float]) -> Any:
    """Scores (N, C) of X of two kinds, each centered over the classes and scaled, added."""

    def compute(self: Any, X: Any) -> Any:
        return scales[0] * _centered(self.base(X)) + scales[1] * _centered(self.learned(X))

    return module("TwoViews", compute, base=base, learned=learned)


def _log_shares(decision: Any) -> Any:
    """Log probabilities (N, C) from decision values (N, C), or (N, 1) for two classes."""
    torch = _torch()
    if decision.shape[1] == 1:
        return torch.nn.functional.logsigmoid(torch.cat([-decision, decision], dim=1))
    return torch.log_softmax(decision, dim=1)


def _centered(A: Any) -> Any:
    return A - A.mean(dim=1, keepdim=True)


def squared_distances(metric: str, factors: list[np.ndarray], m: int) -> Any:
    """Squared distances (N, T) of P (N, [b,] m, m) to training matrices, for a metric of DISTANCES.

    `factors` has, for each of the b blocks, the logarithms of the training matrices (T, m * m) for "lem", their Cholesky
    factors for "aim", themselves for "stein".
    """
    torch = _torch()
    train = np.stack([to_numpy(part).reshape(-1, m, m) for part in factors], axis=1)
    if metric == "lem":
        exact = "donot_use_mm_for_euclid_dist"

        def compute(self: Any, P: Any) -> Any:
            logs = _log(P.reshape(P.shape[0], *self.stored.shape[1:]))
            return torch.cdist(logs.flatten(1), self.stored.flatten(1), compute_mode=exact) ** 2

        return module("SquaredDistances", compute, stored=train)
    L = np.linalg.cholesky(train) if metric == "stein" else train
    pairs = {"aim": _aim, "stein": _stein}[metric]

    def by_pairs(self: Any, P: Any) -> Any:
        own = torch.linalg.cholesky(P.reshape(P.shape[0], 1, *self.stored.shape[1:]))
        return torch.cat([pairs(own, part[None]).sum(dim=-1) for part in self.stored.split(TRAIN_BLOCK)], dim=1)

    return module("SquaredDistances", by_pairs, stored=L)


def _aim(A: Any, B: Any) -> Any:
    torch = _torch()
    A, B = torch.broadcast_tensors(A, B)
    s = torch.linalg.svdvals(torch.linalg.solve_triangular(B, A, upper=False))
    return ((2 * torch.log(s)) ** 2).sum(dim=-1)


def _stein(A: Any, B: Any) -> Any:
    torch = _torch()
    both = torch.linalg.cholesky((A @ A.mT + B @ B.mT) / 2)

    def logdet(L: Any) -> Any:
        return 2 * torch.log(torch.diagonal(L, dim1=-2, dim2=-1)).sum(dim=-1)

    return (logdet(both) - (logdet(A) + logdet(B)) / 2).clamp(min=0)


def nearest_scores(distances: Any, labels: np.ndarray, n_classes: int) -> Any:
    """Minus the least squared distance (N, C) to the training matrices of each class."""
    torch = _torch()
    members = [np.flatnonzero(labels == c) for c in range(n_classes)]

    def compute(self: Any, P: Any) -> Any:
        d2 = self.distances(P)
        columns = [
            d2[:, getattr(self, f"class{c}")].amin(dim=1) if len(own) else torch.full_like(d2[:, 0], math.inf)
            for c, own in enumerate(members)
        ]
        return -torch.stack(columns, dim=1)

    return module(
        "NearestNeighbor", compute, distances=distances, **{f"class{c}": own for c, own in enumerate(members)}
    )


def kernel_machine(
    distances: Any, beta: float, support: np.ndarray, coef: np.ndarray, intercept: np.ndarray, n_classes: int
) -> Any:
    """Decision values of a support vector machine on `exp(-beta d2)`: (N,) for two classes, (N, C) as in scikit-learn.

    `coef` (pairs, n_support) and `intercept` (pairs,) are those of the machines between classes i < j.
    """
    torch = _torch()
    pairs = [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]
    wins = np.zeros((len(pairs), n_classes))
    for k, (i, j) in enumerate(pairs):
        wins[k, i], wins[k, j] = 1, -1

    def compute(self: Any, P: Any) -> Any:
        K = torch.exp(-beta * self.distances(P)[:, self.support])
        between = K @ self.coef.mT + self.intercept
        if n_classes == 2:
            return between[:, 0]
        first = (between >= 0).to(K.dtype)  # a vote for i, otherwise for j; then the sums of the values decide
        votes = first @ self.wins.clamp(min=0) + (1 - first) @ (-self.wins).clamp(min=0)
        sums = between @ self.wins
        return votes + sums / (3 * (sums.abs() + 1))

    arrays = {"support": support.astype(np.int64), "coef": coef, "intercept": intercept, "wins": wins}
    return module("KernelMachine", compute, distances=distances, **arrays)


def _log(P: Any) -> Any:
    """Matrix logarithms, from Cholesky factors: their singular values have twice the digits of the eigenvalues."""
    torch = _torch()
    U, s, _ = torch.linalg.svd(torch.linalg.cholesky(P))
    return (U * (2 * torch.log(s)).unsqueeze(-2)) @ U.mT


def _symmetric(A: Any) -> Any:
    return (A + A.mT) / 2
