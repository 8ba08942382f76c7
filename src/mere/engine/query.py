"""`mere sql --spark`: a query that the running Spark server answers at one commit of a ref."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mere.engine.session import Session, session_on_server
from mere.engine.statement import Statement, read
from mere.engine.translate import explain, is_from_spark
from mere.errors import InvalidName, MereError, QueryError, RefNotFound, SparkFailed
from mere.lake.query.errors import excerpt
from mere.names import TableName, near
from mere.sql.edits import Edits, edited, original

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from mere.lake.lake import Lake
    from mere.lake.log.commits import Commit
    from mere.lake.query.tables import TableSet
    from mere.sparkconfig import SparkSettings

_NO_TABLE = re.compile(r"The table or view ((?:`[^`]*`\.)*`[^`]*`) cannot be found")
# The types of which pyarrow makes no Python values.
_TEXT_ONLY = ("interval year", "interval month", "variant")


@dataclass(frozen=True)
class Column:
    name: str
    type: str  # in Spark's words, in capitals


class Result:
    """The rows of a query, fetched as they are taken. It can be read once."""

    def __init__(self, frame: DataFrame, commit: Commit) -> None:
        self.commit = commit
        self.columns = tuple(Column(field.name, field.dataType.simpleString().upper()) for field in frame.schema)
        self._frame = _readable(frame)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows as Python values; times with a zone are in the session's."""
        for batch in self.batches():
            yield from zip(*map(_values, batch.columns), strict=True)

    def batches(self) -> Iterator[pa.Table]:
        frame: Any = self._frame
        client = frame.sparkSession.client
        found = client.to_table_as_iterator(frame._plan.to_proto(client), frame._plan.observations)
        return (each for each in found if hasattr(each, "columns"))  # the schema comes first


def _readable(frame: DataFrame) -> DataFrame:
    """With texts for what Arrow gives no Python value for."""
    types = [field.dataType.simpleString() for field in frame.schema]
    if not any(kind in each for kind in _TEXT_ONLY for each in types):
        return frame
    numbered = frame.toDF(*map(str, range(len(types))))  # two columns may have one name
    cast = {at for at, each in enumerate(types) if any(kind in each for kind in _TEXT_ONLY)}
    return numbered.selectExpr(*(f"CAST(`{at}` AS STRING)" if at in cast else f"`{at}`" for at in range(len(types))))


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        found: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
        return found
    except (OverflowError, ValueError) as error:
        raise QueryError(
            f"A value of type {column.type} is out of Python's range: {error}.", remedy="Cast the column to STRING."
        ) from error


@contextmanager
def query(lake: Lake, sql: str, at: str = "main", settings: SparkSettings | None = None) -> Iterator[Result]:
    """Run one statement that reads. Names without a ref are read at `at`; all refs are read at one instant."""
    statement = read(sql)
    sets = lake.at_each({at: None, **dict.fromkeys(_refs(lake, statement))})
    commit = sets[at].commit
    with session_on_server(lake, commit.id, settings=settings) as opened:
        edits = [*statement.harmless, *_attached(opened, statement, sets)]
        try:
            yield Result(opened.spark.sql(edited(sql, edits)), commit)
        except Exception as exc:
            if is_from_spark(exc):
                raise _explained(explain(exc), statement, edits, sets, at) from exc
            raise


def _refs(lake: Lake, statement: Statement) -> Iterator[str]:
    """The first parts of names that are refs. One that is none may be a column's table: Spark will say."""
    for first in {name.parts[0] for name in statement.names if len(name.parts) > 2}:
        try:
            lake.resolve(first)
        except (RefNotFound, InvalidName):
            continue
        yield first


def _attached(opened: Session, statement: Statement, sets: dict[str, TableSet]) -> Iterator[tuple[int, int, str]]:
    """Each ref that the query names becomes a catalog: by what its name is replaced."""
    for name in statement.names:
        ref, *rest = name.parts
        if ref in sets and not _tables_in(rest).isdisjoint(map(str, sets[ref])):
            yield (*name.spans[0], f"`{opened.attach(sets[ref].commit.id)}`")


def _tables_in(parts: Sequence[str]) -> set[str]:
    """What follows a ref may end with a column, and a schema may lie in another."""
    return {".".join(parts[:end]) for end in range(2, len(parts) + 1)}


def _explained(
    failure: SparkFailed, statement: Statement, edits: Edits, sets: dict[str, TableSet], at: str
) -> MereError:
    position = original(_offset(edited(statement.sql, edits), failure), edits)
    where = f"\n{excerpt(statement.sql, position)}" if position is not None else ""
    missing = _NO_TABLE.search(failure.problem)
    if missing is None:
        problem = failure.problem if where else failure.message
        return QueryError(f"{problem.rstrip('.')}.{where}", remedy=failure.remedy)
    ref, *parts = missing[1].strip("`").split("`.`")
    if ref not in sets:
        ref, parts = at, [ref, *parts]
    suggestion = near(parts[-1], sets[ref], by=_name)
    return QueryError(
        f"There is no table {'.'.join(parts)} on {ref}.{suggestion}{where}", remedy=f"See: mere tables --at {ref}"
    )


def _name(table: TableName) -> str:
    return table.name


def _offset(text: str, failure: SparkFailed) -> int | None:
    """Where in the text it failed, in bytes."""
    if failure.line is None or failure.column is None:
        return None
    lines = text.split("\n")
    before = "\n".join([*lines[: failure.line - 1], lines[failure.line - 1][: failure.column - 1]])
    return len(before.encode())
