"""How a run and its commit look to people."""

from __future__ import annotations

from typing import Any, cast

from mere.api.events import event_of
from mere.cli.project.events import line_of
from mere.errors import RunFailed
from mere.lake.diff.diff import Setting
from mere.lake.diff.lines import namespace_line
from mere.lake.lake import Lake
from mere.lake.log.commits import Change, Entry, Key, Kind, Space, Stats, change_lines, growth
from mere.names import TableName
from mere.pipeline.run.record import said
from mere.pipeline.run.request import Event

ORDERS = TableName("silver", "orders")
LAKE = cast(Lake, None)  # asked only for the tables that a query reads
STATES = {"built": "built", "unchanged": "unchanged", "failed": "failed", "audited": "built"}
BUILT = {
    "branch": "run_3fa9c1d2b4e5",
    "kind": "incremental",
    "action": "build",
    "reasons": ["never built"],
    "seconds": 2.04,
    "rows_added": 161,
    "rows_removed": 0,
    "bytes_added": 29_800,
    "rows_read": 165,
    "rows_written": 161,
    "rows_quarantined": 0,
    "rows_dropped": 0,
    "audits": [],
}


def audited(state: str, name: str = "assert(amount > 0)", **about: Any) -> dict[str, Any]:
    return {"audit": name, "state": state, "message": "", "sample": [], "query": "", **about}


def line(kind: str = "built", **about: Any) -> str | None:
    return line_of(event_of(Event(kind, ORDERS, {**BUILT, "state": STATES[kind], **about})), lambda: LAKE)


def test_a_built_model_is_one_line_with_its_rows_time_and_audits() -> None:
    assert line() == "✓ silver.orders  +161 rows, 29.8 KB, 165 read, 161 written  2.0 s"
    assert line(rows_added=1) == "✓ silver.orders  +1 row, 29.8 KB, 165 read, 161 written  2.0 s"
    assert line(rows_added=0) == "✓ silver.orders  no rows changed, 165 read, 161 written  2.0 s"
    assert line(rows_quarantined=3, rows_dropped=1) == (
        "✓ silver.orders  +161 rows, 29.8 KB, 165 read, 161 written, 3 quarantined, 1 dropped  2.0 s"
    )
    assert line(kind="built", audits=[audited("ok"), audited("ok")]) == (
        "✓ silver.orders  +161 rows, 29.8 KB, 165 read, 161 written  2.0 s  2 audits passed"
    )
    view = {**BUILT, "state": "built", "kind": "view"}
    assert line_of(event_of(Event("built", ORDERS, view)), lambda: LAKE) == "✓ silver.orders  view made  2.0 s"


def test_what_is_only_audited_is_not_said_to_be_made() -> None:
    for kind in ("view", "full"):
        about = {**BUILT, "state": "built", "kind": kind, "action": "audit", "audits": [audited("ok")]}
        assert line_of(event_of(Event("built", ORDERS, about)), lambda: LAKE) == (
            "✓ silver.orders  audited again, nothing built  2.0 s  1 audit passed"
        )


def test_windows_are_shown_with_the_reason() -> None:
    why = "2 days: 2024-02-11, 2024-02-12: late rows in bronze.orders"
    assert line(action="windows", reasons=[why], rows_removed=9) == (
        f"✓ silver.orders  +161 -9 rows, 29.8 KB, 165 read, 161 written  2.0 s  ({why})"
    )


def test_an_audit_that_did_not_pass_shows_rows_and_where_to_find_the_others() -> None:
    bad = audited("failed", message="1 of 28 rows is bad", sample=[{"id": 201, "amount": "-5"}], query="SELECT 1")
    assert line("failed", error="assert …", audits=[audited("ok", "unique(id)"), bad]) == (
        "✗ silver.orders  1 audit passed, 1 failed\n"
        "    failed: assert(amount > 0): 1 of 28 rows is bad\n"
        "      id = 201, amount = -5\n"
        "      all of them: mere sql --at run_3fa9c1d2b4e5 'SELECT 1'"
    )
    warned = audited("warned", "max_change(50%)", message="14 → 2 rows", query="SELECT count(*) FROM silver.orders")
    shown = line(audits=[warned])
    assert shown is not None
    assert shown.endswith("  1 audit warned\n    warned: max_change(50%): 14 → 2 rows")


def test_another_failure_shows_the_first_line_of_the_error() -> None:
    assert line("failed", error="models/a.sql:3: no such column\nremedy") == (
        "✗ silver.orders  models/a.sql:3: no such column"
    )


def test_a_failure_without_a_text_is_a_line_too() -> None:
    assert line("failed", error="") == "✗ silver.orders  failed"
    assert said(ValueError()) == "ValueError"
    assert said(RunFailed("")) == "RunFailed"
    assert said(RunFailed("no rows", remedy="Add some.")) == "no rows\nAdd some."


def test_tables_that_were_compared_are_a_line() -> None:
    assert line("audited", audits=[audited("ok")]) == "✓ silver.orders  1 audit passed"


def test_one_row_is_one_row_and_a_renamed_table_is_one_line() -> None:
    entry = Entry(Kind.TABLE, "1.json")
    keys = [Key(Space.RELATION, "gold", name) for name in ("p", "q")]
    assert list(change_lines([Change(keys[0], entry, None), Change(keys[1], None, entry)])) == [
        "renamed gold.p to gold.q"
    ]
    assert growth(Stats(rows_added=1, files_added=1, files_removed=1)) == "+1 row, +1 -1 files"
    assert namespace_line(Setting("namespace gold", None, "true")) == "created namespace gold"


def test_what_a_namespace_is_made_with_is_no_news() -> None:
    def made(namespace: str, name: str, old: str | None = None) -> Change:
        entry = Entry(Kind.PROPERTY, "x")
        return Change(Key(Space.PROPERTY, namespace, name), Entry(Kind.PROPERTY, old) if old else None, entry)

    changes = [made("gold", "exists"), made("gold", "owner"), made("raw", "owner", "ann")]
    assert list(change_lines(changes)) == ["created namespace gold", "changed namespace raw (owner)"]
