"""The metrics by name: built-in and registered ones."""

from __future__ import annotations

from spdsl.backend.extras import load_named_plugins
from spdsl.geometry.aim import AffineInvariant
from spdsl.geometry.cholesky import Cholesky
from spdsl.geometry.euclid import Euclidean
from spdsl.geometry.jeffreys import Jeffreys
from spdsl.geometry.lem import LogEuclidean
from spdsl.geometry.log_cholesky import LogCholesky
from spdsl.geometry.metric import Metric
from spdsl.geometry.power import PowerEuclidean
from spdsl.geometry.stein import Stein
from spdsl.geometry.wasserstein import BuresWasserstein

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


def register_metric(metric: Metric) -> Metric:
    """Add a metric to `spdsl.METRICS`, under its name and aliases.

    It can then be used by name wherever a metric is expected, also on the command line (`--plugin`), and models that use
    it can be saved and loaded.

    Parameters
    ----------
    metric : Metric
        An instance, or the class itself if it needs no arguments. Test it with `check_metric` first.

    Returns
    -------
    Metric
        The registered instance.

    Raises
    ------
    ValueError
        If another metric has the name or an alias.

    Examples
    --------
    >>> import numpy as np
    >>> import spdsl
    >>> from spdsl.geometry import EmbeddedMetric
    >>> class Cubes(EmbeddedMetric):
    ...     '''Squared Euclidean distance of the cubes.'''
    ...
    ...     name = "cubes"
    ...     invariance = "orthogonal"
    ...
    ...     def embed(self, P):
    ...         return P @ P @ P, P
    ...
    ...     def pull(self, G, P):
    ...         G = (G + G.mT) / 2
    ...         return G @ P @ P + P @ G @ P + P @ P @ G
    >>> spdsl.register_metric(Cubes).name
    'cubes'
    >>> spdsl.pairwise_sqdist(np.stack([np.eye(2), 2 * np.eye(2)]), metric="cubes")
    array([[ 0., 98.],
           [98.,  0.]])
    """
    metric = _instance(metric)
    check_names(metric)
    for name in (metric.name, *metric.aliases):
        for known in METRICS.values():
            ours = known.name == metric.name and _same_class(known, metric)
            if name in (known.name, *known.aliases) and not ours:
                raise ValueError(f"the name {name!r} is already used by {type(known).__name__}; choose another name")
    METRICS[metric.name] = metric
    return metric


def check_names(metric: Metric) -> None:
    """Raise unless the metric has a name, and its aliases are names."""
    who = type(metric).__name__
    if not isinstance(getattr(metric, "name", None), str) or not metric.name:
        raise ValueError(f"{who} has no name; set the class attribute `name` to a non-empty string")
    if not isinstance(metric.aliases, tuple | list) or not all(isinstance(alias, str) for alias in metric.aliases):
        raise ValueError(f"{who}.aliases must be a tuple of strings, got {metric.aliases!r}")


def _instance(metric: Metric | type[Metric]) -> Metric:
    """The metric, made from its class if that needs no arguments."""
    if isinstance(metric, type) and issubclass(metric, Metric):
        if missing := sorted(getattr(metric, "__abstractmethods__", ())):
            raise TypeError(f"{metric.__name__} does not define {' and '.join(missing)}")
        try:
            return metric()
        except TypeError as error:
            raise TypeError(
                f"{metric.__name__} cannot be created without arguments ({error}); pass an instance"
            ) from error
    if not isinstance(metric, Metric):
        raise TypeError(f"a metric must be an instance of a subclass of spdsl.Metric, got {metric!r}")
    return metric


def _same_class(known: Metric, metric: Metric) -> bool:
    """Whether a class is registered again, e.g. by a module that is reloaded."""
    a, b = type(known), type(metric)
    return (a.__module__, a.__qualname__) == (b.__module__, b.__qualname__) and not a.__module__.startswith("spdsl.")


def get_metric(metric: str | Metric) -> Metric:
    """Return the metric of that name or alias; a `Metric` is returned as it is.

    Parameters
    ----------
    metric : str or Metric

    Examples
    --------
    >>> from spdsl.geometry import get_metric
    >>> get_metric("riemann").name
    'aim'
    """
    if isinstance(metric, Metric):
        return metric
    for candidate in METRICS.values() if isinstance(metric, str) else ():
        if metric == candidate.name or metric in candidate.aliases:
            return candidate
    if isinstance(metric, str) and load_named_plugins():
        return get_metric(metric)
    if isinstance(metric, type) and issubclass(metric, Metric):
        raise ValueError(
            f"metric must be a name or an instance, got the class {metric.__name__}; pass {metric.__name__}()"
        )
    raise ValueError(f"unknown metric {metric!r}; choose one of {', '.join(map(repr, METRICS))}")
