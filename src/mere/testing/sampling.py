"""Real rows of a model's inputs that belong together: some of one input, and the rows of the others that they join."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mere.lake.lake import Lake
from mere.names import TableName
from mere.project.graph import Graph
from mere.project.model import Model, Sql
from mere.sql.spelling.standard import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp
    from sqlglot.optimizer.scope import Scope

Columns = Mapping[TableName, Sequence[str]]

# Of the rows that join a sampled row there may be many: so many times the sample, and no more, are taken.
_AT_MOST = 10


@dataclass(frozen=True)
class Join:
    """A column of one table that is compared with a column of another."""

    table: TableName
    column: str
    other: TableName
    other_column: str

    def turned(self) -> Join:
        return Join(self.other, self.other_column, self.table, self.column)


@dataclass(frozen=True)
class Sample:
    """How to get rows of a table: those that join rows of `by` on pairs of columns (its own first), or just some."""

    table: TableName
    by: TableName | None = None
    on: tuple[tuple[str, str], ...] = ()


def driving(model: Model) -> TableName:
    """The input whose rows the others are looked up for."""
    leading = [each for each in model.inputs if each.time or each.new_rows or each.changes]
    return (leading or list(model.inputs))[0].table


def samples(model: Model, joins: Iterable[Join]) -> list[Sample]:
    """In an order in which each table comes after the one that it joins."""
    both = [each for join in joins for each in (join, join.turned())]
    found = [Sample(driving(model))]
    left = [each.table for each in model.inputs if each.table != found[0].table]
    while left:
        reached = [each.table for each in found]
        following = next(
            ((table, by) for by in reached for table in left if any(j.table == table and j.other == by for j in both)),
            None,
        )
        if following is None:
            found.append(Sample(left.pop(0)))
            continue
        table, by = following
        pairs = dict.fromkeys((j.column, j.other_column) for j in both if j.table == table and j.other == by)
        found.append(Sample(table, by, tuple(pairs)))
        left.remove(table)
    return found


def joins_of(model: Model, graph: Graph, columns: Columns) -> list[Join]:
    """By the equalities in a query. What a function of Python joins is guessed: columns of one name, if they are the
    key of a table."""
    if isinstance(model.body, Sql):
        return list(_joins_in(model.body.text, columns))
    tables = [each.table for each in model.inputs]
    found = []
    for index, table in enumerate(tables):
        for other in tables[:index]:
            keys = {*_key(table, graph), *_key(other, graph)}
            shared = set(columns[table]) & set(columns[other])
            found += [Join(table, name, other, name) for name in sorted(shared & keys if keys & shared else shared)]
    return found


def _key(table: TableName, graph: Graph) -> tuple[str, ...]:
    return graph.models[table].key if table in graph.models else ()


def _joins_in(text: str, columns: Columns) -> Iterator[Join]:
    from sqlglot import exp, parse_one
    from sqlglot.optimizer.scope import traverse_scope

    from mere.sql.spark.read import SparkView

    for scope in traverse_scope(parse_one(text, dialect=SparkView)):
        if not isinstance(scope.expression, exp.Select):
            continue
        for left, right in _equalities(scope.expression):
            one, other = _origin(left, scope, columns), _origin(right, scope, columns)
            if one and other and one[0] != other[0]:
                yield Join(*one, *other)


def _equalities(select: exp.Select) -> Iterator[tuple[exp.Column, exp.Column]]:
    """`a.x = b.y` in ON and WHERE, and USING."""
    from sqlglot import exp

    before = [select.args["from_"].this.alias_or_name] if select.args.get("from_") else []
    for join in select.args.get("joins") or []:
        for name in join.args.get("using") or []:
            own = exp.column(name.name, table=join.this.alias_or_name)
            yield from ((exp.column(name.name, table=other), own) for other in before)
        before.append(join.this.alias_or_name)
    for equality in select.find_all(exp.EQ, exp.NullSafeEQ):
        left, right = equality.left.unnest(), equality.right.unnest()
        if isinstance(left, exp.Column) and isinstance(right, exp.Column) and equality.parent_select is select:
            yield left, right


def _origin(column: exp.Column, scope: Scope, columns: Columns) -> tuple[TableName, str] | None:
    """The table's column of which it is a copy."""
    from sqlglot import exp

    from mere.sql.scopes import table_name

    name = column.name.casefold()
    for alias, source in scope.sources.items():
        if column.table and column.table.casefold() != alias.casefold():
            continue
        if isinstance(source, exp.Table):
            table = table_name(source)
            known = next((each for each in columns.get(table, ()) if each.casefold() == name), None)
            if known:
                return table, known
        elif isinstance(source.expression, exp.Select):
            made = next((each for each in source.expression.selects if each.alias_or_name.casefold() == name), None)
            inner = made.unalias() if made is not None else None
            if isinstance(inner, exp.Column):
                return _origin(inner, source, columns)
            if made is None and source.expression.is_star:
                return _origin(exp.column(name), source, columns)
    return None


def columns_read(model: Model, columns: Columns) -> dict[TableName, list[str]]:
    """Those of each input that the query may mean; all of them, if it does not say so."""
    if not isinstance(model.body, Sql):
        return {table: list(names) for table, names in columns.items()}
    from sqlglot import exp, parse_one

    from mere.sql.spark.read import SparkView

    tree = parse_one(model.body.text, dialect=SparkView)
    stars = [each for each in tree.find_all(exp.Star) if not isinstance(each.parent, exp.Count)]
    named = {each.name.casefold() for each in tree.find_all(exp.Column, exp.Identifier)}
    return {
        table: [name for name in names if stars or name.casefold() in named] or list(names)[:1]
        for table, names in columns.items()
    }


def sampled(
    lake: Lake, at: str, plan: Sequence[Sample], read: Mapping[TableName, Sequence[str]], rows: int
) -> dict[TableName, pa.Table]:
    """The rows themselves, by DuckDB, always the same of the same tables."""
    texts: dict[TableName, str] = {}
    found = {}
    for sample in plan:
        wanted = [*read[sample.table], *(own for own, _ in sample.on)]
        for other in plan:
            wanted += [column for _, column in other.on] if other.by == sample.table else []
        texts[sample.table] = _text(sample, list(dict.fromkeys(wanted)), texts, rows)
        with lake.sql(f"SELECT {_names(read[sample.table])} FROM ({texts[sample.table]})", at) as result:
            found[sample.table] = result.arrow()
    return found


def _text(sample: Sample, columns: Sequence[str], texts: Mapping[TableName, str], rows: int) -> str:
    named = _names(columns)
    source = f"SELECT {named} FROM {quoted(sample.table.namespace)}.{quoted(sample.table.name)}"
    if sample.by is None:
        # In an order that has nothing to do with the values, and is the same at every time.
        return f"SELECT {named} FROM ({source}) ORDER BY hash({named}), {named} LIMIT {rows}"
    on = " AND ".join(f"t.{quoted(own)} = s.{quoted(other)}" for own, other in sample.on)
    matched = f"SELECT {named} FROM ({source}) AS t SEMI JOIN ({texts[sample.by]}) AS s ON {on}"
    return f"SELECT {named} FROM ({matched}) ORDER BY {named} LIMIT {rows * _AT_MOST}"


def _names(columns: Iterable[str]) -> str:
    return ", ".join(map(quoted, columns))
