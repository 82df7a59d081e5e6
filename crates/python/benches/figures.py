"""The figures of the package on this machine: `python benches/figures.py [TIDEGATE]`, with the command to compare with.

Times are the least of three, in seconds: of the processor for simulations, so that they mean something on a machine that does
something else as well.
"""

from __future__ import annotations

import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import tidegate

ROOT = pathlib.Path(__file__).parents[3]
RFC2963 = ROOT / "experiments/rfc2963/scenario.toml"


class Fifo:
    """The bottleneck of RFC 2963's backbone as a FIFO in Python."""

    def __init__(self, packets: int = 800) -> None:
        self.packets, self.queue = packets, deque()

    def enqueue(self, now, packet, out):
        if len(self.queue) < self.packets:
            self.queue.append(packet)
        else:
            out.drop(packet, "queue-limit")

    def dequeue(self, now, out):
        return self.queue.popleft() if self.queue else None


def processor() -> float:
    """The time of the processor that this process and those that it has waited for have had."""
    return sum(found.ru_utime + found.ru_stime for found in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def least(work, clock=processor) -> float:
    times = []
    for _ in range(3):
        begin = clock()
        work()
        times.append(clock() - begin)
    return min(times)


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def interrupted() -> float:
    """From SIGINT to KeyboardInterrupt."""
    code = (
        "import signal, time, tidegate\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "net = tidegate.Scenario(duration='1000000s', bin='10s', hosts=['a{1..100}', 'b'])\n"
        "net.link('a{1..100}', 'b', rate='1gbit', delay_ms=1)\n"
        "net.flow('bulk', 'a{1..100}', 'b', workload={'kind': 'bulk'})\n"
        "net.check(); print('ready', flush=True)\n"
        "try: tidegate.simulate(net, jobs=1)\n"
        "except KeyboardInterrupt: print(time.time(), flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(1.0)
    sent = time.time()
    process.send_signal(signal.SIGINT)
    at = float(process.stdout.readline())
    process.wait()
    return at - sent


def late(now_ns, queue_packets, queue_bytes, delay_ns, size_bytes):
    """Never drops here: all deciders have the same packets. The comparison is computed all the same."""
    return 0.2 if delay_ns > 10**12 else 0.0


def deciders() -> list[tuple[str, tidegate.Decider]]:
    found = [("a number decides", tidegate.Decider(probability=0.0)), ("a function decides", tidegate.Decider(late))]
    try:
        import numba
    except ModuleNotFoundError:
        print("numba is not installed: its deciders are not measured")
        return found
    compiled = numba.njit(late)
    compiled(1, 1, 1, 1, 1)
    callback = numba.cfunc("float64(uint64, uint64, uint64, uint64, uint64)")(late)
    found += [("numba.njit decides", tidegate.Decider(compiled)), ("numba.cfunc decides", tidegate.Decider(callback))]
    return [*found, ("numba.njit every 1 ms", tidegate.Decider(compiled, every_ns=1_000_000))]


def main() -> None:
    bare = least(lambda: run(sys.executable, "-c", "pass"))
    print(f"import tidegate          {least(lambda: run(sys.executable, '-c', 'import tidegate')) - bare:.3f}")
    print(f"interruption, worst of 5 {max(interrupted() for _ in range(5)):.3f}")
    checked = tidegate.load(RFC2963)
    ours = least(lambda: tidegate.simulate(checked, seed=1, runs=1, jobs=1))
    print(f"RFC 2963, Python         {ours:.3f}")
    if len(sys.argv) > 1:
        # Beside the command a process with the interpreter, the import and the scenario.
        whole = "import sys, tidegate; tidegate.simulate(sys.argv[1], seed=1, runs=1, jobs=1)"
        print(f"RFC 2963, Python started {least(lambda: run(sys.executable, '-c', whole, str(RFC2963))):.3f}")
        command = [sys.argv[1], "simulate", str(RFC2963), "--seed", "1", "--runs", "1", "--jobs", "1", "--no-cache", "--hash"]
        print(f"RFC 2963, command        {least(lambda: run(*command)):.3f}")
        digest = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        print("digests are equal       ", digest == tidegate.simulate(checked, seed=1, runs=1).digest)
    text = RFC2963.read_text()
    begin = text.index("[link.queue]")
    end = text.index("[[link]]", begin)
    fifo = text[:begin] + f'[link.queue]\nkind = "python"\nclass = "{tidegate.qdisc.register(Fifo)}"\n' + text[end:]
    print(f"its backbone in Python   {least(lambda: tidegate.simulate(fifo, seed=1, runs=1, jobs=1)):.3f}")
    decided = tidegate.Scenario(duration="60s", hosts=["a", "b"])
    decided.link("a", "b", rate="100mbit", delay_ms=5, queue={"kind": "fifo", "limit": "1500kB"})
    decided.flow("bulk", "a", "b", workload={"kind": "bulk"})
    plain = least(lambda: tidegate.simulate(decided, seed=1))
    for name, decider in deciders():
        net = tidegate.Scenario(duration="60s", hosts=["a", "b"])
        net.link("a", "b", rate="100mbit", delay_ms=5, queue=decider)
        net.flow("bulk", "a", "b", workload={"kind": "bulk"})
        simulated = least(lambda: tidegate.simulate(net, seed=1))
        print(f"{name:24} {simulated:.3f}, {simulated / plain:.2f} of a FIFO in Rust, {plain:.3f}")
    for name, control in (("Reno in Rust", "reno"), ("Reno in Python", tidegate.congestion.Reno)):
        net = tidegate.Scenario(duration="60s", hosts=["a", "b"])
        net.link("a", "b", rate="100mbit", delay_ms=5, queue={"kind": "fifo"})
        net.flow("bulk", "a", "b", workload={"kind": "bulk"}, tcp={"congestion": control})
        print(f"{name:24} {least(lambda: tidegate.simulate(net, seed=1)):.3f}")
    net = tidegate.Scenario(duration="1s", hosts=["a", "b"])
    net.link("a", "b", rate="10mbit", delay_ms=5, queue={"kind": "fifo"}).flow("bulk", "a", "b", workload={"kind": "bulk"})
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as executor:
        grid = {"link.a->b.rate": [f"{rate}mbit" for rate in range(1, 11)]}
        begin = time.perf_counter()
        tidegate.sweep(net, grid, range(1, 101), folder=folder, executor=executor)
        print(f"a sweep of 1,000 runs    {time.perf_counter() - begin:.3f}")


if __name__ == "__main__":
    main()
