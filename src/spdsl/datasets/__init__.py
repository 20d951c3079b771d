"""Data as SPD stacks with labels."""

from spdsl.datasets.digits import load_digit_sets

__all__ = ["load_digit_sets"]
