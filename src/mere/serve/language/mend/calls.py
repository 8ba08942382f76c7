"""Function calls: to a DuckDB function of the same or another name, to a macro of our own, or rewritten."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlglot import exp

from mere.serve.engine import functions
from mere.serve.language import guard
from mere.serve.language.mend import casts, formats, patterns, session
from mere.serve.language.mend.tree import call, cast, macro, number, roomy, text
from mere.serve.parse.words import words
from mere.serve.protocol.port import PgError
from mere.sql.spelling.standard import quoted

if TYPE_CHECKING:
    from mere.serve.language.mend.operators import Context

_Args = list[exp.Expr]


def mend(node: exp.Anonymous, context: Context) -> exp.Expr:
    is_macro = isinstance(node.parent, exp.Dot) and node.parent.this.name == functions.SCHEMA
    if node.meta.get("mended") or is_macro:
        return node
    name, values = guard.function_name(node), node.expressions
    if name in functions.SESSION:
        return session.tell(name, values, context)
    if name in functions.TABLES:
        return _set_returning(node, name, values)
    if (rewrite := _REWRITES.get(name)) is not None:
        try:
            return rewrite(values)
        except (IndexError, ValueError):  # there are too few of them
            raise PgError("42883", f"function {name} does not take these arguments") from None
    if name in functions.OURS:
        return _ours(name, values)
    return _renamed(node, functions.RENAMED.get(name, name))


def _renamed(node: exp.Anonymous, name: str) -> exp.Expr:
    node.set("this", name)
    node.meta["mended"] = True
    return node


def _ours(name: str, values: _Args) -> exp.Expr:
    if name in ("lpad", "rpad") and len(values) == 2:
        values = [*values, text(" ")]
    if name == "string_to_array" and len(values) == 3:
        name = "string_to_array_null"
    if name == "array_to_string" and len(values) == 3:
        name = "array_to_string_null"
    if name == "log" and len(values) == 2:
        return exp.Div(this=macro("ln", values[1]), expression=macro("ln", values[0]))
    return macro(name, *values)


# Functions that return rows.


def table_function(table: exp.Expr) -> exp.Expr:
    """A function in FROM. Its one column has the name of its alias; in DuckDB it would have the function's."""
    if isinstance(table, exp.Lateral) and isinstance(table.this, exp.Unnest):
        # A function sees what stands before it with or without the word.
        alias = table.args.get("alias") or table.this.args.get("alias")
        table = exp.Unnest(expressions=table.this.expressions, alias=alias, offset=table.this.args.get("offset"))
    function = table.this if isinstance(table, exp.Table | exp.Lateral) else table
    if isinstance(function, exp.Anonymous):
        name = function.meta.get("name", str(function.this))
    elif isinstance(function, exp.Unnest) and len(function.expressions) == 1 and not function.args.get("offset"):
        name = "unnest"
    else:
        return table
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    if not alias.args.get("columns"):
        alias.set("columns", [exp.to_identifier(alias.name, quoted=True)])
    table.set("alias", alias)
    return table


def _set_returning(node: exp.Anonymous, name: str, values: _Args) -> exp.Expr:
    """As a list that is unnested: DuckDB's own table functions do not take columns."""
    series: dict[str, Callable[[_Args], exp.Expr]] = {
        "generate_series": _series,
        "string_to_table": lambda given: _ours("string_to_array", given),
        "regexp_split_to_table": _split,
        "regexp_matches": _regexp_matches,
        "json_array_elements": _json_elements,
        "jsonb_array_elements": _json_elements,
        "json_array_elements_text": _json_elements_text,
        "jsonb_array_elements_text": _json_elements_text,
        "json_object_keys": lambda given: call("json_keys", given[0]),
        "jsonb_object_keys": lambda given: call("json_keys", given[0]),
    }
    in_from = isinstance(node.parent, exp.Table | exp.Lateral)
    if name == "generate_series" and in_from and not node.find(exp.Column):
        made = _series(values, as_list=False)
    elif name in series:
        made = call("unnest", series[name](values))
    else:
        made = call("unnest", *values)
    made.meta["name"] = name
    return made


def _series(values: _Args, *, as_list: bool = True) -> exp.Expr:
    """In FROM its rows come one by one, however many they are; a list is bounded."""
    if not 2 <= len(values) <= 3:
        raise PgError("42883", "function generate_series takes a start, an end and a step")
    first, last, *step = values
    if any(_is_time(each) for each in values):
        if not step:
            raise PgError("42883", "function generate_series(timestamp, timestamp) does not exist")
        by = casts.interval(step[0].name) if step[0].is_string else step[0]
        times = [_as_time(first), _as_time(last), by]
        return macro("series_of_times", *times) if as_list else call("generate_series", *times)
    if as_list:
        return macro("series", first, last, *(step or [number(1)]))
    return call("generate_series", *values)


def _is_time(node: exp.Expr) -> bool:
    kinds = ("DATE", "TIME", "INTERVAL")
    if isinstance(node, exp.Cast):
        return any(kind in node.args["to"].sql().upper() for kind in kinds)
    shown = node.sql().upper()
    return any(kind in shown for kind in ("INTERVAL", "NOW(", "CURRENT_DATE", "DATE_TRUNC", "TIMESTAMP", "AS DATE"))


def _as_time(node: exp.Expr) -> exp.Expr:
    zoned = "TIMESTAMPTZ" in node.sql().upper() or "NOW(" in node.sql().upper()
    return node if zoned else cast(node, "TIMESTAMP")


def _json_elements(values: _Args) -> exp.Expr:
    return call("json_extract", values[0], text("$[*]"))


def _json_elements_text(values: _Args) -> exp.Expr:
    return call("json_extract_string", values[0], text("$[*]"))


# Functions that are something else in DuckDB.


def substring(value: exp.Expr, start: exp.Expr, length: exp.Expr | None) -> exp.Expr:
    """A start below 1 counts from there, and not from the text's end."""
    if length is None:
        return call("substring", value, _at_least_one(start))
    if isinstance(start, exp.Literal) and int(start.name) >= 1 and isinstance(length, exp.Literal):
        return call("substring", value, start, length)
    return macro("substring", value, start, length)


def _at_least_one(start: exp.Expr) -> exp.Expr:
    return start if isinstance(start, exp.Literal) and start.name != "0" else call("greatest", start, number(1))


def _substring(values: _Args) -> exp.Expr:
    return substring(values[0], values[1], values[2] if len(values) > 2 else None)


def extract(part: str, value: exp.Expr) -> exp.Expr:
    """A numeric; seconds with their fraction, which DuckDB cuts off."""
    unit = part.lower().strip("'\"")
    unit = {"seconds": "second", "years": "year", "days": "day", "hours": "hour", "minutes": "minute"}.get(unit, unit)
    if unit not in _PARTS:
        raise PgError("22023", f'unit "{unit}" not recognized for type timestamp without time zone')
    if unit == "epoch":
        return macro("epoch", value)
    if unit == "second":
        return exp.paren(exp.Mul(this=call("date_part", text("microsecond"), value), expression=_literal("0.000001")))
    if unit in ("millisecond", "milliseconds"):
        return exp.paren(exp.Mul(this=call("date_part", text("microsecond"), value), expression=_literal("0.001")))
    return call("date_part", text(unit), value)


_PARTS = words("""
    century day decade dow doy epoch hour isodow isoyear julian microsecond microseconds millennium millisecond
    milliseconds minute month quarter second timezone timezone_hour timezone_minute week year
""")


def _literal(written: str) -> exp.Expr:
    return exp.Literal.number(written)


def _date_part(values: _Args) -> exp.Expr:
    return cast(extract(session.plain(values[0], "date_part"), values[1]), "DOUBLE")


def _age(values: _Args) -> exp.Expr:
    return macro("age_between", *values) if len(values) == 2 else macro("age_now", *values)


def _regexp_replace(values: _Args) -> exp.Expr:
    value, pattern, new, *flags = values
    if len(flags) > 1 or (flags and not flags[0].is_string):
        raise PgError("0A000", "regexp_replace with a start and a number is not supported")
    if new.is_string:
        new = text(new.name.replace("\\&", "\\0"))
    chosen = patterns.options(flags[0] if flags else None)
    return macro("regexp_replace", value, patterns.plain(pattern), new, text("s" + chosen))


def _regexp_match(values: _Args) -> exp.Expr:
    value, pattern = values[0], values[1]
    if not pattern.is_string:
        raise PgError("0A000", "regexp_match takes a plain text as its pattern")
    chosen = "s" + patterns.options(values[2] if len(values) > 2 else None).replace("g", "")
    numbers = range(1, patterns.groups(pattern) + 1) or [0]
    found = [call("regexp_extract", value, patterns.plain(pattern), number(at), text(chosen)) for at in numbers]
    condition = call("regexp_matches", value, patterns.plain(pattern), text(chosen))
    return exp.Case().when(condition, exp.Array(expressions=found))


def _regexp_matches(values: _Args) -> exp.Expr:
    """One row with the groups, or none."""
    if len(values) > 2 and "g" in patterns.options(values[2]):
        raise PgError("0A000", "regexp_matches with the flag g is not supported")
    found = _regexp_match(values)
    return exp.Case().when(exp.Is(this=found, expression=exp.Null()), exp.Array()).else_(exp.Array(expressions=[found]))


def _split(values: _Args) -> exp.Expr:
    return call("string_split_regex", values[0], patterns.plain(values[1]))


def _regexp_count(values: _Args) -> exp.Expr:
    return cast(call("len", call("regexp_extract_all", values[0], patterns.plain(values[1]))), "INTEGER")


def _regexp_like(values: _Args) -> exp.Expr:
    flags = patterns.options(values[2] if len(values) > 2 else None)
    return patterns.matches(values[0], values[1], insensitive="i" in flags)


def _regexp_substr(values: _Args) -> exp.Expr:
    found = call("regexp_extract", values[0], patterns.plain(values[1]), number(0), text("s"))
    return exp.Case().when(patterns.matches(values[0], values[1], insensitive=False), found)


def _trunc(values: _Args) -> exp.Expr:
    return call("trunc", values[0]) if len(values) == 1 else macro("truncated", *values)


def _num_nulls(values: _Args) -> exp.Expr:
    return _count_of(values, nulls=True)


def _num_nonnulls(values: _Args) -> exp.Expr:
    return _count_of(values, nulls=False)


def _count_of(values: _Args, *, nulls: bool) -> exp.Expr:
    total: exp.Expr = number(0)
    for value in values:
        is_null = exp.paren(exp.Is(this=value.copy(), expression=exp.Null()))
        wanted = is_null if nulls else exp.paren(exp.Not(this=is_null))
        total = exp.Add(this=total, expression=cast(wanted, "INTEGER"))
    return exp.paren(total, copy=False)


def _json_path(function: str) -> Callable[[_Args], exp.Expr]:
    def extracted(values: _Args) -> exp.Expr:
        steps = [session.plain(each, "json_extract_path") for each in values[1:]]
        path = "$" + "".join(f"[{step}]" if step.isdigit() else f".{quoted(step)}" for step in steps)
        return call(function, values[0], text(path))

    return extracted


def _encode(values: _Args) -> exp.Expr:
    form = session.plain(values[1], "encode")
    if form == "hex":
        return call("lower", call("hex", values[0]))
    if form == "base64":
        return call("base64", values[0])
    if form == "escape":
        return macro("escaped", values[0])
    raise PgError("22023", f'unrecognized encoding: "{form}"')


def _decode(values: _Args) -> exp.Expr:
    form = session.plain(values[1], "decode")
    if form in ("hex", "base64"):
        return call("unhex" if form == "hex" else "from_base64", values[0])
    if form == "escape":
        return macro("unescaped", values[0])
    raise PgError("22023", f'unrecognized encoding: "{form}"')


def _format(values: _Args) -> exp.Expr:
    """format('%s of %I'): joined, piece by piece."""
    pieces: _Args = []
    rest = iter(values[1:])
    for found in re.finditer(r"%(.?)|[^%]+", session.plain(values[0], "format")):
        kind = found[1]
        if kind is None or kind == "%":
            pieces.append(text(found[0] if kind is None else "%"))
            continue
        value = next(rest, None)
        if value is None:
            raise PgError("22023", "too few arguments for format()")
        if kind not in ("s", "I", "L"):
            raise PgError("22023", f'unrecognized format() type specifier "{kind}"')
        name = {"s": "text", "I": "quote_ident", "L": "quote_nullable"}[kind]
        pieces.append(macro(name, value))
    return roomy(call("concat", *pieces), pieces) if pieces else text("")


def _make_interval(values: _Args) -> exp.Expr:
    units = ("years", "months", "weeks", "days", "hours", "mins", "secs")
    functions_of = {"mins": "to_minutes", "secs": "to_seconds"}
    total: exp.Expr = cast(text("0 days"), "INTERVAL")
    for at, value in enumerate(values):
        unit = value.this.name.lower() if isinstance(value, exp.Kwarg) else units[at] if at < len(units) else ""
        if unit not in units:
            raise PgError("42883", "function make_interval does not take these arguments")
        given = value.expression if isinstance(value, exp.Kwarg) else value
        made = call(functions_of.get(unit, f"to_{unit}"), given)
        total = exp.Add(this=total, expression=made)
    return exp.paren(total, copy=False)


def _date_bin(values: _Args) -> exp.Expr:
    width = casts.interval(values[0].name) if values[0].is_string else values[0]
    return call("time_bucket", width, values[1], *values[2:])


def within_group(node: exp.Expr) -> exp.Expr:
    """percentile_cont(0.5) WITHIN GROUP (ORDER BY x)"""
    function, order = node.this, node.expression
    ordered = order.expressions[0]
    name = str(function.this)
    if len(order.expressions) != 1 or name not in ("percentile_cont", "percentile_disc", "mode"):
        raise PgError("0A000", f"{name} WITHIN GROUP is not supported")
    if name == "mode":
        return call("mode", ordered.this)
    share = function.expressions[0]
    if ordered.args.get("desc"):
        share = exp.Sub(this=number(1), expression=share.copy())
    if name == "percentile_disc":
        return call("quantile_disc", ordered.this, share)
    return call("quantile_cont", cast(ordered.this, "DOUBLE"), share)  # of a numeric, DuckDB would keep the digits


def _neighbour(name: str) -> Callable[[_Args], exp.Expr]:
    """Of a row, so many before or after it."""

    def rewrite(values: _Args) -> exp.Expr:
        if len(values) < 2 or isinstance(values[1], exp.Literal):
            return call(name, *values)
        return call(name, values[0], macro("row_offset", values[1]), *values[2:])

    return rewrite


def _replace(values: _Args) -> exp.Expr:
    return call("replace", *values) if guard.shrinks(values) else macro("replace", *values)


def _concat(values: _Args) -> exp.Expr:
    return roomy(call("concat", *values), values)


def _concat_ws(values: _Args) -> exp.Expr:
    between = [values[0]] * (len(values) - 2)
    return roomy(call("concat_ws", *values), [*values[1:], *between[:1]], len(between))


_REWRITES: dict[str, Callable[[_Args], exp.Expr]] = {
    "age": _age,
    "concat": _concat,
    "concat_ws": _concat_ws,
    "replace": _replace,
    "date": lambda values: cast(values[0], "DATE"),
    "date_bin": _date_bin,
    "date_part": _date_part,
    "decode": _decode,
    "encode": _encode,
    "lag": _neighbour("lag"),
    "lead": _neighbour("lead"),
    "format": _format,
    "json_extract_path": _json_path("json_extract"),
    "json_extract_path_text": _json_path("json_extract_string"),
    "jsonb_extract_path": _json_path("json_extract"),
    "jsonb_extract_path_text": _json_path("json_extract_string"),
    "make_interval": _make_interval,
    "num_nonnulls": _num_nonnulls,
    "num_nulls": _num_nulls,
    "pg_typeof": lambda values: macro("typeof", values[0]),
    "regexp_count": _regexp_count,
    "regexp_like": _regexp_like,
    "regexp_match": _regexp_match,
    "regexp_replace": _regexp_replace,
    "regexp_split_to_array": _split,
    "regexp_substr": _regexp_substr,
    "substr": _substring,
    "substring": _substring,
    "text": lambda values: macro("text", values[0]),
    "to_char": formats.to_char,
    "to_date": formats.to_date,
    "to_timestamp": formats.to_timestamp,
    "trunc": _trunc,
}
