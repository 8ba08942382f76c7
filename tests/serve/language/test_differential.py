"""Generated queries, asked of the gateway with psycopg and of Spark: no difference.

Over tables of all types, with deleted rows, with columns that were added, renamed, widened and dropped, in partitions
that changed, and at an old commit.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from mere.engine.session import Session
from mere.lake.lake import Lake
from mere.serve.protocol import types
from mere.serve.session.backend import LakeBackend
from tests.serve import varied
from tests.serve.generated import Generator, Query, spark_name
from tests.serve.served import served

QUERIES = 120  # of a seed
SEEDS = [(1, 50), (2, 50), *(pytest.param(seed, QUERIES, marks=pytest.mark.long) for seed in range(1, 43))]
# For a hundred rows, Spark needs neither compiled code nor several tasks, which take longer than the query.
AT_ONCE = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


@dataclass(frozen=True)
class Both:
    spark: Any
    connections: dict[str, psycopg.Connection]  # of the gateway, by ref


@pytest.fixture(scope="module")
def both(warm_jvm: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    from mere import session

    with ExitStack() as stack:
        lake = stack.enter_context(Lake.create(tmp_path_factory.mktemp("differential") / "lake"))
        spark = stack.enter_context(session(lake, "main"))
        varied.write(lake, spark)
        for name, value in AT_ONCE.items():
            spark.spark.conf.set(name, value)
        read_once(spark)
        running = stack.enter_context(served(LakeBackend(lake)))
        # The old commit by its id, for which Spark has a tag.
        databases = {"main": "main", "first": lake.resolve("first").commit.id}
        connections = {
            ref: stack.enter_context(psycopg.connect(running.dsn(name), autocommit=True))
            for ref, name in databases.items()
        }
        yield Both(spark.spark, connections)


def read_once(session: Session) -> None:
    """Spark keeps what it reads: it is the gateway whose reading is tried."""
    for ref, tables in varied.TABLES.items():
        catalog = session.attach(ref)
        for table in tables:
            rows = session.spark.table(f"`{catalog}`.{table}")
            rows.coalesce(1).cache().createOrReplaceTempView(spark_name(ref, table))


def comparable(value: Any, oid: int) -> Any:
    """The same for what is the same in both."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | Decimal):
        return f"{Decimal(value):f}".rstrip("0").rstrip(".") if "." in f"{Decimal(value):f}" else str(int(value))
    if isinstance(value, float):
        shown = struct.unpack("f", struct.pack("f", value))[0] if oid == types.FLOAT4 else value
        return "NaN" if math.isnan(shown) else repr(shown)
    if isinstance(value, dt.datetime):
        return str(value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if hasattr(value, "asDict"):
        return comparable(value.asDict(), oid)
    if isinstance(value, dict):
        return {key: comparable(each, oid) for key, each in value.items()}
    return [comparable(each, oid) for each in value] if isinstance(value, list) else str(value)


def difference(both: Both, ref: str, query: Query) -> str | None:
    """What is told of a query whose answers are not the same."""
    try:
        cursor = both.connections[ref].execute(query.ours.encode())
        ours = cursor.fetchall()
    except psycopg.Error as error:
        return f"The gateway: {error}\n{query.ours}"
    oids = [each.type_code for each in cursor.description or ()]
    found = shown(ours, oids, query.ordered)
    wanted = shown([tuple(row) for row in both.spark.sql(query.spark).collect()], oids, query.ordered)
    if found == wanted:
        return None
    only = [[each for each in one if each not in other][:3] for one, other in ((found, wanted), (wanted, found))]
    return f"Gateway, {len(found)} rows: {only[0]}\nSpark, {len(wanted)}: {only[1]}\n{query.ours}\n{query.spark}"


def shown(rows: Sequence[tuple[Any, ...]], oids: Sequence[int], ordered: bool) -> list[str]:
    found = [json.dumps([comparable(*each) for each in zip(row, oids, strict=True)], sort_keys=True) for row in rows]
    return found if ordered else sorted(found)


@pytest.mark.parametrize(("ref", "table"), [(ref, table) for ref, tables in varied.TABLES.items() for table in tables])
def test_every_table_has_the_same_columns_and_rows(both: Both, ref: str, table: str) -> None:
    rows = both.spark.table(spark_name(ref, table))
    everything = Query(f"SELECT * FROM {table}", f"SELECT * FROM {spark_name(ref, table)}")
    assert difference(both, ref, everything) is None
    columns = both.connections[ref].execute(f"SELECT * FROM {table} LIMIT 0".encode()).description or ()
    assert [each.name for each in columns] == rows.columns
    assert set(rows.columns) == set(varied.TABLES[ref][table])


@pytest.mark.parametrize(("seed", "queries"), SEEDS)
def test_generated_queries_have_the_same_answers(both: Both, seed: int, queries: int) -> None:
    ref = "first" if seed % 4 == 2 else "main"
    generator = Generator(seed, ref, varied.TABLES[ref])
    wrong = [each for each in (difference(both, ref, generator.query()) for _ in range(queries)) if each is not None]
    assert not wrong, f"{len(wrong)} of {queries}:\n\n" + "\n\n".join(wrong[:5])
