"""The files of one table as the tree that Iceberg makes of them, and what each commit brought to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from mere.lake.iceberg.manifests import DATA, DELETED, EQUALITY_DELETES, Manifest, Manifests, named
from mere.lake.iceberg.metadata import Metadata, MetadataReader, Snapshot
from mere.lake.log.commits import Commit, Entry, Key, change_line
from mere.lake.metadata_tables.commits import log
from mere.lake.metadata_tables.values import Partitioning
from mere.lake.refs.describe import readable
from mere.lake.store.port import Store
from mere.names import TableName
from mere.text.words import counted, moment, size

_WORDS = {DATA: "data file", EQUALITY_DELETES: "equality deletes"}
_OF_FILE = (
    *("snapshot_id", "data_file.content", "data_file.file_path", "data_file.file_size_in_bytes"),
    *("data_file.record_count", "data_file.partition"),
)
_FAR = 1000  # commits that are looked through for those that brought the files


@dataclass(frozen=True)
class Node:
    kind: str  # pointer, metadata, manifest list, manifest, data file, position deletes, equality deletes
    name: str  # where it is
    size: int | None = None  # bytes
    about: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    commit: str | None = None  # that brought it
    inside: tuple[Node, ...] = ()
    hidden: int = 0  # how many more are inside

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "bytes": self.size,
            **self.facts,
            "commit": self.commit,
            "inside": [each.to_dict() for each in self.inside],
            "hidden": self.hidden,
        }

    def lines(self) -> Iterator[str]:
        yield self.line
        last = len(self.inside) - 1 + bool(self.hidden)
        for at, each in enumerate(self.inside):
            first, *rest = each.lines()
            yield f"{'└─ ' if at == last else '├─ '}{first}"
            for line in rest:
                yield f"{'   ' if at == last else '│  '}{line}"
        if self.hidden:
            yield f"└─ … and {counted(self.hidden, 'more', 'more')}: -n shows more"

    @property
    def line(self) -> str:
        name = self.name if self.kind == "pointer" else self.name.rpartition("/")[2]
        parts = [size(self.size) if self.size is not None else "", self.about]
        if self.commit is not None:
            parts.append(f"by commit {self.commit[:10]}")
        return "  ".join(filter(None, [f"{self.kind} {name}", ", ".join(filter(None, parts))]))


@dataclass(frozen=True)
class Brought:
    """What one commit changed, from the pointer down."""

    commit: Commit
    line: str
    metadata: str | None  # the new metadata file
    snapshots: tuple[int, ...]  # that it has and the one before has not
    manifests: int | None  # that these added; None if a file that would tell is gone

    def to_dict(self) -> dict[str, Any]:
        return {
            "commit": self.commit.id,
            "at": self.commit.at.isoformat(timespec="milliseconds"),
            "change": self.line,
            "metadata": self.metadata,
            "snapshots": self.snapshots,
            "manifests": self.manifests,
        }

    def __str__(self) -> str:
        new = "" if self.metadata is None else f"metadata {self.metadata.rpartition('/')[2]}"
        parts = [new, counted(len(self.snapshots), "snapshot") if self.snapshots else ""]
        parts.append(counted(self.manifests, "manifest") if self.manifests else "")
        return (
            f"{self.commit.short_id}  {moment(self.commit.at)}  {self.line}  {', '.join(filter(None, parts))}".rstrip()
        )


@dataclass(frozen=True)
class Tree:
    table: str
    ref: str
    root: Node
    commits: tuple[Brought, ...]  # newest first

    def to_dict(self) -> dict[str, Any]:
        """What `mere show --tree --json` prints."""
        commits = [each.to_dict() for each in self.commits]
        return {"table": self.table, "ref": self.ref, "tree": self.root.to_dict(), "commits": commits}

    def __str__(self) -> str:
        lines = [f"{self.table} on {self.ref}", *self.root.lines()]
        return "\n".join([*lines, "", "commits", *(f"  {each}" for each in self.commits)])


def tree(
    store: Store, reader: MetadataReader, ref: str, head: Commit, table: TableName, entry: Entry, most: int
) -> Tree:
    """`most`: how many manifests, files of one, and commits are shown."""
    metadata = reader.read(entry.value)
    found, by_snapshot = _commits(store, reader, head, table, most, metadata)
    look = _Look(str(table), reader, metadata, by_snapshot, most)
    pointer = f"{entry.kind} {table} in {store.place}"
    by_pointer = next((each.commit.id for each in found if each.metadata == entry.value), None)
    root = Node("pointer", pointer, about=f"ref {ref}", inside=(look.metadata_file(by_pointer),))
    return Tree(str(table), ref, root, tuple(found[:most]))


def _commits(
    store: Store, reader: MetadataReader, head: Commit, table: TableName, most: int, metadata: Metadata
) -> tuple[list[Brought], dict[int, str]]:
    """Those that changed the table, and which of them brought which snapshot."""
    key = Key.of(table)
    found: list[Brought] = []
    by_snapshot: dict[int, str] = {}
    missing = {each.id for each in metadata.snapshots}
    for commit in islice(log(store, reader, head), _FAR):
        for change in commit.changes:
            if change.key != key:
                continue
            brought = _brought(reader, commit, change_line(change), change.old, change.new)
            by_snapshot |= dict.fromkeys(brought.snapshots, commit.id)
            missing -= set(brought.snapshots)
            found.append(brought)
        if not missing and len(found) >= most:
            break
    return found, by_snapshot


def _brought(reader: MetadataReader, commit: Commit, line: str, old: Entry | None, new: Entry | None) -> Brought:
    before, after = readable(reader, old), readable(reader, new)
    known = {each.id for each in before.snapshots} if before else set()
    unread = (old is not None and before is None) or (new is not None and after is None)
    fresh = [each for each in after.snapshots if each.id not in known] if after and not unread else []
    manifests = None if unread else sum(_added(reader, each) for each in fresh)
    return Brought(commit, line, new.value if new else None, tuple(each.id for each in fresh), manifests)


def _added(reader: MetadataReader, snapshot: Snapshot) -> int:
    found = Manifests("", reader.storage).listed(snapshot) if snapshot.manifest_list else []
    return sum(each.snapshot == snapshot.id for each in found)


@dataclass(frozen=True)
class _Look:
    table: str
    reader: MetadataReader
    metadata: Metadata
    by_snapshot: Mapping[int, str]
    most: int

    def metadata_file(self, commit: str | None) -> Node:
        metadata = self.metadata
        snapshots = len(metadata.snapshots)
        facts = {"format": metadata.format_version, "snapshots": snapshots, "schemas": len(metadata.schemas)}
        about = f"format {metadata.format_version}, {counted(len(metadata.schemas), 'schema')}"
        if not metadata.is_view:
            about += f", {counted(snapshots, 'snapshot')}"
        current = metadata.current
        lists = (self.manifest_list(current),) if current and current.manifest_list else ()
        return Node("metadata", metadata.location, self._size(metadata.location), about, facts, commit, lists)

    def manifest_list(self, snapshot: Snapshot) -> Node:
        location = snapshot.manifest_list or ""
        with named(self.table):
            length = self._size(location)
        found = Manifests(self.table, self.reader.storage).listed(snapshot)
        about = f"snapshot {snapshot.id}, {snapshot.operation}, {counted(len(found), 'manifest')}"
        facts = {"snapshot": snapshot.id, "operation": snapshot.operation, "manifests": len(found)}
        shown = tuple(self.manifest(each) for each in found[: self.most])
        commit = self.by_snapshot.get(snapshot.id)
        return Node("manifest list", location, length, about, facts, commit, shown, len(found) - len(shown))

    def manifest(self, manifest: Manifest) -> Node:
        partitioning = Partitioning(self.metadata)
        shown: list[Node] = []
        counts = {"live": 0, "removed": 0}
        for entry in Manifests(self.table, self.reader.storage).entries(manifest, *_OF_FILE):
            if entry["status"] == DELETED:
                counts["removed"] += 1
                continue
            counts["live"] += 1
            if len(shown) < self.most:
                shown.append(self._file(entry, manifest, partitioning))
        about = counted(counts["live"], "delete file" if manifest.deletes else "data file")
        about += f", {counts['removed']} removed" if counts["removed"] else ""
        facts = {
            "content": "deletes" if manifest.deletes else "data",
            "files": counts["live"],
            "removed": counts["removed"],
        }
        commit = self.by_snapshot.get(manifest.snapshot)
        hidden = counts["live"] - len(shown)
        return Node("manifest", manifest.path, manifest.length, about, facts, commit, tuple(shown), hidden)

    def _file(self, entry: Mapping[str, Any], manifest: Manifest, partitioning: Partitioning) -> Node:
        found = entry["data_file"]
        rows = found.get("record_count") or 0
        values = partitioning.texts_of(manifest.spec, tuple((found.get("partition") or {}).values()))
        partition = ", ".join(f"{name}={value}" for name, value in values.items())
        about = ", ".join(filter(None, [counted(rows, "row"), partition]))
        facts = {"rows": rows, "partition": values}
        commit = self.by_snapshot.get(entry.get("snapshot_id") or manifest.snapshot)
        kind = _WORDS.get(found.get("content") or DATA, "position deletes")
        return Node(kind, found["file_path"], found["file_size_in_bytes"], about, facts, commit)

    def _size(self, location: str) -> int:
        return len(self.reader.storage.read(location))
