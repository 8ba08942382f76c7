"""What to ask Trino to get Spark's values, by sqlglot's names: conditions, arrays, aggregates, clauses."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from mere.sql.spark.inference import ALIASED, KEYS
from mere.sql.spark.pieces import call, number
from mere.sql.spark.proven import Unlike
from mere.sql.spark.results import type_of
from mere.sql.spark.translate import Mender
from mere.sql.trino import arithmetic, casts, texts, times
from mere.sql.trino.pieces import each, in_parens, known_of


def _is_null(node: exp.Expr) -> exp.Expr:
    return exp.paren(exp.Is(this=in_parens(node.expressions[0]), expression=exp.Null()), copy=False)


def _is_not_null(node: exp.Expr) -> exp.Expr:
    return exp.paren(exp.Not(this=_is_null(node)), copy=False)


def _is(node: exp.Expr) -> exp.Expr:
    """IS TRUE and IS FALSE"""
    if isinstance(node.expression, exp.Boolean):
        return exp.NullSafeEQ(this=in_parens(node.this), expression=node.expression.copy())
    return node


def _renamed(function: str) -> Mender:
    return lambda node: call(function, *(node.expressions or node.iter_expressions()))


# Arrays and maps


def _array_contains(node: exp.Expr) -> exp.Expr:
    return call("CONTAINS", node.this, node.expression)


def _element(node: exp.Expr) -> exp.Expr:
    """By its index from 0, with element_at from 1, or by its key, which need not be there."""
    if len(node.expressions) != 1:
        raise Unlike("an element has one index")
    (at,) = node.expressions
    if not type_of(node.this).startswith("array<"):
        return call("ELEMENT_AT", node.this, at)
    first = int(node.args.get("offset") or 0)
    place = exp.paren(exp.Add(this=in_parens(at), expression=number(1 - first)), copy=False)
    return exp.Bracket(this=node.this.copy(), expressions=[place], offset=1)


def _size(node: exp.Expr) -> exp.Expr:
    (value,) = node.iter_expressions()
    return call("CARDINALITY", value)


def _array_extreme(node: exp.Expr) -> exp.Expr:
    if type_of(node) in casts.FLOATS:
        raise Unlike("NaN is the greatest number in Spark's arrays")
    return call("ARRAY_MAX" if isinstance(node, exp.ArrayMax) else "ARRAY_MIN", known_of(node.this))


def _sorted(node: exp.Expr) -> exp.Expr:
    if type_of(node) == "array<double>":
        raise Unlike("NaN is the greatest number in Spark's arrays")
    ascending = node.args.get("asc")
    if ascending is not None and ascending.sql().lower() != "true":
        raise Unlike("an array is sorted upwards")
    first = node.args.get("nulls_first")
    if first is None or first.sql().lower() != "true":
        return call("ARRAY_SORT", node.this)
    nulls = call("FILTER", node.this, each(exp.Is(this=exp.to_identifier("x"), expression=exp.Null())))
    return call("CONCAT", nulls, call("ARRAY_SORT", known_of(node.this)))


def _joined(node: exp.Expr) -> exp.Expr:
    return call("ARRAY_JOIN", node.this, node.expression)


# Aggregates


def _listed(node: exp.Expr) -> exp.Expr:
    """collect_list and collect_set leave out NULL, and are empty where there is nothing else."""
    inner = node.this.this if isinstance(node.this, exp.Order) else node.this
    if isinstance(node.parent, exp.Window | exp.Filter) or isinstance(node.this, exp.Order | exp.Distinct):
        raise Unlike("a list of values is proven as a plain aggregate only")
    wanted = exp.Distinct(expressions=[inner.copy()]) if isinstance(node, exp.ArrayUniqueAgg) else inner.copy()
    known = exp.Where(this=in_parens(inner).is_(exp.Null()).not_())
    found = exp.Filter(this=exp.Anonymous(this="ARRAY_AGG", expressions=[wanted]), expression=known)
    return exp.Coalesce(this=found, expressions=[exp.Array()])


def _by(function: str) -> Mender:
    """max_by and min_by leave out the rows whose second value is NULL."""
    return lambda node: call(function, node.this, node.expression)


def _count_if(node: exp.Expr) -> exp.Expr:
    return call("COUNT_IF", node.this)


def _quantile(_: exp.Expr) -> exp.Expr:
    raise Unlike("Trino has no exact percentiles")


# Clauses


def _select(node: exp.Expr) -> exp.Expr:
    node.set("hint", None)  # it changes how Spark computes, not what
    _spell_out(node)
    group, having = node.args.get("group"), node.args.get("having")
    if group is not None and group.args.get("all"):
        group.set("all", None)
        group.set("expressions", [number(at) for at in group.meta[KEYS]])
    if group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
        # Spark makes no total of no rows.
        some = exp.GT(this=exp.Count(this=exp.Star()), expression=number("0"))
        node.set("having", exp.Having(this=exp.and_(having.this, some) if having is not None else some))
    return node


def _spell_out(select: exp.Expr) -> None:
    """Trino knows the names that a SELECT list gives only in ORDER BY."""
    given: dict[str, exp.Expr] = {}
    for item in select.expressions:
        _replace_names(item, select, given)
        if isinstance(item, exp.Alias):
            given[item.alias.lower()] = item.this
    for clause in ("group", "having", "qualify", "where"):
        if select.args.get(clause) is not None:
            _replace_names(select.args[clause], select, given)


def _replace_names(node: exp.Expr, select: exp.Expr, given: Mapping[str, exp.Expr]) -> None:
    for column in list(node.find_all(exp.Column)):
        if not column.meta.get(ALIASED):
            continue
        if column.parent_select is not select or column.name.lower() not in given:
            raise Unlike(f"`{column.name}` is a name of the SELECT list around it, which Trino does not know there")
        column.replace(in_parens(given[column.name.lower()]))


def _joined_using(node: exp.Expr) -> exp.Expr:
    if set(node.meta.get(KEYS) or ()) & set(casts.FLOATS):
        raise Unlike("a NaN joins no NaN in Trino")
    return node


MENDERS: Mapping[str, Mender] = {
    **arithmetic.MENDERS,
    **times.MENDERS,
    **texts.MENDERS,
    **dict.fromkeys(("eq", "neq", "lt", "lte", "gt", "gte", "nullsafeeq", "nullsafeneq"), casts.compared),
    "argmax": _by("MAX_BY"),
    "argmin": _by("MIN_BY"),
    "arrayagg": _listed,
    "arrayany": _renamed("ANY_MATCH"),
    "arraycontains": _array_contains,
    "arraymax": _array_extreme,
    "arraymin": _array_extreme,
    "arraysize": _size,
    "arraysort": _sorted,
    "arraytostring": _joined,
    "arrayuniqueagg": _listed,
    "bracket": _element,
    "cardinality": _size,
    "case": casts.case,
    "cast": casts.cast,
    "coalesce": casts.coalesced,
    "countif": _count_if,
    "every": _renamed("BOOL_AND"),
    "first": _renamed("FIRST_VALUE"),
    "greatest": casts.extreme,
    "if": casts.either,
    "in": casts.contained,
    "is": _is,
    "isnan": casts.is_nan,
    "isnotnull": _is_not_null,
    "isnull": _is_null,
    "join": _joined_using,
    "last": _renamed("LAST_VALUE"),
    "least": casts.extreme,
    "median": _quantile,
    "nullif": casts.null_if,
    "nvl2": casts.not_null,
    "percentile": _quantile,
    "quantile": _quantile,
    "select": _select,
    "some": _renamed("BOOL_OR"),
    "sortarray": _sorted,
    "trycast": casts.try_cast,
}
