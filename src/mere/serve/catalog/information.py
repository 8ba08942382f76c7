"""information_schema: the same facts in the words of the SQL standard, with Postgres's columns and types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mere.serve import builtin
from mere.serve.builtin import arrow
from mere.serve.builtin.names import OWNER_NAME
from mere.serve.catalog import constraints
from mere.serve.catalog.inventory import Seen
from mere.serve.catalog.types import BuiltIn, ColumnType, built_in, precision, type_named
from mere.serve.protocol.types import (
    BPCHAR,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
)

if TYPE_CHECKING:
    import pyarrow as pa

_BITS = {INT2: 16, INT4: 32, INT8: 64, FLOAT4: 24, FLOAT8: 53}
_SECONDS = {DATE: 0, TIME: 6, TIMESTAMP: 6, TIMESTAMPTZ: 6, INTERVAL: 6}
_LONGEST = 1 << 30  # bytes of a text
_DOMAIN = "information_schema"


def _table(name: str, /, **columns: Any) -> pa.Table:
    return arrow.table(f"information_schema.{name}", **columns)


def information_schema_catalog_name(seen: Seen) -> pa.Table:
    return _table("information_schema_catalog_name", catalog_name=[seen.database])


def schemata(seen: Seen) -> pa.Table:
    own = [schema.name for schema in seen.inventory.schemas]
    names = ["pg_catalog", "information_schema", *own]
    return _table("schemata", catalog_name=seen.database, schema_name=names, schema_owner=OWNER_NAME)


def tables(seen: Seen) -> pa.Table:
    import pyarrow as pa

    relations = seen.inventory.relations
    catalogs = list(builtin.definitions().values())
    kinds = ["VIEW" if relation.is_view else "BASE TABLE" for relation in relations]
    same = {"table_catalog": seen.database, "is_insertable_into": "NO", "is_typed": "NO"}
    own = _table(
        "tables",
        table_schema=[relation.schema for relation in relations],
        table_name=[relation.name for relation in relations],
        table_type=kinds,
        **same,
    )
    others = _table(
        "tables",
        table_schema=[each.schema for each in catalogs],
        table_name=[each.name for each in catalogs],
        table_type=["VIEW" if each.kind == "v" else "BASE TABLE" for each in catalogs],
        **same,
    )
    return pa.concat_tables([others, own])


def columns(seen: Seen) -> pa.Table:
    import pyarrow as pa

    pairs = list(seen.inventory.columns())
    own = _table(
        "columns",
        table_schema=[relation.schema for relation, _ in pairs],
        table_name=[relation.name for relation, _ in pairs],
        column_name=[column.name for _, column in pairs],
        ordinal_position=[column.number for _, column in pairs],
        is_nullable=["NO" if column.required else "YES" for _, column in pairs],
        dtd_identifier=[str(column.number) for _, column in pairs],
        **_described([column.type for _, column in pairs], seen.database),
        **_same_for_columns(seen.database),
    )
    catalogs = [
        (each, number, column)
        for each in builtin.definitions().values()
        for number, column in enumerate(each.columns, 1)
    ]
    types = [type_named(column.type) for _, _, column in catalogs]
    domains = [type_.name if type_.base else None for type_ in types]
    others = _table(
        "columns",
        table_schema=[each.schema for each, _, _ in catalogs],
        table_name=[each.name for each, _, _ in catalogs],
        column_name=[column.name for _, _, column in catalogs],
        ordinal_position=[number for _, number, _ in catalogs],
        is_nullable=["NO" if column.required else "YES" for _, _, column in catalogs],
        dtd_identifier=[str(number) for _, number, _ in catalogs],
        domain_catalog=[seen.database if domain else None for domain in domains],
        domain_schema=[_DOMAIN if domain else None for domain in domains],
        domain_name=domains,
        **_described([ColumnType(type_.base or type_.oid) for type_ in types], seen.database),
        **_same_for_columns(seen.database),
    )
    return pa.concat_tables([others, own])


def _same_for_columns(database: str) -> dict[str, Any]:
    return {
        "table_catalog": database,
        "is_self_referencing": "NO",
        "is_identity": "NO",
        "identity_cycle": "NO",
        "is_generated": "NEVER",
        "is_updatable": "NO",
    }


def _described(types: list[ColumnType], database: str) -> dict[str, Any]:
    """What the standard wants to know of a column's type."""
    known = {type_: _facts(type_) for type_ in set(types)}
    names = (
        "data_type", "character_maximum_length", "character_octet_length", "numeric_precision",
        "numeric_precision_radix", "numeric_scale", "datetime_precision", "udt_name",
    )  # fmt: skip
    columns = zip(*(known[type_] for type_ in types), strict=True) if types else [()] * len(names)
    found: dict[str, Any] = {name: list(column) for name, column in zip(names, columns, strict=True)}
    return found | {"udt_catalog": database, "udt_schema": "pg_catalog"}


def _facts(type_: ColumnType) -> tuple[Any, ...]:
    known = built_in()[type_.oid]
    seconds = _SECONDS.get(type_.oid)
    return _data_type(known), _length(type_), _octets(type_), *_digits(type_), seconds, known.name


def _data_type(type_: BuiltIn) -> str:
    return "ARRAY" if type_.words.endswith("[]") else type_.words


def _length(type_: ColumnType) -> int | None:
    return type_.modifier - 4 if type_.oid in (VARCHAR, BPCHAR) and type_.modifier >= 0 else None


def _octets(type_: ColumnType) -> int | None:
    if type_.oid not in (TEXT, VARCHAR, BPCHAR):
        return None
    length = _length(type_)
    return _LONGEST if length is None else 4 * length


def _digits(type_: ColumnType) -> tuple[int | None, int | None, int | None]:
    """Precision, its radix, and scale."""
    if type_.oid == NUMERIC:
        found = precision(type_.modifier)
        return (found[0], 10, found[1]) if found else (None, 10, None)
    if bits := _BITS.get(type_.oid):
        return bits, 2, None if type_.oid in (FLOAT4, FLOAT8) else 0
    return None, None, None


def element_types(seen: Seen) -> pa.Table:
    """Of the columns that are arrays."""
    known = built_in()
    arrays = [
        (relation, column, known[known[column.type.oid].element])
        for relation, column in seen.inventory.columns()
        if column.type.dimensions
    ]
    return _table(
        "element_types",
        object_catalog=seen.database,
        object_schema=[relation.schema for relation, _, _ in arrays],
        object_name=[relation.name for relation, _, _ in arrays],
        object_type=["VIEW" if relation.is_view else "TABLE" for relation, _, _ in arrays],
        collection_type_identifier=[str(column.number) for _, column, _ in arrays],
        data_type=[element.words for _, _, element in arrays],
        udt_catalog=seen.database,
        udt_schema="pg_catalog",
        udt_name=[element.name for _, _, element in arrays],
        dtd_identifier=[f"a{column.number}" for _, column, _ in arrays],
    )


def views(seen: Seen) -> pa.Table:
    found = seen.inventory.views
    return _table(
        "views",
        table_catalog=seen.database,
        table_schema=[view.schema for view in found],
        table_name=[view.name for view in found],
        view_definition=[view.shape.sql for view in found],
        check_option="NONE",
        is_updatable="NO",
        is_insertable_into="NO",
        is_trigger_updatable="NO",
        is_trigger_deletable="NO",
        is_trigger_insertable_into="NO",
    )


def table_privileges(seen: Seen) -> pa.Table:
    return _table("table_privileges", **_of_tables(seen))


def role_table_grants(seen: Seen) -> pa.Table:
    return _table("role_table_grants", **_of_tables(seen))


def _of_tables(seen: Seen) -> dict[str, Any]:
    relations = seen.inventory.relations
    return {
        "grantor": OWNER_NAME,
        "grantee": seen.user,
        "table_catalog": seen.database,
        "table_schema": [relation.schema for relation in relations],
        "table_name": [relation.name for relation in relations],
        "privilege_type": "SELECT",
        "is_grantable": "NO",
        "with_hierarchy": "YES",
    }


def column_privileges(seen: Seen) -> pa.Table:
    pairs = list(seen.inventory.columns())
    return _table(
        "column_privileges",
        grantor=OWNER_NAME,
        grantee=seen.user,
        table_catalog=seen.database,
        table_schema=[relation.schema for relation, _ in pairs],
        table_name=[relation.name for relation, _ in pairs],
        column_name=[column.name for _, column in pairs],
        privilege_type="SELECT",
        is_grantable="NO",
    )


def routines(seen: Seen) -> pa.Table:
    functions = builtin.columns("pg_proc")
    known = built_in()
    specific = [f"{name}_{oid}" for name, oid in zip(functions["proname"], functions["oid"], strict=True)]
    results = [known.get(oid) for oid in functions["prorettype"]]
    return _table(
        "routines",
        specific_catalog=seen.database,
        specific_schema="pg_catalog",
        specific_name=specific,
        routine_catalog=seen.database,
        routine_schema="pg_catalog",
        routine_name=functions["proname"],
        routine_type=["FUNCTION" if kind == "f" else None for kind in functions["prokind"]],
        data_type=[_data_type(type_) if type_ else None for type_ in results],
        type_udt_catalog=seen.database,
        type_udt_schema="pg_catalog",
        type_udt_name=[type_.name if type_ else None for type_ in results],
        dtd_identifier="0",
        routine_body="EXTERNAL",
        external_language="INTERNAL",
        parameter_style="GENERAL",
        is_deterministic=["YES" if each == "i" else "NO" for each in functions["provolatile"]],
        sql_data_access="MODIFIES",
        is_null_call=["YES" if strict else "NO" for strict in functions["proisstrict"]],
        schema_level_routine="YES",
        max_dynamic_result_sets=0,
        security_type="INVOKER",
        as_locator="NO",
        is_udt_dependent="NO",
    )


def parameters(seen: Seen) -> pa.Table:
    functions = builtin.columns("pg_proc")
    known = built_in()
    rows = [
        (f"{name}_{oid}", at, known[type_])
        for name, oid, types in zip(functions["proname"], functions["oid"], functions["proargtypes"], strict=True)
        for at, type_ in enumerate(types, 1)
        if type_ in known
    ]
    return _table(
        "parameters",
        specific_catalog=seen.database,
        specific_schema="pg_catalog",
        specific_name=[name for name, _, _ in rows],
        ordinal_position=[at for _, at, _ in rows],
        parameter_mode="IN",
        is_result="NO",
        as_locator="NO",
        data_type=[_data_type(type_) for _, _, type_ in rows],
        udt_catalog=seen.database,
        udt_schema="pg_catalog",
        udt_name=[type_.name for _, _, type_ in rows],
        dtd_identifier=[str(at) for _, at, _ in rows],
    )


def character_sets(seen: Seen) -> pa.Table:
    return _table(
        "character_sets",
        character_set_name=["UTF8"],
        character_repertoire="UCS",
        form_of_use="UTF8",
        default_collate_catalog=seen.database,
        default_collate_schema="pg_catalog",
        default_collate_name="C.UTF-8",
    )


def collations(seen: Seen) -> pa.Table:
    names = builtin.columns("pg_collation")["collname"]
    return _table(
        "collations",
        collation_catalog=seen.database,
        collation_schema="pg_catalog",
        collation_name=names,
        pad_attribute="NO PAD",
    )


def enabled_roles(seen: Seen) -> pa.Table:
    return _table("enabled_roles", role_name=[seen.user])


_EVERY = (
    information_schema_catalog_name, schemata, tables, columns, element_types, views, table_privileges,
    role_table_grants, column_privileges, routines, parameters, character_sets, collations, enabled_roles,
)  # fmt: skip
BUILDERS: dict[str, Callable[[Seen], pa.Table]] = {
    f"information_schema.{builder.__name__}": builder for builder in (*_EVERY, *constraints.EVERY)
}
