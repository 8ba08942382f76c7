"""What a SQL model reads, found in its query by sqlglot: tables, `:placeholders`, and its inputs' time columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlglot import exp, parse
from sqlglot.errors import ParseError, TokenError
from sqlglot.optimizer.scope import traverse_scope
from sqlglot.tokenizer_core import TokenType

from mere.errors import ConfigError
from mere.names import TableName
from mere.project.problems import Problems
from mere.sql.mixing import outputs
from mere.sql.repeats import met_again
from mere.sql.scopes import table_name
from mere.sql.spark.read import SparkView
from mere.sql.windows import BOUNDS, Times
from mere.windows import Grain

PLACEHOLDERS = (*BOUNDS, "now")

# Functions whose argument is a table's name, where mere would not look for one.
_HIDING = {
    "identifier": "Write the table's name itself, or {{ var('name') }} for a part of it.",
    "table": "Write TABLE(SELECT * FROM schema.table).",
}

_AFTER_WITH = ("does not support CTE", "any statement following CTE")  # as sqlglot says it


@dataclass(frozen=True)
class Read:
    """A table in a query."""

    table: TableName
    line: int
    time: str | None  # the column that is compared with :start and with :end wherever the table stands
    mixed: str | None = None  # what makes rows of its rows of several times before they are compared
    shifted: str | None = None  # a comparison by which rows outside of the window are read
    again: int | None = None  # the line where it stands a second time, so that its rows meet rows of its own


@dataclass(frozen=True)
class Query:
    text: str  # without what follows the statement
    reads: tuple[Read, ...]
    placeholders: frozenset[str]
    times: Times
    tree: exp.Expr


def analyze(
    text: str,
    file: str,
    first_line: int,
    problems: Problems,
    grain: Grain = Grain.DAY,
    context: timedelta = timedelta(),
) -> Query | None:
    """None if there is no query to speak of. `grain`: of the model's windows; `context`: how far they look back."""
    place = _Place(file, first_line)
    try:
        text = without_end(text, place)
        tree = _one_query(text, place)
    except ConfigError as error:
        problems.add(error)
        return None
    names = set()
    for node in tree.find_all(exp.Placeholder, exp.Parameter):
        if node.name in PLACEHOLDERS and isinstance(node, exp.Placeholder):
            names.add(node.name)
        else:
            problems.add(
                place.error(
                    f"`{node.sql(SparkView)}` is not something that mere fills in",
                    node,
                    "A model can use :start, :end and :now; for your own values write {{ var('name') }}.",
                )
            )
    for function in tree.find_all(exp.Anonymous):
        if function.name.lower() in _HIDING and not function.find(exp.Query):
            problems.add(
                place.error(
                    f"`{function.sql(SparkView)}` hides which table is read", function, _HIDING[function.name.lower()]
                )
            )
    times = Times(tree, grain, lambda message, node, remedy: problems.add(place.error(message, node, remedy)), context)
    return Query(text, tuple(_reads(tree, times, place, problems)), frozenset(names), times, tree)


class _Place:
    def __init__(self, file: str, first_line: int) -> None:
        self.file = file
        self.first_line = first_line

    def line(self, node: exp.Expr | None) -> int:
        return self.first_line + _line(node) - 1

    def error(self, message: str, node: exp.Expr | None, remedy: str | None = None) -> ConfigError:
        return ConfigError(message, remedy=remedy, file=self.file, line=self.line(node))


def _line(node: exp.Expr | None) -> int:
    """Only names know their line: the first one inside, or else around."""
    while node is not None:
        for each in node.walk():
            if "line" in each.meta:
                return int(each.meta["line"])
        node = node.parent
    return 1


def without_end(text: str, place: _Place) -> str:
    """A semicolon at the end, and comments after it, are not part of the query."""
    try:
        tokens = SparkView().tokenize(text)
    except TokenError as error:
        raise ConfigError(f"not valid SQL: {error}", file=place.file, line=place.first_line) from error
    end = len(tokens)
    while end and tokens[end - 1].token_type is TokenType.SEMICOLON:
        end -= 1
    return text[: tokens[end].start].rstrip() if end < len(tokens) else text.rstrip()


def _mistake(details: Mapping[str, Any]) -> str:
    """What the parser says, in words of SQL rather than its own, and the text around the place."""
    said = str(details["description"] or "unexpected text").rstrip(".")
    marked = details.get("highlight") or ""
    if not said.endswith(_AFTER_WITH):
        return said + (f" at `{marked}`" if marked else "")
    before = (details.get("start_context") or "").rpartition("\n")[2]
    after = (details.get("end_context") or "").partition("\n")[0]
    return f"no SELECT follows WITH, near `{f'{before}{marked}{after}'.strip()}`"


def _one_query(text: str, place: _Place) -> exp.Expr:
    try:
        statements = [each for each in parse(text, dialect=SparkView) if each is not None]
    except ParseError as error:
        details = error.errors[0]
        raise ConfigError(
            f"not valid SQL: {_mistake(details)}",
            file=place.file,
            line=place.first_line + (details["line"] or 1) - 1,
            column=details["col"] - max(len(details.get("highlight") or ""), 1) + 1 if details["col"] else None,
        ) from error
    if not statements:
        raise ConfigError("there is no query", remedy="A model is one SELECT.", file=place.file, line=place.first_line)
    if len(statements) > 1:
        raise place.error(
            f"there are {len(statements)} statements", statements[1], "A model is one SELECT: make a model of each."
        )
    tree = statements[0]
    if not isinstance(tree, exp.Query | exp.Values):
        raise place.error(
            f"{tree.key.upper()} is not allowed in a model",
            tree,
            "A model is one SELECT; mere writes the table itself.",
        )
    _spell_ctes(tree)
    return tree


def _spell_ctes(tree: exp.Expr) -> None:
    """As where they are defined: to Spark their case does not matter, to sqlglot's scopes it does."""
    spelled = {cte.alias.lower(): cte.alias for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table) if spelled else ():
        name = spelled.get(table.name.lower()) if not table.db else None
        if name is not None and isinstance(table.this, exp.Identifier):
            table.this.set("this", name)


def _reads(tree: exp.Expr, times: Times, place: _Place, problems: Problems) -> Iterator[Read]:
    found: dict[TableName, list[exp.Table]] = {}
    for node in times.tables:
        with problems.gather():
            found.setdefault(_table_name(node, place), []).append(node)
    for table, nodes in found.items():
        columns = {column and column.lower(): column for column in map(times.column_of, nodes)}
        # Read once by windows and once as a whole, it cannot be known which windows a change of it touches.
        yield Read(
            table,
            place.line(nodes[0]),
            next(iter(columns.values())) if len(columns) == 1 else None,
            next(filter(None, map(times.mixed, nodes)), None),
            next(filter(None, map(times.shifted, nodes)), None),
            place.line(again) if (again := met_again(tree, nodes)) else None,
        )


def _table_name(node: exp.Table, place: _Place) -> TableName:
    parts = [part.name for part in node.parts]
    written = ".".join(parts)
    if len(parts) == 1:
        raise place.error(
            f"`{written}` is a name without a schema", node, f"Write schema.table, such as silver.{written}."
        )
    if len(parts) > 2:
        raise place.error(
            f"`{written}` has {len(parts)} parts: a ref is never written in a model",
            node,
            f"Write {'.'.join(parts[-2:])}: it is read on the ref on which the model runs.",
        )
    if "/" in parts[1] or ":" in parts[1]:
        raise place.error(f"`{written}` reads files", node, "Load them with a source or a seed, and read its table.")
    return TableName(*parts)


# What mixes rows: with it, a row that comes late can change rows of other times.
_MIXES = (exp.AggFunc, exp.Window, exp.Distinct, exp.Group, exp.Limit, exp.Except, exp.Intersect)


def copied_from(text: str, column: str) -> dict[TableName, str]:
    """The column of each table that a query's column is a copy of, where each row comes from one row of that table."""
    tree = parse(text, dialect=SparkView)[0]
    if not isinstance(tree, exp.Query) or tree.find(*_MIXES):
        return {}
    if any(union.args.get("distinct") for union in tree.find_all(exp.Union)):
        return {}
    scopes = traverse_scope(tree)
    nodes = [each for scope in scopes for each in scope.sources.values() if isinstance(each, exp.Table)]
    names = list(map(table_name, nodes))
    found = {id(each.table): each.column for each in outputs(scopes[-1], column, Grain.DAY) if each.certain}
    return {
        name: found[id(node)]
        for name, node in zip(names, nodes, strict=True)
        if id(node) in found and names.count(name) == 1
    }
