"""Publishes what a branch changed since it was forked, to its target, in one transaction."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from mere.errors import LakeConflict, Unguarded
from mere.lake import faults
from mere.lake.iceberg.metadata import MetadataReader
from mere.lake.log.commits import Change, Commit, CommitKind, Entry, Key, Space, change_lines, fold
from mere.lake.log.fence import Fence
from mere.lake.log.refs import Ref, RefKind
from mere.lake.refs.describe import counted, described
from mere.lake.refs.guards import Guard
from mere.lake.refs.retry import retried_while_moving, standing
from mere.lake.store.port import After, Divergence, Edit, Store
from mere.names import TableName, run_of
from mere.text import notebook


@dataclass(frozen=True)
class Conflict:
    """A key that both sides changed, or that the branch relied on and the target changed."""

    key: Key
    ours: Commit | None  # the branch's last commit to it; None if it only read it
    theirs: Commit | None  # the target's last commit to it

    def to_dict(self) -> dict[str, Any]:
        return {
            "key": str(self.key),
            "ours": self.ours.to_dict() if self.ours else None,
            "theirs": self.theirs.to_dict() if self.theirs else None,
        }


@dataclass(frozen=True)
class Publication:
    """What a publish did, or would do."""

    source: str
    target: str
    base: Commit
    head: Commit  # of the source: what `expect` of a publish takes, for exactly this to be published
    changes: tuple[Change, ...]
    conflicts: tuple[Conflict, ...] = ()
    commit: Commit | None = None  # None: nothing to publish, or a dry run

    def to_dict(self) -> dict[str, Any]:
        """What `mere publish --json` prints."""
        return {
            "source": self.source,
            "target": self.target,
            "base": self.base.id,
            "head": self.head.id,
            "commit": self.commit.id if self.commit else None,
            "changes": [each.to_dict() for each in self.changes],
            "conflicts": [each.to_dict() for each in self.conflicts],
        }

    def _repr_html_(self) -> str:
        done = f"published: commit {self.commit.short_id}" if self.commit else "nothing was published"
        conflicts = (
            f"conflict: {each.key} was changed on {self.target}"
            + (f" by {each.theirs.by} (commit {each.theirs.short_id})" if each.theirs else "")
            for each in self.conflicts
        )
        lines = notebook.lines([*change_lines(self.changes), *conflicts])
        return notebook.shown(f"{self.source} into {self.target}, {done}", lines)


@dataclass(frozen=True)
class Request:
    source: Ref
    target: str
    author: str
    message: str
    run: str | None = None
    reads: Collection[TableName] = ()
    dry_run: bool = False
    fence: Fence | None = None
    expect: Commit | None = None  # where the source must be

    @property
    def after(self) -> After:
        """A branch follows only the branch that it belongs to: elsewhere it would take on what that one holds."""
        if self.source.kind is RefKind.RUN:
            return After.DELETE
        return After.FOLLOW if self.source.parent == self.target else After.STAY


def publish(store: Store, reader: MetadataReader, guard: Guard, request: Request) -> Publication:
    """Both branches may move while the tables are being looked at, and then they are looked at again."""
    return retried_while_moving(
        lambda: _publish(store, reader, guard, request),
        f"{request.source.name} or {request.target} is being written to faster than it can be published."
        f" {request.target} was left as it was.",
        "Try again when the writers have finished.",
    )


def _publish(store: Store, reader: MetadataReader, guard: Guard, request: Request) -> Publication:
    source, target = (
        standing(store, name, f"{name} was deleted meanwhile. Nothing was published.")
        for name in (request.source.name, request.target)
    )
    request = replace(request, source=source)
    if request.expect is not None and source.head != request.expect.seq:
        found = store.commit_by_seq(source.head)
        raise LakeConflict(
            f"{source.name} is at commit {found.short_id}, not at {request.expect.short_id}. Nothing was published.",
            remedy=f"See what it would publish now: mere publish {source.name} --dry-run",
        )
    parting = store.divergence(source, target)
    prepared = _prepare(request, parting, reader, guard)
    faults.point("publish.prepared")
    if request.dry_run:
        return prepared
    if prepared.conflicts:
        raise _refusal(request, prepared)
    if prepared.changes:
        commit = store.commit(_edit(store, request, parting, prepared.changes))
        return replace(prepared, changes=commit.changes, commit=commit)
    if request.after is After.DELETE:
        store.delete_ref(source.name, expected=source, fence=request.fence)
    return prepared


def _prepare(request: Request, parting: Divergence, reader: MetadataReader, guard: Guard) -> Publication:
    todo, clashes = merge(parting, {Key.of(table) for table in request.reads})
    _refuse_unnameable(request.source.name, todo)
    if request.fence:
        found = {change.key: change.new for change in todo if change.key.space is Space.RELATION}
        if strangers := request.fence.strangers(found):
            raise request.fence.unsigned(strangers)
    todo = [Change(change.key, change.old, guard(change)) for change in todo]
    conflicts = tuple(conflict(key, parting, reader) for key in sorted(clashes))
    changes = tuple(counted(change, reader) for change in todo)
    head = parting.source[-1] if parting.source else parting.base
    return Publication(request.source.name, request.target, parting.base, head, changes, conflicts)


def _refuse_unnameable(branch: str, changes: Collection[Change]) -> None:
    """An engine can make what nothing else can name. It stays where it was made, and can be dropped there."""
    for table in (change.key.table for change in changes if change.key.space is Space.RELATION and change.new):
        if not table.is_plain:
            typed = shlex.quote(str(table))
            raise Unguarded(
                f"{table} on {branch} has a name that no query, model or engine can spell. Nothing was published.",
                remedy=f"Give it another name with mere rename, or drop it: mere drop {typed} --on {branch}",
            )


def merge(parting: Divergence, reads: Collection[Key] = ()) -> tuple[list[Change], set[Key]]:
    """The branch's changes as they can be made to the target as it stands, and the keys in which they clash."""
    ours = fold(change for commit in parting.source for change in commit.changes)
    theirs = fold(change for commit in parting.target for change in commit.changes)
    seen = _seen(parting)
    undone = _undone(parting, seen)
    todo, clashes = [], {key for key in theirs if key in reads}
    for key, change in ours.items():
        standing = theirs[key].new if key in theirs else change.old
        if key.space is Space.PROPERTY and change.old is None and standing is not None:
            continue  # both sides made this namespace: the target's properties stay
        # The target may have moved to something that the branch itself has been: then the branch builds on it.
        if standing not in seen[key] or key in undone:
            clashes.add(key)
        elif standing != change.new:
            todo.append(Change(key, standing, change.new))
    return todo, clashes


def _seen(parting: Divergence) -> dict[Key, dict[Entry | None, int]]:
    """Where the branch has been, key by key, since the two parted: each entry with the number of its last visit."""
    seen: dict[Key, dict[Entry | None, int]] = {}
    for number, commit in enumerate(parting.source, start=1):
        for change in commit.changes:
            seen.setdefault(change.key, {change.old: 0})[change.new] = number
    return seen


def _undone(parting: Divergence, seen: dict[Key, dict[Entry | None, int]]) -> set[Key]:
    """What the target took back of what the branch stands on. To publish it again would overrule a revert."""
    reached: dict[Key, int] = {}
    undone = set()
    for commit in parting.target:
        for change in commit.changes:
            number = seen.get(change.key, {}).get(change.new)
            if number is None:
                continue
            if number < reached.get(change.key, 0):
                undone.add(change.key)
            reached[change.key] = number
    return undone


def _edit(store: Store, request: Request, parting: Divergence, changes: tuple[Change, ...]) -> Edit:
    base = store.entries(parting.base) if request.reads else {}
    return Edit(
        target=request.target,
        kind=CommitKind.PUBLISH,
        changes=changes,
        author=request.author,
        message=request.message,
        run=request.run,
        source=request.source,
        after=request.after,
        meets=_meets(parting, changes),
        reads={Key.of(table): base.get(Key.of(table)) for table in request.reads},
        fence=request.fence,
    )


def _meets(parting: Divergence, changes: tuple[Change, ...]) -> int | None:
    """Where the target has not moved, the branch is ahead of it by nothing but what is published; unless a guard has
    put something else in the place of what was made there."""
    made = {change.key: change.new for commit in parting.source for change in commit.changes}
    same = not parting.target and all(made[change.key] == change.new for change in changes)
    return parting.base.seq if same else None


def conflict(key: Key, parting: Divergence, reader: MetadataReader) -> Conflict:
    def last(commits: tuple[Commit, ...]) -> Commit | None:
        found = next((c for c in reversed(commits) if any(change.key == key for change in c.changes)), None)
        return described(found, reader) if found else None

    return Conflict(key, last(parting.source), last(parting.target))


def _refusal(request: Request, publication: Publication) -> LakeConflict:
    source, target = publication.source, publication.target
    lines = [_conflict_line(conflict, source, target) for conflict in publication.conflicts]
    return LakeConflict(
        f"{source} cannot be published into {target}: these moved on {target} meanwhile. {target} was left as it was.\n"
        + "\n".join(lines),
        remedy=_way_out(request),
        conflicts=publication.conflicts,
    )


def _way_out(request: Request) -> str:
    source, target = request.source.name, request.target
    if request.source.kind is RefKind.RUN:
        return f"Run it again on top of that: mere run --resume {run_of(source)}"
    if request.source.parent != target:  # an update would bring in the changes of another branch
        return (
            f"Fork {target}, repeat the work there and publish that: mere branch create {source}-again --from {target}"
        )
    return (
        f"Bring {target}'s changes into the branch, then publish it again:\n"
        f"  mere branch update {source}\n"
        f"  mere publish {source}\n"
        f"Tables that both changed are taken from {target}. In a project, the update builds the branch's models again"
        " on top of them; changes that were made by hand have to be repeated before you publish."
    )


def _conflict_line(conflict: Conflict, source: str, target: str) -> str:
    def side(commit: Commit | None, ref: str) -> str:
        if commit is None:
            return f"read on {ref}"
        return f"on {ref} by {commit.by} (commit {commit.short_id}, {commit.at:%Y-%m-%d %H:%M:%SZ})"

    return f"  {conflict.key}: {side(conflict.ours, source)}; {side(conflict.theirs, target)}"
