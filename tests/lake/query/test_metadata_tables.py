"""Metadata tables in `mere sql`: of a table as PyIceberg inspects it, of the lake as `mere log` and `mere runs` say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from mere.lake.iceberg.metadata import Metadata
from mere.lake.lake import Lake
from mere.lake.log.runs import Run, RunStatus
from mere.names import TableName
from tests.lake import iceberg_tables, orders
from tests.lake.orders import ONE_MORE, failure, point, rows, write


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with orders.create(tmp_path_factory.mktemp("lake")) as lake:
        write(lake, "gold.orders", ONE_MORE)
        iceberg_tables.create(lake, "silver.events", spec=iceberg_tables.BY_NAME_AND_DAY)
        iceberg_tables.append(lake, "silver.events", 1, 2, 3, 4)
        iceberg_tables.append(lake, "silver.events", 5, 6)
        iceberg_tables.delete(lake, "silver.events", "id = 1")
        lake.branch("dev")
        write(lake, "gold.orders", ONE_MORE, "dev")
        yield lake


def inspected(lake: Lake, table: str, kind: str) -> pa.Table:
    found: pa.Table = getattr(StaticTable.from_metadata(lake.at().pointer(table)).inspect, kind)()
    return found


@pytest.mark.parametrize("table", ["gold.orders", "silver.events"])
@pytest.mark.parametrize("kind", ["snapshots", "history", "refs", "files", "manifests", "partitions"])
def test_a_metadata_table_has_the_columns_and_values_that_iceberg_gives_it(lake: Lake, table: str, kind: str) -> None:
    ours = lake.at().table(f"{table}${kind}").arrow()
    theirs = inspected(lake, table, kind)
    # Bounds are bytes there; snapshots' times have no zone there.
    same = [name for name in theirs.column_names if name in ours.column_names and "bounds" not in name]
    assert len(same) >= 4
    # As in Spark, a table without partitions has no column for them.
    unpartitioned = {"partition", "spec_id"} if table == "gold.orders" else set()
    assert set(theirs.column_names) - set(ours.column_names) <= {"readable_metrics"} | unpartitioned
    assert list(map(_plain, ours.select(same).to_pylist())) == list(map(_plain, theirs.select(same).to_pylist()))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return value


def test_bounds_are_texts_by_the_ids_of_columns(lake: Lake) -> None:
    (found,) = rows(lake, 'select lower_bounds, upper_bounds from gold."orders$files" where record_count = 3')
    assert found == ({1: "1", 2: "ann", 3: "10.0"}, {1: "3", 2: "bob", 3: "20.0"})


def test_snapshots_are_those_of_mere_show(lake: Lake) -> None:
    found = rows(lake, 'select snapshot_id, parent_id, operation from gold."orders$snapshots" order by 1')
    assert found == sorted((each.id, each.parent, each.operation) for each in lake.show("gold.orders").snapshots)


def test_the_log_is_that_of_the_ref(lake: Lake) -> None:
    for ref in ("main", "dev", "main~2"):
        commits = [each.to_dict() for each in lake.log(ref)]
        found = rows(lake, "select commit_id, kind, author, message, run_id, source, expired from mere.commits", ref)
        names = ("id", "kind", "author", "message", "run", "source", "expired")
        assert found == [tuple(each[name] for name in names) for each in commits]
        parents = rows(lake, "select commit_id, parent_id from mere.commits", ref)
        assert [parent for _, parent in parents] == [id_ for id_, _ in parents[1:]] + [None]


def test_changes_are_those_of_the_log(lake: Lake) -> None:
    wanted = [
        (commit.id, each.key.namespace, each.verb, *(each.stats or [None] * 4))
        for commit in lake.log("dev")
        for each in commit.changes
    ]
    counts = "rows_added, rows_removed, files_added, files_removed"
    assert rows(lake, f"select commit_id, table_schema, verb, {counts} from dev.mere.changes") == wanted


def test_main_and_a_branch_are_compared_in_one_query(lake: Lake) -> None:
    ahead = "select commit_id from dev.mere.commits except select commit_id from mere.commits"
    assert len(rows(lake, ahead)) == 1
    grown = 'select count(*) from dev.gold."orders$files" d anti join gold."orders$files" m using (file_path)'
    assert rows(lake, grown) == [(1,)]


def run(id_: str, at: datetime, models: dict[str, Any], **about: Any) -> Run:
    return Run(id_, "main", f"run_{id_}", RunStatus.SUCCEEDED, "ann", at, at, at, {"models": models, **about})


def test_runs_and_their_audits_are_kept_over_time(tmp_path: Path) -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    audit = {"audit": "unique", "id": "unique(id)", "severity": "error", "state": "passed", "bad": 0, "checked": 3}
    with Lake.create(tmp_path / "lake") as lake:
        for number in range(120):  # more than a page
            models = {"gold.orders": {"state": "built", "audits": [audit | {"bad": number}]}}
            lake.store.save_run(run(f"{number:012x}", at + timedelta(minutes=number // 2), models, message="nightly"))
        past = {"branch": "b", "status": "failed", "author": "ann", "started_at": at.isoformat(), "ended_at": None}
        attempts = [{**past, "models": {"gold.orders": {"state": "failed", "audits": [audit]}}}]
        lake.store.save_run(replace(run("f" * 12, at, {"silver.x": {"state": "built"}}), about={"attempts": attempts}))
        found = rows(lake, "select run_id, status, built, message from mere.runs")
        assert [row[0] for row in found] == [each.id for each in lake.store.runs(1000)]
        assert ("00000000004d", "succeeded", 1, "nightly") in found
        asked = "select bad, attempt, table_schema, table_name from mere.audits where audit = 'unique'"
        audits = rows(lake, f"{asked} and state = 'passed' order by bad, attempt")
        assert len(audits) == 121
        assert audits[-1] == (119, 1, "gold", "orders")
        assert rows(lake, "select count(*) from mere.audits where run_id = 'ffffffffffff'") == [(1,)]


def test_quarantines_are_counted_by_rule_and_run(lake: Lake) -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    bad = {"id": [1, 2], "_rules": [["a", "b"], ["a"]], "_run": ["r1", "r1"], "_at": [at, at]}
    lake.branch("aside")
    write(lake, "gold.orders__quarantine", pa.table(bad), "aside")
    asked = (
        "select table_schema, table_name, quarantine, rule, run_id, row_count from aside.mere.quarantine order by rule"
    )
    assert rows(lake, asked) == []  # not mere's: it has no state
    lake.set_properties({"gold.orders__quarantine": {"mere.state": "{}"}}, "aside")
    name = ("gold", "orders", "orders__quarantine")
    assert rows(lake, asked) == [(*name, "a", "r1", 2), (*name, "b", "r1", 1)]
    assert rows(lake, "select * from mere.quarantine") == []


def test_a_table_without_snapshots_has_empty_metadata_tables(lake: Lake) -> None:
    lake.branch("empty")
    iceberg_tables.create(lake, "gold.none", "empty")
    for kind in ("snapshots", "history", "refs", "files", "manifests", "partitions"):
        assert rows(lake, f'select * from gold."none${kind}"', "empty") == []


def test_metadata_tables_are_listed_under_mere_alone(lake: Lake) -> None:
    listed = rows(lake, "select table_name from information_schema.tables where table_schema = 'mere' order by 1")
    assert [name for (name,) in listed] == ["audits", "changes", "commits", "quarantine", "runs"]
    columns = (
        "select column_name from information_schema.columns where table_name = 'commits' order by ordinal_position"
    )
    assert [name for (name,) in rows(lake, columns)] == lake.at().table("mere.commits").schema.names


@pytest.mark.parametrize(
    "name", ['gold."orders$nothing"', 'gold."nothing$files"', "mere.nothing", 'gold."$files"', 'mere."commits$files"']
)
def test_what_is_none_is_a_table_that_does_not_exist(lake: Lake, name: str) -> None:
    assert "There is no table" in failure(lake, f"select * from {name}")


def test_a_table_of_the_lake_comes_before_a_metadata_table_of_its_name(lake: Lake) -> None:
    lake.branch("own")
    write(lake, "mere.commits", ONE_MORE, "own")
    write(lake, "gold.orders$files", ONE_MORE, "own")
    for name in ("mere.commits", 'gold."orders$files"'):
        assert rows(lake, f"select customer from {name}", "own") == [("cy",)]
    assert rows(lake, 'select count(*) from mere."commits$files"', "own") == [(1,)]


def test_a_view_reads_no_metadata_tables(lake: Lake) -> None:
    """It is read with the rights of whoever made it."""
    lake.branch("views")
    old = lake.at().metadata("gold.orders")
    for name in ("mere.commits", "gold.`orders$files`"):
        version = {
            "version-id": 1, "schema-id": 0, "timestamp-ms": 0, "default-namespace": ["gold"],
            "representations": [{"type": "sql", "sql": f"select * from {name}", "dialect": "spark"}],
        }  # fmt: skip
        raw = {
            "view-uuid": "u", "format-version": 1, "location": old.folder, "schemas": [old.schema],
            "current-version-id": 1, "versions": [version], "properties": {},
        }  # fmt: skip
        view = f"v{len(name)}"
        pointer = lake.reader.write(Metadata(f"{old.folder}/metadata/{view}.metadata.json", raw))
        point(lake, "gold", view, pointer, "VIEW", "views")
        assert "which is not a table of the ref" in failure(lake, f"select * from gold.{view}", "views")


def test_a_metadata_table_is_read_through_python_too(lake: Lake) -> None:
    found = lake.at("dev").table("gold.orders$files")
    assert found.name == TableName("gold", "orders$files")
    assert found.arrow(columns=["record_count"], where="content = 0").num_rows == 3
    assert "mere.commits on dev" in lake.at("dev").table("mere.commits")._repr_html_()
    with pytest.raises(Exception, match="has no column 'nothing'"):
        found.arrow(columns=["nothing"])
