"""What is fixed in the control protocol: version, places, time limits, units, codes of refusals and kinds of events.

``VERSION``
    The version of the protocol. It changes when a request changes its meaning, not when something is added.
``LONGEST``
    The longest request and notification, in bytes with the newline. Replies may be longer.
``DIRECTORY``
    The folder of the control sockets. Shapers that may not write there use the folder tidegate in $XDG_RUNTIME_DIR.
``CONNECT_TIMEOUT``
    How long a connection may take. A daemon that is stopped does not accept any. In seconds.
``REPLY_TIMEOUT``
    How long the reply to a call may take that does not change the configuration. In seconds.
``CHANGE_TIMEOUT``
    How long the reply to a call may take that changes the configuration, which may start other data paths. In seconds.
``TCP``
    The protocol of a target or a flow: TCP.
``UDP``
    The protocol of a target or a flow: UDP.
``KBIT``
    A kilobit a second, in bit/s.
``MBIT``
    A megabit a second, in bit/s.
``GBIT``
    A gigabit a second, in bit/s.
"""

# Generated from crates/control/src/protocol.rs and calls; do not edit.

from __future__ import annotations

from enum import Enum

VERSION = 1
LONGEST = 65536
DIRECTORY = "/run/tidegate"
CONNECT_TIMEOUT = 2.0
REPLY_TIMEOUT = 10.0
CHANGE_TIMEOUT = 60.0
TCP = 6
UDP = 17
KBIT = 1000
MBIT = 1000000
GBIT = 1000000000


class Code(str, Enum):
    """The kind of a refusal, for programs. A member is equal to its text.

    ``MALFORMED``
        The message is not what the protocol specifies.
    ``VERSION``
        Another version of the protocol.
    ``UNKNOWN_CALL``
        There is no such call.
    ``TOO_LONG``
        The message is longer than the longest request; the connection ends.
    ``TOO_MANY``
        Too many clients, or too many subscriptions or promises of this one.
    ``NOT_ALLOWED``
        This user may not do this.
    ``NOT_FOUND``
        No such class, flow, process, promise.
    ``NO_ROOM``
        Not enough rate is left; the message states what is free.
    ``UNSUPPORTED``
        Not available here: another discipline, a missing facility.
    ``INVALID``
        The configuration or the parameters have errors, or contradict what is in force.
    ``FAILED``
        Something failed in the daemon or the system.
    """

    MALFORMED = "malformed"
    VERSION = "version"
    UNKNOWN_CALL = "unknown-call"
    TOO_LONG = "too-long"
    TOO_MANY = "too-many"
    NOT_ALLOWED = "not-allowed"
    NOT_FOUND = "not-found"
    NO_ROOM = "no-room"
    UNSUPPORTED = "unsupported"
    INVALID = "invalid"
    FAILED = "failed"


class Kind(str, Enum):
    """What an event reports. A member is equal to its text.

    ``FLOW_STARTED``
        A flow was seen for the first time.
    ``FLOW_ENDED``
        A flow sent nothing for the idle timeout, and was removed.
    ``QUEUE_ABOVE``
        The queue of a flow rose to its upper threshold.
    ``QUEUE_BELOW``
        The queue of a flow fell to its lower threshold.
    ``MOVED``
        A flow was moved to another class, with its queue.
    ``MARKED``
        Packets of a flow were marked congestion experienced; reported at most every 100 ms for a flow that is not watched.
    ``SANCTIONED``
        Queue protection of DualPI2 put a flow of the low-latency queue under sanction; its packets wait with those of the other queue.
    ``RELEASED``
        The last packet of a flow that was under sanction has left; the next may wait in the low-latency queue.
    ``RATE``
        A watched flow is granted another rate.
    ``DROPPED``
        Packets of a watched flow were dropped.
    ``DELAY_ABOVE``
        The oldest packet of a watched flow has waited longer than the requested limit.
    ``DELAY_BELOW``
        It has waited less than half of that.
    ``PROMISED``
        The minimum of a flow is in force.
    ``WAITING``
        The minimum of a flow waits for rate to be released.
    ``PROMISE_ENDED``
        A promise ended: its lease was over, or root ended it.
    ``LINE_RATE``
        The rate of a direction follows its line to another value (`granted_bps`), for the reason in `text`.
    ``LOG``
        A message of the supervisor, as text. A change of the configuration has its author, command and differences in `data`.
    """

    FLOW_STARTED = "flow-started"
    FLOW_ENDED = "flow-ended"
    QUEUE_ABOVE = "queue-above"
    QUEUE_BELOW = "queue-below"
    MOVED = "moved"
    MARKED = "marked"
    SANCTIONED = "sanctioned"
    RELEASED = "released"
    RATE = "rate"
    DROPPED = "dropped"
    DELAY_ABOVE = "delay-above"
    DELAY_BELOW = "delay-below"
    PROMISED = "promised"
    WAITING = "waiting"
    PROMISE_ENDED = "promise-ended"
    LINE_RATE = "line-rate"
    LOG = "log"
