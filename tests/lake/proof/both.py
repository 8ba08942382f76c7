"""The same query in Spark and, translated, in another engine, over the same rows."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from mere.engine.translate import is_from_spark
from mere.sql.spark.proven import Proof, Unlike
from mere.sql.spark.read import read
from mere.sql.spark.translate import Engine, translate
from mere.sql.spark.types import Columns, named
from tests.lake.proof import values
from tests.lake.proof.engines import LEFT_TO_SPARK, VIEWS, Failed, Rows

_ERRORS = 5  # of the rows on which the other engine ends with an error, so many are tried in Spark
ERROR = "an error"


def _where(keys: Iterable[int]) -> str:
    return f" where r in ({', '.join(map(str, keys))})"


def prepare(spark: Any) -> None:
    """The rows, as Spark has them."""
    rows = ", ".join(f"({', '.join(cells)})" for cells in values.rows())
    names = ", ".join(name for name, _ in values.columns())
    spark.sql(f"select * from values {rows} as t({names})").createOrReplaceTempView("vals")
    for name, query in VIEWS.items():
        spark.sql(query).createOrReplaceTempView(name)


class Both:
    def __init__(self, spark: Any, other: Rows) -> None:
        self.spark = spark
        self.other = other

    @property
    def engine(self) -> Engine:
        return self.other.engine

    def types(self, sql: str) -> list[str]:
        return [field.dataType.simpleString() for field in self.spark.sql(sql).schema]

    def differs(self, sql: str, ours: exp.Expr) -> str | None:
        """What Spark and the other engine disagree on; None if on nothing."""
        name = self.engine.name
        is_rowwise = sql.startswith("select r, ") and sql.endswith(" as e from vals") and " over " not in sql
        theirs = self._in_spark(sql)
        if theirs is ERROR and is_rowwise:
            return self._row_by_row(sql, ours)
        try:
            mine = self.other.rows(ours)
        except Failed as error:
            if theirs is ERROR:
                return None
            return self._row_by_row(sql, ours) if is_rowwise else f"{name} ends with an error: {error}"
        if theirs is ERROR:
            return "Spark ends with an error"
        return compared(theirs, mine, " order by r" in sql and " over " not in sql, name)

    def _row_by_row(self, sql: str, ours: exp.Expr) -> str | None:
        """Where the other engine ends with an error, Spark does, unless the translation leaves the value to Spark."""
        name = self.engine.name
        try:
            good, wrong = self.other.row_by_row(ours)
        except Failed as error:
            return f"{name} ends with an error: {error}"
        bad = [(key, why) for key, why in wrong if LEFT_TO_SPARK not in why]
        if len(good) < values.SIDE:
            return "there are no values to compare"
        theirs = self._in_spark(sql + _where(row[0] for row in good))
        if theirs is ERROR:
            return "Spark alone ends with an error"
        for key, why in bad[:: max(1, len(bad) // _ERRORS)]:
            if self._in_spark(sql + _where([key])) is not ERROR:
                return f"{name} alone ends with an error: {why}"
        return compared(theirs, good, False, name)

    def _in_spark(self, sql: str) -> Any:
        try:
            return [tuple(row) for row in self.spark.sql(sql).collect()]
        except (ValueError, OverflowError):  # a time that Python does not have
            return ERROR
        except Exception as error:
            if not is_from_spark(error):
                raise
            return ERROR


def columns_of(table: exp.Table) -> Columns:
    assert table.name in ("vals", *VIEWS), table
    return values.columns()


def translated(sql: str, engine: Engine, proof: Proof | None = None) -> tuple[exp.Expr, list[str]]:
    """For the engine, with the types that it has in Spark; Unlike, or a ValueError, if that cannot be done."""
    query = read(sql)
    columns = translate(query, columns_of, engine, proof)
    query.sql(engine.dialect, unsupported_level=ErrorLevel.RAISE)
    return query, [type_ for _, type_ in columns]


class Used:
    """The proof that is there, and what of it was asked for."""

    def __init__(self, engine: Engine) -> None:
        self.forms: dict[str, str] = {}
        self._proof = engine.proven()

    def type_of(self, form: str, sql: str) -> str:
        self.forms[form] = self._proof.type_of(form, sql)
        return self.forms[form]


def understood(case: str, engine: Engine) -> dict[str, str] | None:
    """The forms of a case of which each is proven."""
    used = Used(engine)
    try:
        translated(case, engine, used)
    except (SqlglotError, ValueError):
        return None
    return used.forms


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


def compared(theirs: Sequence[Any], mine: Sequence[Any], ordered: bool, engine: str) -> str | None:
    wanted, found = ([comparable(row) for row in rows] for rows in (theirs, mine))
    if not ordered:
        wanted, found = sorted(wanted, key=str), sorted(found, key=str)
    if len(wanted) != len(found):
        return f"Spark has {len(wanted)} rows, {engine} {len(found)}"
    return next((f"Spark {a}, {engine} {b}" for a, b in zip(wanted, found, strict=True) if not same(a, b)), None)


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
