"""When a history looks at its input: at each snapshot, with the time at which that was committed.

Only what a reader can have found counts. Several snapshots of one run are published as one, and several snapshots of
one commit never stood by themselves; compactions show nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mere.lake.iceberg.metadata import Metadata, Snapshot
from mere.lake.iceberg.properties import RUN
from mere.pipeline.state.state import Point

_TICK = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Observation:
    """A look at what the model's query gives."""

    at: datetime
    snapshot: int | None = None  # of the one input that is walked; None: the inputs are read as they stand
    before: int | None = None  # the snapshot observed before it: only what differs matters; None: all of it


def walk(metadata: Metadata, since: Point | None, last: datetime | None) -> tuple[Observation, ...]:
    """The observations of one table after a point, oldest first. `last`: when the last one was.

    After snapshots that are gone it goes on with those that are left. A table that was taken back to a snapshot of
    before is looked at as it stands now.
    """
    found = observable(metadata)
    same = since is not None and since.id == metadata.uuid
    if since is None or (same and since.snapshot is None):
        return _timed(found, None, last)
    if not found:
        return (Observation(_later(_time(metadata.updated_ms), last)),)
    if same and (way := metadata.since(since.snapshot)) is not None:
        new = {snapshot.id for snapshot in way}
        return _timed([each for each in found if each.id in new], since.snapshot, last)
    if same and metadata.snapshot(since.snapshot):
        return _timed(found[-1:], None, last)
    return _timed([each for each in found if last is None or _time(each.at_ms) > last] or found[-1:], None, last)


def glance(tables: Iterable[Metadata], last: datetime | None) -> Observation:
    """One look at several tables as they stand, at the time of the newest snapshot."""
    times = [each.current.at_ms for each in tables if each.current]
    return Observation(_later(_time(max(times, default=0)), last))


def observable(metadata: Metadata) -> list[Snapshot]:
    """The snapshots on the way to the current one at which a reader can have found the table, oldest first."""
    found = [each for each in _committed(metadata) if each.operation != "replace"]
    runs = [each.summary.get(RUN) for each in found]
    return [each for each, run, next_ in zip(found, runs, [*runs[1:], None], strict=False) if not run or run != next_]


def _committed(metadata: Metadata) -> list[Snapshot]:
    """Without those that one commit added below another one.

    A writer that does so, PyIceberg, gives the metadata file the time of the last of them, and its successors remember
    that time: of the others, none remembers anything. Where that cannot be told a snapshot counts as committed.
    """
    remembered = [entry["timestamp-ms"] for entry in metadata.log]
    files = [*remembered, metadata.updated_ms]
    found: list[Snapshot] = []
    for snapshot in metadata.since(None) or ():
        if not found or not _came_with(found[0].at_ms, snapshot.at_ms, files):
            found.insert(0, snapshot)
    return found


def _came_with(next_: int, time: int, files: Sequence[int]) -> bool:
    """Whether no metadata file was written between a snapshot and the next one, by the times of all of them."""
    known = min(files) <= time <= next_ and next_ in files
    between = any(time <= each < next_ for each in files)
    return known and not between and not (time == next_ and files.count(next_) > 1)


def _timed(snapshots: Iterable[Snapshot], before: int | None, last: datetime | None) -> tuple[Observation, ...]:
    made: list[Observation] = []
    for snapshot in snapshots:
        last = _later(_time(snapshot.at_ms), last)
        made.append(Observation(last, snapshot.id, before))
        before = snapshot.id
    return tuple(made)


def _later(at: datetime, last: datetime | None) -> datetime:
    """Clocks of two writers differ, and a millisecond is long: an observation is always after the one before it."""
    return at if last is None else max(at, last + _TICK)


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
