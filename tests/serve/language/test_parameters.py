"""Parameters: their types, and their values, which are bound and never written into the SQL."""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mere.lake.lake import Lake
from mere.serve.protocol import types
from mere.serve.protocol.port import Session
from mere.serve.session.backend import LakeBackend
from tests.lake import orders
from tests.serve.asking import failure, rows

TYPES = pa.table(
    {
        "i": pa.array([1], pa.int32()), "l": pa.array([1], pa.int64()), "d": pa.array([1.5]), "s": ["x"],
        "n": pa.array([Decimal("1.50")], pa.decimal128(10, 2)), "b": [True], "day": [date(2020, 1, 1)],
        "t": pa.array([datetime(2020, 1, 1)], pa.timestamp("us")), "z": pa.array([datetime(2020, 1, 1)], pa.timestamp("us", "UTC")),
    }
)  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Lake.create(tmp_path_factory.mktemp("parameters") / "lake") as lake:
        orders.write(lake, "gold.types", TYPES)
        backend = LakeBackend(lake)
        yield backend.connect("ann", "main", {})
        backend.close()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select * from gold.types where i = $1", [types.INT4]),
        ("select * from gold.types where $1 < l", [types.INT8]),
        ("select * from gold.types t where t.d between $1 and $2", [types.FLOAT8, types.FLOAT8]),
        ("select * from gold.types where n > $1 and b = $2", [types.NUMERIC, types.BOOL]),
        ("select * from gold.types where day >= $2 and t < $1", [types.TIMESTAMP, types.DATE]),
        ("select * from gold.types where z in ($1, $2)", [types.TIMESTAMPTZ, types.TIMESTAMPTZ]),
        ("select * from gold.types where i = any($1)", [1007]),
        ("select * from gold.types where (i, s) = ($1, $2)", [types.INT4, types.TEXT]),
        ("select * from gold.types where s like $1 and s ~ $2", [types.TEXT, types.TEXT]),
        ("select * from gold.types limit $1 offset $2", [types.INT8, types.INT8]),
        ("select $1::int, $2::timestamptz, cast($3 as numeric), $4::int[]", [23, 1184, 1700, 1007]),
        ("select $1", [types.TEXT]),
        ("select $1 || 'x'", [types.TEXT]),
        ("select coalesce($1, i) from gold.types", [types.INT4]),
        ("select i + $1 from gold.types", [types.INT4]),
        ("select case when true then l else $1 end from gold.types", [types.INT8]),
        ("with x as (select l as y from gold.types) select * from x where y = $1", [types.INT8]),
        ("select * from (select day as y from gold.types) x where y = $1", [types.DATE]),
        ("select * from gold.types a join gold.types b on a.i = b.i where b.day = $1", [types.DATE]),
        ("select sum(l) from gold.types having sum(l) > $1", [types.NUMERIC]),
        ("select * from gold.types where day = $1 or day = $1", [types.DATE]),
        ("select count(*) from pg_class where relname = $1 and oid = $2", [types.TEXT, types.INT8]),
        ("select * from gold.types where exists (select 1 from gold.types t where t.i = $1)", [types.INT4]),
        ("select $2::int", [types.TEXT, types.INT4]),
    ],
)
def test_the_type_of_a_parameter_follows_from_where_it_stands(session: Session, sql: str, expected: list[int]) -> None:
    (statement,) = session.read(sql)
    assert list(session.describe(statement, []).parameters) == expected


def test_what_the_client_declares_holds(session: Session) -> None:
    (statement,) = session.read("select * from gold.types where i = $1 and day = $2")
    assert session.describe(statement, [types.INT8]).parameters == (types.INT8, types.DATE)
    assert session.describe(statement, [types.INT8, types.TEXT]).parameters == (types.INT8, types.TEXT)


def test_a_query_is_described_without_being_run(session: Session) -> None:
    (statement,) = session.read('select i, n, sum(l) as "Total", $1::date, 1/(i-i) from gold.types group by i, n')
    described = session.describe(statement, [])
    assert [(field.name, field.oid) for field in described.fields] == [
        ("i", types.INT4), ("n", types.NUMERIC), ("Total", types.NUMERIC), ("date", types.DATE), ("?column?", types.INT4),
    ]  # fmt: skip
    assert described.fields[1].modifier == (10 << 16 | 2) + 4


@pytest.mark.parametrize(
    ("sql", "values", "oids", "expected"),
    [
        ("select $1", ["it's"], [25], "it's"),
        ("select $1::int + 1", [41], [23], "42"),
        ("select $1", [None], [23], None),
        ("select $1", [Decimal("1.2345678901234567890")], [1700], "1.2345678901234567890"),
        ("select $1", [date(2020, 1, 2)], [1082], "2020-01-02"),
        ("select $1", [True], [16], "t"),
        ("select $1", [b"\x00\xff"], [17], "\\x00ff"),
        ("select $1", [[1, None, 3]], [1007], "{1,NULL,3}"),
        ("select $1", ["1 mon 2 days"], [1186], "1 mon 2 days"),
        ("select $1 ->> 'a'", ['{"a": "b"}'], [114], "b"),
        ("select $2 || $1", ["a", "b"], [25, 25], "ba"),
        ("select $2", ["unused", "b"], [25, 25], "b"),
        ("select count(*) from gold.types where i = any($1)", [[1, 2]], [1007], "1"),
        ("select count(*) from generate_series(1, 10) x where x <= $1", [3], [20], "3"),
        ("select i from gold.types limit $1", [1], [20], "1"),
    ],
)
def test_values_are_bound(session: Session, sql: str, values: list[Any], oids: list[int], expected: str | None) -> None:
    assert rows(session, sql, values, oids) == [(expected,)]


@settings(max_examples=40)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40))
def test_no_text_ever_becomes_sql(session: Session, text: str) -> None:
    assert rows(session, "select $1, $1 = $2, 'x' where $1 = $2", [text, text], [25, 25]) == [(text, "t", "x")]
    quoted = "'" + text.replace("'", "''") + "'"
    name = '"' + text.replace('"', '""') + '"'
    assert rows(session, f"select {quoted}") == [(text,)]
    if text:
        (statement,) = session.read(f"select 1 as {name}")
        assert session.describe(statement, []).fields[0].name == text


def test_too_few_values_are_refused(session: Session) -> None:
    assert failure(session, "select $1, $2", ["a"], [25]).sqlstate == "08P01"
