"""A small scenario for all tests."""

from __future__ import annotations

import pytest
import tidegate


def dumbbell(duration: str = "4s", **link: object) -> tidegate.Scenario:
    net = tidegate.Scenario(duration=duration, hosts=["a", "b"], routers=["r"])
    net.link("a", "r", rate="100mbit", delay_ms=1)
    net.link("r", "b", rate="8mbit", delay_ms=10, watch=True, **{"queue": {"kind": "fifo", "limit": "60kB"}, **link})
    net.flow("bulk", "a", "b", workload={"kind": "bulk"})
    return net


@pytest.fixture
def net() -> tidegate.Scenario:
    return dumbbell()
