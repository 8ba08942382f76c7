"""Copies of files: made once, bounded, and never taken from under a reader."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mere.config import mere_home
from mere.errors import ConfigError
from mere.sources.cache import DEFAULT_BYTES, IN_USE, Made, cache_folder, cached, keep_bytes, key, prune, release


def holding(content: bytes, name: str = "x.csv") -> Callable[[Path], Made]:
    def make(part: Path) -> Made:
        part.write_bytes(content)
        return Made(part, name)

    return make


def unused(path: Path, hours: float) -> None:
    at = time.time() - hours * 3600
    os.utime(path.parent, (at, at))


def test_the_cache_is_in_meres_home() -> None:
    assert cache_folder() == mere_home() / "sources"


@pytest.mark.parametrize(
    ("text", "size"), [("", DEFAULT_BYTES), ("0", 0), ("1000", 1000), ("2g", 2 * 2**30), ("800MB", 800 * 2**20)]
)
def test_a_variable_says_how_much_is_kept(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv("MERE_SOURCE_CACHE", text)
    assert keep_bytes() == size


@pytest.mark.parametrize("text", ["much", "-1", "1.5g", "g"])
def test_what_is_no_amount_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MERE_SOURCE_CACHE", text)
    with pytest.raises(ConfigError, match="MERE_SOURCE_CACHE is not an amount"):
        keep_bytes()


def test_a_key_tells_all_its_parts_apart() -> None:
    assert len({key("a", "b"), key("ab", ""), key("", "ab"), key("b", "a"), key("a", "b", "")}) == 5


def test_a_copy_is_made_once(tmp_path: Path) -> None:
    first = cached(tmp_path, "k", holding(b"1"))
    assert cached(tmp_path, "k", holding(b"2")) == first
    assert first.read_bytes() == b"1"


def test_a_copy_that_failed_leaves_its_part_for_the_next(tmp_path: Path) -> None:
    def failing(part: Path) -> Made:
        part.write_bytes(b"half")
        raise RuntimeError

    def resuming(part: Path) -> Made:
        part.write_bytes(part.read_bytes() + b" and half")
        return Made(part, "x.csv")

    with pytest.raises(RuntimeError):
        cached(tmp_path, "k", failing)
    assert cached(tmp_path, "k", resuming).read_bytes() == b"half and half"


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    copies = [cached(tmp_path, f"k{number}", holding(b"12345")) for number in range(4)]
    for hours, path in zip((9, 8, 7, 6), copies, strict=True):
        unused(path, hours)
    cached(tmp_path, "k0", holding(b""))  # it is used
    assert prune(tmp_path, 20) == 0
    assert prune(tmp_path, 14) == 10
    assert [path.exists() for path in copies] == [True, False, False, True]
    assert prune(tmp_path, 0) == 5
    assert [path.exists() for path in copies] == [True, False, False, False]


def test_what_may_be_in_use_stays_until_it_is_released(tmp_path: Path) -> None:
    first, second = (cached(tmp_path, name, holding(b"12345")) for name in "ab")
    assert prune(tmp_path, 0) == 0
    elsewhere = tmp_path / "x.csv"
    elsewhere.touch()
    before = tmp_path.stat().st_mtime
    release(tmp_path, [first, elsewhere])
    assert tmp_path.stat().st_mtime == before
    assert prune(tmp_path, 0) == 5
    assert (first.exists(), second.exists()) == (False, True)
    release(tmp_path, [first])


def test_a_part_that_is_being_written_stays(tmp_path: Path) -> None:
    path = cached(tmp_path, "a", holding(b"12345"))
    part = path.rename(path.with_name(".part"))
    unused(part, 9)
    assert prune(tmp_path, 0) == 0
    old = time.time() - IN_USE - 1
    os.utime(part, (old, old))
    unused(part, 9)
    assert prune(tmp_path, 0) == 5
    assert not part.parent.exists()


def test_the_variable_bounds_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unused(cached(tmp_path, "a", holding(b"12345")), 2)
    assert prune(tmp_path) == 0
    monkeypatch.setenv("MERE_SOURCE_CACHE", "4")
    assert prune(tmp_path) == 5
    assert prune(tmp_path / "no such folder") == 0
