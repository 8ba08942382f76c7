"""A Trino for one run of a side, on the tables of a lake's catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests.services.trino import Connection, Trino

__all__ = ["Connection", "running"]

# Its file system for this machine reads file:///… and nothing without a scheme.
_CATALOG = """\
CREATE CATALOG main USING iceberg WITH (
  "iceberg.catalog.type" = 'jdbc',
  "iceberg.jdbc-catalog.catalog-name" = 'main',
  "iceberg.jdbc-catalog.driver-class" = 'org.sqlite.JDBC',
  "iceberg.jdbc-catalog.connection-url" = 'jdbc:sqlite:{catalog}',
  "iceberg.jdbc-catalog.default-warehouse-dir" = 'file://{folder}',
  "fs.native-local.enabled" = 'true',
  "local.location" = '/'
)
"""


@contextmanager
def running(folder: Path, catalog: Path) -> Iterator[int]:
    """Its port. It has the tables of `main` in a catalog that is a SQLite file; what it writes is in the folder."""
    server = Trino(folder)  # with a heap as large as what Postgres has for its buffers
    server.start()
    try:
        with closing(server.connect()) as connection:
            connection.fetchall(_CATALOG.format(catalog=catalog, folder=folder))
        yield server.port
    finally:
        server.stop()
