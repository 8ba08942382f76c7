"""A lake is deleted whole or not at all, and nothing but the lake."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from mere.errors import CatalogLost, LakeError, LakeNotFound, LeaseHeld
from mere.lake import faults
from mere.lake.lake import Lake
from mere.lake.storage import storage_at
from mere.names import TableName
from tests.lake.places import LOCAL, POSTGRES, S3, Place, place

POINTS = ("delete.noted", "delete.catalog", "delete.files", "delete.marker")


@pytest.fixture(params=[LOCAL, pytest.param(POSTGRES, marks=pytest.mark.long), S3])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    found = place(request.param, tmp_path, request)
    with found.create() as lake:
        catalog = lake.pyiceberg("main")
        catalog.create_namespace("a")
        rows = pa.table({"id": [1, 2, 3]})
        catalog.create_table("a.t", rows.schema).append(rows)
        lake.branch("dev")
        lake.tag("v1")
    return found


def delete(at: Place) -> None:
    deletion = Lake.deletion(at.path, catalog=at.catalog, s3=at.s3)
    try:
        deletion.carry_out()
    finally:
        deletion.close()


def left(at: Place) -> list[str]:
    return [file.location for file in storage_at(at.path, at.s3).files(at.path)]


def relations(at: Place) -> set[str]:
    """Of the database."""
    if at.catalog is None:
        return set()
    with psycopg.connect(at.catalog) as connection:
        query = (
            "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        )
        return {name for (name,) in connection.execute(query)}


def test_nothing_is_left_of_a_lake_and_another_can_be_made(at: Place) -> None:
    deletion = Lake.deletion(at.path, catalog=at.catalog, s3=at.s3)
    found = deletion.removal
    assert [str(table) for table in found.tables] == ["a.t"]
    assert found.refs == ("dev", "main", "v1")
    assert (found.files, found.resumed) == (len(left(at)), False)
    assert found.size > 0
    assert (found.catalog is None) is (at.catalog is None)
    assert "@" not in (found.catalog or "")
    deletion.carry_out()
    deletion.close()
    assert left(at) == []
    assert relations(at) == set()
    assert at.s3 or not Path(at.path).exists()
    with pytest.raises(LakeNotFound):
        at.open()
    at.create().close()


@pytest.mark.parametrize("point", POINTS)
def test_what_a_kill_has_left_is_deleted_by_doing_it_again(
    at: Place, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(name: str) -> None:
        if name == point:
            raise SystemExit(137)

    monkeypatch.setattr(faults, "hook", kill)
    with pytest.raises(SystemExit):
        delete(at)
    monkeypatch.setattr(faults, "hook", None)
    if point != "delete.noted":  # until then it is a lake like any other
        with pytest.raises(LakeError, match="was deleted only in part") as caught:
            at.open()
        assert caught.value.remedy == "Delete what is left of it: mere lake delete"
        with pytest.raises(LakeError, match="was deleted only in part"):
            at.create()
    delete(at)
    assert left(at) == []
    assert relations(at) == set()
    at.create().close()


def test_a_lake_that_has_only_lost_its_catalog_is_not_deleted(at: Place) -> None:
    if at.catalog is None:
        Path(at.path, "catalog.db").unlink()
    else:
        with psycopg.connect(at.catalog) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    before = left(at)
    with pytest.raises(CatalogLost):
        delete(at)
    assert left(at) == before


@pytest.mark.parametrize(
    "name", ["notes.txt", "warehouse/notes.txt", "warehouse/a/t/data/notes.txt", "other/x.parquet"]
)
def test_what_is_not_the_lakes_stops_it_before_anything_is_changed(at: Place, name: str) -> None:
    storage = storage_at(at.path, at.s3)
    storage.write_new(f"{at.path}/{name}", b"mine")
    before, database = left(at), relations(at)
    with pytest.raises(LakeError, match=rf"what is not the lake's: .*{name}\. Nothing was changed"):
        delete(at)
    assert (left(at), relations(at)) == (before, database)
    storage.delete(f"{at.path}/{name}")
    delete(at)
    assert left(at) == []


def test_a_link_stops_it_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    Lake.create(tmp_path / "lake").close()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x.parquet").write_bytes(b"1")
    (tmp_path / "lake" / "warehouse" / "link").symlink_to(tmp_path / "mine")
    with pytest.raises(LakeError, match="warehouse/link"):
        delete(Place(str(tmp_path / "lake")))
    assert (tmp_path / "mine" / "x.parquet").exists()
    Lake.open(tmp_path / "lake").close()


def test_nobody_may_be_writing(at: Place) -> None:
    before = left(at)
    with at.open() as lake:
        with (
            lake.lease([TableName("a", "t")], "somebody"),
            pytest.raises(LeaseHeld, match="somebody is writing to the lake"),
        ):
            delete(at)
        deletion = Lake.deletion(at.path, catalog=at.catalog, s3=at.s3)
        with lake.lease([TableName("a", "t")], "a late one"), pytest.raises(LeaseHeld, match="a late one is writing"):
            deletion.carry_out()
        deletion.close()
        assert set(before) <= set(left(at))  # beside them is what SQLite keeps while it is open
        lake.branch("still-there")
    delete(at)


@pytest.mark.service
def test_rows_of_other_catalogs_in_the_same_tables_stay(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    at = place(POSTGRES, tmp_path, request)
    assert at.catalog
    with at.create() as lake:
        lake.pyiceberg("main").create_namespace("a")
        lake.pyiceberg("main").create_table("a.t", pa.schema({"id": pa.int64()}))
    with psycopg.connect(at.catalog) as connection:
        connection.execute("SET LOCAL mere.writer = 'on'")
        connection.execute(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)"
            " VALUES ('theirs', 'b', 'u', 's3://x/m.json')"
        )
    delete(at)
    with psycopg.connect(at.catalog) as connection:
        assert connection.execute("SELECT catalog_name FROM iceberg_tables").fetchall() == [("theirs",)]
    assert not {name for name in relations(at) if name.startswith("mere_")}


@pytest.mark.service
def test_the_rest_of_a_lake_does_not_take_one_that_was_made_since_with_it(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is the same, and so is the profile."""
    at = place(POSTGRES, tmp_path, request)
    at.create().close()
    monkeypatch.setattr(faults, "hook", lambda name: exit(137) if name == "delete.catalog" else None)
    with pytest.raises(SystemExit):
        delete(at)
    monkeypatch.setattr(faults, "hook", None)
    elsewhere = Place(f"{at.path}-2", at.catalog)
    elsewhere.create().close()
    delete(at)
    assert left(at) == []
    elsewhere.open().close()
