"""The newest version of each driver, in an environment of its own: the gateway looks to it as Postgres does.

`make test-newest` runs it, and the suites of clients with the newest versions of the drivers that mere is locked to.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from mere.engine.jvm import java
from mere.engine.jvm.classpath import spark_home
from tests.serve.catalog import test_clients
from tests.services.newest import environment

pytestmark = [pytest.mark.long, pytest.mark.service, pytest.mark.timeout(1200)]

HERE = Path(__file__).parent
PYTHON = ("psycopg3", "psycopg2", "asyncpg", "pg8000", "sqlalchemy", "adbc", "ibis", "frames")
NODE = {"pg": "pg", "postgres": "postgres"}


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the newest drivers."""
    return environment(tmp_path_factory.mktemp("newest"), ["--requirement", str(HERE / "drivers.txt")])


def said(command: Sequence[str | Path], url: str, where: Path) -> dict[str, str]:
    done = subprocess.run([*command, url], check=False, capture_output=True, text=True, cwd=where, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    assert found
    return found


def same(ours: dict[str, str], theirs: dict[str, str]) -> None:
    assert ours == theirs


@pytest.mark.parametrize("driver", PYTHON)
def test_a_driver_in_python_sees_the_same(
    driver: str, newest: Path, shop_in_lake: str, shop_in_postgres: str, tmp_path: Path
) -> None:
    command: list[str | Path] = [newest, HERE / "drivers.py", driver]
    ours, theirs = (said(command, url, tmp_path) for url in (shop_in_lake, shop_in_postgres))
    same(ours, theirs)


@pytest.fixture(scope="module")
def newest_of_node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("node")
    shutil.copy(HERE / "drivers.mjs", folder)
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", *NODE], check=True, cwd=folder)
    return folder


@pytest.mark.parametrize("driver", NODE)
def test_a_driver_in_node_sees_the_same(
    driver: str, newest_of_node: Path, shop_in_lake: str, shop_in_postgres: str
) -> None:
    command = ["node", "drivers.mjs", driver]
    ours, theirs = (said(command, url, newest_of_node) for url in (shop_in_lake, shop_in_postgres))
    same(ours, theirs)


def test_the_newest_jdbc_describes_the_same(shop_in_lake: str, shop_in_postgres: str, tmp_path: Path) -> None:
    (ivy,) = (spark_home() / "jars").glob("ivy-*.jar")
    command: list[str | Path] = [
        java.find().executable,
        "-jar",
        ivy,
        "-dependency",
        "org.postgresql",
        "postgresql",
        "latest.release",
    ]
    command += ["-cache", tmp_path / "cache", "-retrieve", tmp_path / "[artifact].[ext]", "-types", "jar"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    ours, theirs = test_clients.described(tmp_path / "postgresql.jar", shop_in_lake, shop_in_postgres)
    for each in (ours, theirs):
        del each["getSchemas"]  # the lake's own tables have one
    assert ours == theirs
