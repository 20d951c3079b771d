"""A metric, an objective, a method and a place for data that are not part of the package: one class each."""

import numpy as np

import spdsl
from spdsl.backend import namespace, symmetric
from spdsl.data import MemoryData, first_copies, search_blocks, upper_blocks
from spdsl.estimators import SPDNearestNeighbor


class LogDeterminant(spdsl.Metric):
    """Squared difference of log-determinants plus the squared Euclidean distance of the inverses."""

    name = "own-inverse"
    invariance = "orthogonal"

    def sqdist(self, A, B):
        xp = namespace(A)
        P, Q = xp.linalg.inv(A), xp.linalg.inv(B)
        return ((P[:, None] - Q[None]) ** 2).sum((-2, -1))

    def pairs(self, P, i, j):
        xp = namespace(P)
        inverse = xp.linalg.inv(P)
        D = inverse[i] - inverse[j]

        def pullback(c):
            # d|P_i^-1 - P_j^-1|^2 = -2 <P_i^-1 D P_i^-1, dP_i> + 2 <P_j^-1 D P_j^-1, dP_j>
            S = np.zeros(P.shape)
            weighted = 2 * c[:, None, None] * D
            np.add.at(S, i, -inverse[i] @ weighted @ inverse[i])
            np.add.at(S, j, inverse[j] @ weighted @ inverse[j])
            return S

        return (D**2).sum((-2, -1)), pullback


class Contrast(spdsl.Objective):
    """Mean distance of pairs within classes, minus the mean of a saturating distance of the others."""

    name = "own-contrast"

    def __call__(self, d2):
        same = self.graph.same
        far = np.exp(-self.beta * d2)
        value = d2[same].mean() * self.beta + far[~same].mean()
        slope = np.where(same, self.beta / same.sum(), -self.beta * far / (~same).sum())
        return float(value), slope


class Majority(SPDNearestNeighbor):
    """Three neighbors under a metric: a baseline of one's own."""

    def __init__(self, metric="lem", *, n_neighbors=3):
        super().__init__(metric, n_neighbors=n_neighbors)


class FromCholesky(MemoryData):
    """Samples that are stored as Cholesky factors, and formed when they are first checked."""

    def __init__(self, factors):
        super().__init__(factors)
        self.formed = False

    def check(self, name="X"):
        if not self.formed:
            self.X, self.formed = self.X @ self.X.mT, True
        super().check(name)


class Signals(spdsl.Data):
    """The covariances `S S' / t + ridge I` of signals S (n, t) of any lengths; products with W do not form them."""

    def __init__(self, signals, ridge=1e-3):
        self.signals, self.ridge = signals, ridge
        n = len(signals[0])
        self.shape, self.model = (len(signals), n, n), np.empty((0, n, n))
        self.calls = []

    def times(self, W):
        return np.stack([S @ (S.T @ W) / S.shape[1] + self.ridge * W for S in self.signals])

    def check(self, name="X"):
        self.calls.append("check")
        for k, S in enumerate(self.signals):
            if not np.isfinite(S).all():
                raise ValueError(f"{name}[{k}] has values that are not finite; leave it out")

    def to_device(self, device):
        return self

    def unit_mean(self):
        X = self.times(np.eye(self.shape[1]))
        return np.mean(X / np.trace(X, axis1=1, axis2=2)[:, None, None], axis=0)

    def first_copies(self):
        self.calls.append("first_copies")
        return first_copies(self.times(np.eye(self.shape[1])))

    def neighbors(self, metric, labels, capacities, *, measure, approximate):
        self.calls.append("neighbors")
        blocks = upper_blocks(self.times(np.eye(self.shape[1])), metric)
        return search_blocks(blocks, labels, capacities, measure=measure)

    def view(self, m):
        self.calls.append("view")
        return SignalsView(self)


class SignalsView:
    """Such covariances seen through W."""

    def __init__(self, data):
        self.data, self.passes, self.W = data, 0, None

    def start(self, W):
        if W is not self.W:
            self.W = W
            return self.refresh()
        return symmetric(W.T @ self.XW)

    def refresh(self):
        self.XW = self.data.times(self.W)
        self.passes += 1
        return symmetric(self.W.T @ self.XW)

    def look(self, H):
        self.H, self.XH = H, self.data.times(H)
        self.passes += 1
        cross = self.W.T @ self.XH
        return cross + cross.mT, symmetric(H.T @ self.XH)

    def step(self, t, right=None):
        W, XW = self.W + t * self.H, self.XW + t * self.XH
        self.W, self.XW = (W, XW) if right is None else (W @ right, XW @ right)
        return self.W

    def scale(self, factor):
        self.W, self.XW = factor * self.W, factor * self.XW
        return self.W

    def gradient(self, S):
        return 2 * np.sum(self.XW @ S, axis=0)


spdsl.register_metric(LogDeterminant)
spdsl.register_objective(Contrast)
spdsl.register_method(spdsl.Method("own-majority", "alternative", Majority, {"n_neighbors": (1, 3)}))
