"""A step of a plan, carried out by Spark on the run's branch: the model's query becomes rows of its table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mere.errors import RunFailed
from mere.lake.metadata import Metadata
from mere.names import TableName
from mere.pipeline.layout import cut_at_windows
from mere.pipeline.state import Point
from mere.pipeline.steps import Action, Step
from mere.pipeline.tables import comment, field_of, fit, name_of, prepare, quoted
from mere.project.model import Csv, Input, Kind, Model, Python, Sql
from mere.windows import NEVER, Span, Spans, instant

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, DataFrameWriterV2, SparkSession
    from pyspark.sql.types import StructField, StructType

    from mere.engine.session import Session

# Below this, a shuffle that gathers the rows of a partition costs more than the few small files that it saves.
_SMALL = 64 * 1024 * 1024
# In the summary of the snapshots in which a model's own rows came: its name.
WRITTEN = "mere.model"
# Views of all runs of this process: two sessions may share them.
_numbers = count()


@dataclass(frozen=True)
class Workshop:
    """What every build of a run shares."""

    session: Session
    folder: Path  # of the project
    function: Callable[[Model], Callable[..., DataFrame]]  # of a Python model
    now: datetime
    sampled: Mapping[TableName, float]  # inputs of which only a share is read

    @property
    def spark(self) -> SparkSession:
        return self.session.spark


def make_namespaces(names: Iterable[TableName], shop: Workshop) -> None:
    """Before models are built side by side: of two that make one namespace at once, the catalog lets one fail."""
    for namespace in sorted({name.namespace for name in names}):
        shop.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted(namespace)}")


def build(
    step: Step, since: Mapping[str, Point], to: Mapping[str, Point], table: Metadata | None, shop: Workshop
) -> Iterator[Spans]:
    """Write what the step asks for; after each batch, the windows written so far.

    `since` and `to`: from where to where an append model reads the rows added to its input. `table`: what stands there.
    """
    model = step.model
    if model.kind is Kind.VIEW:
        _make_view(model, shop)
        yield NEVER
    elif model.time:
        yield from _build_windows(step, table, shop)
    elif step.action is Action.ROWS:
        frame = query(model, None, shop, (since, to))
        _writer(step, prepare(model, frame, shop.spark, table, whole=False)).append()
        yield NEVER
    else:
        frame = prepare(model, query(model, None, shop), shop.spark, table, whole=True)
        _writer(step, frame).overwrite(_expression("true"))
        yield NEVER


def _build_windows(step: Step, table: Metadata | None, shop: Workshop) -> Iterator[Spans]:
    model, done = step.model, NEVER
    for number, batch in enumerate(_batches(step)):
        frame = query(model, batch, shop)
        if number == 0:
            frame = prepare(model, frame, shop.spark, table, whole=step.afresh)
        else:
            frame = fit(model, frame, shop.spark)
        if number == 0 and step.afresh:
            _writer(step, frame).overwrite(_expression("true"))
        else:
            _exchange(step, frame, batch, None if step.afresh else table, shop)
        done = done | Spans((batch,))
        yield done


def _batches(step: Step) -> Iterator[Span]:
    time = step.model.time
    assert time
    if not step.spans:  # there is no data yet, but there must be a table
        start = time.grain.floor(time.start) if time.start else instant("1970")
        yield Span(start, start)
    # Between windows that stand there already, others must be left alone; otherwise there is nothing in between.
    groups = [step.spans.windows(time.grain)] if step.afresh else [list(s.windows(time.grain)) for s in step.spans]
    for windows in groups:
        for first in range(0, len(windows), time.batch):
            batch = windows[first : first + time.batch]
            yield Span(batch[0].start, batch[-1].end)


Rows = tuple[Mapping[str, Point], Mapping[str, Point]]


def query(model: Model, span: Span | None, shop: Workshop, rows: Rows | None = None) -> DataFrame:
    """The model's result, not yet computed."""
    match model.body:
        case Sql():
            return _sql(model, model.body, span, shop, rows)
        case Python():
            return _python(model, model.body, span, shop, rows)
        case Csv():
            return _csv(model.body, shop)


def _sql(model: Model, body: Sql, span: Span | None, shop: Workshop, rows: Rows | None) -> DataFrame:
    text = body.text
    replaced = {
        each.table: _temporary_view(each, shop, rows) for each in model.inputs if _is_narrowed(each, shop, rows)
    }
    if replaced:
        from mere.pipeline.rewrite import with_tables

        text = with_tables(text, replaced)
    return shop.spark.sql(text, args=_arguments(model, span, shop))


def _is_narrowed(each: Input, shop: Workshop, rows: Rows | None) -> bool:
    return each.table in shop.sampled or (each.new_rows and rows is not None)


def _temporary_view(each: Input, shop: Workshop, rows: Rows | None) -> str:
    name = f"mere_input_{next(_numbers)}"
    _input(each, shop, rows).createOrReplaceTempView(name)
    return name


def _input(each: Input, shop: Workshop, rows: Rows | None) -> DataFrame:
    reader = shop.spark.read
    if each.new_rows and rows is not None:
        since, to = (points[str(each.table)].snapshot for points in rows)
        # An input that was empty has no snapshot to start from: then all its rows are new.
        if since is not None:
            reader = reader.option("start-snapshot-id", str(since)).option("end-snapshot-id", str(to))
    frame = reader.table(name_of(each.table))
    share = shop.sampled.get(each.table)
    return frame if share is None else frame.sample(fraction=share, seed=1)


def _arguments(model: Model, span: Span | None, shop: Workshop) -> dict[str, Any]:
    """`:start`, `:end` and `:now`. The bounds have the type of the column that they limit, so that files are pruned."""
    arguments: dict[str, Any] = {}
    if model.now:
        arguments["now"] = _expression(literal(model.now.floor(shop.now), "timestamp"))
    if span:
        timed = next(each for each in model.inputs if each.time)
        field = _field(shop.spark.table(name_of(timed.table)).schema, str(timed.time))
        kind = field.dataType.typeName()
        arguments |= {"start": _expression(literal(span.start, kind)), "end": _expression(literal(span.end, kind))}
    return arguments


def literal(at: datetime, kind: str) -> str:
    """An instant in Spark's SQL, as a date or a timestamp with or without zone."""
    match kind:
        case "date":
            return f"DATE '{at:%Y-%m-%d}'"
        case "timestamp_ntz":
            return f"TIMESTAMP_NTZ '{at:%Y-%m-%d %H:%M:%S.%f}'"
    return f"TIMESTAMP '{at:%Y-%m-%d %H:%M:%S.%f}Z'"


def _python(model: Model, body: Python, span: Span | None, shop: Workshop, rows: Rows | None) -> DataFrame:
    inputs = {each.table: each for each in model.inputs}
    given: dict[str, Any] = {}
    for parameter, table in body.parameters:
        frame = _input(inputs[table], shop, rows)
        time = inputs[table].time
        given[parameter] = frame if span is None or time is None else frame.where(within(frame.schema, time, span))
    if body.takes_now and model.now:
        given["now"] = model.now.floor(shop.now)
    if body.takes_spark:
        given["spark"] = shop.spark
    made = shop.function(model)(**given)
    if type(made).__name__ != "DataFrame":
        raise RunFailed(
            f"{model.file}:{body.line}: {body.function} must return a DataFrame, not {type(made).__name__}."
        )
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
    table = _arrow(body, shop.folder)
    frame = shop.spark.createDataFrame(table)
    # What was declared is read as text, so that it is Spark that casts, and no digit is lost on the way.
    columns = (
        f"CAST({quoted(name)} AS {body.types[name]}) AS {quoted(name)}" if name in body.types else quoted(name)
        for name in table.column_names
    )
    return frame.selectExpr(*columns)


def _arrow(body: Csv, folder: Path) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter=body.delimiter, newlines_in_values=True)
    declared = dict.fromkeys(body.types, pa.string())
    convert = csv.ConvertOptions(column_types=declared, null_values=[""], strings_can_be_null=True)
    try:
        table = csv.read_csv(folder / body.path, parse_options=parse, convert_options=convert)
    except (pa.ArrowInvalid, OSError) as error:
        raise RunFailed(f"{body.path}: {str(error).splitlines()[0]}", remedy="Mend the file.") from error
    # Spark has no type for the time of a day, nor for a column without a value.
    odd = [f.name for f in table.schema if pa.types.is_null(f.type) or pa.types.is_time(f.type)]
    return table.cast(pa.schema([pa.field(f.name, pa.string()) if f.name in odd else f for f in table.schema]))


def _writer(step: Step, frame: DataFrame) -> DataFrameWriterV2:
    writer = frame.writeTo(name_of(step.model.name)).option(f"snapshot-property.{WRITTEN}", str(step.model))
    if step.load.bytes < _SMALL:
        writer = writer.option("distribution-mode", "none").option("fanout-enabled", "true")
    return writer


def _exchange(step: Step, frame: DataFrame, span: Span, table: Metadata | None, shop: Workshop) -> None:
    """The rows of the windows in the span."""
    assert step.model.time
    window = within(frame.schema, step.model.time.column, span)
    if cut_at_windows(step.model, table):
        _writer(step, frame).overwrite(_expression(window))
    else:
        # Two snapshots, which are published as one. The first may write rows again that were in a file with others.
        shop.spark.sql(f"DELETE FROM {name_of(step.model.name)} WHERE {window}")
        _writer(step, frame).append()


def _expression(sql: str) -> Column:
    from pyspark.sql.functions import expr

    return expr(sql)


def _make_view(model: Model, shop: Workshop) -> None:
    assert isinstance(model.body, Sql)
    described = shop.spark.sql(model.body.text).schema
    columns = ", ".join(f"{quoted(field.name)}{comment(model.columns.get(field.name, ''))}" for field in described)
    shop.spark.sql(
        f"CREATE OR REPLACE VIEW {name_of(model.name)} ({columns}){comment(model.description)} AS {model.body.text}"
    )
