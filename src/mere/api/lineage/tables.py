"""Which table is made of which, in the whole project or a part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mere.api.lineage import picture
from mere.api.lineage.picture import Arrow, Group, Picture, quoted
from mere.names import TableName
from mere.project.graph import Graph
from mere.project.lineage import EdgeKind
from mere.project.model import Model
from mere.text.words import counted

# Beyond this, Mermaid draws nothing.
_DRAWN = 500


@dataclass(frozen=True)
class TableLineage:
    """The models of a selection, and what they read."""

    title: str
    graph: Graph = field(repr=False)
    selected: Collection[TableName] = field(repr=False)

    @cached_property
    def edges(self) -> list[tuple[TableName, TableName, int]]:
        """What is read by which model, and in which line of its file."""
        models = [self.graph.models[name] for name in self.graph.models if name in self.selected]
        read = [(each.table, model.name, each.line) for model in models for each in model.inputs]
        made = dict.fromkeys(table for table, _, _ in read if table not in self.graph.models)
        # A quarantine, or the loads of a source, comes of the model to which it belongs.
        companions = [(maker, table, self._model(maker).body.line) for table in made if (maker := self._maker(table))]
        return [*companions, *dict.fromkeys(read)]

    def _maker(self, table: TableName) -> TableName | None:
        return self.graph.maker(table)

    def _model(self, name: TableName) -> Model:
        return self.graph.models[name]

    @cached_property
    def depths(self) -> Mapping[TableName, int]:
        """All tables, each after those that it is made of, and how far from the beginning it is."""
        before: dict[TableName, list[TableName]] = {}
        for source, target, _ in self.edges:
            before.setdefault(target, []).append(source)
        known = [each for source, target, _ in self.edges for each in (source, target)]
        names = dict.fromkeys([*self.selected, *known])
        order = {name: at for at, name in enumerate(self.graph.models)}
        found: dict[TableName, int] = {}
        # A companion and what nobody makes come before whatever reads them, for their readers are models.
        for name in sorted(names, key=lambda each: (order.get(each, order.get(self._maker(each) or each, -1)), each)):
            found[name] = max((found[each] + 1 for each in before.get(name, ()) if each in found), default=0)
        return found

    @cached_property
    def schemas(self) -> Mapping[str, list[TableName]]:
        """By where they end: those of which others are made come first."""
        found: dict[str, list[TableName]] = {}
        for name in sorted(self.depths):
            found.setdefault(name.namespace, []).append(name)
        last = {schema: max(map(self.depths.__getitem__, names)) for schema, names in found.items()}
        return {schema: found[schema] for schema in sorted(found, key=lambda each: (last[each], each))}

    def mermaid(self) -> str:
        """A flowchart for Markdown; of schemas, if it would be too large to be drawn."""
        if len(self.edges) > _DRAWN:
            return "".join(f"{line}\n" for line in _by_schema(self))
        return picture.mermaid(
            self._picture(tuple(Group(schema, tuple(names)) for schema, names in self.schemas.items()))
        )

    def html(self) -> str:
        """A page to look at, in one file. The tables of a schema that are equally far from the beginning are a box: so
        arrows go from left to right."""
        boxes: dict[tuple[int, str], list[TableName]] = {}
        for schema, names in self.schemas.items():
            for name in names:
                boxes.setdefault((self.depths[name], schema), []).append(name)
        ordered = sorted(boxes, key=lambda each: (each[0], [*self.schemas].index(each[1])))
        return picture.page(
            self._picture(tuple(Group(schema, tuple(boxes[depth, schema])) for depth, schema in ordered))
        )

    def to_dict(self) -> dict[str, Any]:
        """What `mere lineage --json` prints."""
        nodes = [self._node(name) for names in self.schemas.values() for name in names]
        edges: list[dict[str, Any]] = []
        for source, target, line in self.edges:
            file, _, _ = self.place(target, line).partition(":")
            edges.append({"source": str(source), "target": str(target), "kind": "table", "file": file, "line": line})
        return {"nodes": nodes, "edges": edges}

    def kind(self, name: TableName) -> str:
        model = self.graph.models.get(name)
        return model.kind if model else "external"

    def _node(self, name: TableName) -> dict[str, Any]:
        model = self.graph.models.get(name)
        return {
            "id": str(name),
            "table": str(name),
            "column": None,
            "schema": name.namespace,
            "kind": self.kind(name),
            "file": model.file if model else None,
            "description": model.description if model else "",
            "owner": model.owner if model else None,
            "tags": list(model.tags) if model else [],
        }

    def _picture(self, groups: tuple[Group, ...]) -> Picture:
        arrows = (
            Arrow(source, target, EdgeKind.VALUE, f"{source} → {target}\n{self.place(target, line)}")
            for source, target, line in self.edges
        )
        return Picture(self.title, groups, tuple(arrows))

    def place(self, target: TableName, line: int) -> str:
        model = self.graph.models.get(self._maker(target) or target)
        return f"{model.file}:{line}" if model else ""


def _by_schema(tables: TableLineage) -> Iterator[str]:
    """A flowchart of schemas, with how often one reads another."""
    yield f"%% {len(tables.edges):,} edges are more than Mermaid draws: these are the schemas."
    yield "%% A part, table by table: mere lineage 'gold.*' --mermaid. All of it: --html."
    yield "flowchart LR"
    ids = {schema: f"s{at}" for at, schema in enumerate(tables.schemas)}
    for schema, names in tables.schemas.items():
        about = f"{schema}: {counted(len(names), 'table')}"
        yield f'  {ids[schema]}["{quoted(about)}"]'
    between = Counter((source.namespace, target.namespace) for source, target, _ in tables.edges)
    for (source, target), times in between.items():
        if source != target:
            yield f"  {ids[source]} -- {times} --> {ids[target]}"


def is_selection(name: str) -> bool:
    """Whether it chooses models, as for other commands; a plain name is that of a table, whose columns are shown."""
    return name.startswith(("+", "tag:", "owner:")) or name.endswith("+") or any(each in name for each in "*?[")
