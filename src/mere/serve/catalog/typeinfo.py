"""What asyncpg asks about types that it does not know, including the types that they are made of.

It asks with a recursive query whose every step joins all types with one another, which takes DuckDB seconds. The types
are the same for everybody, so the answers are computed beforehand: the query becomes a look-up in them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from mere.serve import builtin
from mere.serve.catalog.types import built_in

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "mere_typeinfo"
_TREE = "typeinfo_tree"  # what asyncpg calls it
_COLUMNS = (
    "oid", "ns", "name", "kind", "basetype", "elemtype", "elemdelim", "range_subtype", "attrtypoids", "attrnames",
    "depth",
)  # fmt: skip
_NAMED = ("basetype", "elemtype", "range_subtype")  # of which the query wants the names as well


def look_up(tree: exp.Expr) -> exp.Expr:
    """The same tree, unless it is this query."""
    with_ = tree.args.get("with_")
    if not isinstance(tree, exp.Select) or not isinstance(with_, exp.With) or len(with_.expressions) != 1:
        return tree
    alias = with_.expressions[0].args["alias"]
    if alias.name != _TREE or tuple(each.name for each in alias.args.get("columns") or ()) != _COLUMNS:
        return tree
    wanted = next((each for each in with_.find_all(exp.Any) if each.find(exp.Parameter)), None)
    if wanted is None:
        return tree
    columns = [exp.column(name, quoted=True) for name in (*_COLUMNS, *(f"{each}_name" for each in _NAMED))]
    table = exp.Table(this=exp.to_identifier(NAME), db=exp.to_identifier("pg_catalog"), alias=_TREE)
    table.set("alias", exp.TableAlias(this=exp.to_identifier(_TREE)))
    known = exp.EQ(this=exp.column("root", quoted=True), expression=wanted.copy())
    query = exp.Select(expressions=columns, distinct=exp.Distinct()).from_(table, copy=False).where(known, copy=False)
    return query.order_by(exp.Ordered(this=exp.column("depth"), desc=True, nulls_first=True), copy=False)


@cache
def typeinfo() -> pa.Table:
    """For each type, as `root`, what the query says of it."""
    import pyarrow as pa

    facts = _facts()
    rows = [row for root in facts for row in _reached(root, facts)]
    kinds = {
        "root": pa.int64(), **dict.fromkeys(_COLUMNS, pa.string()), "oid": pa.int64(),
        **dict.fromkeys(_NAMED, pa.int64()), "attrtypoids": pa.list_(pa.uint32()), "attrnames": pa.list_(pa.string()),
        "depth": pa.int32(), **{f"{each}_name": pa.string() for each in _NAMED},
    }  # fmt: skip
    return pa.Table.from_pylist(rows, schema=pa.schema(kinds))


def _facts() -> dict[int, dict[str, Any]]:
    known, ranges = built_in(), _subtypes()
    columns = builtin.columns("pg_type")
    kinds = dict(zip(columns["oid"], columns["typtype"], strict=True))
    delimiters = dict(zip(columns["oid"], columns["typdelim"], strict=True))
    found = {}
    for oid, type_ in known.items():
        has_elements = type_.length == -1 and type_.element in known
        fact: dict[str, Any] = {
            "oid": oid, "ns": type_.schema, "name": type_.name, "kind": kinds[oid],
            "basetype": type_.base if kinds[oid] == "d" else None, "elemtype": type_.element,
            "elemdelim": delimiters[type_.element] if has_elements else None, "range_subtype": ranges.get(oid),
        }  # fmt: skip
        for each in _NAMED:
            other = fact[each]
            fact[f"{each}_name"] = None if other is None else known[other].words if other in known else "-"
        found[oid] = fact
    return found


def _subtypes() -> dict[int, int]:
    """Of ranges, and of several ranges in one."""
    columns = builtin.columns("pg_range")
    found = dict(zip(columns["rngtypid"], columns["rngsubtype"], strict=True))
    return found | dict(zip(columns["rngmultitypid"], columns["rngsubtype"], strict=True))


def _reached(root: int, facts: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    rows, depth, level = [], 0, [root]
    while level:
        rows += [{"root": root, "depth": depth, **facts[oid]} for oid in level]
        level = [facts[oid][each] for oid in level for each in _NAMED if facts[oid][each] in facts]
        depth += 1
    return rows
