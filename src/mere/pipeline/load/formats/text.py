"""Turns lines of text into rows: cuts each into values and each value into its column's type; what does not fit is a
reason why the row is bad. In Spark SQL, in layers, so that nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mere.audits.quarantine import NO_RULES, gathered
from mere.names import RULES
from mere.pipeline.load.formats.columns import Target
from mere.pipeline.load.formats.headers import LATIN_1, Charset, quoted_value, well_formed
from mere.sources.source import Text
from mere.sql.spelling.spark import quoted, text_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# What a row has besides its columns: what is wrong with it, and how it came.
WHY, LINE, RAW = "_why", "_line", "_raw"
# Rules that a record breaks as a whole. That a value is not of its type is told by column: `of_type`.
ENCODING, MALFORMED, VALUES = "encoding", "malformed", "values"

CORRUPT = "corrupt"
_SHOWN = 80
# Of more values in a line, Spark's parser fails with the whole file.
_MOST_VALUES = 20_000
# Stands for a value that is not there, where an empty one in quotes is a value: no file has it.
_NOTHING = "\U000f0000mere\U000f0000"
_NESTED = ("struct<", "array<", "map<")
_TIMES = ("date", "timestamp", "timestamp_ntz")


def of_type(column: str) -> str:
    return f"type of {column}"


@dataclass(frozen=True)
class Cell:
    """A column of the table, and its value in a record, in SQL; None: the record has none."""

    target: Target
    raw: str | None

    @property
    def _is_nested(self) -> bool:
        return str(self.target.type).startswith(_NESTED)

    def typed(self) -> str:
        kind = self.target.sql
        if self.raw is None:
            return f"CAST(NULL AS {kind})"
        if str(self.target.type) == "string":
            return self.raw
        if self._is_nested:
            return _from_json(f"concat('{{\"v\":', {self.raw}, '}}')", f"v {kind}, {CORRUPT} string")
        if self.target.format and self.target.type in _TIMES:
            return f"CAST(try_to_timestamp({self.raw}, {text_literal(self.target.format)}) AS {kind})"
        return f"try_cast({self.raw} AS {kind})"

    def value(self, typed: str) -> str:
        return f"{typed}.v" if self._is_nested and self.raw is not None else typed

    def is_bad(self, typed: str) -> str | None:
        """That there is a text, and that it says nothing of this type. An empty one is no value."""
        if self.raw is None or str(self.target.type) == "string":
            return None
        failed = f"{typed}.{CORRUPT} IS NOT NULL" if self._is_nested else f"{typed} IS NULL"
        return f"({failed} AND trim({self.raw}) <> '')"

    def why(self) -> str:
        return f"concat({text_literal(self.target.name + ': ')}, {shown(str(self.raw))}, {text_literal(self._not)})"

    @property
    def _not(self) -> str:
        return f" is not {self.target.sql}" + (f" ({self.target.format})" if self.target.format else "")


def shown(sql: str) -> str:
    return f"concat('\\'', left({sql}, {_SHOWN}), IF(length({sql}) > {_SHOWN}, '…', ''), '\\'')"


def decoded(bytes_: str, charset: Charset | None) -> str:
    """The text of bytes that Spark took for UTF-8."""
    return from_latin_1(f"decode(CAST({bytes_} AS binary), 'ISO-8859-1')", charset) if charset else bytes_


def from_latin_1(sql: str, charset: Charset | None) -> str:
    """Spark knows only a few encodings; what it read in the one that has a character for every byte is put right."""
    if charset is None or charset.upper == LATIN_1:
        return sql
    return f"translate({sql}, {text_literal(LATIN_1)}, {text_literal(charset.upper)})"


def _is_no_text(charset: Charset | None) -> str:
    return f"{'NOT is_valid_utf8(value)' if charset is None else _HAS_HOLES} OR contains(value, char(0))"


_HAS_HOLES = "contains(value, '\ufffd')"


def csv_rows(lines: DataFrame, width: int, text: Text, charset: Charset | None) -> DataFrame:
    """Of lines, `value`, the values as `record`, and what is `wrong` with them, if anything."""
    is_malformed = "false"
    if text.quote:
        quote, pattern = text_literal(text.quote), text_literal(well_formed(text))
        is_malformed = f"contains(value, {quote}) AND NOT value RLIKE {pattern}"
    most = max(_MOST_VALUES, width)
    too_wide = (
        f"octet_length(value) > {most} AND {_count('value', text)} > {most} AND {_count(_bare(text), text)} > {most}"
    )
    judged = lines.selectExpr(
        "*",
        f"CASE WHEN {too_wide} THEN '{VALUES}' WHEN {_is_no_text(charset)} THEN '{ENCODING}'"
        f" WHEN {is_malformed} THEN '{MALFORMED}' END AS line_wrong",
    )
    schema = ", ".join([*(f"c{at} string" for at in range(width)), f"{CORRUPT} string"])
    parsable = f"IF(coalesce(line_wrong, '{ENCODING}') = '{ENCODING}', value, NULL)"
    options = _map({**csv_options(text), "maxColumns": str(most + 1)})
    parsed = judged.selectExpr("*", f"from_csv({parsable}, {text_literal(schema)}, {options}) AS record")
    return parsed.selectExpr("*", f"coalesce(line_wrong, IF(record.{CORRUPT} IS NOT NULL, '{VALUES}', NULL)) AS wrong")


def csv_options(text: Text) -> dict[str, str]:
    return {
        "sep": text.delimiter,
        "quote": text.quote,
        "escape": text.escape,
        "nullValue": text.null or _NOTHING,
        "emptyValue": "",
        "columnNameOfCorruptRecord": CORRUPT,
        "mode": "PERMISSIVE",
    }


def _map(options: Mapping[str, str]) -> str:
    return f"map({', '.join(text_literal(each) for pair in options.items() for each in pair)})"


def _bare(text: Text) -> str:
    """A line without the values in quotes."""
    return f"regexp_replace(value, {text_literal(quoted_value(text))}, '')" if text.quote else "value"


def _count(line: str, text: Text) -> str:
    """How many values it has."""
    delimiter = text_literal(text.delimiter)
    return f"((length({line}) - length(replace({line}, {delimiter}))) div length({delimiter}) + 1)"


def csv_why(width: int, text: Text) -> dict[str, str]:
    """Of a line, by what is wrong with it: in words, in SQL."""
    return {
        ENCODING: text_literal(f"the line is not text in {text.encoding}, or has a NUL in it"),
        MALFORMED: f"concat('a quote is not closed where the value ends: ', {shown('value')})",
        VALUES: f"concat({_count(_bare(text), text)}, {text_literal(f' values, where there should be {width}')})",
    }


def json_rows(lines: DataFrame, charset: Charset | None) -> DataFrame:
    """As `csv_rows`. Behind each record stands an empty one: only a line with a whole record, and nothing else, makes
    two. A number keeps its digits, which it would not as text of JSON: up to 38, as many as a decimal has."""
    parsed = lines.selectExpr(
        "*", f"from_json(concat('[', value, ',{{}}]'), 'array<variant>', {JSON_OPTIONS}) AS parsed"
    )
    is_object = "startswith(ltrim(' \t\r\n', value), '{') AND size(parsed) <=> 2"
    return parsed.selectExpr(
        "*",
        "get(parsed, 0) AS record",
        f"CASE WHEN {_is_no_text(charset)} THEN '{ENCODING}' WHEN NOT ({is_object}) THEN '{MALFORMED}' END AS wrong",
    )


def json_value(key: str) -> str:
    """Of a record, as text, in SQL."""
    if key and not set(".[") & set(key):
        return f"try_variant_get(record, {text_literal(f'$.{key}')}, 'string')"
    if key and not set("'?") & set(key):
        path = f"$['{key}']"
        return f"try_variant_get(record, {text_literal(path)}, 'string')"
    return f"CAST(try_element_at(CAST(record AS map<string, variant>), {text_literal(key)}) AS string)"


def json_why(encoding: str) -> dict[str, str]:
    return {
        ENCODING: text_literal(f"the record is not text in {encoding}, or has a NUL in it"),
        MALFORMED: f"concat('not one JSON object: ', {shown('value')})",
    }


JSON_OPTIONS = _map({"allowSingleQuotes": "false"})


def _from_json(text: str, schema: str) -> str:
    return f"from_json({text}, {text_literal(schema)}, {_map({'columnNameOfCorruptRecord': CORRUPT})})"


def typed_rows(
    records: DataFrame, cells: Sequence[Cell], whys: Mapping[str, str], kept: Mapping[str, str], raw: str
) -> DataFrame:
    """The rows of the table, and why some of them are bad. `kept`: columns that go on as they are, in SQL, by name."""
    typed = records.selectExpr("*", *(f"{cell.typed()} AS t{at}" for at, cell in enumerate(cells)))
    bad = {f"t{at}": condition for at, cell in enumerate(cells) if (condition := cell.is_bad(f"t{at}"))}
    by_name = {f"t{at}": cell for at, cell in enumerate(cells)}
    any_bad = " OR ".join(bad.values()) or "false"
    rules = gathered((condition, text_literal(of_type(by_name[t].target.name))) for t, condition in bad.items())
    reasons = gathered((condition, by_name[t].why()) for t, condition in bad.items())
    told = " ".join(f"WHEN '{rule}' THEN {sql}" for rule, sql in whys.items())
    return typed.selectExpr(
        *(f"{cell.value(f't{at}')} AS {quoted(cell.target.name)}" for at, cell in enumerate(cells)),
        *(f"{sql} AS {quoted(name)}" for name, sql in kept.items()),
        f"CASE WHEN wrong IS NOT NULL THEN array(wrong) WHEN {any_bad} THEN {rules} ELSE {NO_RULES} END AS {RULES}",
        f"CASE WHEN wrong IS NOT NULL THEN CASE wrong {told} END"
        f" WHEN {any_bad} THEN array_join({reasons}, '; ') END AS {WHY}",
        f"CAST(NULL AS bigint) AS {LINE}",
        f"{raw} AS {RAW}",
    )
