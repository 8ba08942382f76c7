"""Rows of an input without a time, dealt with before a window is written: quarantined, dropped, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mere.errors import RunFailed
from mere.names import TableName
from mere.pipeline.plan.kinds.timeless import Counts, counted, dropped, some
from mere.pipeline.plan.steps import Facts, Step
from mere.pipeline.state.state import State
from mere.pipeline.write.query import Workshop, input_frame, timeless_query
from mere.project.model import Model, NullTimes, Sql
from mere.sql.spelling.spark import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Timeless:
    """What was found of them when they were due."""

    rows: Mapping[TableName, int] = field(default_factory=dict)  # without a time, of the inputs that have some
    frame: DataFrame | None = None  # what goes to the quarantine
    drops: bool = False
    told: tuple[str, ...] = ()


def look(step: Step, facts: Facts, shop: Workshop, state: State | None) -> Timeless:
    """Before anything is written, so that what nobody has decided on is refused. `state`: as in `foretold`."""
    model = step.model
    assert model.time
    drops = model.time.nulls is NullTimes.DROP
    rows = _settled(model, dropped(model, facts, state), shop) if drops else _rows(model, facts, shop)
    told = tuple(some(model, table, count) for table, count in rows.items())
    if drops or not rows:
        return Timeless(rows, None, True, tuple(f"{each}: dropped" for each in told))
    frame = timeless_query(model, shop)
    if frame is not None and model.quarantines:
        return Timeless(rows, frame, False, told)
    # Rows of one input may have been meant for rows of another that have a time.
    several = sum(bool(each.time) for each in model.inputs) > 1
    if frame is None or several or not frame.isEmpty():
        raise _undecided(model, rows, told, knows=frame is not None)
    return Timeless(rows, None, False, tuple(f"{each}: the query leaves them out" for each in told))


def _rows(model: Model, facts: Facts, shop: Workshop) -> dict[TableName, int]:
    """Where the metadata of the files leave no doubt that there is none, nothing is read."""
    return _settled(model, {table: 0 if count == 0 else None for table, count in counted(model, facts).items()}, shop)


def _settled(model: Model, counts: Counts, shop: Workshop) -> dict[TableName, int]:
    """Those of which some are there; what is not known is counted."""
    inputs = {each.table: each for each in model.inputs}
    found = {
        table: input_frame(inputs[table], shop).where(f"{quoted(str(inputs[table].time))} IS NULL").count()
        if count is None
        else count
        for table, count in counts.items()
    }
    return {table: count for table, count in found.items() if count}


def _undecided(model: Model, rows: Mapping[TableName, int], told: tuple[str, ...], knows: bool) -> RunFailed:
    table = next(iter(rows))
    time = next(each.time for each in model.inputs if each.table == table)
    drop = 'null_times="drop"' if model.file.endswith(".py") else "null_times: drop"
    remedies = [f"Give them a time in {table}."]
    if knows and len(rows) == 1 and isinstance(model.body, Sql):
        remedies.append(f"Or leave them out in the query: AND {time} IS NOT NULL.")
    if knows and not model.quarantines:
        remedies.append("Or quarantine them, with a rule that has `quarantine: true`.")
    remedies.append(f"Or drop them: `{drop}`.")
    why = "" if knows else " Its query does not tell which of its rows would be made of them."
    return RunFailed(
        f"{model.file}: {' and '.join(told)}: they belong to no window of {model}.{why}", remedy="\n".join(remedies)
    )
