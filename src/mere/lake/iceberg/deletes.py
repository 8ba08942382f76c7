"""Delete files that name data files: position deletes in Parquet, and deletion vectors in Puffin."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PATH_ID = 2147483546  # the field ids that the Iceberg spec reserves for the two columns
POSITION_ID = 2147483545


_MAGIC = b"PFA1"
_COMPRESSED = 1  # a flag of a Puffin footer: its JSON is one LZ4 frame
_REFERENCED = "referenced-data-file"


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
    index = column_index(table.schema, PATH_ID, "file_path")
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
        by = (index, column_index(table.schema, POSITION_ID, "pos"))
        table = table.sort_by([(table.schema.field(each).name, "ascending") for each in by])
    out = io.BytesIO()
    codec = source.metadata.row_group(0).column(0).compression.lower()
    pq.write_table(table, out, compression="none" if codec == "uncompressed" else codec, store_schema=False)
    return Positions(out.getvalue(), min(new), max(new), _offsets(pq.ParquetFile(out).metadata))


def column_index(schema: Any, field_id: int, name: str) -> int:
    """By its id; by its name only in a file without ids, for one of that name may have been dropped long ago."""
    ids = [(field.metadata or {}).get(b"PARQUET:field_id") for field in schema]
    found: int = -1
    if str(field_id).encode() in ids:
        found = ids.index(str(field_id).encode())
    elif not any(ids):
        found = schema.get_field_index(name)
    if found < 0:
        raise ValueError(f"it has no column {name}")
    return found


def _offsets(metadata: Any) -> list[int]:
    """Where the row groups start, by which engines split a file."""
    first = [metadata.row_group(group).column(0) for group in range(metadata.num_row_groups)]
    return [column.dictionary_page_offset or column.data_page_offset for column in first]


def moved_vectors(content: bytes, move: Callable[[str], str]) -> bytes | None:
    """The same deletion vectors, of data files that have moved; None if none of them has.

    Spark finds a vector by its manifest entry, but PyIceberg by the footer of its file. The footer comes last, so the
    vectors stay where they are.
    """
    size, flags = int.from_bytes(content[-12:-8], "little"), int.from_bytes(content[-8:-4], "little")
    start = len(content) - 12 - size
    if start < 4 or {content[:4], content[start - 4 : start], content[-4:]} != {_MAGIC}:
        raise ValueError("it is not a Puffin file")
    footer = json.loads(_lz4(content[start : start + size]) if flags & _COMPRESSED else content[start : start + size])
    changed = False
    for blob in footer["blobs"]:
        properties = blob.get("properties", {})
        if _REFERENCED in properties and move(properties[_REFERENCED]) != properties[_REFERENCED]:
            properties[_REFERENCED] = move(properties[_REFERENCED])
            changed = True
    if not changed:
        return None
    payload = json.dumps(footer, separators=(",", ":")).encode()
    ending = [len(payload).to_bytes(4, "little"), (flags & ~_COMPRESSED).to_bytes(4, "little"), _MAGIC]
    return b"".join([content[:start], payload, *ending])


def _lz4(frame: bytes) -> bytes:
    import pyarrow as pa

    content: bytes = pa.CompressedInputStream(pa.BufferReader(frame), "lz4").read()
    return content
