"""Roles: what one may not read is not there, whichever way it is asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from mere.lake.lake import Lake
from mere.serve.protocol.port import PgError, Session
from mere.serve.session.backend import LakeBackend
from tests.lake import orders
from tests.serve.asking import ask, declared, failure, rows

CONFIG = {
    "analyst": {
        "refs": ["main", "v*"],
        "tables": ["gold.*"],
        "columns": {"gold.customers": ["country"]},
        "rows": {"gold.orders": "customer = current_user or regexp_replace(customer, 'b(.)b', '\\1', 'g') = 'o'"},
        "time": "30s",
        "history": True,
        "max_rows": 3,
    },
    "all": {"tables": "*"},
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
    backend = LakeBackend(lake, declared(CONFIG, {"ann": "analyst", "root": "all"}))
    yield backend
    backend.close()


@pytest.fixture
def ann(backend: LakeBackend) -> Session:
    return backend.connect("ann", "main", {})


def test_without_roles_everybody_reads_all(lake: Lake) -> None:
    backend = LakeBackend(lake)
    assert rows(backend.connect("anybody", "dev", {}), "select count(*) from silver.raw") == [("2",)]
    backend.close()


def test_only_refs_of_the_role_can_be_connected_to(backend: LakeBackend, lake: Lake) -> None:
    for database in ("main", "v1", "main~1", "main@0s"):
        backend.connect("ann", database, {})
    for user, database, sqlstate in [
        ("ann", "dev", "3D000"),
        ("ann", "dev~1", "3D000"),
        ("ann", lake.at().commit.id, "3D000"),
        ("stranger", "main", "28000"),
    ]:
        with pytest.raises(PgError) as caught:
            backend.connect(user, database, {})
        assert caught.value.sqlstate == sqlstate
    backend.connect("root", lake.at().commit.id, {})


@pytest.mark.parametrize("step", ["", "~1", "~9", "@2h", "@2020-01-01"])
def test_a_hidden_ref_is_as_if_it_were_not_there(backend: LakeBackend, step: str) -> None:
    def answer(base: str) -> str:
        with pytest.raises(PgError) as caught:
            backend.connect("ann", base + step, {})
        error = caught.value
        return f"{error.sqlstate} {error.message} {error.detail} {error.hint}".replace(base, "REF")

    assert answer("dev") == answer("xyz")
    assert "dev" not in answer("deb")
    assert "dev" not in answer("v9")


def test_who_sees_a_part_of_a_table_sees_the_present_of_it(lake: Lake) -> None:
    part = {"rows": {"gold.orders": "id > 0"}, "tables": "gold.*"}
    backend = LakeBackend(lake, declared({"now": part, "then": {**part, "history": True, "refs": ["main"]}}))
    backend.connect("now", "main", {})
    backend.connect("then", "main~1", {})
    for database in ("main~0", "main~1", "main@0s", lake.at().commit.id, "at_" + lake.at().commit.id):
        with pytest.raises(PgError) as caught:
            backend.connect("now", database, {})
        assert caught.value.sqlstate == "3D000"
    backend.close()


def test_what_restricts_a_table_restricts_what_belongs_to_it(tmp_path: Path) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        for table in ("gold.orders", "gold.orders__quarantine", "gold.orders__loads", "gold.free__quarantine"):
            orders.write(lake, table, orders.ORDERS)
        one = {"tables": "*", "rows": {"gold.orders": "id = 1"}}
        both = {"tables": "*", "rows": {"gold.orders*": "id = 1"}, "columns": {"gold.orders*": ["i*"]}}
        backend = LakeBackend(lake, declared({"one": one, "both": both}))
        session = backend.connect("one", "main", {})
        assert rows(session, "select count(*) from gold.free__quarantine") == [("3",)]
        for table in ("gold.orders__quarantine", "gold.orders__loads"):
            assert failure(session, f"select * from {table}").sqlstate == "42P01"
            assert rows(backend.connect("both", "main", {}), f"select * from {table}") == [("1",)]
        backend.close()


def test_of_several_rules_for_a_table_all_hold(lake: Lake) -> None:
    role = {
        "tables": ["gold.*", "gold.orders"],
        "columns": {"gold.*": ["id", "customer", "country"], "*.orders": ["id", "amount"]},
        "rows": {"gold.*": "true or 1 = 1", "gold.orders": "id > 1", "*.orders": "id < 3 or false"},
    }
    backend = LakeBackend(lake, declared({"ann": role}))
    assert rows(backend.connect("ann", "main", {}), "select * from gold.orders") == [("2",)]
    backend.close()


def test_a_table_that_got_another_name_is_not_shown_without_its_rules(tmp_path: Path) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        orders.write(lake, "gold.customers", orders.CUSTOMERS)
        strict = {"tables": "gold.*", "rows": {"gold.orders": "id = 1"}}
        optional = {"tables": "gold.*", "rows": {"gold.orders": {"only": "id = 1", "optional": True}}}
        backend = LakeBackend(lake, declared({"ann": strict, "bob": optional}))
        ann, bob = backend.connect("ann", "main", {}), backend.connect("bob", "main", {})
        assert rows(ann, "select count(*) from gold.orders") == [("1",)]
        lake.rename("gold.orders", "gold.sales")
        for sql in ("select count(*) from gold.sales", "select * from gold.customers", "select * from pg_class"):
            assert failure(ann, sql).sqlstate == "42501"
        with pytest.raises(PgError, match="permission denied"):
            backend.connect("ann", "main", {})
        assert rows(bob, "select count(*) from gold.sales") == [("3",)]
        lake.rename("gold.sales", "gold.Orders")
        assert rows(bob, "select count(*) from gold.orders") == [("1",)]
        assert failure(ann, "select count(*) from gold.orders").sqlstate == "42501"
        lake.rename("gold.Orders", "gold.orders")
        assert rows(ann, "select count(*) from gold.orders") == [("1",)]
        backend.close()


@pytest.mark.parametrize(
    "role",
    [
        {"columns": {"gold.orders": ["total"]}},
        {"columns": {"gold.orders": ["Id"]}},
        {"rows": {"gold.orders": "region = 'AT'"}},
        {"rows": {"gold.orders": "id = 1 or region.name = 'AT'"}},
    ],
)
def test_a_table_whose_columns_do_not_fit_any_more_is_not_shown(lake: Lake, role: dict[str, object]) -> None:
    backend = LakeBackend(lake, declared({"ann": {"tables": "*", **role}}))
    session = backend.connect("ann", "main", {})
    error = failure(session, "select count(*) from gold.orders")
    assert (error.sqlstate, error.message) == ("42501", "permission denied for table orders")
    assert rows(session, "select count(*) from gold.customers") == [("2",)]
    backend.close()


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
        session.run(statement.all[-1], [], [])
    return caught.value


@pytest.fixture(scope="module")
def long_table(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeBackend]:
    """So many rows that DuckDB learns on the way which of its filters is the cheapest."""
    count = 100_000
    notes = [f"SECRET-{number:06}" for number in range(count)]
    table = pa.table({"owner": ["ann" if number % 2 else "bob" for number in range(count)], "note": notes})
    configured = {name: {"tables": "*", "rows": {"gold.notes": condition}} for name, condition in FILTERS.items()}
    with Lake.create(tmp_path_factory.mktemp("long") / "lake") as lake:
        orders.write(lake, "gold.notes", table)
        backend = LakeBackend(lake, declared(configured))
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
        backend = LakeBackend(lake, declared({"some": {"tables": "gold.*"}, "all": {"tables": "*"}}))
        for user, sqlstate in {"some": "42P01", "all": "42P09"}.items():
            assert failure(backend.connect(user, "main", {}), "select * from silver.dup").sqlstate == sqlstate
        backend.close()


def test_a_plan_is_not_told_to_whom_some_tables_are_hidden(ann: Session, backend: LakeBackend, lake: Lake) -> None:
    assert failure(ann, "explain select 1").sqlstate == "42501"
    assert ask(backend.connect("root", "main", {}), "explain select 1").rows
    only_tables = LakeBackend(lake, declared({"some": {"tables": "gold.*"}}))
    assert failure(only_tables.connect("some", "main", {}), "explain select 1").sqlstate == "42501"
    only_tables.close()
