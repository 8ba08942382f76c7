"""Temporary views, and SHOW SCHEMAS and SHOW TABLES: as a real Postgres has them, where it has them."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from mere.serve.access.roles import Declared, Role, Rule
from mere.serve.session.backend import LakeBackend
from tests.serve import shop
from tests.serve.served import served


def _told(url: str, statements: list[str]) -> list[object]:
    """What each gives: rows, a tag, or the state of its error."""
    found: list[object] = []
    with psycopg.connect(url, autocommit=True) as connection:
        notices: list[str] = []
        connection.add_notice_handler(lambda notice: notices.append(f"{notice.severity} {notice.message_primary}"))
        for each in statements:
            try:
                cursor = connection.execute(each)
                shown = (cursor.statusmessage, [column.name for column in cursor.description or ()])
                found.append((each, *shown, cursor.fetchall() if cursor.description else [], tuple(notices)))
            except psycopg.Error as error:
                found.append((each, error.sqlstate, error.diag.message_primary))
            notices.clear()
    return found


_SCRIPTS = {
    "a query has a name": [
        "CREATE TEMPORARY VIEW ones AS SELECT 1 AS a, 2 AS b UNION ALL SELECT 3, 4",
        "SELECT * FROM ones ORDER BY a",
        "SELECT x.b, ones.a FROM ones JOIN ones AS x USING (a) ORDER BY 1",
        "SELECT * FROM pg_temp.ones AS t(p, q) ORDER BY p",
        "TABLE ones",
        "CREATE TEMP VIEW ones AS SELECT 1",
        "CREATE OR REPLACE TEMP VIEW ones AS SELECT 1 AS a, 5 AS b",
        "SELECT sum(b) FROM ones",
        "WITH ones AS (SELECT 'mine' AS w) SELECT * FROM ones",
        "SELECT (SELECT max(a) FROM ones), EXISTS (SELECT 1 FROM ones WHERE a > 1)",
        "DROP VIEW ones",
        "SELECT * FROM ones",
        "DROP VIEW IF EXISTS ones, none",
        "DROP VIEW ones",
    ],
    "its columns may be named": [
        "CREATE TEMP VIEW n(x) AS SELECT 1 AS a, 2 AS b",
        "SELECT * FROM n",
        "SELECT x, b FROM n AS m",
        "SELECT * FROM n AS m(y)",
        "CREATE TEMP VIEW v AS VALUES (1, 'x'), (2, 'y')",
        "SELECT column2 FROM v ORDER BY 1",
        "CREATE TEMP VIEW w(x, x) AS SELECT 1, 2",
        "CREATE TEMP VIEW w(x, y) AS SELECT 1",
        "CREATE TEMP VIEW w AS SELECT 1, 2",
        "CREATE TEMP VIEW w AS SELECT nothing FROM gold.orders",
        "CREATE TEMP VIEW w AS SELECT * FROM nothing",
        'CREATE TEMP VIEW "Odd ""x" AS SELECT 1 AS "A"',
        'SELECT "A" FROM "Odd ""x"',
        "CREATE TEMP VIEW gold.w AS SELECT 1",
    ],
    "a name means what it meant": [
        "CREATE TEMP VIEW a AS SELECT count(*) AS c FROM orders",
        "CREATE TEMP VIEW orders AS SELECT 'mine' AS w",
        "SELECT c < 9 AS few FROM a",
        "SELECT * FROM orders",
        "SELECT count(*) < 9 AS few FROM gold.orders",
        "CREATE TEMP VIEW b AS SELECT * FROM orders",
        "SET search_path = silver",
        "SELECT c < 9 AS few FROM a",
        "SELECT * FROM b",
        "WITH orders AS (SELECT 1) SELECT * FROM b",
        "DROP VIEW orders",
        "DROP VIEW orders, b",
        "SELECT count(*) < 9 AS few FROM orders",
    ],
    "a transaction that is rolled back takes its views with it": [
        "CREATE TEMP VIEW a AS SELECT 1 AS x",
        "BEGIN",
        "DROP VIEW a",
        "CREATE TEMP VIEW b AS SELECT 2",
        "ROLLBACK",
        "SELECT * FROM a",
        "SELECT * FROM b",
        "BEGIN",
        "CREATE OR REPLACE TEMP VIEW a AS SELECT 3 AS x",
        "COMMIT",
        "SELECT * FROM a",
        "DISCARD TEMP",
        "SELECT * FROM a",
        "CREATE TEMP VIEW a AS SELECT 4",
        "DISCARD ALL",
        "SELECT * FROM a",
    ],
    "the catalogs list them": [
        "SELECT pg_my_temp_schema()",
        "CREATE TEMP VIEW t(x) AS SELECT 1, 'b' AS y, 1.5::numeric(5,2) AS z, ARRAY[1] AS l",
        """SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute a
           JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE n.oid = pg_my_temp_schema() AND relname = 't' AND relpersistence = 't' AND relkind = 'v'
           ORDER BY attnum""",
        "SELECT pg_table_is_visible(oid) FROM pg_class WHERE relname = 't'",
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't' ORDER BY 1",
        "SELECT cardinality(current_schemas(true)) - cardinality(current_schemas(false))",
        "DROP VIEW t CASCADE",
        "SELECT count(*) FROM pg_class WHERE relname = 't'",
    ],
}  # fmt: skip


@pytest.mark.parametrize("script", _SCRIPTS.values(), ids=list(_SCRIPTS))
def test_temporary_views_are_those_of_postgres(script: list[str], shop_in_lake: str, shop_in_postgres: str) -> None:
    assert _told(shop_in_lake, script) == _told(shop_in_postgres, script)


def test_a_view_is_the_sessions_own(shop_in_lake: str) -> None:
    with psycopg.connect(shop_in_lake) as one, psycopg.connect(shop_in_lake) as other:
        one.execute("CREATE TEMP VIEW mine AS SELECT 1")
        with pytest.raises(psycopg.errors.UndefinedTable):
            other.execute("SELECT * FROM mine")
        other.rollback()
        assert other.execute("SELECT count(*) FROM pg_class WHERE relname = 'mine'").fetchone() == (0,)


def test_only_temporary_ones_are_made_and_dropped(shop_in_lake: str) -> None:
    for each in (
        "CREATE VIEW v AS SELECT 1",
        "CREATE OR REPLACE VIEW v AS SELECT 1",
        "CREATE TEMP TABLE t (a int)",
        "CREATE TEMP TABLE t AS SELECT 1",
        "CREATE MATERIALIZED VIEW v AS SELECT 1",
        "DROP VIEW gold.totals",
        "DROP VIEW IF EXISTS totals",
        "DROP TABLE gold.orders",
    ):
        with psycopg.connect(shop_in_lake) as connection, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute(each)


def test_what_a_view_may_not_be(shop_in_lake: str) -> None:
    with psycopg.connect(shop_in_lake, autocommit=True) as connection:
        with pytest.raises(psycopg.Error, match=r"there is no parameter \$1"):
            connection.execute("CREATE TEMP VIEW v AS SELECT $1::int")
        connection.execute("CREATE TEMP VIEW v AS SELECT 1 AS a")
        connection.execute("CREATE TEMP VIEW w AS SELECT * FROM v")
        with pytest.raises(psycopg.Error, match="infinite recursion"):
            connection.execute("CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM w")
        with pytest.raises(psycopg.errors.DependentObjectsStillExist, match="cannot drop view v"):
            connection.execute("DROP VIEW v")
        with pytest.raises(psycopg.Error, match="cannot execute"):
            connection.execute("CREATE TEMP VIEW x AS DELETE FROM gold.orders")
        with pytest.raises(psycopg.Error, match=r"permission denied|does not exist"):
            connection.execute("CREATE TEMP VIEW x AS SELECT * FROM read_csv('/etc/passwd')")


def test_views_of_views_do_not_grow_beyond_measure(shop_in_lake: str) -> None:
    with psycopg.connect(shop_in_lake, autocommit=True) as connection:
        connection.execute("CREATE TEMP VIEW v0 AS SELECT 1 AS a")
        # Fifty times as long at every step: of what is built before the refusal, the last one alone takes time.
        grown = [f"CREATE TEMP VIEW v{at + 1} AS " + " UNION ALL ".join([f"TABLE v{at}"] * 50) for at in range(10)]
        assert _refusal(connection, grown) in ("54000", "54001")
        assert _refusal(connection, [f"CREATE TEMP VIEW n{at} AS SELECT 1" for at in range(101)]) == "53400"


def _refusal(connection: psycopg.Connection, statements: list[str]) -> str | None:
    """The state of the first one that fails."""
    for each in statements:
        try:
            connection.execute(each.encode())
        except psycopg.Error as error:
            return error.sqlstate
    return None


def test_a_role_sees_through_a_view_what_it_sees_without(tmp_path: Path) -> None:
    columns = (Rule("gold.orders", columns=("id", "line")),)
    roles = Declared({"ann": Role("ann", tables=(Rule("gold.orders"),), columns=columns)})
    with (
        shop.create(tmp_path) as lake,
        served(LakeBackend(lake, roles)) as running,
        psycopg.connect(running.dsn(), autocommit=True) as connection,
    ):
        connection.execute("CREATE TEMP VIEW v AS SELECT * FROM gold.orders")
        assert [each.name for each in connection.execute("SELECT * FROM v").description or ()] == ["id", "line"]
        for hidden in ("silver.kinds", "gold.totals", "silver.nothing"):
            with pytest.raises(psycopg.errors.UndefinedTable, match=f'relation "{hidden}" does not exist'):
                connection.execute(f"CREATE TEMP VIEW h AS SELECT * FROM {hidden}")


def test_show_lists_schemas_and_tables(shop_in_lake: str) -> None:
    told = _told(
        shop_in_lake,
        [
            "SHOW SCHEMAS",
            "SHOW SCHEMAS FROM shop LIKE 'g%'",
            "SHOW TABLES FROM gold",
            "show tables in shop.silver like 'o%'",
            "SHOW TABLES LIKE 'orders'",
        ],
    )
    assert [each[3] for each in told] == [  # type: ignore[index]
        [("gold",), ("mere",), ("public",), ("silver",)],
        [("gold",)],
        [("gold", "orders"), ("gold", "totals")],
        [("silver", "orders")],
        [("gold", "orders"), ("silver", "orders")],
    ]
    assert [each[1:3] for each in told[1:3]] == [("SHOW", ["schema"]), ("SHOW", ["schema", "table"])]  # type: ignore[index]


def test_show_says_what_is_not_there(shop_in_lake: str) -> None:
    told = _told(
        shop_in_lake, ["SHOW TABLES FROM nothing", "SHOW SCHEMAS FROM other", "SHOW TABLES FROM", "SHOW tablet"]
    )
    assert [each[1] for each in told] == ["3F000", "3D000", "42601", "42704"]  # type: ignore[index]
