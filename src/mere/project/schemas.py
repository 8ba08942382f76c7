"""The columns of tables that no SQL model makes, and the views of the lake that no model makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mere.errors import LakeError, ProjectError
from mere.lake.iceberg.properties import LINEAGE
from mere.lake.iceberg.schema import view_sql
from mere.names import TableName
from mere.project.cache import digest_of
from mere.project.clocks import Clocks, of_schema
from mere.project.files.seed import columns_of
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Csv, Input, Model, Python, Sql
from mere.sql.lineage.spark_plan import Kept, PlanLineage

if TYPE_CHECKING:
    from mere.lake.query.tables import TableSet


def columns_in_lake(tables: TableSet, table: TableName) -> tuple[str, ...] | None:
    """By the table's metadata; None if it is not there."""
    if table not in tables:
        return None
    try:
        fields = tables.metadata(table).schema["fields"]
    except LakeError:
        return None
    return tuple(field["name"] for field in fields)


def clocks_in_lake(tables: TableSet, table: TableName) -> Clocks:
    try:
        return of_schema(tables.metadata(table).schema)
    except LakeError:
        return {}


class KnownSchemas(Mapping[TableName, tuple[str, ...]]):
    """Of seeds by their files, of other tables as they stand in the lake. Each is looked up when it is asked for."""

    def __init__(self, graph: Graph, folder: Path, tables: TableSet | None) -> None:
        self._graph = graph
        self._folder = folder
        self._tables = tables
        self._found: dict[TableName, tuple[str, ...] | None] = {}

    def __getitem__(self, table: TableName) -> tuple[str, ...]:
        if table not in self._found:
            self._found[table] = self._look_up(table)
        found = self._found[table]
        if found is None:
            raise KeyError(table)
        return found

    def _look_up(self, table: TableName) -> tuple[str, ...] | None:
        model = self._graph.models.get(table)
        if model is not None and isinstance(model.body, Csv):
            return tuple(columns_of((self._folder / model.body.path).read_bytes(), model.body.delimiter))
        return columns_in_lake(self._tables, table) if self._tables is not None else None

    @cached_property
    def _names(self) -> list[TableName]:
        seeds = [model.name for model in self._graph.models.values() if isinstance(model.body, Csv)]
        return sorted({*seeds, *(self._tables or ())})

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class KnownPlans(Mapping[TableName, PlanLineage]):
    """The lineage of PySpark models, as far as the builds that stand in the lake are of their code of today."""

    def __init__(self, graph: Graph, tables: TableSet | None) -> None:
        self._models = {name: each for name, each in graph.models.items() if isinstance(each.body, Python)}
        self._tables = tables
        self._found: dict[TableName, PlanLineage | None] = {}

    def __getitem__(self, table: TableName) -> PlanLineage:
        if table not in self._found:
            self._found[table] = self._look_up(table)
        found = self._found[table]
        if found is None:
            raise KeyError(table)
        return found

    def _look_up(self, table: TableName) -> PlanLineage | None:
        if table not in self._models or self._tables is None or table not in self._tables:
            return None
        try:
            kept = Kept.from_json(self._tables.metadata(table).properties.get(LINEAGE, ""))
        except LakeError:
            return None
        return kept.lineage if kept is not None and kept.code == code_of(self._models[table]) else None

    def __iter__(self) -> Iterator[TableName]:
        return (name for name in self._models if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def code_of(model: Model) -> str:
    return digest_of(model.code.encode())


def with_views(graph: Graph, tables: TableSet) -> Graph:
    """The graph with the views that somebody made in the lake, as if they were models, so that lineage goes through."""
    models = dict(graph.models)
    left = list(graph.externals)
    while left:
        table = left.pop()
        is_view = table not in models and table in tables and tables.is_view(table)
        if is_view and (model := _view(table, tables)) is not None:
            models[table] = model
            left += [each.table for each in model.inputs]
    try:
        return graph if len(models) == len(graph.models) else Graph.of(models.values())
    except ProjectError:
        return graph  # views that stand on themselves


def _view(table: TableName, tables: TableSet) -> Model | None:
    """None if it is not in Spark's SQL, or not to be understood."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    from mere.sql.spark.read import SparkView

    metadata = tables.metadata(table)
    sql, dialect = view_sql(metadata)
    if sql is None or (dialect or "spark").lower() != "spark":
        return None
    try:
        tree = parse_one(sql, dialect=SparkView)
    except SqlglotError:
        return None
    namespace = ".".join(metadata.view_version.get("default-namespace", []))
    by_text = {str(each).lower(): each for each in tables}
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    inputs: dict[TableName, Input] = {}
    for node in tree.find_all(exp.Table):
        if isinstance(node.this, exp.Identifier) and (node.db or node.name.lower() not in ctes):
            written = f"{node.db or namespace}.{node.name}"
            read = by_text.get(written.lower(), TableName.parse(written))
            node.set("alias", node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name)))
            node.set("db", exp.to_identifier(read.namespace))
            node.set("this", exp.to_identifier(read.name))
            node.set("catalog", None)
            inputs[read] = Input(read, 1)
    # Its columns have, by position, the names that stand in its metadata.
    names = ", ".join(f"`{column}`" for column in columns_in_lake(tables, table) or ())
    text = f"SELECT * FROM ({tree.sql(SparkView)}) AS v({names})" if names else tree.sql(SparkView)
    return Model(table, Kind.VIEW, f"view {table}", Sql(text, 1), tuple(inputs.values()))
