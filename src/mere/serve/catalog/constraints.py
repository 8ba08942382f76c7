"""Keys and columns that are never NULL, in information_schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mere.serve.builtin import arrow
from mere.serve.builtin.names import quoted
from mere.serve.catalog.inventory import Column, Relation, Seen

if TYPE_CHECKING:
    import pyarrow as pa


def _table(name: str, /, **columns: Any) -> pa.Table:
    return arrow.table(f"information_schema.{name}", **columns)


def table_constraints(seen: Seen) -> pa.Table:
    keyed, not_null = seen.inventory.keyed, seen.inventory.not_null
    schemas = [each.schema for each in (*keyed, *(each.relation for each in not_null))]
    return _table(
        "table_constraints",
        constraint_catalog=seen.database,
        constraint_schema=schemas,
        constraint_name=[relation.key_name for relation in keyed] + [each.name for each in not_null],
        table_catalog=seen.database,
        table_schema=schemas,
        table_name=[relation.name for relation in keyed] + [each.relation.name for each in not_null],
        constraint_type=["PRIMARY KEY"] * len(keyed) + ["CHECK"] * len(not_null),
        is_deferrable="NO",
        initially_deferred="NO",
        enforced="YES",
    )


def check_constraints(seen: Seen) -> pa.Table:
    """Those that a column is not NULL: there are no others."""
    not_null = seen.inventory.not_null
    return _table(
        "check_constraints",
        constraint_catalog=seen.database,
        constraint_schema=[each.relation.schema for each in not_null],
        constraint_name=[each.name for each in not_null],
        check_clause=[f"{quoted(each.column.name)} IS NOT NULL" for each in not_null],
    )


def key_column_usage(seen: Seen) -> pa.Table:
    rows = [(relation, column, at) for relation in seen.inventory.keyed for at, column in enumerate(relation.key, 1)]
    return _table(
        "key_column_usage",
        **_of_constraints(seen, [(relation.key_name, relation, column) for relation, column, _ in rows]),
        ordinal_position=[at for *_, at in rows],
    )


def constraint_column_usage(seen: Seen) -> pa.Table:
    rows = [(relation.key_name, relation, column) for relation in seen.inventory.keyed for column in relation.key]
    rows += [(each.name, each.relation, each.column) for each in seen.inventory.not_null]
    return _table("constraint_column_usage", **_of_constraints(seen, rows))


def _of_constraints(seen: Seen, rows: list[tuple[str, Relation, Column]]) -> dict[str, Any]:
    schemas = [relation.schema for _, relation, _ in rows]
    return {
        "constraint_catalog": seen.database,
        "constraint_schema": schemas,
        "constraint_name": [name for name, _, _ in rows],
        "table_catalog": seen.database,
        "table_schema": schemas,
        "table_name": [relation.name for _, relation, _ in rows],
        "column_name": [column.name for _, _, column in rows],
    }


def constraint_table_usage(seen: Seen) -> pa.Table:
    keyed = seen.inventory.keyed
    schemas = [relation.schema for relation in keyed]
    return _table(
        "constraint_table_usage",
        table_catalog=seen.database,
        table_schema=schemas,
        table_name=[relation.name for relation in keyed],
        constraint_catalog=seen.database,
        constraint_schema=schemas,
        constraint_name=[relation.key_name for relation in keyed],
    )


EVERY = (
    table_constraints, check_constraints, key_column_usage, constraint_column_usage, constraint_table_usage,
)  # fmt: skip
