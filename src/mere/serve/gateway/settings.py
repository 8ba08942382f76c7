"""The settings of a connection: those that clients set and ask for, under Postgres's own spelling."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from mere.serve.gateway.catalog.names import quoted
from mere.serve.gateway.port import PgError
from mere.serve.gateway.words import words

_LONGEST = 1000  # characters of a value
_MOST = 10_000  # characters of all settings of a connection: pg_settings is kept for each that asks for it

SERVER_VERSION = "18.0"  # the one whose catalogs `catalog` has

DEFAULTS = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "DateStyle": "ISO, MDY",
    "default_transaction_isolation": "repeatable read",
    "default_transaction_read_only": "on",
    "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0",
    "in_hot_standby": "off",
    "integer_datetimes": "on",
    "IntervalStyle": "postgres",
    "is_superuser": "off",
    "jit": "off",
    "lc_collate": "C",
    "lc_ctype": "C.UTF-8",
    "lc_messages": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "lock_timeout": "0",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "row_security": "on",
    "search_path": '"$user", public',
    "server_encoding": "UTF8",
    "server_version": SERVER_VERSION,
    "server_version_num": "180000",
    "session_authorization": "",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "synchronous_commit": "on",
    "TimeZone": "UTC",
    "transaction_isolation": "repeatable read",
    "transaction_read_only": "on",
}
_FIXED = frozenset(
    {
        "integer_datetimes", "is_superuser", "lc_collate", "lc_ctype", "max_identifier_length", "max_index_keys",
        "server_encoding", "server_version", "server_version_num", "in_hot_standby", "session_authorization",
    }
)  # fmt: skip
_SPELLINGS = {name.lower(): name for name in DEFAULTS}
_ONLY = {
    "client_encoding": ("UTF8", "'UTF8'", "UNICODE", "UTF-8", "SQL_ASCII"),
    "standard_conforming_strings": ("on", "true", "1", "yes"),
}


def spelled(name: str) -> str:
    """As Postgres spells it; a setting with a dot is an application's own."""
    return _SPELLINGS.get(name.lower(), name.lower())


def checked(name: str, value: str) -> str:
    """The value that the setting gets; PgError if it cannot be that."""
    if name in _FIXED:
        raise PgError("55P02", f'parameter "{name}" cannot be changed')
    if name not in DEFAULTS and "." not in name and name not in _IGNORED:
        raise PgError("42704", f'unrecognized configuration parameter "{name}"')
    if len(value) > _LONGEST:
        raise PgError("22023", f'invalid value for parameter "{name}": it is longer than {_LONGEST} characters')
    allowed = _ONLY.get(name)
    if allowed is not None and value.upper() not in {each.upper() for each in allowed}:
        raise PgError("22023", f'invalid value for parameter "{name}": "{value}"')
    if name == "client_encoding":
        return "UTF8"
    if name == "TimeZone":
        return zone(value)
    if name == "statement_timeout":
        duration(name, value)
    if name in ("default_transaction_read_only", "transaction_read_only"):
        return "on"  # whatever is asked for
    return value


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


def fit(settings: dict[str, str]) -> None:
    """PgError if they are too many."""
    if sum(len(name) + len(value) for name, value in settings.items()) > _MOST:
        raise PgError(
            "53400",
            f"the settings of this connection have more than {_MOST} characters",
            hint="RESET those that are not needed, or DISCARD ALL.",
        )


# Postgres has them; here they change nothing.
_IGNORED = words("""
    work_mem maintenance_work_mem enable_seqscan enable_indexscan enable_nestloop enable_hashjoin enable_mergejoin
    effective_cache_size random_page_cost cursor_tuple_fraction plan_cache_mode default_text_search_config
    transaction_deferrable default_transaction_deferrable default_tablespace default_table_access_method xmloption
    idle_session_timeout transaction_timeout check_function_bodies geqo from_collapse_limit join_collapse_limit
    client_connection_check_interval tcp_keepalives_idle tcp_keepalives_interval log_statement quote_all_identifiers
    max_parallel_workers_per_gather temp_buffers constraint_exclusion escape_string_warning backslash_quote
    compute_query_id force_parallel_mode debug_parallel_query synchronize_seqscans array_nulls
    timezone_abbreviations
""")


def duration(name: str, value: str) -> timedelta | None:
    """`5000`, `5s`, `2min`; None for 0, which is no limit."""
    number = value.strip().rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = value.strip()[len(number) :].strip() or "ms"
    units = {"us": 0.001, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
    try:
        found = float(number) * units[unit]
    except (ValueError, KeyError) as error:
        raise PgError("22023", f'invalid value for parameter "{name}": "{value}"') from error
    return timedelta(milliseconds=found) if found > 0 else None


def zone(value: str) -> str:
    import zoneinfo

    if value.upper() in ("UTC", "GMT", "Z", "ETC/UTC", "0", "+0", "+00", "+00:00"):
        return "UTC" if value.upper() not in ("GMT", "ETC/UTC") else value
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise PgError("22023", f'invalid value for parameter "TimeZone": "{value}"') from error
    return value
