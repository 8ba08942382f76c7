"""The server as a whole: the command, signals, the audit log, what is watched, and who is refused at the start."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from mere.cli import main
from mere.lake.lake import Lake
from mere.serve.access.scram import Verifier
from mere.serve.session.log import Entry, Log, masked
from tests.serve import raw
from tests.serve.plain import PlainBackend, PlainSession
from tests.serve.postgres.test_protocol import SLOW
from tests.serve.raw import Raw, query, rows
from tests.serve.served import eventually, served

# The audit log


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("SELECT 'secret', 42, 1.5e3 FROM t2 WHERE a1 = 'it''s'", "SELECT ?, ?, ? FROM t2 WHERE a1 = ?"),
        (r"SELECT E'a\'b' || $$x;'y$$ || $q$ $$ $q$", "SELECT ? || ? || ?"),
        ("SELECT $1, $2 -- a secret\n/* another */ FROM t", "SELECT $1, $2 FROM t"),
        ('SELECT "it\'s 5" FROM "t 1"', 'SELECT "it\'s 5" FROM "t 1"'),
        ("SELECT 'not ended", "SELECT ?"),
        ("SELECT b'01', X'ff', U&'x', .5, 10", "SELECT ?, ?, ?, ?, ?"),
        ("SET x = 'a'", "SET x = ?"),
        (r"SELECT E'a\'secret" + "\\", "SELECT ?"),
        ("SELECT 1.5, .5, 12a", "SELECT ?, ?, 12a"),
    ],
)
def test_literals_and_comments_are_left_out(statement: str, shown: str) -> None:
    assert masked(statement) == shown


def test_a_line_for_every_statement() -> None:
    file = io.StringIO()
    with served(PlainBackend(), log=Log(file)) as found, Raw(found.port) as client:
        client.ask(query("select 'hush', i from range(3) t(i); select 2"))
        client.ask(raw.parse("select $1 as x"), raw.bind("", "", (b"whisper",)), raw.execute(), raw.SYNC)
        client.ask(query("select * from missing where x = 'hush'"))
        client.ask(query("insert into t values ('hush')"))
    first, *lines = [json.loads(line) for line in file.getvalue().splitlines() if "disconnect" not in line]
    assert (first["event"], first["user"], first["ref"]) == ("login", "ann", "main")
    assert {line["event"] for line in lines} == {"statement"}
    assert [(line["statement"], line["rows"], line["error"]) for line in lines] == [
        ("select ?, i from range(?) t(i)", 3, None),
        ("select ?", 1, None),
        ("select $1 as x", 1, None),
        ("select * from missing where x = ?", 0, "42P01"),
        ("insert into t values (?)", 0, "25006"),
    ]
    assert "hush" not in file.getvalue()
    assert "whisper" not in file.getvalue()
    assert {(line["user"], line["ref"], line["commit"]) for line in lines} == {("ann", "main", "0123abcd")}
    assert len({line["hash"] for line in lines}) == 5
    assert all(line["ms"] >= 0 for line in lines)


def test_a_log_with_values_has_them_and_the_same_hash() -> None:
    with_values, without = io.StringIO(), io.StringIO()
    entry = Entry("ann", "?", "main", None, "select 'x'", 1, 0.001)
    Log(with_values, values=True).write(entry)
    Log(without).write(entry)
    shown, hidden = json.loads(with_values.getvalue()), json.loads(without.getvalue())
    assert (shown["statement"], hidden["statement"]) == ("select 'x'", "select ?")
    assert shown["hash"] == hidden["hash"]


def test_of_a_long_statement_the_beginning_is_shown_and_all_is_hashed() -> None:
    file = io.StringIO()
    log = Log(file)
    texts = [f"select {'1, ' * 500_000} '{'s3cret ' * 10_000}', {last}" for last in "ab"]
    texts += [f"select '{'s3cret ' * size}'" for size in range(1560, 1580)]  # cut off inside of the literal
    texts += ["select " + "1" * 1_000_000 + "a"]
    start = time.perf_counter()
    for text in texts:
        log.write(Entry("ann", "?", "main", None, text, 1, 0.001))
    assert time.perf_counter() - start < 1
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    assert lines[0]["statement"].startswith("select ?, ?, ?")
    assert all(len(line["statement"]) <= 10_000 for line in lines)
    assert lines[0]["hash"] != lines[1]["hash"]
    assert "s3cret" not in file.getvalue()


# What is watched


def fetch(port: int | None, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_and_metrics() -> None:
    with served(PlainBackend(), monitor_port=0) as found, Raw(found.port) as client:
        client.ask(query("select i from range(10) t(i); select * from missing"))
        assert fetch(found.monitor, "/health") == (200, "ok\nclients 1/1000\nlogins 0/100\nworkers 0/4\nwaiting 0\n")
        status, text = fetch(found.monitor, "/metrics")
        assert status == 200
        for line in (
            "mere_connections 1", "mere_rows_total 10", "mere_statement_seconds_count 2",
            'mere_errors_total{sqlstate="42P01"} 1', 'mere_statement_seconds_bucket{le="+Inf"} 2',
            "mere_jobs_waiting 0",
        ):  # fmt: skip
            assert line in text.splitlines()
        assert fetch(found.monitor, "/else")[0] == 404


# The end


def test_who_is_idle_at_the_end_is_told_and_who_works_may_finish() -> None:
    with served(PlainBackend(), grace_seconds=20.0) as found:
        idle, busy = Raw(found.port), Raw(found.port)
        busy.send(query("select count(*) from range(300000000) t(i) where i % 7 = 3"))
        eventually(lambda: found.server._pool.at_work > 0)
        stopping = threading.Thread(target=lambda: found.call(found.server.stop()))
        stopping.start()
        assert raw.sqlstates(idle.rest()) == ["57P01"]
        finished = busy.rest()
        assert len(rows(finished)) == 1
        assert raw.sqlstates(finished) == ["57P01"]
        stopping.join()
        idle.close()
        busy.close()


def test_what_does_not_finish_in_time_is_cut() -> None:
    with served(PlainBackend(), grace_seconds=0.2) as found:
        busy = Raw(found.port)
        busy.send(query(SLOW))
        eventually(lambda: found.server._pool.at_work > 0)
        found.call(found.server.stop())
        busy.close()


def test_one_that_cannot_be_cancelled_does_not_save_the_others() -> None:
    class Stubborn(PlainBackend):
        def connect(self, user: str, database: str, settings: dict[str, str], process: int = 0) -> PlainSession:
            session = super().connect(user, database, settings, process)
            if database == "stubborn":
                session.cancel = lambda: cancel_and_fail(session)  # type: ignore[method-assign]
            return session

    def cancel_and_fail(session: PlainSession) -> None:
        PlainSession.cancel(session)
        raise RuntimeError("Connection already closed!")

    with served(Stubborn(), grace_seconds=0.2) as found:
        clients = [Raw(found.port, database=database) for database in ("stubborn", "main", "stubborn")]
        for client in clients:
            client.send(query(SLOW))
        eventually(lambda: found.server._pool.at_work == 3)
        found.call(found.server.stop())
        for client in clients:
            client.close()


# The command


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mere.yaml").write_text("name: shop\n")
    Lake.create(tmp_path / "lake").close()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def mere(*arguments: str, given: str | None = None) -> Any:
    return CliRunner().invoke(main, arguments, input=given)


class Process:
    """`mere serve` as a process of its own."""

    def __init__(self, *arguments: str, before: str = "") -> None:
        script = f"{before}\nfrom mere.cli import main\nmain()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, "serve", "--port", "0", "--http-port", "0", "--json", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout
        text = ""
        while not text.endswith("}\n"):
            line = self.process.stdout.readline()
            assert line, self.process.communicate()
            text += line
        self.about: dict[str, Any] = json.loads(text)

    def end(self, how: signal.Signals) -> tuple[int, str]:
        self.process.send_signal(how)
        try:
            _, errors = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()  # a client that waits for it would wait on
            raise
        return self.process.returncode, errors

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


@pytest.fixture
def user(project: Path) -> None:
    assert mere("user", "add", "ann", "--password-file", "-", given="s3cret\n").exit_code == 0


@pytest.fixture
def started(user: None) -> Iterator[Process]:
    with Process("--monitor-port", "0") as found:
        yield found


def test_the_command_serves_until_it_is_told_to_end(started: Process) -> None:
    port = started.about["port"]
    dsn = f"host=127.0.0.1 port={port} dbname=main user=ann"
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(dsn + " password=wrong")
    with psycopg.connect(dsn + " password=s3cret", autocommit=True) as connection:
        assert connection.execute("SELECT 1 + 1").fetchone() == (2,)
        row = connection.execute("SELECT mere_commit()").fetchone()
        assert fetch(started.about["monitor_port"], "/health")[1].startswith("ok\n")
        code, errors = started.end(signal.SIGTERM)
    assert code == 0
    lines = [json.loads(line) for line in errors.splitlines()]
    told = [(line["event"], line.get("statement", line.get("error"))) for line in lines]
    assert told == [
        ("refused", "28P01"),
        ("login", None),
        ("statement", "SELECT ? + ?"),
        ("statement", "SELECT mere_commit()"),
        ("disconnect", None),
    ]
    assert row
    assert lines[-2]["commit"] == row[0]
    assert "s3cret" not in errors
    assert "s3cret" not in " ".join(map(str, started.process.args))  # type: ignore[arg-type]


PATIENT = """
import functools
from mere.serve.postgres import server
server.Settings = functools.partial(server.Settings, grace_seconds=3600)
"""


@pytest.mark.usefixtures("user")
def test_a_second_signal_does_not_wait() -> None:
    with Process("--monitor-port", "0", before=PATIENT) as started:
        port, monitor = started.about["port"], started.about["monitor_port"]
        with psycopg.connect(f"host=127.0.0.1 port={port} dbname=main user=ann password=s3cret") as connection:
            waiting = threading.Thread(target=lambda: _ignored(connection))
            eventually(lambda: "workers 0/" in fetch(monitor, "/health")[1])  # its login was a job, too
            waiting.start()
            eventually(lambda: "workers 1/" in fetch(monitor, "/health")[1])
            started.process.send_signal(signal.SIGINT)
            eventually(lambda: fetch(monitor, "/health")[0] == 503)  # two signals at once are one
            code, _ = started.end(signal.SIGINT)
            assert code == 0
            waiting.join()


def _ignored(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error):
        connection.execute("SELECT count(*) FROM generate_series(1, 100000000000) g(i) WHERE i % 7 = 3")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0", "--trust"], "TLS and a password"),
        (["--host", "0.0.0.0"], "TLS and a password"),
        (["--host", "::"], "TLS and a password"),
        (["--tls-cert", "x"], "--tls-key"),
        ([], "mere user add"),
        (["--tls-cert", "missing.crt", "--tls-key", "missing.key", "--trust"], "missing.key"),
        (["--trust", "--audit", "missing/folder/log"], "audit log"),
    ],
)
def test_what_would_be_unsafe_or_cannot_be_is_refused(project: Path, arguments: list[str], said: str) -> None:
    done = mere("serve", "--port", "0", "--http-port", "0", *arguments)
    assert done.exit_code in (1, 2)
    assert said in done.stderr


def test_a_port_that_is_taken_is_told(project: Path) -> None:
    mine = lambda *_: None  # noqa: E731
    before = signal.signal(signal.SIGINT, mine)
    try:
        with served(PlainBackend()) as found:
            done = mere("serve", "--trust", "--http-port", "0", "--port", str(found.port))
        assert signal.getsignal(signal.SIGINT) is mine, "Ctrl-C is left as it was: asyncio would not see to that"
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.exit_code == 1
    assert "Cannot listen on" in done.stderr


def test_users_by_command(project: Path) -> None:
    assert "was added" in mere("user", "add", "ann", "--password-file", "-", given="one\n").stdout
    (project / "secret").write_text("two\nnot this\n")
    assert "new password" in mere("user", "add", "ann", "--password-file", "secret").stdout
    file = project / ".mere" / "users.json"
    verifier = Verifier.read(json.loads(file.read_text())["ann"])
    assert Verifier.of("two", salt=verifier.salt) == verifier
    assert mere("user", "list").stdout == "ann\n"
    assert json.loads(mere("user", "list", "--json").stdout) == {"users": ["ann"]}
    assert mere("user", "remove", "bob").exit_code == 2
    assert json.loads(mere("user", "remove", "ann", "--json").stdout) == {"user": "ann", "removed": True, "tokens": []}
    assert "no users" in mere("user", "list").stdout


def test_a_password_is_never_an_argument_and_needs_a_terminal_or_a_file(project: Path) -> None:
    done = mere("user", "add", "ann", given="x\n")
    assert done.exit_code == 2
    assert "--password-file" in done.stderr
    assert mere("user", "add", "ann", "s3cret").exit_code == 2


def test_without_a_project_the_file_has_to_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--users" in mere("user", "list").stderr
    named = os.fspath(tmp_path / "u.json")
    assert mere("user", "add", "ann", "--users", named, "--password-file", "-", given="x\n").exit_code == 0
    assert mere("user", "list", "--users", named).stdout == "ann\n"
