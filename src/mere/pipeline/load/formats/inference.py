"""The type of a new column of text files or records: inferred from all its values, and only if none loses anything.

| type | if every value, empty ones apart, is |
|---|---|
| `boolean` | `true` or `false` |
| `bigint` | a whole number of at most 18 digits, without a zero or a plus before it |
| `double` | a number of at most 15 digits, without a needless zero or a plus before it |
| `date` | `2024-01-31` |
| `timestamp`, `timestamp_ntz` | `2024-01-31 10:00`, or with a T, seconds and fractions; all with an offset, or none |
| `string` | anything else |
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING

from mere.sql.spelling.spark import quoted, text_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHOLE = r"^(0|-?[1-9][0-9]{0,17})$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,2})?$"
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = _DAY + r"[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_OFFSET = "(Z|[+-][0-9]{2}:[0-9]{2})"


def _is_like(pattern: str) -> str:
    return f"v RLIKE {text_literal(pattern)}"


def _is_a(kind: str, pattern: str) -> str:
    return f"{_is_like(pattern)} AND try_cast(v AS {kind}) IS NOT NULL"


_DIGITS = f"length(regexp_replace(v, {text_literal('[eE].*|[^0-9]')}, ''))"
_KINDS = {
    "boolean": "lower(v) IN ('true', 'false')",
    "bigint": _is_like(_WHOLE),
    "double": f"{_is_like(_NUMBER)} AND {_DIGITS} <= 15",
    "date": _is_a("date", f"^{_DAY}$"),
    "timestamp": _is_a("timestamp", f"^{_TIME}{_OFFSET}$"),
    "timestamp_ntz": _is_a("timestamp_ntz", f"^{_TIME}$"),
}


def kinds_of(texts: Sequence[DataFrame], columns: Sequence[str]) -> dict[str, str | None]:
    """`texts`: rows with some of the columns, as text. None: a column has no value that would tell."""
    from pyspark.sql import functions

    long = []
    for frame in texts:
        there = [name for name in columns if name in frame.columns]
        pairs = ", ".join(f"struct({text_literal(name)} AS c, trim({quoted(name)}) AS v)" for name in there)
        if there:
            long.append(frame.selectExpr(f"inline(array({pairs}))").where("v <> ''"))
    if not long:
        return dict.fromkeys(columns)
    told = [functions.expr(f"every({sql})").alias(kind) for kind, sql in _KINDS.items()]
    rows = reduce(lambda one, other: one.union(other), long).groupBy("c").agg(*told).collect()
    found: dict[str, str | None] = {row["c"]: next((kind for kind in _KINDS if row[kind]), "string") for row in rows}
    return {name: found.get(name) for name in columns}
