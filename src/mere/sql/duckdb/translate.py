"""Expressions that mean one thing in Spark and another in DuckDB.

sqlglot translates words. A view must not quietly give other values than in Spark: so each expression is looked up in
what is proven (`inference`), and mended in the syntax tree where DuckDB has to be asked in another way (`menders`).
Each value is cast to the type that Spark gives it. Imported only for views, because sqlglot takes its time.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from mere.sql.duckdb.forms import NAME
from mere.sql.duckdb.inference import ColumnsOf, Inference
from mere.sql.duckdb.menders import MENDERS
from mere.sql.duckdb.pieces import cast_to
from mere.sql.duckdb.proven import Proof, proven
from mere.sql.duckdb.results import TYPE
from mere.sql.duckdb.types import Columns, decimal, in_duckdb

_TYPED_BY_THEMSELVES = (
    *(exp.Column, exp.Identifier, exp.Alias, exp.Paren, exp.Boolean, exp.Null, exp.Subquery, exp.Star, exp.Interval),
    *(exp.Distinct, exp.Where, exp.Lambda, exp.Var, exp.DataType),
)
_CASTS = frozenset({"tinyint", "smallint", "bigint", "float", "double", "boolean", "binary"})  # as functions


class SparkView(Spark):
    """Spark's SQL with Spark's quotes: '' inside a string is a quote, not the seam of two strings."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012


class _Named(SparkView):
    """It remembers by which name a function was called: several may become one expression."""

    ORIGINAL_NAME_META_KEY = NAME


def read(sql: str) -> exp.Expr:
    """Spark's SQL, to be translated."""
    from sqlglot import parse_one

    query = parse_one(sql, dialect=_Named)
    for call in list(query.find_all(exp.Anonymous)):
        if call.name.lower() in _CASTS and len(call.expressions) == 1:
            call.replace(exp.Cast(this=call.expressions[0], to=exp.DataType.build(call.name, dialect=Spark)))
    for between in list(query.find_all(exp.Between)):
        if not between.args.get("symmetric"):
            # Spark compares with each bound by itself; DuckDB gives all three one type.
            value, low, high = (between.args[part] for part in ("this", "low", "high"))
            both = exp.and_(exp.GTE(this=value, expression=low), exp.LTE(this=value.copy(), expression=high))
            between.replace(exp.paren(both))
    for group in list(query.find_all(exp.Group)):
        for arg in ("rollup", "cube"):
            if group.args.get(arg):  # GROUP BY a, b WITH ROLLUP
                (sets,) = group.args[arg]
                group.set("expressions", [type(sets)(expressions=group.expressions)])
                group.set(arg, None)
    return query


def translate(query: exp.Expr, columns_of: ColumnsOf, proof: Proof | None = None) -> Columns:
    """Change the tree so that DuckDB gives what Spark gives, or raise Unlike; its columns, with Spark's types."""
    columns = Inference(columns_of, proof or proven()).query(query, {})
    # The deepest first: what is put in place of an expression holds the expression itself, mended.
    for node in reversed(list(query.find_all(exp.Expr))):
        mended = _typed(node, _mended(node))
        if mended is not node:
            node.replace(mended)
    return columns


def _mended(node: exp.Expr) -> exp.Expr:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
    return MENDERS[name](node) if name in MENDERS else node


def _typed(node: exp.Expr, mended: exp.Expr) -> exp.Expr:
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
    duckdb_type = in_duckdb(type_)
    if duckdb_type is None:
        return mended
    cast = cast_to(mended if mended is not node else node.copy(), duckdb_type)
    cast.meta[TYPE] = type_
    return cast
