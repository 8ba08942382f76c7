"""All verbs of the API. What is not in this table is not there; the description of the API is made of it."""

from __future__ import annotations

from mere.names import MAIN
from mere.serve.api import changes, history, refs, runs, state
from mere.serve.api.schema import BOOLEAN, INTEGER, LINE, about, list_of, map_of, one_of, or_null, record, ref
from mere.serve.api.verb import AT, Verb, limit

_MAYBE = or_null(LINE)
_MESSAGE = about(_MAYBE, "Why; it stands in the log.", maxLength=10_000)
_NAMES = list_of(LINE)
_SELECT = about(_NAMES, "Names, globs such as gold.*, tag:NAME, owner:NAME, +NAME, NAME+. Default: all models.")
_TABLE = about(_NAMES, "Only these tables. May be repeated.")

# How a run is carried out, also one that is resumed.
_MANNER = {
    "message": _MESSAGE,
    "accept": about(_NAMES, "Take these models as built, as they stand.", default=[]),
    "if_running": about(one_of("wait", "fail", "skip"), "If another run writes the same tables.", default="wait"),
    "threads": about(INTEGER, "So many models are built side by side.", default=4, minimum=1, maximum=64),
}
_RUN = record(
    {},
    {
        "select": {**_SELECT, "default": []},
        "on": about(LINE, "The branch to build for.", default=MAIN),
        "full_refresh": about(BOOLEAN, "Build the selected models again, all of them.", default=False),
        "start": about(_MAYBE, "Build windows from here on, due or not."),
        "end": about(_MAYBE, "Build windows up to here, without it."),
        "forward_only": about(BOOLEAN, "New code for new windows; what is built stays.", default=False),
        "allow_breaking": about(BOOLEAN, "Let columns be dropped or narrowed.", default=False),
        "limit_windows": about(or_null(INTEGER), "Only the newest of them.", minimum=1),
        "sample": about(_MAYBE, "Read only a share of each input, such as 1%."),
        "check": about(BOOLEAN, "Refuse to start if the project has errors.", default=True),
        "vars": about(map_of(LINE), "In place of those in mere.yaml.", default={}),
        **_MANNER,
    },
)
_NEW_REF = record(
    {"name": about(LINE, "Of the new ref.")}, {"at": about(LINE, "Where it begins: any ref.", default=MAIN)}
)

VERBS = (
    Verb("GET", "/health", state.health, ref("Health")),
    Verb(
        "GET", "/refs", refs.list_, list_of(ref("Ref")),
        query={"kind": about(list_of(one_of("branch", "tag", "run")), "Only these. May be repeated.", default=[])},
    ),
    Verb("GET", "/refs/{name}", refs.show, ref("Ref")),
    Verb("POST", "/branches", refs.create_branch, ref("Ref"), 201, body=_NEW_REF),
    Verb("DELETE", "/branches/{name}", refs.delete_branch, ref("Ref")),
    Verb("POST", "/tags", refs.create_tag, ref("Ref"), 201, body=_NEW_REF),
    Verb("DELETE", "/tags/{name}", refs.delete_tag, ref("Ref")),
    Verb(
        "GET", "/refs/{ref}/log", history.log, list_of(ref("Commit")),
        query={"table": about(LINE, "Only commits that changed this table."), "limit": limit(20)},
    ),
    Verb("GET", "/refs/{ref}/tables", history.tables, ref("Tables")),
    Verb(
        "GET", "/refs/{ref}/tables/{table}", history.show, ref("Description"), query={"limit": limit(20)},
    ),
    Verb(
        "GET", "/diff", history.diff, ref("Diff"),
        query={
            "to": {**AT, "default": MAIN},
            "from": about(LINE, "Any ref. Default: the branch that the other one was forked from."),
            "rows": about(BOOLEAN, "Compare the rows, too, of all changed tables.", default=False),
            "table": {**_TABLE, "description": "With rows: only of these. May be repeated.", "default": []},
            "key": about(_NAMES, "With rows: match them by these columns. Default: the table's own key."),
            "samples": {**limit(10), "minimum": 0},
        },
    ),
    Verb(
        "POST", "/publish", changes.publish, ref("Publication"),
        body=record(
            {"branch": LINE},
            {
                "into": about(_MAYBE, "Default: the branch it was forked from."),
                "message": _MESSAGE,
                "dry_run": about(BOOLEAN, "Say what would change and what conflicts.", default=False),
                "expect": about(_MAYBE, "Only if the branch is at this commit: the `head` of a dry run."),
            },
        ),
    ),
    Verb(
        "POST", "/revert", changes.revert, or_null(ref("Commit")),
        body=record(
            {},
            {
                "commit": about(_MAYBE, "To undo this one."),
                "to": about(_MAYBE, "Instead: make the branch what the lake was at this ref."),
                "on": about(LINE, "The branch to commit to.", default=MAIN),
                "message": _MESSAGE,
            },
        ),
    ),
    Verb("GET", "/runs", runs.list_, list_of(ref("Run")), query={"limit": limit(20)}),
    Verb("POST", "/runs", runs.start, ref("Began"), 202, body=_RUN),
    Verb("GET", "/runs/{id}", runs.show, ref("Run")),
    Verb("POST", "/runs/{id}/cancel", runs.cancel, ref("Run")),
    Verb("POST", "/runs/{id}/resume", runs.resume, ref("Began"), 202, body=record({}, _MANNER)),
    Verb(
        "GET", "/audits", state.audits, ref("Audits"),
        query={"at": AT, "select": {**_SELECT, "default": []}},
    ),
    Verb(
        "GET", "/quarantine", state.quarantine, list_of(ref("Quarantine")),
        query={"at": AT, "table": {**_TABLE, "default": []}},
    ),
    Verb("GET", "/manifest", state.manifest, ref("Manifest"), query={"at": AT}),
)  # fmt: skip
