"""Compiles a query from the client's syntax tree to the SQL that DuckDB gets."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count, islice
from typing import TYPE_CHECKING

import duckdb
from sqlglot import exp

from mere.errors import MereError
from mere.lake.query import metadata_tables, quarantine
from mere.lake.query.bindings import folders, schema_of
from mere.names import TableName
from mere.serve.access.roles import Role
from mere.serve.catalog import Catalog, columns_of
from mere.serve.catalog.inventory import Column, columns_of_schema, number_of
from mere.serve.catalog.rewrite import rewrite
from mere.serve.engine import functions
from mere.serve.engine.engine import CATALOG, Engine
from mere.serve.engine.recent import Recent
from mere.serve.engine.tables import SCHEMA, Pin
from mere.serve.language import errors, guard, names, parameters, rights
from mere.serve.language.mend import operators, sums
from mere.serve.language.origins import Columns, Origin, Origins, of_catalog
from mere.serve.parse import syntax
from mere.serve.protocol import types
from mere.serve.protocol.port import Described, Field, PgError

if TYPE_CHECKING:
    import pyarrow as pa

_KEPT = 60_000  # nodes of all statements that are kept: a node takes up to two kilobytes in what is made of it
_LONG = 2000  # nodes of one that is not


# Of its tree, of what the session sees with which rights, and of its parameters. The tree is kept with what was made of
# it, so that no other can have its id.
PlanKey = tuple[int, Hashable, tuple[int, ...]]


@dataclass
class Compiled:
    """It holds its tables until `release`."""

    engine: Engine
    written: exp.Expr  # as the client wrote it: names in it have positions
    query: exp.Expr  # for DuckDB, without types of parameters
    oids: tuple[int, ...]
    tables: frozenset[str]  # in DuckDB, `schema.name`
    folders: dict[str, str]  # of the tables, and their names
    columns: tuple[str, ...] = ()  # of the tables, for a hint
    relations: tuple[names.Relation, ...] = ()
    origins: Columns = None
    reads_views: bool = False
    sql: str = ""
    sql_without_values: str = ""  # NULL in place of each parameter
    held: list[str] = field(default_factory=list)
    confirmed: dict[str, bool] = field(default_factory=dict)  # SQL, and whether it says the same whenever it is run
    number: int = 0  # of what is kept, by which its answers are known
    parsed: dict[str, duckdb.Statement] = field(default_factory=dict)  # by DuckDB
    described: dict[str, Described] = field(default_factory=dict)  # by time zone, which is in the types of times
    fields: dict[str, tuple[pa.Schema, tuple[Field, ...]]] = field(default_factory=dict)  # of the last answer, likewise

    def release(self) -> None:
        self.engine.tables.release(self.held)
        self.held.clear()

    @cached_property
    def used(self) -> list[int]:
        """The numbers of the parameters that the query names: DuckDB takes the values of these, and no others."""
        return sorted({parameters.number_of(each) for each in parameters.find(self.query)})

    def confirm(self, sql: str) -> None:
        if sql not in self.confirmed:
            called = guard.confirm(self.engine, sql, self.tables)
            self.confirmed[sql] = called <= self.engine.steady

    def write(self) -> None:
        tree = self.query.copy()
        parameters.bind(tree, self.oids, self.used)
        self.sql = operators.sql(tree)
        self.sql_without_values = (
            operators.sql(parameters.without_values(self.query, self.oids)) if self.used else self.sql
        )


class Plans:
    """What was compiled lately: clients send the same statements again and again, and a commit does not change."""

    def __init__(self) -> None:
        self._known: Recent[PlanKey, Compiled] = Recent(_KEPT)
        self._numbers = count(1)

    def find(self, key: PlanKey) -> Compiled | None:
        return self._known.get(key)

    def keep(self, key: PlanKey, made: Compiled, weight: int) -> Compiled:
        """One for the caller, who releases it; what is kept holds nothing."""
        if not made.reads_views and all(relation.lasts for relation in made.relations):
            made.number = next(self._numbers)
        mine = copy(made)
        made.held = []
        if all(relation.lasts for relation in made.relations):
            self._known.keep(key, made, weight)
        return mine


def _is_timeless(written: exp.Expr) -> bool:
    """Whether it says the same for every session that sees the commit with the same rights."""
    if any(guard.function_name(each) in functions.SESSION for each in written.find_all(exp.Anonymous)):
        return False
    return written.find(*operators.OF_SESSION) is None


@dataclass(frozen=True)
class Compiler:
    """What a statement is compiled with: the commit that it sees, and who asks."""

    pin: Pin
    role: Role
    context: operators.Context
    catalog: Catalog
    path: tuple[str, ...]
    engine_for: Callable[[Sequence[str]], Engine]
    plans: Plans
    other: Callable[[str], Pin] = names.no_other

    def compile(self, written: exp.Expr, declared: Sequence[int]) -> Compiled:
        try:
            about = (self.pin.commit, self.role.key, self.context.user, self.context.database, self.path)
            key = (id(written), about, tuple(declared))
            known = self.plans.find(key)
            if known is not None and (again := self._again(known)) is not None:
                return again
            nodes = sum(1 for _ in islice(written.walk(), _LONG))
            made = self._compile(written, declared)
            return made if nodes == _LONG or not _is_timeless(written) else self.plans.keep(key, made, nodes)
        except RecursionError:
            raise syntax.too_complex() from None
        except MereError as error:
            raise errors.of_mere(error) from error

    @property
    def scope(self) -> names.Scope:
        return names.Scope(self.pin, self.role, self.context.database, self.path, self.catalog.__contains__, self.other)

    def _compile(self, written: exp.Expr, declared: Sequence[int]) -> Compiled:
        tree = written.copy()
        names.fold(tree)
        names.check_aliases(tree)
        tree = names.name_columns(tree)
        scope = self.scope
        sources = Origins(partial(self._describe, scope))
        sources.settle(tree)
        origins = sources.of(tree)
        tree = rewrite(tree)
        found = names.resolve(tree, scope)
        relations = tuple(relation for _, relation in found.relations)
        tables = [
            (relation.pin or self.pin, relation.table)
            for relation in relations
            if relation.table is not None and not relation.is_metadata
        ]
        where = self._folders([*tables, *self._set_aside(relations)])
        engine = self.engine_for(list(where))
        compiled = Compiled(engine, written, tree, (), frozenset(), where, self._columns(tables), relations)
        compiled.origins = origins
        compiled.reads_views = any(pin.tables.is_view(table) for pin, table in tables)
        try:
            sums.narrow(tree, self._is_small(found))
            compiled.tables = frozenset(self._bind(engine, found, compiled.held))
            compiled.oids = parameters.infer(tree, declared, _Probe(self, compiled).types)
            compiled.query = operators.mend(tree, self.context)
            compiled.write()
        except BaseException:
            compiled.release()
            raise
        return compiled

    def _again(self, known: Compiled) -> Compiled | None:
        """The same for another run; None if it was compiled for a DuckDB that is not the present one any more."""
        if self.engine_for(list(known.folders)) is not known.engine:
            return None
        again = copy(known)
        again.held = []
        for relation in known.relations:
            assert relation.table is not None
            again.held.append(known.engine.tables.hold(self.pin, relation.table))
        return again

    def _describe(self, scope: names.Scope, node: exp.Table) -> Columns:
        try:
            relation = scope.find(node)
        except PgError:
            return None  # whoever looks it up to read it says so
        if relation.table is not None:
            if relation.is_metadata:
                oid, columns = self._metadata_columns(relation)
            elif relation.pin is None:
                oid, columns = self.catalog.columns(relation.table)
            else:
                oid, columns = columns_of(relation.pin, self.role, relation.table)
            return [Origin(each.name, each.type.oid, each.type.modifier, oid, each.number) for each in columns]
        return of_catalog(f"{relation.schema}.{relation.name}")

    def _metadata_columns(self, relation: names.Relation) -> tuple[int, Sequence[Column]]:
        assert relation.table is not None
        tables = (relation.pin or self.pin).tables
        return number_of(relation.table), columns_of_schema(metadata_tables.schema_of(relation.table, tables))

    def _set_aside(self, relations: Sequence[names.Relation]) -> list[tuple[Pin, TableName]]:
        """What `mere.quarantine` counts, if a query reads it."""
        pins = [
            each.pin or self.pin for each in relations if each.table == metadata_tables.QUARANTINE and each.is_metadata
        ]
        return [(pin, table) for pin in pins for table in quarantine.quarantines(pin.tables, self.role)]

    def _folders(self, tables: Sequence[tuple[Pin, TableName]]) -> dict[str, str]:
        """Where their files are. What a view reads is only known when it is translated: it may be any table."""
        found: dict[str, str] = {}
        for pin, table in tables:
            pinned = pin.tables
            for each in pinned if pinned.is_view(table) else (table,):
                if not pinned.is_view(each):
                    found |= dict.fromkeys(folders(pinned.metadata(each)), str(each))
        return found

    def _is_small(self, found: names.Found) -> sums.IsSmall:
        known = {id(node): relation for node, relation in found.relations}

        def is_small(node: exp.Table, column: str) -> bool:
            relation = known.get(id(node))
            if relation is None or relation.table is None or relation.is_metadata:
                return False
            tables = (relation.pin or self.pin).tables
            if tables.is_view(relation.table):
                return False
            fields = tables.metadata(relation.table).schema["fields"]
            return any(each["type"] == "int" and each["name"].lower() == column.lower() for each in fields)

        return is_small

    def _columns(self, tables: Sequence[tuple[Pin, TableName]]) -> tuple[str, ...]:
        found: list[str] = []
        for pin, table in tables:
            if not pin.tables.is_view(table):
                names = _names(pin, table)
                chosen = self.role.chosen(table, names)
                found += names if chosen is None else chosen
        return tuple(found)

    def _bind(self, engine: Engine, found: names.Found, held: list[str]) -> list[str]:
        bound = []
        for node, relation in found.relations:
            if relation.table is None:
                full = f"{relation.schema}.{relation.name}"
                name = engine.fill(self.catalog.key(full), lambda full=full: self.catalog[full])  # type: ignore[misc]
                names.point(node, CATALOG, name)
                bound.append(f"{CATALOG}.{name}")
                continue
            pin = relation.pin or self.pin
            if relation.is_metadata:
                name = engine.tables.hold_metadata(pin, relation.table, self.role)
            else:
                name = engine.tables.hold(pin, relation.table)
            held.append(name)
            bound.append(f"{SCHEMA}.{name}")
            names.point(node, SCHEMA, name)
            if not relation.is_metadata:
                self._restrict(node, pin, relation.table)
        return bound

    def _restrict(self, node: exp.Table, pin: Pin, table: TableName) -> None:
        """Only the columns and rows that the role may read."""
        if self.role.chosen(table, ()) is None and not self.role.conditions(table):
            return
        sight = rights.of_table(self.role, table, _names(pin, table))
        alias = node.args["alias"].copy()
        inner = node.copy()
        inner.set("alias", None)
        inner.set("joins", None)
        chosen: list[exp.Expr] = [exp.column(exp.to_identifier(each, quoted=True)) for each in sight.columns or ()]
        chosen = chosen or [exp.Star()]
        query = exp.Select(expressions=chosen).from_(inner, copy=False)
        for condition in sight.conditions:
            names.fold(condition)
            query = query.where(exp.Paren(this=operators.mend(condition, self.context)), copy=False)
        if sight.conditions:
            # Nothing that the client asks goes below an OFFSET: an error of its own would tell of a hidden row.
            query = query.offset(0, copy=False)
        subquery = exp.Subquery(this=query, alias=alias, joins=node.args.get("joins"))
        node.replace(subquery)


def _names(pin: Pin, table: TableName) -> list[str]:
    return [each["name"] for each in schema_of(pin.tables, table)["fields"]]


@dataclass(frozen=True)
class _Probe:
    """Asks DuckDB for the types of expressions of a SELECT, by a SELECT of them and nothing else."""

    compiler: Compiler
    compiled: Compiled

    def types(self, select: exp.Select, wanted: Sequence[exp.Expr]) -> list[int]:
        probe = select.copy()
        for part in ("where", "group", "having", "order", "limit", "offset", "distinct", "windows", "qualify", "fetch"):
            probe.set(part, None)
        probe.set("expressions", [exp.alias_(each.copy(), f"p{at}") for at, each in enumerate(wanted)])
        node: exp.Expr | None = select.parent
        while node is not None:  # what WITH defines around it
            if (with_ := node.args.get("with_")) is not None and probe.args.get("with_") is None:
                probe.set("with_", with_.copy())
            node = node.parent
        for parameter in parameters.find(probe):
            parameter.replace(exp.Null())
        try:
            sql = operators.sql(operators.mend(probe, self.compiler.context))
            guard.confirm(self.compiled.engine, sql, self.compiled.tables)
            with closing(self.compiled.engine.cursor()) as cursor:
                schema = cursor.execute(f"SELECT * FROM ({sql}) LIMIT 0").to_arrow_table().schema
        except (PgError, duckdb.Error):
            return [0] * len(wanted)  # a column of a query around it, perhaps
        return [types.of_arrow(each.type) for each in schema]
