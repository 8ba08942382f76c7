"""The health of a lake's Postgres database."""

from __future__ import annotations

import re
import secrets
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from mere.lake.store.health import PROBE, Condition, Guards, Reaction, Trouble, compare
from mere.lake.store.postgres.address import PostgresAddress
from mere.lake.store.postgres.schema import MIGRATIONS

if TYPE_CHECKING:
    from mere.lake.store.postgres.address import Connection

OLDEST = 150_000
HEADROOM = 10  # a Spark session takes a few connections for each ref

_FUNCTION = re.compile(r"CREATE FUNCTION (\w+)\(.*?\$\$(.*?)\$\$;", re.DOTALL)
_TRIGGER = re.compile(r"CREATE TRIGGER (\w+)\s[^;]*?\sON (\w+)\s[^;]*;")
_EVENTS = re.compile(r"(AFTER|BEFORE) (.+?) ON ")


class PostgresDatabase:
    def __init__(self, address: PostgresAddress) -> None:
        self._address = address

    def condition(self) -> Condition:
        with self._opened() as connection:
            number, version, schema, most, reserved, taken = _row(
                connection,
                "SELECT current_setting('server_version_num')::int, current_setting('server_version'),"
                " (SELECT value FROM mere_meta WHERE key = 'schema_version'),"
                " current_setting('max_connections')::int,"
                " current_setting('superuser_reserved_connections')::int,"
                " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')",
            )
        troubles = []
        if number < OLDEST:
            troubles.append(Trouble(f"Postgres {version} is older than 15, with which mere is tested", "Upgrade it."))
        free = most - reserved - taken
        if free < HEADROOM:
            troubles.append(
                Trouble(
                    f"only {max(free, 0)} of {most} connections are free",
                    "End idle clients, or raise max_connections of Postgres.",
                )
            )
        return Condition(
            f"Postgres {version.split()[0]}, schema {schema}, {taken} of {most} connections", tuple(troubles)
        )

    def guards(self) -> Guards:
        with self._opened() as connection:
            return compare(_expected(), _found(connection))

    def provoke(self) -> Reaction:
        from psycopg import errors

        name = secrets.token_hex(8)
        with self._opened() as connection:
            connection.execute(
                "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)"
                " VALUES ('main', %s, %s, 'nowhere')",
                (PROBE, name),
            )
            (journaled,) = _row(
                connection,
                "SELECT count(*) FROM mere_refs r JOIN mere_changes c ON c.seq = r.head"
                " WHERE r.name = 'main' AND c.name = %s",
                name,
            )
            try:
                connection.execute("DELETE FROM iceberg_tables WHERE table_name = %s", (name,))
            except errors.RaiseException:
                return Reaction(bool(journaled), refused=True)
            return Reaction(bool(journaled), refused=False)

    def mend(self) -> tuple[str, ...]:
        script = "".join(MIGRATIONS)
        with self._opened() as connection:
            broken = compare(_expected(), _found(connection)).broken
            for function in _FUNCTION.finditer(script):
                if f"{function[1]}()" in broken:
                    text = function[0].replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)
                    connection.execute(text.encode())
            for trigger in _TRIGGER.finditer(script):
                if trigger[1] in broken:
                    connection.execute(f"DROP TRIGGER IF EXISTS {trigger[1]} ON {trigger[2]}".encode())
                    connection.execute(trigger[0].encode())
            connection.commit()
        return broken

    def _opened(self) -> AbstractContextManager[Connection]:
        return self._address.opened("mere doctor", lock_timeout=5000)


def _row(connection: Connection, sql: str, *parameters: object) -> tuple[Any, ...]:
    found = connection.execute(sql.encode(), parameters or None).fetchone()
    assert found is not None  # each query here gives one row
    return found


def _expected() -> dict[str, str]:
    """Each function's body and each trigger's definition, as the scripts that make them say."""
    script = "".join(MIGRATIONS)
    functions = {f"{name}()": body for name, body in _FUNCTION.findall(script)}
    return functions | {trigger[1]: _definition(trigger[0].rstrip(";")) for trigger in _TRIGGER.finditer(script)}


def _found(connection: Connection) -> dict[str, str]:
    names = _FUNCTION.findall("".join(MIGRATIONS))
    functions = connection.execute(
        "SELECT p.proname || '()', p.prosrc FROM unnest(%s::text[]) AS name"
        " JOIN pg_proc p ON p.oid = to_regproc(quote_ident(name))",
        ([name for name, _ in names],),
    )
    triggers = connection.execute(
        "SELECT tgname, pg_get_triggerdef(oid, true), tgenabled IN ('O', 'A') FROM pg_trigger WHERE NOT tgisinternal"
        " AND tgrelid IN ('iceberg_tables'::regclass, 'iceberg_namespace_properties'::regclass)"
    )
    return dict(functions) | {name: _definition(text) if on else "switched off" for name, text, on in triggers}


def _definition(text: str) -> str:
    """Postgres keeps no order of events, nor the line breaks."""
    text = " ".join(text.split())
    return _EVENTS.sub(lambda found: f"{found[1]} {' OR '.join(sorted(found[2].split(' OR ')))} ON ", text, count=1)
