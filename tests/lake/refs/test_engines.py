"""The guards against real engines, and their writes in the log: Spark and PyIceberg on refs of one lake."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from mere.engine.session import Session
from mere.engine.translate import explain
from mere.errors import MereError, Unguarded
from mere.lake.lake import Lake
from mere.lake.log.commits import CommitKind, Stats
from mere.sparkconfig import RestSettings, SparkSettings
from tests.conftest import OpenSession
from tests.lake.places import LOCAL, S3, place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Open = Callable[..., Session]
WAYS = {"jdbc": SparkSettings(), "rest": SparkSettings(rest=RestSettings())}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


@pytest.fixture(params=[LOCAL, pytest.param(S3, marks=pytest.mark.long)])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lake]:
    """`a.t` with two snapshots on main, then `dev` and the tag `v1`."""
    with place(request.param, tmp_path, request).create() as lake:
        catalog = lake.pyiceberg("main")
        catalog.create_namespace("a")
        table = catalog.create_table("a.t", ROWS.schema)
        table.append(ROWS)
        table.append(ROWS)
        lake.branch("first")
        lake.pyiceberg("first").load_table("a.t").append(ROWS)
        lake.publish("first")  # gives the table its guards
        lake.branch("dev")
        lake.tag("v1")
        yield lake


# The database sees what was changed, the server what was asked for.
SAID = {
    "jdbc": [
        "append a.t",
        "overwrite a.t",
        "append a.made",
        "renamed a.made to a.renamed",
        "altered a.t",
        "append a.renamed",
    ],
    "rest": [
        "append a.t",
        "overwrite a.t",
        "create a.made",
        "rename a.made to a.renamed",
        "alter a.t",
        "append a.renamed",
    ],
}


@pytest.fixture(params=["jdbc", pytest.param("rest", marks=pytest.mark.long)])
def way(request: pytest.FixtureRequest) -> str:
    """By which Spark comes to the refs: to the database, or over HTTP."""
    return str(request.param)


@pytest.fixture
def spark_on(spark_on: OpenSession, way: str) -> Open:
    return partial(spark_on, settings=WAYS[way])


def files(lake: Lake) -> list[str]:
    return sorted(file.location for file in lake.storage.files(lake.warehouse))


def refusal(spark: SparkSession, sql: str) -> str:
    with pytest.raises(Exception) as caught:
        spark.sql(sql).collect()
    return str(explain(caught.value))


def assert_whole(lake: Lake, before: list[str]) -> None:
    assert set(before) <= set(files(lake))
    for ref in ("main", "dev", "v1"):
        assert lake.pyiceberg(ref).load_table("a.t").scan().to_arrow().num_rows == 9
        assert [str(name) for name in lake.at(ref)] == ["a.t"]


@pytest.mark.parametrize("ref", ["main", "dev"])
@pytest.mark.parametrize("purge", ["", " PURGE"])
def test_spark_does_not_drop(lake: Lake, spark_on: Open, ref: str, purge: str) -> None:
    before = files(lake)
    assert re.search("mere drop|mere gc", refusal(spark_on(lake, ref).spark, f"DROP TABLE a.t{purge}"))
    assert_whole(lake, before)


@pytest.mark.parametrize("ref", ["main", "dev"])
def test_spark_does_not_delete_files_of_other_refs(lake: Lake, spark_on: Open, ref: str) -> None:
    before = files(lake)
    spark = spark_on(lake, ref).spark
    expire = (
        f"CALL {ref}.system.expire_snapshots(table => 'a.t', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )
    assert "mere gc" in refusal(spark, expire)
    assert "mere gc" in refusal(spark, f"CALL {ref}.system.remove_orphan_files(table => 'a.t')")
    assert_whole(lake, before)


def test_pyiceberg_does_not_purge(lake: Lake) -> None:
    before = files(lake)
    for ref in ("main", "dev"):
        with pytest.raises(Exception, match="use: mere drop"):
            lake.pyiceberg(ref).purge_table("a.t")
        with pytest.raises(Exception, match="use: mere drop"):
            lake.pyiceberg(ref).drop_table("a.t")
    assert_whole(lake, before)


@pytest.mark.parametrize("ref", ["v1", "main~0"])
def test_tags_and_commits_are_read_only_for_engines(lake: Lake, spark_on: Open, ref: str) -> None:
    before = files(lake)
    spark = spark_on(lake, ref).spark
    assert spark.sql("SELECT count(*) FROM a.t").collect()[0][0] == 9
    assert "read-only" in refusal(spark, "INSERT INTO a.t VALUES (4, 'd')")
    assert "read-only" in refusal(spark, "CREATE TABLE a.other (id INT)")
    with pytest.raises(Exception, match="read-only"):
        lake.pyiceberg(ref).load_table("a.t").append(ROWS)
    assert_whole(lake, before)


def test_a_refusal_that_leaves_the_session_is_one_of_ours(lake: Lake, spark_on: Open) -> None:
    with pytest.raises(MereError, match="mere drop"), spark_on(lake, "dev") as session:
        session.spark.sql("DROP TABLE a.t")


def test_writes_by_engines_straight_to_main_are_in_the_log_exactly(lake: Lake, spark_on: Open, way: str) -> None:
    before = [commit.id for commit in lake.log()]
    spark = spark_on(lake, "main", author="ann").spark
    spark.sql("INSERT INTO a.t VALUES (4, 'd'), (5, 'e')")
    spark.sql("DELETE FROM a.t WHERE id = 1")
    spark.sql("CREATE TABLE a.made AS SELECT 1 AS x")
    spark.sql("ALTER TABLE a.made RENAME TO a.renamed")
    spark.sql("ALTER TABLE a.t ADD COLUMN note STRING")
    lake.pyiceberg("main").load_table("a.renamed").append(pa.table({"x": pa.array([2], pa.int32())}))
    log = list(lake.log())
    new = log[: len(log) - len(before)]
    assert [commit.id for commit in log[len(new) :]] == before
    assert all(commit.kind is CommitKind.WRITE for commit in new)
    said = [(commit.message or "").partition(" (Apache Iceberg ") for commit in reversed(new)]
    assert [message for message, *_ in said] == SAID[way]
    assert [bool(program) for *_, program in said] == [way == "rest"] * 5 + [False]
    assert [commit.author for commit in reversed(new)][:3] == ["ann"] * 3
    inserted, deleted = new[-1].changes[0].stats, new[-2].changes[0].stats
    assert inserted == Stats(rows_added=2, files_added=inserted.files_added if inserted else 0)
    assert deleted is not None
    assert deleted.rows_removed - deleted.rows_added == 3
    for newer, older in pairwise(new):
        assert newer.parent == older.seq
    assert lake.at().metadata("a.t").rows == 8


def test_old_metadata_files_of_other_refs_stay(lake: Lake, spark_on: Open) -> None:
    """Whatever a user asks for when a table is made, and whatever PyIceberg is told later."""
    spark = spark_on(lake, "dev").spark
    wish = "'write.metadata.delete-after-commit.enabled'='true', 'write.metadata.previous-versions-max'='1'"
    spark.sql(f"CREATE TABLE a.made TBLPROPERTIES ({wish}) AS SELECT 1 AS x")
    lake.publish("dev")
    for turn in range(3):
        spark.sql(f"INSERT INTO a.made VALUES ({turn})")
    with lake.pyiceberg("dev").load_table("a.t").transaction() as transaction:
        transaction.set_properties(
            {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
        )
    for _ in range(3):
        lake.pyiceberg("dev").load_table("a.t").append(ROWS)
    assert (lake.at().metadata("a.made").rows, lake.at().metadata("a.t").rows) == (1, 9)
    for commit in lake.log("dev"):
        for table in lake.at(commit.id):
            assert lake.at(commit.id).metadata(table).location


def test_two_branches_may_create_one_name_and_keep_their_files_apart(lake: Lake, spark_on: Open) -> None:
    lake.branch("other")
    session = spark_on(lake, "dev")
    session.spark.sql("CREATE TABLE a.same AS SELECT 1 AS x")
    session.use("other")
    session.spark.sql("CREATE TABLE a.same AS SELECT 2 AS x")
    locations = {lake.at(ref).metadata("a.same").raw["location"] for ref in ("dev", "other")}
    assert len(locations) == 2


# views

FROZEN = "CREATE VIEW a.frozen AS SELECT * FROM dev.a.t"
ELSEWHERE = "CREATE VIEW dev.a.elsewhere AS SELECT * FROM a.t"


def test_a_view_follows_the_ref_on_which_it_is_read(lake: Lake, spark_on: Open) -> None:
    session = spark_on(lake, "dev")
    spark = session.spark
    spark.sql("CREATE VIEW a.names AS SELECT DISTINCT name FROM a.t")
    lake.publish("dev")
    spark.sql("INSERT INTO a.t VALUES (4, 'd')")
    count = "SELECT count(*) FROM a.names"
    assert spark.sql(count).collect()[0][0] == 4
    main = session.attach("main")
    assert spark.sql(f"SELECT count(*) FROM {main}.a.names").collect()[0][0] == 3
    session.use("main")
    assert spark.sql(count).collect()[0][0] == 3
    spark.sql("CREATE OR REPLACE VIEW a.names AS SELECT name FROM a.t")
    assert spark.sql(count).collect()[0][0] == 9


def test_a_view_that_names_a_ref_is_not_published(lake: Lake, spark_on: Open, way: str) -> None:
    spark = spark_on(lake, "dev").spark
    if way == "rest":  # not even made
        assert re.search(r"names a ref: dev\.a\.t.*two-part names", refusal(spark, FROZEN))
        return
    spark.sql(FROZEN)
    before = lake.at().entries
    with pytest.raises(Unguarded, match=r"names a ref: dev\.a\.t") as caught:
        lake.publish("dev")
    assert "two-part names" in str(caught.value.remedy)
    assert lake.at().entries == before


def test_a_view_may_name_a_metadata_table(lake: Lake, spark_on: Open) -> None:
    spark = spark_on(lake, "dev").spark
    spark.sql("CREATE VIEW a.growth AS SELECT snapshot_id, summary FROM a.t.snapshots")
    lake.publish("dev")
    assert lake.at().is_view("a.growth")


def test_a_view_of_another_catalog_is_not_published(lake: Lake, spark_on: Open, way: str) -> None:
    session = spark_on(lake, "main")
    session.attach("dev")
    if way == "rest":
        assert "resolves its tables in the catalog 'main'" in refusal(session.spark, ELSEWHERE)
        return
    session.spark.sql(ELSEWHERE)
    with pytest.raises(Unguarded, match="resolves its tables in the catalog 'main'"):
        lake.publish("dev")


def test_a_publish_is_seen_by_a_session_that_is_already_open(lake: Lake, spark_on: Open) -> None:
    spark = spark_on(lake, "main").spark
    count = "SELECT count(*) FROM a.t"
    assert spark.sql(count).collect()[0][0] == 9
    lake.pyiceberg("dev").load_table("a.t").append(ROWS)
    lake.publish("dev")
    assert spark.sql(count).collect()[0][0] == 12
