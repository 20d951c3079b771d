"""How many cases: a few in the test suite, always the same; SPDSL_FUZZ of them, at random, under `make fuzz`."""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

COUNT = int(os.environ.get("SPDSL_FUZZ", "0"))
RUN: Counter = Counter()
COMMON = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "print_blob": True,
    "database": None,
}
settings.register_profile("few", max_examples=12, derandomize=True, **COMMON)
settings.register_profile("many", max_examples=max(COUNT, 1), **COMMON)
PROFILE = settings.get_profile("many" if COUNT else "few")


@pytest.fixture
def counted(request):
    """Call once per case: the total is shown at the end."""
    count = 0

    def one() -> None:
        nonlocal count
        count += 1

    yield one
    request.node.user_properties.append(("cases", count))


def pytest_terminal_summary(terminalreporter):
    reports = [r for group in terminalreporter.stats.values() for r in group if getattr(r, "when", "") == "teardown"]
    cases = {r.nodeid.split("::")[-1]: dict(r.user_properties).get("cases", 0) for r in reports}
    if COUNT and any(cases.values()):
        terminalreporter.section("cases")
        for name, count in cases.items():
            if count:
                terminalreporter.write_line(f"{count:7d} {name}")
        terminalreporter.write_line(f"{sum(cases.values()):7d} in all")
