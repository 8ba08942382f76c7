"""The wire without the lake: sessions over plain DuckDB, with just enough of SQL read to try the protocol."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from mere.serve.language import copy_options
from mere.serve.protocol import types
from mere.serve.protocol.activity import Activity
from mere.serve.protocol.port import Described, Field, PgError
from mere.serve.protocol.statement import (
    Begin,
    Close,
    Commit,
    CopyOptions,
    CopyOut,
    CreateView,
    Deallocate,
    Declare,
    Discard,
    DropView,
    Execute,
    Fetch,
    Move,
    Prepare,
    Query,
    Release,
    Rollback,
    RollbackTo,
    Savepoint,
    Set,
    Statement,
)

SETTINGS = {
    "server_version": "16.0 (mere)",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "application_name": "",
    "is_superuser": "off",
}
STRINGS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
NAMED = {"UUID": types.UUID, "JSON": types.JSON}
ARROW = {
    types.BOOL: "BOOLEAN", types.INT2: "SMALLINT", types.INT4: "INTEGER", types.INT8: "BIGINT", types.FLOAT4: "FLOAT",
    types.FLOAT8: "DOUBLE", types.NUMERIC: "DECIMAL(38,10)", types.BYTEA: "BLOB", types.DATE: "DATE",
    types.TIME: "TIME", types.TIMESTAMP: "TIMESTAMP", types.TIMESTAMPTZ: "TIMESTAMPTZ", types.INTERVAL: "INTERVAL",
    types.UUID: "UUID", types.JSON: "JSON", types.JSONB: "JSON",
}  # fmt: skip


class PlainAnswer:
    def __init__(self, cursor: duckdb.DuckDBPyConnection, batch: int) -> None:
        self._cursor = cursor
        self._reader = cursor.to_arrow_reader(batch)
        arrow = self._reader.schema
        self.closed = False
        self.fields = tuple(
            _field(name, kind, str(about[1]))
            for name, kind, about in zip(arrow.names, arrow.types, cursor.description or [], strict=True)
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        while True:
            try:
                batch = next(self._reader, None)
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                raise told(error) from error
            if batch is None:
                return
            yield batch

    def cancel(self) -> None:
        self._cursor.interrupt()

    def close(self) -> None:
        self.closed = True
        self._cursor.close()


def _field(name: str, arrow: pa.DataType, declared: str) -> Field:
    named = NAMED.get(declared)
    return types.field(name, arrow) if named is None else Field(name, named, types.size(named))


def told(error: Exception) -> PgError:
    text = str(error)
    if "INTERRUPT" in text.upper():
        return PgError("57014", "canceling statement due to user request")
    if "does not exist" in text and "Table" in text:
        return PgError("42P01", text.splitlines()[0])
    if "Parser" in type(error).__name__:
        return PgError("42601", text.splitlines()[0])
    return PgError("22000", text.splitlines()[0])


class PlainSession:
    def __init__(self, database: duckdb.DuckDBPyConnection, settings: dict[str, str], batch: int) -> None:
        self.settings = SETTINGS | settings
        self.database = "main"
        self.commit: str | None = "0123abcd"
        self.pins = 0
        self.pinned = self.closed = False
        self.views: Any = None
        self._database = database
        self._batch = batch
        self._running: list[duckdb.DuckDBPyConnection] = []

    def read(self, text: str) -> list[Statement]:
        hidden = STRINGS.sub(lambda found: "x" * len(found[0]), text)
        statements, start = [], 0
        for each in [*re.finditer(";", hidden), None]:
            end = each.start() if each else len(text)
            if text[start:end].strip():
                statements.append(statement(text[start:end].strip()))
            start = end + 1
        return statements

    def describe(self, statement: Statement, declared: Sequence[int], values: Sequence[Any] | None = None) -> Described:
        count = max((int(each) for each in re.findall(r"\$(\d+)", STRINGS.sub("", statement.text))), default=0)
        oids = [*declared, *([0] * count)][: max(count, len(declared))]
        oids = [oid or types.TEXT for oid in oids]
        answer = self.run(statement, [None] * count, oids)
        answer.close()
        return Described(tuple(oids), answer.fields)

    def run(self, statement: Statement, values: Sequence[Any], oids: Sequence[int]) -> PlainAnswer:
        text = statement.text
        if statement.tag == "SHOW":
            name = text.split()[-1]
            text = f"SELECT '{self.settings.get(name, '')}' AS \"{name}\""
        for number, oid in reversed(list(enumerate(oids, 1))):
            text = re.sub(rf"\${number}\b", f"(${number}::{_duckdb_type(oid)})", text)
        cursor = self._database.cursor()
        self._running.append(cursor)
        try:
            cursor.execute(text, list(values)[: len(set(re.findall(r"\$\d+", text)))])
            return PlainAnswer(cursor, self._batch)
        except duckdb.Error as error:
            cursor.close()
            raise told(error) from error

    def create_view(self, statement: CreateView) -> None:
        raise NotImplementedError(statement.tag)

    def drop_views(self, statement: DropView) -> list[PgError]:
        raise NotImplementedError(statement.tag)

    def drop_all_views(self) -> None:
        self.views = None

    def begin(self, commit: str | None = None) -> None:
        assert not self.pinned
        self.pinned = True
        self.pins += 1

    def end(self) -> None:
        assert self.pinned
        self.pinned = False

    def set(self, name: str | None, value: str | None, local: bool) -> None:
        if name is None:
            self.settings = dict(SETTINGS)
        elif value is not None:
            spelled = next((each for each in SETTINGS if each.lower() == name.lower()), name)
            self.settings = self.settings | {spelled: value}

    def cancel(self) -> None:
        for each in self._running[-1:]:
            each.interrupt()

    def close(self) -> None:
        self.closed = True


def _duckdb_type(oid: int) -> str:
    if oid in types.ELEMENTS:
        return ARROW.get(types.ELEMENTS[oid], "VARCHAR") + "[]"
    return ARROW.get(oid, "VARCHAR")


class PlainBackend:
    """`sessions` are all that were opened."""

    def __init__(self, batch: int = 2048) -> None:
        self.database = duckdb.connect(config={"threads": 2})
        self.sessions: list[PlainSession] = []
        self.activity = Activity()
        self._batch = batch

    def admit(self) -> None:
        pass

    def connect(self, user: str, database: str, settings: dict[str, str], process: int = 0) -> PlainSession:
        if database == "nowhere":
            raise PgError("3D000", f'database "{database}" does not exist')
        self.sessions.append(PlainSession(self.database, settings, self._batch))
        return self.sessions[-1]


def _options(text: str) -> CopyOptions:
    found = re.findall(r"(\w+)(?:\s+(?:E?'([^']*)'|(\w+)|(\*)))?\s*(?:,|$)", text)
    return copy_options.read(
        (name.lower(), quoted or word or (["*"] if star else None)) for name, quoted, word, star in found
    )


def statement(text: str) -> Statement:
    word = text.split(maxsplit=1)[0].upper()
    rest = text[len(word) :].strip()
    if word in ("LISTEN", "NOTIFY"):
        raise PgError("0A000", f"{word} is not supported")
    if word in ("INSERT", "UPDATE", "DELETE", "CREATE", "DROP"):
        raise PgError("25006", f"cannot execute {word} in a read-only transaction")
    read = READERS.get(word)
    return read(word, text, rest) if read else Query("SELECT", text)


def _rollback(word: str, text: str, rest: str) -> Statement:
    if found := re.match(r"to (?:savepoint )?(.+)", rest, re.IGNORECASE):
        return RollbackTo(word, text, name=found[1].strip('"'))
    return Rollback(word, text)


def _set(word: str, text: str, rest: str) -> Statement:
    name, value = re.split(r"\s*=\s*|\s+to\s+", rest, maxsplit=1, flags=re.IGNORECASE)
    return Set(word, text, name=name, value=value.strip("'"))


def _last(rest: str) -> str:
    return rest.rsplit(maxsplit=1)[-1].strip('"')


def _close(_: str, text: str, rest: str) -> Statement:
    name = _last(rest)
    return Close("CLOSE CURSOR", text, name=None if name.upper() == "ALL" else name)


def _deallocate(word: str, text: str, rest: str) -> Statement:
    name = _last(rest)
    return Deallocate(f"{word} ALL", text, name=None) if name.upper() == "ALL" else Deallocate(word, text, name=name)


def _declare(_: str, text: str, rest: str) -> Statement:
    found = re.match(r"(\S+)(.*?)\bcursor\b(.*?)\bfor\b(.*)", rest, re.IGNORECASE | re.DOTALL)
    assert found
    return Declare(
        "DECLARE CURSOR",
        text,
        name=found[1].strip('"'),
        query=_query(found[4]),
        binary="BINARY" in found[2].upper(),
        hold=bool(re.search(r"with\s+hold", found[3], re.IGNORECASE)),
    )


def _fetch(word: str, text: str, rest: str) -> Statement:
    parts = [each for each in rest.split() if each.upper() not in ("FROM", "IN", "FORWARD", "NEXT")]
    backward = "BACKWARD" in rest.upper()
    absolute = "ABSOLUTE" in rest.upper()
    parts = [each for each in parts if each.upper() not in ("BACKWARD", "ABSOLUTE")]
    number = parts[0] if len(parts) > 1 else "1"
    amount = None if number.upper() == "ALL" else int(number) * (-1 if backward else 1)
    kind = Move if word == "MOVE" else Fetch
    return kind(word, text, name=parts[-1].strip('"'), count=amount, absolute=absolute)


def _copy(word: str, text: str, rest: str) -> Statement:
    found = re.match(r"\((.*)\)\s*to\s+stdout\s*(?:with\s*)?(?:\((.*)\))?$", rest, re.IGNORECASE | re.DOTALL)
    assert found
    return CopyOut(word, text, query=_query(found[1]), options=_options(found[2] or ""))


def _prepare(word: str, text: str, rest: str) -> Statement:
    found = re.match(r"(\w+)\s*(?:\(([^)]*)\))?\s+as\s+(.*)", rest, re.IGNORECASE | re.DOTALL)
    assert found
    given = tuple(types.BY_NAME[each.strip()].oid for each in found[2].split(",")) if found[2] else ()
    return Prepare(word, text, name=found[1], query=_query(found[3]), types=given)


def _execute(word: str, text: str, rest: str) -> Statement:
    found = re.match(r"(\w+)\s*(?:\((.*)\))?$", rest)
    assert found
    values = tuple(each.strip().strip("'") for each in found[2].split(",")) if found[2] else ()
    return Execute(word, text, name=found[1], values=values)


def _query(text: str) -> Query:
    found = statement(text.strip())
    assert isinstance(found, Query)
    return found


READERS: dict[str, Callable[[str, str, str], Statement]] = {
    "BEGIN": lambda word, text, _: Begin(word, text),
    "COMMIT": lambda word, text, _: Commit(word, text),
    "ROLLBACK": _rollback,
    "SAVEPOINT": lambda word, text, rest: Savepoint(word, text, name=_last(rest)),
    "RELEASE": lambda word, text, rest: Release(word, text, name=_last(rest)),
    "SHOW": lambda word, text, _: Query(word, text),
    "SET": _set,
    "CLOSE": _close,
    "DISCARD": lambda word, text, rest: Discard(f"{word} {rest.upper()}", text, what=rest.upper()),
    "DEALLOCATE": _deallocate,
    "DECLARE": _declare,
    "FETCH": _fetch,
    "MOVE": _fetch,
    "COPY": _copy,
    "PREPARE": _prepare,
    "EXECUTE": _execute,
}
