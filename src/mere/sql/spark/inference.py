"""Infers the types that Spark gives to a query's expressions, each looked up by its form in what is proven.

A query is gone through as Spark resolves it: WITH, FROM, joins, lateral views, the SELECT list and what follows.
Whatever is not understood is refused: an expression, a clause, an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from mere.sql.spark import forms
from mere.sql.spark.forms import form_of, interval_text
from mere.sql.spark.proven import Proof, Unlike
from mere.sql.spark.results import TYPE, decimal_type, literal_type, type_of
from mere.sql.spark.types import Columns, decimal, decimal_result, fields, named, size_of

ColumnsOf = Callable[[exp.Table], Columns]

_SELECT = frozenset(
    {
        *("with_", "expressions", "hint", "distinct", "from_", "joins", "laterals", "where", "group", "having"),
        *("qualify", "windows", "order", "limit", "offset", "kind", "operation_modifiers"),
    }
)
# In the meta of a node, for engines that have to be told what Spark finds by itself:
ALIASED = "spark_alias"  # a column that is a name of the SELECT list
KEYS = "spark_keys"  # of GROUP BY ALL the places of its keys in the SELECT list, of USING the types of its columns
_INNER = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)


@dataclass
class Frame:
    """The sources of one SELECT and what it is called by; `outer`: of the query around a subquery."""

    ctes: dict[str, Columns]
    outer: Frame | None = None
    sources: list[tuple[str, Columns]] = field(default_factory=list)
    hidden: list[tuple[str, Columns]] = field(default_factory=list)  # of SEMI and ANTI joins
    merged: set[str] = field(default_factory=set)  # the columns of USING
    aliases: dict[str, exp.Expr] = field(default_factory=dict)
    windows: dict[str, exp.Window] = field(default_factory=dict)

    def find(self, parts: Sequence[str]) -> str | None:
        for name, columns in (*self.sources, *self.hidden):
            if len(parts) > 1 and name.lower() == parts[0].lower() and (found := _field(columns, parts[1:])):
                return found
        types = [each for _, columns in self.sources if (each := _field(columns, parts))]
        if len(set(types)) > 1 or (len(types) > 1 and parts[0].lower() not in self.merged):
            raise Unlike(f"it is not clear which `{parts[0]}` is meant")
        if types:
            return types[0]
        for _, columns in self.hidden:
            if each := _field(columns, parts):
                return each
        return None

    @property
    def all(self) -> Columns:
        seen: set[str] = set()
        found = []
        for _, columns in self.sources:
            for name, type_ in columns:
                if name.lower() not in seen & self.merged:
                    found.append((name, type_))
                seen.add(name.lower())
        return found


def _field(columns: Columns, parts: Sequence[str]) -> str | None:
    for name, type_ in columns:
        if name.lower() == parts[0].lower():
            if len(parts) == 1:
                return type_
            return _field(fields(type_), parts[1:]) if type_.startswith("struct<") else None
    return None


class Inference:
    """Writes the type of every expression into its meta; raises Unlike where something is not proven."""

    def __init__(self, columns_of: ColumnsOf, proof: Proof, engine: str) -> None:
        self._columns_of = columns_of
        self._proof = proof
        self._engine = engine

    def query(self, node: exp.Expr, ctes: dict[str, Columns], outer: Frame | None = None) -> Columns:
        ctes = self._with(node, ctes, outer)
        if isinstance(node, exp.Select):
            return self._select(node, ctes, outer)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, ctes, outer)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            self._only(node, "this", "alias", "with_", "order", "limit")
            columns = self.query(node.this, ctes, outer)
            self._ordered(node, Frame(ctes, outer, [("", columns)]), [])
            return columns
        raise Unlike(f"{node.key} is not a query that is understood")

    def _only(self, node: exp.Expr, *known: str) -> None:
        for arg, value in node.args.items():
            if value and arg not in known:
                raise Unlike(
                    f"{arg.rstrip('_')} in `{node.sql('spark')[:60]}` is not proven to mean the same in {self._engine}"
                )

    def _prove(self, form: str, node: exp.Expr) -> str:
        return self._proof.type_of(form, node.sql("spark"))

    def _with(self, node: exp.Expr, ctes: dict[str, Columns], outer: Frame | None) -> dict[str, Columns]:
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        self._only(with_, "expressions")
        known = dict(ctes)
        for cte in with_.expressions:
            self._only(cte, "this", "alias")
            known[cte.alias.lower()] = _renamed(self.query(cte.this, known, outer), cte.args.get("alias"))
        return known

    def _set_operation(self, node: exp.SetOperation, ctes: dict[str, Columns], outer: Frame | None) -> Columns:
        self._only(node, "this", "expression", "distinct", "order", "limit", "with_")
        sides = (self.query(node.this, ctes, outer), self.query(node.expression, ctes, outer))
        if len(sides[0]) != len(sides[1]):
            raise Unlike("the sides of a set operation have different numbers of columns")
        columns = []
        for (name, left), (_, right) in zip(*sides, strict=True):
            type_ = left
            if left != right:
                type_ = self._prove(f"{node.key}({named(left)}, {named(right)})", node)
                if decimal(left) or decimal(right):
                    type_ = decimal_result("widened", [size for each in (left, right) if (size := size_of(each))])
            self._prove(f"{node.key} {'distinct' if node.args.get('distinct') else 'all'} {named(type_)}", node)
            columns.append((name, type_))
        node.meta["spark_columns"] = columns
        self._ordered(node, Frame(ctes, outer, [("", columns)]), [])
        return columns

    def _select(self, node: exp.Select, ctes: dict[str, Columns], outer: Frame | None) -> Columns:
        self._only(node, *_SELECT)
        frame = Frame(ctes, outer)
        if node.args.get("from_") is not None:
            frame.sources.append(self._source(node.args["from_"].this, frame))
        for join in node.args.get("joins") or []:
            self._join(join, frame)
        for lateral in node.args.get("laterals") or []:
            frame.sources.append(self._lateral(lateral, frame))
        if (where := node.args.get("where")) is not None:
            self._condition(where.this, frame)
        frame.windows = {each.name.lower(): each for each in node.args.get("windows") or []}
        columns: Columns = []
        for item in node.expressions:
            columns += self._item(item, frame)
        self._grouped(node, frame)
        for clause in ("having", "qualify"):
            if node.args.get(clause) is not None:
                self._condition(node.args[clause].this, frame, after=True)
        if (distinct := node.args.get("distinct")) is not None:
            self._only(distinct)
            for _, type_ in columns:
                self._prove(f"distinct {named(type_)}", node)
        self._ordered(node, frame, columns)
        return columns

    def _item(self, item: exp.Expr, frame: Frame) -> Columns:
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            self._only(star, "except_")
            without = {each.name.lower() for each in star.args.get("except_") or []}
            table = item.table.lower() if isinstance(item, exp.Column) else ""
            known = [column for name, columns in frame.sources if name.lower() == table for column in columns]
            return [each for each in (known if table else frame.all) if each[0].lower() not in without]
        if isinstance(item, exp.Aliases):
            raise Unlike("several names for one expression are not proven")
        type_ = self.value(item, frame)
        if isinstance(item, exp.Alias):
            frame.aliases[item.alias.lower()] = item.this
        return [(item.alias_or_name, type_)]

    # FROM

    def _source(self, node: exp.Expr, frame: Frame) -> tuple[str, Columns]:
        alias = node.args.get("alias")
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            self._only(node, "this", "db", "catalog", "alias")
            columns = frame.ctes.get(node.name.lower()) if not node.db else None
            return node.alias_or_name, _renamed(self._columns_of(node) if columns is None else columns, alias)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            self._only(node, "this", "alias")
            return node.alias_or_name, _renamed(self.query(node.this, frame.ctes, frame.outer), alias)
        if isinstance(node, exp.Values):
            self._only(node, "expressions", "alias")
            self._prove("values", node)
            rows = [each.expressions if isinstance(each, exp.Tuple) else [each] for each in node.expressions]
            types = [[self.value(value, frame) for value in row] for row in rows]
            if len({tuple(row) for row in types}) > 1:
                raise Unlike("the rows of VALUES have different types")
            return node.alias, _renamed([(f"col{at}", type_) for at, type_ in enumerate(types[0], 1)], alias)
        raise Unlike(f"`{node.sql('spark')[:60]}` in FROM is not proven to mean the same in {self._engine}")

    def _join(self, join: exp.Join, frame: Frame) -> None:
        self._only(join, "this", "on", "using", "side", "kind", "method")
        words = [str(join.args.get(each) or "").lower() for each in ("method", "side", "kind")]
        using = [each.name for each in join.args.get("using") or []]
        how = "on" if join.args.get("on") is not None else "using" if using else ""
        self._prove(" ".join(filter(None, ["join", *words, how])), join)
        source = self._source(join.this, frame)
        for name in using:
            sides = [_field(frame.all, [name]), _field(source[1], [name])]
            if sides[0] is None or sides[0] != sides[1]:
                raise Unlike(f"`{name}` of USING has two types")
            self._prove(f"eq({named(sides[0])}, {named(sides[0])})", join)
            frame.merged.add(name.lower())
            join.meta.setdefault(KEYS, []).append(sides[0])
        (frame.hidden if join.kind in ("SEMI", "ANTI") else frame.sources).append(source)
        if join.args.get("on") is not None:
            self._condition(join.args["on"], frame)

    def _lateral(self, node: exp.Lateral, frame: Frame) -> tuple[str, Columns]:
        self._only(node, "this", "view", "alias", "outer")
        function, alias = node.this, node.args["alias"]
        names = [each.name for each in alias.args.get("columns") or []]
        if (
            not node.args.get("view")
            or node.args.get("outer")
            or not isinstance(function, exp.Explode)
            or type(function) is not exp.Explode
        ):
            raise Unlike(f"`{node.sql('spark').strip()[:60]}` is not proven to mean the same in {self._engine}")
        type_ = self.value(function.this, frame)
        if not type_.startswith("array<"):
            raise Unlike("only arrays are exploded")
        self._prove(f"lateral view explode({named(type_)})", node)
        return alias.name, [(names[0] if names else "col", type_[6:-1])]

    # Clauses

    def _condition(self, node: exp.Expr, frame: Frame, after: bool = False) -> None:
        if self.value(node, frame) != "boolean":
            raise Unlike(f"`{node.sql('spark')[:60]}` is not a condition")
        if after:
            self._clear(node, frame)

    def _clear(self, node: exp.Expr, frame: Frame) -> None:
        """A name of the SELECT list that a source has, too, may mean either; engines do not agree on which."""
        for column in node.find_all(exp.Column):
            aliased = frame.aliases.get(column.name.lower()) if not column.table else None
            if aliased is not None and frame.find([column.name]) and aliased.name.lower() != column.name.lower():
                raise Unlike(
                    f"it is not clear which `{column.name}` is meant: give the column of the SELECT list another name"
                )

    def _grouped(self, node: exp.Select, frame: Frame) -> None:
        group = node.args.get("group")
        if group is None:
            return
        self._only(group, "expressions", "all")
        if group.args.get("all"):
            self._prove("group by all", group)
            group.meta[KEYS] = [at for at, each in enumerate(node.expressions, 1) if each.find(exp.AggFunc) is None]
        keys = list(_grouping_keys(group.expressions))
        if group.expressions and not keys:
            raise Unlike(f"a GROUP BY of no key at all is not proven to mean the same in {self._engine}")
        for how, key in keys:
            if isinstance(key, exp.Literal) and key.is_int:
                type_ = self.value(node.expressions[int(key.name) - 1], frame)
            else:
                self._clear(key, frame)
                type_ = self.value(key, frame)
            self._prove(" ".join(filter(None, ["group by", how, named(type_)])), group)

    def _ordered(self, node: exp.Expr, frame: Frame, outputs: Columns) -> None:
        for each in node.args["order"].expressions if node.args.get("order") is not None else ():
            key = each.this
            at = int(key.name) if isinstance(key, exp.Literal) and key.is_int else 0
            if at == 0 and outputs:
                self._clear(key, frame)
            self._order_key(each, outputs[at - 1][1] if at else self.value(key, frame))
        for clause in ("limit", "offset"):
            if node.args.get(clause) is not None:
                self._prove(clause, node.args[clause])

    def _order_key(self, node: exp.Expr, type_: str) -> None:
        self._only(node, "this", "desc", "nulls_first")
        direction = "desc" if node.args.get("desc") else "asc"
        self._prove(
            f"order by {named(type_)} {direction} nulls {'first' if node.args.get('nulls_first') else 'last'}", node
        )

    # Expressions

    def value(self, node: exp.Expr, frame: Frame) -> str:
        type_ = self._value(node, frame)
        node.meta[TYPE] = type_
        return type_

    def _value(self, node: exp.Expr, frame: Frame) -> str:
        match node:
            case exp.Alias() | exp.Paren():
                return self.value(node.this, frame)
            case exp.Column() | exp.Identifier():
                return self._column(node, frame)
            case exp.Literal():
                return literal_type(node)
            case exp.Boolean():
                return "boolean"
            case exp.Null():
                return "void"
            case exp.Subquery():
                columns = self.query(node, frame.ctes, frame)
                self._prove("scalar subquery", node)
                return columns[0][1]
            case exp.Exists():
                self.query(node.this, frame.ctes, frame)
                self._prove("exists", node)
                return "boolean"
            case exp.In() if node.args.get("query") is not None:
                columns = self.query(node.args["query"], frame.ctes, frame)
                self._prove(f"in {named(self.value(node.this, frame))} of a query of {named(columns[0][1])}", node)
                return "boolean"
            case exp.Window():
                return self._window(node, frame)
        return self._call(node, frame)

    def _column(self, node: exp.Expr, frame: Frame | None) -> str:
        parts = [part.name for part in node.parts] if isinstance(node, exp.Column) else [node.name]
        around = frame
        while around is not None:
            if (found := around.find(parts)) is not None:
                return found
            if len(parts) == 1 and parts[0].lower() in around.aliases:
                node.meta[ALIASED] = True
                return str(around.aliases[parts[0].lower()].meta[TYPE])
            around = around.outer
        raise Unlike(f"the type of `{'.'.join(parts)}` is not known")

    def _call(self, node: exp.Expr, frame: Frame, window: exp.Window | None = None, over: str = "") -> str:
        """A function or an operator; `window`: the function is computed over one, of which `over` says how."""
        for child in node.iter_expressions():
            self._argument(node, child, frame)
        form = form_of(node, type_of) if window is None else over.format(form_of(node, type_of))
        if isinstance(node, exp.Case) and node.this is not None:
            for each in node.args["ifs"]:
                self._prove(f"eq({named(type_of(node.this))}, {named(type_of(each.this))})", node)
        found = self._prove(form, window or node)
        if found == "decimal":
            return decimal_type(node)
        if isinstance(node, exp.Cast):
            return forms.type_text(node)
        return found

    def _argument(self, node: exp.Expr, child: exp.Expr, frame: Frame) -> None:
        match child:
            case exp.Var() | exp.DataType() | exp.Star():
                return
            case exp.Interval():
                self._only(child, "this", "unit")
                if not isinstance(child.this, exp.Literal):
                    raise Unlike("an interval is a plain number of a unit")
                child.meta[TYPE] = interval_text(child)
            case exp.If() if isinstance(node, exp.Case):
                self._condition(child.this, frame) if node.this is None else self.value(child.this, frame)
                child.meta[TYPE] = self.value(child.args["true"], frame)
            case exp.Distinct():
                self._only(child, "expressions")
                types = [named(self.value(each, frame)) for each in child.expressions]
                if len(types) > 1:  # equal if each of them is
                    for type_ in types:
                        self._prove(f"distinct {type_}", child)
                child.meta[TYPE] = f"distinct {types[0] if len(types) == 1 else 'several'}"
            case exp.Where():
                self._condition(child.this, frame)
                child.meta[TYPE] = "where"
            case exp.Lambda():
                self._lambda(node, child, frame)
            case _:
                self.value(child, frame)

    def _lambda(self, node: exp.Expr, child: exp.Lambda, frame: Frame) -> None:
        array = node.this.meta.get(TYPE, "")
        if len(child.expressions) != 1 or not array.startswith("array<"):
            raise Unlike("a lambda is proven for the elements of an array, by one name")
        inner = Frame(frame.ctes, frame, [("", [(child.expressions[0].name, array[6:-1])])])
        child.meta[TYPE] = f"lambda {named(self.value(child.this, inner))}"

    def _window(self, node: exp.Window, frame: Frame) -> str:
        self._only(node, "this", "partition_by", "order", "spec", "over", "alias")
        window = frame.windows.get(node.args["alias"].name.lower(), node) if node.args.get("alias") else node
        for key in window.args.get("partition_by") or []:
            self._prove(f"group by {named(self.value(key, frame))}", window)
        order = window.args.get("order")
        for each in order.expressions if order is not None else ():
            self._order_key(each, self.value(each.this, frame))
        function, spec = node.this, window.args.get("spec")
        wrapped = []
        while isinstance(function, _INNER):
            wrapped.append(function.key)
            if isinstance(function, exp.Filter):
                self._argument(function, function.expression, frame)
            function = function.this
        start = " ".join([*wrapped, ""]) if wrapped else ""
        return self._call(function, frame, node, forms.over(f"{start}{{}}", spec, order is not None))


def _renamed(columns: Columns, alias: exp.Expr | None) -> Columns:
    names = [each.name for each in alias.args.get("columns") or []] if alias is not None else []
    return [(names[at] if at < len(names) else name, type_) for at, (name, type_) in enumerate(columns)]


def _grouping_keys(keys: Sequence[exp.Expr], how: str = "") -> Iterator[tuple[str, exp.Expr]]:
    """Each key of a GROUP BY, and of which sets of keys it is part."""
    for key in keys:
        if isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets):
            yield from _grouping_keys(key.expressions, {"groupingsets": "grouping sets"}.get(key.key, key.key))
        elif isinstance(key, exp.Tuple) and how:
            yield from _grouping_keys(key.expressions, how)
        else:
            yield how, key.unnest() if how else key
