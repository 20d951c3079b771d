"""Memory of the machine: work that cannot fit says so before it starts, instead of being killed halfway."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import numpy as np

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
KEPT_BYTES = 31 << 20  # just below the largest block from which glibc learns


def keep_freed_memory() -> None:
    """Let glibc keep what arrays of up to 31 MB leave behind, as it does after the first such array was freed.

    Until then it returns every array of a few hundred kilobytes to the system, and the page faults of getting it back take a
    fifth of the time of a fit on small matrices. The array is never written, so it costs no memory; other allocators, which do
    not learn, are left as they are.
    """
    np.empty(KEPT_BYTES, np.uint8)  # freed at once


def free_on_host() -> int | None:
    """Bytes that a process can still take: what the system calls available, within the limit of its container.

    None where the system does not tell.
    """
    found = [size for size in (_available(), _left_in_container()) if size is not None]
    return min(found, default=None)


def check_room(needed: int, doing: str, remedy: str) -> None:
    """Raise a MemoryError, with what to do instead, unless so many bytes are free."""
    free = free_on_host()
    if free is not None and needed > free:
        raise MemoryError(f"{doing} takes about {needed / 1e9:.3g} GB, where {free / 1e9:.3g} GB are free; {remedy}")


def check_pairs_fit(N: int, arrays: int, who: str) -> None:
    """Raise unless so many arrays of one double per pair of N matrices fit into memory."""
    check_room(
        8 * arrays * N**2,
        f"{who} on {N} matrices holds a number for every pair of them, which",
        "fit it to a part of them, or use SPDSL, TangentSpaceClassifier or SPDNearestNeighbor, which do not",
    )


def _available() -> int | None:
    with suppress(OSError, ValueError, StopIteration):
        lines = MEMINFO.read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1])
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _left_in_container() -> int | None:
    with suppress(OSError, ValueError):  # "max" is no number: there is no limit
        limit, used = (int((CGROUP / f"memory.{name}").read_text()) for name in ("max", "current"))
        cache = 0  # of files, which the system drops when it needs the room
        for line in (CGROUP / "memory.stat").read_text().splitlines():
            name, _, size = line.partition(" ")
            cache += int(size) if name in ("inactive_file", "active_file") else 0
        return max(limit - used + cache, 0)
    return None
