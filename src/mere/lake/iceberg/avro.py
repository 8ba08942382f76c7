"""Avro files, in which Iceberg keeps its manifests: read in part, or rewritten in full.

Logical types are not interpreted. A partition's date may lie beyond Python's calendar, and a value that was
interpreted need not come back the same: so fastavro is shown the schema without them, and a rewritten file gets the
schema and Iceberg's own keys from the header of its original, byte for byte.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

Record = dict[str, Any]
Header = dict[str, bytes]

_MAGIC = b"Obj\x01"
_SYNC = 16
_PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")
_CODEC = "avro.codec"
# What fastavro raises, beside its own errors, on content that is not what its header says.
_BLOCK, _WHOLE = 64 << 20, 1 << 30  # bytes once they are unpacked; writers make blocks of some 64 KB
_BROKEN = (ValueError, EOFError, LookupError, TypeError, OverflowError, zlib.error)


class NotAvro(ValueError):
    """The content cannot be read. Its reader knows the file's name and says what that means."""


def records(content: bytes, *fields: str) -> Iterator[Record]:
    """The records, of which only these fields are decoded: `status`, `data_file.file_path` …"""
    header, sync, body = _unpacked(*_split(content))
    schema = _plain(_schema(header))
    yield from _decode(_join(_with_schema(header, schema), sync, body), _part(schema, fields))


def rewrite(content: bytes, change: Callable[[Record], Record | None]) -> bytes:
    """The same file with every record changed, or left out where there is none for it."""
    import fastavro

    header, sync, body = _unpacked(*_split(content))
    schema = _plain(_schema(header))
    changes = (change(record) for record in _decode(_join(_with_schema(header, schema), sync, body)))
    changed = [record for record in changes if record is not None]
    out = io.BytesIO()
    fastavro.writer(out, schema, changed, codec="deflate")
    _, sync, body = _split(out.getvalue())
    return _join({**header, _CODEC: b"deflate"}, sync, body)


def _decode(content: bytes, part: Record | None = None) -> Iterator[Record]:
    import fastavro
    from fastavro.schema import SchemaParseException

    try:
        for record in fastavro.reader(io.BytesIO(content), reader_schema=part):
            if not isinstance(record, dict):
                raise NotAvro("its records have no fields")
            yield record
    except (*_BROKEN, SchemaParseException) as error:
        raise NotAvro(str(error) or type(error).__name__) from error


def _part(schema: Record, fields: Collection[str]) -> Record:
    wanted: dict[str, set[str]] = {}
    for path in fields:
        name, _, below = path.partition(".")
        wanted.setdefault(name, set()).update([below] if below else [])
    found = []
    for field in schema["fields"]:
        if field["name"] in wanted:
            inner = wanted[field["name"]]
            found.append({**field, "type": _part(field["type"], inner)} if inner else field)
    return {**schema, "fields": found}


def _plain(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if isinstance(schema, dict):
        return {name: _plain(value) for name, value in schema.items() if name != "logicalType"}
    return schema


def _schema(header: Header) -> Record:
    try:
        schema = json.loads(header["avro.schema"])
        if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
            raise NotAvro("its records have no fields")
        _check_lists(schema)
    except (KeyError, ValueError, RecursionError) as error:
        raise error if isinstance(error, NotAvro) else NotAvro("it has no schema") from error
    return schema


def _check_lists(schema: Any) -> None:
    """A list of what takes no byte could be of any length, in a file of any size."""
    for each in schema if isinstance(schema, list) else [schema]:
        if isinstance(each, dict):
            if each.get("type") == "array" and _is_void(each.get("items")):
                raise NotAvro("it has lists of nothing")
            for inner in (each.get("type"), each.get("items"), each.get("values"), each.get("fields")):
                if isinstance(inner, dict | list):
                    _check_lists(inner)


def _is_void(kind: Any) -> bool:
    """Whether its values take no byte, for all that can be seen: a name stands for anything."""
    if isinstance(kind, dict):
        if kind.get("type") == "record":
            fields = kind.get("fields")
            return not isinstance(fields, list) or all(_is_void(each.get("type")) for each in fields)
        if kind.get("type") == "fixed":
            return not kind.get("size")
        return kind.get("type") not in ("array", "map", "enum") and _is_void(kind.get("type"))
    return not isinstance(kind, list) and kind not in _PRIMITIVES


def _with_schema(header: Header, schema: Record) -> Header:
    return {**header, "avro.schema": json.dumps(schema).encode()}


# The container: a magic word, a map of bytes, a marker that ends every block.


def _split(content: bytes) -> tuple[Header, bytes, bytes]:
    source = io.BytesIO(content)
    if source.read(len(_MAGIC)) != _MAGIC:
        raise NotAvro("it is not an Avro file")
    header: Header = {}
    try:
        while count := _read_long(source):
            if count < 0:  # then the size of the block follows, for those who want to skip it
                count = -count
                _read_long(source)
            for _ in range(count):
                name = _read_bytes(source).decode()
                header[name] = _read_bytes(source)
    except (ValueError, EOFError) as error:
        raise NotAvro("its header is broken") from error
    sync = source.read(_SYNC)
    if len(sync) != _SYNC:
        raise NotAvro("its header is broken")
    return header, sync, source.read()


def _join(header: Mapping[str, bytes], sync: bytes, body: bytes) -> bytes:
    parts = [_MAGIC, _long(len(header))]
    for name, value in header.items():
        key = name.encode()
        parts += [_long(len(key)), key, _long(len(value)), value]
    return b"".join([*parts, _long(0), sync, body])


def _unpacked(header: Header, sync: bytes, body: bytes) -> tuple[Header, bytes, bytes]:
    """The same without compression. A small file whose content is a huge one is refused before it fills the memory."""
    codec = header.get(_CODEC, b"null").decode(errors="replace")
    if codec not in _UNPACK:
        raise NotAvro(f"it is compressed by {codec[:20]}, which Iceberg does not write")
    source, blocks, whole = io.BytesIO(body), [], 0
    try:
        while source.tell() < len(body):
            count, block = _read_long(source), _UNPACK[codec](_read_bytes(source))
            if source.read(_SYNC) != sync:
                raise EOFError
            whole += len(block)
            if whole > _WHOLE or not 0 <= count <= len(block):  # no record of Iceberg's takes less than a byte
                raise NotAvro("it has more records than are there, or is too large")
            blocks.append(b"".join([_long(count), _long(len(block)), block, sync]))
    except NotAvro:
        raise
    except (ValueError, EOFError, OSError, zlib.error) as error:
        raise NotAvro(f"it is not compressed by {codec}, or it was cut") from error
    return {**header, _CODEC: b"null"}, sync, b"".join(blocks)


def _bounded(content: bytes) -> bytes:
    if len(content) > _BLOCK:
        raise NotAvro(f"a block of it is larger than {_BLOCK >> 20} MB")
    return content


def _deflate(block: bytes) -> bytes:
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
    content = _bounded(unpacking.decompress(block, _BLOCK + 1))
    if not unpacking.eof:
        raise EOFError
    return content


def _zstandard(block: bytes) -> bytes:
    import pyarrow as pa

    return _bounded(pa.CompressedInputStream(pa.BufferReader(block), "zstd").read(_BLOCK + 1))


def _snappy(block: bytes) -> bytes:
    import pyarrow as pa

    # Snappy starts with the size of the content as a plain number; Avro ends the block with a checksum of 4 bytes.
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > _BLOCK:
        raise NotAvro(f"a block of it is larger than {_BLOCK >> 20} MB")
    content: bytes = pa.Codec("snappy").decompress(block[:-4], size, asbytes=True)
    if zlib.crc32(content) != int.from_bytes(block[-4:]):
        raise ValueError("wrong checksum")
    return content


_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "null": _bounded,
    "deflate": _deflate,
    "zstandard": _zstandard,
    "snappy": _snappy,
}


def _read_bytes(source: io.BytesIO) -> bytes:
    size = _read_long(source)
    content = source.read(max(size, 0))
    if len(content) != size:
        raise EOFError
    return content


def _read_long(source: io.BytesIO) -> int:
    value = shift = 0
    while True:
        (byte,) = source.read(1) or [None]
        if byte is None:
            raise EOFError
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
        if shift > 63:
            raise ValueError("a number without an end")


def _long(value: int) -> bytes:
    value = value * 2  # zig-zag; the numbers of a header are never negative
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
