"""A process that dies at any step of a fork, publish, revert or drop: the lake is entirely before or entirely after."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mere.lake import faults
from mere.lake.lake import Lake
from mere.lake.log.commits import Entries
from tests.lake.places import LOCAL, POSTGRES, S3, Kept, Place, place


class Crash(BaseException):
    """Not an Exception: no handler may mend it, as none can mend a kill."""


Verb = Callable[[Lake], object]
VERBS: dict[str, Verb] = {
    "publish": lambda lake: lake.publish("dev"),
    "publish of a run": lambda lake: lake.publish(next(r.name for r in lake.refs() if r.name.startswith("run_"))),
    "revert": lambda lake: lake.revert("main"),
    "drop": lambda lake: lake.drop("a.t", "a.u"),
    "fork": lambda lake: lake.branch("new"),
    "rebase": lambda lake: lake.rebase("behind"),
}
_COMMIT = ["commit.begun", "commit.checked", "commit.moved", "commit.recorded", "commit.followed", "commit.durable"]
POINTS = {
    "publish": ["publish.prepared", *_COMMIT],
    "publish of a run": ["publish.prepared", *_COMMIT],
    "revert": _COMMIT,
    "drop": _COMMIT,
    "fork": ["fork.filled"],
    "rebase": ["rebase.prepared", "rebase.begun", "rebase.followed", "rebase.recorded", "rebase.durable"],
}
STEPS = [(verb, point) for verb, points in POINTS.items() for point in points]


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    yield
    faults.hook = None


@pytest.fixture(scope="module", params=[LOCAL, POSTGRES, pytest.param(S3, marks=pytest.mark.long)])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    at = place(request.param, tmp_path_factory.mktemp("crash"), request)
    prepared(at).close()
    return Kept(at, request)


@pytest.fixture
def at(kept: Kept) -> Place:
    return kept.again()


def prepared(at: Place) -> Lake:
    """Main with two tables in one commit, a branch and a run that each changed both and added one, and a branch from
    before that commit."""
    lake = at.create()
    engine = at.engine(lake)
    lake.branch("first")
    lake.branch("behind")
    engine.append("behind", "a.own", 1)
    for table in ("a.t", "a.u"):
        engine.append("first", table, 1)
    lake.publish("first")
    for branch in (lake.branch("dev").name, lake.run_branch().name):
        for table in ("a.t", "a.u", "a.new"):
            engine.append(branch, table, 2)
    return lake


def everything(lake: Lake) -> dict[str, tuple[str, Entries]]:
    return {ref.name: (lake.at(ref.name).commit.id, lake.at(ref.name).entries) for ref in lake.refs()}


@pytest.mark.parametrize("verb", VERBS)
def test_the_points_of_failure_are_all_known(verb: str, at: Place) -> None:
    lake = at.open()
    reached: list[str] = []
    faults.hook = reached.append
    VERBS[verb](lake)
    assert reached == POINTS[verb]


@pytest.mark.parametrize(("verb", "point"), STEPS)
def test_a_failure_leaves_the_lake_before_or_after(verb: str, point: str, at: Place) -> None:
    lake = at.open()
    before = everything(lake)

    def fail(name: str) -> None:
        if name == point:
            raise Crash

    faults.hook = fail
    with pytest.raises(Crash):
        VERBS[verb](lake)
    faults.hook = None
    assert_before_or_after(lake, at, verb, before, done=point.endswith(".durable"))


@pytest.mark.parametrize(
    ("verb", "point"),
    [("publish", "commit.moved"), ("publish", "commit.durable"), ("publish of a run", "commit.followed")],
)
def test_a_killed_process_leaves_the_lake_before_or_after(verb: str, point: str, at: Place) -> None:
    lake = at.open()
    before = everything(lake)
    script = f"""
import os, signal
from mere.lake import faults
from mere.lake.lake import Lake
faults.hook = lambda name: name == {point!r} and os.kill(os.getpid(), signal.SIGKILL)
from tests.lake.store.test_crash import VERBS
VERBS[{verb!r}](Lake.open({at.path!r}, catalog={at.catalog!r}))
"""
    killed = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[3], env=at.environment, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert_before_or_after(lake, at, verb, before, done=point.endswith(".durable"))


def assert_before_or_after(
    lake: Lake, at: Place, verb: str, before: dict[str, tuple[str, Entries]], *, done: bool
) -> None:
    """Whole, by every reader's view; and the next command works."""
    lake.close()
    reopened = at.open()
    state = everything(reopened)
    assert (state != before) is done
    for commit, entries in state.values():
        assert reopened.at(commit).entries == entries
    if not done:
        VERBS[verb](reopened)
        assert everything(reopened) != before
    at.engine(reopened).append("main", "a.later")
    assert next(iter(reopened.log())).message == "append a.later"
    reopened.close()
