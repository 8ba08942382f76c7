"""The rows that differ between two snapshots of one table, found by DuckDB and returned as Arrow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from mere.lake.diff.alignment import pairs
from mere.lake.diff.net_rows import in_touched, net_rows
from mere.lake.iceberg.metadata import Metadata
from mere.lake.query.duckdb import Limits
from mere.lake.query.types import columns
from mere.lake.storage.port import Storage
from mere.sql.spelling.standard import quoted

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
    old, new = metadata.at(since), metadata.at(to)
    types = dict(columns(metadata.schema))
    known = all((type_ := types.get(name)) and not _ALONE.search(type_) for name in wanted)
    if old is None or new is None or not known:
        return None
    return in_touched(table, (old, new), storage, LIMIT, partial(_differing, metadata, wanted), _MEMORY)


def _differing(
    metadata: Metadata, wanted: Sequence[str], connection: DuckDBPyConnection, items: Sequence[str]
) -> pa.Table | None:
    schema = metadata.schema
    compared = pairs(schema, schema, by_id=True)
    at = {pair.name: number for number, pair in enumerate(compared)}
    odd = [name for name in wanted if compared[at[name]].new("x") != "x"]  # compared by something made of them
    listed = [f"{pair.new(quoted(pair.name))} AS c{number}" for number, pair in enumerate(compared)]
    listed += [f"{quoted(name)} AS o{at[name]}" for name in odd]
    sides = [f"SELECT {', '.join(listed)} FROM {item}" for item in items]
    shown = ", ".join(f"{'o' if name in odd else 'c'}{at[name]} AS w{at[name]}" for name in wanted)
    found = net_rows(sides, len(compared), [f"o{at[name]}" for name in odd])
    connection.execute(f"CREATE TEMP TABLE differing AS SELECT {shown}, net FROM ({found})")
    counted = connection.execute("SELECT count(*) FROM differing").fetchone()
    if counted is None or counted[0] > ROWS:
        return None
    return connection.execute("FROM differing").to_arrow_table()
