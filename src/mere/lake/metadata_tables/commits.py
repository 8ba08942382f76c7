"""`mere.commits` and `mere.changes`: the log of a ref, newest first, a few hundred commits at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from mere.lake.iceberg.metadata import MetadataReader
from mere.lake.log.commits import Commit, CommitKind, Key, Space
from mere.lake.metadata_tables.shape import Row, schema
from mere.lake.metadata_tables.sight import Sight
from mere.lake.refs.describe import described
from mere.lake.store.port import Store
from mere.names import RUN_PREFIX

_PAGE = 200

COMMITS = schema(
    ("commit_id", "string", "its id, which is a ref"),
    ("parent_id", "string", "the commit before it"),
    ("kind", "string", "root, write, publish, revert, drop, alter, rebase or adopt"),
    ("committed_at", "timestamptz", "when, by the clock of the lake's database"),
    ("author", "string", "who"),
    ("message", "string", "why"),
    ("run_id", "string", "the run that published it"),
    ("source", "string", "the branch that was published"),
    ("expired", "boolean", "whether mere gc deleted its files"),
    ("tables", "int", "how many tables and views it changed"),
)
CHANGES = schema(
    ("commit_id", "string", "the commit that made the change"),
    ("committed_at", "timestamptz", "when"),
    ("table_schema", "string", "the schema"),
    ("table_name", "string", "the table or view; NULL if a property of the schema changed"),
    ("property", "string", "the property of the schema; NULL if a table changed"),
    ("kind", "string", "table, view or property"),
    ("verb", "string", "created, changed or dropped"),
    ("old", "string", "the metadata file before, or the property's value"),
    ("new", "string", "the metadata file after, or the property's value"),
    ("rows_added", "long", "rows"),
    ("rows_removed", "long", "rows"),
    ("files_added", "long", "data files"),
    ("files_removed", "long", "data files"),
)


def seen(commits: Iterable[Commit], sight: Sight) -> Iterator[Commit]:
    """Commits with the changes that the reader may know of. A message may name what the others are about, and a branch
    that was published may be hidden."""
    for commit in commits:
        told = commit
        if commit.source is not None and not _knows(sight, commit.source):
            told = replace(told, source=None, message=None)
        elif commit.kind is CommitKind.REVERT and not sight.reads_everything:
            told = replace(told, message=None)  # it repeats that of another commit
        if not sight.is_restricted or not commit.changes:
            yield told
            continue
        changes = tuple(each for each in commit.changes if _reads(sight, each.key))
        if changes:
            message = told.message if len(changes) == len(commit.changes) else None
            yield replace(told, changes=changes, message=message)


def _knows(sight: Sight, branch: str) -> bool:
    """The branch of a run is named after the run, which is told anyway."""
    return branch.startswith(RUN_PREFIX) or sight.may_connect(branch)


def _reads(sight: Sight, key: Key) -> bool:
    return key.space is Space.RELATION and sight.may_read_all_of(key.table)


def log(store: Store, reader: MetadataReader, head: Commit) -> Iterator[Commit]:
    """As `mere log` has it."""
    ancestors = store.ancestors(head)
    while page := list(islice(ancestors, _PAGE)):
        yield from (described(each, reader) for each in store.with_changes(page))


def commits(store: Store, reader: MetadataReader, head: Commit, sight: Sight) -> Iterator[Row]:
    after: Commit | None = None
    for commit in seen(log(store, reader, head), sight):
        if after is not None:
            yield _commit(after, commit.id if after.parent == commit.seq else _id(store, after.parent))
        after = commit
    if after is not None:
        yield _commit(after, _id(store, after.parent))


def _id(store: Store, seq: int | None) -> str | None:
    return None if seq is None else store.commit_by_seq(seq).id


def _commit(commit: Commit, parent: str | None) -> Row:
    tables = sum(each.key.space is Space.RELATION for each in commit.changes)
    about = commit.author, commit.message, commit.run, commit.source, commit.expired
    return commit.id, parent, commit.kind.value, commit.at, *about, tables


def changes(store: Store, reader: MetadataReader, head: Commit, sight: Sight) -> Iterator[Row]:
    for commit in seen(log(store, reader, head), sight):
        for each in commit.changes:
            is_relation = each.key.space is Space.RELATION
            yield (
                commit.id,
                commit.at,
                each.key.namespace,
                each.key.name if is_relation else None,
                None if is_relation else each.key.name,
                each.kind.value,
                each.verb,
                each.old.value if each.old else None,
                each.new.value if each.new else None,
                *(each.stats or (None, None, None, None)),
            )
