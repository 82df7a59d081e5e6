"""Sweeps: a scenario over a grid of values and seeds, on the processors here or on a cluster.

A task is text and seeds. Its rows carry the digests of their runs, so that a result computed elsewhere can be checked here.
Results are written as Parquet, one file for each batch; a sweep that was stopped goes on from the files that are there.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from ._tidegate import Table, __version__, parse_toml
from .errors import ConfigError, TidegateError
from .scenario import Scenario
from .toml import _value as value_text
from .toml import dumps

__all__ = ["RayExecutor", "Sweep", "SweepError", "sweep"]

#: A run: the values of the axes, the text of the scenario, and the seed.
_Run = tuple[list[tuple[str, str]], str, int]


class SweepError(TidegateError):
    """A batch failed although it was tried again; ``__cause__`` is why."""


@dataclass(frozen=True)
class Sweep:
    """What a sweep has written."""

    #: The folder of the results.
    folder: str
    #: One Parquet file for each batch, in the order of the grid: ``polars.read_parquet(sweep.files)``.
    files: list[str]
    #: Runs of the sweep, and those of them that an earlier call had made.
    runs: int
    found: int


def _copied(value: Any) -> Any:
    """Dictionaries and lists anew; what they hold otherwise is the same."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    return value


def _tables(scenario: Any) -> tuple[dict[str, Any], str]:
    """A scenario as a dictionary, and the folder of the files that it names."""
    if isinstance(scenario, Scenario):
        return _copied(scenario.to_dict()), scenario.folder
    if isinstance(scenario, Mapping):
        return _copied(scenario), os.getcwd()
    if isinstance(scenario, (str, os.PathLike)):
        path = os.fspath(scenario)
        with open(path, encoding="utf-8", newline="") as file:
            return json.loads(parse_toml(file.read(), str(path))), os.path.dirname(path) or "."
    raise TypeError(f"{type(scenario).__name__} is no scenario: give a path, a dictionary or a tidegate.Scenario")


def _entry(entries: list[dict[str, Any]], section: str, name: str) -> dict[str, Any]:
    """The section of a list that ``name`` means: its ``name``, its ends ``a->b``, or its number from 1."""
    names = [entry.get("name") or f"{entry.get('from')}->{entry.get('to')}" for entry in entries]
    if name in names:
        return entries[names.index(name)]
    if name.isdecimal() and 1 <= int(name) <= len(entries):
        return entries[int(name) - 1]
    raise KeyError(f"no {section} is called {name!r}; there are {', '.join(names)}, or numbers from 1")


def _set(tables: dict[str, Any], path: str, value: Any) -> None:
    """Sets the value at ``path``: keys with dots between them; after ``link``, ``flow`` and the like a name or number."""
    parts = path.split(".")
    inside: Any = tables
    while len(parts) > 1:
        key = parts.pop(0)
        inside = inside.setdefault(key, {})
        if isinstance(inside, list):
            inside = _entry(inside, key, parts.pop(0))
        if not isinstance(inside, dict):
            raise KeyError(f"{path!r}: `{key}` is not a table")
    if not parts:
        raise KeyError(f"{path!r} names a section and no key of it")
    inside[parts[0]] = value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=repr)


def _points(scenario: Any, grid: Mapping[str, Iterable[Any]]) -> Iterator[tuple[list[tuple[str, str]], str]]:
    """Every combination of the grid, the last axis changing first: the values, and the text of the scenario."""
    tables, _ = _tables(scenario)
    axes = [(path, list(values)) for path, values in grid.items()]
    for path, values in axes:
        if not values:
            raise ValueError(f"the axis {path!r} has no value")
    for values in itertools.product(*(values for _, values in axes)):
        changed = _copied(tables)
        for (path, _), value in zip(axes, values):
            _set(changed, path, value)
        yield [(path, _text(value)) for (path, _), value in zip(axes, values)], dumps(changed)


def run_batch(runs: Sequence[_Run], folder: str, classes: Mapping[str, type] | None = None) -> bytes:
    """Makes some runs and returns their rows as a Parquet file. This is what a worker does.

    Columns: one for each axis (text), ``seed`` (uint64), ``variant``, ``subject``, ``measure`` (text), ``value`` (float64),
    ``unit`` (text), and ``digest``, that of the run.
    """
    from . import qdisc
    from ._tidegate import Checked, simulate

    for name, cls in (classes or {}).items():
        qdisc.register(cls, name)
    rows: dict[str, list[Any]] = {path: [] for path, _ in runs[0][0]}
    names = ("seed", "variant", "subject", "measure", "value", "unit")
    for name in (*names, "digest"):
        rows[name] = []
    last: tuple[str, Checked] | None = None
    for axes, text, seed in runs:
        if last is None or last[0] != text:
            last = (text, Checked(text, "<sweep>", folder))
        results = simulate(last[1], seed, 1, 1)
        values = results.values.to_dict()
        for name in names:
            rows[name] += values[name]
        count = len(values["seed"])
        rows["digest"] += [results.digest] * count
        for path, value in axes:
            rows[path] += [value] * count
    return Table(list(rows.items())).to_parquet()


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

    def submit(self, *arguments: Any) -> Future[bytes]:
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


def _batches(runs: Iterable[_Run], size: int) -> Iterator[list[_Run]]:
    runs = iter(runs)
    while batch := list(itertools.islice(runs, size)):
        yield batch


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
        Where results are written. The same sweep there goes on from what is there; other files of it are left alone.
    executor
        Anything with the ``submit`` of :class:`concurrent.futures.Executor`: ``client.get_executor()`` of
        ``dask.distributed``, :class:`RayExecutor`, threads. Default: ``workers`` processes here, one for each processor.
    batch
        Runs of a task and of a file.
    retries
        How often a batch is tried again after its worker was lost. Errors of the scenario are raised at once.
    progress
        Whether a line with the time that is left is written to standard error; default where that is a terminal.

    Memory holds the batches in flight, two for each worker. Raises :class:`SweepError`, or :class:`ConfigError`.
    """
    from . import qdisc

    folder = os.fspath(folder)
    os.makedirs(folder, exist_ok=True)
    seeds = list(seeds)
    if batch < 1:
        raise ValueError("a batch has at least one run")
    _, beside = _tables(scenario)
    beside = os.path.abspath(beside)
    grid = {path: list(values) for path, values in grid.items()}
    wanted = math.prod(map(len, grid.values())) * len(seeds)
    if not seeds:
        raise ValueError("a sweep needs at least one seed")
    # Before anything is sent: what is wrong with the first point is wrong with most.
    _, first = next(_points(scenario, grid))
    load_text(first, beside)
    # Disciplines of this sweep that a worker cannot import.
    used = first + "".join(value_text(value) for values in grid.values() for value in values)
    classes = {name: cls for name, cls in qdisc._registered.items() if json.dumps(name) in used}

    files: list[str] = []
    todo: list[int] = []
    found = 0

    def runs() -> Iterator[_Run]:
        return ((axes, text, seed) for axes, text in _points(scenario, grid) for seed in seeds)

    for number, part in enumerate(_batches(runs(), batch)):
        name = hashlib.sha256(json.dumps([__version__, part]).encode()).hexdigest()[:16]
        files.append(os.path.join(folder, f"batch-{number:06}-{name}.parquet"))
        if os.path.exists(files[-1]):
            found += len(part)
        else:
            todo.append(number)

    own = _Processes(workers) if executor is None else None
    submitter = own or executor
    line = _Progress(wanted, found, progress)
    tries: dict[int, int] = {}
    flying: dict[Future[bytes], tuple[int, list[_Run]]] = {}
    most = 2 * (workers or os.cpu_count() or 1) if executor is None else 64
    wanted_numbers = set(todo)
    queue = ((number, part) for number, part in enumerate(_batches(runs(), batch)) if number in wanted_numbers)
    again: list[tuple[int, list[_Run]]] = []
    try:
        while True:
            while len(flying) < most and (task := again.pop() if again else next(queue, None)):
                number, part = task
                arguments = (run_batch, part, beside, classes) if classes else (run_batch, part, beside)
                flying[submitter.submit(*arguments)] = task
            if not flying:
                break
            for future in wait(flying, return_when=FIRST_COMPLETED).done:
                number, part = flying.pop(future)
                try:
                    rows = future.result()
                except ConfigError:
                    raise
                except Exception as error:
                    # A lost worker, or an error of the run itself, which a second try shows again.
                    tries[number] = tries.get(number, 0) + 1
                    if tries[number] > retries:
                        raise SweepError(f"batch {number} failed {tries[number]} times: {error}") from error
                    again.append((number, part))
                    continue
                # A file appears whole or not at all; whoever writes it second writes the same.
                new = f"{files[number]}.{os.getpid()}.new"
                with open(new, "wb") as file:
                    file.write(rows)
                os.replace(new, files[number])
                line.add(len(part))
    finally:
        for future in flying:
            future.cancel()
        if own is not None:
            own.close()
    return Sweep(folder, files, wanted, found)


def load_text(text: str, folder: str) -> None:
    """Checks the text of a scenario; raises :class:`ConfigError`."""
    from ._tidegate import Checked

    Checked(text, "<sweep>", folder)
