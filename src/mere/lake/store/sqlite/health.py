"""The health of a lake's SQLite file."""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from mere.lake.store.health import PROBE, Condition, Guards, Reaction, Trouble, compare
from mere.lake.store.sqlite.schema import MIGRATIONS
from mere.lake.store.sqlite.store import readable_errors

_BUSY_SECONDS = 5.0
_TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid"
_BACKUP = (
    "Stop all that writes, remove catalog.db-wal and catalog.db-shm, and put back catalog.db from a backup."
    " The tables' files are untouched."
)


class SqliteDatabase:
    def __init__(self, path: Path) -> None:
        self._path = path

    def condition(self) -> Condition:
        with self._opened() as connection:
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
            (schema,) = connection.execute("SELECT value FROM mere_meta WHERE key = 'schema_version'").fetchone()
            defects = [text for (text,) in connection.execute("PRAGMA quick_check(3)") if text != "ok"]
        troubles = [Trouble(f"{self._path} is damaged: {'; '.join(defects)}", _BACKUP, grave=True)] if defects else []
        if mode != "wal":
            troubles.append(
                Trouble(
                    f"{self._path} is not in WAL mode, so readers and writers wait for each other",
                    f'Switch it on: sqlite3 "{self._path}" "PRAGMA journal_mode = WAL"',
                )
            )
        size = self._path.stat().st_size / 1e6
        summary = f"SQLite {sqlite3.sqlite_version}, schema {schema}, {size:.1f} MB, {mode.upper()}"
        return Condition(summary, tuple(troubles))

    def guards(self) -> Guards:
        with self._opened() as connection:
            return compare(_expected(), dict(connection.execute(_TRIGGERS)))

    def provoke(self) -> Reaction:
        name = secrets.token_hex(8)
        with self._opened() as connection, _rolled_back(connection):
            connection.execute(
                "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)"
                " VALUES ('main', ?, ?, 'nowhere')",
                (PROBE, name),
            )
            (journaled,) = connection.execute(
                "SELECT count(*) FROM mere_refs r JOIN mere_changes c ON c.seq = r.head"
                " WHERE r.name = 'main' AND c.name = ?",
                (name,),
            ).fetchone()
            try:
                connection.execute("DELETE FROM iceberg_tables WHERE table_name = ?", (name,))
            except sqlite3.IntegrityError:
                return Reaction(bool(journaled), refused=True)
            return Reaction(bool(journaled), refused=False)

    def mend(self) -> tuple[str, ...]:
        expected = _expected()
        with self._opened() as connection:
            connection.execute("BEGIN IMMEDIATE")  # what is looked at stays so until it is mended
            broken = compare(expected, dict(connection.execute(_TRIGGERS))).broken
            for name in broken:
                connection.execute(f"DROP TRIGGER IF EXISTS {name}")
                connection.execute(expected[name])
            connection.execute("COMMIT")
        return broken

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with readable_errors(self._path):
            uri = self._path.as_uri() + "?mode=rw"
            connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)
            with contextlib.closing(connection):  # which rolls back what was not committed
                yield connection


@contextlib.contextmanager
def _rolled_back(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def _expected() -> dict[str, str]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for script in MIGRATIONS:
            connection.executescript(script)
        return dict(connection.execute(_TRIGGERS))
