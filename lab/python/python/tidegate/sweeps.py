"""Sweeps: a scenario over a grid of values and seeds, on the processors here or on a cluster.

A task is text and seeds. Its rows carry the digests of their runs, so that a result computed elsewhere can be checked here.
Results are written as Parquet, one file for each batch; a sweep that was stopped goes on from the files that are there.
``tidegate sweep`` on the command line writes the same files.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from ._tidegate import Sweep as Plan
from .errors import TidegateError
from .scenario import Scenario
from .toml import _value as value_text
from .toml import dumps

__all__ = ["RayExecutor", "Sweep", "SweepError", "sweep"]

#: A run: the values of the axes, the text of the scenario, and the seed.
_Run = tuple[list[tuple[str, str]], str, int]


class SweepError(TidegateError):
    """Runs failed, or workers were lost again and again. What the other runs returned is in the folder."""

    #: The values of the axes, the seed and the reason of each run that failed.
    failures: list[tuple[dict[str, str], int, str]]

    def __init__(self, text: str, failures: Sequence[tuple[dict[str, str], int, str]] = ()) -> None:
        super().__init__(text)
        self.failures = list(failures)


@dataclass(frozen=True)
class Sweep:
    """What a sweep has written."""

    #: The folder of the results.
    folder: str
    #: The Parquet files with these runs, one for each batch, in the order of the grid, and after them those with further runs of the scenario
    #: that were in the folder before: ``polars.read_parquet(sweep.files)``.
    files: list[str]
    #: Runs of the sweep, and those of them that an earlier call had made.
    runs: int
    found: int


def _text(scenario: Any) -> tuple[str, str, str]:
    """A scenario as the text of a file, its name, and the folder of the files that it names."""
    if isinstance(scenario, Scenario):
        return scenario.to_toml(), "<scenario>", os.path.abspath(scenario.folder)
    if isinstance(scenario, Mapping):
        return dumps(scenario), "<scenario>", os.getcwd()
    if isinstance(scenario, (str, os.PathLike)):
        path = os.fspath(scenario)
        with open(path, encoding="utf-8", newline="") as file:
            return file.read(), str(path), os.path.abspath(os.path.dirname(path) or ".")
    raise TypeError(f"{type(scenario).__name__} is no scenario: give a path, a dictionary or a tidegate.Scenario")


def run_batch(
    runs: Sequence[_Run],
    folder: str,
    order: Sequence[tuple[str, list[str]]] = (),
    classes: Mapping[str, Callable[..., Any]] | None = None,
) -> tuple[bytes, list[tuple[int, str]]]:
    """Makes some runs, and returns their rows as a Parquet file, and the numbers of those that failed, with the reasons. This
    is what a worker does. The file keeps ``order``: the axes, each with its values in their order.

    Columns: one for each axis (text), ``seed`` (int64), ``variant``, ``subject``, ``measure`` (text), ``value`` (float64),
    ``unit`` (text), and ``digest``, that of the run.
    """
    from . import qdisc
    from ._tidegate import run_batch

    for name, cls in (classes or {}).items():
        qdisc.register(cls, name)
    return run_batch(list(runs), folder, list(order))


class RayExecutor(Executor):
    """Submits to Ray: ``sweep(..., executor=RayExecutor())`` after ``ray.init(...)``."""

    def __init__(self, **options: Any) -> None:
        """``options`` are those of ``ray.remote``, for example ``num_cpus``."""
        import ray

        # Tasks of a lost worker are tried again here, once a batch, and not by Ray as well.
        self._remote = ray.remote(**{"max_retries": 0, **options})

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._remote(fn).remote(*args, **kwargs).future()


class _Processes:
    """Local processes, made again where one of them died."""

    def __init__(self, workers: int | None) -> None:
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None

    def submit(self, *arguments: Any) -> Future[tuple[bytes, list[tuple[int, str]]]]:
        for _ in range(2):
            if self._pool is None:
                import multiprocessing

                # Not a fork: this process may have threads.
                self._pool = ProcessPoolExecutor(self._workers, mp_context=multiprocessing.get_context("spawn"))
            try:
                return self._pool.submit(*arguments)
            except BrokenProcessPool:
                self.close()
        raise SweepError("local processes die as soon as they are started")

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


class _Progress:
    """A line on a terminal: runs made, their rate, and the time that is left."""

    def __init__(self, wanted: int, found: int, show: bool | None) -> None:
        self._wanted, self._found, self._done = wanted, found, found
        self._begin = time.monotonic()
        self._show = sys.stderr.isatty() if show is None else show

    def add(self, runs: int) -> None:
        self._done += runs
        if not self._show:
            return
        elapsed = time.monotonic() - self._begin
        rate = (self._done - self._found) / elapsed if elapsed > 0 else 0.0
        left = (self._wanted - self._done) / rate if rate else 0.0
        end = "\n" if self._done == self._wanted else ""
        print(f"\r{self._done} of {self._wanted} runs, {rate:.1f} a second, {left:.0f} s left ", end=end, file=sys.stderr, flush=True)


def _write(path: str, content: bytes) -> None:
    """Writes a file, which appears whole or not at all; whoever writes it second writes the same."""
    new = f"{path}.{os.getpid()}.new"
    with open(new, "wb") as file:
        file.write(content)
    os.replace(new, path)


def sweep(
    scenario: Any,
    grid: Mapping[str, Iterable[Any]],
    seeds: Iterable[int],
    *,
    folder: str | os.PathLike[str],
    executor: Any = None,
    workers: int | None = None,
    batch: int = 20,
    retries: int = 3,
    progress: bool | None = None,
) -> Sweep:
    """Runs a scenario for every combination of a grid with every seed.

    Parameters
    ----------
    scenario
        A path, a dictionary, or a :class:`tidegate.Scenario`. Variants are part of each run.
    grid
        The axes: a path into the scenario, and its values. ``"duration"``, ``"flow.bulk.workload.kind"``,
        ``"link.r->b.rate"``, ``"link.2.queue"``: a section of a list is named by its name, by its ends, or by its number.
    seeds
        The seeds.
    folder
        Where results are written. The same sweep there goes on from what is there, also where the command began it. More seeds
        or values of the same scenario are added to it: no run is made again. Other files are left alone.
    executor
        Anything with the ``submit`` of :class:`concurrent.futures.Executor`: ``client.get_executor()`` of
        ``dask.distributed``, :class:`RayExecutor`, threads. Default: ``workers`` processes here, one for each processor.
    batch
        Runs of a task and of a file.
    retries
        How often a batch is tried again after its worker was lost.
    progress
        Whether a line with the time that is left is written to standard error; default where that is a terminal.

    Memory holds the batches in flight, two for each worker.

    A run that fails does not end the others: :class:`SweepError` is raised at the end, with all that failed. The other runs of
    its batch are in a file whose name ends in ``.part.parquet``, and the same sweep tries the batch again.

    Raises
    ------
    ConfigError
        The scenario, or the value of an axis, is wrong; nothing was run.
    KeyError
        An axis has no place in the scenario.
    SweepError
        Runs failed.
    """
    from . import qdisc

    folder = os.fspath(folder)
    os.makedirs(folder, exist_ok=True)
    seeds = list(seeds)
    if batch < 1:
        raise ValueError("a batch has at least one run")
    if not seeds:
        raise ValueError("a sweep needs at least one seed")
    text, name, beside = _text(scenario)
    axes = [(path, value_text(list(values))) for path, values in grid.items()]
    plan = Plan(text, name, beside, axes, seeds, batch)
    # Classes of this sweep that a worker cannot import.
    used = text + "".join(values for _, values in axes)
    classes = {name: cls for name, cls in qdisc._registered.items() if json.dumps(name) in used}

    # What files of other seeds, or of other values of the axes, have of this scenario is not made again.
    planned = {plan.batch(number)[0] for number in range(plan.batches)}
    others: list[str] = []
    for name in sorted(os.listdir(folder)):
        if name.startswith("batch-") and name.endswith(".parquet") and name not in planned:
            with open(os.path.join(folder, name), "rb") as file:
                knowing = plan.knowing(name, file.read())
            if knowing is not None:
                plan = knowing
                others.append(name)
    paths: dict[int, str] = {}
    todo: list[int] = []
    found = 0
    for number in range(plan.batches):
        name, runs = plan.batch(number)
        if os.path.exists(os.path.join(folder, name)):
            found += len(runs)
            paths[number] = os.path.join(folder, name)
            continue
        name, missing = plan.missing(number)
        found += len(runs) - len(missing)
        if missing:
            paths[number] = os.path.join(folder, name)
            todo.append(number)
    files = [*paths.values(), *(os.path.join(folder, name) for name in others)]

    own = _Processes(workers) if executor is None else None
    submitter = own or executor
    line = _Progress(plan.runs, found, progress)
    tries: dict[int, int] = {}
    failures: list[tuple[dict[str, str], int, str]] = []
    ended = 0
    flying: dict[Future[tuple[bytes, list[tuple[int, str]]]], tuple[int, list[_Run]]] = {}
    most = 2 * (workers or os.cpu_count() or 1) if executor is None else 64
    queue = ((number, plan.missing(number)[1]) for number in todo)
    again: list[tuple[int, list[_Run]]] = []
    try:
        while True:
            while len(flying) < most and (task := again.pop() if again else next(queue, None)):
                number, part = task
                arguments = (run_batch, part, beside, plan.order, *([classes] if classes else []))
                flying[submitter.submit(*arguments)] = task
            if not flying:
                break
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                number, part = flying.pop(future)
                try:
                    rows, failed = future.result()
                except Exception as error:
                    # Its worker was lost: errors of a run are in what it returns.
                    tries[number] = tries.get(number, 0) + 1
                    if tries[number] <= retries:
                        again.append((number, part))
                        continue
                    reason = f"batch {number} failed {tries[number]} times: {error}"
                    if ended == 0:
                        raise SweepError(reason) from error
                    rows, failed = b"", [(run, reason) for run in range(len(part))]
                ended += 1
                failures += [(dict(part[run][0]), part[run][2], reason) for run, reason in failed]
                path = paths[number]
                partial = path.removesuffix(".parquet") + ".part.parquet"
                if rows:
                    _write(partial if failed else path, rows)
                if not failed and os.path.exists(partial):
                    os.remove(partial)
                line.add(len(part))
    finally:
        for future in flying:
            future.cancel()
        if own is not None:
            own.close()
    if failures:
        shown = [f"\n  {values}, seed {seed}: {reason}" for values, seed, reason in failures[:20]]
        rest = f"{len(failures)} of {plan.runs} runs failed; the others are in {folder}, and the same call makes these again"
        raise SweepError(rest + "".join(shown), failures)
    return Sweep(folder, files, plan.runs, found)
