"""The same query in Spark and, translated, in DuckDB, over the same rows."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import duckdb
from sqlglot import ErrorLevel, exp

from mere.engine.translate import is_from_spark
from mere.sql.duckdb import translate as translation
from mere.sql.duckdb.proven import Proof, Unlike
from mere.sql.duckdb.types import Columns, in_duckdb, named
from tests.lake.proof import values

# Only rows whose whole numbers can be added up.
_TAME = " and ".join(f"({name} is null or ({name} > -1000 and {name} < 1000000))" for name in ("i1", "i2", "l1", "l2"))
_VIEWS = {
    "few": "select * from vals where r % 17 = 0",
    "tame": f"select * from vals where {_TAME}",
}
ERROR = "an error"


_ERRORS = 5  # of the rows on which DuckDB ends with an error, so many are tried in Spark


def _where(keys: Sequence[int]) -> str:
    return f" where r in ({', '.join(map(str, keys))})"


class Both:
    def __init__(self, spark: Any) -> None:
        self.spark = spark
        rows = ", ".join(f"({', '.join(cells)})" for cells in values.rows())
        names = ", ".join(name for name, _ in values.columns())
        spark.sql(f"select * from values {rows} as t({names})").createOrReplaceTempView("vals")
        for name, query in _VIEWS.items():
            spark.sql(query).createOrReplaceTempView(name)
        self.duckdb = duckdb.connect(config={"memory_limit": "1GB"})
        self.duckdb.execute("SET TimeZone = 'UTC'")
        arrow = spark.table("vals").toArrow()
        self.duckdb.register("arrow", arrow)
        casts = ", ".join(
            f"{name}::{in_duckdb(type_)} AS {name}" if in_duckdb(type_) else name for name, type_ in values.columns()
        )
        self.duckdb.execute(f"create table vals as select {casts} from arrow")
        for name, query in _VIEWS.items():
            self.duckdb.execute(f"create view {name} as {query}")

    def types(self, sql: str) -> list[str]:
        return [field.dataType.simpleString() for field in self.spark.sql(sql).schema]

    def differs(self, sql: str, ours: str) -> str | None:
        """What Spark and DuckDB disagree on; None if on nothing."""
        is_rowwise = sql.startswith("select r, ") and sql.endswith(" as e from vals") and " over " not in sql
        theirs = self._in_spark(sql)
        if theirs is ERROR and is_rowwise:
            return self._row_by_row(sql, ours)
        if theirs is ERROR:
            return None if self._in_duckdb(ours) is ERROR else "Spark ends with an error"
        mine = self._in_duckdb(ours)
        if mine is ERROR:
            return self._row_by_row(sql, ours) if is_rowwise else f"DuckDB ends with an error: {self.last_error}"
        ordered = " order by r" in sql and " over " not in sql
        return compared(theirs, mine, ordered)

    def _row_by_row(self, sql: str, ours: str) -> str | None:
        """Where DuckDB ends with an error, Spark does, unless the translation leaves the value to Spark."""
        good: list[int] = []
        bad: list[int] = []
        for keys in self._halves(ours, list(range(values.SIDE**2))):
            if self._in_duckdb(ours + _where(keys)) is not ERROR:
                good += keys
            elif "Spark has a value here" not in self.last_error:
                bad += keys
                message = self.last_error
        if len(good) < values.SIDE:
            return "there are no values to compare"
        theirs = self._in_spark(sql + _where(good))
        if theirs is ERROR:
            return "Spark alone ends with an error"
        for key in bad[:: max(1, len(bad) // _ERRORS)]:
            if self._in_spark(sql + _where([key])) is not ERROR:
                return f"DuckDB alone ends with an error: {message}"
        return compared(theirs, self._in_duckdb(ours + _where(good)), False)

    def _halves(self, ours: str, keys: list[int]) -> Iterable[list[int]]:
        """Rows that go together, and single rows on which DuckDB ends with an error."""
        if len(keys) == 1 or self._in_duckdb(ours + _where(keys)) is not ERROR:
            yield keys
            return
        middle = len(keys) // 2
        yield from self._halves(ours, keys[:middle])
        yield from self._halves(ours, keys[middle:])

    def _in_spark(self, sql: str) -> Any:
        try:
            return [tuple(row) for row in self.spark.sql(sql).collect()]
        except (ValueError, OverflowError):  # a time that Python does not have
            return ERROR
        except Exception as error:
            if not is_from_spark(error):
                raise
            return ERROR

    def _in_duckdb(self, sql: str) -> Any:
        try:
            return self.duckdb.execute(sql).fetchall()
        except (duckdb.Error, ValueError, OverflowError) as error:
            self.last_error = str(error).splitlines()[0]
            return ERROR


def columns_of(table: exp.Table) -> Columns:
    assert table.name in ("vals", *_VIEWS), table
    return values.columns()


def translated(sql: str, proof: Proof) -> tuple[str, list[str]]:
    """In DuckDB's SQL, with the types that it has in Spark; Unlike, or a ValueError, if that cannot be done."""
    query = translation.read(sql)
    columns = translation.translate(query, columns_of, proof)
    sql = query.sql(dialect="duckdb", unsupported_level=ErrorLevel.RAISE)
    return sql, [type_ for _, type_ in columns]


def comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0  # there is one zero
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dt.datetime) and value.tzinfo:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    if hasattr(value, "asDict"):
        return {name: comparable(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {key: comparable(value[key]) for key in sorted(value, key=str)}
    return [comparable(each) for each in value] if isinstance(value, list | tuple) else value


def same(a: Any, b: Any) -> bool:
    """Doubles up to rounding: the sum of several depends on their order, in Spark too."""
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=1e-12)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return a == b
    return type(a) is type(b) and str(a) == str(b)


def compared(theirs: Sequence[Any], mine: Sequence[Any], ordered: bool) -> str | None:
    wanted, found = ([comparable(row) for row in rows] for rows in (theirs, mine))
    if not ordered:
        wanted, found = sorted(wanted, key=str), sorted(found, key=str)
    if len(wanted) != len(found):
        return f"Spark has {len(wanted)} rows, DuckDB {len(found)}"
    return next((f"Spark {a}, DuckDB {b}" for a, b in zip(wanted, found, strict=True) if not same(a, b)), None)


class Recorder:
    """A proof in the making: what is not yet proven is taken for granted, until the values have been compared."""

    def __init__(self, both: Both, known: dict[str, str]) -> None:
        self.both = both
        self.known = known
        self.used: dict[str, str] = {}

    def type_of(self, form: str, sql: str) -> str:
        if form not in self.used:
            self.used[form] = self.known.get(form) or self._asked(form, sql)
        return self.used[form]

    def _asked(self, form: str, sql: str) -> str:
        if not ((form.endswith(")") and "(" in form) or " over " in form) or form.startswith(
            ("values", "lateral", "union", "except", "intersect")
        ):
            return "-" if "(" not in form or form.startswith("lateral") else self._widened(form)
        try:
            return named(self.both.types(f"select {sql} as x from vals")[0])
        except Exception as error:
            if not is_from_spark(error):
                raise
            raise Unlike(f"Spark gives no type to {sql}") from error

    def _widened(self, form: str) -> str:
        left, right = form[form.index("(") + 1 : -1].split(", ")
        zero = {"decimal": "decimal(1,0)"}
        sides = [f"cast(0 as {zero.get(each, each)})" for each in (left, right)]
        return named(self.both.types(f"select coalesce({', '.join(sides)}) as x")[0])
