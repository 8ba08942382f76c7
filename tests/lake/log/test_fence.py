"""A run that was handed over, or that has lost its leases, changes nothing any more: on every database."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mere.errors import LeaseHeld, MereError, RefNotFound, Unsigned
from mere.lake import faults
from mere.lake.lake import Lake
from mere.lake.log import process
from mere.lake.log.commits import Key
from mere.lake.log.fence import Fence
from mere.lake.log.process import Process
from mere.lake.log.runs import Run, RunStatus, holder
from mere.lake.refs import attempts
from mere.lake.store.port import Moved
from mere.lake.store.sql import SqlStore
from mere.names import TableName, next_attempt, run_of
from tests.lake.foreign import Foreign
from tests.lake.places import LOCAL, POSTGRES, Place, place

TABLE = TableName("a", "t")


@pytest.fixture(params=[LOCAL, POSTGRES])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, tmp_path, request)


@pytest.fixture
def begun(lake: Lake, engine: Foreign) -> Run:
    """A run that has written one table."""
    engine.append("main", "a.t", 1)
    return begin(lake, engine)


def begin(lake: Lake, engine: Foreign, id_: str = "r1") -> Run:
    branch = lake.run_branch(id=id_).name
    engine.append(branch, "a.t", 2)
    now = lake.now()
    run = Run(id_, "main", branch, RunStatus.RUNNING, "ann", now, now)
    assert lake.store.save_run(run)
    return run


def signed(lake: Lake, branch: str) -> Fence:
    """As a run that has built all that is there."""
    return Fence("r1", "main", {Key.of(table): lake.at(branch).entry(table) for table in lake.at(branch)})


def test_the_branches_of_a_run_are_numbered() -> None:
    assert next_attempt("run_3fa9") == "run_3fa9_2"
    assert next_attempt("run_3fa9_2") == "run_3fa9_3"
    assert next_attempt("run_3fa9_9") == "run_3fa9_10"
    assert [run_of(branch) for branch in ("run_3fa9", "run_3fa9_2", "run_3fa9_10")] == ["3fa9"] * 3


def test_a_run_that_was_handed_over_is_cut_off_from_all_it_could_do(lake: Lake, engine: Foreign, begun: Run) -> None:
    old = lake.at(begun.branch).entries
    pointer = lake.at(begun.branch).pointer("a.t")
    leased = lake.lease([TABLE], holder("r1"))
    with leased as held:
        later = attempts.take_over(lake.store, begun, begun)
        assert later.branch == "run_r1_2"
        assert lake.at(later.branch).entries == old
        assert lake.store.leases() == []
        with pytest.raises(LeaseHeld):
            held.check()
    with pytest.raises(AssertionError, match="moved by somebody else"):
        engine.put(begun.branch, "a.t", pointer, pointer.replace("-", "_"))  # the row of the catalog is gone
    with pytest.raises(Exception, match="no branch of this lake has that name"):
        engine.append(begun.branch, "a.new")
    for act in (lake.publish, lake.rebase, lambda name: lake.set_properties({"a.t": {"x": "y"}}, on=name)):
        with pytest.raises(RefNotFound):
            act(begun.branch)
    assert not lake.store.beat_run("r1", begun.branch)
    assert not lake.store.save_run(replace(begun, status=RunStatus.FAILED))
    assert lake.run("r1").branch == later.branch
    assert lake.store.beat_run("r1", later.branch)
    engine.append(later.branch, "a.t", 1)
    assert lake.publish(later.branch).commit
    assert lake.at().metadata("a.t").rows == 4


def test_only_one_of_two_takes_a_run(lake: Lake, begun: Run) -> None:
    attempts.take_over(lake.store, begun, begun)
    with pytest.raises(Moved):
        attempts.take_over(lake.store, begun, begun)
    assert [ref.name for ref in lake.refs()] == ["main", "run_r1_2"]


def test_whoever_has_lost_a_run_cannot_end_it_either(lake: Lake, begun: Run) -> None:
    """By the branch that it had, though there is none to rename."""
    later = attempts.take_over(lake.store, begun, begun)
    with pytest.raises(Moved):
        lake.store.hand_over(begun.branch, replace(begun, status=RunStatus.FAILED))
    found = lake.store.run("r1")
    assert found is not None
    assert (found.branch, found.status) == (later.branch, RunStatus.RUNNING)


def test_a_run_that_was_just_published_is_not_taken(lake: Lake, begun: Run) -> None:
    assert lake.publish(begun.branch, run="r1").commit
    with pytest.raises(Moved):
        attempts.take_over(lake.store, begun, begun)
    found = lake.store.run("r1")
    assert found is not None
    assert (found.branch, found.status) == (begun.branch, RunStatus.RUNNING)
    assert [ref.name for ref in lake.refs()] == ["main"]


def test_the_history_of_a_branch_goes_on_under_its_new_name(lake: Lake, engine: Foreign, begun: Run) -> None:
    before = [commit.id for commit in lake.log(begun.branch)]
    later = attempts.take_over(lake.store, begun, begun)
    assert [commit.id for commit in lake.log(later.branch)] == before
    engine.append("main", "a.other", 1)
    rebased = lake.rebase(later.branch)
    assert [str(change.key) for change in rebased.kept] == ["a.t"]
    published = lake.publish(later.branch)
    assert [str(change.key) for change in published.changes] == ["a.t"]


def test_a_run_publishes_what_it_has_signed(lake: Lake, begun: Run) -> None:
    assert lake.publish(begun.branch, fence=signed(lake, begun.branch)).commit
    assert lake.at().metadata("a.t").rows == 3


@pytest.mark.parametrize("how", ["changed", "made", "dropped", "put back"])
def test_what_a_run_has_not_signed_is_not_published(lake: Lake, engine: Foreign, begun: Run, how: str) -> None:
    fence = signed(lake, begun.branch)
    before = lake.at().entries
    if how == "changed":
        engine.append(begun.branch, "a.t", 1)
    elif how == "made":
        engine.append(begun.branch, "a.new", 1)
    elif how == "dropped":
        lake.drop("a.t", on=begun.branch)
    else:
        lake.restore("main", on=begun.branch)  # then there is nothing to publish, but the run would say that it is done
    name = "a.new" if how == "made" else "a.t"
    with pytest.raises(Unsigned, match=f"run r1 was changed by somebody else: {name} .* Nothing was published"):
        lake.publish(begun.branch, fence=fence)
    assert lake.at().entries == before
    assert lake.store.ref(begun.branch)


def test_a_table_that_was_put_back_does_not_leave_the_rest_to_be_published(
    lake: Lake, engine: Foreign, begun: Run
) -> None:
    """It is no change any more, so that the changes tell nothing of it: half a run would be published."""
    engine.append(begun.branch, "a.other", 1)
    fence = signed(lake, begun.branch)
    before = lake.at().entries
    engine.put(begun.branch, "a.t", lake.at(begun.branch).pointer("a.t"), lake.at().pointer("a.t"))
    with pytest.raises(Unsigned, match=r"run r1 was changed by somebody else: a\.t on it"):
        lake.publish(begun.branch, fence=fence)
    assert lake.at().entries == before


def test_a_pointer_that_moved_past_the_guards_is_not_published(lake: Lake, begun: Run) -> None:
    """The log tells nothing of it: it is seen in the transaction alone."""
    fence = signed(lake, begun.branch)
    before = lake.at().entries
    past_the_guards(lake, f"UPDATE iceberg_tables SET metadata_location = 'x' WHERE catalog_name = '{begun.branch}'")
    with pytest.raises(Unsigned, match=r"run r1 was changed by somebody else: a\.t on it"):
        lake.publish(begun.branch, fence=fence)
    assert lake.at().entries == before


def past_the_guards(lake: Lake, sql: str) -> None:
    store = lake.store
    assert isinstance(store, SqlStore)
    with store._write() as tx:
        tx.run(sql)


def test_a_run_whose_lease_was_taken_does_not_publish(lake: Lake, begun: Run) -> None:
    mine, theirs = holder("r1"), holder("r2")
    assert lake.store.acquire("main", [TABLE], mine, timedelta(minutes=1)) == []
    fence = replace(signed(lake, begun.branch), holder=mine, leased=(TABLE,))
    assert lake.store.renew(mine, -timedelta(seconds=1))
    before = lake.at().entries
    assert lake.store.acquire("main", [TABLE], theirs, timedelta(minutes=1)) == []
    with pytest.raises(LeaseHeld, match=r"run r1 has lost its lease on a\.t"):
        lake.publish(begun.branch, fence=fence)
    assert lake.at().entries == before
    lake.store.release("main", [TABLE], theirs)
    with pytest.raises(LeaseHeld):
        lake.publish(begun.branch, fence=fence)
    assert lake.store.acquire("main", [TABLE], mine, timedelta(minutes=1)) == []
    assert lake.publish(begun.branch, fence=fence).commit


def test_nobody_takes_a_lease_between_the_look_at_it_and_the_publish(
    at: Place, lake: Lake, begun: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has expired, so that another run may have it; it waits until this one is published."""
    mine, theirs = holder("r1"), holder("r2")
    assert lake.store.acquire("main", [TABLE], mine, timedelta(minutes=1)) == []
    assert lake.store.renew(mine, -timedelta(seconds=1))
    taken: list[str | None] = []

    def take() -> None:
        with at.open() as other:
            assert other.store.acquire("main", [TABLE], theirs, timedelta(minutes=1)) == []
            taken.append(next(iter(other.log())).run)

    taking = threading.Thread(target=take)

    def looked(point: str) -> None:
        if point == "commit.checked":
            taking.start()
            taking.join(1)
            assert not taken

    monkeypatch.setattr(faults, "hook", looked)
    fence = replace(signed(lake, begun.branch), holder=mine, leased=(TABLE,))
    assert lake.publish(begun.branch, run="r1", fence=fence).commit
    taking.join(30)
    assert taken == ["r1"]


# the end of a run


def test_a_run_can_be_ended_once(lake: Lake, begun: Run) -> None:
    assert lake.store.acquire("main", [TABLE], holder("r1"), timedelta(minutes=1)) == []
    ended = lake.end_run("r1", author="bob")
    assert (ended.already, ended.was_alive, ended.branch) == (False, True, "run_r1_2")
    assert [lease.table for lease in ended.released] == [TABLE]
    assert lake.run("r1").status is RunStatus.CANCELLED
    assert lake.run("r1").about["error"] == "ended by bob"
    assert not lake.store.beat_run("r1", begun.branch)
    again = lake.end_run("r1")
    assert (again.already, again.branch, again.run) == (True, "run_r1_2", lake.run("r1"))
    with pytest.raises(MereError, match=r"no run 'r2'"):
        lake.end_run("r2")


def test_a_run_that_died_when_it_had_published_has_succeeded(lake: Lake, begun: Run) -> None:
    commit = lake.publish(begun.branch, run="r1").commit
    assert commit
    ended = lake.end_run("r1")
    assert (ended.run.status, ended.run.about["commit"], ended.branch) == (RunStatus.SUCCEEDED, commit.id, None)
    assert lake.run("r1").status is RunStatus.SUCCEEDED


def test_a_run_whose_branch_was_deleted_can_be_ended(lake: Lake, begun: Run) -> None:
    lake.delete(begun.branch)
    ended = lake.end_run("r1")
    assert (ended.run.status, ended.branch) == (RunStatus.CANCELLED, None)
    assert lake.end_run("r1").already


# processes


def ended_process() -> Process:
    """One that has lived on this machine."""
    done = subprocess.run([sys.executable, "-c", _script()], check=True, capture_output=True, text=True)
    return Process.from_json(json.loads(done.stdout))


def _script() -> str:
    return (
        "import json, pathlib; from mere.lake.log import process;"
        f" process._PROC = pathlib.Path({str(process._PROC)!r});"
        " print(json.dumps(process.Process.mine().to_json()))"
    )


@pytest.fixture(params=["/proc", "/no/proc"])
def _with_or_without_proc(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has none: `ps` tells there."""
    monkeypatch.setattr(process, "_PROC", Path(request.param))


@pytest.mark.usefixtures("_with_or_without_proc")
def test_a_process_of_this_machine_is_seen_to_be_gone() -> None:
    mine = Process.mine()
    assert Process.from_json(mine.to_json()) == mine
    assert not mine.is_gone
    gone = ended_process()
    assert gone.is_gone
    assert mine.started is not None
    earlier = mine.started - 1 if isinstance(mine.started, int) else "Thu Jan 1 00:00:00 1970"
    assert replace(mine, started=earlier).is_gone, "another process has its number"
    for elsewhere in ({"host": "other"}, {"boot": "0"}, {"namespace": "pid:[1]"}, {"boot": None}, {"started": None}):
        assert not replace(gone, **elsewhere).is_gone, elsewhere


@pytest.mark.usefixtures("_with_or_without_proc")
def test_a_process_that_nobody_has_waited_for_is_gone() -> None:
    script = f"{_script()}; input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", script], text=True, **pipes) as child:  # type: ignore[call-overload]
        started = Process.from_json(json.loads(child.stdout.readline()))
        assert not started.is_gone
        child.kill()
        deadline = time.monotonic() + 20
        while not started.is_gone:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_dead_process_does_not_keep_its_tables(lake: Lake, engine: Foreign, begun: Run) -> None:
    dead = replace(begun, about={"process": ended_process().to_json()})
    lake.store.save_run(dead)
    assert lake.store.acquire("main", [TABLE], holder("r1"), timedelta(minutes=1)) == []
    assert lake.run("r1").status is RunStatus.INTERRUPTED
    with lake.lease([TABLE], holder("r2")):
        pass
    assert lake.store.run("r1").status is RunStatus.INTERRUPTED  # type: ignore[union-attr]
    assert lake.store.ref(begun.branch) is None
    asleep = replace(begin(lake, engine, "r3"), about={"process": Process.mine().to_json()})
    lake.store.save_run(asleep)
    assert lake.store.acquire("main", [TABLE], holder("r3"), timedelta(minutes=1)) == []
    with pytest.raises(LeaseHeld, match="mere runs end r3") as refused, lake.lease([TABLE], holder("r2")):
        pass
    assert refused.value.remedy
