"""The types of parameters: declared by the client, or inferred from where a parameter is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from mere.serve.catalog import regtypes
from mere.serve.language import types as datatypes
from mere.serve.language.mend.tree import cast
from mere.serve.protocol import types

# The types of expressions in a SELECT, by its FROM: from the trees of both to the oids; 0 where it is not known.
Probe = Callable[[exp.Select, Sequence[exp.Expr]], list[int]]

_COMPARISONS = (
    exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.NullSafeEQ, exp.NullSafeNEQ,
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod,
)  # fmt: skip
_TEXTUAL = (exp.Like, exp.ILike, exp.RegexpLike, exp.RegexpILike, exp.SimilarTo, exp.DPipe)
_TOGETHER = frozenset({"coalesce", "nullif", "greatest", "least"})


def find(tree: exp.Expr) -> list[exp.Parameter]:
    return list(tree.find_all(exp.Parameter))


def number_of(parameter: exp.Parameter) -> int:
    return int(parameter.name)


def infer(tree: exp.Expr, declared: Sequence[int], probe: Probe) -> tuple[int, ...]:
    """The oid of each parameter, in order. One that nothing tells of is a text, as in Postgres."""
    found = find(tree)
    count = max([len(declared), *(number_of(each) for each in found)], default=0)
    oids = [declared[at] if at < len(declared) else 0 for at in range(count)]
    oids = [0 if oid == types.UNKNOWN else oid for oid in oids]
    partners: dict[int, tuple[exp.Select, exp.Expr, bool]] = {}
    for parameter in found:
        at = number_of(parameter) - 1
        if oids[at] == 0:
            oids[at] = _by_place(parameter)
        if oids[at] == 0 and at not in partners and (partner := _partner(parameter)) is not None:
            partners[at] = partner
    for select in {id(each[0]): each[0] for at, each in partners.items() if oids[at] == 0}.values():
        asked = [(at, node, is_array) for at, (home, node, is_array) in partners.items() if home is select]
        for (at, _, is_array), oid in zip(asked, probe(select, [node for _, node, _ in asked]), strict=True):
            if oids[at] == 0:
                oids[at] = _array_of(oid) if is_array else oid
    for parameter in found:
        _infer_of_others(parameter, oids)
    return tuple(oid or types.TEXT for oid in oids)


def _infer_of_others(parameter: exp.Parameter, oids: list[int]) -> None:
    """From a parameter beside it, such as in $1 = ANY($2). Of two of which nothing is known, both are texts."""
    at = number_of(parameter) - 1
    if oids[at]:
        return
    node, parent, is_array = _compared(parameter)
    known = 0
    for other in _others(node, parent):
        of_array = isinstance(other, exp.Any | exp.All)
        beside = other.this.unnest() if of_array else other.unnest()
        if isinstance(beside, exp.Parameter) and not known:
            oid = oids[number_of(beside) - 1]
            known = types.ELEMENTS.get(oid, 0) if of_array else oid
    if is_array:
        oids[at] = _array_of(known or types.TEXT)
    elif known:
        oids[at] = known


def _array_of(oid: int) -> int:
    return types.BY_OID[oid].array if oid in types.BY_OID else oid


def bind(tree: exp.Expr, oids: Sequence[int], used: Sequence[int]) -> None:
    """Give every parameter its type, which would be that of the value else, and its place among those that are used."""
    for parameter in find(tree):
        at = number_of(parameter) - 1
        parameter.this.set("this", str(used.index(at + 1) + 1))
        if (type_ := datatypes.of_oid(oids[at])) is not None and not _is_cast(parameter, type_):
            parameter.replace(cast(parameter, type_))


def _is_cast(parameter: exp.Parameter, type_: str) -> bool:
    parent = parameter.parent
    return isinstance(parent, exp.Cast) and parent.args["to"].args.get("kind") == type_


def without_values(tree: exp.Expr, oids: Sequence[int]) -> exp.Expr:
    """The same with NULL in place of each parameter, to learn the types of what it returns."""
    made = tree.copy()
    for parameter in find(made):
        oid = oids[number_of(parameter) - 1]
        type_ = datatypes.of_oid(oid) or datatypes.WIDEST + "[]" * (oid in types.ELEMENTS)
        parameter.replace(cast(exp.Null(), type_))
    return made


def _by_place(parameter: exp.Parameter) -> int:
    parent = parameter.parent
    if isinstance(parent, exp.Cast):
        name = datatypes.postgres_name(parent.args["to"])
        known = types.BY_NAME.get(name)
        if known is None or name in regtypes.KINDS:
            return types.TEXT
        return known.array if datatypes.is_array(parent.args["to"]) else known.oid
    if isinstance(parent, exp.Limit | exp.Offset | exp.Fetch):
        return types.INT8
    if isinstance(parent, _TEXTUAL):
        return types.TEXT
    if isinstance(parent, exp.Where | exp.And | exp.Or | exp.Not):
        return types.BOOL
    return 0


def _partner(parameter: exp.Parameter) -> tuple[exp.Select, exp.Expr, bool] | None:
    """What the parameter is compared with, the SELECT in which that is, and whether it is an array of such values."""
    node, parent, is_array = _compared(parameter)
    if isinstance(parent, exp.Tuple):
        return _in_row(node, parent)
    candidates = _others(node, parent)
    select = parameter.find_ancestor(exp.Select)
    for other in candidates:
        if select is not None and not other.find(exp.Parameter) and not isinstance(other, exp.Null):
            return select, other, is_array
    return None


def _compared(parameter: exp.Parameter) -> tuple[exp.Expr, exp.Expr | None, bool]:
    """Itself, or the ANY in which it stands; what that is part of; and whether it is such an array."""
    node: exp.Expr = parameter
    while isinstance(node.parent, exp.Paren):
        node = node.parent
    if isinstance(node.parent, exp.Any | exp.All):
        return node.parent, node.parent.parent, True
    return node, node.parent, False


def _others(node: exp.Expr, parent: exp.Expr | None) -> list[exp.Expr]:
    if isinstance(parent, exp.Anonymous):
        is_together = str(parent.name or parent.this).lower() in _TOGETHER
        return [each for each in parent.expressions if each is not node] if is_together else []
    if isinstance(parent, _COMPARISONS):
        return [each for each in parent.iter_expressions() if each is not node]
    if isinstance(parent, exp.If | exp.Case):
        case = parent if isinstance(parent, exp.Case) else parent.parent
        branches = [each.args["true"] for each in case.args.get("ifs", [])] if isinstance(case, exp.Case) else []
        return [each for each in branches if each is not node]
    return []


def _in_row(node: exp.Expr, row: exp.Tuple) -> tuple[exp.Select, exp.Expr, bool] | None:
    """(a, b) = ($1, $2)"""
    select = row.find_ancestor(exp.Select)
    at = next(at for at, each in enumerate(row.expressions) if each is node)
    parent = row.parent
    if isinstance(parent, exp.Tuple):
        parent = parent.parent
    for other in parent.iter_expressions() if isinstance(parent, _COMPARISONS) else ():
        if isinstance(other, exp.Tuple) and other is not row and at < len(other.expressions) and select is not None:
            partner = other.expressions[at]
            if not partner.find(exp.Parameter):
                return select, partner, False
    return None
