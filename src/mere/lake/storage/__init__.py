"""The storage of a lake's files: a disk, or S3."""

from __future__ import annotations

from mere.config import S3Settings, is_s3
from mere.lake.storage.port import LocalStorage, Storage


def storage_at(location: str, s3: S3Settings | None = None) -> Storage:
    """The storage of a lake. Without settings for S3, the environment's hold."""
    if not is_s3(location):
        return LocalStorage()
    from mere.lake.storage.s3 import S3Storage

    return S3Storage(s3 or S3Settings.from_environment())
