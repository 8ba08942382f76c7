"""Snapshots whose rows replace others that a model which appends its input has taken already."""

from __future__ import annotations

from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.properties import REPLACES


def only_added(metadata: Metadata, since: int | None) -> list[tuple[int, int]] | None:
    """The stretches after a snapshot, each from one to another, in which rows came that stand in place of no others.
    None: the table has come another way."""
    way = metadata.since(since) if since is not None else None
    if way is None:
        return None
    found: list[tuple[int, int]] = []
    for snapshot in reversed(way):
        if snapshot.operation != "append" or REPLACES in snapshot.summary or snapshot.parent is None:
            continue
        start = found.pop()[0] if found and found[-1][1] == snapshot.parent else snapshot.parent
        found.append((start, snapshot.id))
    return found
