"""Sweeps: the same rows whatever executes them, nothing lost or done twice, and going on."""

from __future__ import annotations

import os
import pathlib
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


def test_errors(tmp_path):
    with pytest.raises(tidegate.ConfigError):
        tidegate.sweep(small(), {"link.2.rate": ["10 miles"]}, [1], folder=tmp_path)
    with pytest.raises(KeyError, match="a->r, r->b"):
        tidegate.sweep(small(), {"link.x->y.rate": ["1mbit"]}, [1], folder=tmp_path)
    for grid, seeds in (({"duration": []}, [1]), ({}, [])):
        with pytest.raises((ValueError, StopIteration)):
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


def test_dask_with_a_worker_that_is_killed(tmp_path):
    distributed = pytest.importorskip("distributed")
    (tmp_path / "dying.py").write_text(DYING)
    os.environ["PYTHONPATH"] = str(tmp_path)
    queue = {"kind": "python", "class": "dying:Dies", "arguments": {"marker": str(tmp_path / "marker")}}
    import sys

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


def test_ray(tmp_path):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        executor = tidegate.sweeps.RayExecutor()
        there = tidegate.sweep(small(), GRID, SEEDS, folder=tmp_path / "ray", executor=executor, batch=2)
    finally:
        ray.shutdown()
    with ThreadPoolExecutor(1) as executor:
        here = tidegate.sweep(small(), GRID, SEEDS, folder=tmp_path / "here", executor=executor, batch=2)
    assert digests(there) == digests(here)
