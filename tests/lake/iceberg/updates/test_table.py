"""A table's next metadata, compared with what PyIceberg makes of the same updates."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import TableUpdate, update_table_metadata

from mere.errors import LakeConflict, UsageError
from mere.lake.iceberg.updates import fresh
from mere.lake.iceberg.updates.requirements import check
from mere.lake.iceberg.updates.table import TableDraft

Json = dict[str, Any]

NOW = 1_700_000_000_000
COLUMNS = [
    {"id": 1, "name": "id", "type": "long", "required": False},
    {"id": 2, "name": "at", "type": "timestamp", "required": False},
]
WIDER = [*COLUMNS, {"id": 3, "name": "note", "type": "string", "required": False}]
DAY = {"source-id": 2, "field-id": 1000, "transform": "day", "name": "day"}
BY_ID = {"source-id": 1, "transform": "identity", "direction": "desc", "null-order": "nulls-last"}


def made() -> Json:
    request = {"name": "t", "schema": {"type": "struct", "fields": COLUMNS}}
    return fresh.table(request, "file:///lake/t", {"gc.enabled": "false"}, NOW)


def snapshot(number: int, parent: int | None) -> Json:
    found: Json = {"snapshot-id": number, "sequence-number": number, "timestamp-ms": NOW + number, "schema-id": 0}
    found |= {"manifest-list": f"file:///lake/t/metadata/{number}.avro", "summary": {"operation": "append"}}
    return found if parent is None else {**found, "parent-snapshot-id": parent}


def appended(number: int, parent: int | None) -> list[Json]:
    moved = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": number}
    return [{"action": "add-snapshot", "snapshot": snapshot(number, parent)}, moved]


SCHEMA = {"type": "struct", "schema-id": 1, "fields": WIDER}
UPDATES: dict[str, list[Json]] = {
    "properties": [
        {"action": "set-properties", "updates": {"a": "1", "b": "2"}},
        {"action": "remove-properties", "removals": ["a"]},
    ],
    "columns": [
        {"action": "add-schema", "schema": SCHEMA, "last-column-id": 3},
        {"action": "set-current-schema", "schema-id": -1},
    ],
    "partitions": [
        {"action": "add-spec", "spec": {"spec-id": 1, "fields": [DAY]}},
        {"action": "set-default-spec", "spec-id": -1},
    ],
    "order": [
        {"action": "add-sort-order", "sort-order": {"order-id": 1, "fields": [BY_ID]}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ],
    "a first snapshot": appended(1, None),
    "two at once": [*appended(1, None), *appended(2, 1)],
    "a tag": [
        *appended(1, None),
        {"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": 1, "max-ref-age-ms": 5},
    ],
    "a tag that goes again": [
        *appended(1, None),
        {"action": "set-snapshot-ref", "ref-name": "v1", "type": "tag", "snapshot-id": 1},
        {"action": "remove-snapshot-ref", "ref-name": "v1"},
    ],
}


def ours(raw: Json, updates: list[Json]) -> Json:
    draft = TableDraft(raw, NOW + 9)
    draft.apply(updates)
    return draft.finished("file:///lake/t/metadata/1.json")


def theirs(raw: Json, updates: list[Json]) -> TableMetadata:
    read = [TypeAdapter(TableUpdate).validate_python(update) for update in updates]
    return update_table_metadata(
        TableMetadataUtil.parse_obj(raw), tuple(read), metadata_location="file:///lake/t/metadata/1.json"
    )


@pytest.mark.parametrize("updates", UPDATES.values(), ids=UPDATES)
def test_updates_lead_to_what_iceberg_makes_of_them(updates: list[Json]) -> None:
    raw = made()
    found = TableMetadataUtil.parse_obj(ours(raw, updates)).model_dump()
    expected = theirs(raw, updates).model_dump()
    timed = {"last-updated-ms", "metadata-log", "snapshot-log"}  # by its own clock; Java logs the last alone of many
    assert {name: value for name, value in found.items() if name not in timed} == {
        name: value for name, value in expected.items() if name not in timed
    }
    assert [each["metadata-file"] for each in found["metadata-log"]] == ["file:///lake/t/metadata/1.json"]


def test_an_older_snapshot_goes_and_the_next_one_keeps_the_name_of_its_parent() -> None:
    """As Java does it; PyIceberg forgets the parent."""
    removed: Json = {"action": "remove-snapshots", "snapshot-ids": [1]}
    found = ours(made(), [*appended(1, None), *appended(2, 1), removed])
    assert found["snapshots"] == [snapshot(2, 1)]
    assert [each["snapshot-id"] for each in found["snapshot-log"]] == [2]


def test_what_is_not_known_stays() -> None:
    raw = {**made(), "of-tomorrow": {"a": [1]}}
    assert ours(raw, UPDATES["properties"])["of-tomorrow"] == {"a": [1]}


@pytest.mark.parametrize(
    "update",
    [
        {"action": "make-coffee"},
        {"action": "set-current-schema", "schema-id": 7},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "set-properties", "updates": {"a": 1}},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 5},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "remove-schemas", "schema-ids": [0]},
    ],
    ids=lambda update: str(update["action"]),
)
def test_what_makes_no_sense_is_refused(update: Json) -> None:
    with pytest.raises(UsageError):
        ours(made(), [update])


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        ({"type": "assert-create"}, False),
        ({"type": "assert-current-schema-id", "current-schema-id": 0}, True),
        ({"type": "assert-current-schema-id", "current-schema-id": 1}, False),
        ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None}, True),
        ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}, False),
        ({"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}, False),
        ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2}, True),
        ({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1000}, False),
    ],
    ids=str,
)
def test_a_requirement_holds_or_somebody_was_quicker(requirement: Json, holds: bool) -> None:
    if holds:
        check("the table", made(), [requirement])
    else:
        with pytest.raises(LakeConflict, match="Requirement failed"):
            check("the table", made(), [requirement])


def test_a_requirement_that_nobody_knows_is_refused() -> None:
    with pytest.raises(UsageError, match="assert-nothing"):
        check("the table", made(), [{"type": "assert-nothing"}])
