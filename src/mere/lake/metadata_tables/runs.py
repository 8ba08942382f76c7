"""`mere.runs` and `mere.audits`: the records of runs, newest first, a few at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from mere.errors import InvalidName
from mere.lake.log.runs import Run
from mere.lake.metadata_tables.shape import Row, schema
from mere.lake.metadata_tables.sight import Sight
from mere.lake.store.port import Store
from mere.names import TableName

_PAGE = 50  # a record may be large: it has what became of every model

RUNS = schema(
    ("run_id", "string", "its id"),
    ("target", "string", "the branch it was for"),
    ("branch", "string", "the branch of its last attempt"),
    ("status", "string", "running, succeeded, failed, cancelled or interrupted"),
    ("author", "string", "who started its last attempt"),
    ("started_at", "timestamptz", "when it was started first"),
    ("ended_at", "timestamptz", "when it ended"),
    ("seconds", "double", "how long it was at work, over all attempts"),
    ("attempts", "int", "how many"),
    ("built", "int", "models that it built"),
    ("failed", "int", "models that failed"),
    ("commit_id", "string", "what it published"),
    ("message", "string", "why, as given to mere run"),
    ("error", "string", "why it failed"),
)
AUDITS = schema(
    ("run_id", "string", "the run that asked"),
    ("target", "string", "the branch the run was for"),
    ("started_at", "timestamptz", "when the attempt began"),
    ("attempt", "int", "the attempt of the run, from 1 on"),
    ("table_schema", "string", "the schema of the model"),
    ("table_name", "string", "the model"),
    ("audit", "string", "the rule"),
    ("audit_id", "string", "the audit, with its arguments"),
    ("severity", "string", "error or warn"),
    ("state", "string", "ok, warned, failed or error"),
    ("bad", "long", "rows that break the rule"),
    ("checked", "long", "rows that were looked at"),
    ("message", "string", "what was found, in words"),
    ("seconds", "double", "how long it took"),
)

Models = Mapping[str, Mapping[str, Any]]


def runs(store: Store, sight: Sight) -> Iterator[Row]:
    for run in _seen(store, sight):
        models = _visible(run.models, sight)
        if models is None:
            continue
        states = [each["state"] for each in models.values()]
        about = run.about if sight.reads_everything else {}  # texts may name what is hidden
        yield (
            run.id,
            run.target,
            run.branch,
            run.status.value,
            run.author,
            run.started_at,
            run.ended_at,
            run.seconds,
            len(run.attempts),
            states.count("built"),
            states.count("failed"),
            run.about.get("commit"),
            about.get("message"),
            about.get("error"),
        )


def audits(store: Store, sight: Sight) -> Iterator[Row]:
    """What every attempt of every run has asked. A custom audit may name other tables in all that it says."""
    for run in _seen(store, sight):
        for number, attempt in enumerate(run.attempts, 1):
            for model, each in (_visible(attempt["models"], sight) or {}).items():
                table = TableName.parse(model)
                for found in each.get("audits", ()):
                    told = found if sight.reads_everything else {**found, "id": None, "message": None}
                    yield (
                        run.id,
                        run.target,
                        datetime.fromisoformat(attempt["started_at"]),
                        number,
                        table.namespace,
                        table.name,
                        *(told.get(name) for name in ("audit", "id", "severity", "state", "bad", "checked")),
                        *(told.get(name) for name in ("message", "seconds")),
                    )


def _seen(store: Store, sight: Sight) -> Iterator[Run]:
    now = store.now()
    after: Run | None = None
    while page := store.runs(_PAGE, after):
        yield from (run.seen(now) for run in page if sight.may_connect(run.target))
        after = page[-1]


def _visible(models: Models, sight: Sight) -> Models | None:
    """What became of the models that the reader may know of; None of a run that had to do with others alone."""
    if not sight.is_restricted:
        return models
    found = {name: each for name, each in models.items() if _reads(sight, name)}
    return found or None


def _reads(sight: Sight, name: str) -> bool:
    try:
        return sight.may_read_all_of(TableName.parse(name))
    except InvalidName:
        return False
