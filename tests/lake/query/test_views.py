"""Views in `mere sql`: how their names are looked up, and what is refused. Their values: see test_query_spark."""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import StringType

from mere.errors import QueryError
from mere.lake.lake import Lake
from mere.lake.query import query
from tests.lake import orders
from tests.lake.orders import ONE_MORE, failure, rows, write


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with orders.create(tmp_path) as lake:
        yield lake


def view(
    lake: Lake, name: str, sql: str, /, ref: str = "main", dialects: tuple[str, ...] = ("spark",), **columns: str
) -> None:
    """A view as Spark would leave it, made in a session whose current schema is gold."""
    namespace, _, table = name.rpartition(".")
    fields = [{"id": n, "name": c, "required": False, "type": t} for n, (c, t) in enumerate(columns.items())]
    version: dict[str, Any] = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 0,
        "summary": {},
        "default-namespace": ["gold"],
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect} for dialect in dialects],
    }
    if ref != "main":
        version["default-catalog"] = ref
    folder = Path(lake.warehouse, namespace, f"{table}-{uuid.uuid4().hex}")
    metadata = {
        "view-uuid": str(uuid.uuid4()),
        "format-version": 1,
        "location": str(folder),
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-version-id": 1,
        "versions": [version],
        "version-log": [],
    }
    pointer = folder / "metadata" / "00000.gz.metadata.json"
    pointer.parent.mkdir(parents=True)
    pointer.write_bytes(gzip.compress(json.dumps(metadata).encode()))
    orders.point(lake, namespace, table, str(pointer), "VIEW", ref)


def test_a_view_has_the_names_and_types_of_its_metadata(lake: Lake) -> None:
    view(
        lake,
        "gold.totals",
        "select customer, sum(amount), count(*) from orders group by 1",
        who="string",
        sum="double",
        n="int",
    )
    found = query(lake, "select * from gold.totals order by who")
    assert [(column.name, column.type) for column in found.columns] == [
        ("who", "VARCHAR"),
        ("sum", "DOUBLE"),
        ("n", "INTEGER"),
    ]
    assert list(found) == [("ann", 10.0, 2), ("bob", 20.0, 1)]
    assert [row[:2] for row in rows(lake, "describe gold.totals")] == [
        ("who", "VARCHAR"),
        ("sum", "DOUBLE"),
        ("n", "INTEGER"),
    ]
    assert ("gold", "totals", "view") in rows(lake, "show tables")
    listed = "select table_type from information_schema.tables where table_name = 'totals'"
    assert rows(lake, listed) == [("VIEW",)]


def test_a_view_is_read_on_the_ref_where_it_is_named(lake: Lake) -> None:
    view(lake, "silver.n", "select count(*) from gold.orders o join customers c on o.customer = c.name", n="long")
    lake.branch("dev")
    write(lake, "gold.orders", ONE_MORE, "dev")
    write(lake, "gold.customers", pa.table({"name": ["cy"], "country": ["CY"]}), "dev")
    assert rows(lake, "select a.n, b.n, c.n from silver.n a, dev.silver.n b, main.silver.n c") == [(3, 4, 3)]
    assert rows(lake, 'select n from silver.n union all select n from "dev~2".silver.n', at="dev") == [(4,), (3,)]


def test_a_view_made_on_a_branch_may_name_that_branch_and_no_other(lake: Lake) -> None:
    lake.branch("dev")
    view(lake, "gold.own", "select count(*) from dev.gold.orders", ref="dev", n="long")
    view(lake, "gold.foreign", "select count(*) from main.gold.orders", ref="dev", n="long")
    assert rows(lake, "from dev.gold.own") == [(3,)]
    assert "View gold.foreign reads main.gold.orders, which is not a table of the ref" in failure(
        lake, "from dev.gold.foreign"
    )


def test_views_stand_on_views(lake: Lake) -> None:
    view(lake, "gold.a", "select id, amount from orders where amount is not null", id="long", amount="double")
    view(lake, "gold.b", "select max(id) from gold.a union all select min(id) from A", id="long")
    assert sorted(rows(lake, "from gold.b")) == [(1,), (2,)]


def test_views_that_stand_on_themselves_are_refused(lake: Lake) -> None:
    view(lake, "gold.a", "select id from b", id="long")
    view(lake, "gold.b", "select id from gold.a", id="long")
    assert failure(lake, "from gold.b") == "View gold.b refers to itself: gold.b → gold.a → gold.b."


def test_names_inside_of_a_view_are_looked_up_as_spark_does(lake: Lake) -> None:
    view(
        lake,
        "gold.scopes",
        "with customers as (select 'x' as name), o as (select * from orders)"
        " select o.id, customers.name, (select count(*) from gold.customers) from o cross join customers"
        " where exists (with orders as (select 1 as one) select * from orders)",
        id="long",
        name="string",
        n="long",
    )
    assert rows(lake, "from gold.scopes order by id limit 1") == [(1, "x", 2)]
    view(lake, "gold.full", "select gold.orders.id, orders.customer from gold.orders", id="long", customer="string")
    assert rows(lake, "from gold.full order by id limit 1") == [(1, "ann")]


def test_a_view_of_everything_keeps_the_columns_it_was_made_with(lake: Lake) -> None:
    view(lake, "gold.everything", "select * from customers", name="string", country="string")
    with lake.pyiceberg().load_table("gold.customers").update_schema() as update:
        update.add_column("later", StringType())
    assert rows(lake, "from gold.everything order by 1") == [("ann", "AT"), ("bob", "BE")]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("select nofunction(id) from orders", "(nofunction(bigint))"),
        ("select hash(customer) from orders", "`HASH(customer)` is not proven to give the same value"),
        ("select array_distinct(array(id)) from orders", "is not proven"),
        ("select date_format(current_date, 'QQQ') from orders", "is not proven"),
        ("select timestampdiff(hour, now(), now()) from orders", "is not proven"),
        ("select transform(array(id), (x, i) -> x + i) from orders", "a lambda is proven for the elements"),
        ("select regexp_replace(customer, '(a)', '$1') from orders", "replacement ?"),
        ("select regexp_replace(customer, '(?=a)', 'x') from orders", "pattern '(?=a)'"),
        ("select max(struct(amount, id)) from orders", "is not proven"),
        ("select e from orders lateral view outer explode(array(id)) x as e", "LATERAL VIEW OUTER EXPLODE"),
        ("select approx_count_distinct(id) from orders", "(approx_count_distinct(bigint))"),
        ("select percentile_approx(id, 0.5) from orders", "is not proven"),
        ("select id from orders tablesample (10 percent)", "sample in"),
        ("select customer = id from orders", "(eq(string, bigint))"),
        ("select id from orders sort by id", "sort in"),
        ("select id from orders natural join customers", "join natural"),
        ("select o.id from orders o, lateral (select 1) l", "in FROM is not proven"),
        ("select id from range(3)", "in FROM is not proven"),
        ("select made_up(id) over (order by id) from orders", "(made_up(bigint) over ordered)"),
        ("select sum(id) over (order by id range between 3 preceding and current row) from orders", "is not proven"),
        ("select customer as id from orders group by id, customer", "it is not clear which `id` is meant"),
        ("selct 1", "mere sql cannot translate"),
        ("select id from orders where", "mere sql cannot translate"),
    ],
)
def test_a_view_that_duckdb_would_read_otherwise_is_refused_by_name(lake: Lake, sql: str, why: str) -> None:
    view(lake, "gold.odd", sql, x="long")
    message = failure(lake, "from gold.odd")
    assert message.startswith("View gold.odd ")
    assert why in message
    assert rows(lake, "select count(*) from gold.orders") == [(3,)]


def test_the_remedy_of_a_view_that_is_refused_names_it(lake: Lake) -> None:
    view(lake, "gold.odd", "select hash(customer) from orders", x="long")
    with pytest.raises(QueryError) as refused:
        rows(lake, "from gold.odd")
    assert refused.value.remedy == (
        'Read it with Spark: mere sql --spark "select * from gold.odd". Or make it a table: kind: full.'
    )


def test_a_view_in_the_sql_of_another_engine_is_refused(lake: Lake) -> None:
    """In Trino 1 / 2 is 0: what sqlglot would make of it for DuckDB was compared with nothing."""
    view(lake, "gold.half", "select 1 / 2", dialects=("trino",), half="double")
    said = failure(lake, "from gold.half")
    assert said.startswith("View gold.half is written in trino SQL alone: nothing shows that it would give the same")
    view(lake, "gold.both", "select 1 / 2", dialects=("trino", "Spark"), half="double")
    assert rows(lake, "from gold.both") == [(0.5,)]


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('{file}')",
        "select content from read_text('{file}')",
        "select (select max(x) from read_csv('{file}')) as x",
        "select * from query('from read_csv(''{file}'')')",
        "select file from glob('{file}')",
        "select x from orders, lateral (select * from read_csv('{file}'))",
        "select list_transform([1], lambda i: (select max(x) from read_csv('{file}')))[1]",
        "select * from '{file}'",
        "select x from orders, lateral read_csv('{file}')",
        "select x from orders positional join '{file}'",
        "select column_name from (summarize '{file}')",
        "select column_name from (describe '{file}')",
        "select path from parquet_metadata('{file}')",
        "pivot '{file}' on x using count(*)",
        "select name from duckdb_secrets()",
        "select name from duckdb_settings()",
        "select current_setting('s3_secret_access_key')",
        "select getvariable('x')",
    ],
)
def test_a_view_reads_tables_of_the_lake_and_no_files_of_its_reader(lake: Lake, tmp_path: Path, sql: str) -> None:
    """Who writes a view chooses what is run by whoever reads it."""
    file = tmp_path / "mine.csv"
    file.write_text("x\nsecret\n")
    view(lake, "gold.odd", sql.format(file=file), dialects=("duckdb",), x="string")
    assert failure(lake, "from gold.odd").startswith("View gold.odd ")


def test_a_view_in_duckdb_s_own_sql_is_read(lake: Lake) -> None:
    sql = (
        "with a as (select id from orders) select a.id + n from a, range(2) t(n), unnest([0]) u where a.id in (from a)"
    )
    view(lake, "gold.own", sql, dialects=("duckdb",), x="long")
    assert sorted(rows(lake, "from gold.own")) == [(1,), (2,), (2,), (3,), (3,), (4,)]


def test_totals_of_sets_of_keys_are_those_that_spark_makes(lake: Lake) -> None:
    """Of no rows Spark makes no total, where other engines make one."""
    count = "select customer, count(*) from orders where id {} group by rollup(customer)"
    view(lake, "gold.some", count.format("> 0"), customer="string", n="long")
    view(lake, "gold.none", count.format("< 0") + " having count(*) >= 0", customer="string", n="long")
    assert sorted(rows(lake, "from gold.some"), key=str) == [("ann", 2), ("bob", 1), (None, 3)]
    assert rows(lake, "from gold.none") == []
    view(lake, "gold.total", "select count(*) from orders group by grouping sets (())", n="long")
    assert "a GROUP BY of no key at all is not proven" in failure(lake, "from gold.total")


def test_a_value_that_only_spark_can_be_trusted_with_is_refused_when_it_comes(lake: Lake) -> None:
    view(lake, "gold.text", "select cast(amount * 1e9 as string) from orders where id < 3", x="string")
    assert "a value here that DuckDB cannot be shown to have: read the view with Spark" in failure(
        lake, "from gold.text"
    )


def test_a_view_over_a_table_that_is_not_there_is_named(lake: Lake) -> None:
    view(lake, "gold.lost", "select * from silver.gone", x="long")
    assert failure(lake, "from gold.lost") == (
        "View gold.lost reads silver.gone, which is not a table of the ref it is read on."
    )


def test_a_view_of_which_the_metadata_is_gone_is_named(lake: Lake) -> None:
    view(lake, "gold.v", "select 1", x="long")
    pointer = lake.at().pointer("gold.v")
    Path(pointer).unlink()
    assert f"gold.v cannot be read: {pointer} is gone" in failure(lake, "from gold.v")
