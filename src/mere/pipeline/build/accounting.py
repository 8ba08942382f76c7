"""Counts the rows of a build: the four numbers that a run reports for every model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mere.lake.iceberg.metadata import Snapshot
from mere.lake.query.tables import TableSet
from mere.names import TableName
from mere.pipeline.plan.facts import LakeFacts
from mere.pipeline.plan.steps import Action, Step
from mere.pipeline.state.state import Points
from mere.pipeline.write.timeless import Timeless
from mere.project.model import Model
from mere.windows import Spans


@dataclass(frozen=True)
class Accounting:
    """docs/run.md says what each number means for each kind of model."""

    read: int = 0
    written: int = 0
    quarantined: int = 0
    dropped: int = 0  # by the time rule

    def to_json(self) -> dict[str, int]:
        return {
            "rows_read": self.read,
            "rows_written": self.written,
            "rows_quarantined": self.quarantined,
            "rows_dropped": self.dropped,
        }


NONE = Accounting()


def rows_read(step: Step, since: Points, to: Points, facts: LakeFacts) -> int:
    """As metadata counts them, so that nothing is read to know it: of the files that a step looks into, or, if it takes
    only what came and went in its inputs since they were last read, what their snapshots added and removed."""
    if step.action in (Action.ROWS, Action.KEYS):
        return sum(_moved(name, since, to, facts.tables) for name in to)
    return step.load.rows


def rows_in_windows(model: Model, spans: Spans, timeless: Timeless, facts: LakeFacts) -> int:
    """Rows without a time lie in no window, but count when they are due."""
    assert model.time
    times = model.time.read_for(spans)
    read = sum(
        facts.rows_with_time(each.table, each.time, times) if each.time else facts.load(each.table, None, None).rows
        for each in model.inputs
    )
    return read + sum(count for table, count in timeless.rows.items() if not facts.tables.is_view(table))


def _moved(name: str, since: Points, to: Points, tables: TableSet) -> int:
    table = TableName.parse(name)
    if tables.is_view(table):
        return 0
    metadata, old = tables.metadata(table), since.get(name)
    way = metadata.since(old.snapshot if old and old.id == to[name].id else None)
    if way is None:  # nobody can say what became of it since: all of it is read
        return metadata.rows
    return sum(sum(each.stats[:2]) for each in way if each.operation != "replace")


def rows_written(snapshots: Iterable[Snapshot]) -> int:
    """By the snapshots of a build in which a model's own rows came."""
    return sum(each.stats.rows_added for each in snapshots)
