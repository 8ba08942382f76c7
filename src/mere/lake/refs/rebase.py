"""Moves a branch onto the head of its parent, with its own changes on top.

The branch keeps its own change to a table unless the parent changed the same table. Its history becomes the parent's,
followed by one commit with the changes that it kept; its former commits can be reached by their ids until mere gc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mere.errors import RefNotFound, UsageError
from mere.lake import faults
from mere.lake.iceberg.metadata import MetadataReader
from mere.lake.log.commits import Change, Commit, CommitKind, Entry, Key, Space
from mere.lake.log.refs import Ref
from mere.lake.refs.describe import counted
from mere.lake.refs.publish import Conflict, conflict, merge
from mere.lake.refs.retry import retried_while_moving, standing
from mere.lake.store.port import Edit, Store


@dataclass(frozen=True)
class Rebased:
    branch: str
    parent: str
    before: Commit  # at which the branch stood; it stays in reach by its id until mere gc
    base: Commit  # of the parent, on which the branch stands now
    kept: tuple[Change, ...]  # what the branch has changed, as seen from there
    dropped: tuple[Conflict, ...] = ()  # what both had changed: the parent's version stands
    commit: Commit | None = None  # with what was kept; None: nothing was, or the branch stood there already


def rebase(store: Store, reader: MetadataReader, branch: str, author: str) -> Rebased:
    return retried_while_moving(
        lambda: _rebase(store, reader, branch, author),
        f"{branch} or its parent is being written to faster than it can be rebased. {branch} was left as it was.",
        "Try again when the writers have finished.",
    )


def _rebase(store: Store, reader: MetadataReader, branch: str, author: str) -> Rebased:
    ref = standing(store, branch, f"There is no branch {branch!r}.")
    parent = _parent(store, ref)
    parting = store.divergence(ref, parent)
    todo, clashes = merge(parting)
    clashes |= _torn(parting.source, clashes) & {change.key for change in todo}
    clashes |= _halves(clashes) & {change.key for change in todo}
    kept = tuple(counted(change, reader) for change in todo if change.key not in clashes)
    dropped = tuple(conflict(key, parting, reader) for key in sorted(clashes))
    before, base = store.commit_by_seq(ref.head), store.commit_by_seq(parent.head)
    faults.point("rebase.prepared")
    if not parting.target:
        return Rebased(branch, parent.name, before, base, kept)
    message = f"rebase onto {parent.name} ({base.short_id})"
    commit = store.rebase(ref, parent, Edit(branch, CommitKind.REBASE, kept, author, message))
    return Rebased(branch, parent.name, before, base, kept, dropped, commit)


def _parent(store: Store, branch: Ref) -> Ref:
    if branch.parent is None:
        raise UsageError(f"{branch.name} was not forked from a branch, so there is nothing to rebase it onto.")
    parent = store.ref(branch.parent)
    if parent is None:
        raise RefNotFound(
            f"{branch.name} was forked from {branch.parent}, which is gone. {branch.name} was left as it was.",
            remedy=f"Publish it into another branch: mere publish {branch.name} --into main",
        )
    return parent


def _torn(commits: Sequence[Commit], clashes: set[Key]) -> set[Key]:
    """The other names of what was renamed, if one of them clashes: half of a rename would be a copy."""
    names: dict[Key, set[Key]] = {}
    for commit in commits:
        gone, made = (_by_entry(commit, made) for made in (False, True))
        for entry in gone.keys() & made.keys():
            group = set().union(*(names.get(key, {key}) for key in gone[entry] | made[entry]))
            names |= dict.fromkeys(group, group)
    return {key for clash in clashes for key in names.get(clash, ())}


def _halves(clashes: set[Key]) -> set[Key]:
    """The tables that belong together: one without the others, of another build, would lose or double rows."""
    tables = [key.table for key in clashes if key.space is Space.RELATION]
    owners = {table.owner or table for table in tables}
    return {Key.of(each) for owner in owners for each in (owner, *owner.companions)}


def _by_entry(commit: Commit, made: bool) -> dict[Entry, set[Key]]:
    """The names that came with a commit, or that went, by what they stood for."""
    found: dict[Entry, set[Key]] = {}
    for change in commit.changes:
        entry, other = (change.new, change.old) if made else (change.old, change.new)
        if entry is not None and other is None:
            found.setdefault(entry, set()).add(change.key)
    return found
