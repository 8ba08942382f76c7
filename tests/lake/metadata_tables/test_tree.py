"""`mere show --tree`: every file that is reached, with the commit that brought it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mere.lake.iceberg.files import Reach
from mere.lake.lake import Lake
from tests.lake import iceberg_tables


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with Lake.create(tmp_path_factory.mktemp("tree") / "lake") as lake:
        iceberg_tables.create(lake, "silver.events", spec=iceberg_tables.BY_NAME_AND_DAY)
        iceberg_tables.append(lake, "silver.events", 1, 2, 3, 4)
        iceberg_tables.delete(lake, "silver.events", "id = 1")
        lake.branch("dev")
        iceberg_tables.append(lake, "silver.events", 5, 6, ref="dev")
        lake.publish("dev", message="two more")
        yield lake


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for each in node["inside"]:
        yield from nodes(each)


def test_the_tree_has_the_files_of_the_current_snapshot_with_their_sizes(lake: Lake) -> None:
    found = lake.at().table("silver.events").tree().to_dict()
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for each in nodes(found["tree"]):
        by_kind.setdefault(each["kind"], []).append(each)
    assert {kind: len(each) for kind, each in by_kind.items()} == {
        "pointer": 1, "metadata": 1, "manifest list": 1, "manifest": 2, "data file": 5,
    }  # fmt: skip
    files = [each for kind, all_ in by_kind.items() if kind != "pointer" for each in all_]
    assert {each["bytes"] for each in files} == {Path(each["name"]).stat().st_size for each in files}
    assert [Path(each["name"]).stat().st_size for each in files] == [each["bytes"] for each in files]
    reach = Reach(lake.storage)
    reach.add(lake.at().pointer("silver.events"))
    assert all(each["name"] in reach for each in files)
    paths = {row[0] for row in lake.sql('select file_path from silver."events$files"')}
    assert {each["name"] for each in by_kind["data file"]} == paths


def test_each_file_has_the_commit_that_brought_it_to_the_ref(lake: Lake) -> None:
    published, deleted, appended, _ = lake.log("main", "silver.events")
    found = lake.at().table("silver.events").tree()
    by_commit: dict[str, int] = {}
    for each in nodes(found.to_dict()["tree"]):
        if each["kind"] == "data file":
            by_commit[each["commit"]] = by_commit.get(each["commit"], 0) + 1
    assert by_commit == {published.id: 2, appended.id: 3}
    assert [each.commit.id for each in found.commits[:2]] == [published.id, deleted.id]
    assert "changed silver.events  +2 rows, +2 files" in str(found)
    assert f"name=plain, day=2026-11-03, by commit {appended.short_id}" in str(found)


def test_what_is_not_shown_is_counted(lake: Lake) -> None:
    found = lake.at().table("silver.events").tree(1)
    assert [each.commit.message for each in found.commits] == ["two more"]
    hidden = [each["hidden"] for each in nodes(found.to_dict()["tree"])]
    assert sum(hidden) == 2
    assert "└─ … and 1 more: -n shows more" in str(found)


def test_an_empty_table_and_one_without_readable_past_have_a_tree(lake: Lake) -> None:
    lake.branch("empty")
    iceberg_tables.create(lake, "gold.none", "empty")
    assert "0 snapshots" in str(lake.at("empty").table("gold.none").tree())
    iceberg_tables.append(lake, "gold.none", 1, ref="empty")
    old = lake.at("empty~1").pointer("gold.none")
    Path(old).unlink()
    lake.reader._known.clear()
    told = str(lake.at("empty").table("gold.none").tree())
    assert "1 data file" in told
    Path(lake.at("empty").pointer("gold.none")).unlink()
    lake.reader._known.clear()
    with pytest.raises(Exception, match=r"metadata\.json"):
        lake.at("empty").table("gold.none").tree()
