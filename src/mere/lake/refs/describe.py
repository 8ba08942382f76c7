"""Row counts and authors of changes, as far as the tables' metadata has them.

They describe a commit, and are not part of it: if a metadata file can no longer be read, they are left out, and the
commit can still be shown, reverted and published.
"""

from __future__ import annotations

from dataclasses import replace

from mere.errors import LakeError
from mere.lake.iceberg.metadata import Metadata, MetadataReader, Snapshot, growth
from mere.lake.iceberg.properties import AUTHOR, USER
from mere.lake.log.commits import Change, Commit, CommitKind, Entry, Kind, Space


def counted(change: Change, reader: MetadataReader) -> Change:
    """The change with the rows and files that it added and removed."""
    if change.key.space is Space.PROPERTY:
        return change
    try:
        old, new = change.old and change.old.value, change.new and reader.read(change.new.value)
        if old and new:
            stats = reader.growth(old, new)
        else:
            stats = growth(reader.read(old) if old else None, new)
        return Change(change.key, change.old, change.new, stats)
    except LakeError:
        return change


def described(commit: Commit, reader: MetadataReader) -> Commit:
    """An engine's write, with the author, operation and counts that the engine left in the table's metadata."""
    if commit.kind is not CommitKind.WRITE or commit.message:  # who has recorded it has said all of this
        return commit
    changes = tuple(counted(change, reader) for change in commit.changes)
    made = next((snapshot for change in changes if (snapshot := _made(change, reader))), None)
    author = (made.summary.get(AUTHOR) or _engine(made)) if made else None
    return replace(commit, changes=changes, author=author, message=_message(changes, made))


def readable(reader: MetadataReader, entry: Entry | None) -> Metadata | None:
    """None too where its file was swept."""
    try:
        return reader.read(entry.value) if entry else None
    except LakeError:
        return None


def _made(change: Change, reader: MetadataReader) -> Snapshot | None:
    """The snapshot that this write made: a change of properties or of the schema makes none."""
    if change.new is None or change.new.kind is not Kind.TABLE:
        return None
    old, new = readable(reader, change.old), readable(reader, change.new)
    before = old.current.id if old and old.current else None
    snapshot = new.current if new else None
    return snapshot if snapshot and snapshot.id != before else None


def _engine(snapshot: Snapshot) -> str | None:
    return snapshot.summary.get(USER) or snapshot.summary.get("engine-name")


def _message(changes: tuple[Change, ...], made: Snapshot | None) -> str:
    dropped = [change for change in changes if change.new is None]
    created = [change for change in changes if change.old is None]
    if len(dropped) == len(created) == 1 and dropped[0].old == created[0].new:
        return f"renamed {dropped[0].key} to {created[0].key}"
    if not changes:
        return ""
    change = changes[0]
    if made:
        return f"{made.operation} {change.key}"
    return f"altered {change.key}" if change.verb == "changed" else f"{change.verb} {change.key}"
