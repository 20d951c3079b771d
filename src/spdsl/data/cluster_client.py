"""The Dask client of this process, and what its failures mean."""

from __future__ import annotations

import sys
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any


class ClusterError(RuntimeError):
    """The cluster did not answer, or lost data that it cannot recompute."""


class Answering:
    """Turn the exceptions that Dask raises when the cluster is gone into one clear error."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> None:
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        if isinstance(error, KilledWorker):
            raise ClusterError(
                f"several workers died on the same task, the last at {error.last_worker.address}; "
                f"give them more memory, or use smaller shards"
            ) from error
        running = self.client.status == "running"
        silent = isinstance(error, CancelledError | CommClosedError | TimeoutError)
        if silent or (isinstance(error, Exception) and not running and not isinstance(error, ClusterError)):
            lost = "lost data that it cannot recompute" if running else "went away, or the client was closed"
            reason = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
            raise ClusterError(
                f"the cluster {lost} ({reason}); connect to a running scheduler, with data that comes from files, and fit "
                f"again"
            ) from error


def current_client() -> Any:
    """The client of this process, or None; always None inside a task, which must not wait for other tasks."""
    if "distributed" not in sys.modules:
        return None
    from distributed import get_worker
    from distributed.client import default_client

    try:
        get_worker()
    except ValueError:
        with suppress(ValueError):
            return default_client()
    return None
