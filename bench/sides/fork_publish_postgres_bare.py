"""The floor: bare Postgres transactions that write as many rows, and nothing else."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg

from bench.sides.answer import answer
from bench.sides.server import running
from bench.sides.workload import ROUNDS, comparable, workload

SCHEMA = """
    CREATE TABLE pointers (ref TEXT, namespace TEXT, name TEXT, location TEXT, previous TEXT, type TEXT,
        PRIMARY KEY (ref, namespace, name));
    CREATE TABLE changes (version INTEGER, namespace TEXT, name TEXT, old TEXT, new TEXT);
"""
INSERT = "INSERT INTO pointers VALUES (%s, %s, %s, %s, NULL, 'TABLE')"
UPDATE = "UPDATE pointers SET location = %s WHERE ref = %s AND namespace = %s AND name = %s"
LOG = "INSERT INTO changes VALUES (%s, %s, %s, %s, %s)"
MAIN = "SELECT namespace, name, location FROM pointers WHERE ref = 'main'"


def transaction(connection: psycopg.Connection, *writes: tuple[bytes, Sequence[tuple[object, ...]]]) -> float:
    started = time.perf_counter()
    with connection.transaction(), connection.cursor() as cursor:
        for statement, rows in writes:
            cursor.executemany(statement, rows)
    return time.perf_counter() - started


work, folder = workload(), Path("lake").absolute()
forks, publishes = [], []
with running() as url, psycopg.connect(url, autocommit=True) as connection:
    connection.execute(SCHEMA)
    main = {(namespace, name): location for namespace, name, location in work.first(folder)}
    transaction(connection, (INSERT.encode(), [("main", *key, location) for key, location in main.items()]))
    for number in range(1, ROUNDS + 1):
        branch = f"dev-{number}"
        forks.append(transaction(connection, (INSERT.encode(), [(branch, *key, main[key]) for key in main])))
        new = work.changes(folder, number)
        transaction(connection, (UPDATE.encode(), [(location, branch, *key) for *key, location in new]))
        moves = [(location, "main", namespace, name) for namespace, name, location in new]
        log = [(number, namespace, name, main[namespace, name], location) for namespace, name, location in new]
        publishes.append(transaction(connection, (UPDATE.encode(), moves), (LOG.encode(), log)))
        main |= {(namespace, name): location for namespace, name, location in new}
    result = comparable(iter(connection.execute(MAIN)))
answer(result, fork=statistics.median(forks), publish=statistics.median(publishes))
