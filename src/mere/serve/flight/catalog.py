"""What clients ask Flight SQL about catalogs, schemas, tables and the server: answered by queries, like any other.

So a role sees here what it may read, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from mere.serve.flight import messages
from mere.serve.flight.login import Caller
from mere.serve.protocol import types
from mere.serve.protocol.port import PgError, Session
from mere.sql.spelling.standard import quoted

Row = tuple[Any, ...]


def _schema(**columns: pa.DataType) -> pa.Schema:
    """A column can have nulls where its name ends in an underscore."""
    return pa.schema([pa.field(name.rstrip("_"), kind, name.endswith("_")) for name, kind in columns.items()])


_VALUE = pa.dense_union(
    [
        pa.field("string_value", pa.string()),
        pa.field("bool_value", pa.bool_()),
        pa.field("bigint_value", pa.int64()),
        pa.field("int32_bitmask", pa.int32()),
        pa.field("string_list", pa.list_(pa.field("string_data", pa.string()))),
        pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.field("$data$", pa.int32())))),
    ]
)
_CATALOGS = _schema(catalog_name=pa.string())
_SCHEMAS = _schema(catalog_name_=pa.string(), db_schema_name=pa.string())
_TABLES = _schema(
    catalog_name_=pa.string(), db_schema_name_=pa.string(), table_name=pa.string(), table_type=pa.string()
)
_TABLES_WITH_SCHEMA = _TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
_TABLE_TYPES = _schema(table_type=pa.string())
_KEYS = _schema(
    catalog_name_=pa.string(), db_schema_name_=pa.string(), table_name=pa.string(), column_name=pa.string(),
    key_name_=pa.string(), key_sequence=pa.int32(),
)  # fmt: skip
_INFO = _schema(info_name=pa.uint32(), value=_VALUE)

_OWN = "NOT IN ('pg_catalog', 'information_schema')"  # schemas that are no part of the lake

# By the numbers of the specification.
_FACTS: dict[int, str | bool | int] = {
    0: "mere",
    1: version("mere"),
    2: pa.__version__,
    3: True,  # it is read only
    4: True,  # it takes SQL
    5: False,  # and not Substrait
    8: 1,  # transactions, without savepoints
    9: False,  # nothing is cancelled by an action: a client that hangs up cancels
    100: 0,  # prepared statements do not expire
    101: 0,
    500: False,  # no catalogs, schemas or tables are created
    501: False,
    502: False,
    503: 3,  # names are folded to lower case
    504: '"',
    507: 1,  # NULL is greater than all
    513: "\\",
    529: "schema",
    531: "ref",
}


def schema(command: messages.Message) -> pa.Schema | None:
    """Of the answer. None where it is no question of this kind."""
    if isinstance(command, messages.CommandGetTables):
        return _TABLES_WITH_SCHEMA if command.include_schema else _TABLES
    found = _ANSWERS.get(type(command))
    return found[0] if found else None


def answer(session: Session, caller: Caller, command: messages.Message) -> pa.Table:
    session.begin()  # all that it asks of one commit
    return _ANSWERS[type(command)][1](session, caller, command)


def _table(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _ask(session: Session, sql: str, *values: str | None) -> list[Row]:
    (statement,) = session.read(sql)
    answer = session.run(statement, values, [types.TEXT] * len(values))
    try:
        return [tuple(row.values()) for batch in answer.batches() for row in batch.to_pylist()]
    finally:
        answer.close()


def _is_other(asked: str | None, caller: Caller) -> bool:
    """A call sees the tables of one ref."""
    return asked is not None and asked != caller.database


def _catalogs(session: Session, caller: Caller, _: messages.CommandGetCatalogs) -> pa.Table:
    names = {name for (name,) in _ask(session, "SELECT datname FROM pg_database WHERE datallowconn")}
    return _table(_CATALOGS, [(name,) for name in sorted({*names, caller.database})])


def _schemas(session: Session, caller: Caller, command: messages.CommandGetDbSchemas) -> pa.Table:
    sql = f"SELECT schema_name FROM information_schema.schemata WHERE schema_name {_OWN} AND schema_name LIKE $1"
    found = [] if _is_other(command.catalog, caller) else _ask(session, sql, _pattern(command.db_schema_filter_pattern))
    return _table(_SCHEMAS, [(caller.database, name) for (name,) in sorted(found)])


def _tables(session: Session, caller: Caller, command: messages.CommandGetTables) -> pa.Table:
    sql = (
        "SELECT table_schema, table_name, CASE table_type WHEN 'BASE TABLE' THEN 'TABLE' ELSE table_type END AS kind"
        f" FROM information_schema.tables WHERE table_schema {_OWN} AND table_schema LIKE $1 AND table_name LIKE $2"
    )
    patterns = _pattern(command.db_schema_filter_pattern), _pattern(command.table_name_filter_pattern)
    found = [] if _is_other(command.catalog, caller) else sorted(_ask(session, sql, *patterns))
    rows = [(caller.database, *row) for row in found if not command.table_types or row[2] in command.table_types]
    if not command.include_schema:
        return _table(_TABLES, rows)
    return _table(_TABLES_WITH_SCHEMA, [(*row, _columns(session, row[1], row[2])) for row in rows])


def _columns(session: Session, namespace: str, name: str) -> bytes:
    (statement,) = session.read(f"SELECT * FROM {quoted(namespace)}.{quoted(name)}")
    try:
        found = session.describe(statement, ()).schema
    except PgError:  # a table that cannot be read is listed all the same, as it is by information_schema
        found = pa.schema([])
    assert found is not None
    return bytes(found.serialize().to_pybytes())


def _table_types(_: Session, __: Caller, ___: messages.CommandGetTableTypes) -> pa.Table:
    return _table(_TABLE_TYPES, [("TABLE",), ("VIEW",)])


def _primary_keys(session: Session, caller: Caller, command: messages.CommandGetPrimaryKeys) -> pa.Table:
    sql = (
        "SELECT k.table_schema, k.table_name, k.column_name, k.constraint_name, k.ordinal_position"
        " FROM information_schema.key_column_usage k JOIN information_schema.table_constraints c"
        " ON c.constraint_schema = k.constraint_schema AND c.constraint_name = k.constraint_name"
        " AND c.table_name = k.table_name"
        " WHERE c.constraint_type = 'PRIMARY KEY' AND k.table_name = $1 AND ($2::text IS NULL OR k.table_schema = $2)"
    )
    found = [] if _is_other(command.catalog, caller) else _ask(session, sql, command.table, command.db_schema)
    rows = sorted(found, key=lambda row: (row[0], row[4]))
    return _table(_KEYS, [(caller.database, *row) for row in rows])


def _sql_info(_: Session, __: Caller, command: messages.CommandGetSqlInfo) -> pa.Table:
    wanted = {number: _FACTS[number] for number in command.info or _FACTS if number in _FACTS}
    # Which of the union's columns, and where in it.
    kinds = [1 if isinstance(each, bool) else 3 if isinstance(each, int) else 0 for each in wanted.values()]
    offsets = [kinds[:at].count(kind) for at, kind in enumerate(kinds)]
    children = [
        pa.array([fact for fact, kind in zip(wanted.values(), kinds, strict=True) if kind == at], _VALUE.field(at).type)
        for at in range(_VALUE.num_fields)
    ]
    names = [_VALUE.field(at).name for at in range(_VALUE.num_fields)]
    union = pa.UnionArray.from_dense(pa.array(kinds, pa.int8()), pa.array(offsets, pa.int32()), children, names)
    return pa.Table.from_arrays([pa.array(wanted, pa.uint32()), union.cast(_VALUE)], schema=_INFO)


def _pattern(given: str | None) -> str:
    return "%" if given is None else given


_ANSWERS: dict[type[messages.Message], tuple[pa.Schema, Callable[[Session, Caller, Any], pa.Table]]] = {
    messages.CommandGetCatalogs: (_CATALOGS, _catalogs),
    messages.CommandGetDbSchemas: (_SCHEMAS, _schemas),
    messages.CommandGetTables: (_TABLES, _tables),
    messages.CommandGetTableTypes: (_TABLE_TYPES, _table_types),
    messages.CommandGetPrimaryKeys: (_KEYS, _primary_keys),
    messages.CommandGetSqlInfo: (_INFO, _sql_info),
}
