"""UDP sockets that send at a rate: each datagram leaves when it is due, so that the average is the rate and bursts are short.

In threads, ``send`` blocks until it is time; threads may share a socket:

>>> from tidegate import pace
>>> socket = pace.UdpSocket("127.0.0.1:9999", "20mbit")
>>> socket.send(b"x" * 1200)
1200
>>> socket.set_rate("2.5MB/s")
>>> socket.status().packets
1

In asyncio, ``await send`` waits for its time, tasks that share a socket take turns, and a send that is cancelled has sent
nothing::

    async def main():
        socket = pace.AsyncUdpSocket("192.0.2.1:5000", "20mbit")
        for chunk in chunks:
            await socket.send(chunk)

Rates count payload: ``"20mbit"`` is 20,000,000 bit/s, ``"2.5MB/s"`` the same. Both classes have the same arguments:

``peer``
    Host and port, ``"192.0.2.1:5000"`` or ``"[2001:db8::1]:5000"``; ``None`` for a socket that only sends with ``to``.
``rate``
    The rate.
``bind``
    The local address and port. Needed without a peer: ``"0.0.0.0:0"``.
``live``
    The data is produced as it is sent: after a gap of 100 ms nothing is made up for. Otherwise the last 50 ms are.
``burst``
    The longest batch of ``send_segments``, as the time that it takes at the rate: ``"250us"``.
``spin``
    The share of a core, in percent, that may be spent on ending waits exactly.
``backend``
    What keeps departures apart: ``"timers"`` of the process, ``"txtime"`` (``SO_TXTIME``, with fq or etf on the way),
    ``"max-pacing-rate"`` (``SO_MAX_PACING_RATE``, with fq), or by default ``"auto"``: what the kernel supports on the way to
    the peer. ``socket.backend`` says which it is and ``socket.told`` why.
``towards``
    An address by which the back end is chosen where there is no peer.

A wrong argument raises ``ValueError``, everything else ``OSError``. Sockets need Linux.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from ._tidegate import PacedSocket

__all__ = ["AsyncUdpSocket", "Status", "UdpSocket"]


class Status(NamedTuple):
    """The state of a socket's schedule."""

    #: The rate, in bit/s.
    rate_bps: int
    #: Whether it is paused.
    paused: bool
    #: Datagrams or batches sent.
    packets: int
    #: Bytes of payload sent.
    bytes: int
    #: How often a gap was too long to be made up for.
    restarts: int
    #: How far it is behind its schedule, in ns.
    late_ns: int


class _Socket:
    """What both classes have besides sending."""

    def __init__(self, peer: str | None, rate: str, **options: Any) -> None:
        self._socket = PacedSocket(peer, rate, **options)

    def set_rate(self, rate: str) -> None:
        """Sets the rate from now on. What waits is sent by the new rate."""
        self._socket.set_rate(rate)

    def pause(self) -> None:
        """Sends nothing until :meth:`resume`."""
        self._socket.pause()

    def resume(self) -> None:
        """Ends a pause, which is not made up for."""
        self._socket.resume()

    def status(self) -> Status:
        """The state of the schedule."""
        return Status(**self._socket.status())

    @property
    def backend(self) -> str:
        """What keeps departures apart."""
        return self._socket.backend

    @property
    def told(self) -> list[str]:
        """A line about each feature of the kernel: whether it is used, and why not."""
        return self._socket.told

    @property
    def local_address(self) -> str:
        """The local address and port."""
        return self._socket.local_address

    def fileno(self) -> int:
        """The descriptor of the socket, for receiving and for options. What is sent through it is not paced."""
        return self._socket.fileno()


class UdpSocket(_Socket):
    """A UDP socket whose ``send`` blocks until it is time. The arguments are those of the module."""

    def send(self, data: bytes, to: str | None = None) -> int:
        """Sends ``data`` as one datagram, to ``to`` or to the peer, when it is time. Returns its length."""
        return self._socket.send(data, to)

    def send_segments(self, data: bytes, size: int) -> int:
        """Sends ``data`` in datagrams of ``size`` bytes, in batches of at most ``burst``. Returns its length."""
        return self._socket.send_segments(data, size)


class AsyncUdpSocket(_Socket):
    """A UDP socket whose ``send`` awaits its time. The arguments are those of the module."""

    def __init__(self, peer: str | None, rate: str, **options: Any) -> None:
        super().__init__(peer, rate, **options)
        # Fair: tasks send in the order in which they asked.
        self._turn = asyncio.Lock()

    async def send(self, data: bytes, to: str | None = None) -> int:
        """Sends ``data`` as one datagram, to ``to`` or to the peer, when it is time. Returns its length.

        Write addresses as numbers: looking up a name blocks the loop.
        """
        async with self._turn:
            while (sent := self._socket.try_send(data, to)) is None:
                await self._wait()
            return sent

    async def send_segments(self, data: bytes, size: int) -> int:
        """Sends ``data`` in datagrams of ``size`` bytes, in batches of at most ``burst``. Returns its length.

        When it is cancelled, whole batches have been sent.
        """
        rest = data
        while rest:
            async with self._turn:
                while (sent := self._socket.try_send_segments(rest, size)) is None:
                    await self._wait()
            rest = rest[sent:]
        return len(data)

    async def _wait(self) -> None:
        # The loop's own timers round up to a millisecond.
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        descriptor = self._socket.timer_fileno()
        loop.add_reader(descriptor, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_reader(descriptor)
