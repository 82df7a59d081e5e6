"""A small scenario for all tests, and what is left out where time is short."""

from __future__ import annotations

import os
import time

import pytest
import tidegate


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test that may take longer than is left until ``TIDEGATE_TEST_END``, in seconds since 1970."""
    marker, end = item.get_closest_marker("long"), os.environ.get("TIDEGATE_TEST_END")
    if marker is not None and end is not None and time.time() + marker.args[0] > float(end):
        pytest.skip(f"only {float(end) - time.time():.0f} s are left, and it may take {marker.args[0]}")


def dumbbell(duration: str = "4s", **link: object) -> tidegate.Scenario:
    net = tidegate.Scenario(duration=duration, hosts=["a", "b"], routers=["r"])
    net.link("a", "r", rate="100mbit", delay_ms=1)
    net.link("r", "b", rate="8mbit", delay_ms=10, watch=True, **{"queue": {"kind": "fifo", "limit": "60kB"}, **link})
    net.flow("bulk", "a", "b", workload={"kind": "bulk"})
    return net


@pytest.fixture
def net() -> tidegate.Scenario:
    return dumbbell()
