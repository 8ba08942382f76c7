"""A case that needs no table: runs the model's query on DataFrames of the given rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mere.names import TableName
from mere.pipeline.build.failures import explained
from mere.pipeline.write.query import Workshop, query, within_its_windows
from mere.project.cases import Case
from mere.project.functions import function
from mere.project.model import Model, Time
from mere.testing.given import Columns, Schemas, arrow, columns_of, frame
from mere.testing.types import of_spark
from mere.windows import Span, instant

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mere.engine.session import Session


@dataclass(frozen=True)
class Bench:
    """Where plain cases run."""

    session: Session
    folder: Path  # of the project

    def analyse(self, model: Model, inputs: Mapping[TableName, Columns]) -> Columns:
        """The columns of a model's table, by its query over inputs that have no rows."""
        with explained(model):
            frames = {table: frame(arrow(None, columns), self.session.spark) for table, columns in inputs.items()}
            schema = self._query(model, _span(model, (), None), frames, datetime.now(UTC)).schema
        return {field.name: of_spark(field.dataType.simpleString()) for field in schema}

    def result(self, case: Case, model: Model, given: Mapping[TableName, pa.Table]) -> pa.Table:
        """The rows of the model's query. `model` is that of the case, read with its variables."""
        span = _span(model, _times(model, given), case.window)
        with explained(model):
            frames = {table: frame(rows, self.session.spark) for table, rows in given.items()}
            return self._query(model, span, frames, case.steps[0].now or datetime.now(UTC)).toArrow()

    def _query(
        self, model: Model, span: Span | None, frames: Mapping[TableName, DataFrame], now: datetime
    ) -> DataFrame:
        shop = Workshop(lambda: self.session, self.folder, partial(function, self.folder), now, {}, frames)
        frame = query(model, span, shop)
        return frame if span is None else within_its_windows(model.time, frame, span)


def given(case: Case, schemas: Schemas) -> dict[TableName, pa.Table]:
    """Every input; one of which the case says nothing is empty."""
    (step,) = case.steps
    tables = {}
    for table in (each.table for each in case.model.inputs if not each.lookup):
        rows = step.given.get(table)
        tables[table] = arrow(rows, columns_of(table, [rows] if rows else [], schemas, case.place))
    return tables


def _times(model: Model, given: Mapping[TableName, pa.Table]) -> Iterable[date]:
    for each in (each for each in model.inputs if not each.lookup):
        rows = given[each.table]
        name = next((name for name in rows.column_names if name.casefold() == str(each.time).casefold()), None)
        if each.time and name:
            yield from (value for value in rows.column(name).to_pylist() if value is not None)


def _span(model: Model, times: Iterable[date], window: Span | None) -> Span | None:
    """The windows to build: those that are asked for, or all in which there is something."""
    if model.time is None or window:
        return window
    return _covering(model.time, [instant(each) for each in times])


def _covering(time: Time, times: list[datetime]) -> Span:
    first = time.grain.floor(time.start) if time.start else None
    if not times:
        start = first or instant("1970")
        return Span(start, start)
    start, end = time.grain.floor(min(times)), time.grain.next(time.grain.floor(max(times)))
    return Span(max(start, first), max(end, first)) if first else Span(start, end)
