"""A disk without room: reading needs none, and writing says what is full and changes nothing.

A process that may not make any file longer meets the same refusals as one on a full disk, and needs no disk of its own.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from mere.lake.lake import Lake
from mere.lake.storage import room
from tests.lake import iceberg_tables

WRITERS = [
    ["branch", "create", "more"],
    ["branch", "delete", "dev"],
    ["publish", "dev"],
    ["revert", "main"],
    ["drop", "gold.orders"],
    ["gc"],
]
READERS = [
    ["tables"],
    ["log"],
    ["show", "gold.orders"],
    ["diff", "main", "dev"],
    ["branch"],
    ["runs"],
    ["gc", "--dry-run"],
    ["publish", "dev", "--dry-run"],
    ["plan"],
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("room") / "shop"
    subprocess.run([sys.executable, "-m", "mere", "init", folder], check=True, stdout=subprocess.DEVNULL)
    with Lake.open(folder / "lake") as lake:
        iceberg_tables.create(lake, "gold.orders")
        iceberg_tables.append(lake, "gold.orders", 1, 2)
        lake.branch("dev")
        iceberg_tables.append(lake, "gold.orders", 3, ref="dev")
    return folder


NO_ROOM = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"


def mere(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    code = f"{NO_ROOM}import sys; sys.argv[0] = 'mere'; from mere.cli import main; main()"
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


COMMANDS = """
import json, sys
from click.testing import CliRunner
from mere.cli import main
done = [CliRunner().invoke(main, words) for words in json.loads(sys.argv[1])]
print(json.dumps([(each.exit_code, each.stdout, each.stderr, repr(each.exception)) for each in done]))
"""


def each_of(folder: Path, commands: list[list[str]]) -> list[tuple[int, str, str, str]]:
    """Several commands in one process that finds no room."""
    done = subprocess.run(
        [sys.executable, "-c", NO_ROOM + COMMANDS, json.dumps(commands)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [tuple(each) for each in json.loads(done.stdout)]


def content(shop: Path) -> dict[str, bytes]:
    files = (path for path in (shop / "lake").rglob("*") if path.is_file() and path.suffix != ".db-shm")
    return {str(path): path.read_bytes() for path in files if not path.name.endswith(("-shm", "-wal"))}


def test_readers_need_no_room(shop: Path) -> None:
    for words, (code, out, error, _) in zip(READERS, each_of(shop, READERS), strict=True):
        assert (code, error) == (0, ""), words
        assert out
    found = mere(shop, "sql", "SELECT count(*) AS n FROM gold.orders", "--json")
    assert found.returncode == 0, found.stderr
    assert "2" in found.stdout


def test_writers_say_where_there_is_no_room_and_change_nothing(shop: Path) -> None:
    before = content(shop)
    for words, (code, _, error, exception) in zip(WRITERS, each_of(shop, WRITERS), strict=True):
        assert code == 1, (words, exception)
        assert error.startswith(f"error: There is no room to write {shop}/lake/"), words
        assert "MB left, or a quota or a limit" in error
        assert "Nothing was changed." in error or "No pointer was changed." in error, words
    assert content(shop) == before


def test_what_a_killed_writer_left_in_the_log_of_the_database_is_read(shop: Path) -> None:
    """Its last commits are beside the database and not in it yet."""
    code = (
        "import os, signal; from mere import Lake; lake = Lake.open('lake'); lake.store._settle = lambda: None;"
        "lake.branch('last'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code], cwd=shop, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (shop / "lake/catalog.db-wal").stat().st_size
    assert "last" in mere(shop, "branch").stdout
    assert "last" in mere(shop, "branch").stdout
    with Lake.open(shop / "lake") as lake:
        lake.delete("last")


def test_each_transaction_sees_what_was_committed_before_it(shop: Path) -> None:
    """A process that reads on from memory must not stay where it began."""
    code = (
        "import subprocess, sys; from mere import Lake; lake = Lake.open('lake');"
        "print(sorted(ref.name for ref in lake.refs()), flush=True); sys.stdin.readline();"
        "print(sorted(ref.name for ref in lake.refs()), flush=True)"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", NO_ROOM + code], cwd=shop, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )  # fmt: skip
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert "new" not in reader.stdout.readline()
    with Lake.open(shop / "lake") as lake:
        lake.branch("new")
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert "new" in reader.stdout.readline()
        lake.delete("new")
    reader.communicate()
    assert reader.returncode == 0


def test_a_writer_is_not_kept_out_by_a_reader_that_found_no_room(shop: Path) -> None:
    with closing(room.snapshot(shop / "lake/catalog.db", 1.0)) as copy:
        with Lake.open(shop / "lake") as lake:
            lake.branch("beside")
            lake.delete("beside")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            copy.execute("DELETE FROM mere_refs")


def test_the_full_disk_is_named() -> None:
    assert room.is_lacking(OSError(errno.ENOSPC, "No space left on device"))
    assert not room.is_lacking(OSError(errno.EACCES, "Permission denied"))
    text = room.describe("/nowhere/at/all")
    assert text.startswith("There is no room to write /nowhere/at/all: the disk mounted at / has ")
    assert os.path.ismount("/")
