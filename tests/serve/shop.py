"""One shop twice: as a lake, and as a database of Postgres with the same schemas, tables, keys and comments."""

from __future__ import annotations

import gzip
import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from mere.lake.lake import Lake
from mere.lake.metadata_tables.tables import OF_LAKE
from tests.lake import orders

POSTGRES = """
CREATE SCHEMA gold;
CREATE SCHEMA silver;
COMMENT ON SCHEMA gold IS 'For everyone';
CREATE TABLE gold.orders (
    id bigint NOT NULL, line integer NOT NULL, customer text NOT NULL, amount numeric(12,2), ordered_at timestamptz,
    day date, tags text[], price numeric(38,9), PRIMARY KEY (id, line));
CREATE TABLE silver.kinds (
    b boolean, i integer, l bigint, f real, d double precision, n numeric(9,0), dt date, t time, ts timestamp,
    tz timestamptz, s text, u uuid, x bytea, st json, m json, ii integer[], sts json[], lists integer[][]);
CREATE TABLE silver."Odd ""Name"" x" ("select" integer, "Größe" text);
CREATE TABLE silver.orders (id bigint, "when" text);
COMMENT ON TABLE gold.orders IS 'What was ordered';
COMMENT ON COLUMN gold.orders.amount IS 'in euro, it''s net';
CREATE VIEW gold.totals AS SELECT customer AS who, sum(amount)::double precision AS total FROM gold.orders GROUP BY 1;
COMMENT ON VIEW gold.totals IS 'By customer';
"""

_IN_POSTGRES = {
    "string": "text",
    "int": "integer",
    "long": "bigint",
    "double": "double precision",
    "boolean": "boolean",
    "timestamptz": "timestamptz",
}


def tables_of_the_lake() -> str:
    """The schema `mere`, which only a lake has, for a Postgres that is compared with one."""
    script = ["CREATE SCHEMA mere;"]
    for table, schema in OF_LAKE.items():
        fields = schema["fields"]
        columns = ", ".join(f'"{field["name"]}" {_IN_POSTGRES[field["type"]]}' for field in fields)
        script.append(f"CREATE TABLE mere.{table} ({columns});")
        for field in fields:
            said = field["doc"].replace("'", "''")
            script.append(f"COMMENT ON COLUMN mere.{table}.\"{field['name']}\" IS '{said}';")
    return "\n".join(script)


_ORDERS = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "line", IntegerType(), required=True),
    NestedField(3, "customer", StringType(), required=True),
    NestedField(4, "amount", DecimalType(12, 2), doc="in euro, it's net"),
    NestedField(5, "ordered_at", TimestamptzType()),
    NestedField(6, "day", DateType()),
    NestedField(7, "tags", ListType(20, StringType())),
    NestedField(8, "price", DecimalType(38, 9)),
    identifier_field_ids=[1, 2],
)
_POINT = StructType(NestedField(40, "x", IntegerType()), NestedField(41, "y", IntegerType()))
_KINDS = Schema(
    NestedField(1, "b", BooleanType()),
    NestedField(2, "i", IntegerType()),
    NestedField(3, "l", LongType()),
    NestedField(4, "f", FloatType()),
    NestedField(5, "d", DoubleType()),
    NestedField(6, "n", DecimalType(9, 0)),
    NestedField(7, "dt", DateType()),
    NestedField(8, "t", TimeType()),
    NestedField(9, "ts", TimestampType()),
    NestedField(10, "tz", TimestamptzType()),
    NestedField(11, "s", StringType()),
    NestedField(12, "u", UUIDType()),
    NestedField(13, "x", BinaryType()),
    NestedField(14, "st", _POINT),
    NestedField(15, "m", MapType(30, StringType(), 31, LongType())),
    NestedField(16, "ii", ListType(32, IntegerType())),
    NestedField(17, "sts", ListType(33, _POINT)),
    NestedField(18, "lists", ListType(34, ListType(35, IntegerType()))),
)
_ODD = Schema(NestedField(1, "select", IntegerType()), NestedField(2, "Größe", StringType()))


def create(folder: Path) -> Lake:
    lake = Lake.create(folder / "shop")
    catalog = lake.pyiceberg()
    catalog.create_namespace("gold", {"comment": "For everyone"})
    catalog.create_namespace("silver")
    made = catalog.create_table("gold.orders", _ORDERS, properties={"comment": "What was ordered"})
    catalog.create_table("silver.kinds", _KINDS)
    catalog.create_table('silver.Odd "Name" x', _ODD)
    catalog.create_table(
        "silver.orders", Schema(NestedField(1, "id", LongType()), NestedField(2, "when", StringType()))
    )
    rows = {"id": [1, 1, 2], "line": [1, 2, 1], "customer": ["ann", "ann", "bob"]}
    made.append(
        pa.table(
            rows,
            schema=pa.schema(
                [_required("id", pa.int64()), _required("line", pa.int32()), _required("customer", pa.string())]
            ),
        )
    )
    view(
        lake,
        "gold.totals",
        "SELECT customer, sum(amount) FROM orders GROUP BY 1",
        {"comment": "By customer"},
        who="string",
        total="double",
    )
    return lake


def _required(name: str, type_: pa.DataType) -> pa.Field:
    return pa.field(name, type_, nullable=False)


def view(lake: Lake, name: str, sql: str, properties: dict[str, str], /, **columns: str) -> None:
    """As Spark would leave it."""
    namespace, _, table = name.rpartition(".")
    fields = [{"id": n, "name": c, "required": False, "type": t} for n, (c, t) in enumerate(columns.items())]
    version: dict[str, Any] = {
        "version-id": 1, "schema-id": 0, "timestamp-ms": 0, "summary": {}, "default-namespace": [namespace],
        "representations": [{"type": "sql", "sql": sql, "dialect": "spark"}],
    }  # fmt: skip
    folder = Path(lake.warehouse, namespace, f"{table}-{uuid.uuid4().hex}")
    metadata = {
        "view-uuid": str(uuid.uuid4()), "format-version": 1, "location": str(folder), "properties": properties,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}], "current-version-id": 1,
        "versions": [version], "version-log": [],
    }  # fmt: skip
    pointer = folder / "metadata" / "00000.gz.metadata.json"
    pointer.parent.mkdir(parents=True)
    pointer.write_bytes(gzip.compress(json.dumps(metadata).encode()))
    orders.point(lake, namespace, table, str(pointer), "VIEW")
