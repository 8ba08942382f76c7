"""`mere sql` over real tables: results, names, kinds of statements."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mere.errors import QueryError
from mere.lake.lake import Lake
from mere.lake.query import Column, Limits, query
from tests.lake import iceberg_tables, orders
from tests.lake.orders import CUSTOMERS, ONE_MORE, failure, point, rows, write


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with orders.create(tmp_path) as lake:
        yield lake


# Results


def test_a_result_has_columns_rows_and_the_commit_that_was_read(lake: Lake) -> None:
    result = query(lake, "select customer, sum(amount) as total from gold.orders group by customer order by customer")
    assert result.columns == (Column("customer", "VARCHAR"), Column("total", "DOUBLE"))
    assert list(result.rows()) == [("ann", 10.0), ("bob", 20.0)]
    assert result.commit == lake.at("main").commit


def test_a_result_comes_as_arrow_batches_too(lake: Lake) -> None:
    batches = list(query(lake, "select id from gold.orders order by id").batches(size=2))
    assert pa.Table.from_batches(batches).to_pydict() == {"id": [1, 2, 3]}


def test_a_result_is_read_as_often_as_wanted(lake: Lake) -> None:
    result = query(lake, "select id from gold.orders order by id")
    write(lake, "gold.orders", ONE_MORE)
    for _ in range(2):  # at the same commit, whatever was written meanwhile
        assert list(result) == [(1,), (2,), (3,)]
        assert result.arrow().column("id").to_pylist() == [1, 2, 3]
        assert [batch.num_rows for batch in result.batches()] == [3]
        assert list(result.df()["id"]) == [1, 2, 3]


def test_of_two_readings_only_the_later_goes_on(lake: Lake) -> None:
    result = query(lake, "from range(10_000)")
    first, second = result.rows(size=2), result.rows(size=2)
    assert next(first) == (0,)
    assert next(second) == (0,)
    assert next(second) == (1,)
    assert next(first) == (1,)  # which it has already
    with pytest.raises(QueryError, match="was read again"):
        next(first)
    assert next(second) == (2,)


def test_a_closed_result_says_so(lake: Lake) -> None:
    with query(lake, "select 1") as result:
        pass
    with pytest.raises(QueryError, match="was closed"):
        result.arrow()


def test_what_a_copy_has_written_is_not_written_again(lake: Lake, tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    result = query(lake, f"copy gold.orders to '{target}'")
    target.unlink()
    assert "3" in result._repr_html_()
    with pytest.raises(QueryError, match="it would write again"):
        result.arrow()
    assert not target.exists()


def test_a_notebook_shows_the_first_rows_and_reads_them_once(lake: Lake) -> None:
    result = query(lake, "select range as n, '<b>' || range as text, null as nothing from range(1_000_000)")
    shown = result._repr_html_()
    assert shown == result._repr_html_()
    assert ">19</td>" in shown
    assert ">20</td>" not in shown
    assert "&lt;b&gt;0" in shown
    assert "the first 20 rows; there are more" in shown
    assert len(shown) < 6000
    assert result.arrow().num_rows == 1_000_000
    assert "no rows" in query(lake, "select 1 as one where false")._repr_html_()


def test_a_result_is_streamed(lake: Lake) -> None:
    with query(lake, "select o.id, r from gold.orders o, range(1_000_000_000_000) t(r)") as result:
        first = next(result.rows())
    assert first[1] == 0
    with query(lake, "from range(1_000_000_000_000)") as result:
        assert next(result.batches(size=100)).num_rows == 100


def test_the_first_rows_are_chosen_before_they_are_joined(lake: Lake) -> None:
    first = "select id from gold.orders order by id limit 2"
    for _ in range(20):  # DuckDB by itself gives id 3, too, most of the time
        joined = query(lake, f"select id from ({first}) where id in (select id from gold.orders where id > 1)")
        assert list(joined.rows()) == [(2,)]


def test_a_table_whose_partition_column_was_dropped_can_be_read_and_compared(lake: Lake) -> None:
    """DuckDB by itself ends the whole process."""
    iceberg_tables.create(lake, "gold.cut", spec=iceberg_tables.BY_NAME_AND_DAY)
    iceberg_tables.append(lake, "gold.cut", 1, 2)
    table = lake.pyiceberg("main").load_table("gold.cut")
    with table.update_spec() as spec:
        spec.remove_field("name")
    with table.update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column("name")
    assert list(query(lake, "select id from gold.cut order by id").rows()) == [(1,), (2,)]
    before = lake.at("main").commit
    table.append(iceberg_tables.rows_of(3).drop(["name"]))
    (found,) = lake.diff(before.id, "main").rows(key=["id"])
    assert (found.added, found.read) == (1, "all files: files are partitioned by a column that was dropped")


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
    write(lake, "gold.orders", ONE_MORE, "dev")
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
    write(lake, "gold.orders", ONE_MORE, ref)
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
    assert len(rows(lake, "describe gold.orders")) == 3


def test_a_query_stays_at_the_commit_where_it_began(lake: Lake) -> None:
    with query(lake, "select o.id from gold.orders o, range(100_000)") as result:
        taken = result.rows(size=1)
        next(taken)
        write(lake, "gold.orders", ONE_MORE)
        assert max(id_ for (id_,) in taken) == 3
    assert rows(lake, "select max(id) from gold.orders") == [(4,)]


# Kinds of statements


def test_what_there_is_can_be_listed(lake: Lake) -> None:
    write(lake, "silver.raw", CUSTOMERS)
    shown = query(lake, "SHOW TABLES;")
    assert [column.name for column in shown.columns] == ["schema", "name", "kind"]
    assert list(shown) == [("gold", "customers", "table"), ("gold", "orders", "table"), ("silver", "raw", "table")]
    listed = "select table_schema || '.' || table_name from information_schema.tables order by 1"
    own = [f"mere.{name}" for name in ("audits", "changes", "commits", "quarantine", "runs")]
    assert [name for (name,) in rows(lake, listed)] == ["gold.customers", "gold.orders", *own, "silver.raw"]
    columns = "select column_name, data_type from information_schema.columns where table_name = 'orders' order by 1"
    assert rows(lake, columns) == [("amount", "DOUBLE"), ("customer", "VARCHAR"), ("id", "BIGINT")]
    assert len(rows(lake, "show all tables")) == 3 + len(own)
    assert rows(lake, "show tables from gold") == [("customers",), ("orders",)]
    assert rows(lake, "select count(*) from gold.orders, information_schema.tables") == [(3 * (3 + len(own)),)]


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
    roundabout = "copy (select 1 a) to '{}/out' (format csv, per_thread_output, filename_pattern '../link/x')"
    assert "write outside of the folder" in failure(lake, roundabout.format(tmp_path))
    assert rows(lake, "select count(*) from gold.orders") == [(3,)]
