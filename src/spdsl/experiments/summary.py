"""What a run found, in a few sentences, all of them computed."""

from __future__ import annotations

import numpy as np

from spdsl.experiments.results import Results
from spdsl.experiments.tables import REFERENCE, TableRow, make_table

BASELINE = "NN-LEM"  # the same distance and decision as `REFERENCE`, without learning
CLEAR = 0.05  # a p-value below which two methods count as different


def summarise(results: Results) -> list[str]:
    """Sentences: who is best and by how much, what learning gains, how near the published figures are, what failed."""
    rows = make_table(results)
    good = sorted((row for row in rows if row.mean is not None), key=lambda row: -(row.mean or 0))
    if not good:
        return ["Every method failed; the table says why."]
    by_name = {row.method: row for row in good}
    told = [_winner(results, good, by_name.get(REFERENCE))]
    plain = by_name.get(BASELINE)
    if plain is not None and plain.difference is not None:
        told.append(
            f"Learning {'gains' if plain.difference >= 0 else 'loses'} {abs(plain.difference):.1f} points against "
            f"{BASELINE}, the same distance and decision without it ({_p(plain.p)})."
        )
    told += _published(good)
    failed = sum(row.failed for row in rows)
    if failed:
        told.append(f"{failed} of {len(results.cells)} fits failed; the table marks them, and says why.")
    return told


def _winner(results: Results, good: list[TableRow], ours: TableRow | None) -> str:
    """Who is best, and where the proposed method stands."""
    first, rest = good[0], good[1:]
    over = f"Over {results.n_draws} draws" if results.n_draws > 1 else "In one draw"
    if not rest:
        return f"{over}, {first.method} recognises {first.mean:.2f} % of the test samples."
    level = [row.method for row in good if row.mean == first.mean]
    if len(level) > 1:
        names = ", ".join(level[:-1]) + f" and {level[-1]}" if len(level) < len(good) else f"all {len(good)} methods"
        told = f"{over}, {names} are level at the top: they recognise {first.mean:.2f} % of the test samples."
        return told if ours is None or ours.method in level else f"{told} {_behind(good, ours)}"
    begin = f"{over}, {first.method} is the best of {len(good)} methods: it recognises {first.mean:.2f} % of the test samples"
    if ours is None:
        return f"{begin}, {first.mean - rest[0].mean:.1f} points more than the next, {rest[0].method}."  # type: ignore[operator]
    if ours is first:
        following = rest[0]
        return f"{begin}, {following.difference:.1f} points more than the next, {following.method} ({_p(following.p)})."
    return f"{begin}. {_behind(good, ours)}"


def _behind(good: list[TableRow], ours: TableRow) -> str:
    """Where the proposed method stands when it is not first."""
    place = 1 + sum(row.mean > ours.mean for row in good)  # type: ignore[operator]
    points = -(good[0].difference or 0.0)
    return f"{REFERENCE} comes {_ordinal(place)} with {ours.mean:.2f} %, {points:.1f} points behind ({_p(good[0].p)})."


def _published(good: list[TableRow]) -> list[str]:
    """How near the paper's figures are."""
    gaps = [row.mean - row.published for row in good if row.mean is not None and row.published is not None]
    if not gaps:
        return []
    same = f"{len(gaps)} methods" if len(gaps) > 1 else "one method"
    return [
        f"The figures differ from the published ones by {np.mean(np.abs(gaps)):.1f} points on average over {same} "
        f"(from {min(gaps):+.1f} to {max(gaps):+.1f})."
    ]


def _p(p: float | None) -> str:
    """A p-value with its reading."""
    if p is None:
        return "one draw, so there is no test"
    said = "p < 0.001" if p < 0.001 else f"p = {p:.3f}"
    return said if p < CLEAR else f"{said}, no clear difference"


def _ordinal(k: int) -> str:
    words = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
    if k <= len(words):
        return words[k - 1]
    return f"{k}{'th' if k % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(k % 10, 'th')}"
