"""What the joins and conditions of a SELECT make equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.scope import Scope

from mere.sql.mixing import candidates
from mere.sql.scopes import sources_of
from mere.sql.spark.read import SparkView


@dataclass(frozen=True)
class _Edge:
    """Rows that the sources of `other` add to a row have there the value that `one` has in it."""

    one: exp.Expr
    other: exp.Expr
    found: frozenset[str] = frozenset()  # only if these sources are there, which an outer join may not have found


class Joins:
    """Of one SELECT. Columns are written with the name of their source."""

    def __init__(self, scope: Scope, query: exp.Select) -> None:
        self._sources = {name.lower(): source for name, (_, source) in (sources_of(scope) or {}).items()}
        self._using: dict[str, list[str]] = {}  # the sources that a column of USING is taken from
        self._edges: list[_Edge] = []
        self.optional: set[str] = set()  # sources of which a row of the others may have none, or of which none is seen
        before: list[str] = []
        start = query.args.get("from_") or query.args.get("from")
        if start is not None:
            before.append(start.this.alias_or_name.lower())
        for join in query.args.get("joins") or []:
            self._join(join, before)
            before.append(join.alias_or_name.lower())
        if (where := query.args.get("where")) is not None:
            for left, right in self._equalities(where.this):
                self._edges += [_Edge(left, right), _Edge(right, left)]

    def _join(self, join: exp.Join, before: list[str]) -> None:
        name = join.alias_or_name.lower()
        side, kind = (str(join.args.get(each) or "").upper() for each in ("side", "kind"))
        hidden = kind in ("SEMI", "ANTI")
        if hidden or side in ("LEFT", "FULL"):
            self.optional.add(name)
        if side in ("RIGHT", "FULL") and not hidden:
            self.optional.update(before)
        pairs = list(self._equalities(join.args.get("on")))
        using = [self._of_using(column.name, name, before) for column in join.args.get("using") or []]
        pairs += [pair for pair in using if pair is not None]
        for left, right in pairs:
            if self.sources_in(left) == {name}:
                left, right = right, left
            if self.sources_in(right) != {name} or name in self.sources_in(left):
                if not side and not hidden:
                    self._edges += [_Edge(left, right), _Edge(right, left)]
                continue
            inner = not side and not hidden
            self._edges.append(_Edge(left, right, self._if(side == "RIGHT", before, left)))
            if not hidden:
                self._edges.append(_Edge(right, left, self._if(not inner and side == "LEFT", [name], right)))

    def _if(self, conditional: bool, sources: Iterable[str], value: exp.Expr) -> frozenset[str]:
        return frozenset(self.sources_in(value) & set(sources)) if conditional else frozenset()

    def _of_using(self, column: str, name: str, before: list[str]) -> tuple[exp.Expr, exp.Expr] | None:
        known = self._using.get(column.lower())
        if known is None:
            sources = {each: self._sources[each] for each in before if each in self._sources}
            first = list(candidates(sources, exp.column(column)))
            if len(first) != 1:
                return None
            known = self._using[column.lower()] = first
        pair = exp.column(column.lower(), table=known[0]), exp.column(column.lower(), table=name)
        known.append(name)
        return pair

    def _equalities(self, condition: exp.Expr | None) -> Iterator[tuple[exp.Expr, exp.Expr]]:
        for part in _conjuncts(condition):
            if isinstance(part, exp.EQ | exp.NullSafeEQ):
                left, right = self.resolved(part.this), self.resolved(part.expression)
                if left is not None and right is not None:
                    yield left, right

    # Values

    def resolved(self, value: exp.Expr) -> exp.Expr | None:
        """With the name of its source before each column; None if one of them may be of several."""
        node = value.unnest().copy()
        holder = exp.Paren(this=node)
        for column in list(node.find_all(exp.Column)):
            if not column.table and (shared := self._using.get(column.name.lower())):
                either = [exp.column(column.name.lower(), table=each) for each in shared]
                column.replace(exp.Coalesce(this=either[0], expressions=either[1:]))
                continue
            found = list(candidates(self._sources, column))
            if len(found) != 1:
                return None
            column.replace(exp.column(column.name.lower(), table=found[0]))
        made: exp.Expr = holder.this
        return made

    def sources_in(self, value: exp.Expr) -> set[str]:
        return {column.table for column in value.find_all(exp.Column)}

    def over(self, value: exp.Expr, source: str) -> exp.Expr | None:
        """An expression over the columns of one source that has the value wherever a row of it takes part."""
        node = self.resolved(value)
        if node is None or not self.sources_in(node):
            return None
        starts = self._starts(node)
        if starts is None:
            return None
        found = next(filter(None, (self._rewritten(start, source.lower()) for start in starts)), None)
        if found is None:
            return None
        bare = exp.paren(found.copy())
        for column in list(bare.find_all(exp.Column)):
            column.replace(exp.column(column.this.copy()))
        made: exp.Expr = bare.this
        return made

    def _starts(self, node: exp.Expr) -> list[exp.Expr] | None:
        """The value, or several that are equal. NULL is no key: so a column that an outer join may not find is found
        wherever it counts; but not inside of an expression, that may make a value of NULL."""
        core = node
        while isinstance(core, exp.Paren | exp.Cast):
            core = core.this
        if isinstance(core, exp.Coalesce) and core is node:
            parts = [core.this, *core.expressions]
            return parts if all(_same(each, parts[0]) or self._joined(parts[0], each) for each in parts) else None
        if self.sources_in(node) & self.optional and not isinstance(core, exp.Column):
            return None
        return [node]

    def _joined(self, one: exp.Expr, other: exp.Expr) -> bool:
        return any({_text(each.one), _text(each.other)} == {_text(one), _text(other)} for each in self._edges)

    def _rewritten(self, value: exp.Expr, source: str) -> exp.Expr | None:
        """The value with what is not of the source replaced by what is equal to it there."""
        if self.sources_in(value) == {source}:
            return value
        if (equal := self._equal(value, source)) is not None:
            return equal
        if isinstance(value, exp.Column):
            return None
        holder = exp.paren(value.copy())
        for column in list(holder.find_all(exp.Column)):
            found = column if column.table == source else self._equal(column, source)
            if found is None:
                return None
            column.replace(exp.paren(found.copy()) if isinstance(found, exp.Binary) else found.copy())
        made: exp.Expr = holder.this
        return made

    def _equal(self, value: exp.Expr, source: str) -> exp.Expr | None:
        there = self.sources_in(value)
        reached, left = {_text(value)}, [value]
        while left:
            at = left.pop(0)
            if self.sources_in(at) == {source}:
                return at
            for edge in self._edges:
                if _same(edge.one, at) and edge.found <= there and _text(edge.other) not in reached:
                    reached.add(_text(edge.other))
                    left.append(edge.other)
        return None

    def is_held(self, value: exp.Expr, keys: Iterable[exp.Expr]) -> bool:
        """Whether all rows that have the same keys have the same value."""
        node = self.resolved(value)
        held = {_text(each) for each in map(self.resolved, keys) if each is not None}
        return node is not None and _covered(node, held)


def _covered(node: exp.Expr, held: set[str]) -> bool:
    if _text(node) in held:
        return True
    if isinstance(node, exp.Column):
        return False
    return all(_covered(child, held) for child in node.iter_expressions())


def _conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    if condition is None:
        return
    node = condition.unnest()
    if isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


def _text(node: exp.Expr) -> str:
    return node.unnest().sql(SparkView, normalize=True)


def _same(one: exp.Expr, other: exp.Expr) -> bool:
    return _text(one) == _text(other)
