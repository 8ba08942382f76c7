"""The lake on Postgres: for a team, and for engines on more than one machine."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from mere.errors import LakeError, LakeNotFound, LakeTooNew, LakeUnreadable
from mere.installing import pip_install
from mere.lake.log.commits import Commit, Key, Space
from mere.lake.log.fence import Fence
from mere.lake.log.refs import Ref, RefKind
from mere.lake.log.runs import Run
from mere.lake.store import leases
from mere.lake.store.connections import Connections
from mere.lake.store.port import Edit, Lease
from mere.lake.store.postgres.address import UNTOUCHED, PostgresAddress, line
from mere.lake.store.postgres.lost import OPENING, lost_connections, once, patiently, send_commit
from mere.lake.store.postgres.schema import MIGRATIONS, NOW, removal
from mere.lake.store.rows import Given, Row, Tx
from mere.lake.store.sql import SqlStore, begin
from mere.lake.store.wholeness import require_whole, tables_of

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

_IDLE_MS = 15_000
# A new ref's rows are those of another. Where many refs have come since Postgres last counted, it would take that one
# for nearly all rows there are, and read through all of them.
_BY_KEY = "SET LOCAL enable_seqscan = off; SET LOCAL jit = off"


class _PostgresTx:
    def __init__(self, connection: psycopg.Connection[Row], clock: str) -> None:
        self._connection = connection
        self.clock = clock

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(_query(sql), parameters).fetchall()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return self._connection.execute(_query(sql), parameters).rowcount

    def rows_for(self, sql: str, given: Given) -> list[Row]:
        return self.rows(sql.format(given=_relation(given)), (_json(given),)) if given.rows else []

    def run_for(self, sql: str, given: Given) -> int:
        return self.run(sql.format(given=_relation(given)), (_json(given),)) if given.rows else 0

    def insert(self, sql: str, parameters: Sequence[Any], column: str) -> int:
        return int(self.rows(f"{sql} RETURNING {column}", parameters)[0][0])


def _relation(given: Given) -> str:
    names = ", ".join(f"each ->> {at} AS {name}" for at, name in enumerate(given.columns))
    return f"(SELECT {names} FROM jsonb_array_elements(?::jsonb) AS each) AS given"


def _json(given: Given) -> str:
    # psycopg takes three times as long to write arrays, and Postgres as long to plan a list of values.
    return orjson.dumps(given.rows).decode()


@functools.cache
def _query(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()


_FOUND = "SELECT name FROM unnest(?::text[]) AS name WHERE to_regclass(quote_ident(name)) IS NOT NULL"


class PostgresStore(SqlStore):
    """Each thread has a connection of its own. Readers see one state for the length of a transaction; writers lock
    rows of tables first, in the order of their names, and rows of refs then, as the triggers do for engines."""

    clock = NOW
    shares_clock = True

    def __init__(self, address: PostgresAddress) -> None:
        self.address = address
        self._connections = Connections(lambda: _connect(address), lambda connection: not connection.closed)
        try:
            self.root, self.lake_id, self._version = patiently(address, self._identity, OPENING)
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, url: str, root: str, author: str) -> PostgresStore:
        """Make mere's tables in the database that the URL names; the Iceberg catalog's too, if they are not there."""
        address = PostgresAddress.parse(url)
        with _setting_up(address) as connection:
            if _version(connection) is not None:
                raise LakeError(f"There is already a lake in {address}.")
            _migrate(connection, 0)
            begin(_PostgresTx(connection, cls.clock), root, author)
        return cls(address)

    @classmethod
    def open(cls, url: str) -> PostgresStore:
        """Nothing is written, unless the tables are an older mere's: a user who may only read opens it, too."""
        store = cls(PostgresAddress.parse(url))
        if store._version < len(MIGRATIONS):
            try:
                _update(store.address)
            except BaseException:
                store.close()
                raise
        return store

    def close(self) -> None:
        self._connections.close()

    @property
    def place(self) -> str:
        return str(self.address)

    def database(self) -> str:
        with self._read() as tx:
            query = "SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass('mere_meta')"
            return f"schema {tx.rows(query)[0][0]} of {self.address}"

    def destroy(self) -> list[Lease]:
        with _setting_up(self.address) as connection:
            if _version(connection) is None:
                return []
            connection.execute("LOCK TABLE mere_leases, mere_refs IN ACCESS EXCLUSIVE MODE")  # nobody writes meanwhile
            if found := leases.held(_PostgresTx(connection, self.clock)):
                return found
            for statement in removal():
                connection.execute(statement.encode())
        return []

    def _identity(self) -> tuple[str, str, int]:
        with self._read() as tx:
            tables = tables_of(MIGRATIONS)
            found = {name for (name,) in tx.rows(_FOUND, (tables,))}
            if not any(name.startswith("mere_") for name in found):
                raise LakeNotFound(f"There is no lake in {self.address}.", remedy="Make one with: mere init")
            meta: dict[str, str] = dict(tx.rows("SELECT key, value FROM mere_meta")) if "mere_meta" in found else {}
            known = int(meta.get("schema_version", len(MIGRATIONS)))
            require_whole(self.address, tables_of(MIGRATIONS[:known]), found, tx.rows)
        version = int(meta["schema_version"])
        if version > len(MIGRATIONS):
            raise LakeTooNew(
                f"{self.address} was written by a newer mere (schema {version}; this one knows {len(MIGRATIONS)})."
                " Nothing was changed.",
                remedy=f"Upgrade: {pip_install('--upgrade', 'mere')}",
            )
        return meta["root"], meta["lake_id"], version

    # transactions

    @property
    def _connection(self) -> psycopg.Connection[Row]:
        return self._connections.mine()

    @contextlib.contextmanager
    def _read(self) -> Iterator[Tx]:
        with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as tx:
            yield tx

    @contextlib.contextmanager
    def _statement(self) -> Iterator[Tx]:
        with lost_connections():
            yield _PostgresTx(self._connection, self.clock)

    @contextlib.contextmanager
    def _write(self, *, frozen: bool = False) -> Iterator[Tx]:
        level = f"REPEATABLE READ; {_BY_KEY}" if frozen else "READ COMMITTED"
        with self._transaction(f"BEGIN ISOLATION LEVEL {level}; SET LOCAL mere.writer = 'on'") as tx:
            yield tx

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[Tx]:
        with lost_connections():
            connection = self._connection
            connection.execute(begin.encode())
            try:
                yield _PostgresTx(connection, self.clock)
                send_commit(connection)
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

    def _again(self, act: Callable[[], T]) -> T:
        return patiently(self.address, act)

    # what is not simply done again

    def _committed(self, edit: Edit) -> list[Commit]:
        return self.with_changes(self.commits_by_prefix(edit.id))

    def commit(self, edit: Edit) -> Commit:
        return once(self.address, lambda: SqlStore.commit(self, edit), lambda: self._committed(edit))

    def rebase(self, branch: Ref, onto: Ref, edit: Edit) -> Commit | None:
        def happened() -> list[Commit | None]:
            if edit.changes:
                return [*self._committed(edit)]
            now = self.ref(branch.name)
            return [None] if now and now.head == onto.head != branch.head else []

        return once(self.address, lambda: SqlStore.rebase(self, branch, onto, edit), happened)

    def create_ref(self, name: str, kind: RefKind, at: Commit, author: str, parent: str | None) -> Ref:
        def happened() -> list[Ref]:
            made = self.ref(name)
            return [made] if made and (made.head, made.kind, made.created_by) == (at.seq, kind, author) else []

        return once(self.address, lambda: SqlStore.create_ref(self, name, kind, at, author, parent), happened)

    def delete_ref(self, name: str, expected: Ref | None = None, fence: Fence | None = None) -> None:
        def happened() -> list[None]:
            return [] if self.ref(name) else [None]

        once(self.address, lambda: SqlStore.delete_ref(self, name, expected, fence), happened)

    def hand_over(self, branch: str, run: Run) -> list[Lease]:
        def happened() -> list[list[Lease]]:
            found = self.run(run.id)
            return [[]] if found and (found.branch, found.status) == (run.branch, run.status) else []

        return once(self.address, lambda: SqlStore.hand_over(self, branch, run), happened)

    # how engines find it

    @property
    def jdbc(self) -> dict[str, str]:
        return patiently(self.address, self._jdbc)

    def _jdbc(self) -> dict[str, str]:
        with lost_connections():
            return self.address.jdbc(self._connection)

    @property
    def sqlalchemy_url(self) -> str:
        return self.address.sqlalchemy


def _connect(address: PostgresAddress) -> psycopg.Connection[Row]:
    # If the network swallows a connection, Postgres may keep its transaction and its locks: it ends them after a while,
    # and whoever waits for them waits a little longer than that.
    connection = address.connect("mere", idle_in_transaction_session_timeout=_IDLE_MS, lock_timeout=2 * _IDLE_MS)
    connection.autocommit = True
    return connection


@contextlib.contextmanager
def _setting_up(address: PostgresAddress) -> Iterator[psycopg.Connection[Row]]:
    """A connection for making and altering tables, in one transaction."""
    import psycopg

    def connect() -> psycopg.Connection[Row]:
        with lost_connections():
            return _connect(address)

    try:
        with contextlib.closing(patiently(address, connect, OPENING)) as connection, connection.transaction():
            # Two that open a new lake at once take turns.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('mere'))")
            yield connection
    except psycopg.Error as error:
        raise address.failure(error) from error


def _update(address: PostgresAddress) -> None:
    from psycopg import errors

    with _setting_up(address) as connection:
        version = _version(connection) or 0
        try:
            _migrate(connection, version)
        except errors.InsufficientPrivilege as error:
            raise LakeUnreadable(
                f"The tables in {address} are of an older mere (schema {version}; this one needs {len(MIGRATIONS)}),"
                f" and this user may not alter them: {line(error)}. {UNTOUCHED}",
                remedy="Let the owner of the tables open the lake once with this mere: mere tables",
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
