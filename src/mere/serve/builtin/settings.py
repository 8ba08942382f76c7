"""The settings of a connection: those that clients set and ask for, under Postgres's own spelling."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta

from mere.serve import builtin
from mere.serve.builtin.names import quoted
from mere.serve.builtin.setting import Setting
from mere.serve.protocol.port import PgError

_LONGEST = 1000  # characters of a value
_MOST = 10_000  # characters of all settings of a connection: pg_settings is kept for each that asks for it

SERVER_VERSION = "18.0"  # the one whose catalogs `catalog` has

# Where the gateway is not as a Postgres that was just installed.
_OWN = {
    "client_encoding": "UTF8",
    "default_text_search_config": "pg_catalog.english",
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "on",
    "extra_float_digits": "1",
    "is_superuser": "off",
    "jit": "off",
    "lc_collate": "C",
    "lc_ctype": "C.UTF-8",
    "lc_messages": "C",
    "search_path": '"$user", public',
    "server_encoding": "UTF8",
    "server_version": SERVER_VERSION,
    "server_version_num": "180000",
    "session_authorization": "",
    "TimeZone": "UTC",
    "timezone_abbreviations": "Default",
    "transaction_isolation": "repeatable read",
    "transaction_read_only": "on",
}
KNOWN = {each.name: each for each in map(Setting.of, builtin.rows("settings"))}
DEFAULTS = {name: each.shown(each.value) for name, each in KNOWN.items()} | _OWN
_SPELLINGS = {name.lower(): name for name in DEFAULTS}
_ENCODINGS = ("UTF8", "'UTF8'", "UNICODE", "UTF-8", "SQL_ASCII")
_READ_ONLY = ("default_transaction_read_only", "transaction_read_only")
_REFUSALS = {
    "internal": "cannot be changed",
    "postmaster": "cannot be changed without restarting the server",
    "sighup": "cannot be changed now",
    "backend": "cannot be set after connection start",
    "superuser-backend": "cannot be set after connection start",
}


def spelled(name: str) -> str:
    """As Postgres spells it; a setting with a dot is an application's own."""
    return _SPELLINGS.get(name.lower(), name.lower())


def checked(name: str, value: str) -> str:
    """The value that the setting gets, as it is shown; PgError if it cannot be that."""
    known = KNOWN.get(name)
    if known is None and "." not in name and name not in _OWN:
        raise PgError("42704", f'unrecognized configuration parameter "{name}"')
    context = known.context if known else "user" if "." in name else "internal"
    if context in _REFUSALS:
        raise PgError("55P02", f'parameter "{name}" {_REFUSALS[context]}')
    if len(value) > _LONGEST:
        raise PgError("22023", f'invalid value for parameter "{name}": it is longer than {_LONGEST} characters')
    if known is None:
        return value
    if name == "client_encoding":
        return known.chosen(value, _ENCODINGS) and "UTF8"
    if name == "TimeZone":
        return zone(value)
    if name == "standard_conforming_strings":
        return known.chosen(known.read(value), ("on",))
    if context == "superuser" and name not in _HARMLESS:
        raise PgError("42501", f'permission denied to set parameter "{name}"')
    return "on" if known.read(value) and name in _READ_ONLY else known.read(value)


# For superusers in Postgres. Drivers set them, and here they change nothing.
_HARMLESS = ("lc_messages", "log_statement", "session_replication_role", "log_min_duration_statement")


def path(seen: Collection[str]) -> str:
    """The search path of a new connection: all schemas that it sees, so that `\\dt` lists their tables. If there are
    very many, none of them, rather than some."""
    usual = DEFAULTS["search_path"]
    found = ", ".join([usual, *(quoted(each) for each in sorted(seen) if each != "public")])
    return found if len(found) <= _LONGEST else usual


def schemas(path: str) -> tuple[str, ...]:
    """Of a search path."""
    names = (each.strip() for each in path.split(","))
    return tuple(name.strip('"') for name in names if name and name != '"$user"')


def fit(settings: Mapping[str, str]) -> None:
    """PgError if those that a client has set are too many."""
    own = settings.items() - DEFAULTS.items()
    if sum(len(name) + len(value) for name, value in own) > _MOST:
        raise PgError(
            "53400",
            f"the settings of this connection have more than {_MOST} characters",
            hint="RESET those that are not needed, or DISCARD ALL.",
        )


def timeout(settings: Mapping[str, str]) -> timedelta | None:
    """None for 0, which is no limit."""
    known = KNOWN["statement_timeout"]
    milliseconds = known.number(settings[known.name])
    return timedelta(milliseconds=milliseconds) if milliseconds > 0 else None


def zone(value: str) -> str:
    import zoneinfo

    if value.upper() in ("UTC", "GMT", "Z", "ETC/UTC", "0", "+0", "+00", "+00:00"):
        return "UTC" if value.upper() not in ("GMT", "ETC/UTC") else value
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise PgError("22023", f'invalid value for parameter "TimeZone": "{value}"') from error
    return value
