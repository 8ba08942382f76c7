"""Where the columns and rows of a query come from, down to the tables that it reads.

A query is gone through as Spark resolves it: WITH, FROM, joins, lateral views, then the SELECT list and what follows.
sqlglot's own lineage follows values only, one column at a time; see decision 0013.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from mere.names import TableName
from mere.sql.lineage.derivation import (
    NO_ORIGINS,
    NOTHING,
    ColumnName,
    Made,
    Open,
    Origins,
    Output,
    Place,
    Relation,
    as_conditions,
    joined,
    together,
)
from mere.sql.lineage.expressions import Expressions
from mere.sql.lineage.pivots import pivoted
from mere.sql.lineage.resolve import Ctes, Frame, Source
from mere.sql.spark.read import SparkView

ColumnsOf = Callable[[TableName], tuple[str, ...] | None]
NO_CTES: Ctes = {}

_GENERATORS = (exp.Explode, exp.Posexplode, exp.Inline, exp.Stack)
_GENERATOR_NAMES = frozenset({"explode_outer", "posexplode_outer", "inline_outer", "json_tuple", "variant_explode"})


def relation_of(tree: exp.Expr, columns_of: ColumnsOf) -> tuple[Relation, Mapping[ColumnName, Place]]:
    """The query's own, and every column that it names anywhere, whether or not anything comes of it."""
    queries = _Queries(columns_of)
    return queries.relation(tree, NO_CTES, None), queries.named


class _Queries:
    def __init__(self, columns_of: ColumnsOf) -> None:
        self._columns_of = columns_of
        self._expressions = Expressions(self.relation)

    @property
    def named(self) -> Mapping[ColumnName, Place]:
        return self._expressions.named

    def relation(self, node: exp.Expr, ctes: Ctes, outer: Frame | None) -> Relation:
        ctes = self._with(node, ctes, outer)
        if isinstance(node, exp.SetOperation):
            found = self._set_operation(node, ctes, outer)
        elif isinstance(node, exp.Select):
            return self._select(node, ctes, outer)
        elif isinstance(node, exp.Subquery):
            found = self.relation(node.this, ctes, outer)
        elif isinstance(node, exp.Values):
            return self._values(node, Frame(ctes, outer))
        else:
            return Relation(other=NOTHING)
        frame = Frame(ctes, outer)
        frame.add(Source(frozenset(), found))
        return replace(found, rows=joined([found.rows, *self._ordered(node, found.outputs, frame)]))

    def _with(self, node: exp.Expr, ctes: Ctes, outer: Frame | None) -> Ctes:
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        known = dict(ctes)
        for cte in with_.expressions:
            name, columns = cte.alias.lower(), cte.alias_column_names
            if with_.args.get("recursive") and isinstance(cte.this, exp.SetOperation):
                known[name] = self.relation(cte.this.this, known, outer).renamed(columns)
                while True:  # it grows until a further round brings nothing new
                    before = _names(known[name])
                    known[name] = self.relation(cte.this, known, outer).renamed(columns)
                    if _names(known[name]) == before:
                        break
            else:
                known[name] = self.relation(cte.this, known, outer).renamed(columns)
        return known

    def _set_operation(self, node: exp.SetOperation, ctes: Ctes, outer: Frame | None) -> Relation:
        """A chain of unions is as deep as it is long: it is gone through from its first branch."""
        operations: list[exp.SetOperation] = [node]
        while isinstance(operations[-1].this, exp.SetOperation) and not operations[-1].this.args.get("with_"):
            operations.append(operations[-1].this)
        found = self.relation(operations[-1].this, ctes, outer)
        for operation in reversed(operations):
            found = _combined(operation, found, self.relation(operation.expression, ctes, outer))
        return found

    def _values(self, node: exp.Values, frame: Frame) -> Relation:
        rows = [each.expressions if isinstance(each, exp.Tuple) else [each] for each in node.expressions]
        columns = [
            together(self._expressions.made(value, frame, value) for value in column)
            for column in zip(*rows, strict=False)
        ]
        return Relation(tuple(Output(f"col{at}", made) for at, made in enumerate(columns, 1)))

    def _select(self, node: exp.Select, ctes: Ctes, outer: Frame | None) -> Relation:
        frame = Frame(ctes, outer)
        rows: list[Origins] = []
        if (from_ := node.args.get("from_")) is not None:
            rows += self._add(from_.this, frame)
        for join in node.args.get("joins") or []:
            rows += self._join(join, frame)
        for lateral in node.args.get("laterals") or []:
            rows += self._add(lateral, frame)
        rows += self._conditions(node.args.get("where"), frame, "WHERE")
        frame.windows = {each.name.lower(): each for each in node.args.get("windows") or []}
        found = Relation()
        for item in node.expressions:
            one = self._item(item, frame)
            rows.append(one.rows)
            found = _side_by_side(found, one)
        rows += self._grouped(node, found.outputs, frame)
        rows += self._conditions(node.args.get("having"), frame, "HAVING")
        rows += self._conditions(node.args.get("qualify"), frame, "QUALIFY")
        if (distinct := node.args.get("distinct")) is not None:
            rows.append(as_conditions(found.whole(), distinct, "DISTINCT"))
        rows += self._ordered(node, found.outputs, frame)
        return replace(found, rows=joined(rows))

    # FROM

    def _add(self, node: exp.Expr, frame: Frame, join: exp.Join | None = None) -> list[Origins]:
        """The source takes its place in the frame; what decides about its rows is given back."""
        if isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Query) and not node.alias:
            return self._add(node.this, frame, join)  # brackets around a join
        source, rows = self._source(node, frame)
        using = _shared_names(join, frame, source)
        for name in using:
            sides = (frame.all.find(name.lower()), source.relation.find(name.lower()))
            made = together(each for each in sides if each is not None)
            self._expressions.note(made)
            rows.append(as_conditions(made, join or node, "JOIN"))
        if join is not None and join.is_semi_or_anti_join:
            frame.add_hidden(source)
        else:
            frame.add(source, using, str(join.side).upper() if join is not None else "")
        if isinstance(node, exp.Table):
            for inner in node.args.get("joins") or []:
                rows += self._join(inner, frame)
            for lateral in node.args.get("laterals") or []:
                rows += self._add(lateral, frame)
        return rows

    def _join(self, join: exp.Join, frame: Frame) -> list[Origins]:
        return [*self._add(join.this, frame, join), *self._conditions(join.args.get("on"), frame, "JOIN")]

    def _source(self, node: exp.Expr, frame: Frame) -> tuple[Source, list[Origins]]:
        names: frozenset[tuple[str, ...]] = frozenset({(node.alias.lower(),)}) if node.alias else frozenset()
        alias = node.args.get("alias")
        columns = [each.name for each in alias.args.get("columns") or []] if alias is not None else []
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Func):
            relation = self._table(node, frame.ctes)
            parts = tuple(part.name.lower() for part in node.parts)
            names = names or frozenset({parts, parts[-1:]})
        elif isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Query):
            inner = Frame(frame.ctes, frame.outer)
            rows = joined(self._add(node.this, inner))
            relation = replace(inner.all, rows=rows)
        elif isinstance(node, exp.Subquery | exp.Values):
            relation = self.relation(node, frame.ctes, frame.outer)
        elif isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            relation = self.relation(node.this, frame.ctes, frame)
        else:
            function = node.this if isinstance(node.this, exp.Expr) else node
            made = self._expressions.made(function, frame, function)
            rows = as_conditions(made, function, "EXPLODE")
            relation = Relation(tuple(Output(name, made) for name in columns), rows, other=None if columns else made)
        relation = relation.renamed(columns)
        for pivot in node.args.get("pivots") or []:
            relation = pivoted(relation, pivot, self._expressions, frame)
            names = frozenset({(pivot.alias.lower(),)}) if pivot.alias else names
        return Source(names, replace(relation, rows=NO_ORIGINS)), [relation.rows]

    def _table(self, node: exp.Table, ctes: Ctes) -> Relation:
        parts = [part.name for part in node.parts]
        if len(parts) == 1:
            # One that no WITH defines is refused when the project is read.
            return ctes.get(parts[0].lower(), Relation(other=NOTHING))
        table = TableName(*parts[-2:])
        place = Place(node, node)
        rows = {ColumnName(table): replace(place, clause="FROM")}
        columns = self._columns_of(table)
        if columns is None:
            return Relation((), rows, (Open(table, place),))
        return Relation(tuple(Output(name, Made({ColumnName(table, name): place})) for name in columns), rows)

    # The SELECT list

    def _item(self, item: exp.Expr, frame: Frame) -> Relation:
        """The columns that an expression of the SELECT list gives, and what it does to the rows."""
        if item.is_star:
            return self._star(item, frame)
        value = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
        made = self._expressions.made(value, frame, item)
        rows = as_conditions(made, value, "EXPLODE") if _generates(value) else NO_ORIGINS
        if isinstance(item, exp.Aliases):
            return Relation(tuple(Output(each.name, made) for each in item.expressions), rows)
        name = item.output_name
        if _generates(value) and not name:
            return Relation((), rows, other=made)
        frame.aliases.setdefault(name.lower(), made)
        return Relation((Output(name or item.sql(SparkView), made),), rows)

    def _star(self, item: exp.Expr, frame: Frame) -> Relation:
        parts = [part.name.lower() for part in item.parts[:-1]] if isinstance(item, exp.Column) else []
        found = frame.called(parts) if parts else frame.all
        if found is None:
            made = frame.find(parts) or NOTHING  # the fields of a struct
            return Relation(other=made.placed(item, item))
        star = item.this if isinstance(item, exp.Column) else item
        found = found.without(each.name for each in star.args.get("except_") or [])
        outputs = tuple(Output(each.name, each.made.placed(item, item)) for each in found.outputs)
        opened = tuple(replace(each, place=replace(each.place, node=item, around=item)) for each in found.opened)
        return Relation(outputs, opened=opened, other=found.other)

    # What follows

    def _conditions(self, node: exp.Expr | None, frame: Frame, clause: str) -> list[Origins]:
        if node is None:
            return []
        core = node.this if isinstance(node, exp.Where | exp.Having | exp.Qualify) else node
        parts = list(core.flatten()) if isinstance(core, exp.And) else [core]
        return [self._expressions.conditions(part, frame, clause) for part in parts]

    def _grouped(self, node: exp.Select, outputs: Sequence[Output], frame: Frame) -> list[Origins]:
        group = node.args.get("group")
        if group is None:
            return []
        if group.args.get("all"):
            keys = [item.unalias() for item in node.expressions if not item.find(exp.AggFunc)]
            return [self._expressions.conditions(key, frame, "GROUP BY") for key in keys]
        return list(self._keys(group, _parts_of(group), outputs, frame, "GROUP BY"))

    def _ordered(self, node: exp.Expr, outputs: Sequence[Output], frame: Frame) -> list[Origins]:
        """The order decides what LIMIT leaves, and what the first row of a group is."""
        found: list[Origins] = []
        for key in ("order", "sort", "cluster", "distribute"):
            if (order := node.args.get(key)) is not None:
                found += self._keys(order, (each.this for each in order.expressions), outputs, frame, "ORDER BY")
        return found

    def _keys(
        self, around: exp.Expr, keys: Iterable[exp.Expr], outputs: Sequence[Output], frame: Frame, clause: str
    ) -> Iterator[Origins]:
        """By their position, by an alias of the SELECT list, or as they stand."""
        for key in keys:
            if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(outputs):
                yield as_conditions(outputs[int(key.name) - 1].made, around, clause)
            else:
                yield self._expressions.conditions(key, frame, clause)


def _names(relation: Relation) -> list[set[ColumnName]]:
    origins = [each for output in relation.outputs for each in (output.made.values, output.made.conditions)]
    return [set(each) for each in (*origins, relation.rows)]


def _parts_of(group: exp.Expr) -> Iterator[exp.Expr]:
    yield from group.expressions
    for key in ("cube", "rollup", "grouping_sets"):
        yield from group.args.get(key) or []


def _side_by_side(left: Relation, right: Relation) -> Relation:
    others = [each for each in (left.other, right.other) if each is not None]
    return Relation(
        (*left.outputs, *right.outputs),
        opened=(*left.opened, *right.opened),
        other=together(others) if others else None,
    )


def _combined(operation: exp.SetOperation, left: Relation, right: Relation) -> Relation:
    is_union = isinstance(operation, exp.Union)
    rows = [left.rows, right.rows]
    if not is_union or operation.args.get("distinct"):
        clause = operation.key.upper()
        rows += [as_conditions(each.whole(), operation, clause) for each in (left, right)]
    if not is_union:
        return replace(left, rows=joined(rows))
    if operation.args.get("by_name") or not (left.is_known and right.is_known):
        return replace(_by_name(left, right), rows=joined(rows))
    pairs = zip(left.outputs, right.outputs, strict=False)
    return Relation(tuple(Output(one.name, together([one.made, other.made])) for one, other in pairs), joined(rows))


def _by_name(left: Relation, right: Relation) -> Relation:
    """Where a `*` stands for columns that are not known, it is a guess that both have the same order."""
    names = {each.name.lower(): each.name for each in (*right.outputs, *left.outputs)}
    found = {name: [made for each in (left, right) if (made := each.find(name)) is not None] for name in names}
    return _side_by_side(
        Relation(tuple(Output(names[name], together(made)) for name, made in found.items())),
        Relation((), NO_ORIGINS, (*left.opened, *right.opened), left.other or right.other),
    )


def _shared_names(join: exp.Join | None, frame: Frame, source: Source) -> list[str]:
    """The columns of USING, or of a NATURAL join those that both sides are known to have."""
    if join is None:
        return []
    if str(join.args.get("method") or "").upper() == "NATURAL":
        known = {each.name.lower() for each in source.relation.outputs}
        return [each.name for each in frame.all.outputs if each.name.lower() in known]
    return [each.name for each in join.args.get("using") or []]


def _generates(value: exp.Expr) -> bool:
    """Whether it makes several rows of one."""
    return any(
        isinstance(each, _GENERATORS) or (isinstance(each, exp.Anonymous) and each.name.lower() in _GENERATOR_NAMES)
        for each in value.walk()
    )
