"""Disciplines in Python.

A discipline is a class with these methods; times are integers in ns, packets are :class:`tidegate.Packet`::

    class Fifo:
        def __init__(self, limit=100):
            self.limit, self.queue = limit, deque()

        def enqueue(self, now, packet, out):
            if len(self.queue) < self.limit:
                self.queue.append(packet)
            else:
                out.drop(packet, "queue-limit")

        def dequeue(self, now, out):
            return self.queue.popleft() if self.queue else None

``deadline(now)`` returns when ``dequeue`` next returns or drops a packet (``now`` or earlier: at once; ``None``: not before
the next ``enqueue``). Without it the discipline is work-conserving. ``begin(now, seed)`` is called first where it is there;
all randomness must follow from ``seed``. Each packet leaves once: returned by ``dequeue``, or by ``out.drop``.
``out.mark(packet)`` marks it where its transport can react.

The discipline goes wherever one does: ``queue=Fifo`` or ``queue=python(Fifo, limit=50)`` in a scenario, a shaper or a
script. In a file it is ``{ kind = "python", class = "module:Fifo", arguments = { limit = 50 } }``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

__all__ = ["REASONS", "python", "register"]

#: The reasons of ``out.drop``.
REASONS = (
    "queue-limit",
    "flow-limit",
    "class-limit",
    "larger-than-burst",
    "early",
    "forced",
    "too-old",
    "policed",
    "ack-filtered",
    "no-class",
    "flushed",
)

_registered: dict[str, Callable[..., Any]] = {}


def _look_up(name: str) -> Any:
    module, _, path = name.partition(":")
    if not path:
        raise ValueError(f"no discipline is registered as {name!r}; a class of a module is written `module:Name`")
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _found(name: str) -> Callable[..., Any]:
    """The class of this name; called for each discipline that is built."""
    found = _registered.get(name)
    return _look_up(name) if found is None else found


def register(cls: Callable[..., Any], name: str | None = None) -> str:
    """Makes a class known to the files that this process reads, and returns its name there.

    A class at the top level of a module needs it for a name of its own only: other processes import it by
    ``module:Name``. Of a notebook the latest class of a name counts.
    """
    module, path = getattr(cls, "__module__", ""), getattr(cls, "__qualname__", type(cls).__qualname__)
    chosen = name or f"{module}:{path}"
    if name is None and not isinstance(cls, (type, FunctionType)):
        # What was compiled may have the name of the function that it was compiled from.
        chosen = f"{chosen} at {id(cls):#x}"
        _registered[chosen] = cls
    elif name is not None or module == "__main__" or "<locals>" in path:
        _registered[chosen] = cls
    return chosen


def python(cls: Callable[..., Any], **arguments: Any) -> dict[str, Any]:
    """The queue of a link, the ``discipline`` of a shaper, or the ``congestion`` of a flow (:mod:`tidegate.congestion`): an
    object ``cls(**arguments)``.

    Arguments are texts, numbers, truth values, and lists and dictionaries of these.
    """
    return {"kind": "python", "class": register(cls), "arguments": arguments}
