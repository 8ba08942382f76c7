"""Tables behind the gateway: however they were written, their rows are those that `mere sql` gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import LongType, StringType

from mere.lake.lake import Lake
from mere.lake.query import query
from mere.names import TableName
from mere.serve.builtin import settings
from mere.serve.engine import tables
from mere.serve.engine.tables import Pin
from mere.serve.protocol.port import Session
from mere.serve.session.backend import LakeBackend
from tests.lake import iceberg_tables, orders
from tests.lake.places import S3, place
from tests.lake.query.test_views import view
from tests.serve.asking import ask, declared, failure, rows
from tests.services.s3 import S3Server


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        orders.write(lake, "gold.customers", orders.CUSTOMERS)
        yield lake


@pytest.fixture
def backend(lake: Lake) -> Iterator[LakeBackend]:
    backend = LakeBackend(lake)
    yield backend
    backend.close()


@pytest.fixture
def session(backend: LakeBackend) -> Session:
    return backend.connect("ann", "main", {})


def definition(backend: LakeBackend, table: str) -> str:
    """What stands behind a table in DuckDB."""
    pin: Pin = backend.pin("main")
    engine = backend.engine_for([])
    name = engine.tables.hold(pin, TableName.parse(table))
    with engine.cursor() as cursor:
        return str(cursor.execute("select sql from duckdb_views() where view_name = ?", [name]).fetchall()[0][0])


def same_as_mere_sql(session: Session, lake: Lake, sql: str) -> None:
    ours = {tuple(map(str, row)) for row in rows(session, sql)}
    assert ours == {tuple(map(str, row)) for row in query(lake, sql)} != set()


def test_plain_tables_are_their_parquet_files(session: Session, backend: LakeBackend, lake: Lake) -> None:
    many = pa.table({"id": range(3000), "name": ["x"] * 3000})
    orders.write(lake, "gold.many", many.slice(0, 1500))
    orders.write(lake, "gold.many", many.slice(1500))
    assert rows(session, "select count(*), sum(id) from gold.many") == [("3000", str(sum(range(3000))))]
    assert "read_parquet" in definition(backend, "gold.many")


def test_tiny_tables_are_kept_in_memory(
    session: Session, backend: LakeBackend, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_TINY", 3)
    orders.write(lake, "gold.orders", orders.ONE_MORE)
    assert rows(session, "select count(*), sum(amount) from gold.orders") == [("4", "31")]
    assert "copy" in definition(backend, "gold.orders")
    for at in range(6):
        orders.write(lake, "gold.orders", pa.table({"id": [10 + at], "customer": ["cy"], "amount": [1.0]}))
        assert rows(session, "select count(*), sum(amount) from gold.orders") == [(str(5 + at), str(32 + at))]
    with backend.engine_for([]).cursor() as cursor:
        kept = cursor.execute("select count(*) from duckdb_tables() where schema_name = 'lake'").fetchall()[0][0]
    assert kept <= 5  # those that are in use besides


def test_a_tiny_table_whose_files_are_gone_is_told_as_any_other(session: Session, lake: Lake) -> None:
    orders.write(lake, "gold.many", pa.table({"id": range(3000)}))
    told = []
    for table in ("gold.orders", "gold.many"):
        (task,) = lake.pyiceberg().load_table(table).scan().plan_files()
        file = task.file.file_path.removeprefix("file://")
        Path(file).unlink()
        for _ in range(2):
            error = failure(session, f"select count(*) from {table} where id > 1")
            told.append((error.sqlstate, error.message.replace(table, "TABLE").replace(file, "FILE"), error.hint))
    assert told == [told[0]] * 4


def test_a_table_that_only_seems_tiny_is_not_copied(session: Session, backend: LakeBackend, lake: Lake) -> None:
    """What its metadata says of its rows is whatever an engine has written there."""
    orders.write(lake, "gold.liar", pa.table({"id": range(5000)}))
    pointer = Path(lake.at().pointer("gold.liar").removeprefix("file://"))
    metadata = json.loads(pointer.read_text())
    for snapshot in metadata["snapshots"]:
        snapshot["summary"]["total-records"] = "3"
    pointer.write_text(json.dumps(metadata))
    assert rows(session, "select count(*) from gold.liar") == [("5000",)]
    assert "read_parquet" in definition(backend, "gold.liar")


def test_an_empty_table_has_its_columns(session: Session, lake: Lake) -> None:
    iceberg_tables.create(lake, "gold.empty")
    assert (ask(session, "select * from gold.empty").names, rows(session, "table gold.empty")) == (
        ["id", "name", "day"],
        [],
    )


def test_an_evolved_table_is_read_by_its_schema(session: Session, backend: LakeBackend, lake: Lake) -> None:
    table = lake.pyiceberg("main").load_table("gold.customers")
    with table.update_schema() as schema:
        schema.rename_column("country", "land")
        schema.add_column("size", LongType())
        schema.add_column("note", StringType())
    table.append(pa.table({"name": ["cy"], "land": ["CH"], "size": [3], "note": ["x"]}))
    assert "iceberg_scan" in definition(backend, "gold.customers")
    assert sorted(rows(session, "select name, land, size from gold.customers")) == [
        ("ann", "AT", None), ("bob", "BE", None), ("cy", "CH", "3"),
    ]  # fmt: skip
    assert failure(session, "select country from gold.customers").sqlstate == "42703"


def test_deleted_rows_are_gone(session: Session, lake: Lake) -> None:
    iceberg_tables.create(lake, "gold.cut", spec=iceberg_tables.BY_NAME_AND_DAY)
    iceberg_tables.append(lake, "gold.cut", 1, 2, 3, 4)
    iceberg_tables.delete(lake, "gold.cut", "id = 3")
    assert rows(session, "select id from gold.cut order by id") == [("1",), ("2",), ("4",)]
    assert rows(session, "select id from gold.cut where name = 'plain' and day = '2026-11-03'") == [("2",)]


def test_a_table_that_only_pyiceberg_reads_is_copied_once(session: Session, backend: LakeBackend, lake: Lake) -> None:
    """DuckDB by itself would end the whole process."""
    iceberg_tables.create(lake, "gold.cut", spec=iceberg_tables.BY_NAME_AND_DAY)
    iceberg_tables.append(lake, "gold.cut", 1, 2)
    table = lake.pyiceberg("main").load_table("gold.cut")
    with table.update_spec() as spec:
        spec.remove_field("name")
    with table.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("name")
    other = backend.connect("bob", "main", {})
    for each in (session, other):
        assert rows(each, "select id from gold.cut order by id") == [("1",), ("2",)]
    assert "copy" in definition(backend, "gold.cut")


def test_a_view_of_spark_is_read_at_the_same_commit(session: Session, backend: LakeBackend, lake: Lake) -> None:
    view(lake, "gold.totals", "select customer, sum(amount) from orders group by 1", who="string", total="double")
    view(lake, "gold.rich", "select who from totals where total > 15", who="string")
    assert rows(session, "select * from gold.rich") == [("bob",)]
    session.begin()
    assert rows(session, "select total from gold.totals where who = 'ann'") == [("10",)]
    orders.write(lake, "gold.orders", pa.table({"id": [9], "customer": ["ann"], "amount": [90.0]}))
    assert rows(session, "select total from gold.totals where who = 'ann'") == [("10",)]
    session.end()
    assert rows(session, "select total from gold.totals where who = 'ann'") == [("100",)]
    assert sorted(rows(session, "select * from gold.rich")) == [("ann",), ("bob",)]


def test_names_are_folded_as_in_postgres(session: Session, lake: Lake) -> None:
    orders.write(lake, "gold.Mixed", pa.table({"Id": [1], "lower": [2]}))
    orders.write(lake, "Gold2.T", pa.table({"a": [1]}))
    assert ask(session, 'select "Id", Lower from gold."Mixed"').rows == [("1", "2")]
    assert rows(session, "select ID from GOLD.ORDERS where gold.orders.id = 1") == [("1",)]
    assert rows(session, 'select a from "Gold2"."T"') == [("1",)]
    assert rows(session, "select lower from gold.mixed") == [("2",)], "no other name is like it"
    assert failure(session, 'select * from gold."mixed"').sqlstate == "42P01"
    orders.write(lake, "gold.mixed", pa.table({"x": [5]}))
    assert rows(session, "select * from gold.Mixed") == [("5",)]


def test_the_search_path_finds_tables(session: Session) -> None:
    session.set("search_path", "public", False)
    assert failure(session, "select * from orders").sqlstate == "42P01"
    session.set("search_path", "silver, gold", False)
    assert rows(session, "select count(*), current_schema() from orders") == [("3", "gold")]
    assert rows(session, "select current_schemas(false)") == [("{gold}",)]


def test_a_new_connection_finds_the_tables_of_all_schemas(backend: LakeBackend, lake: Lake) -> None:
    orders.write(lake, "b.orders", pa.table({"x": [5]}))
    orders.write(lake, "Odd.t", pa.table({"x": [6]}))
    session = backend.connect("ann", "main", {})
    assert rows(session, "show search_path") == [('"$user", public, "Odd", b, gold',)]
    assert rows(session, "select current_schema(), count(*) from orders group by 1") == [("public", "1")], "that of b"
    assert rows(session, "select x from t") == [("6",)]
    visible = (
        "select relnamespace::regnamespace::text from pg_class where relname = 'orders' and pg_table_is_visible(oid)"
    )
    assert rows(session, visible) == [("b",)]
    session.set("search_path", "gold", False)
    assert rows(session, "select count(*) from orders") == [("3",)]
    session.set("search_path", None, False)
    assert rows(session, "select count(*) from orders") == [("1",)]


def test_so_many_schemas_that_the_search_path_would_be_endless() -> None:
    assert settings.path({f"schema_{number}" for number in range(120)}) == '"$user", public'


def test_a_table_outside_of_the_lake_is_reached_when_it_is_adopted(
    session: Session, lake: Lake, tmp_path: Path
) -> None:
    (tmp_path / "old").mkdir()
    catalog = SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/old/c.db", warehouse=str(tmp_path / "old" / "files"))
    catalog.create_namespace("sales")
    catalog.create_table("sales.orders", orders.ORDERS.schema).append(orders.ORDERS)
    pointer = catalog.load_table("sales.orders").metadata_location
    catalog.close()
    assert rows(session, "select count(*) from gold.orders") == [("3",)]
    lake.adopt(pointer, name="sales.orders")
    assert rows(session, "select count(*) from sales.orders s join gold.orders o on s.id = o.id") == [("3",)]


def test_an_error_of_duckdb_itself_does_not_end_the_service(backend: LakeBackend, session: Session) -> None:
    first = backend.engine_for([])
    (statement,) = session.read("select id from gold.orders, generate_series(1, 100000)")
    answer = session.run(statement, [], [])
    batches = answer.batches()
    next(batches)
    first.broken = True
    assert rows(session, "select count(*) from gold.orders") == [("3",)]
    assert backend.engine_for([]) is not first
    assert sum(batch.num_rows for batch in batches) > 200_000, "what runs there goes on"


def test_a_copy_of_a_table_is_a_query(session: Session) -> None:
    (statement,) = session.read("copy gold.customers (country, name) to stdout")
    answer = session.run(statement.all[-1], [], [])
    assert [batch.to_pydict() for batch in answer.batches()] == [{"country": ["AT", "BE"], "name": ["ann", "bob"]}]


def test_all_types_of_the_lake_come_as_mere_sql_reads_them(session: Session, lake: Lake) -> None:
    same_as_mere_sql(session, lake, "select id, customer from gold.orders")
    same_as_mere_sql(session, lake, "select customer, count(*) from gold.orders group by customer")


def test_settings_are_shown_and_set(session: Session) -> None:
    assert rows(session, "show TimeZone") == [("UTC",)]
    session.set("timezone", "Europe/Vienna", False)
    assert rows(session, "select timestamptz '2020-01-01 12:00:00+00', current_setting('TimeZone')") == [
        ("2020-01-01 13:00:00+01", "Europe/Vienna")
    ]
    assert rows(session, "select date_trunc('day', timestamptz '2020-01-01 23:30:00+00')") == [
        ("2020-01-02 00:00:00+01",)
    ]
    assert rows(session, "select set_config('application_name', 'me', false)") == [("me",)]
    assert session.settings["application_name"] == "me"
    session.begin()
    session.set("application_name", "only now", True)
    assert rows(session, "show application_name") == [("only now",)]
    session.end()
    session.set(None, None, False)
    assert rows(session, "show application_name") == [("",)]
    assert len(rows(session, "show all")) > 20
    assert "PROJECTION" in "".join(line or "" for (line,) in rows(session, "explain select id + 1 from gold.orders"))


def test_a_statement_is_compiled_once_for_a_commit_and_for_those_with_the_same_rights(lake: Lake) -> None:
    role = {"limited": {"tables": "*", "rows": {"gold.orders": "customer = current_user"}}}
    backend = LakeBackend(lake, declared(role, {"ann": "limited", "bob": "limited"}))
    ann, bob = backend.connect("ann", "main", {}), backend.connect("bob", "main", {})
    sql = "select count(*) from gold.orders where id < $1"
    for _ in range(3):
        assert rows(ann, sql, [9], [20]) == [("2",)]
        assert rows(bob, sql, [9], [20]) == [("1",)]
        assert rows(bob, sql, [1], [23]) == [("0",)]
        assert rows(ann, "select current_user, mere_commit() = $1", [lake.at().commit.id], [25]) == [("ann", "t")]
        assert rows(bob, "select current_user", [], []) == [("bob",)]
    orders.write(lake, "gold.orders", pa.table({"id": [4], "customer": ["bob"], "amount": [1.0]}))
    assert rows(bob, sql, [9], [20]) == [("2",)]
    bob.set("search_path", "gold", False)
    assert rows(bob, "select count(*) from orders") == [("2",)]
    bob.set("search_path", "silver", False)
    assert failure(bob, "select count(*) from orders").sqlstate == "42P01"
    backend.close()


def test_a_lake_on_s3_is_read_and_nothing_beside_it(
    s3_server: S3Server, s3_bucket: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with place(S3, tmp_path, request).create() as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        iceberg_tables.create(lake, "gold.cut", spec=iceberg_tables.BY_NAME_AND_DAY)
        iceberg_tables.append(lake, "gold.cut", 1, 2)
        backend = LakeBackend(lake)
        session = backend.connect("ann", "main", {})
        assert rows(session, "select count(*), sum(amount) from gold.orders") == [("3", "30")]
        assert rows(session, "select id from gold.cut where name = 'plain'") == [("2",)]
        with backend.engine_for([]).cursor() as cursor, pytest.raises(duckdb.Error, match="disabled"):
            cursor.execute(f"from read_text('{s3_bucket}/other/x.txt')")
        backend.close()
