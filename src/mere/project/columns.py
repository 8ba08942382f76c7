"""Which columns a query has and which it asks for, as far as the columns of its tables are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from mere.names import TableName
from mere.project.scopes import sources_of

# A table's columns; a table that is not in it is one of which nothing is known.
Schemas = Mapping[TableName, tuple[str, ...]]

# What Iceberg and Spark add to every table without showing it.
_HIDDEN = frozenset({"_file", "_pos", "_partition", "_spec_id", "_deleted", "_metadata", "_row_id"})


@dataclass(frozen=True)
class Unknown:
    """A column that no source of the query has. `known` are those that they have."""

    node: exp.Expr
    name: str
    source: str | None
    known: tuple[str, ...]


def output_columns(tree: exp.Expr, schemas: Schemas) -> tuple[str, ...] | None:
    """None if a `*` stands for columns that are not known."""
    scopes = list(traverse_scope(tree)) if isinstance(tree, exp.Query) else []
    return _outputs(scopes[-1], schemas) if scopes else None


def unknown_columns(tree: exp.Expr, schemas: Schemas) -> Iterator[Unknown]:
    for scope in traverse_scope(tree) if isinstance(tree, exp.Query) else []:
        if isinstance(scope.expression, exp.Select) and not scope.pivots:
            for column in scope.columns:
                # The columns of a subquery that may be from around it are looked at from inside.
                if column.parent_select is scope.expression and (found := _unknown(scope, column, schemas)):
                    yield found


def star_over_table(tree: exp.Expr) -> exp.Expr | None:
    """The `*` at the end of a query, if what it stands for is decided by a table and not by the query."""
    scopes = list(traverse_scope(tree)) if isinstance(tree, exp.Query) else []
    return _open_star(scopes[-1]) if scopes else None


def _open_star(scope: Scope) -> exp.Expr | None:
    for branch in scope.set_operation_scopes:
        if (star := _open_star(branch)) is not None:
            return star
    for select in _selects(scope):
        if not select.is_star:
            continue
        for _, source in _starred(scope, select):
            if not isinstance(source, Scope) or _open_star(source) is not None:
                return select
    return None


def _selects(scope: Scope) -> list[exp.Expr]:
    is_plain = isinstance(scope.expression, exp.Query) and not scope.set_operation_scopes
    return scope.expression.selects if is_plain and isinstance(scope.expression, exp.Query) else []


def _starred(scope: Scope, star: exp.Expr) -> Iterator[tuple[str, exp.Table | Scope]]:
    """The sources for whose columns a `*` or `t.*` stands."""
    qualifier = star.table.lower() if isinstance(star, exp.Column) else ""
    for name, (_, source) in (sources_of(scope) or {}).items():
        if not qualifier or name.lower() == qualifier:
            yield name, source


def _outputs(scope: Scope, schemas: Schemas) -> tuple[str, ...] | None:
    if scope.set_operation_scopes:
        return _outputs(scope.set_operation_scopes[0], schemas)
    if scope.pivots or sources_of(scope) is None:
        return None
    names: list[str] = []
    for select in _selects(scope):
        if not select.is_star:
            names.append(select.alias_or_name)
            continue
        star = select.this if isinstance(select, exp.Column) else select
        if star.args.get("replace") or star.args.get("rename"):
            return None
        without = {each.name.lower() for each in star.args.get("except_") or []}
        for name, _ in _starred(scope, select):
            columns = _of_source(scope, name, schemas)
            if columns is None:
                return None
            names += [each for each in columns if each.lower() not in without]
    # A column without a name, such as count(*), gets one from Spark.
    return tuple(names) if all(names) else None


def _of_source(scope: Scope, name: str, schemas: Schemas) -> tuple[str, ...] | None:
    node, source = (sources_of(scope) or {})[name]
    alias = node.args.get("alias")
    if alias is not None and (given := tuple(each.name for each in alias.args.get("columns") or [])):
        return given
    if isinstance(source, Scope):
        return tuple(source.outer_columns) or (None if source.is_udtf else _outputs(source, schemas))
    if not isinstance(source.this, exp.Identifier) or len(source.parts) != 2 or source.args.get("pivots"):
        return None
    return schemas.get(TableName(*(part.name for part in source.parts)))


def _unknown(scope: Scope, column: exp.Column, schemas: Schemas) -> Unknown | None:
    parts = [part.name for part in column.parts]
    around: Scope | None = scope
    known: list[str] = []
    while around is not None:
        sources = sources_of(around)
        if sources is None:
            return None
        if len(parts) > 1 and (source := _named(around, parts[:-1])) is not None:
            # What follows a column's own name is a field inside of it.
            name = parts[source[1]]
            columns = _of_source(around, source[0], schemas)
            at = column.parts[source[1]]
            return None if columns is None or _has(columns, name) else Unknown(at, name, source[0], columns)
        for name in sources:
            columns = _of_source(around, name, schemas)
            if columns is None:
                return None
            known += columns
        if not sources and around is scope and around.parent is None:
            return None
        # Spark lets a column be used by its alias in the same SELECT.
        known += [select.alias for select in _selects(around) if select.alias]
        around = around.parent if around.is_subquery or around.is_udtf else None
    known_names = tuple(dict.fromkeys(known))
    return None if _has(known, parts[0]) else Unknown(column.parts[0], parts[0], None, known_names)


def _named(scope: Scope, parts: list[str]) -> tuple[str, int] | None:
    """The source that a column names, and at which of its parts the column begins."""
    for name, (_, source) in (sources_of(scope) or {}).items():
        if name.lower() == parts[0].lower():
            return name, 1
        written = [part.name.lower() for part in source.parts] if isinstance(source, exp.Table) else []
        if len(parts) > 1 and written == [part.lower() for part in parts[:2]]:
            return name, 2
    return None


def _has(columns: tuple[str, ...] | list[str], name: str) -> bool:
    return name.lower() in _HIDDEN or name.lower() in (each.lower() for each in columns)
