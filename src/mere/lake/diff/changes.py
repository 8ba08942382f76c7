"""What changed in a table since one of its snapshots, as instants of its time column.

It is worked out from the files added and removed since then. Compactions are skipped, because they add and remove files
without a change. A delete file counts as the data files that it may touch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from posixpath import basename

from mere.errors import LakeError, UsageError
from mere.lake.iceberg.manifests import DATA, EQUALITY_DELETES, ByPath, Identity
from mere.lake.iceberg.metadata import Metadata, Snapshot
from mere.lake.iceberg.timeline import File, Step, Timeline
from mere.lake.iceberg.times import LIMIT, FileTimes
from mere.windows import Grain, Span, Spans


@dataclass(frozen=True)
class Changes:
    """False in a condition if nothing changed."""

    spans: Spans | None  # instants of the time column that may have changed; None: all of them may have
    why: str = ""  # `new rows`, `rows replaced`, `rows deleted`, or why everything counts
    appends_only: bool = True  # since the snapshot, which is an ancestor, rows were only added
    rows_added: int = 0
    rows_removed: int = 0
    nulls: int | None = 0  # rows without a time among those that were added; None: nobody knows
    nulls_removed: int | None = 0
    keeps_all: bool = True  # every row of the snapshot, which is an ancestor, still stands

    def __bool__(self) -> bool:
        return self.spans is None or bool(self.spans or self.rows_added or self.rows_removed)


@dataclass(frozen=True)
class Added:
    """All files that some snapshots added, compactions apart."""

    times: Spans | None  # None: nobody knows
    nulls: int | None  # rows without a time; None: nobody knows
    rows: int
    size: int


@dataclass(frozen=True)
class _Difference:
    """Data files that came and went, and those that stayed and of which delete files came or went."""

    added: tuple[File, ...] = ()
    removed: tuple[File, ...] = ()
    touched: tuple[File, ...] = ()
    deleted_rows: int = 0  # as the delete files that came count them


def changes(
    timeline: Timeline,
    since: int | None,
    grain: Grain | None = None,
    *,
    uuid: str | None = None,
    lost: Callable[[int], Metadata | None] = lambda _: None,
    limit: int = LIMIT,
) -> Changes:
    """`since`: a snapshot, or None for the empty table; `uuid`: of the table that had it, if that may be another.

    With a grain, a file that spans many windows is asked which of them it has rows in, until `limit` bytes were read.
    `lost` finds older metadata of the table that still has a snapshot: a revert takes the present one back to a time
    before it.
    """
    metadata = timeline.metadata
    if uuid is not None and uuid != metadata.uuid:
        return _everything(timeline, "it is another table of that name")
    before = metadata.snapshot(since)
    if since is not None and before is None:
        return _since_lost(timeline, since, lost(since), _narrowing(timeline, grain, limit))
    # How the empty table became what it is may be long forgotten, and does not matter: all that is in it is new.
    way = metadata.since(since) if before else None
    stepwise = _steps(timeline, way) if way is not None else None
    differences = [_comparison(timeline, timeline.live(before))] if stepwise is None else stepwise
    steps = {snapshot.operation for snapshot in way or ()}
    appends_only = before is None or (way is not None and steps <= {"append", "replace"})
    found = _changes(timeline, differences, appends_only, _narrowing(timeline, grain, limit))
    keeps_all = appends_only or (stepwise is not None and not _went(stepwise).old)
    return replace(found, keeps_all=keeps_all)


def extent(timeline: Timeline) -> Spans:
    """Where the time column has rows, as far as the files tell."""
    times = [_known(timeline, file) for file in timeline.live(timeline.metadata.current) if file.content == DATA]
    return Spans.of(span for each in times for span in each)


def timeless(timeline: Timeline) -> int | None:
    """The rows without a time, those among them that a delete file hides; None: nobody knows."""
    return _nulls([file for file in timeline.live(timeline.metadata.current) if file.content == DATA])


def weight(timeline: Timeline, spans: Spans | None = None) -> tuple[int, int]:
    """The rows and bytes of the data files that may have rows in these spans, or of all."""
    chosen = list(_within(timeline, spans))
    return sum(file.rows for file in chosen), sum(file.size for file in chosen)


def rows_with_time(timeline: Timeline, spans: Spans) -> int:
    """Of the same files, as far as they tell how many of their rows have none."""
    return sum(file.rows - (file.nulls or 0) for file in _within(timeline, spans))


def _within(timeline: Timeline, spans: Spans | None) -> Iterator[File]:
    for file in timeline.live(timeline.metadata.current):
        if file.content == DATA and (spans is None or file.times is None or file.times & spans):
            yield file


def added(timeline: Timeline, snapshots: Iterable[Snapshot]) -> Added:
    """So that whoever has written a window can tell, without reading a row, that all of it lies in the window."""
    found = [
        file
        for snapshot in snapshots
        if snapshot.operation != "replace"
        for file in timeline.step(snapshot).added
        if file.content == DATA
    ]
    rows, size = sum(file.rows for file in found), sum(file.size for file in found)
    return Added(_union(found), _nulls(found), rows, size)


@dataclass(frozen=True)
class Went:
    """Whether rows went: of those that stood at a snapshot, and of those that came after it."""

    old: bool
    new: bool


def taken_away(timeline: Timeline, way: Sequence[Snapshot]) -> Went | None:
    """By the snapshots since, the newest first. None: nobody knows."""
    differences = _steps(timeline, way)
    return None if differences is None else _went(differences)


def _went(differences: Sequence[_Difference]) -> Went:
    came: set[Identity] = set()
    old = new = False
    for each in reversed(differences):
        for file in (*each.removed, *each.touched):
            old, new = old or file.id not in came, new or file.id in came
        came |= {file.id for file in each.added}
    return Went(old, new)


# What differs


def _steps(timeline: Timeline, way: Sequence[Snapshot]) -> list[_Difference] | None:
    """None: a snapshot does not say all that it did."""
    found = []
    for snapshot in way:
        if snapshot.operation == "replace":
            continue
        step = timeline.step(snapshot)
        if not _is_whole(step, snapshot):
            return None
        found.append(_difference(timeline, step, partial(timeline.live, snapshot)))
    return found


def _is_whole(step: Step, snapshot: Snapshot) -> bool:
    counts = [
        sum((file.content == DATA) is data for file in side)
        for data in (True, False)
        for side in (step.added, step.removed)
    ]
    names = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")
    return counts == [snapshot.count(name) for name in names]


def _comparison(timeline: Timeline, old: Iterable[File]) -> _Difference:
    """Of what is live now with what was."""
    before, after = ({file.id: file for file in each} for each in (old, timeline.live(timeline.metadata.current)))
    step = Step(
        tuple(file for id_, file in after.items() if id_ not in before),
        tuple(file for id_, file in before.items() if id_ not in after),
    )
    return _difference(timeline, step, after.values)


def _difference(timeline: Timeline, step: Step, live: Callable[[], Iterable[File]]) -> _Difference:
    came, went = ([file for file in side if file.content != DATA] for side in (step.added, step.removed))
    hit = touched([*came, *went], live(), timeline.unpartitioned) if came or went else ()
    return _Difference(
        tuple(file for file in step.added if file.content == DATA),
        tuple(file for file in step.removed if file.content == DATA),
        tuple(hit),
        max(0, sum(file.rows for file in came) - sum(file.rows for file in went)),
    )


def touched(deletes: Iterable[File], live: Iterable[File], unpartitioned: Collection[int]) -> Iterator[File]:
    """The live data files of which these may delete rows. `unpartitioned`: the specs without a field."""
    data = ByPath(file for file in live if file.content == DATA)
    for delete in deletes:
        if delete.content == EQUALITY_DELETES and delete.times is not None:
            yield delete  # it says itself which times it deletes
        elif (named := data.named_by(delete)) is not None:
            yield from named
        else:
            anywhere = delete.content == EQUALITY_DELETES and delete.partition[0] in unpartitioned
            yield from (file for file in data.files if anywhere or file.partition == delete.partition)


# What it means


def in_words(added: object, removed: object) -> str:
    if removed:
        return "rows replaced" if added else "rows deleted"
    return "new rows" if added else ""


def _since_lost(timeline: Timeline, since: int, older: Metadata | None, narrow: Callable[[File], File]) -> Changes:
    """The older metadata reads its own files: what has parted may use one number for two columns or partitions."""
    column = timeline.column
    name = column.name if column else None
    if older is None or older.uuid != timeline.metadata.uuid:
        return _everything(timeline, f"snapshot {since} is gone")
    try:
        known = Timeline(timeline.table, older, name, timeline.storage)
    except UsageError:
        known = None
    if known is None or known.column != column:
        return _everything(timeline, f"{name} was not the column that it is in snapshot {since}")
    difference = _comparison(timeline, known.live(older.snapshot(since)))
    return replace(_changes(timeline, [difference], appends_only=False, narrow=narrow), keeps_all=False)


def _everything(timeline: Timeline, why: str) -> Changes:
    current = timeline.metadata.current
    return Changes(
        None,
        why,
        appends_only=False,
        keeps_all=False,
        rows_added=current.rows if current else 0,
        nulls=None,
        nulls_removed=None,
    )


def _narrowing(timeline: Timeline, grain: Grain | None, limit: int) -> Callable[[File], File]:
    if grain is None or timeline.column is None:
        return lambda file: file
    return FileTimes(timeline.column, grain, timeline.storage, limit).narrowed


def _changes(
    timeline: Timeline, differences: Sequence[_Difference], appends_only: bool, narrow: Callable[[File], File]
) -> Changes:
    came = [file for each in differences for file in each.added]
    went = [file for each in differences for file in each.removed]
    hit = [file for each in differences for file in each.touched]
    files = {file.id: file for file in (*came, *went, *hit)}
    narrowed = [narrow(file) for file in files.values()]
    blind = next((file for file in narrowed if file.times is None), None)
    why = in_words(bool(came), bool(went or hit))
    if blind and timeline.column:
        why = f"{why}, and {basename(blind.path)} has no bounds for {timeline.column.name}"
    return Changes(
        _union(narrowed),
        why,
        appends_only,
        sum(file.rows for file in came),
        sum(file.rows for file in went) + sum(each.deleted_rows for each in differences),
        _nulls(came) if timeline.column else None,
        _nulls_removed(went, hit) if timeline.column else None,
    )


def _union(files: Iterable[File]) -> Spans | None:
    spans: list[Span] = []
    for file in files:
        if file.times is None:
            return None
        spans += file.times
    return Spans.of(spans)


def _nulls(files: Sequence[File]) -> int | None:
    known = [file.nulls for file in files if file.nulls is not None]
    return sum(known) if len(known) == len(files) else None


def _nulls_removed(went: Sequence[File], hit: Sequence[File]) -> int | None:
    return _nulls(went) if all(file.nulls == 0 for file in hit) else None


def _known(timeline: Timeline, file: File) -> Spans:
    if file.times is not None:
        return file.times
    name = timeline.column.name if timeline.column else ""
    raise LakeError(
        f"{timeline.table}: {basename(file.path)} does not say which times of {name} are in it.",
        remedy=f"Keep the metrics of the column (ALTER TABLE {timeline.table} SET TBLPROPERTIES"
        f" ('write.metadata.metrics.column.{name}' = 'full')) and rewrite the table; and make sure that its times"
        " lie between the years 2 and 9998.",
    )
