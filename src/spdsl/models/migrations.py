"""Convert headers of older formats to the current one, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Header = dict[str, Any]

_OPTIONS = ("init", "search", "warm_start")  # parameters of the learners that became solver options
_USUAL = {"init": "pca", "search": "exact", "warm_start": False, "manifold": "psd"}


def _from_0(header: Header) -> Header:
    """Format 0: the header itself was the estimator, with its class under a key of its own."""
    model = {"estimator": header["class"], "params": header["params"], "fitted": header["fitted"]}
    return {"format": 1, "versions": header["versions"], "left_out": [], "notes": {}, "model": model}


def _from_1(header: Header) -> Header:
    """Format 1: solver options were parameters of the estimator, and fitted state was read from parameters."""
    if "model" not in header:  # a checkpoint
        return header | {"format": 2}
    return header | {"format": 2, "model": _walk_1(header["model"])}


def _walk_1(node: Any) -> Any:
    if isinstance(node, list):
        return [_walk_1(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: _walk_1(item) for key, item in node.items()}
    change = _CHANGES_1.get(node["estimator"]) if isinstance(node.get("estimator"), str) else None
    if change is not None:
        change(node["params"], node["fitted"])
    return node


def _learner_1(params: dict[str, Any], fitted: dict[str, Any]) -> None:
    solver = params.pop("solver_options", None) or {}
    options = solver.get("dict", [])
    moved = (*_OPTIONS, "manifold") if "centering" in params else _OPTIONS
    options += [[name, value] for name in moved if (value := params.pop(name, _USUAL[name])) != _USUAL[name]]
    params["solver"] = {"dict": options} if options else None
    if "centering" in params:
        params["objective"] = {"graph": "alignment"}.get(params["centering"], params["centering"])
        del params["centering"]
    votes = params.pop("n_neighbors", 1)
    if votes != 1 and params.get("classifier") == "nn":
        head = {"metric": params["metric"], "n_neighbors": votes}
        params["classifier"] = {"estimator": "SPDNearestNeighbor", "params": head, "fitted": {}}
    if fitted:
        fitted["metric_"] = _metric_1(params)
        fitted["reference_"] = None
        fitted["objective_"] = {"objective": params.get("objective", "embedding")}


def _nearest_1(params: dict[str, Any], fitted: dict[str, Any]) -> None:
    if fitted:
        fitted["_votes"] = params["n_neighbors"]


def _machine_1(params: dict[str, Any], fitted: dict[str, Any]) -> None:
    if fitted:
        fitted["_metric"] = _metric_1(params)


def _metric_1(params: dict[str, Any]) -> dict[str, Any]:
    metric = params["metric"]
    return metric if isinstance(metric, dict) else {"metric": metric}


_CHANGES_1: dict[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "SPDSL": _learner_1,
    "SPDML": _learner_1,
    "SPDNearestNeighbor": _nearest_1,
    "KernelSVC": _machine_1,
}

#: from a format to the next one
MIGRATIONS: dict[int, Callable[[Header], Header]] = {0: _from_0, 1: _from_1}
