"""SPDNet of spd_learn as a classifier, for accuracy.py: one layer, the same settings for every set.

python benchmarks/spdnet_peer.py uav --seeds 0 1 2     # accuracy of every seed on the first draw, and their mean
"""

from __future__ import annotations

import argparse
import time
from typing import Self

import numpy as np

EPOCHS, BATCH, RATE, FLOOR = 60, 32, 5e-3, 1e-4


class SPDNetClassifier:
    """BiMap n -> max(n / 2, min(n, 20)), rectified eigenvalues, logarithm, linear layer; Adam; untuned, on CPU.

    Matrices are divided by their mean eigenvalue.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        import torch
        from spd_learn.models import SPDNet

        torch.set_num_threads(1)
        torch.manual_seed(self.seed)
        n = X.shape[-1]
        self.classes_, labels = np.unique(y, return_inverse=True)
        self._net = SPDNet(
            input_type="cov",
            subspacedim=max(min(n, 20), n // 2),
            threshold=FLOOR,
            n_chans=n,
            n_outputs=len(self.classes_),
        ).double()
        optimizer = torch.optim.Adam(self._net.parameters(), lr=RATE)
        A, target = self._scaled(X), torch.as_tensor(labels)
        order = torch.Generator().manual_seed(self.seed)
        self._net.train()
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(A), generator=order).split(BATCH):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(self._net(A[batch]), target[batch]).backward()
                optimizer.step()
        self._net.eval()
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        import torch

        with torch.no_grad():
            return self.classes_[self._net(self._scaled(X)).argmax(dim=1).numpy()]

    def _scaled(self, X: np.ndarray):
        import torch

        return torch.as_tensor(X / np.trace(X, axis1=1, axis2=2)[:, None, None] * X.shape[-1])


def main() -> None:
    from realdata import REAL_SETS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=REAL_SETS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    data = REAL_SETS[options.set](1)
    train, test = data.draws[0]
    found = []
    for seed in options.seeds:
        began = time.perf_counter()
        model = SPDNetClassifier(seed).fit(data.X[train], data.y[train])
        found.append(100 * float(np.mean(model.predict(data.X[test]) == data.y[test])))
        print(f"seed {seed}: {found[-1]:.2f} ({time.perf_counter() - began:.0f} s)", flush=True)
    print(f"{options.set}: mean {np.mean(found):.2f} over {len(found)} seeds")


if __name__ == "__main__":
    main()
