"""A few rows, value by value: byte for byte what they are when they come in thousands."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from mere.serve.protocol import types
from mere.serve.protocol.port import Field
from mere.serve.values import encode, few

VALUES: dict[tuple[pa.DataType, int], list[Any]] = {
    (pa.bool_(), types.BOOL): [True, False, None],
    (pa.int16(), types.INT2): [0, -1, 2**15 - 1, -(2**15), None],
    (pa.int32(), types.INT4): [0, 7, -1, 2**31 - 1, -(2**31), None],
    (pa.int64(), types.INT8): [0, 10, -1, 2**63 - 1, -(2**63), None],
    (pa.string(), types.TEXT): ["", "x", "Größe", "\N{GRINNING FACE}", "a\nb", "x" * 300, None],
    (pa.string(), types.VARCHAR): ["", "O'Hare", None],
}


@pytest.mark.parametrize("seed", range(40))
def test_a_few_rows_are_the_same_bytes_as_many(seed: int) -> None:
    dice = random.Random(seed)
    kinds = dice.choices(list(VALUES), k=dice.randint(0, 6))
    count = dice.randint(1, few.MOST)
    columns = [pa.array(dice.choices(VALUES[kind], k=count + 2), kind[0]) for kind in kinds]
    batch = pa.record_batch(columns, [f"c{at}" for at in range(len(kinds))]) if kinds else bare(count + 2)
    batch = batch.slice(1, count)  # a piece of a larger one, as a cursor gives it
    fields = [Field(f"c{at}", oid) for at, (_, oid) in enumerate(kinds)]
    formats = [dice.randint(0, 1) for _ in kinds]
    found = few.data_rows(batch, fields, formats)
    assert found is not None
    assert bytes(found) == bytes(encode.messages(b"D", batch, encode.row_cells(batch, fields, formats, "UTC")))


def bare(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))


@pytest.mark.parametrize(
    ("column", "oid"),
    [
        (pa.array([1] * (few.MOST + 1)), types.INT8),  # too many
        (pa.array(["x" * 20_000]), types.TEXT),  # too long
        (pa.array([1.5]), types.FLOAT8),
        (pa.array([1]), types.INT4),  # the client was told of another type
        (pa.array(["x"]).dictionary_encode(), types.TEXT),
    ],
)
def test_all_others_are_left_to_arrow(column: pa.Array, oid: int) -> None:
    assert few.data_rows(pa.record_batch([column], ["x"]), [Field("x", oid)], [0]) is None
