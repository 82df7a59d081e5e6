"""Figures of tables of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ._tidegate import Figure, Table, draw_table

__all__ = ["figure"]


def figure(
    table: Table,
    kind: Literal["heat", "best", "scatter", "lines", "ecdf", "ccdf", "box", "violin", "strip"],
    *,
    x: str = "value",
    y: str = "value",
    cells: str = "value",
    by: str | Sequence[str] | None = None,
    only: Mapping[str, str] | None = None,
    over: Mapping[str, str] | None = None,
    log: bool = False,
    log_x: bool = False,
    times: float | None = None,
    x_title: str = "",
    y_title: str = "",
    look: Literal["page", "column", "text"] = "page",
    width: float | None = None,
    height: float | None = None,
    type_size: float | None = None,
    heading: str | None = None,
    rows: Sequence[str] | None = None,
    grey: bool = False,
    bands: bool = True,
) -> Figure:
    """Draws a table, as ``tidegate figure`` draws the tables that a sweep has written.

    Parameters
    ----------
    kind
        A heat map of the means of ``cells`` over ``x`` and ``y``, or a map of the variant that is the best there; points or
        lines of ``y`` over ``x``; or the distribution or the spread of the values in ``x``. Lines are means, with bands of
        their 95 % intervals.
    by
        The column whose texts name the curves, or the rows; of several columns each combination is one.
    only
        Only rows that have these texts in these columns are drawn.
    over
        Divides by the values of the rows that have these texts instead, and are equal otherwise: with
        ``only={"subject": "flow a"}`` and ``over={"subject": "flow b"}`` the ratio of two flows.
    log
        Whether the values have a logarithmic scale; ``log_x`` is for the horizontal axis, which is that of the values of distributions and boxes.
    times
        A factor for the values, for a unit of one's own.
    look, width, height, type_size, heading, rows, grey, bands
        As for :meth:`Results.figure`.

    >>> values = Table([("rate", ["1mbit", "2mbit"]), ("rtt", ["5ms", "5ms"]), ("value", [1.0, 2.0])])
    >>> figure(values, "heat", x="rate", y="rtt", look="column").svg.startswith("<svg")
    True

    Raises
    ------
    ValueError
        A column or a text does not exist, with those that do, or nothing is left to draw.
    """
    pairs = [list((given or {}).items()) for given in (only, over)]
    titles = (x_title, y_title)
    names = [by] if isinstance(by, str) else list(by or ())
    return draw_table(
        table, kind, x, y, cells, names, *pairs, log, log_x, times, titles, look, width, height, type_size, heading, list(rows) if rows else None, None, grey, bands
    )
