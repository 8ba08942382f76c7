"""A file as a local one that Spark can read: whole, of the version that was listed, fetched once."""

from __future__ import annotations

import bz2
import gzip
import os
import secrets
import threading
import traceback
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pyarrow as pa
import pytest

from mere.errors import SourceError
from mere.lake.storage.s3 import S3Storage
from mere.sources import fetch as fetching
from mere.sources.cache import prune
from mere.sources.fetch import Fetched, checksum_of, fetched, unchanged
from mere.sources.listing import listed
from mere.sources.source import Files, Format, Portion
from tests.services.proxy import Proxy
from tests.services.s3 import SECRET_KEY, S3Server
from tests.sources.fileserver import FileServer, Served, Trouble, running
from tests.sources.test_listing import AWKWARD

BODY = b"".join(b"%d,some text\n" % number for number in range(20_000))


@pytest.fixture
def server() -> Iterator[FileServer]:
    with running() as server:
        server.files["/x.csv"] = Served(BODY)
        yield server


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def bucket(s3_bucket: str) -> str:
    return f"{s3_bucket}/{secrets.token_hex(6)}"


class Waits(list[float]):
    """What would have been waited."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def one(files: Files, folder: Path) -> Portion:
    (portion,) = listed(files, folder)
    return portion


def fetch(
    files: Files, folder: Path, cache: Path, portion: Portion | None = None, wait: Waits | None = None
) -> Fetched:
    return fetched(
        files, portion or one(files, folder), folder, cache, lambda *_: None, Waits() if wait is None else wait
    )


def said(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def at(server: FileServer, query: str = "") -> Files:
    return Files(f"{server.url}/x.csv{query}", Format.CSV)


# from this machine


def test_a_local_file_is_read_where_it_is(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "x.csv").write_bytes(BODY)
    found = fetch(Files("x.csv", Format.CSV), tmp_path, cache)
    assert found == Fetched(tmp_path / "x.csv", checksum_of(tmp_path / "x.csv"))
    assert not cache.exists()


def test_a_checksum_is_that_of_the_content(tmp_path: Path) -> None:
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).write_bytes(content)
    first, second, third = (checksum_of(tmp_path / name) for name in "abc")
    assert first == second != third
    assert len(first) == 32


def test_a_local_file_that_changed_or_went_is_not_loaded(tmp_path: Path, cache: Path) -> None:
    path, files = tmp_path / "x.csv", Files("x.csv", Format.CSV)
    path.write_bytes(b"1")
    portion = one(files, tmp_path)
    assert unchanged(portion, tmp_path)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert not unchanged(portion, tmp_path)
    with pytest.raises(SourceError, match=r"x\.csv has changed since it was listed") as raised:
        fetch(files, tmp_path, cache, portion)
    assert "None of it was loaded" in str(raised.value.remedy)
    path.unlink()
    assert not unchanged(portion, tmp_path)
    with pytest.raises(SourceError, match=r"x\.csv is gone since it was listed"):
        fetch(files, tmp_path, cache, portion)


@pytest.mark.parametrize("name", AWKWARD)
def test_a_local_file_is_read_whatever_its_name(tmp_path: Path, cache: Path, name: str) -> None:
    (tmp_path / name).write_bytes(BODY)
    assert fetch(Files("{x}.csv", Format.CSV), tmp_path, cache).path == tmp_path / name


def test_a_name_that_spark_passes_over_is_read_by_another(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "_x.csv").write_bytes(BODY)
    found = fetch(Files("_x.csv", Format.CSV), tmp_path, cache)
    assert found.path.read_bytes() == BODY
    assert not found.path.name.startswith(("_", "."))


def test_a_link_shows_the_file_as_it_is_now(tmp_path: Path, cache: Path) -> None:
    files = Files("_x.csv", Format.CSV)
    (tmp_path / "_x.csv").write_bytes(b"1")
    fetch(files, tmp_path, cache)
    (tmp_path / "_x.csv").write_bytes(b"23")
    assert fetch(files, tmp_path, cache).path.read_bytes() == b"23"


# packed files


@pytest.mark.parametrize("name", ["x.csv.zst", "x.csv"])
def test_zstd_is_unpacked(tmp_path: Path, cache: Path, name: str) -> None:
    content = pa.compress(BODY, codec="zstd", asbytes=True)
    (tmp_path / name).write_bytes(content + content)  # as `cat a.zst b.zst` makes it
    found = fetch(Files(name, Format.CSV), tmp_path, cache)
    assert found.path.read_bytes() == BODY + BODY
    assert (found.path.name, found.checksum) == ("x.csv", checksum_of(tmp_path / name))
    assert found.path.stat().st_mode & 0o077 == 0
    before = found.path.stat().st_ino
    assert fetch(Files(name, Format.CSV), tmp_path, cache).path.stat().st_ino == before
    (tmp_path / name).write_bytes(pa.compress(b"other", codec="zstd", asbytes=True))
    assert fetch(Files(name, Format.CSV), tmp_path, cache).path.read_bytes() == b"other"


def test_zstd_that_would_fill_the_disk_is_not_unpacked(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_ANY", 1_000_000)
    (tmp_path / "x.csv.zst").write_bytes(pa.compress(b"0" * 50_000_000, codec="zstd", asbytes=True))
    with pytest.raises(SourceError, match="more than 500 times its size"):
        fetch(Files("x.csv.zst", Format.CSV), tmp_path, cache)
    assert sum(each.stat().st_size for each in cache.rglob("*") if each.is_file()) < 2_000_000
    monkeypatch.undo()
    assert fetch(Files("x.csv.zst", Format.CSV), tmp_path, cache).path.stat().st_size == 50_000_000


def test_zstd_that_is_cut_off_or_none_at_all_is_an_error(tmp_path: Path, cache: Path) -> None:
    whole = pa.compress(secrets.token_bytes(100_000), codec="zstd", asbytes=True)
    for content, words in (
        (whole[:50_000], "cannot be unpacked: it is cut off or damaged"),
        (whole[:4], "cannot be unpacked"),
        (whole[:4] + b"damaged" * 100, "cannot be unpacked"),
        (b"plain text", "is not packed with zstd, although its name says so"),
    ):
        (tmp_path / "x.csv.zst").write_bytes(content)
        with pytest.raises(SourceError, match=rf"x\.csv\.zst {words}"):
            fetch(Files("x.csv.zst", Format.CSV), tmp_path, cache)
    (tmp_path / "x.csv.zst").write_bytes(b"")
    assert fetch(Files("x.csv.zst", Format.CSV), tmp_path, cache).path.name == "x.csv"


@pytest.mark.parametrize("name", ["x.csv.gz", "x.csv"])
def test_gzip_has_a_name_by_which_spark_unpacks_it(server: FileServer, tmp_path: Path, cache: Path, name: str) -> None:
    content = gzip.compress(BODY)
    (tmp_path / name).write_bytes(content)
    server.files[f"/{name}"] = Served(content)
    for location in (name, f"{server.url}/{name}"):
        path = fetch(Files(location, Format.CSV), tmp_path, cache).path
        assert path.name == "x.csv.gz"
        assert path.read_bytes() == content
    (tmp_path / "x.csv.bz2").write_bytes(bz2.compress(BODY))
    assert fetch(Files("x.csv.bz2", Format.CSV), tmp_path, cache).path == tmp_path / "x.csv.bz2"


def test_zstd_from_the_web_is_fetched_once_and_unpacked(server: FileServer, tmp_path: Path, cache: Path) -> None:
    server.files["/x.csv"] = Served(pa.compress(BODY, codec="zstd", asbytes=True))
    portion = one(at(server), tmp_path)
    for _ in range(2):
        found = fetch(at(server), tmp_path, cache, portion)
        assert (found.path.name, found.path.read_bytes()) == ("x.csv", BODY)
    assert server.count("GET") == 1
    assert [path.name for path in found.path.parent.iterdir() if path.stat().st_size] == ["x.csv"]


# from the web


def test_a_file_is_fetched_once(server: FileServer, tmp_path: Path, cache: Path) -> None:
    portion, told = one(at(server), tmp_path), list[tuple[int, int | None]]()
    first = fetched(at(server), portion, tmp_path, cache, lambda done, total: told.append((done, total)))
    assert first.path.read_bytes() == BODY
    assert (first.path.name, first.checksum) == ("x.csv", None)
    assert told[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert fetch(at(server), tmp_path, cache, portion) == first
    assert server.count("GET") == 1


def test_what_was_fetched_is_its_owners_alone(server: FileServer, tmp_path: Path, cache: Path) -> None:
    before = os.umask(0)
    try:
        path = fetch(at(server), tmp_path, cache).path
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert cache.stat().st_mode & 0o777 == 0o700


def test_another_version_another_query_is_another_file(server: FileServer, tmp_path: Path, cache: Path) -> None:
    assert fetch(at(server, "?a=1"), tmp_path, cache).path.read_bytes() == BODY
    server.files["/x.csv"] = Served(b"other", etag='"v2"')
    assert fetch(at(server, "?a=1"), tmp_path, cache).path.read_bytes() == b"other"
    server.files["/x.csv"] = Served(b"third", etag='"v2"')
    assert fetch(at(server, "?a=2"), tmp_path, cache).path.read_bytes() == b"third"


def test_a_connection_that_is_cut_is_resumed(server: FileServer, tmp_path: Path, cache: Path) -> None:
    server.troubles.extend([Trouble(cut=100_000), Trouble(cut=50_000), Trouble(503)])
    assert fetch(at(server), tmp_path, cache).path.read_bytes() == BODY
    gets = [each.headers for each in server.asked if each.method == "GET"]
    assert [each.get("Range") for each in gets] == [None, "bytes=100000-", "bytes=150000-", "bytes=150000-"]
    assert all(each["If-Range"] == '"v1"' for each in gets[1:])


def test_what_a_killed_process_has_fetched_is_not_fetched_again(
    server: FileServer, tmp_path: Path, cache: Path
) -> None:
    server.troubles.extend([Trouble(cut=100_000), *[Trouble(503)] * 4])
    portion = one(at(server), tmp_path)
    with pytest.raises(SourceError, match="503"):
        fetch(at(server), tmp_path, cache, portion)
    server.asked.clear()
    assert fetch(at(server), tmp_path, cache, portion).path.read_bytes() == BODY
    assert [each.headers["Range"] for each in server.asked] == ["bytes=100000-"]


def test_a_file_that_changes_while_it_is_fetched_is_not_loaded(server: FileServer, tmp_path: Path, cache: Path) -> None:
    portion = one(at(server), tmp_path)
    server.troubles.append(Trouble(cut=100_000))

    def replaced(_: float) -> None:
        server.files["/x.csv"] = Served(BODY.upper(), etag='"v2"')

    with pytest.raises(SourceError, match=r"x\.csv has changed since it was listed"):
        fetched(at(server), portion, tmp_path, cache, lambda *_: None, replaced)
    assert not list(cache.glob("*/[!.]*"))
    assert fetch(at(server), tmp_path, cache).path.read_bytes() == BODY.upper()


@pytest.mark.parametrize("etag", ['"v2"', None])
def test_a_file_that_changed_since_it_was_listed_is_not_loaded(
    server: FileServer, tmp_path: Path, cache: Path, etag: str | None
) -> None:
    server.files["/x.csv"] = Served(BODY, None if etag is None else '"v1"')
    portion = one(at(server), tmp_path)
    server.files["/x.csv"] = Served(BODY, etag, datetime(2024, 5, 7, tzinfo=UTC))
    with pytest.raises(SourceError, match="has changed since it was listed"):
        fetch(at(server), tmp_path, cache, portion)


@pytest.mark.parametrize("etag", [None, 'W/"v1"', "unquoted"])
def test_without_a_strong_etag_it_starts_anew(
    server: FileServer, tmp_path: Path, cache: Path, etag: str | None
) -> None:
    server.files["/x.csv"] = Served(BODY, etag)
    server.troubles.append(Trouble(cut=100_000))
    found = fetch(at(server), tmp_path, cache)
    assert found.path.read_bytes() == BODY
    assert (found.checksum is None) == (etag == 'W/"v1"')
    assert not any("Range" in each.headers for each in server.asked)


def test_a_server_without_ranges_starts_anew(server: FileServer, tmp_path: Path, cache: Path) -> None:
    server.ranges = False
    server.troubles.append(Trouble(cut=100_000))
    assert fetch(at(server), tmp_path, cache).path.read_bytes() == BODY


@pytest.mark.parametrize("lengths", [True, False])
def test_a_body_that_is_always_cut_at_one_place_is_an_error(
    server: FileServer, tmp_path: Path, cache: Path, lengths: bool
) -> None:
    portion = one(at(server), tmp_path)
    server.ranges, server.lengths = False, lengths
    server.troubles.extend([Trouble(cut=100_000)] * 20)
    waits = Waits()
    with pytest.raises(SourceError, match=r"x\.csv cannot be fetched: it (broke off after|hung up)"):
        fetch(at(server), tmp_path, cache, portion, waits)
    assert waits == [1, 2, 4, 8]
    assert server.count("GET") == 5


def test_a_body_in_chunks_is_checked_against_the_size_that_was_listed(
    server: FileServer, tmp_path: Path, cache: Path
) -> None:
    portion = replace(one(at(server), tmp_path), size=len(BODY) + 1)
    server.lengths = False
    with pytest.raises(SourceError, match=f"broke off after {len(BODY)} of {len(BODY) + 1} bytes"):
        fetch(at(server), tmp_path, cache, portion)


def test_a_part_longer_than_the_file_is_dropped(server: FileServer, tmp_path: Path, cache: Path) -> None:
    server.lengths = False
    portion = one(at(server), tmp_path)
    path = fetch(at(server), tmp_path, cache, portion).path
    path.rename(path.with_name(".part"))  # as if killed before its name was given
    assert fetch(at(server), tmp_path, cache, portion).path.read_bytes() == BODY


def test_a_part_that_is_whole_is_asked_for_no_more(server: FileServer, tmp_path: Path, cache: Path) -> None:
    portion = one(at(server), tmp_path)
    path = fetch(at(server), tmp_path, cache, portion).path
    path.rename(path.with_name(".part"))
    assert fetch(at(server), tmp_path, cache, portion).path.read_bytes() == BODY
    assert server.count("GET") == 1


def test_a_server_says_how_long_to_wait(server: FileServer, tmp_path: Path, cache: Path) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    server.troubles.extend([Trouble(429, {"Retry-After": "7"}), Trouble(503, {"Retry-After": later}), Trouble(502)])
    waits = Waits()
    assert fetch(at(server), tmp_path, cache, wait=waits).path.read_bytes() == BODY
    assert waits[0] == 7
    assert 80 < waits[1] <= 100
    assert waits[2] == 4


def test_a_server_that_wants_to_be_left_alone_for_long_is_left_alone(
    server: FileServer, tmp_path: Path, cache: Path
) -> None:
    server.troubles.append(Trouble(429, {"Retry-After": "3600"}))
    waits = Waits()
    with pytest.raises(SourceError, match="429 Too Many Requests and asks not to be called again for 3,600 s"):
        fetch(at(server), tmp_path, cache, wait=waits)
    assert waits == []


def test_a_refusal_is_not_asked_again(server: FileServer, tmp_path: Path, cache: Path) -> None:
    server.troubles.extend([Trouble(403)])
    with pytest.raises(SourceError, match=r"x\.csv cannot be fetched: it answers 403 Forbidden"):
        fetch(at(server), tmp_path, cache)
    assert server.count("GET") == 1


def test_a_file_that_went_since_it_was_listed_is_an_error(server: FileServer, tmp_path: Path, cache: Path) -> None:
    portion = one(at(server), tmp_path)
    server.files.clear()
    with pytest.raises(SourceError, match=r"x\.csv is gone since it was listed"):
        fetch(at(server), tmp_path, cache, portion)
    assert unchanged(portion, tmp_path)  # a copy that had been made would be what it was


def test_no_error_has_a_secret(server: FileServer, tmp_path: Path, cache: Path) -> None:
    files = Files(f"http://me:hush@127.0.0.1:{server.port}/x.csv?token=hush", Format.CSV)
    portion = one(files, tmp_path)
    assert "hush" not in repr(portion)
    for trouble in (
        [Trouble(403)],
        [Trouble(cut=10)] * 20,
        [Trouble(503)] * 20,
        [Trouble(302, {"Location": "x:hush"})],
    ):
        server.troubles.clear()
        server.troubles.extend(trouble)
        server.ranges = False
        with pytest.raises(SourceError) as raised:
            fetch(files, tmp_path, cache, portion)
        assert "hush" not in said(raised.value)


def test_a_file_in_use_by_two_is_fetched_once(server: FileServer, tmp_path: Path, cache: Path) -> None:
    portion, found = one(at(server), tmp_path), list[Path]()
    threads = [
        threading.Thread(target=lambda: found.append(fetch(at(server), tmp_path, cache, portion).path))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert server.count("GET") == 1


def test_a_copy_that_cannot_be_kept_is_an_error(server: FileServer, tmp_path: Path, cache: Path) -> None:
    cache.write_text("in the way")
    with pytest.raises(SourceError, match=r"A copy of .*x\.csv cannot be kept in") as raised:
        fetch(at(server), tmp_path, cache)
    assert "MERE_HOME" in str(raised.value.remedy)


# from S3


@pytest.mark.parametrize("name", AWKWARD)
def test_an_object_is_fetched_whatever_its_name(
    s3_server: S3Server, bucket: str, tmp_path: Path, cache: Path, name: str
) -> None:
    S3Storage(s3_server.settings).write_new(f"{bucket}/{name}", name.encode())
    found = fetch(Files(f"{bucket}/*", Format.CSV, s3=s3_server.settings), tmp_path, cache)
    assert found.path.read_bytes() == name.encode()
    assert found.path.suffix == ".csv"
    assert found.checksum is None
    assert found.path.stat().st_mode & 0o777 == 0o600


def test_an_object_is_fetched_in_parts_once_and_resumed(
    s3_server: S3Server, bucket: str, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_PART", 100_000)
    S3Storage(s3_server.settings).write_new(f"{bucket}/x.csv", BODY)
    proxy, asked = Proxy(s3_server.port), list[bytes]()

    def seen(piece: bytes) -> None:
        asked.extend(line for line in piece.split(b"\r\n") if line.lower().startswith(b"range:"))

    proxy.cut = seen
    settings = replace(s3_server.settings, endpoint=f"http://127.0.0.1:{proxy.port}")
    files = Files(f"{bucket}/x.csv", Format.CSV, s3=settings)
    portion, told = one(files, tmp_path), list[int]()
    path = fetched(files, portion, tmp_path, cache, lambda done, _: told.append(done)).path
    assert path.read_bytes() == BODY
    assert told == [100_000, 200_000, 300_000, len(BODY), len(BODY)]
    assert len(asked) == 4
    fetch(files, tmp_path, cache, portion)
    assert len(asked) == 4
    path.write_bytes(BODY[:150_000])
    path.rename(path.with_name(".part"))  # as a killed process leaves it
    assert fetch(files, tmp_path, cache, portion).path.read_bytes() == BODY
    assert [line.split(b" ")[1] for line in asked[4:]] == [b"bytes=150000-249999", b"bytes=250000-%d" % (len(BODY) - 1)]
    proxy.close()


def test_an_object_that_changed_or_went_is_not_loaded(
    s3_server: S3Server, bucket: str, tmp_path: Path, cache: Path
) -> None:
    storage, files = S3Storage(s3_server.settings), Files(f"{bucket}/x.csv", Format.CSV, s3=s3_server.settings)
    storage.write_new(f"{bucket}/x.csv", b"first")
    portion = one(files, tmp_path)
    storage.delete(f"{bucket}/x.csv")
    storage.write_new(f"{bucket}/x.csv", b"other")
    with pytest.raises(SourceError, match=r"x\.csv has changed since it was listed"):
        fetch(files, tmp_path, cache, portion)
    storage.delete(f"{bucket}/x.csv")
    with pytest.raises(SourceError, match=r"x\.csv is gone since it was listed"):
        fetch(files, tmp_path, cache, portion)
    assert not list(cache.glob("*/[!.]*"))


def test_an_object_that_is_refused_is_an_error_without_secrets(
    s3_server: S3Server, bucket: str, tmp_path: Path, cache: Path
) -> None:
    S3Storage(s3_server.settings).write_new(f"{bucket}/x.csv", b"1")
    files = Files(f"{bucket}/x.csv", Format.CSV, s3=s3_server.settings)
    portion = one(files, tmp_path)
    wrong = replace(files, s3=replace(s3_server.settings, secret_key=f"{SECRET_KEY}-wrong"))
    with pytest.raises(SourceError, match="refuses it") as raised:
        fetch(wrong, tmp_path, cache, portion)
    assert SECRET_KEY not in said(raised.value)


def test_an_empty_object_is_an_empty_file(s3_server: S3Server, bucket: str, tmp_path: Path, cache: Path) -> None:
    S3Storage(s3_server.settings).write_new(f"{bucket}/x.csv", b"")
    found = fetch(Files(f"{bucket}/x.csv", Format.CSV, s3=s3_server.settings), tmp_path, cache)
    assert found.path.read_bytes() == b""


def test_what_was_pruned_is_fetched_again(server: FileServer, tmp_path: Path, cache: Path) -> None:
    portion = one(at(server), tmp_path)
    path = fetch(at(server), tmp_path, cache, portion).path
    os.utime(path.parent, (0, 0))
    assert prune(cache, 0) == len(BODY)
    assert fetch(at(server), tmp_path, cache, portion).path.read_bytes() == BODY
    assert server.count("GET") == 2
