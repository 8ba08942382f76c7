"""A diff as a self-contained HTML page for review, with what `mere diff` prints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from mere.lake.diff.diff import Diff, TableDiff
from mere.lake.diff.lines import namespace_line, rows_lines, table_details, table_line
from mere.lake.query.tables import TableSet
from mere.text.values import cell
from mere.text.words import counted, moment

if TYPE_CHECKING:
    from mere.lake.diff.rows import RowDiff

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; color: #1f2328; }
h1 { font-size: 1.5rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; padding-top: 1rem; border-top: 1px solid #d0d7de; }
code, td, th { font-family: ui-monospace, monospace; font-size: 13px; } .about { color: #59636e; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: .5rem 0; }
th { text-align: left; color: #59636e; font-weight: normal; } td, th { padding: .15rem .75rem .15rem .25rem; }
td { border-top: 1px solid #eaeef2; white-space: pre-wrap; overflow-wrap: anywhere; max-width: 28rem; }
.added td { background: #e6ffec; } .removed td, del { background: #ffebe9; } ins { background: #e6ffec; }
ins, del { text-decoration: none; padding: 0 .2rem; }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #e6edf3; } .about, th { color: #9198a1; } td { border-color: #30363d; }
  h2 { border-color: #30363d; } .added td, ins { background: #12361f; } .removed td, del { background: #4a1d1d; }
}
"""


def page(found: Diff, compared: Mapping[str, RowDiff]) -> str:
    title = f"{found.before.ref} → {found.after.ref}"
    told = {str(table.table) for table in found.tables}
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p class='about'>{_about(found.before)}<br>{_about(found.after)}</p>",
        f"<p>{counted(len(found.tables), 'table differs', 'tables differ')}.</p>",
        *(part for table in found.tables for part in _table(table, compared.get(str(table.table)))),
        *(part for name, rows in compared.items() if name not in told for part in _only_rows(name, rows)),
        *_namespaces(found),
    ]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _about(side: TableSet) -> str:
    return f"{escape(side.ref)} at commit <code>{side.commit.short_id}</code> of {moment(side.commit.at)}"


def _table(table: TableDiff, rows: RowDiff | None) -> Iterator[str]:
    yield f"<h2>{escape(table_line(table))}</h2>"
    yield from _list(table_details(table))
    if rows is not None:
        yield from _rows(rows)


def _only_rows(name: str, rows: RowDiff) -> Iterator[str]:
    yield f"<h2>{escape(name)}</h2>"
    yield from _rows(rows)


def _namespaces(found: Diff) -> Iterator[str]:
    if found.namespaces:
        yield "<h2>Namespaces</h2>"
        yield from _list(map(namespace_line, found.namespaces))


def _list(lines: Iterable[str]) -> Iterator[str]:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    if items:
        yield f"<ul>{items}</ul>"


def _rows(found: RowDiff) -> Iterator[str]:
    yield from _list(rows_lines(found))
    for name, rows in (("added", found.added_rows), ("removed", found.removed_rows)):
        if rows:
            count = getattr(found, name)
            yield _samples(f"{counted(count, 'row')} {name}", list(rows[0]), [_cells(row) for row in rows], name)
    if found.changed_rows:
        names = [*found.key, *found.by_column]
        changed = [_changed(names, row.key, row.old, row.new) for row in found.changed_rows]
        yield _samples(f"{counted(found.changed, 'row')} changed", names, changed, "changed")


def _samples(title: str, names: Sequence[str], rows: Iterable[Sequence[str]], style: str) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    lines = "\n".join(f"<tr>{''.join(f'<td>{each}</td>' for each in row)}</tr>" for row in rows)
    return f"<p>{escape(title)}</p><div class='scroll'><table class='{style}'><tr>{head}</tr>\n{lines}</table></div>"


def _cells(row: Mapping[str, Any]) -> list[str]:
    return [escape(cell(value)) for value in row.values()]


def _changed(names: Sequence[str], key: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [
        f"<del>{escape(cell(old[name]))}</del> <ins>{escape(cell(new[name]))}</ins>"
        if name in old
        else escape(cell(key[name]))
        if name in key
        else ""
        for name in names
    ]
