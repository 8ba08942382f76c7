"""A rehearsal for the JVM: a session that uses what sessions use, so that the class data archive contains it.

    python -m mere.engine.rehearsal

builds the archive now, for an image or a CI cache. Otherwise the first session leaves it to a background process.
"""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mere.engine.connect import Connection
from mere.engine.driver import Driver, refuse_a_foreign_context
from mere.engine.frames import from_arrow
from mere.engine.jvm import archive
from mere.engine.jvm.process import Jvm, prepare
from mere.engine.session import Session
from mere.engine.warm.keeper import serve, server_conf
from mere.sparkconfig import SparkSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS = "SELECT id, date_add(DATE '2026-01-01', CAST(id % 3 AS INT)) AS day, concat('n', id) AS name, id * 1.5D AS x"
_MERGE = "ON s.id = t.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"

# In the order in which a pipeline meets them.
_STATEMENTS = (
    "CREATE NAMESPACE IF NOT EXISTS a",
    "CREATE TABLE a.t (id BIGINT, day DATE, name STRING, x DOUBLE) USING iceberg",
    f"INSERT INTO a.t {_ROWS} FROM range(200)",
    "SELECT day, count(*) AS n, sum(x) AS s FROM a.t WHERE id > 3 GROUP BY day ORDER BY day",
    f"MERGE INTO a.t AS t USING ({_ROWS} FROM range(100, 300)) AS s {_MERGE}",
    f"CREATE TABLE a.days USING iceberg PARTITIONED BY (days(day)) AS {_ROWS} FROM range(50)",
    "ALTER TABLE a.days SET TBLPROPERTIES ('write.merge.mode' = 'merge-on-read', 'k' = 'v')",
    f"MERGE INTO a.days AS t USING ({_ROWS} FROM range(40, 60)) AS s {_MERGE}",
    "DELETE FROM a.days WHERE id = 7",
    "UPDATE a.days SET x = 0 WHERE id = 8",
    "SELECT t.name, d.x FROM a.t AS t LEFT JOIN a.days AS d ON t.id = d.id WHERE t.name LIKE 'n1%' LIMIT 5",
    "SELECT name, row_number() OVER (PARTITION BY day ORDER BY id) AS r FROM a.t",
    "SELECT DISTINCT upper(name), CAST(x AS DECIMAL(10, 2)), coalesce(x, 0) FROM a.days UNION ALL SELECT 'a', 1, 2",
    "SELECT snapshot_id, summary FROM a.t.snapshots",
    "SELECT count(*) FROM a.t.files",
    "CREATE OR REPLACE VIEW a.v AS SELECT day, max(x) AS x FROM a.t GROUP BY day",
    "SELECT * FROM a.v",
    "CREATE OR REPLACE TABLE a.t2 USING iceberg AS SELECT * FROM a.t",
    "ALTER TABLE a.t2 ADD COLUMN note STRING",
    "INSERT OVERWRITE a.t2 SELECT *, 'x' FROM a.t",
    "CALL train.system.rewrite_data_files(table => 'a.t')",
    "SHOW TABLES IN a",
    "DESCRIBE TABLE EXTENDED a.t",
)


@dataclass(frozen=True)
class _Catalog:
    name: str
    properties: dict[str, str]


class _Lake:
    """A throw-away catalog. The real ones differ in values only, not in classes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def spark_catalog(self, ref: str) -> _Catalog:
        return _Catalog(
            ref,
            {
                "type": "jdbc",
                "uri": f"jdbc:sqlite:{self.folder / 'train.db'}?journal_mode=WAL&busy_timeout=30000",
                "jdbc.schema-version": "V1",
                "warehouse": str(self.folder / "warehouse"),
                "cache-enabled": "false",
            },
        )


def train(settings: SparkSettings | None = None) -> Path | None:
    """Build the archive for such sessions; None if another process is at it, or if this Java cannot."""
    settings = settings or SparkSettings()
    refuse_a_foreign_context()
    launch = prepare(settings)

    token = secrets.token_urlsafe(32)
    with_server = replace(settings, conf={**settings.conf, **server_conf(token)})

    def rehearse(path: Path) -> None:
        jvm = Jvm(replace(launch, dump_to=path))
        driver = Driver.on(jvm, with_server)
        try:
            with tempfile.TemporaryDirectory(prefix="mere-train-") as folder:
                opened = Session(driver, driver.open(settings), _Lake(Path(folder)), lambda: None)
                opened.use("train")
                _exercise(opened.spark, Path(folder))
                with suppress(Exception):  # as above: what cannot be done is merely not in the archive
                    _exercise_server(driver, token, _Lake(Path(folder)))
        finally:
            # The JVM writes the archive on its way out.
            driver.stop(gently=True)

    return archive.build(launch, rehearse)


def _exercise(spark: SparkSession, folder: Path) -> None:
    for step in _steps(spark, folder):
        try:
            step()
        except Exception:  # what one Java or one version cannot do is merely not in the archive
            logging.getLogger(__name__).debug("a step of the training failed", exc_info=True)


def _exercise_server(driver: Driver, token: str, lake: _Lake) -> None:
    """What a warm engine uses beside that, with this process as its client."""
    import pyarrow as pa
    from pyspark.sql.functions import expr

    address = f"127.0.0.1:{serve(driver).localPort()}"
    connection = Connection.to_engine(address, token, str(uuid.uuid4()), lambda: driver.alive, lambda: None)
    with Session(connection, connection.spark, lake, connection.close) as opened:
        opened.use("train")
        spark = opened.spark
        from_arrow(spark, pa.table({"id": [1], "name": ["a"]})).writeTo("a.seed").createOrReplace()
        spark.table("a.t").writeTo("a.t").overwrite(expr("true"))
        for statement in _STATEMENTS[2:5]:
            spark.sql(statement).toArrow()
        spark.sql("SELECT no_such_column FROM a.t").collect()


def _run(spark: SparkSession, statement: str) -> None:
    spark.sql(statement).collect()


def _steps(spark: SparkSession, folder: Path) -> Iterator[Callable[[], object]]:
    for statement in _STATEMENTS:
        yield partial(_run, spark, statement)
    yield lambda: spark.sql("SELECT * FROM a.t WHERE day >= :day", args={"day": "2026-01-02"}).collect()
    yield lambda: spark.createDataFrame([(1, "a")], "id INT, name STRING").writeTo("a.rows").createOrReplace()
    yield lambda: spark.table("a.t").write.mode("overwrite").csv(str(folder / "csv"), header=True)
    yield lambda: spark.read.csv(str(folder / "csv"), header=True, inferSchema=True).count()
    yield lambda: spark.table("a.t").write.mode("overwrite").parquet(str(folder / "parquet"))
    yield lambda: spark.read.parquet(str(folder / "parquet")).groupBy("day").count().collect()
    yield lambda: spark.table("a.t").select("id", "name").toArrow()
    yield lambda: spark.sql("SELECT no_such_column FROM a.t").collect()
    yield lambda: _ask_s3(spark)


def _ask_s3(spark: SparkSession) -> None:
    """If S3FileIO is on the class path: a request to a server that is not there needs the classes of all others."""
    view: Any = spark._jvm
    files = view.org.apache.iceberg.aws.s3.S3FileIO()
    files.initialize(
        {
            "client.region": "us-east-1",
            "s3.endpoint": "http://127.0.0.1:1",
            "s3.path-style-access": "true",
            "s3.access-key-id": "train",
            "s3.secret-access-key": "train",
            "s3.retry.num-retries": "0",
        }
    )
    files.newInputFile("s3://train/x").exists()


def _step_back() -> None:
    """Only run when nothing else wants to."""
    os.nice(19)
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m mere.engine.rehearsal", description="Build the archive of class data."
    )
    parser.add_argument("jars", nargs="*", help="further jars on the class path")
    parser.add_argument("--ml", action="store_true", help="with Spark's machine learning")
    parser.add_argument("--background", action="store_true", help="with the lowest priority")
    given = parser.parse_args(arguments)
    if given.background:
        _step_back()
    conf = {"spark.jars": ",".join(given.jars)} if given.jars else {}
    train(SparkSettings(memory="1g", cores=2, ml=given.ml, conf=conf))


if __name__ == "__main__":
    main()
