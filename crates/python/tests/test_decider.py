"""Deciders: functions, and numbers that are set while a run goes on."""

from __future__ import annotations

import pytest
import tidegate
from conftest import dumbbell


def test_a_function_decides():
    seen = []

    def late(now_ns, packets, size, delay_ns, arriving):
        seen.append((now_ns, packets, size, delay_ns, arriving))
        return 0.2 if delay_ns > 20_000_000 else 0.0

    net = dumbbell(queue=tidegate.Decider(late, packets=500))
    plain = dumbbell(queue=tidegate.Decider(packets=500))
    ours, other = tidegate.simulate(net), tidegate.simulate(plain)
    assert ours.value("link r->b", "queueing mean") < other.value("link r->b", "queueing mean")
    assert ours.value("link r->b", "dropped for early") > 0
    assert ours.digest == tidegate.simulate(net).digest and len(seen) > 100 and max(entry[1] for entry in seen) < 500


def test_a_decision_holds_for_a_time():
    calls = []

    def late(now_ns, packets, size, delay_ns, arriving):
        calls.append(now_ns)
        return 0.2 if delay_ns > 20_000_000 else 0.0

    checked = dumbbell(queue=tidegate.Decider(late, every_ns=15_000_000)).check()
    # Checking asks the queue of another network.
    calls.clear()
    results = tidegate.simulate(checked)
    assert len(calls) > 200 and all(two - one >= 15_000_000 for one, two in zip(calls, calls[1:]))
    assert results.value("link r->b", "dropped for early") > 0


def test_a_number_is_set_on_the_way():
    decider = tidegate.Decider()
    simulation = tidegate.Simulation(dumbbell(queue=decider), seed=1)
    simulation.run_until("1s")
    decider.probability = 1.0
    assert decider.probability == 1.0
    # What waited at 1 s is gone at 3 s.
    simulation.run_until("3s")
    before = simulation.look()["flows"][0]["goodput_bytes"]
    simulation.run_until("4s")
    assert simulation.look()["flows"][0]["goodput_bytes"] - before < 300_000
    with pytest.raises(ValueError, match="between 0 and 1"):
        decider.probability = 1.5
    with pytest.raises(ValueError, match="between 0 and 1"):
        tidegate.Decider(probability=float("nan"))


def test_mistakes():
    for function, error in ((lambda *_: 2.0, ValueError), (lambda *_: "x", TypeError), (lambda: 0, TypeError)):
        with pytest.raises(error):
            tidegate.simulate(dumbbell(queue=tidegate.Decider(function)))
    with pytest.raises(ValueError, match="function decides"):
        tidegate.Decider(lambda *_: 0.0).probability = 0.5
    table = tidegate.Decider().to_dict()
    with pytest.raises(tidegate.ConfigError, match="no more"):
        dumbbell(queue=table).check()


def test_marks_where_the_transport_can_react():
    net = dumbbell(queue=tidegate.Decider(probability=0.02, mark=True))
    net._lists["flow"][0]["tcp"] = {"ecn": True}
    results = tidegate.simulate(net)
    assert results.value("link r->b", "marked") > 0 == results.value("link r->b", "dropped")


def test_a_function_that_numba_compiled():
    numba = pytest.importorskip("numba")

    def late(now_ns, packets, size, delay_ns, arriving):
        return 0.2 if delay_ns > 20_000_000 else 0.0

    compiled = numba.cfunc("float64(uint64, uint64, uint64, uint64, uint64)")(late)
    ours, other = (dumbbell(queue=tidegate.Decider(function)) for function in (compiled, late))
    assert tidegate.simulate(ours).digest == tidegate.simulate(other).digest
    assert tidegate.simulate(ours).value("link r->b", "dropped for early") > 0
