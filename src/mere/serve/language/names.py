"""Names: folded as Postgres folds them, tables looked up, columns of a result named as clients expect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from sqlglot import exp

from mere.errors import QueryError
from mere.lake.query import metadata_tables
from mere.names import TableName, near
from mere.serve.access.roles import Role
from mere.serve.engine.tables import Pin
from mere.serve.language import guard, types, versions
from mere.serve.protocol.port import PgError

SYSTEM = ("pg_catalog", "information_schema")


@dataclass(frozen=True)
class Relation:
    """A table that a query names, as it was found: one of the lake, or one of the system catalogs."""

    schema: str
    name: str
    table: TableName | None = None  # of the lake
    pin: Pin | None = None  # at which it is read; None: at that of the statement
    is_metadata: bool = False  # a metadata table, of the lake or of one of its tables

    @property
    def lasts(self) -> bool:
        """Whether it is the same for every statement that sees the commit with the same rights."""
        return self.table is not None and self.pin is None and not self.is_metadata


@dataclass
class Found:
    """The tables of a query, and the nodes that name them."""

    relations: list[tuple[exp.Table, Relation]] = field(default_factory=list)


Exists = Callable[[str], bool]  # whether there is such a relation of the system: `pg_catalog.pg_class`


@dataclass(frozen=True)
class Scope:
    """Where names are looked up."""

    pin: Pin
    role: Role
    database: str
    path: Sequence[str]  # of schemas, for names without one
    is_system: Exists
    other: Callable[[str], Pin]  # another ref than the database

    def find(self, node: exp.Table) -> Relation:
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        names = parts[-2:]
        version, ref = versions.version_of(node), versions.ref_of(node, self.database)
        scope = self if ref is None else replace(self, pin=self._other(ref, node))
        if len(parts) <= 3 and (found := scope._find(names)) is not None:
            if found.table is None:
                if version is None and ref is None:
                    return found
                raise PgError("42809", f'"{_dotted(parts)}" is of the present alone', position=guard.position(node))
            found = found if ref is None else replace(found, pin=scope.pin)
            return found if version is None or version.snapshot is None else scope._at(found, version.snapshot, node)
        raise scope._missing(node, _dotted(parts), names)

    def _other(self, ref: str, node: exp.Table) -> Pin:
        try:
            return self.other(ref)
        except PgError as error:
            error.position = guard.position(node)
            raise

    def _at(self, found: Relation, snapshot: int, node: exp.Table) -> Relation:
        """What may not be seen is not there: of a role that reads the present alone, any snapshot."""
        assert found.table is not None
        tables = metadata_tables.at_snapshot(found.table, self.pin.tables, snapshot) if self.role.history else None
        if tables is None:
            at = guard.position(node)
            raise PgError("42704", f'relation "{found.name}" has no snapshot {snapshot}', position=at)
        return replace(found, pin=replace(self.pin, tables=tables))

    def _find(self, names: Sequence[exp.Identifier]) -> Relation | None:
        name = names[-1]
        schemas = names[:1] if len(names) == 2 else [exp.to_identifier(each) for each in ("pg_catalog", *self.path)]
        for schema in schemas:
            if schema.name in SYSTEM:
                if self.is_system(f"{schema.name}.{name.name}"):
                    return Relation(schema.name, name.name)
            elif (table := self._table(schema, name)) is not None:
                return Relation(table.namespace, table.name, table)
            elif (table := self._metadata_table(schema, name)) is not None:
                return Relation(table.namespace, table.name, table, is_metadata=True)
        return None

    def _metadata_table(self, schema: exp.Identifier, name: exp.Identifier) -> TableName | None:
        written = TableName(schema.name, name.name)
        return metadata_tables.find(written, self.pin.tables, partial(self._base, schema, name), self.role)

    def _base(self, schema: exp.Identifier, name: exp.Identifier, table: TableName) -> TableName | None:
        base = exp.to_identifier(table.name, quoted=True)
        base.meta.update(name.meta)
        return self._table(schema, base)

    def _table(self, schema: exp.Identifier, name: exp.Identifier) -> TableName | None:
        """Written without quotes, a name is also found in another case, if it is the only one."""
        table: TableName | None = TableName(schema.name, name.name)
        if table not in self.pin.tables:
            try:
                table = self.pin.directory.find([schema.name, name.name])
            except QueryError as error:
                written = f"{schema.name}.{name.name}".lower()
                if not any(str(each).lower() == written and self.role.may_read(each) for each in self.pin.tables):
                    return None
                raise PgError("42P09", error.message) from error
            if table is not None and not (_fits(schema, table.namespace) and _fits(name, table.name)):
                return None
        return table if table is not None and self.role.may_read(table) else None

    def _missing(self, node: exp.Table, dotted: str, names: Sequence[exp.Identifier]) -> PgError:
        visible = [table for table in self.pin.tables if self.role.may_read(table)]
        hint = near(names[-1].name, visible, by=lambda table: table.name).strip() or None
        return PgError("42P01", f'relation "{dotted}" does not exist', hint=hint, position=guard.position(node))


def no_other(ref: str) -> Pin:
    raise PgError("3D000", f'database "{ref}" does not exist')


def no_column(column: exp.Column) -> PgError:
    return PgError("42703", f'column "{column.name}" does not exist', position=guard.position(column))


def _fits(written: exp.Identifier, name: str) -> bool:
    return written.name == name or bool(written.meta.get("folded"))


def _dotted(parts: Sequence[exp.Identifier]) -> str:
    return ".".join(part.name for part in parts)


def fold(tree: exp.Expr) -> None:
    """Unquoted names to lower case. All are quoted afterwards: they are names, whatever word DuckDB reserves.

    How a column was written stays with it: only unquoted names are found in another case.
    """
    for node in tree.find_all(exp.Identifier):
        if not node.quoted:
            node.set("this", node.name.lower())
            node.meta["folded"] = True
        if isinstance(node.parent, exp.DataType | exp.Collate | exp.Anonymous | exp.Operator):
            continue
        node.set("quoted", True)


def resolve(tree: exp.Expr, scope: Scope) -> Found:
    """Look every table up. What WITH defines gets a name that nothing else has, and its own one as an alias."""
    found = Found()
    renamed: dict[int, str] = {}
    numbers = count()
    for defined in tree.find_all(exp.CTE):
        renamed[id(defined)] = f"{guard.WITH}{next(numbers)}"
    for node in list(tree.find_all(exp.Table)):
        if not isinstance(node.this, exp.Identifier):
            continue  # a function
        cte = visible(node) if not node.args.get("db") else None
        if cte is not None:
            versions.refuse(node, "WITH query")
            _alias(node, node.name)
            node.set("this", exp.to_identifier(renamed[id(cte)], quoted=True))
        else:
            found.relations.append((node, scope.find(node)))
            node.set("version", None)
    for defined in tree.find_all(exp.CTE):
        defined.args["alias"].set("this", exp.to_identifier(renamed[id(defined)], quoted=True))
    _drop_schemas(tree, found)
    return found


def check_aliases(tree: exp.Expr) -> None:
    """Two tables of one FROM cannot have one name."""
    for select in tree.find_all(exp.Select):
        known: set[str] = set()
        for place in [select.args.get("from_"), *(select.args.get("joins") or [])]:
            if place is None:
                continue
            name = place.this.alias_or_name
            if name and name in known:
                at = guard.position(place.this)
                raise PgError("42712", f'table name "{name}" specified more than once', position=at)
            known.add(name)


def visible(table: exp.Table) -> exp.CTE | None:
    """The WITH that defines this name, seen from where it stands."""
    node: exp.Expr = table
    inside: exp.CTE | None = None
    while node.parent is not None:
        node = node.parent
        if isinstance(node, exp.CTE):
            inside = node
        with_ = node.args.get("with_")
        if isinstance(with_, exp.With):
            defined = list(with_.expressions)
            at = next((at for at, each in enumerate(defined) if each is inside), None)
            if at is not None and not with_.args.get("recursive"):
                defined = defined[:at]
            inside = None
            for cte in reversed(defined):
                if isinstance(cte, exp.CTE) and cte.alias == table.name:
                    return cte
    return None


def _alias(node: exp.Table, name: str) -> None:
    if node.args.get("alias") is None:
        node.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    elif node.args["alias"].this is None:
        node.args["alias"].set("this", exp.to_identifier(name, quoted=True))


def point(node: exp.Table, schema: str, name: str) -> None:
    """Let the node name a table of DuckDB; columns go on following its old name."""
    _alias(node, node.name)
    node.set("catalog", None)
    node.set("db", exp.to_identifier(schema, quoted=True))
    node.set("this", exp.to_identifier(name, quoted=True))


def _drop_schemas(tree: exp.Expr, found: Found) -> None:
    """`gold.orders.id` becomes `orders.id`, where that is this table: one with an alias is known by nothing else."""
    plain = {id(node): (relation.schema, relation.name) for node, relation in found.relations if not node.alias}
    for column in tree.find_all(exp.Column):
        if column.args.get("db") and _meant(column, plain) == (column.text("db"), column.table):
            column.set("db", None)
            column.set("catalog", None)


def _meant(column: exp.Column, plain: Mapping[int, tuple[str, str]]) -> tuple[str, str] | None:
    """The table without an alias that goes by the name in the nearest FROM in which one does."""
    select = column.find_ancestor(exp.Select)
    while select is not None:
        for node in _tables(select):
            if node.alias_or_name == column.table:
                return plain.get(id(node))
        select = select.find_ancestor(exp.Select)
    return None


def _tables(select: exp.Select) -> Iterator[exp.Expr]:
    """What stands in its FROM, also in parentheses, without what subqueries have in theirs."""
    waiting = [select.args.get("from_"), *(select.args.get("joins") or [])]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.From | exp.Join | exp.Paren):
            waiting.append(node.this)
        elif isinstance(node, exp.Expr):
            yield node
        if isinstance(node, exp.Table | exp.Subquery | exp.Paren):
            waiting += node.args.get("joins") or []
            if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Paren):
                waiting.append(node.this)


def name_columns(tree: exp.Expr) -> exp.Expr:
    """Give every column of every SELECT the name that Postgres gives it: DuckDB would write the expression there."""
    for values in tree.find_all(exp.Values):
        _name_values(values)
    if isinstance(tree, exp.Values):
        after = {part: tree.args.pop(part, None) for part in ("order", "limit", "offset")}
        tree = exp.Select(expressions=[exp.Star()], **after).from_(tree, copy=False)
    for select in tree.find_all(exp.Select):
        named = []
        for each in select.expressions:
            is_named = isinstance(each, exp.Alias | exp.Aliases | exp.Star | exp.Column) or each.is_star
            named.append(each if is_named else exp.alias_(each, column_name(each) or "?column?", quoted=True))
        select.set("expressions", named)
    return tree


def _name_values(values: exp.Values) -> None:
    """column1, column2, unless they have names."""
    if not values.expressions or isinstance(values.parent, exp.CTE | exp.SetOperation):
        return
    alias = values.args.get("alias") or exp.TableAlias(this=exp.to_identifier("*VALUES*", quoted=True))
    width = len(values.expressions[0].expressions) or 1
    given = list(alias.args.get("columns") or [])
    more = [exp.to_identifier(f"column{at + 1}", quoted=True) for at in range(len(given), width)]
    alias.set("columns", [*given, *more])
    values.set("alias", alias)


_KEYWORDS = {
    exp.Exists: "exists", exp.Array: "array", exp.Extract: "extract", exp.Substring: "substring",
    exp.StrPosition: "position", exp.Overlay: "overlay", exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time", exp.CurrentTimestamp: "current_timestamp", exp.Localtime: "localtime",
    exp.Localtimestamp: "localtimestamp", exp.CurrentUser: "current_user", exp.SessionUser: "session_user",
    exp.CurrentRole: "current_role", exp.CurrentCatalog: "current_catalog", exp.CurrentSchema: "current_schema",
    exp.AtTimeZone: "timezone",
}  # fmt: skip


def column_name(node: exp.Expr) -> str | None:
    return _figured(node)[0]


def _figured(node: exp.Expr) -> tuple[str | None, int]:
    """As Postgres's FigureColname: of a function its name, of a cast the column's or the type's; and how sure it is."""
    if isinstance(node, exp.Column | exp.Dot | exp.Anonymous):
        return _of_name(node), 2
    if isinstance(node, exp.Cast | exp.Interval):
        found, sure = _figured(node.this) if isinstance(node, exp.Cast) else (None, 0)
        name = types.postgres_name(node.args["to"]) if isinstance(node, exp.Cast) else "interval"
        return (found, sure) if sure > 1 else (name, 1)
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        found, sure = _figured(default) if default is not None else (None, 0)
        return (found, sure) if sure > 1 else ("case", 1)
    if isinstance(node, exp.Paren | exp.Bracket | exp.Collate | exp.Window | exp.Filter | exp.WithinGroup):
        return _figured(node.this)
    if isinstance(node, exp.Subquery):
        return _of_subquery(node), 2
    if isinstance(node, exp.Trim):
        return {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.text("position").upper(), "btrim"), 2
    found = _KEYWORDS.get(type(node))
    return found, 2 if found else 0


def _of_subquery(node: exp.Subquery) -> str | None:
    inner = node.this
    while isinstance(inner, exp.SetOperation):
        inner = inner.this
    first = inner.expressions[0] if isinstance(inner, exp.Select) and inner.expressions else None
    return (first.alias or column_name(first)) if first is not None else None


def _of_name(node: exp.Expr) -> str | None:
    if isinstance(node, exp.Dot):
        last = node.expression
        return guard.function_name(last) if isinstance(last, exp.Anonymous) else last.name
    return guard.function_name(node) if isinstance(node, exp.Anonymous) else node.name
