from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mere.errors import LakeError, LakeMoved, LakeNotFound, MetadataMissing
from mere.lake import faults
from mere.lake.iceberg import avro
from mere.lake.iceberg.files import Reach
from mere.lake.lake import Lake
from mere.lake.upkeep.gc import sweep
from mere.lake.upkeep.relocate import relocate
from tests.lake.iceberg_tables import BY_NAME_AND_DAY, append, create, delete, files, overwrite, read_all

# Of every commit and ref, every table or view: the rows at every snapshot.
Contents = dict[tuple[str, str], Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of a lake with a history: partitions, removed files, a branch, a tag, old snapshots."""
    root = tmp_path / "old" / "lake"
    with Lake.create(root) as lake:
        create(lake, "a.t", spec=BY_NAME_AND_DAY)
        append(lake, "a.t", 1, 2, 3)
        lake.tag("v1")
        overwrite(lake, "a.t", 4, 5, 6)
        lake.branch("dev")
        create(lake, "a.u", ref="dev")
        append(lake, "a.u", 7, ref="dev")
        with lake.pyiceberg("main").load_table("a.t").update_schema() as update:
            update.rename_column("name", "label")
        delete(lake, "a.t", "id = 5")
    return root


@pytest.fixture(autouse=True)
def no_hook_is_left() -> Iterator[None]:
    yield
    faults.hook = None


def contents(lake: Lake) -> Contents:
    found = {}
    for ref in [commit.id for commit in lake.store.all_commits()] + [ref.name for ref in lake.refs()]:
        for table in lake.at(ref):
            found[ref, str(table)] = None if lake.at(ref).is_view(table) else read_all(lake.at(ref).pointer(table))
    return found


def contents_of(root: Path) -> Contents:
    with Lake.open(root) as lake:
        return contents(lake)


def moved(root: Path, to: Path) -> Path:
    to.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.move(root, to))


def copied(root: Path, to: Path) -> Path:
    return Path(shutil.copytree(root, to))


def names_in_tree(lake: Lake) -> Iterator[str]:
    """Every text in every metadata file, manifest list and manifest that is reached."""
    for location in everything(lake):
        content = Path(location).read_bytes()
        if location.endswith(".avro"):
            yield from (json.dumps(record, default=str) for record in avro.records(content, *_all_fields(content)))
        elif location.endswith(".metadata.json"):
            yield gzip.decompress(content).decode() if ".gz." in location else content.decode()


def _all_fields(content: bytes) -> list[str]:
    return [field["name"] for field in avro._schema(avro._split(content)[0])["fields"]]


# what it mends


@pytest.mark.parametrize("bring", [moved, copied])
def test_a_lake_shows_the_same_everywhere_after_it_was_brought_elsewhere(
    root: Path, tmp_path: Path, bring: Callable[[Path, Path], Path]
) -> None:
    before, old = contents_of(root), str(root)
    new = bring(root, tmp_path / "a new place" / "lake")
    with pytest.raises(LakeMoved, match="mere relocate"):
        Lake.open(new)
    result = relocate(new)
    assert (result.old_root, result.root, result.moved) == (old, str(new), True)
    assert result.copied is (bring is copied)
    shutil.rmtree(root, ignore_errors=True)
    with Lake.open(new) as lake:
        assert contents(lake) == before
        assert [text for text in names_in_tree(lake) if old in text] == []
        lake.publish("dev")
        assert lake.at("main").pointer("a.u").startswith(str(new))


def test_a_copy_and_its_original_are_two_lakes(root: Path, tmp_path: Path) -> None:
    before = contents_of(root)
    new = copied(root, tmp_path / "copy")
    relocate(new)
    with Lake.open(root) as original, Lake.open(new) as copy:
        assert original.store.lake_id != copy.store.lake_id
        overwrite(copy, "a.u", 70, ref="dev")
        for _ in range(2):
            sweep(copy, grace=timedelta(0))
        assert contents(original) == before
    assert contents_of(root) == before


def test_a_lake_that_was_moved_keeps_its_id(root: Path, tmp_path: Path) -> None:
    with Lake.open(root) as lake:
        lake_id = lake.store.lake_id
    assert relocate(moved(root, tmp_path / "new")).lake_id == lake_id


def test_a_lake_that_is_only_reached_by_another_name_is_no_copy(root: Path, tmp_path: Path) -> None:
    before = contents_of(root)
    new = moved(root, tmp_path / "new")
    root.symlink_to(new)
    assert relocate(new).copied is False
    root.unlink()
    assert contents_of(new) == before


def test_a_lake_can_be_moved_again_and_back(root: Path, tmp_path: Path) -> None:
    before = contents_of(root)
    inside = moved(moved(root, tmp_path / "x"), root / "deeper" / "lake")  # under the old root
    relocate(inside)
    assert contents_of(inside) == before
    back = moved(moved(inside, tmp_path / "y"), tmp_path / "old" / "lake2")
    relocate(back)
    assert contents_of(back) == before


def test_the_places_of_namespaces_move_too(root: Path, tmp_path: Path) -> None:
    with Lake.open(root) as lake:
        lake.pyiceberg("main").create_namespace("b", {"location": f"{lake.warehouse}/elsewhere", "owner": "me"})
    new = moved(root, tmp_path / "new")
    relocate(new)
    with Lake.open(new) as lake:
        create(lake, "b.t")
        assert lake.at("main").pointer("b.t").startswith(f"{new}/warehouse/elsewhere/t")


def test_places_in_properties_uris_and_statistics_move_and_others_stay(root: Path, tmp_path: Path) -> None:
    with Lake.open(root) as lake:
        pointer = lake.at("main").pointer("a.t")
        raw = json.loads(Path(pointer).read_text())
        raw["location"] = f"file://{raw['location']}"
        raw["properties"] |= {"write.data.path": f"{root}/warehouse/data", "comment": f"not {root}", "far": "s3://b/x"}
        raw["properties"]["near"] = f"{root}-not/x"
        raw["statistics"] = [{"snapshot-id": 1, "statistics-path": f"file:{root}/warehouse/x.stats"}]
        raw["partition-statistics"] = [{"snapshot-id": 1, "statistics-path": "/elsewhere/x"}]
        edited = Path(pointer).with_name("v7.gz.metadata.json")
        edited.write_bytes(gzip.compress(json.dumps(raw).encode()))
    with closing(sqlite3.connect(root / "catalog.db")) as connection, connection:
        connection.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE catalog_name = 'main'", (f"file://{edited}",)
        )
    new = moved(root, tmp_path / "new")
    relocate(new)
    with Lake.open(new) as lake:
        metadata = lake.at("main").metadata("a.t")
        properties = metadata.properties
    assert metadata.location.startswith(f"file://{new}/warehouse/")
    assert metadata.location.endswith("v7.gz.metadata.json")
    assert metadata.raw["location"].startswith(f"file://{new}/warehouse/")
    assert properties["write.data.path"] == f"{new}/warehouse/data"
    assert (properties["comment"], properties["far"]) == (f"not {root}", "s3://b/x")
    assert properties["near"] == f"{root}-not/x"
    assert metadata.raw["statistics"][0]["statistics-path"] == f"file:{new}/warehouse/x.stats"
    assert metadata.raw["partition-statistics"][0]["statistics-path"] == "/elsewhere/x"


def test_commits_that_expired_do_not_stand_in_the_way(root: Path, tmp_path: Path) -> None:
    with Lake.open(root) as lake:
        for _ in range(2):
            sweep(lake, keep=timedelta(0), grace=timedelta(0))
        before = {ref.name: lake.at(ref.name).tables.keys() for ref in lake.refs()}
        log = [commit.id for commit in lake.log("main")]
    new = moved(root, tmp_path / "new")
    relocate(new)
    with Lake.open(new) as lake:
        assert {ref.name: lake.at(ref.name).tables.keys() for ref in lake.refs()} == before
        assert [commit.id for commit in lake.log("main")] == log
    with closing(sqlite3.connect(new / "catalog.db")) as connection:
        assert f"'{root}" not in "\n".join(connection.iterdump())


def test_old_metadata_is_left_to_the_sweep(root: Path, tmp_path: Path) -> None:
    before = contents_of(root)
    new = moved(root, tmp_path / "new")
    found = {path for path in new.rglob("*") if path.is_file()}
    result = relocate(new)
    assert found <= {path for path in new.rglob("*") if path.is_file()}
    with Lake.open(new) as lake:
        sweep(lake, grace=timedelta(0))
        assert len(sweep(lake, grace=timedelta(0)).deleted) == result.files
        assert contents(lake) == before


def test_progress_is_told(root: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    result = relocate(moved(root, tmp_path / "new"), progress=lambda done, total: told.append((done, total)))
    assert told == [(done, result.pointers) for done in range(result.pointers + 1)]


# what it refuses


def test_a_lake_that_was_not_moved_is_left_alone(root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.suffix != ".db-shm"}
    result = relocate(root)
    assert (result.moved, result.pointers, result.files) == (False, 0, 0)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.suffix != ".db-shm"} == before


def test_a_folder_without_a_lake_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LakeNotFound):
        relocate(tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "m0.avro", "metadata.json"])
def test_a_missing_file_is_named_and_nothing_changes(root: Path, tmp_path: Path, kind: str) -> None:
    with Lake.open(root) as lake:
        reach = Reach(lake.storage)
        reach.add(lake.at("main").pointer("a.t"))
        old = next(location for location in sorted(reach) if location.endswith(kind))
    new = moved(root, tmp_path / "new")
    missing = Path(old.replace(str(root), str(new)))
    content = missing.read_bytes()
    missing.unlink()
    with closing(sqlite3.connect(new / "catalog.db")) as connection:
        state = list(connection.iterdump())
    with pytest.raises(MetadataMissing) as caught:
        relocate(new)
    assert str(missing) in caught.value.message
    with closing(sqlite3.connect(new / "catalog.db")) as connection:
        assert list(connection.iterdump()) == state
    missing.write_bytes(content)
    relocate(new)
    contents_of(new)


def test_a_write_meanwhile_is_noticed(root: Path, tmp_path: Path) -> None:
    new = moved(root, tmp_path / "new")

    def write(name: str) -> None:
        if name == "relocate.written":
            with closing(sqlite3.connect(new / "catalog.db")) as connection, connection:
                connection.execute(
                    "UPDATE iceberg_tables SET metadata_location = metadata_location || 'x' WHERE catalog_name = 'dev'"
                )

    faults.hook = write
    with pytest.raises(LakeError, match="Somebody wrote"):
        relocate(new)
    with pytest.raises(LakeMoved):
        Lake.open(new)


# crashes


class Crash(BaseException):
    """Not an Exception: no handler may mend it, as none can mend a kill."""


STEPS = [
    ("relocate.file", 1),
    ("relocate.file", 8),
    ("relocate.written", 1),
    ("repoint.moved", 1),
    ("repoint.durable", 1),
]


@pytest.mark.parametrize(("step", "nth"), STEPS)
def test_one_that_dies_at_any_step_can_be_run_again(root: Path, tmp_path: Path, step: str, nth: int) -> None:
    before = contents_of(root)
    new = moved(root, tmp_path / "new")
    count = 0

    def hook(name: str) -> None:
        nonlocal count
        count += name == step
        if count == nth:
            raise Crash(name)

    faults.hook = hook
    with pytest.raises(Crash):
        relocate(new)
    faults.hook = None
    if step != "repoint.durable":
        with pytest.raises(LakeMoved):
            Lake.open(new)
    relocate(new)
    assert contents_of(new) == before
    with Lake.open(new) as lake:
        for _ in range(2):
            sweep(lake, grace=timedelta(0))
        assert files(lake) == set(everything(lake))


def everything(lake: Lake) -> Reach:
    reach = Reach(lake.storage)
    for pointer in lake.store.pointers():
        reach.add(pointer)
    return reach


# Spark


STATEMENTS = """
CREATE NAMESPACE g;
CREATE TABLE g.by_file (id BIGINT, name STRING, day DATE) USING iceberg PARTITIONED BY (day, truncate(2, name))
    TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read');
INSERT INTO g.by_file SELECT id, concat('a:/', id % 3), date_add(DATE'2026-11-01', cast(id % 2 AS INT)) FROM range(60);
DELETE FROM g.by_file WHERE id % 7 = 0;
ALTER TABLE g.by_file RENAME COLUMN name TO label;
UPDATE g.by_file SET label = 'zz' WHERE id = 5;
CREATE TABLE g.by_partition (id BIGINT) USING iceberg
    TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read', 'write.delete.granularity'='partition');
INSERT INTO g.by_partition SELECT id FROM range(30);
INSERT INTO g.by_partition SELECT id FROM range(30);
DELETE FROM g.by_partition WHERE id % 5 = 0;
CREATE TABLE g.vectors (id BIGINT) USING iceberg
    TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read');
INSERT INTO g.vectors SELECT id FROM range(30);
DELETE FROM g.vectors WHERE id % 5 = 0;
CREATE TABLE g.first (id BIGINT) USING iceberg TBLPROPERTIES ('format-version'='1');
INSERT INTO g.first SELECT id FROM range(10);
CREATE VIEW g.totals AS SELECT day, count(*) AS c FROM g.by_file GROUP BY day;
CALL main.system.compute_table_stats('g.by_file')
"""


def spark_rows(spark: Any, lake: Lake, ref: str) -> dict[str, list[tuple[Any, ...]]]:
    return {
        str(table): sorted(tuple(row) for row in spark.sql(f"SELECT * FROM {table}").collect())
        for table in lake.at(ref)
    }


def extension(name: str) -> Path:
    package = find_spec(f"duckdb_extension_{name}")
    assert package is not None
    assert package.origin is not None
    return next(Path(package.origin).parent.rglob("*.duckdb_extension"))


def duckdb_counts(lake: Lake) -> dict[tuple[str, int], int]:
    """Rows of every snapshot of main's tables; not of deletion vectors, which DuckDB cannot be trusted with."""
    found = {}
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        for name in ("avro", "iceberg"):
            connection.execute(f"LOAD '{extension(name)}'")
        for table in lake.at("main"):
            if lake.at("main").is_view(table) or str(table) == "g.vectors":
                continue
            for snapshot in lake.at("main").metadata(table).snapshots:
                scan = f"iceberg_scan('{lake.at('main').pointer(table)}', snapshot_from_id = {snapshot.id}::UBIGINT)"
                found[str(table), snapshot.id] = connection.execute(f"SELECT count(*) FROM {scan}").fetchall()[0][0]
    return found


def test_what_spark_wrote_is_the_same_for_every_engine_when_the_original_is_gone(
    tmp_path: Path, spark_on: Callable[..., Any]
) -> None:
    root, new = tmp_path / "old" / "lake", tmp_path / "new place" / "lake"
    with Lake.create(root) as lake:
        spark = spark_on(lake, "main").spark
        for statement in STATEMENTS.split(";"):
            spark.sql(statement)
        lake.tag("v1")
        spark.sql("INSERT INTO g.by_partition VALUES (100)")
        spark.sql("DELETE FROM g.vectors WHERE id = 3")
        by_spark = {ref: spark_rows(spark_on(lake, ref).spark, lake, ref) for ref in ("v1", "main")}
        by_duckdb, by_pyiceberg = duckdb_counts(lake), contents(lake)
        assert {60, 51, 48, 49} <= set(by_duckdb.values())
    relocate(copied(root, new))
    shutil.rmtree(root.parent)
    with Lake.open(new) as lake:
        for _ in range(2):
            sweep(lake, grace=timedelta(0))
        assert {location for location in files(lake) if not location.endswith(".crc")} == set(everything(lake))
        for ref, rows in by_spark.items():
            assert spark_rows(spark_on(lake, ref).spark, lake, ref) == rows
        assert duckdb_counts(lake) == by_duckdb
        assert contents(lake) == by_pyiceberg
        spark = spark_on(lake, "main").spark
        spark.sql("DELETE FROM g.by_file WHERE id = 6")
        spark.sql("DELETE FROM g.vectors WHERE id = 4")
        after = spark_rows(spark, lake, "main")
        assert len(after["g.by_file"]) == len(by_spark["main"]["g.by_file"]) - 1
        assert len(after["g.vectors"]) == len(by_spark["main"]["g.vectors"]) - 1
