"""Position delete files: Parquet files whose rows name a data file and a row in it."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PATH_ID = 2147483546  # the field ids that the Iceberg spec reserves for the two columns
POSITION_ID = 2147483545


@dataclass(frozen=True)
class Positions:
    content: bytes
    first: str  # the least and the greatest of the paths in it
    last: str
    split_offsets: list[int]


def moved_positions(content: bytes, move: Callable[[str], str]) -> Positions | None:
    """The same deletes, of data files that have moved; None if none of them has."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    source = pq.ParquetFile(io.BytesIO(content))
    table = source.read()
    index = _column(table.schema, PATH_ID, "file_path")
    paths = pc.dictionary_encode(table.column(index).cast(pa.string())).unify_dictionaries()
    old = paths.chunk(0).dictionary.to_pylist() if paths.num_chunks else []
    new = [move(path) for path in old]
    if new == old:
        return None
    field = table.schema.field(index)
    moved = pc.take(pa.array(new, field.type), pa.chunked_array([chunk.indices for chunk in paths.chunks]))
    table = table.set_column(index, field, moved)
    if sorted(range(len(old)), key=old.__getitem__) != sorted(range(len(new)), key=new.__getitem__):
        # Readers rely on the order by path and position, and the move has changed it.
        by = (index, _column(table.schema, POSITION_ID, "pos"))
        table = table.sort_by([(table.schema.field(each).name, "ascending") for each in by])
    out = io.BytesIO()
    codec = source.metadata.row_group(0).column(0).compression.lower()
    pq.write_table(table, out, compression="none" if codec == "uncompressed" else codec, store_schema=False)
    return Positions(out.getvalue(), min(new), max(new), _offsets(pq.ParquetFile(out).metadata))


def _column(schema: Any, field_id: int, name: str) -> int:
    ids = [(field.metadata or {}).get(b"PARQUET:field_id") for field in schema]
    found: int = ids.index(str(field_id).encode()) if str(field_id).encode() in ids else schema.get_field_index(name)
    if found < 0:
        raise ValueError(f"it has no column {name}")
    return found


def _offsets(metadata: Any) -> list[int]:
    """Where the row groups start, by which engines split a file."""
    first = [metadata.row_group(group).column(0) for group in range(metadata.num_row_groups)]
    return [column.dictionary_page_offset or column.data_page_offset for column in first]
