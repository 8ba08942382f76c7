"""Fork of a branch with many tables, publish of those that changed, timed inside the process."""

from __future__ import annotations

import sqlite3
import statistics
import time
from contextlib import closing
from pathlib import Path

import mere
from bench.sides.answer import answer
from bench.sides.workload import ROUNDS, Pointer, comparable, workload

INSERT = "INSERT INTO iceberg_tables VALUES ('main', ?, ?, ?, NULL, 'TABLE')"
UPDATE = """
    UPDATE iceberg_tables SET previous_metadata_location = metadata_location, metadata_location = ?
    WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?
"""
MAIN = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables WHERE catalog_name = 'main'"


def write_as_an_engine(database: Path, statement: str, rows: list[tuple[str, ...]]) -> None:
    with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
        connection.executemany(statement, rows)


def moved(branch: str, pointers: list[Pointer]) -> list[tuple[str, ...]]:
    return [(location, branch, namespace, name) for namespace, name, location in pointers]


work, folder = workload(), Path("lake").absolute()
lake = mere.Lake.create(folder)
database, warehouse = folder / "catalog.db", folder / "warehouse"
write_as_an_engine(database, INSERT, list(work.first(warehouse)))

forks, publishes = [], []
for number in range(1, ROUNDS + 1):
    branch = f"dev-{number}"
    started = time.perf_counter()
    lake.branch(branch)
    forks.append(time.perf_counter() - started)
    write_as_an_engine(database, UPDATE, moved(branch, work.changes(warehouse, number)))
    started = time.perf_counter()
    lake.publish(branch)
    publishes.append(time.perf_counter() - started)

with closing(sqlite3.connect(database)) as connection:
    main = comparable(connection.execute(MAIN))
answer(main, fork=statistics.median(forks), publish=statistics.median(publishes))
