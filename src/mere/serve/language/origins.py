"""What the columns of a result are to a Postgres client: types that DuckDB does not have, such as oid and name, and the
table that each column comes from.

Read from the tree as the client wrote it, with its names folded and its columns named. What cannot be told that way
keeps the type that DuckDB gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from sqlglot import exp

from mere.serve import builtin
from mere.serve.catalog.types import built_in, type_named
from mere.serve.engine import functions
from mere.serve.language import guard, names
from mere.serve.language import types as datatypes
from mere.serve.protocol import types
from mere.serve.protocol.port import Field


@dataclass(frozen=True)
class Origin:
    name: str
    type: int = 0  # 0: as DuckDB has it
    modifier: int = -1
    table: int = 0
    number: int = 0

    def told(self, field: Field) -> Field:
        """The field with this type, if DuckDB's stands for it."""
        if not _is_name(self.name, field.name):
            return field
        placed = replace(field, name=self.name, table=self.table, number=self.number)
        meant = types.TEXT if self.type == types.UNKNOWN else self.type
        if not meant or not (_stands_for(field.oid, meant) or self.type == types.UNKNOWN):
            return placed
        return replace(placed, oid=meant, size=built_in()[meant].length, modifier=self.modifier)

    @property
    def value(self) -> Origin:
        """The same as an expression has it: of no table."""
        return Origin("", self.type, self.modifier)


Columns = Sequence[Origin] | None  # None: nobody can tell how many
Describe = Callable[[exp.Table], Columns]

_NONE = Origin("")
_UNKNOWN = Origin("", types.UNKNOWN)  # a literal: it takes the type of what stands beside it
_INTEGERS = frozenset({types.INT2, types.INT4, types.INT8})
_TEXTS = frozenset({types.TEXT, types.NAME, types.VARCHAR})
# DuckDB cannot tell these from texts and numbers.
_CASTS = frozenset({"oid", "xid", "name", "char", "varchar", "text"})
_OF_ARGUMENT = frozenset({"min", "max", "any_value", "first_value", "last_value", "nth_value", "lag", "lead", "mode"})
_LEAST = frozenset({"min", "max"})
_OF_ALL = frozenset({"coalesce", "nullif", "greatest", "least"})
_OF_SESSION = (exp.CurrentUser, exp.SessionUser, exp.CurrentRole, exp.CurrentCatalog, exp.CurrentSchema)
# What DuckDB takes for a function where there is no such column, also in quotes.
_FUNCTIONS_OF_DUCKDB = frozenset(
    {"user", "current_user", "session_user", "current_role", "current_catalog", "current_schema", "current_date"}
    | {"current_time", "current_timestamp", "localtime", "localtimestamp"}
)


@cache
def of_catalog(relation: str) -> Columns:
    """The columns of a table of the system, such as `pg_catalog.pg_class`. A domain is its base type to a client."""
    definition = builtin.definitions().get(relation)
    if definition is None:
        return None  # one of our own
    found = []
    for number, column in enumerate(definition.columns, 1):
        type_ = type_named(column.type)
        oid, modifier = (type_.base, type_.base_modifier) if type_.base else (type_.oid, -1)
        found.append(Origin(column.name, oid, modifier, definition.oid, number))
    return found


class Origins:
    """`describe` gives the columns of a table that FROM names, if it finds it."""

    def __init__(self, describe: Describe) -> None:
        self._describe = describe
        self._defined: dict[int, Columns] = {}  # by WITH
        self._found: dict[int, list[tuple[str, Columns]]] = {}  # by FROM

    def of(self, query: exp.Expr) -> Columns:
        if isinstance(query, exp.Subquery):
            return self.of(query.this)
        if isinstance(query, exp.SetOperation):
            left, right = self.of(query.this), self.of(query.expression)
            if left is None or right is None or len(left) != len(right):
                return None
            return [replace(_common([a, b]), name=a.name) for a, b in zip(left, right, strict=True)]
        return self._of_select(query) if isinstance(query, exp.Select) else None

    def settle(self, tree: exp.Expr) -> None:
        """Say of which table a column is that DuckDB may take for a function; PgError if it is of none."""
        for column in list(tree.find_all(exp.Column)):
            if column.name in _FUNCTIONS_OF_DUCKDB and not column.table and (home := self._home(column)):
                column.set("table", exp.to_identifier(home, quoted=True))

    def _home(self, column: exp.Column) -> str | None:
        """None: a column of the result, or nobody knows."""
        select = column.find_ancestor(exp.Select)
        while select is not None:
            if isinstance(column.parent, exp.Ordered) and any(each.alias == column.name for each in select.expressions):
                return None
            for name, columns in self._sources(select):
                if columns is None:
                    return None
                if any(each.name == column.name for each in columns):
                    return name
            select = select.find_ancestor(exp.Select)
        raise names.no_column(column)

    def _of_select(self, select: exp.Select) -> Columns:
        found: list[Origin] = []
        for each in select.expressions:
            if each.is_star:
                every = self._star(select, each.table if isinstance(each, exp.Column) else "")
                if every is None:
                    return None
                found += every
            else:
                inner = each.unalias()
                while isinstance(inner, exp.Paren):
                    inner = inner.this
                what = self._column(inner) if isinstance(inner, exp.Column) else self._value(inner)
                found.append(replace(what, name=each.alias_or_name))
        return found

    def _star(self, select: exp.Select, wanted: str) -> Columns:
        found: list[Origin] = []
        merged = {each.name for join in select.args.get("joins") or () for each in join.args.get("using") or ()}
        for name, columns in self._sources(select):
            if wanted and name != wanted:
                continue
            if columns is None:
                return None
            known = {each.name for each in found} & merged if not wanted else set()
            found += [each for each in columns if each.name not in known]
        return found

    # What FROM names

    def _sources(self, select: exp.Select) -> list[tuple[str, Columns]]:
        if id(select) not in self._found:
            found = self._found[id(select)] = []  # LATERAL sees what stands before it
            for node in _places(select):
                found.append((node.alias_or_name, self._of_source(node)))  # noqa: PERF401
        return self._found[id(select)]

    def _of_source(self, node: exp.Expr) -> Columns:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            cte = names.visible(node) if not node.args.get("db") else None
            columns = self._describe(node) if cte is None else self._of_with(cte)
        elif isinstance(node, exp.Subquery | exp.Lateral) and isinstance(node.this, exp.Query):
            columns = self.of(node.this)
        elif isinstance(node, exp.Values):
            columns = [_NONE] * len(node.args["alias"].args.get("columns") or ())
        elif _is_of_one_column(node):
            columns = [Origin(node.alias_or_name)]
        else:
            columns = None
        return _renamed(columns, node.args.get("alias"))

    def _of_with(self, cte: exp.CTE) -> Columns:
        if id(cte) not in self._defined:
            query = cte.this
            is_recursive = isinstance(cte.parent, exp.With) and cte.parent.args.get("recursive")
            if is_recursive and isinstance(query, exp.SetOperation):
                query = query.this
            self._defined[id(cte)] = None  # while it is looked at
            columns = self.of(query)
            if is_recursive and columns is not None:
                columns = [replace(each.value, name=each.name) for each in columns]
            self._defined[id(cte)] = _renamed(columns, cte.args.get("alias"))
        return self._defined[id(cte)]

    # Expressions

    def _column(self, node: exp.Column) -> Origin:
        select = node.find_ancestor(exp.Select)
        while select is not None:
            for name, columns in self._sources(select):
                if node.table and name != node.table:
                    continue
                for each in columns or ():
                    if each.name == node.name:
                        return each
            select = select.find_ancestor(exp.Select)
        return _NONE

    def _value(self, node: exp.Expr) -> Origin:
        if isinstance(node, exp.Column):
            return self._column(node).value
        if isinstance(node, exp.Paren | exp.Alias):
            return self._value(node.this)
        if isinstance(node, exp.Null) or node.is_string:
            return _UNKNOWN
        if isinstance(node, exp.Literal):
            return Origin("", types.INT4) if node.is_int else _NONE
        if isinstance(node, exp.Cast):
            return _of_cast(node)
        if isinstance(node, exp.Subquery):
            columns = self.of(node)
            return columns[0].value if columns else _NONE
        if isinstance(node, exp.Case):
            branches = [each.args["true"] for each in node.args.get("ifs") or ()]
            return _common([self._value(each) for each in (*branches, node.args.get("default")) if each is not None])
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous):
            return self._value(node.expression)
        if isinstance(node, exp.Window | exp.Filter):
            return self._value(node.this)
        if isinstance(node, _OF_SESSION):
            return Origin("", types.NAME)
        return self._called(node) if isinstance(node, exp.Anonymous) else _NONE

    def _called(self, node: exp.Anonymous) -> Origin:
        name = guard.function_name(node)
        if name in _OF_ARGUMENT and node.expressions:
            found = self._value(node.expressions[0])
            # There is no min(name): it is min(text).
            return _NONE if name in _LEAST and found.type in types.TEXTS else replace(found, modifier=-1)
        if name in _OF_ALL:
            return _common([self._value(each) for each in node.expressions])
        if name == "array_agg" and len(node.expressions) == 1:
            known = types.BY_OID.get(self._value(node.expressions[0]).type)
            return Origin("", known.array) if known else _NONE
        return Origin("", _results().get(name, 0))


def _is_of_one_column(node: exp.Expr) -> bool:
    """A function in FROM: its column has the name of its alias."""
    function = node.this if isinstance(node, exp.Table | exp.Lateral) else node
    if isinstance(function, exp.Unnest):
        return bool(node.alias) and len(function.expressions) == 1 and not function.args.get("offset")
    return (
        bool(node.alias) and isinstance(function, exp.Anonymous) and guard.function_name(function) in functions.TABLES
    )


def _renamed(columns: Columns, alias: exp.Expr | None) -> Columns:
    given = [each.name for each in alias.args.get("columns") or ()] if isinstance(alias, exp.TableAlias) else []
    if columns is None or not given:
        return columns
    return [replace(each, name=name) for each, name in zip(columns, given, strict=False)] + list(columns[len(given) :])


def _places(select: exp.Select) -> Iterator[exp.Expr]:
    """In order, also what stands in parentheses."""
    for place in (select.args.get("from_"), *(select.args.get("joins") or ())):
        if place is not None:
            yield from _inside(place.this)


def _inside(node: exp.Expr) -> Iterator[exp.Expr]:
    is_group = isinstance(node, exp.Paren | exp.Subquery) and not isinstance(node.this, exp.Query)
    if is_group:
        yield from _inside(node.this)
    else:
        yield node
    for join in node.args.get("joins") or ():
        yield from _inside(join.this)


def _common(values: Sequence[Origin]) -> Origin:
    """The type of values of which any may come out."""
    told = list(dict.fromkeys((each.type, each.modifier) for each in values if each.type != types.UNKNOWN))
    if len(told) < 2:
        return Origin("", *told[0]) if told else _UNKNOWN
    kinds = list(dict.fromkeys(type_ for type_, _ in told))
    if len(kinds) == 1 or _TEXTS.issuperset(kinds):  # of texts, each may become the other
        return Origin("", kinds[0])
    return Origin("", types.OID) if types.OID in kinds and _INTEGERS.issuperset({*kinds} - {types.OID}) else _NONE


def _of_cast(node: exp.Cast) -> Origin:
    type_ = node.args["to"]
    name = datatypes.postgres_name(type_)
    if name not in _CASTS:
        return _NONE
    known, lengths = types.BY_NAME[name], datatypes.modifiers(type_)
    if datatypes.is_array(type_):
        return Origin("", known.array)
    return Origin("", known.oid, lengths[0] + 4 if lengths and name == "varchar" else -1)


@cache
def _results() -> dict[str, int]:
    """By the functions of Postgres, as far as DuckDB cannot tell what they return, and all of one name do the same."""
    columns = builtin.columns("pg_proc")
    found: dict[str, set[int]] = {}
    for name, result in zip(columns["proname"], columns["prorettype"], strict=True):
        found.setdefault(name, set()).add(result)
    told = {types.BY_NAME[each].oid for each in _CASTS} | {types.BY_NAME["name"].array}
    single = {name: next(iter(results)) for name, results in found.items() if len(results) == 1 and results <= told}
    return {**single, "user": types.NAME}


def _is_name(meant: str, told: str) -> bool:
    """DuckDB numbers columns of one name."""
    return told == meant or (told.startswith(f"{meant}_") and told[len(meant) + 1 :].isdigit())


def _stands_for(told: int, meant: int) -> bool:
    """Whether values that DuckDB has in the one type can be sent as the other."""
    if told == meant:
        return True
    if told in _INTEGERS:
        return meant in types.NUMBERS_OF_ROWS
    if told in types.ELEMENTS:
        return meant in types.ELEMENTS or meant == types.ANYARRAY or built_in()[meant].is_array
    is_number = meant in types.NUMBERS_OF_ROWS - {types.REGTYPE, types.REGCLASS} or meant in _INTEGERS
    return told == types.TEXT and not is_number and not built_in()[meant].is_array
