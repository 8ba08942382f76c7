"""The name of an expression in `proven.tsv`: its function, operator or clause, and the types of its arguments.

`sum(bigint)`, `cast(string as date)`, `lag(int, int) over ordered`. What an argument says, and not only its type,
belongs to the form where the function reads it as a pattern, a format, a unit or a number of digits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from sqlglot import exp

from mere.sql.spark.types import named

NAME = "spark_name"  # in a node's meta: the function as it was written
# They have as many arguments as one likes, of which each is like the others.
_VARIADIC = frozenset({"coalesce", "ifnull", "nvl", "greatest", "least", "concat", "concat_ws", "array", "case", "in"})
_SIMPLE_PATTERN = re.compile(
    r"(?:[A-Za-z0-9 _,:;@#%&=<>/-]|\[\^?(?:[A-Za-z0-9 _,:;@#%&=<>/.]|\w-\w)+\]|\\[.d])(?:[+*?]|\{\d+\})?"
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?")
_DIRECTIVE = re.compile(r"%-?[A-Za-z](?:strict)?")
_COMPARISONS = frozenset({"eq", "neq", "lt", "lte", "gt", "gte", "in", "nullsafeeq", "nullsafeneq"})


def name_of(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        return str(node.key)
    if isinstance(node, exp.TryCast):
        return "try_cast" if node.args.get("safe") else "cast"
    return str(node.meta.get(NAME, node.key)).lower()


def form_of(node: exp.Expr, type_of: Callable[[exp.Expr], str]) -> str:
    name = name_of(node)
    if isinstance(node, exp.Cast):
        return (
            f"{'try_cast' if name == 'try_cast' else 'cast'}({named(type_of(node.this))} as {named(type_text(node))})"
        )
    parts = [text for arg, value in _arguments(node) for text in _texts(node, name, arg, value, type_of)]
    if name in _VARIADIC:
        parts = [part for part in dict.fromkeys(parts) if part != "void"] or ["void"]
        if name == "in" and parts:
            parts = parts if len(parts) > 1 else parts * 2
    return f"{name}({', '.join(parts)})"


def _arguments(node: exp.Expr) -> Iterator[tuple[str, object]]:
    """In the order in which the class names them, so that a form does not depend on how it was made."""
    for arg in (*node.arg_types, *(each for each in node.args if each not in node.arg_types)):
        value = node.args.get(arg)
        if value not in (None, False, []) and not (isinstance(node, exp.Anonymous) and arg == "this"):
            yield arg, value


def _texts(node: exp.Expr, name: str, arg: str, value: object, type_of: Callable[[exp.Expr], str]) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _texts(node, name, arg, each, type_of)
    elif isinstance(value, exp.If):
        yield from (named(type_of(each)) for each in (value.args["true"],))
    elif isinstance(value, exp.Var):
        yield value.name.upper()
    elif isinstance(value, exp.DataType):
        yield value.sql("spark").lower()
    elif isinstance(value, exp.Interval):
        yield interval_text(value)
    elif isinstance(value, exp.Expr):
        if name == "case" and arg == "this":
            return  # compared with each WHEN, as by =
        said = _said(node, name, arg, value)
        yield said if said is not None else named(type_of(value))
    elif value is not True or arg not in ("big_int", "safe", "typed", "null", "coalesce", "nulls_excluded"):
        yield f"{arg}={value}".lower()


def interval_text(node: exp.Interval) -> str:
    unit = node.args.get("unit")
    return f"interval {unit.sql('spark').upper().removesuffix('S') if unit is not None else ''}".strip()


def _said(node: exp.Expr, name: str, arg: str, value: exp.Expr) -> str | None:
    """What stands there, where it decides what the function does; None where only its type does."""
    literal = value if isinstance(value, exp.Literal) else None
    if arg == "format":
        return f"format {time_format(literal.name)}" if literal is not None else "format ?"
    if (
        arg in ("expression", "this")
        and isinstance(node, exp.RegexpLike | exp.RegexpReplace | exp.RegexpSplit)
        and arg != "this"
    ):
        return _pattern(literal)
    if isinstance(node, exp.RegexpExtract) and arg in ("expression", "group"):
        return _pattern(literal) if arg == "expression" else f"group {value.sql()}"
    if isinstance(node, exp.RegexpReplace) and arg == "replacement":
        plain = literal is not None and not set(literal.name) & {"$", "\\"}
        return "plain text" if plain else "replacement ?"
    if isinstance(node, exp.SplitPart) and arg == "delimiter":
        return "text" if literal is not None and literal.name else "delimiter ?"
    if isinstance(node, exp.Substring) and arg == "start" and value.is_int:
        return "before the end" if int(value.sql()) < 0 else "place"
    if (
        arg in ("unit", "zone")
        or (name in ("round", "bround") and arg == "decimals")
        or (name == "date_part" and node.expressions and value is node.expressions[0])
    ):
        return f"'{value.name.upper()}'" if literal is not None and literal.is_string else value.sql()
    if name in _COMPARISONS and literal is not None and literal.is_string:
        if _DATE.fullmatch(literal.name):
            return "date text"
        return "time text" if _TIME.fullmatch(literal.name) else None
    return None


def _pattern(literal: exp.Literal | None) -> str:
    """Java's and DuckDB's regular expressions mean the same by these."""
    if literal is None:
        return "pattern ?"
    rest = literal.name.removeprefix("^")
    while rest and (found := _SIMPLE_PATTERN.match(rest)):
        rest = rest[found.end() :]
    return "simple pattern" if literal.name and not rest else f"pattern {literal.name!r}"


def time_format(text: str) -> str:
    """Its letters, in strftime's spelling: what stands between them is copied by both engines."""
    found = sorted(set(_DIRECTIVE.findall(text)))
    others = _DIRECTIVE.sub("", text)
    return " ".join(found) if not re.search(r"[A-Za-z'%\\\[\]#{}]", others) else f"? {text!r}"


def type_text(node: exp.Expr) -> str:
    """The type to which something is cast, in Spark's words."""
    to = node.args["to"]
    kinds = {
        exp.DType.TEXT: "string", exp.DType.VARCHAR: "string", exp.DType.TIMESTAMPTZ: "timestamp",
        exp.DType.TIMESTAMP: "timestamp", exp.DType.TIMESTAMPLTZ: "timestamp", exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
    }  # fmt: skip
    if to.this is exp.DType.VARCHAR and to.expressions:
        return "varchar"
    if to.this is exp.DType.DECIMAL:
        size = [each.name for each in to.expressions] or ["10", "0"]
        return f"decimal({size[0]},{size[1] if len(size) > 1 else 0})"
    return str(kinds.get(to.this) or to.sql("spark")).lower()


def over(form: str, spec: exp.WindowSpec | None, is_ordered: bool) -> str:
    """The form of a function over a window; a number of rows is any number."""
    if spec is None:
        return f"{form} over {'ordered' if is_ordered else 'all'}"
    sides = [_bound(spec, "start"), _bound(spec, "end")]
    return f"{form} over {spec.args['kind'].lower()} {' to '.join(sides)}"


def _bound(spec: exp.WindowSpec, side: str) -> str:
    value, direction = spec.args.get(side), spec.args.get(f"{side}_side") or ""
    if isinstance(value, exp.Literal) and value.is_int:
        return f"n {direction}".lower()
    said = value if isinstance(value, str) else "value" if value is not None else "current row"
    return f"{said} {direction}".strip().lower()
