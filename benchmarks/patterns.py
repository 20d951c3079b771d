"""Patterns against the sources of a simulation with known mixing, and against each other from random starts.

    python benchmarks/patterns.py [--tiny]

22 channels see 22 sources through a random mixing matrix; the variance of the first 4 differs between two classes by the
factor `gain` either way, and every source varies from trial to trial. Printed is the largest principal angle, in degrees,
between the span of the true patterns and that of CSP (pyRiemann), of SPDSL as it is by default, with a wide similarity, and
of the leading columns of one with twice as many components.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Iterator

import numpy as np
from pyriemann.spatialfilters import CSP
from scipy.linalg import subspace_angles
from sklearn.exceptions import ConvergenceWarning

from spdsl import SPDSL, Recenter

SOURCES = 4
STARTS = 6
SAME_COST = 1e-6
LEARNERS = {
    "default": SPDSL(SOURCES, classifier="lda"),
    "beta_scale=0.1": SPDSL(SOURCES, beta_scale=0.1, classifier="lda"),
    "8 components, beta_scale=0.1": SPDSL(2 * SOURCES, beta_scale=0.1, classifier="lda"),
}


def simulate(
    rng: np.random.Generator, *, trials: int, gain: float, channels: int = 22, samples: int = 250
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariances (trials, n, n), their classes, and the true patterns (n, SOURCES)."""
    mixing = rng.standard_normal((channels, channels)) / np.sqrt(channels)
    y = np.arange(trials) % 2
    power = np.exp(rng.standard_normal((trials, channels)) * np.where(np.arange(channels) < SOURCES, 0.3, 0.5))
    up = np.arange(SOURCES) % 2 == y[:, None]
    power[:, :SOURCES] *= np.where(up, gain, 1 / gain)
    Z = mixing @ (rng.standard_normal((trials, channels, samples)) * np.sqrt(power)[:, :, None])
    return Z @ Z.mT / samples, y, mixing[:, :SOURCES]


def angle(A: np.ndarray, B: np.ndarray) -> float:
    """Largest principal angle between two spans, in degrees."""
    return float(np.degrees(subspace_angles(A, B).max()))


def columns_apart(A: np.ndarray, B: np.ndarray) -> float:
    """Largest angle between columns of the same place, in degrees; signs count."""
    cosine = np.sum(A * B, axis=0) / np.linalg.norm(A, axis=0) / np.linalg.norm(B, axis=0)
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))).max())


def against_the_truth(seeds: int, trials: int) -> Iterator[str]:
    yield f"| gain | seed | CSP | {' | '.join(LEARNERS)} |"
    yield "|---" * (3 + len(LEARNERS)) + "|"
    for gain, seed in itertools.product((2.0, 1.5), range(seeds)):
        X, y, truth = simulate(np.random.default_rng(seed), trials=trials, gain=gain)
        csp = CSP(nfilter=SOURCES).fit(X, y)
        found = [angle(csp.patterns_.T, truth)]
        found += [angle(model.fit(X, y).patterns_[:, :SOURCES], truth) for model in LEARNERS.values()]
        yield f"| {gain} | {seed} | {' | '.join(f'{a:.1f}' for a in found)} |"


def from_random_starts(seeds: int, trials: int, starts: int) -> Iterator[str]:
    for metric, seed in itertools.product(("aim", "stein", "lem"), range(seeds)):
        X, y, _ = simulate(np.random.default_rng(seed), trials=trials, gain=2.0)
        X = Recenter().fit_transform(X)  # from a random start without it, thousands of iterations under LEM
        options = {"metric": metric, "beta": 0.05, "max_iter": 500, "tol": 1e-11, "classifier": "lda"}
        models = [SPDSL(SOURCES, **options, solver={"init": "random"}, random_state=k).fit(X, y) for k in range(starts)]
        pairs = [
            (a, b) for a, b in itertools.combinations(models, 2) if abs(a.cost_ - b.cost_) <= SAME_COST * abs(a.cost_)
        ]
        apart = max((columns_apart(a.patterns_, b.patterns_) for a, b in pairs), default=float("nan"))
        yield (
            f"{metric}, seed {seed}: {len(pairs)} of {starts * (starts - 1) // 2} pairs of starts reach one cost; their "
            f"patterns differ by at most {apart:.3f} degrees a column"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="run in seconds, to see that it runs")
    tiny = parser.parse_args().tiny
    warnings.simplefilter("ignore", ConvergenceWarning)
    seeds, trials, starts = (1, 30, 2) if tiny else (5, 200, STARTS)
    for line in itertools.chain(against_the_truth(seeds, trials), from_random_starts(min(seeds, 2), trials, starts)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
