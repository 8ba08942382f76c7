"""Local files and JSON records as a typed DataFrame, each row with its portion and, if it is bad, the reasons. Reads
nothing of the rows itself but the keys of JSON records, where new ones matter.

| rule | breaks it |
|---|---|
| `encoding` | a record that is not text in the declared encoding, or has a NUL in it |
| `malformed` | a line with a quote that is not closed, or that is not one JSON object |
| `values` | a line with more or fewer values than the header |
| `type of <column>` | a value that is not of the column's type |

Blank lines are no records, nor are lines that repeat the header. A value that is not there is NULL, and so is an empty
text in a column of another type; two quotes with nothing between them are an empty text.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from mere.audits.quarantine import NO_RULES
from mere.engine.frames import from_arrow
from mere.names import RULES
from mere.pipeline.load.formats.batch import Batch, agreement_of
from mere.pipeline.load.formats.columns import Needs, Seen, Target, to_json
from mere.pipeline.load.formats.delimited import csv_frames
from mere.pipeline.load.formats.elsewhere import Elsewhere
from mere.pipeline.load.formats.json import json_cells, json_frames
from mere.pipeline.load.formats.origin import PORTION, value_of
from mere.pipeline.load.formats.parquet import parquet_frames
from mere.pipeline.load.formats.text import LINE, RAW, WHY
from mere.project.model import Model
from mere.sources.source import Files, Format, Portion, Source, Text
from mere.sql.spelling.spark import quoted, text_literal

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LINE", "RAW", "WHY", "Rows", "json_rows", "rows_of"]


@dataclass(frozen=True)
class Rows:
    frame: DataFrame  # the table's columns, that of the file, and RULES, WHY, LINE and RAW; not yet computed
    columns: Mapping[str, str]  # of each portion, as it had them: JSON of names and types
    portion: str  # from which a row came, in SQL
    may_be_bad: bool = True  # whether any row can be
    text: Text | None = None  # how the lines are read, if a record is a line


def rows_of(
    model: Model,
    portions: Sequence[Portion],
    paths: Mapping[str, Path],
    table: Sequence[tuple[str, str]],
    spark: SparkSession,
    earlier: Iterable[str] = (),
    elsewhere: Elsewhere | None = None,
) -> Rows:
    """`table`: names and types of the columns that stand there, without those of the trace. `earlier`: the columns of
    the portions that were loaded before, as the ledger has them."""
    source = model.body
    assert isinstance(source, Source)
    assert isinstance(source.feed, Files)
    here = {name: Path(os.path.abspath(path)) for name, path in paths.items()}  # noqa: PTH100 - no link is followed
    batch = Batch(model, source, source.feed, portions, here, spark, elsewhere or Elsewhere())
    kind = source.feed.format
    # A record of JSON may leave out what is null, so that a file need not have all that others had.
    needs = Needs.DECLARED if kind in (Format.JSON, Format.JSONL) else Needs.ALL
    agreement = agreement_of(model, table, batch.fields, needs, kind.is_text, spark)
    for columns in dict.fromkeys(earlier):
        agreement.remember(columns)
    sure = False
    match kind:
        case Format.PARQUET:
            frames, sure = parquet_frames(batch, agreement)
        case Format.CSV:
            frames = csv_frames(batch, agreement)
        case Format.JSON | Format.JSONL:
            frames = json_frames(batch, agreement)
    frame = reduce(lambda one, other: one.union(other), frames) if frames else _nothing(batch, agreement.finish())
    file = source.trace.file
    lines = kind is Format.JSONL or (kind is Format.CSV and not batch.text.multiline)
    return Rows(
        frame,
        batch.columns,
        quoted(file) if file else text_literal(portions[0].name),
        may_be_bad=not sure,
        text=batch.text if lines else None,
    )


def json_rows(
    model: Model, texts: pa.Table, table: Sequence[tuple[str, str]], spark: SparkSession, portion: str = ""
) -> Rows:
    """Of records that an API has given, a JSON text each, in the column `raw`. It may leave out what is null: no column
    is missing."""
    source = model.body
    assert isinstance(source, Source)
    agreement = agreement_of(model, table, (), Needs.NOTHING, text=True, spark=spark)
    keys = dict.fromkeys(key for raw in texts.column("raw").to_pylist() for key in _keys(raw))
    shape = tuple(map(Seen, keys))
    named = agreement.take(portion or str(model), shape)
    file = source.trace.file
    kept = {file: text_literal(portion)} if file else {}
    records = from_arrow(spark, texts.select(["raw"]).rename_columns(["value"]))
    by_column = {column: [shape[at].name] for column, at in named.items()}
    frame = json_cells(records, agreement, by_column, "utf-8", None, kept)
    return Rows(frame, {portion: to_json(shape)}, text_literal(portion))


def _keys(raw: str) -> Iterable[str]:
    try:
        record = json.loads(raw)
    except ValueError:
        return ()
    return record if isinstance(record, dict) else ()


def _nothing(batch: Batch, targets: Sequence[Target]) -> DataFrame:
    """The columns without a row."""
    given = {PORTION: "string", **{value_of(field): kind for field, kind in batch.fields.items()}}
    columns = ", ".join(f"CAST(NULL AS {kind}) AS {name}" for name, kind in given.items())
    source = batch.spark.sql(f"SELECT {columns} WHERE false")
    return source.selectExpr(
        *(f"CAST(NULL AS {target.sql}) AS {quoted(target.name)}" for target in targets),
        *(f"{sql} AS {quoted(name)}" for name, sql in batch.kept.items()),
        f"{NO_RULES} AS {RULES}",
        *(f"CAST(NULL AS {kind}) AS {name}" for name, kind in ((WHY, "string"), (LINE, "bigint"), (RAW, "string"))),
    )
