"""Branches and tags deleted by name and pattern, and the branches of dead runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mere.errors import LakeError, LeaseHeld, ReadOnlyRef, RefNotFound
from mere.lake import faults
from mere.lake.lake import Lake
from mere.lake.log.refs import Ref, RefKind
from mere.lake.log.runs import Run, RunStatus, holder
from mere.names import TableName

BRANCHES = (RefKind.BRANCH, RefKind.RUN)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        for name in ("dev", "try-a", "try-b"):
            lake.branch(name)
        lake.tag("try-tag")
        yield lake


def run(lake: Lake, id_: str, status: RunStatus) -> str:
    now = lake.now()
    lake.store.save_run(Run(id_, "main", f"run_{id_}", status, "ann", now, now))
    return lake.run_branch(id=id_).name


def names(refs: tuple[Ref, ...] | list[Ref]) -> list[str]:
    return sorted(ref.name for ref in refs)


def test_names_and_patterns_choose_what_is_deleted(lake: Lake) -> None:
    assert names(lake.delete_matching("try-*", "dev", "dev", kinds=BRANCHES, dry_run=True).refs) == [
        "dev",
        "try-a",
        "try-b",
    ]
    assert len(lake.refs(*BRANCHES)) == 4
    assert names(lake.delete_matching("try-[a]", "dev", kinds=BRANCHES).refs) == ["dev", "try-a"]
    assert names(lake.delete_matching("*", kinds=BRANCHES).refs) == ["try-b"]
    assert names(lake.refs()) == ["main", "try-tag"]
    assert names(lake.delete_matching("try*", kinds=[RefKind.TAG]).refs) == ["try-tag"]


@pytest.mark.parametrize(
    ("bad", "error", "text"),
    [
        ("devv", RefNotFound, "no branch or tag 'devv'. Did you mean dev"),
        ("try-tag", RefNotFound, "is a tag, not a branch"),
        ("tr-*", RefNotFound, "No branch matches 'tr-[*]'"),
        ("main", ReadOnlyRef, "main cannot be deleted"),
    ],
)
def test_if_one_cannot_be_deleted_none_is(lake: Lake, bad: str, error: type[LakeError], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        lake.delete_matching("dev", bad, kinds=BRANCHES)
    assert "Nothing was deleted." in caught.value.message
    assert lake.store.ref("dev")


def test_a_pattern_passes_over_a_run_that_is_going_on(lake: Lake) -> None:
    dead, live = run(lake, "d1", RunStatus.FAILED), run(lake, "b1", RunStatus.RUNNING)
    with pytest.raises(LeaseHeld, match=r"Run b1 is still writing to run_b1\. Nothing was deleted"):
        lake.delete_matching("dev", live, kinds=BRANCHES)
    done = lake.delete_matching("run_*", kinds=BRANCHES)
    assert (names(done.refs), names(done.spared)) == ([dead], [live])
    assert (lake.store.ref(dead), lake.store.ref(live) is None) == (None, False)


def test_cleaning_deletes_the_branches_of_all_dead_runs_and_keeps_their_records(lake: Lake) -> None:
    dead = [run(lake, status.value, status) for status in (RunStatus.FAILED, RunStatus.CANCELLED)]
    live = run(lake, "b1", RunStatus.RUNNING)
    with lake.lease([TableName("a", "t")], holder("leased")):
        leased = lake.run_branch(id="leased").name
        assert names(lake.clean_runs(dry_run=True).refs) == sorted(dead)
        assert lake.clean_runs(timedelta(hours=1)).refs == ()
        done = lake.clean_runs()
    assert (names(done.refs), names(done.spared)) == (sorted(dead), sorted([live, leased]))
    assert sorted(each.status for each in lake.runs()) == ["cancelled", "failed", "running"]
    assert names(lake.refs(RefKind.RUN)) == sorted([live, leased])


def test_cleaning_leaves_a_run_alone_that_wakes_up_meanwhile(lake: Lake) -> None:
    name = run(lake, "d1", RunStatus.FAILED)
    faults.hook = lambda _: lake.pyiceberg(name).create_namespace_if_not_exists("awake")
    try:
        assert lake.clean_runs().refs == ()
    finally:
        faults.hook = None
    assert lake.at(name).namespaces == ["awake"]
