"""Rewrites a query for other tables or other rows, in place, so that the rest stays as written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.tokenizer_core import Token, TokenType

from mere.names import TableName
from mere.sql.lookback import placeholder
from mere.sql.scopes import table_name
from mere.sql.spark.read import SparkView
from mere.sql.windows import BOUNDS

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
    return _edited(sql, edits)


_COMPARISONS: Mapping[type[exp.Expr], TokenType] = {
    exp.GTE: TokenType.GTE,
    exp.LT: TokenType.LT,
    exp.LTE: TokenType.LTE,
    exp.GT: TokenType.GT,
}


def with_null_times(sql: str, kind: str) -> str | None:
    """The query of the window from NULL to NULL: what is compared with both bounds has to be NULL. None if it asks for
    the bounds in any other way, for then nobody can say what that window would be. `kind`: the type of the bounds."""
    query, tokens = parse_one(sql, dialect=SparkView), SparkView().tokenize(sql)
    places = [
        (colon.start, name.end + 1)
        for colon, name in pairwise(tokens)
        if colon.token_type is TokenType.COLON and name.start == colon.end + 1 and name.text.casefold() in BOUNDS
    ]
    nodes = [node for node in query.find_all(exp.Placeholder) if node.name in BOUNDS]
    compared: dict[str, set[str]] = {}
    edits: list[_Edit] = []
    for comparison in query.find_all(*_COMPARISONS):
        for value, other in ((comparison.this, comparison.expression), (comparison.expression, comparison.this)):
            if (bound := placeholder(other)) and bound[0] in BOUNDS:
                compared.setdefault(value.sql(SparkView), set()).add(bound[0])
                operator = _operator(comparison, value, tokens)
                edits += [(operator.start, operator.end + 1, "<=>")] if operator else []
    if (
        len(edits) != len(nodes)
        or len(places) != len(nodes)
        or any(bounds != {*BOUNDS} for bounds in compared.values())
    ):
        return None
    edits += [(start, end, f"CAST(NULL AS {kind})") for start, end in places]
    return _edited(sql, edits)


def _operator(comparison: exp.Expr, value: exp.Expr, tokens: Sequence[Token]) -> Token | None:
    """Of a comparison: between its value, of which the names know where they stand, and the bound."""
    names = [each.meta for each in value.find_all(exp.Identifier) if "end" in each.meta]
    wanted = [each for each in tokens if each.token_type is _COMPARISONS[type(comparison)]]
    if not names or len(list(value.find_all(*_COMPARISONS))) > 0:
        return None
    if value is comparison.this:
        return next((each for each in wanted if each.start > max(meta["end"] for meta in names)), None)
    return next((each for each in reversed(wanted) if each.end < min(meta["start"] for meta in names)), None)


def _edited(sql: str, edits: Iterable[_Edit]) -> str:
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
                yield table_name(source), source
