"""One table or view at one commit, read into Arrow, Polars, pandas or DuckDB.

DuckDB reads it, as in `mere sql`, and not PyIceberg: it reads views too, its import takes a tenth of the time, and it
pushes any condition in SQL down to partitions, files and row groups, where PyIceberg knows a small language of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from mere.errors import QueryError, UsageError
from mere.lake.query import Limits, Result, connect, explained, frames, metadata_tables, show
from mere.lake.query.bindings import Bindings, full_name
from mere.names import TableName, near
from mere.sql.spelling.standard import quoted
from mere.text import notebook
from mere.text.words import size

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from mere.lake.metadata_tables.tree import Tree
    from mere.lake.query.tables import TableSet


class Table:
    """A table or view, as `lake.at(ref).table(name)` returns it. It stays at its commit when the ref moves.

    Every way to read it takes `columns`, a list of names, and `where`, a condition in DuckDB's SQL.
    """

    def __init__(self, tables: TableSet, name: TableName, limits: Limits | None = None) -> None:
        self.tables = tables
        self.name = name
        self._limits = limits

    def __repr__(self) -> str:
        return f"<Table {self.name} on {self.tables.ref} at commit {self.tables.commit.short_id}>"

    def _repr_html_(self) -> str:
        """What it is, and its first rows."""
        if self.name not in self.tables:
            with self.read() as rows:
                return notebook.shown(f"{self.name} on {self.tables.ref}", rows._repr_html_())
        about = self.description
        growth_ = "" if about.size is None else f", {about.rows or 0:,} rows, {size(about.size)}"
        title = f"{about.kind} {self.name} on {self.tables.ref}{growth_}"
        with self.read() as rows:
            return notebook.shown(title, rows._repr_html_())

    @property
    def description(self) -> show.Description:
        """Describes the table from its metadata alone."""
        return show.describe(self.tables, str(self.name))

    def tree(self, most: int = 20) -> Tree:
        """Its files, from the catalog's pointer down, and what each commit brought. `most`: manifests, files of one and
        commits that are shown."""
        from mere.lake.metadata_tables.tree import tree

        tables, store = self.tables, self.tables.store
        assert store is not None
        return tree(store, tables.reader, tables.ref, tables.commit, self.name, tables.entry(self.name), most)

    @property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return self.arrow(where="false").schema

    def read(self, columns: Sequence[str] | None = None, where: str | None = None) -> Result:
        """The rows as they are computed, as Python values or as batches."""
        connection, bindings, sql = self._bound(columns, where)
        try:
            with explained(bindings, sql):
                connection.execute(sql)
            again = partial(connection.execute, sql)
            return Result(connection, self.tables.commit, partial(explained, bindings, sql), again)
        except BaseException:
            connection.close()
            raise

    def batches(
        self, columns: Sequence[str] | None = None, where: str | None = None, size: int = 65_536
    ) -> Iterator[pa.RecordBatch]:
        """Arrow batches of at most this many rows, read as they are taken."""
        return self.read(columns, where).batches(size)

    def arrow(self, columns: Sequence[str] | None = None, where: str | None = None) -> pa.Table:
        return self.read(columns, where).arrow()

    def polars(self, columns: Sequence[str] | None = None, where: str | None = None) -> Any:
        """A polars.DataFrame: decimals are floats. Polars must be installed."""
        return frames.polars(self.arrow(columns, where))

    def pandas(self, columns: Sequence[str] | None = None, where: str | None = None) -> Any:
        """A pandas.DataFrame: decimals are floats, dates are times. pandas must be installed."""
        return frames.pandas(self.arrow(columns, where))

    def df(self, columns: Sequence[str] | None = None, where: str | None = None) -> Any:
        """The same as `pandas`, under the name that DuckDB uses."""
        return self.pandas(columns, where)

    def duckdb(self, columns: Sequence[str] | None = None, where: str | None = None) -> DuckDBPyRelation:
        """A relation on a DuckDB of its own, which lives as long as the relation does."""
        connection, bindings, sql = self._bound(columns, where)
        try:
            with explained(bindings, sql):
                relation = connection.sql(sql)
            # From here on DuckDB's errors go to the caller as they are.
            connection.execute("SET errors_as_json = false")
        except BaseException:
            connection.close()
            raise
        return relation

    def _bound(self, columns: Sequence[str] | None, where: str | None) -> tuple[DuckDBPyConnection, Bindings, str]:
        ref = self.tables.ref
        wanted = "*" if columns is None else ", ".join(map(quoted, self._known(columns)))
        condition = f"\nWHERE {where}" if where is not None else ""
        connection = connect(self._limits)
        try:
            bindings = Bindings(connection, {ref: self.tables}, ref, self.tables.reader.storage)
            bindings.bind(ref, self.name)
        except BaseException:
            connection.close()
            raise
        return connection, bindings, f"SELECT {wanted}\nFROM {full_name(ref, self.name)}{condition}"

    @property
    def _names(self) -> list[str]:
        if self.name in self.tables:
            return self.tables.metadata(self.name).columns
        return metadata_tables.columns_of(self.name, self.tables)

    def _known(self, columns: Sequence[str]) -> Sequence[str]:
        if isinstance(columns, str):
            raise UsageError("columns must be a list of names, not one text.", remedy=f"Write columns=[{columns!r}].")
        if not columns:
            raise UsageError("columns is empty.", remedy="Leave it out to read all of them.")
        known = self._names
        for column in columns:
            if column not in known:
                raise QueryError(f"{self.name} has no column {column!r}.{near(column, known)}")
        return columns
