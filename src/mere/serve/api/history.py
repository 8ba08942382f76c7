"""What a ref holds, how it came to it, and what differs between two."""

from __future__ import annotations

from itertools import islice
from typing import Any

from mere.errors import UsageError
from mere.lake.diff.diff import compare, parent_of
from mere.lake.log.commits import Kind
from mere.lake.query import Limits
from mere.lake.query.show import describe
from mere.lake.query.tables import TableSet
from mere.names import RefExpression, TableName
from mere.serve.api import rights
from mere.serve.api.verb import Call

_SAMPLES = Limits(memory="1GB")  # of a comparison of rows


def log(call: Call) -> list[dict[str, Any]]:
    """The commits that lead to a ref, newest first."""
    ref, table = call.path["ref"], call.query["table"]
    call.check_ref(ref)
    rights.check_history(call.access, ref)
    if table is not None:
        rights.check_table(call.access, TableName.parse(table))
    commits = rights.seen(call.access, call.lake.log(ref, table))
    return [each.to_dict() for each in islice(commits, call.query["limit"])]


def tables(call: Call) -> dict[str, Any]:
    """List the tables and views of a ref, with rows, files and size for those that the caller reads in full."""
    found = call.tables(call.path["ref"])
    told = rights.known(call.access, found).to_dict()
    unknown = {"rows": None, "files": None, "bytes": None}
    whole = {str(name) for name in rights.whole(call.access, found)}
    return {**told, "tables": [each if each["table"] in whole else each | unknown for each in told["tables"]]}


def show(call: Call) -> dict[str, Any]:
    """Describe a table or view: columns, partitioning, properties, size, snapshots; the SQL of a view."""
    call.said["table"] = call.path["table"]
    found = _of(call)
    return describe(found, call.path["table"]).to_dict(call.query["limit"])


def _of(call: Call) -> TableSet:
    all_ = call.tables(call.path["ref"])
    entry, name = rights.known(call.access, all_).entry(call.path["table"]), TableName.parse(call.path["table"])
    rights.check_table(call.access, name)
    if entry.kind is Kind.VIEW:
        rights.check_view(call.access, name)
    return rights.whole(call.access, all_)


def diff(call: Call) -> dict[str, Any]:
    """The differences between two refs in the tables that the caller reads in full; with `rows`, also of rows."""
    given = [each for each in (call.query["from"], call.query["to"]) if each is not None]
    if not given:
        raise UsageError("Name a ref in `to` to compare it with its parent, or two in `from` and `to`.")
    new = given[-1]
    call.check_ref(new)
    old = given[0] if len(given) == 2 else parent_of(call.lake, new)
    for ref in (old, new):
        call.access.check_ref(RefExpression.parse(ref))
    sets = call.lake.at_each([old, new])
    for each in sets.values():
        call.access.check_known(each)
    found = compare(*(rights.whole(call.access, sets[ref]) for ref in (old, new)))
    if not call.query["rows"]:
        if call.query["table"] or call.query["key"] is not None:
            raise UsageError("table and key say how rows are compared.", remedy="Add rows=true.")
        return found.to_dict()
    rows = found.rows(
        key=call.query["key"],
        tables=call.query["table"] or (),
        samples=call.query["samples"],
        limits=_SAMPLES,
        within=(call.lake.location, call.lake.warehouse),
    )
    return found.to_dict(rows)
