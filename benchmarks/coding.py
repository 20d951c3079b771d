"""Coding 500 test matrices over a dictionary of 500, beside computing their Stein kernel.

python benchmarks/coding.py [--tiny]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from spdsl import pairwise_sqdist
from spdsl.baselines.lasso import lasso_gram


def quickest(work: Callable[[], Any], repeats: int = 3) -> tuple[Any, float]:
    """What the work returns, and its best time."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        value = work()
        seconds.append(time.perf_counter() - began)
    return value, min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true")
    N, sizes = (20, (10,)) if parser.parse_args().tiny else (500, (10, 20, 30, 60))
    print(f"{N} matrices over a dictionary of {N}; seconds, best of 3, and the ratio coding / kernel")
    print(f"{'n':>4}{'Stein kernel':>14}" + "".join(f"{f'penalty {p:g}':>22}" for p in (0.1, 0.01, 0.001)))
    for n in sizes:
        frames = np.random.default_rng(6).standard_normal((2 * N, n, 2 * n)) * (1 + np.arange(n)[:, None] / 10)
        X = frames @ frames.mT / (2 * n)
        S, kernel = quickest(lambda X=X: pairwise_sqdist(X[N:], X[:N], metric="stein"))
        K = np.exp(-pairwise_sqdist(X[:N], metric="stein") / S.mean())
        C = np.exp(-S / S.mean()).T
        line = f"{n:>4}{kernel:>14.2f}"
        for penalty in (0.1, 0.01, 0.001):
            _, coding = quickest(lambda K=K, C=C, penalty=penalty: lasso_gram(K, C, np.ones(N), penalty))
            line += f"{f'{coding:.2f}   {coding / kernel:.2f}':>22}"
        print(line)


if __name__ == "__main__":
    main()
