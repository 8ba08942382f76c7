"""What the value of an expression is made of, and what decides about it: `amount` and `currency` of
CASE WHEN currency = 'CHF' THEN amount END."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from mere.sql.lineage.derivation import NOTHING, ColumnName, Made, Origins, Place, Relation, as_conditions, together
from mere.sql.lineage.resolve import Ctes, Frame

RelationOf = Callable[[exp.Expr, Ctes, Frame | None], Relation]

# Clauses in which a name of the SELECT list may be meant, whatever the sources have.
_SEE_ALIASES = frozenset({"GROUP BY", "HAVING", "QUALIFY", "ORDER BY"})


class Expressions:
    def __init__(self, relation_of: RelationOf) -> None:
        self._relation_of = relation_of
        self.named: dict[ColumnName, Place] = {}

    def note(self, made: Made) -> None:
        """The columns are named by the query, which therefore cannot do without them."""
        for origins in (made.values, made.conditions):
            for name, place in origins.items():
                self.named.setdefault(name, place)

    def conditions(self, node: exp.Expr, frame: Frame, clause: str) -> Origins:
        made = self.made(node, frame, node)
        if clause in _SEE_ALIASES:
            aliases = [frame.alias(_parts(each)) for each in node.find_all(exp.Column)]
            made = together([made, *(each for each in aliases if each is not None)])
        return as_conditions(made, node, clause)

    def made(self, root: exp.Expr, frame: Frame, around: exp.Expr) -> Made:
        """`around`: the expression of the SELECT list, or the clause, in which it stands."""
        found: list[Made] = []
        left = [root]
        while left:
            node = left.pop()
            match node:
                case exp.Column():
                    found.append(self._column(node, frame, around))
                case exp.Star():
                    if not isinstance(node.parent, exp.Count):
                        found.append(frame.all.whole().placed(node, around))
                case exp.Exists() if isinstance(node.this, exp.Query):
                    inner = self._relation_of(node.this, frame.ctes, frame)
                    found.append(Made({}, inner.rows))
                case exp.Query():
                    inner = self._relation_of(node, frame.ctes, frame)
                    found.append(together([inner.whole(), Made({}, inner.rows)]))
                case exp.Case() | exp.If() | exp.Nvl2():
                    found.append(self._decided(node, frame, around))
                case exp.Window():
                    found.append(self._window(node, frame, around))
                case exp.Filter():
                    found.append(Made({}, self.conditions(node.expression, frame, "FILTER")))
                    left.append(node.this)
                case exp.Order() if node.this is not None:
                    found += [Made({}, self.conditions(each, frame, "ORDER BY")) for each in node.expressions]
                    left.append(node.this)
                case _:
                    left += reversed(list(node.iter_expressions()))
        return together(found)

    def _column(self, node: exp.Column, frame: Frame, around: exp.Expr) -> Made:
        parts = _parts(node)
        if isinstance(node.this, exp.Star):
            source = frame.called(parts[:-1])
            made = source.whole() if source is not None else frame.find(parts[:-1])
        else:
            made = frame.find(parts)
        made = (made or NOTHING).placed(node, around)
        self.note(made)
        return made

    def _decided(self, node: exp.Expr, frame: Frame, around: exp.Expr) -> Made:
        """Of CASE, IF and NVL2."""
        branches = node.args.get("ifs") or [node]
        looked_at = [each.this for each in branches]
        looked_at += [node.this] if isinstance(node, exp.Case) and node.this is not None else []
        values = [each.args.get("true") for each in branches] + [node.args.get("default"), node.args.get("false")]
        return together(
            [
                *(Made({}, self.conditions(each, frame, "CASE")) for each in looked_at),
                *(self.made(each, frame, around) for each in values if each is not None),
            ]
        )

    def _window(self, node: exp.Window, frame: Frame, around: exp.Expr) -> Made:
        named = frame.windows.get(node.args["alias"].name.lower()) if node.args.get("alias") else None
        over = [
            each
            for window in (node, named)
            if window is not None
            for each in (*(window.args.get("partition_by") or []), window.args.get("order"), window.args.get("spec"))
            if each is not None
        ]
        looked_at = [Made({}, self.conditions(each, frame, "OVER")) for each in over]
        return together([self.made(node.this, frame, around), *looked_at])


def _parts(node: exp.Column) -> list[str]:
    return [part.name.lower() for part in node.parts]
