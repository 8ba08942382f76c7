"""What others on the machine can read of a lake: nothing, under the umask that most machines have."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mere import private
from mere.engine.jvm import process
from mere.lake.lake import Lake
from tests.cli.test_cli import Shell
from tests.lake.foreign import Foreign


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def readable_by_others(folder: Path) -> list[str]:
    """Files below it that others reach: all folders on the way let them in."""
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if stat.S_IMODE(Path(parent, name).stat().st_mode) & 0o011]
        found += [
            Path(parent, name).relative_to(folder).as_posix()
            for name in names
            if stat.S_IMODE(Path(parent, name).stat().st_mode) & 0o044
        ]
    return found


def test_what_others_can_read_is_seen_here(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "file").touch()
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "closed" / "file").touch()
    assert readable_by_others(tmp_path) == ["open/file"]


def test_a_lake_its_queries_and_the_gateway_leave_nothing_that_others_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "home"))
    Shell(tmp_path)("init", "shop")
    shop = tmp_path / "shop"
    with Lake.open(shop / "lake") as lake:
        Foreign(lake).append("main", "gold.orders", 3)
    Shell(shop)("sql", "select 1")
    command = [
        sys.executable,
        "-m",
        "mere",
        "serve",
        "--trust",
        "--port",
        "0",
        "--http-port",
        "0",
        "--audit",
        "audit.log",
        "--json",
    ]
    server = subprocess.Popen(command, cwd=shop, stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        assert server.stdout.readline()
    finally:
        server.terminate()
        server.communicate(timeout=60)
    assert (shop / "audit.log").exists()
    assert (shop / "lake" / "catalog.db").exists()
    assert readable_by_others(shop) == [".gitignore", "mere.yaml"]


def test_the_logs_of_spark_are_their_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "home"))
    log = process._new_log()
    private.appended(log).close()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


def test_what_is_there_already_keeps_what_its_owner_allowed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("first\n")
    log.chmod(0o640)
    with private.appended(log) as file:
        file.write(b"second\n")
    assert log.read_text() == "first\nsecond\n"
    assert stat.S_IMODE(log.stat().st_mode) == 0o640
