"""The lake: refs over Iceberg tables, and every verb on them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mere.config import default_author
from mere.errors import LakeError, LakeMoved, LakeUnreadable, ReadOnlyRef, RefExists, RefNotFound, UsageError
from mere.lake import catalogs, history, leases
from mere.lake.commits import Commit
from mere.lake.guards import Guard
from mere.lake.metadata import MetadataReader
from mere.lake.port import Store
from mere.lake.publish import Publication, Request, publish
from mere.lake.refs import Ref, RefKind
from mere.lake.resolve import Resolved, resolve
from mere.lake.sqlite import SqliteStore
from mere.lake.storage import LocalStorage
from mere.lake.tableset import TableSet
from mere.names import ALIAS_PREFIX, RUN_PREFIX, TableName, check_new_ref, near

if TYPE_CHECKING:
    from mere.lake.diff import Diff
    from mere.lake.query import Result
    from mere.lake.refcatalog import RefCatalog
    from mere.lake.relocate import Progress, Relocation
    from mere.lake.show import Description
    from mere.lake.sweep import Sweep

MAIN = "main"
DATABASE = "catalog.db"
WAREHOUSE = "warehouse"


class Lake:
    """A folder with a catalog and a warehouse. Every verb of the command line is a method of the same name."""

    def __init__(self, root: Path, store: Store) -> None:
        self.root = root
        self.store = store
        self.storage = LocalStorage()
        self.reader = MetadataReader(self.storage)
        self._catalogs: dict[str, RefCatalog] = {}

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, catalog: str | None = None) -> Self:
        """Make a lake in a folder. `catalog`: the URL of a Postgres database, in place of a SQLite file there."""
        root = Path(path).resolve()
        if forbidden := sorted(set("?#%") & set(str(root))):
            raise UsageError(
                f"A lake cannot be at {root}: engines read {' '.join(forbidden)} in a path as something else.",
                remedy="Choose a folder without ? # %.",
            )
        try:
            (root / WAREHOUSE).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LakeUnreadable(f"No lake could be made at {root}: {error.strerror}.") from error
        if catalog is None:
            return cls(root, SqliteStore.create(root / DATABASE, str(root), default_author()))
        from mere.lake.postgres import PostgresStore

        return cls(root, PostgresStore.create(catalog, str(root), default_author()))

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, catalog: str | None = None) -> Self:
        root = Path(path).resolve()
        store = open_store(root, catalog)
        if store.root != str(root):
            store.close()
            raise LakeMoved(
                f"This lake was made at {store.root} and is now at {root}. Iceberg keeps absolute paths, so its tables"
                " still point to the old place. Nothing was changed.",
                remedy=f"Move it back, or mend the paths with: mere relocate {root}",
            )
        return cls(root, store)

    def close(self) -> None:
        while self._catalogs:
            self._catalogs.popitem()[1].close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def warehouse(self) -> str:
        return str(self.root / WAREHOUSE)

    # refs

    def refs(self, *kinds: RefKind) -> list[Ref]:
        return [ref for ref in self.store.refs() if not kinds or ref.kind in kinds]

    def resolve(self, ref: str) -> Resolved:
        return resolve(self.store, ref)

    def branch(self, name: str, at: str = MAIN, *, author: str | None = None) -> Ref:
        """Fork a branch. No data and no metadata file is copied."""
        return self._fork(check_new_ref(name), RefKind.BRANCH, at, author)

    def tag(self, name: str, at: str = MAIN, *, author: str | None = None) -> Ref:
        return self._fork(check_new_ref(name), RefKind.TAG, at, author)

    def run_branch(self, at: str = MAIN, *, author: str | None = None) -> Ref:
        """A branch for one run. Publishing deletes it; mere gc deletes those that were left behind."""
        return self._fork(RUN_PREFIX + secrets.token_hex(6), RefKind.RUN, at, author)

    def _fork(self, name: str, kind: RefKind, at: str, author: str | None) -> Ref:
        origin = self.resolve(at)
        parent = origin.base.name if origin.base and origin.base.kind.writable else MAIN
        return self.store.create_ref(name, kind, origin.readable, author or default_author(), parent)

    def delete(self, name: str, *kinds: RefKind) -> Ref:
        """Delete a branch or tag. Its commits stay in reach by their ids until mere gc."""
        if name == MAIN:
            raise ReadOnlyRef("main cannot be deleted.")
        ref = self._ref(name)
        if kinds and ref.kind not in kinds:
            verb = "tag" if ref.kind is RefKind.TAG else "branch"
            raise RefNotFound(f"{name} is a {ref.kind}, not a {kinds[0]}.", remedy=f"mere {verb} delete {name}")
        self.store.delete_ref(name)
        return ref

    def _ref(self, name: str) -> Ref:
        ref = self.store.ref(name)
        if ref is None:
            known = [ref.name for ref in self.store.refs()]
            raise RefNotFound(f"There is no branch or tag {name!r}.{near(name, known)}")
        return ref

    def _branch(self, name: str) -> Ref:
        ref = self._ref(name)
        if not ref.kind.writable:
            raise ReadOnlyRef(f"{name} is a {ref.kind} and read-only.", remedy="Name a branch.")
        return ref

    # reading

    def at(self, ref: str = MAIN) -> TableSet:
        """All tables of a ref, at one commit."""
        return self.at_each([ref])[ref]

    def at_each(self, refs: Collection[str]) -> dict[str, TableSet]:
        """Several refs, those that are branches or tags read at one instant."""
        resolved = {text: self.resolve(text) for text in refs}
        heads = self.store.heads({found.ref.name for found in resolved.values() if found.ref})
        sets = {}
        for text, found in resolved.items():
            if found.ref:
                head = heads[found.ref.name]
                sets[text] = TableSet(text, head.commit, head.entries, self.reader)
            else:
                sets[text] = TableSet(text, found.commit, self.store.entries(found.readable), self.reader)
        return sets

    def log(self, ref: str = MAIN, table: str | None = None) -> Iterator[Commit]:
        """The commits that lead to a ref, newest first."""
        name = TableName.parse(table) if table else None
        return history.log(self.store, self.reader, self.resolve(ref).commit, name)

    def show(self, table: str, at: str = MAIN) -> Description:
        """A table or view at a ref, as its metadata tells it."""
        from mere.lake.show import describe

        return describe(self.at(at), table)

    def diff(self, old: str, new: str) -> Diff:
        """What leads from one ref to another, both read at one instant; `rows()` of it compares the rows, too."""
        from mere.lake.diff import compare

        sets = self.at_each([old, new])
        return compare(sets[old], sets[new])

    def sql(self, query: str, at: str = MAIN) -> Result:
        """The rows of a query over one commit of a ref, by DuckDB."""
        from mere.lake.query import query as run

        return run(self, query, at)

    # commits

    def publish(
        self,
        branch: str,
        into: str | None = None,
        *,
        message: str | None = None,
        author: str | None = None,
        run: str | None = None,
        reads: Collection[TableName] = (),
        dry_run: bool = False,
    ) -> Publication:
        """Put a branch's changes onto the branch it was forked from, in one transaction.

        `reads`: tables that must not have moved on the target since the fork, though the branch did not change them.
        """
        source = self._branch(branch)
        if into is None and source.parent and self.store.ref(source.parent) is None:
            raise RefNotFound(
                f"{branch} was forked from {source.parent}, which is gone.", remedy="Name the target: --into main"
            )
        target = self._branch(into or source.parent or MAIN).name
        if target == branch:
            raise ReadOnlyRef(f"{branch} cannot be published into itself.", remedy="Name another branch with --into.")
        request = Request(
            source,
            target,
            author or default_author(),
            message or f"publish {branch}",
            run,
            tuple(reads),
            dry_run,
        )
        return publish(self.store, self.reader, self._guard(branch, dry_run), request)

    def _guard(self, ref: str, dry_run: bool = False) -> Guard:
        return Guard(self.reader, ref, {ref.name for ref in self.store.refs()}, dry_run)

    def revert(
        self, commit: str, on: str = MAIN, *, message: str | None = None, author: str | None = None
    ) -> Commit | None:
        """Undo one commit by a new one; None if that was done already."""
        found = self.resolve(commit).commit
        target = self._branch(on)
        if found.seq not in {c.seq for c in self.store.ancestors(self.store.commit_by_seq(target.head))}:
            raise LakeError(f"Commit {found.short_id} is not in the history of {on}.", remedy=f"See mere log {on}.")
        text = message or f"revert {found.short_id}" + (f": {found.message}" if found.message else "")
        return history.revert(self.store, self.reader, on, found, author or default_author(), text)

    def restore(
        self, to: str, on: str = MAIN, *, message: str | None = None, author: str | None = None
    ) -> Commit | None:
        """Make a branch what the lake was at a ref, by one new commit."""
        found, target = self.resolve(to), self._branch(on).name
        text = message or f"restore {to} ({found.commit.short_id})"
        guard = self._guard(found.base.name if found.base else target)
        return history.restore(self.store, self.reader, guard, target, found.readable, author or default_author(), text)

    def drop(self, *tables: str, on: str = MAIN, message: str | None = None, author: str | None = None) -> Commit:
        """Drop tables or views from a branch, in one commit. Other refs and older commits keep them."""
        names = [TableName.parse(table) for table in tables]
        text = message or f"drop {', '.join(map(str, names))}"
        return history.drop(self.store, self.reader, self._branch(on).name, names, author or default_author(), text)

    def lease(
        self,
        tables: Collection[TableName],
        holder: str,
        on: str = MAIN,
        wait: timedelta | None = timedelta(0),
    ) -> AbstractContextManager[leases.Held]:
        return leases.hold(self.store, on, tables, holder, wait)

    # files

    def gc(
        self,
        *,
        dry_run: bool = False,
        grace: timedelta = timedelta(hours=24),
        keep: timedelta | None = None,
        keep_runs: timedelta = timedelta(days=7),
    ) -> Sweep:
        """Delete the files that nothing reaches, and the branches of dead runs. See `sweep`."""
        from mere.lake.sweep import sweep

        return sweep(self, dry_run=dry_run, grace=grace, keep=keep, keep_runs=keep_runs)

    @staticmethod
    def relocate(
        path: str | os.PathLike[str], *, catalog: str | None = None, progress: Progress | None = None
    ) -> Relocation:
        """Mend the paths in a lake whose folder was moved or copied."""
        from mere.lake.relocate import relocate

        return relocate(path, catalog=catalog, progress=progress)

    # engines

    def catalog_name(self, ref: str) -> str:
        """The name of the catalog in which engines find a ref. A commit gets a read-only alias."""
        found = self.resolve(ref)
        if found.ref:
            return found.ref.name
        name = ALIAS_PREFIX + found.commit.id
        alias = self.store.ref(name)
        if alias is None:
            with suppress(RefExists):  # another process was quicker
                self.store.create_ref(name, RefKind.ALIAS, found.readable, default_author(), None)
        elif datetime.now(UTC) - alias.created_at > timedelta(hours=1):
            self.store.touch(name)
        return name

    def spark_catalog(self, ref: str = MAIN) -> catalogs.SparkCatalog:
        return catalogs.spark_catalog(self.catalog_name(ref), self.store.jdbc, self.warehouse)

    def pyiceberg(self, ref: str = MAIN) -> RefCatalog:
        """A PyIceberg catalog of the ref; it is closed with the lake."""
        from mere.lake.refcatalog import RefCatalog

        name = self.catalog_name(ref)
        if name not in self._catalogs:
            self._catalogs[name] = RefCatalog(name, self.store.sqlalchemy_url, self.warehouse)
        return self._catalogs[name]


def open_store(root: Path, catalog: str | None) -> Store:
    if catalog is None:
        return SqliteStore.open(root / DATABASE)
    from mere.lake.postgres import PostgresStore  # and psycopg with it

    return PostgresStore.open(catalog)
