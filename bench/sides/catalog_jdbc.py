"""Iceberg's JdbcCatalog on a SQLite file, without a lake."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from bench.sides import catalogs
from bench.sides.answer import answer
from mere.lake.store.sqlite.schema import CATALOG

INSERT = "INSERT INTO iceberg_tables VALUES ('main', ?, ?, ?, NULL, 'TABLE')"
database = Path("catalog.db").absolute()
files = catalogs.metadata_files(Path("warehouse").absolute())
with closing(sqlite3.connect(database)) as connection, connection:
    connection.executescript(CATALOG)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executemany(INSERT, [(catalogs.NAMESPACE, name, file) for name, file in files.items()])
with catalogs.java() as java:
    properties = {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{database}?journal_mode=WAL&busy_timeout=30000&synchronous=FULL",
        "jdbc.schema-version": "V1",
        "warehouse": str(Path("warehouse").absolute()),
    }
    result, times = catalogs.measured(java, properties, commit_together=False)
answer(result, **times)
