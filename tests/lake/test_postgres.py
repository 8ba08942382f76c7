"""A lake on Postgres when the server, the network or the password fails, and with many writers at once."""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from mere.engine.session import Session
from mere.errors import EngineError, LakeConflict, LakeError, LakeNotFound, LakeTooNew, LakeUnreadable
from mere.lake.commits import CommitKind
from mere.lake.lake import Lake
from mere.lake.postgres import PostgresStore
from tests.lake.foreign import ForeignOnPostgres
from tests.services.postgres import PASSWORD, Postgres
from tests.services.proxy import Proxy


@pytest.fixture
def url(postgres_server: Postgres) -> str:
    return postgres_server.new_database(f"lake_{secrets.token_hex(6)}")


@pytest.fixture
def lake(url: str, tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake", catalog=url) as lake:
        yield lake


def through(proxy: Proxy, url: str) -> str:
    port = url.rpartition(":")[2].partition("/")[0]
    return url.replace(f":{port}/", f":{proxy.port}/")


def test_a_lake_is_made_once_and_found_again(lake: Lake, url: str, postgres_server: Postgres) -> None:
    with pytest.raises(LakeError, match="already a lake"):
        PostgresStore.create(url, "x", "bob")
    again = PostgresStore.open(url)
    assert (again.root, again.lake_id) == (lake.store.root, lake.store.lake_id)
    again.close()
    empty = postgres_server.new_database(f"empty_{secrets.token_hex(6)}")
    with pytest.raises(LakeNotFound, match="no lake in"):
        PostgresStore.open(empty)


def test_a_newer_lake_is_refused(lake: Lake, url: str) -> None:
    ForeignOnPostgres(lake, url).execute("UPDATE mere_meta SET value = '99' WHERE key = 'schema_version'")
    with pytest.raises(LakeTooNew):
        PostgresStore.open(url)


@pytest.mark.parametrize("wrong", ["password", "port"])
def test_what_is_wrong_is_said_without_the_password(url: str, wrong: str, postgres_server: Postgres) -> None:
    broken = (
        url.replace(PASSWORD, "hunter2") if wrong == "password" else url.replace(f":{postgres_server.port}/", ":1/")
    )
    with pytest.raises(LakeUnreadable) as caught:
        PostgresStore.open(broken)
    assert "127.0.0.1" in caught.value.message
    assert PASSWORD not in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.service
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_restart_under_open_connections_is_survived(tmp_path: Path, how: signal.Signals) -> None:
    folder = Path("/tmp") / f"mere-pg-{secrets.token_hex(4)}"
    server = Postgres(folder)
    server.start()
    try:
        url = server.new_database("lake")
        with Lake.create(tmp_path, catalog=url) as lake:
            engine = ForeignOnPostgres(lake, url)
            engine.append("main", "a.t", 1)
            lake.branch("dev")
            engine.append("dev", "a.t", 2)
            server.stop(how)
            threading.Timer(0.6, server.start).start()
            assert lake.publish("dev").commit is not None
            assert lake.at().metadata("a.t").rows == 3
            assert next(lake.log()).kind is CommitKind.PUBLISH
    finally:
        server.stop()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_commit_whose_reply_was_lost_happens_exactly_once(lake: Lake, url: str, when: str) -> None:
    engine = ForeignOnPostgres(lake, url)
    engine.append("main", "a.t", 1)
    lake.branch("dev")
    engine.append("dev", "a.t", 2)
    engine.append("dev", "a.u", 2)
    before = len(list(lake.log()))
    proxy = Proxy(int(url.rpartition(":")[2].partition("/")[0]))
    with Lake.open(lake.root, catalog=through(proxy, url)) as distant:
        publishing: list[bytes] = []

        def cut(sent: bytes) -> str | None:
            if b"INSERT INTO mere_commits" in sent:
                publishing.append(sent)
            return when if publishing and b"COMMIT\x00" in sent and proxy.cuts == 0 else None

        proxy.cut = cut
        commit = distant.publish("dev", message="once").commit
    proxy.close()
    assert proxy.cuts == 1
    log = list(lake.log())
    assert len(log) == before + 1
    assert commit is not None
    assert (log[0].id, log[0].message) == (commit.id, "once")
    assert {str(change.key) for change in commit.changes} == {"a.t", "a.u"}
    assert lake.at().entries == lake.at("dev").entries


def test_a_fork_whose_reply_was_lost_happens_once(lake: Lake, url: str) -> None:
    proxy = Proxy(int(url.rpartition(":")[2].partition("/")[0]))
    with Lake.open(lake.root, catalog=through(proxy, url)) as distant:
        forking: list[bytes] = []

        def cut(sent: bytes) -> str | None:
            if b"INSERT INTO mere_refs" in sent:
                forking.append(sent)
            return "after" if forking and b"COMMIT\x00" in sent and proxy.cuts == 0 else None

        proxy.cut = cut
        assert distant.branch("dev", author="ann").name == "dev"
    proxy.close()
    assert proxy.cuts == 1
    assert [ref.name for ref in lake.refs()] == ["dev", "main"]


def test_engines_give_their_connections_back(lake: Lake, url: str, spark_on: Callable[..., Session]) -> None:
    engine = ForeignOnPostgres(lake, url)
    opened = spark_on(lake, "main")
    opened.spark.sql("CREATE NAMESPACE a")
    opened.spark.sql("CREATE TABLE a.t (x INT)")
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    before = engine.rows(count)[0][0]
    for turn in range(4):
        run = lake.run_branch().name
        opened.use(run)
        opened.spark.sql(f"INSERT INTO a.t VALUES ({turn})")
        assert lake.pyiceberg(run).load_table("a.t").scan().count() == turn + 1
        lake.publish(run)
        opened.use("main")
        opened.detach(run)
    assert engine.rows(count)[0][0] <= before
    lake.branch("again")
    opened.attach("again")
    opened.detach("again")
    with pytest.raises(EngineError, match="was detached"):
        opened.attach("again")


def test_engines_and_publishers_at_once_lose_nothing_and_never_lock_each_other_out(lake: Lake, url: str) -> None:
    """Engines append to tables of main while runs publish other tables, and one that both want."""
    engine = ForeignOnPostgres(lake, url)
    for table in ("a.shared", "a.engine"):
        engine.append("main", table, 0)
    errors: list[BaseException] = []
    published: list[str] = []

    def write() -> None:
        for _ in range(15):
            ForeignOnPostgres(lake, url).append("main", "a.engine", 1)

    def publish(name: str) -> None:
        mine = Lake.open(lake.root, catalog=url)
        done = 0
        while done < 6:
            run = mine.run_branch()
            ForeignOnPostgres(mine, url).append(run.name, "a.shared", 1)
            ForeignOnPostgres(mine, url).append(run.name, f"b.{name}", 1)
            try:
                commit = mine.publish(run.name, author=name).commit
                assert commit is not None
                published.append(commit.id)
                done += 1
            except LakeConflict:
                mine.delete(run.name)
        mine.close()

    def noting(target: Callable[..., None], *arguments: str) -> threading.Thread:
        def run() -> None:
            try:
                target(*arguments)
            except BaseException as error:  # noqa: BLE001 - every failure of a thread is the test's failure
                errors.append(error)

        return threading.Thread(target=run)

    threads = [noting(write), *(noting(publish, name) for name in ("one", "two", "three"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert lake.at().metadata("a.shared").rows == 18
    assert lake.at().metadata("a.engine").rows == 15
    log = list(lake.log())
    assert sorted(commit.id for commit in log if commit.kind is CommitKind.PUBLISH) == sorted(published)
    seqs = [commit.seq for commit in log]
    assert seqs == sorted(seqs, reverse=True)
    for newer, older in pairwise(log):
        assert newer.parent == older.seq
    assert lake.at(log[0].id).entries == lake.at().entries
