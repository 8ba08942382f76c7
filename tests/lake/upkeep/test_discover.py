"""Every kind of source, the real thing behind each: what is found there, adopted and read, while the source stays."""

from __future__ import annotations

import gzip
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

from mere.engine.session import Session
from mere.errors import LakeError, MereError, Unguarded, UsageError
from mere.lake.lake import Lake
from mere.lake.place.mainfile import remember
from mere.lake.storage.port import LocalStorage
from mere.lake.upkeep.discover import discover
from tests.services.postgres import PASSWORD, Postgres
from tests.services.rest import RestServer
from tests.services.s3 import S3Server

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        yield lake


@pytest.fixture
def old(tmp_path: Path) -> Iterator[SqlCatalog]:
    """Another catalog, on SQLite, with two tables of three rows."""
    (tmp_path / "old").mkdir()
    with closing(SqlCatalog("prod", uri=f"sqlite:///{tmp_path}/old/c.db", warehouse=f"{tmp_path}/old/files")) as old:
        fill(old, "sales")
        yield old


def fill(catalog: Catalog, namespace: str) -> None:
    catalog.create_namespace(namespace)
    for name in ("orders", "items"):
        catalog.create_table(f"{namespace}.{name}", ROWS.schema).append(ROWS)


def content(folder: Path) -> dict[str, bytes]:
    """All of a folder, but for the files by which SQLite's readers keep out of each other's way."""
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith(("-shm", "-wal"))
    }


def count(lake: Lake, table: str) -> int:
    found: int = next(iter(lake.sql(f"SELECT count(*) FROM {table}")))[0]
    return found


def names(source: str, **options: str) -> list[str]:
    return [str(found) for found in discover(source, LocalStorage(), catalog=options.get("catalog")).found]


def newest(folder: Path) -> Path:
    return max((folder / "metadata").glob("*.metadata.json"))


def test_a_database_is_adopted_without_a_copy_and_left_as_it_was(lake: Lake, old: SqlCatalog, tmp_path: Path) -> None:
    before = content(tmp_path / "old")
    done = lake.adopt(f"sqlite:///{tmp_path}/old/c.db")
    assert [str(table) for table in lake.at()] == ["sales.items", "sales.orders"]
    assert (count(lake, "sales.orders"), count(lake, "sales.items")) == (3, 3)
    assert done.commit is not None
    assert done.commit.message == "adopt sales.items, sales.orders"
    assert len(list(lake.log())) == 2  # the root, and all tables at once
    files = [path for path in Path(lake.warehouse).rglob("*") if path.is_file()]
    assert [path.suffixes[-2:] for path in files] == [[".metadata", ".json"]] * 2
    assert content(tmp_path / "old") == before


def test_options_of_a_driver_in_the_address_are_not_part_of_the_path(old: SqlCatalog, tmp_path: Path) -> None:
    assert names(f"sqlite:///{tmp_path}/old/c.db?timeout=5&cache=shared") == ["sales.items", "sales.orders"]


def test_a_catalog_is_chosen_where_a_database_has_several(lake: Lake, old: SqlCatalog, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/old/c.db"
    with closing(SqlCatalog("test", uri=url, warehouse=f"{tmp_path}/old/test")) as test:
        fill(test, "trial")
    with pytest.raises(UsageError, match="several catalogs: prod, test"):
        lake.adopt(url)
    with pytest.raises(UsageError, match=r"no catalog 'dev'.*prod, test"):
        lake.adopt(url, catalog="dev")
    lake.adopt(url, catalog="test")
    assert [str(table) for table in lake.at()] == ["trial.items", "trial.orders"]


def test_a_database_of_the_first_schema_has_tables_only(old: SqlCatalog, tmp_path: Path) -> None:
    database = tmp_path / "old" / "c.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(iceberg_tables)")}
        if "iceberg_type" in columns:
            connection.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    assert names(f"sqlite:///{database}") == ["sales.items", "sales.orders"]


def test_a_lake_is_a_database_too(lake: Lake, tmp_path: Path) -> None:
    with Lake.create(tmp_path / "other") as other:
        fill(other.pyiceberg(), "sales")
        other.branch("dev")
    lake.adopt(f"sqlite:///{tmp_path}/other/catalog.db", catalog="dev")
    assert count(lake, "sales.orders") == 3


def test_tables_on_s3(lake: Lake, postgres_server: Postgres, s3_server: S3Server, s3_bucket: str) -> None:
    place = f"{s3_bucket}/{secrets.token_hex(6)}"
    urls = [postgres_server.new_database(f"s3_{secrets.token_hex(6)}") for _ in range(2)]
    with (
        Lake.create(f"{place}/other", catalog=urls[0], s3=s3_server.settings) as other,
        Lake.create(f"{place}/lake", catalog=urls[1], s3=s3_server.settings) as here,
    ):
        fill(other.pyiceberg(), "sales")
        for _ in range(2):  # written anew over what was there
            remember(other.storage, other.location, other.store)
        before = {file.location for file in other.storage.files(f"{place}/other")}
        here.adopt(urls[0], "sales.orders")
        here.pyiceberg().load_table("sales.orders").append(ROWS)
        assert count(here, "sales.orders") == 6
        here.adopt(other.at().metadata("sales.items").raw["location"], name="bronze.items")
        assert count(here, "bronze.items") == 3
        here.drop("sales.orders", "bronze.items")
        for _ in range(2):
            here.gc(grace=timedelta(0), keep=timedelta(0))
        assert {file.location for file in other.storage.files(f"{place}/other")} == before
        with pytest.raises(Unguarded, match="this lake's own warehouse"):
            other.adopt(urls[0], into="again")
        with pytest.raises(Unguarded, match="not on this machine's disk"):
            lake.adopt(urls[0])


def test_postgres(lake: Lake, postgres_server: Postgres, tmp_path: Path) -> None:
    url = postgres_server.new_database(f"old_{secrets.token_hex(6)}")
    driver = url.replace("postgresql://", "postgresql+psycopg://")
    with closing(SqlCatalog("prod", uri=driver, warehouse=f"{tmp_path}/old")) as old:
        fill(old, "sales")
        before = old.load_table("sales.orders").metadata_location
        lake.adopt(driver, "sales.orders")
        assert [str(table) for table in lake.at()] == ["sales.orders"]
        assert count(lake, "sales.orders") == 3
        assert old.load_table("sales.orders").metadata_location == before


@pytest.mark.parametrize(
    "wrong",
    [
        lambda url: url.replace(PASSWORD, "hunter2-hunter2"),
        lambda url: url.replace(PASSWORD, "hunter2-hunter2%"),
        lambda url: url.replace(PASSWORD, "hunter2-hunter2").replace("127.0.0.1", "127.0.0.1:x"),
        lambda url: f"{url}?password=hunter2-hunter2&nonsense=1",
    ],
    ids=["password", "escape", "port", "option"],
)
def test_a_password_is_never_shown(lake: Lake, postgres_server: Postgres, wrong: Callable[[str], str]) -> None:
    with pytest.raises(MereError) as caught:
        lake.adopt(wrong(postgres_server.url()))
    assert "cannot be read as an Iceberg catalog" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert caught.value.__suppress_context__


def test_a_rest_catalog(lake: Lake, rest_server: RestServer) -> None:
    namespace = f"sales_{secrets.token_hex(4)}"
    with closing(RestCatalog("there", uri=rest_server.url)) as there:
        fill(there, namespace)
        there.create_namespace((namespace, "deep"))
        there.create_table((namespace, "deep", "t"), ROWS.schema).append(ROWS)
        before = there.load_table(f"{namespace}.orders").metadata_location
        lake.adopt(rest_server.url, f"{namespace}.*")
        assert [str(table) for table in lake.at()] == [f"{namespace}.{name}" for name in ("items", "orders")] + [
            f"{namespace}.deep.t"
        ]
        assert count(lake, f"{namespace}.orders") == 3
        assert there.load_table(f"{namespace}.orders").metadata_location == before


def test_a_rest_catalog_that_is_none(lake: Lake, rest_server: RestServer) -> None:
    with pytest.raises(LakeError, match="cannot be read as an Iceberg REST catalog"):
        lake.adopt(f"{rest_server.url}/nothing/here")
    with pytest.raises(UsageError, match="no user or password") as caught:
        lake.adopt("https://me:hunter2@catalog.example")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
def test_a_metadata_file_needs_a_name(lake: Lake, old: SqlCatalog, tmp_path: Path, packed: bool) -> None:
    file = newest(tmp_path / "old" / "files" / "sales" / "orders")
    if packed:
        packed_file = file.with_name("00009-packed.gz.metadata.json")
        packed_file.write_bytes(gzip.compress(file.read_bytes()))
        file = packed_file
    with pytest.raises(UsageError, match="no name of its own"):
        lake.adopt(str(file))
    lake.adopt(str(file), name="bronze.orders")
    assert count(lake, "bronze.orders") == 3


def test_a_folder_whose_newest_file_is_not_certain(lake: Lake, old: SqlCatalog, tmp_path: Path) -> None:
    """Two writers raced, and only the catalog knows who won."""
    folder = tmp_path / "old" / "files" / "sales" / "orders"
    lake.adopt(str(folder), name="bronze.first")
    twin = newest(folder)
    twin.with_name(f"{twin.name[:6]}twin.metadata.json").write_bytes(twin.read_bytes())
    with pytest.raises(LakeError, match="only its catalog knows which of these"):
        lake.adopt(str(folder), name="bronze.second")
    assert [str(table) for table in lake.at()] == ["bronze.first"]


def test_digits_that_keep_folders_apart_are_no_part_of_a_name_unless_they_are_needed(tmp_path: Path) -> None:
    """As engines name the folders of a lake: of two versions of a table, nobody but its catalog knows which is it."""
    one, other = "a" * 32, "0123456789abcdef" * 2
    for folder in (f"gold/orders-{one}", f"gold/orders-{other}", f"gold/items-{one}", f"gold/short-{one[:31]}"):
        metadata = tmp_path / folder / "metadata"
        metadata.mkdir(parents=True)
        (metadata / "00001-x.metadata.json").write_text("{}")
    assert sorted(names(str(tmp_path))) == sorted(
        ["gold.items", f"gold.orders-{one}", f"gold.orders-{other}", f"gold.short-{one[:31]}"]
    )


def test_a_hadoop_warehouse_that_spark_made(lake: Lake, tmp_path: Path, spark_on: Callable[..., Session]) -> None:
    spark = spark_on(lake, "main").spark
    there = f"hadoop_{secrets.token_hex(4)}"
    for name, value in {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop"}.items():
        spark.conf.set(f"spark.sql.catalog.{there}{name}", value)
    spark.conf.set(f"spark.sql.catalog.{there}.warehouse", str(tmp_path / "hadoop"))
    spark.sql(f"CREATE TABLE {there}.sales.orders AS SELECT 1 AS id")
    spark.sql(f"INSERT INTO {there}.sales.orders VALUES (2)")
    spark.sql(f"CREATE TABLE {there}.sales.items AS SELECT 1 AS id")
    assert names(str(tmp_path / "hadoop")) == ["sales.items", "sales.orders"]
    before = content(tmp_path / "hadoop")
    lake.adopt(str(tmp_path / "hadoop"))
    assert count(lake, "sales.orders") == 2
    (tmp_path / "hadoop/sales/orders/metadata/version-hint.text").write_text("1")  # it may be late
    lake.adopt(str(tmp_path / "hadoop/sales/orders"), name="bronze.orders")
    assert count(lake, "bronze.orders") == 2
    assert content(tmp_path / "hadoop").keys() == before.keys()
    spark.sql("INSERT INTO sales.orders VALUES (3)")
    assert spark.sql(f"SELECT count(*) FROM {there}.sales.orders").collect()[0][0] == 2


@pytest.mark.parametrize("source", ["nowhere", "sqlite:///nowhere.db"])
def test_a_source_that_is_not_there(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LakeError, match=r"no Iceberg table in .*nowhere|no database .*nowhere\.db"):
        lake.adopt(source)


def test_options_belong_to_their_sources(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--catalog goes with a database"):
        lake.adopt(str(tmp_path), catalog="prod")
    with pytest.raises(UsageError, match="--warehouse goes with a REST catalog"):
        lake.adopt(str(tmp_path), warehouse="prod")
