"""What an interrupted build left on a run's branch is taken back to where the table last agreed with its state."""

from __future__ import annotations

from mere.config import default_author
from mere.lake.commits import Change, CommitKind, Entry, Key, Space
from mere.lake.history import commit_found
from mere.lake.lake import Lake
from mere.lake.metadata import Metadata
from mere.pipeline.state import PROPERTY, State


def take_back(lake: Lake, branch: str, parent: str) -> None:
    """Every table of the branch that was changed there stands afterwards as its state says, or as it was forked."""

    def changes() -> list[Change]:
        head = lake.store.heads([branch])[branch]
        parting = lake.store.divergence(head.ref, lake.store.heads([parent])[parent].ref)
        history: dict[Key, list[Entry | None]] = {}
        for commit in parting.source:
            for change in commit.changes:
                if change.key.space is Space.RELATION:
                    history.setdefault(change.key, [change.old]).append(change.new)
        found = []
        for key, entries in history.items():
            standing = head.entries.get(key)
            sound = next((each for each in reversed(entries) if _is_sound(lake, each)), entries[0])
            if sound != standing:
                found.append(Change(key, standing, sound))
        return found

    commit_found(lake.store, lake.reader, branch, CommitKind.REVERT, changes, default_author(), "take back unfinished")


def _is_sound(lake: Lake, entry: Entry | None) -> bool:
    if entry is None:
        return False
    metadata = lake.reader.read(entry.value)
    text = metadata.properties.get(PROPERTY)
    state = State.from_json(text) if text else None
    return state is not None and is_untouched(metadata, state)


def is_untouched(metadata: Metadata, state: State) -> bool:
    """Whether the table or view is, compactions apart, what its state says."""
    if metadata.is_view:
        return metadata.current_id == state.snapshot
    since = metadata.since(state.snapshot)
    return since is not None and all(snapshot.operation == "replace" for snapshot in since)
