"""sum of integers: a bigint in Postgres, but sixteen bytes in DuckDB, which clients would see as a numeric."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from mere.serve.language import guard, types
from mere.serve.language.mend.tree import cast

# Whether a table's column is such a number, by the node that names the table.
IsSmall = Callable[[exp.Table, str], bool]

_FUNCTIONS = frozenset({"length", "char_length", "octet_length", "strpos", "array_length", "cardinality", "ascii"})
_TOGETHER = frozenset({"coalesce", "nullif", "greatest", "least", "abs", "mod", "sign"})


def narrow(tree: exp.Expr, is_small: IsSmall) -> None:
    for node in list(tree.find_all(exp.Anonymous)):
        if (
            guard.function_name(node) == "sum"
            and len(node.expressions) == 1
            and _is_small(node.expressions[0], is_small)
        ):
            whole: exp.Expr = node
            while isinstance(whole.parent, exp.Filter | exp.Window) and whole.parent.this is whole:
                whole = whole.parent
            whole.replace(cast(whole, "BIGINT"))


def _is_small(node: exp.Expr, is_small: IsSmall) -> bool:
    """Whether Postgres would take it for an integer or smallint. What cannot be told here is taken for none."""
    if isinstance(node, exp.Literal):
        return not node.is_string and node.name.isdigit() and int(node.name) < 2**31
    if isinstance(node, exp.Column):
        return _is_small_column(node, is_small)
    if isinstance(node, exp.Cast):
        return types.postgres_name(node.args["to"]) in ("int4", "int2")
    if isinstance(node, exp.Anonymous):
        name = guard.function_name(node)
        return name in _FUNCTIONS or (name in _TOGETHER and all(_is_small(each, is_small) for each in node.expressions))
    return all(_is_small(each, is_small) for each in values) if (values := _parts(node)) else False


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """What the value is made of; nothing where that says nothing of its type."""
    if isinstance(node, exp.Paren | exp.Neg | exp.Distinct):
        return [node.this] if node.this is not None else list(node.expressions)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div | exp.Mod):
        return [node.this, node.expression]
    if isinstance(node, exp.Case):
        branches = [each.args["true"] for each in node.args["ifs"]]
        chosen = [*branches, *([node.args["default"]] if node.args.get("default") is not None else [])]
        return [each for each in chosen if not isinstance(each, exp.Null)]
    return []


def _is_small_column(column: exp.Column, is_small: IsSmall) -> bool:
    select = column.find_ancestor(exp.Select)
    if select is None:
        return False
    places = [select.args.get("from_"), *(select.args.get("joins") or [])]
    sources = [place.this for place in places if place is not None]
    named = [each for each in sources if not column.table or each.alias_or_name == column.table]
    return len(named) == 1 and isinstance(named[0], exp.Table) and is_small(named[0], column.name)
