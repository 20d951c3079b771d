"""Which method is best over several data sets, by mean ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spdsl.evaluation.compare import Comparison, compare
from spdsl.evaluation.results import unit_of
from spdsl.evaluation.statistics import Ranking, rank_methods
from spdsl.evaluation.text import markdown


@dataclass(frozen=True)
class ManyComparison:
    """What `compare_many` returns.

    Attributes
    ----------
    comparisons : dict
        Name of the data set to its Comparison.
    methods : list of str
        Those that every set has a score of.
    scores : (n_sets, n_methods)
        Means of the first score.
    ranking : Ranking
        Mean ranks, Friedman's test, critical difference.

    Examples
    --------
    >>> import spdsl
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> sets = {"even": (X[::16], y[::16]), "odd": (X[1::16], y[1::16])}
    >>> many = spdsl.compare_many(sets, ["NN-LEM", "CDL"], splits=2, tune=False, verbose=False)
    >>> many.scores.shape
    (2, 2)
    """

    comparisons: dict[str, Comparison]
    methods: list[str]
    scores: np.ndarray
    ranking: Ranking

    def to_markdown(self) -> str:
        """Means by data set, mean ranks and the test."""
        head = ["data set", *map(markdown, self.methods)]
        unit = unit_of(next(iter(self.comparisons.values())).results.scoring[0])
        lines = [
            [markdown(name), *(f"{unit * v:.2f}" for v in row)]
            for name, row in zip(self.comparisons, self.scores, strict=True)
        ]
        lines.append(["mean rank", *(f"{rank:.2f}" for rank in self.ranking.ranks)])
        table = ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines)]
        return "\n".join([*table, "", self.verdict()]) + "\n"

    def __str__(self) -> str:
        return self.to_markdown()

    def verdict(self) -> str:
        """The test in a sentence."""
        if self.ranking.p is None or self.ranking.critical_difference is None:
            return "No test: it takes five data sets and two methods."
        return (
            f"Friedman test (Iman and Davenport): p = {self.ranking.p:.3g}; mean ranks that differ by more than "
            f"{self.ranking.critical_difference:.2f} differ at the 5 percent level (Nemenyi)."
        )

    def draw(self) -> Any:
        """The mean ranks as a matplotlib figure; methods under one bar do not differ at the 5 percent level."""
        from spdsl.evaluation.figures import draw_ranks, styled

        with styled():
            return draw_ranks(self.methods, self.ranking)


def compare_many(
    datasets: Mapping[str, Any], methods: Any = "all", *, folder: str | Path | None = None, **options: Any
) -> ManyComparison:
    """Compare methods over several data sets by their mean ranks (Demsar 2006).

    Parameters
    ----------
    datasets : mapping
        Name to (X, y) or (X, y, groups).
    methods, options
        As in `compare`, for every set.
    folder : path, optional
        Keeps finished cells of all sets.

    Examples
    --------
    >>> import spdsl
    >>> from spdsl.datasets import load_digit_sets
    >>> X, y = load_digit_sets()
    >>> sets = {"even": (X[::16], y[::16]), "odd": (X[1::16], y[1::16])}
    >>> ranks = spdsl.compare_many(sets, ["NN-LEM", "CDL"], splits=2, n_folds=2, n_jobs=1)
    >>> ranks.methods, ranks.ranking.ranks
    (['NN-LEM', 'CDL'], array([2., 1.]))
    """
    if not isinstance(datasets, Mapping):
        raise ValueError(f"datasets must map names to (X, y) or (X, y, groups), got {type(datasets).__name__}")
    if not datasets:
        raise ValueError("datasets is empty: map names to (X, y) or (X, y, groups)")
    found: dict[str, Comparison] = {}
    for name, content in datasets.items():
        if not isinstance(content, tuple | list) or len(content) not in (2, 3):
            raise ValueError(f"datasets[{name!r}] must be (X, y) or (X, y, groups)")
        own = {"groups": content[2]} if len(content) == 3 else {}
        found[str(name)] = compare(content[0], content[1], methods, folder=folder, **(options | own))
    first = next(iter(found.values())).results.scoring[0]
    means = [{row.method: row.scores[first] for row in c.rows if not row.failed} for c in found.values()]
    names = [row.method for row in next(iter(found.values())).rows if all(row.method in known for known in means)]
    if not names:
        raise ValueError("no method has a score on every data set")
    scores = np.array([[known[name] for name in names] for known in means])
    return ManyComparison(found, names, scores, rank_methods(scores))
