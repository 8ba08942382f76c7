"""Rows of a Postgres database: the query that makes each value arrive in Spark as it is there.

Spark's reader leaves some of that to chance: a timestamp is moved by the time zone of the JVM, a numeric without a
precision is cut, money is a float. So Postgres itself sends what cannot be read wrongly (days, microseconds, texts),
under names that need no quoting, and Spark makes of it what it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from mere.errors import LakeError, SourceError
from mere.lake.store.postgres.address import PostgresAddress, line
from mere.sources.cursor import less
from mere.sources.source import Database, Portion
from mere.sql.spelling.standard import quoted

if TYPE_CHECKING:
    import psycopg

PARTITION = "p"  # the column by which it is read in parts

_PLAIN = ("bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bytea")
_IN_ARRAYS = ("bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar")
_INTEGERS = ("int2", "int4", "int8")
_TIMES = ("date", "timestamp", "timestamptz")
_WIDEST = 38  # digits of a decimal
# Spark has no infinity. These are its own reader's words for it, too.
_DAYS = {"infinity": 2932896, "-infinity": -719162}  # 9999-12-31 and 0001-01-01
_MICROS = {"infinity": 253402300799999999, "-infinity": -62135596800000000}
_TEXT_OF = {
    "date": "to_char({}, 'YYYY-MM-DD')",
    "timestamp": """to_char({}, 'YYYY-MM-DD"T"HH24:MI:SS.US')""",
    "timestamptz": """to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')""",
}
# As Spark reads the bounds of a partitioned read. Where exactly the cuts are does not matter.
_BOUND = {"date": _TEXT_OF["date"]} | dict.fromkeys(
    ("timestamp", "timestamptz"), "to_char({}, 'YYYY-MM-DD HH24:MI:SS')"
)
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_WHO = re.compile(r'\b(user|role) "[^"]*"')


@dataclass(frozen=True)
class Column:
    """Of a table or a query."""

    name: str
    type: str  # in Postgres's words
    digits: tuple[int, int] | None = None  # of a numeric: its precision and scale, if it has them
    element: str | None = None  # of an array

    @property
    def quoted(self) -> str:
        return quoted(self.name)


def table_name(text: str) -> tuple[str, ...]:
    """`orders`, `shop.Orders`, `"my schema"."a.b"`: the parts of a name, each exactly as it is in the database."""
    parts, at = [], 0
    while found := _PART.match(text, at):
        parts.append(found[1].replace('""', '"') if found[1] else found[2].strip())
        at = found.end()
        if at == len(text) or text[at] != ".":
            break
        at += 1
    if at != len(text) or text.endswith(".") or not all(parts) or len(parts) not in (1, 2) or "\0" in text:
        raise SourceError(
            f"{text!r} is not the name of a table.",
            remedy='Write schema.table; in a name with a dot or a quote: "my.schema"."my ""own"" table".',
        )
    return tuple(parts)


def relation(database: Database) -> str:
    """What stands after FROM: the table, or the query in parentheses."""
    if database.query is not None:
        # On lines of its own: it may end with a comment.
        return f"(\n{database.query.strip().rstrip(';')}\n) AS t"
    return f"{'.'.join(map(quoted, table_name(database.table or '')))} AS t"


@contextmanager
def connected(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """A transaction that reads. What goes wrong is a SourceError without the user and the password."""
    import psycopg

    try:
        address = PostgresAddress.parse(database.url)
        with address.opened("mere") as connection:
            try:
                connection.execute("SET TRANSACTION READ ONLY")
                yield connection
            except psycopg.Error as error:
                raise _refused(database, address, error) from None
    except LakeError as error:
        raise SourceError(_without_who(error.message), remedy=error.remedy) from None


def described(connection: psycopg.Connection[Any], database: Database) -> list[Column]:
    """The columns, as the server itself knows them. No row is read."""
    result = connection.execute(f"SELECT * FROM {relation(database)} LIMIT 0".encode()).pgresult
    assert result is not None
    fields = [(result.fname(at), result.ftype(at), result.fmod(at)) for at in range(result.nfields)]
    types = connection.execute(
        "SELECT t.oid, t.typname, e.typname FROM pg_type AS t LEFT JOIN pg_type AS e ON e.oid = t.typelem"
        " AND t.typname LIKE '\\_%%' WHERE t.oid = ANY(%s)",
        [[oid for _, oid, _ in fields]],
    ).fetchall()
    named = {oid: (name, element) for oid, name, element in types}
    columns = []
    for name, oid, modifier in fields:
        type_, element = named[oid]
        columns.append(Column((name or b"").decode(), type_, _digits(type_, modifier), element))
    _check_names(database, columns)
    return columns


def given(column: Column, *, as_text: bool) -> tuple[str, str]:
    """What Postgres sends for a column, and what Spark makes of it (`{}` stands for what came)."""
    name = column.quoted
    if as_text:
        return f"{name}::text", "{}"
    match column.type:
        case "date":
            return _finite(name, f"{name} - DATE '1970-01-01'", _DAYS), "date_from_unix_date({})"
        case "timestamp" | "timestamptz":
            micros = _finite(name, f"(extract(epoch FROM {name}) * 1000000)::bigint", _MICROS)
            return micros, "timestamp_micros({})" if column.type == "timestamptz" else _WITHOUT_ZONE
        case "numeric" if column.digits:
            precision, scale = column.digits
            return (name if scale <= precision else f"{name}::numeric({scale}, {scale})"), "{}"
        case "money":
            return f"{name}::numeric(21, 2)", "{}"
        case "interval":
            raise SourceError(
                f"The column {column.name} is an interval, which no column of a lake can hold: a month has no length.",
                remedy=f"Write a `query:` with extract(epoch FROM {name}), or declare it as text:"
                f" `columns: {{{column.name}: string}}`.",
            )
    if column.element is not None:
        return (name if column.element in _IN_ARRAYS else f"{name}::text[]"), "{}"
    return (name if column.type in _PLAIN else f"{name}::text"), "{}"


# By way of UTC, which is the time zone of every session of mere.
_WITHOUT_ZONE = "CAST(timestamp_micros({}) AS TIMESTAMP_NTZ)"


def _finite(name: str, expression: str, infinities: Mapping[str, int]) -> str:
    others = " ".join(f"WHEN {name} = '{word}' THEN {value}" for word, value in infinities.items())
    return f"CASE WHEN isfinite({name}) THEN {expression} {others} END"


def newest(connection: psycopg.Connection[Any], database: Database, cursor: Column) -> str | None:
    """The greatest value of the cursor; infinity is none. An index on it makes this quick."""
    text = _TEXT_OF.get(cursor.type, "{}::text").format(f"max({cursor.quoted})")
    found = _one(connection, f"SELECT {text} FROM {relation(database)} WHERE {_is_finite(cursor)}")
    return None if found is None else str(found)


def _is_finite(column: Column) -> str:
    """A condition that an index helps with."""
    if column.type in _TIMES:
        return f"{column.quoted} > '-infinity' AND {column.quoted} < 'infinity'"
    return f"{column.quoted} <> 'NaN'" if column.type == "numeric" else f"{column.quoted} IS NOT NULL"


def without_cursor(connection: psycopg.Connection[Any], database: Database, cursor: Column) -> int:
    """How many rows no later load will find, because their cursor is NULL."""
    return int(_one(connection, f"SELECT count(*) FROM {relation(database)} WHERE {cursor.quoted} IS NULL"))


def bounds(
    connection: psycopg.Connection[Any], database: Database, portion: Portion, columns: list[Column]
) -> tuple[str, str] | None:
    """Between which values the rows of a portion are cut into parts; None if they are not worth cutting."""
    column = find(columns, database.partition_column or "", database)
    name, kind = column.quoted, column.type
    if kind not in (*_INTEGERS, *_TIMES, "numeric"):
        raise SourceError(
            f"{database.partition_column} of {database.table or 'the query'} is {kind}: rows cannot be cut into parts"
            " by it.",
            remedy="Let `partitions.column` be a number, a date or a time.",
        )
    rounded = ("floor({})", "ceil({})") if kind == "numeric" else ("{}", "{}")
    low, high = rounded[0].format(f"min({name})"), rounded[1].format(f"max({name})")
    form = _BOUND.get(kind, "{}::text")
    condition = " AND ".join(filter(None, (where(database, portion, columns), _is_finite(column))))
    query = f"SELECT {form.format(low)}, {form.format(high)} FROM {relation(database)} WHERE {condition}"
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return (row[0], row[1]) if row[0] is not None and row[0] != row[1] else None


def where(database: Database, portion: Portion, columns: list[Column]) -> str:
    """The rows of a portion: from the last value less the overlap up to the newest when it was planned.

    Rows without a cursor come with a full load only. Those at infinity come with every load: they are above all that
    was loaded before, where a load without a key replaces the rows.
    """
    if database.cursor is None or portion.until is None:
        return ""
    cursor = find(columns, database.cursor, database)
    name = cursor.quoted
    up_to = [f"{name} <= {_literal(portion.until, cursor)}"]
    if cursor.type in _TIMES:
        up_to.append(f"{name} = 'infinity'")
    if portion.since is None:
        return f"({' OR '.join([*up_to, f'{name} IS NULL'])})"
    return f"{name} >= {_literal(less(portion.since, database.overlap), cursor)} AND ({' OR '.join(up_to)})"


def find(columns: list[Column], name: str, database: Database) -> Column:
    for column in columns:
        if column.name == name:
            return column
    raise SourceError(
        f"{database.table or 'The query'} has no column {name}. It has: {', '.join(each.name for each in columns)}.",
        remedy="Names are written as they are in the database, capitals and all.",
    )


def check_cursor(cursor: Column) -> None:
    if cursor.type not in (*_INTEGERS, *_TIMES, "numeric"):
        raise SourceError(
            f"The column {cursor.name} is {cursor.type}, and cannot be a cursor.",
            remedy="A cursor is a number, a date or a time that only grows.",
        )


def _literal(value: str, column: Column) -> str:
    """Checked, so that nothing but a value gets into the statement, whoever wrote it into the ledger."""
    try:
        if column.type in _TIMES:
            datetime.fromisoformat(value)
            return f"'{value}'::{column.type}"
        if not Decimal(value).is_finite():
            raise InvalidOperation
    except (ValueError, InvalidOperation):
        raise SourceError(
            f"{value!r} is not a value of {column.name}, which is {column.type}.",
            remedy="If the cursor is another column now, reload everything: mere run --full-refresh",
        ) from None
    return f"'{value}'::numeric" if column.type == "numeric" else value


def _digits(type_: str, modifier: int) -> tuple[int, int] | None:
    if type_ != "numeric" or modifier < 0:
        return None
    precision, scale = ((modifier - 4) >> 16) & 0xFFFF, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
    return (precision, scale) if max(precision, scale) <= _WIDEST and scale >= 0 else None


def _check_names(database: Database, columns: list[Column]) -> None:
    names = [column.name for column in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SourceError(
            f"{database.table or 'The query'} has two columns {twice[0]}.", remedy="Give one of them another name: AS."
        )


def _one(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def _refused(database: Database, address: PostgresAddress, error: psycopg.Error) -> SourceError:
    from psycopg import errors

    what = database.table or "the query"
    said = f"{address} does not provide {what}: {_without_who(line(error))}. Nothing was loaded."
    match error:
        case errors.InsufficientPrivilege():
            return SourceError(said, remedy=f"Let its owner grant SELECT on {what}.")
        case errors.UndefinedTable():
            return SourceError(said, remedy="A name is written as it is in the database, capitals and schema and all.")
        case errors.OperationalError():
            return SourceError(said, remedy="Check that Postgres runs there; then run again.")
    return SourceError(said, remedy="Correct `database` of the source.")


def _without_who(text: str) -> str:
    return _WHO.sub(r'\1 "…"', text)
