"""The same client, the same calls: once on a real Postgres, once on the gateway. What it sees has to be the same."""

from __future__ import annotations

import asyncio
import os
import subprocess
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.services.postgres import binary

Client = Callable[[str], Any]

NUMBERS = "(SELECT i::int AS i, 'n' || i AS name FROM generate_series(1, 250) AS g(i)) AS numbers"


@pytest.fixture
def both(shop_in_postgres: str, shop_in_lake: str) -> Callable[[Client], Any]:
    """Runs a client on both, compares what it has seen, and returns it."""

    def run(client: Client) -> Any:
        real, ours = client(shop_in_postgres), client(shop_in_lake)
        assert ours == real
        return ours

    return run


# psycopg

VALUES: list[tuple[str, list[Any]]] = [
    ("bool", [True, False, None]),
    ("int2", [0, -32768, 32767]),
    ("int4", [-1, 2**31 - 1, None]),
    ("int8", [-(2**63), 2**63 - 1]),
    ("float4", [1.5, float("inf")]),
    ("float8", [0.1, 1e-300, -1e300, float("-inf"), None]),
    ("numeric(38,10)", [Decimal("1.5"), Decimal("-1234567890123456789012345678.0123456789"), None]),
    ("text", ["", "q'q", 'd"d', "\\", "$1 $$ %", "é€😀", "a\nb\tc", None]),
    ("bytea", [b"", b"\x00\xff\\'", None]),
    ("date", [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31), None]),
    ("time", [time(0), time(23, 59, 59, 999999)]),
    ("timestamp", [datetime(2024, 1, 1, 12, 0, 0, 1), datetime(1, 1, 1), None]),
    ("timestamptz", [datetime(2024, 6, 1, 12, tzinfo=UTC), None]),
    ("interval", [timedelta(days=3, seconds=7, microseconds=5), timedelta(0)]),
    ("uuid", [uuid.UUID(int=7), None]),
    ("json", ['{"a": [1, null]}']),
    ("int4[]", [[1, None, 3], [], None]),
    ("text[]", [["a", None, 'q"', "\\", ""]]),
]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize(("name", "values"), VALUES, ids=[name for name, _ in VALUES])
def test_values_go_there_and_back(both: Callable[[Client], Any], name: str, values: list[Any], binary: bool) -> None:
    def client(url: str) -> Any:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            cursor = connection.cursor(binary=binary)
            found = []
            for value in values:
                cursor.execute(f"SELECT %s::{name} AS x", (value,))
                assert cursor.description
                found.append((cursor.fetchall(), cursor.description[0].name, cursor.description[0].type_code))
            return found

    seen = both(client)
    if name not in ("json", "float4"):
        assert [rows for rows, _, _ in seen] == [[(value,)] for value in values]


def test_undeclared_parameters_are_inferred(both: Callable[[Client], Any]) -> None:
    def client(url: str) -> Any:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.cursor(row_factory=dict_row)
            return [
                cursor.execute("SELECT %s AS a, %s AS b", ("x", "y")).fetchall(),
                cursor.execute(f"SELECT count(*) AS n FROM {NUMBERS} WHERE i > %s", (200,)).fetchall(),
                cursor.execute(f"SELECT i FROM {NUMBERS} WHERE name = %s", ("n7",)).fetchall(),
                cursor.execute(f"SELECT i FROM {NUMBERS} WHERE i = ANY(%s) ORDER BY i", ([3, 5],)).fetchall(),
                cursor.execute("SELECT %s = ANY(%s) AS a, %s <> ALL(%s) AS b", ("x", ["x"], "y", ["y"])).fetchall(),
                cursor.execute("SELECT %s = ANY(%s) AS a", (Decimal("1.5"), [Decimal("1.5"), None])).fetchall(),
                cursor.execute("SELECT %s = ANY(%s::int[]) AS a", (1, [1, 2])).fetchall(),
                cursor.execute(f"SELECT i FROM {NUMBERS} ORDER BY i LIMIT %s OFFSET %s", (2, 5)).fetchall(),
            ]

    both(client)


@pytest.mark.parametrize(
    "select",
    [
        "%s || 'y'", "'x' || %s", "coalesce(%s, 'z')", "upper(%s)", "%s = 'x'", "%s || i",
        "CASE WHEN %s = 'x' THEN 1 ELSE 2 END", "concat(%s::text, 1)", "NULL::text || 'y' || %s",
        "%s LIKE 'x%%'", "substring(%s from 1 for 1)",
        "(SELECT %s || '!')", "max(%s || name)", "ARRAY[%s, 'b']",
    ],
)  # fmt: skip
def test_what_is_told_of_a_parameter_is_what_comes(both: Callable[[Client], Any], select: str) -> None:
    """Types are told before any value is known."""

    def client(url: str) -> Any:
        with psycopg.connect(url, autocommit=True) as connection:
            found = []
            for value in ("x", "", None):
                cursor = connection.execute(f"SELECT {select} AS a FROM {NUMBERS} WHERE i = 7", (value,), prepare=True)
                assert cursor.description
                found.append((cursor.fetchall(), cursor.description[0].type_code))
            return found

    both(client)


def test_a_statement_that_is_prepared_after_five_times_says_the_same(both: Callable[[Client], Any]) -> None:
    def client(url: str) -> Any:
        with psycopg.connect(url, autocommit=True) as connection:
            return [connection.execute("SELECT %s::int + 1", (number,)).fetchone() for number in range(12)]

    assert both(client)[-1] == (12,)


def test_tags_and_counts(both: Callable[[Client], Any]) -> None:
    statements = [
        "SELECT 1", f"SELECT * FROM {NUMBERS}", "SELECT 1 WHERE false", "VALUES (1), (2)", "SET application_name = 'x'",
        "SHOW application_name", "RESET application_name", "BEGIN", "SAVEPOINT a", "RELEASE SAVEPOINT a", "COMMIT",
        "START TRANSACTION", "ROLLBACK", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "END", "COMMIT", "ABORT",
        "DEALLOCATE ALL", "DISCARD ALL", "PREPARE p AS SELECT 1", "EXECUTE p", "DEALLOCATE p", "UNLISTEN *", "",
    ]  # fmt: skip

    def client(url: str) -> Any:
        with psycopg.connect(url, autocommit=True) as connection:
            found = []
            for statement in statements:
                cursor = connection.execute(statement)
                found.append((statement, cursor.statusmessage, connection.info.transaction_status.name))
            return found

    both(client)


ERRORS = [
    "SELEC 1", "SELECT * FROM gold.missing", "SELECT missing FROM gold.orders", "SELECT * FROM missing.orders",
    "SELECT 1/0", "SELECT 'x'::int", "SELECT '2024-13-01'::date", "SELECT nofunction(1)", "SELECT 1 + 'a'",
    "SELECT id, count(*) FROM gold.orders", "INSERT INTO gold.orders VALUES (1)", "FETCH 1 FROM nothing",
    "CLOSE nothing", "DEALLOCATE nothing", "EXECUTE nothing", "SAVEPOINT a", "DECLARE c CURSOR FOR SELECT 1",
    "SET nonsense_setting = 1", "SHOW nonsense_setting", "SELECT $1", "SELECT 99999999999::int",
    "SELECT * FROM gold.orders LIMIT -1", "ROLLBACK TO SAVEPOINT a",
]  # fmt: skip

# The lake cannot be written; and DuckDB looks for an operator where Postgres looks at the literal.
OTHERS = {"INSERT INTO gold.orders VALUES (1)": "25006", "SELECT 1 + 'a'": "42804"}


@pytest.mark.parametrize("statement", ERRORS)
def test_errors_have_the_same_code(shop_in_postgres: str, shop_in_lake: str, statement: str) -> None:
    def client(url: str) -> Any:
        with psycopg.connect(url, autocommit=True) as connection:
            with pytest.raises(psycopg.Error) as caught:
                connection.execute(statement)
            assert connection.execute("SELECT 1").fetchone() == (1,)
            return caught.value.sqlstate

    assert client(shop_in_lake) == (OTHERS.get(statement) or client(shop_in_postgres))


def test_an_error_in_a_transaction(both: Callable[[Client], Any]) -> None:
    def client(url: str) -> Any:
        found: list[Any] = []
        with psycopg.connect(url) as connection:
            found.append(connection.execute("SELECT 1").fetchone())
            for statement in ("SELECT * FROM gold.missing", "SELECT 2"):
                with pytest.raises(psycopg.Error) as caught:
                    connection.execute(statement)
                found.append((caught.value.sqlstate, connection.info.transaction_status.name))
            connection.rollback()
            with connection.transaction():
                with pytest.raises(psycopg.errors.UndefinedTable), connection.transaction():
                    connection.execute("SELECT * FROM gold.missing")
                found.append(connection.execute("SELECT 3").fetchone())
            found.append(connection.info.transaction_status.name)
        return found

    both(client)


def test_pipelines(both: Callable[[Client], Any]) -> None:
    def client(url: str) -> Any:
        found: list[Any] = []
        with psycopg.connect(url, autocommit=True) as connection:
            with connection.pipeline():
                cursors = [connection.execute("SELECT %s::int", (number,)) for number in range(20)]
                found.append([cursor.fetchone() for cursor in cursors])
            try:
                with connection.pipeline():
                    connection.execute("SELECT 1")
                    connection.execute("SELECT * FROM gold.missing")
                    connection.execute("SELECT 2").fetchone()
            except psycopg.Error as error:
                found.append(error.sqlstate)
            found.append(connection.execute("SELECT 3").fetchone())
        return found

    both(client)


def test_server_side_cursors(both: Callable[[Client], Any]) -> None:
    def client(url: str) -> Any:
        found: list[Any] = []
        with psycopg.connect(url) as connection:
            with connection.cursor("c") as cursor:
                cursor.execute(f"SELECT i, name FROM {NUMBERS} WHERE i > %s ORDER BY i", (5,))
                found += [cursor.fetchone(), cursor.fetchmany(3), len(cursor.fetchall()), cursor.fetchone()]
            with connection.cursor("h", withhold=True) as cursor:
                cursor.execute(f"SELECT i FROM {NUMBERS} ORDER BY i")
                connection.commit()
                cursor.itersize = 100
                found.append(sum(row[0] for row in cursor))
            found += list(connection.cursor().stream(f"SELECT i FROM {NUMBERS} ORDER BY i LIMIT 3"))
        return found

    both(client)


COPIES = [
    "COPY (SELECT i, name, NULL, E'a\\tb\\\\c' FROM {} ORDER BY i LIMIT 3) TO STDOUT",
    "COPY (SELECT i, name, NULL, 'a,\"b' FROM {} ORDER BY i LIMIT 3) TO STDOUT WITH (FORMAT csv, HEADER)",
    "COPY (SELECT i, NULL FROM {} ORDER BY i LIMIT 3) TO STDOUT (FORMAT csv, DELIMITER ';', NULL 'nil', FORCE_QUOTE *)",
    "COPY (SELECT i, name, NULL::text, 1.5::float8 FROM {} ORDER BY i LIMIT 3) TO STDOUT (FORMAT binary)",
    "COPY (SELECT i FROM {} WHERE false) TO STDOUT (FORMAT binary)",
    "COPY (SELECT '', NULL, '\\.') TO STDOUT CSV",
]


@pytest.mark.parametrize("statement", COPIES)
def test_copies(both: Callable[[Client], Any], statement: str) -> None:
    def client(url: str) -> Any:
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.cursor()
            with cursor.copy(statement.format(NUMBERS)) as copy:
                return [bytes(each) for each in copy], cursor.statusmessage

    both(client)


def test_notices_and_settings(both: Callable[[Client], Any]) -> None:
    def client(url: str) -> Any:
        found: list[Any] = []
        with psycopg.connect(url, autocommit=True) as connection:
            connection.add_notice_handler(lambda notice: found.append((notice.severity, notice.sqlstate)))
            connection.execute("COMMIT")
            connection.execute("BEGIN")
            connection.execute("BEGIN")
            connection.execute("SET LOCAL TimeZone = 'Asia/Tokyo'")
            found.append(connection.info.parameter_status("TimeZone"))
            found.append(connection.execute("SELECT '2024-01-01 00:00:00+00'::timestamptz::text").fetchone())
            connection.execute("COMMIT")
            connection.execute("SET TimeZone = 'America/New_York'")
            found.append(connection.info.parameter_status("TimeZone"))
            found.append(connection.execute("SELECT '2024-01-01 00:00:00+00'::timestamptz::text").fetchone())
            names = ("client_encoding", "standard_conforming_strings", "integer_datetimes", "DateStyle")
            found += [connection.info.parameter_status(name) for name in names]
        return found

    both(client)


@pytest.mark.parametrize(
    ("word", "same"),
    [
        ("current_date", "current_date = now()::date"),
        ("current_timestamp", "current_timestamp = now()"),
        ("localtime", "localtime = localtimestamp::time"),
        ("localtimestamp", "localtimestamp = now()::timestamp"),
        ("current_user", "current_user = session_user"),
        ("user", "user = current_user"),
    ],
)
def test_words_that_are_calls_without_brackets_stand_alone(both: Callable[[Client], Any], word: str, same: str) -> None:
    """Also where the column of the result has their name, and far from where the server is."""

    def client(url: str) -> Any:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SET TimeZone = 'Pacific/Kiritimati'")
            cursor = connection.execute(f"SELECT {word}")
            assert cursor.description
            told = [(each.name, each.type_code) for each in cursor.description]
            return told, connection.execute(f"SELECT {same} FROM (SELECT {word}) AS x").fetchone()

    assert both(client)[1] == (True,)


def test_the_time_of_day_stands_alone(shop_in_lake: str) -> None:
    with psycopg.connect(shop_in_lake) as connection:
        assert connection.execute("SELECT current_time").fetchone() is not None


# asyncpg


def by_asyncpg(work: Callable[[Any], Awaitable[Any]]) -> Client:
    async def run(url: str) -> Any:
        import asyncpg

        connection = await asyncpg.connect(url)
        try:
            return await work(connection)
        finally:
            await connection.close()

    return lambda url: asyncio.run(run(url))


def test_asyncpg_reads_and_binds_in_binary(both: Callable[[Client], Any]) -> None:
    async def work(connection: Any) -> Any:
        found = [
            [tuple(row) for row in await connection.fetch(f"SELECT i, name FROM {NUMBERS} WHERE i < $1 ORDER BY i", 5)],
            await connection.fetchval("SELECT $1::numeric(10,2)", Decimal("1.50")),
            await connection.fetchval("SELECT $1::timestamptz", datetime(2024, 1, 1, tzinfo=UTC)),
            await connection.fetchval("SELECT $1::date", date(2024, 1, 1)),
            await connection.fetchval("SELECT $1::uuid", uuid.UUID(int=5)),
            await connection.fetchval("SELECT $1::bytea", b"\0\xff"),
            await connection.fetchval("SELECT $1::text", "é'\\"),
            await connection.execute("SELECT 1; SELECT 2"),
        ]
        async with connection.transaction():
            found.append(
                [row["i"] async for row in connection.cursor(f"SELECT i FROM {NUMBERS} ORDER BY i", prefetch=50)]
            )
        prepared = await connection.prepare("SELECT $1::int AS a, $2::text AS b")
        found.append([(each.name, each.type.name) for each in prepared.get_attributes()])
        found.append([each.name for each in prepared.get_parameters()])
        found += [await prepared.fetchval(number, "x") for number in range(3)]
        return found

    both(by_asyncpg(work))


def test_asyncpg_binds_an_array(both: Callable[[Client], Any]) -> None:
    async def work(connection: Any) -> Any:
        return [
            await connection.fetchval("SELECT $1::int[]", [1, None, 3]),
            await connection.fetchval("SELECT $1::numeric(5,2)[]", [Decimal("1.50")]),
            await connection.fetchval(f"SELECT count(*) FROM {NUMBERS} WHERE i = ANY($1::int[])", [1, 9, 999]),
        ]

    assert both(by_asyncpg(work)) == [[1, None, 3], [Decimal("1.50")], 2]


@pytest.mark.parametrize("query", ["INTRO_LOOKUP_TYPES", "INTRO_LOOKUP_TYPES_13"])
def test_asyncpg_looks_types_up(both: Callable[[Client], Any], query: str) -> None:
    async def work(connection: Any) -> Any:
        from asyncpg import introspection

        # Arrays, a range and an array of them, a plain type, and one that there is not.
        rows = await connection.fetch(getattr(introspection, query), [1007, 1231, 1028, 3904, 3905, 23, 1])
        return sorted(str([each.decode() if isinstance(each, bytes) else each for each in row]) for row in rows)

    assert len(both(by_asyncpg(work))) > 6


def test_asyncpg_sees_errors_and_goes_on(both: Callable[[Client], Any]) -> None:
    async def work(connection: Any) -> Any:
        import asyncpg

        found = []
        for statement in ("SELECT * FROM gold.missing", "SELECT 1/0", "SELEC"):
            try:
                await connection.fetch(statement)
            except asyncpg.PostgresError as error:
                found.append(error.sqlstate)
        found.append(await connection.fetchval("SELECT 1"))
        return found

    assert len(both(by_asyncpg(work))) == 4


def test_a_connection_goes_back_into_asyncpgs_pool(both: Callable[[Client], Any]) -> None:
    """It is reset by four statements, one of which gives back locks that nobody can have here."""

    async def run(url: str) -> Any:
        import asyncpg

        async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
            found = []
            for number in range(3):
                async with pool.acquire() as connection:
                    found.append(await connection.fetchval("SHOW application_name"))
                    await connection.execute(f"SET application_name = 'turn {number}'")
            return [*found, await pool.fetchval("SELECT 1")]

    assert both(lambda url: asyncio.run(run(url))) == ["", "", "", 1]


# psql


def psql(url: str, script: str) -> str:
    environment = {**os.environ, "PGCLIENTENCODING": "UTF8", "PSQLRC": os.devnull}
    done = subprocess.run(
        [binary("psql"), "--no-psqlrc", "-v", "VERBOSITY=sqlstate", url],
        input=script, capture_output=True, text=True, timeout=60, check=False, env=environment,
    )  # fmt: skip
    return done.stdout + done.stderr


SCRIPTS = {
    "several statements": "SELECT 1 AS a; SELECT 'x' AS b\\; SELECT 2 AS c;\nSELECT NULL AS n, true AS t;\n",
    "an error and on": "SELECT 1;\nSELECT * FROM gold.missing;\nSELECT 2;\n",
    "transactions": "BEGIN;\nSELECT 1/0;\nSELECT 1;\nROLLBACK;\nSELECT 5;\n",
    "portions": f"\\set FETCH_COUNT 100\nSELECT i FROM {NUMBERS} ORDER BY i;\n",
    "expanded and csv": "\\x\nSELECT 1 AS a, 'b' AS b;\n\\x\n\\pset format csv\nSELECT 1 AS a, 'b,c' AS b;\n",
    "gdesc": "SELECT 1 AS a, 'x'::text AS b, 1.5::float8 AS c, now() AS d \\gdesc\n",
    "bind": "SELECT $1::int + 1, $2::text \\bind 41 'x' \\g\n",
    "copy": f"\\copy (SELECT i, name FROM {NUMBERS} ORDER BY i LIMIT 2) TO STDOUT CSV HEADER\n",
    "cursors": f"BEGIN;\nDECLARE c CURSOR FOR SELECT i FROM {NUMBERS} ORDER BY i;\nFETCH 2 FROM c;\nMOVE 3 IN c;\n"
    "FETCH NEXT FROM c;\nCLOSE c;\nCOMMIT;\n",
    "pipeline": "\\startpipeline\nSELECT 1 \\sendpipeline\nSELECT 2 \\sendpipeline\n\\endpipeline\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_psql(both: Callable[[Client], Any], name: str) -> None:
    assert both(lambda url: psql(url, SCRIPTS[name]))


# SQLAlchemy


def test_sqlalchemy_reads(both: Callable[[Client], Any]) -> None:
    import sqlalchemy as sa

    def client(url: str) -> Any:
        engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
        found: list[Any] = []
        with engine.connect() as connection:
            series = sa.func.generate_series(1, 250).table_valued("i").render_derived()
            found.append(connection.execute(sa.select(series.c.i).where(series.c.i > 247).order_by("i")).all())
            found.append(connection.execute(sa.text("SELECT :a + 1, :b"), {"a": 1, "b": "x'y"}).all())
            streamed = sa.text(f"SELECT * FROM {NUMBERS}").execution_options(stream_results=True, max_row_buffer=50)
            found.append(len(connection.execute(streamed).all()))
            with pytest.raises(sa.exc.ProgrammingError):
                connection.execute(sa.text("SELECT * FROM gold.missing"))
            connection.rollback()
            with connection.begin_nested():
                found.append(connection.execute(sa.text("SELECT 1")).scalar())
        engine.dispose()
        return [[tuple(row) for row in each] if isinstance(each, list) else each for each in found]

    both(client)
