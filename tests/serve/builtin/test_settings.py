"""The settings of a connection: every one that Postgres has, with its default, its type and its limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

Ask = Callable[[psycopg.Connection], Any]

# Where the gateway is meant to be another server than the Postgres beside it.
OTHERWISE = {
    "archive_command", "autovacuum_worker_slots", "commit_timestamp_buffers", "data_checksums", "data_directory_mode",
    "default_transaction_isolation", "default_transaction_read_only", "fsync", "huge_pages_status",
    "io_max_concurrency", "jit", "lc_messages", "lc_monetary", "lc_numeric", "lc_time",
    "listen_addresses", "log_file_mode",
    "log_timezone", "max_connections", "max_stack_depth", "num_os_semaphores", "port", "search_path", "server_version",
    "server_version_num", "shared_memory_size", "shared_memory_size_in_huge_pages", "subtransaction_buffers",
    "tcp_keepalives_count", "tcp_keepalives_idle", "tcp_keepalives_interval", "TimeZone", "transaction_buffers",
    "transaction_isolation", "transaction_read_only", "unix_socket_permissions", "wal_buffers", "wal_segment_size",
}  # fmt: skip


@contextmanager
def nobody_special(url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        if "18.0" not in connection.execute("SHOW server_version").fetchall()[0]:
            connection.execute("DROP ROLE IF EXISTS plain_user")
            connection.execute("CREATE ROLE plain_user")
            connection.execute("SET SESSION AUTHORIZATION plain_user")
        yield connection


@pytest.fixture
def both(shop_in_postgres: str, shop_in_lake: str) -> Callable[[Ask], tuple[Any, Any]]:
    def ask(question: Ask) -> tuple[Any, Any]:
        with nobody_special(shop_in_lake) as ours, nobody_special(shop_in_postgres) as real:
            return question(ours), question(real)

    return ask


def test_all_settings_of_postgres_can_be_shown(both: Callable[[Ask], tuple[Any, Any]]) -> None:
    def shown(connection: psycopg.Connection) -> dict[str, str]:
        names = [name for (name,) in connection.execute("SELECT name FROM pg_settings ORDER BY name").fetchall()]
        return {name: connection.execute(f"SHOW {name}").fetchall()[0][0] for name in names}

    ours, real = both(shown)
    assert ours.keys() == real.keys()
    differ = {name: (ours[name], real[name]) for name in real if ours[name] != real[name] and name not in OTHERWISE}
    assert differ == {}


def test_pg_settings_describes_them_as_postgres_does(both: Callable[[Ask], tuple[Any, Any]]) -> None:
    def described(connection: psycopg.Connection) -> dict[str, Any]:
        columns = "unit, category, short_desc, extra_desc, context, vartype, min_val, max_val, enumvals, boot_val"
        return {name: rest for name, *rest in connection.execute(f"SELECT name, {columns} FROM pg_settings").fetchall()}

    ours, real = both(described)
    unset = "timezone_abbreviations"  # the only one that boots with no value at all
    assert (ours.pop(unset)[:-1], ours) == (real.pop(unset)[:-1], real)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("work_mem", "64MB"), ("work_mem", "65536"), ("work_mem", "1.5 GB"), ("work_mem", "0x10000"), ("work_mem", "1"),
        ("work_mem", "5 parsecs"), ("work_mem", "abc"), ("work_mem", "1e40"), ("work_mem", ""),
        ("statement_timeout", "1e400"), ("statement_timeout", "1.5s"), ("statement_timeout", "2min"),
        ("statement_timeout", "90s"), ("statement_timeout", "0"), ("statement_timeout", "-1"),
        ("statement_timeout", "1d"), ("statement_timeout", "1000000us"), ("statement_timeout", "7000 ms"),
        ("enable_seqscan", "f"), ("enable_seqscan", "TRUE"), ("enable_seqscan", "o"), ("enable_seqscan", "maybe"),
        ("client_min_messages", "WARNING"), ("client_min_messages", "loud"), ("random_page_cost", "1.10"),
        ("random_page_cost", "-2"), ("port", "1"), ("server_version", "1"), ("fsync", "off"),
        ("log_min_messages", "log"), ("default_table_access_method", "heap"), ("no_such_thing", "1"),
        ("mine.own", "anything"),
        ("extra_float_digits", "3"), ("extra_float_digits", "9"), ("cursor_tuple_fraction", "0.5"),
        ("standard_conforming_strings", "on"), ("plan_cache_mode", "force_custom_plan"), ("geqo", "yes"),
        ("ignore_system_indexes", "on"), ("max_connections", "5"),
    ],
)  # fmt: skip
def test_a_value_is_read_and_shown_as_in_postgres(
    name: str, value: str, both: Callable[[Ask], tuple[Any, Any]]
) -> None:
    def shown(connection: psycopg.Connection) -> Any:
        try:
            connection.execute(f"SET {name} = '{value}'")
        except psycopg.Error as error:
            return error.sqlstate
        setting = connection.execute("SELECT setting FROM pg_settings WHERE name = %s", [name]).fetchall()
        return connection.execute(f"SHOW {name}").fetchall(), setting

    ours, real = both(shown)
    assert ours == real


CONFIGURED = [
    "SELECT set_config('search_path', %s, false)", "SELECT set_config('search_path', lower(%s), true)",
    "SELECT set_config('statement_timeout', %s, false)", "SELECT set_config('mine.own', %s || 'x', false), 1",
    "SELECT set_config(name, setting, false) FROM pg_settings WHERE name = 'work_mem' AND %s <> ''",
    "SELECT set_config(nullif(%s, 'silver'), 'x', false)", "SELECT set_config('no_such_thing', %s, false)",
    "SELECT set_config('work_mem', nullif(%s, 'silver'), false)",
]  # fmt: skip


@pytest.mark.parametrize("text", CONFIGURED)
def test_set_config_sets_what_is_computed(text: str, both: Callable[[Ask], tuple[Any, Any]]) -> None:
    def shown(connection: psycopg.Connection) -> Any:
        try:
            found = connection.execute(text, ["silver"], prepare=True).fetchall()
        except psycopg.Error as error:
            return error.sqlstate, error.diag.message_primary
        return found, *(connection.execute(f"SHOW {each}").fetchall() for each in ("search_path", "work_mem"))

    ours, real = both(shown)
    assert ours == real
