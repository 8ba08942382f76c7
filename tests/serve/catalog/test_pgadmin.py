"""pgAdmin's newest version in a real browser, on the gateway: its tree, properties of objects, the query tool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.services.newest import environment
from tests.services.postgres import free_port

pytestmark = [pytest.mark.long, pytest.mark.service, pytest.mark.timeout(1200)]

_SEEN = Path(__file__).with_name("pgadmin_seen.py")
_CONFIG = """
SERVER_MODE = False
MASTER_PASSWORD_REQUIRED = False
UPGRADE_CHECK_ENABLED = False
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("pgadmin") / "venv", ["pgadmin4", "playwright"])


@pytest.fixture
def pgadmin(python: Path, shop_in_lake: str, tmp_path: Path) -> Iterator[str]:
    """Its address. It knows the gateway."""
    (package,) = python.parent.parent.glob("lib/python*/site-packages/pgadmin4")
    port = free_port()
    config = f"{_CONFIG}DATA_DIR = {str(tmp_path)!r}\nDEFAULT_SERVER_PORT = {port}\n"
    package.joinpath("config_local.py").write_text(config)
    parts = psycopg.conninfo.conninfo_to_dict(shop_in_lake)
    server = {
        "Name": "mere", "Group": "Servers", "Host": parts["host"], "Port": int(str(parts["port"])),
        "MaintenanceDB": "shop", "Username": parts["user"], "ConnectionParameters": {"sslmode": "disable"},
    }  # fmt: skip
    tmp_path.joinpath("servers.json").write_text(json.dumps({"Servers": {"1": server}}))
    surroundings = {**os.environ, "HOME": str(tmp_path)}
    for command in (["setup-db"], ["load-servers", str(tmp_path / "servers.json")]):
        subprocess.run(
            [python, package / "setup.py", *command], check=True, env=surroundings, capture_output=True, timeout=300
        )
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([python, package / "pgAdmin4.py"], env=surroundings, stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 120
        while not _answers(f"{address}/misc/ping"):
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.5)
        yield address
    finally:
        process.terminate()
        process.wait(60)


def _answers(url: str) -> bool:
    with suppress(OSError):
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    return False


def test_pgadmin_shows_a_table_and_a_view_and_runs_a_query(python: Path, pgadmin: str, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser is not None, "Install Chromium: apt install chromium."
    done = subprocess.run(
        [python, _SEEN, pgadmin, browser, tmp_path], check=False, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["failed"] == []
    assert "CREATE TABLE IF NOT EXISTS gold.orders" in seen["orders SQL"]
    assert "What was ordered" in seen["orders SQL"]
    assert "ADD COLUMN amount numeric(12,2)" in seen["amount SQL"]
    assert "CREATE OR REPLACE VIEW gold.totals" in seen["totals SQL"]
    assert "By customer" in seen["totals SQL"]
    assert seen["rows"] == ["1", "1", "1", "ann", "2", "1", "2", "ann", "3", "2", "1", "bob"]  # after their numbers
