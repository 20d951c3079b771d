"""Predictions against labels, some of which are missing."""

import numpy as np
import pytest

from spdsl.evaluation.counts import count_hits


@pytest.mark.parametrize(
    "truth",
    [
        np.array(["a", "b", "", "b"]),
        np.array(["a", "b", "  ", "b"]),
        np.array(["a", "b", "-1", "b"]),
        *(np.array(["a", "b", missing, "b"], dtype=object) for missing in (None, np.nan, -1, "")),
    ],
    ids=repr,
)
def test_samples_without_a_label_are_counted_apart(truth):
    counts = count_hits(truth, np.array(["a", "b", "a", "b"]), np.array(["a", "b"]))
    assert counts.words() == "accuracy 100.0 % (3 of 3; 1 unlabeled, not counted)"


@pytest.mark.parametrize("kind", [int, float, str, object])
def test_minus_one_is_a_label_where_it_is_a_class(kind):
    truth, classes = np.array([1, -1, 1, -1]).astype(kind), np.array([-1, 1])
    counts = count_hits(truth, np.array([1, -1, -1, -1]), classes)
    assert counts.words() == "accuracy 75.0 % (3 of 4)"
    counts = count_hits(truth, np.array([1, 0, 1, 0]), np.array([0, 1]))
    assert (counts.total, counts.unlabeled) == (2, 2)
