"""What `mere connect` prints is given to the tool itself, which then reads and, by REST, writes the lake."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import stat
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from click.testing import CliRunner, Result
from sqlalchemy import create_engine, text

from mere.cli import main
from mere.cli.service.connect import NAMES
from mere.errors import MereError
from mere.lake.lake import Lake
from mere.lake.query import duckdb as ours
from mere.serve.access.tokens import Tokens
from mere.serve.access.users import Users
from mere.serve.connect.place import Place
from mere.serve.connect.tools import TOOLS
from mere.serve.http.server import HttpEndpoint
from mere.serve.iceberg.routes import mounted
from mere.serve.postgres.startup import Policy
from mere.serve.session.backend import LakeBackend
from tests.conftest import OpenSession
from tests.lake import orders
from tests.serve.served import served
from tests.services import postgres

PASSWORD = "a long secret"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with Lake.create(tmp_path_factory.mktemp("connect") / "lake") as lake:
        orders.write(lake, "gold.orders", orders.ORDERS)
        lake.branch("dev")
        yield lake


@pytest.fixture(scope="module")
def place(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, str]]:
    """Where the lake is served, to users with passwords and programs with tokens; and a token."""
    users = Users(tmp_path_factory.mktemp("users") / "users.json")
    users.add("ann", PASSWORD)
    tokens = Tokens(Tokens.beside(users.path))
    _, token = tokens.create("ann", None, timedelta(days=1))
    http = HttpEndpoint([mounted(lake)], users, None, tokens=tokens)
    with served(LakeBackend(lake), Policy(users), beside=[http]) as running:
        yield Place("dev", "ann", "127.0.0.1", running.port, http.port), token


@pytest.fixture(autouse=True)
def environment(place: tuple[Place, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERE_TOKEN", place[1])
    monkeypatch.setenv("PGPASSWORD", PASSWORD)


def told(tool: str, place: tuple[Place, str]) -> str:
    return TOOLS[tool].text(place[0])


def count(lake: Lake) -> int:
    return int(orders.rows(lake, "select count(*) from gold.orders", "dev")[0][0])


def test_duckdb_reads_and_writes(place: tuple[Place, str], lake: Lake) -> None:
    before = count(lake)
    with duckdb.connect(config={"allow_unsigned_extensions": True}) as connection:
        for name in ("avro", "httpfs", "iceberg"):
            connection.execute(f"LOAD '{ours._extension(name)}'")
        for line in told("duckdb", place).splitlines():
            if "getenv('MERE_TOKEN')" in line:  # which only DuckDB's shell has; the line above it says what to do
                connection.execute("SET VARIABLE mere_token = ?", [os.environ["MERE_TOKEN"]])
            elif not line.startswith(("--", "INSTALL", "LOAD")):  # there is no network here
                connection.execute(line)
        assert connection.execute("select count(*) from dev.gold.orders").fetchall() == [(before,)]
        connection.execute("insert into dev.gold.orders values (10, 'duck', 1.0)")
    assert count(lake) == before + 1
    assert next(iter(lake.log("dev"))).author == "ann"


def test_pyiceberg_reads_and_writes(place: tuple[Place, str], lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    before = count(lake)
    names: dict[str, Any] = {}
    exec(told("pyiceberg", place), names)
    assert "gold" in capsys.readouterr().out
    names["catalog"].load_table("gold.orders").append(orders.ONE_MORE)
    assert count(lake) == before + 1


def test_spark_reads_and_writes(place: tuple[Place, str], lake: Lake, spark_on: OpenSession) -> None:
    """The session that it gets is the suite's, in which everything is that was asked for at its start."""
    before = count(lake)
    spark_on(lake, "main")
    names: dict[str, Any] = {}
    text = told("spark", place)
    assert "spark.jars.packages" in text
    exec(text, names)
    spark = names["spark"]
    try:
        assert spark.sql("select count(*) from gold.orders").collect() == [(before,)]
        spark.sql("insert into gold.orders values (11, 'spark', 1.0)")
    finally:
        spark.sql("USE spark_catalog")
    assert count(lake) == before + 1


def test_spark_connect_is_told_the_same(place: tuple[Place, str]) -> None:
    def catalog(tool: str) -> list[str]:
        return [line for line in told(tool, place).splitlines() if line.startswith("spark.")]

    assert catalog("spark-connect") == catalog("spark")
    compile(told("spark-connect", place), "spark-connect", "exec")


def test_psql_reads(place: tuple[Place, str], lake: Lake) -> None:
    command = shlex.split(told("psql", place))
    command = [str(postgres.binary("psql")), *command[1:], "-X", "-At", "-c", "select count(*) from gold.orders"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"{count(lake)}\n"


def test_jdbc_reads(place: tuple[Place, str], lake: Lake, spark_on: OpenSession) -> None:
    spark = spark_on(lake, "main").spark
    options = {"url": told("jdbc", place).strip(), "password": PASSWORD, "dbtable": "gold.orders"}
    found = spark.read.format("jdbc").options(driver="org.postgresql.Driver", **options).load().count()
    assert found == count(lake)


def test_superset_s_address_is_one_for_sqlalchemy(place: tuple[Place, str], lake: Lake) -> None:
    asked = json.loads(told("superset", place))
    assert json.loads(asked["extra"]) == {"allow_multi_catalog": True}
    engine = create_engine(asked["sqlalchemy_uri"].replace("+psycopg2", "+psycopg"))
    with engine.connect() as connection:
        assert connection.execute(text("select count(*) from gold.orders")).scalar() == count(lake)
    engine.dispose()


def test_metabase_s_details_are_those_of_postgres(place: tuple[Place, str], lake: Lake) -> None:
    asked = json.loads(told("metabase", place))
    details = asked["details"]
    assert (asked["engine"], details["ssl"]) == ("postgres", False)
    with psycopg.connect(**{name: details[name] for name in ("host", "port", "dbname", "user")}) as connection:
        assert connection.execute("select count(*) from gold.orders").fetchone() == (count(lake),)


def test_trino_s_file_takes_the_token_from_the_environment(place: tuple[Place, str]) -> None:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string("[catalog]\n" + told("trino", place))
    found = dict(parser["catalog"])
    assert found["iceberg.rest-catalog.oauth2.token"] == "${ENV:MERE_TOKEN}"
    assert (found["connector.name"], found["iceberg.catalog.type"]) == ("iceberg", "rest")
    assert (found["iceberg.rest-catalog.uri"], found["iceberg.rest-catalog.warehouse"]) == (
        f"{place[0].uri}/trino/dev",
        "dev",
    )


def test_flink_is_given_one_statement(place: tuple[Place, str], monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []

    class Tables:
        def execute_sql(self, sql: str) -> None:
            given.append(sql)

        def use_catalog(self, name: str) -> None:
            given.append(name)

    lines = told("flink", place).splitlines()
    body = "\n".join(line for line in lines if "pyflink" not in line and "TableEnvironment" not in line)
    exec(body, {"tables": Tables()})
    statement, used = given
    pairs = dict(re.findall(r"'([^']*)' = '([^']*)'", statement))
    assert pairs.pop("token") == os.environ["MERE_TOKEN"]
    assert pairs == {"type": "iceberg", "catalog-type": "rest", "uri": place[0].uri, "warehouse": "dev"}
    assert used == "dev"


def test_dbeaver_and_power_bi_are_told_the_address(place: tuple[Place, str]) -> None:
    port = place[0].port
    _, option, given = shlex.split(told("dbeaver", place))
    pairs = dict(part.split("=", 1) for part in given.split("|"))
    assert (option, pairs["driver"], pairs["savePassword"]) == ("-con", "postgresql", "false")
    assert pairs["url"] == f"jdbc:postgresql://127.0.0.1:{port}/dev?user=ann"
    assert f'PostgreSQL.Database("127.0.0.1:{port}", "dev")' in told("power-bi", place)


HARD = Place("main@2026-11-14T09:00~1", "o'neil | \"q\\", "lake.example.org", tls=True)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("at", [HARD, Place("main", "ann", trusted=True), Place("v-1", "ann", on_s3=True)])
def test_whatever_is_asked_for_stands_in_quotes_and_no_secret_does(tool: str, at: Place) -> None:
    found = TOOLS[tool].text(at)
    assert os.environ["MERE_TOKEN"] not in found
    assert PASSWORD not in found
    assert ("MERE_TOKEN" in found) is (TOOLS[tool].token and not at.trusted)
    if tool in ("pyiceberg", "spark", "spark-connect", "flink"):
        compile(found, tool, "exec")
    elif tool in ("superset", "metabase"):
        json.loads(found)
    elif tool in ("psql", "dbeaver"):
        assert len(shlex.split(found)) == (2 if tool == "psql" else 3)
    if tool == "psql":
        asked = psycopg.conninfo.conninfo_to_dict(shlex.split(found)[1])
        assert (asked["dbname"], asked["user"]) == (at.ref, at.user)
        assert asked.get("sslmode") == ("require" if at.tls else None)


# The command


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["connect", *arguments])


def test_every_tool_is_a_choice() -> None:
    assert tuple(TOOLS) == NAMES


def test_the_command_prints_or_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = run("trino", "--ref", "dev")
    assert printed.stdout == TOOLS["trino"].text(Place("dev", "x"))
    assert printed.stderr == "It reads the token from MERE_TOKEN: export MERE_TOKEN=$(mere token create NAME)\n"
    assert run("trino", "--ref", "dev", "--write", "dev.properties").stdout == ""
    file = tmp_path / "dev.properties"
    assert file.read_text() == printed.stdout
    again = run("trino", "--write", "dev.properties")
    assert (again.exit_code, "was not changed" in again.stderr) == (2, True)
    assert file.read_text() == printed.stdout
    assert not stat.S_IMODE(file.stat().st_mode) & 0o111
    found = json.loads(run("duckdb", "--trust", "--json").stdout)
    assert (found["tool"], found["variable"], found["text"]) == (
        "duckdb", None, TOOLS["duckdb"].text(Place("main", "x", trusted=True)),
    )  # fmt: skip


def test_other_machines_are_reached_by_tls_and_with_a_token() -> None:
    assert "https://lake.example.org:8181/iceberg" in run("pyiceberg", "--host", "lake.example.org").stdout
    assert "sslmode=require" in run("psql", "--host", "lake.example.org", "--user", "ann").stdout
    assert "requires a token" in run("duckdb", "--host", "lake.example.org", "--trust").stderr
    assert "http://[::1]:8181" in run("duckdb", "--host", "::1").stdout


@pytest.mark.parametrize(
    "wrong", [["--ref", "a'b"], ["--ref", ""], ["--host", "x;y"], ["--host", ""], ["--user", "a\nb"], ["--host", "a|b"]]
)
def test_what_cannot_be_one_is_refused(wrong: list[str]) -> None:
    done = run("psql", *wrong)
    assert done.exit_code in (1, 2)
    assert isinstance(done.exception, (MereError, SystemExit))
    assert done.stdout == ""


def test_a_lake_on_s3_is_told_of_in_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mere.yaml").write_text(
        "name: shop\nprofiles: {local: {lake: s3://b/p, catalog: 'postgresql://h/d'}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "y")
    assert "iceberg-aws-bundle" in run("spark").stdout
    assert "fs.native-s3.enabled=true" in run("trino").stdout
