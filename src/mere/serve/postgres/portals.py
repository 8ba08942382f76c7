"""What a connection has prepared, and what it is reading: statements and portals, including cursors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import TYPE_CHECKING, Any

from mere.serve.protocol.port import Answer, Field, PgError
from mere.serve.protocol.statement import Statement
from mere.serve.values import encode

if TYPE_CHECKING:
    import pyarrow as pa

Encode = Callable[["pa.RecordBatch"], memoryview]

_MOST = 1000  # statements with a name, and as many portals
_WEIGHT = 4_000_000  # bytes of all with a name
_STATEMENT, _FIELD = 1000, 100  # bytes that one takes besides its text, and the description of a column


@dataclass(frozen=True)
class Prepared:
    """A statement that was read. `fields` is None where it returns no rows."""

    statement: Statement
    parameters: tuple[int, ...] = ()
    fields: tuple[Field, ...] | None = None

    @property
    def weight(self) -> int:
        texts = sum(getsizeof(each.text) for each in self.statement.all)
        return _STATEMENT + texts + _FIELD * len(self.fields or ())


class Rows:
    """The rows of an answer, taken a piece at a time. `ended`: there are no more."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._pieces = encode.gathered(answer.batches())
        self._rest: tuple[pa.RecordBatch, bool] | None = None
        self.taken = 0
        self.ended = False

    def take(self, limit: int | None) -> pa.RecordBatch | None:
        """The next rows, at most so many; None after the last."""
        piece, last = self._rest or next(self._pieces, (None, True))
        self._rest = None
        if piece is not None and limit is not None and piece.num_rows > limit:
            self._rest = piece.slice(limit), last
            piece, last = piece.slice(0, limit), False
        if last:
            self.close()
        self.taken += 0 if piece is None else piece.num_rows
        return piece

    def close(self) -> None:
        """More than once is once."""
        if not self.ended:
            self.ended = True
            self._rest = None
            self._answer.close()


@dataclass
class Portal:
    """A statement with its values, ready to be executed, and its rows as far as they were not taken yet."""

    prepared: Prepared
    values: Sequence[Any] = ()
    size: int = 0  # of the values, as they were sent
    formats: tuple[int, ...] = ()  # of the columns
    rows: Rows | None = None
    started: bool = False
    hold: bool = False  # it outlives its transaction
    cursor: bool = False  # made by DECLARE
    finished: str | None = field(default=None)  # the tag of what was executed to its end

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.prepared.fields or ()

    @property
    def weight(self) -> int:
        return self.prepared.weight + self.size

    def start(self, answer: Answer) -> None:
        """A table may have got another column since the client was told of the columns."""
        if [each.oid for each in answer.fields] != [each.oid for each in self.fields]:
            answer.close()
            raise PgError("0A000", "cached plan must not change result type")
        self.rows = Rows(answer)

    def close(self) -> None:
        if self.rows is not None:
            self.rows.close()


class Portals:
    """By name, as are the statements; the one without a name is replaced by the next."""

    def __init__(self) -> None:
        self.statements: dict[str, Prepared] = {}
        self.portals: dict[str, Portal] = {}

    def prepare(self, name: str, prepared: Prepared) -> None:
        if name and name in self.statements:
            raise PgError("42P05", f'prepared statement "{name}" already exists')
        _make_sure_of_room(self.statements, name, prepared, "prepared statements", "DEALLOCATE or DISCARD ALL")
        prepared.statement.forget()
        self.statements[name] = prepared

    def statement(self, name: str) -> Prepared:
        if name not in self.statements:
            shown = f'prepared statement "{name}"' if name else "unnamed prepared statement"
            raise PgError("26000", f"{shown} does not exist")
        return self.statements[name]

    def open(self, name: str, portal: Portal) -> None:
        try:
            if name and name in self.portals:
                raise PgError("42P03", f'cursor "{name}" already exists')
            _make_sure_of_room(self.portals, name, portal, "cursors and portals", "CLOSE, COMMIT or DISCARD ALL")
        except PgError:
            portal.close()
            raise
        self.close(name)
        portal.prepared.statement.forget()
        self.portals[name] = portal

    def portal(self, name: str) -> Portal:
        if name not in self.portals:
            raise PgError("34000", f'portal "{name}" does not exist')
        return self.portals[name]

    def cursor(self, name: str) -> Portal:
        if name not in self.portals:
            raise PgError("34000", f'cursor "{name}" does not exist')
        return self.portals[name]

    def close(self, name: str) -> None:
        if name in self.portals:
            self.portals.pop(name).close()

    def close_all(self, *, held: bool) -> None:
        """At the end of a transaction only those that are not held."""
        for name in [name for name, portal in self.portals.items() if held or not portal.hold]:
            self.close(name)


def _make_sure_of_room(
    known: Mapping[str, Prepared] | Mapping[str, Portal], name: str, new: Prepared | Portal, what: str, how: str
) -> None:
    """The one without a name always has some, since the next replaces it; so has the first, however long it is."""
    others = [len(other) + each.weight for other, each in known.items() if other]
    if not name or not others:
        return
    hint = f"{how} makes room."
    if len(others) >= _MOST:
        raise PgError("53400", f"this connection has {_MOST} {what} already", hint=hint)
    if sum(others) + len(name) + new.weight > _WEIGHT:
        raise PgError("53400", f"the {what} of this connection take too much memory", hint=hint)
