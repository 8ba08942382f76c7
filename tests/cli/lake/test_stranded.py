"""A lake of which a part is missing: what is there is said, and what is printed as a remedy works as it stands."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from mere.lake.lake import Lake
from mere.names import TableName
from tests.cli.test_cli import Shell
from tests.lake import iceberg_tables
from tests.services.postgres import PASSWORD, Postgres

DATABASE = "lake/catalog.db"


def remove(folder: Path) -> None:
    (folder / DATABASE).unlink()


def empty(folder: Path) -> None:
    (folder / DATABASE).write_bytes(b"")


def damage(folder: Path) -> None:
    (folder / DATABASE).write_bytes(os.urandom(9000))


def make_folder(folder: Path) -> None:
    remove(folder)
    (folder / DATABASE).mkdir()


def link_nowhere(folder: Path) -> None:
    remove(folder)
    (folder / DATABASE).symlink_to("nowhere")


def make_other(folder: Path) -> None:
    remove(folder)
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        database.execute("CREATE TABLE theirs (a)")


def remove_marker_too(folder: Path) -> None:
    remove(folder)
    (folder / "lake/lake.json").unlink()


LOSSES: dict[Callable[[Path], None], str] = {
    remove: "it has no catalog.db",
    empty: "catalog.db is empty",
    damage: "catalog.db is damaged",
    make_folder: "catalog.db is a folder",
    link_nowhere: "is a link that leads nowhere",
    make_other: "is a SQLite database, but not the catalog of a mere lake",
    remove_marker_too: "it has no catalog.db",
}


@dataclass
class Shop:
    mere: Shell
    backup: Path

    @property
    def folder(self) -> Path:
        return self.mere.folder

    def type(self, *lines: str) -> None:
        """As a user would, in the project's folder."""
        for line in map(str.strip, lines):
            if line.startswith("mere "):
                self.mere(*shlex.split(line)[1:])
            else:
                subprocess.run(line, shell=True, cwd=self.folder, check=True)

    def said(self) -> str:
        """The same by every command, mere init among them."""
        texts = {self.mere(*words, exit_code=1).stderr for words in (["tables"], ["init"], ["gc"], ["relocate"])}
        (text,) = texts
        return text


def make(folder: Path, *, tables: bool) -> Shop:
    Shell(folder)("init", "shop")
    with Lake.open(folder / "shop/lake") as lake:
        if tables:
            iceberg_tables.create(lake, "gold.orders")
            iceberg_tables.append(lake, "gold.orders", 1, 2)
        else:
            lake.branch("dev")
    shutil.copy(folder / "shop" / DATABASE, folder / "backup.db")
    return Shop(Shell(folder / "shop"), folder / "backup.db")


def commands(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("  ")]


@pytest.mark.parametrize("lose", LOSSES)
def test_without_its_catalog_the_tables_of_a_lake_are_adopted_into_a_new_one(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    shop = make(tmp_path, tables=True)
    before = sorted((shop.folder / "lake/warehouse").rglob("*"))
    lose(shop.folder)
    text = shop.said()
    assert LOSSES[lose] in text
    assert f"still there, in {shop.folder}/lake/warehouse" in text
    config = shop.folder / "mere.yaml"
    config.write_text(config.read_text().replace("lake: lake ", "lake: other "))
    shop.type(*commands(text))
    with Lake.open(shop.folder / "other") as lake:
        assert list(lake.at()) == [TableName("gold", "orders")]
        assert lake.at().table("gold.orders").arrow().num_rows == 2
    assert sorted((shop.folder / "lake/warehouse").rglob("*")) == before


@pytest.mark.parametrize("lose", [remove, damage, make_other])
def test_a_lake_without_tables_is_made_anew_and_nothing_is_deleted(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    shop = make(tmp_path, tables=False)
    lose(shop.folder)
    there = (shop.folder / DATABASE).read_bytes() if (shop.folder / DATABASE).exists() else b""
    text = shop.said()
    assert "warehouse has no table in it" in text
    shop.type(*commands(text))
    assert shop.mere.json("tables")["tables"] == []
    aside = shop.folder / "lake.old/catalog.db"
    assert (aside.read_bytes() if aside.exists() else b"") == there


def test_with_a_backup_of_the_catalog_all_is_as_it_was(tmp_path: Path) -> None:
    shop = make(tmp_path, tables=True)
    log = shop.mere("log").stdout
    damage(shop.folder)
    assert f"put {shop.folder}/lake/catalog.db back" in shop.said()
    shop.backup.replace(shop.folder / DATABASE)
    assert shop.mere("log").stdout == log


def test_without_its_warehouse_a_lake_says_so_once_and_not_table_by_table(tmp_path: Path) -> None:
    shop = make(tmp_path, tables=True)
    (shop.folder / "lake/warehouse").rename(tmp_path / "unmounted")
    text = shop.mere("tables", exit_code=1).stderr
    assert f"{shop.folder}/lake/warehouse is gone, and with it the files of all tables" in text
    assert not (shop.folder / "lake/warehouse").exists()
    shop.type(text.rpartition("recreate it: ")[2])
    shop.mere("drop", "gold.orders")
    assert shop.mere.json("tables")["tables"] == []


def test_a_file_where_the_lake_should_be_is_moved_away(tmp_path: Path) -> None:
    Shell(tmp_path)("init", "shop")
    shutil.rmtree(tmp_path / "shop/lake")
    (tmp_path / "shop/lake").write_text("mine")
    shop = Shop(Shell(tmp_path / "shop"), tmp_path)
    shop.type(shop.said().rpartition("move the file: ")[2], "mere init")
    assert (tmp_path / "shop/lake.old").read_text() == "mine"


def test_where_nothing_is_left_a_lake_can_be_made(tmp_path: Path) -> None:
    shop = make(tmp_path, tables=False)
    shutil.rmtree(shop.folder / "lake")
    text = shop.mere("tables", exit_code=1).stderr
    shop.type(text.rpartition("Make one with: ")[2])
    assert shop.mere.json("tables")["tables"] == []


def test_a_lake_whose_database_in_postgres_is_another_is_told(
    tmp_path: Path, postgres_server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    shop = make(tmp_path, tables=True)
    remove(shop.folder)
    url = postgres_server.new_database(f"stranded_{secrets.token_hex(6)}").replace(f":{PASSWORD}", "")
    config = shop.folder / "mere.yaml"
    config.write_text(config.read_text().replace("lake: lake ", f"catalog: {url}\n    lake: lake "))
    text = shop.said()
    assert "There is no lake in" in text
    assert f"still there, in {shop.folder}/lake/warehouse" in text
    assert "Name the database that has its catalog" in text


# which metadata file is the table


def adopt_anew(shop: Shop, *words: str, exit_code: int = 0) -> str:
    """Into a new lake, as mere says; what adopt prints."""
    config = shop.folder / "mere.yaml"
    config.write_text(config.read_text().replace("lake: lake ", "lake: other "))
    if not (shop.folder / "other").exists():
        shop.mere("init")
    done = shop.mere("adopt", f"{shop.folder}/lake/warehouse", *words, exit_code=exit_code)
    return done.stdout + done.stderr


def ids(shop: Shop, table: str = "gold.orders") -> list[int]:
    with Lake.open(shop.folder / "other") as lake:
        return sorted(lake.at().table(table).arrow()["id"].to_pylist())


def work_on(shop: Shop, branch: str) -> None:
    """Rows and a table that never come to main, and an end that mere sees."""
    with Lake.open(shop.folder / "lake") as lake:
        lake.branch(branch)
        iceberg_tables.append(lake, "gold.orders", 666, ref=branch)
        iceberg_tables.create(lake, f"gold.only_{branch}", ref=branch)


def test_rows_and_tables_of_a_branch_do_not_come_in(tmp_path: Path) -> None:
    shop = make(tmp_path, tables=True)
    work_on(shop, "dev")
    work_on(shop, "two")  # and two files have the same number now
    shop.mere("branch", "delete", "dev")
    remove(shop.folder)
    text = adopt_anew(shop)
    assert ids(shop) == [1, 2]
    assert "gold/only_dev" in text
    assert "main did not have it" in text
    assert "gold.only_dev" not in shop.mere("tables").stdout
    (left,) = (shop.folder / "lake/warehouse/gold").glob("only_dev*/metadata/*.json")
    shop.mere("adopt", f"{shop.folder}/lake/warehouse", "gold.only_dev", "--metadata", str(left))
    assert "gold.only_dev" in shop.mere("tables").stdout


def test_what_was_written_after_mere_looked_is_never_guessed(tmp_path: Path) -> None:
    """An engine that mere did not see wrote to main or to a branch: nobody but the catalog knew which."""
    shop = make(tmp_path, tables=True)
    work_on(shop, "dev")
    memory = (shop.folder / "lake/main.json").read_bytes()
    with Lake.open(shop.folder / "lake") as lake:
        commit = lake.at().commit.short_id
        iceberg_tables.append(lake, "gold.orders", 3)
        iceberg_tables.append(lake, "gold.orders", 667, ref="dev")
    (shop.folder / "lake/main.json").write_bytes(memory)
    remove(shop.folder)
    text = adopt_anew(shop, exit_code=1)
    assert "Nothing was changed" in text
    assert text.count("rows: 3") == 1
    assert text.count("rows: 4") == 1
    assert f", commit {commit})" in text
    assert "and 2 earlier ones" in text
    shop.type(*commands(text)[-1:])
    assert ids(shop) == [1, 2]  # the one of which it is known that main once had it


def test_without_the_file_of_main_a_lake_is_adopted_only_as_the_user_says(tmp_path: Path) -> None:
    shop = make(tmp_path, tables=True)
    work_on(shop, "dev")
    (shop.folder / "lake/main.json").unlink()
    remove(shop.folder)
    assert "only the lost catalog knew" in adopt_anew(shop, exit_code=1)
    assert "only the lost catalog knew" in adopt_anew(shop, "--dry-run", exit_code=1)
    files = sorted((shop.folder / "lake/warehouse/gold").glob("orders-*/metadata/*.metadata.json"))
    twice = adopt_anew(shop, "gold.orders", "--metadata", str(files[0]), "--metadata", str(files[1]), exit_code=2)
    assert "Name one" in twice
    assert "is not a metadata file of a table in" in adopt_anew(
        shop, "--metadata", "/else/1.metadata.json", exit_code=2
    )
    assert "go with a folder" in shop.mere("adopt", str(files[0]), "--newest", "--as", "a.b", exit_code=2).stderr
    adopt_anew(shop, "gold.orders", "--newest")
    assert ids(shop) == [1, 2, 666]


def test_a_lake_that_was_relocated_is_adopted_as_main_had_it(tmp_path: Path) -> None:
    shop = make(tmp_path, tables=True)
    work_on(shop, "dev")
    (shop.folder / "lake").rename(shop.folder / "elsewhere")
    (shop.folder / "elsewhere").rename(tmp_path / "moved")
    shop.mere("relocate", str(tmp_path / "moved"))
    (tmp_path / "moved").rename(shop.folder / "lake")
    shop.mere("relocate")
    remove(shop.folder)
    adopt_anew(shop)
    assert ids(shop) == [1, 2]


def test_a_table_that_was_renamed_or_dropped_is_adopted_as_main_had_it(tmp_path: Path) -> None:
    shop = make(tmp_path, tables=True)
    with Lake.open(shop.folder / "lake") as lake:
        iceberg_tables.create(lake, "gold.dropped")
    shop.mere("rename", "gold.orders", "gold.sales")
    shop.mere("drop", "gold.dropped")
    remove(shop.folder)
    assert "gold/dropped" in adopt_anew(shop)
    assert ids(shop, "gold.sales") == [1, 2]
    assert [table["table"] for table in shop.mere.json("tables")["tables"]] == ["gold.sales"]
