"""Which rows of its tables a row of a query is made of, by the query's key.

For a table, a column of the key is an expression over the table's own columns such that rows of the query with some
value of the key are made of the table's rows with that value, and of no others. Then a change in the table touches the
keys of its changed rows, and these keys can be built from the rows that have them.

NULL is never a key: a query that gives one is refused when it runs. So what an outer join did not find need not be
told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp, parse_one
from sqlglot.optimizer.scope import Scope, traverse_scope

from mere.names import TableName
from mere.sql.joins import Joins
from mere.sql.mixing import cut_of, mixers, names_of
from mere.sql.scopes import behind, is_star, left_out, sources_of, table_name
from mere.sql.spark.read import SparkView


@dataclass(frozen=True)
class Keyed:
    """How a table's rows are found by the key of a query that reads it."""

    key: Mapping[str, str]  # for columns of the key, the expression; empty if none is known
    rowwise: bool = False  # each row makes its rows of the query by itself: those of more rows are simply more
    why: str = ""  # why there is none, in words


@dataclass(frozen=True)
class _Value:
    """What a column of the key is in a query; or what stands in the way of knowing it."""

    node: exp.Expr | None
    why: str = ""


_Values = Mapping[str, _Value]


@dataclass
class _Found:
    values: list[_Values] = field(default_factory=list)  # for each time that the table is read
    linear: bool = True


# What is made of several rows, or differs each time.
_IMPURE = (exp.AggFunc, exp.Window, exp.Query, exp.UDTF, exp.Explode, exp.Placeholder, exp.Star, exp.Lambda)


def keys_of_view(sql: str, key: Mapping[str, str]) -> dict[TableName, Mapping[str, str]]:
    """A key over the columns of a view, by those of every table that it reads."""
    found = keys_of(parse_one(sql, dialect=SparkView), {name: _parsed(text) for name, text in key.items()})
    return {table: each.key for table, each in found.items()}


def _parsed(text: str) -> exp.Expr:
    return parse_one(text, dialect=SparkView)


def keys_of(tree: exp.Expr, key: Mapping[str, exp.Expr]) -> dict[TableName, Keyed]:
    """Of every table that the query reads. `key`: over the columns that it gives."""
    scopes = traverse_scope(tree) if isinstance(tree, exp.Query) else []
    if not scopes or not key:
        return {}
    walk = _Walk()
    walk.into(scopes[-1], {name: _Value(value) for name, value in key.items()}, linear=True, path=())
    tables = (each for each in tree.find_all(exp.Table) if len(each.parts) > 1)
    return {name: _keyed(walk.found.get(name)) for name in map(table_name, tables)}


def _keyed(found: _Found | None) -> Keyed:
    if found is None:
        return Keyed({})
    told = [{name: value.node.sql(SparkView) for name, value in each.items() if value.node} for each in found.values]
    key = {name: text for name, text in told[0].items() if all(each.get(name) == text for each in told)}
    if key:
        return Keyed(key, found.linear and len(found.values) == 1)
    why = next((value.why for each in found.values for value in each.values() if value.why), "")
    return Keyed({}, why=why or "it is read twice, by different columns")


class _Walk:
    """From the outer query inwards, once along each way to a table."""

    def __init__(self) -> None:
        self.found: dict[TableName, _Found] = {}

    def into(self, scope: Scope, values: _Values, linear: bool, path: tuple[Scope, ...]) -> None:
        """`values`: over the columns that the query gives."""
        if any(scope is each for each in path):
            return self._lose(scope, "it is read by a recursive query")
        path = (*path, scope)
        query = scope.expression
        if isinstance(query, exp.Subquery):
            for inner in scope.sources.values():
                if isinstance(inner, Scope):
                    self.into(inner, values, linear, path)
            return None
        if (end := cut_of(query)) is not None:
            values, linear = _none(values, f"`{_shown(end)}` takes some rows of all"), False
        if scope.set_operation_scopes:
            self._into_branches(scope, values, path)
        elif isinstance(query, exp.Select):
            self._into_select(scope, query, values, linear, path)
        return None

    def _into_branches(self, scope: Scope, values: _Values, path: tuple[Scope, ...]) -> None:
        names = scope.outer_columns or names_of(scope)
        for branch in scope.set_operation_scopes:
            own = names_of(branch)
            if names is None or own is None or len(names) != len(own) or not all(own):
                given = _none(values, "the columns of a `*` in a UNION are not known")
            else:
                given = _renamed(values, dict(zip((name.lower() for name in names), own, strict=True)))
            self.into(branch, given, False, path)  # the rows of the others come along

    def _into_select(
        self, scope: Scope, query: exp.Select, values: _Values, linear: bool, path: tuple[Scope, ...]
    ) -> None:
        for inner in scope.subquery_scopes:
            self._lose(inner, "it is read in a subquery of a condition or a column")
        sources = sources_of(scope)
        if sources is None:
            return self._lose(scope, "two tables of the query have one name")
        joins = Joins(scope, query)
        values = {name: _inside(scope, query, value) for name, value in values.items()}
        values = {name: _unmixed(scope, query, joins, value) for name, value in values.items()}
        linear = linear and not _mixes(scope, query)
        for name, (node, source) in sources.items():
            of_source = {key: _over(joins, name, value) for key, value in values.items()}
            alone = linear and name.lower() not in joins.optional
            if isinstance(source, Scope):
                self.into(source, of_source, alone, path)
            elif len(source.parts) > 1:
                self._reach(source, node, of_source, alone)
        return None

    def _reach(self, table: exp.Table, node: exp.Expr, values: _Values, linear: bool) -> None:
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            values = _none(values, "its columns get other names by position")
        if table.args.get("sample") or node.args.get("sample") or node.args.get("pivots"):
            values, linear = _none(values, "some of its rows are taken, or turned into columns"), False
        found = self.found.setdefault(table_name(table), _Found())
        found.values.append(values)
        found.linear = found.linear and linear

    def _lose(self, scope: Scope, why: str) -> None:
        """Whatever is read in there is read whole."""
        for table in scope.expression.find_all(exp.Table):
            if len(table.parts) > 1:
                found = self.found.setdefault(table_name(table), _Found())
                found.values.append({"": _Value(None, why)})
                found.linear = False


def _shown(node: exp.Expr) -> str:
    text = node.sql(SparkView)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _none(values: _Values, why: str) -> _Values:
    return {name: _Value(None, value.why or why) for name, value in values.items()}


def _renamed(values: _Values, names: Mapping[str, str]) -> _Values:
    def column(old: exp.Column) -> exp.Expr | None:
        return exp.column(names[old.name.lower()]) if old.name.lower() in names else None

    return {name: _with_columns(value, column) for name, value in values.items()}


def _with_columns(value: _Value, replace: Callable[[exp.Column], exp.Expr | None]) -> _Value:
    """The value with each of its columns replaced; none if one of them cannot be."""
    if value.node is None:
        return value
    if isinstance(value.node, exp.Column):
        found = replace(value.node)
        return _Value(found.copy() if found else None, "" if found else value.why)
    node = value.node.copy()
    for column in list(node.find_all(exp.Column)):
        found = replace(column)
        if found is None:
            return _Value(None, value.why)
        column.replace(exp.paren(found.copy()) if isinstance(found, exp.Binary) else found.copy())
    return _Value(node, value.why)


def _inside(scope: Scope, query: exp.Select, value: _Value) -> _Value:
    """What the columns that a SELECT gives are made of, inside of it."""
    made = _with_columns(value, lambda column: _selected(scope, query, column.name))
    if made.node is not None and (isinstance(made.node, _IMPURE) or made.node.find(*_IMPURE)):
        return _Value(None, f"`{_shown(made.node)}` is made of more than one row, or not of columns alone")
    if made.node is None and value.node is not None:
        return _Value(None, made.why or f"where `{_shown(value.node)}` comes from is not clear")
    return made


def _selected(scope: Scope, query: exp.Select, name: str) -> exp.Expr | None:
    selects = query.selects
    given = [each.lower() for each in scope.outer_columns] or None
    if given is not None:
        plain = not any(map(is_star, selects))
        found = selects[given.index(name.lower())] if plain and name.lower() in given else None
    else:
        found = next(
            (each for each in selects if not is_star(each) and each.alias_or_name.lower() == name.lower()), None
        )
    if found is not None:
        made: exp.Expr = found.unalias()
        return None if _uses_alias(made, selects[: selects.index(found)]) else made
    stars = list(filter(is_star, selects))
    if given is not None or len(stars) != 1:
        return None
    if name.lower() in left_out(stars[0], "except_", "replace", "rename"):
        return None
    return behind(stars[0], name)


def _uses_alias(value: exp.Expr, before: Iterable[exp.Expr]) -> bool:
    """Whether a bare name may mean a column that the same SELECT makes further left, as Spark allows."""
    made = {
        each.alias.lower()
        for each in before
        if isinstance(each, exp.Alias) and not (isinstance(each.this, exp.Column) and each.this.name == each.alias)
    }
    return any(not each.table and each.name.lower() in made for each in value.find_all(exp.Column))


def _over(joins: Joins, source: str, value: _Value) -> _Value:
    """The value by the columns of one source alone."""
    if value.node is None:
        return value
    found = joins.over(value.node, source)
    if found is None:
        return _Value(None, f"no condition of a join makes a column of it equal to `{_shown(value.node)}`")
    return _Value(found)


def _unmixed(scope: Scope, query: exp.Select, joins: Joins, value: _Value) -> _Value:
    """None if rows of several keys are mixed."""
    if value.node is None:
        return value
    for mixer, keys in mixers(scope, query):
        if keys is None or not joins.is_held(value.node, keys):
            return _Value(None, f"`{_shown(mixer)}` puts rows of several keys together")
    return value


def _mixes(scope: Scope, query: exp.Select) -> bool:
    return query.args.get("distinct") is not None or any(True for _ in mixers(scope, query))
