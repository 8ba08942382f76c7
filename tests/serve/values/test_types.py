"""Values in text and binary, byte for byte as a real Postgres sends them, and read back as it means them."""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from psycopg import pq

from mere.serve.protocol import types
from mere.serve.protocol.port import Field, PgError
from mere.serve.values import binary, decode, encode, nested, text
from tests.services.postgres import Postgres

BOTH = pytest.mark.parametrize("format_", [0, 1], ids=["text", "binary"])
UNITS = {types.TIMESTAMP: pa.timestamp("us"), types.TIMESTAMPTZ: pa.timestamp("us", "UTC")}


class Real:
    """What a real Postgres says."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute("SET TimeZone = 'UTC'")

    def values(self, query: str, format_: int) -> list[bytes | None]:
        """The raw bytes of the first column."""
        result = self.connection.pgconn.exec_params(query.encode(), None, result_format=format_)
        assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message
        return [result.get_value(row, 0) for row in range(result.ntuples)]


@pytest.fixture(scope="module")
def real(postgres_server: Postgres) -> Iterator[Real]:
    found = Real(postgres_server.url())
    yield found
    found.connection.close()


def sent(column: pa.Array, oid: int, format_: int, zone: str = "UTC") -> list[bytes | None]:
    """The values of a column as they stand in DataRow messages."""
    return [value for (value,) in rows(pa.record_batch([column], ["x"]), [oid], [format_], zone)]


def rows(
    batch: pa.RecordBatch, oids: Sequence[int], formats: Sequence[int], zone: str = "UTC"
) -> Iterator[list[bytes | None]]:
    data = bytes(encode.data_rows(batch, [Field("x", oid) for oid in oids], formats, zone))
    at = 0
    while at < len(data):
        letter, length, columns = struct.unpack_from("!cih", data, at)
        assert (letter, columns) == (b"D", len(oids))
        end, at = at + 1 + length, at + 7
        found: list[bytes | None] = []
        for _ in oids:
            size = struct.unpack_from("!i", data, at)[0]
            found.append(None if size == -1 else data[at + 4 : at + 4 + size])
            at += 4 + max(size, 0)
        assert at == end
        yield found


FLOATS = [
    0.0, -0.0, 1.0, -1.5, 0.1, 1e-4, 9.9e-5, 1e-5, 1e14, 1e15, 123456789012345.6, 1e10, 1e10 + 0.5, 1e16, 1e22, 1e300,
    5e-324, 1.7976931348623157e308, 2 / 3, 1e9 + 1 / 3, float("inf"), float("-inf"), float("nan"), 100.0, 123456.0,
]  # fmt: skip


@BOTH
def test_double_precision(real: Real, format_: int) -> None:
    dice = random.Random(8)
    values = FLOATS + [dice.uniform(-10, 10) * 10.0 ** dice.randint(-20, 20) for _ in range(3000)]
    values += [float(dice.randint(-(10**16), 10**16)) for _ in range(500)] + [round(dice.random() * 1000, 2)] * 100
    wanted = real.values(f"SELECT unnest(ARRAY[{','.join(repr_sql(each) for each in values)}]::float8[])", format_)
    assert sent(pa.array(values), types.FLOAT8, format_) == wanted


@BOTH
def test_real(real: Real, format_: int) -> None:
    dice = random.Random(8)
    values = [*FLOATS[:-9], 1e6, 999999.0, 1234567.0, 16777216.0, 3.4e38, 1e-45, float("inf"), float("nan")]
    values += [dice.uniform(-10, 10) * 10.0 ** dice.randint(-12, 12) for _ in range(2000)]
    with np.errstate(over="ignore", under="ignore"):
        column = pa.array(np.array([each for each in values if not 1e38 < abs(each) < np.inf], np.float32))
    texts = ",".join(repr_sql(float(each.as_py())) for each in column)
    assert sent(column, types.FLOAT4, format_) == real.values(f"SELECT unnest(ARRAY[{texts}]::float4[])", format_)


def repr_sql(value: float) -> str:
    return f"'{value!r}'"


INTEGERS = [
    (types.INT2, pa.int16(), [0, 1, -1, 2**15 - 1, -(2**15), None]),
    (types.INT4, pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), None]),
    (types.INT8, pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63), None]),
    (types.INT8, pa.int64(), [sign * (10**power - less) for power in range(19) for less in (0, 1) for sign in (1, -1)]),
    (types.INT8, pa.int64(), [-(10**power) for power in range(3)]),
    (types.OID, pa.int64(), [0, 1, 2**32 - 1, None]),
    (types.INT4, pa.int64(), [5, None]),  # the type that the client was told of counts
]


@BOTH
@pytest.mark.parametrize(("oid", "arrow", "values"), INTEGERS)
def test_integers(real: Real, oid: int, arrow: pa.DataType, values: list[int | None], format_: int) -> None:
    listed = ",".join("NULL" if each is None else str(each) for each in values)
    wanted = real.values(f"SELECT unnest(ARRAY[{listed}]::{types.BY_OID[oid].name}[])", format_)
    assert sent(pa.array(values, arrow), oid, format_) == wanted


DECIMALS = {
    (10, 2): ["0", "1.5", "-1.5", "99999999.99", "0.01", "10000", "-0.10", "1234.56", "100000000 / 10"],
    (38, 0): ["0", "1", "-1", "9" * 38, "-" + "9" * 38, "10000", "100000000", "1" + "0" * 37],
    (38, 10): ["0", "0.0000000001", "-0.0000000001", "1234567890.0987654321", "9" * 28 + "." + "9" * 10, "0.5"],
    (38, 38): ["0", "0." + "9" * 38, "0." + "0" * 37 + "1"],
    (5, 3): ["0", "99.999", "-0.001", "10.000", "1.230"],
    (18, 4): ["1", "99999999999999.9999", "0.0001", "10000.0001"],
}


@BOTH
@pytest.mark.parametrize("size", DECIMALS)
def test_numerics(real: Real, size: tuple[int, int], format_: int) -> None:
    dice = random.Random(sum(size))
    texts = [*DECIMALS[size]]
    for _ in range(300):
        digits = "".join(dice.choice("0000123456789") for _ in range(dice.randint(1, size[0])))
        texts.append(dice.choice(["", "-"]) + str(Decimal(int(digits)).scaleb(-size[1], _context())))
    wanted = real.values(f"SELECT unnest(ARRAY[{','.join(texts)}]::numeric{size}[])", format_)
    column = pa.array([Decimal("10000000") if "/" in each else Decimal(each) for each in texts], pa.decimal128(*size))
    assert sent(column, types.NUMERIC, format_) == wanted
    with_null = pa.array([None, column[0].as_py(), None], pa.decimal128(*size))
    assert sent(with_null, types.NUMERIC, format_) == [None, wanted[0], None]


def _context() -> Any:
    import decimal

    return decimal.Context(prec=60)


@BOTH
def test_numbers_of_other_kinds_as_numeric(real: Real, format_: int) -> None:
    values = [1.5, -0.001, 1e20, 1e-7, float("nan"), float("inf"), float("-inf"), 0.0]
    wanted = real.values(
        "SELECT unnest(ARRAY['1.5','-0.001','100000000000000000000','0.0000001','NaN','Infinity','-Infinity','0']"
        "::numeric[])",
        1,
    )
    assert [decode.value(each, types.NUMERIC, 1) for each in wanted][:4] == [
        decode.value(each, types.NUMERIC, 1) for each in sent(pa.array(values), types.NUMERIC, 1)
    ][:4]
    assert sent(pa.array(values), types.NUMERIC, 1)[4:7] == wanted[4:7]
    big = pa.array([2**64 - 1, 0, None], pa.uint64())
    whole = real.values("SELECT unnest(ARRAY[18446744073709551615, 0, NULL]::numeric[])", format_)
    assert sent(big, types.NUMERIC, format_) == whole


DATES = [
    "1970-01-01", "2000-01-01", "2024-02-29", "0001-01-01", "9999-12-31", "10000-01-01", "294276-12-31",
    "0044-03-15 BC", "4713-01-01 BC", "0001-12-31 BC", "1582-10-15", "infinity", "-infinity",
]  # fmt: skip


def days(text: str) -> int:
    """Since 1970, by numpy: another calendar than the one that is tried."""
    if "infinity" in text:
        return -(2**31 - 1) if text.startswith("-") else 2**31 - 1
    day, _, era = text.partition(" ")
    year, month, rest = day.rsplit("-", 2)
    number = 1 - int(year) if era else int(year)
    return int(np.datetime64(f"{number:05d}-{month}-{rest}", "D").astype(int))


@BOTH
def test_dates(real: Real, format_: int) -> None:
    wanted = real.values(f"SELECT unnest(ARRAY[{','.join(map(repr, DATES))}, NULL]::date[])", format_)
    column = pa.array([*map(days, DATES), None], pa.int32()).cast(pa.date32())
    assert sent(column, types.DATE, format_) == wanted


CLOCKS = ["00:00:00", "12:34:56", "23:59:59.999999", "12:00:00.5", "00:00:00.000001", "10:10:10.100000"]


def micros(text: str) -> int:
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, "0") or 0)


@BOTH
def test_times(real: Real, format_: int) -> None:
    clocks = [*CLOCKS, "24:00:00"]
    wanted = real.values(f"SELECT unnest(ARRAY[{','.join(map(repr, clocks))}, NULL]::time[])", format_)
    column = pa.array([*map(micros, clocks), None], pa.int64()).cast(pa.time64("us"))
    assert sent(column, types.TIME, format_) == wanted
    short = pa.array([micros(CLOCKS[1]), None], pa.int64()).cast(pa.time64("us"))
    assert sent(short, types.TIME, format_) == [wanted[1], None]


@BOTH
@pytest.mark.parametrize("oid", UNITS)
@pytest.mark.parametrize("clocks", [CLOCKS, CLOCKS[:2]], ids=["fractions", "whole seconds"])
def test_timestamps(real: Real, oid: int, clocks: list[str], format_: int) -> None:
    texts, instants = [], []
    for day in [each for each in DATES[:-2] if not each.startswith("294")]:
        for clock in clocks:
            date_, _, era = day.partition(" ")
            texts.append(f"{date_} {clock}{' ' + era if era else ''}")
            instants.append(days(day) * 86_400_000_000 + micros(clock))
    texts += ["infinity", "-infinity"]
    instants += [2**63 - 1, -(2**63 - 1)]
    listed = ",".join(map(repr, texts))
    wanted = real.values(f"SELECT unnest(ARRAY[{listed}, NULL]::{types.BY_OID[oid].name}[])", format_)
    assert sent(pa.array([*instants, None], pa.int64()).cast(UNITS[oid]), oid, format_) == wanted


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Zurich", "America/St_Johns", "Asia/Kathmandu", "Pacific/Kiritimati", "Africa/Monrovia"]
)
def test_timestamps_by_the_clocks_of_a_zone(real: Real, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(zone)
    instants = [dice.randrange(-(2**31), 2**33) * 1_000_000 + dice.choice([0, 500_000]) for _ in range(1500)]
    listed = ",".join(f"to_timestamp({each / 1_000_000!r})" for each in instants)
    with real.connection.transaction():
        real.connection.execute(f"SET LOCAL TimeZone = '{zone}'")
        wanted = real.values(f"SELECT unnest(ARRAY[{listed}])", 0)
    column = pa.array(instants, pa.int64()).cast(pa.timestamp("us", "UTC"))
    assert sent(column, types.TIMESTAMPTZ, 0, zone) == wanted
    monkeypatch.setattr(text, "_are_listed", lambda _: False)  # as where changes that a rule tells are not
    recent = [at for at, instant in enumerate(instants) if instant > 0]
    assert sent(column.take(recent), types.TIMESTAMPTZ, 0, zone) == [wanted[at] for at in recent]


def test_an_unknown_zone_is_utc_and_says_so() -> None:
    column = pa.array([0], pa.timestamp("us", "UTC"))
    assert sent(column, types.TIMESTAMPTZ, 0, "Nowhere/At_All") == [b"1970-01-01 00:00:00+00"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_any_unit(unit: str) -> None:
    column = pa.array([datetime(2024, 5, 6, 7, 8, 9), None], pa.timestamp(unit))
    assert sent(column, types.TIMESTAMP, 0) == [b"2024-05-06 07:08:09", None]


INTERVALS = [
    ("0", (0, 0, 0)), ("1 month", (1, 0, 0)), ("14 months -3 days 04:05:06.5", (14, -3, 14706_500_000_000)),
    ("-1 month", (-1, 0, 0)), ("-14 months 3 days", (-14, 3, 0)), ("-00:00:01", (0, 0, -1_000_000_000)),
    ("1 day -00:00:00.000001", (0, 1, -1000)), ("100:00:00", (0, 0, 360_000_000_000_000)), ("1 year", (12, 0, 0)),
    ("-1 day 1 second", (0, -1, 1_000_000_000)), ("-1 year 1 day 1 second", (-12, 1, 1_000_000_000)),
]  # fmt: skip


@BOTH
def test_intervals(real: Real, format_: int) -> None:
    wanted = real.values(f"SELECT unnest(ARRAY[{','.join(repr(each) for each, _ in INTERVALS)}]::interval[])", format_)
    column = pa.array([pa.MonthDayNano(each) for _, each in INTERVALS], pa.month_day_nano_interval())
    assert sent(column, types.INTERVAL, format_) == wanted
    assert sent(column.slice(2, 3), types.INTERVAL, format_) == wanted[2:5]


UUIDS = [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), uuid.UUID("d978358f-a457-4780-9941-3fe7a1e54e04")]


@BOTH
@pytest.mark.parametrize("arrow", [pa.string(), pa.binary(16), pa.uuid()], ids=str)
def test_uuids(real: Real, arrow: pa.DataType, format_: int) -> None:
    wanted = real.values(f"SELECT unnest(ARRAY[{','.join(f'{str(each)!r}' for each in UUIDS)}, NULL]::uuid[])", format_)
    raw = [str(each) if arrow == pa.string() else each.bytes for each in UUIDS]
    column = pa.array([*raw, None], arrow) if arrow != pa.uuid() else pa.array([*raw, None], pa.binary(16)).cast(arrow)
    assert sent(column, types.UUID, format_) == wanted


@BOTH
def test_bytes_and_texts_and_bools(real: Real, format_: int) -> None:
    raw = [b"", b"\0\xff\x80abc\\", bytes(range(256)), None]
    listed = ",".join("NULL" if each is None else f"'\\x{each.hex()}'" for each in raw)
    assert sent(pa.array(raw, pa.binary()), types.BYTEA, format_) == real.values(
        f"SELECT unnest(ARRAY[{listed}]::bytea[])", format_
    )
    texts = ["", "é€😀", "a\nb", None]
    assert sent(pa.array(texts), types.TEXT, format_) == [b"", "é€😀".encode(), b"a\nb", None]
    assert sent(pa.array(texts).dictionary_encode(), types.TEXT, format_) == [b"", "é€😀".encode(), b"a\nb", None]
    wanted = real.values("SELECT unnest(ARRAY[true, false, NULL])", format_)
    assert sent(pa.array([True, False, None]), types.BOOL, format_) == wanted


ARRAYS = [
    (types.INT4, pa.list_(pa.int32()), "int4", [[1, 2], [], None, [None, 3], [None]]),
    (types.INT8, pa.large_list(pa.int64()), "int8", [[1], None]),
    (types.INT4, pa.list_(pa.int32(), 2), "int4", [[1, 2], None, [3, None]]),
    (
        types.TEXT,
        pa.list_(pa.string()),
        "text",
        [["a", "", "NULL", "null", None], ['q"', "b\\", "{}", "a,b", " x"], []],
    ),
    (types.BOOL, pa.list_(pa.bool_()), "bool", [[True, False, None]]),
    (types.FLOAT8, pa.list_(pa.float64()), "float8", [[1.5, float("nan"), float("-inf")]]),
    (types.NUMERIC, pa.list_(pa.decimal128(10, 2)), "numeric", [[Decimal("1.50"), None]]),
    (types.DATE, pa.list_(pa.date32()), "date", [[date(2024, 1, 1), None]]),
    (types.TIMESTAMP, pa.list_(pa.timestamp("us")), "timestamp", [[datetime(2024, 1, 1, 2, 3, 4, 500000), None]]),
    (types.BYTEA, pa.list_(pa.binary()), "bytea", [[b"\0a", b"", None]]),
    (types.INT4, pa.list_(pa.list_(pa.int32())), "int4", [[[1, 2], [3, None]], [], None, [[7]]]),
    (types.TEXT, pa.list_(pa.list_(pa.list_(pa.string()))), "text", [[[["a", "b"]], [["c", None]]]]),
]


@BOTH
@pytest.mark.parametrize(("element", "arrow", "name", "values"), ARRAYS)
def test_arrays(real: Real, element: int, arrow: pa.DataType, name: str, values: list[Any], format_: int) -> None:
    column = pa.array(values, arrow)
    oid = types.BY_OID[element].array
    assert types.of_arrow(arrow) == oid
    rows = " UNION ALL ".join(f"SELECT {row}, {array_sql(each)}::{name}[]" for row, each in enumerate(values))
    wanted = real.values(f"SELECT x FROM ({rows}) t(i, x) ORDER BY i", format_)
    assert sent(column, oid, format_) == wanted
    if len(values) > 2:
        assert sent(column.slice(1, 2), oid, format_) == wanted[1:3]


def array_sql(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return f"ARRAY[{','.join(map(array_sql, value))}]"
    if isinstance(value, bytes):
        return f"'\\x{value.hex()}'::bytea"
    if isinstance(value, bool):
        return str(value)
    return f"'{value}'"


def test_lists_of_several_lengths_are_text_but_not_binary() -> None:
    column = pa.array([[[1, 2], [3]]], pa.list_(pa.list_(pa.int32())))
    assert sent(column, 1007, 0) == [b"{{1,2},{3}}"]
    with pytest.raises(PgError) as caught:
        sent(column, 1007, 1)
    assert caught.value.sqlstate == "2202E"


NESTED = [
    (pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": 1, "b": 'x"\\\n'}, rb'{"a":1,"b":"x\"\\\n"}'),
    (pa.struct([("a", pa.int32()), ("b", pa.string())]), {"a": None, "b": None}, b'{"a":null,"b":null}'),
    (pa.struct([("a", pa.list_(pa.float64()))]), {"a": [1.0, float("nan"), None]}, b'{"a":[1,"NaN",null]}'),
    (pa.struct([('q"', pa.bool_())]), {'q"': True}, rb'{"q\"":true}'),
    (pa.map_(pa.string(), pa.int32()), [("k", 1), ("é", None)], '{"k":1,"é":null}'.encode()),
    (pa.map_(pa.int32(), pa.string()), [(1, "x")], b'{"1":"x"}'),
    (pa.map_(pa.string(), pa.struct([("d", pa.date32())])), [("k", {"d": date(2024, 1, 2)})],
     b'{"k":{"d":"2024-01-02"}}'),
    (pa.struct([("t", pa.timestamp("us", "UTC"))]), {"t": datetime(2024, 1, 1, tzinfo=UTC)},
     b'{"t":"2024-01-01T00:00:00+00:00"}'),
    (pa.struct([("d", pa.decimal128(10, 2))]), {"d": Decimal("1.50")}, b'{"d":1.50}'),
    (pa.struct([("s", pa.struct([("n", pa.int8())]))]), {"s": None}, b'{"s":null}'),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(("arrow", "value", "wanted"), NESTED)
def test_structs_and_maps_are_json(arrow: pa.DataType, value: Any, wanted: bytes, format_: int) -> None:
    assert types.of_arrow(arrow) == types.JSON
    column = pa.array([None, value, value, None], arrow)
    assert sent(column, types.JSON, format_) == [None, wanted, wanted, None]
    assert sent(column.slice(1, 1), types.JSON, format_) == [wanted]
    assert sent(column.slice(1, 1), types.JSONB, 1) == [b"\1" + wanted]


def test_a_list_of_structs_is_an_array_of_json() -> None:
    column = pa.array([[{"a": 1}, None]], pa.list_(pa.struct([("a", pa.int32())])))
    assert types.of_arrow(column.type) == 199
    assert sent(column, 199, 0) == [rb'{"{\"a\":1}",NULL}']


@BOTH
def test_no_rows_and_no_columns(format_: int) -> None:
    empty = pa.record_batch([pa.array([], pa.int32())], ["x"])
    assert bytes(encode.data_rows(empty, [Field("x", types.INT4)], [format_], "UTC")) == b""
    bare = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert bytes(encode.data_rows(bare, [], [], "UTC")) == b"D\0\0\0\x06\0\0" * 2


@pytest.mark.parametrize("formats", [[0], [1], [0, 1], [1, 0, 0]], ids=["text", "binary", "both", "mixed"])
def test_rows_of_many_columns_have_the_values_of_each(formats: list[int]) -> None:
    dice = random.Random(len(formats))
    kinds: list[tuple[int, pa.DataType, Callable[[], Any]]] = [
        (types.INT4, pa.int32(), lambda: dice.choice([7, -12345, 2**31 - 1])),
        (types.NUMERIC, pa.decimal128(10, 2), lambda: Decimal(dice.randint(-(10**6), 10**6)) / 100),
        (types.TIMESTAMP, pa.timestamp("us"), lambda: dice.randint(-(10**15), 10**15) // 10 ** dice.randint(0, 6)),
        (types.TIMESTAMPTZ, pa.timestamp("us", "UTC"), lambda: dice.choice([0, 10**15, 2**63 - 1])),
        (types.TEXT, pa.string(), lambda: dice.choice(["", "x", "\u00e9" * 40])),
        (types.BOOL, pa.bool_(), lambda: dice.random() < 0.5),
        (types.DATE, pa.date32(), lambda: dice.choice([0, 20_000, -800_000])),
        (types.NUMERIC, pa.decimal128(38, 4), lambda: Decimal(dice.choice([1, 10**30]))),
        (1007, pa.list_(pa.int32()), lambda: dice.choice([[], [1, None], [300]])),
        (types.FLOAT8, pa.float64(), lambda: dice.choice([1.0, 0.1, float("nan")])),
    ]
    columns = []
    for _, kind, value in kinds:
        nothing = dice.choice([0.0, 0.3, 1.0])
        columns.append(pa.array([None if dice.random() < nothing else value() for _ in range(500)], kind))
    oids = [oid for oid, _, _ in kinds]
    wanted = [formats[at % len(formats)] for at in range(len(oids))]
    batch = pa.record_batch(columns, [f"c{at}" for at in range(len(oids))]).slice(3, 400)
    alone = [
        sent(column, oid, format_, "Asia/Kathmandu")
        for column, oid, format_ in zip(batch.columns, oids, wanted, strict=True)
    ]
    assert list(rows(batch, oids, wanted, "Asia/Kathmandu")) == [list(each) for each in zip(*alone, strict=True)]


def test_a_batch_is_cut_by_rows_and_by_bytes() -> None:
    thin = pa.record_batch([pa.array(range(50_000))], ["x"])
    assert [each.num_rows for each in encode.pieces(thin)] == [16_667, 16_667, 16_666]
    wide = pa.record_batch([pa.array(["x" * 400_000] * 7)], ["x"])
    assert [each.num_rows for each in encode.pieces(wide)] == [4, 3]


def test_small_batches_are_put_together_but_the_first_rows_do_not_wait() -> None:
    given = [pa.record_batch([pa.array(range(at, at + 4096))], ["x"]) for at in range(0, 40_960, 4096)]
    taken: list[int] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for number, each in enumerate(given):
            taken.append(number)
            yield each

    found = encode.gathered(batches())
    first = next(found)
    assert (first[0].num_rows, taken) == (4096, [0])
    pieces = [first, *found]
    assert [(piece.num_rows, last) for piece, last in pieces] == [
        (4096, False), (16_384, False), (16_384, False), (4096, True),
    ]  # fmt: skip
    assert [value for piece, _ in pieces for value in piece.column(0).to_pylist()] == list(range(40_960))
    assert list(encode.gathered([])) == []
    assert [last for _, last in encode.gathered([given[0].slice(0, 5), given[0].slice(0, 0)])] == [True]
    long = pa.record_batch([pa.array(["x" * 400_000])], ["x"])
    assert [piece.num_rows for piece, _ in encode.gathered([long] * 5)] == [3, 2]


# Back


VALUES: list[tuple[str, str, Any]] = [
    ("bool", "true", True),
    ("int2", "-5", -5),
    ("int4", "2147483647", 2**31 - 1),
    ("int8", "-9223372036854775808", -(2**63)),
    ("oid", "4294967295", 2**32 - 1),
    ("float4", "1.5", 1.5),
    ("float8", "-Infinity", float("-inf")),
    ("numeric", "0", Decimal("0")),
    ("numeric", "NaN", Decimal("NaN")),
    ("numeric", "-12345678901234567890123456789012345678", Decimal("-12345678901234567890123456789012345678")),
    ("numeric", "0.00010", Decimal("0.00010")),
    ("numeric", "10000.5000", Decimal("10000.5000")),
    ("numeric", "1e20", Decimal("1e20")),
    ("text", "q'\\\"$é😀", "q'\\\"$é😀"),
    ("varchar", "", ""),
    ("name", "x", "x"),
    ("bytea", "\\x00ff41", b"\x00\xffA"),
    ("date", "2024-02-29", date(2024, 2, 29)),
    ("date", "infinity", "infinity"),
    ("date", "12024-02-29", "12024-02-29"),
    ("time", "12:34:56.789", time(12, 34, 56, 789000)),
    ("timestamp", "2024-02-29 12:34:56.5", datetime(2024, 2, 29, 12, 34, 56, 500000)),
    ("timestamp", "-infinity", "-infinity"),
    ("timestamptz", "2024-02-29 12:00:00+00", datetime(2024, 2, 29, 12, tzinfo=UTC)),
    ("interval", "1 year 2 mons -3 days +04:05:06.7", "1 year 2 mons -3 days +04:05:06.7"),
    ("uuid", "d978358f-a457-4780-9941-3fe7a1e54e04", UUIDS[2]),
    ("json", '{"a": 1}', '{"a": 1}'),
    ("jsonb", '{"a": 1}', '{"a": 1}'),
    ("int4[]", "{1,NULL,3}", [1, None, 3]),
    ("int4[]", "{}", []),
    ("int4[]", "{{1,2},{3,4}}", [[1, 2], [3, 4]]),
    ("text[]", '{"a b",NULL,"NULL","q\\"\\\\",""}', ["a b", None, "NULL", 'q"\\', ""]),
    ("numeric[]", "{1.50}", [Decimal("1.50")]),
]


@BOTH
@pytest.mark.parametrize(("name", "text", "wanted"), VALUES)
def test_what_postgres_writes_is_read(real: Real, name: str, text: str, wanted: Any, format_: int) -> None:
    quoted = text.replace("'", "''")
    (raw,) = real.values(f"SELECT '{quoted}'::{name}", format_)
    base = types.BY_NAME[name.removesuffix("[]")]
    found = decode.value(raw, base.array if name.endswith("[]") else base.oid, format_)
    assert type(found) is type(wanted)
    if isinstance(wanted, Decimal):
        assert str(found) == f"{wanted:f}" or found == wanted
    else:
        assert found == wanted


@pytest.mark.parametrize("element", ["int4", "text"])
@pytest.mark.parametrize("text", [
    "{}", "{ }", " {1} ", "{ 1 , 2 }", "{1,null,NuLL}", '{1,"NULL"}', "{{1},{2}}", "[0:1]={1,2}", "{1 2}", "{1,,2}",
    "{,}", "{1,}", "{,1}", "{1", "1}", "{1}}", "{1}x", "{a\\,b}", '{"a,b"}', '{a"b"}', "",
])  # fmt: skip
def test_an_array_is_read_as_postgres_reads_it(real: Real, element: str, text: str) -> None:
    wanted: Any
    try:
        with real.connection.transaction():
            (found,) = real.connection.execute(f"SELECT %s::{element}[]", [text]).fetchall()
        wanted = found[0]
    except psycopg.Error as error:
        wanted = error.sqlstate
    try:
        assert decode.of_text(text, types.BY_NAME[element].array) == wanted
    except PgError as error:
        assert error.sqlstate == wanted


def test_null_is_none() -> None:
    assert decode.value(None, types.INT4, 1) is None


BAD = [
    ("int4", "1.5", "22P02"), ("int4", "", "22P02"), ("int4", "2147483648", "22003"), ("int2", "-32769", "22003"),
    ("int4", "9" * 5000, "22P02"), ("oid", "-1", "22003"), ("bool", "maybe", "22P02"), ("bool", "", "22P02"),
    ("float8", "1,5", "22P02"), ("float8", "0x10", "22P02"), ("numeric", "one", "22P02"), ("uuid", "x", "22P02"),
    ("date", "soon", "22007"), ("timestamp", "soon", "22007"), ("time", "soon", "22007"), ("int4[]", "{1", "22P02"),
    ("int4[]", "1,2", "22P02"), ("int4[]", "{1,x}", "22P02"), ("int4[]", "{1}}", "22P02"), ("int4[]", "{,}", "22P02"),
    ("int4[]", "{" * 8 + "1" + "}" * 8, "54000"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "sqlstate"), BAD)
def test_what_is_no_value_of_the_type_is_refused(name: str, text: str, sqlstate: str) -> None:
    base = types.BY_NAME[name.removesuffix("[]")]
    with pytest.raises(PgError) as caught:
        decode.value(text.encode(), base.array if name.endswith("[]") else base.oid, 0)
    assert caught.value.sqlstate == sqlstate


@pytest.mark.parametrize("oid", [*types.BY_OID, *types.ELEMENTS])
def test_bytes_that_are_no_value_are_refused_and_nothing_else_happens(oid: int) -> None:
    dice = random.Random(oid)
    for length in [*range(24), 40, 100]:
        for _ in range(20):
            raw = dice.randbytes(length)
            for format_ in (0, 1):
                try:
                    decode.value(raw, oid, format_)
                except PgError as error:
                    assert error.sqlstate in ("22P02", "22P03", "22003", "22007", "22021", "08P01", "54000")


def test_a_huge_count_of_elements_takes_no_memory() -> None:
    raw = struct.pack("!iiiii", 1, 0, types.INT4, 2**31 - 1, 1)
    with pytest.raises(PgError):
        decode.value(raw, 1007, 1)
    deep = struct.pack("!iii" + "ii" * 6, 6, 0, types.INT4, *([0, 1] * 6))
    assert decode.value(deep, 1007, 1) == []


def test_text_with_a_zero_byte_is_refused() -> None:
    for format_ in (0, 1):
        with pytest.raises(PgError) as caught:
            decode.value(b"a\0b", types.TEXT, format_)
        assert caught.value.sqlstate == "22021"


def test_fields_say_how_large_their_type_is() -> None:
    assert types.field("n", pa.decimal128(12, 2)) == Field("n", types.NUMERIC, -1, (12 << 16 | 2) + 4)
    assert types.field("i", pa.int32()) == Field("i", types.INT4, 4)
    assert types.field("u", pa.uint64()).oid == types.NUMERIC
    assert types.field("x", pa.null()).oid == types.TEXT


def test_every_type_of_arrow_that_is_sent_in_one_format_can_be_sent_in_the_other() -> None:
    arrow = [pa.int8(), pa.uint8(), pa.uint16(), pa.uint32(), pa.float16(), pa.date64(), pa.time32("s"),
             pa.duration("us"), pa.large_string(),
             pa.string_view(), pa.large_binary(), pa.null(), pa.decimal256(50, 2)]  # fmt: skip
    for each in arrow:
        column = pa.nulls(3, each)
        oid = types.of_arrow(each)
        assert sent(column, oid, 0) == [None] * 3, each
        assert sent(column, oid, 1) == [None] * 3, each
    assert nested.texts(pa.array([1], pa.duration("s")), types.INTERVAL, "UTC").to_pylist() == [b"00:00:01"]
    assert binary.cells(pa.array([1], pa.uint16()), types.INT4, "UTC").tobytes() == b"\0\0\0\1"
