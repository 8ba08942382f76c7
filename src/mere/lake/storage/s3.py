"""Files on S3 and compatible servers, and the settings with which engines reach them.

Requests go through obstore, the binding of Rust's object_store: it signs, retries with a growing pause, and writes a
file only if there is none of that name. Every setting is passed to it; what it would find in the environment by itself
could be another account's.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mere.config import S3Settings
from mere.errors import (
    BucketMissing,
    LakeError,
    LakeUnreadable,
    MetadataMissing,
    StorageDenied,
    StorageUnreachable,
)
from mere.lake.storage.port import Storage, StoredFile, canonical

if TYPE_CHECKING:
    from obstore import Bytes, ObjectMeta
    from obstore.store import RetryConfig, S3Credential, S3Store

# A request that is not answered, and all the tries of one request. A person waits for it.
ANSWER = timedelta(seconds=30)
PATIENCE = timedelta(seconds=60)
_RETRY: RetryConfig = {
    "max_retries": 8,
    "retry_timeout": PATIENCE,
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=8), "base": 2},
}
CHECK_KEYS = (
    "Check the keys (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or `s3` in mere.yaml), and that they may read, list,"
    " write and delete in the bucket."
)
RESTORE = (
    "Put the file back from a backup or an older version of the object, or go back to a commit that does not need it:"
    " mere revert --to COMMIT"
)
CHECK_NETWORK = "Check the network and `s3.endpoint` in mere.yaml (or AWS_ENDPOINT_URL); then try again."
_CODE = re.compile(r"<Code>(\w+)</Code>")
# versitygw says 404 to an access key that it does not know.
_UNKNOWN_KEY = ("InvalidAccessKeyId", "XAdminUserNotFound")
_STATUS = re.compile(r"status code: (\d{3})")
# What object_store says of a redirect without a body, as HEAD gets it. A key or a host may have the word in it, too.
_NO_REGION = "indicates an incorrectly configured region"
_TIMED_OUT = re.compile(r"kind: Timeout|TimedOut|operation timed out")
_ARROW = re.compile(r"key '([^']*)' in bucket '([^']*)': AWS Error (\w+)")
_ARROW_CODE = re.compile(r"AWS Error (\w+)")
_ARROW_DENIED = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "UNRECOGNIZED_CLIENT")
_ARROW_GONE = ("NO_SUCH_KEY", "RESOURCE_NOT_FOUND")
_PAGE = 1000
_PART = 8 << 20  # of a file that is fetched, in one request


class _Changed(Exception):
    """There is another file of that name."""


class S3Storage:
    """Locations are s3://bucket/key; s3a: and s3n: name the same file."""

    def __init__(self, settings: S3Settings, *, answer: timedelta = ANSWER, retry: RetryConfig | None = None) -> None:
        self.s3: S3Settings | None = settings
        self._settings = settings
        self._answer = answer
        self._retry = retry or _RETRY
        self._stores: dict[str, S3Store] = {}

    def read(self, location: str) -> bytes:
        return self._fetch(location, lambda store, key: store.get(key).bytes())

    def read_range(self, location: str, start: int, length: int) -> bytes:
        return self._fetch(location, lambda store, key: store.get_range(key, start=start, length=length))

    def _fetch(self, location: str, get: Callable[[S3Store, str], Bytes]) -> bytes:
        bucket, key = split(location)
        with self._explained(location, "read"):
            try:
                return bytes(get(self._store(bucket), key))
            except FileNotFoundError as error:
                if not _is_missing(error):
                    raise
                raise MetadataMissing(
                    f"{location} is gone, though the lake points to it.",
                    remedy=RESTORE,
                ) from None

    def write_new(self, location: str, content: bytes) -> None:
        """A try whose answer was lost may have written the file: then the next one finds it, with the same content."""
        from obstore.exceptions import AlreadyExistsError, BaseError

        bucket, key = split(location)
        store = self._store(bucket)
        with self._explained(location, "written", " No pointer was changed."):
            try:
                try:
                    store.put(key, content, mode="create")
                except BaseError as error:
                    # object_store tries a write no second time when its answer is late, as it may have happened.
                    if not _TIMED_OUT.search(str(error)):
                        raise
                    store.put(key, content, mode="create")
            except AlreadyExistsError:
                if self.read(location) != content:
                    raise LakeUnreadable(
                        f"{location} cannot be written: there is another file of that name. No pointer was changed."
                    ) from None

    def replace(self, location: str, content: bytes) -> None:
        bucket, key = split(location)
        with self._explained(location, "written"):
            self._store(bucket).put(key, content)

    def files(self, folder: str) -> Iterator[StoredFile]:
        bucket, prefix = split(folder)
        with self._explained(folder, "listed"):
            for page in self._store(bucket).list(prefix, chunk_size=_PAGE):
                for each in page:
                    yield _stored(bucket, each)

    def delete(self, *locations: str) -> None:
        by_bucket: dict[str, list[str]] = {}
        for bucket, key in map(split, locations):
            by_bucket.setdefault(bucket, []).append(key)
        for bucket, keys in by_bucket.items():
            with self._explained(f"s3://{bucket}/{keys[0]}", "deleted"):
                self._store(bucket).delete(keys)

    def exists(self, location: str) -> bool:
        return self.find(location) is not None

    def find(self, location: str) -> StoredFile | None:
        bucket, key = split(location)
        with self._explained(location, "looked up"):
            try:
                return _stored(bucket, self._store(bucket).head(key))
            except FileNotFoundError:
                # It came meanwhile, if it can be read.
                return _stored(bucket, self._store(bucket).head(key)) if self._is_readable(bucket, key) else None

    def bring(self, path: Path, location: str) -> None:
        bucket, key = split(location)
        known = self.find(location)
        if known is None or known.size != path.stat().st_size:
            with self._explained(location, "written"):
                self._store(bucket).put(key, path)  # in parts, if it is large; it appears when it is whole

    def fetch(self, location: str, path: Path) -> None:
        found = self.find(location)
        if found is None:
            raise MetadataMissing(f"{location} is gone.", remedy=RESTORE)
        with path.open("wb") as file:
            while (done := file.tell()) < found.size:
                file.write(self.read_range(location, done, min(_PART, found.size - done)))

    def read_version(self, location: str, start: int, length: int, etag: str | None) -> bytes | None:
        """A range of the file with this ETag; None: there is another one in its place."""
        from obstore.exceptions import PreconditionError

        def get(store: S3Store, key: str) -> Bytes:
            try:
                return store.get(key, options={"range": (start, start + length), "if_match": etag}).bytes()
            except PreconditionError:
                raise _Changed from None

        try:
            return self._fetch(location, get)
        except _Changed:
            return None

    def _is_readable(self, bucket: str, key: str) -> bool:
        """An answer to HEAD has no body, so it does not tell a missing file from a missing bucket."""
        try:
            self._store(bucket).get_range(key, start=0, length=1)
        except FileNotFoundError as error:
            if not _is_missing(error):
                raise
            return False
        return True

    def remove_empty_folders(self, folder: str, before: datetime) -> None:
        """There are no folders, only names with slashes."""

    def _store(self, bucket: str) -> S3Store:
        if bucket not in self._stores:
            self._stores[bucket] = _store(self._settings, bucket, self._answer, self._retry)
        return self._stores[bucket]

    @contextmanager
    def _explained(self, location: str, verb: str, untouched: str = "") -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError) as error:
            # Not `from error`: its text has the request with its signature, and the answer word by word.
            raise _explain(str(error), self._settings, location, f"{verb}.{untouched}") from None


def split(location: str) -> tuple[str, str]:
    """The bucket and the key."""
    place = canonical(location)
    if not place.startswith("s3://"):
        raise LakeError(f"{location} is not on S3, where this lake is.")
    bucket, _, key = place.removeprefix("s3://").partition("/")
    return bucket, key


def _stored(bucket: str, found: ObjectMeta) -> StoredFile:
    return StoredFile(f"s3://{bucket}/{found['path']}", found["size"], found["last_modified"], found["e_tag"])


def _store(settings: S3Settings, bucket: str, answer: timedelta, retry: RetryConfig) -> S3Store:
    from obstore.store import S3Store

    def keys() -> S3Credential:
        return {
            "access_key_id": settings.access_key,
            "secret_access_key": settings.secret_key,
            "token": settings.session_token,
            "expires_at": None,
        }

    endpoint = settings.endpoint or f"https://s3.{settings.region}.amazonaws.com"
    if not settings.uses_path_style:
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{bucket}.{host}"
    return S3Store(
        bucket,
        config={
            "endpoint": endpoint,
            # The environment's variable of this name would win over `endpoint`.
            "aws_endpoint_url_s3": endpoint,
            "region": settings.region,
            "virtual_hosted_style_request": not settings.uses_path_style,
            "conditional_put": "etag",
            "skip_signature": False,
        },
        # In place of the keys themselves, to which the environment's session token would be added.
        credential_provider=keys,
        client_options={
            "allow_http": endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=5),
            "timeout": answer,
        },
        retry_config=retry,
    )


def _explain(text: str, settings: S3Settings, location: str, left: str) -> LakeError:
    bucket, server = split(location)[0], settings.endpoint or f"AWS ({settings.region})"
    code, status = _first(_CODE, text), _first(_STATUS, text)
    what = f"{location} cannot be {left}"
    if code == "NoSuchBucket":
        return BucketMissing(
            f"There is no bucket {bucket} at {server}: {what}",
            remedy="Create the bucket, or correct `lake` or `s3.endpoint` in mere.yaml.",
        )
    if "Redirect" in code or (code == "AuthorizationHeaderMalformed" and "<Region>" in text) or _NO_REGION in text:
        return StorageUnreachable(
            f"The bucket {bucket} is in another region than {settings.region}: {what}",
            remedy="Name it: `s3.region` in mere.yaml, or AWS_REGION.",
        )
    if code in ("ExpiredToken", "InvalidToken", "TokenRefreshRequired"):
        return StorageDenied(
            f"{server} says that the session token is no longer valid ({code}): {what}",
            remedy='Get new keys: eval "$(aws configure export-credentials --format env)"',
        )
    if status in ("401", "403") or code in _UNKNOWN_KEY:
        return StorageDenied(f"{server} refuses it ({code or status}): {what}", remedy=CHECK_KEYS)
    if status:
        return StorageUnreachable(
            f"{server} failed at every attempt, the last time with {code or status}: {what}",
            remedy="Try again later; nothing has to be undone.",
        )
    how = "answers too slowly" if _TIMED_OUT.search(text) else "does not answer"
    return StorageUnreachable(f"{server} {how}: {what}", remedy=CHECK_NETWORK)


def of_arrow(text: str) -> LakeError | None:
    """What PyArrow says of a request that S3 refused or never answered; None if it says something else."""
    found = _ARROW.search(text)
    if not found:
        return None
    key, bucket, code = found.groups()
    what = f"s3://{bucket}/{key} cannot be read."
    if code in _ARROW_DENIED:
        return StorageDenied(f"S3 refuses it ({code}): {what}", remedy=CHECK_KEYS)
    if code in _ARROW_GONE:
        return MetadataMissing(f"{what} It is gone.", remedy=RESTORE)
    return StorageUnreachable(f"S3 does not answer ({code}): {what}", remedy=CHECK_NETWORK)


def _is_missing(error: FileNotFoundError) -> bool:
    """Whether it is the file, and not the bucket or the owner of the keys, that is not there."""
    return _first(_CODE, str(error)) in ("", "NoSuchKey")


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def make_bucket(location: str, settings: S3Settings) -> bool:
    """The bucket in which a lake is to be; False: it is there already."""
    bucket, _ = split(location)
    try:
        next(iter(S3Storage(settings).files(f"s3://{bucket}")), None)
    except BucketMissing:
        _make_bucket(bucket, settings)
        return True
    return False


def _make_bucket(bucket: str, settings: S3Settings) -> None:
    """By PyArrow: obstore knows files only."""
    from pyarrow.fs import S3FileSystem

    server = settings.endpoint or f"AWS ({settings.region})"
    what = f"The bucket {bucket} cannot be made at {server}"
    try:
        S3FileSystem(
            access_key=settings.access_key,
            secret_key=settings.secret_key,
            session_token=settings.session_token,
            region=settings.region,
            endpoint_override=settings.endpoint,
            force_virtual_addressing=not settings.uses_path_style,
            connect_timeout=5,
            request_timeout=ANSWER.total_seconds(),
            allow_bucket_creation=True,
        ).create_dir(bucket)
    except OSError as error:
        # Not `from error`: its text may have the request in it.
        code = _first(_ARROW_CODE, str(error))
        if code in _ARROW_DENIED:
            remedy = "Use keys that may create buckets (s3:CreateBucket), or let somebody who has them create it."
            raise StorageDenied(f"{what}: S3 refuses it ({code}).", remedy=remedy) from None
        if code.startswith("BUCKET_ALREADY"):
            raise LakeError(
                f"{what}: somebody else has a bucket of that name.", remedy="Choose another name."
            ) from None
        raise StorageUnreachable(f"{what}: {code or 'the server does not answer'}.", remedy=CHECK_NETWORK) from None


def require_conditional_writes(storage: Storage, folder: str) -> None:
    """Write, fail to write over it, and delete: all that a lake needs of a bucket, tried before there is a lake."""
    location = f"{folder}/.mere-{secrets.token_hex(8)}"
    storage.write_new(location, b"1")
    try:
        storage.write_new(location, b"2")
    except LakeUnreadable:
        return
    finally:
        storage.delete(location)
    raise LakeError(
        f"The S3 server of {folder} overwrites existing files despite If-None-Match. No lake was made.",
        remedy="Use a server that supports conditional writes, as AWS does since 2024.",
    )


# What engines are told


SPARK_KEYS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")


def spark_properties(settings: S3Settings) -> dict[str, str]:
    """Of an Iceberg catalog."""
    return _given(
        {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "client.region": settings.region,
            "s3.endpoint": settings.endpoint,
            "s3.path-style-access": str(settings.uses_path_style).lower(),
            "s3.access-key-id": settings.access_key,
            "s3.secret-access-key": settings.secret_key,
            "s3.session-token": settings.session_token,
        }
    )


def hadoop_options(settings: S3Settings) -> dict[str, str]:
    """Of a read of Spark's. Hadoop would keep a client for all that have the bucket, whatever their keys."""
    kind = "Simple" if settings.session_token is None else "Temporary"
    return _given(
        {
            "fs.s3a.endpoint": settings.endpoint,
            "fs.s3a.endpoint.region": settings.region,
            "fs.s3a.path.style.access": str(settings.uses_path_style).lower(),
            "fs.s3a.aws.credentials.provider": f"org.apache.hadoop.fs.s3a.{kind}AWSCredentialsProvider",
            "fs.s3a.access.key": settings.access_key,
            "fs.s3a.secret.key": settings.secret_key,
            "fs.s3a.session.token": settings.session_token,
            "fs.s3a.impl.disable.cache": "true",
        }
    )


def pyiceberg_properties(settings: S3Settings) -> dict[str, str]:
    return _given(
        {
            "s3.region": settings.region,
            "s3.endpoint": settings.endpoint,
            "s3.force-virtual-addressing": str(not settings.uses_path_style).lower(),
            "s3.access-key-id": settings.access_key,
            "s3.secret-access-key": settings.secret_key,
            "s3.session-token": settings.session_token,
        }
    )


def duckdb_secret(settings: S3Settings) -> dict[str, str]:
    """The options of CREATE SECRET. For all buckets, as with the other engines: an adopted table may have files in
    another one than the lake."""
    server = urlsplit(settings.endpoint or "")
    return _given(
        {
            "key_id": settings.access_key,
            "secret": settings.secret_key,
            "session_token": settings.session_token,
            "region": settings.region,
            "endpoint": server.netloc or None,
            "use_ssl": "false" if server.scheme == "http" else "true",
            "url_style": "path" if settings.uses_path_style else "vhost",
        }
    )


def _given(properties: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if value is not None}
