"""The cases of each test, counted and shown at the end."""

import pytest
from fuzz_profile import COUNT


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
