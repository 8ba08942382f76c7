"""to_char, to_date, to_timestamp: translates Postgres's patterns, known before the query runs, into DuckDB's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from mere.serve.language.mend.tree import call, cast, macro, number, text
from mere.serve.protocol.port import PgError

# The longest first. Those that DuckDB's strftime has; the others are computed.
_TIMES = {
    "YYYY": "%Y", "YY": "%y", "MM": "%m", "DDD": "%j", "DD": "%d", "HH24": "%H", "HH12": "%I", "HH": "%I", "MI": "%M",
    "SS": "%S", "MS": "%g", "US": "%f", "FF3": "%g", "FF6": "%f", "Mon": "%b", "Month": "%B", "Dy": "%a",
    "Day": "%A", "AM": "%p", "PM": "%p",
    "IYYY": "%G", "IW": "%V", "ID": "%u",
}  # fmt: skip
_PADDED = {"Month": 9, "Day": 9}
_OTHER = ("MONTH", "month", "MON", "mon", "DAY", "day", "DY", "dy", "am", "pm", "Q", "D", "J", "CC", "WW", "W", "TZ",
          "OF", "SSSS")  # fmt: skip
_TOKEN = re.compile(
    r'"((?:[^"\\]|\\.)*)"|(FM|TM)?('
    + "|".join(sorted([*_TIMES, *_OTHER], key=lambda each: -len(each)))
    + r")(th|TH)?|(.)",
    re.DOTALL,
)
_LOWER = {
    each.lower(): each
    for each in ("YYYY", "YY", "MM", "DDD", "DD", "HH24", "HH12", "HH", "MI", "SS", "MS", "US", "IYYY", "IW")
}


def to_char(values: Sequence[exp.Expr]) -> exp.Expr:
    if len(values) != 2:
        raise PgError("42883", "function to_char takes a value and a pattern")
    value, pattern = values
    if not pattern.is_string:
        raise PgError("0A000", "to_char takes a plain text as its pattern")
    written = pattern.name
    if re.search(r"[90]", re.sub(r'"[^"]*"', "", written)) and not re.search(
        r"YY|MM|DD|HH|MI[^\d]*SS|SS|Mon|Dy|Day", written, re.I
    ):
        return _number(value, written)
    return _time(value, written)


def _time(value: exp.Expr, written: str) -> exp.Expr:
    pieces: list[exp.Expr] = []
    plain = ""
    for found in _TOKEN.finditer(_upper(written)):
        quoted, modifier, token, ordinal, other = found.groups()
        if token is None:
            plain += (re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else other).replace("%", "%%")
            continue
        if ordinal:
            raise PgError("0A000", "to_char with th is not supported")
        made = _directive(value, token, modifier)
        if isinstance(made, str):
            plain += made
            continue
        if plain:
            pieces.append(call("strftime", value, text(plain)))
            plain = ""
        pieces.append(made)
    if plain or not pieces:
        pieces.append(call("strftime", value, text(plain)))
    joined = pieces[0]
    for piece in pieces[1:]:
        joined = exp.DPipe(this=joined, expression=piece)
    return exp.paren(joined, copy=False) if len(pieces) > 1 else joined


def _upper(written: str) -> str:
    """yyyy-mm-dd is the same as YYYY-MM-DD; only the names of months and days follow their case."""
    parts = re.split(r'("(?:[^"\\]|\\.)*")', written)
    names = "|".join(sorted(_LOWER, key=lambda each: -len(each)))
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(rf"(?:{names})", lambda found: _LOWER[found[0]], parts[at])
    return "".join(parts)


def _directive(value: exp.Expr, token: str, modifier: str | None) -> str | exp.Expr:
    """A piece of a strftime format, or an expression of its own."""
    filled = modifier is None
    if token in _PADDED and filled:
        return call("rpad", call("strftime", value, text(_TIMES[token])), number(_PADDED[token]), text(" "))
    if token in _TIMES:
        return _TIMES[token] if filled or token not in _STRIPPED else f"%-{_TIMES[token][1]}"
    if token in ("MONTH", "month", "MON", "mon", "DAY", "day", "DY", "dy", "am", "pm"):
        directive = {"month": "%B", "mon": "%b", "day": "%A", "dy": "%a", "am": "%p", "pm": "%p"}[token.lower()]
        name = call("upper" if token.isupper() else "lower", call("strftime", value, text(directive)))
        return call("rpad", name, number(9), text(" ")) if filled and token.lower() in ("month", "day") else name
    part = {"Q": "quarter", "J": "julian", "CC": "century"}.get(token)
    if part is not None:
        return cast(cast(call("date_part", text(part), value), "BIGINT"), "VARCHAR")
    if token == "D":
        return cast(exp.Add(this=call("date_part", text("dow"), value), expression=number(1)), "VARCHAR")
    raise PgError("0A000", f"to_char with {token} is not supported")


_STRIPPED = frozenset({"MM", "DD", "DDD", "HH24", "HH12", "HH", "MI", "SS", "YY"})


def _number(value: exp.Expr, written: str) -> exp.Expr:
    """`FM999,990.00`: digits before and after the point, zeros from where a 0 stands."""
    fill = "FM" not in written.upper()
    body = re.sub("FM", "", written, flags=re.IGNORECASE)
    if re.search(r"[^90.,DG ]", body):
        raise PgError("0A000", "to_char of numbers takes patterns of 9, 0, comma, point and FM")
    body = body.replace("D", ".").replace("G", ",")
    whole, _, fraction = body.partition(".")
    digits = len(re.sub("[^90]", "", whole))
    places = len(re.sub("[^90]", "", fraction))
    first_zero = re.sub("[^90]", "", whole).find("0")
    zeros = digits - first_zero if first_zero >= 0 else 0
    optional = len(re.sub("[^90]", "", fraction).rstrip("9"))
    if "," in whole and not re.fullmatch(r"[90]{0,3}(,[90]{3})*", whole):
        raise PgError("0A000", "to_char of numbers takes commas between thousands only")
    shown = cast(cast(call("abs", value), f"DECIMAL(38,{places})"), "VARCHAR")
    width = len(whole.replace(" ", "")) + (places + 1 if "." in body else 0) + 1
    counts = [number(each) for each in (digits, places, zeros, optional)]
    negative = exp.LT(this=value.copy(), expression=number(0))
    flags = [exp.Boolean(this="," in whole), exp.Boolean(this=fill), number(width), exp.Boolean(this="." in body)]
    return macro("number_text", shown, negative, *counts, *flags)


def to_date(values: Sequence[exp.Expr]) -> exp.Expr:
    return cast(_parsed("to_date", values), "DATE")


def to_timestamp(values: Sequence[exp.Expr]) -> exp.Expr:
    if len(values) == 1:
        return call("to_timestamp", values[0])
    return cast(_parsed("to_timestamp", values), "TIMESTAMPTZ")


def _parsed(function: str, values: Sequence[exp.Expr]) -> exp.Expr:
    if len(values) != 2 or not values[1].is_string:
        raise PgError("0A000", f"{function} takes a plain text as its pattern")
    made = ""
    for found in _TOKEN.finditer(_upper(values[1].name)):
        quoted, _, token, _, other = found.groups()
        if token is None:
            made += (quoted if quoted is not None else other).replace("%", "%%")
        elif token in _TIMES:
            made += _TIMES[token]
        else:
            raise PgError("0A000", f"{function} with {token} is not supported")
    return call("strptime", values[0], text(made))
