"""What a query's key says of its tables: told by hand, and proven on random rows by DuckDB."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one, transpile

from mere.names import TableName
from mere.sql.keys import Keyed, keys_of, keys_of_view
from mere.sql.spark.read import SparkView

# A query, its key, and of each table: the key by its own columns, and a `+` if its rows go through one by one.
KNOWN: list[tuple[str, str, dict[str, str]]] = [
    ("SELECT id, x FROM s.t", "id", {"t": "id+"}),
    ("SELECT x + 1 AS id, y FROM s.t WHERE y > 0", "id", {"t": "x + 1+"}),
    ("SELECT * FROM s.t", "id", {"t": "id+"}),
    ("SELECT * EXCEPT (x) FROM s.t", "id", {"t": "id+"}),
    ("SELECT DISTINCT id, x FROM s.t", "id", {"t": "id"}),
    ("SELECT id, count(*) AS n FROM s.t GROUP BY id", "id", {"t": "id"}),
    ("SELECT id AS k, count(*) AS n FROM s.t GROUP BY k", "k", {"t": "id"}),
    ("SELECT id % 2 AS k, count(*) AS n FROM s.t GROUP BY 1", "k", {"t": "id % 2"}),
    ("SELECT id % 2 AS k, sum(x) AS n FROM s.t GROUP BY ALL", "k", {"t": "id % 2"}),
    ("SELECT id, x, max(y) AS y FROM s.t GROUP BY id, x", "id", {"t": "id"}),
    ("WITH g AS (SELECT id, sum(x) AS n FROM s.t GROUP BY id) SELECT id % 2 AS k, max(n) AS n FROM g GROUP BY 1",
     "k", {"t": "id % 2"}),
    ("SELECT id, row_number() OVER (PARTITION BY id ORDER BY x, y) AS n FROM s.t", "id", {"t": "id"}),
    ("SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY id ORDER BY x, y) AS n FROM s.t) WHERE n = 1",
     "id", {"t": "id"}),
    ("SELECT t.id, u.x FROM s.t JOIN s.u ON u.y = t.id", "id", {"t": "id+", "u": "y+"}),
    ("SELECT t.id, u.x FROM s.t, s.u WHERE u.y = t.id", "id", {"t": "id+", "u": "y+"}),
    ("SELECT t.id, u.x FROM s.t JOIN s.u USING (id)", "id", {"t": "id+", "u": "id+"}),
    ("SELECT id, c.y FROM s.t JOIN s.u USING (id) JOIN s.c USING (id)", "id", {"t": "id+", "u": "id+", "c": "id+"}),
    ("SELECT t.id, u.x FROM s.t LEFT JOIN s.u ON u.y = t.id", "id", {"t": "id+", "u": "y"}),
    ("SELECT u.y AS id, t.x FROM s.t LEFT JOIN s.u ON u.y = t.id", "id", {"t": "id+", "u": "y"}),
    ("SELECT u.id, t.x FROM s.t RIGHT JOIN s.u ON u.id = t.y", "id", {"t": "y", "u": "id+"}),
    ("SELECT coalesce(t.id, u.id) AS id, t.x, u.y FROM s.t FULL JOIN s.u ON t.id = u.id", "id", {"t": "id", "u": "id"}),
    ("SELECT id, t.x, u.y FROM s.t FULL JOIN s.u USING (id)", "id", {"t": "id", "u": "id"}),
    ("SELECT t.id, t.x FROM s.t LEFT SEMI JOIN s.u ON u.id = t.id", "id", {"t": "id+", "u": "id"}),
    ("SELECT t.id, t.x FROM s.t LEFT ANTI JOIN s.u ON u.id = t.id", "id", {"t": "id+", "u": "id"}),
    ("SELECT t.id, u.n FROM s.t JOIN (SELECT y, sum(x) AS n FROM s.u GROUP BY y) AS u ON u.y = t.id",
     "id", {"t": "id+", "u": "y"}),
    ("SELECT t.id, u.x, c.x AS z FROM s.t LEFT JOIN s.u ON u.id = t.id LEFT JOIN s.c ON c.y = u.id",
     "id", {"t": "id+", "u": "id", "c": "y"}),
    ("SELECT id, x FROM s.t UNION ALL SELECT y, x FROM s.u", "id", {"t": "id", "u": "y"}),
    ("SELECT id, x FROM s.t UNION SELECT y, x FROM s.u", "id", {"t": "id", "u": "y"}),
    ("SELECT id, x FROM s.t EXCEPT SELECT y, x FROM s.u", "id", {"t": "id", "u": "y"}),
    ("SELECT a.id, b.x FROM s.t AS a JOIN s.t AS b ON a.id = b.id", "id", {"t": "id"}),
    ("WITH a AS (SELECT * FROM s.t), b AS (SELECT id, min(x) FROM a GROUP BY 1) SELECT id FROM a JOIN b USING (id)",
     "id", {"t": "id"}),
    ("SELECT t.id, t.x, c.y FROM s.t CROSS JOIN s.c", "id", {"t": "id+", "c": ""}),
    ("SELECT id, x FROM s.t WHERE y IN (SELECT id FROM s.u)", "id", {"t": "id+", "u": ""}),
    ("SELECT t.id, c.x FROM s.t CROSS JOIN s.c LEFT JOIN s.u ON u.y = t.id AND u.y = c.x",
     "id", {"t": "id+", "c": "", "u": "y"}),
]  # fmt: skip

# Of which no table can be read by the key.
UNKNOWN = [
    ("SELECT max(id) AS id FROM s.t", "id", "`MAX(id)`"),
    ("SELECT x AS id, sum(y) OVER () AS n FROM s.t", "id", "`SUM(y) OVER ()`"),
    ("SELECT id, row_number() OVER (PARTITION BY x ORDER BY y) AS n FROM s.t", "id", "PARTITION BY x"),
    ("SELECT x, max(id) AS id FROM s.t GROUP BY x", "id", "`MAX(id)`"),
    ("SELECT id, n FROM (SELECT id, x, count(*) AS n FROM s.t GROUP BY ROLLUP (id, x)) WHERE x = 1", "id", "ROLLUP"),
    ("SELECT id, x FROM s.t ORDER BY x LIMIT 5", "id", "`LIMIT 5`"),
    ("SELECT coalesce(u.y, 0) AS id, t.x FROM s.t LEFT JOIN s.u ON u.y = t.id", "id", "`COALESCE(u.y, 0)`"),
    ("SELECT a.id, b.x FROM s.t AS a JOIN s.t AS b ON a.y = b.id", "id", "`a.id`"),
    ("SELECT * FROM s.t UNION ALL SELECT * FROM s.u", "id", "`*`"),
    ("SELECT x + 1 AS y, y + 1 AS id FROM s.t", "id", "`id`"),
    ("SELECT item AS id FROM s.t LATERAL VIEW explode(items) AS item", "id", "`item`"),
    ("WITH RECURSIVE r AS (SELECT id, x FROM s.t UNION ALL SELECT r.id, t.x FROM r JOIN s.t USING (x)) SELECT * FROM r",
     "id", "`r.id`"),
]  # fmt: skip


def found(sql: str, *key: str) -> dict[str, Keyed]:
    keyed = keys_of(parse_one(sql, dialect=SparkView), {name: exp.column(name) for name in key})
    return {table.name: each for table, each in keyed.items()}


@pytest.mark.parametrize(("sql", "key", "expected"), KNOWN, ids=[sql for sql, _, _ in KNOWN])
def test_the_key_is_followed_to_each_table(sql: str, key: str, expected: dict[str, str]) -> None:
    told = {name: each.key.get(key, "") + "+" * each.rowwise for name, each in found(sql, key).items()}
    assert told == expected


@pytest.mark.parametrize(("sql", "key", "why"), UNKNOWN, ids=[sql for sql, _, _ in UNKNOWN])
def test_what_mixes_keys_or_is_unclear_is_told(sql: str, key: str, why: str) -> None:
    keyed = found(sql, key)["t"]
    assert not keyed.key
    assert not keyed.rowwise
    assert keyed.why
    assert why in keyed.why


def test_each_column_of_a_key_is_followed_by_itself() -> None:
    keyed = found(
        "SELECT o.id, l.line, l.amount FROM s.orders AS o JOIN s.lines AS l ON l.order_id = o.id", "id", "line"
    )
    assert keyed["orders"].key == {"id": "id"}
    assert keyed["lines"].key == {"id": "order_id", "line": "line"}


def test_expressions_are_carried_over_a_join() -> None:
    sql = "SELECT concat(a.x, '-', a.y) AS id, b.n FROM s.a JOIN s.b ON a.x = b.x AND a.y = b.z"
    assert found(sql, "id")["b"].key == {"id": "CONCAT(x, '-', z)"}


def test_what_a_join_puts_in_place_of_a_column_keeps_its_value() -> None:
    sql = "SELECT o.y * 100 + o.m AS id, c.label FROM s.o JOIN s.c ON o.y = c.yy + 2000 AND o.m = c.m"
    assert found(sql, "id")["c"].key == {"id": "(yy + 2000) * 100 + m"}


def test_a_long_key_is_told_whole() -> None:
    names = " || ".join(f"column_{number}" for number in range(40))
    assert found(f"SELECT {names} AS id FROM s.t", "id")["t"].key == {"id": names}


def test_a_key_is_followed_through_a_view() -> None:
    behind = keys_of_view("SELECT upper(name) AS name, n FROM s.t", {"k": "substr(name, 1, 2)"})
    assert behind == {TableName("s", "t"): {"k": "SUBSTRING(UPPER(name), 1, 2)"}}


# On random rows: rows with some keys, made of the tables' rows with these keys, are those of all rows.

Row = tuple[int | None, int | None, int | None]
Tables = Mapping[str, Sequence[Row]]
values = st.one_of(st.none(), st.integers(0, 2))
rows = st.lists(st.tuples(values, values, values), max_size=4)
random_case = given(st.sampled_from(KNOWN), rows, rows, rows, rows, st.sets(st.integers(0, 3)))


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as opened:
        opened.execute("CREATE SCHEMA s")
        yield opened


@random_case
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_key_is_made_of_the_rows_that_have_it(
    connection: duckdb.DuckDBPyConnection,
    case: tuple[str, str, dict[str, str]],
    t: list[Row],
    u: list[Row],
    c: list[Row],
    more: list[Row],
    keys: set[int],
) -> None:
    check(connection, case, {"t": t, "u": u, "c": c}, more, keys)


@pytest.mark.long
@pytest.mark.timeout(1800)
@random_case
@settings(max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_key_is_made_of_the_rows_that_have_it_however_often(
    connection: duckdb.DuckDBPyConnection,
    case: tuple[str, str, dict[str, str]],
    t: list[Row],
    u: list[Row],
    c: list[Row],
    more: list[Row],
    keys: set[int],
) -> None:
    check(connection, case, {"t": t, "u": u, "c": c}, more, keys)


def check(
    connection: duckdb.DuckDBPyConnection,
    case: tuple[str, str, dict[str, str]],
    tables: Tables,
    more: list[Row],
    keys: set[int],
) -> None:
    sql, key, expected = case
    whole, names = run(connection, sql, tables)
    at = names.index(key)

    def of_keys(counted: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
        return Counter({row: count for row, count in counted.items() if row[at] in keys})

    wanted = {name: text.removesuffix("+") for name, text in expected.items() if text}
    assert of_keys(run(connection, sql, tables, wanted, keys)[0]) == of_keys(whole)
    for name in (name for name, text in expected.items() if text.endswith("+")):
        alone, _ = run(connection, sql, {**tables, name: more})
        together, _ = run(connection, sql, {**tables, name: [*tables[name], *more]})
        assert together == whole + alone


def run(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    tables: Tables,
    wanted: Mapping[str, str] | None = None,
    keys: Iterable[int] = (),
) -> tuple[Counter[tuple[Any, ...]], list[str]]:
    """What the query gives, and the names of its columns. `wanted`: of some tables only the rows with these keys."""
    for name, content in tables.items():
        listed = ", ".join(map(literal, [(None, None, None), *content]))
        where = f" AND ({wanted[name]}) IN ({', '.join(map(str, [-1, *keys]))})" if wanted and name in wanted else ""
        connection.execute(
            f"CREATE OR REPLACE TABLE s.{name} AS SELECT id::INT AS id, x::INT AS x, y::INT AS y"
            f" FROM (SELECT *, row_number() OVER () AS n FROM (VALUES {listed}) AS t(id, x, y)) WHERE n > 1{where}"
        )
    connection.execute(transpile(sql, read=SparkView, write="duckdb")[0])
    names = [each[0] for each in connection.description or []]
    return Counter(connection.fetchall()), names


def literal(row: Row) -> str:
    return f"({', '.join('NULL' if value is None else str(value) for value in row)})"
