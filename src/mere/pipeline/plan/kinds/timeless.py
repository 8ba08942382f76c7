"""Rows of an input without a time. They belong to no window of an incremental model, so building windows never reads
them.

They are one more window, of which the start and the end are NULL. It is due when such a row may have come or gone; a
build of it takes all of them anew, and what the query makes of them goes to the model's quarantine.
"""

from __future__ import annotations

from collections.abc import Mapping

from mere.names import TableName
from mere.pipeline.plan.steps import Facts
from mere.pipeline.state.state import State
from mere.project.model import Model, NullTimes

Counts = Mapping[TableName, int | None]  # rows without a time, of each input that is read in windows; None: unknown


def counted(model: Model, facts: Facts, state: State | None = None) -> Counts:
    """At most: a delete file may hide some of them. `state`: only those that came since."""
    timed = {each.table: each.time for each in model.inputs if each.time and facts.points(each.table)}
    since = state.inputs if state else {}
    return {table: facts.timeless(table, time, since.get(str(table))) for table, time in timed.items()}


def dropped(model: Model, facts: Facts, state: State | None) -> Counts:
    """Each row is dropped once: those that were, when the table was built, do not count again."""
    known = state is not None and state.null_times is NullTimes.DROP
    return counted(model, facts, state if known else None)


def is_unsettled(model: Model, state: State, facts: Facts) -> bool:
    """Whether what became of them when the table was built is not what the model says now."""
    assert model.time
    return state.null_times != model.time.nulls and any(count != 0 for count in counted(model, facts).values())


def foretold(model: Model, facts: Facts, state: State | None = None) -> tuple[str, ...]:
    """What a build will do with them. `state`: of the table, if it is not built afresh."""
    assert model.time
    drops = model.time.nulls is NullTimes.DROP
    fate = f"they go to {model.name.quarantine}" if model.quarantines else "a run fails if its query gives them"
    counts = dropped(model, facts, state) if drops else counted(model, facts)
    fate = "they are dropped" if drops else fate
    return tuple(f"{some(model, table, count)}: {fate}" for table, count in counts.items() if count != 0)


def some(model: Model, table: TableName, count: int | None) -> str:
    time = next(each.time for each in model.inputs if each.table == table)
    if count is None:
        return f"rows of {table} may have no {time}"
    return f"{count:,} row{' of' if count == 1 else 's of'} {table} {'has' if count == 1 else 'have'} no {time}"
