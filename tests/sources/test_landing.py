"""The landing: each version of a file once, in a place of its own, found again when the file is gone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mere.lake.storage.port import LocalStorage, Storage
from mere.lake.storage.s3 import S3Storage
from mere.names import TableName
from mere.sources.landing import Landing
from mere.sources.source import Files, Format, Loaded, Portion
from mere.windows import Span
from tests.services.s3 import S3Server

TABLE = TableName("bronze", "trips")
MONTH = Span(datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC))


def portion(version: str = "1") -> Portion:
    return Portion("trips_2024-02.csv", "data/trips_2024-02.csv", version, span=MONTH)


def loaded(version: str = "1", checksum: str | None = "c") -> Loaded:
    name, at = "trips_2024-02.csv", datetime(2024, 3, 1, tzinfo=UTC)
    return Loaded(name, f"data/{name}", version, 4, at, checksum, 1, 0, MONTH, None, "load", at, "run")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "trips_2024-02.csv"
    file.write_text("a\n1\n")
    return file


def check(storage: Storage, folder: str, file: Path, cache: Path) -> None:
    landing, files = Landing(storage, folder), Files("data/trips_{year}-{month}.csv", Format.CSV)
    place = landing.keep(TABLE, portion(), file, "c")
    assert place.startswith(f"{folder}/bronze/trips/2024-02-01/")
    assert place.endswith("/trips_2024-02.csv")
    assert landing.keep(TABLE, portion(), file, "c") == place  # once
    file.write_text("a\n2\n")
    assert landing.keep(TABLE, portion("2"), file, "d") != place  # another version never comes in its place
    assert storage.read(place) == b"a\n1\n"

    (found,) = landing.portions(TABLE, files, [loaded(), loaded("3")])
    assert (found.name, found.landed, found.checksum) == ("trips_2024-02.csv", place, "c")
    assert found.values == {"year": "2024", "month": "02"}
    assert landing.fetched(place, cache).read_bytes() == b"a\n1\n"


def test_a_version_is_kept_once_and_found_again(file: Path, tmp_path: Path) -> None:
    check(LocalStorage(), str(tmp_path / "landing"), file, tmp_path / "cache")


def test_on_s3_too(file: Path, tmp_path: Path, s3_server: S3Server, s3_bucket: str) -> None:
    check(S3Storage(s3_server.settings), f"s3://{s3_bucket.removeprefix('s3://')}/landing", file, tmp_path / "cache")


def test_a_name_that_spark_would_pass_over_is_changed(tmp_path: Path) -> None:
    file = tmp_path / "_a b:c%.csv"
    file.write_text("a\n1\n")
    place = Landing(LocalStorage(), str(tmp_path / "landing")).keep(TABLE, portion(), file, None)
    assert place.rpartition("/")[2] == "-a-b-c-.csv"
