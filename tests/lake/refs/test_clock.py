"""What a lake does when a clock is wrong: that of this machine, or that of whoever wrote last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from mere.errors import ClockOff, SparkFailed
from mere.lake.lake import Lake
from mere.lake.refs.clock import length, skew
from mere.lake.store.rows import stamp
from mere.lake.store.sql import SqlStore
from mere.names import TableName
from tests.conftest import OpenSession
from tests.lake import iceberg_tables
from tests.lake.foreign import Foreign
from tests.lake.places import LOCAL, POSTGRES, Place, place

DAY = timedelta(days=1)


@pytest.fixture(params=[LOCAL, POSTGRES])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, tmp_path, request)


def set_clock(lake: Lake, ahead: timedelta) -> datetime:
    """Let the database's clock stand still, so far ahead of this machine's."""
    now = datetime.now(UTC) + ahead
    assert isinstance(lake.store, SqlStore)
    lake.store.clock = f"'{stamp(now)}'"
    return datetime.fromisoformat(stamp(now))


def commit(lake: Lake, engine: Foreign, rows: int = 1) -> None:
    """By mere: an engine's own writes take the time of the real database."""
    lake.branch("work")
    engine.append("work", "a.t", rows)
    lake.publish("work")
    lake.delete("work")


def rows(lake: Lake, ref: str) -> int:
    return lake.at(ref).metadata("a.t").rows


def test_a_commit_has_the_time_of_the_database(lake: Lake, engine: Foreign) -> None:
    now = set_clock(lake, DAY)
    assert lake.now() == now
    commit(lake, engine)
    lake.branch("dev")
    assert lake.resolve("main").commit.at == now
    assert next(ref for ref in lake.refs() if ref.name == "dev").created_at == now


def test_time_does_not_go_backwards_along_a_log(lake: Lake, engine: Foreign) -> None:
    ahead = set_clock(lake, DAY)
    commit(lake, engine)
    set_clock(lake, -DAY)
    commit(lake, engine)
    engine.append("main", "a.t")
    times = [each.at for each in lake.log("main")]
    assert times == sorted(times, reverse=True)
    assert times[:3] == [ahead] * 3


def test_now_is_the_newest_commit_whatever_the_clocks_say(lake: Lake, engine: Foreign) -> None:
    set_clock(lake, timedelta(0))
    commit(lake, engine)
    set_clock(lake, DAY)
    commit(lake, engine)
    set_clock(lake, timedelta(0))
    assert (rows(lake, "main@0s"), rows(lake, "main@1h")) == (2, 1), "ages count back from the newest commit"
    set_clock(lake, 2 * DAY)
    assert (rows(lake, "main@0s"), rows(lake, "main@1h"), rows(lake, "main@36h")) == (2, 2, 1)
    assert rows(lake, f"main@{stamp(datetime.now(UTC) + timedelta(hours=1))}") == 1


def test_leases_and_aliases_live_by_the_clock_of_the_database(lake: Lake) -> None:
    tables, minute = [TableName("a", "t")], timedelta(minutes=1)
    begun = set_clock(lake, -DAY)
    assert lake.store.acquire("main", tables, "one", minute) == []
    assert [lease.acquired_at for lease in lake.store.leases()] == [begun]
    assert lake.store.renew("one", minute)
    assert len(lake.store.acquire("main", tables, "two", minute)) == 1
    alias = lake.catalog_name(lake.resolve("main").commit.id)
    now = set_clock(lake, -DAY + timedelta(hours=2))
    assert not lake.store.renew("one", minute)
    assert lake.store.acquire("main", tables, "two", minute) == []
    lake.catalog_name(lake.resolve("main").commit.id)
    assert next(ref for ref in lake.refs() if ref.name == alias).created_at == now


def test_a_clock_that_is_right_is_not_complained_about(lake: Lake, engine: Foreign) -> None:
    commit(lake, engine)
    assert skew(lake.store) is None


def test_a_machine_that_differs_from_the_database_is_told_by_how_much(lake: Lake) -> None:
    set_clock(lake, -DAY - timedelta(hours=2, minutes=30))
    found = skew(lake.store)
    if not lake.store.shares_clock:  # it is this machine's own, which is behind the first commit
        assert found
        assert "is off: it is 1 d 2 h behind commit" in found.message
        return
    assert found
    assert "The clock of this machine is off: it is 1 d 2 h ahead of the database's, where it is 2" in found.message
    set_clock(lake, timedelta(minutes=5, seconds=30))
    found = skew(lake.store)
    assert found
    assert "it is 5 min " in found.message
    assert "timedatectl" in found.remedy


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.6, "1 min"), (90, "1 min 30 s"), (-86_400, "1 d"), (86_460, "1 d")]
)
def test_lengths_of_time_have_at_most_two_units(seconds: float, text: str) -> None:
    assert length(timedelta(seconds=seconds)) == text


# what Iceberg says


@pytest.fixture
def future(tmp_path: Path) -> Lake:
    """`a.t` was last written by a machine whose clock was a day ahead."""
    lake = Lake.create(tmp_path / "lake")
    iceberg_tables.create(lake, "a.t")
    iceberg_tables.append(lake, "a.t", 1)
    metadata = lake.at("main").metadata("a.t")
    raw, ahead = orjson.loads(orjson.dumps(metadata.raw)), 86_400_000
    raw["last-updated-ms"] += ahead
    for each in (*raw["snapshots"], *raw["snapshot-log"]):
        each["timestamp-ms"] += ahead
    Path(metadata.location).write_bytes(orjson.dumps(raw))
    return Lake.open(tmp_path / "lake")


def test_spark_says_that_the_clock_is_off(future: Lake, spark_on: OpenSession) -> None:
    session = spark_on(future, "main")
    with pytest.raises(SparkFailed) as caught, session:
        session.spark.sql("INSERT INTO a.t SELECT * FROM a.t").collect()
    assert "The clock of the machine that runs Spark is off" in caught.value.message
    assert "timedatectl" in str(caught.value.remedy)


def test_pyiceberg_does_not_write_what_others_could_not_read(future: Lake) -> None:
    before = future.at("main").pointer("a.t")
    with pytest.raises(ClockOff, match=r"it is (24 h|1 d|23 h 59 min) behind the last write to a.t"):
        iceberg_tables.append(future, "a.t", 2)
    assert future.at("main").pointer("a.t") == before
