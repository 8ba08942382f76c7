"""Column lineage across the models of a project.

A table's rows are a node too, a name without a column: what filters, joins or groups a query decides which rows there
are, and so is a condition of all of its columns at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING

from mere.names import TableName
from mere.project.graph import Graph
from mere.project.model import Model, Python, Sql
from mere.sql.lineage.derivation import ANY, NOTHING, ColumnName, Made, Origins, Place, Relation

if TYPE_CHECKING:
    from mere.sql.columns import Schemas
    from mere.sql.lineage.spark_plan import PlanLineage

__all__ = ["ANY", "ColumnName", "Edge", "EdgeKind", "Lineage", "Reader", "reached", "readers_of"]


Plans = Mapping[TableName, "PlanLineage"]
NO_PLANS: Plans = {}


class EdgeKind(StrEnum):
    VALUE = "value"  # the column's value goes into the other
    CONDITION = "condition"  # it decides which value, or which rows
    TABLE = "table"  # a PySpark model reads the table: what it does with the column is not known


@dataclass(frozen=True)
class Edge:
    source: ColumnName
    target: ColumnName
    kind: EdgeKind
    file: str
    line: int
    clause: str = ""  # of a condition: WHERE, JOIN …
    sql: str = ""  # the expression in which the source stands
    certain: bool = True


@dataclass(frozen=True)
class Reader:
    """A column, or a whole table (`name.column` is None), that breaks when a column that it is made of goes."""

    name: ColumnName
    certain: bool = True  # a PySpark model may or may not use the column of a table that it reads

    def __str__(self) -> str:
        return str(self.name)


@dataclass(frozen=True)
class _Query:
    relation: Relation
    named: Origins  # every column that stands anywhere in it


@dataclass(frozen=True)
class _Use:
    source: ColumnName
    kind: EdgeKind
    place: Place | int  # in a query, or a line of Python


_Users = dict[ColumnName, list[tuple[ColumnName, _Use]]]


class Lineage:
    """A query is read when it is on the way, once."""

    def __init__(self, graph: Graph, schemas: Schemas, plans: Plans = NO_PLANS) -> None:
        """`plans`: what is known of PySpark models by the plan of a build."""
        self.graph = graph
        self._schemas = schemas
        self._plans = plans
        self._queries: dict[TableName, _Query] = {}
        self._by_source: dict[TableName, _Users] = {}

    def columns(self, table: TableName) -> tuple[str, ...] | None:
        """None if they are not known. What a model's query says goes before what stands in the lake."""
        query, model = self._query(table), self.graph.models.get(table)
        if model is not None and isinstance(model.body, Python) and model.contract:
            return (*model.contract, *model.added_columns)
        if query is None:
            return self._schemas.get(table)
        named = tuple(dict.fromkeys(each.name for each in query.relation.outputs))
        if query.relation.is_known:
            return named
        stands = self._schemas.get(table)
        return None if stands is None else tuple({each.lower(): each for each in (*named, *stands)}.values())

    def up(self, name: ColumnName) -> list[Edge]:
        """What a column, or a table's rows, are made of."""
        model = self.graph.models.get(name.table)
        if model is None:
            return []
        found = [_edge(model, use, name) for use in self._uses(model, name.column) for use in self._expanded(use)]
        if name.column is not None and next(self._uses(model, None), None) is not None:
            is_by_table = isinstance(model.body, Python) and model.name not in self._plans
            kind = EdgeKind.TABLE if is_by_table else EdgeKind.CONDITION
            found.append(Edge(ColumnName(name.table), name, kind, model.file, model.body.line))
        return found

    def down(self, name: ColumnName) -> list[Edge]:
        """What is made of a column, or of a table's rows: a reader's rows stand for all of its columns."""
        found = []
        for model in map(self.graph.models.__getitem__, self.graph.readers_of(name.table)):
            users = self._users(model)
            edges = list(users.get(name, []))
            if name.column is not None:
                edges += self._passed(model, name)
                edges += users.get(ColumnName(name.table, ANY), [])
            found += [_edge(model, replace(use, source=name), target) for target, use in edges]
        return found

    def breaks(self, name: ColumnName) -> list[Edge]:
        """What `down` gives, and the readers that name the column without making anything of it."""
        found = self.down(name)
        targets = {each.target.table for each in found}
        for reader in self.graph.readers_of(name.table):
            query = self._query(reader)
            if query is not None and reader not in targets and name in query.named:
                use = _Use(name, EdgeKind.CONDITION, query.named[name])
                found.append(_edge(self.graph.models[reader], use, ColumnName(reader)))
        return found

    def _uses(self, model: Model, column: str | None) -> Iterator[_Use]:
        """By a column of a model, or by its rows."""
        query = self._query(model.name)
        if query is not None:
            made = query.relation.find(column.lower()) if column is not None else Made({}, query.relation.rows)
            made = made or NOTHING
            yield from (_Use(source, EdgeKind.VALUE, place) for source, place in made.values.items())
            yield from (_Use(source, EdgeKind.CONDITION, place) for source, place in made.conditions.items())
        elif isinstance(model.body, Python) and column is None:
            for each in model.inputs:
                yield _Use(ColumnName(each.table, ANY), EdgeKind.TABLE, each.line)
                yield _Use(ColumnName(each.table), EdgeKind.TABLE, each.line)

    def _expanded(self, use: _Use) -> list[_Use]:
        columns = self.columns(use.source.table) if use.source.column == ANY else None
        return (
            [use] if columns is None else [replace(use, source=ColumnName(use.source.table, each)) for each in columns]
        )

    def _users(self, model: Model) -> _Users:
        """The columns of a model, by what they use."""
        if model.name not in self._by_source:
            found: _Users = {}
            for column in (*(self.columns(model.name) or self._named(model.name)), None):
                for use in self._uses(model, column):
                    found.setdefault(use.source, []).append((ColumnName(model.name, column), use))
            self._by_source[model.name] = found
        return self._by_source[model.name]

    def _named(self, table: TableName) -> list[str]:
        query = self._query(table)
        return [each.name for each in query.relation.outputs] if query is not None else []

    def _passed(self, model: Model, name: ColumnName) -> list[tuple[ColumnName, _Use]]:
        """Through a `*` over columns that are not known."""
        query, target = self._query(model.name), ColumnName(model.name, name.column)
        if query is None or not any(each.table == name.table for each in query.relation.opened):
            return []
        known = [each for each, _ in self._users(model).get(name, [])]
        uses = self._uses(model, name.column) if target not in known else ()
        return [(target, use) for use in uses if use.source == name]

    def _query(self, table: TableName) -> _Query | None:
        """None if no model makes the table, or what its model does is not known."""
        if table not in self._queries and self._is_known(table):
            # In dependency order, and not by one calling the other: a chain of models may be long.
            wanted = self.graph.upstream([table])
            for name, model in self.graph.models.items():
                if name in wanted and name not in self._queries and self._is_known(name):
                    self._queries[name] = self._read(model)
        return self._queries.get(table)

    def _is_known(self, table: TableName) -> bool:
        model = self.graph.models.get(table)
        return model is not None and (isinstance(model.body, Sql) or table in self._plans)

    def _read(self, model: Model) -> _Query:
        from sqlglot import parse_one

        from mere.project.effects import of_plan, with_settings
        from mere.sql.lineage.relations import relation_of
        from mere.sql.spark.read import SparkView

        if not isinstance(model.body, Sql):
            return _Query(with_settings(model, of_plan(model, self._plans[model.name])), {})
        relation, names = relation_of(parse_one(model.body.text, dialect=SparkView), self.columns)
        return _Query(with_settings(model, relation), names)


def _edge(model: Model, use: _Use, target: ColumnName) -> Edge:
    from mere.project.check.findings import position
    from mere.sql.windows import shown

    place = use.place
    if isinstance(place, int):
        return Edge(use.source, target, use.kind, model.file, place, certain=False)
    line, _ = position(place.node, model.body)
    sql = "" if place.clause in _WHOLE else shown(place.around)
    return Edge(use.source, target, use.kind, model.file, line, place.clause, sql, place.certain)


# Clauses that are not about one expression.
_WHOLE = frozenset({"FROM", "PLAN", "DISTINCT", "UNION", "EXCEPT", "INTERSECT"})

Step = Callable[[ColumnName], Iterable[Edge]]


def reached(starts: Iterable[ColumnName], step: Step) -> list[Edge]:
    """All edges on the ways from there, each once, the nearest first."""
    left = list(starts)
    seen = set(left)
    found: dict[tuple[ColumnName, ColumnName, EdgeKind], Edge] = {}
    while left:
        following: list[ColumnName] = []
        for name in left:
            for edge in step(name):
                found.setdefault((edge.source, edge.target, edge.kind), edge)
                following.append(edge.target if edge.source == name else edge.source)
        left = [each for each in dict.fromkeys(following) if each not in seen]
        seen.update(left)
    return list(found.values())


def readers_of(graph: Graph, schemas: Schemas, table: TableName, column: str, plans: Plans = NO_PLANS) -> list[Reader]:
    """All that breaks downstream when the column goes, directly or not, in dependency order.

    `schemas`: the columns of tables that no SQL model makes; `plans`: see `Lineage`; both in `mere.project.schemas`.
    """
    lineage = Lineage(graph, schemas, plans)
    start = named(lineage, table, column)
    step = cache(lineage.breaks)
    broken = {edge.target for edge in reached([start], step)}
    certain = {
        edge.target for edge in reached([start], lambda name: [each for each in step(name) if _is_certain(each)])
    }
    order = list(graph.models)
    whole = {each.table for each in broken if each.column is None}
    names = [each for each in broken if each.column is None or each.table not in whole]
    return [
        Reader(each, each in certain) for each in sorted(names, key=lambda each: (order.index(each.table), str(each)))
    ]


def _is_certain(edge: Edge) -> bool:
    return edge.certain and edge.kind is not EdgeKind.TABLE


def named(lineage: Lineage, table: TableName, column: str) -> ColumnName:
    """As the table spells it."""
    known = lineage.columns(table) or ()
    return ColumnName(table, next((each for each in known if each.lower() == column.lower()), column.lower()))
