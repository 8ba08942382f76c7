"""What a database offers, and how Spark reads it. Postgres is asked by its own client, without a JVM; nothing is known
about others before Spark reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from mere.engine.jvm import jars
from mere.errors import LakeError, SourceError
from mere.lake.store.postgres.address import PostgresAddress
from mere.sources import postgres
from mere.sources.cursor import later, less
from mere.sources.source import Database, Declared, Loaded, Portion
from mere.sql.spelling.standard import quoted

if TYPE_CHECKING:
    import psycopg

_SCHEMES = ("postgresql://", "postgres://")
_FETCH = "10000"  # rows at a time: without it, the driver of Postgres would fetch all of them into memory
# Only such names are taken into a statement whose quotes we do not know.
_PLAIN_NAME = re.compile(r"[^\W\d][\w$#]*(\.[^\W\d][\w$#]*){0,2}")
_SECRET = re.compile(r"(?i)(?:(?<=[?&])|(?<=;))(user|username|password|pwd)=([^&;]*)[&;]?")
_AS_OPTION = {"username": "user", "pwd": "password"}
# By name: a jar that came with Spark's settings is not seen by Java's own search for drivers.
_DRIVERS = {
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "postgresql": "org.postgresql.Driver",
    "snowflake": "net.snowflake.client.jdbc.SnowflakeDriver",
    "sqlite": "org.sqlite.JDBC",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}
_TEXT = ("string", "varchar", "char")


@dataclass(frozen=True)
class Reading:
    """How Spark reads the rows of a portion: the options of its JDBC reader, and what becomes of the columns."""

    options: Mapping[str, str] = field(repr=False)
    columns: Mapping[str, str] | None  # by the name in the database, an expression of Spark; None: as they come


def is_postgres(database: Database) -> bool:
    return database.url.startswith(_SCHEMES)


def address(database: Database) -> str:
    """Where the rows are, without a user, a password or an option."""
    if is_postgres(database):
        place = str(_parsed(database))
    else:
        # How they write a user and a password differs: nothing is shown but the product and the host.
        scheme, _, rest = database.url.partition("://")
        host = re.match(r"(?:[^/@]*@)?([A-Za-z0-9.\-\[\]:]+)", rest)
        product = ":".join(scheme.split(":")[:2])
        place = f"{product}://{host[1]}" if host else product
    return f"{place} {database.table}" if database.table else place


def drivers(database: Database) -> tuple[jars.Jar, ...]:
    """What a session needs to read it. An address that is a variable as yet may be one of Postgres."""
    may_be_postgres = is_postgres(database) or database.url.startswith("${")
    return jars.drivers("jdbc:postgresql:" if may_be_postgres else database.url)


def newest(database: Database) -> str | None:
    """The greatest value of the cursor: a number as it is, a date or time in ISO's words, in UTC if it has a zone.

    None if there is no value, or if only Spark can ask this database.
    """
    if database.cursor is None or not is_postgres(database):
        return None
    with postgres.connected(database) as connection:
        return postgres.newest(connection, database, _cursor(postgres.described(connection, database), database))


def offered(database: Database, last: Loaded | None) -> Portion | None:
    """What there is to load after `last`; None if there is certainly nothing new.

    With a cursor: the rows from its last value, less the overlap, up to its newest value now, this one included. They
    are merged by key if the source has one; otherwise they replace all rows from there on, so that a row that came
    late into the overlap is loaded once. Without a cursor all rows are read, and replace the table's.
    """
    since = last.until if last and database.cursor else None
    until = newest(database)
    if since is not None and is_postgres(database):
        _refuse_going_back(database, since, until)
    if until is not None and until == since and not database.overlap:
        return None
    return Portion("rows", address(database), until or "", since=since, until=until)


def _refuse_going_back(database: Database, since: str, until: str | None) -> None:
    """A table that was emptied and filled anew has rows below what was loaded, and nobody would ever see them."""
    floor = less(since, database.overlap)
    now = "has no value" if until is None else f"is at most {until}"
    if until is None or (until != floor and later(until, floor) == floor):
        raise SourceError(
            f"{database.cursor} of {address(database)} was {since} at the last load, and {now} now: rows"
            " were deleted there, or all were replaced.",
            remedy="Reload everything: mere run --full-refresh. If new rows are sometimes deleted: `overlap`.",
        )


def low(database: Database, portion: Portion) -> str | None:
    """The value of the cursor from which the rows of a portion are read; None: from the first."""
    return None if portion.since is None else less(portion.since, database.overlap)


def without_cursor(database: Database) -> int:
    """How many rows have no cursor: they are loaded with a full load only, and no later one sees them change."""
    if database.cursor is None or not is_postgres(database):
        return 0
    with postgres.connected(database) as connection:
        cursor = _cursor(postgres.described(connection, database), database)
        return postgres.without_cursor(connection, database, cursor)


def reading(database: Database, portion: Portion, declared: Mapping[str, Declared]) -> Reading:
    """`declared`: what the source says of its columns. One that is declared as text is what Postgres writes for it."""
    if not is_postgres(database):
        return Reading(_other_options(database), None)
    with postgres.connected(database) as connection:
        columns = postgres.described(connection, database)
        if database.cursor:
            _cursor(columns, database)
        bounds = postgres.bounds(connection, database, portion, columns) if is_cut(database) else None
        options = _credentials(database, connection)
    texts = {each.source or name for name, each in declared.items() if (each.type or "").partition("(")[0] in _TEXT}
    sent, made = [], {}
    for number, column in enumerate(columns):
        given, taken = postgres.given(column, as_text=column.name in texts)
        sent.append(f"{given} AS c{number}")
        made[column.name] = taken.format(f"c{number}")
    if bounds:
        sent.append(f"{quoted(database.partition_column or '')} AS {postgres.PARTITION}")
    where = postgres.where(database, portion, columns)
    rows = f"SELECT {', '.join(sent)} FROM {postgres.relation(database)}{f' WHERE {where}' if where else ''}"
    options |= {"dbtable": f"({rows}) AS r", "fetchsize": _FETCH, "driver": "org.postgresql.Driver"}
    # What a query calls may not write, and who looks at the server sees whose connection it is.
    options |= {"readOnly": "true", "ApplicationName": "mere"}
    if bounds:
        options |= cut(postgres.PARTITION, bounds, database.partitions)
    return Reading(options, made)


def is_cut(database: Database) -> bool:
    """Whether it is read in parts, side by side."""
    return database.partition_column is not None and database.partitions > 1


def cut(column: str, bounds: tuple[str, str], count: int) -> dict[str, str]:
    """Options. The first part has all below and the NULLs, the last all above: bounds lose no row."""
    low, high = bounds
    return {"partitionColumn": column, "lowerBound": low, "upperBound": high, "numPartitions": str(count)}


def _cursor(columns: list[postgres.Column], database: Database) -> postgres.Column:
    cursor = postgres.find(columns, database.cursor or "", database)
    postgres.check_cursor(cursor)
    return cursor


def _credentials(database: Database, connection: psycopg.Connection[Any]) -> dict[str, str]:
    """As libpq found them, in the environment or ~/.pgpass, too; with what the URL says of TLS."""
    found = dict(_parsed(database).jdbc(connection))
    return {"url": found.pop("uri"), **{name.removeprefix("jdbc."): value for name, value in found.items()}}


def _other_options(database: Database) -> dict[str, str]:
    """The URL as it is, apart from a user and a password in it: Spark shows an address, and hides these options."""
    secrets = {name.lower(): unquote_plus(value) for name, value in _SECRET.findall(database.url)}
    url = _SECRET.sub("", database.url).rstrip("?&;")
    driver = _DRIVERS.get(url.split(":")[1] if url.count(":") > 1 else "")
    return {
        "url": url,
        "dbtable": f"(\n{database.query.strip().rstrip(';')}\n) r" if database.query else _plain_name(database),
        "fetchsize": _FETCH,
        **({"driver": driver} if driver else {}),
        **{_AS_OPTION.get(name, name): value for name, value in secrets.items()},
    }


def _plain_name(database: Database) -> str:
    name = database.table or ""
    if not _PLAIN_NAME.fullmatch(name):
        raise SourceError(
            f"{name!r} cannot be asked of this database: how it quotes names is not known.",
            remedy="Write a `query:` instead, with the name in its quotes.",
        )
    return name


def _parsed(database: Database) -> PostgresAddress:
    try:
        return PostgresAddress.parse(database.url)
    except LakeError as error:
        raise SourceError(error.message, remedy=error.remedy) from None
