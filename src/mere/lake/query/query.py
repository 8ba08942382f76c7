"""A query from its text to its rows."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any, Self, TypeVar

from mere.config import is_s3
from mere.errors import InvalidName, MereError, QueryError, RefNotFound
from mere.lake.log.commits import Commit
from mere.lake.query import errors, frames
from mere.lake.query.bindings import Bindings, database
from mere.lake.query.destination import all_or_nothing
from mere.lake.query.duckdb import Limits, connect
from mere.lake.query.types import columns
from mere.lake.storage.port import canonical
from mere.names import near
from mere.sql import statements
from mere.sql.edits import Edits, edited, original
from mere.sql.spelling.dotted import Name
from mere.sql.statements import Statement, tokens
from mere.sql.versions import REMEDY, Clause
from mere.text import notebook
from mere.text.values import cell, is_number

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

    from mere.lake.query.tables import ReadableLake, TableSet


Explain = Callable[[], AbstractContextManager[None]]
Taken = TypeVar("Taken")


@dataclass(frozen=True)
class Column:
    name: str
    type: str  # in DuckDB's words


class Result:
    """The rows of a query at one commit, computed as they are read.

    It can be read as often as you like: each reading after the first runs the query again, at the same commit, and ends
    the previous reading. A COPY is not run again.
    """

    def __init__(
        self, connection: DuckDBPyConnection, commit: Commit, explained: Explain, again: Callable[[], object] | None
    ) -> None:
        self.commit = commit  # of the ref at which names without a ref were read
        self.columns = tuple(Column(each[0], str(each[1])) for each in connection.description or [])
        self._connection = connection
        self._explained = explained
        self._again = again
        self._readings = 0
        self._first_rows: list[tuple[Any, ...]] | None = None
        # A stream that is still open when Python ends would bring it down.
        self._closing = weakref.finalize(self, connection.close)

    def close(self) -> None:
        self._closing()

    def rows(self, size: int = 2048) -> Iterator[tuple[Any, ...]]:
        """The rows as Python values, fetched this many at a time."""
        reading = self._begin()
        while rows := self._next(reading, lambda: self._connection.fetchmany(size)):
            yield from rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self.rows()

    def batches(self, size: int = 65_536) -> Iterator[pa.RecordBatch]:
        """The rows as Arrow batches of at most this many rows."""
        reading = self._begin()
        reader = self._next(reading, lambda: self._connection.to_arrow_reader(size))
        while (batch := self._next(reading, lambda: next(reader, None))) is not None:
            yield batch

    def arrow(self) -> pa.Table:
        """All rows at once, with their exact types."""
        return self._next(self._begin(), self._connection.to_arrow_table)

    def polars(self) -> Any:
        """All rows as a polars.DataFrame: decimals are floats. Polars must be installed."""
        return frames.polars(self.arrow())

    def pandas(self) -> Any:
        """All rows as a pandas.DataFrame: decimals are floats, dates are times. pandas must be installed."""
        return frames.pandas(self.arrow())

    def df(self) -> Any:
        """The same as `pandas`, under the name that DuckDB uses."""
        return self.pandas()

    def _begin(self) -> int:
        """A reading, by its number."""
        if not self._closing.alive:
            raise QueryError("This result was closed.", remedy="Run the query again.")
        if self._readings > 0:
            if self._again is None:
                raise QueryError(
                    "The result of a COPY can be read once: again, it would write again.", remedy="Run the query again."
                )
            with self._explained():
                self._again()
        self._readings += 1
        return self._readings

    def _next(self, reading: int, take: Callable[[], Taken]) -> Taken:
        if reading != self._readings:
            raise QueryError(
                "This result was read again, which ended the earlier reading.", remedy="Keep the rows: list(result)"
            )
        with self._explained():
            return take()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        columns = ", ".join(f"{each.name} {each.type}" for each in self.columns)
        return f"<Result at commit {self.commit.short_id}: {columns}>"

    def _repr_html_(self) -> str:
        """The first rows. They are kept, so that to look twice is to ask once."""
        if self._first_rows is None:
            self._first_rows = list(islice(self.rows(notebook.ROWS + 1), notebook.ROWS + 1))
        more = f"the first {notebook.ROWS} rows; there are more" if len(self._first_rows) > notebook.ROWS else ""
        columns = [notebook.Column(each.name, is_number(each.type), each.type) for each in self.columns]
        rows = [[cell(value) for value in row] for row in self._first_rows]
        names = notebook.lines([", ".join(each.name for each in self.columns)] if not rows else [])
        title = "no rows" if not rows else f"at commit {self.commit.short_id}"
        return notebook.shown(title, notebook.table(columns, rows, more), names)


def query(lake: ReadableLake, sql: str, at: str = "main", limits: Limits | None = None) -> Result:
    """Run one statement that only reads. Names without a ref are read at `at`; all refs are read at one instant."""
    connection = connect(limits)
    try:
        return _run(lake, connection, sql, at)
    except BaseException:
        connection.close()
        raise


def _run(lake: ReadableLake, connection: DuckDBPyConnection, sql: str, at: str) -> Result:
    explained = _Explained(lake, sql, at)
    with explained():
        statement = explained.statement = statements.read(connection, sql)
        if statement.destination is not None:
            _refuse_lake(lake.location, statement.destination, statement)
        sets = lake.at_each({at: None, **dict.fromkeys(_refs(lake, statement, at))})
        bindings = explained.bindings = Bindings(connection, sets, at, lake.storage)
        if statement.shows_tables:
            asked = bindings.show_tables()
            connection.execute(asked)
        else:
            explained.edits = bindings.bind_names(statement)
            if statement.lists_tables:
                bindings.list_tables()
            asked = edited(statement.sql, explained.edits)
            with all_or_nothing(statement.destination):
                connection.execute(asked)
    again = None if statement.destination is not None else partial(connection.execute, asked)
    return Result(connection, sets[at].commit, explained, again)


def _refs(lake: ReadableLake, statement: Statement, at: str) -> Iterator[str]:
    """The first parts of names that are refs, and versions that are. A first part that is none may be a column's table:
    DuckDB will say. A version that is none is an error."""
    known = {name.parts[0]: _spelled(lake, name.parts[0]) for name in statement.names if len(name.parts) > 2}
    yield from filter(None, known.values())
    for name, clause in _versions(statement):
        base = known.get(name.parts[0]) or at
        if (ref := clause.version.ref_of(base)) is not None:
            lake.resolve(ref)
            yield ref


def _spelled(lake: ReadableLake, text: str) -> str | None:
    for spelling in dict.fromkeys((text, text.lower())):
        try:
            lake.resolve(spelling)
        except (RefNotFound, InvalidName):
            continue
        return spelling
    return None


def _versions(statement: Statement) -> list[tuple[Name, Clause]]:
    """By the names that they follow: there is none that follows something else."""
    found = [(name, clause) for name in statement.names if (clause := statement.version_after(name)) is not None]
    if stray := [each for each in statement.versions if each not in {clause for _, clause in found}]:
        where = errors.excerpt(statement.written, stray[0].start)
        raise QueryError(f"FOR … AS OF does not stand after the name of a table, schema.table.\n{where}", remedy=REMEDY)
    return found


def _refuse_lake(location: str, destination: str, statement: Statement) -> None:
    for option in ("filename_pattern", "file_extension"):
        if option in {token.word for token in statement.tokens}:
            raise QueryError(f"COPY cannot be run with {option}: it can write outside of the folder that COPY names.")
    target = _absolute(destination)
    # A folder above the lake is as bad: COPY with OVERWRITE empties it first.
    if target.is_relative_to(location) or PurePosixPath(location).is_relative_to(target):
        raise QueryError(
            f"COPY does not write to {destination}: the lake is there. Nothing was written.",
            remedy="Name a file outside of the lake.",
        )


def _absolute(destination: str) -> PurePath:
    """Names on S3 are compared as paths, too: a slash too many would only hide a name."""
    plain = canonical(destination)
    return PurePosixPath(plain) if is_s3(plain) else Path(plain).expanduser().resolve()


@contextmanager
def explained(bindings: Bindings, sql: str) -> Iterator[None]:
    """Turns DuckDB's errors into mere's, where the names in the SQL are DuckDB's own already."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        found = errors.details(error)
        raise _of_reading(found, bindings, sql, found.position) from error


def _of_reading(found: errors.Details, bindings: Bindings, sql: str, position: int | None) -> MereError:
    error = errors.of_file(found, bindings.locations()) or errors.of_query(found, sql, position)
    for ref in bindings.refs:
        error.message = error.message.replace(f'"{database(ref)}"', ref).replace(f"{database(ref)}.", f"{ref}.")
    return error


class _Explained:
    """Turns DuckDB's errors into mere's, knowing how far the query has come."""

    def __init__(self, lake: ReadableLake, sql: str, at: str) -> None:
        self.lake = lake
        self.at = at
        self.sql = sql
        self.statement: Statement | None = None
        self.bindings: Bindings | None = None
        self.edits: Edits = ()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        import duckdb

        try:
            yield
        except duckdb.Error as error:
            raise self._explain(errors.details(error)) from error

    def _misread_column(self, position: int | None) -> str | None:
        """How to write a column whose name is a word of SQL, if one stands where the query stops to make sense."""
        if position is None:
            return None
        here = [token for token in tokens(self.sql) if token.start <= position][-2:]
        words = {token.word for token in here if token.kind == "keyword"}
        tables = self.lake.at(self.at)
        for table in tables:
            if words and table.name in self.sql and not tables.is_view(table):
                for name, _ in columns(tables.metadata(table).schema):
                    if name.lower() in words:
                        return f'{table} has a column {name}, which is a word of SQL, too. Quote it: "{name}"'
        return None

    def _explain(self, found: errors.Details) -> MereError:
        position = original(found.position, self.edits)
        if self.bindings is None:
            error = errors.of_query(found, self.sql, position)
            if found.kind == "Parser":
                error.remedy = error.remedy or self._misread_column(position)
            return error
        if found.missing is not None or found.missing_catalog is not None:
            return self._no_such_table(found, position)
        return _of_reading(found, self.bindings, self.sql, position)

    def _no_such_table(self, found: errors.Details, position: int | None) -> MereError:
        assert self.statement is not None
        assert self.bindings is not None
        parts: Sequence[str] = (found.missing or "",)
        for name in self.statement.names:
            if name.spans[0][0] == position or (found.missing_catalog == name.parts[0] and len(name.parts) > 2):
                parts, position = name.parts, name.spans[0][0]
                break
        ref = self.bindings.at
        if len(parts) > 2:
            try:
                ref = self.lake.resolve(parts[0]).text
            except (RefNotFound, InvalidName) as error:
                return error
            parts = parts[1:]
        tables = self.bindings.tables(ref) if ref in self.bindings.refs else self.lake.at(ref)
        if ".".join(parts) in map(str, tables):
            return QueryError(
                f"{'.'.join(parts)} is named in a string, where mere sql does not look for tables.",
                remedy="Name it in FROM.",
            )
        where = f"\n{errors.excerpt(self.sql, position)}" if position is not None else ""
        return QueryError(
            f"There is no table {'.'.join(parts)} on {ref}.{_near_table(parts, tables)}{where}",
            remedy=f"See: mere tables --at {ref}",
        )


def _near_table(parts: Sequence[str], tables: TableSet) -> str:
    """By its last part: those of one schema would all look alike."""
    return near(parts[-1], tables, by=lambda table: table.name)
