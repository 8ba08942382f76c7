"""The engines that are compared with Spark: each has the same rows, and reads what was translated for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import duckdb
from sqlglot import ErrorLevel, exp

from mere.sql.duckdb import translate as for_duckdb
from mere.sql.duckdb.types import in_duckdb
from mere.sql.spark.translate import Engine
from mere.sql.trino import translate as for_trino
from tests.lake.proof import values
from tests.services.trino import Connection, TrinoError

LEFT_TO_SPARK = "Spark has a value here"
# Only rows whose whole numbers can be added up.
_TAME = " and ".join(f"({name} is null or ({name} > -1000 and {name} < 1000000))" for name in ("i1", "i2", "l1", "l2"))
VIEWS = {
    "few": "select * from vals where r % 17 = 0",
    "tame": f"select * from vals where {_TAME}",
}


class Failed(Exception):
    """A query ends with an error."""


class Rows(Protocol):
    engine: Engine

    def rows(self, query: exp.Expr) -> Sequence[tuple[Any, ...]]:
        """Raises Failed."""
        ...

    def row_by_row(self, query: exp.Expr) -> tuple[list[tuple[Any, ...]], list[tuple[int, str]]]:
        """Of `select r, … as e from vals`: the rows that have a value, and of some of the others the errors."""
        ...


def _where(query: exp.Expr, keys: Sequence[int]) -> exp.Expr:
    chosen = exp.Column(this=exp.to_identifier("r")).isin(*keys)
    found = query.copy()
    assert isinstance(found, exp.Select)
    return found.where(chosen, copy=False)


class InDuckdb:
    engine = for_duckdb.ENGINE

    def __init__(self, spark: Any) -> None:
        self.connection = duckdb.connect(config={"memory_limit": "1GB"})
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.register("arrow", spark.table("vals").toArrow())
        casts = ", ".join(
            f"{name}::{in_duckdb(type_)} AS {name}" if in_duckdb(type_) else name for name, type_ in values.columns()
        )
        self.connection.execute(f"create table vals as select {casts} from arrow")
        for name, query in VIEWS.items():
            self.connection.execute(f"create view {name} as {query}")

    def rows(self, query: exp.Expr) -> Sequence[tuple[Any, ...]]:
        try:
            return self.connection.execute(query.sql("duckdb", unsupported_level=ErrorLevel.RAISE)).fetchall()
        except (duckdb.Error, ValueError, OverflowError) as error:
            raise Failed(str(error).splitlines()[0]) from error

    def row_by_row(self, query: exp.Expr) -> tuple[list[tuple[Any, ...]], list[tuple[int, str]]]:
        good: list[tuple[Any, ...]] = []
        bad: list[tuple[int, str]] = []
        self._halves(query, list(range(values.SIDE**2)), good, bad)
        return good, bad

    def _halves(
        self, query: exp.Expr, keys: list[int], good: list[tuple[Any, ...]], bad: list[tuple[int, str]]
    ) -> None:
        """Rows that go together, and single rows that are errors."""
        try:
            good += self.rows(_where(query, keys))
        except Failed as error:
            if len(keys) == 1:
                bad.append((keys[0], str(error)))
                return
            middle = len(keys) // 2
            self._halves(query, keys[:middle], good, bad)
            self._halves(query, keys[middle:], good, bad)


_SAMPLE = 8  # of the rows that are errors, so many are asked for their message


class InTrino:
    """On the tables `vals`, `few` and `tame` of a lake, in a session with a zone of its own."""

    engine = for_trino.ENGINE

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def rows(self, query: exp.Expr) -> Sequence[tuple[Any, ...]]:
        sql = query.sql("trino", identify=True, unsupported_level=ErrorLevel.RAISE)
        try:
            return self._connection.fetchall(sql)
        except (TrinoError, ValueError, OverflowError) as error:
            raise Failed(str(error).splitlines()[0]) from error

    def row_by_row(self, query: exp.Expr) -> tuple[list[tuple[Any, ...]], list[tuple[int, str]]]:
        """TRY makes NULL of an error, but not of one that is made on purpose."""
        tried = query.copy()
        (item,) = tried.expressions[1:]
        value = item.this
        for call in [each for each in item.find_all(exp.Anonymous) if each.name.upper() == "FAIL"]:
            zero = exp.Sub(this=exp.column("r"), expression=exp.column("r"))
            wrong = exp.cast(exp.Div(this=exp.Literal.number(1), expression=exp.paren(zero), typed=True), "boolean")
            call.replace(exp.If(this=wrong, true=exp.Null()))
        value = item.this
        is_null = exp.If(
            this=exp.Is(this=exp.paren(value.copy()), expression=exp.Null()),
            true=exp.Literal.string("null"),
            false=exp.Literal.string("value"),
        )
        known = exp.alias_(exp.Anonymous(this="TRY", expressions=[is_null]), "known")
        item.set("this", exp.Anonymous(this="TRY", expressions=[value.copy()]))
        tried.set("expressions", [*tried.expressions, known])
        found = self.rows(tried)
        good = [(r, e) for r, e, known in found if known is not None]
        wrong_keys = [r for r, _, known in found if known is None]
        bad = []
        for key in wrong_keys[:: max(1, len(wrong_keys) // _SAMPLE)]:
            try:
                self.rows(_where(query, [key]))
            except Failed as error:
                bad.append((key, str(error)))
        return good, bad
