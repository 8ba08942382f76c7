"""A session in which a ref is the current catalog: real Spark, real Iceberg, a lake in SQLite."""

from __future__ import annotations

import getpass
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from mere import Lake, Session
from mere.engine import session as module
from mere.engine.driver import Driver
from mere.errors import EngineError, RefNotFound, SparkFailed
from mere.sparkconfig import SparkSettings

Open = Callable[..., Session]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        yield lake


def rows(session: Session, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in session.spark.sql(query).collect()]


def test_two_part_names_resolve_on_the_ref(lake: Lake, spark_on: Open) -> None:
    main = spark_on(lake, "main")
    assert main.spark.catalog.currentCatalog() == "main"
    main.spark.sql("CREATE NAMESPACE gold")
    main.spark.sql("CREATE TABLE gold.orders AS SELECT 1 AS id")
    lake.branch("dev")
    dev = spark_on(lake, "dev")
    dev.spark.sql("INSERT INTO gold.orders VALUES (2)")
    assert rows(dev, "SELECT id FROM gold.orders ORDER BY id") == [(1,), (2,)]
    assert rows(main, "SELECT id FROM gold.orders") == [(1,)]


def test_refs_are_attached_and_used_while_the_session_runs(lake: Lake, spark_on: Open) -> None:
    session = spark_on(lake, "main")
    session.spark.sql("CREATE NAMESPACE a")
    session.spark.sql("CREATE TABLE a.t AS SELECT 1 AS id")
    lake.branch("feature-1")
    assert session.attach("feature-1") == "feature-1"
    assert session.attach("feature-1") == "feature-1"
    session.spark.sql("INSERT INTO `feature-1`.a.t VALUES (2)")
    assert rows(session, "SELECT (SELECT count(*) FROM a.t), count(*) FROM `feature-1`.a.t") == [(1, 2)]
    assert session.use("feature-1") == "feature-1"
    assert rows(session, "SELECT count(*) FROM a.t") == [(2,)]


def test_a_commit_is_attached_under_its_alias(lake: Lake, spark_on: Open) -> None:
    session = spark_on(lake, "main")
    session.spark.sql("CREATE NAMESPACE a")
    session.spark.sql("CREATE TABLE a.t AS SELECT 1 AS id")
    session.spark.sql("INSERT INTO a.t VALUES (2)")
    alias = session.attach("main~1")
    assert alias.startswith("at_")
    assert rows(session, f"SELECT count(*) FROM {alias}.a.t") == [(1,)]


def test_a_publish_is_seen_by_the_next_query(lake: Lake, spark_on: Open) -> None:
    main = spark_on(lake, "main")
    main.spark.sql("CREATE NAMESPACE a")
    main.spark.sql("CREATE TABLE a.t AS SELECT 1 AS id")
    lake.branch("dev")
    spark_on(lake, "dev").spark.sql("INSERT INTO a.t VALUES (2)")
    assert rows(main, "SELECT count(*) FROM a.t") == [(1,)]
    lake.publish("dev")
    assert rows(main, "SELECT count(*) FROM a.t") == [(2,)]


def test_a_ref_that_is_not_there_is_the_lakes_error(lake: Lake, spark_on: Open) -> None:
    with pytest.raises(RefNotFound):
        spark_on(lake, "nowhere")
    with pytest.raises(RefNotFound):
        spark_on(lake, "main").attach("nowhere")


def test_a_catalog_whose_properties_changed_needs_a_new_session(lake: Lake, spark_on: Open, tmp_path: Path) -> None:
    session = spark_on(lake, "main")
    with Lake.create(tmp_path / "other") as other:
        session._refs = other
        with pytest.raises(EngineError, match="main of this session now has other properties"):
            session.attach("main")


@pytest.mark.parametrize("author", ["ann", None])
def test_the_author_is_in_the_snapshots(
    lake: Lake, spark_on: Open, author: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERE_AUTHOR", "the-default")
    session = spark_on(lake, "main", author=author)
    session.spark.sql("CREATE NAMESPACE a")
    session.spark.sql("CREATE TABLE a.t AS SELECT 1 AS id")
    session.spark.sql(
        "MERGE INTO a.t USING (SELECT 1 AS id) s ON s.id = a.t.id WHEN MATCHED THEN UPDATE SET *"
        " WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(session, "SELECT summary['mere.author'] FROM a.t.snapshots") == [(author or "the-default",)] * 2


def test_a_snapshot_without_an_author_names_at_least_the_user(lake: Lake, spark_on: Open) -> None:
    session = spark_on(lake, "main", author="ann")
    session.spark.sql("CREATE NAMESPACE a")
    session.spark.sql("CREATE TABLE a.t AS SELECT 1 AS id")
    session.spark.sql("DELETE FROM a.t")  # only metadata changes, and Spark's settings do not reach it
    signed = rows(session, "SELECT summary['mere.author'], summary['mere.user'] FROM a.t.snapshots ORDER BY 1")
    assert signed == [(None, getpass.getuser()), ("ann", getpass.getuser())]


def test_the_session_that_was_opened_last_is_the_active_one(lake: Lake, spark_on: Open) -> None:
    from pyspark.sql import SparkSession

    first = spark_on(lake, "main")
    first.spark.sql("CREATE NAMESPACE a")
    first.spark.sql("CREATE TABLE a.t AS SELECT 1 AS id")
    lake.branch("dev")
    second = spark_on(lake, "dev")

    def current() -> tuple[str, str]:
        active = SparkSession.getActiveSession()
        assert active is not None
        return active.catalog.currentCatalog(), SparkSession.builder.getOrCreate().catalog.currentCatalog()

    assert current() == ("dev", "dev")
    second.stop()
    assert current() == ("main", "main")


def test_sessions_share_a_jvm_and_nothing_else(lake: Lake, spark_on: Open) -> None:
    one, two = spark_on(lake, "main"), spark_on(lake, "main")
    assert one.spark.sparkContext is two.spark.sparkContext
    one.spark.sql("SELECT 1 AS id").createOrReplaceTempView("mine")
    two.spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    assert one.spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert not two.spark.catalog.tableExists("mine")
    one.stop()
    one.stop()  # twice is once
    assert rows(two, "SELECT 2") == [(2,)]


def test_settings_suit_a_local_lake(lake: Lake, spark_on: Open) -> None:
    conf = spark_on(lake, "main").spark.conf
    cores = len(os.sched_getaffinity(0))
    assert conf.get("spark.sql.shuffle.partitions") == str(cores)
    assert conf.get("spark.sql.adaptive.enabled") == "true"
    assert conf.get("spark.ui.enabled") == "false"
    assert conf.get("spark.sql.catalogImplementation") == "in-memory"
    assert not str(conf.get("spark.sql.warehouse.dir")).removeprefix("file:").startswith(str(Path.cwd()))


def test_settings_of_the_profile_win(lake: Lake, spark_on: Open) -> None:
    own = {"spark.sql.shuffle.partitions": "3", "spark.sql.session.timeZone": "Asia/Tokyo"}
    session = spark_on(lake, "main", settings=SparkSettings(conf=own))
    assert session.spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert session.spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"


def test_a_python_function_runs_in_the_same_python(lake: Lake, spark_on: Open) -> None:
    from pyspark.sql.functions import udf

    spark = spark_on(lake, "main").spark
    same = udf(lambda _: __import__("sys").prefix, "string")
    assert spark.range(1).select(same("id")).collect()[0][0] == __import__("sys").prefix


def test_an_error_that_leaves_the_block_is_readable_and_keeps_its_cause(lake: Lake, spark_on: Open) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(SparkFailed, match=r"The table or view `a`\.`nothing` cannot be found") as caught:
        with spark_on(lake, "main") as session:
            session.spark.sql("SELECT * FROM a.nothing")
    assert isinstance(caught.value.__cause__, AnalysisException)
    assert "TABLE_OR_VIEW_NOT_FOUND" in str(caught.value.__cause__)


def test_other_errors_leave_the_block_as_they_are(lake: Lake, spark_on: Open) -> None:
    with pytest.raises(ZeroDivisionError), spark_on(lake, "main"):
        raise ZeroDivisionError


HOURS = "SELECT count(sha2(CAST(id AS STRING), 512)) FROM range(100000000000)"
# What is the same for all rows is computed while the query is planned: some seconds, in which there is no job yet.
# Constants are computed while the query is planned, in a second and more also by a JVM that has compiled it.
_SUM = "aggregate(sequence({}, 8000000), 0L, (sum, each) -> sum + each * each) > 0"
PLANNED = f"{HOURS} WHERE {' AND '.join(_SUM.format(first) for first in range(1, 6))}"


@pytest.mark.parametrize("query", [HOURS, PLANNED], ids=["running", "planned"])
def test_ctrl_c_cancels_the_query_and_the_session_lives(query: str, lake: Lake, spark_on: Open) -> None:
    session = spark_on(lake, "main")
    jvm: Any = session.spark._jvm
    tracker = session.spark.sparkContext.statusTracker()
    before = set(tracker.getActiveJobsIds())
    interrupted_with: list[set[int]] = []

    def jobs() -> set[int]:
        return set(tracker.getActiveJobsIds()) - before

    def interrupt() -> None:
        while query == HOURS and not jobs():
            time.sleep(0.05)
        time.sleep(0.5)
        interrupted_with.append(jobs())
        os.kill(os.getpid(), signal.SIGINT)

    def another() -> Any:
        jvm.java.lang.Integer.parseInt("1")
        return jvm._gateway_client.get_thread_connection()

    handler: Any = signal.getsignal(signal.SIGINT)
    assert "cancel_on_interrupt" in handler.__qualname__, "another test has taken Ctrl-C away"
    frame = session.spark.sql(query)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(another).result()
        threading.Thread(target=interrupt, daemon=True).start()
        started = time.monotonic()
        # The exception is kept, and with it the frames that hold the connection on which the answer was awaited.
        with pytest.raises(KeyboardInterrupt) as stopped:
            frame.collect()
        assert time.monotonic() - started < 20
        assert bool(interrupted_with[0]) == (query == HOURS)
        assert rows(session, "SELECT 1") == [(1,)]
        time.sleep(0.5)
        assert jobs() == set()
        assert other.socket is not None, "the connection of another thread was closed, as py4j by itself does"
    assert stopped.type is KeyboardInterrupt


def test_ctrl_c_stays_ctrl_c_when_the_jvm_hangs_up_meanwhile(lake: Lake, spark_on: Open) -> None:
    session = spark_on(lake, "main")
    with pytest.raises(KeyboardInterrupt), session:  # noqa: PT012
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JNetworkError("Answer from Java side is empty")


def test_the_gateways_secret_is_not_left_in_the_environment(warm_jvm: None) -> None:
    assert [name for name in os.environ if name.startswith("PYSPARK_GATEWAY")] == []
    assert module._driver is not None


def test_the_settings_of_the_project_hold_for_its_lake(tmp_path: Path) -> None:
    (tmp_path / "mere.yaml").write_text(
        "name: shop\nprofiles:\n  local:\n    lake: lake\n    spark:\n      memory: 3g\n"
    )
    with Lake.create(tmp_path / "lake") as own, Lake.create(tmp_path / "other") as other:
        assert module.settings_of(own).memory == "3g"
        assert module.settings_of(other) == SparkSettings()


def test_a_session_that_mere_did_not_start_is_not_taken_over(warm_jvm: None) -> None:
    with pytest.raises(EngineError, match="already runs a Spark session"):
        Driver.start(SparkSettings())
