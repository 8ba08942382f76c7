"""A reader of pages, who types what they show."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mere.config import mere_home
from tests.docs import pages
from tests.docs.here import mere_in

Follow = Callable[[Path], None]


@pytest.fixture(scope="session")
def mere_is_here() -> Iterator[Path]:
    # Not below pytest's own folder: the path of a socket may have no more than 107 letters.
    with tempfile.TemporaryDirectory(prefix="mere-docs-") as folder, mere_in(Path(folder)):
        yield Path(folder)


@pytest.fixture
def follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mere_is_here: Path) -> Follow:
    """`follow(page)` does what the page shows, as a reader with an empty folder and an empty home."""
    folder, home = tmp_path / "page", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    # The jars are there already: fetching them again for a page would take minutes.
    monkeypatch.setenv("MERE_HOME", str(mere_home()))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{mere_is_here}{os.pathsep}{Path(sys.executable).parent}", prepend=os.pathsep)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(folder)
    return lambda page: pages.follow(page, folder, dict(os.environ))
