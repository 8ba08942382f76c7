"""The types of literals, and of functions and operators on decimals, which Spark works out by rules."""

from __future__ import annotations

from sqlglot import exp

from mere.sql.spark import forms
from mere.sql.spark.proven import Unlike
from mere.sql.spark.types import INTEGERS, decimal_result, size_of

TYPE = "spark_type"  # in the meta of an expression


def type_of(node: exp.Expr) -> str:
    return "*" if isinstance(node, exp.Star) else str(node.meta.get(TYPE) or "void")


def literal_type(node: exp.Literal) -> str:
    if node.is_string:
        return "string"
    text = node.name.lower()
    if "e" in text:
        return "double"
    whole, point, fraction = text.partition(".")
    if point:
        return f"decimal({max(len(whole.lstrip('0')) + len(fraction), 1)},{len(fraction)})"
    number = int(text)
    return "int" if number < 2**31 else "bigint" if number < 2**63 else f"decimal({len(text)},0)"


def decimal_type(node: exp.Expr) -> str:
    """Of a function or an operator whose value is a decimal because an argument is one."""
    if isinstance(node, exp.Cast):
        return forms.type_text(node)
    children = [each for each in _values(node) if size_of(type_of(each))]
    is_operator = isinstance(node, exp.Binary)
    sizes = [_size(each, is_operator) for each in children]
    digits = node.args.get("decimals")
    if isinstance(node, exp.Round):
        sizes = sizes[:1]
    if not sizes:
        raise Unlike(f"the precision of `{node.sql('spark')[:60]}` is not known")
    name = node.key if is_operator else forms.name_of(node)
    return decimal_result(name, sizes, int(digits.sql()) if digits is not None else 0)


def _size(node: exp.Expr, is_operator: bool) -> tuple[int, int]:
    if is_operator and isinstance(node, exp.Literal) and type_of(node) in INTEGERS:
        return len(node.name), 0  # of a number in the query Spark knows the digits
    found = size_of(type_of(node))
    assert found is not None
    return found


def _values(node: exp.Expr) -> list[exp.Expr]:
    """Of which the value may be: not the conditions of a CASE, nor the offset of lag."""
    match node:
        case exp.Case():
            found = [each.args["true"] for each in node.args["ifs"]]
            return [*found, node.args["default"]] if node.args.get("default") is not None else found
        case exp.If():
            return [each for each in (node.args["true"], node.args.get("false")) if each is not None]
        case exp.Nullif() | exp.ArgMax() | exp.ArgMin():
            return [node.this]
        case exp.Lag() | exp.Lead():
            return [each for each in (node.this, node.args.get("default")) if each is not None]
        case exp.Sum() | exp.Min() | exp.Max() | exp.Avg() if isinstance(node.this, exp.Distinct):
            return list(node.this.expressions)
    return list(node.iter_expressions())
