"""Refs, commits and entries as rows of a SQL database: the statements, each inside a transaction it is given."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from mere.errors import ReadOnlyRef, RefNotFound
from mere.lake.commits import Change, Commit, CommitKind, Entries, Entry, Key, Kind, Space, Stats, difference
from mere.lake.port import Edit, Head, Moved
from mere.lake.refs import Ref, RefKind

Row = tuple[Any, ...]
T = TypeVar("T")

COMMIT = "c.seq, c.id, c.line, c.parent, c.kind, c.at, c.author, c.message, c.run, c.source, c.expired"
REF = "r.name, r.kind, r.head, r.parent, r.created_at, r.created_by"
CHANGE = (
    "c.seq, c.space, c.namespace, c.name, c.old_kind, c.old, c.new_kind, c.new,"
    " c.rows_added, c.rows_removed, c.files_added, c.files_removed"
)
# The lines that lead to a commit, each with the last of its commits that belongs to the history.
CHAIN = """WITH RECURSIVE chain (line, upto) AS (
    SELECT line, seq FROM mere_commits WHERE seq = ?
    UNION ALL
    SELECT b.line, b.seq FROM chain
    JOIN mere_lines l ON l.line = chain.line JOIN mere_commits b ON b.seq = l.base)"""
IN_CHAIN = "JOIN chain ON c.line = chain.line AND c.seq <= chain.upto"

_SPACES = {space.value: space for space in Space}
_KINDS = {kind.value: kind for kind in Kind}
_COMMIT_KINDS = {kind.value: kind for kind in CommitKind}

_INSERT_RELATION = (
    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type, metadata_location,"
    " previous_metadata_location) VALUES (?, ?, ?, ?, ?, ?)"
)
_INSERT_PROPERTY = (
    "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)"
    " VALUES (?, ?, ?, ?)"
)


class Tx(Protocol):
    """What an adapter's transaction offers. Parameters are written `?`."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]: ...
    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int: ...
    def run_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> int: ...
    def insert(self, sql: str, parameters: Sequence[Any], column: str) -> int:
        """Insert one row; the number that the database gave it in that column."""
        ...


def stamp(instant: datetime) -> str:
    """An instant as it is stored: in UTC, to the millisecond, so that the order of texts is the order of times."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def to_ref(row: Row) -> Ref:
    name, kind, head, parent, created_at, created_by = row
    return Ref(name, RefKind(kind), head, parent, time(created_at), created_by)


def to_commit(row: Row, changes: Sequence[Change] = ()) -> Commit:
    seq, id_, line, parent, kind, at, author, message, run, source, expired = row
    about = (_COMMIT_KINDS[kind], time(at), author, message, run, source, bool(expired))
    return Commit(seq, id_, line, parent, *about, tuple(changes))


def _to_entry(kind: str | None, value: str | None) -> Entry | None:
    return None if kind is None or value is None else Entry(_KINDS[kind], value)


def _to_change(row: Row) -> Change:
    _, space, namespace, name, old_kind, old, new_kind, new, *counts = row
    stats = None if counts[0] is None else Stats(*counts)
    key = Key(_SPACES[space], namespace, name)
    return Change(key, _to_entry(old_kind, old), _to_entry(new_kind, new), stats)


def find_ref(tx: Tx, name: str) -> Ref | None:
    rows = tx.rows(f"SELECT {REF} FROM mere_refs r WHERE r.name = ?", (name,))
    return to_ref(rows[0]) if rows else None


def known_ref(tx: Tx, name: str) -> Ref:
    ref = find_ref(tx, name)
    if ref is None:
        raise RefNotFound(f"There is no ref named {name!r}.")
    return ref


def writable_ref(tx: Tx, name: str) -> Ref:
    ref = known_ref(tx, name)
    if not ref.kind.writable:
        raise ReadOnlyRef(f"{name} is a {ref.kind} and read-only.", remedy="Commit to a branch instead.")
    return ref


def insert_ref(tx: Tx, ref: Ref) -> None:
    line = new_line(tx, ref.head) if ref.kind.writable else commit_at(tx, ref.head).line
    tx.run(
        "INSERT INTO mere_refs (name, kind, line, head, parent, created_at, created_by) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (ref.name, ref.kind.value, line, ref.head, ref.parent, stamp(ref.created_at), ref.created_by),
    )


def delete_ref(tx: Tx, name: str) -> None:
    known_ref(tx, name)
    tx.run("DELETE FROM iceberg_tables WHERE catalog_name = ?", (name,))
    tx.run("DELETE FROM iceberg_namespace_properties WHERE catalog_name = ?", (name,))
    tx.run("DELETE FROM mere_refs WHERE name = ?", (name,))


def new_line(tx: Tx, base: int | None) -> int:
    return tx.insert("INSERT INTO mere_lines (base) VALUES (?)", (base,), "line")


def commit_at(tx: Tx, seq: int) -> Commit:
    return to_commit(tx.rows(f"SELECT {COMMIT} FROM mere_commits c WHERE c.seq = ?", (seq,))[0])


def commits_at(tx: Tx, seqs: Sequence[int]) -> list[Commit]:
    """The commits with their changes, in the order in which they were asked for."""
    found: dict[int, Commit] = {}
    for part in _parts(seqs):
        marks = ", ".join("?" * len(part))
        rows = tx.rows(f"SELECT {COMMIT} FROM mere_commits c WHERE c.seq IN ({marks})", part)
        found |= {commit.seq: commit for commit in with_changes(tx, rows)}
    return [found[seq] for seq in seqs]


def with_changes(tx: Tx, commits: Sequence[Row]) -> list[Commit]:
    """The commits of these rows, each with its changes."""
    changes: dict[int, list[Change]] = {row[0]: [] for row in commits}
    for part in _parts(list(changes)):
        marks = ", ".join("?" * len(part))
        query = f"""SELECT {CHANGE} FROM mere_changes c WHERE c.seq IN ({marks})
            ORDER BY c.seq, c.space DESC, c.namespace, c.name"""
        for row in tx.rows(query, part):
            changes[row[0]].append(_to_change(row))
    return [to_commit(row, changes[row[0]]) for row in commits]


def head(tx: Tx, name: str) -> Head:
    ref = known_ref(tx, name)
    return Head(ref, commit_at(tx, ref.head), _standing(tx, name))


def entries_at(tx: Tx, seq: int) -> Entries:
    query = f"""{CHAIN}, latest AS (
        SELECT c.space, c.namespace, c.name, max(c.seq) AS seq FROM mere_changes c {IN_CHAIN}
        GROUP BY c.space, c.namespace, c.name)
    SELECT c.space, c.namespace, c.name, c.new_kind, c.new
    FROM latest l JOIN mere_changes c
        ON c.seq = l.seq AND c.space = l.space AND c.namespace = l.namespace AND c.name = l.name
    WHERE c.new IS NOT NULL"""
    return {
        Key(_SPACES[space], namespace, name): Entry(_KINDS[kind], value)
        for space, namespace, name, kind, value in tx.rows(query, (seq,))
    }


def _standing(tx: Tx, name: str) -> Entries:
    relations = tx.rows(
        "SELECT table_namespace, table_name, lower(coalesce(iceberg_type, 'TABLE')), metadata_location"
        " FROM iceberg_tables WHERE catalog_name = ?",
        (name,),
    )
    properties = tx.rows(
        "SELECT namespace, property_key, property_value FROM iceberg_namespace_properties WHERE catalog_name = ?",
        (name,),
    )
    entries = {Key(Space.RELATION, r[0], r[1]): Entry(_KINDS[r[2]], r[3]) for r in relations}
    entries.update({Key(Space.PROPERTY, p[0], p[1]): Entry(Kind.PROPERTY, p[2]) for p in properties})
    return entries


def _standing_at(tx: Tx, name: str, keys: Collection[Key]) -> Entries:
    """The entries of some keys: a publish of ten tables must not read ten thousand rows."""
    entries: dict[Key, Entry] = {}
    for part in _parts(sorted(keys)):
        places = ", ".join(["(?, ?)"] * len(part))
        names = [text for key in part for text in (key.namespace, key.name)]
        where = f"catalog_name = ? AND (%s) IN (VALUES {places})"
        for space, namespace, key, kind, value in tx.rows(
            f"SELECT 'relation', table_namespace, table_name, lower(coalesce(iceberg_type, 'TABLE')), metadata_location"
            f" FROM iceberg_tables WHERE {where % 'table_namespace, table_name'}"
            f" UNION ALL SELECT 'property', namespace, property_key, 'property', property_value"
            f" FROM iceberg_namespace_properties WHERE {where % 'namespace, property_key'}",
            (name, *names, name, *names),
        ):
            entries[Key(_SPACES[space], namespace, key)] = Entry(_KINDS[kind], value)
    return entries


def standing_changes(tx: Tx, edit: Edit) -> list[Change]:
    """The edit's changes that are still to be made, in the order of their keys, if the target still allows them."""
    reads = edit.reads or {}
    standing = _standing_at(tx, edit.target, {change.key for change in edit.changes} | reads.keys())
    todo = [change for change in edit.changes if standing.get(change.key) != change.new]
    moved = {change.key for change in todo if standing.get(change.key) != change.old}
    moved |= {key for key, entry in reads.items() if standing.get(key) != entry}
    if moved:
        raise Moved(sorted(moved))
    return sorted(todo, key=lambda change: change.key)


def move_pointers(tx: Tx, target: str, changes: Collection[Change]) -> None:
    """Each row is written only if it still holds the old pointer; a row that does not is a bug or a broken lock."""
    done = 0
    relations = [c for c in changes if c.key.space is Space.RELATION]
    properties = [c for c in changes if c.key.space is Space.PROPERTY]
    where = "WHERE catalog_name = ? AND table_namespace = ? AND table_name = ? AND metadata_location = ?"
    done += tx.run_many(
        f"DELETE FROM iceberg_tables {where}",
        [(target, c.key.namespace, c.key.name, c.old.value) for c in relations if c.old and not c.new],
    )
    done += tx.run_many(
        f"UPDATE iceberg_tables SET iceberg_type = ?, metadata_location = ?, previous_metadata_location = ? {where}",
        [
            (c.new.kind.upper(), c.new.value, c.old.value, target, c.key.namespace, c.key.name, c.old.value)
            for c in relations
            if c.old and c.new
        ],
    )
    done += _insert(tx, target, {c.key: c.new for c in changes if c.new and not c.old})
    where = "WHERE catalog_name = ? AND namespace = ? AND property_key = ? AND property_value = ?"
    done += tx.run_many(
        f"DELETE FROM iceberg_namespace_properties {where}",
        [(target, c.key.namespace, c.key.name, c.old.value) for c in properties if c.old and not c.new],
    )
    done += tx.run_many(
        f"UPDATE iceberg_namespace_properties SET property_value = ? {where}",
        [(c.new.value, target, c.key.namespace, c.key.name, c.old.value) for c in properties if c.old and c.new],
    )
    if done != len(changes):
        raise AssertionError(f"{done} of {len(changes)} pointers moved on {target} inside one transaction")


def _insert(tx: Tx, name: str, entries: Entries) -> int:
    return tx.run_many(
        _INSERT_RELATION,
        [
            (name, key.namespace, key.name, entry.kind.upper(), entry.value, None)
            for key, entry in entries.items()
            if key.space is Space.RELATION
        ],
    ) + tx.run_many(
        _INSERT_PROPERTY,
        [(name, key.namespace, key.name, entry.value) for key, entry in entries.items() if key.space is Space.PROPERTY],
    )


def fill(tx: Tx, name: str, seq: int) -> None:
    """Give a new ref the rows of a commit: copied from a ref that stands there, else from the log."""
    standing = tx.rows("SELECT name FROM mere_refs WHERE head = ? AND name <> ? LIMIT 1", (seq, name))
    if not standing:
        _insert(tx, name, entries_at(tx, seq))
        return
    tx.run(
        "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type, metadata_location,"
        " previous_metadata_location) SELECT ?, table_namespace, table_name, coalesce(iceberg_type, 'TABLE'),"
        " metadata_location, previous_metadata_location FROM iceberg_tables WHERE catalog_name = ?",
        (name, standing[0][0]),
    )
    tx.run(
        "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)"
        " SELECT ?, namespace, property_key, property_value FROM iceberg_namespace_properties"
        " WHERE catalog_name = ?",
        (name, standing[0][0]),
    )


def record(tx: Tx, edit: Edit, target: Ref, changes: Sequence[Change]) -> Commit:
    """Write the commit and its changes, and make it the target's head."""
    parent = commit_at(tx, target.head)
    line = tx.rows("SELECT line FROM mere_refs WHERE name = ?", (edit.target,))[0][0]
    at = stamp(max(datetime.now(UTC), parent.at))
    source = edit.source.name if edit.source else None
    seq = tx.insert(
        "INSERT INTO mere_commits (id, line, parent, kind, at, author, message, run, source)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (edit.id, line, parent.seq, edit.kind.value, at, edit.author, edit.message, edit.run, source),
        "seq",
    )
    tx.run_many(
        "INSERT INTO mere_changes (seq, line, space, namespace, name, old_kind, old, new_kind, new,"
        " rows_added, rows_removed, files_added, files_removed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [_change_row(seq, line, change) for change in changes],
    )
    tx.run("UPDATE mere_refs SET head = ? WHERE name = ?", (seq, edit.target))
    return replace(commit_at(tx, seq), changes=tuple(changes))


def _change_row(seq: int, line: int, change: Change) -> Row:
    key, old, new, stats = change.key, change.old, change.new, change.stats
    return (
        *(seq, line, key.space.value, key.namespace, key.name),
        *((old.kind.value, old.value) if old else (None, None)),
        *((new.kind.value, new.value) if new else (None, None)),
        *((stats.rows_added, stats.rows_removed, stats.files_added, stats.files_removed) if stats else (None,) * 4),
    )


def parting(tx: Tx, one: int, other: int) -> int:
    """The last commit that two histories share."""
    lines = f"{CHAIN} SELECT line, upto FROM chain"
    reached: dict[int, int] = dict(tx.rows(lines, (other,)))
    return int(next(min(upto, reached[line]) for line, upto in tx.rows(lines, (one,)) if line in reached))


def follow(tx: Tx, branch: Ref, target: str, seq: int) -> None:
    """Start a branch again from the target's new head, touching only what either side changed since they parted."""
    base = parting(tx, branch.head, seq)
    touched = f"{CHAIN} SELECT DISTINCT c.space, c.namespace, c.name FROM mere_changes c {IN_CHAIN} AND c.seq > ?"
    keys = {
        Key(_SPACES[space], namespace, name)
        for side in (branch.head, seq)
        for space, namespace, name in tx.rows(touched, (side, base))
    }
    changes = difference(_standing_at(tx, branch.name, keys), _standing_at(tx, target, keys))
    move_pointers(tx, branch.name, list(changes.values()))
    tx.run("UPDATE mere_refs SET line = ?, head = ? WHERE name = ?", (new_line(tx, seq), seq, branch.name))


def _parts(items: Sequence[T], size: int = 400) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
