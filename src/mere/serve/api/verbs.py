"""All verbs of the API. What is not in this table is not there; the description of the API is made of it."""

from __future__ import annotations

from mere.names import MAIN
from mere.serve.api import changes, history, refs, runs, state
from mere.serve.api.schema import BOOLEAN, INTEGER, LINE, about, list_of, map_of, one_of, or_null, record, ref
from mere.serve.api.verb import AT, Verb, limit

_MAYBE = or_null(LINE)
_MESSAGE = about(_MAYBE, "The reason, shown in the log.", maxLength=10_000)
_NAMES = list_of(LINE)
_SELECT = about(_NAMES, "Names, globs such as gold.*, tag:NAME, owner:NAME, +NAME, NAME+. Default: all models.")
_TABLE = about(_NAMES, "Only these tables. May be repeated.")

# How a run is carried out, also one that is resumed.
_MANNER = {
    "message": _MESSAGE,
    "accept": about(
        _NAMES,
        "For append models: skip rows of the input that were replaced, and take the new ones. For sources: load "
        "renamed files as new ones.",
        default=[],
    ),
    "if_running": about(
        one_of("wait", "fail", "skip"), "What to do if another run writes the same tables.", default="wait"
    ),
    "threads": about(INTEGER, "How many models to build at once.", default=4, minimum=1, maximum=64),
}
_RUN = record(
    {},
    {
        "select": {**_SELECT, "default": []},
        "on": about(LINE, "The branch to build for.", default=MAIN),
        "full_refresh": about(BOOLEAN, "Rebuild the selected models from scratch.", default=False),
        "start": about(_MAYBE, "Build windows from this time on, due or not."),
        "end": about(_MAYBE, "Build windows up to, but not including, this time."),
        "forward_only": about(BOOLEAN, "Use new code for new windows only; keep what is built.", default=False),
        "allow_breaking": about(BOOLEAN, "Allow columns to be dropped or narrowed.", default=False),
        "limit_windows": about(or_null(INTEGER), "Build only the newest windows.", minimum=1),
        "sample": about(_MAYBE, "Read only a share of each input, such as 1%."),
        "check": about(BOOLEAN, "Refuse to start if the project has errors.", default=True),
        "vars": about(map_of(LINE), "Instead of those in mere.yaml.", default={}),
        **_MANNER,
    },
)
_NEW_REF = record(
    {"name": about(LINE, "The name of the new ref.")}, {"at": about(LINE, "Any ref: where it starts.", default=MAIN)}
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
            "from": about(LINE, "Any ref: what is compared with. If only one of `from` and `to` is given, that ref is "
                          "compared with the branch that it was forked from."),
            "to": about(LINE, "Any ref. At least one of `from` and `to` is needed."),
            "rows": about(BOOLEAN, "Also compare the rows of all changed tables.", default=False),
            "table": {**_TABLE, "description": "With rows: only these tables. May be repeated.", "default": []},
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
                "dry_run": about(BOOLEAN, "Show what would change and what conflicts; change nothing.", default=False),
                "expect": about(_MAYBE, "Only if the branch is at this commit: the `head` of a dry run."),
            },
        ),
    ),
    Verb(
        "POST", "/revert", changes.revert, or_null(ref("Commit")),
        body=record(
            {},
            {
                "commit": about(_MAYBE, "The commit to undo."),
                "to": about(_MAYBE, "Instead: go back to the state at this ref."),
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
