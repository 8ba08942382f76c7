"""Texts that Spark and Trino compute differently."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from mere.sql.spark.pieces import call, number, text
from mere.sql.spark.proven import Unlike
from mere.sql.spark.results import type_of
from mere.sql.spark.translate import Mender
from mere.sql.trino.casts import convert
from mere.sql.trino.pieces import in_parens, matches, or_error

# The letters that both engines make great and small alike: most of Latin and Cyrillic, what has no case at all.
ALIKE_IN_CASE = (
    r"[\x{0}-\x{DE}\x{E0}-\x{12F}\x{132}-\x{148}\x{14A}-\x{17F}\x{400}-\x{4FF}\x{2000}-\x{206F}\x{20A0}-\x{20BF}"
    r"\x{3040}-\x{9FFF}]*"
)
_SPACE = text(" ")
_NONE = text("")


def _refused(what: str) -> Mender:
    def mended(_: exp.Expr) -> exp.Expr:
        raise Unlike(f"{what} is not proven to give the same value in Trino as in Spark")

    return mended


def _cased(node: exp.Expr) -> exp.Expr:
    return or_error(matches(node.this, ALIKE_IN_CASE), call(node.key.upper(), node.this))


def _joined(node: exp.Expr) -> exp.Expr:
    """`||` and concat, which write values of other types as texts."""
    values = [node.this, node.expression] if isinstance(node, exp.DPipe) else node.expressions
    if any(type_of(each).startswith("array<") for each in values):
        raise Unlike("a concatenation of arrays is not proven to give the same value in Trino as in Spark")
    return exp.Concat(expressions=[convert(each, "string") for each in values], safe=False, coalesce=False)


def _joined_by(node: exp.Expr) -> exp.Expr:
    """concat_ws"""
    if any(type_of(each).startswith("array<") for each in node.expressions):
        raise Unlike("a concatenation of arrays is not proven to give the same value in Trino as in Spark")
    return call("CONCAT_WS", *(convert(each, "string") for each in node.expressions))


def _trimmed(node: exp.Expr) -> exp.Expr:
    """Without a word of what, Spark takes spaces away, and Trino tabs, too."""
    what = node.args.get("expression")
    if what is not None and not (isinstance(what, exp.Literal) and len(what.name) == 1):
        raise Unlike("trim takes away one letter")
    position = node.args.get("position") or "BOTH"
    return exp.Trim(this=node.this.copy(), expression=what.copy() if what is not None else _SPACE, position=position)


def _substring(node: exp.Expr) -> exp.Expr:
    """From a place before its beginning, Spark has what of that length is left, and from 0 what it has from 1."""
    value, start, length = (node.args.get(part) for part in ("this", "start", "length"))
    assert value is not None
    if start is None:
        raise Unlike("a substring has a start")
    if isinstance(start, exp.Literal) and int(start.name) > 0:
        place: exp.Expr = start.copy()
    else:
        place = exp.Case().when(in_parens(start).eq(0), number(1)).else_(start.copy())
    found = call("SUBSTR", value, place, *([_not_negative(length)] if length is not None else []))
    if isinstance(start, exp.Literal) and int(start.name) >= 0:
        return found
    inside = exp.GTE(this=in_parens(start), expression=exp.Neg(this=call("LENGTH", value)))
    return or_error(inside, found)


def _not_negative(count: exp.Expr) -> exp.Expr:
    if isinstance(count, exp.Literal):
        return count.copy()
    return exp.Case().when(in_parens(count) < 0, number(0)).else_(count.copy())


def _left(node: exp.Expr) -> exp.Expr:
    return call("SUBSTR", node.this, number(1), _not_negative(node.expression))


def _right(node: exp.Expr) -> exp.Expr:
    value, count = node.this, node.expression
    whole = exp.GTE(this=in_parens(count), expression=call("LENGTH", value))
    part = call("SUBSTR", value, exp.Neg(this=in_parens(count)))
    return exp.Case().when(in_parens(count) <= 0, _empty_of(value)).when(whole, value.copy()).else_(part)


def _empty_of(value: exp.Expr) -> exp.Expr:
    return call("SUBSTR", value, number(1), number(0))


def _replaced(node: exp.Expr) -> exp.Expr:
    """Of nothing, Trino finds one before each letter."""
    value = node.this
    what, by = node.expression, node.args.get("replacement")
    found = call("REPLACE", value, what, by if by is not None else _NONE)
    if isinstance(what, exp.Literal) and what.name:
        return found
    nothing: exp.Expr = in_parens(what).eq(_NONE.copy())
    if by is not None:
        nothing = exp.and_(nothing, in_parens(by).is_(exp.Null()).not_())
    return exp.Case().when(nothing, value.copy()).else_(found)


def _found(node: exp.Expr) -> exp.Expr:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        raise Unlike("a place is looked for from the beginning")
    return call("STRPOS", node.this, node.args["substr"])


def _contains(node: exp.Expr) -> exp.Expr:
    value, part = node.iter_expressions()
    return exp.GT(this=call("STRPOS", value, part), expression=number(0))


def _starts(node: exp.Expr) -> exp.Expr:
    value, part = node.iter_expressions()
    return call("STARTS_WITH", value, part)


def _ends(node: exp.Expr) -> exp.Expr:
    value, part = node.iter_expressions()
    return call("STARTS_WITH", call("REVERSE", value), call("REVERSE", part))


def _like(node: exp.Expr) -> exp.Expr:
    pattern = node.expression
    if isinstance(node.parent, exp.Escape) or (pattern.is_string and "\\" not in pattern.name):
        return node
    return exp.Escape(this=node.copy(), expression=text("\\"))


def _hashed(node: exp.Expr) -> exp.Expr:
    length = node.args.get("length")
    name = "MD5" if isinstance(node, exp.MD5) else f"SHA{length.name if length is not None else 256}"
    if name not in ("MD5", "SHA256", "SHA512"):
        raise Unlike(f"{name} is not proven to give the same value in Trino as in Spark")
    value = call("TO_UTF8", node.this) if type_of(node.this) == "string" else node.this
    return call("LOWER", call("TO_HEX", call(name, value)))


def _base64(node: exp.Expr) -> exp.Expr:
    (value,) = node.iter_expressions()
    return call("TO_BASE64", value)


def _matched(node: exp.Expr) -> exp.Expr:
    return call("REGEXP_LIKE", node.this, node.expression)


def _matches_replaced(node: exp.Expr) -> exp.Expr:
    by = node.args.get("replacement")
    return call("REGEXP_REPLACE", node.this, node.expression, by if by is not None else _NONE)


def _extracted(node: exp.Expr) -> exp.Expr:
    """Where nothing matches, Spark has an empty text."""
    group = node.args.get("group")
    found = call("REGEXP_EXTRACT", node.this, node.expression, *([group] if group is not None else []))
    return exp.Case().when(in_parens(node.this).is_(exp.Null()).not_(), exp.Coalesce(this=found, expressions=[_NONE]))


def _split(node: exp.Expr) -> exp.Expr:
    if node.args.get("limit") is not None and node.args["limit"].sql() != "-1":
        raise Unlike("split with a limit is not proven to give the same value in Trino as in Spark")
    return call("REGEXP_SPLIT", node.this, node.expression)


def _split_part(node: exp.Expr) -> exp.Expr:
    """Where there are fewer parts, Spark has an empty text."""
    at = node.args["part_index"]
    if not (isinstance(at, exp.Literal) and int(at.name) > 0):
        raise Unlike("split_part counts from the beginning")
    found = call("SPLIT_PART", node.this, node.args["delimiter"], at)
    return exp.Case().when(in_parens(node.this).is_(exp.Null()).not_(), exp.Coalesce(this=found, expressions=[_NONE]))


def _padded(node: exp.Expr) -> exp.Expr:
    by = node.args.get("fill_pattern")
    function = "LPAD" if node.args.get("is_left") else "RPAD"
    return call(function, node.this, node.expression, by if by is not None else _SPACE)


def _code(node: exp.Expr) -> exp.Expr:
    value = node.this
    first = call(
        "CODEPOINT", exp.Cast(this=call("SUBSTR", value, number(1), number(1)), to=exp.DataType.build("VARCHAR(1)"))
    )
    return exp.Case().when(in_parens(value).eq(_NONE.copy()), number(0)).else_(first)


MENDERS: Mapping[str, Mender] = {
    "ascii": _code,
    "concat": _joined,
    "concatws": _joined_by,
    "contains": _contains,
    "dpipe": _joined,
    "endswith": _ends,
    "ilike": _refused("ilike"),
    "initcap": _refused("initcap"),
    "left": _left,
    "like": _like,
    "lower": _cased,
    "md5": _hashed,
    "pad": _padded,
    "regexpextract": _extracted,
    "regexplike": _matched,
    "regexpreplace": _matches_replaced,
    "regexpsplit": _split,
    "repeat": _refused("repeat"),
    "replace": _replaced,
    "right": _right,
    "sha2": _hashed,
    "splitpart": _split_part,
    "startswith": _starts,
    "strposition": _found,
    "substring": _substring,
    "tobase64": _base64,
    "trim": _trimmed,
    "upper": _cased,
}
