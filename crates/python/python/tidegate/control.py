"""The control socket of a running shaper: status, flows, events, promises and feedback.

>>> with tidegate.connect(interface="eth0") as shaper:           # doctest: +SKIP
...     for class_ in shaper.status()["directions"][0]["classes"]:
...         print(class_["name"], class_["queue_packets"])

The calls, their parameters and their replies are those of the control protocol (``tidegate book control-calls``):
quantities are integers with their unit in the key, such as ``rate_bps`` or ``lease_ns``.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections import deque
from collections.abc import AsyncIterator, Iterator
from typing import Any

from .errors import TidegateError

__all__ = ["AsyncConnection", "Connection", "ControlError", "connect", "connect_async", "find"]

_VERSION = 1


class ControlError(TidegateError):
    """The shaper refused a call, or cannot be reached. ``code`` is that of the protocol, for programs."""

    def __init__(self, code: str, message: str, help: str | None = None) -> None:
        super().__init__(f"{message}; {help}" if help else message)
        self.code = code


def _directories() -> list[str]:
    found = ["/run/tidegate"]
    if base := os.environ.get("XDG_RUNTIME_DIR"):
        found.append(os.path.join(base, "tidegate"))
    return found


def find(interface: str | None = None) -> str:
    """The path of the control socket of a shaper: of ``interface``, or of the only one that runs.

    Raises
    ------
    ControlError
        None runs, or several do.
    """
    folders = _directories()
    if interface is not None:
        namespace = os.stat("/proc/thread-self/ns/net").st_ino
        names = [f"{interface}@{namespace}.sock", f"{interface}.sock"]
        found = [path for folder in folders for name in names if os.path.exists(path := os.path.join(folder, name))][:1]
    else:
        found = []
        for folder in folders:
            if os.path.isdir(folder):
                found += sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".sock"))
    if not found:
        looked = ", ".join(folders)
        raise ControlError("not-found", f"no tidegate is running: no socket in {looked}", "start one with `tidegate run FILE`")
    if len(found) > 1:
        raise ControlError("invalid", "several tidegates are running: " + ", ".join(found), "name an interface or a path")
    return found[0]


def _unreachable(path: str, error: OSError) -> ControlError:
    return ControlError("failed", f"cannot reach tidegate at {path}: {error.strerror or error}", "is it running?")


class _Protocol:
    """Requests and replies, whatever carries the lines."""

    def __init__(self) -> None:
        self._next = 1
        #: Notifications that preceded a reply, with the numbers of their subscriptions.
        self._pending: deque[tuple[int, dict[str, Any]]] = deque()

    def _request(self, call: str, parameters: dict[str, Any]) -> tuple[int, bytes]:
        number = self._next
        self._next += 1
        request = {"id": number, "version": _VERSION, "call": call, "with": parameters}
        return number, json.dumps(request).encode() + b"\n"

    def _handle(self, line: bytes, number: int | None) -> tuple[bool, Any]:
        """Whether ``line`` is the reply to request ``number``, and the reply."""
        if not line.endswith(b"\n"):
            raise ControlError("failed", "tidegate closed the connection; it may have ended")
        message = json.loads(line)
        if "subscription" in message:
            event = message.get("event", {"event": "lost", "lost": message.get("lost")})
            self._pending.append((message["subscription"], event))
        elif "error" in message and message["id"] in (number, 0):
            error = message["error"]
            raise ControlError(error["code"], error["message"], error.get("help"))
        elif message.get("id") == number:
            return True, message["ok"]
        return False, None


class _Calls:
    """The calls of the protocol. Parameters are those of the protocol; a parameter that is ``None`` is left out."""

    def call(self, name: str, /, **parameters: Any) -> Any:
        raise NotImplementedError

    def status(self) -> Any:
        """What is in force and what every class has counted, at most 20 ms old."""
        return self.call("status")

    def classes(self, **parameters: Any) -> Any:
        """What is measured of every class."""
        return self.call("classes", **parameters)

    def flows(self, **parameters: Any) -> Any:
        """What is measured of the flows: ``sort``, ``limit``, ``direction``, ``class``."""
        return self.call("flows", **parameters)

    def explain(self, **parameters: Any) -> Any:
        """Which rule a packet would match, its class and its flow, and their queues now: ``protocol``, ``source``, ..."""
        return self.call("explain", **parameters)

    def promise(self, **parameters: Any) -> Any:
        """Requests a promise for flows: ``target``, ``minimum_bps``, ``prefer``, ``lease_ns``, ... It ends with the lease."""
        return self.call("promise", **parameters)

    def renew(self, promise: int, **parameters: Any) -> Any:
        """Gives a promise another lease: ``lease_ns``."""
        return self.call("renew", promise=promise, **parameters)

    def release(self, promise: int) -> Any:
        """Ends a promise."""
        return self.call("release", promise=promise)

    def promises(self) -> Any:
        """All promises."""
        return self.call("promises")

    def reserve(self, **parameters: Any) -> Any:
        """Requests a class of its own under CBQ: ``name``, ``matches``, ``rate_bps``, ``bucket_bytes``, ..."""
        return self.call("reserve", **parameters)

    def refresh(self, reservation: int) -> Any:
        """Renews a reservation."""
        return self.call("refresh", reservation=reservation)

    def unreserve(self, reservation: int) -> Any:
        """Ends a reservation."""
        return self.call("unreserve", reservation=reservation)

    def reservations(self) -> Any:
        """All reservations."""
        return self.call("reservations")

    def apply(self, **parameters: Any) -> Any:
        """Puts another shaper file in force (``text``), or ``edits``; ``dry_run``, ``confirm_ns``."""
        return self.call("apply", **parameters)

    def confirm(self, **parameters: Any) -> Any:
        """Keeps the change on trial."""
        return self.call("confirm", **parameters)

    def rollback(self, **parameters: Any) -> Any:
        """Takes back the change on trial."""
        return self.call("rollback", **parameters)

    def in_force(self, **parameters: Any) -> Any:
        """The shaper file in force: ``{"text": ...}``."""
        return self.call("in-force", **parameters)


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    return {key.rstrip("_"): value for key, value in parameters.items() if value is not None}


class Connection(_Calls, _Protocol):
    """A connection. Subscriptions, promises and reservations end with it, unless they were requested to last."""

    def __init__(self, path: str, timeout_s: float | None = 10.0) -> None:
        super().__init__()
        self.path = path
        self._timeout_s = timeout_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise _unreachable(path, error) from error
        self._file = self._socket.makefile("rb")

    def call(self, name: str, /, **parameters: Any) -> Any:
        """Makes any call of the protocol and returns its reply.

        Raises
        ------
        ControlError
            The call was refused, with the reason and the way out.
        TimeoutError
            No reply came in time.
        """
        number, line = self._request(name, _given(parameters))
        self._socket.settimeout(self._timeout_s)
        self._socket.sendall(line)
        while True:
            done, reply = self._handle(self._file.readline(), number)
            if done:
                return reply

    def _subscription(self, number: int) -> Iterator[dict[str, Any]]:
        while True:
            for position, (of, event) in enumerate(self._pending):
                if of == number:
                    del self._pending[position]
                    yield event
                    break
            else:
                self._socket.settimeout(None)
                self._handle(self._file.readline(), None)

    def events(self, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Subscribes to events; the iterator waits for the next: ``kinds``, ``classes``, ``direction``, ``port``, ..."""
        return self._subscription(self.call("events", **parameters)["subscription"])

    def feedback(self, **parameters: Any) -> tuple[list[dict[str, Any]], Iterator[dict[str, Any]]]:
        """Subscribes to everything that happens to some flows: ``target``, ``delay_ns``. Returns those that are present,
        and the notifications."""
        watching = self.call("feedback", **parameters)
        return watching["flows"], self._subscription(watching["subscription"])

    def close(self) -> None:
        """Closes the connection."""
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncConnection(_Calls, _Protocol):
    """The same for ``asyncio``: every call returns an awaitable."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer
        self._lock = asyncio.Lock()

    async def call(self, name: str, /, **parameters: Any) -> Any:
        """Makes any call of the protocol and returns its reply; calls of several tasks follow one another."""
        async with self._lock:
            number, line = self._request(name, _given(parameters))
            self._writer.write(line)
            await self._writer.drain()
            while True:
                done, reply = self._handle(await self._reader.readline(), number)
                if done:
                    return reply

    async def _subscription(self, number: int) -> AsyncIterator[dict[str, Any]]:
        while True:
            for position, (of, event) in enumerate(self._pending):
                if of == number:
                    del self._pending[position]
                    yield event
                    break
            else:
                async with self._lock:
                    self._handle(await self._reader.readline(), None)

    async def events(self, **parameters: Any) -> AsyncIterator[dict[str, Any]]:
        """Subscribes to events. While the iterator waits, calls of other tasks wait as well: use two connections."""
        watching = await self.call("events", **parameters)
        async for event in self._subscription(watching["subscription"]):
            yield event

    async def close(self) -> None:
        """Closes the connection."""
        self._writer.close()
        await self._writer.wait_closed()

    async def __aenter__(self) -> AsyncConnection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def connect(path: str | None = None, *, interface: str | None = None, timeout_s: float | None = 10.0) -> Connection:
    """Connects to a running shaper: by the ``path`` of its control socket, by its ``interface``, or to the only one.

    ``timeout_s`` bounds the wait for a reply.
    """
    return Connection(path or find(interface), timeout_s)


async def connect_async(path: str | None = None, *, interface: str | None = None) -> AsyncConnection:
    """:func:`connect` for ``asyncio``."""
    where = path or find(interface)
    try:
        reader, writer = await asyncio.open_unix_connection(where, limit=1 << 24)
    except OSError as error:
        raise _unreachable(where, error) from error
    return AsyncConnection(reader, writer)
