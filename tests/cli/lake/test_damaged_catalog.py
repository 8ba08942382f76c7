"""A catalog of which a table is gone or was emptied: one error with a way on, and the doctor names it."""

from __future__ import annotations

import contextlib
import secrets
import shlex
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from mere.lake.lake import Lake
from mere.lake.store.postgres.schema import MIGRATIONS as OF_POSTGRES
from mere.lake.store.sqlite.schema import MIGRATIONS as OF_SQLITE
from mere.lake.store.sqlite.store import SqliteStore
from mere.lake.store.wholeness import tables_of
from tests.cli.test_cli import Shell
from tests.lake import iceberg_tables
from tests.services.postgres import PASSWORD, Postgres

NEEDED = {"mere_meta", "mere_refs", "mere_commits", "mere_lines", "mere_changes"}  # no lake has them empty
COMMANDS = (["tables"], ["runs"], ["gc"], ["log"], ["init"], ["branch", "list"])


@dataclass
class Shop:
    mere: Shell
    url: str | None = None

    def run(self, sql: str) -> None:
        if self.url:
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute(sql.encode())
            return
        with contextlib.closing(sqlite3.connect(self.mere.folder / "lake/catalog.db")) as database, database:
            database.execute(sql)

    def said(self) -> str:
        texts = {self.mere(*words, exit_code=1).stderr for words in COMMANDS}
        (text,) = texts
        return text

    def doctor(self) -> str:
        done = self.mere("doctor", "--no-spark", exit_code=1)
        assert "is damaged: its table" in done.stdout
        return done.stdout


def filled(folder: Path, url: str | None = None) -> Shop:
    with Lake.open(folder / "shop/lake", catalog=url) as lake:
        iceberg_tables.create(lake, "gold.orders")
        iceberg_tables.append(lake, "gold.orders", 1, 2)
        lake.branch("dev")
    return Shop(Shell(folder / "shop"), url)


@pytest.fixture
def sqlite_shop(tmp_path: Path) -> Shop:
    Shell(tmp_path)("init", "shop")
    return filled(tmp_path)


@pytest.fixture
def postgres_shop(tmp_path: Path, postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    url = postgres_server.new_database(f"damaged_{secrets.token_hex(6)}")
    (tmp_path / "shop").mkdir()
    shown = url.replace(f":{PASSWORD}", "")
    (tmp_path / "shop/mere.yaml").write_text(
        f"name: shop\nprofiles:\n  local:\n    catalog: {shown}\n    lake: lake # the folder\n"
    )
    Lake.create(tmp_path / "shop/lake", catalog=url).close()
    return filled(tmp_path, url)


def anew(shop: Shop) -> None:
    """What is printed, typed: a new lake has the rows that main had."""
    for line in [line.strip() for line in shop.said().splitlines() if line.startswith("  ")]:
        config = shop.mere.folder / "mere.yaml"
        if line == "mere init":
            text = config.read_text().replace("lake: lake ", "lake: other ")
            if shop.url:
                shop.url = shop.url.replace("damaged_", "new_")
                text = text.replace("damaged_", "new_")
            config.write_text(text)
        shop.mere(*shlex.split(line)[1:])
    assert shop.mere("sql", "select count(*) as n from gold.orders", "--format", "csv").stdout.split() == ["n", "2"]


@pytest.mark.parametrize("table", tables_of(OF_SQLITE))
def test_a_table_that_is_missing_in_sqlite(sqlite_shop: Shop, table: str) -> None:
    sqlite_shop.run(f"DROP TABLE {table}")
    text = sqlite_shop.said()
    assert f"catalog.db is damaged: its table {table} is missing. " in text
    assert text.count("Nothing was changed") == 1
    assert table in sqlite_shop.doctor()


@pytest.mark.parametrize("table", [table for table in tables_of(OF_SQLITE) if table.startswith("mere_")])
def test_a_table_that_was_emptied_in_sqlite(sqlite_shop: Shop, table: str) -> None:
    sqlite_shop.run(f"DELETE FROM {table}")
    if table in NEEDED:
        assert f"catalog.db is damaged: its table {table} has lost rows. " in sqlite_shop.said()
        assert table in sqlite_shop.doctor()
    else:
        for words in COMMANDS:
            sqlite_shop.mere(*words, exit_code=int(words == ["init"]))


def test_the_way_on_from_a_damaged_catalog_works_as_printed(sqlite_shop: Shop) -> None:
    sqlite_shop.run("DELETE FROM mere_refs")
    anew(sqlite_shop)


def test_tables_of_postgres_that_are_missing_or_were_emptied(postgres_shop: Shop, postgres_server: Postgres) -> None:
    for table in tables_of(OF_POSTGRES):
        postgres_shop.run(f"ALTER TABLE {table} RENAME TO aside")
        text = postgres_shop.said()
        assert f"is damaged: its table {table} is missing. " in text, table
        assert table in postgres_shop.doctor()
        assert PASSWORD not in text
        if table in NEEDED:
            postgres_shop.run(f"CREATE TABLE {table} (LIKE aside)")
            assert f"is damaged: its table {table} has lost rows. " in postgres_shop.said(), table
            assert table in postgres_shop.doctor()
            postgres_shop.run(f"DROP TABLE {table}")
        postgres_shop.run(f"ALTER TABLE aside RENAME TO {table}")
    postgres_shop.mere("tables")
    postgres_shop.run("ALTER TABLE mere_refs RENAME TO aside")
    assert postgres_shop.url
    postgres_server.new_database(postgres_shop.url.rpartition("/")[2].replace("damaged_", "new_"))
    anew(postgres_shop)


def test_a_table_that_vanishes_under_an_open_lake_is_told(sqlite_shop: Shop) -> None:
    with Lake.open(sqlite_shop.mere.folder / "lake") as lake:
        assert isinstance(lake.store, SqliteStore)
        sqlite_shop.run("DROP TABLE mere_runs")
        with pytest.raises(Exception, match="is damaged: its table mere_runs is missing"):
            lake.runs()
        sqlite_shop.run("DELETE FROM mere_refs")
        with pytest.raises(Exception, match="is damaged: its table mere_refs has lost rows"):
            lake.store.clocks()
