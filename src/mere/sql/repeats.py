"""Finds a table that a query combines with itself. Two arms of a UNION ALL do not count: their rows never meet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from sqlglot import exp


def met_again(tree: exp.Expr, nodes: Sequence[exp.Table]) -> exp.Table | None:
    """The later one of two places of a table in a query, or of a CTE over it, whose rows meet."""
    ctes = list(tree.find_all(exp.CTE))
    places = list(nodes)
    seen: set[str] = set()
    while found := [each for each in ctes if each.alias.casefold() not in seen and _holds(each, places)]:
        seen |= {each.alias.casefold() for each in found}
        named = (each for each in tree.find_all(exp.Table) if not each.db and each.name.casefold() in seen)
        places = [*nodes, *named]
    pairs = ((one, two) for one, two in combinations(places, 2) if _body(one) is _body(two))
    return next((two for one, two in pairs if not _are_apart(one, two)), None)


def _holds(cte: exp.CTE, places: Sequence[exp.Table]) -> bool:
    return any(_body(each) is cte for each in places)


def _body(node: exp.Expr) -> exp.Expr | None:
    """The CTE in which it stands; None: the query itself."""
    return node.find_ancestor(exp.CTE)


def _are_apart(one: exp.Expr, two: exp.Expr) -> bool:
    above = set(map(id, _ancestors(one)))
    common = next(each for each in _ancestors(two) if id(each) in above)
    return isinstance(common, exp.Union) and common.args.get("distinct") is False


def _ancestors(node: exp.Expr) -> list[exp.Expr]:
    found, parent = list[exp.Expr](), node.parent
    while parent is not None:
        found.append(parent)
        parent = parent.parent
    return found
