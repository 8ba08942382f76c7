"""The lake: refs over Iceberg tables, and every verb on them."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mere.config import S3Settings, default_author
from mere.errors import LakeError, ReadOnlyRef, RefExists, RefNotFound, RunNotFound
from mere.lake.iceberg.metadata import MetadataReader
from mere.lake.log.commits import Commit
from mere.lake.log.history import Log
from mere.lake.log.refs import Ref, RefKind, RefLike, listing, spelled
from mere.lake.place.folders import for_engines
from mere.lake.place.mainfile import remember
from mere.lake.place.places import WAREHOUSE, create_store, open_store_here
from mere.lake.query.tables import TableSet
from mere.lake.refs import attempts, engines, history, leases
from mere.lake.refs.guards import Guard
from mere.lake.refs.publish import Publication, Request, publish
from mere.lake.refs.resolve import Resolved, resolve
from mere.lake.storage import storage_at
from mere.lake.storage.port import Storage, local_path, place
from mere.lake.store.port import Store
from mere.lake.upkeep import cleaning
from mere.names import ALIAS_PREFIX, MAIN, RUN_PREFIX, TableName, check_new_ref, near
from mere.ranges import Age, age, at_least
from mere.sparkconfig import RestSettings

if TYPE_CHECKING:
    from mere.lake.diff.diff import Diff
    from mere.lake.log.commits import Entry, Key
    from mere.lake.log.fence import Fence
    from mere.lake.log.runs import Run
    from mere.lake.query import Result
    from mere.lake.query.show import Description
    from mere.lake.refs.attempts import Ended
    from mere.lake.refs.pyiceberg import RefCatalog
    from mere.lake.refs.rebase import Rebased
    from mere.lake.upkeep.adopt import Adoption
    from mere.lake.upkeep.deletion import Deletion
    from mere.lake.upkeep.gc import Landed, Sweep
    from mere.lake.upkeep.relocate import Progress, Relocation
    from mere.text.notebook import Listing


class Lake:
    """A catalog and a warehouse. Every command about the lake is a method of the same name."""

    def __init__(self, location: str, store: Store, storage: Storage) -> None:
        self.location = location  # a folder, or s3://bucket/prefix
        self.store = store
        self.storage = storage
        self.reader = MetadataReader(self.storage)
        self._catalogs: dict[str, RefCatalog] = {}

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, catalog: str | None = None, s3: S3Settings | None = None) -> Self:
        """Create a lake in a folder or at s3://bucket/prefix.

        `catalog`: the URL of a Postgres database, instead of a SQLite file in the folder. `s3`: how to reach S3; by
        default, the settings of the environment.
        """
        location = place(path)
        storage = storage_at(location, s3)
        return cls(location, create_store(location, storage, catalog), storage)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, catalog: str | None = None, s3: S3Settings | None = None) -> Self:
        location = place(path)
        storage = storage_at(location, s3)
        return cls(location, open_store_here(location, storage, catalog), storage)

    def close(self) -> None:
        wrote = self.store.wrote or bool(self._catalogs)
        while self._catalogs:
            self._catalogs.popitem()[1].close()
        if wrote:
            remember(self.storage, self.location, self.store)
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Lake {self.location}, catalog in {self.store.place}>"

    @property
    def root(self) -> Path:
        """The folder of a lake that is on this machine."""
        return local_path(self.location)

    @property
    def warehouse(self) -> str:
        return f"{self.location}/{WAREHOUSE}"

    def now(self) -> datetime:
        """The time by the clock of the lake's database: the clocks of machines that share a lake may differ."""
        return self.store.now()

    # refs

    def refs(self, *kinds: RefKind) -> Listing[Ref]:
        return listing(ref for ref in self.store.refs() if not kinds or ref.kind in kinds)

    def resolve(self, ref: RefLike) -> Resolved:
        return resolve(self.store, spelled(ref))

    def branch(self, name: str, at: RefLike = MAIN, *, author: str | None = None) -> Ref:
        """Fork a branch. No data and no metadata file is copied."""
        return self._fork(check_new_ref(name), RefKind.BRANCH, at, author)

    def tag(self, name: str, at: RefLike = MAIN, *, author: str | None = None) -> Ref:
        return self._fork(check_new_ref(name), RefKind.TAG, at, author)

    def run_branch(self, at: RefLike = MAIN, *, id: str | None = None, author: str | None = None) -> Ref:  # noqa: A002
        """Create the branch of a run. Publishing deletes it; mere gc deletes those that were left behind."""
        return self._fork(RUN_PREFIX + (id or secrets.token_hex(6)), RefKind.RUN, at, author)

    def _fork(self, name: str, kind: RefKind, at: RefLike, author: str | None) -> Ref:
        origin = self.resolve(at)
        parent = origin.base.name if origin.base and origin.base.kind.writable else MAIN
        return self.store.create_ref(name, kind, origin.readable, author or default_author(), parent)

    def delete(self, name: RefLike, *kinds: RefKind) -> Ref:
        """Delete a branch or tag. Its commits can be reached by their ids until mere gc."""
        ref = cleaning.named(self.store.refs(), spelled(name), kinds)
        self.store.delete_ref(ref.name)
        return ref

    def delete_matching(self, *patterns: str, kinds: Collection[RefKind], dry_run: bool = False) -> cleaning.Deleted:
        """Delete branches or tags by names and patterns such as `run_*`: all, or none if one cannot be deleted."""
        return cleaning.delete(self.store, patterns, kinds, dry_run=dry_run)

    def clean_runs(self, older_than: Age = timedelta(0), *, dry_run: bool = False) -> cleaning.Deleted:
        """Delete the branches of runs that ended without publishing. The records of the runs stay."""
        return cleaning.clean(self.store, age(older_than), dry_run=dry_run)

    def _ref(self, named: RefLike) -> Ref:
        ref = self.store.ref(name := spelled(named))
        if ref is None:
            known = [ref.name for ref in self.store.refs()]
            raise RefNotFound(f"There is no branch or tag {name!r}.{near(name, known)}")
        return ref

    def _branch(self, named: RefLike) -> Ref:
        ref = self._ref(named)
        if not ref.kind.writable:
            raise ReadOnlyRef(f"{ref.name} is a {ref.kind} and read-only.", remedy="Name a branch.")
        return ref

    # reading

    def at(self, ref: RefLike = MAIN) -> TableSet:
        """All tables of a ref, at one commit."""
        return self.at_each([text := spelled(ref)])[text]

    def at_each(self, refs: Collection[str]) -> dict[str, TableSet]:
        """Several refs; branches and tags among them are read at one instant."""
        resolved = {text: self.resolve(text) for text in refs}
        heads = self.store.heads({found.ref.name for found in resolved.values() if found.ref})
        sets = {}
        for text, found in resolved.items():
            head = heads[found.ref.name] if found.ref else None
            entries = head.entries if head else self.store.entries(found.readable)
            commit = head.commit if head else found.commit
            sets[text] = TableSet(text, commit, entries, self.reader, self.store)
        return sets

    def current(self, known: TableSet) -> TableSet:
        """What `at` gives now: the same object as long as the ref has not moved, which one row tells."""
        ref = self.store.ref(known.ref)
        return known if ref is not None and ref.head == known.commit.seq else self.at(known.ref)

    def log(self, ref: RefLike = MAIN, table: str | None = None) -> Log:
        """The commits that lead to a ref, newest first."""
        name = TableName.parse(table) if table else None
        found = self.resolve(ref)
        about = f"{found.text}, commits that changed {name}" if name else found.text
        return Log(about, lambda: history.log(self.store, self.reader, found.commit, name))

    def show(self, table: str, at: RefLike = MAIN) -> Description:
        """Describe a table or view at a ref, by its metadata."""
        from mere.lake.query.show import describe

        return describe(self.at(at), table)

    def diff(self, old: RefLike, new: RefLike) -> Diff:
        """The differences between two refs, both read at one instant. Its `rows()` compares the rows, too."""
        from mere.lake.diff.diff import compare

        old, new = spelled(old), spelled(new)
        sets = self.at_each([old, new])
        return compare(sets[old], sets[new])

    def sql(self, query: str, at: RefLike = MAIN) -> Result:
        """Run a query over one commit of a ref, with DuckDB."""
        from mere.lake.query import query as run

        return run(self, query, spelled(at))

    # commits

    def publish(
        self,
        branch: RefLike,
        into: RefLike | None = None,
        *,
        message: str | None = None,
        author: str | None = None,
        run: str | None = None,
        reads: Collection[TableName] = (),
        dry_run: bool = False,
        expect: RefLike | None = None,
        fence: Fence | None = None,
    ) -> Publication:
        """Publish a branch's changes to the branch it was forked from, in one transaction.

        `reads`: tables that must not have moved on the target since the fork, although the branch did not change them.
        `expect`: the commit at which the branch must be, so that exactly what was seen is published. `fence`: what
        keeps a run from publishing, see there.
        """
        source = self._branch(branch)
        if into is None and source.parent and self.store.ref(source.parent) is None:
            raise RefNotFound(
                f"{source.name} was forked from {source.parent}, which is gone.", remedy="Name the target: --into main"
            )
        target = self._branch(into or source.parent or MAIN).name
        if target == source.name:
            raise ReadOnlyRef(f"{target} cannot be published into itself.", remedy="Name another branch with --into.")
        request = Request(
            source,
            target,
            author or default_author(),
            message or f"publish {source.name}",
            run,
            tuple(reads),
            dry_run,
            fence,
            self.resolve(expect).commit if expect is not None else None,
        )
        return publish(self.store, self.reader, self._guard(source.name, target, dry_run), request)

    def _guard(self, ref: str, target: str, dry_run: bool = False) -> Guard:
        return Guard(self.reader, ref, {ref.name for ref in self.store.refs()}, target, dry_run)

    def revert(
        self, commit: RefLike, on: RefLike = MAIN, *, message: str | None = None, author: str | None = None
    ) -> Commit | None:
        """Undo one commit by a new one; None if it was undone already."""
        found = self.resolve(commit).commit
        target = self._branch(on)
        if found.seq not in {c.seq for c in self.store.ancestors(self.store.commit_by_seq(target.head))}:
            said = f"Commit {found.short_id} is not in the history of {target.name}."
            raise LakeError(said, remedy=f"See mere log {target.name}.")
        text = message or f"revert {found.short_id}" + (f": {found.message}" if found.message else "")
        return history.revert(self.store, self.reader, target.name, found, author or default_author(), text)

    def restore(
        self, to: RefLike, on: RefLike = MAIN, *, message: str | None = None, author: str | None = None
    ) -> Commit | None:
        """Bring a branch back to the state of a ref, by one new commit."""
        found, target = self.resolve(to), self._branch(on).name
        text = message or f"restore {found.text} ({found.commit.short_id})"
        guard = self._guard(found.base.name if found.base else target, target)
        return history.restore(self.store, self.reader, guard, target, found.readable, author or default_author(), text)

    def drop(self, *tables: str, on: RefLike = MAIN, message: str | None = None, author: str | None = None) -> Commit:
        """Drop tables or views from a branch, in one commit. Other refs and older commits keep them."""
        names = [TableName.parse(table) for table in tables]
        text = message or f"drop {', '.join(map(str, names))}"
        return history.drop(self.store, self.reader, self._branch(on).name, names, author or default_author(), text)

    def rename(
        self, table: str, to: str, on: RefLike = MAIN, *, message: str | None = None, author: str | None = None
    ) -> Commit:
        """Give a table or view another name on a branch. Other refs and older commits keep the old one."""
        old, new = TableName.parse(table), TableName.parse(to)
        text = message or f"rename {old} to {new}"
        branch = self._branch(on).name
        return history.rename(self.store, self.reader, branch, old, new, author or default_author(), text)

    def adopt(
        self,
        source: str,
        *tables: str,
        on: RefLike = MAIN,
        name: str | None = None,
        into: str | None = None,
        catalog: str | None = None,
        warehouse: str | None = None,
        metadata: Collection[str] = (),
        newest: bool = False,
        message: str | None = None,
        author: str | None = None,
        dry_run: bool = False,
    ) -> Adoption:
        """Put tables of another catalog, a folder or a metadata file onto a branch, in one commit, without copying
        data.

        `metadata`: the metadata file to use for a table whose folder has several. `newest`: use the newest if it is
        uncertain.
        """
        from mere.lake.upkeep.adopt import Request, adopt
        from mere.lake.upkeep.discover import discover
        from mere.lake.upkeep.versions import Choice

        branch = self._branch(on).name
        choice = Choice.of(metadata, newest=newest)
        found = discover(source, self.storage, catalog=catalog, warehouse=warehouse, choice=choice)
        request = Request(found, tables, branch, name, into, author or default_author(), message, dry_run)
        return adopt(self, request)

    def set_properties(
        self,
        properties: Mapping[str | TableName, Mapping[str, str | None]],
        on: RefLike = MAIN,
        *,
        message: str | None = None,
        author: str | None = None,
        expected: Mapping[Key, Entry | None] | None = None,
    ) -> Commit | None:
        """Set properties of tables and views, by table, in one commit; None removes one.

        Returns None if nothing has to change. `expected`: the entries that these tables must still have; otherwise a
        LakeConflict names those that have moved.
        """
        from mere.lake.refs.properties import set_properties

        wanted = {TableName.parse(str(table)): changes for table, changes in properties.items()}
        text = message or f"alter {', '.join(map(str, wanted))}"
        target = self._branch(on).name
        return set_properties(self.store, self.reader, target, wanted, author or default_author(), text, expected)

    def rebase(self, branch: RefLike, *, author: str | None = None) -> Rebased:
        """Move a branch onto its parent's head, with its own changes on top, in one transaction. If both changed a
        table, the parent's version is taken, and reported."""
        from mere.lake.refs.rebase import rebase

        return rebase(self.store, self.reader, self._branch(branch).name, author or default_author())

    # runs

    def run(self, id_: str) -> Run:
        found = self.store.run(id_)
        if found is None:
            known = [run.id for run in self.store.runs(100)]
            raise RunNotFound(f"There is no run {id_!r}.{near(id_, known)}", remedy="See them with: mere runs")
        return found.seen(self.store.now())

    def runs(self, limit: int = 20) -> Listing[Run]:
        """The last runs, newest first."""
        at_least(1, limit=limit)
        from mere.lake.log.run_list import listing as listed

        now = self.store.now()
        return listed(run.seen(now) for run in self.store.runs(limit))

    def end_run(self, id_: str, *, author: str | None = None) -> Ended:
        """End a run, whoever has it and wherever it works: it can publish nothing any more. What it built stays on the
        branch that is returned, and the run can be resumed."""
        self.run(id_)
        return attempts.end(self.store, id_, author or default_author())

    def lease(
        self, tables: Collection[TableName], holder: str, on: RefLike = MAIN, wait: timedelta | None = timedelta(0)
    ) -> AbstractContextManager[leases.Held]:
        return leases.hold(self.store, spelled(on), tables, holder, wait, leases.TTL)

    # files

    def gc(
        self,
        *,
        dry_run: bool = False,
        grace: Age = timedelta(hours=24),
        keep: Age | None = None,
        keep_runs: Age = timedelta(days=7),
        landed: Landed | None = None,
    ) -> Sweep:
        """Delete unreachable files, the branches of dead runs, and files of sources that were `landed` long ago."""
        from mere.lake.upkeep.gc import sweep

        kept = None if keep is None else age(keep)
        return sweep(self, dry_run=dry_run, grace=age(grace), keep=kept, keep_runs=age(keep_runs), landed=landed)

    @staticmethod
    def relocate(
        path: str | os.PathLike[str],
        *,
        catalog: str | None = None,
        s3: S3Settings | None = None,
        progress: Progress | None = None,
    ) -> Relocation:
        """Fix the paths in a lake whose files were moved or copied."""
        from mere.lake.upkeep.relocate import relocate

        return relocate(path, catalog=catalog, s3=s3, progress=progress)

    @staticmethod
    def deletion(path: str | os.PathLike[str], *, catalog: str | None = None, s3: S3Settings | None = None) -> Deletion:
        """What deleting a lake would delete; its `carry_out()` does it. This cannot be undone."""
        from mere.lake.upkeep.deletion import Deletion

        return Deletion.prepare(path, catalog=catalog, s3=s3)

    # engines

    def catalog_name(self, ref: RefLike) -> str:
        """The name of the catalog under which engines find a ref. A commit gets a read-only alias."""
        found = self.resolve(ref)
        if found.ref:
            return found.ref.name
        name = ALIAS_PREFIX + found.commit.id
        alias = self.store.ref(name)
        if alias is None:
            with suppress(RefExists):  # another process was quicker
                self.store.create_ref(name, RefKind.ALIAS, found.readable, default_author(), None)
        elif self.now() - alias.created_at > timedelta(hours=1):
            self.store.touch(name)
        return name

    def spark_catalog(self, ref: RefLike = MAIN, rest: RestSettings | None = None) -> engines.SparkCatalog:
        if self.storage.s3 is not None:
            self._try_storage(ref)
        name = self.catalog_name(ref)
        way = engines.by_rest(name, rest) if rest else engines.by_jdbc(self.store.jdbc, for_engines(self.warehouse))
        return engines.spark_catalog(name, way, self.storage.s3, signed=rest is not None and rest.signed)

    def _try_storage(self, ref: RefLike) -> None:
        """Spark would ask a server that is not there, or with keys that are wrong, for minutes."""
        for table in list(tables := self.at(ref))[:1]:
            self.storage.exists(tables.pointer(table))

    def pyiceberg(self, ref: RefLike = MAIN) -> RefCatalog:
        """A PyIceberg catalog of the ref; it is closed with the lake."""
        from mere.lake.refs.pyiceberg import RefCatalog

        name = self.catalog_name(ref)
        if name not in self._catalogs:
            self._catalogs[name] = RefCatalog(name, self.store.sqlalchemy_url, self.warehouse, self.storage.s3)
        return self._catalogs[name]
