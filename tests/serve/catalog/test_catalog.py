"""The catalogs of a lake: numbers that stay, types, roles, commits, tables that cannot be read, many tables."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mere.lake.iceberg.metadata import MetadataReader
from mere.lake.lake import Lake
from mere.lake.metadata_tables.tables import OF_LAKE, SCHEMA
from mere.lake.storage.port import LocalStorage
from mere.serve import builtin, catalog
from mere.serve.access.roles import Role, Rule
from mere.serve.catalog import Catalog, Surroundings, oids
from mere.serve.catalog.types import of_iceberg, words
from mere.serve.engine.tables import Pin
from mere.serve.language import guard
from mere.serve.protocol import types
from tests.lake import orders
from tests.serve import shop
from tests.serve.postgres_facts import OFFERED, facts
from tests.services.postgres import Postgres
from tests.services.s3 import S3Server


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with shop.create(tmp_path) as lake:
        yield lake


def _pin(lake: Lake, ref: str = "main") -> Pin:
    tables = lake.at(ref)
    return Pin(ref, tables.commit.id, tables)


def _of(lake: Lake, ref: str = "main", role: Role | None = None) -> Catalog:
    return catalog.tables(_pin(lake, ref), role or Role("ann"))


def _rows(found: Catalog, relation: str, *columns: str) -> list[tuple[Any, ...]]:
    """Of the tables in the lake."""
    rows = found[relation].to_pylist()
    spaces = [row.get("relnamespace", oids.FIRST) for row in rows]
    mere = catalog.oid_of(SCHEMA)
    own = [row for row, space in zip(rows, spaces, strict=True) if space >= oids.FIRST and space != mere]
    return [tuple(row[column] for column in columns) for row in own]


def _described(found: Catalog) -> set[str]:
    """What is said of the tables in the lake and their columns."""
    of_lake = {field["doc"] for schema in OF_LAKE.values() for field in schema["fields"]}
    said = {row["description"] for row in found["pg_catalog.pg_description"].to_pylist()}
    assert of_lake < said
    return said - of_lake


def test_the_tables_of_the_lake_itself_are_listed(lake: Lake) -> None:
    rows = _of(lake)["information_schema.columns"].to_pylist()
    found = {(row["table_name"], row["column_name"]) for row in rows if row["table_schema"] == SCHEMA}
    assert found == {(table, field["name"]) for table, schema in OF_LAKE.items() for field in schema["fields"]}


def test_the_built_in_facts_are_those_of_a_real_postgres(postgres_server: Postgres) -> None:
    with psycopg.connect(postgres_server.url("template1")) as connection:
        for name, text in facts(connection).items():
            written = Path(builtin.__file__).with_name(name).read_text()
            assert written == text, f"{name}: write it anew with python -m tests.serve.postgres_facts"


def test_every_function_that_is_listed_may_be_called() -> None:
    assert {*guard.allowed()} >= OFFERED


def test_every_relation_of_the_catalogs_can_be_made_and_has_its_columns(lake: Lake) -> None:
    found = _of(lake)
    for relation, definition in builtin.definitions().items():
        assert found[relation].column_names == [column.name for column in definition.columns]
    assert {*builtin.definitions()} < {*found}
    assert len([*found]) == len(found)
    assert "pg_catalog.pg_nothing" not in found
    with pytest.raises(KeyError):
        found["pg_catalog.pg_nothing"]


def test_no_column_that_is_never_null_in_postgres_is_null(lake: Lake) -> None:
    found = _of(lake)
    for relation, definition in builtin.definitions().items():
        table = found[relation]
        nulls = [column.name for column in definition.columns if column.required and table[column.name].null_count]
        assert nulls == [], relation


def test_a_name_has_one_number_at_every_commit_and_in_every_process(lake: Lake) -> None:
    before = dict(_rows(_of(lake), "pg_catalog.pg_class", "oid", "relname"))
    orders.write(lake, "gold.later", pa.table({"id": [1]}))
    after = dict(_rows(_of(lake), "pg_catalog.pg_class", "oid", "relname"))
    assert after.items() > before.items()
    assert after[2068050497] == "orders"
    assert catalog.oid_of("gold", "orders") == 2068050497
    assert sorted(after.values()) == sorted(["later", *before.values()])


@given(st.sets(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=50), st.integers(1, 60))
def test_two_names_never_share_a_number(names: set[tuple[str, str]], room: int) -> None:
    """Even where there are hardly more numbers than names."""
    last = oids.FIRST + max(room, len(names)) + 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oids, "_LAST", last)
        found = oids.oids_of(names)
    assert found.keys() == names
    assert len(set(found.values())) == len(names)
    assert all(oids.FIRST <= oid < last for oid in found.values())


@pytest.mark.parametrize(
    ("iceberg", "arrow", "said"),
    [
        ("boolean", pa.bool_(), "boolean"),
        ("int", pa.int32(), "integer"),
        ("long", pa.int64(), "bigint"),
        ("float", pa.float32(), "real"),
        ("double", pa.float64(), "double precision"),
        ("decimal(9, 0)", pa.decimal128(9, 0), "numeric(9,0)"),
        ("decimal(38,9)", pa.decimal128(38, 9), "numeric(38,9)"),
        ("date", pa.date32(), "date"),
        ("time", pa.time64("us"), "time without time zone"),
        ("timestamp", pa.timestamp("us"), "timestamp without time zone"),
        ("timestamptz", pa.timestamp("us", "UTC"), "timestamp with time zone"),
        ("timestamp_ns", pa.timestamp("ns"), "timestamp without time zone"),
        ("timestamptz_ns", pa.timestamp("ns", "UTC"), "timestamp with time zone"),
        ("string", pa.string(), "text"),
        ("uuid", pa.uuid(), "uuid"),
        ("fixed[3]", pa.binary(3), "bytea"),
        ("binary", pa.binary(), "bytea"),
        ("variant", pa.json_(), "json"),
        ("something new", pa.string(), "text"),
        ({"type": "struct", "fields": []}, pa.struct([("x", pa.int32())]), "json"),
        ({"type": "map", "key": "string", "value": "int"}, pa.map_(pa.string(), pa.int32()), "json"),
        ({"type": "list", "element": "long"}, pa.list_(pa.int64()), "bigint[]"),
        ({"type": "list", "element": {"type": "list", "element": "long"}}, pa.list_(pa.list_(pa.int64())), "bigint[]"),
        ({"type": "list", "element": {"type": "struct", "fields": []}}, pa.list_(pa.struct([])), "json[]"),
    ],
)  # fmt: skip
def test_a_column_has_the_type_that_its_values_come_in(iceberg: Any, arrow: pa.DataType, said: str) -> None:
    type_, field = of_iceberg(iceberg), types.field("x", arrow)
    assert (type_.oid, type_.modifier) == (field.oid, field.modifier)
    assert words(type_.oid, type_.modifier) == said


def test_rows_sizes_comments_and_keys_come_from_the_metadata(lake: Lake) -> None:
    found = _of(lake)
    (size,) = [
        row["mere_size"] for row in found["pg_catalog.mere_relations"].to_pylist() if row["mere_plain"] == "gold.orders"
    ]
    assert size == lake.at().metadata("gold.orders").size > 0
    (row,) = [row for row in found["pg_catalog.pg_class"].to_pylist() if row["oid"] == catalog.oid_of("gold", "orders")]
    assert (row["reltuples"], row["relpages"], row["relkind"], row["relnatts"]) == (3.0, 1, "r", 8)
    assert _described(found) == {"For everyone", "What was ordered", "in euro, it's net", "By customer"}
    (key,) = found["pg_catalog.pg_index"].to_pylist()
    assert (key["indkey"], key["indisprimary"]) == ([1, 2], True)


def test_a_model_says_what_its_key_is(lake: Lake) -> None:
    lake.pyiceberg().load_table("silver.kinds").transaction().set_properties({"mere.key": "l, s"}).commit_transaction()
    keys = {
        row["conname"]: row["conkey"]
        for row in _of(lake)["pg_catalog.pg_constraint"].to_pylist()
        if row["contype"] == "p"
    }
    assert keys == {"orders_pkey": [1, 2], "kinds_pkey": [3, 11]}


def test_a_role_sees_what_it_may_read_and_nothing_else(lake: Lake) -> None:
    role = Role("clerk", tables=(Rule("gold.*"),), columns=(Rule("gold.orders", columns=("line", "amount")),))
    found, whole = _of(lake, role=role), _of(lake)
    assert {name for (name,) in _rows(found, "pg_catalog.pg_class", "relname")} == {"orders", "totals"}
    assert [row["nspname"] for row in found["pg_catalog.pg_namespace"].to_pylist()] == [
        "pg_catalog", "information_schema", "gold", "mere", "public",
    ]  # fmt: skip
    columns = found["information_schema.columns"].to_pylist()
    seen = [row["column_name"] for row in columns if row["table_name"] == "orders"]
    assert seen == ["line", "amount"]
    # Half a key is none.
    assert found["pg_catalog.pg_index"].num_rows == 0
    assert found["pg_catalog.mere_relations"].num_rows == len(builtin.definitions()) + len(OF_LAKE) + 2
    assert _described(found) == {
        "For everyone", "What was ordered", "in euro, it's net", "By customer",
    }  # fmt: skip
    for relation in found:
        text = str(found[relation].to_pylist())
        assert "silver" not in text, relation
        assert "customer" not in text.replace("By customer", ""), relation
    assert whole.key("pg_catalog.pg_class") != found.key("pg_catalog.pg_class")


def test_equal_names_mean_equal_rows(lake: Lake) -> None:
    lake.branch("dev")
    pin, dev, clerk = _pin(lake), _pin(lake, "dev"), Role("clerk", tables=(Rule("gold.*"),))
    usual = catalog.tables(pin, Role("ann"))
    others = [
        catalog.tables(pin, clerk),
        catalog.tables(dev, Role("ann")),
        catalog.tables(pin, Role("ann"), lambda: Surroundings("main", ("main", "dev"), "ann", {"TimeZone": "UTC"})),
        catalog.tables(pin, Role("bob")),
    ]
    for other in others:
        for relation in usual:
            if usual.key(relation) == other.key(relation):
                assert usual[relation].equals(other[relation]), relation
    again = catalog.tables(_pin(lake), Role("ann"))
    assert all(again.key(relation) == usual.key(relation) for relation in usual)
    assert again["pg_catalog.pg_class"] is usual["pg_catalog.pg_class"]


def test_databases_are_the_refs_and_the_one_that_is_read(lake: Lake) -> None:
    found = catalog.tables(_pin(lake), Role("ann"), lambda: Surroundings("main~0", ("main", "dev"), "ann"))
    assert found["pg_catalog.pg_database"]["datname"].to_pylist() == ["dev", "main", "main~0"]
    assert found["pg_catalog.pg_roles"]["rolname"].to_pylist() == ["mere", "ann"]
    assert found["information_schema.tables"]["table_catalog"].unique().to_pylist() == ["main~0"]


def test_a_table_that_cannot_be_read_is_listed_without_columns_until_it_can(lake: Lake) -> None:
    gone, broken = (Path(lake.at().pointer(name)) for name in ("silver.kinds", 'silver.Odd "Name" x'))
    contents = [path.read_bytes() for path in (gone, broken)]
    gone.unlink()
    broken.write_text(json.dumps({"format-version": 2, "schemas": 7}))
    lake.reader = MetadataReader(lake.storage)  # as another process would read it
    without = _of(lake)
    assert {row[0]: row[1] for row in _rows(without, "pg_catalog.pg_class", "oid", "relnatts")} == {
        catalog.oid_of("gold", "orders"): 8,
        catalog.oid_of("gold", "orders", "index"): 2,
        catalog.oid_of("gold", "totals"): 2,
        catalog.oid_of("silver", "orders"): 2,
        catalog.oid_of("silver", "kinds"): 0,
        catalog.oid_of("silver", 'Odd "Name" x'): 0,
    }
    for path, content in zip((gone, broken), contents, strict=True):
        path.write_bytes(content)
    lake.reader = MetadataReader(lake.storage)
    again = _of(lake)
    assert again.key("pg_catalog.pg_attribute") != without.key("pg_catalog.pg_attribute")
    assert (catalog.oid_of("silver", "kinds"), 18) in _rows(again, "pg_catalog.pg_class", "oid", "relnatts")


def test_a_statement_that_asks_for_no_relation_reads_no_metadata(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    orders.write(lake, "gold.later", pa.table({"id": [1]}))

    def never(self: LocalStorage, location: str) -> bytes:
        raise AssertionError(f"it read {location}")

    pin = _pin(lake)
    monkeypatch.setattr(LocalStorage, "read", never)
    found = catalog.tables(pin, Role("ann"))
    assert "pg_catalog.pg_class" in found
    assert found["pg_catalog.pg_type"].num_rows > 100
    assert found["pg_catalog.pg_database"].num_rows == 1


def _thousand(lake: Lake, folder: Path) -> list[str]:
    """As many tables, all with the metadata of one, in ten schemas: their pointers."""
    content = Path(lake.at().pointer("gold.orders")).read_bytes()
    pointers = [str(folder / f"{number:05d}.metadata.json") for number in range(1000)]
    with contextlib.closing(sqlite3.connect(lake.root / "catalog.db")) as database, database:
        for number, pointer in enumerate(pointers):
            Path(pointer).write_bytes(content)
            database.execute(
                "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type,"
                " metadata_location) VALUES ('main', ?, ?, 'TABLE', ?)",
                (f"s{number % 10}", f"t{number}", pointer),
            )
    return pointers


def test_each_metadata_file_of_a_thousand_tables_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        pointers = _thousand(lake, tmp_path)
        reads: Counter[str] = Counter()
        read = LocalStorage.read

        def counted(self: LocalStorage, location: str) -> bytes:
            reads[location] += 1
            return read(self, location)

        monkeypatch.setattr(LocalStorage, "read", counted)
        assert len(_rows(_of(lake), "pg_catalog.pg_class", "relname")) == 1001
        assert _of(lake, role=Role("clerk", tables=(Rule("s1.*"),)))["information_schema.columns"].num_rows > 300
        orders.write(lake, "gold.orders", orders.ONE_MORE)
        tuples = dict(_rows(_of(lake), "pg_catalog.pg_class", "relname", "reltuples"))
        assert (tuples["orders"], tuples["t999"]) == (4.0, 3.0)
        assert {reads[pointer] for pointer in pointers} == {1}


def test_the_metadata_of_many_tables_on_s3_is_read_at_a_time(
    postgres_server: Postgres, s3_server: S3Server, s3_bucket: str
) -> None:
    url = postgres_server.new_database("catalog_on_s3")
    with Lake.create(f"{s3_bucket}/catalogs", catalog=url, s3=s3_server.settings) as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        content = lake.storage.read(lake.at().pointer("gold.orders"))
        with psycopg.connect(url) as connection:
            for number in range(40):
                pointer = f"{lake.location}/many/{number:05d}.metadata.json"
                lake.storage.write_new(pointer, content)
                connection.execute(
                    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, iceberg_type,"
                    " metadata_location) VALUES ('main', 'many', %s, 'TABLE', %s)",
                    [f"t{number}", pointer],
                )
        found = dict(_rows(_of(lake), "pg_catalog.pg_class", "relname", "relnatts"))
        assert found == {"orders": 3, **{f"t{number}": 3 for number in range(40)}}
