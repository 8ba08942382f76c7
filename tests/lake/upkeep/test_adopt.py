"""Adopted tables: what is refused, and that the lake and the old owner cannot hurt each other."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.catalog.sql import SqlCatalog

from mere.cli import main
from mere.engine.session import Session
from mere.engine.translate import explain
from mere.errors import MetadataMissing, ReadOnlyRef, TableNotFound, Unguarded, UsageError
from mere.lake import faults
from mere.lake.iceberg.properties import ORIGIN
from mere.lake.lake import Lake
from mere.lake.log.commits import CommitKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Open = Callable[..., Session]
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


class Old:
    """The old owner: a SQL catalog of its own, outside of the lake."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.url = f"sqlite:///{folder}/c.db"
        self.catalog = SqlCatalog("prod", uri=self.url, warehouse=str(folder / "files"))
        self.catalog.create_namespace("sales")

    def make(self, table: str = "sales.orders", **properties: str) -> None:
        """Two snapshots of three rows each."""
        made = self.catalog.create_table(table, ROWS.schema, properties=properties)
        made.append(ROWS)
        made.append(ROWS)

    def pointer(self, table: str = "sales.orders") -> Path:
        return Path(self.catalog.load_table(table).metadata_location)

    def variant(self, change: Callable[[dict[str, Any]], object], table: str = "sales.orders") -> str:
        """A metadata file like the table's, but for one thing."""
        raw = json.loads(self.pointer(table).read_text())
        change(raw)
        file = self.pointer(table).with_name(f"00009-{secrets.token_hex(4)}.metadata.json")
        file.write_text(json.dumps(raw))
        return str(file)

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in (self.folder / "files").rglob("*") if path.is_file()}


@pytest.fixture
def old(tmp_path: Path) -> Iterator[Old]:
    old = Old(tmp_path / "old")
    with closing(old.catalog):
        yield old


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        yield lake


def files(lake: Lake) -> set[str]:
    return {str(path) for path in Path(lake.warehouse).rglob("*") if path.is_file()}


def count(lake: Lake, table: str, at: str = "main") -> int:
    found: int = next(iter(lake.sql(f"SELECT count(*) FROM {table}", at)))[0]
    return found


def refused(lake: Lake, source: str, *tables: str, **options: Any) -> str:
    """The message; nothing may have changed."""
    before, commits, standing = files(lake), len(list(lake.log())), lake.at().entries
    with pytest.raises(Unguarded) as caught:
        lake.adopt(source, *tables, **options)
    assert (files(lake), len(list(lake.log())), lake.at().entries) == (before, commits, standing)
    assert "Nothing was changed" in caught.value.message
    return caught.value.message


# what an adopted table is


def test_it_carries_the_guards_and_a_folder_of_its_own(lake: Lake, old: Old) -> None:
    old.make(**{"gc.enabled": "true", "write.metadata.delete-after-commit.enabled": "true"})
    done = lake.adopt(old.url, author="ann", message="from the old catalog")
    metadata = lake.at().metadata("sales.orders")
    assert metadata.properties["gc.enabled"] == "false"
    assert metadata.properties["write.metadata.delete-after-commit.enabled"] == "false"
    assert metadata.properties[ORIGIN] == str(old.pointer())
    assert metadata.raw["location"].startswith(f"file://{lake.warehouse}/sales/orders-")
    assert metadata.raw["metadata-log"] == []
    assert metadata.location.startswith(f"{metadata.raw['location']}/metadata/")
    assert done.commit is not None
    assert (done.commit.kind, done.commit.author) == (CommitKind.ADOPT, "ann")
    assert next(iter(lake.log())).message == "from the old catalog"
    assert "gc.enabled" in old.catalog.load_table("sales.orders").properties
    assert old.catalog.load_table("sales.orders").properties["gc.enabled"] == "true"


def test_a_sample_is_adopted_on_any_branch_but_main(lake: Lake, old: Old) -> None:
    old.make(**{"mere.sample": "true"})
    assert "built from a part of the data" in refused(lake, old.url)
    lake.branch("dev")
    lake.adopt(old.url, on="dev")
    assert count(lake, "sales.orders", "dev") == 6


def test_a_lost_file_of_the_old_owner_is_named_with_its_table(lake: Lake, old: Old) -> None:
    old.make()
    lake.adopt(old.url, into="bronze")
    lost = sorted((old.folder / "files").rglob("*.parquet"))
    for path in lost:
        path.unlink()
    with pytest.raises(MetadataMissing) as caught:
        count(lake, "bronze.orders WHERE name = 'a'")
    assert caught.value.message.startswith("bronze.orders cannot be read: its file ")
    assert any(str(path) in caught.value.message for path in lost)


def test_a_name_cannot_begin_with_a_ref_or_have_characters_that_do_not_print(lake: Lake, old: Old) -> None:
    """`main.s.t` would mean the table s.t of main, in every engine."""
    old.make()
    lake.branch("dev")
    for ref in ("main", "dev"):
        assert f"{ref} is a ref of this lake" in refused(lake, old.url, name=f"{ref}.s.t")
    for name in ("x.y\n", "x\ty.z"):
        with pytest.raises(UsageError, match="not a table name"):
            lake.adopt(old.url, name=name)
    old.catalog.rename_table("sales.orders", ("sales", "or\nders"))
    assert "does not print" in refused(lake, old.url)
    lake.adopt(old.url, name="main.t")
    assert count(lake, "main.main.t") == count(lake, "main.t") == 6


def test_the_same_table_may_be_adopted_twice_and_its_files_stay_apart(lake: Lake, old: Old) -> None:
    old.make()
    lake.branch("dev")
    lake.adopt(old.url)
    lake.adopt(old.url, on="dev")
    assert len({lake.at(ref).metadata("sales.orders").raw["location"] for ref in ("main", "dev")}) == 2


def test_names_patterns_and_schemas(lake: Lake, old: Old) -> None:
    for table in ("sales.orders", "sales.old_orders", "sales.items"):
        old.make(table)
    lake.adopt(old.url, "sales.*orders", into="bronze")
    lake.adopt(old.url, "sales.items", name="silver.things")
    assert [str(table) for table in lake.at()] == ["bronze.old_orders", "bronze.orders", "silver.things"]
    with pytest.raises(TableNotFound, match=r"no table sales\.order\. Did you mean sales\.orders"):
        lake.adopt(old.url, "sales.order")
    with pytest.raises(UsageError, match="names one table, and 3 were found"):
        lake.adopt(old.url, name="silver.all")
    with pytest.raises(UsageError, match="name one of them"):
        lake.adopt(old.url, name="silver.all", into="silver")


def test_only_a_branch_takes_tables(lake: Lake, old: Old) -> None:
    old.make()
    lake.tag("v1")
    with pytest.raises(ReadOnlyRef):
        lake.adopt(old.url, on="v1")


def test_it_is_published_reverted_shown_and_compared_like_any_other(lake: Lake, old: Old) -> None:
    old.make()
    lake.branch("dev")
    lake.adopt(old.url, on="dev")
    pointer = lake.at("dev").pointer("sales.orders")
    published = lake.publish("dev").commit
    assert published is not None
    assert lake.at().pointer("sales.orders") == pointer  # publish had nothing to mend
    assert lake.show("sales.orders").rows == 6
    lake.pyiceberg("dev").load_table("sales.orders").append(ROWS)
    (table,) = lake.diff("main", "dev").tables
    assert (str(table.table), count(lake, "sales.orders", "dev")) == ("sales.orders", 9)
    lake.revert(published.id)
    assert list(lake.at()) == []


def test_format_1_stays_what_it_is_until_somebody_upgrades_it(lake: Lake, old: Old, spark_on: Open) -> None:
    old.make(**{"format-version": "1"})
    lake.adopt(old.url)
    assert lake.at().metadata("sales.orders").format_version == 1
    assert count(lake, "sales.orders") == 6
    spark = spark_on(lake, "main").spark
    spark.sql("ALTER TABLE sales.orders SET TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')")
    spark.sql("DELETE FROM sales.orders WHERE id = 1")
    assert spark.sql("SELECT count(*) FROM sales.orders").collect()[0][0] == 4
    assert count(lake, "sales.orders") == 4
    assert lake.pyiceberg().load_table("sales.orders").scan().to_arrow().num_rows == 4
    assert old.catalog.load_table("sales.orders").format_version == 1


# what is refused


def test_all_that_speaks_against_all_tables_is_said_at_once(lake: Lake, old: Old) -> None:
    old.make()
    lake.adopt(old.url)
    old.make("sales.fine")
    old.make("sales.away", **{"write.data.path": "/elsewhere", "write.metadata.path": "/else"})
    old.make("sales.hurt")
    (listed, *_) = old.pointer("sales.hurt").parent.glob("snap-*.avro")
    listed.unlink()
    message = refused(lake, old.url)
    assert "3 of 4 tables" in message
    assert "sales.orders: main already has a table or view of that name" in message
    assert "sales.away: its property write.data.path, write.metadata.path puts new files" in message
    assert f"sales.hurt: {listed} is gone" in message
    assert "sales.fine" not in message


@pytest.mark.parametrize(
    "name", ["write.object-storage.path", "write.folder-storage.path", "write.location-provider.impl"]
)
def test_files_that_would_land_elsewhere(lake: Lake, old: Old, name: str) -> None:
    old.make()
    file = old.variant(lambda raw: raw["properties"].update({name: "x"}))
    assert f"its property {name} puts new files" in refused(lake, file, name="a.t")


def test_a_data_file_that_is_gone(lake: Lake, old: Old) -> None:
    old.make()
    gone = sorted((old.folder / "files").rglob("*.parquet"))
    for file in gone:
        file.unlink()
    assert f"{gone[0]} and 1 more is missing" in refused(lake, old.url)


def test_a_table_of_this_lake(lake: Lake) -> None:
    catalog = lake.pyiceberg()
    catalog.create_namespace("a")
    catalog.create_table("a.t", ROWS.schema).append(ROWS)
    assert "this lake's own warehouse" in refused(lake, lake.at().pointer("a.t"), name="a.again")
    assert "this lake's own warehouse" in refused(lake, f"sqlite:///{lake.root}/catalog.db", into="b")


def test_a_table_around_this_lake(lake: Lake, old: Old) -> None:
    old.make()
    file = old.variant(lambda raw: raw.update({"location": str(lake.root)}))
    assert "has this lake in it" in refused(lake, file, name="a.t")


def test_encrypted_tables(lake: Lake, old: Old) -> None:
    old.make()
    by_property = old.variant(lambda raw: raw["properties"].update({"encryption.key-id": "k"}))
    by_key = old.variant(lambda raw: raw.update({"encryption-keys": [{"key-id": "k"}]}))
    by_snapshot = old.variant(lambda raw: raw["snapshots"][0].update({"key-id": "k"}))
    for file in (by_property, by_key, by_snapshot):
        assert "it is encrypted" in refused(lake, file, name="a.t")


def test_formats_and_types_that_no_reader_knows(lake: Lake, old: Old) -> None:
    old.make()
    future = old.variant(lambda raw: raw.update({"format-version": 4}))
    assert "its format version is 4" in refused(lake, future, name="a.t")
    shape = {"id": 3, "name": "shape", "type": "geometry", "required": False}
    geometry = old.variant(lambda raw: raw["schemas"][-1]["fields"].append(shape))
    assert "its columns shape have types" in refused(lake, geometry, name="a.t")


def test_metadata_of_the_first_writers(lake: Lake, old: Old) -> None:
    old.make(**{"format-version": "1"})
    unlisted = old.variant(lambda raw: raw["snapshots"][0].update({"manifest-list": None, "manifests": []}))
    schemaless = old.variant(lambda raw: raw.update({"schema": raw.pop("schemas")[0]}))
    for file in (unlisted, schemaless):
        assert "an early form of format 1" in refused(lake, file, name="a.t")


def test_storage_that_the_lake_does_not_reach(lake: Lake, old: Old) -> None:
    old.make()
    assert "not on this machine's disk" in refused(lake, "hdfs://h/t/metadata/v1.metadata.json", name="a.t")
    far = old.variant(lambda raw: raw["snapshots"][0].update({"manifest-list": "hdfs://h/t/snap.avro"}))
    assert "hdfs://h/t/snap.avro is not on this machine's disk" in refused(lake, far, name="a.t")


@pytest.mark.parametrize("content", ["{}", "[]", "no json", '{"format-version": 2}'])
def test_files_that_are_no_metadata(lake: Lake, tmp_path: Path, content: str) -> None:
    file = tmp_path / "00001-x.metadata.json"
    file.write_text(content)
    assert str(file) in refused(lake, str(file), name="a.t")


def test_names_that_cannot_be_addressed(lake: Lake, old: Old) -> None:
    old.make()
    folder = old.pointer().parent.parent
    assert "is in no schema" in refused(lake, str(folder.parent))
    folder.rename(folder.with_name("or.ders"))
    message = refused(lake, str(old.folder / "files"))
    assert "sales.or.ders: a part of its name has a dot in it" in message


def test_two_tables_that_would_get_one_name(lake: Lake, old: Old) -> None:
    old.catalog.create_namespace("more")
    old.make()
    old.make("more.orders")
    assert "another table of the source would get the same name" in refused(lake, old.url, into="bronze")


# in between


@pytest.fixture
def between() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Has something done when the new metadata files are written and the commit is still to come."""

    def do(action: Callable[[], object]) -> None:
        def hook(name: str) -> None:
            if name == "adopt.written":
                action()

        faults.hook = hook

    yield do
    faults.hook = None


def test_a_table_that_appears_meanwhile_is_not_replaced(lake: Lake, old: Old, between: Callable[..., None]) -> None:
    old.make()
    old.make("sales.items")
    catalog = lake.pyiceberg()

    def write() -> None:
        catalog.create_namespace("sales")
        catalog.create_table("sales.orders", ROWS.schema)

    between(write)
    with pytest.raises(Unguarded, match=r"sales\.orders has been made on main meanwhile\. Nothing was adopted"):
        lake.adopt(old.url)
    assert [str(table) for table in lake.at()] == ["sales.orders"]
    assert count(lake, "sales.orders") == 0


def test_a_namespace_that_appears_meanwhile_is_taken_as_it_is(
    lake: Lake, old: Old, between: Callable[..., None]
) -> None:
    old.make()
    catalog = lake.pyiceberg()
    between(lambda: catalog.create_namespace("sales", {"owner": "ann"}))
    lake.adopt(old.url)
    assert catalog.load_namespace_properties("sales")["owner"] == "ann"
    assert count(lake, "sales.orders") == 6


def test_an_adoption_that_is_cut_off_leaves_files_for_the_sweep_and_nothing_else(
    lake: Lake, old: Old, between: Callable[..., None]
) -> None:
    old.make()
    before, standing = old.files(), lake.at().entries

    def crash() -> None:
        raise KeyboardInterrupt

    between(crash)
    with pytest.raises(KeyboardInterrupt):
        lake.adopt(old.url)
    assert (lake.at().entries, len(files(lake)), old.files()) == (standing, 1, before)
    for _ in range(2):
        lake.gc(grace=timedelta(0))
    assert files(lake) == set()


# views


def spark_catalog(spark: SparkSession, old: Old) -> str:
    """The old owner's catalog in Spark; its name there is also its name in the database."""
    for name, value in {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{old.folder}/c.db",
        ".warehouse": str(old.folder / "files"),
        ".jdbc.schema-version": "V1",
        ".cache-enabled": "false",
    }.items():
        spark.conf.set(f"spark.sql.catalog.prod{name}", value)
    return "prod"


def test_views_follow_the_ref_or_are_refused(lake: Lake, old: Old, spark_on: Open) -> None:
    old.make()
    session = spark_on(lake, "main")
    spark = session.spark
    there = spark_catalog(spark, old)
    spark.sql(f"USE {there}")
    spark.sql("CREATE VIEW sales.names AS SELECT DISTINCT name FROM sales.orders")
    spark.sql(f"CREATE VIEW sales.fixed AS SELECT * FROM {there}.sales.orders")
    session.use("main")
    spark.sql(f"CREATE VIEW {there}.sales.elsewhere AS SELECT 1 AS id")
    message = refused(lake, old.url)
    assert "View sales.elsewhere resolves its tables in the catalog 'main'" in message
    assert "names a ref: prod.sales.orders" in message
    assert "2 of 4 tables" in message
    lake.adopt(old.url, "sales.orders", "sales.names")
    assert lake.at().is_view("sales.names")
    assert count(lake, "sales.names") == 3
    spark.sql("INSERT INTO sales.orders VALUES (4, 'd')")
    assert spark.sql("SELECT count(*) FROM sales.names").collect()[0][0] == 4
    assert spark.sql(f"SELECT count(*) FROM {there}.sales.names").collect()[0][0] == 3
    assert "is a view, whose SQL names its tables" in refused(lake, old.url, "sales.names", into="b")


# the lake and the old owner


def test_engines_work_on_it_and_the_old_owner_sees_nothing_of_that(lake: Lake, old: Old, spark_on: Open) -> None:
    old.make()
    before, pointer = old.files(), old.pointer()
    lake.adopt(old.url)
    first = lake.at().metadata("sales.orders").snapshots[0].id
    spark = spark_on(lake, "main").spark
    spark.sql("INSERT INTO sales.orders VALUES (4, 'd')")
    spark.sql("ALTER TABLE sales.orders SET TBLPROPERTIES ('write.merge.mode'='merge-on-read')")
    spark.sql(
        "MERGE INTO sales.orders t USING (SELECT 4 AS id, 'e' AS name UNION ALL SELECT 5, 'f') s ON s.id = t.id"
        " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql("CALL main.system.rewrite_manifests('sales.orders')")
    lake.pyiceberg().load_table("sales.orders").append(pa.table({"id": [6], "name": ["g"]}))
    assert [row[0] for row in lake.sql("SELECT name FROM sales.orders WHERE id > 3 ORDER BY id")] == ["e", "f", "g"]
    then = spark.sql(f"SELECT count(*) FROM sales.orders VERSION AS OF {first}").collect()[0][0]
    assert (then, count(lake, "sales.orders")) == (3, 9)
    assert old.files() == before
    assert old.pointer() == pointer
    assert old.catalog.load_table("sales.orders").scan().to_arrow().num_rows == 6


def test_engines_neither_drop_it_nor_delete_its_files(lake: Lake, old: Old, spark_on: Open) -> None:
    old.make()
    before = old.files()
    lake.adopt(old.url)
    ours = files(lake)
    spark = spark_on(lake, "main").spark
    for sql in (
        "DROP TABLE sales.orders",
        "DROP TABLE sales.orders PURGE",
        "CALL main.system.expire_snapshots(table => 'sales.orders', older_than => TIMESTAMP '2100-01-01')",
        "CALL main.system.remove_orphan_files(table => 'sales.orders')",
    ):
        with pytest.raises(Exception) as caught:
            spark.sql(sql).collect()
        assert "mere " in str(explain(caught.value))
    with pytest.raises(Exception, match="use: mere drop"):
        lake.pyiceberg().purge_table("sales.orders")
    assert old.files() == before
    assert ours <= files(lake)
    assert count(lake, "sales.orders") == 6


def test_the_sweep_leaves_the_old_owners_files_alone(lake: Lake, old: Old) -> None:
    old.make()
    before = old.files()
    lake.branch("trial")
    lake.adopt(old.url, on="trial")
    lake.pyiceberg("trial").load_table("sales.orders").append(ROWS)
    lake.delete("trial")
    for _ in range(2):
        swept = lake.gc(grace=timedelta(0))
    assert swept.deleted
    assert all(file.location.startswith(lake.warehouse) for file in swept.deleted)
    assert files(lake) == set()
    assert old.files() == before


def test_the_old_owner_clears_its_folder_and_drops_the_table_without_hurting_the_lake(
    lake: Lake, old: Old, spark_on: Open
) -> None:
    old.make()
    lake.adopt(old.url)
    spark = spark_on(lake, "main").spark
    spark.sql("INSERT INTO sales.orders VALUES (4, 'd')")
    there = spark_catalog(spark, old)
    long_ago = time.time() - 10 * 24 * 3600
    orphan = old.folder / "files" / "sales" / "orders" / "data" / "orphan.parquet"
    orphan.write_bytes(b"")
    for path in [*old.folder.rglob("*"), *Path(lake.warehouse).rglob("*")]:
        os.utime(path, (long_ago, long_ago))
    spark.sql(f"CALL {there}.system.remove_orphan_files(table => 'sales.orders')").collect()
    assert not orphan.exists()  # it did look
    assert count(lake, "sales.orders") == 7
    spark.sql(f"DROP TABLE {there}.sales.orders")
    assert not old.catalog.table_exists("sales.orders")
    assert count(lake, "sales.orders") == 7
    assert lake.gc(dry_run=True).doomed == ()


# the command line


def mere(lake: Lake, *arguments: str, exit_code: int = 0) -> str:
    done = CliRunner().invoke(main, ["--lake", str(lake.root), "adopt", *arguments])
    assert done.exit_code == exit_code, (done.output, done.exception)
    return done.output


def test_a_dry_run_tells_all_and_changes_nothing(lake: Lake, old: Old) -> None:
    old.make()
    old.make("sales.away", **{"write.data.path": "/elsewhere"})
    before = lake.at().entries, files(lake)
    shown = mere(lake, old.url, "--dry-run", exit_code=1)
    assert "would adopt 1 table on main, and refuse 1" in shown
    assert any(line.split()[:3] == ["sales.orders", "table", "6"] for line in shown.splitlines())
    assert "refused sales.away: its property write.data.path" in shown
    found = json.loads(mere(lake, old.url, "sales.orders", "--dry-run", "--json"))
    assert found["commit"] is None
    assert [(table["name"], table["rows"], table["format_version"]) for table in found["tables"]] == [
        ("sales.orders", 6, 2)
    ]
    assert (lake.at().entries, files(lake)) == before


def test_the_command_adopts(lake: Lake, old: Old) -> None:
    old.make()
    assert "adopted 1 table on main: commit" in mere(lake, old.url, "--into", "bronze")
    assert "Nothing was changed" in mere(lake, old.url, "--into", "bronze", exit_code=1)
    mere(lake, old.url, "--as", "a.b", "--into", "c", exit_code=2)
    done = json.loads(mere(lake, str(old.pointer()), "--as", "bronze.again", "--json"))
    assert done["commit"]["kind"] == "adopt"
    assert count(lake, "bronze.again") == 6
