"""Learn a distance on digit image sets, and draw the similarities of unseen sets before and after (needs matplotlib).

python examples/learn_distances.py [figure.png]
"""

from __future__ import annotations

import sys

import matplotlib
import numpy as np

from spdsl import SPDSL, SPDNearestNeighbor, pairwise_sqdist
from spdsl.datasets import load_digit_sets

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main(path: str = "similarity.png") -> tuple[float, float]:
    X, y = load_digit_sets()
    rng = np.random.default_rng(2)
    drawn = [rng.permutation(np.flatnonzero(y == digit)) for digit in range(10)]
    train = np.concatenate([d[:4] for d in drawn])
    test = np.concatenate([d[4:14] for d in drawn])

    plain = SPDNearestNeighbor("lem").fit(X[train], y[train])
    model = SPDSL(n_components=20, metric="lem").fit(X[train], y[train])
    before, after = plain.score(X[test], y[test]), model.score(X[test], y[test])

    d2 = {"before": pairwise_sqdist(X[test], metric="lem"), "after": model.sqdist(X[test])}
    titles = {
        "before": f"log-Euclidean similarity\nnearest neighbour: {100 * before:.0f} % right",
        "after": f"similarity learned by SPDSL\nnearest neighbour: {100 * after:.0f} % right",
    }
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 4.6), layout="constrained")
    for axis, name in zip(axes, d2, strict=True):
        similarity = np.exp(-d2[name] / np.quantile(d2[name], 0.1))
        axis.imshow(similarity, cmap="magma", vmin=0, vmax=0.7)
        axis.set_title(titles[name], fontsize=11)
        axis.set_xticks(np.arange(5, 100, 10), range(10))
        axis.set_yticks(np.arange(5, 100, 10), range(10))
        axis.set_xlabel("digit shown in the image set")
    figure.suptitle("100 unseen image sets, sorted by digit: bright is similar", fontsize=12)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return before, after


if __name__ == "__main__":
    print("accuracy before {:.3f}, after {:.3f}".format(*main(*sys.argv[1:2])))
