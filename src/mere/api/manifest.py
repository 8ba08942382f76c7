"""A project and its state at a ref, as one document for other tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Manifest:
    """`document` has the form of docs/schemas/manifest-1.json."""

    document: Mapping[str, Any] = field(repr=False)

    @property
    def ref(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.document["ref"]
        return found

    @property
    def nodes(self) -> tuple[Mapping[str, Any], ...]:
        """Models, sources and seeds."""
        return (*self.document["models"], *self.document["sources"], *self.document["seeds"])

    @property
    def edges(self) -> tuple[Mapping[str, str], ...]:
        """Which table is read by which model."""
        return tuple(self.document["edges"])

    def __getitem__(self, key: str) -> Any:
        return self.document[key]

    def to_dict(self) -> dict[str, Any]:
        """What `mere manifest --json` prints."""
        return dict(self.document)
