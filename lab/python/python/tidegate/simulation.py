"""Runs that go on step by step."""

from __future__ import annotations

import json
from typing import Any

from ._tidegate import Checked, Results
from ._tidegate import Simulation as _Simulation
from ._tidegate import run_all as _run_all
from .scenario import load
from .toml import dumps, named

__all__ = ["Simulation", "run_all"]


class Simulation:
    """A run of a scenario: run until a time, look, change something, go on.

    >>> simulation = Simulation({"version": 1, "duration": "4s", "hosts": ["a", "b"],
    ...     "link": [{"from": "a", "to": "b", "rate": "8mbit", "queue": {"kind": "fifo"}}],
    ...     "flow": [{"name": "bulk", "from": "a", "to": "b", "workload": {"kind": "bulk"}}]}, seed=1)
    >>> simulation.run_until("2s")
    2000000000
    >>> before = simulation.look()["flows"][0]["goodput_bytes"]
    >>> simulation.act("line", "a", "b", rate="1mbit")["refused"]
    False
    >>> results = simulation.finish()

    However a run is divided into steps, its results are the same; without changes their digest is that of ``simulate``.
    Any thread may use it; the network lives on one of its own.
    """

    def __init__(
        self, scenario: Any, *, seed: int | None = None, variant: str | None = None, parts: bool = False
    ) -> None:
        """``variant`` names one of the scenario's; ``parts`` is that of :func:`tidegate.simulate`."""
        checked = load(scenario)
        self._native = _Simulation(checked, checked.seed if seed is None else seed, variant, parts)

    @property
    def scenario(self) -> Checked:
        """The scenario."""
        return self._native.scenario

    @property
    def seed(self) -> int:
        """The seed."""
        return self._native.seed

    @property
    def now_ns(self) -> int:
        """The simulated time in ns."""
        return self._native.now_ns

    @property
    def is_over(self) -> bool:
        """Whether the duration of the scenario is over."""
        return self._native.is_over

    def run_until(self, time: int | str) -> int:
        """Runs until a time, in ns or as text with a unit, or the end of the duration where that is earlier.

        Returns the simulated time in ns. After Ctrl-C it stands at some time before, and can go on.
        """
        return self._native.run_until(time)

    def look(self) -> dict[str, Any]:
        """The present state: ``time_ns``, ``events``, and the lists ``links`` and ``flows``.

        A link has ``name``, ``backlog_packets``, ``backlog_bytes`` and totals since the warm-up: ``sent_packets``,
        ``sent_bytes``, ``dropped_packets``, ``marked_packets``, ``lost_packets``, ``delay_packets``, ``delay_sum_ns`` (the
        queueing delays of what was transmitted, where the link is watched). A flow has ``name``, ``goodput_bytes``,
        ``sent_packets``, ``dropped_packets``, ``marked_packets``, ``retransmitted_packets``, ``timeouts``, and of its
        connection ``cwnd_bytes`` and ``srtt_ns`` (``None`` without one).
        """
        return json.loads(self._native._look())

    def act(self, action: str, from_: str | None = None, to: str | None = None, **keys: Any) -> dict[str, Any]:
        """Does an action of ``[[at]]`` now: ``"line"`` (``rate``, ``delay``, ``loss``), ``"workload"`` (``flow``,
        ``workload``), and on shapers ``"set"``, ``"add"``, ``"remove"``, ``"apply"``, ``"promise"``, ``"reserve"``, ...

        Returns ``kind``, ``refused`` and ``result``; of a refusal ``result["refused"]`` is the reason.

        Raises
        ------
        ConfigError
            The action is wrong.
        """
        table = named({"from": from_, "to": to, "action": {"kind": action, **keys}})
        return json.loads(self._native._act(dumps(table)))

    def results(self) -> Results:
        """What was measured so far; the run can go on."""
        return self._native.results()

    def finish(self) -> Results:
        """Runs to the end of the duration and returns the results; the simulation has ended then."""
        return self._native.finish()

    def __repr__(self) -> str:
        return f"<tidegate.Simulation of {self.scenario.name}, seed {self.seed}>"


def run_all(simulations: list[Simulation], times_ns: list[int]) -> list[int]:
    """Runs several simulations at the same time, on several processors, each until its time in ns."""
    return _run_all([simulation._native for simulation in simulations], times_ns)
