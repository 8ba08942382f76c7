"""Metadata tables, other refs and versions in the gateway, for each of the rights that a role may have."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from mere.lake.lake import Lake
from mere.lake.log.runs import Run, RunStatus
from mere.lake.metadata_tables.tables import OF_LAKE, OF_TABLE
from mere.serve.protocol.port import Session
from mere.serve.session.backend import LakeBackend
from tests.lake import orders
from tests.lake.orders import ONE_MORE, write
from tests.serve.asking import declared, failure, rows

ROLES: dict[str, Any] = {
    "all": {"tables": "*"},
    "now": {"tables": "*", "history": False},
    "here": {"tables": "*", "refs": ["main"]},
    "gold": {"tables": "gold.orders", "refs": ["main", "dev"]},
    "part": {"tables": "gold.*", "rows": {"gold.orders": "customer = 'ann'"}, "history": True},
    "few": {"tables": "gold.*", "columns": {"gold.customers": ["name"]}, "history": True},
}
NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with orders.create(tmp_path_factory.mktemp("lake")) as lake:
        write(lake, "hr.secret_pay", ONE_MORE)
        lake.branch("dev")
        write(lake, "gold.orders", ONE_MORE, "dev")
        lake.branch("hidden")
        write(lake, "gold.orders", ONE_MORE, "hidden")
        lake.publish("hidden", into="main", message="from hidden")
        lake.set_properties({"gold.orders": {"x": "1"}, "hr.secret_pay": {"x": "1"}}, message="secret_pay too")
        bad = {"id": [1], "_rules": [["a"]], "_run": ["r1"], "_at": [NOW]}
        for table in ("gold.orders__quarantine", "hr.secret_pay__quarantine"):
            write(lake, table, pa.table(bad))
            lake.set_properties({table: {"mere.state": "{}"}})
        audit = {"audit": "unique", "id": "unique(secret_pay)", "state": "passed", "message": "secret_pay"}
        for id_, target, models in (("a" * 12, "main", ["gold.orders"]), ("b" * 12, "hidden", ["gold.orders"]),
                                    ("c" * 12, "main", ["hr.secret_pay"])):  # fmt: skip
            found = {name: {"state": "built", "audits": [audit]} for name in models}
            about = {"models": found, "message": "secret_pay", "error": "secret_pay"}
            run = Run(id_, target, f"run_{id_}", RunStatus.SUCCEEDED, "ann", NOW, NOW, NOW, about)
            lake.store.save_run(run)
        yield lake


@pytest.fixture(scope="module")
def backend(lake: Lake) -> Iterator[LakeBackend]:
    backend = LakeBackend(lake, declared(ROLES))
    yield backend
    backend.close()


def connect(backend: LakeBackend, user: str = "all", database: str = "main") -> Session:
    return backend.connect(user, database, {})


def test_the_gateway_gives_what_mere_sql_gives(lake: Lake, backend: LakeBackend) -> None:
    session = connect(backend)
    for table in [*(f'gold."orders${kind}"' for kind in OF_TABLE), *(f"mere.{name}" for name in OF_LAKE)]:
        assert len(rows(session, f"select * from {table}")) == len(list(lake.sql(f"select * from {table}"))), table
    ids = [(each.id,) for each in lake.log()]
    assert rows(session, "select commit_id from mere.commits order by committed_at desc limit 3") == ids[:3]


@pytest.mark.parametrize("user", ROLES)
def test_a_role_sees_metadata_tables_of_what_it_reads_in_full_and_in_the_past(backend: LakeBackend, user: str) -> None:
    session = connect(backend, user)
    for table, readers in (
        ('gold."orders${}"', {"all", "here", "gold", "few"}),
        ('gold."customers${}"', {"all", "here", "part"}),
        ('hr."secret_pay${}"', {"all", "here"}),
    ):
        for kind in OF_TABLE:
            name = table.format(kind)
            if user in readers:
                rows(session, f"select * from {name}")
            else:
                told, nothing = failure(session, f"select * from {name}"), failure(session, f"select * from x.{kind}")
                assert told.sqlstate == nothing.sqlstate == "42P01"
                assert user == "now" or "secret" not in (told.hint or "")


@pytest.mark.parametrize("user", ROLES)
def test_a_role_sees_of_the_lake_what_it_may_know_of(backend: LakeBackend, user: str) -> None:
    session = connect(backend, user)
    listed = rows(session, "select table_name from information_schema.tables where table_schema = 'mere' order by 1")
    if user == "now":
        assert listed == [("quarantine",)]
        for name in set(OF_LAKE) - {"quarantine"}:
            assert failure(session, f"select * from mere.{name}").sqlstate == "42P01"
    else:
        assert [name for (name,) in listed] == sorted(OF_LAKE)
    told = "".join(
        str(rows(session, f"select * from mere.{name}")) for name in OF_LAKE if user != "now" or name == "quarantine"
    )
    # part and few read gold alone, and have no names of other schemas in what they see
    assert ("secret_pay" in told) == (user in ("all", "now", "here")), told
    assert ("hidden" in told) == (user in ("all", "few")), told


def test_of_a_run_only_the_models_that_are_read_in_full_are_told(backend: LakeBackend) -> None:
    for user, wanted in {"all": "abc", "here": "ac", "gold": "a", "few": "ab", "part": ""}.items():
        session = connect(backend, user)
        found = rows(session, "select run_id from mere.runs order by 1")
        assert "".join(str(id_)[0] for (id_,) in found) == wanted, user
        asked = "select run_id, audit, state from mere.audits order by 1"
        assert rows(session, asked) == [(each * 12, "unique", "passed") for each in wanted]
    assert rows(connect(backend, "gold"), "select message, error from mere.runs") == [(None, None)]
    assert rows(connect(backend, "gold"), "select audit_id, message from mere.audits") == [(None, None)]


def test_quarantines_are_counted_for_those_who_read_them(backend: LakeBackend) -> None:
    asked = "select table_schema, row_count from mere.quarantine order by 1"
    gold, hr = ("gold", "1"), ("hr", "1")
    for user, wanted in {"all": [gold, hr], "now": [gold, hr], "few": [gold], "part": [], "gold": []}.items():
        assert rows(connect(backend, user), asked) == wanted, user


def test_a_message_that_tells_of_more_is_not_told(backend: LakeBackend) -> None:
    asked = "select message from mere.commits where kind in ('publish', 'alter') and message is not null"
    assert rows(connect(backend, "gold"), asked) == []
    assert ("from hidden",) not in rows(connect(backend, "here"), asked)
    assert rows(connect(backend, "here"), "select source from mere.commits where source is not null") == []
    assert ("from hidden",) in rows(connect(backend), asked)


# Other refs


def test_two_refs_are_read_in_one_query(lake: Lake, backend: LakeBackend) -> None:
    session = connect(backend)
    joined = "select count(*) from gold.orders m full join dev.gold.orders d using (id)"
    ((count,),) = lake.sql(joined)
    assert rows(session, joined) == [(str(count),)]
    assert rows(session, 'select count(*) from "main@0s".gold.orders') == rows(
        session, "select count(*) from gold.orders"
    )
    assert rows(session, 'select count(*) from "main~3".mere.commits') == rows(
        session, "select count(*) - 3 from mere.commits"
    )
    assert rows(session, 'select count(*) from dev.gold."orders$files"') == [("2",)]


def test_a_ref_that_may_not_be_read_is_one_that_is_not_there(backend: LakeBackend) -> None:
    for user, ref in (
        ("here", "dev"),
        ("gold", "hidden"),
        ("gold", "nothing"),
        ("gold", "hidden@1s"),
        ("here", "a1b2c3"),
    ):
        for sql in (f'select * from "{ref}".gold.orders', f"select * from gold.orders for version as of '{ref}'"):
            error = failure(connect(backend, user), sql)
            assert (error.sqlstate, error.message) == ("3D000", f'database "{ref}" does not exist')
            assert "hidden" not in (error.hint or "")
    now = connect(backend, "now")
    assert rows(now, "select count(*) from dev.gold.orders") == [("4",)]
    for ref in ("main~1", "main@0s", "dev@2020-01-01"):
        assert failure(now, f'select * from "{ref}".gold.orders').sqlstate == "3D000"
    assert failure(now, "select * from gold.orders for timestamp as of '0s'").sqlstate == "3D000"


def test_the_rules_of_a_role_hold_on_every_ref_and_version(lake: Lake, backend: LakeBackend) -> None:
    part, few = connect(backend, "part"), connect(backend, "few")
    snapshot = lake.show("gold.orders").snapshots[-1].id
    for item in ("dev.gold.orders", '"main~1".gold.orders', f"gold.orders for version as of {snapshot}",
                 "gold.orders for version as of 'dev'", "gold.orders for timestamp as of '0s'"):  # fmt: skip
        assert rows(part, f"select distinct customer from {item}") == [("ann",)], item
    assert rows(few, "select * from dev.gold.customers for version as of 'main' limit 0") == []
    assert failure(few, "select country from dev.gold.customers").sqlstate == "42703"
    assert failure(few, "select * from dev.hr.secret_pay").sqlstate == "42P01"


def test_a_role_without_history_sees_no_snapshot_of_any_id(lake: Lake, backend: LakeBackend) -> None:
    snapshot = lake.show("gold.orders").snapshots[0].id
    found = [
        failure(connect(backend, "now"), f"select * from gold.orders for version as of {id_}") for id_ in (snapshot, 7)
    ]
    assert {error.sqlstate for error in found} == {"42704"}
    assert found[0].message == f'relation "orders" has no snapshot {snapshot}'
    assert rows(connect(backend), f"select count(*) > 2 from gold.orders for version as of {snapshot} o") == [("t",)]


def test_all_refs_of_a_statement_are_of_one_instant_and_stay_in_a_transaction(lake: Lake, backend: LakeBackend) -> None:
    lake.branch("moves")
    session = connect(backend)
    session.begin()
    asked = "select (select count(*) from moves.gold.orders), (select count(*) from moves.mere.commits)"
    before = rows(session, asked)
    write(lake, "gold.orders", ONE_MORE, "moves")
    assert rows(session, asked) == before
    session.end()
    assert rows(session, asked) != before


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("select * from gold.orders for version as of 12", "42704"),
        ("select * from gold.orders for version as of 99999999999999999999999", "42704"),
        ("select * from gold.orders for version as of 'dev' || 'x'", "42601"),
        ("select * from gold.orders for version as of -1", "42601"),
        ("select * from gold.orders for version as of $1", "42601"),
        ("select * from gold.orders for timestamp as of now()", "42601"),
        ("select * from gold.orders for timestamp as of 'soon'", "3D000"),
        ("select * from gold.orders for version as of 'a''; drop table x; --'", "3D000"),
        ('select * from "main"".gold"".orders".gold.orders', "3D000"),
        ("select * from pg_catalog.pg_class for version as of 'dev'", "42809"),
        ("select * from dev.pg_catalog.pg_class", "42809"),
        ("with c as (select 1) select * from c for version as of 'dev'", "42809"),
        ("select * from generate_series(1, 2) for version as of 12", "42601"),
        ("select * from (select 1) x for version as of 12", "42601"),
        ("select * from gold.orders for version from 1 to 2", "42601"),
        ('select * from gold."orders$snapshots" for version as of 12', "42704"),
        ('select * from gold."orders$files$files"', "42P01"),
        ('select * from gold."orders\'$files"', "42P01"),
    ],
)  # fmt: skip
def test_what_is_no_version_is_an_error(backend: LakeBackend, sql: str, state: str) -> None:
    assert failure(connect(backend), sql).sqlstate == state


def test_a_temporary_view_keeps_its_version_and_has_none(lake: Lake, backend: LakeBackend) -> None:
    session = connect(backend)
    (create,) = session.read("create temp view old as select * from gold.orders for version as of 'main~4'")
    session.create_view(create)  # type: ignore[arg-type]
    assert rows(session, "select count(*) from old") == rows(session, 'select count(*) from "main~4".gold.orders')
    assert failure(session, "select * from old for version as of 'dev'").sqlstate == "42809"


def test_the_catalogs_describe_the_tables_of_the_lake(lake: Lake, backend: LakeBackend) -> None:
    """What psql asks for \\d+ mere.commits."""
    session = connect(backend)
    for name, schema in OF_LAKE.items():
        described = rows(
            session,
            "select attname, col_description(attrelid, attnum), has_table_privilege(attrelid, 'select')"
            f" from pg_attribute where attrelid = 'mere.{name}'::regclass and attnum > 0 order by attnum",
        )
        assert described == [(each["name"], each["doc"], "t") for each in schema["fields"]]
        types = rows(session, f"select data_type from information_schema.columns where table_name = '{name}'")
        assert "ARRAY" not in str(types)


def test_what_was_made_for_one_statement_is_gone_after_it(backend: LakeBackend) -> None:
    session = connect(backend)
    for _ in range(3):
        rows(session, "select * from mere.commits")
        rows(session, "select * from mere.runs, mere.audits")
    tables = backend.engine_for(()).tables
    assert not [each for each in tables._bound.values() if each.is_passing]
