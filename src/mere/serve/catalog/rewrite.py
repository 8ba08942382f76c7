"""Rewrites a query over the catalogs in words that DuckDB knows.

It goes over the tree as the client wrote it, with its names folded and its columns named, before tables are looked up:
what it puts in place of calls names relations of pg_catalog, and functions of Postgres, itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from sqlglot import exp

from mere.serve import builtin
from mere.serve.catalog import calls, regtypes, typeinfo
from mere.serve.engine import functions

_SCHEMAS = ("pg_catalog", "information_schema")
_TEXTS = frozenset({"text", "varchar", "name"})
_COMPARED = (
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Any, exp.All, exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip
# What Postgres 15 and 16 called columns that have other names since: psql of that time lists databases by them.
_RENAMED = {"daticulocale": ("pg_database", "datlocale"), "colliculocale": ("pg_collation", "colllocale")}
_COLUMNS = "pg_catalog.pg_attribute"
_WHOLE = {"xmin": "1", "xmax": "0", "cmin": "0", "cmax": "0"}  # what every row of Postgres has besides its columns


def rewrite(tree: exp.Expr) -> exp.Expr:
    """The same tree, changed in place; what is given back is its root."""
    tree = typeinfo.look_up(tree)
    _order_columns(tree)
    vectors = _Vectors.of(tree)
    parameters = {parameter.name for parameter in tree.find_all(exp.Parameter)}
    # From the inside out: what stands for a call holds its arguments.
    for node in reversed(list(tree.walk())):
        changed = _changed(node, vectors)
        if changed is not None and changed is not node:
            if node is tree:
                tree = changed
            else:
                node.replace(changed)
    left = {parameter.name for parameter in tree.find_all(exp.Parameter)}
    for number in sorted(parameters - left):
        _keep(tree, number)
    return tree


def _order_columns(tree: exp.Expr) -> None:
    """Columns of a table come in their order, as in Postgres, which is not asked for it: clients rely on that. DuckDB's
    joins would give them in any."""
    if not isinstance(tree, exp.Select) or any(tree.args.get(each) for each in ("order", "group", "distinct")):
        return
    called = [_name(each) for shown in tree.expressions for each in shown.find_all(exp.Anonymous)]
    if not calls.FUNCTIONS.issuperset(called):
        return  # one of them may make one row of all
    for place in (tree.args.get("from_"), *(tree.args.get("joins") or [])):
        table = place.this if place is not None else None
        if isinstance(table, exp.Table) and _relation(table) is builtin.definitions()[_COLUMNS]:
            names = [exp.column(name, table=table.alias_or_name, quoted=True) for name in ("attrelid", "attnum")]
            tree.order_by(*names, copy=False)
            return


def _keep(tree: exp.Expr, number: str) -> None:
    """A parameter that means nothing here: the client still has a value for it."""
    select = next(_outermost(tree), None)
    if select is not None:
        parameter = exp.Parameter(this=exp.Literal.number(number))
        always = exp.Or(this=exp.true(), expression=exp.Is(this=parameter, expression=exp.null()))
        select.where(exp.Paren(this=always), copy=False)


def _changed(node: exp.Expr, vectors: _Vectors) -> exp.Expr | None:
    if isinstance(node, exp.Table):
        return _function_in_from(node, vectors)
    if isinstance(node, exp.Anonymous):
        return _called(node, vectors)
    if isinstance(node, exp.Dot):
        # A call of pg_catalog.f has become what stands for it: the schema has gone with it.
        is_call = isinstance(node.this, exp.Identifier) and node.this.name in _SCHEMAS
        return node.expression if is_call and not isinstance(node.expression, exp.Identifier) else None
    if isinstance(node, exp.Cast):
        return _cast(node, vectors)
    if isinstance(node, exp.Bracket):
        return _subscript(node, vectors)
    if isinstance(node, exp.DPipe):
        return _joined_arrays(node, vectors)
    if isinstance(node, exp.Column):
        return _of_every_row(node) or _of_older(node)
    if isinstance(node, exp.EQ | exp.NEQ):
        return _compared_array(node, vectors) or _contained(node, vectors)
    return None


# Calls


def _called(node: exp.Anonymous, vectors: _Vectors) -> exp.Expr | None:
    name = _name(node)
    if isinstance(node.parent, exp.Table):
        return None  # it stands in FROM
    if name == "_pg_expandarray":
        return _macro("expandarray", node.expressions[0])
    if name == "generate_subscripts":
        first = 0 if vectors.has(node.expressions[0]) else 1
        return _macro("subscripts", node.expressions[0], exp.Literal.number(first))
    if name == "array_to_string" and len(node.expressions) == 2 and is_array_of_rows(node.expressions[0]):
        return _joined_rows(node.expressions[0].expressions[0], node.expressions[1])
    if _is_age_of_transaction(node):
        return exp.Literal.number(1)
    if name == "current_setting" and not node.expressions[0].is_string:
        return calls.setting(node.expressions[0])
    if name == "pg_table_is_visible" and _lists_schemas(node):
        name = calls.IN_PATH
    kind = regtypes.kind_of(name)
    if kind is None or not node.expressions:
        return calls.call(name, node.expressions)
    found = regtypes.number_of(kind, node.expressions[0], strict=False)
    return regtypes.name_of(kind, found) if _is_shown(node) else found


def _lists_schemas(node: exp.Expr) -> bool:
    """Of a list with the schema of each relation, as psql's \\dt has it, nothing is kept because another schema has the
    same name first. Whoever wants the number of what a name means gets that."""
    above = node.find_ancestor(exp.Select, exp.Where)
    select = above.find_ancestor(exp.Select) if isinstance(above, exp.Where) else None
    shown = [each.unalias() for each in select.expressions] if select is not None else []
    columns = {each.name for each in shown if isinstance(each, exp.Column)}
    return "nspname" in columns and "oid" not in columns


def is_array_of_rows(node: exp.Expr) -> bool:
    """ARRAY(SELECT …)"""
    is_call = isinstance(node, exp.Anonymous) and _name(node) == "array"
    return is_call and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Query)


def _joined_rows(query: exp.Expr, separator: exp.Expr) -> exp.Expr:
    """array_to_string(ARRAY(SELECT …), ', ') without the array, which would stand there several times."""
    alias = exp.TableAlias(this=exp.to_identifier("mere_rows"), columns=[exp.to_identifier("mere_row")])
    text = exp.Cast(this=exp.column("mere_row"), to=exp.DataType.build("text"))
    joined = exp.Anonymous(this="string_agg", expressions=[text, separator.copy()])
    rows = exp.Subquery(this=query.copy(), alias=alias)
    found = exp.Subquery(this=exp.Select(expressions=[joined]).from_(rows, copy=False))
    return exp.Anonymous(this="coalesce", expressions=[found, exp.Literal.string("")])


def _is_age_of_transaction(node: exp.Expr | None) -> bool:
    """age(xmin): by it clients ask for what changed since they asked last. Everything did."""
    if not isinstance(node, exp.Anonymous) or _name(node) != "age" or len(node.expressions) != 1:
        return False
    of = node.expressions[0]
    if isinstance(of, exp.Cast):
        return _type_name(of.args["to"]) == "xid"
    return isinstance(of, exp.Column) and (of.name in _WHOLE or of.name in _columns_of("xid"))


def _name(node: exp.Anonymous) -> str:
    return node.this.name if isinstance(node.this, exp.Identifier) else str(node.this).lower()


def _macro(name: str, *arguments: exp.Expr) -> exp.Expr:
    call = exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])
    return exp.Dot(this=exp.to_identifier(functions.SCHEMA), expression=call)


def _function_in_from(node: exp.Table, vectors: _Vectors) -> exp.Expr | None:
    if not isinstance(node.this, exp.Anonymous):
        return None
    name = _name(node.this)
    found = calls.rows(name)
    if found is None and name in functions.TABLES:
        if node.text("db") == "pg_catalog":
            node.set("db", None)
        return None
    alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name, quoted=True))
    if found is None:
        value = _called(node.this.copy(), vectors) or node.this.copy()
        query = exp.Select(expressions=[exp.alias_(value, alias.name, quoted=True)])
        found = exp.Subquery(this=query)
    found.set("alias", alias.copy())
    if joins := node.args.get("joins"):
        found.set("joins", [each.copy() for each in joins])
    return found


# Casts to the types that are a number and look like a name


def _cast(node: exp.Cast, vectors: _Vectors) -> exp.Expr | None:
    kind, operand = _type_name(node.args["to"]), node.this
    if kind in _TEXTS and vectors.has(operand):
        return _shown_vector(operand)
    if kind in _TEXTS and vectors.is_function(operand):
        return regtypes.name_of("regproc", operand.copy())
    if kind not in regtypes.KINDS:
        return None
    if _is_number(operand):
        number = exp.Literal.number(operand.name) if isinstance(operand, exp.Literal) else operand.copy()
    else:
        number = regtypes.number_of(kind, operand)
    return regtypes.name_of(kind, number) if _is_shown(node) else number


def _type_name(type_: exp.Expr) -> str:
    if isinstance(type_, exp.DataType) and type_.this is exp.DType.USERDEFINED:
        kind = type_.args.get("kind")
        text = kind.name if isinstance(kind, exp.Expr) else str(kind or "")
    else:
        text = type_.sql(dialect="postgres")
    return text.lower().replace('"', "").rpartition(".")[2]


def _is_number(node: exp.Expr) -> bool:
    """Whether it is an oid already, and not the name of something."""
    node = _bare(node)
    if isinstance(node, exp.Literal):
        return not node.is_string or node.name.isdigit()
    if isinstance(node, exp.Cast):
        return _type_name(node.args["to"]) in ("oid", "int8", "bigint", "int4", "integer", "int", *regtypes.KINDS)
    return isinstance(node, exp.Column) and node.name.lower() in _number_columns()


@cache
def _number_columns() -> frozenset[str]:
    return _columns_of("oid", "regproc")


@cache
def _columns_of(*types: str) -> frozenset[str]:
    every = builtin.definitions().values()
    return frozenset(column.name for each in every for column in each.columns if column.type in types)


def _is_shown(node: exp.Expr) -> bool:
    """Whether somebody reads it, as a text or as a result, instead of comparing it with numbers."""
    parent = node.parent
    while isinstance(parent, exp.Paren | exp.Dot):
        parent = parent.parent
    if isinstance(parent, exp.Cast):
        return _type_name(parent.args["to"]) in _TEXTS
    if isinstance(parent, exp.Anonymous):
        return _name(parent) not in calls.FUNCTIONS
    if isinstance(parent, exp.Alias | exp.Select | exp.Subquery):
        return not _is_compared(parent)
    return isinstance(parent, exp.DPipe | exp.Ordered | exp.Case | exp.If)


def _is_compared(node: exp.Expr | None) -> bool:
    """Whether it is the result of a query inside of a comparison: x IN (SELECT 'a'::regclass)."""
    while node is not None and not isinstance(node, _COMPARED):
        if isinstance(node, exp.From | exp.Join | exp.CTE | exp.Exists):
            return False
        node = node.parent
    return node is not None


# int2vector and oidvector: lists that begin at 0, and are shown without braces


@dataclass(frozen=True)
class _Vectors:
    """The names of columns that are such lists, and of those that are other arrays."""

    names: frozenset[str] = frozenset()
    arrays: frozenset[str] = frozenset()

    @classmethod
    def of(cls, tree: exp.Expr) -> _Vectors:
        """With what the query calls them. A query of the lake's own tables has none: its columns may have any name."""
        if not any(_relation(table) for table in tree.find_all(exp.Table)):
            return cls()
        names = set(_columns_of("int2vector", "oidvector"))
        for alias in tree.find_all(exp.Alias):
            if isinstance(alias.this, exp.Column) and alias.this.name in names:
                names.add(alias.alias)
        return cls(frozenset(names), _array_columns() | names)

    def has(self, node: exp.Expr) -> bool:
        node = _bare(node)
        return isinstance(node, exp.Column) and node.name in self.names

    def is_function(self, node: exp.Expr) -> bool:
        """Whether it is a regproc, in a query of the catalogs."""
        node = _bare(node)
        return isinstance(node, exp.Column) and bool(self.arrays) and node.name in _columns_of("regproc")

    def is_array(self, node: exp.Expr) -> bool:
        node = _bare(node)
        return isinstance(node, exp.Column) and node.name in self.arrays


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _subscript(node: exp.Bracket, vectors: _Vectors) -> exp.Expr | None:
    if not vectors.has(node.this) or len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        return None
    later = exp.Add(this=exp.Paren(this=node.expressions[0].copy()), expression=exp.Literal.number(1))
    return exp.Bracket(this=node.this.copy(), expressions=[later])


def _shown_vector(node: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this="array_to_string", expressions=[node.copy(), exp.Literal.string(" ")])


def _outermost(tree: exp.Expr) -> Iterator[exp.Select]:
    if isinstance(tree, exp.Select):
        yield tree
    elif isinstance(tree, exp.SetOperation):
        yield from _outermost(tree.this)
        yield from _outermost(tree.expression)
    elif isinstance(tree, exp.Subquery):
        yield from _outermost(tree.this)


@cache
def _array_columns() -> frozenset[str]:
    every = builtin.definitions().values()
    return frozenset(column.name for each in every for column in each.columns if column.type.endswith(("[]", "vector")))


def _compared_array(node: exp.EQ | exp.NEQ, vectors: _Vectors) -> exp.Expr | None:
    """polroles = '{0}'"""
    left, right = node.this, node.expression
    if not vectors.is_array(left):
        return None
    if not (isinstance(right, exp.Literal) and right.is_string and right.name.startswith("{")):
        return None
    parts = [part.strip() for part in right.name.strip("{}").split(",") if part.strip()]
    numbers = all(part.lstrip("-").isdigit() for part in parts)
    values = [exp.Literal.number(part) if numbers else exp.Literal.string(part) for part in parts]
    return type(node)(this=left.copy(), expression=exp.Array(expressions=values))


def _joined_arrays(node: exp.DPipe, vectors: _Vectors) -> exp.Expr | None:
    """reloptions || ARRAY(…): of nothing and an array, the array."""
    if not vectors.is_array(node.this):
        return None
    return exp.Anonymous(this="list_concat", expressions=[node.this.copy(), node.expression.copy()])


def _contained(node: exp.EQ | exp.NEQ, vectors: _Vectors) -> exp.Expr | None:
    """attnum = ANY(indkey). DuckDB makes a query of it, and does not take one where tables are joined."""
    if not isinstance(node, exp.EQ) or not isinstance(node.expression, exp.Any):
        return None
    array = _bare(node.expression.this)
    if not vectors.is_array(array):
        return None
    return exp.Anonymous(this="list_contains", expressions=[array.copy(), node.this.copy()])


# Columns that every table of Postgres has, and nobody sees


def _of_older(node: exp.Column) -> exp.Expr | None:
    """A column that clients of that time ask for, whatever version the server is."""
    relation, name = _RENAMED.get(node.name, ("", ""))
    source = _source(node) if name else None
    if source is None or source.name != relation:
        return None
    column = exp.column(exp.to_identifier(name, quoted=True), table=node.args.get("table"))
    return exp.alias_(column, node.name, quoted=True) if isinstance(node.parent, exp.Select) else column


def _of_every_row(node: exp.Column) -> exp.Expr | None:
    if not _is_of_every_row(node) or _is_age_of_transaction(node.parent):
        return None
    relation = _source(node)
    if relation is None:
        return None
    value = str(relation.oid) if node.name == "tableoid" else _WHOLE[node.name]
    number = exp.Literal.number(value)
    in_result = isinstance(node.parent, exp.Select)
    return exp.alias_(number, node.name, quoted=True) if in_result else number


def _is_of_every_row(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and (node.name == "tableoid" or node.name in _WHOLE)


def _relation(table: exp.Table) -> builtin.Definition | None:
    return builtin.definitions().get(f"{table.db or 'pg_catalog'}.{table.name}")


def _source(column: exp.Column) -> builtin.Definition | None:
    """The relation of the catalogs from which a column is taken."""
    node: exp.Expr | None = column.parent
    while node is not None:
        if isinstance(node, exp.Select):
            places = [node.args.get("from_"), *(node.args.get("joins") or [])]
            for place in places:
                table = place.this if place is not None else None
                if isinstance(table, exp.Table) and (not column.table or table.alias_or_name == column.table):
                    return _relation(table)
        node = node.parent
    return None
