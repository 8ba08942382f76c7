"""Metadata files as they are sent: the stored bytes, and the response around them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import orjson

from mere.lake.iceberg.metadata import Metadata, parsed, unpacked
from mere.lake.storage.port import Storage
from mere.serve.engine.recent import Recent

_KEPT, _LARGEST = 64 << 20, 8 << 20  # bytes
_FOLDERS = 10_000


class MetadataFiles:
    """A metadata file never changes, so that it is read, and found to be one, once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: Recent[str, bytes] = Recent(_KEPT)
        self._folders: Recent[str, str] = Recent(_FOLDERS)

    def content(self, location: str) -> bytes:
        found = self._kept.get(location)
        if found is None:
            found = self._read(location)
            self._keep(location, found)
        return found

    def write(self, metadata: Metadata) -> None:
        """A new file. Whoever has changed a table is sent what it has become, and mostly goes on from there."""
        content = metadata.to_bytes()
        self._storage.write_new(metadata.location, content)
        self._keep(metadata.location, unpacked(metadata.location, content))

    def _keep(self, location: str, content: bytes) -> None:
        if len(content) <= _LARGEST:
            self._kept.keep(location, content, len(content))

    def folder(self, location: str) -> str | None:
        """Of the table whose metadata is there."""
        found = self._folders.get(location) or Metadata(location, orjson.loads(self.content(location))).folder
        if found is not None:
            self._folders.keep(location, found)
        return found

    def _read(self, location: str) -> bytes:
        content = unpacked(location, self._storage.read(location))
        parsed(location, content)
        return content


def loaded(location: str | None, metadata: bytes, config: Mapping[str, str] | None = None) -> bytes:
    """The answer to whoever loads, creates or changes a table or view. What is only staged has no location yet."""
    place = b'"metadata-location":' + orjson.dumps(location) + b"," if location is not None else b""
    settings = b',"config":' + orjson.dumps(dict(config)) if config is not None else b""
    return b"".join((b"{", place, b'"metadata":', metadata, settings, b"}"))


def etag(location: str, *variants: str) -> str:
    """A metadata file never changes: its name stands for its content."""
    return f'"{hashlib.sha256(chr(10).join((location, *variants)).encode()).hexdigest()[:32]}"'
