"""Records the tables of main in a file next to the warehouse, in case the catalog is lost.

Only the catalog knows which branch a metadata file belongs to. The file is rewritten when a lake is closed through
which refs have moved; anything written later may belong to any branch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mere.errors import LakeError
from mere.lake.log.commits import Space
from mere.lake.storage.port import Storage
from mere.names import MAIN

if TYPE_CHECKING:
    from mere.lake.store.port import Store

NAME = "main.json"
_ATTEMPTS = 5


@dataclass(frozen=True)
class MainFile:
    commit: str
    at: datetime  # before this, nothing was on main that is not here
    tables: Mapping[tuple[str, ...], str]  # and views, by namespaces and name: where their metadata is


def remember(storage: Storage, location: str, store: Store) -> None:
    """As good as can be: a commit is a commit without it, and what is older is only less certain."""
    with suppress(LakeError):
        for _ in range(_ATTEMPTS):
            at = min(store.now(), datetime.now(UTC))  # engines write their machine's time into metadata
            head = store.heads([MAIN])[MAIN]
            tables = [
                (*key.namespace.split("."), key.name, entry.value)
                for key, entry in sorted(head.entries.items())
                if key.space is Space.RELATION
            ]
            content = {"commit": head.commit.id, "at": at.isoformat(timespec="milliseconds"), "tables": tables}
            storage.replace(f"{location}/{NAME}", json.dumps(content, indent=1).encode())
            if store.heads([MAIN])[MAIN].commit == head.commit:  # or who was later may have written before
                return


def recall(storage: Storage, location: str) -> MainFile | None:
    """None if there is none, or none that can be read."""
    with suppress(LakeError, ValueError, LookupError, TypeError, AttributeError):
        raw = json.loads(storage.read(f"{location}/{NAME}"))
        return MainFile(
            str(raw["commit"]),
            datetime.fromisoformat(raw["at"]),
            {tuple(each[:-1]): each[-1] for each in raw["tables"]},
        )
    return None
