"""On what a run ran: versions and hardware."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

from threadpoolctl import threadpool_info

PACKAGES = ("spdsl", "numpy", "scipy", "scikit-learn", "joblib", "torch")


def describe_environment() -> dict[str, str]:
    """Versions of Python and of what computes, linear algebra library, processor, cores, memory, system."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    blas = {f"{lib['internal_api']} {lib.get('version')}" for lib in threadpool_info() if lib["user_api"] == "blas"}
    found["linear algebra"] = ", ".join(sorted(blas))
    found["processor"] = _processor()
    found["cores"] = str(os.cpu_count())
    memory = _memory()
    if memory:
        found["memory"] = f"{memory / 2**30:.0f} GiB"
    found["system"] = f"{platform.system()} {platform.release()}"
    return {name: text for name, text in found.items() if text}


def _processor() -> str:
    """Model of the processor, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _memory() -> int:
    """Bytes of memory, 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0
