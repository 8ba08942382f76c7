"""What changed in a table, by its rows, where its files alone would report too much.

A table that is overwritten as a whole has only new files, and perhaps the same rows but one. Where what differs between
two snapshots is small, DuckDB counts the rows of both, equal ones together, and finds the windows in which they differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from mere.lake.diff.alignment import pairs
from mere.lake.diff.changes import Changes, in_words
from mere.lake.diff.net_rows import in_touched, net_rows
from mere.lake.iceberg.timeline import Timeline
from mere.sql.spelling.standard import quoted
from mere.windows import Grain, Span, Spans

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LIMIT = 32_000_000  # bytes of the files that are read, of both snapshots together

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = 3_600_000_000  # in microseconds

Counts = list[tuple[int | None, int, int]]  # the hour in which rows differ; how many were added there, and removed


def by_rows(
    found: Changes, timeline: Timeline, since: int | None, grain: Grain | None, limit: int | None = None
) -> Changes:
    """The same changes, without what differs in files alone; as they were found where that cannot be told.

    Rows that were only added differ for certain, so nothing is read for them.
    """
    if not found or found.appends_only:
        return found
    counts = _differences(timeline, since, LIMIT if limit is None else limit)
    if counts is None:
        return found
    try:
        spans = Spans.of(_window(hour, grain or Grain.HOUR) for hour, _, _ in counts if hour is not None)
    except (OverflowError, ValueError):  # beyond Python's calendar
        return found
    rows_added, rows_removed = sum(added for _, added, _ in counts), sum(removed for _, _, removed in counts)
    return replace(
        found,
        spans=spans if timeline.column or not counts else None,
        why=in_words(rows_added, rows_removed),
        rows_added=rows_added,
        rows_removed=rows_removed,
        nulls=sum(added for hour, added, _ in counts if hour is None) if timeline.column else None,
        nulls_removed=sum(removed for hour, _, removed in counts if hour is None) if timeline.column else None,
    )


def _window(hour: int, grain: Grain) -> Span:
    start = grain.floor(_EPOCH + timedelta(microseconds=hour))
    return Span(start, grain.next(start))


def _differences(timeline: Timeline, since: int | None, limit: int) -> Counts | None:
    """None: the snapshot is gone, too much would have to be read, or it cannot be."""
    old = timeline.metadata.at(since)
    if old is None:
        return None
    states = old, timeline.metadata
    return in_touched(timeline.table, states, timeline.storage, limit, partial(_counted, timeline))


def _counted(timeline: Timeline, connection: DuckDBPyConnection, items: Sequence[str]) -> Counts:
    schema = timeline.metadata.schema
    compared = pairs(schema, schema, by_id=True)
    # By position, for names may be anything; in the form in which values are compared.
    listed = ", ".join(f"{pair.new(quoted(pair.name))} AS c{at}" for at, pair in enumerate(compared))
    hour = "NULL::BIGINT"
    if column := timeline.column:
        hour = next(hour_of(f"c{at}", column.ticks) for at, pair in enumerate(compared) if pair.name == column.name)
    differing = net_rows([f"SELECT {listed} FROM {item}" for item in items], len(compared))
    return connection.execute(f"""SELECT {hour} AS hour,
  coalesce(sum(net) FILTER (net > 0), 0)::BIGINT, coalesce(-sum(net) FILTER (net < 0), 0)::BIGINT
FROM ({differing}) GROUP BY hour""").fetchall()


def hour_of(time: str, ticks: int) -> str:
    """The beginning of its hour in microseconds, in DuckDB's SQL; `ticks` of the column's units make one.

    Counted in units of its own: DuckDB cuts nanoseconds off towards 1970, before that year into the next hour.
    """
    count, length = f"epoch_{'ns' if ticks > 1 else 'us'}({time})", _HOUR * ticks
    return f"({count} - ({count} % {length} + {length}) % {length}) // {ticks}"
