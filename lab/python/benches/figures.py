"""The figures of the package on this machine: `python tools/benches/figures.py [TIDEGATE]`, with the command to compare with.

Times are in seconds: of the processor for simulations, so that they mean something on a machine that does something else as
well; the least of three. What is compared takes turns, seven times, each time with another seed: the median of each, and the
median of the ratios of each turn.
"""

from __future__ import annotations

import ctypes
import pathlib
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import tidegate

ROOT = pathlib.Path(__file__).parents[3]
RFC2963 = ROOT / "lab/papers/rfc2963/scenario.toml"


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


def in_turns(*works, turns: int = 7) -> list[tuple[float, float]]:
    """Times of works, each called with a seed, and their ratios to the first of them: medians of turns."""
    begin = time.time_ns() % 10**9
    times: list[list[float]] = [[] for _ in works]
    for seed in range(begin, begin + turns):
        for work, taken in zip(works, times):
            before = processor()
            work(seed)
            taken.append(processor() - before)
    ratios = ([one / first for one, first in zip(taken, times[0])] for taken in times)
    return [(statistics.median(taken), statistics.median(ratio)) for taken, ratio in zip(times, ratios)]


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


SWEEP = """
import pathlib, sys, tempfile, tidegate
from concurrent.futures import ThreadPoolExecutor
net = tidegate.Scenario(duration="1ms", hosts=["a", "b"])
net.link("a", "b", rate="10mbit", delay_ms=5, queue={"kind": "fifo"}).flow("bulk", "a", "b", workload={"kind": "bulk"})
grid = {"link.a->b.rate": [f"{rate}mbit" for rate in range(1, 11)]}
with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as executor:
    sweep = tidegate.sweep(net, grid, range(int(sys.argv[1])), folder=folder, executor=executor, batch=200)
# Not that of getrusage, which has the memory of the parent before exec as well.
status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
print(sweep.runs, int(status["VmHWM"].split()[0]) * 1024 / 1e6)
"""


def memory(seeds: int) -> str:
    """The peak of the memory of a process with a sweep of ten times as many runs, in MB."""
    return subprocess.run([sys.executable, "-c", SWEEP, str(seeds)], check=True, capture_output=True, text=True).stdout.strip()


def late(now_ns, queue_packets, queue_bytes, delay_ns, size_bytes):
    """Never drops here: all deciders have the same packets. The comparison is computed all the same."""
    return 0.2 if delay_ns > 10**12 else 0.0


#: The same decision in Rust, as a library.
IN_RUST = """
#[unsafe(no_mangle)]
pub extern "C" fn late(_now: u64, _packets: u64, _bytes: u64, delay: u64, _size: u64) -> f64 {
    if delay > 1_000_000_000_000 { 0.2 } else { 0.0 }
}
"""


def in_rust(folder: str):
    """The decision as `rustc` compiles it; `None` where there is no compiler."""
    if shutil.which("rustc") is None:
        return None
    source = pathlib.Path(folder, "late.rs")
    source.write_text(IN_RUST)
    run("rustc", "--edition=2024", "-O", "--crate-type=cdylib", "--out-dir", folder, str(source))
    function = ctypes.CDLL(str(source.with_name("liblate.so"))).late
    function.argtypes, function.restype = [ctypes.c_uint64] * 5, ctypes.c_double
    return function


def deciders(folder: str) -> list[tuple[str, object]]:
    """Queues with names, the first of which the others are compared with."""
    found: list[tuple[str, object]] = [("a FIFO in Rust", {"kind": "fifo", "limit": "1500kB"})]
    function = in_rust(folder)
    if function is not None:
        found.insert(0, ("a function in Rust", tidegate.Decider(function)))
    try:
        import numba
    except ModuleNotFoundError:
        print("numba is not installed: its deciders are not measured")
    else:
        compiled = numba.njit(late)
        compiled(1, 1, 1, 1, 1)
        callback = numba.cfunc("float64(uint64, uint64, uint64, uint64, uint64)")(late)
        found += [("numba.cfunc", tidegate.Decider(callback)), ("numba.njit", tidegate.Decider(compiled))]
        found += [("numba.njit every 1 ms", tidegate.Decider(compiled, every_ns=1_000_000))]
    return [*found, ("a number", tidegate.Decider(probability=0.0)), ("a function in Python", tidegate.Decider(late))]


def simulated(queue):
    """60 s of 100 Mbit/s through a queue."""
    net = tidegate.Scenario(duration="60s", hosts=["a", "b"])
    net.link("a", "b", rate="100mbit", delay_ms=5, queue=queue)
    net.flow("bulk", "a", "b", workload={"kind": "bulk"})
    checked = net.check()
    return lambda seed: tidegate.simulate(checked, seed=seed)


def main() -> None:
    bare = least(lambda: run(sys.executable, "-c", "pass"))
    print(f"import tidegate          {least(lambda: run(sys.executable, '-c', 'import tidegate')) - bare:.3f}")
    print(f"interruption, worst of 5 {max(interrupted() for _ in range(5)):.3f}")
    checked = tidegate.load(RFC2963)

    def ours(seed, **keys):
        return tidegate.simulate(checked, seed=seed, runs=1, jobs=1, **keys)

    if len(sys.argv) > 1:
        # In this process, and a process with the interpreter, the import and the scenario.
        whole = "import sys, tidegate; tidegate.simulate(sys.argv[1], seed=int(sys.argv[2]), runs=1, jobs=1)"
        command = [sys.argv[1], "simulate", str(RFC2963), "--runs", "1", "--jobs", "1", "--no-cache", "--hash", "--seed"]
        found = in_turns(
            lambda seed: run(*command, str(seed)),
            ours,
            lambda seed: run(sys.executable, "-c", whole, str(RFC2963), str(seed)),
            lambda seed: ours(seed, parts=True),
        )
        for name, (taken, ratio) in zip(("command", "Python", "Python started", "Python with parts"), found):
            print(f"RFC 2963, {name:18} {taken:.3f}, {ratio:.3f} of the command")
        digest = subprocess.run([*command, "1"], check=True, capture_output=True, text=True).stdout.strip()
        print("digests are equal       ", digest == ours(1).digest)
    else:
        print(f"RFC 2963, Python         {least(lambda: ours(1)):.3f}")
    text = RFC2963.read_text()
    begin = text.index("[link.queue]")
    end = text.index("[[link]]", begin)
    fifo = text[:begin] + f'[link.queue]\nkind = "python"\nclass = "{tidegate.qdisc.register(Fifo)}"\n' + text[end:]
    print(f"its backbone in Python   {least(lambda: tidegate.simulate(fifo, seed=1, runs=1, jobs=1)):.3f}")
    with tempfile.TemporaryDirectory() as folder:
        queues = deciders(folder)
        first = queues[0][0]
        for (name, _), (taken, ratio) in zip(queues, in_turns(*(simulated(queue) for _, queue in queues))):
            print(f"{name:24} {taken:.3f}, {ratio:.2f} of {first}")
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
    for seeds in (1_000, 10_000):
        print(f"a sweep, runs and MB     {memory(seeds)}")


if __name__ == "__main__":
    main()
