"""Squared distances between SPD matrices, and their exact derivatives: one class a metric, one registry `METRICS`."""

from __future__ import annotations

from spdsl.metrics.base import Metric, Pullback
from spdsl.metrics.coupled import AffineInvariant, BuresWasserstein, Jeffreys, Stein
from spdsl.metrics.factors import NotPositiveDefiniteError
from spdsl.metrics.flat import Cholesky, Euclidean, FlatMetric, LogCholesky, LogEuclidean, PowerEuclidean

__all__ = ["METRICS", "FlatMetric", "Metric", "NotPositiveDefiniteError", "Pullback", "get_metric"]

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        AffineInvariant(),
        Stein(),
        LogEuclidean(),
        Jeffreys(),
        Cholesky(),
        LogCholesky(),
        PowerEuclidean(),
        BuresWasserstein(),
        Euclidean(),
    )
}


def get_metric(metric: str | Metric) -> Metric:
    """Return the metric of that name or alias; a `Metric` is returned as it is."""
    if isinstance(metric, Metric):
        return metric
    for candidate in METRICS.values():
        if metric == candidate.name or metric in candidate.aliases:
            return candidate
    raise ValueError(f"unknown metric {metric!r}; choose one of {', '.join(map(repr, METRICS))}")
