"""A process that dies at any step of a fork, publish, revert or drop: the lake is entirely before or entirely after."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mere.lake import faults
from mere.lake.commits import Entries
from mere.lake.lake import Lake
from tests.lake.foreign import Foreign, ForeignOnPostgres
from tests.services.postgres import Postgres


class Crash(BaseException):
    """Not an Exception: no handler may mend it, as none can mend a kill."""


Verb = Callable[[Lake], object]
VERBS: dict[str, Verb] = {
    "publish": lambda lake: lake.publish("dev"),
    "publish of a run": lambda lake: lake.publish(next(r.name for r in lake.refs() if r.name.startswith("run_"))),
    "revert": lambda lake: lake.revert("main"),
    "drop": lambda lake: lake.drop("a.t", "a.u"),
    "fork": lambda lake: lake.branch("new"),
}
_COMMIT = ["commit.begun", "commit.checked", "commit.moved", "commit.recorded", "commit.followed", "commit.durable"]
POINTS = {
    "publish": ["publish.prepared", *_COMMIT],
    "publish of a run": ["publish.prepared", *_COMMIT],
    "revert": _COMMIT,
    "drop": _COMMIT,
    "fork": ["fork.filled"],
}
STEPS = [(verb, point) for verb, points in POINTS.items() for point in points]


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    yield
    faults.hook = None


@pytest.fixture(params=["sqlite", "postgres"])
def catalog(request: pytest.FixtureRequest, postgres_server: Postgres) -> str | None:
    return postgres_server.new_database(f"lake_{secrets.token_hex(6)}") if request.param == "postgres" else None


def engine_on(lake: Lake, catalog: str | None) -> Foreign:
    return ForeignOnPostgres(lake, catalog) if catalog else Foreign(lake)


def prepared(folder: Path, catalog: str | None) -> Lake:
    """Main with two tables in one commit, and a branch and a run that each changed both and added one."""
    lake = Lake.create(folder, catalog=catalog)
    engine = engine_on(lake, catalog)
    lake.branch("first")
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
def test_the_points_of_failure_are_all_known(verb: str, tmp_path: Path, catalog: str | None) -> None:
    lake = prepared(tmp_path / "lake", catalog)
    reached: list[str] = []
    faults.hook = reached.append
    VERBS[verb](lake)
    assert reached == POINTS[verb]


@pytest.mark.parametrize(("verb", "point"), STEPS)
def test_a_failure_leaves_the_lake_before_or_after(verb: str, point: str, tmp_path: Path, catalog: str | None) -> None:
    lake = prepared(tmp_path / "lake", catalog)
    before = everything(lake)

    def fail(name: str) -> None:
        if name == point:
            raise Crash

    faults.hook = fail
    with pytest.raises(Crash):
        VERBS[verb](lake)
    faults.hook = None
    assert_before_or_after(lake, catalog, verb, before, done=point == "commit.durable")


@pytest.mark.parametrize(
    ("verb", "point"),
    [("publish", "commit.moved"), ("publish", "commit.durable"), ("publish of a run", "commit.followed")],
)
def test_a_killed_process_leaves_the_lake_before_or_after(
    verb: str, point: str, tmp_path: Path, catalog: str | None
) -> None:
    lake = prepared(tmp_path / "lake", catalog)
    before = everything(lake)
    script = f"""
import os, signal
from mere.lake import faults
from mere.lake.lake import Lake
faults.hook = lambda name: name == {point!r} and os.kill(os.getpid(), signal.SIGKILL)
from tests.lake.test_crash import VERBS
VERBS[{verb!r}](Lake.open({str(lake.root)!r}, catalog={catalog!r}))
"""
    killed = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert_before_or_after(lake, catalog, verb, before, done=point == "commit.durable")


def assert_before_or_after(
    lake: Lake, catalog: str | None, verb: str, before: dict[str, tuple[str, Entries]], *, done: bool
) -> None:
    """Whole, by every reader's view; and the next command works."""
    lake.close()
    reopened = Lake.open(lake.root, catalog=catalog)
    state = everything(reopened)
    assert (state != before) is done
    for commit, entries in state.values():
        assert reopened.at(commit).entries == entries
    if not done:
        VERBS[verb](reopened)
        assert everything(reopened) != before
    engine_on(reopened, catalog).append("main", "a.later")
    assert next(reopened.log()).message == "append a.later"
    reopened.close()
