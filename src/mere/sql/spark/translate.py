"""Expressions that mean one thing in Spark and another in the engine to which they are translated.

sqlglot translates words. A view must not quietly give other values than in Spark: so each expression is looked up in
what is proven (`inference`), and mended in the syntax tree where the engine has to be asked in another way. Each value
is cast to the type that Spark gives it. Imported only for views, because sqlglot takes its time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from mere.sql.spark.inference import ColumnsOf, Inference
from mere.sql.spark.proven import Proof
from mere.sql.spark.results import TYPE
from mere.sql.spark.types import Columns, decimal

_TYPED_BY_THEMSELVES = (
    *(exp.Column, exp.Identifier, exp.Alias, exp.Paren, exp.Boolean, exp.Null, exp.Subquery, exp.Star, exp.Interval),
    *(exp.Distinct, exp.Where, exp.Lambda, exp.Var, exp.DataType),
)

Mender = Callable[[exp.Expr], exp.Expr]


@dataclass(frozen=True)
class Engine:
    """`menders`: what to ask it to get Spark's values, by sqlglot's names. `type_of`: a type of Spark's in its words,
    None for what needs no cast."""

    name: str
    dialect: str
    menders: Mapping[str, Mender]
    type_of: Callable[[str], str | None]
    proven: Callable[[], Proof]


def translate(query: exp.Expr, columns_of: ColumnsOf, engine: Engine, proof: Proof | None = None) -> Columns:
    """Change the tree so that the engine gives what Spark gives, or raise Unlike; its columns, with Spark's types."""
    columns = Inference(columns_of, proof or engine.proven(), engine.name).query(query, {})
    # The deepest first: what is put in place of an expression holds the expression itself, mended.
    for node in reversed(list(query.find_all(exp.Expr))):
        mended = _typed(engine, node, _mended(engine, node))
        if mended is not node:
            node.replace(mended)
    return columns


def _mended(engine: Engine, node: exp.Expr) -> exp.Expr:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
    return engine.menders[name](node) if name in engine.menders else node


def _typed(engine: Engine, node: exp.Expr, mended: exp.Expr) -> exp.Expr:
    """Of the type that it has in Spark: DuckDB's sum of integers is a hugeint, its length a bigint."""
    type_ = node.meta.get(TYPE)
    if (
        type_ is None
        or isinstance(node, _TYPED_BY_THEMSELVES)
        or (isinstance(node.parent, exp.Case) and isinstance(node, exp.If))
    ):
        return mended
    mended.meta[TYPE] = type_
    inside = (
        isinstance(node.parent, exp.Window | exp.Filter | exp.IgnoreNulls | exp.RespectNulls) and node.arg_key == "this"
    )
    if inside or type_ in ("boolean", "string", "void") or (isinstance(node, exp.Literal) and decimal(type_) is None):
        return mended
    own = engine.type_of(type_)
    if own is None:
        return mended
    wanted = exp.DataType.build(own, dialect=engine.dialect)
    if mended is not node and type(mended) is exp.Cast and mended.to == wanted:
        return mended
    cast = exp.Cast(this=mended if mended is not node else node.copy(), to=wanted)
    cast.meta[TYPE] = type_
    return cast
