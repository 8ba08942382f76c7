"""`mere check`: what can be known to be wrong, or unwise, before anything runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mere.errors import ProjectError
from mere.names import TableName, near
from mere.project.cases import Case, read_cases
from mere.project.graph import maker_of
from mere.project.load import Loader
from mere.project.model import Csv, Kind, Model, Python, Sql
from mere.project.rules import ERRORS, Rule
from mere.project.schemas import columns_in_lake
from mere.project.seeds import columns_of
from mere.sources.source import Source

if TYPE_CHECKING:
    from sqlglot import exp

    from mere.lake.tableset import TableSet

_USE_NOW = "Write :now and declare its precision (`now: day`): it is bound once per run and part of the state."

# In SQL by sqlglot's name for the function or its own; in Python by the name that is called.
_CHANGING_SQL = frozenset(
    {
        *("now", "currenttimestamp", "currentdate", "currenttime", "currentdatetime", "localtimestamp", "localtime"),
        *("curdate", "getdate", "sysdate", "rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle"),
        *("monotonically_increasing_id", "spark_partition_id", "input_file_name"),
        *("currentuser", "sessionuser", "session_user"),
    }
)
_CHANGING_PYTHON = frozenset(
    {
        *("now", "today", "utcnow", "current_timestamp", "current_date", "localtimestamp", "curdate", "time_ns"),
        *("rand", "randn", "random", "randstr", "uniform", "shuffle", "uuid", "uuid1", "uuid4", "token_hex"),
        *("monotonically_increasing_id", "spark_partition_id", "input_file_name"),
    }
)


@dataclass(frozen=True)
class Finding:
    rule: Rule
    message: str
    file: str | None
    line: int | None = None
    column: int | None = None
    remedy: str | None = None
    model: str | None = None

    @property
    def is_error(self) -> bool:
        return self.rule in ERRORS

    @property
    def place(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


@dataclass(frozen=True)
class Checked:
    models: int
    findings: tuple[Finding, ...]  # in the order of files and lines


def check(
    folder: Path,
    patterns: Iterable[str] = (),
    variables: Mapping[str, str] | None = None,
    tables: TableSet | None = None,
) -> Checked:
    """`tables`: a ref of the lake, whose tables and their columns are then known."""
    loader = Loader(folder, variables or {})
    try:
        graph = loader.load()
    except ProjectError as error:
        return Checked(0, tuple(_problems(error)))
    chosen = graph.select(patterns)
    # The columns of a model are those of its inputs, so that all are looked at, whichever are asked about.
    examiner = _Examiner(loader, graph.models, tables)
    found = [
        finding
        for model in graph.models.values()
        for finding in examiner.examine(model)
        if model.name in chosen and finding.rule not in model.off
    ]
    try:
        cases = read_cases(loader.files, graph)
    except ProjectError as error:
        found += _problems(error)
    else:
        found += [each for case in cases if case.model.name in chosen for each in examiner.examine_case(case)]
    if len(chosen) == len(graph.models):
        found += _unused_macros(loader, graph.models.values())
    return Checked(len(chosen), tuple(sorted(found, key=_order)))


def _problems(error: ProjectError) -> Iterator[Finding]:
    for each in error.problems:
        yield Finding(Rule.PARSE, each.problem, each.file, each.line, each.column, each.remedy)


def _order(finding: Finding) -> tuple[str, int, int, str]:
    return finding.file or "", finding.line or 0, finding.column or 0, finding.rule


class _Examiner:
    def __init__(self, loader: Loader, models: Mapping[TableName, Model], tables: TableSet | None) -> None:
        self._loader = loader
        self._models = models
        self._tables = tables
        self._schemas: dict[TableName, tuple[str, ...]] = {}

    def examine(self, model: Model) -> Iterator[Finding]:
        """In dependency order: what a model's columns are is known to those after it."""
        for each in model.inputs:
            self._look_up(each.table)
        yield from self._unknown_tables(model)
        if isinstance(model.body, Sql):
            yield from self._sql(model, model.body)
        elif isinstance(model.body, Python):
            yield from _python(model, model.body, self._loader.files.text(PurePosixPath(model.file)))
        elif isinstance(model.body, Csv):
            self._schemas[model.name] = self._seed_columns(model.body)
        else:
            self._look_up(model.name)
        yield from self._unknown_settings(model)
        if not model.key and model.kind is not Kind.VIEW:
            yield _finding(Rule.MISSING_KEY, model, "no `key` says what makes a row unique", "Write `key: [column]`.")
        if not model.audits and model.kind not in (Kind.VIEW, Kind.SEED):
            message = "no audit keeps a bad row from being published"
            yield _finding(Rule.MISSING_AUDIT, model, message, "Write for example `audits: [{not_null: column}]`.")

    def examine_case(self, case: Case) -> Iterator[Finding]:
        """A test, when all models were examined."""
        for table, name, entry in case.named():
            columns = self._schemas.get(table)
            if columns is not None and name.lower() not in {column.lower() for column in columns}:
                message = f"there is no column `{name}` of {table}.{near(name, columns)}"
                yield Finding(
                    Rule.UNKNOWN_COLUMN, message, entry.file.as_posix(), entry.line, None, None, str(case.model)
                )

    def _unknown_tables(self, model: Model) -> Iterator[Finding]:
        """A warning: somebody may yet write such a table."""
        if self._tables is None:
            return
        read = {each.table: (model.file, each.line) for each in model.inputs}
        read = {table: (audit.file, audit.line) for audit in model.audits for table in audit.reads} | read
        for table, (file, line) in read.items():
            if maker_of(table, self._models) is None and table not in self._tables:
                known = map(str, (*self._models, *self._tables))
                message = f"no model makes {table}, nor is it in the lake.{near(str(table), known)}"
                yield Finding(Rule.UNKNOWN_TABLE, message, file, line, None, None, str(model))

    def _look_up(self, table: TableName) -> None:
        """A table that no model makes, and what a source brings, has the columns that it has in the lake."""
        made = self._models.get(table)
        if table in self._schemas or self._tables is None or (made is not None and made.kind is not Kind.SOURCE):
            return
        if (columns := columns_in_lake(self._tables, table)) is not None:
            self._schemas[table] = columns

    def _seed_columns(self, body: Csv) -> tuple[str, ...]:
        return tuple(columns_of(self._loader.files.content(PurePosixPath(body.path)), body.delimiter))

    def _sql(self, model: Model, body: Sql) -> Iterator[Finding]:
        from sqlglot import parse_one

        from mere.lake.query.spark import SparkView
        from mere.project.columns import output_columns, star_over_table, unknown_columns

        tree = parse_one(body.text, dialect=SparkView)
        seen = set()
        for unknown in unknown_columns(tree, self._schemas):
            line, column = position(unknown.node, body)
            if (line, column) in seen:
                continue
            seen.add((line, column))
            whose = f" of {unknown.source}" if unknown.source else ""
            message = f"there is no column `{unknown.name}`{whose}.{near(unknown.name, unknown.known)}"
            yield Finding(Rule.UNKNOWN_COLUMN, message, model.file, line, column, None, str(model))
        yield from _changing_sql(model, body, tree)
        if (star := star_over_table(tree)) is not None:
            line, _ = position(star, body)
            message = "`*` at the end lets a change upstream change the columns of this table"
            yield Finding(Rule.SELECT_STAR, message, model.file, line, None, "Name the columns.", str(model))
        yield from _unread_ctes(model, body, tree)
        if (columns := output_columns(tree, self._schemas)) is not None:
            self._schemas[model.name] = (*columns, *model.added_columns)

    def _unknown_settings(self, model: Model) -> Iterator[Finding]:
        columns = self._schemas.get(model.name)
        if columns is None:
            return
        lowered = {column.lower() for column in columns}
        for key, name in _settings_columns(model):
            if name.lower() not in lowered:
                line = self._line_of(model, key)
                message = f"`{key}` names `{name}`, which {model} does not have.{near(name, columns)}"
                yield Finding(Rule.UNKNOWN_COLUMN, message, model.file, line, None, None, str(model))
        promised = {name.lower() for name in (*model.contract, *model.added_columns)}
        for name in columns if model.contract else ():
            if name.lower() not in promised:
                message, line = f"`{name}` is not in the contract", self._line_of(model, "contract")
                yield Finding(Rule.UNKNOWN_COLUMN, message, model.file, line, None, "Promise it.", str(model))

    def _line_of(self, model: Model, key: str) -> int:
        """Where a setting stands in a header."""
        if not isinstance(model.body, Sql):
            return model.body.line
        lines = self._loader.files.text(PurePosixPath(model.file)).splitlines()
        return next((at for at, text in enumerate(lines, 1) if text.startswith(f"-- {key}:")), 1)


def _finding(rule: Rule, model: Model, message: str, remedy: str | None = None) -> Finding:
    return Finding(rule, message, model.file, model.body.line, None, remedy, str(model))


def position(node: exp.Expr, body: Sql | Python | Csv | Source) -> tuple[int, int | None]:
    """The line and column in the file; in an expanded macro, those that they would have if it stood there."""
    at: exp.Expr | None = node
    while at is not None:
        for each in at.walk():
            if "line" in each.meta:
                start = int(each.meta["col"]) - (each.meta["end"] - each.meta["start"])
                return body.line + int(each.meta["line"]) - 1, start if at is node else None
        at = at.parent  # not every word knows its place: an alias beside it does
    return body.line, None


def _settings_columns(model: Model) -> Iterator[tuple[str, str]]:
    if model.time is not None:
        yield "time_column", model.time.column
    yield from (("key", name) for name in model.key)
    yield from (("latest_by", name) for name in (model.latest_by,) if name)
    yield from (("updated_at", name) for name in (model.updated_at,) if name)
    yield from (("compare", name) for name in model.compare)
    yield from (("contract", name) for name in model.contract)
    yield from (("columns", name) for name in {**model.columns, **model.was} if not model.contract)
    yield from (("sort_by", name.split()[0]) for name in model.sort_by if re.match(r"\w+(\s|$)", name))
    yield from (("partition_by", re.findall(r"\w+", name)[-1]) for name in model.partition_by)


def _changing_sql(model: Model, body: Sql, tree: exp.Expr) -> Iterator[Finding]:
    from sqlglot import exp

    for node in tree.find_all(exp.Func):
        name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
        if name in _CHANGING_SQL:
            line, column = position(node, body)
            message = f"`{node.sql('spark').lower()}` is another value at every run"
            yield Finding(Rule.CHANGING_VALUE, message, model.file, line, column, _USE_NOW, str(model))


def _unread_ctes(model: Model, body: Sql, tree: exp.Expr) -> Iterator[Finding]:
    from sqlglot import exp

    read = {table.name.lower() for table in tree.find_all(exp.Table) if not table.db}
    for cte in tree.find_all(exp.CTE):
        if cte.alias.lower() not in read:
            line, column = position(cte.args["alias"], body)
            message = f"`{cte.alias}` is never read, but what it reads is a reason to build"
            yield Finding(Rule.UNUSED_INPUT, message, model.file, line, column, "Remove it.", str(model))


def _python(model: Model, body: Python, text: str) -> Iterator[Finding]:
    function = next(
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name == body.function and node.lineno == body.line
    )
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    for parameter, table in body.parameters:
        if parameter not in used:
            message = f"`{parameter}` is never used, but {table} is a reason to build"
            yield _finding(Rule.UNUSED_INPUT, model, message, "Remove it.")
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name in _CHANGING_PYTHON:
                message = f"`{ast.unparse(node)}` is another value at every run"
                remedy = 'Take a parameter `now` and declare its precision (now="day"): it is bound once per run.'
                place = model.file, node.lineno, node.col_offset + 1
                yield Finding(Rule.CHANGING_VALUE, message, *place, remedy, str(model))


def _unused_macros(loader: Loader, models: Iterable[Model]) -> Iterator[Finding]:
    texts = [loader.files.text(PurePosixPath(model.file)) for model in models if isinstance(model.body, Sql)]
    for name, (file, line) in loader.templates.unused(texts).items():
        yield Finding(Rule.UNUSED_MACRO, f"no model uses the macro `{name}`", file, line, None, "Remove it.")
