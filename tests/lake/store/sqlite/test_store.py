"""A database that is damaged, locked, newer, read-only or out of space: a sentence, and nothing lost."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mere.errors import (
    CatalogLost,
    LakeError,
    LakeMoved,
    LakeNotFound,
    LakeTooNew,
    LakeUnreadable,
    MetadataMissing,
    UsageError,
)
from mere.lake.lake import Lake
from mere.lake.store.sqlite import store
from mere.lake.store.sqlite.schema import MIGRATIONS
from tests.lake.foreign import Foreign


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        Foreign(lake).append("main", "a.t", 3)
        yield lake


def test_there_is_no_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeNotFound, match="no lake at"):
        Lake.open(tmp_path / "nowhere")
    with contextlib.closing(sqlite3.connect(tmp_path / "catalog.db")) as connection:
        connection.execute("CREATE TABLE other (x)")
    with pytest.raises(CatalogLost, match="not the catalog of a mere lake"):
        Lake.open(tmp_path)


def test_a_lake_is_not_made_over_another(lake: Lake) -> None:
    before = (lake.root / "catalog.db").read_bytes()
    with pytest.raises(LakeError, match="already a lake"):
        Lake.create(lake.root)
    assert (lake.root / "catalog.db").read_bytes() == before
    assert [path.name for path in lake.root.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("damage", ["overwritten", "truncated", "empty"])
def test_a_damaged_database_is_named_and_left_alone(lake: Lake, damage: str) -> None:
    lake.close()
    database = lake.root / "catalog.db"
    content = database.read_bytes()
    broken = {"overwritten": b"not a database" * 1000, "truncated": content[: len(content) // 2], "empty": b""}[damage]
    database.write_bytes(broken)
    with pytest.raises(CatalogLost, match=r"catalog\.db"):
        Lake.open(lake.root).at()
    assert database.read_bytes() == broken


def test_a_newer_database_is_refused(lake: Lake) -> None:
    with contextlib.closing(sqlite3.connect(lake.root / "catalog.db")) as connection, connection:
        connection.execute("UPDATE mere_meta SET value = ? WHERE key = 'schema_version'", (len(MIGRATIONS) + 1,))
    with pytest.raises(LakeTooNew, match="newer mere"):
        Lake.open(lake.root)


def test_a_locked_database_says_who_to_wait_for(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "BUSY_SECONDS", 0.2)
    holder = sqlite3.connect(lake.root / "catalog.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    reopened = Lake.open(lake.root)
    assert reopened.at().metadata("a.t").rows == 3
    with pytest.raises(LakeUnreadable, match="locked by another process"):
        reopened.branch("dev")
    holder.execute("ROLLBACK")
    holder.close()
    reopened.branch("dev")
    reopened.close()


def test_a_database_on_a_network_disk_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_file_system", lambda folder: "nfs4")
    with pytest.raises(LakeUnreadable, match=r"network file system \(nfs4\)"):
        Lake.open(lake.root)


def test_a_copy_of_the_file_after_a_publish_has_everything(lake: Lake, tmp_path: Path) -> None:
    lake.branch("dev")
    Foreign(lake).append("dev", "a.u", 1)
    lake.publish("dev")
    (tmp_path / "copy").mkdir()
    shutil.copy(lake.root / "catalog.db", tmp_path / "copy" / "catalog.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "copy" / "catalog.db")) as connection:
        tables = connection.execute("SELECT table_name FROM iceberg_tables WHERE catalog_name = 'main'").fetchall()
    assert sorted(tables) == [("t",), ("u",)]


def test_a_metadata_file_that_is_gone_is_named(lake: Lake) -> None:
    pointer = lake.at().pointer("a.t")
    lake.branch("dev")
    Foreign(lake).append("dev", "a.t", 1)
    Path(lake.at("dev").pointer("a.t")).unlink()
    with pytest.raises(MetadataMissing, match=r"metadata\.json is gone"):
        lake.publish("dev")
    assert lake.at().pointer("a.t") == pointer
    Path(pointer).write_text("{ half a file")
    with pytest.raises(LakeUnreadable, match="not Iceberg metadata"):
        Lake.open(lake.root).at().metadata("a.t")


def test_a_moved_lake_is_noticed(lake: Lake, tmp_path: Path) -> None:
    lake.close()
    lake.root.rename(tmp_path / "elsewhere")
    with pytest.raises(LakeMoved, match=r"was made at .*lake and is now at .*elsewhere") as caught:
        Lake.open(tmp_path / "elsewhere")
    assert "mere relocate" in str(caught.value.remedy)


def test_threads_share_a_lake(lake: Lake) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                lake.branch(f"t{number}-{turn}")
                assert lake.at(f"t{number}-{turn}").metadata("a.t").rows == 3
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(lake.refs()) == 21


def test_a_forked_child_has_a_connection_of_its_own(lake: Lake) -> None:
    lake.at()
    child = os.fork()
    if child == 0:
        lake.branch("from-child")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    lake.close()
    with Lake.open(lake.root) as reopened:
        assert [ref.name for ref in reopened.refs()] == ["from-child", "main"]


def test_threads_leave_no_connections_behind(lake: Lake) -> None:
    for _ in range(20):
        thread = threading.Thread(target=lake.at)
        thread.start()
        thread.join()
    links = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert sum(link.is_relative_to(lake.root) for link in links) <= 6


def test_a_reader_does_not_hold_a_publish_up(lake: Lake) -> None:
    reader = sqlite3.connect(lake.root / "catalog.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM iceberg_tables").fetchall()
    lake.branch("dev")
    Foreign(lake).append("dev", "a.u")
    started = time.monotonic()
    assert lake.publish("dev").commit is not None
    assert time.monotonic() - started < 10
    reader.close()


def test_a_place_that_engines_would_misread_is_refused(tmp_path: Path) -> None:
    for name in ("what?", "a#b", "100%"):
        with pytest.raises(UsageError, match="cannot be at"):
            Lake.create(tmp_path / name)


# What follows needs a file system of its own: a small one, or one that is read-only.


def on_a_small_disk(script: str, folder: Path, options: str) -> subprocess.CompletedProcess[str]:
    """Run a script with `folder` as a tmpfs of its own, in a mount namespace that ends with it."""
    mount = f'mount -t tmpfs -o {options} tmpfs "{folder}" && exec "{sys.executable}" -'
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "--map-root-user"]
    return subprocess.run(
        [*unshare, "sh", "-c", mount],
        input=script,
        text=True,
        capture_output=True,
        cwd=Path(__file__).parents[4],
        check=False,
    )


needs_mounts = pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0,
    reason="this machine does not let us mount a small disk",
)


@needs_mounts
def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from mere.errors import LakeUnreadable
from mere.lake.lake import Lake
from tests.lake.foreign import Foreign
lake = Lake.create({str(tmp_path)!r} + "/lake")
engine = Foreign(lake)
engine.append("main", "a.t", 1)
lake.branch("dev")
engine.append("dev", "a.t", 2)
before = lake.at().entries
ballast = Path({str(tmp_path)!r}, "ballast").open("wb", buffering=0)
try:
    while True:
        ballast.write(b"x" * 4096)
except OSError:
    ballast.close()
try:
    for n in range(200):
        lake.branch(f"n{{n}}x")
    print("no error")
except LakeUnreadable as error:
    print(error.message)
assert lake.at().entries == before
Path({str(tmp_path)!r}, "ballast").unlink()
lake.publish("dev")
assert lake.at().metadata("a.t").rows == 3
print("whole")
"""
    done = on_a_small_disk(script, tmp_path, "size=2m")
    assert done.returncode == 0, done.stderr
    assert f"the disk mounted at {tmp_path} has 0.0 MB left" in done.stdout
    assert done.stdout.endswith("whole\n")


@needs_mounts
def test_a_read_only_folder_can_be_read_and_says_so_when_written(tmp_path: Path) -> None:
    script = f"""
import subprocess
from mere.errors import LakeUnreadable
from mere.lake.lake import Lake
from tests.lake.foreign import Foreign
lake = Lake.create({str(tmp_path)!r} + "/lake")
Foreign(lake).append("main", "a.t", 3)
lake.branch("dev")
lake.close()
subprocess.run(["mount", "-o", "remount,ro", {str(tmp_path)!r}], check=True)
lake = Lake.open(lake.root)
assert lake.at().metadata("a.t").rows == 3
try:
    lake.branch("other")
    print("no error")
except LakeUnreadable as error:
    print(error.message)
try:
    Lake.create({str(tmp_path)!r} + "/second")
except LakeUnreadable as error:
    print(error.message)
"""
    done = on_a_small_disk(script, tmp_path, "size=2m")
    assert done.returncode == 0, done.stderr
    assert "cannot be written" in done.stdout
    assert "No lake could be made" in done.stdout


@needs_mounts
def test_a_lake_of_an_older_mere_can_be_read_where_it_cannot_be_written(tmp_path: Path) -> None:
    script = f"""
import subprocess
from mere.errors import LakeUnreadable
from mere.lake.store.sqlite import schema, store
from mere.lake.lake import Lake
from mere.lake.place.places import MARKER
from tests.lake.foreign import Foreign
store.MIGRATIONS = schema.MIGRATIONS[:1]
lake = Lake.create({str(tmp_path)!r} + "/lake")
Foreign(lake).append("main", "a.t", 3)
lake.close()
(lake.root / MARKER).unlink()
store.MIGRATIONS = schema.MIGRATIONS
subprocess.run(["mount", "-o", "remount,ro", {str(tmp_path)!r}], check=True)
lake = Lake.open(lake.root)
assert lake.at().metadata("a.t").rows == 3
assert len(list(lake.log())) > 1
try:
    lake.runs()
except LakeUnreadable as error:
    print(error.message)
"""
    done = on_a_small_disk(script, tmp_path, "size=2m")
    assert done.returncode == 0, done.stderr
    assert "made by an older mere, which kept no history of runs" in done.stdout
