"""The log of a ref, and the commits that undo: revert, restore and drop."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from itertools import islice

from mere.errors import InvalidName, LakeConflict, LakeError, TableExists, TableNotFound, UsageError
from mere.lake.iceberg.metadata import Metadata, MetadataReader
from mere.lake.log.commits import Change, Commit, CommitKind, Entries, Entry, Key, Space, difference
from mere.lake.refs.describe import counted, described
from mere.lake.refs.guards import Guard
from mere.lake.refs.publish import Conflict
from mere.lake.refs.retry import retried_while_moving
from mere.lake.store.port import Edit, Moved, Store
from mere.names import TableName, check_new_table, near

_PAGE = 200


def log(store: Store, reader: MetadataReader, head: Commit, table: TableName | None = None) -> Iterator[Commit]:
    """The commits that lead to this one, newest first, each with what it changed; of one table only, if asked."""
    key, tables = Key.of(table) if table else None, set()
    found = False
    for commit in store.ancestors(head):
        (full,) = store.with_changes([commit])
        changed = {change.key for change in full.changes}
        if key is None or key in changed:
            found = True
            yield described(full, reader)
        tables |= {str(each) for each in changed if each.space is Space.RELATION}
    if table and not found:
        raise TableNotFound(f"No commit in this history changed a table {table}.{near(str(table), tables)}")


def lost_snapshot(
    store: Store, reader: MetadataReader, head: Commit, table: TableName, snapshot: int
) -> Metadata | None:
    """Metadata of a table, from before a revert, that has a snapshot which its present metadata does not have."""
    key = Key.of(table)
    commits = store.ancestors(head)
    while page := list(islice(commits, _PAGE)):
        changes = [change for commit in store.with_changes(page) for change in commit.changes if change.key == key]
        for entry in (each for change in changes for each in (change.new, change.old)):
            with suppress(LakeError):  # the commit is long expired, and its files were swept
                if entry and (found := reader.read(entry.value)).snapshot(snapshot):
                    return found
    return None


def revert(
    store: Store, reader: MetadataReader, target: str, commit: Commit, author: str, message: str
) -> Commit | None:
    """Put back what one commit replaced, if nothing has moved on since; None if that has been done already."""
    (full,) = store.with_changes([commit])
    if not full.changes:
        raise LakeError(f"Commit {commit.short_id} changed nothing, so there is nothing to revert.")
    changes = tuple(counted(change.inverse(), reader) for change in full.changes)
    standing = store.heads([target])[target].entries
    if all(standing.get(change.key) == change.new for change in changes):
        return None
    try:
        return store.commit(Edit(target, CommitKind.REVERT, changes, author, message))
    except Moved as moved:
        conflicts = [Conflict(key, full, _later(store, reader, target, commit, key)) for key in moved.keys]
        raise LakeConflict(
            f"Commit {commit.short_id} cannot be reverted: later commits to {target} changed the same tables."
            " Nothing was changed.\n" + "\n".join(_conflict_line(conflict, target) for conflict in conflicts),
            remedy=f"Revert the later commits first, or go back to a whole state: mere revert --to {commit.short_id}~1",
            conflicts=conflicts,
        ) from None


def restore(
    store: Store, reader: MetadataReader, guard: Guard, target: str, to: Commit, author: str, message: str
) -> Commit | None:
    """One new commit that makes a branch equal to what the lake was at another; None if it is already."""

    def changes() -> list[Change]:
        found = difference(store.heads([target])[target].entries, store.entries(to))
        return [change._replace(new=guard(change)) for change in found.values()]

    return commit_found(store, reader, target, CommitKind.REVERT, changes, author, message)


def drop(
    store: Store, reader: MetadataReader, target: str, tables: Collection[TableName], author: str, message: str
) -> Commit:
    def changes() -> list[Change]:
        entries = store.heads([target])[target].entries
        return [Change(Key.of(table), known(target, table, entries, "dropped"), None) for table in sorted(set(tables))]

    made = commit_found(store, reader, target, CommitKind.DROP, changes, author, message)
    if made is None:
        raise UsageError("Name the tables to drop.")
    return made


def rename(
    store: Store, reader: MetadataReader, target: str, table: TableName, to: TableName, author: str, message: str
) -> Commit:
    """The same table under another name: rows, history and state stay with it, and its companions go with it."""

    def changes() -> list[Change]:
        return renamed(target, store.heads([target])[target].entries, table, to)

    made = commit_found(store, reader, target, CommitKind.WRITE, changes, author, message)
    assert made is not None
    return made


def renamed(target: str, entries: Entries, table: TableName, to: TableName) -> list[Change]:
    """What gives a table and its companions another name. `entries`: at least those of all the names."""
    if not to.is_plain:
        raise InvalidName(f"No query could spell {to}. Nothing was renamed.", remedy="Choose a plain SCHEMA.TABLE.")
    check_new_table(to)
    known(target, table, entries, "renamed")
    found = []
    for old, new in ((table, to), *zip(table.companions, to.companions, strict=True)):
        if (entry := entries.get(Key.of(old))) is None:
            continue
        if Key.of(new) in entries:
            raise TableExists(f"There is already a {new} on {target}. Nothing was renamed.")
        found += [Change(Key.of(old), entry, None), Change(Key.of(new), None, entry)]
    return found


def commit_found(
    store: Store,
    reader: MetadataReader,
    target: str,
    kind: CommitKind,
    find: Callable[[], list[Change]],
    author: str,
    message: str,
) -> Commit | None:
    """Commit what is found to be done, or find it again if the branch has moved meanwhile."""

    def commit() -> Commit | None:
        changes = tuple(counted(change, reader) for change in find())
        return store.commit(Edit(target, kind, changes, author, message)) if changes else None

    return retried_while_moving(commit, f"{target} is being written to too fast. Nothing was changed.")


def known(target: str, table: TableName, entries: Entries, spared: str) -> Entry:
    """The entry of a table that must be there, or nothing is done."""
    key = Key.of(table)
    if key not in entries:
        names = [str(key) for key in entries if key.space is Space.RELATION]
        raise TableNotFound(f"There is no table {table} on {target}.{near(str(table), names)} Nothing was {spared}.")
    return entries[key]


def _later(store: Store, reader: MetadataReader, target: str, commit: Commit, key: Key) -> Commit | None:
    head = store.heads([target])[target].commit
    for later in store.ancestors(head):
        (full,) = store.with_changes([later])
        if later.seq > commit.seq and any(change.key == key for change in full.changes):
            return described(full, reader)
    return None


def _conflict_line(conflict: Conflict, target: str) -> str:
    if conflict.theirs is None:
        return f"  {conflict.key}: is not on {target} as that commit left it"
    return f"  {conflict.key}: commit {conflict.theirs.short_id} by {conflict.theirs.by}"
