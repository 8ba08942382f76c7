"""Where queries put what does not fit into memory: who can read it, and what is left of it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mere.lake.query import connect, spill
from mere.lake.query.duckdb import Limits
from mere.lake.query.spill import Spill


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The system's folder for temporary files, as this process and those that it starts see it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(spill, "_present", None)
    before = os.umask(0o022)
    try:
        yield tmp_path
    finally:
        os.umask(before)


def start(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def test_spilled_rows_are_in_a_folder_that_nobody_else_can_enter(temporary: Path) -> None:
    with closing(connect(Limits("60MB", 2))) as connection:
        reader = connection.execute("SELECT n, n::VARCHAR || 'x' FROM range(3000000) t(n) ORDER BY hash(n)")
        assert reader.fetchone() is not None
        (folder,) = temporary.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert list(folder.rglob("*.tmp")), "nothing was spilled"


def test_two_databases_of_a_process_have_places_of_their_own(temporary: Path) -> None:
    with closing(connect()) as one, closing(connect()) as other:
        found = [each.execute("SELECT current_setting('temp_directory')").fetchall()[0][0] for each in (one, other)]
    assert found[0] != found[1]
    assert len({Path(each).parent for each in found}) == len(list(temporary.iterdir())) == 1


def test_it_goes_with_the_process_and_what_a_killed_one_left_with_the_next(temporary: Path) -> None:
    opened = "from mere.lake.query import connect; connect(); print(flush=True); input()"
    ended, killed = start(opened), start(opened)
    for each in (ended, killed):
        assert each.stdout is not None
        each.stdout.readline()
    assert len(list(temporary.iterdir())) == 2
    ended.communicate("\n")
    (left,) = temporary.iterdir()
    (left / "0").mkdir()
    (left / "0" / "rows.tmp").write_text("secret")
    connect().close()
    assert (left / "0" / "rows.tmp").exists(), "of a process that lives"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    spill.sweep(temporary)
    assert not left.exists()
    assert len(list(temporary.iterdir())) == 1


def test_a_forked_process_leaves_the_folder_to_its_parent(temporary: Path) -> None:
    mine = Spill(temporary)
    child = os.fork()
    if not child:
        mine.remove()
        os._exit(int(mine.is_mine()))
    assert os.waitpid(child, 0)[1] == 0
    assert mine.folder.exists()
    mine.remove()
    assert not mine.folder.exists()


def test_a_link_with_such_a_name_is_not_followed(temporary: Path) -> None:
    (temporary / "other").mkdir()
    (temporary / "other" / "file").touch()
    (temporary / "mere-sql-link").symlink_to(temporary / "other")
    (temporary / "mere-sql-file").touch()
    spill.sweep(temporary)
    assert (temporary / "other" / "file").exists()
