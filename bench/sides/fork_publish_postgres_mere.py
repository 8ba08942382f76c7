"""Fork and publish with the catalog in Postgres, timed inside the process."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import psycopg

import mere
from bench.sides.answer import answer
from bench.sides.server import running
from bench.sides.workload import ROUNDS, comparable, workload

INSERT = "INSERT INTO iceberg_tables VALUES ('main', %s, %s, %s, NULL, 'TABLE')"
UPDATE = """
    UPDATE iceberg_tables SET previous_metadata_location = metadata_location, metadata_location = %s
    WHERE catalog_name = %s AND table_namespace = %s AND table_name = %s
"""
MAIN = "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables WHERE catalog_name = 'main'"

work, folder = workload(), Path("lake").absolute()
with running() as url:
    lake = mere.Lake.create(folder, catalog=url)
    warehouse = folder / "warehouse"
    forks, publishes = [], []
    with psycopg.connect(url, autocommit=True) as engine:
        with engine.transaction(), engine.cursor() as cursor:
            cursor.executemany(INSERT, list(work.first(warehouse)))
        for number in range(1, ROUNDS + 1):
            branch = f"dev-{number}"
            started = time.perf_counter()
            lake.branch(branch)
            forks.append(time.perf_counter() - started)
            moved = [
                (location, branch, namespace, name) for namespace, name, location in work.changes(warehouse, number)
            ]
            with engine.transaction(), engine.cursor() as cursor:
                cursor.executemany(UPDATE, moved)
            started = time.perf_counter()
            lake.publish(branch)
            publishes.append(time.perf_counter() - started)
        main = comparable(iter(engine.execute(MAIN)))
    lake.close()
answer(main, fork=statistics.median(forks), publish=statistics.median(publishes))
