"""What the catalogs say about the server, not the lake: databases, roles, settings, connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mere.serve.builtin import arrow
from mere.serve.builtin.names import OWNER_NAME
from mere.serve.catalog.oids import OWNER, oid_of

if TYPE_CHECKING:
    import pyarrow as pa

    from mere.serve.protocol.activity import Seat

_UTF8 = 6
_DEFAULT_TABLESPACE = 1663
_NO_LIMIT = -1


@dataclass(frozen=True)
class Surroundings:
    """Nothing of it belongs to a commit, so nothing of it is kept."""

    database: str = "main"
    databases: tuple[str, ...] = ()  # the refs that the user may connect to
    user: str = OWNER_NAME
    settings: Mapping[str, str] = field(default_factory=dict)
    seats: tuple[Seat, ...] = field(default=(), repr=False)  # the connections of the user

    @property
    def all_databases(self) -> list[str]:
        """A connection may be to a ref that no list has: main@2026-11-14, a commit."""
        return sorted({*self.databases, self.database})

    @property
    def roles(self) -> list[tuple[int, str]]:
        return sorted({(OWNER, OWNER_NAME), (role_oid(self.user), self.user)})


def database_oid(name: str) -> int:
    return oid_of("database", name, "")


def role_oid(name: str) -> int:
    return OWNER if name == OWNER_NAME else oid_of("role", name, "")


def pg_database(around: Surroundings) -> pa.Table:
    names = around.all_databases
    return arrow.table(
        "pg_catalog.pg_database",
        oid=[database_oid(name) for name in names],
        datname=names,
        datdba=OWNER,
        encoding=_UTF8,
        datlocprovider="c",
        datallowconn=True,
        datconnlimit=_NO_LIMIT,
        dattablespace=_DEFAULT_TABLESPACE,
        datcollate="C.UTF-8",
        datctype="C.UTF-8",
    )


def pg_authid(around: Surroundings) -> pa.Table:
    return arrow.table(
        "pg_catalog.pg_authid",
        oid=[oid for oid, _ in around.roles],
        rolname=[name for _, name in around.roles],
        rolinherit=True,
        rolcanlogin=True,
        rolconnlimit=_NO_LIMIT,
    )


def pg_roles(around: Surroundings) -> pa.Table:
    return arrow.table(
        "pg_catalog.pg_roles",
        rolname=[name for _, name in around.roles],
        rolsuper=False,
        rolinherit=True,
        rolcreaterole=False,
        rolcreatedb=False,
        rolcanlogin=True,
        rolreplication=False,
        rolconnlimit=_NO_LIMIT,
        rolpassword="********",
        rolbypassrls=False,
        oid=[oid for oid, _ in around.roles],
    )


def pg_user(around: Surroundings) -> pa.Table:
    return arrow.table(
        "pg_catalog.pg_user",
        usename=[name for _, name in around.roles],
        usesysid=[oid for oid, _ in around.roles],
        usecreatedb=False,
        usesuper=False,
        userepl=False,
        usebypassrls=False,
        passwd="********",
    )


def pg_settings(around: Surroundings) -> pa.Table:
    from mere.serve.builtin.settings import DEFAULTS, KNOWN

    names = sorted((name for name in around.settings if name in KNOWN), key=str.lower)
    known = [KNOWN[name] for name in names]
    values = [each.raw(around.settings[each.name]) for each in known]
    defaults = [each.raw(DEFAULTS[each.name]) for each in known]
    return arrow.table(
        "pg_catalog.pg_settings",
        name=names,
        setting=values,
        unit=[each.unit or None for each in known],
        category=[each.category for each in known],
        short_desc=[each.description for each in known],
        extra_desc=[each.more or None for each in known],
        context=[each.context for each in known],
        vartype=[each.type for each in known],
        source=["default" if value == default else "session" for value, default in zip(values, defaults, strict=True)],
        min_val=[each.lowest or None for each in known],
        max_val=[each.highest or None for each in known],
        enumvals=[list(each.choices) or None for each in known],
        boot_val=[each.value for each in known],
        reset_val=defaults,
        pending_restart=False,
    )


def pg_stat_activity(around: Surroundings) -> pa.Table:
    """One's own connections: what others do is theirs."""
    seats = around.seats
    places = [seat.address.rpartition(":") for seat in seats]
    return arrow.table(
        "pg_catalog.pg_stat_activity",
        datid=[database_oid(seat.database) for seat in seats],
        datname=[seat.database for seat in seats],
        pid=[seat.process for seat in seats],
        usesysid=role_oid(around.user),
        usename=around.user,
        application_name=[seat.application for seat in seats],
        client_addr=[host.strip("[]") or None for host, _, _ in places],
        client_port=[int(port) if port.isdigit() else None for _, _, port in places],
        backend_start=[seat.since for seat in seats],
        xact_start=[seat.begun for seat in seats],
        query_start=[seat.asked for seat in seats],
        state_change=[seat.changed for seat in seats],
        state=[seat.state for seat in seats],
        query=[seat.query for seat in seats],
        backend_type="client backend",
    )


def pg_stat_database(around: Surroundings) -> pa.Table:
    names = around.all_databases
    return arrow.table(
        "pg_catalog.pg_stat_database", datid=[database_oid(name) for name in names], datname=names, numbackends=0
    )


Builder = Callable[[Surroundings], "pa.Table"]
BUILDERS: dict[str, Builder] = {
    f"pg_catalog.{builder.__name__}": builder
    for builder in (
        pg_database,
        pg_authid,
        pg_roles,
        pg_user,
        pg_settings,
        pg_stat_activity,
        pg_stat_database,
    )
}


def table(relation: str, around: Surroundings) -> pa.Table:
    return BUILDERS[relation](around)
