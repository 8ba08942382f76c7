"""The log of a ref, and the commits that undo: revert, restore and drop."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from mere.errors import LakeConflict, LakeError, MetadataMissing, TableNotFound
from mere.lake.commits import Change, Commit, CommitKind, Entries, Entry, Key, Kind, Space, difference
from mere.lake.metadata import Metadata, MetadataReader, growth
from mere.lake.port import Edit, Moved, Store
from mere.names import TableName, near

_ATTEMPTS = 20


def log(store: Store, reader: MetadataReader, head: Commit, table: TableName | None = None) -> Iterator[Commit]:
    """The commits that lead to this one, newest first, each with what it changed; of one table only, if asked."""
    for commit in store.ancestors(head):
        (full,) = store.with_changes([commit])
        if table is None or any(change.key == Key.of(table) for change in full.changes):
            yield described(full, reader)


def described(commit: Commit, reader: MetadataReader) -> Commit:
    """An engine's write, with the author, operation and counts that the engine left in the table's metadata."""
    if commit.kind is not CommitKind.WRITE:
        return commit
    changes, author, message = [], None, ""
    for change in commit.changes:
        old, new = _metadata(change.old, reader), _metadata(change.new, reader)
        counted = change.key.space is Space.RELATION and (old or new)
        changes.append(replace(change, stats=growth(old, new)) if counted else change)
        author = author or _author(new)
        message = message or _operation(change, old, new)
    return replace(commit, changes=tuple(changes), author=author, message=message)


def _metadata(entry: Entry | None, reader: MetadataReader) -> Metadata | None:
    try:
        return reader.read(entry.value) if entry and entry.kind is Kind.TABLE else None
    except MetadataMissing:
        return None  # swept with its commit: the log keeps the pointer, not the counts


def _author(metadata: Metadata | None) -> str | None:
    summary = metadata.current.summary if metadata and metadata.current else {}
    return summary.get("mere.author") or summary.get("engine-name")


def _operation(change: Change, old: Metadata | None, new: Metadata | None) -> str:
    if change.key.space is Space.PROPERTY:
        return f"{change.verb} {change.key}"
    if new and new.current and (old is None or old.current is None or old.current.id != new.current.id):
        return f"{new.current.operation} {change.key}"
    return f"{change.verb} {change.key}" if change.verb != "changed" else f"altered {change.key}"


def revert(store: Store, reader: MetadataReader, target: str, commit: Commit, author: str, message: str) -> Commit:
    """Put back what one commit replaced, if nothing has moved on since."""
    (full,) = store.with_changes([commit])
    if not full.changes:
        raise LakeError(f"Commit {commit.short_id} changed nothing, so there is nothing to revert.")
    changes = tuple(_counted(change.inverse(), reader) for change in full.changes)
    try:
        return store.commit(Edit(target, CommitKind.REVERT, changes, author, message))
    except Moved as moved:
        lines = [_later(store, target, commit, key) for key in moved.keys]
        raise LakeConflict(
            f"Commit {commit.short_id} cannot be reverted: later commits to {target} changed the same tables."
            " Nothing was changed.\n" + "\n".join(lines),
            remedy=f"Revert the later commits first, or go back to a whole state: mere revert --to {commit.short_id}~1",
            conflicts=moved.keys,
        ) from None


def restore(store: Store, reader: MetadataReader, target: str, to: Commit, author: str, message: str) -> Commit | None:
    """One new commit that makes a branch equal to what the lake was at another; None if it is already."""
    for _ in range(_ATTEMPTS):
        changes = difference(store.heads([target])[target].entries, store.entries(to))
        if not changes:
            return None
        counted = tuple(_counted(change, reader) for change in changes.values())
        try:
            return store.commit(Edit(target, CommitKind.REVERT, counted, author, message))
        except Moved:
            continue
    raise _too_busy(target)


def drop(
    store: Store,
    reader: MetadataReader,
    target: str,
    tables: Collection[TableName],
    author: str,
    message: str,
) -> Commit:
    for _ in range(_ATTEMPTS):
        entries = store.heads([target])[target].entries
        changes = tuple(_dropped(target, table, entries, reader) for table in sorted(set(tables)))
        try:
            return store.commit(Edit(target, CommitKind.DROP, changes, author, message))
        except Moved:
            continue
    raise _too_busy(target)


def _dropped(target: str, table: TableName, entries: Entries, reader: MetadataReader) -> Change:
    key = Key.of(table)
    if key not in entries:
        known = [str(key) for key in entries if key.space is Space.RELATION]
        raise TableNotFound(f"There is no table {table} on {target}.{near(str(table), known)} Nothing was dropped.")
    return _counted(Change(key, entries[key], None), reader)


def _counted(change: Change, reader: MetadataReader) -> Change:
    if change.key.space is Space.PROPERTY:
        return change
    return replace(change, stats=growth(_metadata(change.old, reader), _metadata(change.new, reader)))


def _later(store: Store, target: str, commit: Commit, key: Key) -> str:
    head = store.heads([target])[target].commit
    for later in store.ancestors(head):
        (full,) = store.with_changes([later])
        if later.seq > commit.seq and any(change.key == key for change in full.changes):
            return f"  {key}: commit {later.short_id} by {later.author or 'an engine'}"
    return f"  {key}: is not on {target} as that commit left it"


def _too_busy(target: str) -> LakeError:
    return LakeError(f"{target} is being written to too fast. Nothing was changed.", remedy="Try again.")
