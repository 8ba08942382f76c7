"""Operators that mean one thing in Postgres and another in DuckDB: rewritten in the tree.

Names are folded and looked up already (`names`), functions are mended in `calls`. What has no equal in DuckDB is
refused with 0A000: a query must not quietly give other values than in Postgres.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce

import sqlglot
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator

from mere.serve.access import limits
from mere.serve.language.mend import arrays, calls, casts, likes, patterns, shared
from mere.serve.language.mend import session as facts
from mere.serve.language.mend.tree import call, cast, macro, number, roomy, text
from mere.serve.protocol.port import PgError


@dataclass(frozen=True)
class Context:
    """What functions such as current_user tell."""

    user: str
    database: str
    commit: str
    settings: dict[str, str]
    schemas: tuple[str, ...] = ()  # of the search path, as far as they exist
    implicit: tuple[str, ...] = ("pg_catalog",)  # in which names are looked up before these
    pid: int = 0
    version: str = ""
    session: int = 0  # by which set_config knows it


def mend(tree: exp.Expr, context: Context) -> exp.Expr:
    """The tree, changed so that DuckDB gives what Postgres gives."""
    holder = exp.Paren(this=tree)
    # The deepest first: what is put in place of an expression holds the expression itself, mended.
    for node in reversed(list(tree.find_all(exp.Expr))):
        limits.go_on()
        reads = shared.reads(node)
        mended = _mended(node, context)
        if reads:
            mended = shared.with_room(mended)
        if mended is not node:
            node.replace(mended)
    found: exp.Expr = holder.this
    return found.pop() if found.parent is holder else found


def _mended(node: exp.Expr, context: Context) -> exp.Expr:
    if isinstance(node, exp.Anonymous):
        return calls.mend(node, context)
    if (name := _SESSION.get(type(node))) is not None:
        return facts.tell(name, [], context)
    if isinstance(node, exp.Operator):
        return _operator(node, context)
    mender = _MENDERS.get(type(node))
    return mender(node) if mender else node


def sql(tree: exp.Expr) -> str:
    return tree.sql(
        dialect=_DuckDB, unsupported_level=sqlglot.ErrorLevel.IGNORE, normalize_functions=False, comments=False
    )


class _DuckDB(DuckDB):
    """sqlglot's own changes for DuckDB stay away from what is mended here already."""

    NULL_ORDERING = "nulls_are_large"  # as the engine is set

    class Generator(DuckDBGenerator):
        MULTI_ARG_DISTINCT = True

        def sql(self, expression: str | exp.Expr | None, key: str | None = None, comment: bool = True) -> str:
            limits.go_on()
            return super().sql(expression, key, comment)

        TRANSFORMS = {  # noqa: RUF012
            **DuckDBGenerator.TRANSFORMS,
            exp.Lateral: lambda self, node: self.lateral_sql(node),
        }

        def anonymous_sql(self, expression: exp.Anonymous) -> str:
            name = expression.this
            shown = self.sql(name) if isinstance(name, exp.Expr) else str(name)
            return f"{shown}({self.expressions(expression, flat=True)})"


def _dot(node: exp.Expr) -> exp.Expr:
    """`pg_catalog.lower(x)` is lower(x)."""
    schema = node.this
    if isinstance(schema, exp.Identifier) and schema.name.lower() in ("pg_catalog", "information_schema"):
        inner: exp.Expr = node.expression
        return inner
    return node


def _division(node: exp.Expr) -> exp.Expr:
    divisor = node.expression
    plain = divisor.this if isinstance(divisor, exp.Paren) else divisor
    if isinstance(plain, exp.Literal) and not plain.is_string and float(plain.name) != 0:
        return node
    mended = node.copy()
    mended.set("expression", macro("divisor", divisor))
    return mended


def _operator(node: exp.Expr, context: Context) -> exp.Expr:
    """`a OPERATOR(pg_catalog.~) b`"""
    sign = re.sub(r"^\s*pg_catalog\s*\.\s*", "", str(node.args.get("operator") or ""))
    kind = _OPERATORS.get(sign)
    if kind is None:
        raise PgError("42883", f"operator does not exist: {sign}")
    built = kind(this=node.this.copy(), expression=node.expression.copy())
    found = _mended(built, context)
    return exp.paren(found, copy=False)


def _not_regexp(this: exp.Expr, expression: exp.Expr) -> exp.Expr:
    return exp.Not(this=patterns.matches(this, expression, insensitive=False))


_OPERATORS: dict[str, Callable[..., exp.Expr]] = {
    "~": exp.RegexpLike, "~*": exp.RegexpILike, "!~": _not_regexp, "=": exp.EQ, "<>": exp.NEQ, "!=": exp.NEQ,
    "<": exp.LT, ">": exp.GT, "<=": exp.LTE, ">=": exp.GTE, "+": exp.Add, "-": exp.Sub, "*": exp.Mul, "/": exp.Div,
    "%": exp.Mod, "||": exp.DPipe, "~~": exp.Like, "~~*": exp.ILike,
}  # fmt: skip


def _collate(node: exp.Expr) -> exp.Expr:
    """Texts are ordered by their bytes, as in the collation C; a catalog query names the default one."""
    name = node.expression.sql().replace('"', "").lower().removeprefix("pg_catalog.")
    if name not in ("default", "c", "posix", "ucs_basic", "c.utf8", "c.utf-8"):
        raise PgError("42704", f'collation "{name}" for encoding "UTF8" does not exist')
    inner: exp.Expr = node.this
    return inner


def _regexp(node: exp.Expr) -> exp.Expr:
    return patterns.matches(node.this, node.expression, insensitive=isinstance(node, exp.RegexpILike))


def _similar(node: exp.Expr) -> exp.Expr:
    return patterns.similar(node.this, node.expression)


def _interval(node: exp.Expr) -> exp.Expr:
    """As one text: `1 day 02:00:00`."""
    value, unit = node.this, node.args.get("unit")
    if value is None or not isinstance(value, exp.Literal):
        return node
    if isinstance(unit, exp.IntervalSpan):
        raise PgError("0A000", "an interval with a span, such as YEAR TO MONTH, is not supported")
    whole = f"{value.name} {unit.name}" if unit is not None else value.name
    return casts.interval(whole)


def _substring(node: exp.Expr) -> exp.Expr:
    start, length = node.args.get("start"), node.args.get("length")
    if start is not None and start.is_string:
        if length is not None:
            raise PgError("0A000", "substring(… FROM pattern FOR escape) is not supported")
        return patterns.first_match(node.this, start)
    if start is None:
        start = number(1)
    return calls.substring(node.this, start, length)


def _position(node: exp.Expr) -> exp.Expr:
    return call("strpos", node.this, node.args["substr"])


def _trim(node: exp.Expr) -> exp.Expr:
    function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.text("position").upper(), "trim")
    characters = node.expression if node.args.get("expression") else text(" ")
    return call(function, node.this, characters)


def _overlay(node: exp.Expr) -> exp.Expr:
    whole, new, start = node.this, node.expression, node.args["from_"]
    length = node.args.get("for_") or call("length", new)
    before = call("substring", whole, number(1), exp.Sub(this=exp.paren(start), expression=number(1)))
    after = call("substring", whole, exp.Add(this=exp.paren(start), expression=exp.paren(length)))
    joined = exp.DPipe(this=exp.DPipe(this=before, expression=new.copy()), expression=after)
    return exp.paren(joined, copy=False)


def _extract(node: exp.Expr) -> exp.Expr:
    return calls.extract(node.this.name, node.expression)


_SESSION: dict[type[exp.Expr], str] = {
    exp.CurrentUser: "current_user",
    exp.SessionUser: "session_user",
    exp.CurrentRole: "current_role",
    exp.CurrentCatalog: "current_database",
    exp.CurrentSchema: "current_schema",
}


def _time(node: exp.Expr) -> exp.Expr:
    """Always a call: DuckDB takes the bare word for the column of that name, which it is the name of in a result."""
    if isinstance(node, exp.CurrentTimestamp):
        return call("now")
    if isinstance(node, exp.CurrentTime):
        return call("get_current_time")
    local = cast(call("now"), "TIMESTAMP")
    if isinstance(node, exp.CurrentDate):
        return cast(local, "DATE")
    return local if isinstance(node, exp.Localtimestamp) else cast(local, "TIME")


def _contains(node: exp.Expr) -> exp.Expr:
    whole, part = node.this, node.expression
    if isinstance(node, exp.ArrayContainedBy):
        whole, part = part, whole
    if any(_is_json(each) for each in (whole, part)):
        return call("json_contains", whole, part)
    return macro("array_contains", whole, part)


def _is_json(node: exp.Expr) -> bool:
    if isinstance(node, exp.Cast):
        return "JSON" in node.args["to"].sql().upper()
    return node.is_string and node.name.lstrip().startswith(("{", "["))


def _overlaps(node: exp.Expr) -> exp.Expr:
    return macro("array_overlaps", node.this, node.expression)


def _path(node: exp.Expr) -> exp.Expr:
    """`j #>> '{a,b}'`"""
    given = node.expression
    if not given.is_string or not re.fullmatch(r"\{[\w, -]*\}", given.name):
        raise PgError("0A000", "the path of #> and #>> has to be a plain text, such as '{a,b}'")
    steps = [each.strip() for each in given.name[1:-1].split(",") if each.strip()]
    path = "$" + "".join(f"[{step}]" if step.isdigit() else f'."{step}"' for step in steps)
    function = "json_extract_string" if isinstance(node, exp.JSONBExtractScalar) else "json_extract"
    return call(function, node.this, text(path))


def _bits(node: exp.Expr) -> exp.Expr:
    raise PgError("0A000", f"bit strings such as {node.sql()} are not supported")


def _within_group(node: exp.Expr) -> exp.Expr:
    return calls.within_group(node)


def _table(node: exp.Expr) -> exp.Expr:
    return calls.table_function(node)


def _joined(node: exp.Expr) -> exp.Expr:
    """An element joined to an array; for two arrays, DuckDB does the same. For texts, too, but NULL joined to one is no
    text there, so that the type would depend on values."""
    left, right = node.this, node.expression
    if isinstance(left, exp.Array) and isinstance(right, exp.Literal) and not right.is_string:
        return macro("array_append", left, right)
    if isinstance(right, exp.Array) and isinstance(left, exp.Literal) and not left.is_string:
        return macro("array_prepend", left, right)
    # A chain of them is cast as a whole.
    if isinstance(node.parent, exp.DPipe):
        return node
    operands = list(_operands(node))
    if any(isinstance(each, exp.Array) for each in operands):
        return reduce(lambda before, each: macro("array_cat", before, each), reversed(operands))
    made = roomy(node, operands)
    return cast(made, "VARCHAR") if any(map(_is_text, operands)) else made


def _operands(node: exp.Expr) -> Iterator[exp.Expr]:
    while isinstance(node, exp.DPipe):
        yield node.expression
        node = node.this
    yield node


def _is_text(node: exp.Expr) -> bool:
    """Whether that can be told by its looks."""
    if isinstance(node, exp.Cast):
        return bool(node.args["to"].args.get("kind") == "VARCHAR")
    if isinstance(node, exp.Paren):
        return _is_text(node.this)
    return bool(node.is_string) or isinstance(node, exp.Parameter)


OF_SESSION = tuple(_SESSION)
_Mender = Callable[[exp.Expr], exp.Expr]
_MENDERS: dict[type[exp.Expr], _Mender] = {
    exp.ArrayContainedBy: _contains,
    exp.ArrayContainsAll: _contains,
    exp.ArrayOverlaps: _overlaps,
    exp.BitString: _bits,
    exp.Cast: casts.mend,
    exp.Collate: _collate,
    exp.CurrentDate: _time,
    exp.CurrentTime: _time,
    exp.CurrentTimestamp: _time,
    exp.DPipe: _joined,
    exp.Div: _division,
    exp.Dot: _dot,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), arrays.compared),
    exp.Escape: likes.escape,
    exp.Extract: _extract,
    exp.HexString: _bits,
    exp.ILike: likes.like,
    exp.Interval: _interval,
    exp.JSONBExtract: _path,
    exp.JSONBExtractScalar: _path,
    exp.Lateral: _table,
    exp.Like: likes.like,
    exp.Localtime: _time,
    exp.Localtimestamp: _time,
    exp.Mod: _division,
    exp.Overlay: _overlay,
    exp.RegexpILike: _regexp,
    exp.RegexpLike: _regexp,
    exp.SimilarTo: _similar,
    exp.StrPosition: _position,
    exp.Substring: _substring,
    exp.Table: _table,
    exp.Trim: _trim,
    exp.Unnest: _table,
    exp.WithinGroup: _within_group,
}
