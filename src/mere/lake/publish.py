"""Publishing: what a branch changed since it left its target, put onto the target in one transaction."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from mere.errors import LakeConflict, LakeError, RefNotFound
from mere.lake import faults
from mere.lake.commits import Change, Commit, CommitKind, Entry, Key, Space, fold
from mere.lake.guards import guarded
from mere.lake.metadata import Metadata, MetadataReader, growth
from mere.lake.port import After, Divergence, Edit, Moved, Store
from mere.lake.refs import Ref, RefKind
from mere.names import TableName

_ATTEMPTS = 20


@dataclass(frozen=True)
class Conflict:
    """A key that both sides changed, or that the branch relied on and the target changed."""

    key: Key
    ours: Commit | None  # the branch's last commit to it; None if it only read it
    theirs: Commit | None  # the target's last commit to it


@dataclass(frozen=True)
class Publication:
    """What a publish did, or would do."""

    source: str
    target: str
    base: Commit
    changes: tuple[Change, ...]
    conflicts: tuple[Conflict, ...] = ()
    commit: Commit | None = None  # None: nothing to publish, or a dry run


@dataclass(frozen=True)
class Request:
    source: Ref
    target: str
    author: str
    message: str
    run: str | None = None
    reads: Collection[TableName] = ()
    dry_run: bool = False


def publish(store: Store, reader: MetadataReader, request: Request) -> Publication:
    """Bounded: both branches may move while the tables are being looked at, and then they are looked at again."""
    for _ in range(_ATTEMPTS):
        source = store.ref(request.source.name) or request.source
        request = replace(request, source=source)
        target = store.ref(request.target)
        if target is None:
            raise RefNotFound(f"{request.target} was deleted meanwhile. Nothing was published.")
        parting = store.divergence(store.commit_by_seq(source.head), store.commit_by_seq(target.head))
        prepared = _prepare(request, parting, reader)
        faults.point("publish.prepared")
        if request.dry_run:
            return prepared
        if prepared.conflicts:
            raise _refusal(prepared)
        if not prepared.changes:
            if source.kind is RefKind.RUN:
                store.delete_ref(source.name)
            return prepared
        try:
            commit = store.commit(_edit(store, request, parting, prepared.changes))
        except Moved:
            continue
        return replace(prepared, changes=commit.changes, commit=commit)
    raise LakeError(
        f"{request.source.name} or {request.target} is being written to faster than it can be published."
        f" {request.target} was left as it was.",
        remedy="Try again when the writers have finished.",
    )


def _prepare(request: Request, parting: Divergence, reader: MetadataReader) -> Publication:
    ours = fold(change for commit in parting.source for change in commit.changes)
    known: dict[Key, set[Entry | None]] = {key: {change.old} for key, change in ours.items()}
    for commit in parting.source:
        for change in commit.changes:
            known.setdefault(change.key, set()).add(change.new)
    theirs = fold(change for commit in parting.target for change in commit.changes)
    todo, clashes = [], [key for key in theirs if key in {Key.of(table) for table in request.reads}]
    for key, change in ours.items():
        standing = theirs[key].new if key in theirs else change.old
        # The target may have moved to something that the branch itself has been: then the branch builds on it.
        if standing not in known[key]:
            clashes.append(key)
        elif standing != change.new:
            todo.append(replace(change, old=standing))
    changes = tuple(_counted(change, _guard(change, request, reader), reader) for change in todo)
    conflicts = tuple(_conflict(key, parting) for key in sorted(set(clashes)))
    return Publication(request.source.name, request.target, parting.base, changes, conflicts)


def _guard(change: Change, request: Request, reader: MetadataReader) -> Metadata | None:
    """The metadata to publish; written now if it has to differ from what the engine wrote."""
    if change.new is None or change.key.space is not Space.RELATION:
        return None
    better = guarded(change.key, change.new, request.source.name, reader)
    if better is not None and not request.dry_run:
        reader.write(better)
    return better or reader.read(change.new.value)


def _counted(change: Change, published: Metadata | None, reader: MetadataReader) -> Change:
    if change.key.space is not Space.RELATION:
        return change
    new = Entry(change.new.kind, published.location) if change.new and published else None
    old = reader.read(change.old.value) if change.old else None
    return Change(change.key, change.old, new, growth(old, published))


def _edit(store: Store, request: Request, parting: Divergence, changes: tuple[Change, ...]) -> Edit:
    after = {RefKind.RUN: After.DELETE, RefKind.BRANCH: After.FOLLOW}[request.source.kind]
    base = store.entries(parting.base) if request.reads else {}
    return Edit(
        target=request.target,
        kind=CommitKind.PUBLISH,
        changes=changes,
        author=request.author,
        message=request.message,
        run=request.run,
        source=request.source,
        after=after,
        reads={Key.of(table): base.get(Key.of(table)) for table in request.reads},
    )


def _conflict(key: Key, parting: Divergence) -> Conflict:
    def last(commits: tuple[Commit, ...]) -> Commit | None:
        return next((c for c in reversed(commits) if any(change.key == key for change in c.changes)), None)

    return Conflict(key, last(parting.source), last(parting.target))


def _refusal(publication: Publication) -> LakeConflict:
    source, target = publication.source, publication.target
    lines = [_conflict_line(conflict, source, target) for conflict in publication.conflicts]
    return LakeConflict(
        f"{source} cannot be published into {target}: these moved on {target} meanwhile. {target} was left as it was.\n"
        + "\n".join(lines),
        remedy=f"Start again from {target} (mere branch create NEW --from {target}), repeat the work there and publish"
        f" that. {source} keeps its state until you delete it.",
        conflicts=publication.conflicts,
    )


def _conflict_line(conflict: Conflict, source: str, target: str) -> str:
    def side(commit: Commit | None, ref: str) -> str:
        if commit is None:
            return f"read on {ref}"
        return f"on {ref} by {commit.author or 'an engine'} (commit {commit.short_id}, {commit.at:%Y-%m-%d %H:%M:%SZ})"

    return f"  {conflict.key}: {side(conflict.ours, source)}; {side(conflict.theirs, target)}"
