"""How many cases: a few in the test suite, always the same; SPDSL_FUZZ of them, at random, under `make fuzz`."""

import os

from hypothesis import HealthCheck, settings

COUNT = int(os.environ.get("SPDSL_FUZZ", "0"))
COMMON = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "print_blob": True,
    "database": None,
}
settings.register_profile("few", max_examples=12, derandomize=True, **COMMON)
settings.register_profile("many", max_examples=max(COUNT, 1), **COMMON)
PROFILE = settings.get_profile("many" if COUNT else "few")
