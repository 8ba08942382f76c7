"""Refs, commits and entries as rows of a SQL database: the statements, each inside a transaction it is given."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from mere.errors import ReadOnlyRef, RefNotFound
from mere.lake.commits import Change, Commit, CommitKind, Entries, Entry, Key, Kind, Space, Stats, difference
from mere.lake.port import Divergence, Edit, Head, Moved
from mere.lake.refs import Ref, RefKind

Row = tuple[Any, ...]

COMMIT = "c.seq, c.id, c.line, c.parent, c.kind, c.at, c.author, c.message, c.run, c.source, c.expired"
REF = "r.name, r.kind, r.head, r.parent, r.created_at, r.created_by"
CHANGE = (
    "c.seq, c.space, c.namespace, c.name, c.old_kind, c.old, c.new_kind, c.new,"
    " c.rows_added, c.rows_removed, c.files_added, c.files_removed"
)


def _lines(name: str) -> str:
    """The lines that lead to a commit, each with the last of its commits that belongs to the history."""
    return f"""{name} (line, upto) AS (
    SELECT line, seq FROM mere_commits WHERE seq = ?
    UNION ALL
    SELECT b.line, b.seq FROM {name}
    JOIN mere_lines l ON l.line = {name}.line JOIN mere_commits b ON b.seq = l.base)"""


def _within(name: str) -> str:
    return f"JOIN {name} ON c.line = {name}.line AND c.seq <= {name}.upto"


CHAIN, IN_CHAIN = f"WITH RECURSIVE {_lines('chain')}", _within("chain")
# Two histories, and the last commit that they share.
_PARTED = f"""WITH RECURSIVE {_lines("ours")}, {_lines("theirs")}, base (seq) AS (
    SELECT max(CASE WHEN ours.upto < theirs.upto THEN ours.upto ELSE theirs.upto END)
    FROM ours JOIN theirs ON ours.line = theirs.line)"""
_OURS, _THEIRS = (f"{_within(side)} AND c.seq > (SELECT seq FROM base)" for side in ("ours", "theirs"))

_SPACES = {space.value: space for space in Space}
_KINDS = {kind.value: kind for kind in Kind}
_COMMIT_KINDS = {kind.value: kind for kind in CommitKind}


class _Table(NamedTuple):
    """How the entries of a space are read and moved. Each row is written only if it still holds the old value."""

    select: str
    delete: str
    update: str
    insert: str


_TABLES = {
    Space.RELATION: _Table(
        "SELECT given.ref, t.table_namespace, t.table_name, lower(coalesce(t.iceberg_type, 'TABLE')),"
        " t.metadata_location FROM {given} JOIN iceberg_tables t ON t.catalog_name = given.ref"
        " AND t.table_namespace = given.namespace AND t.table_name = given.name",
        "DELETE FROM iceberg_tables WHERE (catalog_name, table_namespace, table_name, metadata_location)"
        " IN (SELECT ref, namespace, name, old FROM {given})",
        "UPDATE iceberg_tables AS t SET iceberg_type = upper(given.kind), metadata_location = given.new,"
        " previous_metadata_location = given.old FROM {given} WHERE t.catalog_name = given.ref"
        " AND t.table_namespace = given.namespace AND t.table_name = given.name AND t.metadata_location = given.old",
        "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type, metadata_location)"
        " SELECT ref, namespace, name, upper(kind), new FROM {given}",
    ),
    Space.PROPERTY: _Table(
        "SELECT given.ref, t.namespace, t.property_key, 'property', t.property_value"
        " FROM {given} JOIN iceberg_namespace_properties t ON t.catalog_name = given.ref"
        " AND t.namespace = given.namespace AND t.property_key = given.name",
        "DELETE FROM iceberg_namespace_properties WHERE (catalog_name, namespace, property_key, property_value)"
        " IN (SELECT ref, namespace, name, old FROM {given})",
        "UPDATE iceberg_namespace_properties AS t SET property_value = given.new FROM {given}"
        " WHERE t.catalog_name = given.ref AND t.namespace = given.namespace AND t.property_key = given.name"
        " AND t.property_value = given.old",
        "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)"
        " SELECT ref, namespace, name, new FROM {given}",
    ),
}
_CHANGES = (
    *("seq", "line", "space", "namespace", "name", "old_kind", "old", "new_kind", "new"),
    *("rows_added", "rows_removed", "files_added", "files_removed"),
)
_NUMBERS = {"seq", "line", "rows_added", "rows_removed", "files_added", "files_removed"}
_INSERT_CHANGES = f"INSERT INTO mere_changes ({', '.join(_CHANGES)}) SELECT " + (
    ", ".join(f"CAST({name} AS BIGINT)" if name in _NUMBERS else name for name in _CHANGES) + " FROM {given}"
)


class Given(NamedTuple):
    """Rows that are handed to a statement, in which they are a relation by the name of `given`."""

    columns: tuple[str, ...]
    rows: Sequence[Row]


class Tx(Protocol):
    """What an adapter's transaction offers. Parameters are written `?`."""

    clock: str  # what time it is, in the database's own SQL

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]: ...
    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int: ...

    def rows_for(self, sql: str, given: Given) -> list[Row]:
        """The given rows stand where the statement says `{given}`; it must mean the same for a part of them. Databases
        differ in what a number in them becomes: it has to be cast."""
        ...

    def run_for(self, sql: str, given: Given) -> int: ...

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


def now(tx: Tx) -> datetime:
    return time(tx.rows(f"SELECT {tx.clock}")[0][0])


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


def move_ref(tx: Tx, name: str, to: str) -> None:
    """Give a branch another name, under which its history goes on; whoever writes to the old one is refused."""
    ref = known_ref(tx, name)
    insert_ref(tx, replace(ref, name=to, created_at=now(tx)))
    fill(tx, to, ref.head)
    delete_ref(tx, name)


def new_line(tx: Tx, base: int | None) -> int:
    return tx.insert("INSERT INTO mere_lines (base) VALUES (?)", (base,), "line")


def commit_at(tx: Tx, seq: int) -> Commit:
    return to_commit(tx.rows(f"SELECT {COMMIT} FROM mere_commits c WHERE c.seq = ?", (seq,))[0])


def commits_at(tx: Tx, seqs: Sequence[int]) -> list[Commit]:
    """The commits with their changes, in the order in which they were asked for."""
    query = f"SELECT {COMMIT} FROM mere_commits c WHERE c.seq IN (SELECT CAST(seq AS BIGINT) FROM {{given}})"
    found = {commit.seq: commit for commit in with_changes(tx, tx.rows_for(query, _seqs(seqs)))}
    return [found[seq] for seq in seqs]


def with_changes(tx: Tx, commits: Sequence[Row]) -> list[Commit]:
    """The commits of these rows, each with its changes."""
    changes: dict[int, list[Change]] = {row[0]: [] for row in commits}
    query = f"""SELECT {CHANGE} FROM mere_changes c WHERE c.seq IN (SELECT CAST(seq AS BIGINT) FROM {{given}})
        ORDER BY c.seq, c.space DESC, c.namespace, c.name"""
    for row in tx.rows_for(query, _seqs(changes)):
        changes[row[0]].append(_to_change(row))
    return [to_commit(row, changes[row[0]]) for row in commits]


def _seqs(seqs: Iterable[int]) -> Given:
    return Given(("seq",), [(seq,) for seq in seqs])


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


def _standing_at(tx: Tx, refs: Collection[str], keys: Collection[Key]) -> dict[str, dict[Key, Entry]]:
    """The entries of some keys, ref by ref: a publish of ten tables must not read ten thousand rows."""
    entries: dict[str, dict[Key, Entry]] = {ref: {} for ref in refs}
    for space, table in _TABLES.items():
        wanted = [(ref, key.namespace, key.name) for ref in refs for key in keys if key.space is space]
        for ref, namespace, name, kind, value in tx.rows_for(table.select, Given(("ref", "namespace", "name"), wanted)):
            entries[ref][Key(space, namespace, name)] = Entry(_KINDS[kind], value)
    return entries


def standing_at(tx: Tx, ref: str, keys: Collection[Key]) -> dict[Key, Entry | None]:
    """The entries of some keys on a ref; None where there is none."""
    return dict.fromkeys(keys) | _standing_at(tx, [ref], keys)[ref]


def standing_changes(tx: Tx, edit: Edit) -> list[Change]:
    """The edit's changes that are still to be made, in the order of their keys, if the target still allows them."""
    reads = edit.reads or {}
    standing = _standing_at(tx, [edit.target], {change.key for change in edit.changes} | reads.keys())[edit.target]
    todo = [change for change in edit.changes if standing.get(change.key) != change.new]
    moved = {change.key for change in todo if standing.get(change.key) != change.old}
    moved |= {key for key, entry in reads.items() if standing.get(key) != entry}
    if moved:
        raise Moved(sorted(moved))
    return sorted(todo, key=lambda change: change.key)


def move_pointers(tx: Tx, target: str, changes: Collection[Change]) -> None:
    done = 0
    for space, table in _TABLES.items():
        some = [change for change in changes if change.key.space is space]
        done += tx.run_for(table.delete, _moves(target, [change for change in some if not change.new]))
        done += tx.run_for(table.update, _moves(target, [change for change in some if change.old and change.new]))
        done += tx.run_for(table.insert, _moves(target, [change for change in some if not change.old]))
    if done != len(changes):  # a bug, or a broken lock
        raise AssertionError(f"{done} of {len(changes)} pointers moved on {target} inside one transaction")


def _moves(ref: str, changes: Collection[Change]) -> Given:
    return Given(
        ("ref", "namespace", "name", "kind", "old", "new"),
        [
            (ref, key.namespace, key.name, new and new.kind.value, old and old.value, new and new.value)
            for key, old, new in ((change.key, change.old, change.new) for change in changes)
        ],
    )


def fill(tx: Tx, name: str, seq: int) -> None:
    """Give a new ref the rows of a commit: copied from a ref that stands there, else from the log."""
    standing = tx.rows("SELECT name FROM mere_refs WHERE head = ? AND name <> ? LIMIT 1", (seq, name))
    if not standing:
        move_pointers(tx, name, [Change(key, None, entry) for key, entry in entries_at(tx, seq).items()])
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
    """Write the commit and its changes, and make it the target's head. Time does not go backwards along a log."""
    standing = (
        f"SELECT r.line, c.at, {tx.clock} FROM mere_refs r JOIN mere_commits c ON c.seq = r.head WHERE r.name = ?"
    )
    ((line, before, clock),) = tx.rows(standing, (edit.target,))
    at = max(clock, before)
    source = edit.source.name if edit.source else None
    about = (edit.id, line, target.head, edit.kind.value, at, edit.author, edit.message, edit.run, source)
    seq = tx.insert(
        "INSERT INTO mere_commits (id, line, parent, kind, at, author, message, run, source)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        about,
        "seq",
    )
    tx.run_for(_INSERT_CHANGES, Given(_CHANGES, [_change_row(seq, line, change) for change in changes]))
    tx.run("UPDATE mere_refs SET head = ? WHERE name = ?", (seq, edit.target))
    return to_commit((seq, *about, False), changes)


def _change_row(seq: int, line: int, change: Change) -> Row:
    key, old, new, stats = change.key, change.old, change.new, change.stats
    return (
        *(seq, line, key.space.value, key.namespace, key.name),
        *((old.kind.value, old.value) if old else (None, None)),
        *((new.kind.value, new.value) if new else (None, None)),
        *((stats.rows_added, stats.rows_removed, stats.files_added, stats.files_removed) if stats else (None,) * 4),
    )


def divergence(tx: Tx, ours: int, theirs: int) -> Divergence:
    query = f"""{_PARTED}
    SELECT 'ours', {COMMIT} FROM mere_commits c {_OURS}
    UNION ALL SELECT 'theirs', {COMMIT} FROM mere_commits c {_THEIRS}
    UNION ALL SELECT 'base', {COMMIT} FROM mere_commits c WHERE c.seq = (SELECT seq FROM base)
    ORDER BY 2"""
    sides: dict[str, list[Row]] = {"ours": [], "theirs": [], "base": []}
    for side, *row in tx.rows(query, (ours, theirs)):
        sides[side].append(tuple(row))
    commits = with_changes(tx, sides["ours"] + sides["theirs"])
    own = len(sides["ours"])
    return Divergence(to_commit(sides["base"][0]), tuple(commits[:own]), tuple(commits[own:]))


def follow(tx: Tx, branch: Ref, target: str, seq: int) -> None:
    """Start a branch again from the target's new head, touching only what either side changed since they parted."""
    touched = f"""{_PARTED}
    SELECT x.space, x.namespace, x.name FROM mere_commits c {_OURS} JOIN mere_changes x ON x.seq = c.seq
    UNION SELECT x.space, x.namespace, x.name FROM mere_commits c {_THEIRS} JOIN mere_changes x ON x.seq = c.seq"""
    found = tx.rows(touched, (branch.head, seq))
    keys = {Key(_SPACES[space], namespace, name) for space, namespace, name in found}
    standing = _standing_at(tx, [branch.name, target], keys)
    move_pointers(tx, branch.name, list(difference(standing[branch.name], standing[target]).values()))
    tx.run("UPDATE mere_refs SET line = ?, head = ? WHERE name = ?", (new_line(tx, seq), seq, branch.name))
