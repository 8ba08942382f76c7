from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pytest

from mere.errors import ConfigError
from mere.generate.files import Dataset, File, State, write
from mere.generate.jaffle import Jaffle
from mere.generate.market import Market
from mere.generate.taxi import Taxi

SMALL: dict[str, Dataset] = {
    "taxi": Taxi(months=2, rows=500),
    "market": Market(days=3, tickers=2),
    "jaffle": Jaffle(customers=20, days=60),
}


@dataclass(frozen=True)
class Texts:
    """A dataset of our own."""

    texts: dict[str, bytes]

    @property
    def count(self) -> int:
        return len(self.texts)

    def files(self) -> Iterator[File]:
        for name, text in self.texts.items():
            yield File(name, partial(_put, text=text))


def _put(stream: BinaryIO, text: bytes) -> int:
    return stream.write(text)


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("name", SMALL)
def test_the_same_seed_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    first, second = list(write(SMALL[name], tmp_path / "a")), list(write(SMALL[name], tmp_path / "b"))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert first == second
    assert len(first) == SMALL[name].count == len(contents(tmp_path / "a"))


def test_another_seed_gives_other_rows(tmp_path: Path) -> None:
    for seed in (1, 2):
        list(write(Taxi(months=1, rows=500, seed=seed), tmp_path / f"taxi{seed}"))
        list(write(Market(days=1, tickers=2, seed=seed), tmp_path / f"market{seed}"))
        list(write(Jaffle(customers=20, days=30, seed=seed), tmp_path / f"jaffle{seed}"))
    for name in SMALL:
        one, other = contents(tmp_path / f"{name}1"), contents(tmp_path / f"{name}2")
        same = {file for file in one if one[file] == other[file]}
        assert same == ({"taxi_zone_lookup.csv"} if name == "taxi" else set())


@pytest.mark.parametrize(
    ("fewer", "more"),
    [
        pytest.param(Taxi(months=1, rows=500), Taxi(months=3, rows=500), id="taxi"),
        pytest.param(Market(days=2, tickers=2), Market(days=4, tickers=2), id="market"),
        pytest.param(Jaffle(customers=20, days=60), Jaffle(customers=20, days=120), id="jaffle"),
    ],
)
def test_a_file_does_not_depend_on_those_that_follow(fewer: Dataset, more: Dataset, tmp_path: Path) -> None:
    list(write(fewer, tmp_path / "fewer"))
    list(write(more, tmp_path / "more"))
    first, second = contents(tmp_path / "fewer"), contents(tmp_path / "more")
    periods = {name for name in first if not name.startswith("raw_")}  # those are as of the last day
    assert {name: first[name] for name in periods} == {name: second[name] for name in periods}
    assert len(second) > len(first)


def test_a_file_that_is_there_with_the_same_bytes_is_left_alone(tmp_path: Path) -> None:
    dataset = Texts({"a.csv": b"1\n"})
    assert [file.state for file in write(dataset, tmp_path)] == [State.WRITTEN]
    before = (tmp_path / "a.csv").stat().st_mtime_ns, (tmp_path / "a.csv").stat().st_ino
    assert [file.state for file in write(dataset, tmp_path)] == [State.UNCHANGED]
    assert ((tmp_path / "a.csv").stat().st_mtime_ns, (tmp_path / "a.csv").stat().st_ino) == before


def test_a_file_that_differs_is_only_written_over_by_force(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_bytes(b"mine\n")
    dataset = Texts({"a.csv": b"1\n", "b.csv": b"2\n", "c.csv": b"3\n"})
    with pytest.raises(ConfigError, match=r"b\.csv already exists and differs") as refused:
        list(write(dataset, tmp_path))
    assert "--force" in str(refused.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.csv": b"1\n", "b.csv": b"mine\n"}
    states = [file.state for file in write(dataset, tmp_path, force=True)]
    assert states == [State.UNCHANGED, State.REPLACED, State.WRITTEN]
    assert (tmp_path / "b.csv").read_bytes() == b"2\n"


def test_a_file_that_cannot_be_finished_is_not_there(tmp_path: Path) -> None:
    def full(stream: BinaryIO) -> int:
        stream.write(b"half of it")
        raise OSError(28, "No space left on device")

    class Full(Texts):
        def files(self) -> Iterator[File]:
            yield File("deep/a.csv", full)

    with pytest.raises(ConfigError, match=r"a\.csv cannot be written: No space left on device"):
        list(write(Full({}), tmp_path))
    assert list((tmp_path / "deep").iterdir()) == []


def test_a_folder_in_the_place_of_a_file_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(ConfigError, match=r"a\.csv cannot be written"):
        list(write(Texts({"a.csv": b"1\n"}), tmp_path, force=True))
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
