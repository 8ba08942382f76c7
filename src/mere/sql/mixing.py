"""Which table columns a column of a query is a copy of, and what mixes its rows with those of other times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from mere.sql.scopes import Source, behind, is_star, left_out, selects_of, sources_of
from mere.windows import Grain

_EVERY = frozenset(Grain)
_DAYS = _EVERY - {Grain.HOUR}
_MONTHS = frozenset({Grain.MONTH, Grain.YEAR})
# Times that are cut to such a unit stay in their window, if the windows are one of these.
_WITHIN = {
    **dict.fromkeys(("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR"), _EVERY),
    **dict.fromkeys(("DAY", "DD"), _DAYS),
    "WEEK": frozenset({Grain.WEEK}),
    **dict.fromkeys(("MONTH", "MON", "MM"), _MONTHS),
    **dict.fromkeys(("QUARTER", "YEAR", "YYYY", "YY"), frozenset({Grain.YEAR})),
}
_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ)
# One of the values that they are given.
_PICKS = (exp.Min, exp.Max, exp.AnyValue, exp.First, exp.Last)


def _windows(node: exp.Expr) -> Iterable[Grain] | None:
    """The grains at which what the node gives lies in the window of what it is given; None if it may lie anywhere."""
    match node:
        case exp.Paren() | exp.Timestamp() | exp.TsOrDsToTimestamp():
            return _EVERY
        case exp.Cast():
            return _EVERY if node.to.this in _TIMES else _DAYS if node.to.this is exp.DType.DATE else None
        case exp.Date() | exp.TsOrDsToDate():
            return None if node.args.get("format") else _DAYS
        case exp.TimestampTrunc() | exp.DateTrunc():
            return _WITHIN.get(node.args["unit"].name.upper(), ())
        case exp.LastDay():
            return _MONTHS
    return _EVERY if isinstance(node, _PICKS) else None


def inside(node: exp.Expr) -> exp.Expr:
    """What a time is made of: `at` of CAST(date_trunc('month', at) AS date)."""
    while _windows(node) is not None:
        node = node.this
    return node


def is_coarser(node: exp.Expr, grain: Grain) -> bool:
    """Whether a time is cut so that several windows become one."""
    while (windows := _windows(node)) is not None:
        if grain not in windows:
            return True
        node = node.this
    return False


def copied(node: exp.Expr, grain: Grain) -> list[exp.Column]:
    """The columns in whose windows the values of an expression lie: several, if it takes the first that is there."""
    if is_coarser(node, grain):
        return []
    core = inside(node)
    if isinstance(core, exp.Column):
        return [core]
    found = [copied(each, grain) for each in (core.this, *core.expressions)] if isinstance(core, exp.Coalesce) else []
    return [column for columns in found for column in columns] if all(found) else []


@dataclass(frozen=True)
class Step:
    """A query that a column goes through, and what it is in there."""

    scope: Scope
    value: exp.Expr | None = None


@dataclass(frozen=True)
class Origin:
    table: exp.Table | None  # None: it is no copy, but made in the query
    column: str
    certain: bool  # a bare name beside several tables may be any one's
    path: tuple[Step, ...]  # from the outer query to the inner one


Path = tuple[Step, ...]


def origins(scope: Scope, column: exp.Column, grain: Grain, only: str = "", path: Path = ()) -> Iterator[Origin]:
    """Of a column that is read in a query, from its sources, or from one `only`."""
    sources = sources_of(scope)
    if sources is None:
        return
    found = candidates({name: source for name, (_, source) in sources.items()}, column)
    certain = bool(column.table) or len(found) == 1
    for name, source in found.items():
        if only and name != only:
            continue
        if _is_renamed(sources[name][0]):
            yield Origin(None, column.name, certain, path)
        elif isinstance(source, Scope):
            yield from outputs(source, column.name, grain, path, certain)
        else:
            yield Origin(source, column.name, certain, path)
    if not found:
        yield Origin(None, column.name, True, path)


def candidates(sources: Mapping[str, Source], column: exp.Column) -> dict[str, Source]:
    """The sources that may have the column."""
    if column.table:
        return {name: source for name, source in sources.items() if name.lower() == column.table.lower()}
    names = {name: names_of(source) for name, source in sources.items()}
    sure = {name: sources[name] for name, known in names.items() if column.name.lower() in (known or ())}
    return sure or {name: sources[name] for name, known in names.items() if known is None}


def _is_renamed(node: exp.Expr) -> bool:
    """Whether a table's columns get other names, by position: `silver.orders AS o(a, b)`."""
    alias = node.args.get("alias") if isinstance(node, exp.Table) else None
    return alias is not None and bool(alias.args.get("columns"))


def names_of(source: Source) -> list[str] | None:
    """None if they are not known; an empty one if Spark has to find one."""
    if not isinstance(source, Scope):
        return None
    if source.outer_columns:
        return [name.lower() for name in source.outer_columns]
    if source.set_operation_scopes:
        return names_of(source.set_operation_scopes[0])
    selects = selects_of(source)
    return None if not selects or any(map(is_star, selects)) else [each.alias_or_name.lower() for each in selects]


def outputs(scope: Scope, name: str, grain: Grain, path: Path = (), certain: bool = True) -> Iterator[Origin]:
    """Of a column that a query gives."""
    if any(step.scope is scope for step in path):
        return  # a recursive query
    if isinstance(scope.expression, exp.Subquery):
        for inner in scope.sources.values():  # of a query in brackets, the one inside
            if isinstance(inner, Scope):
                yield from outputs(inner, name, grain, path, certain)
        return
    names = names_of(scope)
    if names is not None:
        if name.lower() in names:
            yield from _at(scope, names.index(name.lower()), name, grain, path, certain)
        else:
            yield Origin(None, name, certain, (*path, Step(scope)))
        return
    for branch in scope.set_operation_scopes:
        # Where another branch has a `*`, it is a guess that the columns come in the same order.
        yield from outputs(branch, name, grain, (*path, Step(scope)), certain and names_of(branch) is None)
    if not scope.set_operation_scopes:
        yield from _beside_star(scope, name, grain, path, certain)


def _at(scope: Scope, position: int, name: str, grain: Grain, path: Path, certain: bool) -> Iterator[Origin]:
    """The columns of a union go by position, and have the names of its first branch."""
    if any(step.scope is scope for step in path):
        return
    if scope.set_operation_scopes:
        # What EXCEPT and INTERSECT give is of the first.
        count = None if isinstance(scope.expression, exp.Union) else 1
        for branch in scope.set_operation_scopes[:count]:
            if names_of(branch) is None:
                yield from outputs(branch, name, grain, (*path, Step(scope)), certain)
            else:
                yield from _at(branch, position, name, grain, (*path, Step(scope)), certain)
        return
    selects = selects_of(scope)
    if position < len(selects) and not any(map(is_star, selects)):
        yield from _of_value(scope, selects[position].unalias(), selects[:position], grain, path, certain)
    else:
        yield Origin(None, name, certain, (*path, Step(scope)))


def _beside_star(scope: Scope, name: str, grain: Grain, path: Path, certain: bool) -> Iterator[Origin]:
    selects = selects_of(scope)
    for at, select in enumerate(selects):
        if not is_star(select) and select.alias_or_name.lower() == name.lower():
            yield from _of_value(scope, select.unalias(), selects[:at], grain, path, certain)
            return
    stars = [select for select in selects if is_star(select) and name.lower() not in left_out(select)]
    for star in stars:
        column = behind(star, name)
        for origin in origins(scope, column, grain, path=(*path, Step(scope, column))):
            yield Origin(origin.table, origin.column, origin.certain and certain, origin.path)
    if not stars:
        yield Origin(None, name, certain, (*path, Step(scope)))


def _of_value(
    scope: Scope, value: exp.Expr, before: list[exp.Expr], grain: Grain, path: Path, certain: bool
) -> Iterator[Origin]:
    path = (*path, Step(scope, value))
    columns = copied(value, grain)
    if not columns:
        yield Origin(None, "", certain, path)
    for column in columns:
        alias = None if column.table else _aliased(before, column.name)
        # In Spark, an alias to the left may be meant, if no source has such a column.
        is_alias = alias is not None and copied(alias, grain) != [column]
        if alias is not None and is_alias:
            yield from _of_value(scope, alias, [], grain, path[:-1], False)
        for origin in origins(scope, column, grain, path=path):
            yield Origin(origin.table, origin.column, origin.certain and certain and not is_alias, origin.path)


def _aliased(selects: list[exp.Expr], name: str) -> exp.Expr | None:
    return next(
        (each.this for each in selects if isinstance(each, exp.Alias) and each.alias.lower() == name.lower()), None
    )


def mixed_by(path: Path, grain: Grain) -> exp.Expr | None:
    """What makes a row of one window out of rows of others on the way."""
    for step in reversed(path):
        if (mixer := _mixer(step, grain)) is not None:
            return mixer
    return None


def _mixer(step: Step, grain: Grain) -> exp.Expr | None:
    scope, query = step.scope, step.scope.expression
    if (cut := cut_of(query)) is not None:
        return cut
    around = query.find_ancestor(exp.With)
    if scope.is_cte and scope.set_operation_scopes and around is not None and around.args.get("recursive"):
        return query
    if not isinstance(query, exp.Select) or step.value is None:
        return None
    for mixer, keys in mixers(scope, query):
        if keys is None or not _keeps_apart(step, keys, grain):
            return mixer
    return None


def mixers(scope: Scope, query: exp.Select) -> Iterator[tuple[exp.Expr, list[exp.Expr] | None]]:
    """What makes rows of several, and by what it keeps them apart; None: by nothing."""
    for pivot in scope.pivots:
        if not pivot.args.get("unpivot"):
            yield pivot, None
    group: exp.Expr | None = query.args.get("group")
    if group is not None:
        yield group, list(_group_keys(group, query))
    elif (made := next(_aggregates(query), None)) is not None:
        yield made, None
    for window in _own(query, exp.Window):
        if not window.args.get("alias"):  # what one of the clause WINDOW does is seen where it is used
            yield window, list(window.args.get("partition_by") or [])


def _aggregates(query: exp.Select) -> Iterator[exp.Expr]:
    return (each for each in _own(query, exp.AggFunc) if each.find_ancestor(exp.Window, exp.Query) is query)


def _own(query: exp.Select, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Of a SELECT itself, not of those within it."""
    return (each for each in query.find_all(kind) if each.parent_select is query)


def cut_of(query: exp.Expr) -> exp.Expr | None:
    """LIMIT or OFFSET of a query, or of brackets around it."""
    node: exp.Expr | None = query
    while node is query or isinstance(node, exp.Subquery):
        cut: exp.Expr | None = node.args.get("limit") or node.args.get("offset")
        if cut is not None:
            return cut
        node = node.parent
    return None


def _group_keys(group: exp.Expr, query: exp.Select) -> Iterator[exp.Expr]:
    if group.args.get("all"):
        yield from (select.unalias() for select in query.selects if not select.find(exp.AggFunc))
    if any(group.args.get(each) for each in ("cube", "rollup", "grouping_sets")):
        return
    for key in group.expressions:
        yield key
        if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(query.selects):
            yield query.selects[int(key.name) - 1].unalias()
        elif isinstance(key, exp.Column) and not key.table and (value := _aliased(query.selects, key.name)):
            yield value


def _keeps_apart(step: Step, keys: Iterable[exp.Expr], grain: Grain) -> bool:
    """Whether one of the keys is the time, or the window in which it lies."""
    assert step.value is not None
    times = _sources(step.scope, step.value, grain)
    return bool(times) and any(times <= _sources(step.scope, key, grain) for key in keys)


def _sources(scope: Scope, value: exp.Expr, grain: Grain) -> set[tuple[int, str]]:
    found = [origin for column in copied(value, grain) for origin in origins(scope, column, grain)]
    return {(id(each.table), each.column.lower()) for each in found if each.table is not None}
