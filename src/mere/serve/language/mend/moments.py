"""Literals of dates and times: the spellings of Postgres that DuckDB does not take, in the one that it does."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal

from mere.serve.protocol.port import PgError

_WRITTEN = re.compile(
    r"""\s*
    (?:(?P<year>\d{4})(?P<dash>[-/]?)(?P<month>\d{1,2})(?P=dash)(?P<day>\d{1,2})(?:\s+|[tT](?=\d)|(?=[zZ+])|$))?
    (?:(?P<hour>\d{1,2})(?P<colon>:?)(?P<minute>\d{1,2})(?:(?P=colon)(?P<second>\d{1,2}(?:\.\d+)?))?)?
    \s*(?P<zone>[zZ]|[uU][tT][cC]|[gG][mM][tT]|[+-]\d{1,2}(?::?\d{2}(?::\d{2})?)?)?
    \s*""",
    re.VERBOSE,
)
# An hour alone, or a comma before the fraction.
_LENIENT = re.compile(r"\s*\d+-\d+-\d+\s+\d{1,2}(?!\d|:)(\s.*|[-+].*)?|.*\d,\d.*")


def plain(written: str, kind: str) -> str:
    """`20240701T1200 +5:30` as `2024-07-01 12:00:00+05:30`; what is not read for sure stays as it is."""
    if _LENIENT.fullmatch(written):  # DuckDB would read the beginning alone
        long = {"timestamp": "timestamp", "timestamptz": "timestamp with time zone"}.get(kind, kind)
        raise PgError("22007", f'invalid input syntax for type {long}: "{written}"')
    found = _WRITTEN.fullmatch(written)
    if not found or (found["year"] is None) != (kind == "time") or not _is_sure(found):
        return written
    time = ""
    if found["hour"]:
        second = Decimal(found["second"] or "0").quantize(Decimal("0.000001"), ROUND_HALF_EVEN)
        if second >= 60:
            return written
        time = f"{int(found['hour']):02}:{int(found['minute']):02}:{second:09.6f}"
    if kind == "time":
        return time
    day = f"{found['year']}-{int(found['month']):02}-{int(found['day']):02}"
    if kind == "date":
        return day
    zone = _zone(found["zone"]) if kind == "timestamptz" else ""
    return f"{day} {time or '00:00:00'}{zone}"


def _is_sure(found: re.Match[str]) -> bool:
    if found["year"] and not found["dash"] and len(found["month"] + found["day"]) != 4:
        return False
    if not found["hour"]:
        return found["year"] is not None
    # Without colons there are four digits or six, and only after a date.
    parts = (found["hour"], found["minute"], (found["second"] or "00").partition(".")[0])
    return bool(found["colon"]) or (found["year"] is not None and all(len(each) == 2 for each in parts))


def _zone(written: str | None) -> str:
    if not written:
        return ""
    if written[0] not in "+-":
        return "+00"
    digits = written[1:].replace(":", "")
    digits = digits.zfill(len(digits) + len(digits) % 2)
    return written[0] + ":".join(digits[at : at + 2] for at in range(0, len(digits), 2))
