"""Examines one model with what is known of its inputs' columns. The result is kept until one of them changes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from mere.audits.audit import Audit
from mere.audits.custom import THIS
from mere.audits.rules import AcceptedValues, Assert, CustomQuery, Freshness, NotNull, Relationships, Unique
from mere.names import TableName, near
from mere.project.cache import FINDINGS, Cache, digest_of
from mere.project.cases import Case
from mere.project.check.findings import Finding, about, position
from mere.project.clocks import Clocks, of_types
from mere.project.files.seed import columns_of
from mere.project.graph import maker_of
from mere.project.kinds import VALID_FROM, VALID_TO, Kind
from mere.project.load import Files
from mere.project.model import Csv, Model, Python, Sql
from mere.project.rules import Rule
from mere.project.schemas import clocks_in_lake, columns_in_lake
from mere.sources.source import OnNewColumn, Source

if TYPE_CHECKING:
    from sqlglot import exp

    from mere.lake.query.tables import TableSet
    from mere.sql.columns import Unknown


@dataclass(frozen=True)
class Examined:
    """What was found in a model, and its columns as far as they are known."""

    key: str
    findings: tuple[Finding, ...]
    columns: tuple[str, ...] | None
    open: bool  # a load may add columns
    clocks: Clocks = field(default_factory=dict)  # its days, local times and instants
    looked_at: Mapping[str, str | None] = field(default_factory=dict)


class Examiner:
    """Looks at models in dependency order: the columns of each are known to those after it."""

    def __init__(self, files: Files, models: Mapping[TableName, Model], tables: TableSet | None) -> None:
        self._files = files
        self._models = models
        self._tables = tables
        self._schemas: dict[TableName, tuple[str, ...]] = {}
        self._open: set[TableName] = set()  # of these tables, more columns may come with the next load
        self._clocks: dict[TableName, Clocks] = {}
        self._cache: Cache[Examined] = Cache(files.folder, FINDINGS)

    def examine(self, model: Model) -> tuple[Finding, ...]:
        read = {*(each.table for each in model.inputs), *(table for audit in model.audits for table in audit.reads)}
        for table in sorted(read):
            self._look_up(table)
        if isinstance(model.body, Source):
            self._look_up(model.name)
        known = [
            (table, self._schemas.get(table), table in self._open, self._clocks.get(table))
            for table in sorted({*read, model.name})
        ]
        # The text too: a setting that only moved is on another line.
        key = digest_of(repr((self._files.digest(model.file), model, known)).encode())
        found = self._cache.find(str(model), key, self._files.digest)
        if found is None:
            found = self._examined(model, key)
            # Which modules are installed can change without a change of the project.
            if not any(each.rule is Rule.UNKNOWN_MODULE for each in found.findings):
                self._cache.keep(str(model), found)
        if found.columns is not None:
            self._schemas[model.name] = found.columns
        if found.open:
            self._open.add(model.name)
        self._clocks[model.name] = {**self._clocks.get(model.name, {}), **found.clocks}
        return found.findings

    def save(self) -> None:
        self._cache.save(also=map(str, self._models))

    def examine_case(self, case: Case) -> Iterator[Finding]:
        """A test, when all models were examined."""
        for table, name, entry in case.named():
            columns = self._schemas.get(table)
            if columns is not None and name.lower() not in {column.lower() for column in columns}:
                message = f"there is no column `{name}` of {table}.{near(name, columns)}"
                place = entry.file.as_posix(), entry.line, None, None, str(case.model), table not in self._open
                yield Finding(Rule.UNKNOWN_COLUMN, message, *place)

    def unknown_tables(self, model: Model) -> Iterator[Finding]:
        """A warning: somebody may yet write such a table."""
        if self._tables is None:
            return
        read = {each.table: (model.file, each.line) for each in model.inputs}
        read = {table: (audit.file, audit.line) for audit in model.audits for table in audit.reads} | read
        for table, (file, line) in read.items():
            if maker_of(table, self._models) is None and table not in self._tables:
                known = map(str, (*self._models, *self._tables))
                message = f"no model makes {table}, and it is not in the lake.{near(str(table), known)}"
                yield Finding(Rule.UNKNOWN_TABLE, message, file, line, None, None, str(model))

    def _look_up(self, table: TableName) -> None:
        """A table that no model makes, and what a source brings, has the columns that it has in the lake."""
        if table in self._schemas or self._tables is None:
            return
        maker = maker_of(table, self._models)
        if maker is not None and (maker != table or self._models[maker].kind is not Kind.SOURCE):
            return
        if (columns := columns_in_lake(self._tables, table)) is not None:
            self._schemas[table] = columns
            self._clocks[table] = clocks_in_lake(self._tables, table)
            if maker is not None and _may_grow(self._models[maker]):
                self._open.add(table)

    def _examined(self, model: Model, key: str) -> Examined:
        findings: list[Finding] = []
        columns, is_open = self._schemas.get(model.name), model.name in self._open
        clocks: Clocks = {}
        if isinstance(model.body, Sql):
            from sqlglot import parse_one

            from mere.project.check.changing import changing_sql
            from mere.project.check.instants import clocks_of_query, turned_into_instants
            from mere.sql.columns import output_columns, star_over_table
            from mere.sql.spark.read import SparkView

            tree = parse_one(model.body.text, dialect=SparkView)
            findings += self._unknown_in(model, model.body, tree)
            findings += changing_sql(model, model.body, tree)
            findings += _written_badly(model, model.body, tree)
            columns = output_columns(tree, self._schemas)
            values = clocks_of_query(tree, self._clocks)
            findings += turned_into_instants(model, model.body, values)
            clocks = {name: value.clock for name, value in values.items()}
            is_open = star_over_table(tree) is not None and any(each.table in self._open for each in model.inputs)
        elif isinstance(model.body, Csv):
            columns = tuple(columns_of(self._files.content(PurePosixPath(model.body.path)), model.body.delimiter))
        elif isinstance(model.body, Python) and model.contract:
            columns = tuple(model.contract)
        clocks = {**clocks, **_declared_clocks(model)}
        if columns is not None and not isinstance(model.body, Source):
            columns = (*columns, *(each for each in model.added_columns if each not in columns))
        if model.file.endswith(".py"):
            findings += self._python(model)
        if columns is not None:
            findings += self._unknown_in_settings(model, columns, is_open)
        findings += self._unknown_in_inputs(model, {(each.rule, each.message) for each in findings})
        findings += self._in_audits(model, columns, is_open)
        findings += _undeclared(model)
        return Examined(key, tuple(findings), columns, is_open, clocks)

    def _unknown_in(self, model: Model, body: Sql, tree: exp.Expr) -> Iterator[Finding]:
        from mere.sql.columns import unknown_columns

        seen = set()
        for unknown in unknown_columns(tree, self._schemas):
            line, column = position(unknown.node, body)
            if (line, column) not in seen:
                seen.add((line, column))
                message, certain = self._no_column(unknown)
                yield Finding(Rule.UNKNOWN_COLUMN, message, model.file, line, column, None, str(model), certain)

    def _no_column(self, unknown: Unknown) -> tuple[str, bool]:
        whose = f" of {unknown.source}" if unknown.source else ""
        growing = sorted(map(str, unknown.tables & self._open))
        later = f" The next load of {', '.join(growing)} may bring it." if growing else ""
        return f"there is no column `{unknown.name}`{whose}.{near(unknown.name, unknown.known)}{later}", not growing

    def _unknown_in_settings(self, model: Model, columns: tuple[str, ...], is_open: bool) -> Iterator[Finding]:
        lowered = {column.lower() for column in columns}
        for key, name in _settings_columns(model):
            if name.lower() not in lowered:
                line = self._line_of(model, key)
                message = f"`{key}` names `{name}`, which {model} does not have.{near(name, columns)}"
                place = model.file, line, None, None, str(model), not is_open
                yield Finding(Rule.UNKNOWN_COLUMN, message, *place)
        promised = {name.lower() for name in (*model.contract, *model.added_columns)}
        for name in columns if model.contract and not isinstance(model.body, Source) else ():
            if name.lower() not in promised:
                message, line = f"`{name}` is not in the contract", self._line_of(model, "contract")
                yield Finding(Rule.UNKNOWN_COLUMN, message, model.file, line, None, "Promise it.", str(model))

    def _unknown_in_inputs(self, model: Model, known: set[tuple[Rule, str]]) -> Iterator[Finding]:
        """The time and the keys by which inputs are read; in SQL also by the query, where it was looked at."""
        for each in model.inputs:
            columns = self._schemas.get(each.table)
            if columns is None or any(rule is Rule.UNKNOWN_COLUMN for rule, _ in known):
                continue
            texts = [each.time] if each.time else []
            for name in [*texts, *(column for _, text in each.key for column in _columns_in(text))]:
                if name.lower() not in {column.lower() for column in columns}:
                    message = f"{each.table} has no column `{name}`.{near(name, columns)}"
                    place = model.file, each.line, None, None, str(model), each.table not in self._open
                    yield Finding(Rule.UNKNOWN_COLUMN, message, *place)

    def _in_audits(self, model: Model, columns: tuple[str, ...] | None, is_open: bool) -> Iterator[Finding]:
        if any(audit.quarantine for audit in model.audits):
            from mere.project.check.changing import changing_rules

            yield from changing_rules(model)
        schemas = {**self._schemas, model.name: columns} if columns is not None else self._schemas
        growing = {*self._open, model.name} if is_open else self._open
        for audit in model.audits:
            for name, table in _audited_columns(audit, model.name):
                known = schemas.get(table)
                if known is not None and name.lower() not in {column.lower() for column in known}:
                    message = f"{audit.name} names `{name}`, which {table} does not have.{near(name, known)}"
                    place = audit.file, audit.line, None, None, str(model), table not in growing
                    yield Finding(Rule.UNKNOWN_COLUMN, message, *place)
            for query in _audit_queries(audit, model.name):
                from mere.sql.columns import unknown_columns

                seen = set()
                for unknown in unknown_columns(query, schemas):
                    if unknown.name not in seen:
                        seen.add(unknown.name)
                        reason, _ = self._no_column(unknown)
                        place = audit.file, audit.line, None, None, str(model), not unknown.tables & growing
                        yield Finding(Rule.UNKNOWN_COLUMN, f"{audit.name}: {reason}", *place)

    def _python(self, model: Model) -> Iterator[Finding]:
        from mere.project.check.modules import missing_modules

        for each in missing_modules(self._files.folder, PurePosixPath(model.file)):
            where = "the project has no such module" if each.inside else "it is not in the project, nor installed"
            message = f"`{each.module}` cannot be imported: {where}"
            yield Finding(Rule.UNKNOWN_MODULE, message, each.file, each.line, None, None, str(model))
        if not isinstance(model.body, Python):
            return
        from mere.project.check.changing import changing_python

        tree = ast.parse(self._files.text(PurePosixPath(model.file)))
        yield from _unused_parameters(model, model.body, tree)
        yield from changing_python(model, model.body, tree)

    def _line_of(self, model: Model, key: str) -> int:
        """Where a setting stands in a header, or in the settings of a seed or source."""
        if isinstance(model.body, Python):
            return model.body.line
        start = "-- " if isinstance(model.body, Sql) else ""
        lines = self._files.text(PurePosixPath(model.file)).splitlines()
        return next((at for at, text in enumerate(lines, 1) if text.startswith(f"{start}{key}:")), 1)


def _declared_clocks(model: Model) -> Clocks:
    declared: dict[str, str | None] = {name: promise.type for name, promise in model.contract.items()}
    if isinstance(model.body, Csv):
        declared |= model.body.types
    elif isinstance(model.body, Source):
        declared |= {name: each.type for name, each in model.body.columns.items()}
    declared |= dict.fromkeys(set(model.added_columns) & {VALID_FROM, VALID_TO}, "timestamp")
    return of_types(declared)


def _may_grow(model: Model) -> bool:
    return isinstance(model.body, Source) and not model.contract and model.body.on_new_column is OnNewColumn.ADD


def _settings_columns(model: Model) -> Iterator[tuple[str, str]]:
    if model.time is not None:
        yield "time_column", model.time.column
    yield from (("key", name) for name in model.key)
    yield from (("latest_by", name) for name in (model.latest_by,) if name)
    yield from (("updated_at", name) for name in (model.updated_at,) if name)
    yield from (("compare", name) for name in model.compare)
    yield from (("dump", name) for name in (model.dump,) if name)
    yield from (("contract", name) for name in model.contract)
    yield from (("columns", name) for name in {**model.columns, **model.was} if not model.contract)
    yield from (("sort_by", name.split()[0]) for name in model.sort_by if re.match(r"\w+(\s|$)", name))
    yield from (("partition_by", re.findall(r"\w+", name)[-1]) for name in model.partition_by)
    if isinstance(model.body, Csv):
        yield from (("types", name) for name in model.body.types)


def _columns_in(text: str) -> list[str]:
    """The columns of an expression; of one that cannot be read, none."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    from mere.sql.spark.read import SparkView

    try:
        return [each.parts[0].name for each in parse_one(text, dialect=SparkView).find_all(exp.Column)]
    except SqlglotError:
        return []


def _audited_columns(audit: Audit, table: TableName) -> Iterator[tuple[str, TableName]]:
    match audit.rule:
        case NotNull(columns) | Unique(columns):
            yield from ((name, table) for name in columns)
        case AcceptedValues(column) | Freshness(column):
            yield column, table
        case Relationships(columns, to, key):
            yield from ((name, table) for name in columns)
            yield from ((name, to) for name in key)


def _audit_queries(audit: Audit, table: TableName) -> Iterator[exp.Expr]:
    """Its SQL, each part of it as a query of the audited table."""
    from sqlglot import parse_one

    from mere.sql.spark.read import SparkView
    from mere.sql.spelling.spark import name_of

    name = name_of(table)
    texts = [audit.where, audit.rule.condition if isinstance(audit.rule, Assert) else None]
    queries = [f"SELECT 1 FROM {name} WHERE {text}" for text in texts if text]
    if isinstance(audit.rule, CustomQuery):
        queries.append(f"WITH {THIS} AS (SELECT * FROM {name}) SELECT * FROM (\n{audit.rule.sql}\n) AS bad")
    yield from (parse_one(query, dialect=SparkView) for query in queries)


def _undeclared(model: Model) -> Iterator[Finding]:
    if not model.key and model.kind.rules.stored:
        yield about(Rule.MISSING_KEY, model, "no `key` says what makes a row unique", "Write `key: [column]`.")
    if not model.audits and model.kind.rules.stored and not isinstance(model.body, Csv):
        message = "no audit keeps a bad row from being published"
        yield about(Rule.MISSING_AUDIT, model, message, "Write for example `audits: [{not_null: column}]`.")


def _written_badly(model: Model, body: Sql, tree: exp.Expr) -> Iterator[Finding]:
    from sqlglot import exp

    from mere.sql.columns import star_over_table

    if (star := star_over_table(tree)) is not None:
        line, _ = position(star, body)
        message = "`*` at the end lets a change upstream change the columns of this table"
        yield Finding(Rule.SELECT_STAR, message, model.file, line, None, "Name the columns.", str(model))
    read = {table.name.lower() for table in tree.find_all(exp.Table) if not table.db}
    for cte in tree.find_all(exp.CTE):
        if cte.alias.lower() not in read:
            line, column = position(cte.args["alias"], body)
            message = f"`{cte.alias}` is never read, but what it reads is a reason to build"
            yield Finding(Rule.UNUSED_INPUT, message, model.file, line, column, "Remove it.", str(model))


def _unused_parameters(model: Model, body: Python, tree: ast.Module) -> Iterator[Finding]:
    function = next(
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name == body.function and node.lineno == body.line
    )
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    for parameter, table in body.parameters:
        if parameter not in used:
            message = f"`{parameter}` is never used, but {table} is a reason to build"
            yield about(Rule.UNUSED_INPUT, model, message, "Remove it.")
