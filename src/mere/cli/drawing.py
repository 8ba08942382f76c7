"""Lineage as a picture: a Mermaid flowchart for Markdown, or one HTML page that needs nothing else."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mere.names import TableName
from mere.project.column_lineage import ColumnName, Edge, EdgeKind

_ARROWS = {EdgeKind.VALUE: "-->", EdgeKind.CONDITION: "-.->", EdgeKind.TABLE: "-. by table .->"}

# In pixels.
_LINE, _CHARACTER, _GAP, _BESIDE, _MARGIN = 20, 7.3, 24, 110, 20


def mermaid(name: str, starts: Sequence[ColumnName], edges: Sequence[Edge]) -> str:  # noqa: ARG001
    tables = _by_table(starts, edges)
    ids = {each: f"n{at}" for at, each in enumerate(column for columns in tables.values() for column in columns)}
    lines = ["flowchart LR"]
    for at, (table, columns) in enumerate(tables.items()):
        lines.append(f'  subgraph t{at}["{_quoted(str(table))}"]')
        lines += [f'    {ids[each]}["{_quoted(each.column or "rows")}"]' for each in columns]
        lines.append("  end")
    lines += [f"  {ids[each.source]} {_ARROWS[each.kind]} {ids[each.target]}" for each in _between(edges)]
    lines += [f"  style {ids[each]} stroke-width:3px" for each in starts if each.column and len(starts) == 1]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Mermaid writes characters of its own as #code;."""
    return "".join(each if each.isalnum() or each in "_. -" else f"#{ord(each)};" for each in text)


def _by_table(starts: Iterable[ColumnName], edges: Iterable[Edge]) -> dict[TableName, list[ColumnName]]:
    """The columns of each, in the order in which they were found; a table's rows come first."""
    names = dict.fromkeys([*starts, *(name for edge in edges for name in (edge.source, edge.target))])
    tables: dict[TableName, list[ColumnName]] = {}
    for each in names:
        tables.setdefault(each.table, []).append(each)
    return {table: sorted(columns, key=lambda each: each.column is not None) for table, columns in tables.items()}


def _between(edges: Iterable[Edge]) -> list[Edge]:
    """That a table's columns are of its rows goes without saying."""
    return [each for each in edges if each.source.table != each.target.table]


@dataclass(frozen=True)
class _Box:
    table: TableName
    columns: tuple[ColumnName, ...]  # without the rows, for which the heading stands
    left: float
    top: float
    width: float

    @property
    def height(self) -> float:
        return _LINE * (len(self.columns) + 1) + 8

    def middle(self, name: ColumnName) -> float:
        at = self.columns.index(name) + 1 if name.column else 0
        return self.top + 4 + _LINE * at + _LINE / 2


def page(name: str, starts: Sequence[ColumnName], edges: Sequence[Edge]) -> str:
    boxes = _boxes(_by_table(starts, edges), edges)
    names = [each for box in boxes.values() for each in (ColumnName(box.table), *box.columns)]
    ids = {each: at for at, each in enumerate(names)}
    width = max((box.left + box.width for box in boxes.values()), default=0) + _MARGIN
    height = max((box.top + box.height for box in boxes.values()), default=0) + _MARGIN
    drawn = _between(edges)
    parts = [_arrow(at, edge, boxes) for at, edge in enumerate(drawn)]
    parts += [_drawn_box(box, ids, starts) for box in boxes.values()]
    pairs = json.dumps([[ids[each.source], ids[each.target]] for each in drawn])
    rows = json.dumps({ids[each]: ids[ColumnName(each.table)] for each in names if each.column})
    template = Path(__file__).with_name("lineage.html").read_text(encoding="utf-8")
    filled = {
        "title": html.escape(name),
        "width": f"{width:.0f}",
        "height": f"{height:.0f}",
        "drawing": "\n".join(parts),
        "edges": pairs,
        "rows": rows,
    }
    # In one pass: what is filled in is not looked at again, whatever a table is called.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: filled[mark[1]], template)


def _boxes(tables: dict[TableName, list[ColumnName]], edges: Iterable[Edge]) -> dict[TableName, _Box]:
    """From left to right by how far a table is from the beginning, each near what it is made of."""
    before: dict[TableName, set[TableName]] = {table: set() for table in tables}
    for edge in _between(edges):
        before[edge.target.table].add(edge.source.table)
    boxes: dict[TableName, _Box] = {}
    left: float = _MARGIN
    while len(boxes) < len(tables):
        # What a model reads is never made of the model, so that there is always a next one.
        layer = [each for each in tables if each not in boxes and before[each] <= boxes.keys()]
        layer.sort(key=lambda each: _mean([boxes[source].top for source in before[each]]))
        top: float = _MARGIN
        placed = []
        for table in layer:
            columns = tuple(each for each in tables[table] if each.column)
            longest = max(len(text) for text in (str(table), *(each.column or "" for each in columns)))
            placed.append(_Box(table, columns, left, top, longest * _CHARACTER + 24))
            top += placed[-1].height + _GAP
        boxes |= {box.table: box for box in placed}
        left += max(box.width for box in placed) + _BESIDE
    return boxes


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _arrow(at: int, edge: Edge, boxes: dict[TableName, _Box]) -> str:
    source, target = boxes[edge.source.table], boxes[edge.target.table]
    x1, y1 = source.left + source.width, source.middle(edge.source)
    x2, y2 = target.left, target.middle(edge.target)
    bend = max((x2 - x1) / 2, 40)
    says = " ".join(filter(None, [edge.kind, edge.clause, edge.sql]))
    about = f"{edge.source} → {edge.target}\n{says}\n{edge.file}:{edge.line}"
    return (
        f'<path id="e{at}" class="{edge.kind}" d="M{x1:.0f},{y1:.0f} C{x1 + bend:.0f},{y1:.0f} {x2 - bend:.0f},{y2:.0f}'
        f' {x2:.0f},{y2:.0f}"><title>{html.escape(about)}</title></path>'
    )


def _drawn_box(box: _Box, ids: dict[ColumnName, int], starts: Sequence[ColumnName]) -> str:
    size = f'width="{box.width:.0f}" height="{box.height:.0f}"'
    lines = [f'<g class="table"><rect x="{box.left:.0f}" y="{box.top:.0f}" {size} rx="6"/>']
    for each in (ColumnName(box.table), *box.columns):
        middle = box.middle(each)
        kinds = ["name", *([] if each.column else ["heading"]), *(["start"] if each in starts else [])]
        text = html.escape(each.column or str(box.table))
        lines.append(
            f'<g id="n{ids[each]}" class="{" ".join(kinds)}" tabindex="0"><rect x="{box.left + 3:.0f}"'
            f' y="{middle - _LINE / 2:.0f}" width="{box.width - 6:.0f}" height="{_LINE}" rx="4"/>'
            f'<text x="{box.left + 12:.0f}" y="{middle + 4:.0f}">{text}</text></g>'
        )
    return "\n".join([*lines, "</g>"])


WRITERS: dict[str, Callable[[str, Sequence[ColumnName], Sequence[Edge]], str]] = {"mermaid": mermaid, "html": page}
