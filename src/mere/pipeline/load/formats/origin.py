"""Rows as Spark reads them from files, each with its portion and the values in its path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from mere.engine.frames import from_arrow
from mere.errors import RunFailed
from mere.pipeline.write.table import expr
from mere.sources.source import Portion
from mere.sql.spelling.spark import quoted, text_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PORTION = "_mere_portion"
_PATH, _KNOWN, _NAME = "_mere_path", "_mere_known", "_mere_name"
_PATTERN = re.compile(r"([\\*?\[\]{}])")


def value_of(field: str) -> str:
    """The column with what a field of the pattern is in the path."""
    return f"_mere_value_{field}"


def paths_for_spark(paths: Iterable[str]) -> list[str]:
    """For Spark a path is a pattern; here it is a name, whatever stands in it."""
    return [_PATTERN.sub(r"\\\1", path) for path in paths]


def located(
    frame: DataFrame,
    portions: Iterable[Portion],
    addresses: Mapping[str, str],
    fields: Mapping[str, str],
    spark: SparkSession,
) -> DataFrame:
    """`frame`: as it is read from these files, and nothing else done to it yet; `addresses`: of the portions, a path or
    s3a://bucket/key; `fields`: the types of what the path
    says."""
    import pyarrow as pa
    from pyspark.sql import functions

    by_path = {addresses[each.name]: each for each in portions}
    read = {uri: by_path.pop(_address(uri), None) for uri in frame.inputFiles()}
    if by_path:
        raise RunFailed(f"Spark does not find {next(iter(by_path.values())).name}. Nothing was loaded.")
    if len(read) == 1:
        (only,) = (each for each in read.values() if each is not None)
        return frame.selectExpr("*", *_constants(only, fields))
    # Spark writes the address of a file in two ways.
    found = {way: each for uri, each in read.items() if each for way in (uri, uri.replace("file:///", "file:/"))}
    known: dict[str, list[str | None]] = {_KNOWN: list(found), _NAME: [each.name for each in found.values()]}
    known |= {value_of(field): [each.values.get(field) for each in found.values()] for field in fields}
    table = pa.table({name: pa.array(values, pa.string()) for name, values in known.items()})
    values = (f"CAST({value_of(field)} AS {kind}) AS {value_of(field)}" for field, kind in fields.items())
    names = functions.broadcast(from_arrow(spark, table).selectExpr(_KNOWN, _NAME, *values))
    rows = frame.selectExpr("*", f"_metadata.file_path AS {_PATH}").join(names, expr(f"{_PATH} = {_KNOWN}"), "left")
    sure = f"coalesce({_NAME}, raise_error(concat('No file of the source is ', {_PATH}))) AS {PORTION}"
    return rows.selectExpr(*map(quoted, frame.columns), *map(value_of, fields), sure)


def _address(uri: str) -> str:
    parts = urlsplit(uri)
    return (
        unquote(parts.path) if parts.scheme in ("", "file") else f"{parts.scheme}://{parts.netloc}{unquote(parts.path)}"
    )


def _constants(portion: Portion, fields: Mapping[str, str]) -> list[str]:
    """Of one file, nothing has to be looked up for its rows."""
    texts = {field: portion.values.get(field) for field in fields}
    values = {field: "NULL" if text is None else text_literal(text) for field, text in texts.items()}
    typed = [f"CAST({values[field]} AS {kind}) AS {value_of(field)}" for field, kind in fields.items()]
    return [*typed, f"{text_literal(portion.name)} AS {PORTION}"]
