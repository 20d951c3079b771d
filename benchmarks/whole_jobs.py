"""Sections of `bench.py` on whole jobs: neighbors under AIM, fits with their graphs, tuning, a table."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bench import Rows, clocked, interleaved, row
from problems import make
from spdsl import METHODS, SPDSL, SPDNearestNeighbor, compare, tune
from spdsl.data import MemoryData
from spdsl.estimators import nearest
from spdsl.evaluation.splits import make_folds
from spdsl.geometry import METRICS


def aim_neighbors(repeats: int, tiny: bool) -> Rows:
    """Nearest neighbors under AIM beside all pairs, ours and pyRiemann's, and the share of pairs that are computed."""
    from pyriemann.classification import KNearestNeighbor
    from pyriemann.geometry.distance import pairwise_distance

    X, y, T = real_or_synthetic(tiny)
    aim, k = METRICS["aim"], 10
    labels = np.unique(y, return_inverse=True)[1]
    found: dict[str, Any] = {}

    def keep(name: str, work: Callable[[], Any]) -> Callable[[], float]:
        return clocked(lambda: found.update({name: work()}))

    def graph(name: str, measure: bool) -> Callable[[], float]:
        # with the mean distance all pairs are needed, and computed
        ask = {"measure": measure, "approximate": False}
        return keep(name, lambda: MemoryData(X).neighbors(aim, labels, (k, k), **ask))

    own = interleaved(
        {
            "ours": keep("ours", lambda: SPDNearestNeighbor("aim").fit(X, y).kneighbors(T)),
            "all": keep("all", lambda: all_pairs(X, y, T)),
            "graph": graph("graph", False),
            "graph, all pairs": graph("graph, all pairs", True),
        },
        max(1, repeats - 4),
    )
    peer = interleaved({"pairwise": keep("pairwise", lambda: pairwise_distance(T, X, metric="riemann"))}, 1)["pairwise"]
    few = T[:: max(1, len(T) // 20)]
    knn = KNearestNeighbor(1, metric="riemann", n_jobs=1).fit(X, y)
    their = [s * len(T) / len(few) for s in interleaved({"knn": clocked(lambda: knn.predict(few))}, 1)["knn"]]
    (d2, index), (all_d2, all_index) = found["ours"], found["all"]
    same = np.array_equal(index, all_index) and np.array_equal(found["pairwise"].argmin(axis=1), index[:, 0])
    gap = float(np.abs(d2 - all_d2).max())
    equal = all(
        np.array_equal(getattr(found["graph"], kind).index, getattr(found["graph, all pairs"], kind).index)
        for kind in ("within", "between")
    )
    size = f"{len(X)} + {len(T)} of {X.shape[1]} x {X.shape[1]}"
    rows = [
        row(
            f"NN-AIM, {size}",
            own["ours"],
            note=f"indices {'identical' if same else 'DIFFER'}, distances {'identical' if gap == 0 else f'within {gap:.0e}'}",
        ),
        row("our all pairs: over it", own["all"], own["ours"], ">= 15"),
        row("pyRiemann pairwise_distance: over it", peer, own["ours"][:1], ">= 30"),
        row(f"pyRiemann KNearestNeighbor, scaled from {len(few)}: over it", their, own["ours"][:1]),
        row(f"AIM graph, v_w = v_b = {k}", own["graph"], note="neighbors " + ("identical" if equal else "DIFFER")),
        row("all pairs: over it", own["graph, all pairs"], own["graph"], ">= 5"),
    ]
    return [*rows, *shares(tiny)]


def all_pairs(X: np.ndarray, y: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nearest neighbors from the distances of all pairs."""
    worth, nearest.WORTH = nearest.WORTH, float("inf")
    try:
        d2, index = SPDNearestNeighbor("aim").fit(X, y).kneighbors(T)
        return d2, index
    finally:
        nearest.WORTH = worth


def real_or_synthetic(tiny: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The hand actions of fpha where they are at hand, else matrices of their size."""
    if os.environ.get("SPDSL_DATA") and not tiny:
        from realdata import splits

        split = next(splits("fpha"))
        return split.X_train, split.y_train, split.X_test
    X, y = make(*((90, 8) if tiny else (1170, 63)))
    half = len(X) // 2
    return X[:half], y[:half], X[half:]


def shares(tiny: bool) -> Rows:
    """What share of the pairs is computed to find 1 and 10 nearest training matrices on real sets."""
    if tiny or not os.environ.get("SPDSL_DATA"):
        return [{"what": "share of pairs computed on real sets", "note": "needs SPDSL_DATA"}]
    from realdata import REAL_SETS

    aim, rows = METRICS["aim"], []
    kind = type(aim)
    matched = kind.matched
    for name in ("fpha", "eeg7", "florence", "hdm05_half", "kylberg", "uav"):
        data = REAL_SETS[name](1)
        train, test = (part[:600] for part in data.draws[0])
        said = []
        for k in (1, 10):
            count = [0]

            def counted(self: Any, FA: Any, i: Any, FB: Any, j: Any, count: list[int] = count) -> Any:
                count[0] += len(i)
                return matched(self, FA, i, FB, j)

            kind.matched = counted
            try:
                SPDNearestNeighbor("aim", n_neighbors=k).fit(data.X[train], data.y[train]).kneighbors(data.X[test])
            finally:
                kind.matched = matched
            said.append(f"{count[0] / (len(train) * len(test)):.1%} for {k} nearest")
        n = data.X.shape[1]
        rows.append(
            {"what": f"{name}, {len(train)} + {len(test)} of {n} x {n}: pairs computed", "note": ", ".join(said)}
        )
    return rows


def trials(tiny: bool) -> tuple[np.ndarray, np.ndarray]:
    """The first EEG session of subject 7 where it is at hand, else matrices of its size."""
    if os.environ.get("SPDSL_DATA") and not tiny:
        from realdata import REAL_SETS

        data = REAL_SETS["eeg7"](1)
        train = data.draws[0][0]
        return data.X[train], data.y[train]
    return make(*((40, 8) if tiny else (288, 22)))


def tuning(repeats: int, tiny: bool) -> Rows:
    """`tune` beside GridSearchCV on the same estimator and folds."""
    from sklearn.model_selection import GridSearchCV

    X, y = trials(tiny)
    method = METHODS["SPDSL-LEM+head"]
    model, grid = method.unfitted(None, 0), method.grid_at(None, X.shape[1])
    if tiny:
        grid = grid | {"max_iter": (5, 2), "n_components": (2,)}
    folds = make_folds(y, 5, 0)
    search = GridSearchCV(model, {name: list(values) for name, values in grid.items()}, cv=folds, refit=False)
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds = interleaved(
            {
                "ours": clocked(lambda: found.update(ours=tune(model, grid, X, y))),
                "theirs": clocked(lambda: found.update(theirs=search.fit(X, y))),
            },
            1,
        )
    choice = "same choice" if found["ours"].params == found["theirs"].best_params_ else "OTHER choice"
    same = f"{choice}; score {found['ours'].score:.3f}, theirs {found['theirs'].best_score_:.3f}"
    return [
        row(f"tune SPDSL-LEM+head, {len(X)} matrices {X.shape[1]} x {X.shape[1]}", seconds["ours"], note=same),
        row("GridSearchCV, the same grid and folds: over it", seconds["theirs"], seconds["ours"]),
    ]


def whole(repeats: int, tiny: bool) -> Rows:
    """Whole fits with their graphs, and a small table."""
    X, y = make(*((40, 8) if tiny else (400, 63)))
    rows = []
    for metric in ("lem", "aim", "stein"):
        model = SPDSL(
            metric=metric, objective="alignment", n_within=3, n_between=3, max_iter=3 if tiny else 50, tol=0.0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            seconds = interleaved({metric: clocked(lambda model=model: model.fit(X, y))}, max(1, repeats - 3))[metric]
        rows.append(
            row(f"SPDSL-{metric.upper()}, {model.max_iter} iterations, {len(X)} x {X.shape[1]} x {X.shape[1]}", seconds)
        )
    few = X[: 40 if tiny else 100]
    names = ["NN-AIM", "NN-LEM", "CDL", "RSR", "SPDSL-LEM"]
    labels = np.arange(len(few)) % (
        4 if tiny else 10
    )  # three folds of every class of a half need more than the three a class of `make`
    took = clocked(lambda: compare(few, labels, names, splits=1, n_folds=3, n_jobs=1, verbose=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows.append(row(f"a table of {len(names)} methods, tuned, {len(few)} matrices", [took()]))
    return rows
