"""Which files a source has, on this machine, on S3 and on the web."""

from __future__ import annotations

import os
import secrets
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import pytest

from mere.config import S3Settings
from mere.errors import SourceError
from mere.lake.storage import s3
from mere.lake.storage.s3 import S3Storage
from mere.sources.listing import listed
from mere.sources.source import Files, Format, Portion
from mere.windows import Grain, Span
from tests.services.postgres import free_port
from tests.services.proxy import Proxy
from tests.services.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from tests.sources.fileserver import MODIFIED, FileServer, Served, Trouble, running

AWKWARD = ["a b.csv", "100%.csv", "50%25.csv", "é'\"ü.csv", "a+b=c&d;e,f~.csv", "x[1]{2}.csv", "日本.csv", "a:b@c!.csv"]


@pytest.fixture
def server() -> Iterator[FileServer]:
    with running() as server:
        yield server


@pytest.fixture
def bucket(s3_bucket: str) -> str:
    return f"{s3_bucket}/{secrets.token_hex(6)}"


def files(location: str, settings: S3Settings | None = None, start: datetime | None = None) -> Files:
    return Files(location, Format.CSV, s3=settings, start=start)


def names(portions: list[Portion]) -> list[str]:
    return [portion.name for portion in portions]


def put(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


def month(year: int, number: int) -> Span:
    start = datetime(year, number, 1, tzinfo=UTC)
    return Span(start, Grain.MONTH.next(start))


# on this machine


def test_a_file_is_listed_with_all_that_the_pattern_and_the_disk_say(tmp_path: Path) -> None:
    put(tmp_path, "data/nyse/t_2024-02.csv")
    os.utime(tmp_path / "data/nyse/t_2024-02.csv", ns=(0, 1_700_000_000_123_456_789))
    assert listed(files("data/{exchange}/t_{year}-{month}.csv"), tmp_path) == [
        Portion(
            "nyse/t_2024-02.csv",
            "data/nyse/t_2024-02.csv",
            "23-1700000000123456789",
            23,
            datetime.fromtimestamp(1_700_000_000.123456789, UTC),
            {"exchange": "nyse", "year": "2024", "month": "02"},
            month(2024, 2),
        )
    ]


def test_files_come_by_time_then_by_name(tmp_path: Path) -> None:
    put(tmp_path, "b_2024-10.csv", "a_2024-10.csv", "c_2024-9.csv", "z_2023-12.csv")
    expected = ["z_2023-12.csv", "c_2024-9.csv", "a_2024-10.csv", "b_2024-10.csv"]
    assert names(listed(files("{x}_{year}-{month}.csv"), tmp_path)) == expected
    assert names(listed(files("*.csv"), tmp_path)) == sorted(expected)


def test_a_folder_that_moved_has_the_same_names_and_versions(tmp_path: Path) -> None:
    put(tmp_path, "here/in/x.csv")
    before = listed(files("here/in/*.csv"), tmp_path)
    (tmp_path / "here").rename(tmp_path / "there")
    for location in ("there/in/*.csv", f"{tmp_path}/there/in/*.csv", f"file://{tmp_path}/there/in/*.csv"):
        after = listed(files(location), tmp_path)
        assert [(each.name, each.version) for each in after] == [(each.name, each.version) for each in before]
        assert (tmp_path / after[0].location).is_file()


def test_hidden_names_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path, "x.csv", "_x.csv", ".x.csv", "_temporary/x.csv", ".git/x.csv", "in/_SUCCESS.csv", "in/x.csv")
    assert names(listed(files("**/*.csv"), tmp_path)) == ["in/x.csv", "x.csv"]


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names_survive(tmp_path: Path, name: str) -> None:
    put(tmp_path, f"data/{name}/{name}")
    (found,) = listed(files("data/{folder}/{file}.csv"), tmp_path)
    assert (found.name, dict(found.values)) == (f"{name}/{name}", {"folder": name, "file": name.removesuffix(".csv")})
    assert (tmp_path / found.location).read_text() == f"data/{name}/{name}"


def test_a_path_below_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path, "data/x.csv", "y.csv")
    (found,) = listed(files("~/data/*.csv"), Path("/elsewhere"))
    assert (found.name, found.location) == ("x.csv", f"{tmp_path}/data/x.csv")
    assert names(listed(files("~/y.csv"), Path("/elsewhere"))) == ["y.csv"]


def test_one_file_is_looked_up_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "data/x.csv", "data/y.csv")
    monkeypatch.setattr(os, "scandir", None)
    assert names(listed(files("data/x.csv"), tmp_path)) == ["x.csv"]
    assert listed(files("data/z.csv"), tmp_path) == []


def test_nothing_that_matches_is_an_empty_list(tmp_path: Path) -> None:
    put(tmp_path, "data/x.csv")
    (tmp_path / "data/folder.parquet").mkdir()
    os.mkfifo(tmp_path / "data/pipe.parquet")
    assert listed(files("data/*.parquet"), tmp_path) == []


@pytest.mark.parametrize("location", ["data/x.csv", "data/*.csv"])
def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path, location: str) -> None:
    with pytest.raises(SourceError, match=f"There is no folder {tmp_path}/data") as raised:
        listed(files(location), tmp_path)
    assert raised.value.remedy
    put(tmp_path, "data")
    with pytest.raises(SourceError, match=f"{tmp_path}/data is not a folder"):
        listed(files(location), tmp_path)


def test_a_folder_where_a_file_is_named_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(SourceError, match="is not a file") as raised:
        listed(files("data"), tmp_path)
    assert "data/*" in str(raised.value.remedy)


def test_a_pattern_that_makes_no_sense_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"`files` cannot be read: \{month\} needs \{year\}"):
        listed(files("data/{month}.csv"), tmp_path)


def test_links_are_followed_and_never_in_circles(tmp_path: Path) -> None:
    put(tmp_path, "else/in/x.csv", "data/y.csv")
    (tmp_path / "data/link").symlink_to(tmp_path / "else", target_is_directory=True)
    (tmp_path / "data/circle").symlink_to(tmp_path / "data", target_is_directory=True)
    (tmp_path / "else/in/back").symlink_to(tmp_path / "data", target_is_directory=True)
    (tmp_path / "data/z.csv").symlink_to(tmp_path / "else/in/x.csv")
    assert names(listed(files("data/**/*.csv"), tmp_path)) == ["link/in/x.csv", "y.csv", "z.csv"]
    assert names(listed(files("data/{a}/{b}/x.csv"), tmp_path)) == ["link/in/x.csv"]


def test_a_link_that_leads_nowhere_is_an_error_where_it_matters(tmp_path: Path) -> None:
    put(tmp_path, "data/x.csv")
    (tmp_path / "data/y.csv").symlink_to(tmp_path / "gone")
    assert names(listed(files("data/x*.csv"), tmp_path)) == ["x.csv"]
    with pytest.raises(SourceError, match=r"y\.csv is a link that leads nowhere"):
        listed(files("data/*.csv"), tmp_path)


@contextmanager
def nobody() -> Iterator[Path]:
    """A folder for tests of what may not be read, which root always may."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        put(Path(folder), "data/open/x.csv", "data/closed/x.csv")
        (Path(folder) / "data/closed").chmod(0o000)
        root = os.geteuid() == 0
        try:
            if root:
                os.seteuid(65534)
            yield Path(folder)
        finally:
            if root:
                os.seteuid(0)
            (Path(folder) / "data/closed").chmod(0o755)


def test_a_folder_that_may_not_be_read_is_an_error() -> None:
    with nobody() as folder:
        for location in ("data/**/*.csv", "data/{x}/x.csv", "data/closed/*.csv", "data/closed/x.csv"):
            with pytest.raises(SourceError, match=r"data/closed.* cannot be read: Permission denied") as raised:
                listed(files(location), folder)
            assert raised.value.remedy
        assert names(listed(files("data/open/*.csv"), folder)) == ["x.csv"]
        assert names(listed(files("data/o*/*.csv"), folder)) == ["open/x.csv"]


def test_a_name_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.csv")).write_text("x")
    with pytest.raises(SourceError, match=r"The name of \\udcff\.csv is not UTF-8"):
        listed(files("*.csv"), tmp_path)


def test_ten_thousand_files_are_listed_in_one_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, *(f"data/0/{number}.csv" for number in range(100)))
    for folder in range(1, 100):
        (tmp_path / f"data/{folder}").symlink_to("0")  # much faster to make, and all the same to a walk
    real, walked = os.scandir, Counter[str]()

    def scandir(path: str) -> Iterator[os.DirEntry[str]]:
        walked[str(path)] += 1
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(Path, "open", None)  # no file is opened
    assert len(listed(files("data/{folder}/*.csv"), tmp_path)) == 10_000
    assert len(walked) == 101
    assert set(walked.values()) == {1}


# on S3


def test_a_bucket_is_listed(s3_server: S3Server, bucket: str, tmp_path: Path) -> None:
    storage = S3Storage(s3_server.settings)
    for name in ("t_2024-02.csv", "t_2024-01.csv", "other.txt", "_t_2024-03.csv"):
        storage.write_new(f"{bucket}/in/{name}", b"12345")
    storage.write_new(f"{bucket}/in2/t_2024-04.csv", b"1")
    found = listed(files(f"{bucket}/in/t_{{year}}-{{month}}.csv", s3_server.settings), tmp_path)
    assert names(found) == ["t_2024-01.csv", "t_2024-02.csv"]
    first = found[0]
    assert (first.location, first.size, first.span) == (f"{bucket}/in/t_2024-01.csv", 5, month(2024, 1))
    stored = storage.find(first.location)
    assert stored is not None
    assert (first.version, first.modified) == (stored.etag, stored.modified_at)
    assert first.version.endswith('"')
    assert found[0].version == found[1].version  # the same content


@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_names_survive_s3(s3_server: S3Server, bucket: str, tmp_path: Path, name: str) -> None:
    S3Storage(s3_server.settings).write_new(f"{bucket}/{name}/{name}", b"1")
    (found,) = listed(files(f"{bucket}/{{folder}}/{{file}}.csv", s3_server.settings), tmp_path)
    assert (found.name, found.values["folder"]) == (f"{name}/{name}", name)
    assert found.location == f"{bucket}/{name}/{name}"


def test_an_object_alone_is_looked_up(s3_server: S3Server, bucket: str, tmp_path: Path) -> None:
    S3Storage(s3_server.settings).write_new(f"{bucket}/x.csv", b"1")
    assert names(listed(files(f"{bucket}/x.csv", s3_server.settings), tmp_path)) == ["x.csv"]
    assert listed(files(f"{bucket}/y.csv", s3_server.settings), tmp_path) == []
    assert listed(files(f"{bucket}/no/*.csv", s3_server.settings), tmp_path) == []


def test_what_stands_for_a_folder_is_not_a_file(s3_server: S3Server, bucket: str, tmp_path: Path) -> None:
    from pyarrow.fs import S3FileSystem

    keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY, "region": "us-east-1"}
    S3FileSystem(endpoint_override=s3_server.endpoint, **keys).create_dir(f"{bucket.removeprefix('s3://')}/in/a.csv")
    S3Storage(s3_server.settings).write_new(f"{bucket}/in/empty.csv", b"")
    assert names(listed(files(f"{bucket}/in/*", s3_server.settings), tmp_path)) == ["empty.csv"]
    assert names(listed(files(f"{bucket}/**", s3_server.settings), tmp_path)) == ["in/empty.csv"]


def test_a_bucket_of_many_pages_is_listed_once(s3_server: S3Server, tmp_path: Path) -> None:
    bucket = s3_server.new_bucket(f"many-{secrets.token_hex(4)}")
    data = s3_server.folder / "data" / bucket.removeprefix("s3://") / "in"
    data.mkdir(parents=True)
    for number in range(1100):
        (data / f"{number}.csv").write_text("1")
    proxy = Proxy(s3_server.port)
    asked: list[bytes] = []

    def count(piece: bytes) -> None:
        if piece.startswith((b"GET", b"HEAD")):
            asked.append(piece.split(b" ")[1])

    proxy.cut = count
    settings = replace(s3_server.settings, endpoint=f"http://127.0.0.1:{proxy.port}")
    assert len(listed(files(f"{bucket}/in/*.csv", settings), tmp_path)) == 1100
    proxy.close()
    assert len(asked) == 2
    assert all(b"list-type=2" in each for each in asked)


def test_without_keys_it_is_said_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"s3://b cannot be read.*AWS_ACCESS_KEY_ID") as raised:
        listed(files("s3://b/*.csv"), tmp_path)
    assert "public bucket" in str(raised.value.remedy)


def test_the_environment_has_the_keys(
    s3_server: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = s3_server.settings
    S3Storage(settings).write_new(f"{bucket}/x.csv", b"1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", settings.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", settings.secret_key)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    assert names(listed(files(f"{bucket}/*.csv"), tmp_path)) == ["x.csv"]


@pytest.mark.parametrize("name", ["x.csv", "*.csv"])
def test_a_bucket_that_is_not_there_or_refuses_is_an_error(
    s3_server: S3Server, bucket: str, tmp_path: Path, name: str
) -> None:
    with pytest.raises(SourceError, match="There is no bucket no-such-bucket") as raised:
        listed(files(f"s3://no-such-bucket/{name}", s3_server.settings), tmp_path)
    assert "`s3` of the source" in str(raised.value.remedy)
    wrong = replace(s3_server.settings, secret_key=f"{SECRET_KEY}-wrong")
    with pytest.raises(SourceError, match="refuses it") as raised:
        listed(files(f"{bucket}/{name}", wrong), tmp_path)
    assert SECRET_KEY not in str(raised.value)


def test_an_s3_server_that_does_not_answer_is_an_error(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_RETRY", {"max_retries": 0, "retry_timeout": timedelta(seconds=1)})
    nowhere = replace(s3_server.settings, endpoint=f"http://127.0.0.1:{free_port()}")
    for location in ("s3://bucket/*.csv", "s3://bucket/x.csv"):
        with pytest.raises(SourceError, match=r"does not answer: s3://bucket") as raised:
            listed(files(location, nowhere), tmp_path)
        assert raised.value.remedy
        assert SECRET_KEY not in "".join(traceback.format_exception(raised.value))


# on the web


@pytest.mark.parametrize(
    ("served", "version"),
    [
        (Served(b"12345"), '"v1"'),
        (Served(b"12345", etag=None), "5-20240506T070809"),
        (Served(b"12345", etag=None, modified=None), "5-"),
        (Served(b"", etag=None), "0-20240506T070809"),
    ],
)
@pytest.mark.parametrize("heads", [200, 405, 403])
def test_a_web_address_is_looked_up(
    server: FileServer, tmp_path: Path, served: Served, version: str, heads: int
) -> None:
    server.heads = heads
    server.files["/a/x.csv"] = served
    (found,) = listed(files(f"{server.url}/a/x.csv"), tmp_path)
    expected = Portion("x.csv", f"{server.url}/a/x.csv", version, len(served.content), served.modified)
    assert found == expected
    if heads == 200:
        assert server.count("GET") == 0


def test_a_server_that_says_no_length_is_believed_its_etag_and_time(server: FileServer, tmp_path: Path) -> None:
    server.lengths = server.ranges = False
    server.files["/x.csv"] = Served(b"12345")
    (found,) = listed(files(f"{server.url}/x.csv"), tmp_path)
    assert (found.version, found.size, found.modified) == ('"v1"', 0, MODIFIED)
    server.files["/x.csv"].etag = None
    (found,) = listed(files(f"{server.url}/x.csv"), tmp_path)
    assert (found.version, found.size) == ("-20240506T070809", 0)


def test_a_server_that_says_nothing_has_a_new_version_each_time(server: FileServer, tmp_path: Path) -> None:
    server.lengths = server.ranges = False
    server.files["/x.csv"] = Served(b"12345", etag=None, modified=None)
    first, second = (listed(files(f"{server.url}/x.csv"), tmp_path)[0].version for _ in range(2))
    assert first != second


def test_each_window_since_the_start_is_asked_for(server: FileServer, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    start = datetime(now.year - 1, 1, 1, tzinfo=UTC)
    last = f"t_{now:%Y-%m}.csv"
    for name in (f"t_{now.year - 1}-01.csv", f"t_{now.year - 1}-03.csv", last):
        server.files[f"/{name}"] = Served(b"1")
    found = listed(files(f"{server.url}/t_{{year}}-{{month}}.csv", start=start), tmp_path)
    assert names(found) == [f"t_{now.year - 1}-01.csv", f"t_{now.year - 1}-03.csv", last]
    assert found[1].span == month(now.year - 1, 3)
    assert len(server.asked) == 12 + now.month


def test_a_pattern_on_the_web_needs_a_start(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="the first window is not known") as raised:
        listed(files(f"{server.url}/t_{{year}}.csv"), tmp_path)
    assert "start:" in str(raised.value.remedy)
    with pytest.raises(SourceError, match="more than 10,000 files"):
        listed(files(f"{server.url}/{{date}}T{{hour}}.csv", start=datetime(1990, 1, 1, tzinfo=UTC)), tmp_path)
    assert server.asked == []


def test_what_is_not_there_is_an_empty_list(server: FileServer, tmp_path: Path) -> None:
    assert listed(files(f"{server.url}/x.csv"), tmp_path) == []
    server.missing = 410
    assert listed(files(f"{server.url}/x.csv"), tmp_path) == []


def test_forbidden_means_missing_where_other_windows_are_given_out(server: FileServer, tmp_path: Path) -> None:
    server.missing = 403
    start = datetime(datetime.now(UTC).year - 2, 1, 1, tzinfo=UTC)
    location = files(f"{server.url}/{{year}}.csv?token=secret", start=start)
    with pytest.raises(SourceError, match="cannot be looked up: it answers 403 Forbidden") as raised:
        listed(location, tmp_path)
    assert "secret" not in str(raised.value)
    server.files[f"/{start.year}.csv"] = Served(b"1")
    assert names(listed(location, tmp_path)) == [f"{start.year}.csv"]


@pytest.mark.parametrize("name", [*AWKWARD, "a#b?c.csv"])
def test_awkward_names_survive_the_web(server: FileServer, tmp_path: Path, name: str) -> None:
    server.files[f"/in/{name}"] = Served(name.encode())
    (found,) = listed(files(f"{server.url}/in/{quote(name, safe='')}"), tmp_path)
    assert found.size == len(name.encode())
    assert found.name == quote(name, safe="")


@pytest.mark.parametrize("name", ["a b.csv", "100% sure.csv", "é'\"ü.csv", "日本.csv"])
def test_what_cannot_stand_in_an_address_is_escaped(server: FileServer, tmp_path: Path, name: str) -> None:
    server.files[f"/in/{name}"] = Served(b"1")
    (found,) = listed(files(f"{server.url}/in/{name}"), tmp_path)
    assert (found.name, found.location) == (name, f"{server.url}/in/{name}")
    assert server.asked[0].path == f"/in/{quote(name, safe=chr(39))}"


def test_query_and_password_are_sent_and_never_shown(server: FileServer, tmp_path: Path) -> None:
    server.files["/x.csv"] = Served(b"1")
    server.user = "Basic bWU6cGEgc3M="
    location = f"http://me:pa%20ss@127.0.0.1:{server.port}/x.csv?token=a secret%20key"
    (found,) = listed(files(location), tmp_path)
    assert server.asked[0].path == "/x.csv?token=a%20secret%20key"
    assert (found.name, found.location) == ("x.csv", f"{server.url}/x.csv")
    with pytest.raises(SourceError, match="401 Unauthorized") as raised:
        listed(files(location.replace("pa%20ss", "wrongpass")), tmp_path)
    assert "secret" not in str(raised.value)
    assert "wrongpass" not in str(raised.value)


def test_redirects_are_followed_and_a_password_stays_at_home(server: FileServer, tmp_path: Path) -> None:
    with running() as other:
        other.files["/there.csv"] = Served(b"123", etag='"there"')
        server.files["/here.csv"] = Served(b"12", etag='"here"')
        server.moved = {"/x.csv": f"{other.url}/there.csv?signature=1", "/y.csv": "/here.csv"}
        location = f"http://me:pass@127.0.0.1:{server.port}"
        (away,) = listed(files(f"{location}/x.csv"), tmp_path)
        (near,) = listed(files(f"{location}/y.csv"), tmp_path)
    assert (away.version, away.location) == ('"there"', f"{server.url}/x.csv")
    assert near.version == '"here"'
    assert [each.method for each in (*server.asked, *other.asked)] == ["HEAD"] * 4
    assert all("Authorization" in each.headers for each in server.asked)
    assert "Authorization" not in other.asked[0].headers


@pytest.mark.parametrize(
    ("target", "words"), [("file:///etc/passwd", "it answers 302 Found"), ("ftp://127.0.0.1/x", "not a web address")]
)
def test_a_redirect_out_of_the_web_is_refused(server: FileServer, tmp_path: Path, target: str, words: str) -> None:
    server.moved["/x.csv"] = target
    with pytest.raises(SourceError, match=rf"x\.csv cannot be looked up: .*{words}"):
        listed(files(f"{server.url}/x.csv"), tmp_path)


def test_a_server_that_is_busy_is_asked_again(server: FileServer, tmp_path: Path) -> None:
    server.heads = 405
    server.files["/x.csv"] = Served(b"1")
    server.troubles.extend([Trouble(503), Trouble(429, {"Retry-After": "7"})])
    waited: list[float] = []
    assert names(listed(files(f"{server.url}/x.csv"), tmp_path, waited.append)) == ["x.csv"]
    assert waited == [1.0, 7.0]


def test_a_server_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    with running() as server:
        pass
    waited: list[float] = []
    with pytest.raises(SourceError, match=r"x\.csv cannot be looked up: nobody listens there") as raised:
        listed(files(f"{server.url}/x.csv?secret"), tmp_path, waited.append)
    assert len(waited) == 4
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_host_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"x\.csv cannot be looked up: the name of its host is not known"):
        listed(files("http://no-such-host.invalid/x.csv"), tmp_path, lambda _: None)
