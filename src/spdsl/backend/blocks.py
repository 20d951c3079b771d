"""Process arrays in blocks: sized for the device, distributed over threads on the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any

from spdsl.backend.arrays import Array, concat, is_numpy
from spdsl.backend.threads import one_blas_thread, pool, threads

BLOCK_BYTES = 1 << 22  # working set of one block of small matrices: a few of these fit in a core's share of cache
TORCH_BLOCK_BYTES = 1 << 28  # the same for torch on the CPU, which spreads one call over the cores itself
DEVICE_BLOCK_BYTES = 1 << 31  # the same on a GPU, which wants all the work at once that its memory can hold
SHARES = (
    (8, 1 << 22),
    (4, 1 << 20),
    (2, 1 << 18),
)  # multiples in which blocks come, by the bytes that there are at least
ROUND = 16  # blocks per thread in one round; the results of a round are held at once


def own_threads(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function of (self or problem, W, ...) that does its heavy work in our threads.

    BLAS is held to one thread throughout: its idle threads would spin on the cores that ours need.
    """

    @wraps(function)
    def run(first: Any, W: Array, *args: Any, **kwargs: Any) -> Any:
        with held_blas(W):
            return function(first, W, *args, **kwargs)

    return run


def held_blas(x: Array) -> AbstractContextManager[None]:
    """Hold BLAS to one thread if `x` is a NumPy array; other libraries manage their own threads."""
    return one_blas_thread if is_numpy(x) else nullcontext()


def map_blocks(function: Callable[[slice], Any], count: int, item_bytes: int, *, on: Array) -> Iterator[Any]:
    """Yield `function(slice)` for slices that cover `range(count)`, in order, sized for the device of `on`.

    NumPy's stacked LAPACK loops use one core but release the interpreter lock, so their blocks are spread over threads
    with the BLAS underneath held to one thread each. The blocks do not depend on the number of threads: sums over them
    have the same last digit on any machine that has the same BLAS.
    """
    if 0 < count * item_bytes <= min(SHARES[-1][1], block_bytes(on)):  # one block, as below: most calls of small fits
        yield from pool.map(function, [slice(0, count)], 1)
        return
    per_block = max(1, block_bytes(on) // max(1, item_bytes))
    if is_numpy(on) and count:
        per_block = max(1, -(-count // _even_count(count, per_block, item_bytes)))
    slices = [slice(start, min(start + per_block, count)) for start in range(0, count, per_block)]
    workers = threads() if is_numpy(on) and len(slices) > 1 else 1
    for start in range(0, len(slices), ROUND * workers):
        # nothing is yielded inside, so that a consumer that stops early does not leave the BLAS setting changed
        yield from pool.map(function, slices[start : start + ROUND * workers], workers)


def _even_count(count: int, per_block: int, item_bytes: int) -> int:
    """How many blocks: a multiple of 2, 4 or 8 as the work grows, since three blocks on two threads leave one idle."""
    size = count * item_bytes
    share = next((share for share, least in SHARES if size > least), 1)
    return -(-count // (per_block * share)) * share


def block_bytes(x: Array) -> int:
    """Working set of one block, for the device of `x`."""
    if is_numpy(x):
        return BLOCK_BYTES
    return DEVICE_BLOCK_BYTES if x.device.type == "cuda" else TORCH_BLOCK_BYTES


def over_blocks(function: Callable[..., Any], *arrays: Array) -> Any:
    """Apply a function to arrays, block by block along the first axis, and concatenate the results."""
    first = arrays[0]
    count = first.shape[0]
    item_bytes = 8 * sum(math.prod(a.shape[1:]) for a in arrays)
    parts = list(map_blocks(lambda s: function(*(a[s] for a in arrays)), count, item_bytes, on=first))
    if isinstance(parts[0], tuple):
        return tuple(concat(column) for column in zip(*parts, strict=True))
    return concat(parts)
