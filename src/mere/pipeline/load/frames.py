"""A DataFrame from a database or a function as rows of the table, by the same rules as a Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mere.pipeline.load.formats.batch import agreement_of
from mere.pipeline.load.formats.columns import Needs, to_json
from mere.pipeline.load.formats.parquet import Field, held, is_sure, parquet_rows, shape_of
from mere.pipeline.load.records import Rows
from mere.pipeline.state.columns import of_query
from mere.project.model import Model
from mere.sources.source import Source
from mere.sql.spelling.spark import quoted, text_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_rows(
    model: Model,
    frame: DataFrame,
    table: Sequence[tuple[str, str]],
    spark: SparkSession,
    portion: str,
    earlier: Iterable[str] = (),
) -> Rows:
    """`table`, `earlier`: see `rows_of`."""
    assert isinstance(model.body, Source)
    columns = of_query(frame.schema.jsonValue())
    fields = tuple(Field(each.name, str(each.type), quoted(each.name), held(each.type)) for each in columns)
    agreement = agreement_of(model, table, (), Needs.ALL, text=False, spark=spark)
    for seen in dict.fromkeys(earlier):
        agreement.remember(seen)
    named = agreement.take(portion, shape_of(fields))
    targets = agreement.finish()
    file = model.body.trace.file
    rows = parquet_rows(frame, fields, targets, named, {file: text_literal(portion)} if file else {})
    sure = is_sure(fields, targets, named)
    return Rows(rows, {portion: to_json(shape_of(fields))}, text_literal(portion), may_be_bad=not sure)
