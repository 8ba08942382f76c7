"""A front, before the Spark of the suite's warm engine: who is let in, what a session finds there, how it ends."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
import trustme

from mere import Lake
from mere.engine.front import Backend, Terms
from mere.engine.warm.discovery import Engine
from mere.errors import ConfigError
from mere.serve.access.tokens import Tokens
from mere.serve.spark.front import SparkFront, opened
from tests.cli.test_cli import Shell
from tests.pipeline.shop import FIRST, SMALL, Shop

Open = Callable[..., SparkFront]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        catalog = lake.pyiceberg()
        catalog.create_namespace("gold")
        orders = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
        catalog.create_table("gold.orders", orders.schema).append(orders)
        yield lake


@pytest.fixture
def open_front(lake: Lake, warm_engine: Engine) -> Iterator[Open]:
    fronts: list[SparkFront] = []

    def open_front(**terms: Any) -> SparkFront:
        backend = Backend(warm_engine.address, warm_engine.token, lambda: {"heap_bytes": 1.0})
        fronts.append(opened(backend, Terms(lake=lake.location, **terms)))
        return fronts[-1]

    yield open_front
    for front in fronts:
        front.close()


@contextmanager
def client(url: str, user: str = "ann", root: bytes | None = None) -> Iterator[Any]:
    """As pyspark makes it of the address; `root`: the certificate of an authority that the machine does not know."""
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession

    class Builder(DefaultChannelBuilder):
        def toChannel(self) -> Any:  # noqa: N802
            if root is None:
                return super().toChannel()
            own = grpc.access_token_call_credentials(self.token)
            credentials = grpc.composite_channel_credentials(grpc.ssl_channel_credentials(root), own)
            return self._secure_channel(self.endpoint, credentials)

    spark: Any = SparkSession(Builder(url), userId=user)
    try:
        yield spark
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pyspark warns in a way that is deprecated, where nobody was let in
            spark.stop()
        spark.client.close = lambda: None  # see mere.engine.connect


def rows(spark: Any, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


def refusal(spark: Any) -> str:
    with pytest.raises(Exception, match=r".") as caught:
        spark.sql("SELECT 1").collect()
    return str(caught.value)


def test_a_bare_session_finds_the_refs_as_catalogs_and_new_ones_at_once(lake: Lake, open_front: Open) -> None:
    with client(open_front().url) as spark:
        assert spark.table("main.gold.orders").count() == 3
        assert spark.table("gold.orders").count() == 3  # without a ref, it is main's
        lake.branch("dev")
        time.sleep(0.6)
        spark.sql("INSERT INTO dev.gold.orders SELECT * FROM main.gold.orders")
        assert rows(spark, "SELECT count(*) FROM dev.gold.orders") == [(6,)]
        assert rows(spark, "SELECT count(*) FROM main.gold.orders") == [(3,)]
    assert lake.resolve("dev").commit.author == "ann"


def test_pyspark_alone_is_enough(open_front: Open) -> None:
    program = (
        "from pyspark.sql import SparkSession\n"
        f"spark = SparkSession.builder.remote('{open_front().url}').getOrCreate()\n"
        "print(spark.table('main.gold.orders').count())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "3\n", done.stderr


def test_users_have_sessions_of_their_own(open_front: Open) -> None:
    front = open_front()
    with client(front.url, "ann") as ann, client(front.url, "bob") as bob:
        ann.sql("SELECT 1 AS x").createOrReplaceTempView("mine")
        ann.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        assert rows(ann, "SELECT * FROM mine") == [(1,)]
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            rows(bob, "SELECT * FROM mine")
        assert bob.conf.get("spark.sql.session.timeZone") != "Asia/Tokyo"
        assert sorted(user for user, _ in front.sessions) == ["ann", "bob"]
    assert front.sessions == []


def test_an_error_of_spark_arrives_as_it_is(open_front: Open) -> None:
    from pyspark.errors import AnalysisException

    with client(open_front().url) as spark:
        with pytest.raises(AnalysisException) as caught:
            spark.table("main.gold.nothing").count()
        assert caught.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_large_results_and_python_functions_go_through(open_front: Open) -> None:
    with client(open_front().url) as spark:
        table = spark.range(300_000).selectExpr("id", "repeat('x', 50) AS text").toArrow()
        assert (table.num_rows, table.nbytes > 16_000_000) == (300_000, True)

        def twice(parts: Iterator[Any]) -> Iterator[Any]:
            for part in parts:
                yield part.from_pydict({"x": [2 * each for each in part["id"].to_pylist()]})

        assert sorted(row.x for row in spark.range(3).mapInArrow(twice, "x long").collect()) == [0, 2, 4]


def test_who_has_no_token_is_told_so_and_names_come_from_tokens(lake: Lake, open_front: Open, tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "users.tokens")
    kept, text = tokens.create("ann", None, timedelta(days=1))
    _, reader = tokens.create("bob", "reader", timedelta(days=1))
    front = open_front(tokens=str(tokens.path))
    for url, said in {
        front.url: "asks for a token",
        f"{front.url}/;token=nonsense": "not valid on this server",
        f"{front.url}/;token={reader}": "has the role reader",
    }.items():
        with client(url) as spark:
            assert said in refusal(spark)
    assert front.sessions == []
    with client(f"{front.url}/;token={text}", user="somebody else") as spark:
        spark.sql("INSERT INTO main.gold.orders SELECT * FROM main.gold.orders LIMIT 1")
        assert lake.resolve("main").commit.author == "ann"
        tokens.revoke(kept.id)
        assert "not valid on this server" in refusal(spark)


def test_tls_keeps_the_token_from_others(open_front: Open, tmp_path: Path) -> None:
    authority, files = trustme.CA(), (tmp_path / "server.crt", tmp_path / "server.key")
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(str(files[0]))
    issued.private_key_pem.write_to_path(str(files[1]))
    files[1].chmod(0o600)
    front = open_front(certificate=str(files[0]), key=str(files[1]), secret="a-secret")
    assert front.url.startswith("sc://127.0.0.1:")
    assert front.url.endswith("/;use_ssl=true")
    with client(f"{front.url};token=a-secret", root=authority.cert_pem.bytes()) as spark:
        assert rows(spark, "SELECT count(*) FROM main.gold.orders") == [(3,)]
    with client(f"{front.url};token=another", root=authority.cert_pem.bytes()) as spark:
        assert "not the one of this server" in refusal(spark)


def test_its_metrics_say_who_is_there(open_front: Open) -> None:
    front = open_front(monitor_port=0)
    with client(front.url) as spark:
        rows(spark, "SELECT 1")
        with urllib.request.urlopen(str(front.monitor)) as page:
            text = page.read().decode()
    assert 'mere_spark_sessions{user="ann"} 1' in text
    assert 'mere_spark_requests_total{method="ExecutePlan",status="OK"} ' in text
    assert "mere_spark_heap_bytes 1\n" in text


def test_at_its_end_what_runs_may_finish_and_nothing_begins(open_front: Open) -> None:
    front = open_front()
    found: list[object] = []
    with client(front.url) as busy, client(front.url) as late:

        def slowly(parts: Iterator[Any]) -> Iterator[Any]:
            time.sleep(3)
            yield from parts

        query = busy.range(1, 2, 1, 1).mapInArrow(slowly, "id long")
        running = threading.Thread(target=lambda: found.extend(query.collect()))
        running.start()
        while not front.running:
            time.sleep(0.01)
        ending = threading.Thread(target=front.drain, args=(lambda: False,))
        ending.start()
        time.sleep(0.1)
        assert "about to end" in refusal(late)
        assert not found
        running.join()
        ending.join()
    assert len(found) == 1


def test_a_port_that_is_taken_is_named(open_front: Open) -> None:
    port = int(open_front().url.rpartition(":")[2])
    with pytest.raises(ConfigError, match=rf"Cannot listen on 127\.0\.0\.1:{port}"):
        open_front(port=port)


def test_a_run_of_mere_goes_through_it(
    open_front: Open, warm_engine: Engine, no_jvm_here: None, tmp_path: Path
) -> None:
    """Its own catalogs stand in place of those that the front gives."""
    shop = Shop(tmp_path / "shop", SMALL)
    backend = Backend(warm_engine.address, warm_engine.token)
    front = opened(backend, Terms(lake=shop.lake.location))
    try:
        with (shop.folder / "mere.yaml").open("a") as file:
            file.write(f"    spark: {{remote: '{front.url}'}}\n")
        shop.land(*FIRST)
        assert f"Spark: {front.url}" in shop("run").stdout
        assert "nothing to do" in shop("run").stdout
    finally:
        front.close()
        shop.lake.close()


def test_an_engine_of_ones_own_has_an_address_for_other_programs(warm_lake: Lake, warm_engine: Engine) -> None:
    url = Shell(Path.cwd())("--lake", warm_lake.location, "engine", "url").stdout.strip()
    with client(url) as spark:
        assert rows(spark, "SELECT 1 AS x") == [(1,)]
        assert spark.conf.get("spark.sql.catalog.main") == "org.apache.iceberg.spark.SparkCatalog"
    assert Shell(Path.cwd())("--lake", warm_lake.location, "engine", "url").stdout.strip() == url
    with client(url.partition("/;")[0]) as spark:
        assert "asks for a token" in refusal(spark)
