"""Dictionaries as TOML, which is what Tidegate reads: a scenario from code has places for its errors, too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ._tidegate import Decider

_BARE = re.compile(r"[A-Za-z0-9_-]+")

#: Units that the name of an argument may end in, and how a file writes them.
_UNITS = {
    "_ns": "ns",
    "_us": "us",
    "_ms": "ms",
    "_s": "s",
    "_bps": "bit",
    "_bytes": "B",
    "_packets": " packets",
}


def named(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a file for the arguments of a call: ``warm_up`` is ``warm-up``, ``delay_ns=5`` is ``delay = "5ns"``.

    ``None`` leaves a key out.
    """
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if value is None:
            continue
        if name == "arguments":
            # Those of a discipline in Python are its own.
            found[name] = value
            continue
        key = name
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            for ending, unit in _UNITS.items():
                if name.endswith(ending):
                    key = name.removesuffix(ending)
                    if isinstance(value, float):
                        if not value.is_integer():
                            raise ValueError(f"{name}={value!r}: a whole number is expected; use a smaller unit")
                        value = int(value)
                    value = f"{value}{unit}"
                    break
        key = key.rstrip("_").replace("_", "-")
        if key in found:
            raise TypeError(f"`{key}` is given twice")
        found[key] = _inside(value)
    return found


def _inside(value: Any) -> Any:
    if isinstance(value, Mapping):
        return named(value)
    if isinstance(value, (list, tuple)):
        return [_inside(item) for item in value]
    return value


def _quoted(text: str) -> str:
    # The escapes of JSON are those of TOML, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"the key {key!r} is not a text")
    return key if _BARE.fullmatch(key) else _quoted(key)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if callable(value):
        from .qdisc import python

        value = python(value)
    if isinstance(value, Decider):
        value = value.to_dict()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, Iterable):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    raise TypeError(f"{value!r} has no form in a file: a text, a number, a list or a dictionary has")


def dumps(table: Mapping[str, Any]) -> str:
    """``table`` as TOML: plain keys first, then a section for each list of tables."""
    lines: list[str] = []
    sections: list[str] = []
    for key, value in table.items():
        if isinstance(value, (list, tuple)) and value and all(isinstance(item, Mapping) for item in value):
            for item in value:
                sections.append(f"\n[[{_key(key)}]]")
                sections.extend(f"{_key(inner)} = {_value(within)}" for inner, within in item.items())
        else:
            lines.append(f"{_key(key)} = {_value(value)}")
    return "\n".join(lines + sections) + "\n"
