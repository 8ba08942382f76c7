"""The command line: what it prints, for people and for machines, and its exit codes."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from mere.cli import main
from mere.lake.lake import Lake
from mere.lake.log.runs import Run, RunStatus, holder
from mere.lake.store.rows import stamp
from mere.lake.store.sqlite.store import SqliteStore
from mere.names import TableName
from tests.lake import iceberg_tables
from tests.lake.foreign import Foreign, ForeignOnPostgres
from tests.services.postgres import PASSWORD, Postgres
from tests.services.s3 import S3Server


class Shell:
    """Runs commands in a project's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str, exit_code: int = 0) -> Result:
        here = Path.cwd()
        os.chdir(self.folder)
        try:
            done = CliRunner().invoke(main, arguments)
        finally:
            os.chdir(here)
        assert done.exit_code == exit_code, (done.output, done.exception)
        return done

    def json(self, *arguments: str, exit_code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", exit_code=exit_code).stdout)


@pytest.fixture
def mere(tmp_path: Path) -> Shell:
    Shell(tmp_path)("init", "shop")
    return Shell(tmp_path / "shop")


@pytest.fixture
def engine(mere: Shell) -> Iterator[Foreign]:
    with Lake.open(mere.folder / "lake") as lake:
        engine = Foreign(lake)
        engine.append("main", "gold.orders", 3)
        yield engine


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


@pytest.mark.parametrize(("path", "command"), list(commands(main)), ids=str)
def test_every_command_has_help_with_an_example_and_json(path: tuple[str, ...], command: click.Command) -> None:
    done = CliRunner().invoke(main, [*path, "--help"])
    assert done.exit_code == 0
    assert command.help
    assert f"  mere {' '.join(path[:1])}" in done.output or "mere relocate" in done.output
    assert "Example:" in done.output
    if not isinstance(command, click.Group):
        assert "--json" in done.output


def test_the_list_of_commands_says_each_in_a_whole_sentence() -> None:
    listed = CliRunner().invoke(main, ["--help"]).output.partition("Commands:")[2]
    assert [line for line in listed.splitlines() if line and not line.endswith(".")] == []
    assert "..." not in listed


def test_options_of_the_list_of_quarantines_stand_behind_it(mere: Shell) -> None:
    assert mere("quarantine", "--at", "main").stdout == "no rows in quarantine on main\n"
    for option in (["--at", "main"], ["--json"]):
        refused = mere("quarantine", *option, "list", exit_code=2).stderr
        assert f"{option[0]} before list has no effect" in refused


def test_an_engine_waits_for_some_time(mere: Shell) -> None:
    assert "mere engine stop" in mere("engine", "start", "--idle", "0s", exit_code=2).stderr


def test_a_project_is_made_once(mere: Shell) -> None:
    assert (mere.folder / "mere.yaml").read_text().startswith("# A mere project")
    done = mere("init", exit_code=1)
    assert "already a project" in done.stderr
    assert done.stdout == ""


def test_without_a_project_the_way_on_is_shown(tmp_path: Path) -> None:
    done = Shell(tmp_path)("tables", exit_code=1)
    assert "error: There is no mere.yaml here" in done.stderr
    assert "mere init" in done.stderr


def test_commands_work_from_a_folder_below_and_with_a_lake_by_name(mere: Shell, engine: Foreign) -> None:
    (mere.folder / "models" / "gold").mkdir(parents=True)
    assert "gold.orders" in Shell(mere.folder / "models" / "gold")("tables").stdout
    assert "gold.orders" in Shell(mere.folder.parent)("--lake", "shop/lake", "tables").stdout


def test_branch_write_publish_log_revert(mere: Shell, engine: Foreign) -> None:
    assert "branch dev at commit" in mere("branch", "create", "dev").stdout
    engine.append("dev", "gold.orders", 4)
    engine.append("dev", "gold.cities", 1)
    assert "gold.cities" not in mere("tables").stdout
    assert mere.json("tables", "--at", "dev")["tables"][1]["rows"] == 7
    dry = mere("publish", "dev", "--dry-run").stdout
    assert dry.startswith("would publish dev into main: 2 changes\n")
    assert "    changed gold.orders  +4 rows, +1 file\n" in dry
    done = mere.json("publish", "dev", "-m", "both")
    assert [(c["namespace"], c["name"], c["verb"]) for c in done["changes"]] == [
        ("gold", "cities", "created"),
        ("gold", "orders", "changed"),
    ]
    log = mere("log", "-n", "1").stdout
    assert log.startswith(done["commit"][:10])
    assert "both" in log
    assert mere.json("log", "--table", "gold.cities")[0]["id"] == done["commit"]
    assert "revert" in mere("revert", done["commit"][:8]).stdout
    assert "gold.cities" not in mere("tables").stdout
    mere("revert", "--to", "main~1")
    assert "gold.cities" in mere("tables").stdout
    assert "nothing to do" in mere("revert", "--to", "main").stdout


def test_a_conflict_exits_with_1_and_says_everything_on_stderr(mere: Shell, engine: Foreign) -> None:
    mere("branch", "create", "dev")
    engine.append("dev", "gold.orders")
    engine.append("main", "gold.orders")
    dry = mere("publish", "dev", "--dry-run", exit_code=1)
    assert "conflict: gold.orders was changed on main" in dry.stdout
    done = mere("publish", "dev", exit_code=1)
    assert "gold.orders: on dev by" in done.stderr
    assert "main was left as it was" in done.stderr
    assert done.stdout == ""
    assert mere.json("publish", "dev", "--dry-run", exit_code=1)["conflicts"][0]["key"] == "gold.orders"


def test_a_conflict_is_solved_by_the_commands_that_it_names(mere: Shell, engine: Foreign) -> None:
    mere("branch", "create", "dev")
    engine.append("dev", "gold.orders")
    engine.append("dev", "gold.cities", 4)
    engine.append("main", "gold.orders")
    refused = mere("publish", "dev", exit_code=1).stderr
    commands = [shlex.split(line)[1:] for line in refused.splitlines() if line.startswith("  mere ")]
    assert [command[:2] for command in commands] == [["branch", "update"], ["publish", "dev"]]
    for command in commands:
        done = mere(*command)
    assert "published dev into main" in done.stdout
    tables = {table["table"]: table["rows"] for table in mere.json("tables")["tables"]}
    assert tables == {"gold.orders": 4, "gold.cities": 4}


def test_a_conflict_with_another_branch_than_its_own_names_a_command_too(mere: Shell, engine: Foreign) -> None:
    mere("branch", "create", "dev")
    mere("branch", "create", "other")
    engine.append("dev", "gold.orders")
    engine.append("other", "gold.orders")
    refused = mere("publish", "dev", "--into", "other", exit_code=1).stderr
    command = next(line for line in refused.splitlines() if "mere branch create" in line).rpartition(": mere ")[2]
    assert mere(*shlex.split(command)).stdout.startswith("branch dev-again at commit")


def test_a_clock_that_is_off_is_told_on_stderr_with_what_to_do(
    mere: Shell, engine: Foreign, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mere("tables").stderr == ""
    now = stamp(datetime.now(UTC) - timedelta(days=1, hours=2, minutes=30))
    monkeypatch.setattr(SqliteStore, "clock", f"'{now}'")
    told = mere("tables", "--at", "main@0s")
    assert "gold.orders" in told.stdout
    assert "The clock of this machine is off: it is 1 d 2 h behind commit" in told.stderr
    assert "sudo timedatectl set-ntp true" in told.stderr
    undo = told.stderr.rpartition(": mere ")[2]
    assert "dropped gold.orders" in mere(*shlex.split(undo)).stdout
    assert mere.json("tables")["tables"] == []
    (time,) = [each for each in mere.json("doctor", "--no-spark")["findings"] if each["check"] == "time"]
    assert (time["state"], "1 d 2 h behind" in time["what"]) == ("warn", True)


def test_wrong_usage_exits_with_2(mere: Shell) -> None:
    for wrong in (["publish"], ["nonsense"], ["log", "-n", "0"], ["gc", "--grace", "soon"], ["branch", "create", "A"]):
        assert mere(*wrong, exit_code=2).stdout == ""
    for wrong in (["revert"], ["revert", "main", "--to", "main"], ["tables", "--at", "main@noon"], ["drop", "orders"]):
        assert mere(*wrong, exit_code=2).stderr.startswith("error: ")


def test_refs_are_listed_made_and_deleted(mere: Shell, engine: Foreign) -> None:
    mere("tag", "create", "v1")
    mere("branch", "create", "fix", "--from", "v1")
    assert [ref["name"] for ref in mere.json("branch")] == ["fix", "main"]
    assert [ref["name"] for ref in mere.json("tag", "list")] == ["v1"]
    assert "is a tag, not a branch" in mere("branch", "delete", "v1", exit_code=1).stderr
    mere("tag", "delete", "v1")
    mere("branch", "delete", "fix")
    assert [ref["name"] for ref in mere.json("branch", "list")] == ["main"]
    assert "Did you mean main?" in mere("log", "mian", exit_code=1).stderr


def test_several_refs_are_deleted_by_name_and_pattern(mere: Shell) -> None:
    for name in ("dev", "try-a", "try-b"):
        mere("branch", "create", name)
    assert "branch try-a would be deleted" in mere("branch", "delete", "try-*", "--dry-run").stdout
    assert [ref["name"] for ref in mere.json("branch", "delete", "try-*", "dev")] == ["try-a", "try-b", "dev"]
    assert "No branch matches 'try-*'" in mere("branch", "delete", "try-*", exit_code=1).stderr
    mere("tag", "create", "v1")
    assert "tag v1 deleted" in mere("tag", "delete", "v*").stdout


def test_what_a_dead_run_keeps_is_said_and_can_be_cleaned(mere: Shell) -> None:
    with Lake.open(mere.folder / "lake") as lake:
        now = lake.now()
        for id_, status, ended in (("d1", RunStatus.FAILED, now), ("b1", RunStatus.RUNNING, None)):
            lake.store.save_run(Run(id_, "main", f"run_{id_}", status, "ann", now, now, ended))
            lake.run_branch(id=id_)
        iceberg_tables.create(lake, "gold.orders", "run_d1")
        (Path(lake.warehouse) / "left.parquet").write_bytes(b"1")
        told = mere("gc", "--grace", "0s").stdout
        assert "file kept: reached only by branches of runs that ended without publishing (run_d1)" in told
        assert "1 file kept: written since the oldest live run began (run b1, " in told
        remedy = told.splitlines()[-1].removeprefix("to delete these branches: ")
        assert "run_d1 would be deleted: run d1 for main, failed" in mere(*shlex.split(remedy)[1:], "--dry-run").stdout
        assert mere.json(*shlex.split(remedy)[1:]) == {"dry_run": False, "deleted": ["run_d1"], "going_on": ["run_b1"]}
    assert "nothing to clean" in mere("runs", "clean", "--older-than", "1h").stdout
    assert {each["id"]: each["status"] for each in mere.json("runs")} == {"d1": "failed", "b1": "running"}
    swept = mere.json("gc", "--dry-run")
    assert (swept["dead_runs"], [each["who"] for each in swept["live"]]) == ([], ["run b1"])


def test_a_run_that_is_not_to_finish_is_ended(mere: Shell) -> None:
    with Lake.open(mere.folder / "lake") as lake:
        now = lake.now()
        about = {"process": {"host": "elsewhere", "pid": 12, "boot": "b", "namespace": "n", "started": 1}}
        for id_ in ("b1", "b2"):
            lake.store.save_run(Run(id_, "main", f"run_{id_}", RunStatus.RUNNING, "ann", now, now, None, about))
            lake.run_branch(id=id_)
        lake.store.acquire("main", [TableName("gold", "orders")], holder("b1"), timedelta(minutes=1))
        said = mere("run", "--resume", "b1", exit_code=2).stderr
        assert "Run b1 is still running (process 12 on elsewhere)." in said
        remedy = said.splitlines()[-1].partition("Wait for it, or end it: mere ")[2]
        assert mere(*remedy.split()).stdout.splitlines() == [
            "ended run b1: process 12 on elsewhere is refused from now on, and stops",
            "free again: gold.orders",
            "what it built is on the branch run_b1_2; to resume it: mere run --resume b1",
        ]
        assert mere("runs", "end", "b1").stdout.splitlines() == [
            "run b1 had ended already: cancelled",
            "what it built is on the branch run_b1_2; to resume it: mere run --resume b1",
        ]
        ended = mere.json("runs", "end", "b2")
        assert (ended["was_running"], ended["already_ended"], ended["branch"]) == (True, False, "run_b2_2")
        assert "There is no run 'b3'" in mere("runs", "end", "b3", exit_code=1).stderr
        assert {each["id"]: each["status"] for each in mere.json("runs")} == {"b1": "cancelled", "b2": "cancelled"}
        assert "ended by" in mere("runs", "show", "b1").stdout
        assert lake.store.leases() == []


def test_drop_is_for_one_branch(mere: Shell, engine: Foreign) -> None:
    mere("branch", "create", "dev")
    assert "dropped gold.orders  -3 rows, -1 file" in mere("drop", "gold.orders", "--on", "dev").stdout
    assert "no tables on dev" in mere("tables", "--at", "dev").stdout
    assert "Did you mean gold.orders?" in mere("drop", "gold.order", exit_code=1).stderr


def test_a_moved_lake_is_mended(mere: Shell, tmp_path: Path) -> None:
    mere.folder.rename(tmp_path / "moved")
    moved = Shell(tmp_path / "moved")
    assert "mere relocate" in moved("tables", exit_code=1).stderr
    assert moved.json("relocate")["moved"] is True
    assert "no tables" in moved("tables").stdout
    assert "nothing to do" in moved("relocate").stdout


def test_a_bug_shows_its_traceback_and_a_closed_pipe_does_not(mere: Shell) -> None:
    script = f"{sys.executable} -m mere log | head -c 1"
    done = subprocess.run(["sh", "-c", script], cwd=mere.folder, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_a_project_may_keep_its_catalog_in_postgres(
    tmp_path: Path, postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres_server.new_database(f"lake_{secrets.token_hex(6)}")
    monkeypatch.setenv("LAKE_PASSWORD", PASSWORD)
    shown = url.replace(PASSWORD, "${LAKE_PASSWORD}")
    (tmp_path / "mere.yaml").write_text(f"name: shop\nprofiles:\n  local:\n    catalog: {shown}\n")
    mere = Shell(tmp_path)
    assert "mere init" in mere("tables", exit_code=1).stderr
    mere("init")
    assert "already a project with a lake" in mere("init", exit_code=1).stderr
    mere("branch", "create", "dev")
    assert [ref["name"] for ref in mere.json("branch")] == ["dev", "main"]
    assert not (tmp_path / "lake" / "catalog.db").exists()


def test_a_project_may_keep_its_lake_on_s3(
    tmp_path: Path, postgres_server: Postgres, s3_server: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres_server.new_database(f"lake_{secrets.token_hex(6)}")
    place = f"{s3_bucket}/{secrets.token_hex(6)}"
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("LAKE_KEY", s3_server.settings.access_key)
    monkeypatch.setenv("LAKE_SECRET", s3_server.settings.secret_key)
    text = f"""\
name: shop
profiles:
  local:
    lake: {place}
    catalog: {url.replace(f":{PASSWORD}", "")}
    s3:
      endpoint: {s3_server.endpoint}
      access_key: ${{LAKE_KEY}}
      secret_key: ${{LAKE_SECRET}}
"""
    (tmp_path / "mere.yaml").write_text(text)
    mere = Shell(tmp_path)
    assert mere.json("init")["lake"] == place
    assert mere.json("gc", "--dry-run")["kept"] == {}
    with Lake.open(place, catalog=url, s3=s3_server.settings) as lake:
        ForeignOnPostgres(lake, url).append("main", "gold.orders", 3)
    assert mere.json("tables")["tables"][0]["rows"] == 3
    assert mere.json("relocate", f"{place.replace('s3:', 's3a:')}/")["moved"] is False
    monkeypatch.setenv("LAKE_SECRET", "wrong")
    refused = mere("tables", exit_code=1).stderr
    assert refused.startswith(f"error: {s3_server.endpoint} refuses it")
    (tmp_path / "mere.yaml").write_text(text.replace(place, f"{place}/elsewhere"))
    assert f"mere relocate {place}/elsewhere" in mere("tables", exit_code=1).stderr
