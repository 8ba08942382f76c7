from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mere.lake.iceberg.deletes import PATH_ID, POSITION_ID, moved_positions, moved_vectors
from mere.lake.upkeep.relocate import Move


def position_deletes(*rows: tuple[str, int]) -> bytes:
    def field(name: str, kind: pa.DataType, id_: int) -> pa.Field:
        return pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(id_)})

    inner = pa.struct([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    schema = pa.schema(
        [
            field("file_path", pa.string(), PATH_ID),
            field("pos", pa.int64(), POSITION_ID),
            pa.field("row", inner, metadata={"PARQUET:field_id": "2147483544"}),
        ],
        metadata={"delete-type": "position"},
    )
    columns = [[path for path, _ in rows], [pos for _, pos in rows], [{"id": pos} for _, pos in rows]]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=schema), sink, compression="zstd", store_schema=False, row_group_size=2)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def test_position_deletes_name_the_new_files_in_the_same_columns() -> None:
    old = position_deletes(("/old/a", 1), ("/old/a", 5), ("/old/b", 0))
    found = moved_positions(old, Move("/old", "/brand/new"))
    assert found is not None
    assert (found.first, found.last) == ("/brand/new/a", "/brand/new/b")
    before, after = pq.ParquetFile(pa.BufferReader(old)), pq.ParquetFile(pa.BufferReader(found.content))
    assert after.read().column("file_path").to_pylist() == ["/brand/new/a", "/brand/new/a", "/brand/new/b"]
    assert after.read().select(["pos", "row"]).equals(before.read().select(["pos", "row"]))
    assert after.schema_arrow.equals(before.schema_arrow, check_metadata=True)
    assert after.schema.equals(before.schema)
    assert after.metadata.row_group(0).column(0).compression == "ZSTD"
    assert found.split_offsets == [4]


def test_position_deletes_stay_in_the_order_of_path_and_position() -> None:
    old = position_deletes(("/m/elsewhere", 3), ("/old/a", 1), ("/old/a", 2))
    found = moved_positions(old, Move("/old", "/a"))
    assert found is not None
    rows = pq.read_table(pa.BufferReader(found.content)).select(["file_path", "pos"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("/a/a", 1), ("/a/a", 2), ("/m/elsewhere", 3)]


@pytest.mark.parametrize("rows", [(), (("/elsewhere/a", 1),)], ids=["none", "of others"])
def test_position_deletes_of_no_moved_file_stay_as_they_are(rows: tuple[tuple[str, int], ...]) -> None:
    assert moved_positions(position_deletes(*rows), Move("/old", "/new")) is None


def puffin(*referenced: str, compressed: bool = False) -> bytes:
    blobs = [
        {
            "type": "deletion-vector-v1",
            "offset": 4 + 3 * number,
            "length": 3,
            "properties": {"referenced-data-file": path},
        }
        for number, path in enumerate(referenced)
    ]
    payload = json.dumps({"blobs": [*blobs, {"type": "other", "offset": 4, "length": 0}], "properties": {}}).encode()
    if compressed:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "lz4") as stream:
            stream.write(payload)
        payload = sink.getvalue().to_pybytes()
    body = b"".join(b"v%02d" % number for number in range(len(referenced)))
    flags = int(compressed).to_bytes(4, "little")
    return b"PFA1" + body + b"PFA1" + payload + len(payload).to_bytes(4, "little") + flags + b"PFA1"


@pytest.mark.parametrize("compressed", [False, True])
def test_deletion_vectors_name_the_new_files_and_stay_where_they_are(compressed: bool) -> None:
    found = moved_vectors(puffin("/old/a", "/elsewhere/b", compressed=compressed), Move("/old", "/brand/new"))
    assert found is not None
    size = int.from_bytes(found[-12:-8], "little")
    footer = json.loads(found[-12 - size : -12])
    places = [blob.get("properties", {}).get("referenced-data-file") for blob in footer["blobs"]]
    assert places == ["/brand/new/a", "/elsewhere/b", None]
    assert (found[:14], found[-8:]) == (b"PFA1v00v01PFA1", bytes(4) + b"PFA1")
    assert [blob["offset"] for blob in footer["blobs"]] == [4, 7, 4]


def test_deletion_vectors_of_no_moved_file_stay_as_they_are() -> None:
    assert moved_vectors(puffin("/elsewhere/b"), Move("/old", "/new")) is None


@pytest.mark.parametrize("content", [b"", b"PFA1", b"PAR1" * 9, puffin("/old/a")[:-1], puffin("/old/a")[1:]])
def test_what_is_not_puffin_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        moved_vectors(content, Move("/old", "/new"))
