"""Tidegate from Python: a deterministic network simulator, and everything around queueing disciplines.

>>> import tidegate
>>> net = tidegate.Scenario(duration="5s", hosts=["a", "b"])
>>> _ = net.link("a", "b", rate="10mbit", delay="20ms")
>>> _ = net.flow("bulk", "a", "b", workload={"kind": "bulk"})
>>> results = tidegate.simulate(net, seed=1)
>>> results.value("flow bulk", "goodput") > 9e6
True
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Union

from ._tidegate import Ack, Checked, Decider, DeliverySample, Figure, Outlet, Packet, Replay, Results, ScriptResult, Table, __version__
from ._tidegate import simulate as _simulate
from .errors import ConfigError, ControlError, InternalError, TidegateError
from .figures import figure
from .replays import explain, replay, script
from .scenario import Scenario, load
from .simulation import Simulation

__all__ = [
    "Ack",
    "Checked",
    "ConfigError",
    "ControlError",
    "Decider",
    "DeliverySample",
    "Figure",
    "InternalError",
    "Outlet",
    "Packet",
    "Replay",
    "Results",
    "Scenario",
    "ScriptResult",
    "Simulation",
    "Table",
    "TidegateError",
    "__version__",
    "congestion",
    "connect",
    "connect_async",
    "control",
    "explain",
    "figure",
    "laws",
    "load",
    "pace",
    "protocol",
    "qdisc",
    "replay",
    "script",
    "simulate",
    "sweep",
    "sweeps",
]

#: Modules that are imported when they are first used, so that `import tidegate` is fast; and where a name is found.
_LAZY = {
    "congestion": None,
    "connect": "control",
    "connect_async": "control",
    "control": None,
    "laws": None,
    "pace": None,
    "protocol": None,
    "qdisc": None,
    "sweep": "sweeps",
    "sweeps": None,
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f".{_LAZY[name] or name}", __name__)
    return getattr(module, name) if _LAZY[name] else module


def __dir__() -> list[str]:
    return sorted(__all__)


#: What a scenario may be given as: the path of a file, a dictionary, one built in code, or one that was read.
AnyScenario = Union[str, "os.PathLike[str]", Mapping[str, Any], Scenario, Checked]


def simulate(
    scenario: AnyScenario,
    *,
    seed: int | None = None,
    runs: int | None = None,
    jobs: int | None = None,
    parts: bool = False,
) -> Results:
    """Runs a scenario in the simulator.

    Parameters
    ----------
    scenario
        The path of a scenario file, a dictionary with its keys, a :class:`Scenario`, or what :func:`load` returned.
    seed
        The first seed; default that of the scenario. The same scenario and seed have the same digest on every machine.
    runs
        The number of runs, with seeds ``seed``, ``seed + 1``, ...; default that of the scenario, or as many as its
        ``until`` asks for.
    jobs
        Runs at the same time, variants included; default the number of processors.
    parts
        Whether each flow and class of a watched link is measured over time as well, for more curves and figures, as
        ``tidegate simulate`` does it where it writes a report. The run then takes up to half as long again. Values and digest are
        the same.

    The interpreter's lock is released. Ctrl-C ends the runs and raises :class:`KeyboardInterrupt`.

    Raises
    ------
    ConfigError
        The scenario is wrong; the text shows where, and the way out.
    OSError
        The file cannot be read.
    """
    checked = load(scenario)
    first = checked.seed if seed is None else seed
    if runs is not None and runs < 1:
        raise ValueError(f"runs={runs}: at least one run is needed")
    return _simulate(checked, first, runs, jobs or os.cpu_count() or 1, parts)
