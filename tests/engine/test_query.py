"""mere sql --spark: one query over one commit of a ref, on the warm engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from mere import Lake
from mere.cli import main
from mere.engine.query import query
from mere.engine.warm.discovery import Engine
from mere.errors import QueryError
from mere.sparkconfig import SparkSettings
from tests.engine.conftest import SETTINGS


@pytest.fixture(scope="module")
def orders(warm_lake: Lake, warm_engine: Engine) -> Iterator[Lake]:
    """Two orders on main, a third on dev, and none at the commit before; the table of which nobody else knows."""
    name = "sold.orders"
    catalog = warm_lake.pyiceberg("main")
    catalog.create_namespace("sold")
    rows = pa.table({"id": [1, 2], "amount": [40.0, 2.5]})
    table = catalog.create_table(name, rows.schema)
    warm_lake.at("main")
    table.append(rows)
    warm_lake.branch("more")
    warm_lake.pyiceberg("more").load_table(name).append(pa.table({"id": [3], "amount": [7.5]}))
    yield warm_lake
    warm_lake.delete("more")


@pytest.fixture(autouse=True)
def alone(no_jvm_here: None) -> None:
    pass


def rows(lake: Lake, sql: str, at: str = "main") -> list[tuple[object, ...]]:
    with query(lake, sql, at, SETTINGS) as result:
        return list(result.rows())


def test_names_are_looked_up_at_the_ref_and_others_by_their_own(orders: Lake) -> None:
    assert rows(orders, "select id from sold.orders order by id desc") == [(2,), (1,)]
    assert rows(orders, "select count(*) from sold.orders", "more") == [(3,)]
    both = "select more.sold.orders.id from more.sold.orders except select id from sold.orders"
    assert rows(orders, both) == [(3,)]
    assert rows(orders, "from `main~1`.sold.orders") == []
    with query(orders, "select 1", "main", SETTINGS) as result:
        assert result.commit == orders.at("main").commit


def test_values_come_as_python_has_them(orders: Lake) -> None:
    sql = """
        SELECT map('a', 1) m, array(1, 2) m, named_struct('x', 1.5D) s, timestamp'2024-01-01 10:00' t,
            timestamp_ntz'2024-01-01 10:00' n, date'2024-01-01' d, 1.10BD c, CAST('a' AS BINARY) b, NULL u,
            interval 1 day i, interval 3 month y, array(interval 2 year) z, parse_json('{"a": [1]}') v
    """
    at = datetime(2024, 1, 1, 10)
    (row,) = rows(orders, sql)
    assert row[:4] == ({"a": 1}, [1, 2], {"x": 1.5}, at.replace(tzinfo=UTC))
    assert row[4:9] == (at, date(2024, 1, 1), Decimal("1.10"), b"a", None)
    assert row[9:] == (timedelta(days=1), "INTERVAL '3' MONTH", "[INTERVAL '2' YEAR]", '{"a":[1]}')


def test_what_writes_is_refused_by_us_or_by_sparks_grammar(orders: Lake) -> None:
    before = orders.at("main").commit
    for sql in (
        "insert into sold.orders values (9, 9)",
        "with a as (select 9 id, 9D amount) insert into sold.orders select * from a",
        "from sold.orders insert into sold.orders select *",
        "with a as (select 9 id) merge into sold.orders using a on false when not matched then insert *",
        "select 1) a; delete from sold.orders where (true",
        "select * from sold.orders) a; show tables in (sold",
        "explain delete from sold.orders",
        "begin delete from sold.orders; end",
    ):
        with pytest.raises(QueryError):
            rows(orders, sql)
    assert orders.at("main").commit == before
    assert "Scan" in str(rows(orders, "explain select * from sold.orders"))
    assert ("sold", "orders", False) in rows(orders, "-- which?\nshow tables in sold")


def test_errors_point_into_what_was_written(orders: Lake) -> None:
    with pytest.raises(QueryError) as missing:
        rows(orders, "select *\nfrom main.sold.orders join more.sold.order")
    assert str(missing.value).splitlines() == [
        "There is no table sold.order on more. Did you mean sold.orders?",
        "line 2: from main.sold.orders join more.sold.order",
        "                                   ^",
        "See: mere tables --at more",
    ]
    with pytest.raises(QueryError) as unknown:
        rows(orders, "/* ü */ select 'ü', idd from main.sold.orders")
    first, second, mark = str(unknown.value).splitlines()
    assert "`idd`" in first
    assert second[len(mark) - 1 :].startswith("idd from")
    with pytest.raises(QueryError, match="out of Python's range"):
        rows(orders, "select date'2024-01-01' + interval 9000 year")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def in_project(folder: Path, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose engine would be the warm one, were it not for the folder: the command has no settings of its own."""
    (folder / "mere.yaml").write_text(
        f"name: shop\nprofiles:\n  local:\n    lake: {lake.location}\n    spark: {{memory: {SETTINGS.memory}}}\n"
    )
    monkeypatch.setattr("mere.config.find_project", lambda _: folder / "mere.yaml")


def test_the_command_prints_what_the_one_without_spark_prints(
    orders: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_project(tmp_path, orders, monkeypatch)
    for style in ("table", "csv", "json"):
        arguments = ("sql", "select id, amount from sold.orders order by id", "--at", "more", "--format", style)
        with_spark = run(*arguments, "--spark")
        assert with_spark.exit_code == 0, with_spark.output
        assert with_spark.stdout == run(*arguments).stdout
    few = run("sql", "--spark", "select id from range(2000)")
    assert "more than 1,000 rows" in few.stderr
    assert len(few.stdout.splitlines()) == 1001
    assert json.loads(run("sql", "--spark", "select id from range(0)", "--json").stdout) == []


def test_without_an_engine_the_command_says_how_to_start_one(
    lake: Lake, orders: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_project(tmp_path, lake, monkeypatch)
    none = run("sql", "--spark", "select 1")
    assert none.exit_code == 1
    assert none.stderr == "error: No warm engine runs for this lake.\nStart one: mere engine start\n"
    in_project(tmp_path, orders, monkeypatch)
    monkeypatch.setenv("MERE_ENGINE", "off")
    assert "switched off" in run("sql", "--spark", "select 1").stderr
    monkeypatch.delenv("MERE_ENGINE")
    other = SparkSettings(memory="2g")
    with (
        pytest.raises(Exception, match="was started with another set of settings"),
        query(orders, "select 1", "main", other),
    ):
        pass
