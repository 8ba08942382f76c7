"""`mere sql` over real tables: names, kinds of statements, types, errors, damage."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform

from mere.errors import MereError, MetadataMissing, QueryError, RefNotFound
from mere.lake.lake import Lake
from mere.lake.query import Column, Limits, query

ORDERS = pa.table({"id": [1, 2, 3], "customer": ["ann", "bob", "ann"], "amount": [10.0, 20.0, None]})
CUSTOMERS = pa.table({"name": ["ann", "bob"], "country": ["AT", "BE"]})


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """`gold.orders` and `gold.customers` on main, in a folder whose name wants quoting."""
    with Lake.create(tmp_path / 'it\'s [1] "läke" of mine') as lake:
        write(lake, "gold.orders", ORDERS)
        write(lake, "gold.customers", CUSTOMERS)
        yield lake


def write(lake: Lake, table: str, rows: pa.Table, ref: str = "main") -> None:
    catalog = lake.pyiceberg(ref)
    catalog.create_namespace_if_not_exists(table.rpartition(".")[0])
    catalog.create_table_if_not_exists(table, rows.schema).append(rows)


def point(lake: Lake, namespace: str, name: str, pointer: str) -> None:
    """A row of the catalog as Spark would write it: PyIceberg has no schemas in schemas."""
    with contextlib.closing(sqlite3.connect(lake.root / "catalog.db")) as database, database:
        database.execute(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type, metadata_location)"
            " VALUES ('main', ?, ?, 'TABLE', ?)",
            (namespace, name, pointer),
        )


def rows(lake: Lake, sql: str, at: str = "main") -> list[tuple[Any, ...]]:
    return list(query(lake, sql, at))


def failure(lake: Lake, sql: str, at: str = "main") -> str:
    with pytest.raises(MereError) as caught:
        rows(lake, sql, at)
    return str(caught.value)


# Results


def test_a_result_has_columns_rows_and_the_commit_that_was_read(lake: Lake) -> None:
    result = query(lake, "select customer, sum(amount) as total from gold.orders group by customer order by customer")
    assert result.columns == (Column("customer", "VARCHAR"), Column("total", "DOUBLE"))
    assert list(result.rows()) == [("ann", 10.0), ("bob", 20.0)]
    assert result.commit == lake.at("main").commit


def test_a_result_comes_as_arrow_batches_too(lake: Lake) -> None:
    batches = list(query(lake, "select id from gold.orders order by id").fetch_batches(size=2))
    assert pa.Table.from_batches(batches).to_pydict() == {"id": [1, 2, 3]}


def test_a_result_is_streamed(lake: Lake) -> None:
    with query(lake, "select o.id, r from gold.orders o, range(1_000_000_000_000) t(r)") as result:
        first = next(result.rows())
    assert first[1] == 0
    with query(lake, "from range(1_000_000_000_000)") as result:
        assert next(result.fetch_batches(size=100)).num_rows == 100


def test_a_result_that_is_not_read_to_its_end_does_not_disturb_the_end_of_python(lake: Lake) -> None:
    code = (
        "import sys; from mere.lake.lake import Lake; from mere.lake.query import query\n"
        "result = query(Lake.open(sys.argv[1]), 'select * from gold.orders, range(1_000_000_000)')\n"
        "print(next(result.rows())[0] > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, lake.root], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("True\n", "", 0)


def test_a_count_imports_nothing_heavy_but_duckdb(lake: Lake) -> None:
    code = (
        "import sys; from mere.lake.lake import Lake; from mere.lake.query import query\n"
        "rows = list(query(Lake.open(sys.argv[1]), 'select count(*) from gold.orders'))\n"
        "heavy = {'pyspark', 'pyiceberg', 'pyarrow', 'sqlalchemy', 'sqlglot', 'pandas', 'numpy'}\n"
        "print(rows, heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, lake.root], capture_output=True, text=True, check=True)
    assert done.stdout == "[(3,)] set()\n"


def test_limits_reach_duckdb(lake: Lake) -> None:
    settings = "select current_setting('threads'), current_setting('memory_limit')"
    assert list(query(lake, settings, limits=Limits(memory="1GB", threads=1))) == [(1, "953.6 MiB")]
    with pytest.raises(QueryError, match="Memory must have a number"):
        query(lake, "select 1", limits=Limits(memory="much"))


# Names


@pytest.mark.parametrize(
    "name",
    ["gold.orders", "GOLD.Orders", 'gold."orders"', "main.gold.orders", "Main.Gold.ORDERS", '"main"."gold"."orders"',
     "main /* why not */ . gold\n.orders", '"main~0".gold.orders', '"main@0s".gold.orders'],
)  # fmt: skip
def test_a_table_is_found_by_two_parts_or_by_three_with_a_ref(lake: Lake, name: str) -> None:
    assert rows(lake, f"select count(*) from {name}") == [(3,)]


def test_columns_may_carry_the_full_name_of_their_table(lake: Lake) -> None:
    assert rows(lake, "select main.gold.orders.id from main.gold.orders order by main.gold.orders.id limit 1") == [(1,)]
    assert rows(lake, "select gold.orders.id, orders.id from gold.orders where gold.orders.id = 2") == [(2, 2)]


def test_refs_stand_beside_each_other(lake: Lake) -> None:
    lake.branch("dev")
    lake.tag("v1")
    write(lake, "gold.orders", pa.table({"id": [4], "customer": ["cy"], "amount": [1.0]}), "dev")
    counts = [f"(select count(*) from {name})" for name in ("gold.orders", "dev.gold.orders", "v1.gold.orders")]
    three = f"select {', '.join(counts)}"
    assert rows(lake, three) == [(3, 4, 3)]
    assert rows(lake, three, at="dev") == [(4, 4, 3)]
    added = 'select id from dev.gold.orders except select id from "dev~1".gold.orders'
    assert rows(lake, added, at="v1") == [(4,)]
    commit = lake.at("dev~1").commit
    assert rows(lake, f'select count(*) from "{commit.id}".gold.orders') == [(3,)]


@pytest.mark.parametrize("ref", ["temp", "memory", "gold", "information_schema", "pg_catalog", "select", "a-b"])
def test_a_ref_may_have_a_name_that_duckdb_uses_itself(lake: Lake, ref: str) -> None:
    lake.branch(ref)
    write(lake, "gold.orders", pa.table({"id": [4], "customer": ["cy"], "amount": [1.0]}), ref)
    assert rows(lake, f'select count(*), (select count(*) from gold.orders) from "{ref}".gold.orders') == [(4, 3)]
    assert rows(lake, "select count(*) from gold.orders", at=ref) == [(4,)]


def test_schemas_tables_and_columns_may_have_any_name(lake: Lake) -> None:
    odd = pa.table({"select": [1], "a b": [2], "c.d": [3], 'e"f': [4], "ü": [5], "'": [6]})
    catalog = lake.pyiceberg()
    catalog.create_namespace("my schema")
    catalog.create_table(("my schema", 'or\'der "x" ä'), odd.schema).append(odd)
    found = query(lake, 'select * from "my schema"."or\'der ""x"" ä"')
    assert [column.name for column in found.columns] == odd.column_names
    assert list(found) == [(1, 2, 3, 4, 5, 6)]
    assert rows(lake, 'select "c.d", "e""f", ü from main."my schema"."or\'der ""x"" ä" where "a b" = 2') == [(3, 4, 5)]


def test_a_schema_may_lie_in_another(lake: Lake) -> None:
    point(lake, "eu.gold", "orders", lake.at().pointer("gold.orders"))
    assert rows(lake, "select count(*) from eu.gold.orders") == [(3,)]
    assert rows(lake, "select max(eu.gold.orders.id) from eu.gold.orders") == [(3,)]
    assert rows(lake, 'select count(*) from main."eu.gold".orders') == [(3,)]
    assert 'main."eu.gold".orders' in failure(lake, "select * from main.eu.gold.orders")


def test_tables_that_differ_in_case_are_told_apart_where_that_is_possible(lake: Lake) -> None:
    write(lake, "gold.Orders", CUSTOMERS)
    assert rows(lake, "select count(*) from gold.orders") == [(3,)]
    assert rows(lake, "select count(*) from gold.Orders") == [(2,)]
    assert "differ only in case" in failure(lake, "select * from gold.ORDERS")
    assert "two queries" in failure(lake, "select * from gold.orders, gold.Orders")


def test_names_of_the_query_itself_come_before_tables(lake: Lake) -> None:
    assert rows(lake, "with orders as (select 7 as id) select id from orders") == [(7,)]
    assert rows(lake, "select orders.gold.id from (select {'id': 8} as gold) as orders") == [(8,)]
    assert rows(lake, "select 'gold.nothing' -- gold.nothing") == [("gold.nothing",)]


def test_variables_of_the_caller_are_not_tables(lake: Lake) -> None:
    secret = pa.table({"a": [1]})
    assert secret.num_rows == 1
    assert "There is no table secret on main" in failure(lake, "select * from secret")


def test_only_the_tables_that_are_named_are_touched(lake: Lake) -> None:
    Path(lake.at().pointer("gold.customers")).unlink()
    assert rows(lake, "select count(*) from gold.orders") == [(3,)]


def test_a_query_stays_at_the_commit_where_it_began(lake: Lake) -> None:
    with query(lake, "select o.id from gold.orders o, range(100_000)") as result:
        taken = result.rows(size=1)
        next(taken)
        write(lake, "gold.orders", pa.table({"id": [4], "customer": ["cy"], "amount": [1.0]}))
        assert max(id_ for (id_,) in taken) == 3
    assert rows(lake, "select max(id) from gold.orders") == [(4,)]


# Kinds of statements


def test_what_there_is_can_be_listed(lake: Lake) -> None:
    write(lake, "silver.raw", CUSTOMERS)
    shown = query(lake, "SHOW TABLES;")
    assert [column.name for column in shown.columns] == ["schema", "name", "kind"]
    assert list(shown) == [("gold", "customers", "table"), ("gold", "orders", "table"), ("silver", "raw", "table")]
    listed = "select table_schema || '.' || table_name from information_schema.tables order by 1"
    assert rows(lake, listed) == [("gold.customers",), ("gold.orders",), ("silver.raw",)]
    columns = "select column_name, data_type from information_schema.columns where table_name = 'orders' order by 1"
    assert rows(lake, columns) == [("amount", "DOUBLE"), ("customer", "VARCHAR"), ("id", "BIGINT")]
    assert len(rows(lake, "show all tables")) == 3
    assert rows(lake, "select count(*) from gold.orders, information_schema.tables") == [(9,)]


def test_an_empty_lake_shows_no_tables(tmp_path: Path) -> None:
    with Lake.create(tmp_path / "new") as empty:
        assert rows(empty, "show tables") == []
        assert rows(empty, "select 1 + 1") == [(2,)]


@pytest.mark.parametrize("verb", ["describe", "desc", "describe table", "show"])
def test_a_table_can_be_described(lake: Lake, verb: str) -> None:
    assert [row[:2] for row in rows(lake, f"{verb} gold.orders")] == [
        ("id", "BIGINT"),
        ("customer", "VARCHAR"),
        ("amount", "DOUBLE"),
    ]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("from gold.orders select id where id > 2", [(3,)]),
        ("table gold.customers", [("ann", "AT"), ("bob", "BE")]),
        ("values (1), (2)", [(1,), (2,)]),
        ("with c as (from gold.customers) select count(*) from c", [(2,)]),
        ("select id from gold.orders union all select 9 order by 1 desc limit 1", [(9,)]),
        (
            "select name from gold.customers where exists (from gold.orders where customer = name and id = 2)",
            [("bob",)],
        ),
        ("select count(*) from gold.orders o join gold.customers c on o.customer = c.name", [(3,)]),
        ("pivot gold.orders on customer using count(*) group by id order by id", [(1, 1, 0), (2, 0, 1), (3, 1, 0)]),
        ("select {'a': 1}.a, [x + 1 for x in [1]], current_date > date '2020-01-01'", [(1, [2], True)]),
        ("summarize select id from gold.orders", [("id", "BIGINT", "1", "3")]),
        ("explain select * from gold.orders", [("physical_plan",)]),
        ("explain analyze select * from gold.orders", [("analyzed_plan",)]),
        ("explain (format json) select * from gold.orders", [("physical_plan",)]),
        ("select current_setting('TimeZone')", [("UTC",)]),
    ],
)
def test_all_that_reads_is_run(lake: Lake, sql: str, expected: list[tuple[Any, ...]]) -> None:
    found = rows(lake, sql)
    assert [row[: len(wanted)] for row, wanted in zip(found, expected, strict=True)] == expected


@pytest.mark.parametrize(
    "sql",
    ["insert into gold.orders values (4, 'x', 1)", "update gold.orders set id = 1", "delete from gold.orders",
     "truncate gold.orders", "drop table gold.orders", "create table gold.new as select 1", "create view v as select 1",
     "alter table gold.orders add column x int",
     "merge into gold.orders using gold.customers on true when matched then delete",
     "copy gold.orders from 'x.csv'", "attach 'x.db'", "use dev", "set threads = 1", "install httpfs", "load httpfs",
     "export database 'x'", "begin", "vacuum", "checkpoint", "pragma memory_limit = '1GB'", "call pragma_version()",
     "explain analyze create table t as select 1", "explain insert into gold.orders values (4, 'x', 1)",
     "explain (format json) drop table gold.orders", "copy (select 1) to ('a' || 'b')", "copy from database a to b"],
)  # fmt: skip
def test_all_else_is_refused(lake: Lake, sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert failure(lake, sql).startswith("mere sql only reads; it does not run")
    assert sorted(tmp_path.rglob("*")) == before


def test_one_statement_is_run_at_a_time(lake: Lake) -> None:
    assert rows(lake, "select ';' ; ; ") == [(";",)]
    assert "one statement at a time" in failure(lake, "select 1; drop table gold.orders")
    for nothing in ("", " ; ", "-- only a comment"):
        assert "There is no query" in failure(lake, nothing)


def test_copy_writes_files_of_the_user(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert rows(lake, "copy (select id from gold.orders order by id) to 'it''s.csv'") == [(3,)]
    assert (tmp_path / "it's.csv").read_text() == "id\n1\n2\n3\n"
    assert rows(lake, f"copy main.gold.customers to '{tmp_path}/c.parquet' (format parquet)") == [(2,)]
    assert rows(lake, "select count(*) from 'c.parquet' join gold.customers using (name)") == [(2,)]


def test_copy_never_writes_where_the_lake_is(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lake.root)
    (tmp_path / "link").symlink_to(lake.root)
    pointer = lake.at().pointer("gold.orders")
    inside = [
        pointer,
        f"file://{pointer}",
        "new.csv",
        "./warehouse/x.csv",
        f"{tmp_path}/link/x.csv",
        f"{tmp_path}/a/../link/x",
    ]
    above = [str(tmp_path), "..", "/"]
    for target in inside + above:
        for form in ("copy gold.orders to '{}'", "copy (select 1 a) to '{}' (format csv, partition_by (a), overwrite)"):
            sql = form.format(target.replace("'", "''"))
            assert "the lake is there" in failure(lake, sql), target
            assert "the lake is there" in failure(lake, f"explain analyze {sql}"), target
    assert rows(lake, "select count(*) from gold.orders") == [(3,)]


# Errors


def test_an_unknown_table_gets_near_matches_and_a_hint(lake: Lake) -> None:
    message = failure(lake, "select *\nfrom gold.oders")
    assert message == (
        "There is no table gold.oders on main. Did you mean gold.orders?\n"
        "line 2: from gold.oders\n"
        "             ^\n"
        "See: mere tables --at main"
    )
    lake.branch("dev")
    assert "There is no table gold.oders on dev. Did you mean gold.orders?" in failure(lake, "from dev.gold.oders")
    assert "no table old.orders on dev. Did you mean gold.orders?" in failure(lake, "from old.orders", at="dev")
    assert "Did you mean gold.orders?" in failure(lake, "select * from orders")
    assert "is named in a string" in failure(lake, "from query_table('gold.orders')")


def test_an_unknown_ref_is_named(lake: Lake) -> None:
    lake.branch("dev")
    with pytest.raises(RefNotFound, match="Did you mean dev"):
        query(lake, "select * from dve.gold.orders")
    with pytest.raises(RefNotFound, match="does not go 99 commits back"):
        query(lake, 'select * from "main~99".gold.orders')
    with pytest.raises(RefNotFound):
        query(lake, "select 1", at="nowhere")


def test_an_unknown_column_is_one_sentence_with_its_place(lake: Lake) -> None:
    assert failure(lake, "select custmer from gold.orders") == (
        'Referenced column "custmer" not found in FROM clause. Candidate bindings: "customer", "amount".\n'
        "line 1: select custmer from gold.orders\n"
        "               ^"
    )


def test_the_place_of_an_error_is_that_in_the_query_as_it_was_written(lake: Lake) -> None:
    sql = "select 'ä', main.gold.orders.id\nfrom main.gold.orders join \"main~0\".gold.customers on nope = 1"
    assert failure(lake, sql).splitlines()[1:] == [
        'line 2: from main.gold.orders join "main~0".gold.customers on nope = 1',
        "                                                              ^",
    ]


def test_a_syntax_error_shows_where(lake: Lake) -> None:
    assert failure(lake, "select 1,\n  from where") == (
        'Syntax error at or near "where".\nline 2:   from where\n               ^'
    )
    long = f"select {', '.join(map(str, range(100)))} frm gold.orders"
    shown = failure(lake, long).splitlines()
    assert len(shown[1]) < 120
    assert shown[1][shown[2].index("^") :].startswith("gold.orders")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select 'x'::int", "Could not convert string 'x' to INT32."),
        (
            "select sum(customer) from gold.orders",
            "No function matches the given name and argument types 'sum(VARCHAR)'.",
        ),
        ("select nofunction(1)", "Scalar Function with name nofunction does not exist."),
        ("select o.x from gold.orders o", 'Table "o" does not have a column named "x".'),
        ("select * from read_csv('nope.csv')", 'No files found that match the pattern "nope.csv".'),
        ("select $a", "Values were not provided for the following prepared statement parameters: a."),
    ],
)
def test_other_errors_are_sentences_without_noise(lake: Lake, sql: str, message: str) -> None:
    found = failure(lake, sql)
    assert found.startswith(message)
    assert not {"Error:", "@main", "{", "INSTALL", "\t"} & set(found.replace("(", " ").split())


def test_nothing_is_fetched_from_the_network(lake: Lake) -> None:
    assert "httpfs" in failure(lake, "from read_parquet('s3://bucket/file')")
    settings = "current_setting('autoinstall_known_extensions'), current_setting('autoload_known_extensions')"
    assert rows(lake, f"select {settings}") == [(False, False)]


# Damage


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def scramble(path: Path) -> None:
    path.write_bytes(bytes(byte ^ 0x5A for byte in path.read_bytes()))


def empty(path: Path) -> None:
    path.write_bytes(b"")


HARMS: dict[str, Callable[[Path], None]] = {
    "gone": Path.unlink,
    "cut": cut,
    "empty": lambda path: (path.write_bytes(b"") and None) or None,
    "scrambled": scramble,
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize(
    "which", ["metadata/*.metadata.json", "metadata/snap-*.avro", "metadata/*-m0.avro", "data/*.parquet"]
)
def test_a_damaged_file_is_named_with_its_table(lake: Lake, which: str, harm: str) -> None:
    """DuckDB ends the process when a manifest cannot be read: mere looks first."""
    write(lake, "gold.orders", ORDERS)
    folder = Path(lake.at().pointer("gold.orders")).parent.parent
    harmed = sorted(folder.glob(which))
    assert harmed
    for path in harmed:
        HARMS[harm](path)
    with Lake.open(lake.root) as again, pytest.raises(MereError) as caught:
        rows(again, "select o.* from main.gold.orders o join gold.customers on o.customer = name")
    assert "gold.orders cannot be read: " in caught.value.message
    assert any(str(path) in caught.value.message for path in harmed)
    assert isinstance(caught.value, MetadataMissing if harm == "gone" else QueryError)
    assert caught.value.remedy


@pytest.mark.parametrize("content", ["[]", "{}", "null", '"text"', '{"format-version": 2, "location": "x"}'])
def test_metadata_that_is_something_else_is_damage(lake: Lake, content: str) -> None:
    pointer = Path(lake.at().pointer("gold.orders"))
    pointer.write_text(content)
    with Lake.open(lake.root) as again:
        assert f"{pointer} is not Iceberg metadata" in failure(again, "select * from gold.orders")


def test_a_manifest_that_lost_its_last_block_is_damage(lake: Lake) -> None:
    """It can still be read; only rows would be missing."""
    (manifest,) = Path(lake.at().pointer("gold.orders")).parent.glob("*-m0.avro")
    content = manifest.read_bytes()
    sync = content[-16:]
    manifest.write_bytes(content[: content.index(sync) + 16])
    assert "bytes instead of" in failure(lake, "select * from gold.orders")


# Types and the life of a table


def test_every_type_comes_back_as_it_was_written(lake: Lake) -> None:
    id_ = uuid.UUID("12345678-1234-5678-1234-567812345678")
    moment = dt.datetime(2026, 11, 15, 9, 30, 1, 123456)
    values: dict[str, tuple[pa.DataType, Any]] = {
        "boolean": (pa.bool_(), True),
        "int": (pa.int32(), -(2**31)),
        "long": (pa.int64(), 2**63 - 1),
        "float": (pa.float32(), 0.5),
        "double": (pa.float64(), -math.inf),
        "decimal": (pa.decimal128(38, 10), Decimal("-1234567890123456789012345678.0123456789")),
        "date": (pa.date32(), dt.date(1, 1, 1)),
        "time": (pa.time64("us"), dt.time(23, 59, 59, 999999)),
        "timestamp": (pa.timestamp("us"), moment),
        "timestamptz": (pa.timestamp("us", "UTC"), moment.replace(tzinfo=dt.UTC)),
        "string": (pa.string(), "it's “ü”\n\0"),
        "uuid": (pa.uuid(), id_),
        "fixed": (pa.binary(3), b"\0\xffa"),
        "binary": (pa.binary(), b"\0\xff'"),
        "list": (pa.list_(pa.int32()), [1, None]),
        "map": (pa.map_(pa.string(), pa.int64()), {"k": 1, "": None}),
        "struct": (pa.struct([("a", pa.int64()), ("b c", pa.list_(pa.string()))]), {"a": None, "b c": ["x"]}),
    }
    schema = pa.schema([(name, type_) for name, (type_, _) in values.items()])
    arrays = [
        pa.array([list(value.items()) if name == "map" else value, None], type_)
        for name, (type_, value) in values.items()
    ]
    write(lake, "gold.types", pa.Table.from_arrays(arrays, schema=schema))
    found, empty = rows(lake, "select * from gold.types order by int nulls last")
    assert dict(zip(values, found, strict=True)) == {name: value for name, (_, value) in values.items()}
    assert empty == (None,) * len(values)
    assert [column.type for column in query(lake, "from gold.types").columns][-5:] == [
        "BLOB",
        "BLOB",
        "INTEGER[]",
        "MAP(VARCHAR, BIGINT)",
        'STRUCT(a BIGINT, "b c" VARCHAR[])',
    ]


def test_nan_is_a_number_and_not_null(lake: Lake) -> None:
    write(lake, "gold.nan", pa.table({"x": [math.nan, 1.0, None]}))
    assert rows(lake, "select count(x), count(*) from gold.nan") == [(2, 3)]
    assert rows(lake, "select x from gold.nan where isnan(x)")[0][0] != 0


def test_a_table_that_was_never_written_is_empty_and_has_its_columns(lake: Lake) -> None:
    nested = pa.schema(
        [("a", pa.int64()), ("s", pa.struct([("x y", pa.decimal128(5, 2))])), ("m", pa.map_(pa.string(), pa.date32()))]
    )
    lake.pyiceberg().create_table("gold.empty", nested)
    found = query(lake, "select * from gold.empty")
    assert [(column.name, column.type) for column in found.columns] == [
        ("a", "BIGINT"),
        ("s", 'STRUCT("x y" DECIMAL(5,2))'),
        ("m", "MAP(VARCHAR, DATE)"),
    ]
    assert list(found) == []
    assert rows(lake, "select count(*), max(a) from gold.empty") == [(0, None)]


def test_columns_and_partitions_may_change_over_a_tables_life(lake: Lake) -> None:
    schema = Schema(
        iceberg.NestedField(1, "id", iceberg.IntegerType()),
        iceberg.NestedField(2, "old", iceberg.StringType()),
        iceberg.NestedField(3, "gone", iceberg.StringType()),
        iceberg.NestedField(4, "at", iceberg.TimestampType()),
    )
    by_time = PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "at"))
    table = lake.pyiceberg().create_table("gold.evolved", schema, partition_spec=by_time)
    days = [dt.datetime(2026, 11, day) for day in (1, 2, 3)]
    table.append(pa.table({"id": [1, 2, 3], "old": ["a", "b", None], "gone": ["x"] * 3, "at": days}, schema.as_arrow()))
    with table.update_schema() as update:
        update.rename_column("old", "new")
        update.delete_column("gone")
        update.update_column("id", iceberg.LongType())
    with table.update_schema() as update:
        update.add_column("gone", iceberg.LongType())  # a new column that only has the name of an old one
        update.move_first("gone")
    with table.update_spec() as spec:
        spec.add_identity("new")
        spec.remove_field("at")
    table.append(pa.table({"gone": [7], "id": [2**40], "new": ["c"], "at": days[:1]}, table.schema().as_arrow()))
    assert rows(lake, "select * from gold.evolved order by id") == [
        (None, 1, "a", days[0]),
        (None, 2, "b", days[1]),
        (None, 3, None, days[2]),
        (7, 2**40, "c", days[0]),
    ]
    assert rows(lake, "select id from gold.evolved where id > 3") == [(2**40,)]
    assert rows(lake, "select count(*) from gold.evolved where at = timestamp '2026-11-01'") == [(2,)]
    assert rows(lake, "select count(*) from gold.evolved where gone is null and new <> 'a'") == [(1,)]
    assert rows(lake, 'select old, gone from "main~4".gold.evolved where id = 1') == [("a", "x")]


def test_deleted_rows_are_gone(lake: Lake) -> None:
    lake.pyiceberg().load_table("gold.orders").delete("id = 2")
    assert rows(lake, "select id from gold.orders order by id") == [(1,), (3,)]
    assert rows(lake, "select count(*) from gold.orders") == [(2,)]
