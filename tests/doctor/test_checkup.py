"""mere doctor: a healthy lake is found healthy and left as it was; each illness is made for real and told apart."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from mere import config
from mere.doctor import Check, State, Subject, examine
from mere.doctor import machine as machine_checks
from mere.doctor import storage as storage_checks
from mere.doctor.findings import Verdict
from mere.engine.jvm import jars, java
from mere.lake.lake import Lake
from mere.lake.log import runs
from mere.lake.log.refs import RefKind
from mere.lake.store.health import PROBE
from mere.lake.upkeep.gc import KEEP_RUNS, sweep
from mere.names import TableName
from tests.cli.test_cli import Shell
from tests.lake.orders import ORDERS, write
from tests.services.postgres import PASSWORD, Postgres
from tests.services.s3 import ACCESS_KEY, SECRET_KEY, S3Server


class Patient(Shell):
    """A project whose doctor is asked."""

    def open(self) -> Lake:
        return Lake.open(self.folder / "lake")

    def findings(self, *options: str, exit_code: int = 0) -> dict[str, dict[str, Any]]:
        found = self.json("doctor", "--no-spark", *options, exit_code=exit_code)
        assert found["ok"] == (exit_code == 0)
        return {finding["check"]: finding for finding in found["findings"]}

    def bad(self, *options: str, exit_code: int = 1) -> dict[str, dict[str, Any]]:
        """Only what is neither well nor skipped."""
        found = self.findings(*options, exit_code=exit_code)
        return {name: finding for name, finding in found.items() if finding["state"] in ("failed", "warn")}

    def catalog(self, sql: str) -> None:
        with contextlib.closing(sqlite3.connect(self.folder / "lake" / "catalog.db")) as database, database:
            database.execute(sql)


@pytest.fixture
def shop(tmp_path: Path) -> Patient:
    Shell(tmp_path)("init", "shop")
    return Patient(tmp_path / "shop")


@pytest.fixture
def orders(shop: Patient) -> Patient:
    with shop.open() as lake:
        write(lake, "gold.orders", ORDERS)
    return shop


class PostgresPatient(Patient):
    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url

    def open(self) -> Lake:
        return Lake.open(self.folder / "lake", catalog=self.url)

    def catalog(self, sql: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(sql.encode())


@pytest.fixture
def team(tmp_path: Path, postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch) -> PostgresPatient:
    monkeypatch.setenv("LAKE_PASSWORD", PASSWORD)
    url = postgres_server.new_database(f"doctor_{secrets.token_hex(6)}")
    shown = url.replace(PASSWORD, "${LAKE_PASSWORD}")
    (tmp_path / "mere.yaml").write_text(f"name: team\nprofiles:\n  local:\n    catalog: {shown}\n")
    patient = PostgresPatient(tmp_path, url)
    patient("init")
    return patient


class CloudPatient(PostgresPatient):
    """With its files on S3."""

    def open(self) -> Lake:
        project = config.load(self.folder / "mere.yaml")
        return Lake.open(project.lake, catalog=project.catalog, s3=project.s3)


@pytest.fixture
def cloud(
    tmp_path: Path, postgres_server: Postgres, s3_server: S3Server, s3_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> CloudPatient:
    monkeypatch.setenv("LAKE_PASSWORD", PASSWORD)
    monkeypatch.setenv("ACCESS_KEY", ACCESS_KEY)
    monkeypatch.setenv("SECRET_KEY", SECRET_KEY)
    url = postgres_server.new_database(f"doctor_{secrets.token_hex(6)}")
    (tmp_path / "mere.yaml").write_text(
        f"""\
name: cloud
profiles:
  local:
    lake: {s3_bucket}/{secrets.token_hex(6)}
    catalog: {url.replace(PASSWORD, "${LAKE_PASSWORD}")}
    s3:
      endpoint: {s3_server.endpoint}
      access_key: ${{ACCESS_KEY}}
      secret_key: ${{SECRET_KEY}}
"""
    )
    patient = CloudPatient(tmp_path, url)
    patient("init")
    with patient.open() as lake:
        write(lake, "gold.orders", ORDERS)
    return patient


def traces(patient: Patient) -> tuple[Any, ...]:
    """All that a look must leave as it was."""
    with patient.open() as lake:
        head = lake.store.heads(["main"])["main"]
        files = sorted(file.location for file in lake.storage.files(lake.warehouse))
        folders = sorted(Path(lake.location).rglob("*/")) if lake.storage.s3 is None else []
        return head, lake.refs(), lake.store.leases(), files, folders, lake.gc(dry_run=True).doomed


# health


@pytest.mark.service
@pytest.mark.parametrize("kind", ["orders", "team", "cloud"])
def test_a_healthy_lake_is_well_and_left_as_it_was(kind: str, request: pytest.FixtureRequest, warm_jvm: None) -> None:
    patient: Patient = request.getfixturevalue(kind)
    before = traces(patient)
    found = patient.json("doctor")
    assert found["ok"] is True
    assert {finding["state"] for finding in found["findings"]} == {"ok"}
    last = ["spark"] * 3 + ["landing"] * (kind == "cloud")  # which a lake on S3 has by itself
    assert [finding["part"] for finding in found["findings"][-len(last) :]] == last
    assert "job" in [finding["check"] for finding in found["findings"]]
    assert set(found["findings"][0]) == {"part", "check", "state", "what", "remedy", "seconds"}
    assert traces(patient) == before


@pytest.mark.service
@pytest.mark.parametrize("kind", ["orders", "cloud"])
def test_a_job_over_rest_leaves_nothing_either(kind: str, request: pytest.FixtureRequest, warm_jvm: None) -> None:
    """There the server says where the files of the job's table are."""
    patient: Patient = request.getfixturevalue(kind)
    file = patient.folder / "mere.yaml"
    text = file.read_text(encoding="utf-8")
    spark = "    spark:\n"
    head, _, rest = text.partition(spark)
    text = f"{head}{spark}      catalog: rest\n{rest}"
    file.write_text(text, encoding="utf-8")
    before = traces(patient)
    found = patient.json("doctor")
    assert {finding["state"] for finding in found["findings"]} == {"ok"}
    assert traces(patient) == before


def test_the_sweep_still_works_after_a_job(orders: Patient, warm_jvm: None) -> None:
    orders("doctor")
    with orders.open() as lake:
        assert lake.gc(grace=timedelta(0)).deleted == ()
        assert lake.sql("SELECT count(*) FROM gold.orders").arrow()[0].to_pylist() == [3]


def test_people_get_marks_and_the_way_on(orders: Patient) -> None:
    assert "all is well" in orders("doctor", "--no-spark").stdout
    orders.catalog("DROP TRIGGER mere_tables_delete")
    shown = orders("doctor", "--no-spark", exit_code=1).stdout
    assert "✗          guards" in shown
    assert "→ Recreate them: mere doctor --mend" in shown
    assert "2 failed" in shown


def test_without_a_project_the_machine_is_examined(tmp_path: Path) -> None:
    found = Patient(tmp_path).findings()
    assert found["java"]["state"] == "ok"
    assert found["duckdb"]["state"] == "ok"
    assert found["mere.yaml"]["state"] == "skipped"
    assert "mere init" in found["mere.yaml"]["remedy"]
    assert "opens" not in found


def test_a_lake_may_be_named_without_a_project(orders: Patient, tmp_path: Path) -> None:
    done = Shell(tmp_path).json("--lake", str(orders.folder / "lake"), "doctor", "--no-spark")
    assert {finding["state"] for finding in done["findings"]} == {"ok"}


# the catalog


HARMLESS = """CREATE OR REPLACE FUNCTION mere_guard_tables() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN NULL;
END $$"""
NO_OP = "CREATE TRIGGER mere_tables_delete BEFORE DELETE ON iceberg_tables BEGIN SELECT 1; END"


@pytest.mark.parametrize("harm", ["DROP TRIGGER mere_tables_delete", NO_OP])
def test_a_guard_of_sqlite_that_is_gone_or_harmless_is_found_and_mended(orders: Patient, harm: str) -> None:
    orders.catalog("DROP TRIGGER mere_tables_delete")
    if harm is NO_OP:
        orders.catalog(NO_OP)
    bad = orders.bad()
    assert set(bad) == {"guards", "refusal"}
    assert "mere_tables_delete" in bad["guards"]["what"]
    assert bad["guards"]["remedy"] == bad["refusal"]["remedy"] == "Recreate them: mere doctor --mend"
    assert orders.findings("--mend")["mend"]["what"] == "recreated: mere_tables_delete"
    assert orders.findings("--mend")["mend"]["what"] == "there was nothing to fix"
    assert orders.bad(exit_code=0) == {}


@pytest.mark.parametrize(
    ("harm", "named", "refuses"),
    [
        ("DROP TRIGGER mere_tables ON iceberg_tables", "missing: mere_tables", False),
        ("ALTER TABLE iceberg_tables DISABLE TRIGGER mere_tables", "switched off: mere_tables", False),
        (
            HARMLESS,
            "mere_guard_tables()",
            False,
        ),
        ("DROP FUNCTION mere_guard_properties() CASCADE", "mere_guard_properties(), mere_properties", True),
    ],
)
def test_a_guard_of_postgres_that_is_gone_or_harmless_is_found_and_mended(
    team: PostgresPatient, harm: str, named: str, refuses: bool
) -> None:
    team.catalog(harm)
    bad = team.bad()
    assert set(bad) == ({"guards"} if refuses else {"guards", "refusal"})
    assert named in bad["guards"]["what"]
    assert team.findings("--mend")["mend"]["what"].startswith("recreated: ")
    assert team.bad(exit_code=0) == {}


def test_a_trigger_of_somebody_else_is_told(shop: Patient) -> None:
    shop.catalog("CREATE TRIGGER theirs AFTER INSERT ON iceberg_tables BEGIN SELECT 1; END")
    bad = shop.bad(exit_code=0)
    assert bad["guards"]["state"] == "warn"
    assert "theirs" in bad["guards"]["what"]


def test_what_was_written_past_the_guards_is_found_and_taken_back(orders: Patient) -> None:
    orders.catalog("DROP TRIGGER mere_tables_delete")
    orders.catalog("DELETE FROM iceberg_tables")
    bad = orders.bad("--mend")
    assert set(bad) == {"log"}
    assert "gold.orders" in bad["log"]["what"]
    command = bad["log"]["remedy"].partition(": mere ")[2]
    orders(*command.split())
    assert orders.bad(exit_code=0) == {}


def test_a_catalog_without_wal_is_told(shop: Patient) -> None:
    with contextlib.closing(sqlite3.connect(shop.folder / "lake" / "catalog.db")) as database:
        database.execute("PRAGMA journal_mode = DELETE")
    bad = shop.bad(exit_code=0)
    assert bad["database"]["state"] == "warn"
    assert "PRAGMA journal_mode = WAL" in bad["database"]["remedy"]


@pytest.mark.parametrize(
    ("where", "check"), [("sqlite_master", "opens"), ("mere_commits", "opens"), ("mere_changes", "database")]
)
def test_a_damaged_catalog_is_told(orders: Patient, where: str, check: str) -> None:
    path = orders.folder / "lake" / "catalog.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        tables = {"sqlite_master": 1, **dict(database.execute("SELECT name, rootpage FROM sqlite_master"))}
        (size,) = database.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((tables[where] - 1) * size)
        file.write(b"\xff" * 100)
    found = orders.findings(exit_code=1)
    ill = found[check]
    assert ill["state"] == "failed"
    assert "damaged" in ill["what"]
    assert "backup" in ill["remedy"]
    assert found["guards"]["state"] == "skipped"
    assert found["java"]["state"] == "ok"


def test_a_lake_that_moved_is_told_and_relocated(orders: Patient) -> None:
    (orders.folder / "lake").rename(orders.folder / "elsewhere")
    (orders.folder / "mere.yaml").write_text("name: shop\nprofiles:\n  local:\n    lake: elsewhere\n")
    found = orders.findings(exit_code=1)
    assert "mere relocate" in found["opens"]["remedy"]
    assert found["write"]["state"] == "skipped"
    assert found["write"]["what"] == "needs: opens"
    orders("relocate")
    assert orders.bad(exit_code=0) == {}


def test_a_lake_that_is_not_there_is_told_and_made(orders: Patient) -> None:
    shutil.rmtree(orders.folder / "lake")
    assert "mere init" in orders.bad()["opens"]["remedy"]
    orders("init")
    assert orders.bad(exit_code=0) == {}


def test_postgres_that_is_down_is_told(team: PostgresPatient, postgres_server: Postgres) -> None:
    path = team.folder / "mere.yaml"
    path.write_text(path.read_text().replace(f":{postgres_server.port}/", ":1/"))
    bad = team.bad()
    assert set(bad) == {"opens"}
    assert "Check that Postgres runs there" in bad["opens"]["remedy"]


def test_a_wrong_password_is_told_and_not_shown(team: PostgresPatient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_PASSWORD", "wr0ng-secret")
    bad = team.bad()
    assert set(bad) == {"opens"}
    assert "password" in bad["opens"]["remedy"]
    assert "wr0ng-secret" not in team("doctor", "--no-spark", exit_code=1).output


def _connections(client: psycopg.Connection[Any]) -> int:
    (count,) = client.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    ).fetchone() or (0,)
    return int(count)


def test_postgres_without_free_connections_is_told(team: PostgresPatient) -> None:
    with contextlib.ExitStack() as clients:
        first = clients.enter_context(psycopg.connect(team.url, autocommit=True))
        while _connections(first) < 50:  # of 60, of which 3 are kept for the superuser
            clients.enter_context(psycopg.connect(team.url))
        bad = team.bad(exit_code=0)
    assert "connections are free" in bad["database"]["what"]
    assert "max_connections" in bad["database"]["remedy"]


def test_a_catalog_that_lacks_a_table_is_told(shop: Patient) -> None:
    shop.catalog("DROP TABLE mere_leases")
    bad = shop.bad()
    assert set(bad) == {"opens"}
    assert "mere_leases" in bad["opens"]["what"]
    assert "backup" in bad["opens"]["remedy"]


# the files


def test_wrong_keys_for_s3_are_told_and_not_shown(cloud: CloudPatient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "wr0ng-secret")
    bad = cloud.bad()
    assert set(bad) == {"write", "metadata"}
    assert "SignatureDoesNotMatch" in bad["write"]["what"]
    assert "`s3` in mere.yaml" in bad["write"]["remedy"]
    assert "wr0ng-secret" not in cloud("doctor", "--no-spark", exit_code=1).output


def test_metadata_that_is_gone_is_told(orders: Patient) -> None:
    with orders.open() as lake:
        pointer = Path(lake.at("main").pointer("gold.orders").removeprefix("file://"))
    kept = pointer.read_bytes()
    pointer.unlink()
    found = orders.findings(exit_code=1)
    assert "gold.orders" in found["metadata"]["what"]
    assert "mere revert" in found["metadata"]["remedy"]
    assert found["sql"]["state"] == "skipped"
    pointer.write_bytes(kept)
    assert orders.bad(exit_code=0) == {}


def test_a_manifest_list_that_is_gone_is_told(orders: Patient) -> None:
    next((orders.folder / "lake" / "warehouse").rglob("snap-*.avro")).unlink()
    assert set(orders.bad()) == {"metadata"}


def test_a_warehouse_that_cannot_be_written_is_told(shop: Patient) -> None:
    warehouse = shop.folder / "lake" / "warehouse"
    warehouse.rmdir()
    warehouse.write_text("in the way")
    found = shop.findings(exit_code=1)
    assert found["write"]["state"] == "failed"
    assert "warehouse" in found["write"]["remedy"]
    assert {found[name]["state"] for name in ("read", "list", "conditional put", "clock", "delete")} == {"skipped"}
    assert found["guards"]["state"] == "ok"
    warehouse.unlink()
    assert shop.bad(exit_code=0) == {}


def test_a_storage_whose_clock_is_wrong_is_told(shop: Patient) -> None:
    with shop.open() as lake, contextlib.closing(Subject(None, None, lambda: lake)) as subject:
        storage_checks.write(subject)
        assert storage_checks.clock(subject).state is State.OK
        behind = datetime.now(UTC).timestamp() - 300
        os.utime(subject.probe, (behind, behind))
        found = storage_checks.clock(subject)
    assert found.state is State.WARN
    assert "300 s apart" in found.what
    assert list(Path(lake.warehouse).iterdir()) == []


def test_a_name_that_no_query_can_spell_is_told_and_its_table_dropped(orders: Patient) -> None:
    orders("branch", "create", "dev")
    with orders.open() as lake:
        pointer = lake.at().pointer("gold.orders")
    for namespace, name in (("", "orders_snap__dbt_tmp"), ("gold", "a.b")):
        orders.catalog(
            f"INSERT INTO iceberg_tables VALUES ('dev', '{namespace}', '{name}', '{pointer}', NULL, 'TABLE')"
        )
    bad = orders.bad(exit_code=0)
    assert list(bad) == ["names"]
    assert '"".orders_snap__dbt_tmp on dev, gold."a.b" on dev' in bad["names"]["what"]
    _, *remedies = bad["names"]["remedy"].splitlines()
    for remedy in remedies:
        assert "dropped" in orders(*shlex.split(remedy)[1:]).stdout
    assert orders.bad(exit_code=0) == {}


def test_a_run_that_died_is_told_and_swept(shop: Patient) -> None:
    with shop.open() as lake:
        name = lake.run_branch().name
    old = (datetime.now(UTC) - KEEP_RUNS - timedelta(days=1)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    shop.catalog(f"UPDATE mere_refs SET created_at = '{old}' WHERE name = '{name}'")
    shop.catalog(f"UPDATE mere_commits SET at = '{old}'")
    holder = runs.holder(name.removeprefix("run_"))
    with shop.open() as lake, lake.lease([TableName("gold", "t")], holder):
        assert "runs" not in shop.bad(exit_code=0)
        shop("gc")
        assert lake.store.ref(name)
    bad = shop.bad(exit_code=0)
    assert name in bad["runs"]["what"]
    assert bad["runs"]["remedy"] == "Clean up: mere gc"
    shop("gc")
    assert shop.bad(exit_code=0) == {}


# the project and the machine


def test_a_bad_mere_yaml_is_told_with_its_line(shop: Patient) -> None:
    path = shop.folder / "mere.yaml"
    text = path.read_text()
    path.write_text(text.replace("memory", "memroy"))
    found = shop.findings(exit_code=1)
    assert f"{path}:8: unknown key `memroy`" in found["mere.yaml"]["what"]
    assert "Did you mean `memory`?" in found["mere.yaml"]["remedy"]
    assert found["opens"]["state"] == "skipped"
    assert found["duckdb"]["state"] == "ok"
    path.write_text(text)
    assert shop.bad(exit_code=0) == {}


def test_more_memory_than_the_machine_has_is_told(shop: Patient) -> None:
    path = shop.folder / "mere.yaml"
    path.write_text(path.read_text().replace("2g", "9000g"))
    bad = shop.bad(exit_code=0)
    assert set(bad) == {"memory"}
    assert "`memory:`" in bad["memory"]["remedy"]


@pytest.mark.parametrize("version", [None, "11.0.2"])
def test_a_machine_without_a_fit_java_is_told(
    shop: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    monkeypatch.setattr(java, "_USUAL_PLACES", ())
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    if version:
        (tmp_path / "jdk" / "bin").mkdir(parents=True)
        (tmp_path / "jdk" / "bin" / "java").touch()
        (tmp_path / "jdk" / "release").write_text(f'JAVA_VERSION="{version}"\n')
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "home"))
    found = Patient(shop.folder).json("doctor", exit_code=1)["findings"]
    states = {finding["check"]: finding for finding in found}
    assert "mere java install" in states["java"]["remedy"]
    assert (version or "no Java was found") in states["java"]["what"]
    assert states["job"]["state"] == "skipped"
    assert states["jars"]["state"] == "ok"
    assert "fetched at first use" in states["jars"]["what"]


def test_a_damaged_jar_is_told_and_fetched_again(
    shop: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm_jvm: None
) -> None:
    kept = [jars.cached(jar) for jar in jars.LOCAL]
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "jars").mkdir(parents=True)
    for path in kept:
        (tmp_path / "home" / "jars" / path.name).symlink_to(path)
    damaged = jars.cached(jars.SQLITE)
    damaged.unlink()
    damaged.write_bytes(b"half of a jar")
    found = {finding["check"]: finding for finding in shop.json("doctor", exit_code=1)["findings"]}
    assert found["jars"]["remedy"] == f"Remove them, and they are fetched again: rm {damaged}"
    assert found["job"]["state"] == "skipped"
    damaged.unlink()
    assert "will be fetched" in shop.findings()["jars"]["what"]


def test_a_home_that_cannot_be_written_is_told(shop: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "file"))
    bad = shop.bad()
    assert set(bad) == {"mere's folder"}
    assert "MERE_HOME" in bad["mere's folder"]["remedy"]


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch, shop: Patient) -> None:
    monkeypatch.setattr(machine_checks, "LEAST_FREE", 10**18)
    bad = shop.bad(exit_code=0)
    assert set(bad) == {"disks"}
    assert str(shop.folder / "lake") in bad["disks"]["remedy"]


# the job


@pytest.mark.service
def test_a_job_that_is_killed_leaves_a_run_that_the_sweep_finds(orders: Patient) -> None:
    before = traces(orders)
    command = [sys.executable, "-m", "mere", "doctor", "--json"]
    doctor = subprocess.Popen(command, cwd=orders.folder, stdout=subprocess.DEVNULL)
    with orders.open() as lake:
        while not any(PROBE in lake.at(ref.name).namespaces for ref in lake.refs(RefKind.RUN)):
            assert doctor.poll() is None, "it ended before it had written anything"
            time.sleep(0.01)
        jvm = psutil.Process(doctor.pid).children(recursive=True)
        doctor.kill()
        doctor.wait()
        psutil.wait_procs(jvm)
        later = datetime.now(UTC) + timedelta(hours=1)
        assert sweep(lake, grace=timedelta(0), keep_runs=timedelta(0), now=later).runs == ()
        orders.catalog("DELETE FROM mere_leases")  # as when it expires, a minute later
        first, _ = [sweep(lake, grace=timedelta(0), keep_runs=timedelta(0), now=later) for _ in range(2)]
        assert len(first.runs) == 1
    assert traces(orders) == before


def test_a_job_that_fails_leaves_nothing(orders: Patient, warm_jvm: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = traces(orders)
    monkeypatch.setattr("mere.doctor.spark.ROWS", "no_number")
    found = orders.json("doctor", exit_code=1)["findings"][-1]
    assert (found["check"], found["state"]) == ("job", "failed")
    assert "no_number" in found["what"]
    assert traces(orders) == before


# the runner


def test_a_check_that_breaks_is_a_finding_and_others_go_on() -> None:
    def broken(_: Subject) -> Verdict:
        raise ZeroDivisionError("at postgresql://ann:s3cret@host/lake")

    def well(_: Subject) -> Verdict:
        return Verdict("well")

    checks = [Check("a", "one", broken), Check("a", "two", well, needs=("one",)), Check("b", "three", well)]
    found = list(examine(checks, Subject(None, None, None)))
    assert [finding.state for finding in found] == [State.FAILED, State.SKIPPED, State.OK]
    assert "ZeroDivisionError" in found[0].what
    assert "s3cret" not in found[0].what
    assert found[1].what == "needs: one"


def test_a_master_that_does_not_answer_and_a_landing_are_checked(tmp_path: Path) -> None:
    Shell(tmp_path)("init", "shop")
    patient = Patient(tmp_path / "shop")
    file = patient.folder / "mere.yaml"
    file.write_text(
        "name: shop\nprofiles:\n  local:\n    lake: lake\n    landing: raw\n"
        "  cluster:\n    lake: lake\n    spark: {master: 'spark://127.0.0.1:1'}\n"
        "  remote:\n    lake: lake\n    spark: {remote: 'sc://127.0.0.1:1'}\n"
    )
    assert patient.findings()["landing"]["what"] == f"{patient.folder / 'raw'} can be written and read"
    assert not list((patient.folder / "raw").rglob("*.txt"))
    for profile, check, said in (("cluster", "master", "No master of Spark"), ("remote", "connect", "cannot be used")):
        done = patient("--profile", profile, "doctor", "--no-spark", "--json", exit_code=1)
        found = {each["check"]: each for each in json.loads(done.stdout)["findings"]}
        assert found[check]["state"] == "failed"
        assert said in found[check]["what"]
        assert found[check]["remedy"]
