"""Undoes what an interrupted build left on a run's branch: the table goes back to where it agreed with its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mere.config import default_author
from mere.lake.iceberg.metadata import Metadata
from mere.lake.lake import Lake
from mere.lake.log.commits import Change, Commit, CommitKind, Entry, Key, Space
from mere.lake.refs.history import commit_found
from mere.names import TableName
from mere.pipeline.state.state import PROPERTY, State


def take_back(lake: Lake, branch: str, parent: str) -> None:
    """Every table of the branch that was changed there stands afterwards as its state says, or as it was forked."""

    def sound(_: Key, entries: Sequence[Entry | None]) -> Entry | None:
        return next((each for each in reversed(entries) if _is_sound(lake, each)), entries[0])

    _put_back(lake, branch, parent, sound, "take back unfinished")


def start_over(lake: Lake, branch: str, parent: str, table: TableName) -> Commit | None:
    """The table stands afterwards as it was forked, with its companions, whatever the branch has made of it."""

    def forked(key: Key, entries: Sequence[Entry | None]) -> Entry | None:
        return entries[0] if key.table in (table, *table.companions) else entries[-1]

    return _put_back(lake, branch, parent, forked, f"start over with {table}")


def _put_back(
    lake: Lake, branch: str, parent: str, to: Callable[[Key, Sequence[Entry | None]], Entry | None], message: str
) -> Commit | None:
    """`to`: of what a table of the branch has been, beginning with how it was forked, what it is to be."""

    def changes() -> list[Change]:
        head = lake.store.heads([branch])[branch]
        parting = lake.store.divergence(head.ref, lake.store.heads([parent])[parent].ref)
        history: dict[Key, list[Entry | None]] = {}
        for commit in parting.source:
            for change in commit.changes:
                if change.key.space is Space.RELATION:
                    history.setdefault(change.key, [change.old]).append(change.new)
        found = [Change(key, head.entries.get(key), to(key, entries)) for key, entries in history.items()]
        return [change for change in found if change.old != change.new]

    return commit_found(lake.store, lake.reader, branch, CommitKind.REVERT, changes, default_author(), message)


def _is_sound(lake: Lake, entry: Entry | None) -> bool:
    if entry is None:
        return False
    metadata = lake.reader.read(entry.value)
    text = metadata.properties.get(PROPERTY)
    state = State.from_json(text) if text else None
    return state is not None and is_untouched(metadata, state) and state.form in (None, form_of(metadata))


def form_of(metadata: Metadata) -> tuple[int, ...]:
    """What a build may alter before it writes a row."""
    if metadata.is_view:
        return ()
    return metadata.schema_id, metadata.spec_id, metadata.order_id


def is_untouched(metadata: Metadata, state: State) -> bool:
    """Whether the table or view is, compactions apart, what its state says."""
    if metadata.is_view:
        return metadata.current_id == state.snapshot
    since = metadata.since(state.snapshot)
    return since is not None and all(snapshot.operation == "replace" for snapshot in since)
