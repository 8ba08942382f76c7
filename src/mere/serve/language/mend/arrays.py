"""ANY and ALL of an array: `x = ANY('{1,2}')`, `x LIKE ALL(ARRAY['a%', 'b%'])`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import Any

from sqlglot import exp

from mere.serve.language.mend.tree import macro, text
from mere.serve.protocol import types
from mere.serve.protocol.port import PgError
from mere.serve.values import decode

_MOST = 1000  # conditions that are written out: each repeats what stands before ANY


def compared(node: exp.Expr) -> exp.Expr:
    """A comparison. With a text, which has no type of its own, each element is one; the other side tells of its type.
    Of an array in a row, DuckDB makes a subquery, in which NULL is an empty array, and which it does not take in the
    condition of an outer join."""
    values = _values(node)
    if values is None:
        return node
    if values.is_string:
        return _each(node, _elements(values))
    is_equal = isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any)
    is_unequal = isinstance(node, exp.NEQ) and isinstance(node.expression, exp.All)
    # Of a column and one array for all rows, DuckDB makes a join, which is quicker.
    is_joined = values.find(exp.Column) is None and node.this.find(exp.Column) is not None
    if not (is_equal or is_unequal) or isinstance(values, exp.Query) or is_joined:
        return node
    contained = macro("equals_any", node.this, values)
    return contained if is_equal else exp.paren(exp.Not(this=contained), copy=False)


def patterns(node: exp.Expr) -> list[exp.Expr] | None:
    """What a LIKE is asked of, where that is several."""
    values = _values(node)
    if values is None or not (values.is_string or isinstance(values, exp.Array)):
        return None
    found = _elements(values) if values.is_string else values.expressions
    negate = node.args.get("negate")  # x NOT LIKE ALL …
    return [type(node)(this=node.this.copy(), expression=each.copy(), negate=negate) for each in found]


def together(node: exp.Expr, conditions: list[exp.Expr]) -> exp.Expr:
    """One of them for ANY, all of them for ALL; of none, ANY is false and ALL is true."""
    if len(conditions) > _MOST:
        raise PgError("54000", f"ANY and ALL take at most {_MOST} elements here", hint="Write it with = ANY or <> ALL.")
    is_any = isinstance(node.expression, exp.Any)
    if not conditions:
        return exp.false() if is_any else exp.true()
    joint = exp.Or if is_any else exp.And
    return exp.paren(reduce(lambda left, right: joint(this=left, expression=right), conditions), copy=False)


def _values(node: exp.Expr) -> exp.Expr | None:
    found = node.expression
    return found.this.unnest() if isinstance(found, exp.Any | exp.All) else None


def _elements(written: exp.Expr) -> list[exp.Expr]:
    return list(_flat(decode.of_text(written.name, types.BY_NAME["text"].array)))


def _flat(found: list[Any]) -> Iterator[exp.Expr]:
    """Of all dimensions."""
    for each in found:
        if isinstance(each, list):
            yield from _flat(each)
        else:
            yield exp.Null() if each is None else text(each)


def _each(node: exp.Expr, elements: list[exp.Expr]) -> exp.Expr:
    is_in = isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any)
    is_not_in = isinstance(node, exp.NEQ) and isinstance(node.expression, exp.All)
    if elements and (is_in or is_not_in):
        found = exp.In(this=node.this.copy(), expressions=elements)
        return exp.paren(found if is_in else exp.Not(this=found), copy=False)
    return together(node, [type(node)(this=node.this.copy(), expression=each) for each in elements])
