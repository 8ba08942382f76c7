"""Metadata files as they are sent: the bytes that are stored, and the answer around them."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping

import orjson

from mere.errors import LakeUnreadable
from mere.lake.storage.port import Storage
from mere.serve.engine.recent import Recent

_KEPT, _LARGEST = 64 << 20, 8 << 20  # bytes
_PACKED = b"\x1f\x8b"


class MetadataFiles:
    """A metadata file never changes, so that it is read, and found to be one, once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: Recent[str, bytes] = Recent(_KEPT)

    def content(self, location: str) -> bytes:
        found = self._kept.get(location)
        if found is None:
            found = self._read(location)
            if len(found) <= _LARGEST:
                self._kept.keep(location, found, len(found))
        return found

    def _read(self, location: str) -> bytes:
        found = self._storage.read(location)
        try:
            content = gzip.decompress(found) if found[:2] == _PACKED else found
            readable = isinstance(orjson.loads(content), dict)
        except (ValueError, OSError, EOFError) as error:
            raise LakeUnreadable(f"{location} is not Iceberg metadata: {error}.") from error
        if not readable:
            raise LakeUnreadable(f"{location} is not Iceberg metadata: it holds no JSON object.")
        return content


def settings(storage: Storage) -> dict[str, str]:
    """How the files are reached, without keys: a client has its own."""
    s3 = storage.s3
    if s3 is None:
        return {}
    found = {"client.region": s3.region, "s3.region": s3.region}
    if s3.endpoint is not None:
        found["s3.endpoint"] = s3.endpoint
    return found | {"s3.path-style-access": str(s3.uses_path_style).lower()}


def loaded(location: str | None, metadata: bytes, config: Mapping[str, str] | None = None) -> bytes:
    """The answer to whoever loads, creates or changes a table or view. What is only staged has no location yet."""
    place = b'"metadata-location":' + orjson.dumps(location) + b"," if location is not None else b""
    settings = b',"config":' + orjson.dumps(dict(config)) if config is not None else b""
    return b"".join((b"{", place, b'"metadata":', metadata, settings, b"}"))


def etag(location: str, *variants: str) -> str:
    """A metadata file never changes: its name stands for its content."""
    return f'"{hashlib.sha256(chr(10).join((location, *variants)).encode()).hexdigest()[:32]}"'
