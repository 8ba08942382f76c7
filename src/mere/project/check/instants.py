"""Which columns of a query are days, local times or instants, and where it turns the first two into the third.

Some of Spark's functions do that without being asked: date_trunc of a `timestamp_ntz` is a `timestamp`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from mere.names import TableName
from mere.project.check.findings import Finding, about, position
from mere.project.clocks import Clock, Clocks
from mere.project.model import Model, Sql
from mere.project.rules import Rule
from mere.sql.scopes import sources_of, table_name
from mere.sql.spark.read import SparkView

_OF_CAST = {
    exp.DType.DATE: Clock.DAY,
    exp.DType.TIMESTAMPNTZ: Clock.LOCAL,
    exp.DType.TIMESTAMPLTZ: Clock.INSTANT,
    exp.DType.TIMESTAMPTZ: Clock.INSTANT,
    exp.DType.TIMESTAMP: Clock.INSTANT,
}
_SAME_AS_ARGUMENTS = (
    *(exp.Coalesce, exp.Greatest, exp.Least, exp.Max, exp.Min, exp.First, exp.Last, exp.AnyValue, exp.FirstValue),
    *(exp.LastValue, exp.NthValue, exp.Nullif),
)
_SAME_AS_FIRST = (
    *(exp.Alias, exp.Paren, exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.Lag, exp.Lead, exp.ArgMax),
    exp.ArgMin,
)
_SHIFTS = (exp.Add, exp.Sub, exp.TimestampAdd, exp.TimestampSub)
_SMALLER_THAN_DAY = frozenset({"HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"})


_REMEDY = (
    "Write CAST(… AS timestamp_ntz) or CAST(… AS date) around it; CAST(… AS timestamp_ltz) if an instant is meant."
)


@dataclass(frozen=True)
class Value:
    """`turned`: the expression that made an instant, unasked, of a day or a local time, and of which of them."""

    clock: Clock
    turned: tuple[exp.Expr, Clock] | None = None


@dataclass(frozen=True)
class _Known:
    tables: Mapping[TableName, Clocks]
    scopes: dict[int, dict[str, Value]] = field(default_factory=dict)  # each is gone through once


def clocks_of_query(tree: exp.Expr, tables: Mapping[TableName, Clocks]) -> dict[str, Value]:
    """Of a query's columns, by their names in lower case."""
    scopes = list(traverse_scope(tree)) if isinstance(tree, exp.Query) else []
    return dict(_outputs(scopes[-1], _Known(tables))) if scopes else {}


def turned_into_instants(model: Model, body: Sql, values: Mapping[str, Value]) -> Iterator[Finding]:
    promised = {name.lower() for name in model.contract}
    for name, value in values.items():
        if value.turned is not None and name not in promised:
            line, column = position(value.turned[0], body)
            yield Finding(
                Rule.ZONE_UNASKED, _message(name, *value.turned), model.file, line, column, _REMEDY, str(model)
            )
    updated = values.get((model.updated_at or "").lower())
    if updated is not None and updated.clock is Clock.LOCAL:
        message = (
            f"`updated_at` names `{model.updated_at}`, a local time, which is taken as UTC: valid_from is an instant"
        )
        yield about(Rule.ZONE_UNASKED, model, message, "Write to_utc_timestamp(…, zone) in the query.")


def _message(name: str, node: exp.Expr, clock: Clock) -> str:
    text = node.sql(SparkView)
    text = text if len(text) <= 60 else f"{text[:60]}…"
    if isinstance(node, exp.AtTimeZone):
        return f"`{name}` is a local time by its value, but an instant by its type, because of `{text}`"
    return f"`{name}` is an instant, made from {clock} by `{text}`: readers in other time zones see other hours"


def _outputs(scope: Scope, known: _Known) -> Iterator[tuple[str, Value]]:
    if scope.set_operation_scopes:
        yield from _united(scope, known)
        return
    for select in scope.expression.selects if isinstance(scope.expression, exp.Select) else ():
        if isinstance(select, exp.Star) or (isinstance(select, exp.Column) and isinstance(select.this, exp.Star)):
            yield from _starred(scope, select, known)
        elif (found := _value(select, scope, known)) is not None:
            yield select.alias_or_name.lower(), found


def _united(scope: Scope, known: _Known) -> Iterator[tuple[str, Value]]:
    """The columns of a union are one by their position."""
    left, right = (dict(_outputs(each, known)) for each in scope.set_operation_scopes[:2])
    names = (
        [each.alias_or_name.lower() for each in side.expression.selects]
        for side in scope.set_operation_scopes[:2]
        if isinstance(side.expression, exp.Query)
    )
    for name, other in zip(*names, strict=False):
        found = _together([value for value in (left.get(name), right.get(other)) if value], scope.expression)
        if found is not None:
            yield name, found


def _starred(scope: Scope, select: exp.Expr, known: _Known) -> Iterator[tuple[str, Value]]:
    qualifier = select.table.lower() if isinstance(select, exp.Column) else ""
    star = select.this if isinstance(select, exp.Column) else select
    without = {each.name.lower() for each in star.args.get("except_") or []}
    for name, (_, source) in (sources_of(scope) or {}).items():
        if not qualifier or name.lower() == qualifier:
            yield from ((column, value) for column, value in _of_source(source, known).items() if column not in without)


def _of_source(source: exp.Table | Scope, known: _Known) -> dict[str, Value]:
    if isinstance(source, Scope):
        if id(source) not in known.scopes:
            known.scopes[id(source)] = {} if source.is_udtf else dict(_outputs(source, known))
        return known.scopes[id(source)]
    if len(source.parts) != 2:
        return {}
    clocks = known.tables.get(table_name(source), {})
    return {name: Value(clock) for name, clock in clocks.items()}


def _column(node: exp.Column, scope: Scope, known: _Known) -> Value | None:
    found = [
        value
        for name, (_, source) in (sources_of(scope) or {}).items()
        if not node.table or name.lower() == node.table.lower()
        if (value := _of_source(source, known).get(node.name.lower())) is not None
    ]
    return found[0] if len(found) == 1 else None


def _value(node: exp.Expr, scope: Scope, known: _Known) -> Value | None:
    """None if it is of another type, or not known."""

    def of(each: exp.Expr | None) -> Value | None:
        return _value(each, scope, known) if each is not None else None

    match node:
        case exp.Column():
            return _column(node, scope, known)
        case exp.Cast():
            return _cast(node, of(node.this))
        case exp.TimestampTrunc():
            return _instant(node, of(node.this))
        case exp.AtTimeZone():
            return Value(Clock.INSTANT, (node, Clock.LOCAL))
        case exp.FromTimeZone():
            return Value(Clock.INSTANT)
        case exp.Case() | exp.If():
            ifs = node.args.get("ifs") or [node]
            return _together(
                [
                    *(of(each.args.get("true")) for each in ifs),
                    of(node.args.get("default")),
                    of(node.args.get("false")),
                ],
                node,
            )
        case _ if isinstance(node, _SHIFTS):
            return _shifted(node, of(node.this) or of(node.expression))
        case _ if isinstance(node, _SAME_AS_ARGUMENTS):
            return _together([of(each) for each in node.iter_expressions()], node)
        case _ if isinstance(node, _SAME_AS_FIRST):
            return of(node.this)
    return None


def _cast(node: exp.Cast, inner: Value | None) -> Value | None:
    clock = _OF_CAST.get(node.args["to"].this)
    if clock is not Clock.INSTANT or node.args["to"].this is exp.DType.TIMESTAMPLTZ:  # which says that a zone is meant
        return Value(clock) if clock is not None else None
    return _instant(node, inner)


def _instant(node: exp.Expr, inner: Value | None) -> Value:
    if inner is None or inner.clock is Clock.INSTANT:
        return inner or Value(Clock.INSTANT)
    return Value(Clock.INSTANT, (node, inner.clock))


def _shifted(node: exp.Expr, inner: Value | None) -> Value | None:
    """A date and some hours are an instant."""
    units = {each.name.upper().removesuffix("S") for each in node.find_all(exp.Var)}
    return (
        _instant(node, inner) if inner is not None and inner.clock is Clock.DAY and units & _SMALLER_THAN_DAY else inner
    )


def _together(values: list[Value | None], node: exp.Expr) -> Value | None:
    """A local time beside an instant becomes one."""
    known = [each for each in values if each is not None]
    clocks = {each.clock for each in known}
    if Clock.INSTANT not in clocks:
        return Value(Clock.LOCAL if Clock.LOCAL in clocks else Clock.DAY) if clocks else None
    turned = next((each.turned for each in known if each.turned), None)
    others = clocks - {Clock.INSTANT}
    return Value(Clock.INSTANT, turned or ((node, min(others)) if others else None))
