"""Runs the audits of a project on any ref, without building anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from mere.audits.engines import on_duckdb, on_spark
from mere.audits.evaluate import Finding, Rows, evaluate
from mere.audits.rules import MaxChange
from mere.errors import MetadataMissing
from mere.lake.iceberg.metadata import Metadata
from mere.lake.lake import Lake
from mere.lake.log.commits import Commit, Key
from mere.lake.query.tables import TableSet
from mere.names import TableName
from mere.project.graph import Graph
from mere.project.model import Model
from mere.sparkconfig import SparkSettings


@dataclass(frozen=True)
class Audited:
    commit: Commit
    findings: tuple[Finding, ...]
    missing: tuple[TableName, ...]  # models with audits that are not built on the ref

    @property
    def blocks(self) -> bool:
        return any(finding.blocks for finding in self.findings)


@contextmanager
def duckdb_at(lake: Lake, commit: Commit) -> Iterator[Rows]:
    yield on_duckdb(lake, commit.id)


@contextmanager
def spark_at(lake: Lake, commit: Commit, settings: SparkSettings) -> Iterator[Rows]:
    from mere.engine.session import session

    with session(lake, commit.id, settings=settings) as opened:
        yield on_spark(opened)


def audit(
    lake: Lake, graph: Graph, selected: Iterable[TableName], at: str, now: datetime, spark: SparkSettings | None = None
) -> Audited:
    """All of it at one commit: on Spark if there are settings for it, else on DuckDB."""
    tables = lake.at(at)
    chosen = set(selected)
    models = [model for name, model in graph.models.items() if name in chosen and model.audits]
    built = [model for model in models if model.name in tables]
    missing = tuple(model.name for model in models if model.name not in tables)
    if not built:
        return Audited(tables.commit, (), missing)
    engine = spark_at(lake, tables.commit, spark) if spark else duckdb_at(lake, tables.commit)
    with engine as rows:
        findings = [finding for model in built for finding in _of_model(lake, tables, model, rows, now)]
    return Audited(tables.commit, tuple(findings), missing)


def _of_model(lake: Lake, tables: TableSet, model: Model, rows: Rows, now: datetime) -> list[Finding]:
    before = None
    if any(isinstance(each.rule, MaxChange) for each in model.audits):
        before = _rows_before(lake, tables, model.name)
    count = None if tables.is_view(model.name) else _rows(tables.metadata(model.name))
    return evaluate(model.name, model.audits, rows, now=now, count=count, before=before)


def _rows(table: Metadata) -> int | None:
    """What the metadata counts; it does not know how many rows equality deletes took away."""
    current = table.current
    return None if current and current.count("total-equality-deletes") else table.rows


def _rows_before(lake: Lake, tables: TableSet, table: TableName) -> int | None:
    """Before the last commit that gave the table another snapshot; None if there was no table, or it is a view."""
    if tables.is_view(table):
        return None
    standing = tables.metadata(table).current
    with suppress(MetadataMissing):  # swept away: it is as if there had been nothing
        for commit in lake.log(tables.commit.id, str(table)):
            change = next(change for change in commit.changes if change.key == Key.of(table))
            if change.old is None:
                return None
            old = lake.reader.read(change.old.value)
            if (old.current and old.current.id) != (standing and standing.id):
                return _rows(old)
    return None
