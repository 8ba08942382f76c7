"""What every adapter of the lake's ports must do, of the store and of the storage. A new one is one more place."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mere.errors import (
    InvalidName,
    LakeConflict,
    LakeError,
    LeaseHeld,
    ReadOnlyRef,
    RefExists,
    RefNotFound,
    TableNotFound,
)
from mere.lake import faults
from mere.lake.lake import Lake
from mere.lake.log.commits import CommitKind, Stats
from mere.lake.log.refs import RefKind
from mere.lake.refs.leases import hold
from mere.lake.store.postgres.store import PostgresStore
from mere.names import TableName
from tests.lake.foreign import Foreign
from tests.lake.places import LOCAL, POSTGRES, S3, Place, place


def another(lake: Lake) -> Lake:
    """The same lake, as another process would open it."""
    store = lake.store
    catalog = store.address.url if isinstance(store, PostgresStore) else None
    return Lake.open(lake.location, catalog=catalog, s3=lake.storage.s3)


@pytest.fixture(params=[LOCAL, POSTGRES, pytest.param(S3, marks=pytest.mark.long)])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, tmp_path, request)


def names(lake: Lake, ref: str = "main") -> list[str]:
    return [str(table) for table in lake.at(ref)]


def rows(lake: Lake, table: str, ref: str = "main") -> int:
    return lake.at(ref).metadata(table).rows


# refs


def test_a_new_lake_has_main_one_commit_and_no_tables(lake: Lake) -> None:
    assert [(ref.name, ref.kind) for ref in lake.refs()] == [("main", RefKind.BRANCH)]
    assert [commit.kind for commit in lake.log()] == [CommitKind.ROOT]
    assert names(lake) == []


def test_a_write_on_a_branch_is_seen_there_and_not_on_main(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "gold.orders", 3)
    lake.branch("dev")
    engine.append("dev", "gold.orders", 4)
    engine.append("dev", "gold.cities")
    assert (rows(lake, "gold.orders"), rows(lake, "gold.orders", "dev")) == (3, 7)
    assert (names(lake), names(lake, "dev")) == (["gold.orders"], ["gold.cities", "gold.orders"])


@pytest.mark.parametrize("origin", ["main", "main~1", "v1", "id", "main@0s"])
def test_a_branch_forks_from_any_ref(lake: Lake, engine: Foreign, origin: str) -> None:
    engine.append("main", "a.t", 1)
    lake.tag("v1")
    commit = lake.resolve("main").commit
    engine.append("main", "a.t", 1)
    lake.branch("dev", commit.id[:8] if origin == "id" else origin)
    assert rows(lake, "a.t", "dev") == (2 if origin in ("main", "main@0s") else 1)
    engine.append("dev", "a.t", 10)
    assert rows(lake, "a.t", "dev~1") == rows(lake, "a.t", "dev") - 10
    assert rows(lake, "a.t") == 2


def test_a_name_is_taken_once_and_must_follow_the_rule(lake: Lake) -> None:
    lake.branch("dev")
    with pytest.raises(RefExists):
        lake.tag("dev")
    for name in (
        "",
        "Dev",
        "1st",
        "face",
        "0123",
        "system",
        "spark_catalog",
        "a.b",
        "a/b",
        "a b",
        "run_x",
        "at_x",
    ):
        with pytest.raises(InvalidName):
            lake.branch(name)


def test_main_cannot_be_deleted_and_an_unknown_ref_suggests_a_near_one(lake: Lake) -> None:
    lake.branch("develop")
    with pytest.raises(ReadOnlyRef):
        lake.delete("main")
    with pytest.raises(RefNotFound, match="Did you mean develop"):
        lake.delete("devlop")
    with pytest.raises(RefNotFound, match="Did you mean develop"):
        lake.at("devlop~2")
    with pytest.raises(RefNotFound, match="is a branch, not a tag"):
        lake.delete("develop", RefKind.TAG)


def test_a_deleted_branch_is_gone_and_its_commits_stay_in_reach(lake: Lake, engine: Foreign) -> None:
    lake.branch("dev")
    engine.append("dev", "a.t", 5)
    commit = lake.resolve("dev").commit
    lake.delete("dev")
    with pytest.raises(RefNotFound):
        lake.at("dev")
    assert rows(lake, "a.t", commit.id) == 5
    lake.branch("dev", commit.id)
    assert rows(lake, "a.t", "dev") == 5


def test_history_is_addressed_by_steps_and_instants(lake: Lake, engine: Foreign) -> None:
    times = []
    for _ in range(3):
        engine.append("main", "a.t", 1)
        times.append(lake.resolve("main").commit.at)
        time.sleep(0.01)
    lake.branch("dev")
    engine.append("dev", "a.t", 1)
    assert [rows(lake, "a.t", f"dev~{n}") for n in range(4)] == [4, 3, 2, 1]
    assert names(lake, "dev~4") == []
    assert [rows(lake, "a.t", f"dev@{at.isoformat()}") for at in times] == [1, 2, 3]
    assert rows(lake, "a.t", f"dev@{times[2].isoformat()}~1") == 2
    with pytest.raises(RefNotFound, match="does not go 99 commits back"):
        lake.at("dev~99")
    with pytest.raises(RefNotFound, match="no commit as old"):
        lake.at("dev@2001-01-01")
    for wrong in ("dev~x", "dev@yesterday", "dev@", "~1", "", "DEV", "main@2h@"):
        with pytest.raises(InvalidName):
            lake.at(wrong)


def test_a_commit_prefix_must_be_unique(lake: Lake, engine: Foreign) -> None:
    for _ in range(40):
        engine.append("main", "a.t")
    commit = lake.resolve("main").commit
    assert lake.resolve(commit.id[:12]).commit == commit
    with pytest.raises(RefNotFound):
        lake.resolve("0" * 16)


# the journal


def test_every_write_of_an_engine_is_an_exact_commit(lake: Lake, engine: Foreign) -> None:
    pointers: list[str | None] = [None]
    pointers += [engine.append("main", "a.t", count) for count in (3, 5, 7)]
    commits = list(lake.log())[:3]
    for commit, old, new, count in zip(commits, pointers[2::-1], pointers[:0:-1], (7, 5, 3), strict=True):
        (change,) = commit.changes
        assert commit.kind is CommitKind.WRITE
        assert (change.old.value if change.old else None, change.new.value if change.new else None) == (
            old,
            new,
        )
        assert change.stats == Stats(rows_added=count, files_added=1)


def test_an_engine_can_rename_and_the_log_says_so(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.old", 2)
    engine.rename("main", "a.old", "b.new")
    (commit, *_) = lake.log()
    assert [(str(c.key), c.verb) for c in commit.changes] == [("a.old", "dropped"), ("b.new", "created")]
    assert names(lake) == ["b.new"]
    assert names(lake, "main~1") == ["a.old"]


def test_namespace_properties_are_versioned_too(lake: Lake, engine: Foreign) -> None:
    engine.set_property("main", "gold", "exists", "true")
    lake.branch("dev")
    engine.set_property("dev", "gold", "owner", "ann")
    engine.set_property("dev", "silver", "exists", "true")
    engine.delete_property("dev", "gold", "exists")
    lake.publish("dev")
    assert {str(key): entry.value for key, entry in lake.at().entries.items()} == {
        "namespace gold (owner)": "ann",
        "namespace silver": "true",
    }
    lake.revert("main")
    assert {str(key): entry.value for key, entry in lake.at().entries.items()} == {"namespace gold": "true"}


# guards


def test_the_database_refuses_what_would_hurt_another_ref(lake: Lake, engine: Foreign) -> None:
    pointer = engine.append("main", "a.t", 1)
    lake.branch("dev")
    lake.tag("v1")
    alias = lake.catalog_name("main~0")
    for ref in ("main", "dev", "v1", alias):
        with pytest.raises(Exception, match="mere: other refs may need these files, so engines do not drop"):
            engine.delete(ref, "a.t")
    for ref in ("v1", alias):
        with pytest.raises(Exception, match="mere: tags and commits are read-only"):
            engine.append(ref, "a.t")
        with pytest.raises(Exception, match="mere: tags and commits are read-only"):
            engine.append(ref, "a.new")
        with pytest.raises(Exception, match="mere: tags and commits are read-only"):
            engine.rename(ref, "a.t", "a.u")
        with pytest.raises(Exception, match="mere: tags and commits are read-only"):
            engine.set_property(ref, "a", "owner", "x")
    with pytest.raises(Exception, match="mere: no branch of this lake has that name"):
        engine.append("typo", "a.t")
    for row in ("NULL, NULL, 'TABLE'", "'x.json', NULL, 'MVIEW'"):
        with pytest.raises(Exception, match="mere: a row must point to a metadata file"):
            engine.execute(f"INSERT INTO iceberg_tables VALUES ('dev', 'a', 'u', {row})")
    with pytest.raises(Exception, match="mere: a row cannot move from one ref to another"):
        engine.execute("UPDATE iceberg_tables SET catalog_name = 'dev', table_name = 'x' WHERE catalog_name = 'v1'")
    for ref in ("main", "dev", "v1", alias):
        assert lake.at(ref).pointer("a.t") == pointer
        assert len(list(lake.log(ref))) == 2


def test_publish_gives_a_table_the_properties_that_guard_it(lake: Lake, engine: Foreign) -> None:
    lake.branch("dev")
    bare = engine.append(
        "dev", "a.t", 3, **{"gc.enabled": "true", "write.metadata.delete-after-commit.enabled": "true"}
    )
    lake.publish("dev")
    metadata = lake.at().metadata("a.t")
    assert metadata.properties["gc.enabled"] == "false"
    assert metadata.properties["write.metadata.delete-after-commit.enabled"] == "false"
    assert metadata.raw["metadata-log"][-1]["metadata-file"] == bare
    assert metadata.rows == 3
    assert lake.at("dev").pointer("a.t") == metadata.location


# publish


def test_publish_moves_all_tables_in_one_commit(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.changed", 1)
    engine.append("main", "a.dropped", 2)
    engine.append("main", "a.renamed", 3)
    engine.append("main", "a.same", 4)
    lake.branch("dev")
    engine.append("dev", "a.changed", 10)
    engine.append("dev", "a.changed", 10)
    engine.append("dev", "b.created", 5)
    engine.rename("dev", "a.renamed", "a.new_name")
    lake.drop("a.dropped", on="dev")
    before = len(list(lake.log()))
    result = lake.publish("dev", message="all at once", author="ann", run="r1")
    assert result.commit is not None
    assert len(list(lake.log())) == before + 1
    assert (result.commit.author, result.commit.message, result.commit.run) == ("ann", "all at once", "r1")
    assert (result.commit.source, result.commit.kind) == ("dev", CommitKind.PUBLISH)
    assert {str(c.key): (c.verb, c.stats) for c in result.commit.changes} == {
        "a.changed": ("changed", Stats(rows_added=20, files_added=2)),
        "a.dropped": ("dropped", Stats(rows_removed=2, files_removed=1)),
        "a.renamed": ("dropped", Stats(rows_removed=3, files_removed=1)),
        "a.new_name": ("created", Stats(rows_added=3, files_added=1)),
        "b.created": ("created", Stats(rows_added=5, files_added=1)),
    }
    assert names(lake) == ["a.changed", "a.new_name", "a.same", "b.created"]
    assert lake.at().entries == lake.at("dev").entries == lake.at(result.commit.id).entries


def test_nothing_to_publish_is_a_no_op(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t")
    lake.branch("dev")
    head = lake.resolve("main").commit
    assert lake.publish("dev").commit is None
    engine.append("dev", "a.t")
    lake.restore("main", on="dev")
    assert lake.publish("dev").commit is None
    assert lake.resolve("main").commit == head


def test_a_dry_run_says_everything_and_changes_nothing(lake: Lake, engine: Foreign) -> None:
    lake.branch("dev")
    engine.append("dev", "a.t", 3, **{"gc.enabled": "true"})
    files = sorted(file.location for file in lake.storage.files(lake.warehouse))
    result = lake.publish("dev", dry_run=True)
    assert [(str(c.key), c.stats) for c in result.changes] == [("a.t", Stats(rows_added=3, files_added=1))]
    assert (names(lake), result.commit) == ([], None)
    assert sorted(file.location for file in lake.storage.files(lake.warehouse)) == files
    engine.append("main", "a.t", 1)
    (conflict,) = lake.publish("dev", dry_run=True).conflicts
    assert str(conflict.key) == "a.t"


def test_a_conflict_names_the_table_and_both_sides_and_leaves_main_alone(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", 1)
    lake.branch("dev")
    lake.branch("other")
    engine.append("other", "a.t", 2)
    engine.append("dev", "a.t", 3)
    engine.append("dev", "a.free", 3)
    theirs = lake.publish("other", author="bob").commit
    before = lake.at().entries
    with pytest.raises(LakeConflict, match=r"a\.t: on dev by .*; on main by bob") as caught:
        lake.publish("dev")
    (conflict,) = caught.value.conflicts
    assert conflict.theirs == theirs
    assert conflict.ours is not None
    assert (conflict.ours.id, conflict.ours.message) == (lake.resolve("dev~1").commit.id, "append a.t")
    assert lake.at().entries == before
    assert rows(lake, "a.t", "dev") == 4


def test_changes_to_different_tables_never_conflict(lake: Lake, engine: Foreign) -> None:
    engine.set_property("main", "a", "exists", "true")
    lake.branch("one")
    lake.branch("two")
    for branch in ("one", "two"):
        engine.append(branch, f"a.{branch}")
        engine.set_property(branch, "shared", "exists", "true")
    lake.publish("one")
    lake.publish("two")
    assert names(lake) == ["a.one", "a.two"]


def test_creating_a_table_that_main_got_meanwhile_is_a_conflict(lake: Lake, engine: Foreign) -> None:
    lake.branch("dev")
    engine.append("dev", "a.t")
    engine.append("main", "a.t")
    with pytest.raises(LakeConflict):
        lake.publish("dev")


def test_a_table_that_was_read_and_moved_meanwhile_is_a_conflict_too(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.customers")
    lake.branch("dev")
    engine.append("dev", "a.orders")
    engine.append("main", "a.customers")
    with pytest.raises(LakeConflict, match=r"a\.customers: read on dev; on main by"):
        lake.publish("dev", reads=[TableName.parse("a.customers")])
    assert lake.publish("dev", reads=[TableName.parse("a.orders")]).commit is not None


def test_a_user_branch_follows_and_a_run_branch_is_deleted(lake: Lake, engine: Foreign) -> None:
    lake.branch("dev")
    run = lake.run_branch()
    engine.append(run.name, "a.from_run")
    lake.publish(run.name)
    assert lake.store.ref(run.name) is None
    engine.append("dev", "a.from_dev")
    lake.publish("dev")
    assert names(lake, "dev") == names(lake) == ["a.from_dev", "a.from_run"]
    engine.append("dev", "a.from_run")
    lake.publish("dev")
    assert rows(lake, "a.from_run") == 2
    empty = lake.run_branch()
    assert lake.publish(empty.name).commit is None
    assert lake.store.ref(empty.name) is None


def test_a_branch_of_a_branch_publishes_into_its_parent_or_straight_into_main(lake: Lake, engine: Foreign) -> None:
    lake.branch("dev")
    engine.append("dev", "a.t", 1)
    lake.branch("feature", "dev")
    engine.append("feature", "a.t", 2)
    lake.publish("feature")
    assert (rows(lake, "a.t", "dev"), names(lake)) == (3, [])
    engine.append("feature", "a.t", 4)
    lake.publish("feature", into="main")
    assert (rows(lake, "a.t"), rows(lake, "a.t", "dev")) == (7, 3)


def test_a_child_builds_on_what_its_parent_published(lake: Lake, engine: Foreign) -> None:
    lake.branch("dev")
    engine.append("dev", "a.t", 1)
    lake.branch("child", "dev")
    engine.append("child", "a.t", 2)
    lake.publish("dev")
    lake.publish("child", into="main")
    assert rows(lake, "a.t") == 3


def test_a_tag_is_never_published_into(lake: Lake) -> None:
    lake.tag("v1")
    lake.branch("dev")
    with pytest.raises(ReadOnlyRef):
        lake.publish("dev", into="v1")
    with pytest.raises(ReadOnlyRef):
        lake.publish("v1")
    with pytest.raises(ReadOnlyRef):
        lake.publish("dev", into="dev")


def test_only_a_branch_of_the_target_follows_it(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t")
    lake.branch("dev")
    lake.branch("staging")
    engine.append("staging", "a.secret")
    engine.append("dev", "a.mine")
    engine.append("main", "a.u")
    lake.publish("main", into="dev")
    assert (names(lake), names(lake, "dev")) == (["a.t", "a.u"], ["a.mine", "a.t", "a.u"])
    assert next(iter(lake.log())).message == "append a.u"
    lake.publish("dev", into="staging")
    assert names(lake, "dev") == ["a.mine", "a.t", "a.u"]
    lake.publish("dev")
    assert names(lake) == ["a.mine", "a.t", "a.u"]


def test_a_revert_on_the_target_is_not_overruled(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", 1)
    lake.branch("dev")
    engine.append("dev", "a.t", 10)
    lake.branch("child", "dev")
    engine.append("child", "a.t", 100)
    lake.publish("dev")
    lake.revert("main")
    with pytest.raises(LakeConflict, match=r"a\.t"):
        lake.publish("child", into="main")
    assert rows(lake, "a.t") == 1


def test_two_branches_may_make_one_namespace_as_two_people(lake: Lake, engine: Foreign) -> None:
    for branch, owner in (("one", "ann"), ("two", "bob")):
        lake.branch(branch)
        engine.set_property(branch, "gold", "exists", "true")
        engine.set_property(branch, "gold", "owner", owner)
        engine.append(branch, f"gold.{branch}")
    lake.publish("one")
    lake.publish("two")
    assert names(lake) == ["gold.one", "gold.two"]
    assert {entry.value for key, entry in lake.at().entries.items() if key.name == "owner"} == {"ann"}


def test_a_write_to_a_run_while_it_is_published_is_not_lost(lake: Lake, engine: Foreign) -> None:
    run = lake.run_branch().name
    written: list[str] = []

    def write_late(point: str) -> None:
        if point == "publish.prepared" and not written:
            written.append(engine.append(run, "a.late"))

    faults.hook = write_late
    try:
        assert lake.publish(run).commit is not None
    finally:
        faults.hook = None
    assert names(lake) == ["a.late"]


def test_a_branch_takes_what_reached_its_target_while_it_was_published(lake: Lake, engine: Foreign) -> None:
    lake.branch("dev")
    engine.append("dev", "a.mine")

    def write_late(point: str) -> None:
        if point == "publish.prepared":
            engine.append("main", "a.late")

    faults.hook = write_late
    try:
        lake.publish("dev")
    finally:
        faults.hook = None
    assert engine.pointer("dev", "a.late") == engine.pointer("main", "a.late") is not None
    assert lake.at("dev").entries == lake.at().entries == lake.at(lake.resolve("dev").commit.id).entries


def test_a_branch_that_is_deleted_while_it_is_published_is_named(lake: Lake, engine: Foreign) -> None:
    lake.branch("dev")
    engine.append("dev", "a.t")

    def delete(point: str) -> None:
        if point == "publish.prepared":
            lake.delete("dev")

    faults.hook = delete
    try:
        with pytest.raises(RefNotFound, match="dev was deleted meanwhile"):
            lake.publish("dev")
    finally:
        faults.hook = None


def test_a_branch_remembers_the_branch_it_came_from(lake: Lake, engine: Foreign) -> None:
    lake.branch("dev")
    engine.append("dev", "a.t")
    engine.append("dev", "a.t")
    assert lake.branch("fix", "dev~1").parent == "dev"
    lake.delete("dev")
    with pytest.raises(RefNotFound, match="forked from dev, which is gone") as caught:
        lake.publish("fix")
    assert "--into" in str(caught.value.remedy)


# undo


def test_revert_puts_back_what_a_commit_replaced(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", 1)
    lake.branch("dev")
    engine.append("dev", "a.t", 2)
    engine.append("dev", "a.u", 3)
    before = lake.at().entries
    published = lake.publish("dev").commit
    assert published is not None
    undo = lake.revert(published.id)
    assert undo is not None
    assert lake.at().entries == before
    assert {str(c.key): c.stats for c in undo.changes} == {
        "a.t": Stats(rows_removed=2, files_removed=1),
        "a.u": Stats(rows_removed=3, files_removed=1),
    }
    assert lake.revert(published.id) is None
    lake.revert(undo.id)
    assert lake.at().entries == lake.at(published.id).entries


def test_revert_is_refused_when_a_later_commit_changed_the_same_table(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", 1)
    first = lake.resolve("main").commit
    engine.append("main", "a.t", 1)
    later = lake.resolve("main").commit
    with pytest.raises(LakeConflict, match=rf"a\.t: commit {later.short_id}"):
        lake.revert(first.id)
    lake.branch("dev")
    engine.append("dev", "a.u")
    with pytest.raises(LakeError, match="not in the history of main"):
        lake.revert("dev")
    with pytest.raises(LakeError, match="changed nothing"):
        lake.revert("main~2")


def test_restore_makes_a_branch_what_the_lake_was(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", 1)
    then = lake.at().entries
    engine.append("main", "a.t", 1)
    engine.append("main", "b.u", 1)
    lake.drop("a.t")
    assert lake.restore("main~3") is not None
    assert lake.at().entries == then
    assert lake.restore("main") is None
    assert len(list(lake.log())) == 6


def test_drop_takes_tables_from_one_branch_in_one_commit(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.orders", 4)
    engine.append("main", "a.cities")
    lake.branch("dev")
    with pytest.raises(TableNotFound, match=r"Did you mean a\.orders.*Nothing was dropped"):
        lake.drop("a.cities", "a.order", on="dev")
    commit = lake.drop("a.cities", "a.orders", on="dev")
    assert [(str(c.key), c.verb) for c in commit.changes] == [
        ("a.cities", "dropped"),
        ("a.orders", "dropped"),
    ]
    assert (names(lake), names(lake, "dev")) == (["a.cities", "a.orders"], [])


def test_a_table_set_stays_where_it_was_taken(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", 1)
    taken = lake.at()
    engine.append("main", "a.t", 1)
    assert (taken.metadata("a.t").rows, rows(lake, "a.t")) == (1, 2)
    assert "a.t" in taken
    assert "a.u" not in taken
    with pytest.raises(TableNotFound, match=r"no table a\.u on main"):
        taken.pointer("a.u")


def test_log_can_be_of_one_table(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t")
    engine.append("main", "a.u")
    engine.append("main", "a.t")
    assert [c.message for c in lake.log(table="a.t")] == ["append a.t", "append a.t"]
    times = [commit.at for commit in lake.log()]
    assert times == sorted(times, reverse=True)
    assert all(datetime.now(UTC) - at < timedelta(minutes=5) for at in times)


def test_a_table_whose_metadata_is_broken_can_still_be_dropped_and_reverted(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", 1)
    engine.append("main", "a.ok", 1)
    broken = engine.append("main", "a.t", 1)
    lake.storage.delete(broken)
    lake.storage.write_new(broken, b"null")
    assert next(iter(lake.log())).kind is CommitKind.WRITE
    lake.branch("dev")
    lake.drop("a.t", on="dev")
    lake.publish("dev")
    assert names(lake) == ["a.ok"]
    assert lake.restore("main~2") is not None
    assert rows(lake, "a.t") == 1


def test_restore_guards_what_it_brings(lake: Lake, engine: Foreign) -> None:
    lake.branch("dev")
    engine.append("dev", "a.t", 1, **{"gc.enabled": "true"})
    lake.restore("dev")
    assert lake.at().metadata("a.t").properties["gc.enabled"] == "false"


def test_the_log_of_a_table_that_never_was_suggests_one(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "gold.orders")
    with pytest.raises(TableNotFound, match=r"Did you mean gold\.orders"):
        list(lake.log(table="gold.ordrs"))


def test_two_processes_may_make_one_alias(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t")
    other = another(lake)
    made: list[str] = []
    threads = [
        threading.Thread(target=lambda each=each: made.append(each.catalog_name("main~1"))) for each in (lake, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2
    assert len(set(made)) == 1
    other.close()


# leases


def test_a_lease_keeps_others_off_its_tables_until_it_is_released(lake: Lake) -> None:
    t, u = TableName("a", "t"), TableName("a", "u")
    with lake.lease([t], "run_1"):
        with pytest.raises(LeaseHeld, match=r"run_1 is writing a\.t for main"), lake.lease([t, u], "run_2"):
            pass
        with lake.lease([u], "run_3"), lake.lease([t], "run_4", on="dev"):
            assert {lease.holder for lease in lake.store.leases()} == {"run_1", "run_3", "run_4"}
    assert lake.store.leases() == []


def test_a_second_run_waits_for_the_first(lake: Lake) -> None:
    table = TableName("a", "t")
    order = []

    def first() -> None:
        with lake.lease([table], "run_1"):
            started.set()
            time.sleep(0.3)
            order.append("first")

    started = threading.Event()
    thread = threading.Thread(target=first)
    thread.start()
    started.wait()
    with lake.lease([table], "run_2", wait=timedelta(seconds=10)):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_a_holder_learns_at_once_that_a_lease_was_lost(lake: Lake) -> None:
    t, u = TableName("a", "t"), TableName("a", "u")
    with hold(lake.store, "main", [t, u], "run_1") as held:
        held.check()
        lake.store.release("main", [u], "run_1")
        with hold(another(lake).store, "main", [u], "run_2"), pytest.raises(LeaseHeld, match="has lost its lease"):
            held.check()


def test_a_lease_is_renewed_while_it_is_held(lake: Lake) -> None:
    with hold(lake.store, "main", [TableName("a", "t")], "run_1", ttl=timedelta(seconds=3)) as held:
        first = lake.store.leases()
        deadline = time.monotonic() + 20
        while lake.store.leases() == first:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        held.check()


def test_leases_of_one_holder_end_one_by_one(lake: Lake) -> None:
    t, u = TableName("a", "t"), TableName("a", "u")
    with lake.lease([t], "run_1"):
        with lake.lease([u], "run_1"):
            pass
        assert [lease.table for lease in lake.store.leases()] == [t]


def test_a_dead_run_loses_its_lease(lake: Lake) -> None:
    table = TableName("a", "t")
    assert lake.store.acquire("main", [table], "dead", timedelta(seconds=1)) == []
    assert [lease.holder for lease in lake.store.acquire("main", [table], "next", timedelta(minutes=1))] == ["dead"]
    time.sleep(1.1)
    assert lake.store.renew("dead", timedelta(minutes=1)) is False
    assert lake.store.acquire("main", [table], "next", timedelta(minutes=1)) == []
