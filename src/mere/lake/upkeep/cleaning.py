"""Deletes branches and tags by name or pattern, and the branches that dead runs left."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from mere.errors import LeaseHeld, ReadOnlyRef, RefNotFound
from mere.lake import faults
from mere.lake.log.refs import Ref, RefKind
from mere.lake.store.port import Moved, Store
from mere.lake.upkeep.leavings import dead_runs, last_moved
from mere.names import MAIN, near, run_of


@dataclass(frozen=True)
class Deleted:
    """What was deleted, or would be, and the branches of runs that are going on, which a pattern passes over."""

    refs: tuple[Ref, ...]
    spared: tuple[Ref, ...] = ()
    dry_run: bool = False

    def to_dict(self) -> dict[str, Any]:
        names = {"deleted": [ref.name for ref in self.refs], "going_on": [ref.name for ref in self.spared]}
        return {"dry_run": self.dry_run, **names}


def delete(store: Store, patterns: Collection[str], kinds: Collection[RefKind], *, dry_run: bool = False) -> Deleted:
    """Delete the refs of these kinds that have one of the names or match one of the patterns: all of them, or none if
    one cannot be deleted."""
    refs = store.refs()
    live = _live(store, refs)
    found: dict[str, Ref] = {}
    for pattern in patterns:
        if not _is_pattern(pattern):
            ref = named(refs, pattern, kinds)
            if ref in live:
                raise LeaseHeld(
                    f"Run {run_of(ref.name)} is still writing to {ref.name}. Nothing was deleted.",
                    remedy=f"Wait until it has ended, or end it: mere runs end {run_of(ref.name)}",
                )
            found[ref.name] = ref
            continue
        matching = [ref for ref in refs if ref.kind in kinds and ref.name != MAIN and fnmatchcase(ref.name, pattern)]
        if not matching:
            raise RefNotFound(f"{_none(kinds, pattern)} Nothing was deleted.", remedy=_see(kinds))
        found.update((ref.name, ref) for ref in matching)
    spared = tuple(ref for ref in found.values() if ref in live)
    chosen = tuple(ref for ref in found.values() if ref not in live)
    if not dry_run:
        for ref in chosen:
            with suppress(RefNotFound):  # somebody else was quicker
                store.delete_ref(ref.name)
    return Deleted(chosen, spared, dry_run)


def named(refs: Collection[Ref], name: str, kinds: Collection[RefKind]) -> Ref:
    """The ref that may be deleted by this name."""
    if name == MAIN:
        raise ReadOnlyRef("main cannot be deleted. Nothing was deleted.")
    ref = next((each for each in refs if each.name == name), None)
    if ref is None:
        known = [each.name for each in refs]
        raise RefNotFound(f"There is no branch or tag {name!r}.{near(name, known)} Nothing was deleted.")
    if kinds and ref.kind not in kinds:
        noun = "tag" if ref.kind is RefKind.TAG else "branch"
        raise RefNotFound(
            f"{name} is a {ref.kind}, not a {_noun(kinds)}. Nothing was deleted.", remedy=f"mere {noun} delete {name}"
        )
    return ref


def clean(store: Store, older_than: timedelta, *, dry_run: bool = False) -> Deleted:
    """Delete the branches of runs that ended without publishing and have not moved for so long. Their records stay."""
    now, refs = store.now(), store.refs()
    found = [
        ref
        for ref in dead_runs(store, refs, store.leases())
        if last_moved(ref, store.commit_by_seq(ref.head)) <= now - older_than
    ]
    return Deleted(tuple(found if dry_run else _still_dead(store, found)), tuple(_live(store, refs)), dry_run)


def _still_dead(store: Store, refs: Collection[Ref]) -> Iterator[Ref]:
    """Delete each; but not the branch of a run that has moved since it was taken for dead."""
    for ref in refs:
        faults.point("clean.found")
        with suppress(Moved, RefNotFound):
            store.delete_ref(ref.name, expected=ref)
            yield ref


def _live(store: Store, refs: Collection[Ref]) -> list[Ref]:
    runs = [ref for ref in refs if ref.kind is RefKind.RUN]
    dead = dead_runs(store, runs, store.leases())
    return [ref for ref in runs if ref not in dead]


def _is_pattern(text: str) -> bool:
    return any(sign in text for sign in "*?[")


def _none(kinds: Collection[RefKind], pattern: str) -> str:
    if RefKind.BRANCH in kinds and fnmatchcase(MAIN, pattern):
        return f"Only main matches {pattern!r}, and a pattern passes over it."
    return f"No {_noun(kinds)} matches {pattern!r}."


def _noun(kinds: Collection[RefKind]) -> str:
    return "tag" if RefKind.TAG in kinds else "branch"


def _see(kinds: Collection[RefKind]) -> str:
    return f"See what there is: mere {_noun(kinds)}"
