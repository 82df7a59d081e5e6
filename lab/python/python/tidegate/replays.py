"""Replay of captures and recordings, and scripts of arrivals."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Union

from ._tidegate import Replay, ScriptResult, run_explain, run_replay, run_script
from .toml import dumps

#: A shaper: the path of its file, its text, a dictionary with its keys, or a discipline (``{"kind": ...}``, or a class).
AnyShaper = Union[str, "os.PathLike[str]", Mapping[str, Any], type]


def _shaper(config: AnyShaper) -> str:
    if isinstance(config, type):
        config = {"kind": config}
    if isinstance(config, Mapping):
        if "kind" in config:
            kind = config["kind"]
            if isinstance(kind, type):
                from .qdisc import python

                config = python(kind)
            config = {"version": 1, "discipline": config}
        return dumps({"version": 1, **config})
    if isinstance(config, str) and "\n" in config:
        return config
    with open(config, encoding="utf-8", newline="") as file:
        return file.read()


def replay(
    path: str | os.PathLike[str],
    configurations: Mapping[str, AnyShaper] | None = None,
    *,
    link: str | None = None,
    seed: int = 1,
) -> Replay:
    """Puts every packet of a capture (pcap, pcapng) or a recording of ``tidegate run --record`` through configurations, in
    virtual time; a recording through its own as well, whose departures must be equal bit for bit (``is_exact``).

    ``configurations`` are shapers by the names that results have them by. ``link`` is the rate of the line behind those that
    do not specify one; default infinite. ``seed`` is for random streams and flow keys; a recording has its own.

    Raises
    ------
    ConfigError
        A configuration is wrong.
    TidegateError
        The file is no capture and no recording, or breaks off.
    """
    texts = [(name, _shaper(config)) for name, config in (configurations or {}).items()]
    return run_replay(os.fspath(path), texts, link, seed)


def explain(
    path: str | os.PathLike[str],
    packet: int | None = None,
    *,
    event: int | None = None,
    configuration: AnyShaper | None = None,
    link: str | None = None,
    seed: int = 1,
) -> dict[str, Any]:
    """Explains what became of a packet, and why: the rules that were compared, its class, the queues when it came, and how it
    left, as ``tidegate explain --json`` prints it. Keys have the units of their values.

    Of a recording of ``tidegate run --record``, under its own configuration: packet number ``packet``, from 1, or the packet of
    record ``event``, from 0. Of a capture: ``packet`` under ``configuration`` with a line of rate ``link`` behind it (default
    infinite), and ``seed`` for random streams and flow keys.

    >>> explain("office.tgr", 1000)["end"]["reason"]              # doctest: +SKIP
    'queue_limit'

    Raises
    ------
    ValueError
        What is asked for does not go with the file: packets are numbered from 1, a recording has its own configuration.
    ConfigError
        The configuration is wrong.
    TidegateError
        There is no such packet; the text has how many there are. Or the file breaks off.
    """
    text = None if configuration is None else _shaper(configuration)
    return json.loads(run_explain(os.fspath(path), packet, event, text, link, seed))


def script(source: str | os.PathLike[str], discipline: Callable[[], Any] | None = None) -> ScriptResult:
    """Runs a script of arrivals: its path, or its text. With ``discipline`` (a class in Python, or a function that returns
    an object of one) on that instead of what the script names.

    Raises
    ------
    ConfigError
        The script is wrong; the text shows where.
    """
    text = os.fspath(source)
    if isinstance(text, str) and "\n" in text:
        return run_script(text, "<script>", os.getcwd(), discipline)
    with open(text, encoding="utf-8", newline="") as file:
        return run_script(file.read(), str(text), os.path.dirname(text) or ".", discipline)


__all__ = ["AnyShaper", "explain", "replay", "script"]
