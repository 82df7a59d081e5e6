"""Congestion controls in Python.

A control is a class; the congestion window is its attribute ``cwnd``, in bytes, which is read after each call::

    class Half(tidegate.congestion.Reno):
        def on_congestion(self, now, flight_size, signal):
            self.cwnd = self.ssthresh = max(self.cwnd / 2, 2 * self.mss)

It is the ``congestion`` of a flow: ``net.flow("bulk", "a", "b", workload={"kind": "bulk"}, tcp={"congestion": Half})``, or
``tidegate.congestion.python(Half, gain=2)`` with further arguments of its constructor. In a file it is
``tcp = { congestion = { kind = "python", class = "module:Half", arguments = { gain = 2 } } }``.

A class has these methods, where times are integers in ns and sizes are in bytes; each connection has an object of its own:

``__init__(mss, initial_window)``
    The largest segment without headers, and the initial window.
``on_ack(ack)``
    New data was acknowledged: :class:`tidegate.Ack`.
``on_congestion(now, flight_size, signal)``
    A loss was detected (``"loss"``), or ECN-Echo received (``"ecn"``): at most once in a window of data.
``on_timeout(now, flight_size, first)``
    The retransmission timer expired; ``first`` unless it expired before for the same segment.
``on_recovered(now, flight_size)``, ``on_idle(restart)``, ``exit_slow_start()``, ``on_sample(now, sample)``
    Where they are there: NewReno's recovery ended; nothing was sent for longer than an RTO, and ``cwnd`` must not exceed
    ``restart``; HyStart++ ends slow start; a delivery rate was measured (:class:`tidegate.DeliverySample`).

Further attributes: ``ssthresh`` in bytes, and ``pacing_bps``, the rate at which segments leave in bit/s (``None``: as soon as
``cwnd`` allows). A control has no randomness of its own: the same calls have the same results.

A pacing rate alone can be a function in the place of a class, ``tcp={"congestion": function}``.
``function(now_ns, srtt_ns, min_rtt_ns, delivery_bps, losses)`` is called with each acknowledgement of new data and returns a
rate in bit/s: ``srtt_ns`` is the smoothed RTT, ``min_rtt_ns`` the least one so far, ``delivery_bps`` the rate of delivery that
was measured last (0 before the first), and ``losses`` counts indications of congestion and timeouts. Until the first
acknowledgement the initial window is sent; then the window is twice the rate times the smoothed RTT, at least four segments,
so that the rate decides. A compiled function is called by its address, as that of a :class:`tidegate.Decider` is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

from ._tidegate import Ack
from ._tidegate import run_conform as _run_conform
from .qdisc import python
from .toml import _value

__all__ = ["Reno", "conform", "python"]


class Reno:
    """Slow start and congestion avoidance (RFC 5681) with appropriate byte counting (RFC 3465): what ``congestion = "reno"``
    of a file does, as a base of others."""

    def __init__(self, mss: int, initial_window: int) -> None:
        #: The largest segment without headers, in bytes.
        self.mss = mss
        #: The congestion window in bytes.
        self.cwnd: float = initial_window
        #: The slow start threshold in bytes.
        self.ssthresh: float = math.inf
        #: Bytes acknowledged in congestion avoidance since ``cwnd`` last grew.
        self.bytes_acked: float = 0

    def on_ack(self, ack: Ack) -> None:
        """Grows the window by what was acknowledged."""
        if not ack.is_cwnd_limited or ack.recovery == "fast":
            return
        if self.cwnd < self.ssthresh:
            self.cwnd += min(ack.acked, (1 if ack.recovery == "timeout" else 2) * self.mss)
            return
        self.bytes_acked += ack.acked
        if self.bytes_acked >= self.cwnd:
            self.bytes_acked -= self.cwnd
            self.cwnd += self.mss

    def _half_of(self, flight_size: int) -> int:
        # In whole segments: a fraction of one is never sent, but would have to be acknowledged before the window grows.
        return max(flight_size // 2 // self.mss, 2) * self.mss

    def on_congestion(self, now: int, flight_size: int, signal: str) -> None:
        """Halves the window."""
        self.cwnd = self.ssthresh = self._half_of(flight_size)
        self.bytes_acked = 0

    def on_timeout(self, now: int, flight_size: int, first: bool) -> None:
        """Begins slow start again with one segment."""
        if first:
            self.ssthresh = self._half_of(flight_size)
        self.cwnd = self.mss
        self.bytes_acked = 0

    def on_recovered(self, now: int, flight_size: int) -> None:
        """Prevents a burst where little is in flight (RFC 6582)."""
        self.cwnd = min(self.ssthresh, max(flight_size, self.mss) + self.mss)

    def on_idle(self, restart: int) -> None:
        """Reduces the window to the restart window."""
        self.cwnd = min(self.cwnd, restart)

    def exit_slow_start(self) -> None:
        """Ends slow start."""
        self.ssthresh = self.cwnd


def conform(
    control: str | Callable[..., Any] | dict[str, Any],
    *,
    quic: bool = False,
    seed: int = 1,
    runs: int = 3,
    only: Iterable[str] = (),
) -> dict[str, Any]:
    """Examines a congestion control by the criteria of RFC 9743: what ``tidegate conform --json`` prints, as a dictionary.

    ``control`` is a word (``"cubic"``, ``"quinn-cubic"``), a class, a function, or what :func:`python` returns. ``only`` names
    cases; default all, which takes minutes for a control in Python.

    >>> result = tidegate.congestion.conform("cubic", only=["half-lost"], runs=1)
    >>> result["cases"][0]["criteria"][0]["holds"]
    True
    """
    text = control if isinstance(control, str) else _value(control)
    return json.loads(_run_conform(text, quic, seed, runs, list(only)))
