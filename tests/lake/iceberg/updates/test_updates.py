"""Updates of Iceberg's REST protocol, applied to metadata as JSON: what is known is checked, what is not stays."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from mere.errors import LakeConflict, UsageError
from mere.lake.iceberg.updates import fresh, requirements, view
from mere.lake.iceberg.updates.table import TableDraft
from mere.lake.iceberg.updates.view import ViewDraft

NOW = 1_700_000_000_000
Json = dict[str, Any]


def field(id_: int, name: str, type_: Any = "long") -> Json:
    return {"id": id_, "name": name, "type": type_, "required": False}


def schema(*fields: Json) -> Json:
    return {"type": "struct", "fields": list(fields)}


ORDERS = schema(
    field(7, "id"), field(9, "tags", {"type": "list", "element-id": 8, "element": "string", "element-required": False})
)


def table(**request: Any) -> Json:
    return fresh.table({"schema": ORDERS, **request}, "file:///w/orders", {"gc.enabled": "false"}, NOW)


def changed(raw: Json, *updates: Json, now: int = NOW + 1) -> Json:
    draft = TableDraft(raw, now)
    draft.apply(updates)
    return draft.finished("file:///w/orders/metadata/0.json")


def snapshot(id_: int, sequence: int, **more: Any) -> Json:
    known = {"snapshot-id": id_, "sequence-number": sequence, "timestamp-ms": NOW + id_, "manifest-list": f"m{id_}"}
    return {"action": "add-snapshot", "snapshot": {**known, "summary": {"operation": "append"}, **more}}


def on_main(id_: int) -> Json:
    return {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id_}


def test_a_new_table_numbers_its_columns_from_one_and_is_metadata_that_others_read() -> None:
    raw = table(properties={"owner": "ann", "format-version": "2"})
    assert [each["id"] for each in raw["schemas"][0]["fields"]] == [1, 2]
    assert raw["schemas"][0]["fields"][1]["type"]["element-id"] == 3
    assert (raw["last-column-id"], raw["properties"]) == (3, {"owner": "ann", "gc.enabled": "false"})
    assert TableMetadataUtil.parse_obj(raw).location == "file:///w/orders"


def test_updates_leave_what_they_do_not_know_as_it_is() -> None:
    raw = {**table(), "of-tomorrow": {"a": [1]}}
    after = changed(raw, {"action": "set-properties", "updates": {"owner": "bob"}})
    assert after["of-tomorrow"] == {"a": [1]}
    assert after["properties"]["owner"] == "bob"
    assert after["metadata-log"][-1]["metadata-file"].endswith("0.json")
    assert raw["properties"] == {"gc.enabled": "false"}  # the original is not touched


def test_a_schema_that_is_there_already_is_used_again() -> None:
    once = changed(table(), {"action": "add-schema", "schema": schema(field(1, "id"), field(4, "note", "string"))})
    twice = changed(once, {"action": "add-schema", "schema": schema(field(1, "id"), field(4, "note", "string"))})
    assert len(once["schemas"]) == len(twice["schemas"]) == 2
    assert twice["last-column-id"] == 4


def test_main_moves_to_a_snapshot_and_logs_it() -> None:
    after = changed(table(), snapshot(1, 1), on_main(1))
    assert (after["current-snapshot-id"], after["last-sequence-number"]) == (1, 1)
    assert [each["snapshot-id"] for each in after["snapshot-log"]] == [1]
    assert TableMetadataUtil.parse_obj(after).current_snapshot_id == 1


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({"action": "of-tomorrow"}, "A table does not support the update 'of-tomorrow'."),
        ({"action": "add-schema"}, "The update add-schema cannot be read: `schema` is missing."),
        ({"action": "set-current-schema", "schema-id": 9}, "There is no schema 9."),
        ({"action": "set-current-schema", "schema-id": -1}, "The update refers to the last schema added"),
        ({"action": "upgrade-format-version", "format-version": 9}, "Version 9 of a table is not supported"),
        ({"action": "upgrade-format-version", "format-version": 1}, "A table of format 2 cannot go back to 1."),
        ({"action": "add-schema", "schema": schema(field(1, "a"), field(1, "b"))}, "no two may be equal"),
        ({"action": "add-schema", "schema": schema(field(1, "a"), field(2, "a"))}, "may have the same name"),
        ({"action": "add-schema", "schema": schema(field(1, "a", "money"))}, "'money' is not a type"),
        ({"action": "add-schema", "schema": schema(field(1, "a", "variant"))}, "needs a table of format 3"),
        (snapshot(1, 1, of_tomorrow=1), "`snapshot.of_tomorrow` is not supported; nothing was changed."),
        ({"action": "set-properties", "updates": {"a": 1}}, "`updates.a` must be a string"),
        (on_main(5), "There is no snapshot 5 for main to point to."),
        ({"action": "assign-uuid", "uuid": "00000000-0000-0000-0000-000000000000"}, "A table keeps its UUID"),
    ],
)
def test_an_update_that_cannot_be_applied_says_why(update: Json, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        changed(table(), update)
    assert said in str(caught.value)


def test_a_snapshot_behind_the_table_is_a_conflict() -> None:
    after = changed(table(), snapshot(1, 1), on_main(1))
    with pytest.raises(LakeConflict, match="Snapshot 1 already exists"):
        changed(after, snapshot(1, 2))
    with pytest.raises(LakeConflict, match="sequence number"):
        changed(after, snapshot(2, 1, **{"parent-snapshot-id": 1}))


def test_requirements_speak_as_icebergs_own_library() -> None:
    raw = table()
    requirements.check("gold.orders", raw, [{"type": "assert-table-uuid", "uuid": raw["table-uuid"].upper()}])
    requirements.check("gold.orders", None, [{"type": "assert-create"}])
    for wanted, said in (
        ({"type": "assert-create"}, "Requirement failed: table already exists"),
        ({"type": "assert-current-schema-id", "current-schema-id": 3}, "current schema changed: expected id 3 != 0"),
        ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 4}, "Requirement failed: branch or tag main"),
    ):
        with pytest.raises(LakeConflict, match=said):
            requirements.check("gold.orders", raw, [wanted])
    with pytest.raises(LakeConflict, match=r"gold\.orders is missing"):
        requirements.check("gold.orders", None, [{"type": "assert-current-schema-id", "current-schema-id": 0}])
    with pytest.raises(UsageError, match="'assert-of-tomorrow' is not a supported requirement"):
        requirements.check("gold.orders", raw, [{"type": "assert-of-tomorrow"}])


def version(sql: str, dialect: str = "spark") -> Json:
    words = [{"type": "sql", "sql": sql, "dialect": dialect}]
    return {
        "version-id": 1,
        "timestamp-ms": NOW,
        "representations": words,
        "default-namespace": ["gold"],
        "summary": {},
    }


def test_a_view_keeps_the_sql_of_every_dialect_unless_told_otherwise() -> None:
    request = {"schema": schema(field(1, "id")), "view-version": version("select 1 as id"), "properties": {}}
    raw = view.new(request, "file:///w/v", NOW)
    draft = ViewDraft(raw, NOW + 1)
    draft.apply(
        [
            {"action": "add-view-version", "view-version": {**version("select 2 as id", "trino"), "schema-id": 0}},
            {"action": "set-current-view-version", "view-version-id": -1},
        ]
    )
    with pytest.raises(UsageError, match="spark"):
        draft.finished()
