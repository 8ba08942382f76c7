"""Names of tables in a query: found, and exchanged in place so that the rest stays as it was written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope

from mere.lake.query.spark import SparkView
from mere.names import TableName

_Edit = tuple[int, int, str]  # from, to, and what stands there instead
_Called = tuple[int, tuple[str, ...]]  # in which SELECT a table is called how


def tables_of(sql: str) -> list[TableName]:
    """What a view reads; nothing if that cannot be told."""
    try:
        return list(dict.fromkeys(table for table, _ in _tables(parse_one(sql, dialect=SparkView))))
    except SqlglotError:
        return []


def with_tables(sql: str, others: Mapping[TableName, str]) -> str:
    """The query, reading other tables in place of some. A table keeps the name by which its columns are called, but
    for the schema before it: what replaces it has none."""
    query = parse_one(sql, dialect=SparkView)
    sources = list(query.find_all(exp.Table, exp.Subquery))
    edits: list[_Edit] = []
    called: dict[_Called, str] = {}
    for table, node in _tables(query):
        if table not in others:
            continue
        text = f"`{others[table]}`"
        if not node.alias:
            select, bare = id(node.parent_select), node.name.casefold()
            # Of two tables `events`, one beside the other or within its SELECT, only the schema tells which is meant.
            around = [_around(each) for each in sources if each is not node and each.alias_or_name.casefold() == bare]
            name = others[table] if any(node.parent_select in each for each in around) else node.name
            called[select, _words(node)] = name
            if not any(each[:1] == [node.parent_select] for each in around):
                called[select, (bare,)] = name
            text += f" AS `{name}`"
        edits.append((node.parts[0].meta["start"], node.parts[-1].meta["end"] + 1, text))
    edits += _columns(query, called, {(id(each.parent_select), (each.alias_or_name.casefold(),)) for each in sources})
    for start, end, text in sorted(edits, reverse=True):
        sql = sql[:start] + text + sql[end:]
    return sql


def _columns(query: exp.Expr, called: Mapping[_Called, str], sources: Set[_Called]) -> Iterator[_Edit]:
    """Columns called by a table. A field inside of a column is called so, too: the tables around tell which it is."""
    for column in query.find_all(exp.Column):
        words = _words(column)
        for select in _around(column):
            before = range(len(words) - 1, 0, -1)
            count = next((count for count in before if (id(select), words[:count]) in called), None)
            if count is not None:
                start, end = column.parts[0].meta["start"], column.parts[count - 1].meta["end"] + 1
                yield start, end, f"`{called[id(select), words[:count]]}`"
            if count is not None or (id(select), words[:1]) in sources:
                break


def _around(node: exp.Expr) -> list[exp.Expr]:
    """The SELECTs in which it stands, the nearest first."""
    select = node.parent_select
    return [] if select is None else [select, *_around(select)]


def _words(node: exp.Table | exp.Column) -> tuple[str, ...]:
    return tuple(part.name.casefold() for part in node.parts)


def _tables(query: exp.Expr) -> Iterator[tuple[TableName, exp.Table]]:
    seen: set[int] = set()
    for scope in traverse_scope(query):
        for source in scope.sources.values():
            if isinstance(source, exp.Table) and len(source.parts) > 1 and id(source) not in seen:
                seen.add(id(source))
                parts = [part.name for part in source.parts]
                yield TableName(".".join(parts[:-1]), parts[-1]), source
