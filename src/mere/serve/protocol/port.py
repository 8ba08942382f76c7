"""The border between the wire and the part that understands SQL: what one asks and the other answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from mere.serve.protocol.activity import Activity
    from mere.serve.protocol.statement import CreateView, DropView, Statement


class PgError(Exception):
    """An error as Postgres tells it. `position` is that of a character of the statement, from 1 on."""

    def __init__(
        self, sqlstate: str, message: str, *, hint: str | None = None, detail: str | None = None, position: int = 0
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message
        self.hint = hint
        self.detail = detail
        self.position = position


SHUT_DOWN = PgError("57P01", "terminating connection due to administrator command")


@dataclass(frozen=True)
class Field:
    """A column of a result. `mere.serve.protocol.types.field(name, arrow_type)` makes one."""

    name: str
    oid: int
    size: int = -1  # of its type; -1: it varies
    modifier: int = -1  # the precision of a numeric, the length of a varchar
    table: int = 0  # the oid of the table it comes from, if it is a column of one
    number: int = 0  # of the column there


@dataclass(frozen=True)
class Described:
    """What is known of a query before it runs."""

    parameters: tuple[int, ...]  # the oids, in order
    fields: tuple[Field, ...]
    schema: pa.Schema | None = None  # of the batches, where a client wants these themselves


class Answer(Protocol):
    """Rows as they are computed. It can be read once, and has to be closed."""

    @property
    def fields(self) -> tuple[Field, ...]: ...
    def batches(self) -> Iterator[pa.RecordBatch]:
        """The first as soon as it is there; in each, a column for a field, in DuckDB's Arrow types. They are taken by
        one thread after another, never by two at once."""
        ...

    def cancel(self) -> None:
        """May be called from another thread. The reading thread gets PgError 57014."""
        ...

    def close(self) -> None: ...


class Session(Protocol):
    """One connection as the SQL part sees it: a user, a database (a ref), its settings, its pin. `read`, `describe`,
    `run` and an answer's batches are called in a thread; all others by the event loop, and take no time."""

    @property
    def database(self) -> str:
        """The ref that it reads: not always the name that was asked for."""
        ...

    @property
    def settings(self) -> dict[str, str]:
        """By Postgres's own spelling of their names: TimeZone, DateStyle, client_encoding, server_version. Never
        changed in place: where they have changed, it is another object."""
        ...

    @property
    def commit(self) -> str | None:
        """The one that the last statement read, for the audit log."""
        ...

    def read(self, text: str) -> list[Statement]:
        """The statements of a text; PgError 42601 where it is none, 0A000 or 42501 where it is not allowed."""
        ...

    def describe(self, statement: Statement, declared: Sequence[int], values: Sequence[Any] | None = None) -> Described:
        """Of a query. `declared`: the oids of parameters that the client has given, 0 for those it leaves open.
        `values`: as for `run`, where they are known: with them, the fields are those of the answer to the last
        digit."""
        ...

    def run(self, statement: Statement, values: Sequence[Any], oids: Sequence[int]) -> Answer:
        """A query. `values`: as Python values of these types, None for NULL: bool, int, float, Decimal, str, bytes,
        date, time, datetime, UUID, lists of these for arrays. A text, in Postgres's spelling, stands for an interval, a
        json, and for what Python has no value for (infinity, dates after 9999 or before 1)."""
        ...

    def begin(self, commit: str | None = None) -> None:
        """From here on, all statements see one commit: this one, of the same ref, or that of the first statement."""
        ...

    def end(self) -> None: ...
    def set(self, name: str | None, value: str | None, local: bool) -> None: ...

    views: Any
    """The temporary ones. What is made or dropped makes another object, so that what was there can be put back."""

    def create_view(self, statement: CreateView) -> None:
        """Called in a thread, as is `drop_views`."""
        ...

    def drop_views(self, statement: DropView) -> list[PgError]:
        """The notices."""
        ...

    def drop_all_views(self) -> None: ...
    def cancel(self) -> None:
        """May be called from another thread: what the session is at, if anything, fails with PgError 57014."""
        ...

    def close(self) -> None: ...


class Backend(Protocol):
    """Shared by all connections. Its methods may be called by several threads."""

    @property
    def activity(self) -> Activity:
        """The server tells it who is connected."""
        ...

    def admit(self) -> None:
        """PgError 57P03 while nobody is to be let in. Who is in already connects again with every call of Flight."""
        ...

    def connect(self, user: str, database: str, settings: dict[str, str], process: int = 0) -> Session:
        """PgError 3D000 if there is no such ref, 28000 if the user may not read it. `process`: the number by which
        others can cancel what it does; 0 if they cannot."""
        ...
