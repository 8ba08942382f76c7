"""The rows that differ between two snapshots of one table, found by DuckDB and given as Arrow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mere.errors import MereError
from mere.lake.diff.alignment import pairs
from mere.lake.diff.contents import at_snapshot
from mere.lake.iceberg.metadata import Metadata
from mere.lake.iceberg.touched import Part, touched
from mere.lake.query import scans
from mere.lake.query.duckdb import Limits, opened
from mere.lake.query.types import columns, current_schema, no_rows
from mere.lake.storage import room
from mere.lake.storage.port import Storage
from mere.sql.names import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

LIMIT = 256_000_000  # bytes of the files that are read, of both snapshots together
ROWS = 500_000  # so many may differ

# Beside a JVM; what does not fit is spilled to disk.
_MEMORY = Limits(memory="1GB")
# Arrow, or Spark after it, has no type for these.
_ALONE = re.compile(r"\b(TIME|TIMESTAMP_NS|VARIANT)\b")


def changed_rows(
    table: str, metadata: Metadata, since: int, to: int, wanted: Sequence[str], storage: Storage
) -> pa.Table | None:
    """The wanted columns of each row that differs, and as the last one, how often it came (more than 0) or went.

    Columns go by position. Equal rows are counted together, over all columns of the table; both snapshots are read with
    those that it has now. None where too much would have to be read.
    """
    import duckdb

    old, new = at_snapshot(metadata, since), at_snapshot(metadata, to)
    types = dict(columns(current_schema(metadata)))
    known = all((type_ := types.get(name)) and not _ALONE.search(type_) for name in wanted)
    if old is None or new is None or not known:
        return None
    with room.scratch("mere-changed-") as folder:
        try:
            parts = touched(table, old, new, storage, Path(folder))
            if isinstance(parts, str) or sum(part.size for part in parts) > LIMIT:
                return None
            with opened(storage, _MEMORY) as connection:
                return _differing(connection, table, metadata, parts, wanted, storage)
        except (MereError, duckdb.Error):
            return None


def _differing(
    connection: DuckDBPyConnection,
    table: str,
    metadata: Metadata,
    parts: Sequence[Part],
    wanted: Sequence[str],
    storage: Storage,
) -> pa.Table | None:
    schema = current_schema(metadata)
    compared = pairs(schema, schema, by_id=True)
    at = {pair.name: number for number, pair in enumerate(compared)}
    odd = [name for name in wanted if compared[at[name]].new("x") != "x"]  # compared by something made of them
    sides = []
    for part, net in zip(parts, (-1, 1), strict=True):
        item = f"({no_rows(schema)})"
        if part.location:
            item = scans.item(connection, table, part.location, part.kinds, storage)
        listed = [f"{pair.new(quoted(pair.name))} AS c{number}" for number, pair in enumerate(compared)]
        listed += [f"{quoted(name)} AS o{at[name]}" for name in odd]
        sides.append(f"SELECT {', '.join(listed)}, {net} AS net FROM {item}")
    grouped = ", ".join(f"c{number}" for number in range(len(compared)))
    shown = ", ".join(f"{f'first(o{at[name]})' if name in odd else f'c{at[name]}'} AS w{at[name]}" for name in wanted)
    connection.execute(f"""CREATE TEMP TABLE differing AS
SELECT {shown}, sum(net)::BIGINT AS net FROM ({" UNION ALL ".join(sides)})
GROUP BY {grouped} HAVING sum(net) <> 0""")
    found = connection.execute("SELECT count(*) FROM differing").fetchone()
    if found is None or found[0] > ROWS:
        return None
    return connection.execute("FROM differing").to_arrow_table()
