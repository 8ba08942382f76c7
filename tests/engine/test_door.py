"""A session that comes to its lake over HTTP (`catalog: rest`): Spark knows no database, and may do no more there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from mere import Session
from mere.config import S3Settings
from mere.engine.translate import explain
from mere.errors import LeaseHeld, RefNotFound, SparkFailed
from mere.lake.iceberg.properties import AUTHOR
from mere.lake.lake import Lake
from mere.sparkconfig import RestSettings, SparkSettings
from tests.conftest import OpenSession
from tests.lake import orders
from tests.lake.places import S3, place
from tests.serve.iceberg.rest import error, serving

REST = SparkSettings(rest=RestSettings())


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with orders.create(tmp_path) as lake:
        lake.branch("dev")
        yield lake


def told(session: Session, ref: str) -> dict[str, str]:
    """What Spark was told of a catalog, by the names of the properties."""
    prefix = f"spark.sql.catalog.{ref}."
    return {
        name.removeprefix(prefix): str(session.spark.conf.get(name))
        for (name, *_) in session.spark.sql("SET").collect()
        if name.startswith(prefix)
    }


def test_spark_knows_no_database_and_commits_in_the_name_of_the_session(lake: Lake, spark_on: OpenSession) -> None:
    session = spark_on(lake, "dev", settings=REST, author="ann")
    session.spark.sql("INSERT INTO gold.orders VALUES (4, 'dora', 1.0)")
    properties = told(session, "dev")
    assert properties["type"] == "rest"
    assert not any("jdbc" in each or "catalog.db" in each for pair in properties.items() for each in pair)
    commit = next(iter(lake.log("dev")))
    assert (commit.author, commit.source) == ("ann", None)
    assert (commit.message or "").startswith("append gold.orders (Apache Iceberg 1.")
    assert lake.at("dev").metadata("gold.orders").raw["snapshots"][-1]["summary"][AUTHOR] == "ann"
    assert orders.rows(lake, "select count(*) from gold.orders", "dev") == [(4,)]
    assert orders.rows(lake, "select count(*) from gold.orders") == [(3,)]


def test_what_spark_shows_of_its_settings_holds_no_token(lake: Lake, spark_on: OpenSession) -> None:
    session = spark_on(lake, "dev", settings=REST)
    token = told(session, "dev")["token"]
    shown = str(session.spark.sql("SET").collect())
    assert "spark.sql.catalog.dev.token" in shown
    assert token not in shown


def test_other_refs_are_attached_with_tokens_of_their_own(lake: Lake, spark_on: OpenSession) -> None:
    session = spark_on(lake, "dev", settings=REST)
    assert session.attach("dev") == "dev", "again, with the same token"
    main, commit = session.attach("main"), session.attach("main~0")
    session.spark.sql("DELETE FROM gold.orders WHERE id > 1")
    for name, count in ((main, 3), (commit, 3), ("dev", 1)):
        assert session.spark.sql(f"SELECT count(*) FROM `{name}`.gold.orders").collect() == [(count,)]
    with pytest.raises(Exception, match="read-only"):
        session.spark.sql(f"DELETE FROM `{commit}`.gold.orders")
    tokens = {told(session, name)["token"] for name in (main, commit, "dev")}
    assert len(tokens) == 3
    with pytest.raises(RefNotFound):
        session.attach("nowhere")


def test_its_server_is_open_to_whoever_has_a_token_and_to_that_ref(lake: Lake, spark_on: OpenSession) -> None:
    session = spark_on(lake, "dev", settings=REST)
    properties = told(session, "dev")
    uri = properties["uri"]
    assert uri.startswith("http://127.0.0.1:")

    def ask(method: str, path: str, token: str = properties["token"]) -> requests.Response:
        return requests.request(method, f"{uri}/v1/{path}", headers={"Authorization": f"Bearer {token}"}, timeout=10)

    table = "namespaces/gold/tables/orders"
    assert requests.get(f"{uri}/v1/config", timeout=10).status_code == 401
    assert requests.get(f"{uri}/v1/config", auth=("ann", ""), timeout=10).status_code == 401
    assert ask("GET", "config?warehouse=dev", token="").status_code == 401
    assert ask("GET", f"dev/{table}", token=properties["token"][:-1]).status_code == 401
    assert ask("GET", f"dev/{table}").status_code == 200
    for path in (f"main/{table}", f"dev~1/{table}", f"{lake.resolve('main').commit.id}/{table}", f"dev@0s/{table}"):
        assert error(ask("GET", path))[:2] == (403, "ForbiddenException"), path
    assert ask("GET", "config?warehouse=main").status_code == 403
    assert ask("GET", "config").status_code == 403, "which is main"
    assert ask("POST", f"main/{table}").status_code == 403
    session.stop()
    with pytest.raises(requests.ConnectionError):
        ask("GET", f"dev/{table}")


def test_engines_do_not_drop(lake: Lake, spark_on: OpenSession) -> None:
    before = lake.resolve("dev").commit.id
    session = spark_on(lake, "dev", settings=REST)
    with pytest.raises(Exception, match="do not drop") as caught:
        session.spark.sql("DROP TABLE gold.orders")
    assert str(explain(caught.value)) == (
        "Other refs may need the files of gold.orders, so engines do not drop; use: mere drop gold.orders."
    )
    assert lake.resolve("dev").commit.id == before


def test_nothing_is_written_once_the_check_of_the_session_fails(lake: Lake, spark_on: OpenSession) -> None:
    lost: list[str] = []

    def check() -> None:
        if lost:
            raise LeaseHeld("Run 1 has lost its lease on gold.orders.", remedy="Run it again.")

    session = spark_on(lake, "dev", settings=REST, check=check)
    session.spark.sql("INSERT INTO gold.orders VALUES (4, 'dora', 1.0)")
    before = lake.resolve("dev").commit.id
    lost.append("the lease")
    for statement in ("INSERT INTO gold.orders VALUES (5, 'eve', 1.0)", "CREATE TABLE gold.more AS SELECT 1 AS id"):
        with pytest.raises(Exception, match="lease") as caught:
            session.spark.sql(statement)
        assert str(explain(caught.value)) == "Run 1 has lost its lease on gold.orders. Run it again."
    assert lake.resolve("dev").commit.id == before
    assert session.spark.sql("SELECT count(*) FROM gold.orders").collect() == [(4,)]


def test_a_server_that_runs_is_found_by_its_address(lake: Lake, spark_on: OpenSession) -> None:
    with serving(lake) as rest:
        settings = SparkSettings(rest=RestSettings(rest.uri))
        session = spark_on(lake, "dev", settings=settings)
        session.spark.sql("INSERT INTO gold.orders VALUES (4, 'dora', 1.0)")
        assert [line["ref"] for line in rest.told() if line["method"] == "POST"] == ["dev"]
        main = session.attach("main")
        with pytest.raises(Exception, match="publish") as caught:
            session.spark.sql(f"DELETE FROM {main}.gold.orders")
        assert "may not write" in str(explain(caught.value))
    with pytest.raises(SparkFailed, match="REST catalog of the lake does not answer"), session:
        session.spark.sql("SELECT count(*) FROM gold.orders").collect()


@pytest.fixture
def on_s3(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lake]:
    with place(S3, tmp_path, request).create() as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        lake.branch("dev")
        yield lake


@pytest.mark.service
@pytest.mark.parametrize("signed", [False, True])
def test_on_s3_spark_has_the_keys_or_its_requests_are_signed(on_s3: Lake, spark_on: OpenSession, signed: bool) -> None:
    session = spark_on(on_s3, "dev", settings=SparkSettings(rest=RestSettings(signed=signed)))
    session.spark.sql("CREATE TABLE gold.made AS SELECT id, customer FROM gold.orders")
    session.spark.sql("INSERT INTO gold.made VALUES (9, 'zoe')")
    session.spark.sql("DELETE FROM gold.made WHERE id = 1")
    found = session.spark.sql("SELECT id FROM gold.made ORDER BY id").collect()
    assert [row.id for row in found] == [2, 3, 9]
    keys = on_s3.storage.s3
    assert isinstance(keys, S3Settings)
    given = told(session, "dev").values()
    assert (keys.secret_key in given, keys.access_key in given) == (not signed, not signed)
    assert orders.rows(on_s3, "select count(*) from gold.made", "dev") == [(3,)]


def test_no_server_is_left_behind_where_a_session_cannot_be_opened(lake: Lake, spark_on: OpenSession) -> None:
    import threading

    before = {thread for thread in threading.enumerate() if thread.name == "http"}
    with pytest.raises(RefNotFound):
        spark_on(lake, "nowhere", settings=REST)
    assert {thread for thread in threading.enumerate() if thread.name == "http"} == before


SHOWN = """
import subprocess, sys, urllib.request
from mere import Lake, session
from mere.sparkconfig import RestSettings, SparkSettings

settings = SparkSettings(ui=True, memory="1g", rest=RestSettings())
with Lake.open(sys.argv[1]) as lake, session(lake, "dev", settings=settings) as opened:
    opened.spark.sql("INSERT INTO gold.orders VALUES (4, 'dora', 1.0)")
    token = opened.spark.conf.get("spark.sql.catalog.dev.token")
    ui, app = opened.spark.sparkContext.uiWebUrl, opened.spark.sparkContext.applicationId
    pages = ["/environment/", "/SQL/", "/SQL/execution/?id=0", "/SQL/execution/?id=1", "/jobs/"]
    pages += [f"/api/v1/applications/{app}/{each}" for each in ("environment", "sql?details=true")]
    shown = [urllib.request.urlopen(ui + page).read().decode() for page in pages]
    shown.append(subprocess.run(["ps", "-eo", "args", "eww"], capture_output=True, text=True).stdout)
    log = opened._driver.log
    assert any("spark.sql.catalog.dev.uri" in page for page in shown), "a page with the settings was looked at"
shown.append(log.read_text() if log.exists() else "")
print([token in page for page in shown])
"""


@pytest.mark.long
@pytest.mark.service
def test_the_token_is_nowhere_to_be_seen(lake: Lake) -> None:
    """Not in Spark's UI, not in the list of processes with their environments, not in the log."""
    done = subprocess.run(
        [sys.executable, "-c", SHOWN, lake.location],
        env={**os.environ, "MERE_ENGINE": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str([False] * 9)
