"""The native part of the package."""

import os
from collections.abc import Callable
from typing import Any, Literal

__version__: str

class Checked:
    """A scenario that has been read and checked. It is immutable, and any number of runs may use it at the same time."""

    def __init__(self, text: str, name: str, folder: str | os.PathLike[str] | None = None) -> None: ...
    def to_dict(self) -> dict[str, Any]:
        """The scenario as a dictionary with the keys of a file. It can be changed and given to `simulate` or `Scenario`."""
    @property
    def folder(self) -> str | None:
        """The folder in which files that it names are looked for; `None` if it may name none."""
    @property
    def name(self) -> str:
        """The name by which errors and reports call it."""
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

class TableRows:
    """The rows of a table, one after the other."""

    def __iter__(self) -> TableRows: ...
    def __next__(self) -> dict[str, Any]: ...

class Table:
    """A table of results with columns of text (`utf8`), integers (`int64`; `uint64` where one is above 2^63), numbers (`float64`) and booleans.
    Values may be missing."""

    def __init__(self, columns: list[tuple[str, list[Any]]]) -> None: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
    def __len__(self) -> int: ...
    def __iter__(self) -> TableRows: ...
    def __getitem__(self, name: str) -> list[Any]: ...
    def to_dict(self) -> dict[str, list[Any]]:
        """All columns as lists, by name."""
    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`, column by column. Integers stay integers, and missing values are NaN or None."""
    def to_csv(self) -> str:
        """The table as CSV with a header."""
    def to_parquet(self) -> bytes:
        """The table as a Parquet file."""

class Figure:
    """A figure, which notebooks display. It is complete in itself and refers to nothing outside."""

    @property
    def svg(self) -> str:
        """The figure as SVG."""
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the figure to a file in the format of its name: `.svg`, `.pdf` (with its font), `.png` (300 pixels to the inch on
        paper), `.pgf` or `.tikz` (for LaTeX, in the font of the document)."""
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
        """The seeds of the runs."""
    @property
    def events(self) -> int:
        """The number of events that the simulator handled in all runs."""
    @property
    def name(self) -> str:
        """The name of the scenario."""
    @property
    def values(self) -> Table:
        """One row for each value of each run: `seed` (int64), `variant`, `subject`, `measure` (text), `value` (float64),
        `unit` (text: `bps`, `ns`, `packets`, `1`)."""
    @property
    def points(self) -> Table:
        """One row for each point of each curve: `seed`, `kind` (`series` or `distribution`), `variant`, `subject`,
        `measure`, `part`, `x` (float64), `x_unit` (`time_s`, `value_ns`), `value` (float64), `unit`."""
    @property
    def table(self) -> Table:
        """Values and points together, as `tidegate simulate --table` writes them; its curves of flows and classes are there
        after `simulate(..., parts=True)`."""
    @property
    def differences(self) -> Table:
        """One row for each pair of variants and each quantity: subject, measure, unit, first, second, their means (mean_first, mean_second),
        difference (the first minus the second; of runs that did not reach a percentile with the time counted_as), its 95 % interval
        by Student's t (half_width_95) and by the bootstrap, of times the ratio by which they are tested with its interval (ratio,
        ratio_low_95, ratio_high_95), and p. p_holm is corrected for all
        comparisons that the command and the report state beside each other, and decided says whether it is at most 0.05; both are
        missing for other quantities. p_holm_measure is corrected for the comparisons_measure pairs of the measure alone: use it if
        you state no other. equal_within_2 says whether two one-sided tests (TOST) find them equal within 2 %, with p_equal_holm
        corrected likewise. p_equal is the probability of samples this equal if the means differ by 2 %. Where the seeds do not
        change a difference, test is "none" and p is missing. Runs with the same seed are compared as pairs. more_runs is how many more would decide, a guess if
        there are fewer than ten. Empty without variants, and with one run."""
    def differences_of(
        self,
        *,
        subjects: list[str] | None = None,
        rows: list[str] | None = None,
        measures: list[str] | None = None,
        compare: list[str] | None = None,
    ) -> Table:
        """The differences like `differences`, with p_holm for a paper that states these alone: each of `measures` of each of `subjects`
        between `rows`, or the single quantities `compare`, such as `["delay p99 of flow call"]`."""
    def value(self, subject: str, measure: str, variant: str = "") -> float:
        """The mean of one value over the runs, in its unit: `value("flow bulk", "goodput")` in bit/s. It is infinite where a run did not
        reach a percentile, because too many transfers were not completed.

        Raises `KeyError`, with the names that there are."""
    @property
    def reports(self) -> list[dict[str, Any]]:
        """The calls that were made to shapers, and their results: dictionaries with seed, time_ns, variant, link, kind,
        refused and result."""
    @property
    def titles(self) -> list[str]:
        """The titles of the plots."""
    def figure(
        self,
        title: str | None = None,
        curve: str = "",
        *,
        look: Literal["page", "column", "text"] = "page",
        width: float | None = None,
        height: float | None = None,
        type_size: float | None = None,
        heading: str | None = None,
        subjects: list[str] | None = None,
        rows: list[str] | None = None,
        measures: list[str] | None = None,
        compare: list[str] | None = None,
        form: Literal["bars", "box", "violin", "strip", "ecdf", "ccdf"] | None = None,
        from_: str | None = None,
        to: str | None = None,
        grey: bool = False,
        log: bool = False,
        overlay: bool = False,
        bands: bool = True,
    ) -> Figure:
        """The plot with this title, or those whose title contains it, one below the other over the same ranges; a subject of the
        comparison, such as `flow call`; or without a title the comparison of the variants. With `curve` it has only the curves,
        or measures, whose name contains that text.

        `look` is `"page"` (900 points wide), `"column"` (252 points) or `"text"` (516), the last two with type of 8 points and no
        title, for papers. The other options change it: `width`, `height` and `type_size` in points; `heading`, the text above
        (empty for none); `subjects`, `rows` and `measures`, what is drawn, in this order; `form`, `"bars"`, `"box"`, `"violin"` or `"strip"` for
        comparisons and `"ecdf"` or `"ccdf"` for distributions; `grey` for print without colours; `log` for a logarithmic axis of values.
        `compare` has single quantities instead of `subjects` and `measures`, such as `["delay p99 of flow call"]`; `from_` and `to` are the
        ends of the horizontal axis of a plot, such as `"20ms"`; `overlay` draws the plots that the title means in one, and without
        `bands` curves have no bands around them.

        Raises `ValueError`, with the titles that there are, or what is wrong with an option."""
    def to_latex(
        self,
        *,
        look: Literal["page", "column", "text"] = "page",
        width: float | None = None,
        subjects: list[str] | None = None,
        rows: list[str] | None = None,
        measures: list[str] | None = None,
        compare: list[str] | None = None,
    ) -> str:
        """The comparison of the variants as a table for LaTeX, with the package booktabs, as `tidegate simulate --latex` prints
        it. `subjects`, `rows`, `measures` and `compare` choose what it has, in their order; without them it has what the scenario names as
        primary. With `look` `"column"` or `"text"`, or a `width` of these, no table is wider, and has type of 8 points."""
    def to_markdown(
        self,
        *,
        subjects: list[str] | None = None,
        rows: list[str] | None = None,
        measures: list[str] | None = None,
        compare: list[str] | None = None,
    ) -> str:
        """The comparison of the variants as a table of Markdown; see `to_latex`."""
    def to_html(self) -> str:
        """The page that `tidegate simulate --report` writes: one HTML document that opens without a network. That of the
        command has curves of each flow and class of watched links, which are there after `simulate(..., parts=True)`."""
    def _reports(self) -> str:
        """The reports as JSON."""
    def _repr_html_(self) -> str:
        """The page in a frame, for notebooks."""
    def __len__(self) -> int: ...

class Simulation:
    """A run of a scenario that advances step by step: it can be run until some time, inspected, changed and continued."""

    def __init__(self, scenario: Checked, seed: int, variant: str | None = None, parts: bool = False) -> None: ...
    @property
    def scenario(self) -> Checked:
        """The scenario."""
    @property
    def seed(self) -> int:
        """The seed of the run."""
    @property
    def now_ns(self) -> int:
        """The simulated time in ns."""
    @property
    def is_over(self) -> bool:
        """Whether the end of the scenario's duration is reached."""
    def run_until(self, time: int | str) -> int:
        """Runs until a time (ns, or text with a unit), or until the end of the scenario's duration if that is earlier.
        Returns the simulated time in ns. After Ctrl-C the simulation has stopped at an earlier time, and can be
        continued."""
    def results(self) -> Results:
        """The results so far, without the reports of shapers, which only :meth:`finish` returns. The run can be continued."""
    def finish(self) -> Results:
        """Runs to the end of the duration and returns the results. The simulation is then finished. If nothing was changed
        and the scenario has no variants, the digest equals that of `simulate` with this seed."""
    def _look(self) -> str:
        """The current state as JSON."""
    def _act(self, action: str) -> str:
        """Performs an action, given as a TOML table as in `[[at]]`. Returns its report as JSON."""

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
    one answers for its types, and for the code to stay. What `numba.njit` compiled is called through the interpreter."""

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
        """The probability, if it is a number and not a function."""
    @probability.setter
    def probability(self, probability: float) -> None: ...
    def to_dict(self) -> dict[str, Any]:
        """The section for the queue of a link, as a dictionary."""

class Ack:
    """An acknowledgement of new data, for a congestion control."""

    @property
    def now(self) -> int:
        """The arrival time in ns."""
    @property
    def acked(self) -> int:
        """The number of bytes by which it advances SND.UNA."""
    @property
    def flight_size(self) -> int:
        """The bytes in flight before the acknowledgement."""
    @property
    def is_cwnd_limited(self) -> bool:
        """Whether the window limited the sender. A window that is not used must not grow (RFC 7661)."""
    @property
    def rtt_ns(self) -> int | None:
        """The RTT sample that it provides, in ns."""
    @property
    def srtt_ns(self) -> int | None:
        """The smoothed RTT (SRTT) in ns."""
    @property
    def delivered(self) -> int:
        """Bytes delivered so far, cumulatively and selectively acknowledged."""
    @property
    def recovery(self) -> str:
        """The loss recovery that was in progress before the acknowledgement: `"none"`, `"fast"` or `"timeout"`."""
    @property
    def una(self) -> int:
        """SND.UNA after the acknowledgement."""
    @property
    def nxt(self) -> int:
        """SND.NXT, in bytes: a round trip ends when this is acknowledged."""
    @property
    def ecn_capable(self) -> int:
        """The number of bytes delivered in ECN-capable packets so far."""
    @property
    def ecn_ce(self) -> int:
        """The number of these bytes that were marked "congestion experienced" (CE)."""

class DeliverySample:
    """The data delivered by an acknowledgement, cumulative or selective."""

    @property
    def rate_bps(self) -> int | None:
        """The delivery rate in bit/s; `None` if the interval is shorter than the minimum RTT."""
    @property
    def delivered(self) -> int:
        """The number of bytes delivered in the interval."""
    @property
    def prior_delivered(self) -> int:
        """The number of bytes that had been delivered when the newest acknowledged segment was sent."""
    @property
    def interval_ns(self) -> int:
        """The sampling interval in ns."""
    @property
    def rtt_ns(self) -> int | None:
        """The RTT of the newest segment in ns, unless it was retransmitted."""
    @property
    def in_flight(self) -> int:
        """The bytes in flight after the acknowledgement."""
    @property
    def is_app_limited(self) -> bool:
        """Whether the sample was limited by the application, which had no more data to send."""
    @property
    def is_retransmitted(self) -> bool:
        """Whether the newest segment was retransmitted."""
    @property
    def newly_acked(self) -> int:
        """The number of bytes that the acknowledgement newly delivers."""
    @property
    def lost(self) -> int:
        """The number of bytes that were considered lost since the newest segment was sent."""
    @property
    def tx_in_flight(self) -> int:
        """The bytes in flight right after the newest segment was sent."""

class Packet:
    """A packet held by a discipline in Python. The discipline gives it up exactly once, by returning it from `dequeue` or
    passing it to `out.drop`."""

    @property
    def size(self) -> int:
        """The size on the link in bytes."""
    @property
    def flow(self) -> int:
        """The key of its flow, which is the same for all packets of the flow."""
    @property
    def source(self) -> int:
        """A hash of the source address."""
    @property
    def destination(self) -> int:
        """A hash of the destination address."""
    @property
    def class_id(self) -> int:
        """The number of its class."""
    @property
    def profile(self) -> int:
        """The number of the rule that matched, from 1; 0 for none."""
    dscp: int
    """Its code point, 0 to 63."""
    @property
    def ecn(self) -> int:
        """The two bits of the ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 congestion experienced (CE)."""
    colour: str
    """Its colour: `"green"`, `"yellow"` or `"red"`."""
    @property
    def segments(self) -> int:
        """The number of packets on the wire that it represents, which is more than one for a GSO packet."""
    @property
    def is_pure_ack(self) -> bool:
        """Whether it is a pure TCP acknowledgement, without data."""
    @property
    def remaining(self) -> int | None:
        """The number of bytes that its flow has yet to send after this packet, if known."""
    @property
    def is_here(self) -> bool:
        """Whether the discipline still holds the packet."""
    def leaves_by(self, class_id: int) -> None:
        """Records that the packet leaves through this class."""

class Outlet:
    """The object through which a discipline in Python drops and marks packets during a call."""

    def drop(self, packet: Packet, reason: str = "queue-limit") -> None:
        """Drops a packet, with a reason of `tidegate.qdisc.REASONS`."""
    def mark(self, packet: Packet) -> bool:
        """Marks a packet as "congestion experienced" (CE) if its transport is ECN-capable. Returns whether it is."""

class ScriptResult:
    """The result of a script."""

    @property
    def holds(self) -> bool:
        """Whether all expectations hold; also the truth value."""
    @property
    def expectations(self) -> int:
        """The number of expectations."""
    @property
    def failures(self) -> str:
        """The expectations that failed, each with its place in the script and the surrounding events. Empty if all hold."""
    @property
    def digest(self) -> str:
        """The digest of all arrivals, departures and drops."""
    @property
    def trace(self) -> Table:
        """One row for each arrival, departure and drop: `time_ns` (int64), `flow`, `number`, `what` (`arrived`, `left`,
        `dropped`), `reason`, `size_bytes`, `waited_ns`, `marked` (bool)."""
    def __bool__(self) -> bool: ...

class Replay:
    """The results of a replay: those of a recording with its own configuration, and those of all packets with other
    configurations."""

    @property
    def packets(self) -> int:
        """The number of packets that were replayed."""
    @property
    def notices(self) -> list[str]:
        """Notices about repairs of the file and parts that were skipped."""
    @property
    def is_exact(self) -> bool | None:
        """Whether a recording's own configuration produced the recorded departures, bit for bit, and the recorded decisions of a rate
        that follows the line; `None` for a capture."""
    @property
    def difference(self) -> str | None:
        """The first difference, if the recording was not reproduced exactly."""
    @property
    def digests(self) -> list[tuple[str, str]]:
        """The name of each configuration with the digest of its departures."""
    @property
    def configurations(self) -> Table:
        """One row for each configuration: configuration, passed_packets, dropped_packets, unmatched_packets, time_ns, digest."""
    @property
    def points(self) -> Table:
        """One row for each point of each curve: `configuration`, `kind`, `subject`, `measure`, `x`, `x_unit`, `value`,
        `unit`."""
    @property
    def titles(self) -> list[str]:
        """The titles of the plots."""
    def figure(
        self,
        title: str,
        curve: str = "",
        *,
        look: Literal["page", "column", "text"] = "page",
        width: float | None = None,
        height: float | None = None,
        type_size: float | None = None,
        heading: str | None = None,
        rows: list[str] | None = None,
        form: Literal["ecdf", "ccdf"] | None = None,
        from_: str | None = None,
        to: str | None = None,
        grey: bool = False,
        log: bool = False,
        overlay: bool = False,
        bands: bool = True,
    ) -> Figure:
        """The plot with this title, or those whose title contains it; see `Results.figure`."""

class Sweep:
    """A sweep: a scenario for each combination of the values of some axes, with several seeds."""

    def __init__(
        self, text: str, name: str, folder: str, axes: list[tuple[str, str]], seeds: list[int], batch: int
    ) -> None: ...
    @property
    def runs(self) -> int:
        """The number of runs."""
    @property
    def batches(self) -> int:
        """The number of batches."""
    @property
    def order(self) -> list[tuple[str, list[str]]]:
        """The path of each key of the axes, with its values in their order, which files keep."""
    def batch(self, number: int) -> tuple[str, list[tuple[list[tuple[str, str]], str, int]]]:
        """The file name and the runs of batch `number`, counted from 0."""
    def missing(self, number: int) -> tuple[str, list[tuple[list[tuple[str, str]], str, int]]]:
        """The part of batch `number` whose results are not known, in a file with a name of its own."""
    def knowing(self, name: str, file: bytes) -> Sweep | None:
        """The sweep without the runs whose results are in a file, of which this is the name and the content; `None` if it was not made of this
        scenario."""

def run_batch(
    runs: list[tuple[list[tuple[str, str]], str, int]], folder: str, order: list[tuple[str, list[str]]]
) -> tuple[bytes, list[tuple[int, str]]]:
    """Simulates some runs. Returns their rows as a Parquet file, which is empty if all of them failed and keeps the order of the axes, and
    the indices of the runs that failed, with the reasons."""
def run_explain(
    path: str | bytes,
    packet: int | None,
    event: int | None,
    configuration: str | None,
    link: str | None,
    seed: int,
) -> str:
    """Explains, as JSON, what happened to a packet of a capture or a recording, and why. The packet is number `packet`
    (from 1) or, in a recording, that of record `event` (from 0). A capture needs a configuration, the text of a shaper
    file."""
def simulate(scenario: Checked, seed: int, runs: int | None, jobs: int, parts: bool) -> Results:
    """Simulates a scenario with the seeds `seed`, `seed + 1`, ..., each with all variants. `jobs` simulations run at a
    time. Without `runs` the scenario decides, by its number or by its rule."""
def run_conform(control: str, quic: bool, seed: int, runs: int, only: list[str]) -> str:
    """Examines a congestion control, a value of `tcp.congestion` in TOML, by the criteria of RFC 9743, over TCP or QUIC. Returns the
    result as JSON. `only` names cases; an empty list means all."""
def run_all(simulations: list[Simulation], times: list[int]) -> list[int]:
    """Runs several simulations at the same time, each until its own time in ns. Returns their simulated times in ns."""
def run_script(text: str, name: str, folder: str, make: Callable[[], Any] | None = None) -> ScriptResult:
    """Runs a script on the discipline or configuration that it names, or on the discipline in Python that `make` returns."""
def run_replay(
    path: str | bytes, configurations: list[tuple[str, str]], link: str | None, seed: int
) -> Replay:
    """Replays all packets of a capture or a recording through configurations, each of which is a name and the text of a
    shaper file. A recording is also replayed through its own configuration."""
def check_laws(
    make: Callable[[], Any], operations: int, seed: int, flows: int, classes: int, ecn_of_flows: bool
) -> tuple[list[int] | None, tuple[str, list[str], int] | None]:
    """Runs random scripts with `operations` steps in total on the objects that `make` returns. Each script runs three
    times. Returns the coverage (steps, packets enqueued, dequeued and dropped, and deadlines verified) and, if a law
    was violated, the law, the shortest script and its seed."""
def draw_table(
    table: Table,
    kind: str,
    x: str,
    y: str,
    value: str,
    by: list[str],
    only: list[tuple[str, str]],
    over: list[tuple[str, str]],
    log: bool,
    log_x: bool,
    times: float | None,
    titles: tuple[str, str],
    look: str,
    width: float | None,
    height: float | None,
    type_size: float | None,
    heading: str | None,
    rows: list[str] | None,
    form: str | None,
    grey: bool,
    bands: bool,
) -> Figure:
    """A figure of a table; `tidegate.figure` has the documentation."""

class PacedSocket:
    """A UDP socket that sends at a rate. `tidegate.pace` has classes for threads and for asyncio over it."""

    def __init__(
        self,
        peer: str | None,
        rate: str,
        *,
        bind: str | None = None,
        live: bool = False,
        burst: str | None = None,
        spin: int = 0,
        backend: str = "auto",
        towards: str | None = None,
    ) -> None: ...
    def send(self, data: bytes, to: str | None = None) -> int:
        """Blocks until `data` may be sent, to `to` or to the peer, and sends it as one datagram. Returns its length."""
    def send_segments(self, data: bytes, size: int) -> int:
        """Blocks until all of `data` is sent in datagrams of `size` bytes, with time between batches of them. Returns its
        length."""
    def try_send(self, data: bytes, to: str | None = None) -> int | None:
        """Sends `data` if it is time, without blocking, and returns its length. Otherwise returns `None`: then the
        descriptor `timer_fileno` is readable when this may be repeated."""
    def try_send_segments(self, data: bytes, size: int) -> int | None:
        """Like `try_send`, for the first batch of `data` in datagrams of `size` bytes."""
    def set_rate(self, rate: str) -> None:
        """Sets the rate from now on, for example `"20mbit"` or `"2.5MB/s"`."""
    def pause(self) -> None:
        """Sends nothing until `resume`."""
    def resume(self) -> None:
        """Ends a pause, which is not made up for."""
    def status(self) -> dict[str, Any]:
        """The state of the schedule, as a dictionary."""
    @property
    def backend(self) -> str:
        """The back end that keeps departures apart, as text."""
    @property
    def told(self) -> list[str]:
        """A line about each feature of the kernel: whether it is used, and why not."""
    @property
    def local_address(self) -> str:
        """The local address and port, as text."""
    def fileno(self) -> int:
        """The descriptor of the socket. What is sent through it is not paced."""
    def timer_fileno(self) -> int:
        """The descriptor of the timer for event loops."""
