"""COPY (query) TO STDOUT: rows as text, CSV or Postgres's binary format, one message each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mere.serve.postgres.wire import message
from mere.serve.protocol.port import Field, PgError
from mere.serve.protocol.statement import CopyOptions
from mere.serve.values import encode

if TYPE_CHECKING:
    import pyarrow as pa

_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_ESCAPES = ((b"\\", b"\\\\"), (b"\b", b"\\b"), (b"\f", b"\\f"), (b"\n", b"\\n"), (b"\r", b"\\r"), (b"\t", b"\\t"),
            (b"\v", b"\\v"))  # fmt: skip


class Copy:
    """Encodes the batches of one COPY. Before the first comes what `begin` says, after the last what `end` says."""

    def __init__(self, options: CopyOptions, fields: Sequence[Field], zone: str) -> None:
        self.options = options
        self.formats = (int(options.format == "binary"),) * len(fields)
        self._fields = fields
        self._zone = zone
        self._unsigned = options.format == "binary"
        for name in sorted(options.force_quote - {"*", *(field.name for field in fields)}):
            raise PgError("42703", f'column "{name}" does not exist')

    def begin(self) -> bytes:
        if not self.options.header:
            return b""
        names = [each.name.encode() for each in self._fields]
        cells = [self._name(each) for each in names]
        return message(b"d", self.options.delimiter.encode().join(cells) + b"\n")

    def end(self) -> bytes:
        if self.options.format != "binary":
            return b""
        return message(b"d", (_SIGNATURE if self._unsigned else b"") + _TRAILER)

    def rows(self, batch: pa.RecordBatch) -> memoryview:
        if self.options.format == "binary":
            return self._binary(batch)
        import pyarrow as pa
        import pyarrow.compute as pc

        from mere.serve.values import nested

        spell = self._csv if self.options.format == "csv" else self._text
        cells = []
        for column, field in zip(batch.columns, self._fields, strict=True):
            forced = bool(self.options.force_quote & {field.name, "*"})
            written = spell(nested.texts(column, field.oid, self._zone), forced)
            cells.append(written.fill_null(self.options.null.encode()))
        if not cells:
            return encode.messages(b"d", batch, [pa.array([b"\n"] * batch.num_rows, pa.binary())])
        line = pc.binary_join_element_wise(*cells, self.options.delimiter.encode())
        return encode.messages(b"d", batch, [pc.binary_join_element_wise(line, b"\n", b"")])

    def _binary(self, batch: pa.RecordBatch) -> memoryview:
        """The first row has the file's signature before it, in one message, as Postgres sends it."""
        encoded = encode.messages(b"d", batch, encode.row_cells(batch, self._fields, self.formats, self._zone))
        if not self._unsigned or not batch.num_rows:
            return encoded
        self._unsigned = False
        length = int.from_bytes(encoded[1:5])
        return memoryview(message(b"d", _SIGNATURE, bytes(encoded[5 : length + 1])) + bytes(encoded[length + 1 :]))

    def _text(self, written: pa.Array, _: bool) -> pa.Array:
        import pyarrow.compute as pc

        delimiter = self.options.delimiter.encode()
        escapes = _ESCAPES if delimiter == b"\t" else (*_ESCAPES, (delimiter, b"\\" + delimiter))
        suspects = rb"[\\\x08-\x0d" + (b"" if delimiter == b"\t" else _in_class(delimiter)) + b"]"
        if not pc.any(pc.match_substring_regex(written, suspects)).as_py():
            return written
        for plain, escaped in escapes:
            written = pc.replace_substring(written, plain, escaped)
        return written

    def _csv(self, written: pa.Array, forced: bool) -> pa.Array:
        """In quotes where it has to be: what reads as NULL, as the end of a field or of the file."""
        import pyarrow.compute as pc

        quote, escape = self.options.quote.encode(), self.options.escape.encode()
        if forced:
            needs = written.is_valid()
        else:
            special = rb"[\r\n" + _in_class(self.options.delimiter.encode()) + _in_class(quote) + b"]"
            needs = pc.match_substring_regex(written, special)
            needs = pc.or_(needs, pc.equal(written, self.options.null.encode()))
            if len(self._fields) == 1:
                needs = pc.or_(needs, pc.equal(written, b"\\."))
            needs = needs.fill_null(False)
        if not pc.any(needs).as_py():
            return written
        escaped = pc.replace_substring(written, escape, escape + escape)
        if quote != escape:
            escaped = pc.replace_substring(escaped, quote, escape + quote)
        return pc.if_else(needs, pc.binary_join_element_wise(quote, escaped, quote, b""), written)

    def _name(self, name: bytes) -> bytes:
        import pyarrow as pa

        column = pa.array([name], pa.binary())
        spell = self._csv if self.options.format == "csv" else self._text
        found: bytes = spell(column, False)[0].as_py()
        return found


def _in_class(character: bytes) -> bytes:
    return b"\\" + character if character in b"\\]^-[" else character
