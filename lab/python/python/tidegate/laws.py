"""The six laws of disciplines, checked on one in Python by random scripts.

1. Conservation: every packet has left, was dropped with a reason, or is in the backlog.
2. Time never runs back. (The package hands a discipline no earlier time than before.)
3. Deadlines are exact, to the nanosecond.
4. Work is bounded. (Reported as the coverage; a bound is for the discipline to state.)
5. Same inputs, same outputs.
6. Order within a flow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from ._tidegate import check_laws

__all__ = ["Coverage", "Violation", "check"]


@dataclass(frozen=True)
class Coverage:
    """What the scripts covered."""

    steps: int
    enqueued: int
    dequeued: int
    dropped: int
    #: Deadlines at a later time that were verified to the nanosecond.
    deadlines: int


class Violation(AssertionError):
    """A law is violated. ``script`` has the steps of the shortest script found that shows it."""

    def __init__(self, law: str, script: list[str], seed: int) -> None:
        steps = "\n".join(f"  {number:3} {step}" for number, step in enumerate(script))
        super().__init__(f"{law} (seed {seed})\n{steps}")
        self.law = law
        self.script = script
        self.seed = seed


def check(
    make: Callable[[], Any],
    *,
    operations: int = 100_000,
    seed: int = 0,
    flows: int = 8,
    classes: int = 3,
    ecn: Literal["packets", "flows"] = "packets",
) -> Coverage:
    """Checks the laws on fresh objects of ``make`` (a class, or a function without arguments).

    ``operations`` is the number of steps over all scripts; each script runs on three objects, whose outputs are compared.
    Of a violation the shortest script is searched.

    ``ecn`` says what has an ECN code point of its own: each of the ``"packets"``, or each of the ``"flows"``. The latter is
    for a discipline that queues by the ECN field, as RFC 9332 does: it may send the packets of a flow through two queues
    when their code points differ.

    Raises
    ------
    ValueError
        ``ecn`` is another word.
    Violation
        A law is violated.
    """
    if ecn not in ("packets", "flows"):
        raise ValueError(f"ecn is {ecn!r}, expected 'packets' or 'flows'")
    covered, violation = check_laws(make, operations, seed, flows, classes, ecn == "flows")
    if violation is not None:
        raise Violation(*violation)
    assert covered is not None
    return Coverage(*covered)
