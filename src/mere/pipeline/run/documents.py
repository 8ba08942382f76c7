"""Models and plans as JSON for tools: for `mere plan --json`, the events of a run and `mere manifest`.

Snapshot ids are texts here: they have more digits than a number of JavaScript.
"""

from __future__ import annotations

from typing import Any

from mere.audits.audit import Audit
from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.types import type_text
from mere.lake.query.tables import TableSet
from mere.pipeline.plan.steps import Plan, Step
from mere.project.model import Model
from mere.windows import Spans, stamp

Json = dict[str, Any]


def model_document(model: Model) -> Json:
    """What a project says of a model, without its state."""
    return {
        "model": str(model),
        "kind": model.kind,
        "file": model.file,
        "line": model.body.line,
        "description": model.description,
        "owner": model.owner,
        "tags": list(model.tags),
        "key": list(model.key),
        "inputs": [{"table": str(each.table), "time_column": each.time} for each in model.inputs],
        "time_column": model.time.column if model.time else None,
        "grain": model.time.grain if model.time else None,
        "audits": [audit_document(audit) for audit in model.audits],
    }


def audit_document(audit: Audit) -> Json:
    return {
        "id": audit.id,
        "name": audit.name,
        "rule": audit.rule.word,
        "severity": audit.severity,
        "quarantine": audit.quarantine,
        "reads": [str(table) for table in audit.reads],
        "file": audit.file,
        "line": audit.line,
    }


def columns_document(metadata: Metadata | None, model: Model | None = None) -> list[Json] | None:
    """Of the table as it stands; of one that is not there, as its contract promises. None: nobody knows yet."""
    described = dict(model.columns) if model else {}
    if metadata is not None:
        return [
            {
                "name": field["name"],
                "type": type_text(field["type"]),
                "nullable": not field.get("required", False),
                "description": described.get(field["name"]) or field.get("doc"),
            }
            for field in metadata.schema["fields"]
        ]
    if model is None or not model.contract:
        return None
    return [
        {"name": name, "type": each.type, "nullable": each.nullable, "description": described.get(name)}
        for name, each in model.contract.items()
    ]


def table_document(metadata: Metadata) -> Json:
    return {
        "snapshot_id": None if metadata.current_id is None else str(metadata.current_id),
        "rows_total": None if metadata.is_view else metadata.rows,
        "bytes_total": None if metadata.is_view else metadata.size,
        "files_total": None if metadata.is_view else metadata.files,
    }


def range_document(spans: Spans) -> list[str] | None:
    """From the first window up to, but without, what comes after the last."""
    hull = spans.hull
    return [stamp(hull.start), stamp(hull.end)] if hull else None


def plan_document(due: Plan, tables: TableSet) -> Json:
    return {
        "ref": due.ref,
        "now": due.now.isoformat(timespec="seconds"),
        "steps": [step_document(step, tables) for step in due.steps],
        "left_behind": [
            {
                "table": str(each.table),
                "renamed_to": str(each.renamed_to) if each.renamed_to else None,
                "quarantine_of": str(each.quarantine_of) if each.quarantine_of else None,
            }
            for each in due.left_behind
        ],
        "rows": due.load.rows,
        "bytes": due.load.bytes,
    }


def step_document(step: Step, tables: TableSet) -> Json:
    name = step.model.name
    metadata = tables.metadata(name) if name in tables else None
    return {
        **model_document(step.model),
        "columns": columns_document(metadata, step.model),
        "snapshot_id": table_document(metadata)["snapshot_id"] if metadata else None,
        "action": step.action,
        "reasons": list(step.reasons),
        "windows": step.spans.to_json(),
        "rows": step.load.rows if step.builds else 0,
        "bytes": step.load.bytes if step.builds else 0,
        "asks": step.asks,
        "remedy": step.remedy,
        "notes": list(step.notes),
    }
