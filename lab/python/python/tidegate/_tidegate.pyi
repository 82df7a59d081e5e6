"""The native part of the package."""

import os
from collections.abc import Callable
from typing import Any

__version__: str

class Checked:
    """A scenario that was read and checked. Immutable; any number of runs may use it at the same time."""

    def __init__(self, text: str, name: str, folder: str | os.PathLike[str] | None = None) -> None: ...
    @property
    def name(self) -> str:
        """The name that errors and reports call it by."""
    @property
    def text(self) -> str:
        """The text of its file."""
    @property
    def sentence(self) -> str | None:
        """One sentence on what it shows."""
    @property
    def duration_ns(self) -> int:
        """The simulated time, in ns."""
    @property
    def warm_up_ns(self) -> int:
        """The beginning that is not measured, in ns."""
    @property
    def seed(self) -> int:
        """The first seed."""
    @property
    def runs(self) -> int:
        """The number of runs."""
    @property
    def variants(self) -> list[str]:
        """The names of the variants; none where there are none."""

class Table:
    """A table of results: text (`utf8`), unsigned integers (`uint64`), numbers (`float64`) and booleans, each of which may
    be missing. polars, pyarrow, pandas and duckdb take it without a copy."""

    def __init__(self, columns: list[tuple[str, list[Any]]]) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
    def __len__(self) -> int: ...
    def __getitem__(self, name: str) -> list[Any]: ...
    def to_dict(self) -> dict[str, list[Any]]:
        """All columns as lists, by name; a missing value is `None`."""
    def to_csv(self) -> str:
        """The table as CSV with a header."""
    def to_parquet(self) -> bytes:
        """The table as a Parquet file."""

class Figure:
    """A plot. Notebooks show it; it is complete in itself and refers to nothing outside."""

    @property
    def svg(self) -> str:
        """The plot as SVG."""
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the figure to a file whose name ends in `.svg`."""
    def _repr_svg_(self) -> str: ...
    def _repr_html_(self) -> str: ...

class Results:
    """The results of all runs of a scenario."""

    @property
    def digest(self) -> str:
        """The digest of all runs, 32 hexadecimal digits: equal for the same scenario and seeds on every machine, and that of
        `tidegate simulate --hash`."""
    @property
    def digests(self) -> list[str]:
        """The digest of each run."""
    @property
    def seeds(self) -> list[int]:
        """The seed of each run."""
    @property
    def events(self) -> int:
        """Events that the simulator handled, in all runs."""
    @property
    def name(self) -> str:
        """The name of the scenario."""
    @property
    def values(self) -> Table:
        """One row for each value of each run: `seed` (uint64), `variant`, `subject`, `measure` (text), `value` (float64),
        `unit` (text: `bps`, `ns`, `packets`, `1`)."""
    @property
    def points(self) -> Table:
        """One row for each point of each curve: `seed`, `kind` (`series` or `distribution`), `variant`, `subject`,
        `measure`, `part`, `x` (float64), `x_unit` (`time_s`, `value_ns`), `value` (float64), `unit`."""
    @property
    def table(self) -> Table:
        """Values and points together, as `tidegate simulate --table` writes them; its curves of flows and classes are there
        after `simulate(..., parts=True)`."""
    def value(self, subject: str, measure: str, variant: str = "") -> float:
        """The mean of one value over the runs, in its unit: `value("flow bulk", "goodput")` in bit/s.

        Raises `KeyError`, with the names that there are.
        """
    @property
    def reports(self) -> list[dict[str, Any]]:
        """What was done to shapers, and what they reported: `seed`, `time_ns`, `variant`, `link`, `kind`, `refused`,
        `result`."""
    @property
    def titles(self) -> list[str]:
        """The titles of the plots."""
    def figure(self, title: str, curve: str = "") -> Figure:
        """The plot with this title; or those whose title contains it, one below the other over the same ranges. With `curve`
        only the curves whose name contains it. Raises `ValueError`, with the titles that there are."""
    def to_html(self) -> str:
        """The page that `tidegate simulate --report` writes: one HTML document that opens without a network. That of the
        command has curves of each flow and class of watched links, which are there after `simulate(..., parts=True)`."""
    def _reports(self) -> str: ...
    def _repr_html_(self) -> str: ...
    def __len__(self) -> int: ...

class Simulation:
    def __init__(self, scenario: Checked, seed: int, variant: str | None = None, parts: bool = False) -> None: ...
    @property
    def scenario(self) -> Checked: ...
    @property
    def seed(self) -> int: ...
    @property
    def now_ns(self) -> int: ...
    @property
    def is_over(self) -> bool: ...
    def run_until(self, time: int | str) -> int: ...
    def results(self) -> Results: ...
    def finish(self) -> Results: ...
    def _look(self) -> str: ...
    def _act(self, action: str) -> str: ...

class Decider:
    """A decision about each arriving packet of a FIFO: the probability with which it is dropped or marked.

    By a function `f(now_ns, queue_packets, queue_bytes, delay_ns, size_bytes) -> float`, where `delay_ns` is the queueing
    delay of the packet that left last; or by the number `probability`, which can be set while simulations run. It is the
    `queue` of a link in this process: `net.link("r", "b", rate="10mbit", queue=Decider(f))`. `packets` may wait; with `mark`
    packets whose transport can react are marked instead of dropped. With `every_ns` a decision of the function holds for that
    long, as the probability of PIE does: the function is called at most once in that time.

    A function that was compiled for C is called by its address, without the interpreter and at the speed of one in Rust:
    `numba.cfunc("float64(uint64, uint64, uint64, uint64, uint64)")`, or a function of `ctypes` with these types; integers may
    be signed. Its types are checked (`TypeError`), and it is kept alive. Simulations on several processors call it at the same
    time; an exception in it is printed and ignored, as numba does it. An `int` is the address of such code: whoever passes
    one answers for its types, and for the code to stay. What `numba.njit` compiled is called through the interpreter.
    """

    def __init__(
        self,
        function: Callable[[int, int, int, int, int], float] | int | None = None,
        *,
        probability: float = 0.0,
        packets: int = 1000,
        mark: bool = False,
        every_ns: int = 0,
    ) -> None: ...
    @property
    def probability(self) -> float | None:
        """The probability, where it is a number."""
    @probability.setter
    def probability(self, probability: float) -> None: ...
    def to_dict(self) -> dict[str, Any]:
        """The queue of a link as a dictionary."""

class Ack:
    """An acknowledgement of new data, for a congestion control."""

    @property
    def now(self) -> int:
        """The time of its arrival, in ns."""
    @property
    def acked(self) -> int:
        """Bytes by which it advances SND.UNA."""
    @property
    def flight_size(self) -> int:
        """FlightSize (RFC 5681, section 2) before it, in bytes."""
    @property
    def is_cwnd_limited(self) -> bool:
        """Whether the window limited the sender. A window that is not used must not grow (RFC 7661)."""
    @property
    def rtt_ns(self) -> int | None:
        """The RTT sample that it completes, if any, in ns."""
    @property
    def srtt_ns(self) -> int | None:
        """SRTT, in ns."""
    @property
    def delivered(self) -> int:
        """Bytes delivered so far, cumulatively and selectively acknowledged."""
    @property
    def recovery(self) -> str:
        """The loss recovery in progress before it: `"none"`, `"fast"`, or `"timeout"` for the slow start after one."""
    @property
    def una(self) -> int:
        """SND.UNA after it, in bytes."""
    @property
    def nxt(self) -> int:
        """SND.NXT, in bytes: a round trip ends when this is acknowledged."""
    @property
    def ecn_capable(self) -> int:
        """Bytes that were delivered ECN-capable so far, marked or not."""
    @property
    def ecn_ce(self) -> int:
        """Of these, those that were marked: counted exactly with accurate ECN (RFC 9768), by ECN-Echo without."""

class DeliverySample:
    """What was delivered with an acknowledgement, cumulative or selective."""

    @property
    def rate_bps(self) -> int | None:
        """The rate of delivery in bit/s; `None` where the interval is shorter than the least RTT."""
    @property
    def delivered(self) -> int:
        """Bytes delivered in the interval."""
    @property
    def prior_delivered(self) -> int:
        """Bytes that had been delivered when the newest of its segments was sent."""
    @property
    def interval_ns(self) -> int:
        """The interval, in ns."""
    @property
    def rtt_ns(self) -> int | None:
        """The RTT of the newest segment, unless it was retransmitted, in ns."""
    @property
    def in_flight(self) -> int:
        """Bytes in the network after it."""
    @property
    def is_app_limited(self) -> bool:
        """Whether the application had nothing more to send when the newest segment was sent."""
    @property
    def is_retransmitted(self) -> bool:
        """Whether the newest segment was retransmitted."""
    @property
    def newly_acked(self) -> int:
        """Bytes that the acknowledgement newly delivers."""
    @property
    def lost(self) -> int:
        """Bytes that were considered lost since the newest segment was sent."""
    @property
    def tx_in_flight(self) -> int:
        """Bytes in the network right after the newest segment was sent."""

class Packet:
    """A packet that a discipline in Python has. It leaves by being returned from `dequeue` or by `out.drop`, once."""

    @property
    def size(self) -> int:
        """The bytes that it takes on the link."""
    @property
    def flow(self) -> int:
        """The key of its flow, 64 bits: equal for packets of a flow."""
    @property
    def source(self) -> int:
        """A hash of its source address, 64 bits."""
    @property
    def destination(self) -> int:
        """A hash of its destination address, 64 bits."""
    @property
    def class_id(self) -> int:
        """The number of its class, from 0."""
    @property
    def profile(self) -> int:
        """The number of the rule that matched, from 1; 0 for none."""
    dscp: int
    """Its code point, 0 to 63."""
    @property
    def ecn(self) -> int:
        """Its ECN field: 0 not capable, 1 ECT(1), 2 ECT(0), 3 congestion experienced."""
    colour: str
    """Its colour: `"green"`, `"yellow"` or `"red"`."""
    @property
    def segments(self) -> int:
        """The packets on the wire that it represents."""
    @property
    def is_pure_ack(self) -> bool:
        """Whether it is a TCP acknowledgement without data."""
    @property
    def remaining(self) -> int | None:
        """The bytes that its flow has yet to send after it, where known."""
    @property
    def is_here(self) -> bool:
        """Whether it is still with the discipline."""
    def leaves_by(self, class_id: int) -> None:
        """Records that it leaves through this class."""

class Outlet:
    """Where a discipline in Python drops and marks packets, during a call."""

    def drop(self, packet: Packet, reason: str = "queue-limit") -> None:
        """Drops a packet, with a reason of `tidegate.qdisc.REASONS`."""
    def mark(self, packet: Packet) -> bool:
        """Marks a packet "congestion experienced"; returns whether its transport is ECN-capable. It is not changed
        otherwise."""

class ScriptResult:
    """What came of a script."""

    @property
    def holds(self) -> bool:
        """Whether all expectations hold; also the truth value."""
    @property
    def expectations(self) -> int:
        """The number of expectations."""
    @property
    def failures(self) -> str:
        """The expectations that failed, each with its place and what happened around it; empty where all hold."""
    @property
    def digest(self) -> str:
        """The digest of all arrivals, departures and drops."""
    @property
    def trace(self) -> Table:
        """One row for each arrival, departure and drop: `time_ns` (uint64), `flow`, `number`, `what` (`arrived`, `left`,
        `dropped`), `reason`, `size_bytes`, `waited_ns`, `marked` (bool)."""
    def __bool__(self) -> bool: ...

class Replay:
    """The results of a replay: of a recording through its own configuration, and of all packets through others."""

    @property
    def packets(self) -> int:
        """Packets that were put through."""
    @property
    def notices(self) -> list[str]:
        """What was repaired or left out of the file."""
    @property
    def is_exact(self) -> bool | None:
        """Of a recording, whether its own configuration had the departures of the recording, bit for bit; `None` for a
        capture."""
    @property
    def difference(self) -> str | None:
        """Of a recording that is not exact, the first difference."""
    @property
    def digests(self) -> list[tuple[str, str]]:
        """The digest of all departures, by configuration."""
    @property
    def configurations(self) -> Table:
        """One row for each configuration: `configuration`, `passed_packets`, `dropped_packets`, `unmatched_packets`,
        `time_ns`, `digest`."""
    @property
    def points(self) -> Table:
        """One row for each point of each curve: `configuration`, `kind`, `subject`, `measure`, `x`, `x_unit`, `value`,
        `unit`."""
    @property
    def titles(self) -> list[str]:
        """The titles of the plots."""
    def figure(self, title: str, curve: str = "") -> Figure:
        """The plot with this title, or those whose title contains it; see :meth:`Results.figure`."""

class Sweep:
    def __init__(
        self, text: str, name: str, folder: str, axes: list[tuple[str, str]], seeds: list[int], batch: int
    ) -> None: ...
    @property
    def runs(self) -> int: ...
    @property
    def batches(self) -> int: ...
    def batch(self, number: int) -> tuple[str, list[tuple[list[tuple[str, str]], str, int]]]: ...

def run_batch(
    runs: list[tuple[list[tuple[str, str]], str, int]], folder: str
) -> tuple[bytes, list[tuple[int, str]]]: ...
def run_explain(
    path: str | bytes,
    packet: int | None,
    event: int | None,
    configuration: str | None,
    link: str | None,
    seed: int,
) -> str: ...
def simulate(scenario: Checked, seed: int, runs: int, jobs: int, parts: bool) -> Results: ...
def run_all(simulations: list[Simulation], times: list[int]) -> list[int]: ...
def run_script(text: str, name: str, folder: str, make: Callable[[], Any] | None = None) -> ScriptResult: ...
def run_replay(
    path: str | bytes, configurations: list[tuple[str, str]], link: str | None, seed: int
) -> Replay: ...
def check_laws(
    make: Callable[[], Any], operations: int, seed: int, flows: int, classes: int, ecn_of_flows: bool
) -> tuple[list[int] | None, tuple[str, list[str], int] | None]: ...
