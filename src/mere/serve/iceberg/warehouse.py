"""A ref as a client of the catalog sees it: namespaces, tables and views, and the pointers to their metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mere.errors import NamespaceNotFound, ReadOnlyRef, RefNotFound, TableNotFound, ViewNotFound
from mere.lake.log.commits import Entry, Key, Kind, Space
from mere.lake.log.refs import Ref
from mere.names import ALIAS_PREFIX, RefExpression, TableName
from mere.serve.engine.recent import Recent
from mere.serve.http.access import Access

if TYPE_CHECKING:
    from mere.lake.lake import Lake
    from mere.lake.query.tables import TableSet

EXISTS = "exists"  # the property by which a namespace without tables is there
_KEPT = 100  # refs and commits of which all entries are kept
_WAREHOUSE = "The warehouse is the ref: a branch, a tag, a commit, main~3 or main@2h."


def missing(table: TableName, kind: Kind) -> TableNotFound:
    """In the words of Iceberg's own library, which its users know."""
    if kind is Kind.VIEW:
        return ViewNotFound(f"View does not exist: {table}")
    return TableNotFound(f"Table does not exist: {table}")


class Warehouses:
    """Shared by all requests. What a ref holds is asked for anew whenever the ref has moved."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._sets: Recent[str, TableSet] = Recent(_KEPT)

    def at(self, text: str, access: Access) -> Warehouse:
        expression = RefExpression.parse(text)
        access.check_ref(expression)
        return Warehouse(self._lake, self, expression, access)

    def named(self, text: str, access: Access) -> str:
        """The warehouse that a client is to stay at. What moves by itself is a commit from here on, so that all tables
        are of one, unless the caller may not name commits."""
        try:
            expression = RefExpression.parse(text)
            access.check_ref(expression)
            found = self._lake.resolve(text)
            commit = found.readable.id
        except RefNotFound as error:
            raise RefNotFound(error.message, remedy=_WAREHOUSE) from error
        if found.ref is not None:
            return found.ref.name
        return commit if access.may_read_at(RefExpression.parse(commit)) else text

    def tables(self, text: str) -> TableSet:
        known = self._sets.get(text)
        # A commit never changes; a ref's name may be that of a commit, too, and then it is the ref's.
        found = self._lake.current(known) if known is not None else self._lake.at(text)
        if found is not known:
            self._sets.keep(text, found)
        return found


class Warehouse:
    """For one request."""

    def __init__(self, lake: Lake, shared: Warehouses, expression: RefExpression, access: Access) -> None:
        self.name = expression.text
        self.access = access
        self._lake = lake
        self._shared = shared
        self._is_name = not expression.steps and not expression.base.startswith(ALIAS_PREFIX)

    def branch(self, *written: str | TableName) -> Ref:
        """The branch that this is, if the caller may write these schemas and tables of it."""
        ref = self._lake.store.ref(self.name) if self._is_name else None
        if ref is None:
            found = self._lake.resolve(self.name)
            raise ReadOnlyRef(f"{found.text} is a commit and read-only.", remedy="Write to a branch.")
        if not ref.kind.writable:
            raise ReadOnlyRef(f"{ref.name} is a {ref.kind} and read-only.", remedy="Write to a branch.")
        for each in written:
            where = (each, None) if isinstance(each, str) else (each.namespace, each.name)
            self.access.check_write(ref.name, *where)
        return ref

    @property
    def tables(self) -> TableSet:
        found = self._shared.tables(self.name)
        self.access.check_known(found)
        return found

    def entry(self, table: TableName, kind: Kind) -> Entry:
        """Of a table or view whose files the caller may read."""
        found = self._find(Key.of(table))
        if found is None or found.kind is not kind or not self.access.may_read(table):
            self.require_ref()
            raise missing(table, kind)
        if kind is Kind.TABLE:
            self.access.check_files(table)
        return found

    def has(self, table: TableName) -> bool:
        return self._find(Key.of(table)) is not None

    def _find(self, key: Key) -> Entry | None:
        role = self.access.role
        if self._is_name and not role.columns and not role.rows:
            if (found := self._lake.store.standing(self.name, [key]).get(key)) is not None:
                return found
            if self._lake.store.ref(self.name) is not None:
                return None
        return self.tables.entries.get(key)

    def require_ref(self) -> None:
        self._lake.resolve(self.name)

    # namespaces

    def namespaces(self) -> list[str]:
        found = self.tables
        return [each for each in found.namespaces if self._shows(found, each)]

    def _shows(self, found: TableSet, namespace: str) -> bool:
        """One without tables is shown to everybody who is not restricted."""
        if not self.access.role.is_restricted:
            return True
        return any(table.namespace == namespace and self.access.may_read(table) for table in found)

    def relations(self, namespace: str, kind: Kind) -> list[TableName]:
        found = self.tables
        self.require_namespace(namespace)
        return [
            table
            for table, entry in found.tables.items()
            if table.namespace == namespace and entry.kind is kind and self.access.may_read(table)
        ]

    def properties(self, namespace: str) -> Mapping[str, str]:
        self.require_namespace(namespace)
        return {
            key.name: entry.value
            for key, entry in self.tables.entries.items()
            if key.space is Space.PROPERTY and key.namespace == namespace and key.name != EXISTS
        }

    def require_namespace(self, namespace: str) -> None:
        found = self.tables
        if not (namespace in found.namespaces and self._shows(found, namespace)):
            raise NamespaceNotFound(f"Namespace does not exist: {namespace}")
