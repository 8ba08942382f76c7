"""A lake on Postgres when the server, the network or the password fails, and with many writers at once."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from psycopg import sql

from mere import config
from mere.engine.session import Session
from mere.errors import EngineError, LakeConflict, LakeError, LakeNotFound, LakeTooNew, LakeUnreadable
from mere.lake.lake import Lake
from mere.lake.log.commits import CommitKind
from mere.lake.place.places import database_of
from mere.lake.store.postgres.address import PostgresAddress
from mere.lake.store.postgres.schema import MIGRATIONS
from mere.lake.store.postgres.store import PostgresStore
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
    folder = Path(tempfile.gettempdir()) / f"mere-pg-{secrets.token_hex(4)}"
    server = Postgres(folder)
    server.start()
    again = threading.Timer(0.6, server.start)
    try:
        url = server.new_database("lake")
        with Lake.create(tmp_path, catalog=url) as lake:
            engine = ForeignOnPostgres(lake, url)
            engine.append("main", "a.t", 1)
            lake.branch("dev")
            engine.append("dev", "a.t", 2)
            server.stop(how)
            again.start()
            assert lake.publish("dev").commit is not None
            assert lake.at().metadata("a.t").rows == 3
            assert next(iter(lake.log())).kind is CommitKind.PUBLISH
    finally:
        again.join()
        server.stop()


# lost replies


class Distant:
    """A lake behind a network that loses the reply to a commit which has sent a certain statement."""

    def __init__(self, lake: Lake, url: str) -> None:
        self._proxy = Proxy(int(url.rpartition(":")[2].partition("/")[0]))
        self.lake = Lake.open(lake.root, catalog=f"{through(self._proxy, url)}?application_name=distant")

    @property
    def cuts(self) -> int:
        return self._proxy.cuts

    def lose(self, statement: bytes, when: str = "after", *, for_good: bool = False) -> None:
        seen: list[bytes] = []

        def cut(sent: bytes) -> str | None:
            if statement in sent:
                seen.append(sent)
            if self.cuts:
                return "before" if for_good else None
            return when if seen and b"COMMIT\x00" in sent else None

        self._proxy.cut = cut

    def close(self) -> None:
        self.lake.close()
        self._proxy.close()


@pytest.fixture
def distant(lake: Lake, url: str) -> Iterator[Distant]:
    with closing(Distant(lake, url)) as distant:
        yield distant


@pytest.fixture(params=["fast", "slow"])
def engine(lake: Lake, url: str, request: pytest.FixtureRequest) -> ForeignOnPostgres:
    """Of a database that commits at once, or only when its client has long given up waiting."""
    engine = ForeignOnPostgres(lake, url)
    if request.param == "slow":
        engine.execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN IF current_setting('application_name') = 'distant' THEN PERFORM pg_sleep(0.6); END IF;"
            " RETURN NULL; END $$"
        )
        engine.execute(
            "CREATE CONSTRAINT TRIGGER slow AFTER INSERT OR UPDATE OR DELETE ON mere_refs"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()"
        )
    return engine


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["branch", "run"])
def test_a_commit_whose_reply_was_lost_happens_exactly_once(
    lake: Lake, engine: ForeignOnPostgres, distant: Distant, when: str, kind: str
) -> None:
    engine.append("main", "a.t", 1)
    name = lake.branch("dev").name if kind == "branch" else lake.run_branch().name
    engine.append(name, "a.t", 2)
    engine.append(name, "a.u", 2)
    wanted = lake.at(name).entries
    before = len(list(lake.log()))
    distant.lose(b"INSERT INTO mere_commits", when)
    commit = distant.lake.publish(name, message="once").commit
    assert distant.cuts == 1
    log = list(lake.log())
    assert len(log) == before + 1
    assert commit is not None
    assert (log[0].id, log[0].message) == (commit.id, "once")
    assert {str(change.key) for change in commit.changes} == {"a.t", "a.u"}
    assert lake.at().entries == wanted
    assert [ref.name for ref in lake.refs()] == (["dev", "main"] if kind == "branch" else ["main"])


def test_a_fork_whose_reply_was_lost_happens_once(lake: Lake, engine: ForeignOnPostgres, distant: Distant) -> None:
    distant.lose(b"INSERT INTO mere_refs")
    assert distant.lake.branch("dev", author="ann").name == "dev"
    assert distant.cuts == 1
    assert [ref.name for ref in lake.refs()] == ["dev", "main"]


def test_a_ref_that_was_deleted_is_not_missed_when_the_reply_was_lost(
    lake: Lake, engine: ForeignOnPostgres, distant: Distant
) -> None:
    lake.branch("dev")
    distant.lose(b"DELETE FROM mere_refs")
    assert distant.lake.delete("dev").name == "dev"
    assert distant.cuts == 1
    assert [ref.name for ref in lake.refs()] == ["main"]


def test_a_run_without_changes_is_published_though_the_reply_was_lost(
    lake: Lake, engine: ForeignOnPostgres, distant: Distant
) -> None:
    run = lake.run_branch().name
    distant.lose(b"DELETE FROM mere_refs")
    assert distant.lake.publish(run).commit is None
    assert distant.cuts == 1
    assert [ref.name for ref in lake.refs()] == ["main"]


@pytest.mark.parametrize("keeps", [True, False])
def test_a_rebase_whose_reply_was_lost_still_tells_what_it_dropped(
    lake: Lake, engine: ForeignOnPostgres, distant: Distant, keeps: bool
) -> None:
    engine.append("main", "a.t", 1)
    lake.branch("dev")
    engine.append("dev", "a.t", 2)
    if keeps:
        engine.append("dev", "a.u", 1)
    engine.append("main", "a.t", 4)
    distant.lose(b"UPDATE mere_refs")
    rebased = distant.lake.rebase("dev")
    assert distant.cuts == 1
    assert [str(each.key) for each in rebased.dropped] == ["a.t"]
    assert [str(change.key) for change in rebased.kept] == (["a.u"] if keeps else [])
    assert (rebased.commit is not None) is keeps
    assert lake.at("dev").metadata("a.t").rows == 5


def test_what_cannot_be_known_is_not_called_unchanged(
    lake: Lake, url: str, distant: Distant, monkeypatch: pytest.MonkeyPatch
) -> None:
    ForeignOnPostgres(lake, url).append("main", "a.t", 1)
    lake.branch("dev")
    ForeignOnPostgres(lake, url).append("dev", "a.t", 2)
    monkeypatch.setattr("mere.lake.store.postgres.lost._OPENED", (0.0, 0.0))
    distant.lose(b"INSERT INTO mere_commits", for_good=True)
    with pytest.raises(LakeUnreadable, match="may have happened or not") as caught:
        distant.lake.publish("dev")
    assert "Nothing was changed" not in str(caught.value)
    assert next(iter(lake.log())).kind is CommitKind.PUBLISH


def test_what_was_lost_before_the_commit_has_changed_nothing(
    lake: Lake, url: str, distant: Distant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mere.lake.store.postgres.lost._OPENED", (0.0, 0.0))
    distant._proxy.cut = lambda sent: "before"
    with pytest.raises(LakeUnreadable, match="Nothing was changed"):
        distant.lake.branch("dev")
    assert [ref.name for ref in lake.refs()] == ["main"]


WRITER = """
import json, sys, time
import psycopg
from mere.errors import LakeConflict, LakeUnreadable
from mere.lake.lake import Lake
from tests.lake.foreign import ForeignOnPostgres

root, url, name, turns = *sys.argv[1:4], int(sys.argv[4])
lake = Lake.open(root, catalog=url)
engine = ForeignOnPostgres(lake, url)

def insist(act):
    deadline = time.monotonic() + 60
    while True:
        try:
            return act()
        except (LakeUnreadable, psycopg.OperationalError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)

def attempt(id_):
    run = lake.run_branch()
    for table in ("a.shared", f"b.{name}"):
        engine.append(run.name, table, 1)
    try:
        return [lake.publish(run.name, author=name, run=id_).commit.id]
    except LakeUnreadable:
        return insist(lambda: [commit.id for commit in lake.log() if commit.run == id_])
    except LakeConflict:
        return []

done = []
for turn in range(turns):
    while not (made := insist(lambda: attempt(f"{name}-{turn}"))):
        pass
    done += made
print(json.dumps(done))
"""


@pytest.mark.service
@pytest.mark.parametrize("how", [signal.SIGQUIT, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_restart_in_the_middle_of_several_writing_processes_loses_and_doubles_nothing(
    tmp_path: Path, how: signal.Signals
) -> None:
    server = Postgres(Path(tempfile.gettempdir()) / f"mere-pg-{secrets.token_hex(4)}")
    server.start()
    try:
        url = server.new_database("lake")
        with Lake.create(tmp_path / "lake", catalog=url) as lake:
            ForeignOnPostgres(lake, url).append("main", "a.shared", 0)
            command = [sys.executable, "-c", WRITER, str(lake.root), url]
            writers = [
                subprocess.Popen([*command, name, "12"], stdout=subprocess.PIPE, cwd=Path(__file__).parents[4])
                for name in ("one", "two", "three")
            ]
            while published(lake) < 6 and all(writer.poll() is None for writer in writers):
                time.sleep(0.02)
            server.stop(how)
            server.start()
            done = [json.loads(writer.communicate(timeout=120)[0]) for writer in writers]
            assert [len(each) for each in done] == [12, 12, 12]
            log = list(lake.log())
            ids = [commit.id for commit in log if commit.kind is CommitKind.PUBLISH]
            assert sorted(ids) == sorted(chain(*done))
            assert lake.at().metadata("a.shared").rows == 36
            assert [lake.at().metadata(f"b.{name}").rows for name in ("one", "two", "three")] == [12, 12, 12]
            for newer, older in pairwise(log):
                assert newer.parent == older.seq
    finally:
        server.stop()


def published(lake: Lake) -> int:
    return sum(commit.kind is CommitKind.PUBLISH for commit in lake.log())


@pytest.mark.service
def test_to_open_a_lake_waits_for_a_server_that_is_being_started(tmp_path: Path) -> None:
    server = Postgres(Path(tempfile.gettempdir()) / f"mere-pg-{secrets.token_hex(4)}")
    server.start()
    try:
        url = server.new_database("lake")
        Lake.create(tmp_path / "lake", catalog=url).close()
        server.stop()
        starting = threading.Timer(0.3, server.start)
        starting.start()
        Lake.open(tmp_path / "lake", catalog=url).close()
        starting.join()
    finally:
        server.stop()


# what the URL says

TROUBLESOME = ["hun/ter2", "hun%ter2", "hun@ter2", "hun ter2", "hun[ter2", "hun#ter2?", "hun℀ter2", "5432/hunter2@x"]


@pytest.mark.parametrize("password", TROUBLESOME)
def test_a_password_may_hold_anything_and_is_never_shown(
    lake: Lake, url: str, password: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = f"r{secrets.token_hex(6)}"
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(sql.SQL("CREATE ROLE {} SUPERUSER LOGIN PASSWORD {}").format(sql.Identifier(role), password))
    place = url.rpartition("@")[2]
    project = tmp_path / "mere.yaml"
    project.write_text(f"name: a\nprofiles:\n  local:\n    catalog: postgresql://{role}:${{PW}}@{place}\n")
    monkeypatch.setenv("PW", password)
    found = config.load(project)
    assert found.catalog is not None
    assert "ter2" not in repr(found)
    with Lake.open(lake.root, catalog=found.catalog) as mine:
        assert mine.store.jdbc["jdbc.password"] == password
        assert mine.pyiceberg("main").list_namespaces() == []
        assert "ter2" not in repr(mine.spark_catalog("main"))
    monkeypatch.setenv("PW", f"{password}-wrong")
    for wrong in (config.load(project).catalog, f"postgresql://{role}:{password}-wrong@{place}"):
        assert wrong is not None
        for use in (PostgresStore.open, lake.adopt):
            with pytest.raises(LakeError) as caught:
                use(wrong)
            assert "ter2" not in str(caught.value)
            assert "hun" not in str(caught.value)


def test_what_the_url_asks_for_is_kept(url: str, tmp_path: Path) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("CREATE SCHEMA lakes")
    asked = f"{url}?options=-csearch_path%3Dlakes&application_name=mine&sslmode=prefer"
    with Lake.create(tmp_path / "lake", catalog=asked) as lake:
        engine = ForeignOnPostgres(lake, url)
        assert engine.rows("SELECT DISTINCT schemaname FROM pg_tables WHERE tablename LIKE 'mere%%'") == [("lakes",)]
        assert ("mine",) in engine.rows("SELECT application_name FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        lake.pyiceberg("main").create_namespace("a")
        assert lake.store.jdbc.items() >= {"jdbc.sslmode": "prefer", "jdbc.options": "-csearch_path=lakes"}.items()
        assert guards_stand(lake)


def guards_stand(lake: Lake) -> bool:
    return database_of(lake.store).guards().broken == ()


def test_spark_finds_what_libpq_found(
    lake: Lake, url: str, postgres_server: Postgres, spark_on: Callable[..., Session]
) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("CREATE SCHEMA lakes")
    name = url.rpartition("/")[2]
    with Lake.create(lake.root.parent / "two", catalog=f"{url}?options=-csearch_path%3Dlakes&sslmode=disable") as two:
        spark_on(two, "main").spark.sql("CREATE NAMESPACE here")
        assert ("here",) in two.pyiceberg("main").list_namespaces()
    assert lake.pyiceberg("main").list_namespaces() == []
    socket = f"postgresql://postgres:{PASSWORD}@/{name}?host={postgres_server.folder}&port={postgres_server.port}"
    with Lake.open(lake.root, catalog=socket) as near, pytest.raises(LakeError, match="JDBC only speaks TCP"):
        near.spark_catalog("main")


def test_a_host_of_ipv6_is_put_in_brackets() -> None:
    connection = SimpleNamespace(info=SimpleNamespace(host="::1", port=5432, dbname="my lake", user="u", password="p"))
    address = PostgresAddress.parse("postgresql://u@[::1]/my%20lake")
    assert address.jdbc(cast("Any", connection))["uri"] == "jdbc:postgresql://[::1]:5432/my%20lake"


# who may do what


@pytest.fixture
def role(url: str, lake: Lake) -> str:
    """The URL of a user who may read the lake's tables, and no more."""
    name = f"r{secrets.token_hex(6)}"
    ForeignOnPostgres(lake, url).execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    ForeignOnPostgres(lake, url).execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}")
    return f"postgresql://{name}:x@{url.rpartition('@')[2]}"


def test_a_user_who_may_only_read_opens_a_lake_and_reads(lake: Lake, url: str, role: str) -> None:
    ForeignOnPostgres(lake, url).append("main", "a.t", 3)
    with Lake.open(lake.root, catalog=role) as mine:
        assert mine.at().metadata("a.t").rows == 3
        assert [ref.name for ref in mine.refs()] == ["main"]
        assert list(mine.log())
        with pytest.raises(LakeError, match="permission denied") as caught:
            mine.branch("dev")
        assert "grant" in str(caught.value.remedy)


def test_a_database_that_only_reads_is_opened(lake: Lake, url: str) -> None:
    with Lake.open(lake.root, catalog=f"{url}?options=-cdefault_transaction_read_only%3Don") as standby:
        assert len(list(standby.log())) == 1


def test_a_full_disk_of_the_server_is_named_at_once_and_reading_goes_on(lake: Lake, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;"
            " CREATE TRIGGER full_disk BEFORE INSERT ON mere_refs FOR EACH ROW EXECUTE FUNCTION fill()"
        )
    begun = time.monotonic()
    with pytest.raises(LakeUnreadable, match="disk of the Postgres server is full: could not extend file") as told:
        lake.branch("dev")
    assert time.monotonic() - begun < 5, "it was tried again and again"
    assert "Nothing was changed." in told.value.message
    assert [ref.name for ref in lake.refs()] == ["main"]


def test_to_open_a_lake_waits_for_nobody(lake: Lake, url: str) -> None:
    with psycopg.connect(url) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtext('mere'))")
        other.execute("SELECT 1 FROM mere_meta FOR UPDATE")
        Lake.open(lake.root, catalog=f"{url}?options=-cstatement_timeout%3D3000").close()


def test_an_older_lake_is_brought_up_to_date_by_its_owner_who_leaves_everybody_their_rights(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mere.lake.store.postgres.store.MIGRATIONS", MIGRATIONS[:1])
    with Lake.create(tmp_path / "lake", catalog=url) as old:
        engine = ForeignOnPostgres(old, url)
    monkeypatch.undo()
    name = f"r{secrets.token_hex(6)}"
    engine.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    engine.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {name}")
    writer = f"postgresql://{name}:x@{url.rpartition('@')[2]}"
    with pytest.raises(LakeUnreadable, match=f"schema 1; this one needs {len(MIGRATIONS)}") as caught:
        Lake.open(tmp_path / "lake", catalog=writer)
    assert "owner" in str(caught.value.remedy)
    Lake.open(tmp_path / "lake", catalog=url).close()
    with Lake.open(tmp_path / "lake", catalog=writer) as again:
        assert again.runs() == []
        again.store.delete_runs(datetime.now(UTC))


# many at once


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
    deadline = time.monotonic() + 20  # a connection that was closed is still counted until its process has ended
    while engine.rows(count)[0][0] > before:
        assert time.monotonic() < deadline
        time.sleep(0.1)
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
