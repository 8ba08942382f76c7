"""A branch that is brought onto its parent's head."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from mere.cli import main
from mere.errors import LakeConflict, ReadOnlyRef, RefNotFound, TableExists, UsageError
from mere.lake import faults
from mere.lake.lake import Lake
from mere.lake.log.commits import CommitKind, Stats
from mere.lake.refs.rebase import Rebased
from tests.conftest import OpenSession
from tests.lake.foreign import Foreign
from tests.lake.places import LOCAL, POSTGRES, Place, place


@pytest.fixture(params=[LOCAL, POSTGRES])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, tmp_path, request)


def rows(lake: Lake, ref: str) -> dict[str, int]:
    tables = lake.at(ref)
    return {str(table): tables.metadata(table).rows for table in tables}


def kept(result: Rebased) -> list[str]:
    return [str(change.key) for change in result.kept]


def dropped(result: Rebased) -> list[str]:
    return [str(conflict.key) for conflict in result.dropped]


def assert_exact(lake: Lake, branch: str) -> None:
    """What engines see on the branch is what its history says, at every commit of it."""
    assert lake.at(branch).entries == lake.at(lake.resolve(branch).commit.id).entries


def test_the_branch_as_it_was_can_be_brought_back(lake: Lake, engine: Foreign, at: Place) -> None:
    """Both changed the table, and no model makes the branch's version again."""
    engine.append("main", "a.t", 1)
    lake.branch("dev")
    engine.append("dev", "a.t", 10)
    engine.append("main", "a.t", 5)
    before = lake.resolve("dev").commit
    command = ["--lake", at.path, "branch", "update", "dev", "--no-run"]
    if at.catalog is None:
        said = CliRunner().invoke(main, command, catch_exceptions=False).stdout
        assert "changed on both, so taken from main: a.t" in said
        assert f"to go back: mere --lake {at.path} revert --to {before.short_id} --on dev" in said
        assert "to go back" not in CliRunner().invoke(main, command, catch_exceptions=False).stdout
    else:
        assert lake.rebase("dev").before.id == before.id
    assert rows(lake, "dev") == {"a.t": 6}
    assert lake.rebase("dev").before.id == lake.resolve("dev").commit.id
    lake.restore(before.short_id, on="dev")
    assert rows(lake, "dev") == {"a.t": 11}


def test_a_branch_gets_what_its_parent_has_and_keeps_what_it_changed(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.mine", 1)
    engine.append("main", "a.theirs", 1)
    lake.branch("dev")
    for _ in range(2):
        engine.append("dev", "a.mine", 10)
    engine.append("dev", "a.new", 5)
    old = lake.resolve("dev").commit
    engine.append("main", "a.theirs", 100)
    engine.append("main", "a.also", 7)
    result = lake.rebase("dev", author="ann")
    assert rows(lake, "dev") == {"a.mine": 21, "a.theirs": 101, "a.also": 7, "a.new": 5}
    assert (kept(result), dropped(result)) == (["a.mine", "a.new"], [])
    assert result.base == lake.resolve("main").commit
    (top, *below) = lake.log("dev")
    assert (top.kind, top.author, top.message) == (
        CommitKind.REBASE,
        "ann",
        f"rebase onto main ({result.base.short_id})",
    )
    assert [change.stats for change in top.changes] == [
        Stats(rows_added=20, files_added=2),
        Stats(rows_added=5, files_added=1),
    ]
    assert [commit.id for commit in below] == [commit.id for commit in lake.log()]
    assert rows(lake, old.id) == {"a.mine": 21, "a.theirs": 1, "a.new": 5}
    assert_exact(lake, "dev")
    assert lake.publish("dev").commit is not None
    assert rows(lake, "main") == rows(lake, "dev")


def test_what_both_changed_is_as_the_parent_has_it(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", 1)
    engine.append("main", "a.gone", 1)
    lake.branch("dev")
    engine.append("dev", "a.t", 10)
    engine.append("dev", "a.gone", 10)
    engine.append("dev", "a.made", 10)
    engine.append("dev", "a.mine", 10)
    ours = lake.resolve("dev~3").commit
    engine.append("main", "a.t", 100)
    theirs = lake.resolve("main").commit
    engine.append("main", "a.made", 100)
    lake.drop("a.gone")
    with pytest.raises(LakeConflict):
        lake.publish("dev")
    result = lake.rebase("dev")
    assert rows(lake, "dev") == {"a.t": 101, "a.made": 100, "a.mine": 10}
    assert (kept(result), dropped(result)) == (["a.mine"], ["a.gone", "a.made", "a.t"])
    about = result.dropped[-1]
    assert (about.ours and about.ours.id, about.theirs and about.theirs.id) == (ours.id, theirs.id)
    assert_exact(lake, "dev")
    engine.append("dev", "a.t", 1000)
    lake.publish("dev")
    assert rows(lake, "main") == {"a.t": 1101, "a.made": 100, "a.mine": 10}


def test_a_run_is_rebased_and_published(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", 1)
    run = lake.run_branch().name
    engine.append(run, "a.t", 10)
    engine.append("main", "a.t", 100)
    result = lake.rebase(run)
    assert (dropped(result), result.commit) == (["a.t"], None)
    assert lake.at(run).entries == lake.at().entries
    assert lake.resolve(run).commit == lake.resolve("main").commit
    engine.append(run, "a.t", 10)
    lake.publish(run)
    assert rows(lake, "main") == {"a.t": 111}


def test_a_branch_that_is_up_to_date_stays_as_it_is(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", 1)
    lake.branch("dev")
    engine.append("dev", "a.t", 1)
    head = lake.resolve("dev").commit
    for _ in range(2):
        result = lake.rebase("dev")
        assert (kept(result), result.commit) == (["a.t"], None)
        assert lake.resolve("dev").commit == head
    engine.append("main", "a.u")
    assert lake.rebase("dev").commit is not None
    assert lake.rebase("dev").commit is None


def test_a_revert_on_the_parent_is_not_overruled(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", 1)
    lake.branch("dev")
    engine.append("dev", "a.t", 10)
    assert lake.branch("child", lake.resolve("dev").commit.id).parent == "main"
    engine.append("child", "a.t", 100)
    engine.append("child", "a.mine", 1)
    lake.publish("dev")
    lake.revert("main")
    result = lake.rebase("child")
    assert rows(lake, "child") == {"a.t": 1, "a.mine": 1}
    assert (kept(result), dropped(result)) == (["a.mine"], ["a.t"])
    assert_exact(lake, "child")


def test_what_the_parent_took_over_from_the_branch_is_built_upon(lake: Lake, engine: Foreign) -> None:
    lake.branch("dev")
    engine.append("dev", "a.t", 1)
    lake.branch("child", "dev")
    engine.append("child", "a.t", 10)
    lake.publish("dev")
    engine.append("main", "a.u", 1)
    lake.rebase("dev")
    result = lake.rebase("child")
    assert (kept(result), dropped(result)) == (["a.t"], [])
    assert rows(lake, "child") == {"a.t": 11, "a.u": 1}
    assert_exact(lake, "child")
    lake.publish("child")
    assert rows(lake, "dev") == {"a.t": 11, "a.u": 1}


def test_renames_drops_and_namespaces_are_kept(lake: Lake, engine: Foreign) -> None:
    for table in ("a.renamed", "a.dropped", "a.same"):
        engine.append("main", table, 1)
    engine.set_property("main", "a", "owner", "ann")
    lake.branch("dev")
    engine.rename("dev", "a.renamed", "b.renamed")
    lake.drop("a.dropped", on="dev")
    for ref, owner in (("dev", "bob"), ("main", "cy")):
        engine.set_property(ref, "b", "owner", owner)
    engine.set_property("dev", "a", "owner", "bob")
    engine.append("main", "a.same", 1)
    result = lake.rebase("dev")
    assert dropped(result) == []
    assert rows(lake, "dev") == {"a.same": 2, "b.renamed": 1}
    properties = {str(key): entry.value for key, entry in lake.at("dev").entries.items() if key.name == "owner"}
    assert properties == {"namespace a (owner)": "bob", "namespace b (owner)": "cy"}
    assert_exact(lake, "dev")
    lake.publish("dev")
    assert rows(lake, "main") == rows(lake, "dev")


@pytest.mark.parametrize("clash", ["a.old", "a.new"])
def test_a_rename_is_kept_or_dropped_as_a_whole(lake: Lake, engine: Foreign, clash: str) -> None:
    engine.append("main", "a.old", 1)
    lake.branch("dev")
    engine.rename("dev", "a.old", "a.between")
    engine.rename("dev", "a.between", "a.new")
    engine.append("dev", "a.new", 10)
    engine.append("main", clash, 100)
    result = lake.rebase("dev")
    assert dropped(result) == ["a.new", "a.old"]
    assert rows(lake, "dev") == rows(lake, "main")
    assert_exact(lake, "dev")


@pytest.mark.parametrize("clash", ["a.t", "a.t__quarantine"])
def test_a_table_and_its_quarantine_are_kept_or_dropped_together(lake: Lake, engine: Foreign, clash: str) -> None:
    for table in ("a.t", "a.t__quarantine", "a.u"):
        engine.append("main", table, 1)
    lake.branch("dev")
    for table in ("a.t", "a.t__quarantine", "a.u"):
        engine.append("dev", table, 10)
    engine.append("main", clash, 100)
    result = lake.rebase("dev")
    assert (dropped(result), kept(result)) == (["a.t", "a.t__quarantine"], ["a.u"])
    assert rows(lake, "dev") == {**rows(lake, "main"), "a.u": 11}
    assert_exact(lake, "dev")


def test_a_quarantine_is_renamed_with_its_table(lake: Lake, engine: Foreign) -> None:
    for table in ("a.t", "a.t__quarantine", "b.taken__quarantine"):
        engine.append("main", table, 1)
    with pytest.raises(TableExists, match="There is already a b"):
        lake.rename("a.t", "b.taken")
    lake.rename("a.t", "b.u")
    assert rows(lake, "main") == {"b.taken__quarantine": 1, "b.u": 1, "b.u__quarantine": 1}
    lake.rename("b.u__quarantine", "b.rows")
    assert set(rows(lake, "main")) == {"b.rows", "b.taken__quarantine", "b.u"}


def test_views_are_kept(tmp_path: Path, spark_on: OpenSession) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        engine = Foreign(lake)
        engine.append("main", "a.other")
        lake.branch("dev")
        spark = spark_on(lake, "dev").spark
        spark.sql("CREATE TABLE a.t AS SELECT 1 AS id")
        spark.sql("CREATE VIEW a.v AS SELECT id FROM a.t")
        engine.append("main", "a.other")
        assert kept(lake.rebase("dev")) == ["a.t", "a.v"]
        assert spark.sql("SELECT id FROM a.v").collect() == [(1,)]
        lake.publish("dev")
        assert list(lake.sql("SELECT id FROM a.v")) == [(1,)]


@pytest.mark.parametrize("mover", ["dev", "main"])
def test_writes_while_it_is_rebased_are_not_lost(lake: Lake, engine: Foreign, mover: str) -> None:
    engine.append("main", "a.t", 1)
    lake.branch("dev")
    engine.append("dev", "a.mine", 1)
    engine.append("main", "a.t", 1)
    written: list[str] = []

    def write(point: str) -> None:
        if point == "rebase.prepared" and not written:
            written.append(engine.append(mover, "a.late", 5))

    faults.hook = write
    lake.rebase("dev")
    faults.hook = None
    assert rows(lake, "dev") == {"a.t": 2, "a.mine": 1, "a.late": 5}
    assert_exact(lake, "dev")


def test_what_cannot_be_rebased_is_said(lake: Lake) -> None:
    with pytest.raises(UsageError, match="main was not forked"):
        lake.rebase("main")
    lake.tag("v1")
    with pytest.raises(ReadOnlyRef):
        lake.rebase("v1")
    lake.branch("dev")
    lake.branch("child", "dev")
    lake.delete("dev")
    with pytest.raises(RefNotFound, match="forked from dev, which is gone"):
        lake.rebase("child")
