"""Queries that clients send on their own, kept in `fixtures` with where they come from, and how to send them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import pq

_FOLDER = Path(__file__).with_name("fixtures")
_PARAMETER = re.compile(r"\$\d+ = (?:'((?:[^']|'')*)'|NULL)")
_OID = re.compile(r"\{([a-z][a-z_.]+)\}")
_REMARKS = ("-- rows differ: ", "-- no rows: ", "-- Postgres 18 refuses: ", "-- types differ: ")
# Of an oid, where Postgres's own are below and do not differ.
_OBJECTS = """
    SELECT c.oid::bigint, n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname IN ('gold', 'silver')
    UNION ALL SELECT oid::bigint, nspname FROM pg_namespace WHERE nspname IN ('gold', 'silver')
    UNION ALL SELECT oid::bigint, 'key ' || conname FROM pg_constraint WHERE contype = 'p'"""


@dataclass(frozen=True)
class Query:
    client: str
    name: str
    text: str
    values: tuple[str | None, ...] = ()
    differs: str | None = None  # why the gateway's rows are not Postgres's
    nothing: str | None = None  # why the gateway has none of Postgres's rows
    refused: str | None = None  # what Postgres says, of a client that is older
    typed: str | None = None  # why columns have other types than in Postgres

    def arranged(self, rows: list[tuple[str | None, ...]]) -> list[tuple[str | None, ...]]:
        """In the order that the query asks for, if it asks for one."""
        return rows if "order by" in self.text.lower() else sorted(rows, key=str)

    def __str__(self) -> str:
        return f"{self.client} {self.name}"


@dataclass(frozen=True)
class Rows:
    columns: list[str]
    types: list[int]
    rows: list[tuple[str | None, ...]]


def queries() -> list[Query]:
    return [query for path in sorted(_FOLDER.glob("*.sql")) for query in _read(path)]


def _read(path: Path) -> list[Query]:
    origin, *blocks = re.split(r"^-- name: ", path.read_text(), flags=re.MULTILINE)
    assert origin.startswith("-- origin: "), path
    return [_query(path.stem, block) for block in blocks]


def _query(client: str, block: str) -> Query:
    name, _, rest = block.partition("\n")
    lines = rest.splitlines()
    values = [line for line in lines if line.startswith("-- $")]
    text = "\n".join(line for line in lines if not line.startswith(("-- $", *_REMARKS))).strip()
    found = [
        each[1].replace("''", "'") if each[1] is not None else None
        for line in values
        for each in _PARAMETER.finditer(line)
    ]
    return Query(client, name, text, tuple(found), *(_remark(lines, kind) for kind in _REMARKS))


def _remark(lines: list[str], kind: str) -> str | None:
    return next((line.removeprefix(kind) for line in lines if line.startswith(kind)), None)


class Server:
    """A connection, and the numbers that its objects have."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.names = {str(oid): name for oid, name in self.connection.execute(_OBJECTS).fetchall()}
        self._oids = {name: oid for oid, name in self.names.items()}

    def ask(self, query: Query) -> Rows:
        """As the client would: texts, of which the server has to find the types."""
        text = self._numbered(query.text)
        values = [value if value is None else self._numbered(value).encode() for value in query.values]
        result = self.connection.pgconn.exec_params(text.encode(), values)
        assert result.status == pq.ExecStatus.TUPLES_OK, f"{query}: {result.error_message.decode()}\n{text}"
        columns = [(result.fname(at) or b"").decode() for at in range(result.nfields)]
        types = [result.ftype(at) for at in range(result.nfields)]
        rows = [
            tuple(self._named(result.get_value(row, column)) for column in range(result.nfields))
            for row in range(result.ntuples)
        ]
        return Rows(columns, types, rows)

    def _numbered(self, text: str) -> str:
        return _OID.sub(lambda found: self._oids[found[1]], text)

    def _named(self, value: bytes | None) -> str | None:
        return None if value is None else self.names.get(value.decode(), value.decode())

    def close(self) -> None:
        self.connection.close()
