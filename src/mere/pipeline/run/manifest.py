"""`mere manifest`: a project and its state at a ref as one document. Its format is docs/schemas/manifest-1.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from mere import config
from mere.lake.lake import Lake
from mere.lake.log.commits import Commit, Space
from mere.lake.log.runs import Run
from mere.names import TableName
from mere.pipeline.plan.facts import LakeFacts
from mere.pipeline.run.documents import Json, columns_document, model_document, range_document, table_document
from mere.project.graph import Graph
from mere.project.kinds import Kind
from mere.project.model import Model
from mere.sources.source import Source

SCHEMA_VERSION = 1


def manifest(settings: config.Project, lake: Lake, graph: Graph, known: LakeFacts) -> Json:
    state = _States(lake, known)
    nodes = {name: _node(model, graph, known, state) for name, model in graph.models.items()}
    by_kind: dict[str, list[Json]] = {"models": [], "sources": [], "seeds": []}
    for name, model in graph.models.items():
        by_kind[{Kind.SOURCE: "sources", Kind.SEED: "seeds"}.get(model.kind, "models")].append(nodes[name])
    commit = known.tables.commit
    return {
        "schema_version": SCHEMA_VERSION,
        "mere": version("mere"),
        "generated_at": _moment(known.now),
        "project": {"name": settings.name},
        "profile": profile_document(settings),
        "ref": {"name": known.ref, "commit": _commit(commit)},
        **by_kind,
        "tables": [_outside(table, graph, known, state) for table in graph.externals],
        "edges": [
            {"source": str(each.table), "target": str(name)}
            for name, model in graph.models.items()
            for each in model.inputs
        ],
        "tags": _grouped((tag, name) for name, model in graph.models.items() for tag in model.tags),
        "owners": _grouped((model.owner, name) for name, model in graph.models.items() if model.owner),
    }


def profile_document(settings: config.Project) -> Json:
    """Without anything that may be a secret: no password, key or setting of Spark."""
    catalog = None
    if settings.catalog:
        parts = urlsplit(settings.catalog)
        host = parts.hostname or ""
        catalog = urlunsplit((parts.scheme, f"{host}:{parts.port}" if parts.port else host, parts.path, "", ""))
    return {
        "name": settings.profile,
        "lake": settings.lake,
        "catalog": catalog,
        "spark": {"remote": settings.spark.remote is not None},
    }


def _node(model: Model, graph: Graph, known: LakeFacts, state: _States) -> Json:
    tables, name = known.tables, model.name
    metadata = tables.metadata(name) if name in tables else None
    return {
        **model_document(model),
        "feed": type(model.body.feed).__name__.lower() if isinstance(model.body, Source) else None,
        "partition_by": list(model.partition_by),
        "sort_by": list(model.sort_by),
        "columns": columns_document(metadata, model),
        "upstream": sorted(str(each) for each in graph.upstream([name]) - {name}),
        "readers": sorted(map(str, graph.readers_of(name))),
        "state": state.of(name),
    }


def _outside(table: TableName, graph: Graph, known: LakeFacts, state: _States) -> Json:
    metadata = known.tables.metadata(table) if table in known.tables else None
    return {
        "table": str(table),
        "columns": columns_document(metadata),
        "readers": sorted(map(str, graph.readers_of(table))),
        "state": state.of(table),
    }


class _States:
    """What stands on the ref; the log and the runs are read once for all tables."""

    def __init__(self, lake: Lake, known: LakeFacts) -> None:
        self._lake = lake
        self._known = known
        self._commits = _last_commits(lake, known)
        self._runs: dict[str, Run | None] = {}

    def of(self, table: TableName) -> Json | None:
        """None if it is not on the ref."""
        if table not in self._known.tables:
            return None
        built, commit = self._known.state(table), self._commits.get(table)
        return {
            **table_document(self._known.tables.metadata(table)),
            "built_by_mere": built is not None,
            "windows": built.built.to_json() if built else [],
            "range": range_document(built.built) if built else None,
            "complete": built.complete if built else None,
            "sample": built.sample if built else False,
            "now": _moment(built.now) if built and built.now else None,
            "last_run": self._run(built.run) if built else None,
            "last_commit": _commit(commit) if commit else None,
        }

    def _run(self, id_: str) -> Json:
        if id_ not in self._runs:
            self._runs[id_] = self._lake.store.run(id_)
        run = self._runs[id_]
        return {
            "id": id_,
            "status": run.status if run else None,  # a run is forgotten after 90 days
            "started_at": _moment(run.started_at) if run else None,
            "ended_at": _moment(run.ended_at) if run and run.ended_at else None,
        }


def _last_commits(lake: Lake, known: LakeFacts) -> Mapping[TableName, Commit]:
    left: set[TableName] = set(known.tables)
    found: dict[TableName, Commit] = {}
    for commit in lake.log(known.tables.commit.id) if left else ():
        for change in commit.changes:
            if change.key.space is Space.RELATION and change.key.table in left:
                found[change.key.table] = commit
                left.discard(change.key.table)
        if not left:
            break
    return found


def _commit(commit: Commit) -> Json:
    return {"id": commit.id, "at": _moment(commit.at), "author": commit.author, "message": commit.message}


def _grouped(pairs: Iterable[tuple[str, TableName]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, name in pairs:
        found.setdefault(key, []).append(str(name))
    return {key: sorted(names) for key, names in sorted(found.items())}


def _moment(at: datetime) -> Any:
    return at.isoformat(timespec="milliseconds")
