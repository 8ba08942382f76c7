"""A compiled query in DuckDB, and its rows on the way to a client."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from mere.serve.access import limits
from mere.serve.access.limits import Budget
from mere.serve.engine.memory import Strain
from mere.serve.language import errors
from mere.serve.language.compiler import Compiled
from mere.serve.language.mend import casts
from mere.serve.language.origins import Columns
from mere.serve.protocol import types
from mere.serve.protocol.port import Field, PgError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


_BATCH = 4096  # rows: few enough for long texts, enough to be quick
_NUMBERED = re.compile(r"_\d+$")

Keep = Callable[[tuple[Field, ...], Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Running:
    """A statement in DuckDB, on a connection of its own. One thread works on it at a time; any may cancel it."""

    def __init__(self, compiled: Compiled, zone: str, budget: Budget) -> None:
        self._compiled = compiled
        self._zone = zone
        self._cursor: DuckDBPyConnection = compiled.engine.lend(zone)
        self._budget = budget
        budget.interrupt = self._cursor.interrupt
        self._strain: Strain | None = None
        self._lock = threading.Lock()
        self._cancelled = self._closed = False
        self._ended = False  # well: all rows were taken

    def schema(self, sql: str, values: Sequence[Any] | None) -> tuple[pa.Schema, pa.Schema]:
        """As the batches have it, and with the types that DuckDB's Arrow shows as texts."""
        with self._working():
            bound = self._values(values) if values is not None else []
            cursor = self._cursor.execute(f"SELECT * FROM ({sql}) LIMIT 0", bound)
            found = cursor.to_arrow_table().schema
            named = types.named(found, cursor.description or ())
            if any(_NUMBERED.search(each.name) for each in found):
                # Of two columns with one name, a query around them would give the second another one.
                names = [name for name, *_ in self._cursor.execute(f"DESCRIBE {sql}", bound).fetchall()]
                found, named = (_renamed(each, names) for each in (found, named))
        self._ended = True
        return found, named

    def reader(self, sql: str, values: Sequence[Any]) -> pa.RecordBatchReader:
        with self._working():
            parsed = self._compiled.parsed.get(sql)
            if parsed is None:
                (parsed,) = self._cursor.extract_statements(sql)
                self._compiled.parsed[sql] = parsed
            self._cursor.execute(parsed, self._values(values))
            return self._cursor.to_arrow_reader(_BATCH)

    def fields(self, reader: pa.RecordBatchReader) -> tuple[Field, ...]:
        """The same SQL with the same types has the same fields, whatever the values."""
        known, schema = self._compiled.fields, reader.schema
        if (found := known.get(self._zone)) is None or not found[0].equals(schema):
            named = types.named(schema, self._cursor.description or ())
            found = known[self._zone] = schema, fields_of(named, self._compiled.origins)
        return found[1]

    def next(self, reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
        with self._working():
            found = next(reader, None)
        self._ended = found is None
        return found

    def explain(self, sql: str, values: Sequence[Any]) -> list[str]:
        with self._working():
            rows = self._cursor.execute(f"EXPLAIN {sql}", self._values(values)).fetchall()
        self._ended = True
        return [line for _, plan in rows for line in plan.splitlines()]

    def _values(self, values: Sequence[Any]) -> list[Any]:
        oids = self._compiled.oids
        return [_value(values[number - 1], oids[number - 1]) for number in self._compiled.used]

    def cancel(self) -> None:
        with self._lock:  # once it is closed, the connection is another statement's
            if not self._closed:
                self._cancelled = True
                self._cursor.interrupt()

    @contextmanager
    def _working(self) -> Iterator[None]:
        try:
            with self._budget.running(), self._compiled.engine.watch.over(self._cursor.interrupt) as self._strain:
                if self._cancelled:
                    raise limits.cancelled()
                yield
        except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:  # OSError: from its stream
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> PgError:
        if isinstance(error, duckdb.FatalException | duckdb.InternalException):
            self._compiled.engine.broken = True
        if self._budget.spent:
            return limits.timed_out()
        if self._cancelled:
            return limits.cancelled()
        if self._strain is not None and self._strain.stopped:
            return limits.no_memory()
        compiled = self._compiled
        return errors.of_duckdb(error, compiled.written, compiled.folders, compiled.columns)

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._ended and not self._cancelled and not self._budget.spent:
            self._compiled.engine.give_back(self._cursor, self._zone)
        else:
            self._cursor.close()
        self._compiled.release()


class LakeAnswer:
    """Implements `port.Answer`."""

    def __init__(
        self,
        running: Running,
        sql: str,
        values: Sequence[Any],
        most: int | None,
        done: Callable[[Running], None],
        gate: Callable[[], None],
        keep: Keep | None = None,
    ) -> None:
        """`gate`: PgError as soon as no more of it may be read."""
        self._keep = keep
        self._running = running
        self._most = most
        self._done = done
        self._gate = gate
        try:
            self._reader = running.reader(sql, values)
        except BaseException:
            self.close()
            raise
        self.fields = running.fields(self._reader)

    def batches(self) -> Iterator[pa.RecordBatch]:
        found = self._batches()
        return found if self._keep is None else self._keep(self.fields, found)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        rows = 0
        try:
            while (batch := self._running.next(self._reader)) is not None:
                rows += batch.num_rows
                if self._most is not None and rows > self._most:
                    raise limits.too_many_rows(self._most)
                self._gate()
                yield batch
        finally:
            self.close()

    def cancel(self) -> None:
        self._running.cancel()

    def close(self) -> None:
        self._done(self._running)
        self._running.close()


class FixedAnswer:
    """Rows that are known already: of SHOW and EXPLAIN."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self.fields = fields_of(rows.schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._rows.to_batches()

    def cancel(self) -> None:
        pass

    def close(self) -> None:
        pass


def fields_of(schema: pa.Schema, origins: Columns = None) -> tuple[Field, ...]:
    fields = tuple(types.field(each.name, each.type) for each in schema)
    if origins is None or len(origins) != len(fields):
        return fields
    return tuple(each.told(field) for each, field in zip(origins, fields, strict=True))


def _renamed(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([each.with_name(name) for each, name in zip(schema, names, strict=True)])


def plan_lines(lines: Sequence[str]) -> pa.Table:
    return pa.table({"QUERY PLAN": pa.array(lines, pa.string())})


def _value(value: Any, oid: int) -> Any:
    if isinstance(value, str) and oid == types.INTERVAL:
        return casts.interval_text(value)
    return value
