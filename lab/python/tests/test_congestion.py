"""Congestion controls in Python."""

from __future__ import annotations

import pytest
import tidegate
from conftest import dumbbell
from tidegate import congestion


def lossy(control=None, duration: str = "6s", **tcp) -> tidegate.Scenario:
    net = dumbbell(duration=duration, loss="0.5%")
    net._lists["flow"][0]["tcp"] = {**tcp, **({} if control is None else {"congestion": control})}
    return net


@pytest.mark.parametrize("tcp", [{}, {"recovery": "newreno"}, {"recovery": "rack", "hystart": True}, {"ecn": True}])
def test_reno_in_python_is_reno(tcp):
    net, ours = lossy("reno", **tcp), lossy(congestion.Reno, **tcp)
    for link in (net._lists["link"][1], ours._lists["link"][1]):
        link["queue"] = {"kind": "codel", "signal": "mark"} if tcp.get("ecn") else {"kind": "fifo", "limit": "30kB"}
    for seed in (1, 2):
        assert tidegate.simulate(ours, seed=seed).digest == tidegate.simulate(net, seed=seed).digest


class Gentle(congestion.Reno):
    """Keeps a larger part of the window."""

    def __init__(self, mss, initial_window, beta=0.9):
        super().__init__(mss, initial_window)
        self.beta = beta

    def on_congestion(self, now, flight_size, signal):
        self.cwnd = self.ssthresh = max(flight_size * self.beta, 2 * self.mss)


def test_a_class_of_ones_own_with_arguments():
    def goodput(control):
        return tidegate.simulate(lossy(control), seed=1).value("flow bulk", "goodput")

    assert goodput(Gentle) > goodput("reno")
    assert goodput(congestion.python(Gentle, beta=0.9)) == goodput(Gentle) != goodput(congestion.python(Gentle, beta=0.6))
    run = tidegate.Simulation(lossy(Gentle), seed=1)
    run.run_until("3s")
    assert run.look()["flows"][0]["cwnd_bytes"] > 2 * 1460
    assert run.finish().digest == tidegate.simulate(lossy(Gentle), seed=1).digest


def test_a_function_is_a_pacing_rate():
    seen = []

    def steady(now_ns, srtt_ns, min_rtt_ns, delivery_bps, losses):
        seen.append((now_ns, srtt_ns, min_rtt_ns, delivery_bps, losses))
        return 2e6

    results = tidegate.simulate(lossy(steady, duration="10s"), seed=1)
    # Of 2 Mbit/s with headers of 40 in 1500 bytes, and what is sent twice.
    assert 1.8e6 < results.value("flow bulk", "goodput") < 2e6 * 1460 / 1500
    now, srtt, least, delivery, losses = seen[-1]
    assert now > 9e9 and 22e6 <= least <= srtt < 200e6 and 1.5e6 < delivery < 2.5e6 and losses > 0


def test_what_a_control_sees():
    seen = {"acks": [], "samples": []}

    class Looks(congestion.Reno):
        def on_ack(self, ack):
            seen["acks"].append((ack.now, ack.una, ack.nxt, ack.acked, ack.delivered, ack.srtt_ns, ack.recovery, ack.flight_size))
            super().on_ack(ack)

        def on_sample(self, now, sample):
            seen["samples"].append((sample.rate_bps, sample.in_flight, sample.interval_ns, sample.is_app_limited))

    tidegate.simulate(lossy(Looks), seed=1)
    acks, samples = seen["acks"], seen["samples"]
    assert len(acks) > 500 and len(samples) >= len(acks)
    assert all(one[0] <= two[0] and one[1] < two[1] and one[4] <= two[4] for one, two in zip(acks, acks[1:]))
    assert {ack[6] for ack in acks} >= {"none", "fast"} and all(ack[1] <= ack[2] for ack in acks)
    rates = [sample[0] for sample in samples if sample[0] is not None]
    assert rates and max(rates) < 110e6 and sorted(rates)[len(rates) // 2] < 9e6


class Raises(congestion.Reno):
    def on_ack(self, ack):
        raise ZeroDivisionError("in on_ack")


class Closed(congestion.Reno):
    def on_ack(self, ack):
        self.cwnd = 0


class Empty:
    def __init__(self, mss, initial_window):
        self.cwnd = initial_window


@pytest.mark.parametrize(
    ("control", "error", "text"),
    [
        (Raises, ZeroDivisionError, "in on_ack"),
        (Closed, ValueError, "never send"),
        (Empty, TypeError, "on_ack"),
        (congestion.python(Gentle, gamma=1), TypeError, "gamma"),
    ],
)
def test_an_exception_ends_the_run_and_is_raised(control, error, text):
    with pytest.raises(error, match=text):
        tidegate.simulate(lossy(control))


def test_a_rate_that_is_none_is_refused():
    def nothing(*_):
        return 0.0

    with pytest.raises(ValueError, match="pacing rate is 0.0"):
        tidegate.simulate(lossy(nothing))


def test_mistakes_have_their_places():
    with pytest.raises(tidegate.ConfigError, match="no_such_module"):
        lossy({"kind": "python", "class": "no_such_module:Control"}).check()
    with pytest.raises(tidegate.ConfigError, match="did you mean `reno`|reno"):
        lossy("rino").check()
    with pytest.raises(tidegate.ConfigError, match="congestion control"):
        lossy({"kind": "pithon", "class": "x"}).check()


class Deaf(congestion.Reno):
    """Keeps its window, whatever it is told."""

    def on_ack(self, ack):
        self.cwnd = 200 * self.mss

    def on_congestion(self, now, flight_size, signal):
        pass


@pytest.mark.parametrize("quic", [False, True])
def test_a_control_is_examined_by_rfc_9743(quic):
    def holds(control):
        result = congestion.conform(control, quic=quic, runs=1, only=["single"])
        assert result["transport"] == ("QUIC" if quic else "TCP")
        return [criterion["holds"] for criterion in result["cases"][0]["criteria"]]

    assert all(holds(congestion.Reno))
    assert not all(holds(Deaf))
    with pytest.raises(ValueError, match="did you mean `cubic`"):
        congestion.conform("cubik", runs=1, only=["single"])
    with pytest.raises(ValueError, match="there is no case one; there are single, "):
        congestion.conform("reno", only=["one"])
