"""`mere run` where nobody watches: events, hooks, runs that overlap, Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from mere.names import TableName
from tests.pipeline.conftest import MakeShop
from tests.pipeline.shop import FIRST, SMALL, Shop, expected

DAILY = "models/gold/daily.sql"
BAD: dict[str, str] = {
    DAILY: SMALL[DAILY].replace("-- batch", "-- audits:\n    --   - assert: amount > 4\n    -- batch")
}


def test_every_event_is_a_line_of_json(shop: MakeShop) -> None:
    it = shop({**BAD, "models/gold/above.sql": "SELECT max(day) AS day FROM gold.daily\n"})
    it.land(*FIRST)
    failed = it.run(exit_code=1)
    assert [event["event"] for event in failed] == ["run", "plan", "building", "failed", "end"]
    start, plan, building, failure, end = failed
    assert start["branch"] == f"run_{start['id']}"
    assert start["on"] == "main"
    assert plan["models"] == ["gold.daily", "gold.above"]
    assert building["reasons"] == ["never built"]
    assert failure["model"] == "gold.daily"
    assert failure["audits"][0]["bad"] == 2
    assert end["state"] == "failed"
    it.write(SMALL)
    done = it.run("--resume", start["id"])
    kinds = [event["event"] for event in done]
    assert kinds == ["run", "plan", "building", "built", "building", "built", "published", "end"]
    assert done[-1] == {"event": "end", "state": "published", "commit": it.published()[0].id}
    assert done[-2]["commit"] == done[-1]["commit"]


def test_for_people_there_is_one_line_per_model_and_errors_go_to_stderr(shop: MakeShop) -> None:
    it = shop(BAD)
    it.land(*FIRST)
    done = it("run", exit_code=1)
    assert [line[:12] for line in done.stdout.splitlines() if not line.startswith(" ")][1:] == ["✗ gold.daily"]
    assert "assert(amount > 4)" in done.stdout
    assert done.stderr.startswith("error: gold.daily failed: ")


# hooks


@contextmanager
def listening() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    heard: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(500 if self.path.startswith("/broken") else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_hooks_are_told_how_a_run_ended(shop: MakeShop, tmp_path: Path) -> None:
    keep = tmp_path / "keep.py"
    keep.write_text(f"import sys\nopen({str(tmp_path / 'kept.json')!r}, 'wb').write(sys.stdin.buffer.read())\n")
    with listening() as (url, heard):
        settings = f"on_failure:\n  post: {url}/failed\non_success:\n  command: {sys.executable} {keep}\n"
        it = shop(BAD, settings)
        it.land(*FIRST)
        run, _ = it.failed_run()
        assert [(each["id"], each["status"]) for each in heard] == [(run, "failed")]
        assert heard[0]["models"]["gold.daily"]["state"] == "failed"
        it.write(SMALL)
        it("run")
        told = json.loads((tmp_path / "kept.json").read_text())
        assert told == it.runs()[0]
        assert told["status"] == "succeeded"
        (tmp_path / "kept.json").unlink()
        it("run")
        assert not (tmp_path / "kept.json").exists()
        assert len(heard) == 1


def test_a_hook_that_fails_is_a_warning_without_its_address(shop: MakeShop) -> None:
    with listening() as (url, heard):
        it = shop(SMALL, f"on_success:\n  post: {url}/broken?token=secret\n")
        it.land(*FIRST)
        done = it("run")
        assert "warning: The hook's web address answered 500." in done.stderr
        assert "secret" not in done.stdout + done.stderr
        assert len(heard) == 1
    it.land((6, 1, "2024-02-02T05:00", 1))
    assert "warning: The hook's web address could not be reached." in it("run").stderr
    assert len(it.published()) == 2


# runs that overlap


def test_a_run_waits_for_another_that_writes_the_same_tables_or_fails_or_passes_by(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    daily = [TableName.parse("gold.daily")]
    with it.lake.lease(daily, "run other"):
        refused = it("run", "--if-running", "fail", exit_code=1).stderr
        assert "run other is writing gold.daily for main." in refused
        skipped = it.run("--if-running", "skip")
        assert [(event["event"], event["state"]) for event in skipped] == [("end", "skipped")]
        assert it.runs() == []
        assert it.branches() == ["main"]
        it("branch", "create", "dev")
        assert it.built("--on", "dev", "--if-running", "fail") == {"gold.daily"}
    held = it.lake.lease(daily, "run other")
    held.__enter__()
    soon = threading.Timer(0.3, held.__exit__, (None, None, None))
    soon.start()
    waited = it.run()
    soon.join()
    assert waited[0]["event"] == "waiting"
    assert "run other" in waited[0]["for"]
    assert waited[-1]["state"] == "published"


def test_a_run_that_waited_does_not_do_again_what_was_done_meanwhile(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    it("branch", "create", "dev")
    it("run", "--on", "dev")
    held = it.lake.lease([TableName.parse("gold.daily")], "run other")
    held.__enter__()

    def finish() -> None:
        it.lake.publish("dev")
        held.__exit__(None, None, None)

    other = threading.Timer(0.3, finish)
    other.start()
    waited = it.run()
    other.join()
    assert [event["event"] for event in waited] == ["waiting", "end"]
    assert waited[-1]["state"] == "nothing"


# Ctrl-C

SLOW = """
    from pyspark.sql import DataFrame

    from mere import model, table


    @model("gold.slow")
    def slow(days: DataFrame = table("gold.daily")) -> DataFrame:
        return days.crossJoin(days.sparkSession.range(10**11)).selectExpr("sum(hash(day, id)) AS sum")
"""


@pytest.mark.service
def test_ctrl_c_ends_a_run_which_can_be_resumed(shop: MakeShop) -> None:
    it = shop({**SMALL, "models/gold/slow.py": SLOW})
    it.land(*FIRST)
    before = it.pointers()
    process = subprocess.Popen(
        [sys.executable, "-m", "mere", "run", "--json"],
        cwd=it.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "building" and event["model"] == "gold.slow":
            break
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    (run,) = it.runs()
    assert run["status"] == "cancelled"
    assert it.pointers() == before
    it.replace("models/gold/slow.py", "10**11", "2")
    assert it.built("--resume", run["id"], "--if-running", "fail") == {"gold.slow"}
    assert it.rows("gold.daily") == expected(FIRST)["gold.daily"]
    assert it.runs()[0]["status"] == "succeeded"
    assert it.branches() == ["main"]


def test_a_dead_run_is_shown_as_interrupted_and_its_lease_ends(shop: MakeShop) -> None:
    it = shop(SMALL)
    it.land(*FIRST)
    _die(it)
    (run,) = it.runs()
    assert run["status"] == "interrupted"
    assert "interrupted" in it("runs").stdout
    assert it("run", "--if-running", "skip").stdout.startswith(f"skipped: run {run['id']} is writing gold.daily")
    it.end_lease(run["id"])
    it("run", "--if-running", "fail")
    assert it.rows("gold.daily") == expected(FIRST)["gold.daily"]
    assert f"run_{run['id']}" in it.branches()


def _die(it: Shop) -> None:
    """What a killed run leaves: a branch, a record without an end, a lease."""
    it.write(BAD)
    id_, _ = it.failed_run()
    it.write(SMALL)
    it.silence(id_)
    it.lake.store.acquire("main", [TableName.parse("gold.daily")], f"run {id_}", timedelta(minutes=1))
