"""Predictions against labels: accuracy, confusion, and a line per class; samples without a label are not counted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spdsl.data.labels import is_unlabeled


@dataclass(frozen=True)
class Counts:
    """How often each class was predicted for each label.

    Attributes
    ----------
    names : list
        Classes of the model, then labels that it does not know, which cannot be predicted.
    known : int
        Number of labeled samples whose label is a class of the model.
    unlabeled : int
        Number of samples without a label.
    confusion : ndarray of int (n_names, n_names)
        Rows are labels, columns predictions.
    """

    names: list[Any]
    known: int
    unlabeled: int
    confusion: np.ndarray

    @property
    def total(self) -> int:
        """Number of labeled samples."""
        return int(self.confusion.sum())

    @property
    def hits(self) -> int:
        """Number of correct predictions."""
        return int(np.trace(self.confusion))

    @property
    def accuracy(self) -> float:
        """Share of the labeled samples that is correct."""
        return self.hits / self.total if self.total else float("nan")

    @cached_property
    def classes(self) -> list[dict[str, Any]]:
        """For each label that occurs or is predicted: samples, recall, precision, and what it is mostly mistaken for."""
        rows = []
        for k, name in enumerate(self.names):
            of, as_it = int(self.confusion[k].sum()), int(self.confusion[:, k].sum())
            if not of and not as_it:
                continue
            wrong = self.confusion[k].copy()
            wrong[k] = 0
            rows.append(
                {
                    "class": name,
                    "samples": of,
                    "recall": float(self.confusion[k, k] / of) if of else None,
                    "precision": float(self.confusion[k, k] / as_it) if as_it else None,
                    "mistaken_for": self.names[int(wrong.argmax())] if wrong.any() else None,
                    "times": int(wrong.max()),
                }
            )
        return rows

    @property
    def balanced_accuracy(self) -> float:
        """Mean recall of the labels that occur."""
        recalls = [row["recall"] for row in self.classes if row["recall"] is not None]
        return float(np.mean(recalls)) if recalls else float("nan")

    def words(self) -> str:
        """The accuracy as a line."""
        left = f"; {self.unlabeled} unlabeled, not counted" if self.unlabeled else ""
        return f"accuracy {100 * self.accuracy:.1f} % ({self.hits} of {self.total}{left})"

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        return {
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced_accuracy,
            "samples": self.total,
            "correct": self.hits,
            "unlabeled": self.unlabeled,
            "unknown_labels": self.total - self.known,
            "classes": self.classes,
            "labels": self.names,
            "confusion": self.confusion.tolist(),
        }


def count_hits(truth: np.ndarray, predicted: np.ndarray, classes: np.ndarray) -> Counts:
    """Count predictions (N,) against labels (N,), some of which may be missing.

    Labels are compared as text where only one side is numbers: a folder named 3 is the class 3. The label -1 is a missing
    one, as in scikit-learn, unless it is a class.
    """
    numbers = truth.dtype.kind in "biuf" and classes.dtype.kind in "biuf"

    def name(label: Any) -> Any:
        return label if numbers or isinstance(label, str) else str(label)

    known = [name(label) for label in classes.tolist()]
    missing = is_unlabeled(truth)
    if not {"-1", "-1.0"} & set(map(str, known)):
        missing |= np.array([str(label).strip() in ("-1", "-1.0") for label in truth.tolist()], dtype=bool)
    labels = [name(label) for label in truth[~missing].tolist()]
    others = sorted(set(labels) - set(known), key=str)
    at = {label: k for k, label in enumerate([*known, *others])}
    confusion = np.zeros((len(at), len(at)), dtype=int)
    for label, guess in zip(labels, predicted[~missing].tolist(), strict=True):
        confusion[at[label], at[name(guess)]] += 1
    return Counts(list(at), int(confusion[: len(known)].sum()), int(missing.sum()), confusion)
