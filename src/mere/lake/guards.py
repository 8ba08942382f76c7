"""What a table or view must be like before it may stand on a branch that others read.

Engines do not know about refs. A table must therefore carry properties that keep an engine from deleting files that
another ref needs, and a view must follow the ref on which it is read.
"""

from __future__ import annotations

from mere.errors import Unguarded
from mere.lake.commits import Entry, Key, Kind
from mere.lake.metadata import Json, Metadata, MetadataReader

# Engines then refuse to expire snapshots, remove orphan files or purge, and leave old metadata files alone.
PROPERTIES = {"gc.enabled": "false"}
_NEVER = "write.metadata.delete-after-commit.enabled"


def guarded(key: Key, entry: Entry, ref: str, reader: MetadataReader) -> Metadata | None:
    """The metadata that may be published in place of an entry's own, or None if its own may."""
    if entry.kind is Kind.VIEW:
        return _portable_view(key, reader.read(entry.value), ref)
    metadata = reader.read(entry.value)
    missing = {name: value for name, value in PROPERTIES.items() if metadata.properties.get(name) != value}
    if metadata.properties.get(_NEVER, "false") != "false":
        missing[_NEVER] = "false"
    return metadata.with_properties(missing) if missing else None


def current_version(view: Metadata) -> Json:
    id_ = view.raw["current-version-id"]
    version: Json = next(version for version in view.raw["versions"] if version["version-id"] == id_)
    return version


def _portable_view(key: Key, view: Metadata, ref: str) -> Metadata | None:
    """A view made in a session of its own branch loses that branch's name; any other foreign name is refused."""
    version = current_version(view)
    for representation in version.get("representations", []):
        _refuse_ref_names(key, representation["sql"], representation.get("dialect", "spark"), ref)
    catalog = version.get("default-catalog")
    if catalog is None:
        return None
    if catalog != ref:
        raise Unguarded(
            f"View {key} resolves its tables in the catalog {catalog!r}, so it would not follow the ref it is read on."
            " Nothing was published.",
            remedy=f"Create it again in a session whose current catalog is {ref}.",
        )
    versions = [
        {name: value for name, value in each.items() if name != "default-catalog"} if each is version else each
        for each in view.raw["versions"]
    ]
    return view.successor({**view.raw, "versions": versions})


def _refuse_ref_names(key: Key, sql: str, dialect: str, ref: str) -> None:
    import sqlglot
    from sqlglot import exp

    try:
        tables = list(sqlglot.parse_one(sql, dialect=dialect).find_all(exp.Table))
    except (sqlglot.errors.SqlglotError, ValueError) as error:
        raise Unguarded(
            f"View {key} cannot be read as {dialect} SQL, so its tables are unknown. Nothing was published."
        ) from error
    named = sorted({table.sql() for table in tables if table.catalog})
    if named:
        raise Unguarded(
            f"View {key} names a ref: {', '.join(named)}. It would show that ref's data on every ref."
            " Nothing was published.",
            remedy="Use two-part names (schema.table), which follow the ref on which the view is read, and create"
            f" it again on {ref}.",
        )
