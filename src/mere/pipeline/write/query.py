"""Runs a model's query on the run's branch, and prepares its rows for the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mere.engine.frames import from_arrow
from mere.errors import RunFailed
from mere.lake.iceberg.properties import WRITTEN
from mere.names import TableName
from mere.pipeline.plan.steps import Step
from mere.pipeline.state.state import Point
from mere.pipeline.write.changes import (
    CHANGE,
    INSERT,
    Inputs,
    added_rows,
    appended,
    changed_rows,
    with_updates,
)
from mere.pipeline.write.returned import checked
from mere.pipeline.write.table import expr, field_of
from mere.project.model import Csv, Input, Model, Python, Sql, Time
from mere.sources.source import Source
from mere.sql.spelling.spark import name_of, quoted
from mere.windows import Span

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
    from pyspark.sql.types import StructField, StructType

    from mere.engine.session import Session

# Below this, a shuffle that gathers the rows of a partition costs more than the few small files that it saves.
_SMALL = 64 * 1024 * 1024
# Views of all runs of this process: two sessions may share them.
_numbers = count()


@dataclass(frozen=True)
class Workshop:
    """What every build of a run shares."""

    opened: Callable[[], Session]
    folder: Path  # of the project
    function: Callable[[Model], Callable[..., DataFrame]]  # of a Python model
    now: datetime
    sampled: Mapping[TableName, float]  # inputs of which only a share is read
    given: Mapping[TableName, DataFrame] = field(default_factory=dict)  # rows that stand for a table: those of a test
    results: dict[TableName, DataFrame] = field(default_factory=dict)  # what Python models returned, for their lineage

    @property
    def session(self) -> Session:
        """Opened when it is needed first, for not every step needs one."""
        return self.opened()

    @property
    def spark(self) -> SparkSession:
        return self.session.spark


class Sift(Protocol):
    """Puts bad rows aside: what is given for the length of a block are the others. See `quarantine`.

    `span`: the windows that are built; `keys`: those of which all rows are built, not only new ones.
    """

    def __call__(
        self, frame: DataFrame, span: Span | None = None, keys: DataFrame | None = None
    ) -> AbstractContextManager[DataFrame]: ...


def make_namespaces(names: Iterable[TableName], shop: Workshop) -> None:
    """Before models are built side by side: of two that make one namespace at once, the catalog lets one fail."""
    for namespace in sorted({name.namespace for name in names}):
        shop.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted(namespace)}")


Rows = tuple[Mapping[str, Point], Mapping[str, Point]]


def query(model: Model, span: Span | None, shop: Workshop, rows: Rows | None = None) -> DataFrame:
    """The model's result, not yet computed."""
    match model.body:
        case Sql():
            return _sql(model, model.body, span, shop, rows)
        case Python():
            time = model.time

            def cut(frame: DataFrame, column: str) -> DataFrame:
                return frame.where(within(frame.schema, column, time.before(span))) if time and span else frame

            return _python(model, model.body, cut, shop, rows)
        case Csv():
            return _csv(model.body, shop)
        case Source():
            raise AssertionError(f"{model} is loaded, and has no query")


def timeless_query(model: Model, shop: Workshop) -> DataFrame | None:
    """What the query makes of the rows without a time; None if it does not tell which of its rows that would be."""
    match model.body:
        case Sql():
            from mere.sql.rewrite import with_null_times

            text = with_null_times(model.body.text, _bound(model, shop))
            return None if text is None else _sql(model, replace(model.body, text=text), None, shop, None)
        case Python():

            def cut(frame: DataFrame, column: str) -> DataFrame:
                return frame.where(f"{quoted(_field(frame.schema, column).name)} IS NULL")

            return _python(model, model.body, cut, shop, None)
    raise AssertionError(f"{model} is not built in windows")


def _sql(model: Model, body: Sql, span: Span | None, shop: Workshop, rows: Rows | None) -> DataFrame:
    text = body.text
    replaced = {
        each.table: _temporary_view(each, shop, rows) for each in model.inputs if _is_narrowed(each, shop, rows)
    }
    if replaced:
        from mere.sql.rewrite import with_tables

        text = with_tables(text, replaced)
    return shop.spark.sql(text, args=_arguments(model, span, shop))


def _is_narrowed(each: Input, shop: Workshop, rows: Rows | None) -> bool:
    return each.table in shop.given or each.table in shop.sampled or (each.new_rows and rows is not None)


def _temporary_view(each: Input, shop: Workshop, rows: Rows | None) -> str:
    name = f"mere_input_{next(_numbers)}"
    input_frame(each, shop, rows).createOrReplaceTempView(name)
    return name


def input_frame(each: Input, shop: Workshop, rows: Rows | None = None) -> DataFrame:
    if each.table in shop.given:
        return _all_new(shop.given[each.table]) if each.changes else shop.given[each.table]
    since, to = (points[str(each.table)].snapshot for points in rows) if each.new_rows and rows else (None, None)
    if since is None or to is None:  # an input that was empty has no snapshot to start from: all its rows are new
        frame = shop.spark.table(name_of(each.table))
    else:
        frame = appended(each.table, since, to, shop.spark)
    frame = _all_new(frame) if each.changes else frame
    share = shop.sampled.get(each.table)
    return frame if share is None else frame.sample(fraction=share, seed=1)


def with_changes(model: Model, inputs: Inputs, shop: Workshop) -> Workshop:
    """Where a model takes changes, those since it was last built are given to it; where it takes new rows, and others
    were exchanged, what was just added."""
    given = {
        each.table: with_updates(changed_rows(inputs.between(each.table), shop.spark), each.updates_by)
        for each in model.inputs
        if each.changes
    }
    taken = [inputs.between(each.table) for each in model.inputs if each.new_rows]
    given |= {each.table: added_rows(each, shop.spark) for each in taken if not each.appends_only}
    return replace(shop, given={**shop.given, **given}) if given else shop


def _all_new(frame: DataFrame) -> DataFrame:
    """For a model that is given changes: what it has not seen, unless it is said to be something else."""
    return frame if field_of(frame.schema, CHANGE) else frame.selectExpr("*", f"'{INSERT}' AS {CHANGE}")


def _arguments(model: Model, span: Span | None, shop: Workshop) -> dict[str, Any]:
    """`:start`, `:end` and `:now`. The bounds have the type of the column that they limit, so that files are pruned."""
    arguments: dict[str, Any] = {}
    if model.now:
        arguments["now"] = expr(literal(model.now.floor(shop.now), "timestamp"))
    if span:
        kind = _bound(model, shop)
        arguments |= {"start": expr(literal(span.start, kind)), "end": expr(literal(span.end, kind))}
    return arguments


def _bound(model: Model, shop: Workshop) -> str:
    """The type of `:start` and `:end`."""
    timed = next(each for each in model.inputs if each.time)
    return _field(input_frame(timed, shop, None).schema, str(timed.time)).dataType.typeName()


def literal(at: datetime, kind: str) -> str:
    """An instant in Spark's SQL, as a date or a timestamp with or without zone."""
    match kind:
        case "date":
            return f"DATE '{at:%Y-%m-%d}'"
        case "timestamp_ntz":
            return f"TIMESTAMP_NTZ '{at:%Y-%m-%d %H:%M:%S.%f}'"
    return f"TIMESTAMP '{at:%Y-%m-%d %H:%M:%S.%f}Z'"


def _python(
    model: Model, body: Python, cut: Callable[[DataFrame, str], DataFrame], shop: Workshop, rows: Rows | None
) -> DataFrame:
    """`cut`: of an input that is read by a time column, the rows that are wanted."""
    inputs = {each.table: each for each in model.inputs}
    given: dict[str, Any] = {}
    for parameter, table in body.parameters:
        frame = input_frame(inputs[table], shop, rows)
        time = inputs[table].time
        given[parameter] = cut(frame, time) if time else frame
    if body.takes_now and model.now:
        given["now"] = model.now.floor(shop.now)
    if body.takes_spark:
        given["spark"] = shop.spark
    made = checked(shop.function(model)(**given), body.function, f"{model.file}:{body.line}", shop.spark)
    shop.results[model.name] = made
    return made


def within(schema: StructType, column: str, *spans: Span) -> str:
    """A condition in SQL: the column lies in one of the spans."""
    field = _field(schema, column)
    kind, name = field.dataType.typeName(), quoted(field.name)
    parts = (f"({name} >= {literal(s.start, kind)} AND {name} < {literal(s.end, kind)})" for s in spans)
    return " OR ".join(parts) or "false"


def _field(schema: StructType, column: str) -> StructField:
    if (field := field_of(schema, column)) is None:
        raise RunFailed(f"There is no column {column}.", remedy=f"There are: {', '.join(schema.names)}.")
    return field


def _csv(body: Csv, shop: Workshop) -> DataFrame:
    """Read here and not by Spark, whose workers may be on machines that do not have the file."""
    table = rows_of(body, shop.folder)
    frame = from_arrow(shop.spark, table)
    # What was declared is read as text, so that it is Spark that casts, and no digit is lost on the way.
    columns = (
        f"CAST({quoted(name)} AS {body.types[name]}) AS {quoted(name)}" if name in body.types else quoted(name)
        for name in table.column_names
    )
    return frame.selectExpr(*columns)


def rows_of(body: Csv, folder: Path) -> pa.Table:
    """Of a seed; columns whose types are declared are text."""
    import pyarrow as pa
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter=body.delimiter, newlines_in_values=True)
    declared = dict.fromkeys(body.types, pa.string())
    convert = csv.ConvertOptions(column_types=declared, null_values=[""], strings_can_be_null=True)
    try:
        table = csv.read_csv(folder / body.path, parse_options=parse, convert_options=convert)
    except (pa.ArrowInvalid, OSError) as error:
        raise RunFailed(f"{body.path}: {str(error).splitlines()[0]}", remedy="Fix the file.") from error
    # Spark has no type for the time of a day, nor for a column without a value.
    odd = [f.name for f in table.schema if pa.types.is_null(f.type) or pa.types.is_time(f.type)]
    if not odd:
        return table  # a cast alone would import all of pyarrow.compute
    return table.cast(pa.schema([pa.field(f.name, pa.string()) if f.name in odd else f for f in table.schema]))


def writer(step: Step, frame: DataFrame, size: int | None = None) -> DataFrameWriterV2:
    """`size`: the bytes of which these rows are made, where that is only a part of what the step reads."""
    writer = frame.writeTo(name_of(step.model.name)).option(f"snapshot-property.{WRITTEN}", str(step.model))
    if (step.load.bytes if size is None else size) < _SMALL:
        writer = writer.option("distribution-mode", "none").option("fanout-enabled", "true")
    return writer


def replace_all(step: Step, frame: DataFrame) -> None:
    """Every row of the table, in one commit."""
    writer(step, frame).overwrite(expr("true"))


def within_its_windows(time: Time | None, frame: DataFrame, span: Span) -> DataFrame:
    """What looks back gives rows of before, too. Those without a time are left, for the build to complain of."""
    if time is None or not time.context or field_of(frame.schema, time.column) is None:
        return frame
    return frame.where(f"{within(frame.schema, time.column, span)} OR {quoted(time.column)} IS NULL")
