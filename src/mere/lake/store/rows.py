"""Refs, commits and entries as rows of a SQL database: the statements, each inside a transaction it is given."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from mere.errors import ReadOnlyRef, RefNotFound
from mere.lake.log.commits import Change, Commit, CommitKind, Entries, Entry, Key, Kind, Space, Stats
from mere.lake.log.refs import Ref, RefKind
from mere.lake.store.port import Divergence, Edit, Head, Moved

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
    """How the entries of a space are kept and moved. Each row is written only if it still holds the old value."""

    name: str
    ref: str
    namespace: str
    key: str
    kind: str
    value: str
    delete: str
    update: str
    insert: str

    def joined(self, to: str, ref: str, alias: str) -> str:
        """What stands on a ref for each row of a relation, if anything does."""
        return (
            f" LEFT JOIN {self.name} {alias} ON {alias}.{self.ref} = {ref}"
            f" AND {alias}.{self.namespace} = {to}.namespace AND {alias}.{self.key} = {to}.name"
        )

    def entry(self, alias: str) -> tuple[str, str]:
        return self.kind.format(row=alias), f"{alias}.{self.value}"

    @property
    def astray(self) -> str:
        """Of given entries: what stands in their place, where it is not they."""
        entry = self.entry("t")
        return (
            f"SELECT given.namespace, given.name, {', '.join(entry)} FROM {{given}}"
            + self.joined("given", "given.ref", "t")
            + f" WHERE {_differs(entry, ('given.kind', 'given.value'))}"
        )

    def apart(self, space: str) -> str:
        """Of the keys that two refs touched: what stands on each, where it is not the same."""
        here, there = self.entry("here"), self.entry("there")
        return (
            f"SELECT touched.space, touched.namespace, touched.name, {', '.join((*here, *there))} FROM touched"
            + self.joined("touched", "?", "here")
            + self.joined("touched", "?", "there")
            + f" WHERE touched.space = '{space}' AND ({_differs(here, there)})"
        )


def _differs(one: tuple[str, str], other: tuple[str, str]) -> str:
    """Whether two entries differ, of which there may be none. Databases compare with NULL in different words."""
    (kind, value), (other_kind, other_value) = one, other
    return f"({value} IS NULL) <> ({other_value} IS NULL) OR {value} <> {other_value} OR {kind} <> {other_kind}"


_TABLES = {
    Space.RELATION: _Table(
        *("iceberg_tables", "catalog_name", "table_namespace", "table_name"),
        *("lower(coalesce({row}.iceberg_type, 'TABLE'))", "metadata_location"),
        "DELETE FROM iceberg_tables WHERE (catalog_name, table_namespace, table_name, metadata_location)"
        " IN (SELECT ref, namespace, name, old FROM {given})",
        "UPDATE iceberg_tables AS t SET iceberg_type = upper(given.kind), metadata_location = given.new,"
        " previous_metadata_location = given.old FROM {given} WHERE t.catalog_name = given.ref"
        " AND t.table_namespace = given.namespace AND t.table_name = given.name AND t.metadata_location = given.old",
        "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type, metadata_location)"
        " SELECT ref, namespace, name, upper(kind), new FROM {given}",
    ),
    Space.PROPERTY: _Table(
        *("iceberg_namespace_properties", "catalog_name", "namespace", "property_key"),
        *("'property'", "property_value"),
        "DELETE FROM iceberg_namespace_properties WHERE (catalog_name, namespace, property_key, property_value)"
        " IN (SELECT ref, namespace, name, old FROM {given})",
        "UPDATE iceberg_namespace_properties AS t SET property_value = given.new FROM {given}"
        " WHERE t.catalog_name = given.ref AND t.namespace = given.namespace AND t.property_key = given.name"
        " AND t.property_value = given.old",
        "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)"
        " SELECT ref, namespace, name, new FROM {given}",
    ),
}
_APART = f"""{_PARTED}, touched (space, namespace, name) AS (
    SELECT x.space, x.namespace, x.name FROM mere_commits c {_OURS} JOIN mere_changes x ON x.seq = c.seq
    UNION SELECT x.space, x.namespace, x.name FROM mere_commits c {_THEIRS} JOIN mere_changes x ON x.seq = c.seq)
    {" UNION ALL ".join(table.apart(space.value) for space, table in _TABLES.items())}"""
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


def _from_entry(entry: Entry | None) -> tuple[str | None, str | None]:
    return (entry.kind.value, entry.value) if entry else (None, None)


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


def astray(tx: Tx, ref: str, entries: Mapping[Key, Entry | None]) -> dict[Key, Entry | None]:
    """What stands on a ref in place of these: a publish of ten tables must not read ten thousand rows, nor make objects
    of the ten that stand where they should."""
    found: dict[Key, Entry | None] = {}
    for space, table in _TABLES.items():
        expected = [
            (ref, key.namespace, key.name, *_from_entry(entry)) for key, entry in entries.items() if key.space is space
        ]
        given = Given(("ref", "namespace", "name", "kind", "value"), expected)
        for namespace, name, kind, value in tx.rows_for(table.astray, given):
            found[Key(space, namespace, name)] = _to_entry(kind, value)
    return found


def standing_changes(tx: Tx, edit: Edit) -> list[Change]:
    """The edit's changes that are still to be made, in the order of their keys, if the target still allows them."""
    found = astray(tx, edit.target, {change.key: change.old for change in edit.changes})
    todo = [change for change in edit.changes if found.get(change.key, change.old) != change.new]
    moved = {change.key for change in todo if change.key in found} | astray(tx, edit.target, edit.reads or {}).keys()
    if moved:
        raise Moved(sorted(moved))
    return sorted(todo, key=lambda change: change.key)


def move_pointers(tx: Tx, target: str, changes: Collection[Change]) -> None:
    done = 0
    for space, table in _TABLES.items():
        some = [change for change in changes if change.key.space is space]
        if not some:
            continue
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
            for key, old, new, _ in changes
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
    key, old, new, stats = change
    return (
        *(seq, line, key.space.value, key.namespace, key.name),
        *_from_entry(old),
        *_from_entry(new),
        *(stats or (None,) * 4),
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


def catch_up(tx: Tx, branch: Ref, target: str, seq: int) -> None:
    """Give a branch what stands on its target, touching only what either side changed since they parted."""
    changes = [
        Change(Key(_SPACES[space], namespace, name), _to_entry(*entries[:2]), _to_entry(*entries[2:]))
        for space, namespace, name, *entries in tx.rows(
            _APART, (branch.head, seq, *(branch.name, target) * len(_TABLES))
        )
    ]
    move_pointers(tx, branch.name, changes)


def start_again(tx: Tx, branch: Ref, seq: int) -> None:
    """Let a branch that holds what its target holds go on from the target's commit."""
    tx.run("UPDATE mere_refs SET line = ?, head = ? WHERE name = ?", (new_line(tx, seq), seq, branch.name))
