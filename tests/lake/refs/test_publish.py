"""A publish of exactly what was seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mere.errors import LakeConflict, RefNotFound
from mere.lake import faults
from mere.lake.lake import Lake
from tests.lake import iceberg_tables


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        iceberg_tables.create(lake, "a.t")
        lake.branch("dev")
        yield lake


def test_the_head_that_a_dry_run_shows_is_what_is_published(lake: Lake) -> None:
    assert lake.publish("dev", dry_run=True).head == lake.at("dev").commit  # also where nothing is to be published
    iceberg_tables.append(lake, "a.t", 1, ref="dev")
    seen = lake.publish("dev", dry_run=True)
    assert seen.head == lake.at("dev").commit
    iceberg_tables.append(lake, "a.t", 2, ref="dev")
    with pytest.raises(LakeConflict, match=f"not at {seen.head.short_id}") as refused:
        lake.publish("dev", expect=seen.head.id)
    assert refused.value.remedy == "See what it would publish now: mere publish dev --dry-run"
    assert lake.at().metadata("a.t").rows == 0
    done = lake.publish("dev", expect="dev")
    assert (done.commit, lake.at().metadata("a.t").rows) == (lake.at().commit, 2)
    with pytest.raises(RefNotFound):
        lake.publish("dev", expect="nothing")


def test_what_comes_between_the_look_and_the_commit_is_seen(lake: Lake) -> None:
    iceberg_tables.append(lake, "a.t", 1, ref="dev")
    head = lake.at("dev").commit.id
    late = iter([1])

    def write(point: str) -> None:
        if point == "publish.prepared" and next(late, None):
            iceberg_tables.append(lake, "a.t", 2, ref="dev")

    faults.hook = write
    with pytest.raises(LakeConflict, match="dev is at commit"):
        lake.publish("dev", expect=head)
    assert lake.at().metadata("a.t").rows == 0
