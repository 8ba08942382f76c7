"""The rows that two states of a table do not share, found by DuckDB. Equal rows are counted together.

A row that stands twice in the new state and once in the old is one row more. NULL equals NULL, NaN equals NaN, and 0.0
equals -0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mere.errors import MereError
from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.touched import touched
from mere.lake.query import scans
from mere.lake.query.duckdb import Limits, opened
from mere.lake.query.types import no_rows
from mere.lake.storage import room
from mere.lake.storage.port import Storage

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

T = TypeVar("T")


def net_rows(sides: Sequence[str], width: int, kept: Sequence[str] = ()) -> str:
    """The query for them, with how often each came (more than 0) or went as `net`.

    `sides`: a SELECT for the old state and one for the new, of the columns c0, c1 … by which rows are compared, so many
    as `width`, and of others that are `kept`: their value in one of the rows.
    """
    compared = [f"c{at}" for at in range(width)]
    shown = ", ".join([*compared, *(f"first({name}) AS {name}" for name in kept)])
    both = " UNION ALL ".join(f"SELECT *, {net} AS net FROM ({side})" for side, net in zip(sides, (-1, 1), strict=True))
    grouped = ", ".join(compared)
    return f"SELECT {shown}, sum(net)::BIGINT AS net FROM ({both}) GROUP BY {grouped} HAVING sum(net) <> 0"


def in_touched(
    table: str,
    states: tuple[Metadata, Metadata],
    storage: Storage,
    limit: int,
    ask: Callable[[DuckDBPyConnection, Sequence[str]], T],
    limits: Limits | None = None,
) -> T | None:
    """What is asked of the files that differ between two states, the old one's and the new one's as FROM items.

    None: more bytes than the limit would have to be read, or they cannot be.
    """
    import duckdb

    with room.scratch("mere-changed-") as folder:
        try:
            parts = touched(table, *states, storage, Path(folder))
            if isinstance(parts, str) or sum(part.size for part in parts) > limit:
                return None
            with opened(storage, limits) as connection:
                found = [
                    scans.item(connection, table, part.location, part.kinds, storage) for part in parts if part.location
                ]
                # A side without files has the columns of the other.
                nothing = f"(FROM {found[0]} LIMIT 0)" if found else f"({no_rows(states[1].schema)})"
                items = iter(found)
                return ask(connection, [next(items) if part.location else nothing for part in parts])
        except (MereError, duckdb.Error):
            return None
