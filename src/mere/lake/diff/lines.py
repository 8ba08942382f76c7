"""A diff as lines of text, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mere.lake.iceberg.properties import OWN
from mere.lake.log.commits import growth

if TYPE_CHECKING:
    from mere.lake.diff.diff import ColumnChange, Setting, TableDiff
    from mere.lake.diff.rows import RowDiff

_WIDTH = 80  # of a value


def table_line(table: TableDiff) -> str:
    """`changed gold.orders  +5 -1 rows, +1 file, +2.1 KB`"""
    kind = "view " if table.kind == "view" else ""
    name = f"{table.was} to {table.table}" if table.was else f"{table.table}"
    grown = growth(table.amounts)
    return f"{table.verb} {kind}{name}" + (f"  {grown}" if grown else "")


def table_details(table: TableDiff) -> Iterator[str]:
    if table.unreadable:
        yield f"cannot be compared: {table.unreadable}"
    if table.replaced:
        yield "replaced: another table of the same name"
    for change in table.columns:
        yield column_line(change)
    for setting in table.settings:
        yield f"{setting.name}: {_values(setting.old, setting.new)}"
    for setting in table.properties:
        if setting.name not in OWN:
            yield f"property {setting.name}: {_values(setting.old, setting.new)}"


def column_line(change: ColumnChange) -> str:
    match change.what:
        case "added" | "dropped":
            return f"column {change.column} {change.what}: {change.new or change.old}"
        case "renamed":
            return f"column {change.old} renamed to {change.new}"
        case "order":
            return f"columns reordered: {change.new}"
        case _:
            return f"column {change.column}: {change.what} {_values(change.old, change.new)}"


def _values(old: str | None, new: str | None) -> str:
    return f"{short(old)} → {short(new)}"


def short(value: str | None) -> str:
    if value is None:
        return "not set"
    text = " ".join(value.split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"


def namespace_line(setting: Setting) -> str:
    """`created namespace gold`, or what became of one of its properties."""
    if not setting.name.endswith(")"):
        return f"{'created' if setting.old is None else 'dropped'} {setting.name}"
    return f"{setting.name}: {_values(setting.old, setting.new)}"


def rows_lines(found: RowDiff) -> Iterator[str]:
    by = f"by {', '.join(found.key)}" if found.key else "as a whole"
    counts = f"+{found.added:,} -{found.removed:,}" + (f" ~{found.changed:,}" if found.key else "")
    yield f"rows compared {by}: {counts if found else 'equal'}  (read {found.read})"
    if found.note:
        yield found.note.replace("\n", "\n    ")
    if found.by_column:
        yield "changed in " + ", ".join(f"{name}: {count:,}" for name, count in found.by_column.items())
    for names, where in ((found.only_old, "old"), (found.only_new, "new")):
        if names:
            yield f"not compared, only in the {where}: {', '.join(names)}"
