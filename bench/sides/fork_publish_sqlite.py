"""The floor: bare SQLite transactions that write as many rows, and nothing else.

A fork writes a row a table. A publish writes, for each changed table, its pointer and a line of the log.
"""

from __future__ import annotations

import sqlite3
import statistics
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from bench.sides.answer import answer
from bench.sides.workload import ROUNDS, comparable, workload

SCHEMA = """
    CREATE TABLE pointers (ref TEXT, namespace TEXT, name TEXT, location TEXT, previous TEXT, type TEXT,
        PRIMARY KEY (ref, namespace, name));
    CREATE TABLE changes (version INTEGER, namespace TEXT, name TEXT, old TEXT, new TEXT);
"""
INSERT = "INSERT INTO pointers VALUES (?, ?, ?, ?, NULL, 'TABLE')"
UPDATE = "UPDATE pointers SET location = ? WHERE ref = ? AND namespace = ? AND name = ?"
LOG = "INSERT INTO changes VALUES (?, ?, ?, ?, ?)"


def transaction(connection: sqlite3.Connection, *writes: tuple[str, Iterable[tuple[object, ...]]]) -> float:
    started = time.perf_counter()
    connection.execute("BEGIN IMMEDIATE")
    for statement, rows in writes:
        connection.executemany(statement, rows)
    connection.execute("COMMIT")
    return time.perf_counter() - started


work, folder = workload(), Path("lake").absolute()
folder.mkdir()
forks, publishes = [], []
with closing(sqlite3.connect(folder / "catalog.db", isolation_level=None)) as connection:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(SCHEMA)
    main = {(namespace, name): location for namespace, name, location in work.first(folder)}
    transaction(connection, (INSERT, [("main", *key, location) for key, location in main.items()]))
    for number in range(1, ROUNDS + 1):
        branch = f"dev-{number}"
        forks.append(transaction(connection, (INSERT, [(branch, *key, main[key]) for key in main])))
        new = work.changes(folder, number)
        transaction(connection, (UPDATE, [(location, branch, *key) for *key, location in new]))
        moves = [(location, "main", namespace, name) for namespace, name, location in new]
        log = [(number, namespace, name, main[namespace, name], location) for namespace, name, location in new]
        publishes.append(transaction(connection, (UPDATE, moves), (LOG, log)))
        main |= {(namespace, name): location for namespace, name, location in new}
    rows = connection.execute("SELECT namespace, name, location FROM pointers WHERE ref = 'main'")
    result = comparable(rows)
answer(result, fork=statistics.median(forks), publish=statistics.median(publishes))
