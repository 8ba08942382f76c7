from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from mere.lake.iceberg import avro

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        {"name": "status", "type": "int", "field-id": 0},
        {
            "name": "data_file",
            "field-id": 2,
            "type": {
                "type": "record",
                "name": "r2",
                "fields": [
                    {"name": "file_path", "type": "string", "field-id": 100},
                    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "field-id": 1000},
                    {
                        "name": "price",
                        "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
                        "field-id": 1001,
                    },
                    {
                        "name": "sizes",
                        "field-id": 108,
                        "type": {
                            "type": "array",
                            "logicalType": "map",
                            "items": {
                                "type": "record",
                                "name": "k117_v118",
                                "fields": [
                                    {"name": "key", "type": "int", "field-id": 117},
                                    {"name": "value", "type": "long", "field-id": 118},
                                ],
                            },
                        },
                    },
                ],
            },
        },
    ],
}
YEAR_10000 = 2_932_897


def entry(number: int) -> avro.Record:
    file = {"file_path": f"/old/{number}", "day": YEAR_10000, "price": b"\x01\xff", "sizes": [{"key": 1, "value": 2}]}
    return {"status": 1, "data_file": file}


def container(records: list[avro.Record], codec: str = "deflate") -> bytes:
    """A file whose schema has logical types, though its values were written without their help."""
    plain = avro._plain(SCHEMA)
    known = codec if codec in ("null", "deflate") else "null"
    out = io.BytesIO()
    fastavro.writer(out, plain, records, codec=known, metadata={"format-version": "2", "schema": '{"a": "ä"}'})
    header, sync, body = avro._split(out.getvalue())
    if codec != known:
        body = packed(body, sync, PACK[codec])
    header = {**header, "avro.schema": json.dumps(SCHEMA).encode(), "avro.codec": codec.encode()}
    return avro._join(header, sync, body)


def packed(body: bytes, sync: bytes, pack: Callable[[bytes], bytes]) -> bytes:
    source, out = io.BytesIO(body), b""
    while source.tell() < len(body):
        count, block = avro._read_long(source), pack(avro._read_bytes(source))
        assert source.read(len(sync)) == sync
        out += avro._long(count) + avro._long(len(block)) + block + sync
    return out


PACK: dict[str, Callable[[bytes], bytes]] = {
    "zstandard": lambda block: pa.Codec("zstd").compress(block, asbytes=True),
    "snappy": lambda block: pa.Codec("snappy").compress(block, asbytes=True) + zlib.crc32(block).to_bytes(4),
}


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "snappy"])
def test_a_rewritten_file_keeps_its_header_and_all_that_was_not_changed(codec: str) -> None:
    content = container([entry(number) for number in range(3000)], codec)

    def move(record: avro.Record) -> avro.Record:
        file = record["data_file"]
        return {**record, "data_file": {**file, "file_path": file["file_path"].replace("/old", "/quite/new")}}

    rewritten = avro.rewrite(content, move)
    assert avro._split(rewritten)[0] == avro._split(content)[0] | {"avro.codec": b"deflate"}
    found = list(avro.records(rewritten, "status", "data_file"))
    assert found == [move(entry(number)) for number in range(3000)]


def test_values_that_python_has_no_type_for_pass_through() -> None:
    content = container([entry(1)])
    with pytest.raises(ValueError, match="10000"):
        list(fastavro.reader(io.BytesIO(content)))
    assert list(avro.records(avro.rewrite(content, dict), "status", "data_file")) == [entry(1)]


def test_only_the_fields_that_were_asked_for_are_decoded() -> None:
    content = container([entry(1), entry(2)])
    assert list(avro.records(content, "status", "data_file.file_path", "data_file.absent")) == [
        {"status": 1, "data_file": {"file_path": "/old/1"}},
        {"status": 1, "data_file": {"file_path": "/old/2"}},
    ]


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy"])
@pytest.mark.parametrize("size", [0, 3, 20, 400, -1, -20])
def test_a_file_that_was_cut_is_not_avro(size: int, codec: str) -> None:
    content = container([entry(number) for number in range(300)], codec)
    with pytest.raises(avro.NotAvro):
        list(avro.records(content[:size], "status"))


@pytest.mark.parametrize("content", [b"", b"{}", b"Obj\x01", b"Obj\x01\x00" + b"0" * 16, b"PAR1" * 100])
def test_what_is_not_avro_says_so(content: bytes) -> None:
    with pytest.raises(avro.NotAvro):
        avro.rewrite(content, dict)


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy"])
def test_a_small_file_with_a_huge_content_is_refused(codec: str) -> None:
    header, sync, body = avro._split(container([entry(1)], "null"))
    bomb = b"\x00" * (avro._BLOCK + 2)
    pack = {"deflate": lambda block: zlib.compress(block, wbits=-15), **PACK}[codec]
    block = pack(bomb)
    assert len(block) < len(bomb) / 10
    body = avro._long(1) + avro._long(len(block)) + block + sync
    with pytest.raises(avro.NotAvro, match="larger than 64 MB"):
        list(avro.records(avro._join({**header, "avro.codec": codec.encode()}, sync, body), "status"))


def test_a_file_with_more_records_than_bytes_is_refused() -> None:
    header, sync, _ = avro._split(container([entry(1)], "null"))
    nothing = {"type": "record", "name": "r", "fields": [{"name": "status", "type": "null"}]}
    header = {**header, "avro.schema": json.dumps(nothing).encode()}
    body = avro._long(1 << 60) + avro._long(0) + sync
    with pytest.raises(avro.NotAvro, match="more records than are there"):
        next(avro.records(avro._join(header, sync, body), "status"))


@pytest.mark.parametrize(
    "items",
    [
        "null",
        "r",
        {"type": "null"},
        {"type": "fixed", "name": "f", "size": 0},
        {"type": "record", "name": "s", "fields": [{"name": "a", "type": {"type": "null"}}]},
    ],
)
def test_a_list_of_nothing_is_refused(items: object) -> None:
    """It could be of any length in a file of any size."""
    header, sync, _ = avro._split(container([entry(1)], "null"))
    fields = [{"name": "status", "type": "int"}, {"name": "a", "type": ["int", {"type": "array", "items": items}]}]
    schema = {"type": "record", "name": "r", "fields": fields}
    header = {**header, "avro.schema": json.dumps(schema).encode()}
    with pytest.raises(avro.NotAvro, match="lists of nothing"):
        next(avro.records(avro._join(header, sync, b""), "status"))


def test_a_codec_that_iceberg_does_not_write_is_refused() -> None:
    header, sync, body = avro._split(container([entry(1)]))
    with pytest.raises(avro.NotAvro, match="compressed by bzip2"):
        list(avro.records(avro._join({**header, "avro.codec": b"bzip2"}, sync, body), "status"))


def test_a_schema_that_is_nested_without_end_is_refused() -> None:
    header, sync, body = avro._split(container([entry(1)]))
    deep = b'{"fields": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(avro.NotAvro, match="no schema"):
        list(avro.records(avro._join({**header, "avro.schema": deep}, sync, body), "status"))
