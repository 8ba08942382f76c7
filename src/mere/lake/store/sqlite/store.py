"""The lake on one SQLite file: the embedded default."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from mere.errors import CatalogLost, LakeError, LakeNotFound, LakeTooNew, LakeUnreadable
from mere.installing import pip_install
from mere.lake.log.commits import Key
from mere.lake.storage import room
from mere.lake.storage.room import Snapshot
from mere.lake.store import leases
from mere.lake.store.connections import Connections
from mere.lake.store.port import Lease
from mere.lake.store.rows import Given, Row, Tx
from mere.lake.store.sql import SqlStore, begin
from mere.lake.store.sqlite.schema import MIGRATIONS, NOW, READABLE
from mere.lake.store.wholeness import damaged, require_whole, tables_of

MAKE = "Make one with: mere init"
BUSY_SECONDS = 30.0
_PARAMETERS = 30_000  # SQLite allows 32,766
# WAL needs shared memory between all who open the file; over these it corrupts instead of failing.
_NETWORK_FILE_SYSTEMS = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "afs",
    "ceph",
    "glusterfs",
    "fuse.sshfs",
    "fuse.s3fs",
}


class _SqliteTx:
    def __init__(self, connection: sqlite3.Connection, clock: str) -> None:
        self._connection = connection
        self.clock = clock

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(sql, parameters).fetchall()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return self._connection.execute(sql, parameters).rowcount

    def rows_for(self, sql: str, given: Given) -> list[Row]:
        return [row for part, values in _relations(given) for row in self.rows(sql.format(given=part), values)]

    def run_for(self, sql: str, given: Given) -> int:
        return sum(self.run(sql.format(given=part), values) for part, values in _relations(given))

    def insert(self, sql: str, parameters: Sequence[Any], column: str) -> int:  # noqa: ARG002 - the row's own number
        return self._connection.execute(sql, parameters).lastrowid or 0


def _relations(given: Given) -> Iterator[tuple[str, list[Any]]]:
    """The rows as relations, with their parameters; of those, a statement has only so many."""
    names = ", ".join(f"column{at} AS {name}" for at, name in enumerate(given.columns, start=1))
    places = f"({', '.join('?' * len(given.columns))})"
    size = _PARAMETERS // len(given.columns)
    for rows in (given.rows[start : start + size] for start in range(0, len(given.rows), size)):
        listed = ", ".join([places] * len(rows))
        yield f"(SELECT {names} FROM (VALUES {listed})) AS given", [value for row in rows for value in row]


class SqliteStore(SqlStore):
    clock = NOW
    shares_clock = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connections = Connections(lambda: _connect(path), lambda opened: not isinstance(opened, Snapshot))
        with self._read() as tx:
            meta: dict[str, str] = dict(tx.rows("SELECT key, value FROM mere_meta"))
        self.root = meta["root"]
        self.lake_id = meta["lake_id"]

    @classmethod
    def create(cls, path: Path, root: str, author: str) -> SqliteStore:
        """Make the database beside its name and move it there whole: a crash leaves nothing that looks like a lake."""
        _refuse_network(path.parent)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with contextlib.closing(sqlite3.connect(draft)) as connection:
                _migrate(connection)
                with _transaction(connection, "BEGIN IMMEDIATE"):
                    begin(_SqliteTx(connection, cls.clock), root, author)
            os.link(draft, path)
        except FileExistsError as error:
            raise LakeError(f"There is already a lake at {path.parent}.") from error
        except (sqlite3.Error, OSError) as error:
            why = room.describe(path) if room.is_lacking(error) else f"{error}."
            raise LakeUnreadable(f"No lake could be made at {path.parent}: {why}") from error
        finally:
            draft.unlink(missing_ok=True)
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> SqliteStore:
        _require_file(path)
        _refuse_network(path.parent)
        with readable_errors(path), contextlib.closing(_connect(path)) as connection:
            version = _require_mere(path, connection)
            if version > len(MIGRATIONS):
                raise LakeTooNew(
                    f"{path} was written by a newer mere (schema {version}; this one knows {len(MIGRATIONS)})."
                    " Nothing was changed.",
                    remedy=f"Upgrade: {pip_install('--upgrade', 'mere')}",
                )
            if version < len(MIGRATIONS) and (_is_writable(path) or version < READABLE):
                _migrate(connection)
        return cls(path)

    def close(self) -> None:
        self._connections.close()

    @property
    def place(self) -> str:
        return f"the SQLite file {self.path.name}"

    def database(self) -> None:
        """There is none but the file."""

    def destroy(self) -> list[Lease]:
        with readable_errors(self.path):
            connection = self._connection
            if isinstance(connection, Snapshot):
                raise _no_room(self.path)
            connection.execute("BEGIN IMMEDIATE")  # nobody writes meanwhile
            try:
                if found := leases.held(_SqliteTx(connection, self.clock)):
                    return found
                for end in ("", "-wal", "-shm"):
                    self.path.with_name(self.path.name + end).unlink(missing_ok=True)
            except OSError as error:
                raise LakeUnreadable(f"{self.path} cannot be deleted: {error.strerror}.") from error
            finally:
                connection.execute("ROLLBACK")
        return []

    @property
    def jdbc(self) -> dict[str, str]:
        """How engines on the JVM find it."""
        return {"uri": f"jdbc:sqlite:{self.path}?journal_mode=WAL&busy_timeout=30000&synchronous=FULL"}

    @property
    def sqlalchemy_url(self) -> str:
        """How PyIceberg finds it."""
        return f"sqlite:///{self.path}?timeout=30"

    @property
    def _connection(self) -> sqlite3.Connection:
        return self._connections.mine()

    @contextlib.contextmanager
    def _read(self) -> Iterator[Tx]:
        with readable_errors(self.path):
            connection = self._connection
            with _transaction(connection, "BEGIN"):
                yield _SqliteTx(connection, self.clock)

    @contextlib.contextmanager
    def _statement(self) -> Iterator[Tx]:
        with readable_errors(self.path):
            yield _SqliteTx(self._connection, self.clock)

    @contextlib.contextmanager
    def _write(self, *, frozen: bool = False) -> Iterator[Tx]:  # noqa: ARG002 - every transaction is
        with readable_errors(self.path):
            connection = self._connection
            if isinstance(connection, Snapshot):
                raise _no_room(self.path)
            with _transaction(connection, "BEGIN IMMEDIATE"):
                connection.execute("INSERT INTO mere_writer (pid) VALUES (?)", (os.getpid(),))
                yield _SqliteTx(connection, self.clock)
                connection.execute("DELETE FROM mere_writer")

    def _lock(self, tx: Tx, refs: Collection[str], keys: Collection[Key] = (), target: str = "") -> None:
        """SQLite lets one transaction write at a time: all is locked already."""

    def _lock_all(self, tx: Tx, table: str) -> None:
        """As above."""

    def _settle(self) -> None:
        # Without this a copy of the database file alone could be empty. A reader may hold it off, or the disk be full:
        # the commit is durable all the same, and the next one tries again.
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA busy_timeout = 200")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        self._connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _connect(path: Path) -> sqlite3.Connection:
    if os.statvfs(path).f_flag & os.ST_RDONLY and _wal_is_empty(path):
        # WAL wants to write beside the file even to read it; on a disk that nobody can change it needs no WAL.
        uri = path.as_uri() + "?mode=ro&immutable=1"
    elif _is_writable(path):
        uri = path.as_uri() + "?mode=rw"
    else:
        uri = path.as_uri() + "?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()  # whether there is room for what WAL needs
    except sqlite3.Error as error:
        connection.close()
        if room.is_lacking(error):
            return room.snapshot(path, BUSY_SECONDS)
        raise
    return connection


def _is_writable(path: Path) -> bool:
    return os.access(path.parent, os.W_OK) and os.access(path, os.W_OK)


def _wal_is_empty(path: Path) -> bool:
    wal = path.with_name(path.name + "-wal")
    return not wal.exists() or wal.stat().st_size == 0


def _require_file(path: Path) -> None:
    if not os.path.lexists(path):
        raise LakeNotFound(f"There is no lake at {path.parent}: it has no {path.name}.", remedy=MAKE)
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "a link that leads nowhere" if path.is_symlink() else "not a file"
        raise CatalogLost(f"{path} is {kind}, and the catalog of a lake is a file. Nothing was changed.")
    if not path.stat().st_size:
        raise CatalogLost(f"{path} is empty, so it is no longer the catalog of a lake. Nothing was changed.")


def _require_mere(path: Path, connection: sqlite3.Connection) -> int:
    """The version of its schema."""
    found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not found & {table for table in tables_of(MIGRATIONS) if table.startswith("mere_")}:
        raise CatalogLost(f"{path} is a SQLite database, but not the catalog of a mere lake. Nothing was changed.")
    version = _version(connection) if "mere_meta" in found else None
    expected = tables_of(MIGRATIONS[:version])
    require_whole(path, expected, found, lambda query: connection.execute(query).fetchall())
    assert version is not None  # or rows of mere_meta were missed
    return version


def _version(connection: sqlite3.Connection) -> int | None:
    found = connection.execute("SELECT value FROM mere_meta WHERE key = 'schema_version'").fetchone()
    return int(found[0]) if found else None


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the database to the newest schema, in one transaction; another process may have been quicker."""
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode = WAL").fetchone()
    with _transaction(connection, "BEGIN IMMEDIATE"):
        known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'mere_meta'").fetchone()
        version = (_version(connection) if known else None) or 0
        for script in MIGRATIONS[version:]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(
            "INSERT OR REPLACE INTO mere_meta (key, value) VALUES ('schema_version', ?)",
            (str(len(MIGRATIONS)),),
        )


def _statements(script: str) -> Iterator[str]:
    """`executescript` would commit the transaction it is called in."""
    statement = ""
    for part in script.split(";"):
        statement += part + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _refuse_network(folder: Path) -> None:
    kind = _file_system(folder)
    if kind in _NETWORK_FILE_SYSTEMS:
        raise LakeUnreadable(
            f"{folder} is on a network file system ({kind}), where SQLite can corrupt its file.",
            remedy="Keep the lake on a local disk, or use Postgres for a lake that is shared.",
        )


def _file_system(folder: Path) -> str | None:
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return None
    inside = [m for m in mounts if folder.is_relative_to(m[1].replace("\\040", " "))]
    return max(inside, key=lambda mount: len(mount[1]))[2] if inside else None


def _no_room(path: Path) -> LakeUnreadable:
    return LakeUnreadable(f"{room.describe(path)} Nothing was changed.", remedy=room.REMEDY)


def _is_older(path: Path) -> bool:
    with contextlib.suppress(sqlite3.Error), contextlib.closing(_connect(path)) as connection:
        return (_version(connection) or 0) < len(MIGRATIONS)
    return False


@contextlib.contextmanager
def readable_errors(path: Path) -> Iterator[None]:
    """SQLite's errors as sentences. All of them leave the database as it was."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise LakeUnreadable(
                f"{path} stayed locked by another process for {BUSY_SECONDS:.0f} s. Nothing was changed.",
                remedy="Wait for the other process to finish, or end it, and try again.",
            ) from error
        if room.is_lacking(error):
            raise _no_room(path) from error
        if text == "no such table: mere_runs" and _is_older(path):
            raise LakeUnreadable(
                f"{path} was made by an older mere, which kept no history of runs, and cannot be written to.",
                remedy="Open it once where it can be written.",
            ) from error
        if "no such table: " in text:
            raise damaged(path, f"its table {text.rpartition(': ')[2]} is missing") from error
        if "readonly" in text or "unable to open" in text:
            raise LakeUnreadable(
                f"{path} cannot be written: {text}. Nothing was changed.",
                remedy="Check the permissions of the folder and its files.",
            ) from error
        if "malformed" in text or "not a database" in text:
            raise CatalogLost(
                f"{path} is damaged: {text}.",
                remedy="Remove catalog.db-wal and catalog.db-shm, which belong to it, and put back catalog.db from a"
                " backup. The tables' files are untouched.",
            ) from error
        if isinstance(error, sqlite3.OperationalError):
            raise LakeUnreadable(f"{path}: {text}. Nothing was changed.") from error
        raise
