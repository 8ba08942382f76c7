"""What clients write through PyIceberg: one commit for each write, with its author, on the branch they are at."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.exceptions import (
    ForbiddenError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.types import LongType

from mere.lake.lake import Lake
from tests.lake import orders
from tests.serve.iceberg.rest import Rest, error
from tests.serve.iceberg.test_read import catalog

SNAPSHOT = {"snapshot-id": 7, "sequence-number": 2, "timestamp-ms": 1}


def test_a_write_is_one_commit_by_who_asked(rest: Rest, lake: Lake) -> None:
    before = lake.resolve("dev").commit
    table = catalog(rest, "dev", auth={"type": "basic", "basic": {"username": "ann", "password": ""}}).load_table(
        "gold.orders"
    )
    table.append(orders.ONE_MORE)
    commit, older, *_ = lake.log("dev")
    assert (commit.author, commit.kind, older.id) == ("ann", "write", before.id)
    assert (commit.message or "").startswith("append gold.orders (")
    assert [(str(change.key), change.stats and change.stats.rows_added) for change in commit.changes] == [
        ("gold.orders", 1)
    ]
    assert lake.resolve("main").commit.id == before.id
    assert orders.rows(lake, "select count(*) from gold.orders", "dev") == [(4,)]
    assert rest.told()[-1]["commit"] == commit.short_id


def test_a_table_is_made_changed_renamed_and_dropped(rest: Rest, lake: Lake) -> None:
    dev = catalog(rest, "dev")
    dev.create_namespace("silver", {"owner": "ann"})
    rows = pa.table({"id": pa.array([1, 2]), "s": ["a", "b"]})
    table = dev.create_table("silver.made", rows.schema)
    assert table.location().startswith("file:///")
    assert table.properties["gc.enabled"] == "false"
    table.append(rows)
    with table.update_schema() as update:
        update.add_column("n", LongType())
    table.delete("id = 1")
    dev.rename_table("silver.made", "gold.renamed")
    assert orders.rows(lake, "select * from gold.renamed", "dev") == [(2, "b", None)]
    with pytest.raises(TableAlreadyExistsError):
        dev.create_table("gold.renamed", rows.schema)
    with pytest.raises(NamespaceNotEmptyError):
        dev.drop_namespace("gold")
    with pytest.raises(NamespaceAlreadyExistsError):
        dev.create_namespace("gold")
    dev.drop_table("gold.renamed")
    with pytest.raises(NoSuchTableError):
        dev.drop_table("gold.renamed")
    assert dev.load_namespace_properties("silver") == {"owner": "ann"}
    dev.update_namespace_properties("silver", {"owner"}, {"team": "x"})
    assert dev.load_namespace_properties("silver") == {"team": "x"}
    dev.drop_namespace("silver")
    with pytest.raises(NoSuchNamespaceError):
        dev.create_table("silver.made", rows.schema)
    assert [commit.message.partition(" (")[0] for commit in lake.log("dev") if commit.message][:9] == [
        "drop namespace silver",
        "alter namespace silver",
        "drop gold.renamed",
        "rename silver.made to gold.renamed",
        "overwrite silver.made",
        "alter silver.made",
        "append silver.made",
        "create silver.made",
        "create namespace silver",
    ]


def test_who_was_slower_is_told_so(rest: Rest, lake: Lake) -> None:
    standing = rest.get("dev/namespaces/gold/tables/orders").json()["metadata"]
    asked = {
        "requirements": [
            {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": standing["current-snapshot-id"]}
        ],
        "updates": [{"action": "set-properties", "updates": {"who": "slow"}}],
    }
    catalog(rest, "dev").load_table("gold.orders").append(orders.ONE_MORE)
    status, kind, message = error(rest.post("dev/namespaces/gold/tables/orders", asked))
    assert (status, kind) == (409, "CommitFailedException")
    assert "branch or tag main has changed" in message
    assert "who" not in lake.at("dev").metadata("gold.orders").properties


def test_tags_and_commits_are_read_only(rest: Rest, lake: Lake) -> None:
    lake.tag("v1")
    for ref in ("v1", lake.resolve("main").commit.id):
        with pytest.raises(ForbiddenError, match="read-only"):
            catalog(rest, ref).load_table("gold.orders").append(orders.ONE_MORE)


@pytest.mark.parametrize(
    ("sql", "dialect"),
    [
        ("SELECT * FROM read_csv('/etc/passwd')", "duckdb"),
        ("SELECT * FROM csv.`/etc/passwd`", "spark"),
        ("SELECT reflect('java.lang.System', 'getenv', 'HOME') AS x FROM orders", "spark"),
        ("SELECT TRANSFORM(id) USING 'cat /etc/passwd' AS (x) FROM orders", "Spark"),
    ],
)
def test_a_view_does_nothing_to_who_reads_it(rest: Rest, sql: str, dialect: str) -> None:
    version = {"version-id": 1, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["gold"]}
    version["representations"] = [{"type": "sql", "sql": sql, "dialect": dialect}]
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "string", "required": False}]}
    asked = {"name": "odd", "schema": schema, "view-version": version, "properties": {}}
    status, _, message = error(rest.post("dev/namespaces/gold/views", asked))
    assert (status, "only tables of the lake" in message) == (400, True)
    plain = {**version, "representations": [{"type": "sql", "sql": "SELECT 'a' AS x", "dialect": dialect}]}
    assert rest.post("dev/namespaces/gold/views", {**asked, "view-version": plain}).status_code == 200
    updates = [
        {"action": "add-view-version", "view-version": {**version, "version-id": 2}},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    status, _, message = error(rest.post("dev/namespaces/gold/views/odd", {"requirements": [], "updates": updates}))
    assert (status, "only tables of the lake" in message) == (400, True)


def test_the_guards_stay(rest: Rest, lake: Lake) -> None:
    before = lake.resolve("dev").commit.id
    for update, said in (
        ({"action": "set-properties", "updates": {"gc.enabled": "true"}}, "is a guard"),
        ({"action": "remove-properties", "removals": ["gc.enabled"]}, "is a guard"),
        ({"action": "set-properties", "updates": {"write.data.path": "/tmp"}}, "does not look after"),
        ({"action": "set-properties", "updates": {"mere.adopted-from": "/etc/a/b.json"}}, "left to mere adopt"),
        ({"action": "set-location", "location": "file:///tmp/x"}, "stays where it is"),
        ({"action": "remove-snapshots", "snapshot-ids": [1]}, "because of the guard gc.enabled"),
        ({"action": "remove-schemas", "schema-ids": [0]}, "because of the guard gc.enabled"),
        ({"action": "remove-partition-specs", "spec-ids": [0]}, "because of the guard gc.enabled"),
        ({"action": "of-tomorrow"}, "does not support the update"),
        ({"action": "add-schema"}, "`schema` is missing"),
        ({"action": "add-snapshot", "snapshot": {**SNAPSHOT, "manifest-list": "/etc/passwd"}}, "warehouse"),
        ({"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}, "is no snapshot 1"),
        ({"action": "upgrade-format-version", "format-version": 1}, "cannot go back"),
    ):
        status, _, message = error(rest.post("dev/namespaces/gold/tables/orders", {"updates": [update]}))
        assert (status, said in message) == (400, True), message
    assert lake.resolve("dev").commit.id == before
