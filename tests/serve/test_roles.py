"""Roles: what one may not read is not there, whichever way it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from mere.errors import ConfigError
from mere.lake.lake import Lake
from mere.names import TableName
from mere.serve.gateway import roles
from mere.serve.gateway.backend import LakeBackend
from mere.serve.gateway.port import PgError, Session
from mere.serve.gateway.roles import Roles
from tests.lake import orders
from tests.serve.asking import ask, failure, rows

CONFIG = {
    "analyst": {
        "refs": ["main", "v*"],
        "tables": ["gold.*"],
        "columns": {"gold.customers": ["country"]},
        "rows": {"gold.orders": "customer = current_user or regexp_replace(customer, 'b(.)b', '\\1', 'g') = 'o'"},
        "time": "30s",
        "max_rows": 3,
    },
    "all": None,
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with Lake.create(tmp_path_factory.mktemp("roles") / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        orders.write(lake, "gold.customers", orders.CUSTOMERS)
        orders.write(lake, "silver.raw", orders.CUSTOMERS)
        lake.branch("dev")
        lake.tag("v1")
        yield lake


@pytest.fixture(scope="module")
def backend(lake: Lake) -> Iterator[LakeBackend]:
    backend = LakeBackend(lake, Roles(roles.parse(CONFIG), {"ann": "analyst", "root": "all"}))
    yield backend
    backend.close()


@pytest.fixture
def ann(backend: LakeBackend) -> Session:
    return backend.connect("ann", "main", {})


def test_a_role_is_read_from_the_configuration() -> None:
    found = roles.parse(CONFIG)
    assert found["analyst"].limits.time == timedelta(seconds=30)
    assert found["analyst"].may_read(TableName("gold", "x"))
    assert not found["analyst"].may_read(TableName("silver", "x"))
    assert found["all"].may_read(TableName("silver", "x"))
    with pytest.raises(ConfigError, match=r"unknown key 'tabels'\. Did you mean tables"):
        roles.parse({"x": {"tabels": []}})
    with pytest.raises(ConfigError, match="not a time"):
        roles.parse({"x": {"time": "soon"}})
    with pytest.raises(ConfigError, match="list of names"):
        roles.parse({"x": {"refs": 1}})


def test_roles_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "roles.yaml"
    file.write_text("roles:\n  analyst: {tables: gold.*}\nusers: {ann: analyst}\n")
    found = roles.load(file)
    role = found.of("ann")
    assert role is not None
    assert role == found.of("analyst")
    assert (found.of("bob"), role.may_read(TableName("silver", "x"))) == (None, False)
    for content, told in {
        "roles: {a: {rows: {gold.orders: 'pg_read_file(1)'}}}": "permission denied for function",
        "roles: {a: {rows: {gold.orders: 'id = '}}}": "cannot be chosen by",
        "roles: {a: {}}\nusers: {ann: b}": "a role that is not there",
        "rules: {}": "has `roles`",
        "roles: [": "cannot be read",
    }.items():
        file.write_text(content)
        with pytest.raises(ConfigError, match=told):
            roles.load(file)
    with pytest.raises(ConfigError, match="No such file"):
        roles.load(tmp_path / "nothing.yaml")


def test_without_roles_everybody_reads_all(lake: Lake) -> None:
    backend = LakeBackend(lake)
    assert rows(backend.connect("anybody", "dev", {}), "select count(*) from silver.raw") == [("2",)]
    backend.close()


def test_only_refs_of_the_role_can_be_connected_to(backend: LakeBackend, lake: Lake) -> None:
    for database in ("main", "v1", "main~1", "main@0s"):
        backend.connect("ann", database, {})
    for user, database in [("ann", "dev"), ("ann", "dev~1"), ("ann", lake.at().commit.id), ("stranger", "main")]:
        with pytest.raises(PgError) as caught:
            backend.connect(user, database, {})
        assert caught.value.sqlstate == "28000"
    backend.connect("root", lake.at().commit.id, {})


def test_tables_of_others_are_not_there(ann: Session) -> None:
    error = failure(ann, "select * from silver.raw")
    assert (error.sqlstate, error.hint) == ("42P01", None)
    for sql in (
        "select count(*) from pg_class where relname = 'raw'",
        "select count(*) from pg_namespace where nspname = 'silver'",
        "select count(*) from information_schema.tables where table_schema = 'silver'",
        "select count(*) from information_schema.columns where table_name = 'raw'",
        "select count(*) from pg_database where datname = 'dev'",
    ):
        assert rows(ann, sql) == [("0",)], sql
    assert failure(ann, "select 'silver.raw'::regclass").sqlstate == "42P01"


def test_only_its_columns_are_there(ann: Session) -> None:
    assert ask(ann, "select * from gold.customers order by 1").rows == [("AT",), ("BE",)]
    error = failure(ann, "select name from gold.customers")
    assert (error.sqlstate, "name" in (error.hint or "")) == ("42703", False)
    for sql in (
        "select c.name from gold.customers c",
        "select 1 from gold.customers where name = 'ann'",
        "select 1 from gold.customers order by name",
        "select 1 from gold.orders o join gold.customers c on c.name = o.customer",
        "select (select name from gold.customers limit 1)",
        "copy gold.customers (name) to stdout",
    ):
        assert _refused(ann, sql).sqlstate == "42703", sql
    listed = "select column_name from information_schema.columns where table_name = 'customers'"
    assert rows(ann, listed) == [("country",)]
    assert rows(ann, "select row_to_json(c) from gold.customers c order by 1") == [
        ('{"country":"AT"}',),
        ('{"country":"BE"}',),
    ]


def test_only_its_rows_are_there(ann: Session, backend: LakeBackend) -> None:
    assert rows(ann, "select id from gold.orders order by id") == [("1",), ("2",), ("3",)]
    bob = backend.connect("analyst", "main", {})
    assert rows(bob, "select id from gold.orders") == [("2",)]
    for sql in (
        "select count(*) from gold.orders",
        "select count(*) from gold.orders where true or customer = 'ann'",
        "with x as (select * from gold.orders) select count(*) from x",
        "select (select count(*) from gold.orders)",
        "select count(*) from main.gold.orders o",
        "select count(*) from (values (1)) v left join gold.orders on true",
    ):
        assert rows(bob, sql) == [("1",)], sql
    assert rows(bob, "select count(*) from gold.orders a join gold.orders b on true") == [("1",)]


def test_no_error_and_no_plan_tells_of_a_hidden_row(backend: LakeBackend) -> None:
    analyst = backend.connect("analyst", "main", {})
    for sql in (
        "select id from gold.orders where customer = 'bob' or customer::int = 1",
        "select id from gold.orders where 1 / (id - 1) > -5",
        "select o.id from gold.orders o join generate_series(0, 5) x on 1 / (o.id - 1) > -5 and x = 1",
        "select max(id) from gold.orders where case when id = 1 then 1 / (id - 1) > 0 else true end",
    ):
        assert rows(analyst, sql) == [("2",)], sql
    assert failure(analyst, "explain select * from gold.orders").sqlstate == "42501"


def test_a_role_has_limits_of_its_own(ann: Session, backend: LakeBackend) -> None:
    assert len(rows(ann, "select * from generate_series(1, 3)")) == 3
    error = failure(ann, "select * from generate_series(1, 4)")
    assert (error.sqlstate, error.hint) == ("53400", "Add a LIMIT or a condition, or aggregate.")
    assert len(rows(backend.connect("root", "main", {}), "select * from generate_series(1, 4)")) == 4
    ann.set("statement_timeout", "100ms", False)
    slow = "select count(*) from generate_series(1, 1000000) a, generate_series(1, 1000000) b where a % 7 = b % 11"
    assert failure(ann, slow).message == "canceling statement due to statement timeout"
    with pytest.raises(PgError, match="invalid value"):
        ann.set("statement_timeout", "soon", False)


def _refused(session: Session, sql: str) -> PgError:
    (statement,) = session.read(sql)
    with pytest.raises(PgError) as caught:
        session.run(statement.about.get("statement", statement), [], [])
    return caught.value


@pytest.fixture(scope="module")
def long_table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeBackend]:
    """So many rows that DuckDB learns on the way which of its filters is the cheapest."""
    count = 100_000
    notes = [f"SECRET-{number:06}" for number in range(count)]
    table = pa.table({"owner": ["ann" if number % 2 else "bob" for number in range(count)], "note": notes})
    configured = {name: {"rows": {"gold.notes": condition}} for name, condition in FILTERS.items()}
    with Lake.create(tmp_path_factory.mktemp("long") / "lake") as lake:
        orders.write(lake, "gold.notes", table)
        backend = LakeBackend(lake, Roles(roles.parse(configured)))
        yield backend
        backend.close()


FILTERS = {
    "equal": "owner = 'nobody'",
    "or": "owner = 'nobody' OR owner = 'none'",
    "like": "owner LIKE 'no%'",
    "of a function": "lower(upper(owner)) = 'nobody'",
    "in": "owner IN ('nobody', 'none')",
}


@pytest.mark.parametrize(
    "probe",
    [
        "regexp_replace('a', case when note > '' then '(' || note else 'a' end, 'b') = 'b'",
        "regexp_count('a', '(' || note) = 0",
        "regexp_split_to_array('a', '(' || note) is null",
        "(note || 'x')::int = 1",
        "1 / (length(note) - length(note)) = 1",
    ],
)
@pytest.mark.parametrize("role", FILTERS)
def test_no_error_tells_of_a_hidden_row(long_table: LakeBackend, role: str, probe: str) -> None:
    session = long_table.connect(role, "main", {})
    assert rows(session, f"select count(*) from gold.notes where {probe}") == [("0",)]
    joined = f"gold.notes join (select note as other from gold.notes) m on note = other and {probe}"
    assert rows(session, f"select count(*) from {joined}") == [("0",)]


def test_the_catalogs_do_not_count_hidden_rows(long_table: LakeBackend) -> None:
    session = long_table.connect("equal", "main", {})
    assert rows(session, "select reltuples, pg_total_relation_size(oid) from pg_class where relname = 'notes'") == [
        ("-1", "0")
    ]
    assert rows(session, "select n_live_tup from pg_stat_user_tables where relname = 'notes'") != [("100000",)]


def test_names_that_differ_in_case_are_not_told_to_those_who_may_not_read_them(tmp_path: Path) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        orders.write(lake, "silver.DUP", orders.CUSTOMERS)
        orders.write(lake, "silver.Dup", orders.CUSTOMERS)
        backend = LakeBackend(lake, Roles(roles.parse({"some": {"tables": "gold.*"}, "all": None})))
        for user, sqlstate in {"some": "42P01", "all": "42P09"}.items():
            assert failure(backend.connect(user, "main", {}), "select * from silver.dup").sqlstate == sqlstate
        backend.close()


def test_a_plan_is_not_told_to_whom_some_tables_are_hidden(ann: Session, backend: LakeBackend, lake: Lake) -> None:
    assert failure(ann, "explain select 1").sqlstate == "42501"
    assert ask(backend.connect("root", "main", {}), "explain select 1").rows
    only_tables = LakeBackend(lake, Roles(roles.parse({"some": {"tables": "gold.*"}})))
    assert failure(only_tables.connect("some", "main", {}), "explain select 1").sqlstate == "42501"
    only_tables.close()
