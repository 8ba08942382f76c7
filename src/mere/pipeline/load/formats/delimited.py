"""CSV files. Those with the same header are read together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mere.pipeline.load.formats.batch import Batch
from mere.pipeline.load.formats.columns import Agreement, Seen, Shape, Target
from mere.pipeline.load.formats.headers import (
    Charset,
    Header,
    charset_of,
    check_delimiter,
    check_format,
    check_quotes,
    first_line,
    header_of,
)
from mere.pipeline.load.formats.inference import kinds_of
from mere.pipeline.load.formats.text import (
    CORRUPT,
    ENCODING,
    VALUES,
    Cell,
    csv_options,
    csv_rows,
    csv_why,
    decoded,
    from_latin_1,
    typed_rows,
)
from mere.pipeline.write.table import expr
from mere.sources.source import Format, Portion
from mere.sql.spelling.spark import quoted, text_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def csv_frames(batch: Batch, agreement: Agreement) -> list[DataFrame]:
    charset = charset_of(batch.text.encoding, batch.model.file)
    expected = [*agreement.names, *(each.source for each in batch.source.columns.values() if each.source)]

    def look(portion: Portion, path: Path) -> Header | None:
        check_format(path, batch.place(portion), Format.CSV)
        line = first_line(path, batch.place(portion), batch.text)
        if line is None:
            return None
        if batch.text.multiline:
            check_quotes(path, batch.place(portion), batch.text)
        header = header_of(line, batch.text)
        if batch.text.header:
            check_delimiter(header, batch.place(portion), batch.text, expected)
        return header

    found = batch.look(look)
    named = batch.agree(agreement, {name: _shape(batch, header) for name, header in found.items()})
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, header in found.items():
        key = (header.line,) if batch.text.header else tuple(each.name for each in _shape(batch, header))
        groups.setdefault(key, []).append(name)
    read = [(_records(batch, names, found[names[0]], charset), named[names[0]]) for names in groups.values()]
    if new := agreement.open:
        texts = [records.where("wrong IS NULL").selectExpr(*_texts(columns, new)) for (records, _), columns in read]
        agreement.settle(kinds_of(texts, new))
    targets = agreement.finish()
    return [
        typed_rows(records, _cells(columns, targets), csv_why(width, batch.text), batch.kept, _raw(batch, width))
        for (records, width), columns in read
    ]


def _texts(columns: Mapping[str, int], wanted: Iterable[str]) -> list[str]:
    """Of a record, in SQL; a column of its own if it has none of them."""
    return [f"record.c{columns[name]} AS {quoted(name)}" for name in wanted if name in columns] or ["1 AS _mere_none"]


def _cells(columns: Mapping[str, int], targets: Iterable[Target]) -> list[Cell]:
    return [Cell(target, f"record.c{columns[target.name]}" if target.name in columns else None) for target in targets]


def _raw(batch: Batch, width: int) -> str:
    if not batch.text.multiline:
        return "make_valid_utf8(value)"
    values = ", ".join(f"record.c{at}" for at in range(width))
    return f"coalesce(value, to_csv(struct({values}), map('escape', '\"')))"


def _shape(batch: Batch, header: Header) -> Shape:
    """Without a header, the columns are those that are declared, in that order."""
    if batch.text.header:
        return tuple(Seen(name) for name in header.values)
    declared = [each.source or name for name, each in batch.source.columns.items() if name not in batch.fields]
    return tuple(Seen(name) for name in declared or [""] * len(header.values))


def _records(batch: Batch, names: Sequence[str], header: Header, charset: Charset | None) -> tuple[DataFrame, int]:
    """And how many values each has to have."""
    width = len(_shape(batch, header))
    if batch.text.multiline:
        return _multiline(batch, names, width, charset), width
    read = batch.located(batch.read.text(batch.paths_of(names)), names)
    lines = read.withColumns({"value": expr(decoded("value", charset))}).where("trim(value) <> ''")
    if batch.text.header:
        lines = lines.where(f"value <> {text_literal(header.line)}")
    return csv_rows(lines, width, batch.text, charset), width


def _multiline(batch: Batch, names: Sequence[str], width: int, charset: Charset | None) -> DataFrame:
    """By Spark's own reader, which finds out itself where a record ends. Of bytes that are no text it makes U+FFFD."""
    columns = [f"c{at}" for at in range(width)]
    schema = ", ".join(f"{each} string" for each in (*columns, CORRUPT))
    options = {**csv_options(batch.text), "multiLine": "true", "header": str(batch.text.header).lower()}
    encoding = "iso-8859-1" if charset else "utf-8"
    reader = batch.read.schema(schema).options(**options, encoding=encoding)
    read = batch.located(reader.csv(batch.paths_of(names)), names)
    own = (*columns, CORRUPT)
    read = read.withColumns({each: expr(from_latin_1(each, charset)) for each in own})
    records = read.selectExpr(
        *(each for each in read.columns if each not in own),
        f"struct({', '.join(own)}) AS record",
        f"{CORRUPT} AS value",
        f"concat_ws('', {', '.join(own)}) AS everything",
    )
    no_text = "contains(everything, '\ufffd') OR contains(everything, char(0))"
    return records.selectExpr(
        "*", f"CASE WHEN {no_text} THEN '{ENCODING}' WHEN value IS NOT NULL THEN '{VALUES}' END AS wrong"
    )
