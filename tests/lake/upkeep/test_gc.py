from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mere.errors import LakeConflict, LakeError, LakeUnreadable, MetadataMissing
from mere.lake import faults
from mere.lake.iceberg.files import Reach
from mere.lake.lake import Lake
from mere.lake.log.commits import CommitKind
from mere.lake.log.refs import RefKind
from mere.lake.log.runs import Run, RunStatus, holder
from mere.lake.storage.port import LocalStorage
from mere.lake.upkeep.gc import Kept, sweep
from mere.names import TableName
from tests.lake.iceberg_tables import append, create, delete, files, overwrite, read, rows_of

ZERO = timedelta(0)
DAY = timedelta(days=1)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        create(lake, "a.t")
        append(lake, "a.t", 1, 2)
        yield lake


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    yield
    faults.hook = None


def later(**age: float) -> datetime:
    return datetime.now(UTC) + timedelta(**age)


def ids(lake: Lake, ref: str = "main", table: str = "a.t") -> list[int]:
    return [row["id"] for row in read(lake.at(ref).pointer(table))]


def unreachable(lake: Lake) -> set[str]:
    reach = Reach(lake.storage)
    for pointer in lake.store.pointers():
        reach.add(pointer)
    return {location for location in files(lake) if location not in reach}


def leave_files(lake: Lake, *numbers: int) -> set[str]:
    """Files that only a branch that is no more has ever pointed to; its commits can still be reached by their ids."""
    before = files(lake)
    lake.branch("gone")
    append(lake, "a.t", *numbers, ref="gone")
    lake.delete("gone")
    return files(lake) - before


def database(lake: Lake) -> list[Any]:
    names = ("iceberg_tables", "mere_refs", "mere_commits", "mere_changes", "mere_doomed", "mere_leases", "mere_meta")
    with closing(sqlite3.connect(lake.root / "catalog.db")) as connection:
        return [sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=str) for name in names]


# what lives


def test_all_that_a_lake_can_still_show_is_kept(lake: Lake) -> None:
    lake.tag("first")
    overwrite(lake, "a.t", 3)
    lake.branch("dev")
    append(lake, "a.t", 4, ref="dev")
    lake.publish("dev")
    lake.revert("main")
    before = files(lake)
    for _ in range(3):
        swept = sweep(lake, now=later(days=30), grace=ZERO)
    assert files(lake) == before
    assert (swept.doomed, swept.deleted, swept.kept) == ((), (), {Kept.REACHABLE: len(before)})
    assert [ids(lake, ref) for ref in ("first", "main", "main~1", "dev")] == [[1, 2], [3], [3, 4], [3, 4]]


def test_an_unreachable_file_is_doomed_first_and_deleted_a_grace_time_later(lake: Lake) -> None:
    left = leave_files(lake, 3)
    first = sweep(lake, now=later(days=2))
    assert {file.location for file in first.doomed} == left
    assert first.bytes_doomed == sum(Path(location).stat().st_size for location in left)
    assert (first.deleted, left <= files(lake)) == ((), True)
    second = sweep(lake, now=later(days=2, hours=23))
    assert (second.doomed, second.deleted, second.kept[Kept.WAITING]) == ((), (), len(left))
    third = sweep(lake, now=later(days=3, minutes=1))
    assert {file.location for file in third.deleted} == left
    assert third.bytes_deleted == first.bytes_doomed
    assert unreachable(lake) == set()
    assert lake.store.doomed() == {}
    assert ids(lake) == [1, 2]


def test_with_a_grace_of_zero_one_sweep_dooms_and_the_next_one_deletes(lake: Lake) -> None:
    left = leave_files(lake, 3)
    assert (len(sweep(lake, grace=ZERO).doomed), left <= files(lake)) == (len(left), True)
    assert (len(sweep(lake, grace=ZERO).deleted), left & files(lake)) == (len(left), set())


def test_a_file_that_is_younger_than_the_grace_time_is_kept(lake: Lake) -> None:
    orphan = Path(lake.warehouse, "a", "being-written.parquet")
    orphan.write_bytes(b"1")
    assert sweep(lake).kept[Kept.YOUNG] == 1
    past = (datetime.now(UTC) - timedelta(hours=25)).timestamp()
    os.utime(orphan, (past, past))
    assert [file.location for file in sweep(lake).doomed] == [str(orphan)]


def test_a_doomed_file_that_something_comes_to_reach_is_doomed_no_longer(lake: Lake) -> None:
    """As when an engine, after a long wait, commits what it wrote long ago."""
    metadata = lake.at("main").pointer("a.t")
    late = str(Path(metadata).with_name("00009-late.metadata.json"))
    shutil.copy(metadata, late)
    assert [file.location for file in sweep(lake, grace=ZERO).doomed] == [late]
    point_to(lake, late)
    swept = sweep(lake, grace=ZERO)
    assert (swept.doomed, swept.deleted, lake.store.doomed()) == ((), (), {})
    assert ids(lake) == [1, 2]


def point_to(lake: Lake, metadata: str) -> None:
    with closing(sqlite3.connect(lake.root / "catalog.db")) as connection, connection:
        connection.execute("UPDATE iceberg_tables SET metadata_location = ? WHERE catalog_name = 'main'", (metadata,))


def test_pointers_that_appear_between_the_first_look_and_the_deleting_are_spared(lake: Lake) -> None:
    metadata = lake.at("main").pointer("a.t")
    late = str(Path(metadata).with_name("00009-late.metadata.json"))
    shutil.copy(metadata, late)
    left = leave_files(lake, 3)
    sweep(lake, grace=ZERO)
    faults.hook = lambda name: point_to(lake, late) if name == "sweep.doomed" else None
    swept = sweep(lake, grace=ZERO)
    assert {file.location for file in swept.deleted} == left
    assert Path(late).exists()
    assert lake.store.doomed() == {}
    assert ids(lake) == [1, 2]


def test_a_checksum_of_hadoop_lives_and_dies_with_its_file(lake: Lake) -> None:
    left = leave_files(lake, 3)
    for location in files(lake):
        Path(location).with_name(f".{Path(location).name}.crc").write_bytes(b"crc")
    sweep(lake, grace=ZERO)
    assert len(sweep(lake, grace=ZERO).deleted) == 2 * len(left)
    kept = [Path(location) for location in files(lake)]
    assert {p.name for p in kept if p.suffix == ".crc"} == {f".{p.name}.crc" for p in kept if p.suffix != ".crc"}


def test_folders_that_stay_empty_are_removed(lake: Lake) -> None:
    lake.branch("gone")
    create(lake, "b.only_there", ref="gone")
    append(lake, "b.only_there", 1, ref="gone")
    lake.delete("gone")
    for _ in range(3):
        sweep(lake, grace=ZERO)
    assert [path.name for path in Path(lake.warehouse).iterdir()] == ["a"]
    append(lake, "a.t", 3)
    assert ids(lake) == [1, 2, 3]


# runs


def test_the_branch_of_a_dead_run_is_deleted_but_not_one_that_has_a_lease_or_was_active(lake: Lake) -> None:
    dead, leased, active = (lake.run_branch(id=id_).name for id_ in ("d1", "d2", "d3"))
    append(lake, "a.t", 7, ref=dead)
    with lake.lease([TableName("a", "t")], holder("d2")):
        assert sweep(lake, now=later(days=6)).runs == ()
        swept = sweep(lake, now=later(days=8), keep_runs=timedelta(days=7, hours=23))
        assert {ref.name for ref in swept.runs} == {dead, active}
        assert lake.store.ref(dead) is None
        assert lake.store.ref(leased)
    assert {ref.name for ref in sweep(lake, now=later(days=8)).runs} == {leased}
    for _ in range(2):
        sweep(lake, now=later(days=8), grace=ZERO)
    assert unreachable(lake) == set()
    assert ids(lake) == [1, 2]


def test_a_run_whose_heart_beats_is_not_dead(lake: Lake) -> None:
    """It may hold no lease, having nothing to build."""
    beating, silent = (lake.run_branch(id=id_).name for id_ in ("b1", "b2"))
    now = datetime.now(UTC)
    for id_, beat in (("b1", now), ("b2", now - timedelta(hours=1))):
        lake.store.save_run(Run(id_, "main", f"run_{id_}", RunStatus.RUNNING, "ann", now, beat))
    assert {ref.name for ref in sweep(lake, now=later(days=8)).runs} == {silent}
    ended = Run("b1", "main", beating, RunStatus.FAILED, "ann", now, now, now)
    lake.store.save_run(ended)
    assert {ref.name for ref in sweep(lake, now=later(days=8)).runs} == {beating}


def live_run(lake: Lake, id_: str) -> str:
    """The branch of a run whose heart beats."""
    now = lake.now()
    lake.store.save_run(Run(id_, "main", f"run_{id_}", RunStatus.RUNNING, "ann", now, now))
    return lake.run_branch(id=id_).name


def end(lake: Lake, id_: str, status: RunStatus = RunStatus.FAILED) -> None:
    lake.store.save_run(replace(lake.run(id_), status=status, ended_at=lake.now()))


def test_nothing_dies_that_was_written_since_the_oldest_live_run_began(lake: Lake) -> None:
    """A run that is going on may have written it, and not committed it yet."""
    before = leave_files(lake, 3)
    live_run(lake, "b1")
    since = leave_files(lake, 4)
    live_run(lake, "b2")
    swept = sweep(lake, now=later(days=3), grace=ZERO)
    assert {file.location for file in swept.doomed} == before
    assert swept.kept[Kept.RUN] == len(since)
    assert [live.who for live in swept.live] == ["run b1", "run b2"]
    lake.delete("run_b1")
    assert {file.location for file in sweep(lake, now=later(days=3), grace=ZERO).doomed} == since


@pytest.mark.parametrize("status", [RunStatus.FAILED, RunStatus.CANCELLED, RunStatus.INTERRUPTED])
def test_a_dead_run_holds_back_nothing_but_what_its_branch_reaches(lake: Lake, status: RunStatus) -> None:
    run = live_run(lake, "b1")
    before = files(lake)
    append(lake, "a.t", 7, ref=run)
    built = files(lake) - before
    left = leave_files(lake, 3)
    if status is RunStatus.INTERRUPTED:
        silent = lake.now() - timedelta(minutes=5)
        lake.store.save_run(replace(lake.run("b1"), beat_at=silent))
    else:
        end(lake, "b1", status)
    first = sweep(lake, now=later(days=3), grace=ZERO)
    run = lake.run("b1").branch
    assert {file.location for file in first.doomed} == left
    assert (first.live, [ref.name for ref in first.dead]) == ((), [run])
    assert first.kept[Kept.DEAD_RUN] == len(built)
    assert {file.location for file in sweep(lake, now=later(days=3), grace=ZERO).deleted} == left
    assert ids(lake, run) == [1, 2, 7]


def fall_asleep(lake: Lake, id_: str) -> None:
    lake.store.save_run(replace(lake.run(id_), beat_at=lake.now() - timedelta(minutes=5)))


def test_a_run_that_wakes_after_a_sweep_commits_nothing_that_was_swept(lake: Lake) -> None:
    """Its engine has written files, slept with its lease running out, and commits them when it wakes."""
    run = live_run(lake, "b1")
    append(lake, "a.t", 7, ref=run)
    engine = lake.pyiceberg(run)
    asleep = engine.load_table("a.t")
    fall_asleep(lake, "b1")
    in_flight = leave_files(lake, 8)
    assert {file.location for file in sweep(lake, dry_run=True, now=later(days=3), grace=ZERO).doomed} == in_flight
    assert lake.run("b1").branch == run, "a dry run cuts nobody off"
    assert sweep(lake, now=later(hours=1), grace=DAY).doomed == ()
    assert lake.run("b1").branch == run, "nor does a sweep to which its files are too young"
    sweep(lake, now=later(days=3), grace=ZERO)
    assert len(sweep(lake, now=later(days=3), grace=ZERO).deleted) == len(in_flight)
    with pytest.raises(Exception, match=r"a\.t|run_b1"):
        asleep.append(rows_of(8))
    ended = lake.run("b1")
    assert (ended.status, lake.store.ref(run), ids(lake, ended.branch)) == (RunStatus.INTERRUPTED, None, [1, 2, 7])


def test_a_run_that_is_told_apart_from_a_dead_one_in_time_goes_on(lake: Lake) -> None:
    """It wakes up, beats and commits before it is cut off: all that it has committed is reached."""
    run = live_run(lake, "b1")
    fall_asleep(lake, "b1")
    faults.hook = lambda name: append(lake, "a.t", 7, ref=run) if name == "sweep.silent" else None
    for _ in range(2):
        sweep(lake, now=later(days=3), grace=ZERO)
        faults.hook = None
    assert ids(lake, lake.run("b1").branch) == [1, 2, 7]


def test_a_file_is_kept_for_the_strongest_of_its_reasons(lake: Lake) -> None:
    """What main reaches, too, is not said to be kept by a dead run, nor that by commits that nothing leads to."""
    run = lake.run_branch(id="d1").name
    shared = len(files(lake))
    append(lake, "a.t", 7, ref=run)
    lake.branch("gone", run)
    of_run = len(files(lake)) - shared
    append(lake, "a.t", 8, ref="gone")
    lake.delete("gone")
    unnamed = len(files(lake)) - shared - of_run
    kept = sweep(lake, grace=timedelta(hours=1), dry_run=True).kept
    assert kept == {Kept.REACHABLE: shared, Kept.DEAD_RUN: of_run, Kept.UNNAMED: unnamed}


def test_a_lease_protects_what_was_written_since_it_was_taken(lake: Lake) -> None:
    before = leave_files(lake, 3)
    with lake.lease([TableName("a", "t")], "somebody"):
        since = leave_files(lake, 4)
        swept = sweep(lake, now=later(days=3), grace=ZERO)
    assert ({file.location for file in swept.doomed}, swept.kept[Kept.RUN]) == (before, len(since))


def test_old_aliases_are_deleted(lake: Lake) -> None:
    name = lake.catalog_name("main~1")
    assert sweep(lake).aliases == ()
    assert [ref.name for ref in sweep(lake, now=later(days=2)).aliases] == [name]
    assert lake.refs(RefKind.ALIAS) == []
    assert lake.catalog_name("main~1") == name


# commits


def test_commits_that_no_ref_leads_to_can_be_brought_back_for_a_grace_time(lake: Lake) -> None:
    lake.branch("gone")
    append(lake, "a.t", 3, ref="gone")
    commit = lake.resolve("gone").commit
    lake.delete("gone")
    sweep(lake)
    assert ids(lake, commit.id) == [1, 2, 3]
    swept = sweep(lake, now=later(days=2))
    assert ([each.id for each in swept.commits_doomed], swept.commits) == ([commit.id], ())
    assert sweep(lake, now=later(days=2, hours=23)).commits_doomed == ()
    assert ids(lake, commit.id) == [1, 2, 3]
    swept = sweep(lake, now=later(days=3, minutes=1))
    assert [each.id for each in swept.commits] == [commit.id]
    with pytest.raises(LakeError, match="swept"):
        lake.at(commit.id)
    with pytest.raises(LakeError, match="swept"):
        lake.store.create_ref("back", RefKind.BRANCH, commit, "me", "main")


@pytest.mark.parametrize("keep", [None, timedelta(hours=1)])
def test_a_clock_that_jumps_ahead_gives_up_no_commit_at_once(lake: Lake, keep: timedelta | None) -> None:
    """One sweep by a wrong clock dooms at most; a clock that was set right again counts from then on."""
    overwrite(lake, "a.t", 3)
    left = leave_files(lake, 4)
    gone = max(lake.store.all_commits(), key=lambda each: each.seq)
    hour = timedelta(hours=1)
    swept = sweep(lake, now=later(days=1), grace=hour, keep=keep)
    assert (swept.commits, gone in swept.commits_doomed) == ((), True)
    swept = sweep(lake, now=later(minutes=59), grace=hour, keep=keep)
    assert (swept.commits, swept.deleted) == ((), ())
    assert (ids(lake, "main~1"), ids(lake, gone.id)) == ([1, 2], [3, 4])
    for hours in (3, 4.1):  # and once it has passed by the right one, they go
        swept = sweep(lake, now=later(hours=hours), grace=hour, keep=keep)
    assert gone in swept.commits
    assert left & files(lake) == set()


def test_a_young_commit_stays_whole_though_the_commits_it_builds_on_expire(lake: Lake) -> None:
    """What stands at it may have been put there by a commit that is too old to be kept itself."""
    lake.branch("gone")
    create(lake, "b.old", ref="gone")
    append(lake, "b.old", 5, ref="gone")
    append(lake, "a.t", 3, ref="gone")
    young = lake.resolve("gone").commit
    lake.delete("gone")
    with closing(sqlite3.connect(lake.root / "catalog.db")) as connection, connection:
        connection.execute("UPDATE mere_commits SET at = '2026-01-01T00:00:00.000Z' WHERE seq < ?", (young.seq,))
    for _ in range(2):
        sweep(lake, grace=timedelta(hours=1), now=later(minutes=59))
    for location in files(lake):  # all of them old enough, whatever wrote them
        os.utime(location, (0, 0))
    for _ in range(2):
        sweep(lake, grace=timedelta(hours=1), now=later(minutes=59))
        lake.store.set_doomed(dict.fromkeys(lake.store.doomed(), datetime(2026, 1, 1, tzinfo=UTC)))
    assert ids(lake, young.id) == [1, 2, 3]
    assert ids(lake, young.id, "b.old") == [5]
    assert unreachable(lake) == set()


def test_with_keep_old_history_goes_but_not_what_a_ref_or_an_unpublished_branch_needs(lake: Lake) -> None:
    lake.tag("v1")
    append(lake, "a.t", 3)
    lake.branch("dev")
    create(lake, "a.u", ref="dev")
    append(lake, "a.u", 4, ref="dev")
    overwrite(lake, "a.u", 5, ref="dev")
    overwrite(lake, "a.t", 6)
    overwrite(lake, "a.t", 7)
    history = [commit.id for commit in lake.log("main")]
    for _ in range(3):
        swept = sweep(lake, now=later(days=31), keep=timedelta(days=30), grace=ZERO)
    assert swept.commits == ()
    assert unreachable(lake) == set()
    assert [ids(lake, ref) for ref in ("main", "v1", "dev")] == [[7], [1, 2], [1, 2, 3]]
    with pytest.raises(LakeError, match="swept"):
        lake.at("main~1")
    assert [commit.id for commit in lake.log("main")] == history
    assert ids(lake, "dev~1", "a.u") == [4]
    lake.publish("dev")
    assert (ids(lake), ids(lake, table="a.u")) == ([7], [5])


def test_with_keep_a_conflict_with_an_old_branch_is_still_found(lake: Lake) -> None:
    lake.branch("dev")
    overwrite(lake, "a.t", 4, ref="dev")
    overwrite(lake, "a.t", 5)
    for _ in range(3):
        sweep(lake, now=later(days=31), keep=timedelta(days=30), grace=ZERO)
    with pytest.raises(LakeConflict):
        lake.publish("dev")


def test_the_beginning_of_the_lake_never_expires(lake: Lake) -> None:
    sweep(lake, now=later(days=31), keep=ZERO, grace=ZERO)
    (root,) = [commit for commit in lake.log("main") if commit.kind is CommitKind.ROOT]
    assert list(lake.at(root.id)) == []


def test_a_commit_at_which_a_ref_was_just_made_does_not_expire(lake: Lake) -> None:
    leave_files(lake, 3)
    commit = max(lake.store.all_commits(), key=lambda each: each.seq)

    def make_branch(name: str) -> None:
        if name == "sweep.refs":
            lake.branch("back", at=commit.id)

    sweep(lake, grace=ZERO)
    faults.hook = make_branch
    assert [each.id for each in sweep(lake, grace=ZERO).commits] == [commit.id]
    faults.hook = None
    for _ in range(2):
        sweep(lake, grace=ZERO)
    assert ids(lake, "back") == [1, 2, 3]


def test_a_run_that_woke_up_is_not_deleted(lake: Lake) -> None:
    run = lake.run_branch().name
    faults.hook = lambda name: append(lake, "a.t", 3, ref=run) if name == "sweep.reached" else None
    sweep(lake, now=later(days=8))
    assert ids(lake, run) == [1, 2, 3]


# dry run


def test_a_dry_run_reports_the_same_and_changes_nothing(lake: Lake) -> None:
    run = lake.run_branch().name
    append(lake, "a.t", 3, ref=run)
    lake.catalog_name("main~1")
    leave_files(lake, 4)
    now, first = later(days=9), files(lake)
    for _ in range(3):
        state, content = database(lake), files(lake)
        dry = sweep(lake, dry_run=True, now=now)
        assert (database(lake), files(lake)) == (state, content)
        assert replace(sweep(lake, now=now), dry_run=True) == dry
        now += DAY
    assert files(lake) < first


# what cannot be read


def test_a_file_that_cannot_be_read_stops_the_sweep_before_anything_changes(lake: Lake) -> None:
    leave_files(lake, 3)
    sweep(lake, grace=ZERO)
    leave_files(lake, 4)
    lake.run_branch()
    (manifest,) = [name for name in reachable(lake, "main") if name.endswith("m0.avro")]
    content = Path(manifest).read_bytes()
    Path(manifest).write_bytes(content[:-5])
    state, before = database(lake), files(lake)
    with pytest.raises(LakeUnreadable, match="the sweep stopped") as caught:
        sweep(lake, grace=ZERO, now=later(days=9))
    assert manifest in caught.value.message
    Path(manifest).unlink()
    with pytest.raises(MetadataMissing, match="the sweep stopped"):
        sweep(lake, grace=ZERO, now=later(days=9))
    Path(manifest).write_bytes(content)
    assert (database(lake), files(lake)) == (state, before)
    assert sweep(lake, grace=ZERO, now=later(days=9)).deleted


def reachable(lake: Lake, ref: str) -> set[str]:
    reach = Reach(lake.storage)
    for table in lake.at(ref):
        reach.add(lake.at(ref).pointer(table))
    return set(reach)


def test_a_file_that_cannot_be_deleted_is_named_and_the_next_sweep_goes_on(lake: Lake) -> None:
    class Guarded(LocalStorage):
        def delete(self, *locations: str) -> None:
            for location in locations:
                if location.endswith(".parquet"):
                    raise LakeUnreadable(f"{location} cannot be deleted: Permission denied.")
                super().delete(location)

    left = leave_files(lake, 3)
    sweep(lake, grace=ZERO)
    lake.storage = Guarded()
    with pytest.raises(LakeError, match=r"\.parquet cannot be deleted: Permission denied"):
        sweep(lake, grace=ZERO)
    lake.storage = LocalStorage()
    sweep(lake, grace=ZERO)
    assert not left & files(lake)


# crashes


class Crash(BaseException):
    """Not an Exception: no handler may mend it, as none can mend a kill."""


STEPS = ["sweep.reached", "sweep.refs", "sweep.expired", "sweep.doomed", "sweep.batch", "sweep.deleted"]


def crash_at(step: str) -> Callable[[str], None]:
    def hook(name: str) -> None:
        if name == step:
            raise Crash(name)

    return hook


@pytest.mark.parametrize("step", STEPS)
def test_a_sweep_that_dies_at_any_step_loses_nothing_and_the_next_one_goes_on(lake: Lake, step: str) -> None:
    append(lake, "a.t", 9, ref=lake.run_branch().name)
    leave_files(lake, 3)
    sweep(lake, grace=ZERO, keep_runs=ZERO)
    append(lake, "a.t", 9, ref=lake.run_branch().name)
    leave_files(lake, 4)
    faults.hook = crash_at(step)
    with pytest.raises(Crash):
        sweep(lake, grace=ZERO, keep_runs=ZERO)
    faults.hook = None
    assert ids(lake) == [1, 2]
    for _ in range(2):
        sweep(lake, grace=ZERO, keep_runs=ZERO)
    assert unreachable(lake) == set()
    assert lake.store.doomed() == {}
    assert lake.refs(RefKind.RUN) == []
    assert ids(lake) == [1, 2]


# all together


class Lakeside:
    """Somebody who does anything, and remembers what every commit showed."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.lake = lake
        self.random = random.Random(seed)
        self.seen: dict[str, dict[str, list[int]]] = {}
        self.count = 0
        self.remember()

    def step(self) -> None:
        verbs = [self.write] * 4 + [self.publish] * 2
        verbs += [self.branch, self.revert, self.restore, self.delete, self.drop, self.tag]
        try:
            self.random.choice(verbs)()
        except MetadataMissing:
            raise
        except LakeError:
            pass  # a conflict, or nothing left to do it to
        self.remember()

    def remember(self) -> None:
        for ref in self.lake.refs():
            commit = self.lake.resolve(ref.name).commit
            if commit.id not in self.seen:
                self.seen[commit.id] = self.shown(commit.id)

    def shown(self, ref: str) -> dict[str, list[int]]:
        return {str(table): ids(self.lake, ref, str(table)) for table in self.lake.at(ref)}

    def some_branch(self, *, but_main: bool = False) -> str:
        names = [ref.name for ref in self.lake.refs(RefKind.BRANCH, RefKind.RUN)]
        return self.random.choice([name for name in names if not (but_main and name == "main")] or ["main"])

    def write(self) -> None:
        ref, self.count = self.some_branch(), self.count + 1
        table = self.random.choice(["a.t", "a.u", "b.v"])
        if table not in self.lake.at(ref):
            create(self.lake, table, ref)
        if self.random.random() < 0.2:
            delete(self.lake, table, f"id < {self.count // 2}", ref)
        else:
            self.random.choice([append, append, overwrite])(self.lake, table, self.count, ref=ref)

    def branch(self) -> None:
        self.count += 1
        if self.random.random() < 0.5:
            self.lake.run_branch(self.some_branch())
        else:
            self.lake.branch(f"branch_{self.count}", self.some_branch())

    def tag(self) -> None:
        self.count += 1
        self.lake.tag(f"tag_{self.count}", self.random.choice(list(self.seen)))

    def publish(self) -> None:
        self.lake.publish(self.some_branch(but_main=True))

    def revert(self) -> None:
        branch = self.some_branch()
        self.lake.revert(self.random.choice([commit.id for commit in self.lake.log(branch)]), on=branch)

    def restore(self) -> None:
        self.lake.restore(self.random.choice(list(self.seen)), on=self.some_branch())

    def delete(self) -> None:
        self.lake.delete(self.random.choice([ref.name for ref in self.lake.refs()]))

    def drop(self) -> None:
        branch = self.some_branch()
        self.lake.drop(str(self.random.choice(list(self.lake.at(branch)) or ["a.t"])), on=branch)

    def check(self) -> None:
        commits = {commit.id: commit for commit in self.lake.store.all_commits()}
        for id_, shown in self.seen.items():
            if not commits[id_].expired:
                assert self.shown(id_) == shown
        for ref in self.lake.refs():
            assert self.shown(ref.name) == self.seen[self.lake.resolve(ref.name).commit.id]


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_every_ref_and_kept_commit_stays_readable_and_no_file_is_left_over(
    tmp_path: Path, seed: int
) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        someone = Lakeside(lake, seed)
        for _ in range(4):
            for _ in range(10):
                someone.step()
            keep = someone.random.choice([None, None, timedelta(days=8)])
            for _ in range(2):
                sweep(lake, grace=ZERO, keep=keep, now=later(days=9))
            someone.check()
            assert unreachable(lake) == set()
