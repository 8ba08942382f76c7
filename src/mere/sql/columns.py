"""The columns that a query returns and the ones that it asks for, as far as its tables' columns are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from mere.names import TableName
from mere.sql.scopes import is_star, left_out, selects_of, sources_of, table_name

# A table's columns; a table that is not in it is one of which nothing is known.
Schemas = Mapping[TableName, tuple[str, ...]]

# What Iceberg and Spark add to every table without showing it.
_HIDDEN = frozenset(
    {
        *("_file", "_pos", "_partition", "_spec_id", "_deleted", "_metadata", "_row_id"),
        *("_last_updated_sequence_number", "_change_type", "_change_ordinal", "_commit_snapshot_id"),
    }
)
# Names that Spark takes for a function, or for a column of GROUPING SETS, where no column has them.
_CONSTANTS = frozenset(
    {
        *("current_date", "current_time", "current_timestamp", "user", "current_user", "session_user"),
        "grouping__id",
    }
)
# The clauses that are evaluated before the SELECT list, and cannot use its aliases.
_BEFORE_SELECT = frozenset({"from", "from_", "joins", "laterals", "where"})


@dataclass(frozen=True)
class Unknown:
    """A column that no source of the query has. `known` are those that they have."""

    node: exp.Expr
    name: str
    source: str | None
    known: tuple[str, ...]
    tables: frozenset[TableName]  # whose columns were looked at


def output_columns(tree: exp.Expr, schemas: Schemas) -> tuple[str, ...] | None:
    """None if a `*` stands for columns that are not known."""
    scopes = list(traverse_scope(tree)) if isinstance(tree, exp.Query) else []
    return _outputs(scopes[-1], schemas) if scopes else None


def unknown_columns(tree: exp.Expr, schemas: Schemas) -> Iterator[Unknown]:
    for scope in traverse_scope(tree) if isinstance(tree, exp.Query) else []:
        if isinstance(scope.expression, exp.Select) and not scope.pivots:
            for column in _columns(scope):
                if found := _unknown(scope, column, schemas):
                    yield found


def _columns(scope: Scope) -> Iterator[exp.Column]:
    """Those that a SELECT itself names, in every clause; `scope.columns` leaves out HAVING and QUALIFY."""
    for column in scope.find_all(exp.Column):
        # The columns of a subquery that may be from around it are looked at from inside.
        if column.parent_select is not scope.expression or isinstance(column.this, exp.Star):
            continue
        if column.find_ancestor(exp.Hint) is None:
            yield column


def star_over_table(tree: exp.Expr) -> exp.Expr | None:
    """The `*` at the end of a query, if what it stands for is decided by a table and not by the query."""
    scopes = list(traverse_scope(tree)) if isinstance(tree, exp.Query) else []
    return _open_star(scopes[-1]) if scopes else None


def _open_star(scope: Scope) -> exp.Expr | None:
    for branch in scope.set_operation_scopes:
        if (star := _open_star(branch)) is not None:
            return star
    for select in selects_of(scope):
        if not is_star(select):
            continue
        for _, source in _starred(scope, select):
            if not isinstance(source, Scope) or _open_star(source) is not None:
                return select
    return None


def _starred(scope: Scope, star: exp.Expr) -> Iterator[tuple[str, exp.Table | Scope]]:
    """The sources for whose columns a `*` or `t.*` stands."""
    qualifier = star.table.lower() if isinstance(star, exp.Column) else ""
    for name, (node, source) in (sources_of(scope) or {}).items():
        join = node.parent if isinstance(node.parent, exp.Join) else None
        if join is not None and join.kind in ("SEMI", "ANTI"):
            continue  # of which no column is seen
        if not qualifier or name.lower() == qualifier:
            yield name, source


def _outputs(scope: Scope, schemas: Schemas) -> tuple[str, ...] | None:
    if scope.set_operation_scopes:
        return _outputs(scope.set_operation_scopes[0], schemas)
    if scope.pivots or sources_of(scope) is None:
        return None
    names: list[str] = []
    for select in selects_of(scope):
        found = _starred_columns(scope, select, schemas) if is_star(select) else _names_of(select)
        if not found:
            return None
        names += found
    return tuple(names)


def _starred_columns(scope: Scope, select: exp.Expr, schemas: Schemas) -> list[str] | None:
    """None also for the fields of a struct, as in `address.*`."""
    star = select.this if isinstance(select, exp.Column) else select
    sources = list(_starred(scope, select))
    if star.args.get("replace") or star.args.get("rename") or not sources:
        return None
    names: list[str] = []
    without = left_out(star)
    for name, _ in sources:
        columns = _of_source(scope, name, schemas)
        if columns is None:
            return None
        names += [each for each in columns if each.lower() not in without]
    return names


def _names_of(select: exp.Expr) -> list[str] | None:
    """None if Spark makes up the name, as of count(*), or if there may be several columns, as of inline(…)."""
    match select:
        case exp.Alias():
            return [select.alias]
        case exp.Aliases():
            return [each.name for each in select.aliases] if select.aliases else None
        case exp.Cast() if isinstance(select.this, exp.Column | exp.Cast):
            return _names_of(select.this)
        case exp.Column() | exp.Dot():
            return [select.name]
    return None


def _of_source(scope: Scope, name: str, schemas: Schemas) -> tuple[str, ...] | None:
    node, source = (sources_of(scope) or {})[name]
    alias = node.args.get("alias")
    if alias is not None and (given := tuple(each.name for each in alias.args.get("columns") or [])):
        return given
    if (recursive := _recursive_cte(node)) is not None:
        return tuple(each.name for each in recursive.args["alias"].args.get("columns") or []) or None
    if isinstance(source, Scope):
        return tuple(source.outer_columns) or (None if source.is_udtf else _outputs(source, schemas))
    if not isinstance(source.this, exp.Identifier) or len(source.parts) != 2 or source.args.get("pivots"):
        return None
    return schemas.get(table_name(source))


def _recursive_cte(node: exp.Expr) -> exp.CTE | None:
    """The CTE that a table stands for inside of the CTE itself."""
    inside = node.find_ancestor(exp.CTE)
    while inside is not None and inside.alias.lower() != node.name.lower():
        inside = inside.find_ancestor(exp.CTE)
    return inside if inside is not None and inside.parent and inside.parent.args.get("recursive") else None


def _unknown(scope: Scope, column: exp.Column, schemas: Schemas) -> Unknown | None:
    parts = [part.name for part in column.parts]
    around: Scope | None = scope
    known: list[str] = []
    tables: set[TableName] = set()
    qualified: Unknown | None = None
    while around is not None:
        sources = sources_of(around)
        if sources is None:
            return None
        named = _named(around, parts[:-1]) if len(parts) > 1 and qualified is None else None
        if named is not None:
            source, at = named
            columns = _of_source(around, source, schemas)
            if columns is None or _has(columns, parts[at]):
                return None  # what follows a column's own name is a field inside of it
            qualified = Unknown(column.parts[at], parts[at], source, columns, _tables(sources[source][1]))
        for name, (_, source_scope) in sources.items():
            columns = _of_source(around, name, schemas)
            if columns is None:
                return None
            known += columns
            tables |= _tables(source_scope)
        if not sources and around is scope and around.parent is None:
            return None
        known += _aliases(around, column if around is scope else None)
        around = around.parent if around.is_subquery or around.is_udtf else None
    # A column that has the name of a table may have fields: `address.city`.
    if _has(known, parts[0]) or (len(parts) == 1 and parts[0].lower() in _CONSTANTS):
        return None
    return qualified or Unknown(column.parts[0], parts[0], None, tuple(dict.fromkeys(known)), frozenset(tables))


def _aliases(scope: Scope, column: exp.Column | None) -> list[str]:
    """The names of the SELECT list that a column can mean: to Spark those to its left, and all of them in the clauses
    that come after the list, such as GROUP BY. Without a column, all."""
    selects = selects_of(scope)
    if column is not None:
        clause: exp.Expr = column
        while clause.parent is not None and clause.parent is not scope.expression:
            clause = clause.parent
        if clause.arg_key in _BEFORE_SELECT:
            return []
        if clause.arg_key == "expressions":
            selects = selects[: clause.index]
    return [name for select in selects for name in _names_of(select) or ()]


def _tables(source: exp.Table | Scope) -> frozenset[TableName]:
    """Whose columns a source may have; of a subquery or CTE, all tables of the query."""
    found = source.expression.root().find_all(exp.Table) if isinstance(source, Scope) else [source]
    return frozenset(table_name(each) for each in found if each.db)


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
