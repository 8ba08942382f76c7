"""Results as HTML for notebooks: without scripts and without colours of their own, so that they look right in light and
dark themes. All text is escaped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Generic, TypeVar

from mere.text.printable import printable
from mere.text.words import counted

ROWS = 20  # of a table
_WIDTH = 200  # of a cell, in letters

Item = TypeVar("Item")


@dataclass(frozen=True)
class Column:
    name: str
    right: bool = False
    about: str = ""  # what a notebook shows when the mouse is over it


def shown(title: str, *parts: str) -> str:
    """One result: what it is, and below it tables and lines."""
    return f"<div><p>{_text(title)}</p>{''.join(parts)}</div>"


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]], more: str = "") -> str:
    """The first rows of a table; nothing, if there are none. `more`: what is to be said of those that are left out."""
    head = "".join(f"<th{_about(each)}{_aligned(each)}>{_text(each.name)}</th>" for each in columns)
    shown_rows: list[str] = []
    left = 0
    for row in rows:
        if len(shown_rows) < ROWS:
            cells = (
                f"<td{_aligned(column)}>{_text('' if cell is None else str(cell))}</td>"
                for column, cell in zip(columns, row, strict=True)
            )
            shown_rows.append(f"<tr>{''.join(cells)}</tr>")
        else:
            left += 1
    if not shown_rows:
        return ""
    tail = more or (f"and {counted(left, 'more row')}" if left else "")
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(shown_rows)}</tbody></table>"
    return f"<div style='overflow-x:auto'>{body}</div>" + lines([tail] if tail else [])


def lines(texts: Iterable[str]) -> str:
    return "".join(f"<p style='white-space:pre-wrap'>{escape(printable(each, lines=True))}</p>" for each in texts)


class Listing(list[Item], Generic[Item]):
    """A list that shows itself as a table in a notebook. `title`: what it is a list of, such as `runs`."""

    def __init__(
        self, items: Iterable[Item], title: str, columns: Sequence[Column], cells: Callable[[Item], Sequence[object]]
    ) -> None:
        super().__init__(items)
        self._title, self._columns, self._cells = title, columns, cells

    def _repr_html_(self) -> str:
        title = self._title if self else f"no {self._title}"
        return shown(title, table(self._columns, map(self._cells, self)))


def _text(text: str) -> str:
    return escape(printable(text if len(text) <= _WIDTH else f"{text[: _WIDTH - 1]}…"))


def _aligned(column: Column) -> str:
    return f" style='text-align:{'right' if column.right else 'left'}'"


def _about(column: Column) -> str:
    return f" title='{escape(printable(column.about))}'" if column.about else ""
