"""Disciplines in Python: the laws, the simulator, shapers, scripts; and mistakes in them."""

from __future__ import annotations

import random
from collections import deque

import pytest
import tidegate
from conftest import dumbbell
from tidegate import laws, qdisc


class Fifo:
    """A FIFO of some bytes, as that of Tidegate."""

    def __init__(self, limit_bytes: int = 60_000) -> None:
        self.limit, self.held = limit_bytes, 0
        self.queue: deque[tidegate.Packet] = deque()

    def enqueue(self, now: int, packet: tidegate.Packet, out: tidegate.Outlet) -> None:
        if self.held + packet.size > self.limit:
            out.drop(packet, "queue-limit")
        else:
            self.held += packet.size
            self.queue.append(packet)

    def dequeue(self, now: int, out: tidegate.Outlet) -> tidegate.Packet | None:
        if not self.queue:
            return None
        packet = self.queue.popleft()
        self.held -= packet.size
        return packet


class Shaper(Fifo):
    """A byte takes 1 us."""

    free_at = 0

    def deadline(self, now: int) -> int | None:
        return max(now, self.free_at) if self.queue else None

    def dequeue(self, now, out):
        if not self.queue or now < self.free_at:
            return None
        packet = super().dequeue(now, out)
        self.free_at = now + 1000 * packet.size
        return packet


class Early(Fifo):
    """Drops or marks at random, by the seed of the run."""

    def begin(self, now: int, seed: int) -> None:
        self.random = random.Random(seed)

    def enqueue(self, now, packet, out):
        if self.random.random() < self.held / self.limit and not out.mark(packet):
            out.drop(packet, "early")
        else:
            super().enqueue(now, packet, out)


def test_it_has_the_numbers_of_the_same_discipline_in_rust(net):
    ours = tidegate.simulate(dumbbell(queue=qdisc.python(Fifo, limit_bytes=60_000)), seed=2)
    assert ours.digest == tidegate.simulate(net, seed=2).digest


@pytest.mark.parametrize("made", [Fifo, Shaper, Early, lambda: Fifo(3000)])
def test_the_laws_hold(made):
    covered = laws.check(made, operations=4_000)
    assert covered.steps == 4_000 and covered.enqueued > 1_000 and covered.dequeued > 500
    assert (covered.deadlines > 50) == (made is Shaper)


class Forgets(Fifo):
    def enqueue(self, now, packet, out):
        if len(self.queue) < 3:
            super().enqueue(now, packet, out)


class Reorders(Fifo):
    def dequeue(self, now, out):
        if not self.queue:
            return None
        packet = self.queue.pop()
        self.held -= packet.size
        return packet


class Late(Shaper):
    def deadline(self, now):
        at = super().deadline(now)
        return at and at + 1


class Luck(Fifo):
    def enqueue(self, now, packet, out):
        if random.random() < 0.5:
            out.drop(packet, "early")
        else:
            super().enqueue(now, packet, out)


@pytest.mark.parametrize(
    ("made", "law", "longest"), [(Forgets, "law [13]", 6), (Reorders, "law 6", 6), (Late, "law 3", 6), (Luck, "law", 60)]
)
def test_a_violation_has_a_short_script(made, law, longest):
    with pytest.raises(laws.Violation, match=law) as caught:
        laws.check(made, operations=4_000)
    assert 1 <= len(caught.value.script) <= longest, str(caught.value)
    assert any("enqueue" in step for step in caught.value.script)


class TwoQueues:
    """ECT(1) and CE go before other packets, as in RFC 9332."""

    def __init__(self):
        self.first, self.other = Fifo(20_000), Fifo(20_000)

    def enqueue(self, now, packet, out):
        queue = self.first if packet.ecn in (1, 3) else self.other
        queue.enqueue(now, packet, out)

    def dequeue(self, now, out):
        return self.first.dequeue(now, out) or self.other.dequeue(now, out)


def test_flows_may_keep_their_code_point():
    assert laws.check(TwoQueues, operations=4_000, ecn="flows").dequeued > 500
    with pytest.raises(laws.Violation, match="law 6"):
        laws.check(TwoQueues, operations=4_000)
    with pytest.raises(ValueError, match="expected 'packets' or 'flows'"):
        laws.check(TwoQueues, ecn="hosts")


def test_runs_are_repeatable_and_seeds_differ():
    net = dumbbell(queue=Early)
    net._lists["flow"][0]["tcp"] = {"ecn": True}
    digests = [tidegate.simulate(net, seed=seed).digest for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_it_goes_into_shapers_scripts_and_replay(tmp_path):
    shaped = {"shaper": {"discipline": qdisc.python(Fifo, limit_bytes=30_000)}}
    assert tidegate.simulate(dumbbell(queue=shaped)).value("flow bulk", "goodput") > 5e6
    steps = "flow a size 1000\nat 0s send 3 a\nexpect 2 a\nexpect drop a by queue-limit\n"
    held = tidegate.script("link 8mbit\n" + steps, lambda: Fifo(2_000))
    assert held and held.expectations == 2 and held.failures == ""
    named = f'discipline {{ kind = "python", class = "{qdisc.register(Fifo)}", arguments = {{ limit_bytes = 2000 }} }}\n'
    assert tidegate.script(named + "link 8mbit\n" + steps).digest == held.digest
    assert held.trace["what"].count("left") == 2 and held.trace["reason"][-1] is None
    failed = tidegate.script("flow a size 1000\nat 0s send 3 a\nexpect 3 a\n", lambda: Fifo(2_000))
    assert not failed and "<script>:3" in failed.failures
    with pytest.raises(tidegate.ConfigError, match="<script>:1"):
        tidegate.script("nonsense\n\n")


class Raises(Fifo):
    def dequeue(self, now, out):
        if now > 1_000_000_000:
            raise ZeroDivisionError("in dequeue")
        return super().dequeue(now, out)


class Twice(Fifo):
    last = None

    def dequeue(self, now, out):
        if self.last is not None:
            return self.last
        self.last = super().dequeue(now, out)
        return self.last


class WrongReason(Fifo):
    def enqueue(self, now, packet, out):
        out.drop(packet, "boredom")


class WrongResult(Fifo):
    def dequeue(self, now, out):
        return "a packet"


class Empty:
    pass


@pytest.mark.parametrize(
    ("made", "error", "text"),
    [
        (Raises, ZeroDivisionError, "in dequeue"),
        (Twice, RuntimeError, "has left"),
        (WrongReason, ValueError, "queue-limit"),
        (WrongResult, TypeError, "Packet"),
        (Empty, TypeError, "enqueue"),
    ],
)
def test_an_exception_ends_the_run_and_is_raised(made, error, text):
    with pytest.raises(error, match=text):
        tidegate.simulate(dumbbell(queue=made))
    simulation = None
    with pytest.raises(error, match=text):
        simulation = tidegate.Simulation(dumbbell(queue=made), seed=1)
        simulation.run_until("4s")
    if simulation is not None:
        with pytest.raises(tidegate.TidegateError, match="ended"):
            simulation.look()


def test_a_panic_is_an_exception_and_the_interpreter_goes_on():
    class Promises(Fifo):
        """Promises a packet for ever, which the simulator ends by a panic."""

        def dequeue(self, now, out):
            return None

        def deadline(self, now):
            return now if self.queue else None

    with pytest.raises(tidegate.InternalError, match=r"gives none \(law 3\)"):
        tidegate.simulate(dumbbell(queue=Promises), jobs=1)
    assert tidegate.simulate(dumbbell(queue=Fifo)).digest


def test_an_unknown_class_is_an_error_with_its_place():
    net = dumbbell(queue={"kind": "python", "class": "no_such_module:Qdisc"})
    with pytest.raises(tidegate.ConfigError, match="no_such_module"):
        net.check()
    with pytest.raises(tidegate.ConfigError, match="no discipline is registered"):
        dumbbell(queue={"kind": "python", "class": "nothing"}).check()


def test_a_packet_has_its_fields():
    seen = []

    class Looks(Fifo):
        def enqueue(self, now, packet, out):
            if not seen:
                packet.dscp = 46
                packet.colour = "yellow"
                with pytest.raises(ValueError):
                    packet.dscp = 64
                fields = (packet.size, packet.class_id, packet.ecn, packet.segments, packet.is_pure_ack, packet.is_here)
                seen.append((*fields, packet.dscp, packet.colour, packet.flow != packet.source))
                self.first, self.outlet = packet, out
            super().enqueue(now, packet, out)

    tidegate.simulate(dumbbell(queue=Looks))
    assert seen[0][1:8] == (0, 0, 1, False, True, 46, "yellow") and 40 <= seen[0][0] <= 1514
