"""The same tables on a branch of a lake, which `mere serve`, a process of its own, serves."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import mere
from bench.sides import catalogs, served
from bench.sides.answer import answer

INSERT = "INSERT INTO iceberg_tables VALUES ('dev', ?, ?, ?, NULL, 'TABLE')"
folder = Path("lake").absolute()
with mere.Lake.create(folder) as lake:
    lake.branch("dev")
    files = catalogs.metadata_files(Path(lake.warehouse))
    with closing(sqlite3.connect(folder / "catalog.db", timeout=30)) as connection, connection:
        connection.executemany(INSERT, [(catalogs.NAMESPACE, name, file) for name, file in files.items()])
with served.rest(folder) as uri, catalogs.java() as java:
    properties = {"type": "rest", "uri": uri, "warehouse": "dev", "rest-metrics-reporting-enabled": "false"}
    result, times = catalogs.measured(java, properties, commit_together=True)
answer(result, **times)
