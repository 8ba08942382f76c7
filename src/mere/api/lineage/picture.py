"""Lineage as a picture: a Mermaid flowchart for Markdown, or one HTML page that needs nothing else."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mere.names import TableName
from mere.project.lineage import ColumnName, Edge, EdgeKind

Node = ColumnName | TableName

_ARROWS = {EdgeKind.VALUE: "-->", EdgeKind.CONDITION: "-.->", EdgeKind.TABLE: "-. by table .->"}

# In pixels.
_LINE, _CHARACTER, _GAP, _BESIDE, _MARGIN = 20, 7.3, 24, 110, 20


@dataclass(frozen=True, eq=False)
class Group:
    """What is drawn as one box: the columns of a table, or the tables of a schema."""

    title: str
    names: tuple[Node, ...]
    heading: ColumnName | None = None  # the rows of the table, for which the title stands


@dataclass(frozen=True)
class Arrow:
    source: Node
    target: Node
    kind: EdgeKind
    about: str = ""


@dataclass(frozen=True)
class Picture:
    title: str
    groups: tuple[Group, ...]
    arrows: tuple[Arrow, ...]
    starts: tuple[Node, ...] = ()


def of_columns(title: str, starts: Sequence[ColumnName], edges: Sequence[Edge]) -> Picture:
    """That a table's columns are of its rows goes without saying."""
    between = [each for each in edges if each.source.table != each.target.table]
    return Picture(
        title,
        tuple(
            Group(str(table), tuple(columns), ColumnName(table)) for table, columns in _by_table(starts, edges).items()
        ),
        tuple(Arrow(each.source, each.target, each.kind, _about(each)) for each in between),
        tuple(starts),
    )


def _by_table(starts: Iterable[ColumnName], edges: Iterable[Edge]) -> dict[TableName, list[ColumnName]]:
    """The columns of each, in the order in which they were found; a table's rows come first."""
    names = dict.fromkeys([*starts, *(name for edge in edges for name in (edge.source, edge.target))])
    tables: dict[TableName, list[ColumnName]] = {}
    for each in names:
        tables.setdefault(each.table, []).append(each)
    return {table: sorted(columns, key=lambda each: each.column is not None) for table, columns in tables.items()}


def _about(edge: Edge) -> str:
    says = " ".join(filter(None, [edge.kind, edge.clause, edge.sql]))
    return f"{edge.source} → {edge.target}\n{says}\n{edge.file}:{edge.line}"


def _label(node: Node) -> str:
    return node.name if isinstance(node, TableName) else node.column or "rows"


def mermaid(picture: Picture) -> str:
    ids = {each: f"n{at}" for at, each in enumerate(name for group in picture.groups for name in group.names)}
    lines = ["flowchart LR"]
    for at, group in enumerate(picture.groups):
        lines.append(f'  subgraph t{at}["{quoted(group.title)}"]')
        lines += [f'    {ids[each]}["{quoted(_label(each))}"]' for each in group.names]
        lines.append("  end")
    whole = all(isinstance(each, TableName) for each in ids)  # then nothing else than a table is meant
    for each in picture.arrows:
        lines.append(f"  {ids[each.source]} {'-->' if whole else _ARROWS[each.kind]} {ids[each.target]}")
    columns = [each for each in picture.starts if isinstance(each, TableName) or each.column]
    lines += [f"  style {ids[each]} stroke-width:3px" for each in columns if len(picture.starts) == 1]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """Mermaid writes characters of its own as #code;."""
    return "".join(each if each.isalnum() or each in "_. -" else f"#{ord(each)};" for each in text)


@dataclass(frozen=True)
class _Box:
    group: Group
    names: tuple[Node, ...]  # without the rows, for which the title stands
    left: float
    top: float
    width: float

    @property
    def height(self) -> float:
        return _LINE * (len(self.names) + 1) + 8

    def middle(self, at: int) -> float:
        """Of the title, which is the first line, or of a name."""
        return self.top + 4 + _LINE * at + _LINE / 2


def page(picture: Picture) -> str:
    boxes = _boxes(picture)
    lines: dict[Node, tuple[_Box, int]] = {}
    for box in boxes:
        lines |= {each: (box, at) for at, each in enumerate((box.group.heading, *box.names)) if each is not None}
    ids = {each: at for at, each in enumerate(lines)}
    width = max((box.left + box.width for box in boxes), default=0) + _MARGIN
    height = max((box.top + box.height for box in boxes), default=0) + _MARGIN
    parts = [_path(at, each, lines) for at, each in enumerate(picture.arrows)]
    parts += [_drawn_box(box, ids, picture.starts) for box in boxes]
    rows = {ids[each]: ids[box.group.heading] for box in boxes if box.group.heading for each in box.names}
    template = Path(__file__).with_name("lineage.html").read_text(encoding="utf-8")
    filled = {
        "title": html.escape(picture.title),
        "about": _ABOUT[bool(rows) or any(box.group.heading for box in boxes)],
        "width": f"{width:.0f}",
        "height": f"{height:.0f}",
        "drawing": "\n".join(parts),
        "edges": json.dumps([[ids[each.source], ids[each.target]] for each in picture.arrows]),
        "rows": json.dumps(rows),
    }
    # In one pass: what is filled in is not looked at again, whatever a table is called.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: filled[mark[1]], template)


_ABOUT = {
    True: "A table's name stands for its rows. Click a name to keep its paths highlighted, Esc to clear.",
    False: "Click a table to keep its paths highlighted, Esc to clear.",
}


def _boxes(picture: Picture) -> list[_Box]:
    """From left to right by how far a group is from the beginning, each near what it is made of."""
    of = {name: group for group in picture.groups for name in (group.heading, *group.names) if name is not None}
    before: dict[Group, set[Group]] = {group: set() for group in picture.groups}
    for each in picture.arrows:
        before[of[each.target]].add(of[each.source])
    boxes: dict[Group, _Box] = {}
    left: float = _MARGIN
    while len(boxes) < len(picture.groups):
        # What a model reads is never made of the model, so that there is always a next one.
        layer = [each for each in picture.groups if each not in boxes and before[each] <= boxes.keys()]
        layer.sort(key=lambda each: _mean([boxes[source].top for source in before[each]]))
        top: float = _MARGIN
        placed = []
        for group in layer:
            names = tuple(each for each in group.names if each != group.heading)
            longest = max(len(text) for text in (group.title, *map(_label, names)))
            placed.append(_Box(group, names, left, top, longest * _CHARACTER + 24))
            top += placed[-1].height + _GAP
        boxes |= {box.group: box for box in placed}
        left += max(box.width for box in placed) + _BESIDE
    return list(boxes.values())


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _path(at: int, arrow: Arrow, lines: dict[Node, tuple[_Box, int]]) -> str:
    (source, above), (target, below) = lines[arrow.source], lines[arrow.target]
    x1, y1 = source.left + source.width, source.middle(above)
    x2, y2 = target.left, target.middle(below)
    bend = max((x2 - x1) / 2, 40)
    return (
        f'<path id="e{at}" class="{arrow.kind}" d="M{x1:.0f},{y1:.0f} C{x1 + bend:.0f},{y1:.0f}'
        f' {x2 - bend:.0f},{y2:.0f} {x2:.0f},{y2:.0f}"><title>{html.escape(arrow.about)}</title></path>'
    )


def _drawn_box(box: _Box, ids: dict[Node, int], starts: Sequence[Node]) -> str:
    size = f'width="{box.width:.0f}" height="{box.height:.0f}"'
    lines = [f'<g class="table"><rect x="{box.left:.0f}" y="{box.top:.0f}" {size} rx="6"/>']
    for at, each in enumerate((box.group.heading, *box.names)):
        middle = box.middle(at)
        kinds = ["name", *([] if at else ["heading"]), *(["start"] if each in starts else [])]
        text = html.escape(_label(each) if each and at else box.group.title)
        written = f'<text x="{box.left + 12:.0f}" y="{middle + 4:.0f}">{text}</text></g>'
        if each is None:
            lines.append(f'<g class="heading">{written}')
            continue
        lines.append(
            f'<g id="n{ids[each]}" class="{" ".join(kinds)}" tabindex="0"><rect x="{box.left + 3:.0f}"'
            f' y="{middle - _LINE / 2:.0f}" width="{box.width - 6:.0f}" height="{_LINE}" rx="4"/>{written}'
        )
    return "\n".join([*lines, "</g>"])


WRITERS: dict[str, Callable[[Picture], str]] = {"mermaid": mermaid, "html": page}
