"""Schemas, tables, columns, keys and comments in pg_catalog: the lake's, and the catalogs' own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from mere.serve import builtin
from mere.serve.builtin import arrow
from mere.serve.builtin.names import OWNER_NAME, TEMPORARY, quoted
from mere.serve.catalog.inventory import Inventory, Relation
from mere.serve.catalog.oids import BTREE, CLASS, CONSTRAINT, HEAP, NAMESPACE, OWNER
from mere.serve.catalog.types import BuiltIn, built_in, type_named

if TYPE_CHECKING:
    import pyarrow as pa

_PAGE = 8192
_MAY_READ, _MAY_USE = f"=r/{OWNER_NAME}", f"=U/{OWNER_NAME}"  # what everyone may who sees it


def pg_namespace(inventory: Inventory) -> pa.Table:
    own = {schema.oid for schema in inventory.schemas}
    columns = builtin.columns("pg_namespace")
    fixed = [(oid, name) for oid, name in zip(columns["oid"], columns["nspname"], strict=True) if oid not in own]
    rows = [*fixed, *((schema.oid, schema.name) for schema in inventory.schemas)]
    return arrow.table(
        "pg_catalog.pg_namespace",
        **_transposed(rows, "oid", "nspname"),
        nspowner=OWNER,
        nspacl=[[_MAY_USE]] * len(rows),
    )


def pg_class(inventory: Inventory) -> pa.Table:
    import pyarrow as pa

    relations, keyed, schemas = inventory.relations, inventory.keyed, inventory.schema_oids
    own = arrow.table(
        "pg_catalog.pg_class",
        oid=[relation.oid for relation in relations],
        relname=[relation.name for relation in relations],
        relnamespace=[schemas[relation.schema] for relation in relations],
        relowner=OWNER,
        relam=[0 if relation.is_view else HEAP for relation in relations],
        relfilenode=[0 if relation.is_view else relation.oid for relation in relations],
        relpages=[-(-relation.shape.size // _PAGE) for relation in relations],
        reltuples=[float(relation.shape.rows) for relation in relations],
        relhasindex=[bool(relation.index) for relation in relations],
        relpersistence=["t" if relation.schema == TEMPORARY else "p" for relation in relations],
        relkind=["v" if relation.is_view else "r" for relation in relations],
        relnatts=[len(relation.shape.columns) for relation in relations],
        relhasrules=[relation.is_view for relation in relations],
        relispopulated=True,
        relacl=[[_MAY_READ]] * len(relations),
        relreplident=["n" if relation.is_view else "d" for relation in relations],
    )
    indexes = arrow.table(
        "pg_catalog.pg_class",
        oid=[relation.index for relation in keyed],
        relname=[relation.key_name for relation in keyed],
        relnamespace=[schemas[relation.schema] for relation in keyed],
        relowner=OWNER,
        relam=BTREE,
        relpages=1,
        reltuples=[float(relation.shape.rows) for relation in keyed],
        relpersistence="p",
        relkind="i",
        relnatts=[len(relation.shape.key) for relation in keyed],
        relispopulated=True,
        relreplident="n",
    )
    return pa.concat_tables([_classes_of_catalogs(), own, indexes])


@cache
def _classes_of_catalogs() -> pa.Table:
    definitions = list(builtin.definitions().values())
    return arrow.table(
        "pg_catalog.pg_class",
        oid=[each.oid for each in definitions],
        relname=[each.name for each in definitions],
        relnamespace=[builtin.schema_oid(each.schema) for each in definitions],
        relowner=OWNER,
        relam=[HEAP if each.kind == "r" else 0 for each in definitions],
        reltuples=-1.0,
        relpersistence="p",
        relkind=[each.kind for each in definitions],
        relnatts=[len(each.columns) for each in definitions],
        relhasrules=[each.kind == "v" for each in definitions],
        relispopulated=True,
        relreplident="n",
    )


def pg_attribute(inventory: Inventory) -> pa.Table:
    import pyarrow as pa

    pairs = list(inventory.columns())
    of_index = [
        (relation.index, column, at) for relation in inventory.keyed for at, column in enumerate(relation.key, 1)
    ]
    own = [(relation.oid, column, column.number) for relation, column in pairs]
    rows = own + of_index
    types = built_in()
    table = arrow.table(
        "pg_catalog.pg_attribute",
        attrelid=[oid for oid, _, _ in rows],
        attname=[column.name for _, column, _ in rows],
        atttypid=[column.type.oid for _, column, _ in rows],
        attnum=[number for _, _, number in rows],
        atttypmod=[column.type.modifier for _, column, _ in rows],
        attndims=[column.type.dimensions for _, column, _ in rows],
        attnotnull=[column.required for _, column, _ in own] + [False] * len(of_index),
        **_of_types([types[column.type.oid] for _, column, _ in rows]),
    )
    return pa.concat_tables([_attributes_of_catalogs(), table])


@cache
def _attributes_of_catalogs() -> pa.Table:
    rows = [
        (each.oid, column, number, type_named(column.type))
        for each in builtin.definitions().values()
        for number, column in enumerate(each.columns, 1)
    ]
    return arrow.table(
        "pg_catalog.pg_attribute",
        attrelid=[oid for oid, _, _, _ in rows],
        attname=[column.name for _, column, _, _ in rows],
        atttypid=[type_.oid for _, _, _, type_ in rows],
        attnum=[number for _, _, number, _ in rows],
        atttypmod=-1,
        attndims=[1 if type_.words.endswith("[]") else 0 for _, _, _, type_ in rows],
        attnotnull=[column.required for _, column, _, _ in rows],
        **_of_types([type_ for _, _, _, type_ in rows]),
    )


def _of_types(types: list[BuiltIn]) -> dict[str, Any]:
    return {
        "attlen": [each.length for each in types],
        "attbyval": [each.by_value for each in types],
        "attalign": [each.align for each in types],
        "attstorage": [each.storage for each in types],
        "attcollation": [each.collation for each in types],
        "attislocal": True,
    }


def pg_index(inventory: Inventory) -> pa.Table:
    keyed = inventory.keyed
    return arrow.table(
        "pg_catalog.pg_index",
        indexrelid=[relation.index for relation in keyed],
        indrelid=[relation.oid for relation in keyed],
        indnatts=[len(relation.key) for relation in keyed],
        indnkeyatts=[len(relation.key) for relation in keyed],
        indisunique=True,
        indisprimary=True,
        indimmediate=True,
        indisvalid=True,
        indisready=True,
        indislive=True,
        indkey=[list(relation.shape.key) for relation in keyed],
        indcollation=[[built_in()[column.type.oid].collation for column in relation.key] for relation in keyed],
        indclass=[[_operator_class(column.type.oid) for column in relation.key] for relation in keyed],
        indoption=[[0] * len(relation.key) for relation in keyed],
    )


def pg_depend(inventory: Inventory) -> pa.Table:
    """The index of a key is there for the constraint: by this, clients list it once."""
    keyed = inventory.keyed
    return arrow.table(
        "pg_catalog.pg_depend",
        classid=CLASS,
        objid=[relation.index for relation in keyed],
        refclassid=CONSTRAINT,
        refobjid=[relation.constraint for relation in keyed],
        deptype=["i" for _ in keyed],
    )


@cache
def _operator_classes() -> dict[int, int]:
    columns = builtin.columns("pg_opclass")
    wanted = zip(columns["opcintype"], columns["oid"], columns["opcmethod"], columns["opcdefault"], strict=True)
    return {type_: oid for type_, oid, method, default in wanted if default and method == BTREE}


def _operator_class(type_: int) -> int:
    return _operator_classes().get(type_, 0)


def pg_constraint(inventory: Inventory) -> pa.Table:
    keyed, not_null, schemas = inventory.keyed, inventory.not_null, inventory.schema_oids
    return arrow.table(
        "pg_catalog.pg_constraint",
        oid=[relation.constraint for relation in keyed] + [each.oid for each in not_null],
        conname=[relation.key_name for relation in keyed] + [each.name for each in not_null],
        connamespace=[schemas[each.schema] for each in (*keyed, *(each.relation for each in not_null))],
        contype=["p"] * len(keyed) + ["n"] * len(not_null),
        conenforced=True,
        convalidated=True,
        conrelid=[relation.oid for relation in keyed] + [each.relation.oid for each in not_null],
        conindid=[relation.index for relation in keyed] + [0] * len(not_null),
        confupdtype=" ",
        confdeltype=" ",
        confmatchtype=" ",
        conislocal=True,
        connoinherit=[True] * len(keyed) + [False] * len(not_null),
        conkey=[list(relation.shape.key) for relation in keyed] + [[each.column.number] for each in not_null],
    )


def pg_description(inventory: Inventory) -> pa.Table:
    names = ("objoid", "classoid", "objsubid", "description")
    return arrow.table("pg_catalog.pg_description", **_transposed(described(inventory), *names))


def described(inventory: Inventory) -> list[tuple[int, int, int, str]]:
    """Number, the catalog that lists it, the column's number or 0, and the comment."""
    found = [(schema.oid, NAMESPACE, 0, schema.comment) for schema in inventory.schemas if schema.comment]
    for relation in inventory.relations:
        if relation.shape.comment:
            found.append((relation.oid, CLASS, 0, relation.shape.comment))
        found += [
            (relation.oid, CLASS, column.number, column.comment) for column in relation.shape.columns if column.comment
        ]
    return found


def pg_tables(inventory: Inventory) -> pa.Table:
    tables = [relation for relation in inventory.relations if not relation.is_view]
    catalogs = [each for each in builtin.definitions().values() if each.kind == "r"]
    return arrow.table(
        "pg_catalog.pg_tables",
        schemaname=[each.schema for each in catalogs] + [relation.schema for relation in tables],
        tablename=[each.name for each in catalogs] + [relation.name for relation in tables],
        tableowner=OWNER_NAME,
        hasindexes=[False] * len(catalogs) + [bool(relation.index) for relation in tables],
        hasrules=False,
        hastriggers=False,
        rowsecurity=False,
    )


def pg_views(inventory: Inventory) -> pa.Table:
    catalogs = [each for each in builtin.definitions().values() if each.kind == "v"]
    views = inventory.views
    return arrow.table(
        "pg_catalog.pg_views",
        schemaname=[each.schema for each in catalogs] + [view.schema for view in views],
        viewname=[each.name for each in catalogs] + [view.name for view in views],
        viewowner=OWNER_NAME,
        definition=[None] * len(catalogs) + [view.shape.sql for view in views],
    )


def pg_rewrite(inventory: Inventory) -> pa.Table:
    """A view is a rule in Postgres: by that, clients tell views."""
    rules = inventory.rules
    return arrow.table(
        "pg_catalog.pg_rewrite",
        oid=list(rules),
        rulename="_RETURN",
        ev_class=list(rules.values()),
        ev_type="1",
        ev_enabled="O",
        is_instead=True,
        ev_qual="<>",
        ev_action="<>",
    )


def pg_indexes(inventory: Inventory) -> pa.Table:
    keyed = inventory.keyed
    return arrow.table(
        "pg_catalog.pg_indexes",
        schemaname=[relation.schema for relation in keyed],
        tablename=[relation.name for relation in keyed],
        indexname=[relation.key_name for relation in keyed],
        indexdef=[index_definition(relation, with_schema=True) for relation in keyed],
    )


def statistics_of_tables(name: str, inventory: Inventory) -> pa.Table:
    tables = [relation for relation in inventory.relations if not relation.is_view]
    return arrow.table(
        f"pg_catalog.{name}",
        relid=[relation.oid for relation in tables],
        schemaname=[relation.schema for relation in tables],
        relname=[relation.name for relation in tables],
        n_live_tup=[max(relation.shape.rows, 0) for relation in tables],
        n_dead_tup=0,
        seq_scan=0,
        seq_tup_read=0,
        n_tup_ins=0,
        n_tup_upd=0,
        n_tup_del=0,
    )


def index_definition(relation: Relation, *, with_schema: bool) -> str:
    columns = ", ".join(quoted(column.name) for column in relation.key)
    name = f"{quoted(relation.schema)}." * with_schema + quoted(relation.name)
    return f"CREATE UNIQUE INDEX {quoted(relation.key_name)} ON {name} USING btree ({columns})"


def key_definition(relation: Relation) -> str:
    return f"PRIMARY KEY ({', '.join(quoted(column.name) for column in relation.key)})"


def _transposed(rows: Iterable[tuple[Any, ...]], *names: str) -> dict[str, list[Any]]:
    rows = list(rows)
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}
