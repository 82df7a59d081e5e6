"""Runs step by step."""

from __future__ import annotations

import gc
import random
import threading

import pytest
import tidegate
from conftest import dumbbell
from tidegate.simulation import run_all


@pytest.mark.parametrize("steps", [1, 3, 97])
def test_steps_do_not_change_the_digest(net, steps):
    whole = tidegate.simulate(net, seed=5).digest
    simulation = tidegate.Simulation(net, seed=5)
    for step in range(1, steps + 1):
        simulation.run_until(4_000_000_000 * step // steps)
        simulation.look()
    assert simulation.is_over and simulation.finish().digest == whole


def test_look_change_go_on(net):
    simulation = tidegate.Simulation(net, seed=1)
    assert simulation.now_ns == 0 and not simulation.is_over
    assert simulation.run_until("2s") == 2_000_000_000
    before = simulation.look()
    link = next(link for link in before["links"] if link["name"] == "r->b")
    assert link["backlog_packets"] > 0 and link["sent_bytes"] > 1_000_000
    flow = before["flows"][0]
    assert flow["name"] == "flow bulk" and flow["cwnd_bytes"] > 0 and flow["srtt_ns"] > 20_000_000
    report = simulation.act("line", "r", "b", rate="1mbit")
    assert not report["refused"] and report["result"]["rate_bps"] == 1_000_000
    simulation.run_until("3s")
    after = simulation.look()
    sent = next(link for link in after["links"] if link["name"] == "r->b")["sent_bytes"] - link["sent_bytes"]
    assert sent == pytest.approx(125_000, abs=3_000)
    assert simulation.results().value("flow bulk", "goodput") > 0
    simulation.finish()
    with pytest.raises(tidegate.TidegateError, match="has ended"):
        simulation.run_until("4s")


def test_actions_on_shapers_and_workloads():
    net = dumbbell(queue={"shaper": {"class": [{"name": "all", "rate": "5mbit", "default": True}]}})
    simulation = tidegate.Simulation(net, seed=1)
    simulation.run_until("1s")
    changed = simulation.act("set", section="class", name="all", values={"rate": "2mbit"})
    assert not changed["refused"] and "5mbit -> 2mbit" in str(changed["result"])
    assert simulation.act("set", section="class", name="other", values={"rate": "2mbit"})["refused"]
    assert not simulation.act("workload", flow="bulk", workload={"kind": "bulk"})["refused"]
    assert simulation.act("status")["result"]["classes"][0]["name"] == "all"
    with pytest.raises(tidegate.ConfigError, match="no host or router is called `x`"):
        simulation.act("line", "x", "b", rate="1mbit")
    with pytest.raises(tidegate.ConfigError, match="<action>"):
        simulation.act("nonsense")
    assert simulation.act("line", "a", "r", rate="1mbit")["refused"], "a link without a queue"
    assert len(simulation.finish().reports) >= 5


def test_variants_are_chosen_by_name():
    net = dumbbell()
    net.variant("codel", "r", "b", {"kind": "codel"}).variant("fifo", "r", "b", {"kind": "fifo"})
    results = tidegate.Simulation(net, seed=1, variant="codel").finish()
    assert results.value("link r->b", "queueing mean", "codel") < 20e6
    with pytest.raises(ValueError, match="codel"):
        tidegate.Simulation(net, seed=1, variant="red")


def test_several_at_once_and_from_any_thread(net):
    simulations = [tidegate.Simulation(net, seed=seed) for seed in range(8)]
    assert run_all(simulations, [1_000_000_000] * 8) == [1_000_000_000] * 8
    found = {}
    threads = [
        threading.Thread(target=lambda one=one: found.setdefault(one.seed, one.finish().digest)) for one in simulations
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {seed: tidegate.simulate(net, seed=seed).digest for seed in range(8)}


def test_a_thousand_objects_in_any_order_of_life(net):
    order = random.Random(1)
    alive: list[object] = []
    for number in range(1000):
        checked = net.check() if number % 3 == 0 else net
        kind = number % 4
        if kind == 0:
            simulation = tidegate.Simulation(checked, seed=number)
            if number % 8 == 0:
                simulation.run_until("1ms")
            alive.append(simulation)
        elif kind == 1:
            alive.append(tidegate.Simulation(checked, seed=number).scenario)
        elif kind == 2 and number % 40 == 2:
            results = tidegate.simulate(checked, seed=number)
            alive += [results.values.__arrow_c_stream__(), results.figure("Queue, link r->b"), results]
        else:
            alive.append(checked)
        if len(alive) > 20:
            alive.pop(order.randrange(len(alive)))
    order.shuffle(alive)
    del alive
    gc.collect()


def test_runs_leak_nothing(net):
    """Of 10,000 runs, 1,000 of them here: memory stands still after the first hundreds."""
    net = dumbbell(duration="20ms")
    checked = net.check()

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def runs(count: int) -> None:
        for seed in range(count):
            results = tidegate.simulate(checked, seed=seed, jobs=1)
            results.values.to_dict()
            simulation = tidegate.Simulation(checked, seed=seed)
            simulation.run_until("10ms")
        gc.collect()

    runs(300)
    before = resident()
    runs(1000)
    assert resident() - before < 30_000_000
