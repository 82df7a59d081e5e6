"""Memory, and objects that outlive what they came from. Each in a process of its own: a crash would be a signal."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMON = """
import gc, itertools, os, random, threading
from collections import deque
import tidegate
from tidegate import congestion, qdisc

class Fifo:
    def __init__(self):
        self.queue = deque()
    def enqueue(self, now, packet, out):
        self.queue.append(packet)
    def dequeue(self, now, out):
        return self.queue.popleft() if self.queue else None

def net(queue=None, control=None):
    net = tidegate.Scenario(duration="20ms", hosts=["a", "b"])
    net.link("a", "b", rate="10mbit", delay_ms=1, watch=True, queue=queue or {"kind": "fifo"})
    return net.flow("bulk", "a", "b", workload={"kind": "bulk"}, tcp=control and {"congestion": control})
"""


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", COMMON + code], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


LEAK = """
def memory():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def raises(now, packets, size, delay, arriving):
    raise ArithmeticError

plain = net().check()
script = "flow a size 1000\\nat 0s send 3 a\\nexpect 3 a\\n"

def some(number):
    results = tidegate.simulate(plain, seed=number, jobs=1)
    results.values.to_dict(), results.points.to_parquet(), results.titles
    kind = number % 5
    if kind == 0:
        tidegate.simulate(net(Fifo, congestion.Reno), seed=number, jobs=1)
    elif kind == 1:
        simulation = tidegate.Simulation(plain, seed=number)
        simulation.run_until("10ms")
        simulation.look(), simulation.results().digest
    elif kind == 2:
        try:
            tidegate.simulate(net(tidegate.Decider(raises)), jobs=1)
        except ArithmeticError:
            pass
    elif kind == 3:
        tidegate.script(script, Fifo).trace.to_dict()
    else:
        try:
            net(queue={"kind": "none of them"}).check()
        except tidegate.ConfigError:
            pass

# What is kept once: modules, arenas of the allocator, texts.
for number in range(1_000):
    some(number)
begin = memory()
for number in range(1_000, 10_000):
    some(number)
print((memory() - begin) / 9_000)
"""


@pytest.mark.long(200)
def test_ten_thousand_runs_leak_nothing():
    grown = float(run(LEAK))
    assert grown < 1_000, f"{grown:.0f} bytes more for each run"


ORDER = """
kept = []

class Keeps(Fifo):
    def enqueue(self, now, packet, out):
        kept.append(random.choice((packet, out)))
        super().enqueue(now, packet, out)

class Control(congestion.Reno):
    def on_ack(self, ack):
        kept.append(ack)
        super().on_ack(ack)

def simulation():
    made = tidegate.Simulation(net(random.choice((None, Keeps, tidegate.Decider())), random.choice((None, Control))), seed=1)
    if random.random() < 0.5:
        made.run_until("5ms")
    return made

class Node:
    "A circle, which the collector ends at any time."
    def __init__(self, inside):
        self.inside, self.self = inside, self

MAKERS = [
    net,
    lambda: net().check(),
    simulation,
    lambda: tidegate.simulate(net(Keeps, Control)),
    lambda: tidegate.simulate(net()).values,
    lambda: tidegate.simulate(net()).values.__arrow_c_stream__(),
    lambda: (lambda results: results.figure(results.titles[0]))(tidegate.simulate(net())),
    lambda: tidegate.Decider(random.choice((None, lambda *_: 0.0))),
    lambda: net(tidegate.Decider(packets=3)).check(),
    lambda: tidegate.script("flow a size 1000\\nat 0s send 3 a\\nexpect 3 a\\n", Keeps),
    lambda: Node(simulation()),
]
USES = [
    lambda it: it.finish(),
    lambda it: it.run_until("8ms"),
    lambda it: it.look(),
    lambda it: it.results().values.to_dict(),
    lambda it: it.check(),
    lambda it: it.points.to_parquet(),
    lambda it: it["value"],
    lambda it: it.size + it.flow,
    lambda it: it.drop(random.choice(kept)),
    lambda it: it.mark(it),
    lambda it: (it.now, it.srtt_ns),
    lambda it: setattr(it, "probability", 0.5),
    lambda it: it.trace.to_csv(),
    lambda it: tidegate.simulate(it).digest,
    lambda it: it.inside.finish(),
    repr,
    bool,
]

def some(seed, count):
    random.seed(seed)
    alive = []
    for _ in range(count):
        alive.append(random.choice(MAKERS)())
        for _ in range(3):
            it = random.choice(alive + kept[-100:])
            try:
                random.choice(USES)(it)
            except (AttributeError, TypeError, KeyError, IndexError, ValueError, RuntimeError, tidegate.TidegateError):
                pass
        # The older ones first, the younger ones first, or any.
        while len(alive) > 40:
            alive.pop(random.choice((0, -1, random.randrange(len(alive)))))
        if random.random() < 0.05:
            gc.collect()
    return alive

some(1, 1_000)
threads = [threading.Thread(target=some, args=(seed, 100)) for seed in (2, 3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
left = some(4, 100)
# What is left ends with the interpreter.
print(len(left) + len(kept) > 0)
"""


@pytest.mark.long(100)
def test_a_thousand_objects_in_a_wrong_order_of_life():
    assert run(ORDER) == "True\n"
