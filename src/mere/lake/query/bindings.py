"""The tables and views that a query names, as DuckDB sees them: a ref is a database there, and never moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from posixpath import dirname
from typing import TYPE_CHECKING

from mere.errors import QueryError, TableNotFound
from mere.lake.iceberg import manifests
from mere.lake.iceberg.metadata import Json, Metadata
from mere.lake.iceberg.properties import ORIGIN
from mere.lake.metadata_tables.sight import EVERYTHING, Sight
from mere.lake.metadata_tables.tables import OF_FILES, OF_LAKE, SCHEMA
from mere.lake.query import errors, metadata_tables, quarantine, scans, views
from mere.lake.query.duckdb import equip
from mere.lake.query.types import no_rows
from mere.lake.storage.port import Storage, canonical
from mere.names import TableName
from mere.sql.spelling.dotted import Name
from mere.sql.spelling.standard import literal, quoted
from mere.sql.statements import Statement
from mere.sql.versions import Version

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from mere.lake.query.tables import TableSet


class Bindings:
    """Binds what is asked for and nothing else: a lake may have thousands of tables."""

    def __init__(self, connection: DuckDBPyConnection, sets: Mapping[str, TableSet], at: str, storage: Storage) -> None:
        self.at = at
        self._connection = connection
        self._storage = storage
        self._refs = {ref: Directory(tables) for ref, tables in sets.items()}
        self._bound: dict[tuple[str, str, str], TableName] = {}
        self._path: list[TableName] = []  # the view being bound, and the views that led to it
        self._loaded = False
        for ref in sets:
            self._attach(ref)
        connection.execute(f"USE {quoted(database(at))}")
        connection.execute("DETACH memory")

    def _attach(self, ref: str) -> None:
        self._connection.execute(f"ATTACH ':memory:' AS {quoted(database(ref))}")

    @property
    def refs(self) -> Sequence[str]:
        return list(self._refs)

    def tables(self, ref: str) -> TableSet:
        return self._refs[ref].tables

    def locations(self) -> dict[str, str]:
        """The folders of every bound table, and the table's name."""
        bound = [(ref, table) for (ref, *_), table in self._bound.items()]
        return {folder: name for ref, table in bound for folder, name in self._folders(ref, table).items()}

    def _folders(self, ref: str, table: TableName) -> dict[str, str]:
        return dict.fromkeys(folders(self.tables(ref).metadata(table)), str(table))

    def bind_names(self, statement: Statement) -> list[tuple[int, int, str]]:
        """Bind every table that the statement may mean; give back what has to be written otherwise for DuckDB."""
        edits = []
        for name in statement.names:
            clause = statement.version_after(name)
            meaning = self._meaning(name) if clause is None else self._version_of(name, clause.version)
            if meaning is None:
                continue
            ref, table, first, last = meaning
            self.bind(ref, table)
            # Two parts are found in the current database as they stand.
            if last - first > 1 or first > 0 or clause is not None:
                edits.append((name.spans[0][0], name.spans[last][1], full_name(ref, table)))
        return edits

    def _meaning(self, name: Name) -> tuple[str, TableName, int, int] | None:
        """The first part is a ref if the rest is a table there. The longest name wins; what follows is a column."""
        for ref, first in ((self._ref(name.parts[0]), 1), (self.at, 0)):
            for last in range(len(name.parts) - 1, first, -1):
                table = self._refs[ref].find_any(name.parts[first : last + 1]) if ref else None
                if ref and table:
                    return ref, table, first, last
        return None

    def _version_of(self, name: Name, version: Version) -> tuple[str, TableName, int, int]:
        """The same of a name that a version follows: all of it is the table."""
        last = len(name.parts) - 1
        for base, first in ((self._ref(name.parts[0]), 1), (self.at, 0)):
            if base is None or last <= first:
                continue
            ref = version.ref_of(base) or base
            if (table := self._refs[ref].find_any(name.parts[first:])) is not None:
                return self._at_snapshot(ref, table, version), table, first, last
        on = version.ref_of(self._ref(name.parts[0]) or self.at) or self.at
        raise TableNotFound(f"There is no table {'.'.join(name.parts)} on {on}.", remedy=f"See: mere tables --at {on}")

    def _at_snapshot(self, ref: str, table: TableName, version: Version) -> str:
        """The name of the ref, or of one more, on which the table is as it was."""
        if version.snapshot is None:
            return ref
        tables = metadata_tables.at_snapshot(table, self.tables(ref), version.snapshot)
        if tables is None and table not in self.tables(ref):
            base = table.name.partition("$")[0]
            raise QueryError(
                f"{table} is read as it is on a ref, not at a snapshot.",
                remedy=f"Read {table.namespace}.{base} at a snapshot, or one of its {', '.join(OF_FILES)}.",
            )
        if tables is None:
            raise QueryError(
                f"{table} on {ref} has no snapshot {version.snapshot}.",
                remedy=f"See its snapshots: mere show {table} --at {ref}",
            )
        past = f"{ref} {table} {version.snapshot}"
        if past not in self._refs:
            self._refs[past] = Directory(tables)
            self._attach(past)
        return past

    def _ref(self, text: str) -> str | None:
        return next((ref for ref in self._refs if ref.lower() == text.lower()), None)

    def bind(self, ref: str, table: TableName) -> None:
        key = (ref, table.namespace.lower(), table.name.lower())
        known = self._bound.get(key)
        if known == table:
            return
        if known is not None:
            raise QueryError(
                f"{known} and {table} differ only in case, which DuckDB does not tell apart.",
                remedy="Read them in two queries.",
            )
        if not (table.namespace and table.name):
            raise QueryError(
                f"{table} has an empty name, which DuckDB cannot read.",
                remedy="Give it another with mere rename, or remove it with mere drop.",
            )
        if table in self._path:
            around = " → ".join(map(str, [*self._path[self._path.index(table) :], table]))
            raise QueryError(f"View {table} refers to itself: {around}.")
        tables = self.tables(ref)
        if table not in tables:
            self._bind_metadata_table(ref, table)
            self._bound[key] = table
            return
        with errors.unbound(str(table), lambda: self._folders(ref, table), tables.is_view(table)):
            sql = self._view(ref, table) if tables.is_view(table) else self._table(tables, table)
            self._create(ref, table, f"VIEW {full_name(ref, table)} AS {sql}")
        self._bound[key] = table

    def _bind_metadata_table(self, ref: str, name: TableName) -> None:
        tables, place = self.tables(ref), full_name(ref, name)
        if name == metadata_tables.QUARANTINE:
            found = list(quarantine.quarantines(tables, EVERYTHING))
            for each in found:
                self.bind(ref, each)
            self._create(ref, name, f"VIEW {place} AS {quarantine.query(found, partial(full_name, ref))}")
            return
        self._create_schema(ref, name)
        metadata_tables.fill(self._connection, place, metadata_tables.opened(name, tables))

    def bind_item(self, ref: str, table: TableName, item: str) -> None:
        """Bind a table to a FROM item of the caller's instead of its own rows."""
        self._create(ref, table, f"VIEW {full_name(ref, table)} AS FROM {item}")
        self._bound[ref, table.namespace.lower(), table.name.lower()] = table

    def _table(self, tables: TableSet, table: TableName) -> str:
        self.load_extensions()
        metadata = readable_metadata(tables, table)
        return f"FROM {scans.scan(self._connection, str(table), metadata, self._storage)}"

    def _view(self, ref: str, view: TableName) -> str:
        self._path.append(view)
        try:
            metadata = readable_metadata(self.tables(ref), view)
            translation = views.translate(
                str(view),
                metadata,
                lambda table: (database(ref), table.namespace, table.name),
                self._refs[ref].find,
                lambda table: schema_of(self.tables(ref), table),
            )
            for table in translation.tables:
                self.bind(ref, table)
        finally:
            self._path.pop()
        return translation.sql

    def _create(self, ref: str, table: TableName, what: str) -> None:
        self._create_schema(ref, table)
        self._connection.execute(f"CREATE {what}")

    def _create_schema(self, ref: str, table: TableName) -> None:
        self._connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(database(ref))}.{quoted(table.namespace)}")

    def list_tables(self) -> None:
        """Make every other table of the current ref visible, with its columns and without its rows."""
        tables = self.tables(self.at)
        for table in tables:
            key = (self.at, table.namespace.lower(), table.name.lower())
            if key in self._bound or not table.is_plain:
                continue
            metadata = readable_metadata(tables, table)
            schema = metadata.schema
            kind = "VIEW" if tables.is_view(table) else "TABLE"
            self._create(self.at, table, f"{kind} {full_name(self.at, table)} AS {no_rows(schema)}")
            self._bound[key] = table
        for name, schema in OF_LAKE.items():
            table = TableName(SCHEMA, name)
            if (self.at, SCHEMA, name) not in self._bound:
                self._create(self.at, table, f"TABLE {full_name(self.at, table)} AS {no_rows(schema)}")

    def show_tables(self) -> str:
        """The query that answers SHOW TABLES: DuckDB would show those of one schema."""
        tables = self.tables(self.at)
        rows = [(table.namespace, table.name, tables.entry(table).kind.value) for table in tables]
        values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows or [("", "", "")])
        return f"SELECT * FROM (VALUES {values}) AS t(schema, name, kind) WHERE name <> ''"

    def load_extensions(self) -> None:
        if not self._loaded:
            equip(self._connection, self._storage)
            self._loaded = True


class Directory:
    """The tables of one ref, found as SQL finds them: exactly, or else without regard to case."""

    def __init__(self, tables: TableSet) -> None:
        self.tables = tables

    @cached_property
    def _folded(self) -> dict[tuple[str, str], list[TableName]]:
        folded: dict[tuple[str, str], list[TableName]] = {}
        for table in self.tables:
            folded.setdefault((table.namespace.lower(), table.name.lower()), []).append(table)
        return folded

    def find(self, parts: Sequence[str]) -> TableName | None:
        table = TableName.of(parts)
        if table in self.tables:
            return table
        found = self._folded.get((table.namespace.lower(), table.name.lower()), [])
        if len(found) > 1:
            raise QueryError(f"{table} may be {' or '.join(map(str, found))}, which differ only in case.")
        return found[0] if found else None

    def find_any(self, parts: Sequence[str], sight: Sight = EVERYTHING) -> TableName | None:
        """Metadata tables among them. Views read none: they would be read with the rights of whoever made the view."""
        found = self.find(parts)
        if found is not None:
            return found
        return metadata_tables.find(TableName.of(parts), self.tables, lambda name: self.find(_parts(name)), sight)


def _parts(name: TableName) -> tuple[str, str]:
    return name.namespace, name.name


def readable_metadata(tables: TableSet, table: TableName) -> Metadata:
    """The metadata of a table or view, with the table's name in whatever goes wrong."""
    with manifests.named(str(table)):
        metadata = tables.metadata(table)
    needed = {"location", "versions" if tables.is_view(table) else "format-version", "schemas"}
    raw: object = metadata.raw  # whatever the file held
    if not isinstance(raw, dict) or not needed <= raw.keys():
        raise manifests.damaged(str(table), f"{metadata.location} is not Iceberg metadata.")
    return metadata


def schema_of(tables: TableSet, table: TableName) -> Json:
    """Of a table, or of a view as it was made."""
    return readable_metadata(tables, table).schema


def folders(metadata: Metadata) -> list[str]:
    """Where a table's files are."""
    found = [canonical(metadata.folder or "")]
    if origin := metadata.properties.get(ORIGIN):  # what it had when it was adopted is still there
        found.append(dirname(dirname(canonical(origin))))
    return found


def database(ref: str) -> str:
    """A ref's name in DuckDB. The mark keeps it apart from schemas, and from `main`, which DuckDB has for itself."""
    return f"@{ref}"


def full_name(ref: str, table: TableName) -> str:
    return f"{quoted(database(ref))}.{quoted(table.namespace)}.{quoted(table.name)}"
