"""Rows as DataRow messages: a whole Arrow batch becomes one buffer, sent as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from mere.serve.protocol import types
from mere.serve.protocol.port import Field

if TYPE_CHECKING:
    import pyarrow as pa

    from mere.serve.values.cells import Cells

_ROWS = 16_384  # that are encoded at once, up to twice as many
_BYTES = 1 << 20  # and so many bytes, up to twice as many
_FIRST = 4096  # rows for which a client has to wait at most


def warm_up() -> None:
    """What the first rows need is loaded before they come: with its first function, Arrow loads pandas."""
    import pyarrow as pa

    row_cells(pa.record_batch([pa.array(["x"])], ["x"]), [Field("x", types.TEXT)], [0], "UTC")


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts that are small enough for the memory and large enough to be quick."""
    parts = max(1, batch.nbytes // _BYTES, batch.num_rows // _ROWS)
    step = max(1, -(-batch.num_rows // parts))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """Pieces, made of several batches where these are small: each costs some time of its own. The first come as soon as
    they are there. With each, whether it is known to be the last."""
    waiting: list[pa.RecordBatch] = []
    most = _FIRST
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= most or sum(each.nbytes for each in waiting) >= _BYTES:
            for piece in pieces(_joined(waiting)):
                yield piece, False
            waiting, most = [], _ROWS
    found = list(pieces(_joined(waiting))) if waiting else []
    for number, piece in enumerate(found, 1):
        yield piece, number == len(found)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def data_rows(batch: pa.RecordBatch, fields: Sequence[Field], formats: Sequence[int], zone: str) -> memoryview:
    from mere.serve.values import few

    found = few.data_rows(batch, fields, formats)
    return messages(b"D", batch, row_cells(batch, fields, formats, zone)) if found is None else found


def row_cells(batch: pa.RecordBatch, fields: Sequence[Field], formats: Sequence[int], zone: str) -> list[Cells]:
    """The content of each row: the number of its values, and each of them behind its length."""
    from mere.serve.values import binary, cells, nested, text

    found: list[Cells] = [cells.same(len(fields).to_bytes(2, "big"), batch.num_rows)]
    for column, field, format_ in zip(batch.columns, fields, formats, strict=True):
        plain = text.plain(column)
        found += cells.framed(plain, (binary if format_ else nested).cells(plain, field.oid, zone))
    return found


def messages(letter: bytes, batch: pa.RecordBatch, content: list[Cells]) -> memoryview:
    """A message of this letter for each row."""
    import numpy as np

    from mere.serve.values import cells

    lengths = np.full(batch.num_rows, 4)
    for each in content:
        lengths += cells.lengths(each)
    rows = cells.joined([cells.same(letter, batch.num_rows), cells.matrix(lengths.astype(">i4")), *content])
    begin, end = rows.offset, rows.offset + len(rows)
    offsets = np.frombuffer(rows.buffers()[1], np.int32)
    return memoryview(rows.buffers()[2] or b"")[offsets[begin] : offsets[end]]
