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
import stat
from collections import deque
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from typing import Any, Literal, Optional, TypedDict

from . import protocol
from .errors import ControlError

__all__ = ["AsyncConnection", "Connection", "ControlError", "Displacement", "Target", "connect", "connect_async", "find"]


def _directories() -> list[str]:
    """That of the system, and that of the user unless others may write there: the environment of another user leads nobody astray."""
    found = [protocol.DIRECTORY]
    if base := os.environ.get("XDG_RUNTIME_DIR"):
        directory = os.path.join(base, "tidegate")
        if _is_ours(base) and (_is_ours(directory) or not os.path.lexists(directory)):
            found.append(directory)
    return found


def _is_ours(path: str) -> bool:
    """Whether a directory is of this user or of root, and not writable for everybody."""
    try:
        data = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(data.st_mode) and data.st_uid in (0, os.geteuid()) and not data.st_mode & stat.S_IWOTH


def find(interface: str | None = None) -> str:
    """The path of the control socket of a shaper: of ``interface``, or of the only one that runs.

    Of several shapers the one in the network namespace of this process is meant.

    Raises
    ------
    ControlError
        None runs, or several do.
    """
    folders = _directories()
    if interface is not None:
        names = [f"{interface}@{_own_namespace()}.sock", f"{interface}.sock"]
        found = [path for folder in folders for name in names if os.path.exists(path := os.path.join(folder, name))]
        # A shaper that was killed leaves its socket, which hides none that listens. A single one is not asked.
        if len(found) > 1:
            found = [next(filter(_is_served, found), found[0])]
    else:
        found = []
        for folder in folders:
            if os.path.isdir(folder):
                paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".sock"))
                found += filter(_is_served, paths)
    if not found:
        looked = ", ".join(folders)
        text = f"no tidegate is running: nothing listens in {looked}"
        raise ControlError(protocol.Code.NOT_FOUND, text, "start one with `tidegate run FILE`")
    if len(found) > 1:
        found = [path for path in found if _is_own(path)] or found
    if len(found) > 1:
        raise ControlError(protocol.Code.INVALID, "several tidegates are running: " + ", ".join(found), "name an interface or a path")
    return found[0]


def _is_served(path: str) -> bool:
    """Whether a process listens at a socket. A shaper that was killed leaves its socket; one that keeps this user out counts."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(protocol.CONNECT_TIMEOUT)
        try:
            asking.connect(path)
        except (PermissionError, TimeoutError, BlockingIOError):
            return True
        except OSError:
            return False
        return True


def _own_namespace() -> int:
    """The number of the network namespace of this process."""
    return os.stat("/proc/thread-self/ns/net").st_ino


def _is_own(path: str) -> bool:
    """Whether the shaper that listens at a socket is in the network namespace of this process. It is asked, since an ordinary user
    cannot look up the namespace of a process of another user."""
    try:
        with Connection(path, timeout_s=0.5) as asked:
            return asked.status().get("network_namespace") == _own_namespace()
    except (ControlError, OSError):
        return False


def _unreachable(path: str, error: OSError) -> ControlError:
    return ControlError(protocol.Code.FAILED, f"cannot reach tidegate at {path}: {error.strerror or error}", "is it running?")


#: What the protocol asks of what carries its lines: a line to write, or ``None`` to read one; and what it is sent for it.
_Steps = Generator[Optional[bytes], Optional[bytes], Any]


class _Protocol:
    """Requests, replies and notifications, whatever carries the lines: each exchange is a generator of steps."""

    def __init__(self) -> None:
        self._next = 1
        #: Notifications that preceded what was waited for, with the numbers of their subscriptions.
        self._pending: deque[tuple[int, dict[str, Any]]] = deque()

    def _handle(self, line: bytes, number: int | None) -> tuple[bool, Any]:
        """Whether ``line`` is the reply to request ``number``, and the reply."""
        if not line.endswith(b"\n"):
            raise ControlError(protocol.Code.FAILED, "tidegate closed the connection; it may have ended")
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

    def _exchange(self, call: str, parameters: dict[str, Any]) -> _Steps:
        """Makes a call; returns its reply."""
        number = self._next
        self._next += 1
        given = {key.rstrip("_"): value for key, value in parameters.items() if value is not None}
        yield json.dumps({"id": number, "version": protocol.VERSION, "call": call, "with": given}).encode() + b"\n"
        while True:
            done, reply = self._handle((yield None) or b"", number)
            if done:
                return reply

    def _notification(self, subscription: int) -> _Steps:
        """Waits for the next notification of a subscription; returns it."""
        while True:
            for position, (of, event) in enumerate(self._pending):
                if of == subscription:
                    del self._pending[position]
                    return event
            self._handle((yield None) or b"", None)


class Target(TypedDict, total=False):
    """The flows of a promise or of feedback: those that match all of its keys."""

    port: int
    protocol: int
    source: str
    source_port: int
    destination: str
    destination_port: int
    uid: int
    cgroup: str
    pid: int


class Displacement(TypedDict):
    """When a flow is moved to another class: while its rate is below ``below_bps``, to the class ``to``."""

    below_bps: int
    to: str


def _given(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a method, which are those of its call, from its ``locals()``."""
    return {name: value for name, value in parameters.items() if name != "self"}


class _Calls:
    """The calls of the protocol. Parameters are those of the protocol; a parameter that is ``None`` is left out, and a name that
    is a word of Python has ``_`` behind it."""

    def call(self, name: str, /, **parameters: Any) -> Any:
        raise NotImplementedError

    def status(self) -> Any:
        """What is in force and what every class has counted, at most 20 ms old."""
        return self.call("status")

    def classes(self) -> Any:
        """What is measured of every class."""
        return self.call("classes")

    def flows(
        self,
        *,
        sort: Literal["rate", "bytes", "queue", "delay", "drops", "recent"] | None = None,
        limit: int | None = None,
        direction: str | None = None,
        class_: str | None = None,
        uid: int | None = None,
        port: int | None = None,
    ) -> Any:
        """What is measured of the flows: the first ``limit`` (at most 1,000, default 100) in the order of ``sort``, of those that
        match the others."""
        return self.call("flows", **_given(locals()))

    def explain(
        self,
        *,
        direction: str | None = None,
        protocol: int | None = None,
        source: str | None = None,
        source_port: int | None = None,
        destination: str | None = None,
        destination_port: int | None = None,
        dscp: int | None = None,
        mark: int | None = None,
        uid: int | None = None,
        from_interface: str | None = None,
        length_bytes: int | None = None,
        tcp_flags: int | None = None,
        pure_ack: bool | None = None,
        icmp_type: int | None = None,
    ) -> Any:
        """Which rule a packet would match, its class and its flow, and their queues now. Protocols are numbers (6 TCP, 17 UDP)."""
        return self.call("explain", **_given(locals()))

    def promise(
        self,
        target: Target,
        *,
        direction: str | None = None,
        class_: str | None = None,
        minimum_bps: int | None = None,
        flows: int | None = None,
        prefer: int | None = None,
        displace: Displacement | None = None,
        lease_ns: int | None = None,
        detached: bool | None = None,
        wait: bool | None = None,
    ) -> Any:
        """Requests a promise for flows: a minimum, a preference, displacement. It ends with the lease, and with the connection
        unless it is ``detached``."""
        return self.call("promise", **_given(locals()))

    def renew(self, promise: int, *, lease_ns: int) -> Any:
        """Gives a promise another lease, from now on."""
        return self.call("renew", **_given(locals()))

    def release(self, promise: int) -> Any:
        """Ends a promise."""
        return self.call("release", **_given(locals()))

    def promises(self) -> Any:
        """All promises."""
        return self.call("promises")

    def reserve(
        self,
        *,
        matches: Sequence[tuple[str, str]],
        rate_bps: int,
        direction: str | None = None,
        name: str | None = None,
        bucket_bytes: int | None = None,
        peak_bps: int | None = None,
        min_unit_bytes: int | None = None,
        max_packet_bytes: int | None = None,
        guaranteed: bool | None = None,
        delay_ns: int | None = None,
        for_ns: int | None = None,
    ) -> Any:
        """Requests a class of its own under CBQ for packets that match (``[("destination-port", "5004")]``): a token bucket, and
        with ``guaranteed`` a bound on the delay."""
        return self.call("reserve", **_given(locals()))

    def refresh(self, reservation: int) -> Any:
        """Renews a reservation."""
        return self.call("refresh", **_given(locals()))

    def unreserve(self, reservation: int) -> Any:
        """Ends a reservation."""
        return self.call("unreserve", **_given(locals()))

    def reservations(self) -> Any:
        """All reservations."""
        return self.call("reservations")

    def apply(
        self,
        *,
        direction: str | None = None,
        text: str | None = None,
        file: str | None = None,
        edits: Sequence[Mapping[str, Any]] | None = None,
        dry_run: bool | None = None,
        confirm_ns: int | None = None,
    ) -> Any:
        """Puts another shaper file in force (``text``; ``file`` is its path, for the log), or edits of the one in force. With
        ``confirm_ns`` the change is taken back unless :meth:`confirm` is called within that time."""
        return self.call("apply", **_given(locals()))

    def confirm(self) -> Any:
        """Keeps the change on trial."""
        return self.call("confirm")

    def rollback(self) -> Any:
        """Takes back the change on trial."""
        return self.call("rollback")

    def undo(self, *, dry_run: bool | None = None) -> Any:
        """Takes back the last change that was kept; called again, the one before."""
        return self.call("undo", **_given(locals()))

    def notes(self, *, since_s: int | None = None) -> Any:
        """The last changes and faults, the oldest first: ``{"notes": [{"time_s": ..., "kind": "change", "text": ...}]}``."""
        return self.call("notes", **_given(locals()))

    def in_force(self, *, direction: str | None = None) -> Any:
        """The shaper file in force: ``{"text": ...}``."""
        return self.call("in-force", **_given(locals()))


class Connection(_Calls, _Protocol):
    """A connection. Subscriptions, promises and reservations end with it, unless they were requested to last."""

    def __init__(self, path: str, timeout_s: float | None = protocol.REPLY_TIMEOUT) -> None:
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
        #: What was received of the next lines. A file of the socket could not be read again after a timeout.
        self._received = bytearray()

    def _line(self) -> bytes:
        """The next line; one without its end where the connection ended."""
        while (end := self._received.find(b"\n") + 1) == 0:
            data = self._socket.recv(1 << 16)
            if not data:
                end = len(self._received)
                break
            self._received += data
        line = bytes(self._received[:end])
        del self._received[:end]
        return line

    def _run(self, steps: _Steps, timeout_s: float | None) -> Any:
        self._socket.settimeout(timeout_s)
        line = None
        try:
            while True:
                step = steps.send(line)
                if step is None:
                    line = self._line()
                else:
                    self._socket.sendall(step)
                    line = None
        except StopIteration as end:
            return end.value

    def call(self, name: str, /, **parameters: Any) -> Any:
        """Makes any call of the protocol and returns its reply.

        Raises
        ------
        ControlError
            The call was refused, with the reason and the way out.
        TimeoutError
            No reply came in time.
        """
        return self._run(self._exchange(name, parameters), self._timeout_s)

    def notifications(self, subscription: int, timeout_s: float | None = None) -> Iterator[dict[str, Any]]:
        """The notifications of a subscription, such as ``shaper.promise(...)["subscription"]``. The iterator waits for the next;
        with ``timeout_s`` it ends when none came for so long, with 0 after those that are there."""
        while True:
            try:
                notification = self._run(self._notification(subscription), timeout_s)
            except (TimeoutError, BlockingIOError):
                return
            yield notification

    def events(
        self,
        *,
        kinds: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        direction: str | None = None,
        uid: int | None = None,
        port: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Subscribes to events, of these ``kinds`` (``"flow-started"``, ``"moved"``, ...) alone if they are given; the iterator waits
        for the next."""
        watching = self.call("events", **_given(locals()))
        return self.notifications(watching["subscription"])

    def feedback(
        self, target: Target, *, direction: str | None = None, delay_ns: int | None = None, kinds: Sequence[str] | None = None
    ) -> tuple[list[dict[str, Any]], Iterator[dict[str, Any]]]:
        """Subscribes to what happens to some flows, of these ``kinds`` alone if they are given, and to waits beyond ``delay_ns``.
        Returns those that are present, and the notifications."""
        watching = self.call("feedback", **_given(locals()))
        return watching["flows"], self.notifications(watching["subscription"])

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncConnection(_Calls, _Protocol):
    """The same for ``asyncio``: every call returns an awaitable. While one task waits for a notification, the calls of others
    wait as well: use two connections."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer
        self._lock = asyncio.Lock()

    async def _run(self, steps: _Steps) -> Any:
        async with self._lock:
            line = None
            try:
                while True:
                    step = steps.send(line)
                    if step is None:
                        line = await self._reader.readline()
                    else:
                        self._writer.write(step)
                        await self._writer.drain()
                        line = None
            except StopIteration as end:
                return end.value

    async def call(self, name: str, /, **parameters: Any) -> Any:
        """Makes any call of the protocol and returns its reply; calls of several tasks follow one another."""
        return await self._run(self._exchange(name, parameters))

    async def notifications(self, subscription: int) -> AsyncIterator[dict[str, Any]]:
        """The notifications of a subscription, as :meth:`Connection.notifications`."""
        while True:
            yield await self._run(self._notification(subscription))

    async def events(
        self,
        *,
        kinds: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        direction: str | None = None,
        uid: int | None = None,
        port: int | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Subscribes to events, when the iterator is first asked for one."""
        watching = await self.call("events", **_given(locals()))
        async for event in self.notifications(watching["subscription"]):
            yield event

    async def feedback(
        self, target: Target, *, direction: str | None = None, delay_ns: int | None = None, kinds: Sequence[str] | None = None
    ) -> tuple[list[dict[str, Any]], AsyncIterator[dict[str, Any]]]:
        """Subscribes to everything that happens to some flows, as :meth:`Connection.feedback`."""
        watching = await self.call("feedback", **_given(locals()))
        return watching["flows"], self.notifications(watching["subscription"])

    async def close(self) -> None:
        """Closes the connection."""
        self._writer.close()
        await self._writer.wait_closed()

    async def __aenter__(self) -> AsyncConnection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def connect(path: str | None = None, *, interface: str | None = None, timeout_s: float | None = protocol.REPLY_TIMEOUT) -> Connection:
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
