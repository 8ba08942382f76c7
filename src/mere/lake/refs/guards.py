"""What a table or view must meet before it can be published.

Engines do not know about refs. A table must therefore carry properties that keep an engine from deleting files that
another ref needs, and a view must follow the ref on which it is read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from mere.errors import Unguarded
from mere.lake.iceberg.metadata import Metadata, MetadataReader
from mere.lake.iceberg.properties import SAMPLE
from mere.lake.log.commits import Change, Entry, Key, Kind, Space
from mere.names import MAIN
from mere.sql.outside import hidden, outside

# Engines then refuse to expire snapshots, remove orphan files or purge, and leave old metadata files alone.
PROPERTIES = {"gc.enabled": "false", "write.metadata.delete-after-commit.enabled": "false"}
# By these, a table's new files would be where the lake does not look after them.
ELSEWHERE = (
    "write.data.path",
    "write.metadata.path",
    "write.folder-storage.path",
    "write.object-storage.path",
    "write.location-provider.impl",
    "write.py-location-provider.impl",
)
_DEFAULTS = {"gc.enabled": "true", "write.metadata.delete-after-commit.enabled": "false"}


@dataclass(frozen=True)
class Guard:
    """Gives the entry that may stand in place of a change's new one. It writes metadata only if it has to differ."""

    reader: MetadataReader
    ref: str  # on which the new entries were made
    refs: Collection[str]  # all there are
    target: str  # on which they are to stand
    dry_run: bool = False

    def __call__(self, change: Change) -> Entry | None:
        entry = change.new
        if entry is None or change.key.space is Space.PROPERTY:
            return entry
        try:
            better = self.better(change.key, entry.kind, self.reader.read(entry.value))
        except Unguarded as error:
            raise Unguarded(f"{error.message} Nothing was published.", remedy=error.remedy) from error
        if better is None or self.dry_run:
            return entry
        return Entry(entry.kind, self.reader.write(better))

    def better(self, key: Key, kind: Kind, metadata: Metadata) -> Metadata | None:
        """The metadata that may stand in place of this, not yet written; None if this may stand as it is."""
        if self.target == MAIN and metadata.properties.get(SAMPLE) == "true":
            raise Unguarded(
                f"{key} was built from a part of the data, so it may not be on {MAIN}.",
                remedy=f"Build it from all of it first: mere run --on {self.ref}",
            )
        return self._portable(key, metadata) if kind is Kind.VIEW else _guarded(metadata)

    def _portable(self, key: Key, view: Metadata) -> Metadata | None:
        """A view made in a session of its own branch loses that branch's name; any other foreign name is refused."""
        version = view.view_version
        for representation in version.get("representations", []):
            self._refuse_ref_names(key, representation["sql"], representation.get("dialect", "spark").lower())
        catalog = version.get("default-catalog")
        if catalog is None:
            return None
        if catalog != self.ref:
            raise Unguarded(
                f"View {key} resolves its tables in the catalog {catalog!r}, so it would not follow the ref it is read"
                " on.",
                remedy=f"Create it again in a session whose current catalog is {self.ref}.",
            )
        return view.with_view_version({name: value for name, value in version.items() if name != "default-catalog"})

    def _refuse_ref_names(self, key: Key, sql: str, dialect: str) -> None:
        import sqlglot  # 0.2 s, and only views need it
        from sqlglot import exp

        try:
            query = sqlglot.parse_one(sql, dialect=dialect)
            foreign = outside(query, dialect) or hidden(sql, dialect)
            tables = list(query.find_all(exp.Table))
        except (sqlglot.errors.SqlglotError, ValueError) as error:
            raise Unguarded(f"View {key} cannot be read as {dialect} SQL, so its tables are unknown.") from error
        if foreign is not None:  # whoever reads the view would do that
            raise Unguarded(
                f"View {key} {foreign}, and a view may read only tables of the lake.",
                remedy=f"Load that into a table first, and create the view again on {self.ref}.",
            )
        # Three parts may also be a metadata table, or a table in a nested namespace.
        named = sorted({table.sql() for table in tables if table.catalog in {*self.refs, "spark_catalog"}})
        if named:
            raise Unguarded(
                f"View {key} names a ref: {', '.join(named)}. It would show that ref's data on every ref.",
                remedy="Use two-part names (schema.table), which follow the ref on which the view is read, and create"
                f" it again on {self.ref}.",
            )


def _guarded(table: Metadata) -> Metadata | None:
    properties = table.properties
    missing = {name: value for name, value in PROPERTIES.items() if properties.get(name, _DEFAULTS[name]) != value}
    return table.with_properties(missing) if missing else None
