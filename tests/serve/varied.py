"""Tables that differ in all that a reader has to mind: types, deleted rows, columns and partitions that changed."""

from __future__ import annotations

import uuid

import pyarrow as pa

from mere.engine.session import Session
from mere.lake.lake import Lake
from tests.serve import generated as kind
from tests.serve.generated import Columns

_MERGE_ON_READ = (
    "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
)


def _some(number: int, expression: str) -> str:
    """One in six is NULL."""
    return f"if(pmod(hash(id, {number}), 6) = 0, NULL, {expression})"


def _of(number: int, *values: str) -> str:
    """One of these."""
    return _some(number, f"element_at(array({', '.join(values)}), 1 + pmod(hash(id, {number}, 1), {len(values)}))")


def _number(number: int, low: int, high: int) -> str:
    return f"({low} + pmod(hash(id, {number}, 2), {high - low + 1}))"


_DATE = f"date_add(date '2020-01-01', {_number(8, -1000, 1000)})"
_MICROS = f"CAST({_number(9, 0, 1_000_000)} AS bigint) * 1000000123"
_TEXT = _of(
    13, "'abc'", "'a_b,c.d'", "'ABC%'", "''", "'é a'", "'ann'", "' x '", "'it''s \"q\"'", "concat('b', char(92), 'a')"
)
_FLOATS = [f"float('{each}')" for each in ("0.1", "1e-30", "3.4028235e38", "NaN", "-0.0", "7")]
_DOUBLES = [f"double('{each}')" for each in ("NaN", "Infinity", "-Infinity", "0.1", "1e300")]
_DECIMALS = [f"CAST('{each}' AS decimal(38, 9))" for each in ("9" * 29 + ".999999999", "-0.000000001", "0", "12.5")]
_STRUCTS = ("named_struct('a', 1, 'c', 'it''s')", "named_struct('a', NULL, 'c', '')")

# Of a column: its type in Spark, its kind, and how Spark makes a value of it from a row's id.
_COLUMNS = {
    "id": ("bigint", kind.INT, "id"),
    "b": ("boolean", kind.BOOL, _some(1, "pmod(hash(id, 1, 1), 2) = 0")),
    "i": ("int", kind.INT, _some(2, _number(2, -20, 20))),
    "l": ("bigint", kind.EDGE, _of(3, f"bigint('{2**63 - 1}')", f"bigint('-{2**63}')", "4294967296L")),
    "f": ("float", kind.RAW, _of(4, *_FLOATS)),
    "o": ("double", kind.EDGE, _of(5, *_DOUBLES)),
    "d": ("double", kind.DOUBLE, _some(6, f"{_number(6, -400, 400)} * 0.25D")),
    "n": ("decimal(12, 3)", kind.DECIMAL, _some(7, f"{_number(7, -1000000, 1000000)} / 1000D")),
    "big": ("decimal(38, 9)", kind.EDGE, _of(10, *_DECIMALS)),
    "dt": ("date", kind.DATE, _some(8, _DATE)),
    "far": ("date", kind.EDGE, _of(11, "date '0001-01-01'", "date '9999-12-31'", "date '1582-10-10'")),
    "ts": ("timestamp", kind.TS, _some(9, f"timestamp_micros({_MICROS})")),
    "ntz": ("timestamp_ntz", kind.NTZ, _some(12, f"CAST(timestamp_micros({_MICROS}) AS timestamp_ntz)")),
    "s": ("string", kind.TEXT, _TEXT),
    "x": ("binary", kind.RAW, _of(14, "X'00FF'", "X''", "X'275C22'")),
    "ar": ("array<int>", kind.LIST, _of(15, "array(1, 2, 2)", "array(5, NULL, -7)", "CAST(array() AS array<int>)")),
    "tags": ("array<string>", kind.RAW, _of(16, """array('a,b', '"', NULL, 'NULL', '')""", "array('x')")),
    "m": ("map<string, int>", kind.RAW, _of(17, "map('k', 1, 'é', NULL)", "map('', 2)")),
    "st": ("struct<a: int, c: string>", kind.RAW, _of(18, *_STRUCTS)),
    "sts": ("array<struct<a: bigint>>", kind.RAW, _of(19, "array(named_struct('a', id), NULL)", "array()")),
}
_FEW = ("id", "i", "s", "n", "dt", "b", "ar")


def _create(name: str, columns: tuple[str, ...], rest: str = "") -> str:
    return f"CREATE TABLE gold.{name} ({', '.join(f'{each} {_COLUMNS[each][0]}' for each in columns)}) {rest}"


def _insert(name: str, columns: tuple[str, ...], rows: str) -> str:
    values = [f"CAST({_COLUMNS[each][2]} AS {_COLUMNS[each][0]}) AS {each}" for each in columns]
    return f"INSERT INTO gold.{name} SELECT {', '.join(values)} FROM range({rows})"


_EVOLVED = f"""
    CREATE TABLE gold.evolved
      (id bigint, wide int, f float, n decimal(6, 2), s string, gone string, dt date, i int)
    PARTITIONED BY (months(dt)) TBLPROPERTIES ({_MERGE_ON_READ})"""
_BEFORE = f"""
    INSERT INTO gold.evolved
    SELECT id, CAST({_number(20, -9, 9)} AS int), float('0.1') * id, CAST(id / 4D AS decimal(6, 2)), {_TEXT}, 'gone',
      {_DATE}, CAST({_number(22, 0, 9)} AS int)
    FROM range(10, 40)"""
_AFTER = f"""
    INSERT INTO gold.evolved
    SELECT id, CAST({_number(22, 0, 9)} AS int), id * 4294967296, 0.1D * id, CAST(id * 1000 AS decimal(12, 2)), {_TEXT},
      {_DATE}, CAST(id AS int), id % 2 = 0
    FROM range(40, 60)"""

_FIRST = (
    "CREATE NAMESPACE gold",
    _create("kinds", tuple(_COLUMNS)),
    _insert("kinds", tuple(_COLUMNS), "0, 60"),
    _create("cut", _FEW, f"PARTITIONED BY (bucket(3, id)) TBLPROPERTIES ({_MERGE_ON_READ})"),
    _insert("cut", _FEW, "20, 90"),
    _EVOLVED,
    _BEFORE,
)
_THEN = (
    "DELETE FROM gold.cut WHERE id % 4 = 1",
    "UPDATE gold.cut SET s = 'changed', i = 99 WHERE id % 5 = 0",
    "DELETE FROM gold.kinds WHERE id = 7",
    "ALTER TABLE gold.evolved ALTER COLUMN wide TYPE bigint",
    "ALTER TABLE gold.evolved ALTER COLUMN f TYPE double",
    "ALTER TABLE gold.evolved ALTER COLUMN n TYPE decimal(12, 2)",
    "ALTER TABLE gold.evolved RENAME COLUMN s TO `Größe x`",
    "ALTER TABLE gold.evolved DROP COLUMN gone",
    "ALTER TABLE gold.evolved ADD COLUMNS (gone int, b boolean)",
    "ALTER TABLE gold.evolved ALTER COLUMN i AFTER id",
    "ALTER TABLE gold.evolved REPLACE PARTITION FIELD dt_month WITH truncate(10, id)",
    _AFTER,
    "DELETE FROM gold.evolved WHERE id IN (12, 45) OR `Größe x` = 'ann'",
    _create("lost", _FEW, "PARTITIONED BY (s)"),
    _insert("lost", _FEW, "0, 20"),
    "ALTER TABLE gold.lost DROP PARTITION FIELD s",
    "ALTER TABLE gold.lost DROP COLUMN s",
    _create("vectors", _FEW, f"TBLPROPERTIES ('format-version'='3', {_MERGE_ON_READ})"),
    _insert("vectors", _FEW, "0, 70"),
    "DELETE FROM gold.vectors WHERE id % 3 = 0",
)


def _kinds(*columns: str) -> Columns:
    return {each: _COLUMNS[each][1] for each in columns}


_STAYS = {"id": kind.INT, "i": kind.INT, "n": kind.DECIMAL, "dt": kind.DATE}
_COMMON = {"gold.kinds": _kinds(*_COLUMNS), "gold.cut": _kinds(*_FEW)}
# By the ref at which they are read: a tag of an old commit, and the present.
TABLES: dict[str, dict[str, Columns]] = {
    "first": {
        **_COMMON,
        "gold.evolved": {**_STAYS, "wide": kind.INT, "f": kind.RAW, "s": kind.TEXT, "gone": kind.TEXT},
    },
    "main": {
        **_COMMON,
        "gold.evolved": {
            **_STAYS, "wide": kind.EDGE, "f": kind.EDGE, "Größe x": kind.TEXT, "gone": kind.INT, "b": kind.BOOL,
        },
        "gold.lost": _kinds(*(each for each in _FEW if each != "s")),
        "gold.vectors": _kinds(*_FEW),
        "gold.ids": {"id": kind.INT, "u": kind.RAW, "x": kind.RAW},
    },
}  # fmt: skip


def write(lake: Lake, session: Session) -> None:
    for statement in _FIRST:
        session.spark.sql(statement)
    lake.tag("first")
    for statement in _THEN:
        session.spark.sql(statement)
    # Of these types, Spark makes no columns.
    ids = {
        "id": pa.array([1, 2, 3]),
        "u": pa.array([uuid.UUID(int=7), None, uuid.UUID(int=2**127)], pa.uuid()),
        "x": pa.array([b"abc", b"\0\xff\\", None], pa.binary(3)),
    }
    lake.pyiceberg().create_table("gold.ids", pa.table(ids).schema).append(pa.table(ids))
