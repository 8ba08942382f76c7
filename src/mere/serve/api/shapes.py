"""What the API gives, by name: the form that `--json` prints, described."""

from __future__ import annotations

from collections.abc import Mapping

from mere.serve.api.schema import (
    ANY,
    BOOLEAN,
    INTEGER,
    NUMBER,
    TEXT,
    TIME,
    Schema,
    about,
    list_of,
    map_of,
    one_of,
    or_null,
    record,
    ref,
)

_MAYBE_TEXT, _MAYBE_INTEGER, _MAYBE_TIME = or_null(TEXT), or_null(INTEGER), or_null(TIME)
_COUNTS = dict.fromkeys(("rows_added", "rows_removed", "files_added", "files_removed"), INTEGER)
_SIZES = dict.fromkeys(("bytes_added", "bytes_removed"), INTEGER)
_STATUS = one_of("running", "succeeded", "failed", "cancelled", "interrupted")
_UNTIL_IT_BEGINS = ("starting", "waiting", "nothing", "skipped", "published")  # of a run that had not begun at once
_ROW = about(map_of(ANY), "The values of a row, by column.")
_SETTING = record({"name": TEXT, "old": _MAYBE_TEXT, "new": _MAYBE_TEXT})
_POINTERS = {
    "old": about(_MAYBE_TEXT, "The metadata file before the change."),
    "new": about(_MAYBE_TEXT, "The metadata file after the change."),
}

SHAPES: Mapping[str, Schema] = {
    "Error": record(
        {"error": record({"message": TEXT, "type": TEXT, "code": INTEGER}, {"problems": list_of(ref("Problem"))})}
    ),
    "Problem": record(
        {
            "message": TEXT,
            "file": about(_MAYBE_TEXT, "In the project's folder."),
            "line": _MAYBE_INTEGER,
            "column": _MAYBE_INTEGER,
            "remedy": _MAYBE_TEXT,
        }
    ),
    "Ref": record(
        {
            "name": TEXT,
            "kind": one_of("branch", "tag", "run"),
            "commit": TEXT,
            "at": about(TIME, "When the commit was made."),
            "parent": about(_MAYBE_TEXT, "The branch it was forked from, and publishes into."),
            "created_at": TIME,
            "created_by": _MAYBE_TEXT,
        }
    ),
    "Change": record(
        {
            "space": one_of("relation", "property"),
            "namespace": TEXT,
            "name": TEXT,
            "kind": one_of("table", "view", "property"),
            "verb": one_of("created", "changed", "dropped"),
            **_POINTERS,
        },
        _COUNTS,
    ),
    "Commit": record(
        {
            "id": TEXT,
            "kind": one_of("root", "write", "publish", "revert", "drop", "alter", "rebase", "adopt"),
            "at": TIME,
            "author": _MAYBE_TEXT,
            "message": _MAYBE_TEXT,
            "run": _MAYBE_TEXT,
            "source": about(_MAYBE_TEXT, "The branch it was published from."),
            "expired": BOOLEAN,
            "changes": list_of(ref("Change")),
        }
    ),
    "Tables": record(
        {
            "ref": TEXT,
            "commit": TEXT,
            "tables": list_of(
                record(
                    {
                        "table": TEXT,
                        "kind": TEXT,
                        "pointer": TEXT,
                        "rows": _MAYBE_INTEGER,
                        "files": _MAYBE_INTEGER,
                        "bytes": _MAYBE_INTEGER,
                    }
                )
            ),
        }
    ),
    "Description": record(
        {
            "table": TEXT,
            "kind": one_of("table", "view"),
            "pointer": TEXT,
            "location": _MAYBE_TEXT,
            "uuid": _MAYBE_TEXT,
            "format_version": INTEGER,
            "columns": list_of(
                record({"id": INTEGER, "name": TEXT, "type": TEXT, "required": BOOLEAN, "comment": _MAYBE_TEXT})
            ),
            "key": list_of(TEXT),
            "partitioning": list_of(TEXT),
            "sort_order": list_of(TEXT),
            "properties": map_of(TEXT),
            "state": _MAYBE_TEXT,
            "rows": _MAYBE_INTEGER,
            "rows_are_exact": BOOLEAN,
            "size": _MAYBE_INTEGER,
            "data_files": _MAYBE_INTEGER,
            "delete_files": _MAYBE_INTEGER,
            "snapshots": list_of(
                record(
                    {
                        "id": INTEGER,
                        "parent": _MAYBE_INTEGER,
                        "at": TIME,
                        "operation": TEXT,
                        "growth": record(_COUNTS),
                        "rows": INTEGER,
                        "current": BOOLEAN,
                    }
                )
            ),
            "sql": _MAYBE_TEXT,
            "dialect": _MAYBE_TEXT,
            "snapshot_count": INTEGER,
        }
    ),
    "TableDiff": record(
        {
            "table": TEXT,
            "was": _MAYBE_TEXT,
            "verb": one_of("created", "dropped", "renamed", "changed"),
            "kind": one_of("table", "view"),
            **_POINTERS,
            "replaced": BOOLEAN,
            "columns": list_of(record({"what": TEXT, "column": TEXT, "old": _MAYBE_TEXT, "new": _MAYBE_TEXT})),
            "settings": list_of(_SETTING),
            "properties": list_of(_SETTING),
            "unreadable": _MAYBE_TEXT,
        },
        {**_COUNTS, **_SIZES},
    ),
    "RowDiff": record(
        {
            "table": TEXT,
            "key": list_of(TEXT),
            "read": about(TEXT, "What was read to compare the rows."),
            "added": INTEGER,
            "removed": INTEGER,
            "changed": INTEGER,
            "by_column": map_of(INTEGER),
            "only_old": list_of(TEXT),
            "only_new": list_of(TEXT),
            "added_rows": list_of(_ROW),
            "removed_rows": list_of(_ROW),
            "changed_rows": list_of(record({"key": _ROW, "old": _ROW, "new": _ROW})),
            "note": TEXT,
        }
    ),
    "Diff": record(
        {
            "from": record({"ref": TEXT, "commit": TEXT}),
            "to": record({"ref": TEXT, "commit": TEXT}),
            "tables": list_of(ref("TableDiff")),
            "namespaces": list_of(_SETTING),
        },
        {"rows": list_of(ref("RowDiff"))},
    ),
    "Publication": record(
        {
            "source": TEXT,
            "target": TEXT,
            "base": TEXT,
            "head": about(TEXT, "The commit of the source, for `expect`."),
            "commit": about(_MAYBE_TEXT, "Null: nothing to publish, or a dry run."),
            "changes": list_of(ref("Change")),
            "conflicts": list_of(
                record({"key": TEXT, "ours": or_null(ref("Commit")), "theirs": or_null(ref("Commit"))})
            ),
        }
    ),
    "Run": record(
        {
            "id": TEXT,
            "target": TEXT,
            "branch": _MAYBE_TEXT,
            "status": one_of(*_STATUS["enum"], *_UNTIL_IT_BEGINS),
            "author": TEXT,
            "started_at": TIME,
            "ended_at": _MAYBE_TIME,
            "models": map_of(map_of(ANY)),
            "attempts": list_of(map_of(ANY)),
        },
        more=True,
    ),
    "Began": record(
        {"id": about(_MAYBE_TEXT, "Null: there was nothing to do, or another run is at it, so that there is no run.")},
        {
            "status": one_of("running", "waiting", "starting", "nothing", "skipped", "published"),
            "branch": TEXT,
            "on": TEXT,
            "for": about(TEXT, "What it waits for."),
        },
    ),
    "Audits": record(
        {
            "ref": TEXT,
            "commit": TEXT,
            "findings": list_of(
                record(
                    {
                        "table": TEXT,
                        "id": TEXT,
                        "audit": TEXT,
                        "severity": one_of("error", "warn"),
                        "state": one_of("ok", "warned", "failed", "error"),
                        "message": TEXT,
                        "bad": INTEGER,
                        "checked": _MAYBE_INTEGER,
                        "sample": list_of(_ROW),
                        "query": TEXT,
                        "duckdb": _MAYBE_TEXT,
                        "file": _MAYBE_TEXT,
                        "line": _MAYBE_INTEGER,
                        "seconds": NUMBER,
                    }
                )
            ),
            "missing": list_of(TEXT),
        }
    ),
    "Quarantine": record(
        {
            "table": TEXT,
            "quarantine": TEXT,
            "rows": INTEGER,
            "held": list_of(record({"rule": TEXT, "run": TEXT, "at": TIME, "rows": INTEGER})),
        }
    ),
    "Manifest": about(map_of(ANY), "Described by docs/schemas/manifest-1.json."),
    "Health": record(
        {"ok": BOOLEAN, "version": TEXT, "now": TIME, "main": _MAYBE_TEXT, "project": _MAYBE_TEXT},
    ),
}
