"""A lake on Postgres and S3, through all that reads and writes it: Spark, PyIceberg, DuckDB, the sweep and relocate."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mere.config import mere_home
from mere.engine.driver import Driver
from mere.engine.session import Session
from mere.engine.translate import explain
from mere.errors import (
    EngineError,
    LakeMoved,
    MereError,
    MetadataMissing,
    QueryError,
    StorageDenied,
    StorageUnreachable,
)
from mere.lake.lake import Lake
from mere.lake.storage.s3 import S3Storage
from mere.lake.upkeep.gc import sweep
from tests.lake.places import S3, Place, place
from tests.services.s3 import SECRET_KEY

pytestmark = pytest.mark.service
Open = Callable[..., Session]
ZERO = timedelta(0)


@pytest.fixture
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(S3, tmp_path, request)


@pytest.fixture
def lake(at: Place) -> Iterator[Lake]:
    """`a.t` with the ids 1, 2, 3 on main."""
    with at.create() as lake:
        lake.pyiceberg("main").create_namespace("a")
        lake.pyiceberg("main").create_table("a.t", rows(1).schema)
        append(lake, 1, 2, 3)
        yield lake


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{id_}" for id_ in ids]})


def append(lake: Lake, *ids: int, ref: str = "main") -> None:
    lake.pyiceberg(ref).load_table("a.t").append(rows(*ids))


def ids(lake: Lake, ref: str = "main", table: str = "a.t") -> list[int]:
    return [id_ for (id_,) in lake.sql(f"SELECT id FROM {table} ORDER BY id", ref)]


def files(lake: Lake) -> set[str]:
    return {file.location for file in lake.storage.files(lake.warehouse)}


def failure(read: Callable[[], Any]) -> MereError:
    with pytest.raises(MereError) as caught:
        read()
    assert SECRET_KEY not in f"{caught.value}{caught.value.__cause__}"
    return caught.value


def test_a_lost_file_of_an_adopted_table_is_named_with_its_table(
    lake: Lake, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with place(S3, tmp_path, request).create() as other:
        other.adopt(lake.at().pointer("a.t"), name="b.t")
        lost = [file for file in files(lake) if file.endswith(".parquet")]
        lake.storage.delete(*lost)
        found = failure(lambda: ids(other, table="b.t"))
    assert isinstance(found, MetadataMissing)
    assert found.message == f"b.t cannot be read: its file {lost[0]} is gone."


# engines


def test_what_one_engine_writes_the_others_read(lake: Lake, spark_on: Open) -> None:
    lake.branch("dev")
    spark = spark_on(lake, "dev").spark
    spark.sql("CREATE TABLE a.u TBLPROPERTIES ('write.delete.mode' = 'merge-on-read') AS SELECT * FROM a.t")
    spark.sql("INSERT INTO a.t VALUES (4, 'n4')")
    spark.sql("DELETE FROM a.u WHERE id = 2")
    append(lake, 5, ref="dev")
    assert [row.id for row in spark.sql("SELECT id FROM a.t ORDER BY id").collect()] == [1, 2, 3, 4, 5]
    lake.publish("dev")
    assert (ids(lake), ids(lake, table="a.u")) == ([1, 2, 3, 4, 5], [1, 3])
    assert lake.pyiceberg("main").load_table("a.u").scan().to_arrow()["id"].to_pylist() == [1, 3]
    assert lake.at().table("a.t").arrow(columns=["name"], where="id = 5").to_pylist() == [{"name": "n5"}]
    assert all(location.startswith(f"{lake.location}/warehouse/a/") for location in files(lake))


def test_deletion_vectors_are_read_through_pyiceberg(lake: Lake, spark_on: Open) -> None:
    spark = spark_on(lake, "main").spark
    spark.sql(
        "CREATE TABLE a.v TBLPROPERTIES ('format-version' = '3', 'write.delete.mode' = 'merge-on-read')"
        " AS SELECT * FROM a.t"
    )
    lake.branch("dev")
    session = spark_on(lake, "dev")
    session.spark.sql("DELETE FROM a.v WHERE id = 2")
    assert ids(lake, "dev", "a.v") == [1, 3]
    (diff,) = lake.diff("main", "dev").rows()
    assert (diff.added, diff.removed) == (0, 1)


def test_rows_are_compared_by_the_touched_files_alone(lake: Lake) -> None:
    lake.branch("dev")
    append(lake, 4, 5, ref="dev")
    (diff,) = lake.diff("main", "dev").rows()
    assert (diff.added, diff.removed) == (2, 0)
    assert diff.read == "touched files: 0 of 1 of the old, 1 of 2 of the new"


def test_no_command_line_and_no_log_has_the_secret(lake: Lake, spark_on: Open) -> None:
    spark = spark_on(lake, "main").spark
    spark.sql("SELECT * FROM a.t").collect()
    with pytest.raises(Exception, match="no_such"):
        spark.sql("SELECT no_such FROM a.t").collect()
    shown = subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout
    assert "PythonGatewayServer" in shown
    assert SECRET_KEY not in shown
    for log in (mere_home() / "logs").glob("spark-*.log"):
        assert SECRET_KEY not in log.read_text(errors="replace")
    settings = "\n".join(f"{row.key}={row.value}" for row in spark.sql("SET -v").collect())
    assert SECRET_KEY not in settings
    listed = list(lake.sql("SELECT secret_string, (SELECT count(*) FROM a.t) FROM duckdb_secrets()"))
    assert len(listed) == 1
    assert SECRET_KEY not in str(listed)


def test_a_session_is_refused_before_spark_tries_for_minutes(at: Place, lake: Lake, spark_on: Open) -> None:
    assert at.s3 is not None
    with replace(at, s3=replace(at.s3, secret_key="wrong")).open() as wrong, pytest.raises(StorageDenied):
        spark_on(wrong, "main")


def test_what_s3_refuses_spark_is_said_in_a_sentence(at: Place, lake: Lake, spark_on: Open) -> None:
    """Keys that worked at first, and do not any more."""
    assert at.s3 is not None
    lake.branch("empty", "main~2")
    lake.storage = S3Storage(replace(at.s3, secret_key="wrong"))
    spark = spark_on(lake, "empty").spark
    with pytest.raises(Exception) as caught:
        spark.sql("CREATE TABLE a.new AS SELECT 1 AS x")
    assert explain(caught.value).message.startswith("S3 refuses it: ")
    assert "AWS_ACCESS_KEY_ID" in str(explain(caught.value).remedy)


# queries


def test_a_file_that_is_gone_or_damaged_is_named_with_its_table(lake: Lake) -> None:
    (data,) = (location for location in files(lake) if location.endswith(".parquet"))
    lake.storage.delete(data)
    error = failure(lambda: ids(lake))
    assert isinstance(error, MetadataMissing)
    assert f"a.t cannot be read: its file {data} is gone." in error.message
    lake.storage.write_new(data, b"something else" * 100)
    error = failure(lambda: ids(lake))
    assert isinstance(error, QueryError)
    assert f"a.t cannot be read: its file {data} is damaged." in error.message


def test_a_query_says_what_s3_refuses(at: Place, lake: Lake) -> None:
    """The metadata was read in time; DuckDB comes too late."""
    assert at.s3 is not None
    ids(lake)
    for settings, expected, words in (
        (replace(at.s3, secret_key="wrong"), StorageDenied, "S3 answers HTTP 403"),
        (replace(at.s3, endpoint="http://127.0.0.1:1"), StorageUnreachable, "S3 does not answer"),
    ):
        lake.storage.s3 = settings  # type: ignore[misc]
        error = failure(lambda: ids(lake))
        assert isinstance(error, expected)
        assert error.message.startswith(f"a.t cannot be read: {words}")


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
@pytest.mark.parametrize("below", ["/x.csv", "/warehouse/x.csv", "", "//x.csv"])
def test_copy_does_not_write_into_the_lake(lake: Lake, scheme: str, below: str) -> None:
    target = lake.location.replace("s3://", f"{scheme}://") + below
    before = files(lake)
    assert "the lake is there" in failure(lambda: list(lake.sql(f"COPY (SELECT 1) TO '{target}'"))).message
    assert files(lake) == before


# the sweep


def test_the_sweep_deletes_what_nothing_reaches(lake: Lake) -> None:
    before = files(lake)
    lake.branch("gone")
    append(lake, 9, ref="gone")
    lake.delete("gone")
    left = files(lake) - before
    assert len(left) == 4  # a data file, a manifest, a manifest list and a metadata file
    later = sweep(lake).kept
    assert sum(later.values()) == len(before | left)
    # What is written within the second of a sweep is as old as the sweep, by the clock of S3.
    now = max(file.modified_at for file in lake.storage.files(lake.warehouse)) + timedelta(seconds=2)
    assert {file.location for file in sweep(lake, grace=ZERO, now=now).doomed} == left
    assert {file.location for file in sweep(lake, grace=ZERO, now=now).deleted} == left
    assert files(lake) == before
    assert ids(lake) == [1, 2, 3]


def test_a_sweep_that_cannot_read_deletes_nothing(at: Place, lake: Lake) -> None:
    assert at.s3 is not None
    before = files(lake)
    with replace(at, s3=replace(at.s3, secret_key="wrong")).open() as wrong, pytest.raises(StorageDenied):
        sweep(wrong, grace=ZERO)
    assert files(lake) == before


# relocate


def test_a_lake_that_was_copied_to_another_prefix_is_mended(at: Place, lake: Lake, spark_on: Open) -> None:
    spark = spark_on(lake, "main").spark
    spark.sql("CREATE TABLE a.u TBLPROPERTIES ('write.delete.mode' = 'merge-on-read') AS SELECT * FROM a.t")
    spark.sql("DELETE FROM a.u WHERE id = 2")
    lake.tag("v1")
    append(lake, 4)
    moved = replace(at, path=at.path.replace("/lake", "/moved"))
    for location in files(lake):
        lake.storage.write_new(location.replace(at.path, moved.path), lake.storage.read(location))
        lake.storage.delete(location)
    with pytest.raises(LakeMoved, match=f"mere relocate {moved.path}"):
        moved.open()
    done = Lake.relocate(moved.path, catalog=moved.catalog, s3=moved.s3)
    assert (done.old_root, done.root, done.copied) == (at.path, moved.path, False)
    with moved.open() as opened:
        assert (ids(opened), ids(opened, "v1"), ids(opened, table="a.u")) == ([1, 2, 3, 4], [1, 2, 3], [1, 3])
        append(opened, 5)
        assert opened.pyiceberg("main").load_table("a.u").scan().to_arrow()["id"].to_pylist() == [1, 3]
        assert all(location.startswith(moved.path) for location in files(opened))


def test_a_lake_moves_from_a_folder_to_s3(at: Place, tmp_path: Path) -> None:
    local = Place(str(tmp_path / "lake"), at.catalog)
    with local.create() as lake:
        lake.pyiceberg("main").create_namespace("a")
        lake.pyiceberg("main").create_table("a.t", rows(1).schema)
        append(lake, 1, 2)
        assert at.s3 is not None
        target = S3Storage(at.s3)
        for location in files(lake):
            target.write_new(location.replace(local.path, at.path), lake.storage.read(location))
            lake.storage.delete(location)
    assert Lake.relocate(at.path, catalog=at.catalog, s3=at.s3).moved
    with at.open() as lake:
        append(lake, 3)
        assert ids(lake) == [1, 2, 3]


def test_a_jvm_that_lacks_the_jar_says_so(lake: Lake, spark_on: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    session = spark_on(lake, "main")
    assert isinstance(session._driver, Driver)
    monkeypatch.setattr(session._driver._jvm, "launch", replace(session._driver._jvm.launch, jars=()))
    lake.branch("dev")
    with pytest.raises(EngineError, match="was started without postgresql, which this lake needs"):
        session.attach("dev")
