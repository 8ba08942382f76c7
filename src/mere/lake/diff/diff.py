"""The difference between two states of the lake, from metadata files alone: reads no manifests and no data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from mere.errors import LakeError, RefNotFound, UsageError
from mere.lake.diff.lines import namespace_line, table_details, table_line
from mere.lake.iceberg.metadata import Metadata, MetadataReader, Snapshot
from mere.lake.iceberg.schema import Field, fields, key_of, partitioning, sort_order, view_sql
from mere.lake.log.commits import Change, Entry, Key, Kind, Space, difference
from mere.lake.query.tables import TableSet
from mere.lake.refs.premises import Premises
from mere.names import TableName
from mere.ranges import at_least
from mere.text import notebook
from mere.text.notebook import Column
from mere.text.words import counted

if TYPE_CHECKING:
    from mere.lake.diff.rows import RowDiff
    from mere.lake.query import Limits


class Verb(StrEnum):
    CREATED = "created"
    DROPPED = "dropped"
    RENAMED = "renamed"
    CHANGED = "changed"


class Amounts(NamedTuple):
    """What the snapshots on the way added and removed, as their own summaries count it."""

    rows_added: int = 0
    rows_removed: int = 0
    files_added: int = 0
    files_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0

    def inverse(self) -> Amounts:
        return Amounts(
            self.rows_removed, self.rows_added,
            self.files_removed, self.files_added,
            self.bytes_removed, self.bytes_added,
        )  # fmt: skip

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


@dataclass(frozen=True)
class ColumnChange:
    """`what` is added, dropped, renamed, type, nullability, comment or order; old and new are in words."""

    what: str
    column: str
    old: str | None = None
    new: str | None = None


@dataclass(frozen=True)
class Setting:
    """Something that has one value in each state; None where it is not set."""

    name: str
    old: str | None
    new: str | None


@dataclass(frozen=True)
class TableDiff:
    table: TableName
    verb: Verb
    kind: Kind
    old: Entry | None
    new: Entry | None
    was: TableName | None = None  # its name before, if it was renamed
    replaced: bool = False  # another table of the same name
    columns: tuple[ColumnChange, ...] = ()
    settings: tuple[Setting, ...] = ()  # partitioning, sort order, key, format version; the SQL of a view
    properties: tuple[Setting, ...] = ()
    amounts: Amounts | None = None  # None: a view, or a metadata file could not be read
    unreadable: str | None = None  # why

    @property
    def old_name(self) -> TableName:
        return self.was or self.table

    def to_dict(self) -> dict[str, Any]:
        return {
            "table": str(self.table),
            "was": str(self.was) if self.was else None,
            "verb": self.verb,
            "kind": self.kind,
            "old": self.old.value if self.old else None,
            "new": self.new.value if self.new else None,
            "replaced": self.replaced,
            "columns": [asdict(change) for change in self.columns],
            "settings": [asdict(setting) for setting in self.settings],
            "properties": [asdict(setting) for setting in self.properties],
            "unreadable": self.unreadable,
            **(self.amounts._asdict() if self.amounts else {}),
        }


@dataclass(frozen=True)
class Diff:
    before: TableSet
    after: TableSet
    tables: tuple[TableDiff, ...]
    namespaces: tuple[Setting, ...] = ()  # properties of namespaces

    def __repr__(self) -> str:
        return f"<Diff of {self.before.ref} and {self.after.ref}: {counted(len(self.tables), 'table')}>"

    def __bool__(self) -> bool:
        return bool(self.tables or self.namespaces)

    @property
    def companions(self) -> tuple[TableDiff, ...]:
        """Those of the tables in which it stands what was loaded into another, or kept out of it."""
        owned = ((each, each.table.owner) for each in self.tables)
        return tuple(each for each, owner in owned if owner and (owner in self.before or owner in self.after))

    def rows(
        self,
        *,
        key: Sequence[str] | None = None,
        tables: Collection[str] = (),
        samples: int = 10,
        limits: Limits | None = None,
        within: Sequence[str] | None = None,
    ) -> Iterator[RowDiff]:
        """The rows that differ, table by table: of all changed tables but companions, or of those that are named.

        `key`: by which rows are matched. None means the table's own; an empty one, that whole rows are compared.
        `within`: the folders of the lake, where its tables could name files elsewhere which the caller may not see.
        """
        from mere.lake.diff import rows as rowdiff

        at_least(0, samples=samples)
        return rowdiff.row_diffs(self, rowdiff.Options(key, samples, limits, within), tables)

    def to_dict(self, rows: Iterable[RowDiff] = ()) -> dict[str, Any]:
        """What `mere diff --json` prints. `rows`: of the tables of which they were compared."""
        compared = [each.to_dict() for each in rows]
        return {
            "from": {"ref": self.before.ref, "commit": self.before.commit.id},
            "to": {"ref": self.after.ref, "commit": self.after.commit.id},
            "tables": [table.to_dict() for table in self.tables],
            "namespaces": [asdict(setting) for setting in self.namespaces],
            **({"rows": compared} if compared else {}),
        }

    def _repr_html_(self) -> str:
        columns = [Column("table"), Column("differences")]
        rows = [(table_line(each), "; ".join(table_details(each))) for each in self.tables]
        names = f"{self.before.ref} → {self.after.ref}"
        title = names if self else f"{names}: they are equal"
        lines = notebook.lines(map(namespace_line, self.namespaces))
        return notebook.shown(title, notebook.table(columns, rows), lines)


def parent_of(lake: Premises, ref: str) -> str:
    """The branch that a ref was forked from: what it is compared with if nothing else is named."""
    base = lake.resolve(ref).base
    if base is None or base.parent is None:
        raise UsageError(f"{ref} was not forked from a branch.", remedy=f"Name two refs: mere diff main {ref}")
    if lake.store.ref(base.parent) is None:
        raise RefNotFound(
            f"{base.name} was forked from {base.parent}, which is gone.", remedy=f"Name two refs: mere diff main {ref}"
        )
    return base.parent


def compare(before: TableSet, after: TableSet) -> Diff:
    changes = difference(before.entries, after.entries)
    reader = after.reader
    relations = {key: change for key, change in changes.items() if key.space is Space.RELATION}
    renames = _renames(relations, reader)
    halves = {dropped.key for dropped in renames.values()}
    tables = [_of(reader, change, renames.get(key)) for key, change in relations.items() if key not in halves]
    namespaces = [
        Setting(str(key), change.old.value if change.old else None, change.new.value if change.new else None)
        for key, change in changes.items()
        if key.space is Space.PROPERTY
    ]
    return Diff(before, after, tuple(tables), tuple(namespaces))


def _renames(changes: Mapping[Key, Change], reader: MetadataReader) -> dict[Key, Change]:
    """By the new name, how the old one was dropped: first those with one pointer, then those that are one table."""
    created = {key: change.new for key, change in changes.items() if change.old is None and change.new}
    dropped = {key: change.old for key, change in changes.items() if change.new is None and change.old}
    found: dict[Key, Change] = {}
    if not created or not dropped:
        return found
    for mark in (_pointer, _uuid):
        waiting: dict[str, list[Key]] = {}
        for key, entry in dropped.items():
            if same := mark(entry, reader):
                waiting.setdefault(same, []).append(key)
        for key, entry in created.items():
            if key not in found and (candidates := waiting.get(mark(entry, reader) or "")):
                old = candidates.pop(0)
                found[key] = changes[old]
                del dropped[old]
    return found


def _pointer(entry: Entry, reader: MetadataReader) -> str | None:  # noqa: ARG001
    return entry.value


def _uuid(entry: Entry, reader: MetadataReader) -> str | None:
    try:
        return reader.read(entry.value).uuid
    except LakeError:
        return None


def _of(reader: MetadataReader, change: Change, renamed: Change | None) -> TableDiff:
    old, new = renamed.old if renamed else change.old, change.new
    kind = (new or old or Entry(Kind.TABLE, "")).kind
    verb = Verb.RENAMED if renamed else Verb(change.verb)
    bare = TableDiff(change.key.table, verb, kind, old, new, renamed.key.table if renamed else None)
    try:
        before, after = (reader.read(entry.value) if entry else None for entry in (old, new))
    except LakeError as error:
        return replace(bare, unreadable=error.message)
    tables = [metadata for metadata, entry in ((before, old), (after, new)) if entry and entry.kind is Kind.TABLE]
    amounts = amount(*(metadata if metadata in tables else None for metadata in (before, after))) if tables else None
    if before is None or after is None:
        return replace(bare, amounts=amounts)
    same = before.uuid == after.uuid
    return replace(
        bare,
        replaced=not same,
        columns=tuple(column_changes(before, after)),
        settings=tuple(_settings(before, after)),
        properties=tuple(_differing(before.properties, after.properties)),
        amounts=amounts,
    )


# Amounts


def amount(old: Metadata | None, new: Metadata | None) -> Amounts:
    """Back from the old snapshot to the last one that both have in their history, and from there on to the new one."""
    if old and new and old.uuid == new.uuid:
        ours = {snapshot.id for snapshot in old.since(None) or []}
        shared = next((snapshot.id for snapshot in new.since(None) or [] if snapshot.id in ours), None)
        undone, done = old.since(shared), new.since(shared)
        if (shared is not None or not old.current or not new.current) and undone is not None and done is not None:
            return _total(undone).inverse().plus(_total(done))
    return _standing(old).inverse().plus(_standing(new))


def _total(snapshots: Sequence[Snapshot]) -> Amounts:
    total = Amounts()
    for snapshot in snapshots:
        sizes = snapshot.count("added-files-size"), snapshot.count("removed-files-size")
        total = total.plus(Amounts(*snapshot.stats, *sizes))
    return total


def _standing(metadata: Metadata | None) -> Amounts:
    if metadata is None:
        return Amounts()
    return Amounts(rows_added=metadata.rows, files_added=metadata.files, bytes_added=metadata.size)


# Schemas


def column_changes(old: Metadata, new: Metadata) -> Iterator[ColumnChange]:
    """Columns are told apart by their ids, so that a renamed one is not a dropped one; by name in another table."""
    by_id = same_columns(old, new)
    before, after = ({(each.id if by_id else each.name): each for each in _fields(side)} for side in (old, new))
    for key, each in before.items():
        if key not in after and not _inside(each, before.values(), after.keys(), by_id):
            yield ColumnChange("dropped", each.name, old=each.type)
    for key, each in after.items():
        if key not in before:
            if not _inside(each, after.values(), before.keys(), by_id):
                yield ColumnChange("added", each.name, new=each.type)
        else:
            yield from _field_changes(before[key], each)
    kept = [[side[key].name for key in side if key in other] for side, other in ((before, after), (after, before))]
    if [key for key in before if key in after] != [key for key in after if key in before]:
        yield ColumnChange("order", "", ", ".join(kept[0]), ", ".join(kept[1]))


def same_columns(old: Metadata, new: Metadata) -> bool:
    """Whether a field's id means the same in both: it does as long as they are states of one table."""
    return old.uuid is not None and old.uuid == new.uuid and not old.is_view


def _fields(metadata: Metadata) -> list[Field]:
    return list(fields(metadata.schema))


def _inside(each: Field, fields: Iterable[Field], other: Collection[object], by_id: bool) -> bool:
    """Whether it lies in a column that came or went as a whole, and has been told already."""
    around = [parent for parent in fields if each.name.startswith(f"{parent.name}.")]
    return any((parent.id if by_id else parent.name) not in other for parent in around)


def _field_changes(old: Field, new: Field) -> Iterator[ColumnChange]:
    if old.name.rpartition(".")[2] != new.name.rpartition(".")[2]:
        yield ColumnChange("renamed", new.name, old.name, new.name)
    nested = "<" in old.type and old.type.partition("<")[0] == new.type.partition("<")[0]
    if old.type != new.type and not nested:  # what changed inside of a nested type is told of its fields
        yield ColumnChange("type", new.name, old.type, new.type)
    if old.required != new.required:
        words = {True: "required", False: "optional"}
        yield ColumnChange("nullability", new.name, words[old.required], words[new.required])
    if (old.comment or None) != (new.comment or None):
        yield ColumnChange("comment", new.name, old.comment, new.comment)


# Settings


def _settings(old: Metadata, new: Metadata) -> Iterator[Setting]:
    return _differing(_settings_of(old), _settings_of(new))


def _settings_of(metadata: Metadata) -> dict[str, str]:
    if metadata.is_view:
        sql, dialect = view_sql(metadata)
        return {"sql": sql or "", "dialect": dialect or ""}
    found = {
        "partitioning": ", ".join(partitioning(metadata)),
        "sort order": ", ".join(sort_order(metadata)),
        "key": ", ".join(key_of(metadata)),
        "format version": str(metadata.format_version),
        "location": metadata.folder or "",
    }
    return {name: value for name, value in found.items() if value}


def _differing(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Setting]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield Setting(name, old.get(name), new.get(name))
