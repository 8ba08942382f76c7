"""Files of elsewhere, or of nowhere, that a client would make a part of its table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from mere.lake.iceberg import manifests
from mere.lake.iceberg.metadata import Metadata
from mere.lake.lake import Lake
from mere.lake.storage.port import local_path
from tests.lake import orders
from tests.serve.iceberg.rest import Rest, error, roles, serving
from tests.serve.iceberg.test_read import catalog

ORDERS = "dev/namespaces/gold/tables/orders"
MINE = "dev/namespaces/gold/tables/mine"
PART = roles("""
roles:
  part: {tables: [gold.mine], write: {refs: [dev], schemas: [gold]}}
users: {ann: part}
""")
Json = dict[str, Any]


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "other") as other:
        orders.write(other, "hr.salaries", orders.ORDERS)
        yield other


def stolen(lake: Lake, listed: str, of: Metadata, table: str = "gold.orders", **more: Any) -> Json:
    """A request for a snapshot of this table with that manifest list of another one."""
    mine = lake.at("dev").metadata(table)
    last = int(mine.raw["last-sequence-number"])
    known = {"snapshot-id": 7, "sequence-number": last + 1, "parent-snapshot-id": mine.current_id}
    snapshot = {**of.raw["snapshots"][-1], "manifest-list": listed, **known, **more}
    main = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7}
    return {"requirements": [], "updates": [{"action": "add-snapshot", "snapshot": snapshot}, main]}


def brought_in(lake: Lake, listed: str, table: str = "gold.orders") -> str:
    """A copy of a manifest list in the folder of the table, where clients write theirs."""
    copy = f"{lake.at('dev').metadata(table).folder}/metadata/snap-7-brought.avro"
    shutil.copy(local_path(listed), local_path(copy))
    return copy


def refused(rest: Rest, asked: Json, path: str = ORDERS, **more: Any) -> str:
    status, _, message = error(rest.post(path, asked, **more))
    assert status == 400, message
    return message


def test_files_of_another_lake_are_not_read_by_this_server(rest: Rest, lake: Lake, other: Lake) -> None:
    theirs = other.at("main").metadata("hr.salaries")
    assert theirs.current is not None
    assert theirs.current.manifest_list is not None
    head = lake.resolve("dev").commit.id
    listed = brought_in(lake, theirs.current.manifest_list)
    for more in ({}, {"parent-snapshot-id": None}, {"parent-snapshot-id": 7}):
        assert "is not in the lake's warehouse" in refused(rest, stolen(lake, listed, theirs, **more))
    transaction = {"identifier": {"namespace": ["gold"], "name": "orders"}, **stolen(lake, listed, theirs)}
    assert "is not in the" in refused(rest, {"table-changes": [transaction]}, "dev/transactions/commit")
    staged = stolen(lake, listed, theirs)
    made: list[Json] = [
        {"action": "assign-uuid", "uuid": "0198c0de-0000-7000-8000-000000000001"},
        {"action": "add-schema", "schema": theirs.schema},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": "file:///etc"},
    ]
    for each in staged["updates"][:1]:
        each["snapshot"] |= {"sequence-number": 1, "parent-snapshot-id": None}
    staged = {"requirements": [{"type": "assert-create"}], "updates": [*made, *staged["updates"]]}
    assert "is not in the" in refused(rest, staged, "dev/namespaces/gold/tables/new")
    assert lake.resolve("dev").commit.id == head


def test_a_snapshot_whose_files_are_not_there_is_none(rest: Rest, lake: Lake) -> None:
    """It would end every sweep, which has to know all files of all tables."""
    mine = lake.at("dev").metadata("gold.orders")
    for name, content in (("gone", None), ("empty", b""), ("text", b"Obj\x01 no more"), ("json", b"{}")):
        listed = f"{mine.folder}/metadata/snap-7-{name}.avro"
        if content is not None:
            local_path(listed).write_bytes(content)
        assert "cannot be read" in refused(rest, stolen(lake, listed, mine))
    lake.gc(dry_run=True)


def test_a_snapshot_whose_manifests_are_not_there_is_none(rest: Rest, lake: Lake) -> None:
    orders.write(lake, "gold.lost", orders.CUSTOMERS, "dev")
    lost = lake.at("dev").metadata("gold.lost").current
    assert lost is not None
    head, listed = lake.resolve("dev").commit.id, brought_in(lake, lost.manifest_list or "")
    for manifest in manifests.listed(lake.storage, lost):
        local_path(manifest.path).unlink()
    asked = stolen(lake, listed, lake.at("dev").metadata("gold.orders"))
    assert "is gone" in refused(rest, asked)
    transaction = {"table-changes": [{"identifier": {"namespace": ["gold"], "name": "orders"}, **asked}]}
    assert "is gone" in refused(rest, transaction, "dev/transactions/commit")
    assert lake.resolve("dev").commit.id == head


def test_a_table_that_is_read_as_a_whole_does_not_lead_to_others(lake: Lake) -> None:
    orders.write(lake, "gold.mine", orders.CUSTOMERS, "dev")
    theirs = lake.at("dev").metadata("gold.orders")
    assert theirs.current is not None
    assert theirs.current.manifest_list is not None
    with serving(lake, roles=PART) as rest:
        ann = {"auth": ("ann", "")}
        direct = stolen(lake, theirs.current.manifest_list, theirs, "gold.mine")
        assert "is not in the folder of gold.mine" in refused(rest, direct, MINE, **ann)
        listed = brought_in(lake, theirs.current.manifest_list, "gold.mine")
        for more in ({}, {"parent-snapshot-id": None}, {"parent-snapshot-id": 7}):
            asked = stolen(lake, listed, theirs, "gold.mine", **more)
            assert "is not in the folder of gold.mine" in refused(rest, asked, MINE, **ann)
        of_statistics = {"snapshot-id": 1, "statistics-path": theirs.location, "file-size-in-bytes": 1}
        told = {"updates": [{"action": "set-partition-statistics", "partition-statistics": of_statistics}]}
        assert "is not in the folder of gold.mine" in refused(rest, told, MINE, **ann)
        assert rest.get("dev/namespaces/gold/tables/orders", **ann).status_code == 404
        auth = {"type": "basic", "basic": {"username": "ann", "password": ""}}
        catalog(rest, "dev", auth=auth).load_table("gold.mine").append(orders.CUSTOMERS)
    assert orders.rows(lake, "select count(*) from gold.mine", "dev") == [(4,)]


def test_an_adopted_table_keeps_its_files_where_they_were(rest: Rest, lake: Lake, other: Lake) -> None:
    orders.write(other, "hr.salaries", orders.ONE_MORE)
    lake.adopt(f"sqlite:///{other.root}/catalog.db", catalog="main", on="dev")
    table = catalog(rest, "dev").load_table("hr.salaries")
    table.append(orders.ONE_MORE)
    table.delete("id = 1")  # the manifest that it writes lists files of elsewhere again
    assert orders.rows(lake, "select count(*) from hr.salaries", "dev") == [(4,)]


def test_two_names_of_one_table_live_and_die_by_themselves(rest: Rest, lake: Lake) -> None:
    """They share a folder: what the sweep deletes is what neither of them needs."""
    pointer = lake.at("dev").pointer("gold.orders")
    twin = {"name": "twin", "metadata-location": pointer}
    assert rest.post("dev/namespaces/gold/register", twin).status_code == 200
    dev = catalog(rest, "dev")
    dev.load_table("gold.twin").append(orders.ONE_MORE)
    dev.load_table("gold.orders").delete("id = 1")
    dev.load_table("gold.orders").append(orders.ONE_MORE)
    dev.drop_table("gold.orders")
    sweep(lake)
    assert orders.rows(lake, "select count(*) from gold.twin", "dev") == [(4,)]
    assert orders.rows(lake, "select count(*) from gold.orders", "main") == [(3,)]
    dev.drop_table("gold.twin")
    sweep(lake)
    assert orders.rows(lake, "select count(*) from gold.orders", "main") == [(3,)]


def sweep(lake: Lake) -> None:
    for _ in range(4):
        lake.gc(grace=timedelta(0), keep=timedelta(0))


def test_metadata_of_elsewhere_is_not_registered(rest: Rest, lake: Lake, other: Lake) -> None:
    theirs = other.at("main").pointer("hr.salaries")
    warehouse = lake.warehouse
    places: list[Any] = [
        *(theirs, f"file://{theirs}", "/etc/passwd", "file:///etc/passwd", "s3://bucket/x.metadata.json"),
        *(f"{warehouse}/../../other/x.json", f"{warehouse}/%2e%2e/x.json", f"{warehouse}//etc", f"{warehouse}x/y"),
        *("http://169.254.169.254/x", "", " ", "\x00", "x" * 100_000, None, 1, [theirs], {"a": theirs}),
    ]
    for place in places:
        answer = rest.post("dev/namespaces/gold/register", {"name": "x", "metadata-location": place})
        assert error(answer)[0] in (400, 404), place
        assert len(answer.content) < 5000
        assert "root:" not in answer.text
    # A file that is in the warehouse, and leads elsewhere.
    raw = dict(other.at("main").metadata("hr.salaries").raw)
    inside = f"{warehouse}/gold/brought.metadata.json"
    for change in ({}, {"location": f"{warehouse}/gold/brought"}):
        local_path(inside).write_bytes(orjson.dumps({**raw, **change}))
        answer = rest.post("dev/namespaces/gold/register", {"name": "x", "metadata-location": inside})
        assert error(answer)[0] == 400, change
    assert "gold.x" not in lake.at("dev")
