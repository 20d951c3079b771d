"""One BLAS thread for loops over small factorisations."""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Context in which BLAS runs on one thread.

    Matrices of a few hundred rows gain little from more, and on a busy machine the threads of thousands of such calls
    wait for each other: measured 30 times slower.
    """
    return _blas().limit(limits=1, user_api="blas")
