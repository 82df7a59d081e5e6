"""Scenarios: from files, from dictionaries, and built in code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ._tidegate import Checked
from .toml import dumps, named


class Scenario:
    """A scenario built in code, from nothing or from a file.

    Every quantity has its unit: in its text (``rate="20mbit"``, ``delay="30ms"``) or in the name of its argument
    (``rate_bps=20_000_000``, ``delay_ns=30_000_000``; also ``_us``, ``_ms``, ``_s``, ``_bytes`` and ``_packets``). The
    other names are the keys of a scenario file with ``_`` for ``-`` (``tidegate schema scenario --text`` lists them), and
    ``None`` leaves a key out.

    >>> net = Scenario(duration="10s", warm_up="1s", hosts=["a", "b"])
    >>> _ = net.link("a", "b", rate="8mbit", delay_ms=10, queue={"kind": "codel"})
    >>> _ = net.flow("bulk", "a", "b", workload={"kind": "bulk"})
    >>> net.check().duration_ns
    10000000000

    ``Scenario("file.toml")`` begins with what the file has; other arguments replace its keys, and hosts and routers are added.
    Without the comments of the file, ``to_toml`` is the same scenario.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | Mapping[str, Any] | Checked | None = None,
        *,
        duration: str | None = None,
        hosts: Iterable[str] = (),
        routers: Iterable[str] = (),
        folder: str | os.PathLike[str] | None = None,
        **keys: Any,
    ) -> None:
        """``folder`` is where files that the scenario names are looked for; default that of the file, or the working directory.

        Raises
        ------
        ConfigError
            The file is wrong.
        OSError
            The file cannot be read.
        """
        self._plain: dict[str, Any] = {"version": 1}
        self._lists: dict[str, list[dict[str, Any]]] = {}
        beside = os.getcwd()
        if file is not None:
            checked = load(file)
            beside = checked.folder or beside
            for key, value in checked.to_dict().items():
                is_list = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
                (self._lists if is_list else self._plain)[key] = value
        self._plain.update(named({"duration": duration, **keys}))
        self._plain["hosts"] = [*self._plain.get("hosts", ()), *hosts]
        self._plain["routers"] = [*self._plain.get("routers", ()), *routers]
        self.folder = os.fspath(folder) if folder is not None else beside

    def _add(self, section: str, **keys: Any) -> Scenario:
        self._lists.setdefault(section, []).append(named(keys))
        return self

    def hosts(self, *names: str) -> Scenario:
        """Adds hosts, where flows begin and end. ``"s{1..10}"`` means ten of them."""
        self._plain["hosts"] += names
        return self

    def routers(self, *names: str) -> Scenario:
        """Adds routers, which forward."""
        self._plain["routers"] += names
        return self

    def address(self, host: str, address: str) -> Scenario:
        """Sets the address of a host; further hosts of a range have the addresses after it."""
        return self._add("host", name=host, address=address)

    def link(self, from_: str, to: str, **keys: Any) -> Scenario:
        """Adds a link: ``rate``, ``delay``, ``queue`` (a discipline or a shaper), ``loss``, ``jitter``, ``watch``, ..."""
        return self._add("link", from_=from_, to=to, **keys)

    def route(self, at: str, to: str, via: str) -> Scenario:
        """Adds a way that is not the shortest."""
        return self._add("route", at=at, to=to, via=via)

    def flow(self, name: str, from_: str, to: str, **keys: Any) -> Scenario:
        """Adds a flow: ``workload``, ``tcp``, ``start``, ``stop``, ..."""
        return self._add("flow", name=name, from_=from_, to=to, **keys)

    def variant(
        self, name: str, from_: str, to: str, queue: Mapping[str, Any], queue_back: Mapping[str, Any] | None = None
    ) -> Scenario:
        """Adds a variant: the scenario with another ``queue`` on a link, run with the same random numbers. ``queue_back`` is that
        of the other direction."""
        return self._add("variant", name=name, from_=from_, to=to, queue=queue, queue_back=queue_back)

    def at(self, time: str | int, action: str, from_: str | None = None, to: str | None = None, **keys: Any) -> Scenario:
        """Adds an action at a time (text with a unit, or ns): ``at("10s", "line", "a", "b", rate="1mbit")``."""
        when = f"{time}ns" if isinstance(time, int) else time
        return self._add("at", time=when, from_=from_, to=to, action={"kind": action, **keys})

    def to_dict(self) -> dict[str, Any]:
        """The scenario as a dictionary with the keys of a file. Changing it does not change the scenario."""
        return _copied({**self._plain, **self._lists})

    def to_toml(self) -> str:
        """The scenario as the text of a file."""
        return dumps(self.to_dict())

    def check(self) -> Checked:
        """Checks the scenario.

        Raises
        ------
        ConfigError
            It is wrong; places are those of :meth:`to_toml`.
        """
        return Checked(self.to_toml(), "<scenario>", self.folder)

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(entries)} {name}" for name, entries in self._lists.items())
        return f"<tidegate.Scenario: {counts or 'empty'}>"


def _copied(value: Any) -> Any:
    """A copy of dictionaries and lists; what is in them, such as a discipline in Python, stays the same."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def load(scenario: object) -> Checked:
    """Reads and checks a scenario: the path of a file, a dictionary with its keys, or a :class:`Scenario`.

    Raises
    ------
    ConfigError
        The scenario is wrong.
    OSError
        The file cannot be read.
    """
    if isinstance(scenario, Checked):
        return scenario
    if isinstance(scenario, Scenario):
        return scenario.check()
    if isinstance(scenario, Mapping):
        return Checked(dumps(scenario), "<scenario>", os.getcwd())
    if isinstance(scenario, (str, os.PathLike)):
        path = os.fspath(scenario)
        if isinstance(path, str) and "\n" in path:
            return Checked(path, "<scenario>", os.getcwd())
        with open(path, encoding="utf-8", newline="") as file:
            return Checked(file.read(), str(path), os.path.dirname(path) or ".")
    raise TypeError(f"{type(scenario).__name__} is no scenario: give a path, a dictionary or a tidegate.Scenario")
