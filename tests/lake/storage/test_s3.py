"""Files on S3: what the storage promises, what is said when S3 refuses or fails, and that no half is published."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import psycopg
import pytest

from mere.config import S3Settings
from mere.errors import (
    ConfigError,
    LakeError,
    LakeNotFound,
    LakeUnreadable,
    MereError,
    MetadataMissing,
    StorageDenied,
    StorageUnreachable,
    UsageError,
)
from mere.lake.lake import Lake
from mere.lake.query import scans
from mere.lake.storage.s3 import S3Storage, spark_properties
from tests.lake.foreign import ForeignOnPostgres
from tests.lake.places import S3, Place, place
from tests.services.proxy import Proxy
from tests.services.s3 import SECRET_KEY, S3Server

pytestmark = pytest.mark.service

UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/xml\r\nContent-Length: 37\r\n"
    b"Connection: close\r\n\r\n<Error><Code>SlowDown</Code> </Error>"
)
WRITTEN = b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'


@pytest.fixture
def folder(s3_bucket: str) -> str:
    return f"{s3_bucket}/{secrets.token_hex(6)}"


@pytest.fixture
def storage(s3_server: S3Server) -> S3Storage:
    return S3Storage(s3_server.settings)


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[Proxy]:
    proxy = Proxy(s3_server.port)
    yield proxy
    proxy.close()


def through(proxy: Proxy, settings: S3Settings) -> S3Settings:
    return replace(settings, endpoint=f"http://127.0.0.1:{proxy.port}")


def hasty(settings: S3Settings) -> S3Storage:
    """Gives up after a second instead of a minute."""
    backoff = {"init_backoff": timedelta(milliseconds=10), "max_backoff": timedelta(milliseconds=50), "base": 2}
    retry = {"max_retries": 4, "retry_timeout": timedelta(seconds=1), "backoff": backoff}
    return S3Storage(settings, answer=timedelta(seconds=0.4), retry=retry)  # type: ignore[arg-type]


# what the storage promises


@pytest.mark.parametrize("name", ["x.json", "a b+c=d/ü'(1).json", "name=a%3Ab%2Fc/x.parquet"])
def test_what_was_written_is_found_read_listed_and_deleted(storage: S3Storage, folder: str, name: str) -> None:
    location = f"{folder}/{name}"
    assert not storage.exists(location)
    storage.write_new(location, b"content")
    assert storage.exists(location)
    assert storage.read(location) == b"content"
    (found,) = storage.files(folder)
    assert (found.location, found.size) == (location, 7)
    assert abs(found.modified_at - datetime.now(UTC)) < timedelta(minutes=1)
    storage.delete(location)
    storage.delete(location)
    assert list(storage.files(folder)) == []


def test_hadoops_names_of_the_scheme_mean_the_same_file(storage: S3Storage, folder: str) -> None:
    storage.write_new(f"{folder}/x", b"1")
    for scheme in ("s3a", "s3n"):
        assert storage.read(f"{folder}/x".replace("s3:", f"{scheme}:")) == b"1"
    with pytest.raises(LakeError, match="not on S3"):
        storage.read("/tmp/x")


def test_a_folder_is_not_the_one_whose_name_goes_on(storage: S3Storage, folder: str) -> None:
    storage.write_new(f"{folder}/a/x", b"1")
    storage.write_new(f"{folder}/ab/x", b"1")
    assert [file.location for file in storage.files(f"{folder}/a")] == [f"{folder}/a/x"]


def test_a_file_is_never_written_over(storage: S3Storage, folder: str) -> None:
    storage.write_new(f"{folder}/x", b"1")
    with pytest.raises(LakeUnreadable, match=r"there is another file of that name\. No pointer was changed"):
        storage.write_new(f"{folder}/x", b"2")
    assert storage.read(f"{folder}/x") == b"1"


def test_of_many_who_write_one_name_one_wins(storage: S3Storage, folder: str) -> None:
    def write(number: int) -> bool:
        try:
            storage.write_new(f"{folder}/{number % 5}", str(number).encode())
        except LakeUnreadable:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(write, range(40))) == 5


def test_more_files_than_one_answer_holds_are_listed_and_deleted(storage: S3Storage, folder: str) -> None:
    names = {f"{folder}/{number:04d}" for number in range(1010)}
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: storage.write_new(name, b""), names))
    assert {file.location for file in storage.files(folder)} == names
    storage.delete(*names)
    assert list(storage.files(folder)) == []


def test_a_file_that_is_gone_is_named(storage: S3Storage, folder: str) -> None:
    with pytest.raises(MetadataMissing, match=f"{folder}/x is gone"):
        storage.read(f"{folder}/x")


# what goes wrong


OPERATIONS: dict[str, Callable[[S3Storage, str], object]] = {
    "read": lambda storage, at: storage.read(at),
    "write": lambda storage, at: storage.write_new(at, b"1"),
    "list": lambda storage, at: list(storage.files(at)),
    "delete": lambda storage, at: storage.delete(at),
    "exists": lambda storage, at: storage.exists(at),
}


def failure(operation: str, storage: S3Storage, at: str) -> MereError:
    with pytest.raises(MereError) as caught:
        OPERATIONS[operation](storage, at)
    assert at in caught.value.message
    assert caught.value.remedy
    # Neither the request nor the answer, which has the signature in it, is shown.
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET_KEY not in shown
    assert "<Error>" not in shown
    return caught.value


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("wrong", ["access_key", "secret_key"])
def test_wrong_keys_are_refused(s3_server: S3Server, folder: str, operation: str, wrong: str) -> None:
    settings = (
        replace(s3_server.settings, access_key="nobody")
        if wrong == "access_key"
        else replace(s3_server.settings, secret_key="not-the-secret")
    )
    error = failure(operation, S3Storage(settings), f"{folder}/x")
    assert isinstance(error, StorageDenied)
    assert "AWS_ACCESS_KEY_ID" in str(error.remedy)
    assert "not-the-secret" not in str(error)


@pytest.mark.parametrize("operation", ["read", "write", "list", "exists"])
def test_a_bucket_that_is_not_there_is_named(storage: S3Storage, operation: str) -> None:
    error = failure(operation, storage, "s3://no-such-bucket/lake/x")
    assert isinstance(error, LakeNotFound)
    assert "There is no bucket no-such-bucket at http://127.0.0.1" in error.message


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_server_that_is_not_there_is_named(s3_server: S3Server, folder: str, operation: str) -> None:
    nowhere = replace(s3_server.settings, endpoint="http://127.0.0.1:1")
    error = failure(operation, hasty(nowhere), f"{folder}/x")
    assert isinstance(error, StorageUnreachable)
    assert "http://127.0.0.1:1 does not answer" in error.message


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_server_that_fails_for_a_while_is_asked_again(
    s3_server: S3Server, storage: S3Storage, proxy: Proxy, folder: str, operation: str
) -> None:
    if operation != "write":
        storage.write_new(f"{folder}/x", b"1")
    proxy.cut = lambda _: UNAVAILABLE if proxy.cuts < 3 else None
    OPERATIONS[operation](S3Storage(through(proxy, s3_server.settings)), f"{folder}/x")
    assert proxy.cuts == 3
    assert storage.exists(f"{folder}/x") is (operation != "delete")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_server_that_only_fails_is_given_up(s3_server: S3Server, proxy: Proxy, folder: str, operation: str) -> None:
    proxy.cut = lambda _: UNAVAILABLE
    error = failure(operation, hasty(through(proxy, s3_server.settings)), f"{folder}/x")
    assert isinstance(error, StorageUnreachable)
    assert "failed at every attempt, the last time with" in error.message
    assert proxy.cuts > 2


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_server_that_is_too_slow_is_given_up(s3_server: S3Server, proxy: Proxy, folder: str, operation: str) -> None:
    proxy.cut = lambda _: "never"
    error = failure(operation, hasty(through(proxy, s3_server.settings)), f"{folder}/x")
    assert isinstance(error, StorageUnreachable)
    assert "answers too slowly" in error.message


@pytest.mark.parametrize("lost", ["after", "before"])
def test_a_write_whose_answer_was_lost_is_found_to_have_happened(
    s3_server: S3Server, storage: S3Storage, proxy: Proxy, folder: str, lost: str
) -> None:
    proxy.cut = lambda sent: lost if sent.startswith(b"PUT") and proxy.cuts == 0 else None
    S3Storage(through(proxy, s3_server.settings)).write_new(f"{folder}/x", b"1")
    assert proxy.cuts == 1
    assert storage.read(f"{folder}/x") == b"1"


def test_a_write_whose_answer_is_late_is_tried_again(
    s3_server: S3Server, storage: S3Storage, proxy: Proxy, folder: str
) -> None:
    proxy.cut = lambda sent: "never" if sent.startswith(b"PUT") and proxy.cuts == 0 else None
    hasty(through(proxy, s3_server.settings)).write_new(f"{folder}/x", b"1")
    assert proxy.cuts == 1
    assert storage.read(f"{folder}/x") == b"1"


# where the settings come from


def test_the_settings_hold_against_the_environment(
    s3_server: S3Server, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """obstore would take what it finds there, and mix the keys of one account with the token of another."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "another")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    hasty(s3_server.settings).write_new(f"{folder}/x", b"1")


def test_the_settings_print_without_the_keys() -> None:
    settings = S3Settings("key-1", "secret-1", "token-1", "http://host")
    assert "host" in repr(settings)
    for hidden in ("key-1", "secret-1", "token-1"):
        assert hidden not in repr(settings)


@pytest.mark.parametrize(
    ("endpoint", "path_style", "expected"),
    [(None, None, "false"), ("http://h", None, "true"), ("http://h", False, "false"), (None, True, "true")],
)
def test_buckets_stand_in_the_path_where_there_is_an_endpoint(
    endpoint: str | None, path_style: bool | None, expected: str
) -> None:
    settings = S3Settings("k", "s", endpoint=endpoint, path_style=path_style)
    assert spark_properties(settings)["s3.path-style-access"] == expected


# the lake


@pytest.fixture
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(S3, tmp_path, request)


def test_no_lake_is_made_where_s3_cannot_be_written(at: Place) -> None:
    assert at.s3 is not None
    assert at.catalog is not None
    for wrong, expected in (
        (replace(at, s3=replace(at.s3, secret_key="wrong")), StorageDenied),
        (replace(at, path="s3://no-such-bucket/lake"), LakeNotFound),
    ):
        with pytest.raises(expected):
            wrong.create()
        with psycopg.connect(at.catalog) as connection:
            assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)
    at.create().close()


def answer(status: str, body: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\nConnection: close"
    return f"{head}\r\n\r\n{body}".encode()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        ("400 Bad Request", "<Error><Code>InvalidRequest</Code></Error>", "the last time with InvalidRequest"),
        (
            "400 Bad Request",
            "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-1</Region></Error>",
            "in another region than us-east-1",
        ),
        ("301 Moved", "<Error><Code>PermanentRedirect</Code></Error>", "in another region than us-east-1"),
    ],
)
def test_another_region_is_told_by_the_answer_and_not_by_the_name_of_a_file(
    status: str, body: str, said: str, s3_server: S3Server, folder: str, proxy: Proxy
) -> None:
    proxy.cut = lambda _: answer(status, body)
    with pytest.raises(StorageUnreachable, match=said):
        hasty(through(proxy, s3_server.settings)).read(f"{folder}/region=eu/x.parquet")


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"secret_key": "wrong"}, StorageDenied),
        ({"access_key": "wrong"}, StorageDenied),
        ({"endpoint": "http://127.0.0.1:1"}, StorageUnreachable),
    ],
)
def test_what_pyiceberg_cannot_reach_is_told_like_all_else(
    wrong: dict[str, str], expected: type[MereError], storage: S3Storage, folder: str
) -> None:
    assert storage.s3 is not None
    location = f"{folder}/metadata/x.metadata.json"
    storage.write_new(location, b"{}")
    with closing(duckdb.connect()) as connection, pytest.raises(expected) as caught:
        scans.item(connection, "a.t", location, {"PUFFIN"}, S3Storage(replace(storage.s3, **wrong)))  # type: ignore[arg-type]
    assert caught.value.message.startswith("a.t cannot be read: S3 ")
    assert f"{location} cannot be read" in caught.value.message
    assert "Check the" in str(caught.value.remedy)


def test_no_lake_is_made_on_a_server_that_writes_over_files(at: Place, proxy: Proxy) -> None:
    assert at.s3 is not None
    proxy.cut = lambda sent: WRITTEN if sent.startswith(b"PUT") else None
    with pytest.raises(LakeError, match="overwrites existing files"):
        replace(at, s3=through(proxy, at.s3)).create()


def test_a_lake_on_s3_needs_a_catalog_and_keys(at: Place) -> None:
    with pytest.raises(UsageError, match="Postgres"):
        Lake.create(at.path, s3=at.s3)
    with pytest.raises(UsageError, match="Postgres"):
        Lake.open(at.path, s3=at.s3)
    with pytest.raises(ConfigError, match="no keys for S3") as caught:
        Lake.open(at.path, catalog=at.catalog)
    assert "aws configure export-credentials" in str(caught.value.remedy)


@pytest.mark.parametrize("wrong", ["s3://", "s3://B", "s3://bucket//x", "s3://bucket/../x", "s3://bucket/a%20b"])
def test_a_place_must_be_one(at: Place, wrong: str) -> None:
    with pytest.raises(UsageError):
        replace(at, path=wrong).create()


def test_one_lake_has_one_place_however_it_is_written(at: Place) -> None:
    at.create().close()
    with replace(at, path=at.path.replace("s3://", "s3a://") + "/").open() as lake:
        assert lake.location == at.path
        with pytest.raises(LakeError, match="not on this machine"):
            assert lake.root.exists()


def test_a_publish_that_cannot_write_publishes_nothing(at: Place, proxy: Proxy) -> None:
    """Two tables lack the guards' properties, so publish writes metadata files; the second one fails."""
    assert at.s3 is not None
    assert at.catalog is not None
    with at.create() as lake:
        engine = ForeignOnPostgres(lake, at.catalog)
        engine.append("main", "a.t", 1)
        lake.branch("dev")
        for table in ("a.t", "a.u"):
            engine.append("dev", table, 2, **{"gc.enabled": "true"})
        before = lake.at().entries, lake.at("dev").entries, len(list(lake.log()))
        with closing(replace(at, s3=through(proxy, at.s3)).open()) as distant:
            distant.storage = distant.reader.storage = hasty(through(proxy, at.s3))
            written: list[bytes] = []

            def second(sent: bytes) -> bytes | None:
                if sent.startswith(b"PUT"):
                    written.append(sent)
                return UNAVAILABLE if len(written) > 1 else None

            proxy.cut = second
            with pytest.raises(StorageUnreachable, match="No pointer was changed"):
                distant.publish("dev")
            assert len(written) > 1
            assert (lake.at().entries, lake.at("dev").entries, len(list(lake.log()))) == before
            proxy.cut = lambda _: None
            assert distant.publish("dev").commit is not None
        assert [str(table) for table in lake.at()] == ["a.t", "a.u"]
        assert all(lake.at().metadata(table).properties["gc.enabled"] == "false" for table in lake.at())
