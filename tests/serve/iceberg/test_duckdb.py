"""DuckDB, attached to a branch: what it reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from mere.lake.lake import Lake
from mere.lake.query.duckdb import _extension
from tests.lake import orders
from tests.serve.iceberg.rest import Rest
from tests.serve.iceberg.test_read import catalog


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """In a folder with a plain name: of others, DuckDB 1.5.5 updates and deletes no rows."""
    with Lake.create(tmp_path / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        orders.write(lake, "gold.customers", orders.CUSTOMERS)
        lake.branch("dev")
        yield lake


def attached(rest: Rest, *refs: str) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in ("avro", "httpfs", "iceberg"):
        connection.execute(f"LOAD '{_extension(name)}'")
    for ref in refs:
        place = f"ENDPOINT '{rest.uri}', AUTHORIZATION_TYPE 'none'"
        connection.execute(f"""ATTACH '{ref}' AS "{ref}_ref" (TYPE iceberg, {place})""")
    return connection


@pytest.fixture
def dev(rest: Rest) -> Iterator[duckdb.DuckDBPyConnection]:
    with attached(rest, "dev", "main") as connection:
        connection.execute("USE dev_ref.gold")
        yield connection


def test_every_statement_is_a_commit(dev: duckdb.DuckDBPyConnection, lake: Lake) -> None:
    before = sum(1 for _ in lake.log("dev"))
    dev.execute("INSERT INTO orders VALUES (4, 'cy', 1.0)")
    dev.execute("UPDATE orders SET amount = 7 WHERE id = 3")
    dev.execute("DELETE FROM orders WHERE id = 1")
    dev.execute("CREATE TABLE doubled AS SELECT id, amount * 2 AS amount FROM orders")
    dev.execute("CREATE SCHEMA dev_ref.silver")
    dev.execute("CREATE TABLE dev_ref.silver.made (id BIGINT, made_at TIMESTAMP)")
    dev.execute("DROP TABLE dev_ref.silver.made")
    assert orders.rows(lake, "select id, amount from gold.orders order by id", "dev") == [(2, 20.0), (3, 7.0), (4, 1.0)]
    assert orders.rows(lake, "select sum(amount) from gold.doubled", "dev") == [(56.0,)]
    assert dev.execute("SELECT count(*) FROM main_ref.gold.orders").fetchall() == [(3,)]
    made = list(lake.log("dev"))[:-before]
    assert [(each.message or "").partition(" (")[0] for each in made[:3]] == [
        "drop silver.made",
        "create silver.made",
        "create namespace silver",
    ]
    assert all("duckdb" in (each.message or "") and each.author for each in made)


def test_a_transaction_over_two_tables_is_one_commit(dev: duckdb.DuckDBPyConnection, lake: Lake) -> None:
    before = lake.resolve("dev").commit.id
    dev.execute("BEGIN")
    dev.execute("INSERT INTO orders VALUES (4, 'cy', 1.0)")
    dev.execute("INSERT INTO customers VALUES ('cy', 'CZ')")
    dev.execute("COMMIT")
    commit, older, *_ = lake.log("dev")
    assert {str(change.key) for change in commit.changes} == {"gold.customers", "gold.orders"}
    assert older.id == before


def test_what_is_read_only_says_so(rest: Rest, lake: Lake) -> None:
    lake.tag("v1")
    with attached(rest, "v1") as connection, pytest.raises(duckdb.Error, match="read-only"):
        connection.execute("INSERT INTO v1_ref.gold.orders VALUES (4, 'cy', 1.0)")


def test_two_engines_write_one_table_at_once(rest: Rest, lake: Lake) -> None:
    each = 6

    def by_duckdb() -> int:
        done = 0
        with attached(rest, "dev") as connection:
            while done < each:
                try:
                    connection.execute(f"INSERT INTO dev_ref.gold.orders VALUES ({1000 + done}, 'duck', 1.0)")
                    done += 1
                except duckdb.TransactionException as error:  # somebody was quicker: DuckDB leaves it to its user
                    assert "409" in str(error) or "onflict" in str(error), error
        return done

    def by_pyiceberg() -> int:
        for _ in range(each):
            catalog(rest, "dev").load_table("gold.orders").append(orders.ONE_MORE)
        return each

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(by_duckdb), pool.submit(by_pyiceberg)
        assert (one.result(120), other.result(120)) == (each, each)
    found = orders.rows(lake, "select count(*), count(distinct id) from gold.orders", "dev")
    assert found == [(3 + 2 * each, 3 + each + 1)]
