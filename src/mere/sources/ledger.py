"""What was loaded, from the ledger of a source: the table `<table>__loads`, published with the data."""

from __future__ import annotations

from typing import Any

from mere.lake.lake import Lake
from mere.names import TableName
from mere.sources.source import Loaded
from mere.windows import Span, instant

# The columns, in order, with their types in Spark's words.
COLUMNS = {
    "portion": "string",
    "location": "string",
    "version": "string",
    "size": "bigint",
    "modified": "timestamp",
    "checksum": "string",
    "rows": "bigint",
    "bad": "bigint",
    "period_from": "timestamp",
    "period_to": "timestamp",
    "until": "string",
    "load": "string",
    "loaded_at": "timestamp",
    "run": "string",
    "columns": "string",
}
ABOUT = {
    "portion": "the file, by its path below the folder of the source; of an API or a database, what was read",
    "location": "where it was",
    "version": "its ETag, or its size and time",
    "checksum": "of a file without an ETag",
    "rows": "that are in the table",
    "bad": "rows that are in quarantine",
    "period_from": "the window that its name gives",
    "until": "the greatest value of the cursor",
    "load": "what came in one snapshot has the same",
    "columns": "that it had, with their types",
}


def ledger(lake: Lake, table: TableName, ref: str) -> dict[str, Loaded]:
    """By the name of the portion, the last that was loaded of each; what has a cursor has all. Read without Spark."""
    names = ", ".join(f'"{name}"' for name in COLUMNS)
    loads = table.loads
    with lake.sql(f'SELECT {names} FROM "{loads.namespace}"."{loads.name}" ORDER BY loaded_at', ref) as result:
        rows = list(map(_loaded, result.rows()))
    return {row.portion if row.until is None else f"{row.portion} {row.load}": row for row in rows}


def _loaded(row: tuple[Any, ...]) -> Loaded:
    values = dict(zip(COLUMNS, row, strict=True))
    start, end = values.pop("period_from"), values.pop("period_to")
    span = Span(instant(start), instant(end)) if start and end else None
    for name in ("modified", "loaded_at"):
        values[name] = instant(values[name]) if values[name] else None
    return Loaded(**values, span=span)


def row_of(loaded: Loaded) -> dict[str, Any]:
    span = loaded.span
    values = {name: getattr(loaded, name, None) for name in COLUMNS}
    return {**values, "period_from": span.start if span else None, "period_to": span.end if span else None}
