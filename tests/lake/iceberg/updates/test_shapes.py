"""The next metadata of a table: whatever a client asks for, it is refused in words or read by every reader after it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from mere.errors import LakeConflict, UsageError
from mere.lake.iceberg.metadata import Metadata, growth
from mere.lake.iceberg.schema import key_of, partitionings, sort_order
from mere.lake.iceberg.updates import fresh
from mere.lake.iceberg.updates.requirements import check
from mere.lake.iceberg.updates.table import TableDraft

Json = dict[str, Any]
NOW = 1_700_000_000_000
LOCATION = "file:///lake/gold/t-0"
FIELDS: list[Json] = [
    {"id": 1, "name": "id", "type": "long", "required": True, "doc": "which"},
    {"id": 2, "name": "amount", "type": "decimal(10, 2)", "required": False},
    {"id": 3, "name": "tags", "required": False,
     "type": {"type": "list", "element-id": 5, "element": "string", "element-required": False}},
    {"id": 4, "name": "at", "required": False,
     "type": {"type": "struct", "fields": [{"id": 6, "name": "x", "type": "fixed[4]", "required": False}]}},
    {"id": 7, "name": "m", "required": False,
     "type": {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value": "int", "value-required": True}},
]  # fmt: skip
SCHEMA: Json = {"type": "struct", "schema-id": 0, "fields": FIELDS, "identifier-field-ids": [1]}
REQUEST: Json = {
    "name": "t",
    "schema": SCHEMA,
    "partition-spec": {
        "spec-id": 0,
        "fields": [{"source-id": 1, "field-id": 1000, "name": "part", "transform": "bucket[4]"}],
    },
    "write-order": {
        "order-id": 1,
        "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
    },
    "properties": {"a": "b", "format-version": "3"},
}
SNAPSHOT: Json = {
    "snapshot-id": 7,
    "sequence-number": 1,
    "timestamp-ms": NOW,
    "manifest-list": f"{LOCATION}/metadata/snap-7.avro",
    "summary": {"operation": "append", "added-records": "3", "total-records": "3"},
    "schema-id": 0,
    "first-row-id": 0,
    "added-rows": 3,
}
BLOB = "apache-datasketches-theta-v1"
STATISTICS: Json = {
    "snapshot-id": 7,
    "statistics-path": f"{LOCATION}/metadata/7.stats",
    "file-size-in-bytes": 10,
    "file-footer-size-in-bytes": 5,
    "blob-metadata": [
        {"type": BLOB, "snapshot-id": 7, "sequence-number": 1, "fields": [1], "properties": {"ndv": "3"}},
    ],
}
UPDATES: list[Json] = [
    {"action": "upgrade-format-version", "format-version": 3},
    {"action": "add-schema", "schema": {**SCHEMA, "fields": [*FIELDS, {**FIELDS[1], "id": 20, "name": "new"}]}},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": {"fields": [{"source-id": 1, "name": "p", "transform": "truncate[10]"}]}},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": {"order-id": 2, "fields": [
        {"source-id": 2, "transform": "identity", "direction": "desc", "null-order": "nulls-last"}]}},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "add-snapshot", "snapshot": SNAPSHOT},
    {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7, "max-ref-age-ms": 10,
     "max-snapshot-age-ms": 10, "min-snapshots-to-keep": 1},
    {"action": "set-statistics", "snapshot-id": 7, "statistics": STATISTICS},
    {"action": "set-partition-statistics", "partition-statistics": {
        "snapshot-id": 7, "statistics-path": f"{LOCATION}/metadata/7.parquet", "file-size-in-bytes": 10}},
    {"action": "set-properties", "updates": {"c": "d"}},
    {"action": "remove-properties", "removals": ["a"]},
    {"action": "assign-uuid", "uuid": "0198c0de-0000-7000-8000-000000000001"},
]  # fmt: skip
REQUIREMENTS: list[Json] = [
    {"type": "assert-table-uuid", "uuid": "0198c0de-0000-7000-8000-000000000001"},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
]
WRONG: tuple[Any, ...] = (
    *(None, True, -1, -7, 0, 1.5, 2**31, 2**63, -(2**63), "", "x", "\x00", "decimal(99,1)", "bucket[0]"),
    *([], {}, [[]], [None], [-1], {"": None}, {"a": 1}, {"type": "list"}, {"type": []}),
)


def mistyped(value: Any) -> Iterator[Any]:
    """The same with one place in it replaced, or left out, or with something that nobody knows."""
    if isinstance(value, dict):
        yield {**value, "of-tomorrow": 1}
        for key, inner in value.items():
            yield {name: each for name, each in value.items() if name != key}
            for wrong in (*WRONG, *mistyped(inner)):
                yield {**value, key: wrong}
    if isinstance(value, list):
        for at, inner in enumerate(value):
            for wrong in (*WRONG, *mistyped(inner)):
                yield [*value[:at], wrong, *value[at + 1 :]]


def made(request: Json = REQUEST) -> Json:
    return fresh.table(request, LOCATION, {"gc.enabled": "false"}, NOW)


def updated(raw: Json, *updates: Json) -> Json:
    draft = TableDraft(raw, NOW)
    draft.apply(updates)
    return draft.finished(f"{LOCATION}/metadata/0.metadata.json")


def check_readable(raw: Json) -> None:
    """By PyIceberg, which holds it against its model, and by mere."""
    known = copy.deepcopy(raw)
    for each in (blob for one in known.get("statistics", ()) for blob in one["blob-metadata"]):
        each["type"] = BLOB  # PyIceberg reads no other kinds than those that it knows
    TableMetadataUtil.parse_raw(orjson.dumps(known).decode())
    metadata = Metadata(f"{LOCATION}/metadata/1.metadata.json", orjson.loads(orjson.dumps(raw)))
    assert (metadata.updated_at, key_of(metadata), partitionings(metadata), sort_order(metadata)) is not None
    assert growth(None, metadata).rows_added == metadata.rows
    assert len([each.stats for each in metadata.snapshots]) == len(raw["snapshots"])


def test_what_is_right_is_read() -> None:
    check_readable(updated({**made(), "table-uuid": UPDATES[-1]["uuid"]}, *UPDATES))


def test_a_table_that_is_asked_for_in_wrong_types_is_refused_or_read() -> None:
    tell(made, REQUEST)


@pytest.mark.parametrize("number", range(len(UPDATES)))
def test_an_update_of_wrong_types_is_refused_or_read(number: int) -> None:
    before = {**made(), "table-uuid": UPDATES[-1]["uuid"]}

    def act(update: Json) -> Json:
        return updated(before, *UPDATES[:number], update)

    tell(act, UPDATES[number])


def tell(act: Any, valid: Json) -> None:
    wrong = []
    for asked in mistyped(valid):
        sent = copy.deepcopy(asked)
        try:
            raw = act(sent)
        except (UsageError, LakeConflict):
            continue
        except Exception as error:  # noqa: BLE001 it would be a fault of the server's
            wrong.append(("failed", asked, repr(error)))
            continue
        try:
            check_readable(raw)
        except Exception as error:  # noqa: BLE001 nobody could read the table any more
            wrong.append(("unreadable", asked, repr(error)[:500]))
    assert wrong == []


@pytest.mark.parametrize("number", range(len(REQUIREMENTS)))
def test_a_requirement_of_wrong_types_is_refused(number: int) -> None:
    raw, wrong = made(), []
    for asked in mistyped(REQUIREMENTS[number]):
        try:
            check("gold.t", raw, [asked])
        except (UsageError, LakeConflict):
            continue
        except Exception as error:  # noqa: BLE001 it would be a fault of the server's
            wrong.append((asked, repr(error)))
    assert wrong == []


def test_a_snapshot_leaves_room_for_the_next() -> None:
    """Of time, of sequence numbers and of numbers for rows: nobody could add another one otherwise."""
    for change in ({"timestamp-ms": NOW + 3_600_000}, {"sequence-number": 2**62}, {"added-rows": 2**62}):
        with pytest.raises(UsageError):
            updated(made(), {"action": "add-snapshot", "snapshot": {**SNAPSHOT, **change}})
