"""JSON files: one record per line, or documents that are a record or a list of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mere.errors import RunFailed
from mere.pipeline.load.formats.batch import Batch
from mere.pipeline.load.formats.columns import Agreement, Seen, Shape
from mere.pipeline.load.formats.headers import Charset, charset_of, check_format, first_line
from mere.pipeline.load.formats.inference import kinds_of
from mere.pipeline.load.formats.origin import PORTION
from mere.pipeline.load.formats.text import JSON_OPTIONS, Cell, decoded, json_rows, json_value, json_why, typed_rows
from mere.pipeline.write.table import expr
from mere.sources.source import Format, OnNewColumn, Portion
from mere.sql.spelling.spark import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_KEYS = 2_000


def json_frames(batch: Batch, agreement: Agreement) -> list[DataFrame]:
    charset = charset_of(batch.text.encoding, batch.model.file)
    names = list(batch.look(lambda portion, path: _look(batch, portion, path)))
    if not names:
        return []
    records = _records(batch, names, charset)
    shapes = _shapes(batch, agreement, records, names)
    keys: dict[str, list[str]] = {}
    for name, columns in batch.agree(agreement, shapes).items():
        for column, at in columns.items():
            keys.setdefault(column, []).append(shapes[name][at].name)
    if not agreement.names:
        raise RunFailed(f"{batch.model.file}: no record of {names[0]} can be read. Nothing was loaded.")
    return [json_cells(records, agreement, keys, batch.text.encoding, charset, batch.kept)]


def json_cells(
    records: DataFrame,
    agreement: Agreement,
    keys: Mapping[str, Iterable[str]],
    encoding: str,
    charset: Charset | None,
    kept: Mapping[str, str],
) -> DataFrame:
    """`keys`: of the records, by the column that they become. One of them may be written otherwise in another file."""
    rows = json_rows(records, charset)
    if new := agreement.open:
        texts = rows.where("wrong IS NULL").selectExpr(*(f"{_value(keys[name])} AS {quoted(name)}" for name in new))
        agreement.settle(kinds_of([texts], new))
    cells = [Cell(target, _value(keys.get(target.name, ()))) for target in agreement.finish()]
    return typed_rows(rows, cells, json_why(encoding), kept, "make_valid_utf8(value)")


def _value(keys: Iterable[str]) -> str | None:
    values = [json_value(key) for key in dict.fromkeys(keys)]
    return values[0] if len(values) == 1 else f"coalesce({', '.join(values)})" if values else None


def _look(batch: Batch, portion: Portion, path: Path) -> bool | None:
    kind, place = batch.files.format, batch.place(portion)
    check_format(path, place, kind)
    line = first_line(path, place, batch.text)
    if line is None:
        return None
    start = line.lstrip()[:1]
    if start == "<":
        raise RunFailed(f"{place} is not {kind}: it begins with {line[:40]!r}. Nothing was loaded.")
    if kind is Format.JSONL and start == "[":
        raise RunFailed(
            f"{place} is one JSON document, not one record per line. Nothing was loaded.",
            remedy="Write `format: json`.",
        )
    return True


def _records(batch: Batch, names: Sequence[str], charset: Charset | None) -> DataFrame:
    read = batch.located(batch.read.text(batch.paths_of(names), wholetext=_are_documents(batch)), names)
    texts = read.withColumns({"value": expr(decoded("value", charset))})
    if not _are_documents(batch):
        return texts.where("trim(value) <> ''")
    _refuse_broken(batch, texts)
    others = [name for name in texts.columns if name != "value"]
    records = texts.selectExpr(*others, f"explode({_DOCUMENT_RECORDS}) AS record")
    return records.selectExpr(*others, "coalesce(to_json(record), 'null') AS value")


def _are_documents(batch: Batch) -> bool:
    return batch.files.format is Format.JSON


# A document that is no list is a record, if nothing stands behind it. NULL: it cannot be read.
_DOCUMENT = "trim(BOTH '\\ufeff \\t\\r\\n' FROM value)"
_LIST = f"from_json({_DOCUMENT}, 'array<variant>', {JSON_OPTIONS})"
_AS_A_LIST = f"from_json(concat('[', {_DOCUMENT}, ',{{}}]'), 'array<variant>', {JSON_OPTIONS})"
_DOCUMENT_RECORDS = (
    f"IF(startswith({_DOCUMENT}, '['), IF(endswith({_DOCUMENT}, ']'), {_LIST}, NULL),"
    f" IF(size({_AS_A_LIST}) = 2, slice({_AS_A_LIST}, 1, 1), NULL))"
)


def _refuse_broken(batch: Batch, documents: DataFrame) -> None:
    """A document that ends in the middle is not one bad record: nobody knows how many it had."""
    broken = documents.where(f"({_DOCUMENT_RECORDS}) IS NULL").select(PORTION).limit(1).collect()
    if broken:
        raise RunFailed(
            f"{batch.model.file}: {broken[0][0]} is not a JSON document, or only part of one. Nothing was loaded.",
            remedy="If each line is a record: `format: jsonl`. Otherwise get it again.",
        )


def _shapes(batch: Batch, agreement: Agreement, records: DataFrame, names: Iterable[str]) -> dict[str, Shape]:
    """The keys of the records of each file. If new ones do not matter, nobody looks for them."""
    if batch.source.on_new_column is OnNewColumn.IGNORE and agreement.names and _are_all_spelled_out(agreement):
        return dict.fromkeys(names, known_keys(agreement))
    keys = records.selectExpr(PORTION, "posexplode(json_object_keys(value)) AS (at, key)")
    found = keys.groupBy(PORTION, "key").agg(expr("min(at)").alias("at")).collect()
    by_name: dict[str, list[tuple[int, str]]] = {}
    for portion, key, at in found:
        by_name.setdefault(portion, []).append((at, key))
    for portion, each in by_name.items():
        if len(each) > _MOST_KEYS:
            raise RunFailed(
                f"{batch.model.file}: the records of {portion} have {len(each):,} keys. Nothing was loaded.",
                remedy="Such keys are data. Declare the columns, and write `on_new_column: ignore`.",
            )
    return {name: tuple(Seen(key) for _, key in sorted(by_name[name])) for name in names if name in by_name}


def _are_all_spelled_out(agreement: Agreement) -> bool:
    """Whether it is declared how each column is called in the data: nobody has to look then."""
    declared = agreement.source.columns
    return all(name in declared and declared[name].source is not None for name in agreement.names)


def known_keys(agreement: Agreement) -> Shape:
    """As they must be, if nobody looks: the column's own name, or that which is declared."""
    declared = agreement.source.columns
    names = dict.fromkeys(agreement.names)
    return tuple(Seen((declared[name].source if name in declared else None) or name) for name in names)
