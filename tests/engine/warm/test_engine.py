"""The warm engine: found, used, refused, replaced, and gone. One engine serves all tests that do not end it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from mere import Lake, Session, session
from mere.engine import session as module
from mere.engine.jvm.work import TOO_MUCH_FOR_WARM
from mere.engine.warm import engine as warm
from mere.engine.warm.discovery import Engine, Place, hold, is_held
from mere.engine.warm.keeper import Keeper
from mere.engine.warm.pulse import Pulse
from mere.errors import EngineError, SparkFailed, SparkLost
from mere.sparkconfig import SparkSettings
from tests.engine.conftest import SETTINGS, OpenWarm
from tests.pipeline.shop import FIRST, SMALL, Shop

FILE = Engine(1, "127.0.0.1:1", "a-token", {"folder": "x"}, 60.0, "2026-11-16T00:00:00+00:00", "/nowhere.log", 2)


def rows(opened: Session, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in opened.spark.sql(query).collect()]


def eventually(true: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


# The files by which it is found: no Spark.


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "home"))
    place = Place.of("s3://bucket/lake")
    place.make()
    return place


@pytest.fixture
def held(place: Place) -> Iterator[int]:
    """As if an engine lived."""
    descriptor = hold(place.alive)
    yield descriptor
    os.close(descriptor)


def test_only_its_owner_can_read_the_file(place: Place, held: int) -> None:
    place.write(FILE)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (place.folder, place.clients)] == [0o700, 0o700]
    assert stat.S_IMODE(place.file.stat().st_mode) == 0o600
    assert place.engine() == FILE
    assert "a-token" not in repr(place.engine())


def test_a_file_that_others_can_read_is_not_trusted(place: Place, held: int) -> None:
    place.write(FILE)
    place.file.chmod(0o640)
    assert place.engine() is None


@pytest.mark.parametrize("pid", [os.getpid(), 2**22 - 1], ids=["used by another process", "dead"])
def test_a_file_whose_engine_is_gone_is_removed_when_it_would_have_ended_by_now(place: Place, pid: int) -> None:
    os.close(hold(place.alive))
    gone = replace(FILE, pid=pid)
    place.write(gone)
    assert warm.running("s3://bucket/lake") is None
    assert warm.dead("s3://bucket/lake") == gone
    last_sign = time.time() - gone.idle - 1
    os.utime(place.file, (last_sign, last_sign))
    assert warm.dead("s3://bucket/lake") is None
    assert warm.running("s3://bucket/lake") is None
    assert not place.file.exists()


def test_an_engine_that_fails_leaves_word_and_is_no_engine_any_more(place: Place, held: int) -> None:
    place.write(FILE)
    place.leave_word(FILE, "it broke")
    assert place.engine() is None
    assert place.dead() == replace(FILE, failure="it broke")
    other = replace(FILE, token="another")
    place.write(other)
    place.leave_word(FILE, "it broke")
    assert place.engine() == other


def test_an_engine_without_room_for_code_is_worn() -> None:
    assert Pulse(1, 10, 91, 100).is_worn
    assert not Pulse(10, 10, 90, 100).is_worn


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', "\0\xff"])
def test_garbage_is_removed(place: Place, text: str) -> None:
    place.file.write_text(text)
    place.file.chmod(0o600)
    assert warm.running("s3://bucket/lake") is None
    assert not place.file.exists()


def test_nothing_is_removed_while_another_process_starts_the_engine(place: Place) -> None:
    place.file.write_text("garbage")
    with place.starting():
        assert warm.running("s3://bucket/lake") is None
        assert place.file.exists()


def test_who_asks_for_a_lock_does_not_seem_to_hold_it(place: Place) -> None:
    os.close(hold(place.alive))
    with place.alive.open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not is_held(place.alive)


def test_lakes_have_engines_of_their_own(place: Place) -> None:
    assert Place.of("s3://bucket/other").folder != place.folder


def test_an_engine_that_is_in_use_is_not_stopped(place: Place, held: int) -> None:
    place.write(FILE)
    client = hold(place.clients / "a-session")
    with pytest.raises(EngineError, match="in use: 1 session") as refused:
        warm.stop("s3://bucket/lake")
    assert "--now" in str(refused.value)
    assert place.engine() == FILE
    os.close(client)


def test_an_engine_that_goes_sees_who_came_or_is_not_found_any_more(
    place: Place, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write(FILE)
    client = hold(place.clients / "a-session")
    assert place.withdraw(FILE) == ["a-session"]
    assert place.engine() == FILE
    os.close(client)
    assert place.withdraw(FILE) == []
    with pytest.raises(warm.Ended):
        warm.connect("s3://bucket/lake", FILE)  # by one who read the file before
    assert place.sessions() == []
    monkeypatch.setattr(warm, "find", lambda *_: FILE)
    with Lake.create(place.folder / "lake") as lake:
        Place.of(lake.location).make()
        asked = replace(SETTINGS, keep_warm=timedelta(minutes=1))
        assert module._on_warm(lake, asked, 0, ()) == "the warm engine has ended"


def test_an_engine_ends_when_nobody_uses_it_or_can_find_it(place: Place, held: int) -> None:
    keeper = Keeper({"folder": str(place.folder), "idle": 60.0})
    own = replace(FILE, token=keeper.token)
    long_ago = time.monotonic() - 61
    place.write(own)
    assert keeper._is_of_use(own, time.monotonic())
    client = hold(place.clients / "a-session")
    assert keeper._is_of_use(own, long_ago)
    os.close(client)
    with place.starting():
        place.file.unlink()
        assert keeper._is_of_use(own, long_ago)  # whoever took the file away may put it there again
    assert not keeper._is_of_use(own, time.monotonic())
    place.write(own)
    assert not keeper._is_of_use(own, long_ago)
    assert not place.file.exists()


def test_an_engine_that_does_not_start_tells_why(place: Place) -> None:
    order = {"folder": str(place.folder), "settings": {"conf": {}, "riddle": 1}, "drivers": []}
    keeper = [sys.executable, "-m", "mere.engine.warm.keeper"]
    done = subprocess.run(keeper, input=json.dumps(order), capture_output=True, text=True, check=True)
    assert "riddle" in done.stdout


@pytest.mark.service
def test_a_server_that_does_not_start_tells_why(lake: Lake) -> None:
    settings = replace(SETTINGS, conf={"spark.connect.grpc.interceptor.classes": "no.such.Riddle"})
    with pytest.raises(EngineError, match=r"did not start: .*no\.such\.Riddle"):
        warm.start(lake.location, settings)
    assert warm.running(lake.location) is None


# Sessions on it.


def test_a_session_finds_the_engine_and_works_on_a_ref(
    warm_engine: Engine, warm_lake: Lake, no_jvm_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "somebody else's")
    with session(warm_lake, "main", settings=SETTINGS, author="ann") as opened:
        assert opened.about == f"the warm engine, process {warm_engine.pid}"
        assert opened.spark.conf.get("spark.connect.session.manager.defaultSessionTimeout") == "-1"
        opened.spark.sql("CREATE NAMESPACE a")
        opened.spark.sql("CREATE TABLE a.t AS SELECT 1 AS id")
        warm_lake.branch("dev")
        opened.use("dev")
        opened.spark.sql("INSERT INTO a.t VALUES (2)")
        opened.attach("main")
        assert rows(opened, "SELECT (SELECT count(*) FROM a.t), count(*) FROM main.a.t") == [(2, 1)]
        warm_lake.publish("dev")
        assert rows(opened, "SELECT count(*) FROM main.a.t") == [(2,)]
        assert rows(opened, "SELECT DISTINCT summary['mere.author'] FROM a.t.snapshots") == [("ann",)]
        opened.detach("main")
        with pytest.raises(EngineError, match="was detached"):
            opened.attach("main")
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ


def test_two_clients_have_nothing_in_common(open_warm: OpenWarm, lake: Lake, tmp_path: Path) -> None:
    with Lake.create(tmp_path / "other") as second:
        one, two = open_warm(lake), open_warm(second)
        one.spark.sql("SELECT 1 AS id").createOrReplaceTempView("mine")
        one.spark.sql("CREATE NAMESPACE a")
        two.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        assert one.spark.conf.get("spark.sql.session.timeZone") == "UTC"
        assert not two.spark.catalog.tableExists("mine")
        assert rows(two, "SHOW NAMESPACES") == []

        from pyspark.sql import SparkSession

        assert SparkSession.getActiveSession() is two.spark
        two.stop()
        assert SparkSession.getActiveSession() is one.spark
        assert rows(one, "SELECT id FROM mine") == [(1,)]


def test_threads_share_a_session(open_warm: OpenWarm, lake: Lake) -> None:
    from pyspark.sql.functions import sum as total

    opened, found = open_warm(lake), {}

    def work(number: int) -> None:
        found[number] = opened.spark.range(number).agg(total("id")).collect()[0][0]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: sum(range(number)) for number in range(2, 8)}


def test_python_functions_arrow_and_pandas_go_both_ways(open_warm: OpenWarm, lake: Lake) -> None:
    import pyarrow as pa
    from pyspark.sql.functions import udf

    spark = open_warm(lake).spark
    here = udf(lambda _: f"{sys.prefix} {os.getpid()}", "string")
    workers = [spark.range(1).select(here("id")).collect()[0][0] for _ in range(2)]
    assert {worker.partition(" ")[0] for worker in workers} == {sys.prefix}
    assert workers[0] != workers[1]  # or it would know old code of a module that was edited meanwhile
    frame = spark.createDataFrame(pa.table({"id": [1, 2], "name": ["a", None]}))
    assert frame.toArrow().to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    assert spark.createDataFrame(frame.toPandas()).count() == 2


def test_cancelling_ends_what_is_running(open_warm: OpenWarm, lake: Lake) -> None:
    opened = open_warm(lake)
    threading.Timer(1.0, opened.cancel).start()
    with pytest.raises(Exception, match=r"(?i)cancel|interrupt"):
        opened.spark.sql("SELECT count(sha2(CAST(id AS STRING), 512)) FROM range(100000000000)").collect()
    assert rows(opened, "SELECT 1") == [(1,)]


def test_a_wrong_token_is_refused(warm_engine: Engine, warm_lake: Lake) -> None:
    with pytest.raises(warm.NoAnswer, match="Invalid authentication token"):
        warm.connect(warm_lake.location, replace(warm_engine, token="wrong"))


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        (replace(SETTINGS, memory="2g"), "set of settings"),
        (replace(SETTINGS, conf={"spark.sql.ansi.enabled": "false"}), "set of settings"),
        (replace(SETTINGS, ml=True), "set of jars"),
    ],
)
def test_an_engine_with_another_configuration_is_not_used(
    warm_engine: Engine, warm_lake: Lake, settings: SparkSettings, difference: str
) -> None:
    assert warm.find(warm_lake.location, SETTINGS) == warm_engine
    assert warm.find(warm_lake.location, settings) == f"the warm engine was started with another {difference}"


def test_an_engine_that_is_in_use_does_not_make_way(warm_engine: Engine, warm_lake: Lake, open_warm: OpenWarm) -> None:
    open_warm(warm_lake)
    other = replace(SETTINGS, memory="2g", keep_warm=timedelta(minutes=1))
    assert str(warm.find(warm_lake.location, other)).endswith("set of settings, and is in use")
    with pytest.raises(warm.InUse):
        warm.start(warm_lake.location, replace(SETTINGS, memory="2g"))


def test_much_data_gets_a_jvm_that_is_tuned_for_it(warm_engine: Engine, warm_lake: Lake) -> None:
    found = module._on_warm(warm_lake, SETTINGS, TOO_MUCH_FOR_WARM, ())
    assert found == "268 MB will be read, for which it is tuned"


def test_a_switch_lets_sessions_pass_by(warm_engine: Engine, warm_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    assert warm.is_expected(warm_lake.location, SETTINGS)
    monkeypatch.setenv("MERE_ENGINE", "off")
    assert not warm.is_expected(warm_lake.location, replace(SETTINGS, keep_warm=timedelta(minutes=1)))


def test_nothing_secret_can_be_seen_from_outside(warm_engine: Engine, warm_lake: Lake, open_warm: OpenWarm) -> None:
    open_warm(warm_lake)
    commands = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "mere.engine.warm.keeper" in commands
    assert warm_engine.token not in commands
    keeper = psutil.Process(warm_engine.pid)
    for process in (keeper, *keeper.children(recursive=True)):
        assert warm_engine.token not in str(process.environ())
        assert {each.laddr.ip.removeprefix("::ffff:") for each in process.net_connections("inet")} <= {"127.0.0.1"}
    log = Path(warm_engine.log)
    assert not log.exists() or warm_engine.token not in log.read_text()


KILLED = """
import sys
from mere import Lake, session
from mere.sparkconfig import SparkSettings
with session(Lake.open(sys.argv[1]), "main", settings=SparkSettings(memory="1g")) as opened:
    assert "warm engine" in opened.about, opened.about
    print("begun", flush=True)
    opened.spark.sql("SELECT count(sha2(CAST(id AS STRING), 512)) FROM range(100000000000)").collect()
"""


def test_what_a_killed_client_has_begun_is_cancelled(warm_engine: Engine, warm_lake: Lake, open_warm: OpenWarm) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, warm_lake.location], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout
    assert child.stderr
    assert child.stdout.readline() == b"begun\n", child.stderr.read()
    (theirs,) = warm.sessions(warm_lake.location)
    child.kill()
    child.wait()
    child.stdout.close()
    child.stderr.close()
    eventually(lambda: theirs not in [path.name for path in Place.of(warm_lake.location).clients.iterdir()])
    # Both cores are free again: a query that would stand in line behind the other one has its turn.
    assert rows(open_warm(warm_lake), "SELECT count(*) FROM range(10)") == [(10,)]
    assert psutil.Process(warm_engine.pid).is_running()


# An engine of a project, through the command line, until it ends.

SLOW = """
    from pyspark.sql import DataFrame

    from mere import model, table


    @model("gold.slow")
    def slow(daily: DataFrame = table("gold.daily")) -> DataFrame:
        return daily.selectExpr("CAST(sha2(CAST(day AS STRING), 512) AS STRING) AS a").join(
            daily.sparkSession.range(100000000000).selectExpr("CAST(id AS STRING) AS a"), "a"
        )
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    made = Shop(tmp_path / "shop", SMALL)
    with (made.folder / "mere.yaml").open("a") as file:
        file.write("    spark:\n      memory: 1g\n      keep_warm: 5m\n")
    made.land(*FIRST)
    monkeypatch.chdir(made.folder)
    yield made
    made("engine", "stop", "--now")
    made.lake.close()


@pytest.mark.service
def test_an_engine_from_its_start_to_its_end(shop: Shop, no_jvm_here: None) -> None:
    """Left behind by a run, used by the next one, killed in the middle of a third; replaced, and ended."""
    assert "no warm engine" in shop("engine", "status").stdout
    assert "Spark: the warm engine, process" in shop("run").stdout
    first = json.loads(shop("engine", "status", "--json").stdout)
    assert (first["running"], first["idle_seconds"], first["differs_in"]) == (True, 300, None)
    assert first["answers"] is True
    assert 0 < first["heap_bytes"] < first["heap_limit_bytes"] <= 1 << 30
    assert 0 < first["code_bytes"] < first["code_limit_bytes"]
    assert first["code_limit_bytes"] >= 240 << 20
    assert "token" not in first

    shop.write({"models/gold/slow.py": SLOW})
    before = shop.pointers()
    jvm = next(each for each in psutil.Process(first["pid"]).children() if "java" in each.name())

    def kill() -> None:
        eventually(lambda: warm.sessions(shop.lake.location) != [])
        time.sleep(2)
        jvm.send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    failed = shop("run", exit_code=1)
    killer.join()
    assert "The server that ran Spark no longer answers: it was stopped or killed." in failed.stderr
    assert "main was left as it was" in failed.stderr
    assert shop.pointers() == before
    assert failed.stderr.count("no longer answers") == 1
    eventually(lambda: is_gone(first["pid"]))
    died = json.loads(shop("engine", "status", "--json").stdout)
    assert (died["running"], died["died"]["failure"]) == (False, "its JVM ended")
    assert "ended, because its JVM ended; the next session starts a new one" in shop("engine", "status").stdout

    shop.remove("models/gold/slow.py")
    shop.land((6, 1, "2024-02-06T10:00", 1))
    assert "Spark: the warm engine, process" in shop("run").stdout
    second = json.loads(shop("engine", "status", "--json").stdout)
    assert second["pid"] != first["pid"]

    shop.replace("mere.yaml", "memory: 1g", "memory: 900m")
    assert "not used from here: it was started with another set of settings" in shop("engine", "status").stdout
    assert "the warm engine is running: process" in shop("engine", "start", "--idle", "1s").stdout
    eventually(lambda: is_gone(second["pid"]))
    eventually(lambda: json.loads(shop("engine", "status", "--json").stdout) == {"running": False})
    assert shop("engine", "stop").stdout == "no warm engine\n"
    assert shop("engine", "stop").stdout == "no warm engine\n"


KEEPER = """
import sys, threading, time
from pathlib import Path
from mere.engine.warm import keeper

class Stopping(keeper.Keeper):
    def _keep(self, driver, *arguments):
        def stop():
            while not Path(sys.argv[1]).exists():
                time.sleep(0.1)
            driver.context._jsc.sc().stop()
        threading.Thread(target=stop, daemon=True).start()
        return super()._keep(driver, *arguments)

keeper.Keeper = Stopping
keeper.main()
"""


def stop_in_the_middle(lake: Lake, settings: SparkSettings) -> None:
    with session(lake, "main", settings=settings) as opened:
        engine = warm.running(lake.location)
        assert engine is not None
        assert f"process {engine.pid}" in opened.about
        for pid in (engine.pid, engine.jvm):
            os.kill(pid, signal.SIGSTOP)
        opened.spark.range(10).count()


@pytest.mark.long
@pytest.mark.service
def test_an_engine_that_does_nothing_any_more_is_replaced(
    lake: Lake, no_jvm_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its SparkContext is stopped under it; then the next one is, as a whole, in the middle of a query."""
    at, asked = lake.location, replace(SETTINGS, cores=1)
    with monkeypatch.context() as patched:
        patched.setattr(warm, "_KEEPER", [sys.executable, "-c", KEEPER, str(tmp_path / "stop")])
        first, _ = warm.start(at, asked)
    try:
        assert warm.health(at, first).failure is None
        (tmp_path / "stop").touch()
        eventually(lambda: warm.dead(at) is not None)
        fallen = warm.dead(at)
        assert fallen is not None
        assert fallen.failure == "its SparkContext was stopped"
        eventually(lambda: is_gone(first.pid))

        monkeypatch.setattr(warm, "SILENCE", 8.0)
        with pytest.raises(SparkLost, match="does not answer"):
            stop_in_the_middle(lake, asked)
        second = warm.running(at)
        assert second is not None
        assert second.pid != first.pid  # nobody asked for it to be kept warm but who started the first one

        monkeypatch.setattr(warm, "ANSWER_SECONDS", 1.0)
        assert str(warm.health(at, second).failure) == "The warm engine did not answer for 1 s."
        client = hold(Place.of(at).clients / "another")
        assert warm.connected(at, asked) == "the warm engine does not answer, and is in use"
        os.close(client)
        monkeypatch.setattr(warm, "ANSWER_SECONDS", 30.0)
        with session(lake, "main", settings=asked) as opened:
            assert rows(opened, "SELECT 1") == [(1,)]
            third = warm.running(at)
            assert third is not None
            assert third.pid not in (first.pid, second.pid)
        assert is_gone(second.jvm)
    finally:
        warm.stop(at, now=True)


@pytest.mark.service
def test_two_starts_at_once_give_one_engine(shop: Shop) -> None:
    command = [sys.executable, "-m", "mere", "engine", "start", "--json"]
    starts = [
        subprocess.Popen(command, cwd=shop.folder, stdout=subprocess.PIPE, start_new_session=True) for _ in range(2)
    ]
    told = [json.loads(start.communicate()[0]) for start in starts]
    assert {each["started"] for each in told} == {True, False}
    assert len({each["pid"] for each in told}) == 1
    assert not is_gone(told[0]["pid"])  # the processes that started it are gone
    assert json.loads(shop("engine", "stop", "--json").stdout) == {"stopped": True, "pid": told[0]["pid"]}
    eventually(lambda: is_gone(told[0]["pid"]))


def test_a_session_without_a_server_fails_with_a_remedy(lake: Lake, no_jvm_here: None) -> None:
    start = time.monotonic()
    with pytest.raises(EngineError, match="sc://localhost:1 cannot be used") as refused:
        session(lake, "main", settings=SparkSettings(remote="sc://localhost:1"))
    assert time.monotonic() - start < 12, "on a busy machine; it would have been 26 on an idle one"
    assert "remote" in str(refused.value.remedy)
    assert not isinstance(refused.value, SparkFailed)


def test_a_server_of_somebody_else_is_used_by_its_address(
    warm_engine: Engine, lake: Lake, no_jvm_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = warm_engine.address.partition(":")[2]
    remote = SparkSettings(remote=f"sc://localhost:{port}", conf={"spark.sql.shuffle.partitions": "3"})
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "wrong")
    with pytest.raises(EngineError, match="Invalid authentication token"):
        session(lake, "main", settings=remote)
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", warm_engine.token)
    with session(lake, "main", settings=remote) as opened:
        assert opened.about == remote.remote
        opened.spark.sql("CREATE NAMESPACE a")
        opened.spark.sql("CREATE TABLE a.t AS SELECT 1 AS id")
        assert opened.spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert str(next(iter(lake.at("main")))) == "a.t"
