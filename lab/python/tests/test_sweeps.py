"""Sweeps: the same rows whatever executes them, nothing lost or done twice, and going on."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet
import pytest
import tidegate
from conftest import dumbbell

GRID = {"link.r->b.rate": ["4mbit", "8mbit"], "link.2.queue": [{"kind": "fifo"}, {"kind": "codel"}]}
SEEDS = [1, 2, 3]


def small() -> tidegate.Scenario:
    net = dumbbell(duration="1s")
    net._lists["flow"][0]["jitter"] = "100ms"
    return net


def rows(sweep: tidegate.sweeps.Sweep) -> list[dict]:
    return pyarrow.parquet.read_table(sweep.files).to_pylist()


def digests(sweep: tidegate.sweeps.Sweep) -> dict[tuple, str]:
    """By run; a run that was made twice would have twice the rows."""
    found = rows(sweep)
    keys = [(row["link.r->b.rate"], row["link.2.queue"], row["seed"], row["subject"], row["measure"]) for row in found]
    assert len(keys) == len(set(keys))
    return {key[:3]: row["digest"] for key, row in zip(keys, found)}


def test_rows_carry_digests_that_can_be_checked_here(tmp_path):
    with ThreadPoolExecutor(2) as executor:
        sweep = tidegate.sweep(small(), GRID, SEEDS, folder=tmp_path, executor=executor, batch=5)
    assert (sweep.runs, sweep.found, len(sweep.files)) == (12, 0, 3)
    found = digests(sweep)
    assert len(found) == 12
    net = small()
    net._lists["link"][1].update(rate="4mbit", queue={"kind": "codel"})
    assert found["4mbit", '{"kind": "codel"}', 2] == tidegate.simulate(net, seed=2).digest


def test_processes_and_threads_agree_and_a_sweep_goes_on(tmp_path):
    first = tidegate.sweep(small(), GRID, SEEDS, folder=tmp_path / "processes", workers=2, batch=2)
    with ThreadPoolExecutor(1) as executor:
        second = tidegate.sweep(small(), GRID, SEEDS, folder=tmp_path / "threads", executor=executor, batch=2)
    assert digests(first) == digests(second)
    assert [pathlib.Path(file).name for file in first.files] == [pathlib.Path(file).name for file in second.files]
    lost, kept = pathlib.Path(first.files[2]), pathlib.Path(first.files[3])
    before = (lost.read_bytes(), kept.stat().st_mtime_ns)
    lost.unlink()
    with ThreadPoolExecutor(1) as executor:
        again = tidegate.sweep(small(), GRID, SEEDS, folder=tmp_path / "processes", executor=executor, batch=2)
    assert again.found == 10 and (lost.read_bytes(), kept.stat().st_mtime_ns) == before
    # More seeds of the same scenario are added to its folder.
    with ThreadPoolExecutor(1) as executor:
        more = tidegate.sweep(small(), GRID, [*SEEDS, 99], folder=tmp_path / "threads", executor=executor, batch=2)
    assert more.found == 12 and more.runs == 12 + 12 // len(SEEDS)
    assert len(digests(more)) == more.runs and set(second.files) <= set(more.files)
    # Another scenario in the same folder takes nothing of it.
    with ThreadPoolExecutor(1) as executor:
        other = tidegate.sweep(dumbbell("2s"), GRID, [1], folder=tmp_path / "processes", executor=executor, batch=2)
    assert other.found == 0 and not set(other.files) & set(first.files)


DYING = """
import os, collections, multiprocessing
class Dies:
    def __init__(self, marker):
        self.marker, self.queue = marker, collections.deque()
    def enqueue(self, now, packet, out):
        # Checking a scenario asks its queues about their limits, in the process that begins the sweep.
        if multiprocessing.parent_process() is not None and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            os._exit(9)
        self.queue.append(packet)
    def dequeue(self, now, out):
        return self.queue.popleft() if self.queue else None
"""


def test_a_lost_worker_is_replaced(tmp_path, monkeypatch):
    (tmp_path / "dying.py").write_text(DYING)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    queue = {"kind": "python", "class": "dying:Dies", "arguments": {"marker": str(tmp_path / "marker")}}
    net = dumbbell(duration="200ms", queue=queue)
    sweep = tidegate.sweep(net, {}, range(6), folder=tmp_path / "out", workers=2, batch=1)
    assert os.path.exists(tmp_path / "marker") and len({row["seed"] for row in rows(sweep)}) == 6


def test_files_that_a_scenario_names_are_part_of_it(tmp_path):
    net = dumbbell(duration="100ms", queue={"shaper": "shaper.toml"})
    net.folder = str(tmp_path)
    shaper = 'version = 1\n[[class]]\nname = "all"\nrate = "RATE"\ndefault = true\n'

    def found(rate: str) -> int:
        (tmp_path / "shaper.toml").write_text(shaper.replace("RATE", rate))
        with ThreadPoolExecutor(1) as executor:
            return tidegate.sweep(net, {}, [1], folder=tmp_path / "out", executor=executor).found

    assert [found("5mbit"), found("5mbit"), found("6mbit")] == [0, 1, 0]


def test_errors(tmp_path):
    with pytest.raises(tidegate.ConfigError):
        tidegate.sweep(small(), {"link.2.rate": ["10 miles"]}, [1], folder=tmp_path)
    with pytest.raises(KeyError, match="a->r, r->b"):
        tidegate.sweep(small(), {"link.x->y.rate": ["1mbit"]}, [1], folder=tmp_path)
    for grid, seeds in (({"duration": []}, [1]), ({}, []), ({"seed": [1]}, [1])):
        with pytest.raises(ValueError):
            tidegate.sweep(small(), grid, seeds, folder=tmp_path)
    path = tmp_path / "net.toml"
    path.write_text(small().to_toml())
    with ThreadPoolExecutor(1) as executor:
        sweep = tidegate.sweep(path, {"duration": ["1s"]}, [1], folder=tmp_path / "file", executor=executor)
    assert {row["digest"] for row in rows(sweep)} == {tidegate.simulate(small(), seed=1).digest}

    class Always:
        def submit(self, *_):
            from concurrent.futures import Future

            future = Future()
            future.set_exception(OSError("the worker is gone"))
            return future

    with pytest.raises(tidegate.sweeps.SweepError, match="failed 3 times: the worker is gone"):
        tidegate.sweep(small(), {}, [1], folder=tmp_path / "never", executor=Always(), retries=2)


class Fails:
    """A FIFO that fails where more than 60 packets wait, as they do at 2 Mbit/s."""

    wrong = True

    def begin(self, now, seed):
        self.queue = []

    def enqueue(self, now, packet, out):
        self.queue.append(packet)
        # Checking a scenario asks its queues about their limits, at the beginning.
        if self.wrong and now > 200_000_000 and len(self.queue) > 60:
            raise ZeroDivisionError("too many")

    def dequeue(self, now, out):
        return self.queue.pop(0) if self.queue else None


def test_a_run_that_fails_does_not_end_the_others(tmp_path, monkeypatch):
    def made():
        with ThreadPoolExecutor(2) as executor:
            net = dumbbell(duration="1s", queue=Fails)
            rates = {"link.r->b.rate": ["200mbit", "2mbit"]}
            return tidegate.sweep(net, rates, [1, 2, 3], folder=tmp_path, executor=executor, batch=2)

    with pytest.raises(tidegate.sweeps.SweepError, match="3 of 6 runs failed; the others are in") as caught:
        made()
    failures = caught.value.failures
    assert sorted(seed for _, seed, _ in failures) == [1, 2, 3]
    assert {values["link.r->b.rate"] for values, _, _ in failures} == {"2mbit"}
    assert all("ZeroDivisionError: too many" in reason for _, _, reason in failures)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 2 and [name.endswith(".part.parquet") for name in names] == [False, True]
    assert set(pyarrow.parquet.read_table(tmp_path / names[1])["seed"].to_pylist()) == {3}
    monkeypatch.setattr(Fails, "wrong", False)
    sweep = made()
    assert sweep.found == 2 and sorted(path.name for path in tmp_path.iterdir()) == sorted(map(os.path.basename, sweep.files))


def test_values_are_checked_before_anything_runs(tmp_path):
    with pytest.raises(tidegate.ConfigError, match="link.2.rate=10 miles"):
        tidegate.sweep(small(), {"duration": ["1s", "2s"], "link.2.rate": ["1mbit", "10 miles"]}, [1], folder=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.long(60)
def test_dask_with_a_worker_that_is_killed(tmp_path):
    distributed = pytest.importorskip("distributed")
    (tmp_path / "dying.py").write_text(DYING)
    os.environ["PYTHONPATH"] = str(tmp_path)
    queue = {"kind": "python", "class": "dying:Dies", "arguments": {"marker": str(tmp_path / "marker")}}
    sys.path.insert(0, str(tmp_path))
    try:
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path)
        ) as cluster, distributed.Client(cluster) as client:
            executor = client.get_executor(retries=0)
            plain = tidegate.sweep(small(), GRID, SEEDS, folder=tmp_path / "dask", executor=executor, batch=2)
            net = dumbbell(duration="200ms", queue=queue)
            killed = tidegate.sweep(net, {}, range(6), folder=tmp_path / "killed", executor=executor, batch=1)
    finally:
        sys.path.remove(str(tmp_path))
        del os.environ["PYTHONPATH"]
    with ThreadPoolExecutor(1) as executor:
        here = tidegate.sweep(small(), GRID, SEEDS, folder=tmp_path / "here", executor=executor, batch=2)
        again = tidegate.sweep(net, {}, range(6), folder=tmp_path / "again", executor=executor, batch=1)
    assert digests(plain) == digests(here)
    assert (tmp_path / "marker").exists() and rows(killed) == rows(again)


RATES = {"link.r->b.rate": [f"{rate}mbit" for rate in range(1, 11)]}


def tiny() -> tidegate.Scenario:
    net = dumbbell(duration="100ms")
    net._lists["flow"][0]["jitter"] = "10ms"
    return net


def contents(sweep: tidegate.sweeps.Sweep) -> dict[str, bytes]:
    return {pathlib.Path(file).name: pathlib.Path(file).read_bytes() for file in sweep.files}


@pytest.fixture(scope="module")
def thousand(tmp_path_factory) -> tidegate.sweeps.Sweep:
    """1,000 runs by two processes here, each with its digest, as `simulate` has it."""
    sweep = tidegate.sweep(tiny(), RATES, range(1, 101), folder=tmp_path_factory.mktemp("processes"), workers=2)
    found = {(row["link.r->b.rate"], row["seed"]): row["digest"] for row in rows(sweep)}
    assert (sweep.runs, len(found), len(sweep.files)) == (1_000, 1_000, 50) and len(set(found.values())) == 1_000
    net = tiny()
    net._lists["link"][1]["rate"] = "7mbit"
    assert found["7mbit", 42] == tidegate.simulate(net, seed=42).digest
    return sweep


@pytest.mark.long(120)
def test_a_thousand_runs_on_dask_with_a_worker_killed_midway(tmp_path, thousand):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path)
    ) as cluster, distributed.Client(cluster) as client:
        client.wait_for_workers(2)
        workers = client.run(os.getpid)
        assert len(workers) == 2
        killed = threading.Event()

        def kill() -> None:
            while len(list((tmp_path / "out").glob("*.parquet"))) < 10:
                if ended.wait(0.01):
                    return
            os.kill(next(iter(workers.values())), signal.SIGKILL)
            killed.set()

        ended = threading.Event()
        thread = threading.Thread(target=kill)
        thread.start()
        try:
            there = tidegate.sweep(tiny(), RATES, range(1, 101), folder=tmp_path / "out", executor=client.get_executor())
        finally:
            ended.set()
            thread.join()
    assert killed.is_set() and contents(there) == contents(thousand)


RAY = """
import sys, ray, tidegate
sys.path[:0] = [TESTS]
from test_sweeps import RATES, tiny
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80_000_000)
print("ready", flush=True)
tidegate.sweep(tiny(), RATES, range(1, 101), folder=FOLDER, executor=tidegate.sweeps.RayExecutor())
ray.shutdown()
"""


@pytest.mark.long(280)
def test_a_thousand_runs_on_ray(tmp_path, thousand):
    pytest.importorskip("ray")
    code = RAY.replace("TESTS", repr(str(pathlib.Path(__file__).parent))).replace("FOLDER", repr(str(tmp_path / "out")))
    # In a process of its own: Ray starts servers, which some machines do not let it do.
    with open(tmp_path / "log", "w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
            start_new_session=True,
        )
        late = threading.Timer(240, lambda: os.killpg(process.pid, signal.SIGKILL))
        late.start()
        printed = process.communicate()[0]
        late.cancel()
        log.seek(0)
        written = log.read()
    if "ready" not in printed or process.returncode == -signal.SIGKILL:
        pytest.skip(f"Ray does not start here, or takes longer than 240 s: {written[-300:]}")
    assert process.returncode == 0, written
    there = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("*.parquet")}
    assert there == contents(thousand)


def test_the_command_writes_the_same_files(tmp_path, thousand):
    command = pathlib.Path(os.environ.get("TIDEGATE_BIN", pathlib.Path(__file__).parents[3] / "target/debug/tidegate"))
    if not command.exists() or subprocess.run([command, "help", "sweep"], capture_output=True).returncode != 0:
        pytest.skip(f"{command} is not there: cargo build -p tidegate makes it")
    (tmp_path / "net.toml").write_text(tiny().to_toml())
    vary = f"link.r->b.rate={','.join(RATES['link.r->b.rate'])}"
    subprocess.run(
        [command, "sweep", tmp_path / "net.toml", "--vary", vary, "--seed", "1", "--runs", "100", "--out", tmp_path / "out"],
        check=True,
    )
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == contents(thousand)
