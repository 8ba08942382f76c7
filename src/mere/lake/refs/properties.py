"""Properties of tables and views, set on a branch without an engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mere.errors import LakeConflict, Unguarded
from mere.lake import faults
from mere.lake.iceberg.metadata import MetadataReader
from mere.lake.log.commits import Change, Commit, CommitKind, Entry, Key
from mere.lake.refs.guards import PROPERTIES
from mere.lake.refs.history import commit_found, known
from mere.lake.store.port import Store
from mere.names import TableName

Properties = Mapping[str, str | None]  # None: the property is removed


def set_properties(
    store: Store,
    reader: MetadataReader,
    target: str,
    wanted: Mapping[TableName, Properties],
    author: str,
    message: str,
    expected: Mapping[Key, Entry | None] | None = None,
) -> Commit | None:
    """All in one commit; None if all of them are so already. What an engine changes meanwhile is kept, but for tables
    that are `expected` to stand somewhere."""
    refuse_unguarded(wanted)
    written: dict[Entry, Entry] = {}  # a second attempt writes anew only what has moved

    def changes() -> list[Change]:
        entries = store.heads([target])[target].entries
        _refuse_moved(target, [key for key, entry in (expected or {}).items() if entries.get(key) != entry])
        found = [Change(Key.of(table), known(target, table, entries, "changed"), None) for table in sorted(wanted)]
        todo = [change for change in map(with_new, found) if change.new != change.old]
        faults.point("properties.written")
        return todo

    def with_new(change: Change) -> Change:
        old = change.old
        assert old
        if old not in written:
            metadata = reader.read(old.value)
            properties = wanted[change.key.table]
            if all(metadata.properties.get(name) == value for name, value in properties.items()):
                return change._replace(new=old)
            written[old] = old._replace(value=reader.write(metadata.with_properties(properties)))
        return change._replace(new=written[old])

    return commit_found(store, reader, target, CommitKind.ALTER, changes, author, message)


def _refuse_moved(target: str, moved: Collection[Key]) -> None:
    if moved:
        names = ", ".join(map(str, sorted(moved)))
        raise LakeConflict(f"{names} on {target} was changed by somebody else meanwhile. Nothing was changed.")


def refuse_unguarded(wanted: Mapping[TableName, Properties]) -> None:
    for table, properties in sorted(wanted.items()):
        for name, value in properties.items():
            if name in PROPERTIES and value != PROPERTIES[name]:
                raise Unguarded(
                    f"{name} of {table} is a guard and stays {PROPERTIES[name]}: without it an engine would delete"
                    " files that other refs need. Nothing was changed.",
                    remedy="Leave it; mere gc deletes what nobody needs.",
                )
