"""The lake on Postgres: for a team, and for engines on more than one machine."""

from __future__ import annotations

import contextlib
import functools
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import urlsplit, urlunsplit

from mere.errors import LakeError, LakeNotFound, LakeTooNew, LakeUnreadable, RefExists
from mere.lake.commits import Commit, Key, Space
from mere.lake.connections import Connections
from mere.lake.port import Edit
from mere.lake.postgres_schema import MIGRATIONS
from mere.lake.refs import Ref, RefKind
from mere.lake.rows import Row, Tx, stamp
from mere.lake.sql import SqlStore

if TYPE_CHECKING:
    import psycopg

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPTS = 6
_IDLE_MS = 15_000
_PAUSE = 0.1  # before the second attempt; twice as long before each further one


class _Lost(Exception):
    """The connection broke, or the database asks to try again. Never leaves this module."""


class _PostgresTx:
    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(_query(sql), parameters).fetchall()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return self._connection.execute(_query(sql), parameters).rowcount

    def run_many(self, sql: str, parameters: Sequence[Sequence[Any]]) -> int:
        if not parameters:
            return 0
        with self._connection.cursor() as cursor:
            cursor.executemany(_query(sql), parameters)
            return cursor.rowcount

    def insert(self, sql: str, parameters: Sequence[Any], column: str) -> int:
        return int(self.rows(f"{sql} RETURNING {column}", parameters)[0][0])


@functools.cache
def _query(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()


def _retried(method: Callable[P, T]) -> Callable[P, T]:
    """For what can be done twice: after a lost connection it is done again, with growing pauses."""

    @functools.wraps(method)
    def again(*arguments: P.args, **options: P.kwargs) -> T:
        for attempt in range(_ATTEMPTS):
            try:
                return method(*arguments, **options)
            except _Lost as lost:
                if attempt == _ATTEMPTS - 1:
                    raise _unreachable(getattr(arguments[0], "url", ""), lost) from lost.__cause__
                time.sleep(_PAUSE * 2**attempt)
        raise AssertionError

    return again


class PostgresStore(SqlStore):
    """Each thread has a connection of its own. Readers see one state for the length of a transaction; writers lock
    rows of tables first, in the order of their names, and rows of refs then, as the triggers do for engines."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connections = Connections(lambda: _connect(url), lambda connection: not connection.closed)
        self.root, self.lake_id = self._identity()

    @classmethod
    def create(cls, url: str, root: str, author: str) -> PostgresStore:
        """Make mere's tables in the database that the URL names; the Iceberg catalog's too, if they are not there."""
        with _opened(url) as connection:
            if _version(connection) is not None:
                raise LakeError(f"There is already a lake in {_shown(url)}.")
            _migrate(connection, 0)
            _start(connection, root, author)
        return cls(url)

    @classmethod
    def open(cls, url: str) -> PostgresStore:
        with _opened(url) as connection:
            version = _version(connection)
            if version is None:
                raise LakeNotFound(f"There is no lake in {_shown(url)}.", remedy="Make one with: mere init")
            if version > len(MIGRATIONS):
                raise LakeTooNew(
                    f"{_shown(url)} was written by a newer mere (schema {version}; this one knows {len(MIGRATIONS)})."
                    " Nothing was changed.",
                    remedy="Upgrade: pip install --upgrade mere",
                )
            _migrate(connection, version)
        return cls(url)

    def close(self) -> None:
        self._connections.close()

    @_retried
    def _identity(self) -> tuple[str, str]:
        with self._read() as tx:
            meta: dict[str, str] = dict(tx.rows("SELECT key, value FROM mere_meta"))
        return meta["root"], meta["lake_id"]

    # transactions

    @property
    def _connection(self) -> psycopg.Connection[Row]:
        return self._connections.mine()

    @contextlib.contextmanager
    def _read(self) -> Iterator[Tx]:
        with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as tx:
            yield tx

    @contextlib.contextmanager
    def _write(self, *, frozen: bool = False) -> Iterator[Tx]:
        level = "REPEATABLE READ" if frozen else "READ COMMITTED"
        with self._transaction(f"BEGIN ISOLATION LEVEL {level}") as tx:
            tx.rows("SELECT set_config('mere.writer', 'on', true)")
            yield tx

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[Tx]:
        with _lost_connections():
            connection = self._connection
            connection.execute(begin.encode())
            try:
                yield _PostgresTx(connection)
                connection.execute(b"COMMIT")
            except BaseException:
                with contextlib.suppress(Exception):
                    connection.execute(b"ROLLBACK")
                raise

    def _settle(self) -> None:
        """A commit is durable when Postgres says so."""

    def _lock(self, tx: Tx, refs: Collection[str], keys: Collection[Key] = (), target: str = "") -> None:
        wanted = sorted(keys)
        for table, namespace, name, space in (
            ("iceberg_tables", "table_namespace", "table_name", Space.RELATION),
            ("iceberg_namespace_properties", "namespace", "property_key", Space.PROPERTY),
        ):
            some = [key for key in wanted if key.space is space]
            tx.rows(
                f"SELECT 1 FROM {table} WHERE catalog_name = ANY(?) OR (catalog_name = ? AND ({namespace}, {name}) IN"
                f" (SELECT * FROM unnest(?::text[], ?::text[])))"
                f" ORDER BY catalog_name, {namespace}, {name} FOR UPDATE",
                (list(refs), target, [key.namespace for key in some], [key.name for key in some]),
            )
        tx.rows("SELECT 1 FROM mere_refs WHERE name = ANY(?) ORDER BY name FOR UPDATE", ([*refs, target],))

    def _lock_all(self, tx: Tx, table: str) -> None:
        tx.run(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE")

    # what is not simply done again

    def commit(self, edit: Edit) -> Commit:
        """A lost reply may belong to a commit that happened: the database is asked before anything is repeated."""
        for attempt in range(_ATTEMPTS):
            try:
                return super().commit(edit)
            except _Lost as lost:
                time.sleep(_PAUSE * 2**attempt)
                if found := self.commits_by_prefix(edit.id):
                    return self.with_changes(found)[0]
                last = lost
        raise _unreachable(self.url, last) from last.__cause__

    def create_ref(self, name: str, kind: RefKind, at: Commit, author: str, parent: str | None) -> Ref:
        for attempt in range(_ATTEMPTS):
            try:
                return super().create_ref(name, kind, at, author, parent)
            except _Lost as lost:
                time.sleep(_PAUSE * 2**attempt)
                made = self.ref(name)
                if made and (made.head, made.kind, made.created_by) == (at.seq, kind, author):
                    return made
                last = lost
        raise _unreachable(self.url, last) from last.__cause__

    # how engines find it

    @property
    def jdbc(self) -> dict[str, str]:
        # As this connection found them: the environment and ~/.pgpass are asked by libpq, which the JVM does not have.
        found = self._connection.info
        return {
            "uri": f"jdbc:postgresql://{found.host or 'localhost'}:{found.port}/{found.dbname}",
            "jdbc.user": found.user,
            "jdbc.password": found.password,
        }

    @property
    def sqlalchemy_url(self) -> str:
        return "postgresql+psycopg" + self.url[self.url.index(":") :]

    refs = _retried(SqlStore.refs)
    ref = _retried(SqlStore.ref)
    delete_ref = _retried(SqlStore.delete_ref)
    touch = _retried(SqlStore.touch)
    commit_by_seq = _retried(SqlStore.commit_by_seq)
    commits_by_prefix = _retried(SqlStore.commits_by_prefix)
    all_commits = _retried(SqlStore.all_commits)
    page = _retried(SqlStore.page)
    ancestor_at = _retried(SqlStore.ancestor_at)
    with_changes = _retried(SqlStore.with_changes)
    divergence = _retried(SqlStore.divergence)
    heads = _retried(SqlStore.heads)
    entries = _retried(SqlStore.entries)
    acquire = _retried(SqlStore.acquire)
    renew = _retried(SqlStore.renew)
    release = _retried(SqlStore.release)
    leases = _retried(SqlStore.leases)
    pointers = _retried(SqlStore.pointers)
    expire = _retried(SqlStore.expire)
    doomed = _retried(SqlStore.doomed)
    set_doomed = _retried(SqlStore.set_doomed)
    repoint = _retried(SqlStore.repoint)


def _connect(url: str) -> psycopg.Connection[Row]:
    import psycopg

    # If the network swallows a connection, Postgres may keep its transaction and its locks: it ends them after a while,
    # and whoever waits for them waits a little longer than that.
    return psycopg.connect(
        url,
        autocommit=True,
        connect_timeout=10,
        prepare_threshold=None,  # prepared statements would not survive a pooler between us and Postgres
        application_name="mere",
        options=f"-c idle_in_transaction_session_timeout={_IDLE_MS} -c lock_timeout={2 * _IDLE_MS}",
    )


@contextlib.contextmanager
def _lost_connections() -> Iterator[None]:
    import psycopg
    from psycopg import errors

    try:
        yield
    except errors.UniqueViolation as error:
        if error.diag.table_name == "mere_refs":
            raise RefExists("Another process has just made a ref of that name.") from error
        raise _Lost from error  # two writers met: the second look decides
    except (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable) as error:
        raise _Lost from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise _Lost from error
    except psycopg.Error as error:
        raise LakeError(f"Postgres refused: {_line(error)}. Nothing was changed.") from error


@contextlib.contextmanager
def _opened(url: str) -> Iterator[psycopg.Connection[Row]]:
    """A connection for setting up, in one transaction."""
    import psycopg

    try:
        with contextlib.closing(_connect(url)) as connection, connection.transaction():
            # Two that open a new lake at once take turns.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('mere'))")
            yield connection
    except psycopg.Error as error:
        raise LakeUnreadable(
            f"{_shown(url)} cannot be used: {_line(error)}. Nothing was changed.",
            remedy="Check that Postgres runs there, and the user and password in the environment.",
        ) from error


def _version(connection: psycopg.Connection[Row]) -> int | None:
    known = connection.execute("SELECT to_regclass('mere_meta')").fetchone()
    if known is None or known[0] is None:
        return None
    found = connection.execute("SELECT value FROM mere_meta WHERE key = 'schema_version'").fetchone()
    return int(found[0]) if found else None


def _migrate(connection: psycopg.Connection[Row], version: int) -> None:
    for script in MIGRATIONS[version:]:
        connection.execute(script.encode())
    connection.execute(
        "INSERT INTO mere_meta (key, value) VALUES ('schema_version', %s)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (str(len(MIGRATIONS)),),
    )


def _start(connection: psycopg.Connection[Row], root: str, author: str) -> None:
    """The first commit, and main."""
    now = stamp(datetime.now(UTC))
    for key, value in (("root", root), ("lake_id", secrets.token_hex(16)), ("created_at", now)):
        connection.execute("INSERT INTO mere_meta (key, value) VALUES (%s, %s)", (key, value))
    line = connection.execute("INSERT INTO mere_lines (base) VALUES (NULL) RETURNING line").fetchone()
    seq = connection.execute(
        "INSERT INTO mere_commits (id, line, kind, at, author, message) VALUES (%s, %s, 'root', %s, %s, %s)"
        " RETURNING seq",
        (secrets.token_hex(8), line and line[0], now, author, "the lake begins"),
    ).fetchone()
    connection.execute(
        "INSERT INTO mere_refs (name, kind, line, head, created_at, created_by)"
        " VALUES ('main', 'branch', %s, %s, %s, %s)",
        (line and line[0], seq and seq[0], now, author),
    )


def _unreachable(url: str, lost: _Lost) -> LakeUnreadable:
    return LakeUnreadable(
        f"{_shown(url)} cannot be reached, or not written to: {_line(lost.__cause__)}. Nothing was changed.",
        remedy="Check that Postgres runs there, and the user and password in the environment; then try again.",
    )


def _shown(url: str) -> str:
    """The URL without a password."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


def _line(error: BaseException | None) -> str:
    text = str(error).strip().splitlines()
    return text[0].rstrip(".") if text else type(error).__name__
