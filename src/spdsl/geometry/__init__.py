"""Metrics, one file each, with one registry, and the manifolds of W."""

from spdsl.geometry.block_sum import BlockSum, metric_for, of_single
from spdsl.geometry.embedded import EmbeddedMetric
from spdsl.geometry.factorizations import NotPositiveDefiniteError
from spdsl.geometry.lower_bounds import LowerBound
from spdsl.geometry.manifolds import MANIFOLDS, Manifold
from spdsl.geometry.means import MEANS, geodesic, log_euclidean_mean, riemannian_mean
from spdsl.geometry.metric import Metric, Pullback
from spdsl.geometry.pairwise import PairwiseMetric
from spdsl.geometry.registry import METRICS, get_metric, register_metric
from spdsl.geometry.vectors import log_vectors

__all__ = [
    "MANIFOLDS",
    "MEANS",
    "METRICS",
    "BlockSum",
    "EmbeddedMetric",
    "LowerBound",
    "Manifold",
    "Metric",
    "NotPositiveDefiniteError",
    "PairwiseMetric",
    "Pullback",
    "geodesic",
    "get_metric",
    "log_euclidean_mean",
    "log_vectors",
    "metric_for",
    "of_single",
    "register_metric",
    "riemannian_mean",
]
