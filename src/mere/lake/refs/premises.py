"""A lake as its own rooms see it: what they need of the facade above them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mere.lake.iceberg.metadata import MetadataReader
from mere.lake.log.commits import Commit
from mere.lake.refs.resolve import Resolved
from mere.lake.storage.port import Storage
from mere.lake.store.port import Store


class Premises(Protocol):
    location: str
    store: Store
    storage: Storage
    reader: MetadataReader

    @property
    def warehouse(self) -> str: ...
    def resolve(self, ref: str) -> Resolved: ...
    def log(self, ref: str, table: str | None = None) -> Iterable[Commit]: ...
