"""Which snapshots of a table are observed, and when: from its metadata alone."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from mere import Lake
from mere.lake.iceberg.metadata import Metadata
from mere.pipeline.state.observations import Observation, glance, observable, walk
from mere.pipeline.state.state import Point


def at(milliseconds: int, ticks: int = 0) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds, microseconds=ticks)


def table(
    *snapshots: tuple[int, int | None, int, str], runs: Sequence[str | None] = (), log: Sequence[int] | None = None
) -> Metadata:
    """Of snapshots (id, parent, time, operation), the last of them current, each with a metadata file of its own."""
    made: list[dict[str, Any]] = []
    for (id_, parent, time, operation), run in zip(snapshots, [*runs, *[None] * len(snapshots)], strict=False):
        about = {"operation": operation} | ({"mere.run": run} if run else {})
        made.append({"snapshot-id": id_, "parent-snapshot-id": parent, "timestamp-ms": time, "summary": about})
    times = [time for _, _, time, _ in snapshots[:-1]] if log is None else log
    raw = {
        "table-uuid": "here",
        "snapshots": made,
        "current-snapshot-id": snapshots[-1][0] if snapshots else -1,
        "last-updated-ms": snapshots[-1][2] if snapshots else 50,
        "metadata-log": [{"timestamp-ms": time, "metadata-file": f"{time}.json"} for time in times],
    }
    return Metadata("00001-a.metadata.json", raw)


LINE = table((1, None, 10, "append"), (2, 1, 20, "overwrite"), (3, 2, 30, "replace"), (4, 3, 40, "delete"))


def test_every_snapshot_is_observed_but_compactions_and_each_is_compared_with_the_one_before() -> None:
    all_ = walk(LINE, None, None)
    assert all_ == (Observation(at(10), 1), Observation(at(20), 2, 1), Observation(at(40), 4, 2))
    for seen in (1, 2):
        assert walk(LINE, Point("here", seen), at(10 * seen)) == all_[seen:]
    assert walk(LINE, Point("here", 3), at(20)) == (Observation(at(40), 4, 3),)
    assert walk(LINE, Point("here", 4), at(40)) == ()


def test_an_observation_is_later_than_the_one_before_it_whatever_the_clocks_say() -> None:
    line = table((1, None, 10, "append"), (2, 1, 10, "append"), (3, 2, 9, "append"), (4, 3, 11, "append"))
    all_ = walk(line, None, None)
    assert [look.at for look in all_] == [at(10), at(10, 1), at(10, 2), at(11)]
    assert walk(line, Point("here", 1), at(10)) == all_[1:]
    assert walk(line, Point("here", 2), at(10, 1)) == all_[2:]


def test_the_snapshots_of_one_run_are_observed_as_one() -> None:
    line = table(
        *((number, number - 1 or None, 10 * number, "append") for number in range(1, 7)),
        runs=["a", "a", "b", None, None, "a"],
    )
    assert [each.id for each in observable(line)] == [2, 3, 4, 5, 6]
    assert walk(line, Point("here", 2), at(20))[0] == Observation(at(30), 3, 2)


def test_a_snapshot_that_was_never_committed_by_itself_is_not_observed() -> None:
    # 2 and 3 came with one metadata file, and so did 4 and 5, within one millisecond.
    snapshots = [(1, None, 10, "append"), (2, 1, 20, "delete"), (3, 2, 21, "append"), (4, 3, 30, "delete")]
    line = table(*snapshots, (5, 4, 30, "append"), log=[5, 10, 21])
    assert [each.id for each in observable(line)] == [1, 3, 5]
    forgotten = table(*snapshots, (5, 4, 30, "append"), log=[21])
    assert [each.id for each in observable(forgotten)] == [1, 2, 3, 5]


def test_a_snapshot_counts_if_its_metadata_was_written_a_little_later() -> None:
    # As Iceberg in Java does it; and here with a writer whose clock runs two milliseconds behind.
    snapshots = [(1, None, 100, "append"), (2, 1, 200, "append"), (3, 2, 201, "append"), (4, 3, 199, "append")]
    line = table(*snapshots, log=[90, 101, 203, 204])
    line.raw["last-updated-ms"] = 205
    assert [each.id for each in observable(line)] == [1, 2, 3, 4]


def test_pyiceberg_overwrites_in_one_commit_that_has_two_snapshots(tmp_path: Path) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        catalog = lake.pyiceberg()
        catalog.create_namespace("a")
        rows = pa.table({"id": [1, 2], "v": [1, 1]})
        catalog.create_table("a.t", rows.schema).append(rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            catalog.load_table("a.t").overwrite(pa.table({"id": [1, 2], "v": [1, 2]}))
            catalog.load_table("a.t").upsert(pa.table({"id": [2, 3], "v": [3, 2]}), join_cols=["id"])
        metadata = lake.at("main").metadata("a.t")
        lake.set_properties({"a.t": {"owner": "ann"}}, on="main")
        operations = [each.operation for each in metadata.snapshots]
        assert operations == ["append", "delete", "append", "overwrite", "append", "append"]
        assert [each.id for each in observable(metadata)] == [metadata.snapshots[n].id for n in (0, 2, 5)]
        assert observable(lake.at("main").metadata("a.t"))[-1].id == metadata.snapshots[5].id


def test_after_snapshots_that_are_gone_those_that_are_left_are_observed() -> None:
    left = table((3, 2, 30, "append"), (4, 3, 40, "append"))
    assert walk(left, Point("here", 1), at(10)) == (Observation(at(30), 3), Observation(at(40), 4, 3))
    assert walk(left, Point("here", 2), at(30)) == (Observation(at(40), 4),)
    assert walk(left, Point("here", 2), at(99)) == (Observation(at(99, 1), 4),)


def test_a_table_that_was_taken_back_is_observed_as_it_stands() -> None:
    back = table((1, None, 10, "append"), (2, 1, 20, "append"), (3, 1, 30, "append"))
    assert walk(back, Point("here", 2), at(20)) == (Observation(at(30), 3),)
    back = table((1, None, 10, "append"), (2, 1, 20, "append"))
    back.raw["current-snapshot-id"] = 1
    assert walk(back, Point("here", 2), at(20)) == (Observation(at(20, 1), 1),)


def test_another_table_under_the_same_name_is_observed_from_its_beginning() -> None:
    assert [look.snapshot for look in walk(LINE, Point("there", 4), at(5))] == [1, 2, 4]
    assert walk(LINE, Point("there", 4), at(5))[0].before is None


def test_a_table_without_a_snapshot_is_empty() -> None:
    empty = table()
    assert walk(empty, None, None) == walk(empty, Point("here", None), None) == ()
    assert walk(empty, Point("here", 4), at(40)) == (Observation(at(50)),)
    assert walk(LINE, Point("here", None), None) == walk(LINE, None, None)


def test_several_tables_are_observed_at_the_time_of_the_newest_snapshot() -> None:
    other = table((7, None, 25, "append"))
    assert glance([LINE, other], None) == Observation(at(40))
    assert glance([other], at(30)) == Observation(at(30, 1))
