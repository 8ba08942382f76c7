"""How the lake is: audits, quarantine, the manifest, and whether the server answers."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from mere.names import MAIN, TableName
from mere.pipeline.plan.retry import quarantines
from mere.serve.api.verb import Call


def audits(call: Call) -> dict[str, Any]:
    """Run the audits of the project's models at a ref, with DuckDB. Only for callers who read everything: findings show
    rows, and audits read other tables."""
    call.tables(call.query["at"])
    call.access.check_unrestricted("run audits, which show rows of all tables")
    return call.project.audit(call.query["select"] or (), at=call.query["at"]).to_dict()


def quarantine(call: Call) -> list[dict[str, Any]]:
    """Count the rows in quarantine by table, rule and run, for tables that the caller reads in full."""
    at = call.query["at"]
    call.tables(at)
    names = [TableName.parse(each) for each in call.query["table"] or ()]
    found = quarantines(call.lake, [name.quarantined or name for name in names], at)
    role = call.access.role
    return [
        each.to_dict() for each in found if role.may_read_all_of(each.of) and role.may_read_all_of(each.of.quarantine)
    ]


def manifest(call: Call) -> dict[str, Any]:
    """The project and its state at a ref. Only for callers who read everything: it has the code of all models."""
    call.tables(call.query["at"])
    call.access.check_unrestricted("read the manifest, which has the code of all models")
    return call.project.manifest(at=call.query["at"]).to_dict()


def health(call: Call) -> dict[str, Any]:
    """Check that the server reaches the lake's catalog."""
    commit = call.lake.resolve(MAIN).commit
    readable = call.access.role.may_connect(MAIN)
    return {
        "ok": True,
        "version": version("mere"),
        "now": call.lake.now().isoformat(timespec="milliseconds"),
        "main": commit.id if readable else None,
        "project": call.own_project.name if call.own_project else None,
    }
