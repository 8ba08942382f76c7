"""A place has one lake: what another lake, or somebody else, has put there is never swept."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from mere.errors import LakeError, LakeUnreadable
from mere.lake.lake import Lake
from mere.lake.place.places import MARKER
from mere.lake.upkeep.relocate import relocate
from tests.lake.places import LOCAL, POSTGRES, S3, Place, place

ZERO = timedelta(0)


@pytest.fixture(params=[LOCAL, pytest.param(POSTGRES, marks=pytest.mark.long), S3])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, tmp_path, request)


def other_catalog(at: Place, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """The same place, with the catalog in another database."""
    return replace(at, catalog=place(POSTGRES, tmp_path, request).catalog)


def owner(lake: Lake) -> str:
    return str(json.loads(lake.storage.read(f"{lake.location}/{MARKER}"))["lake_id"])


def test_a_second_lake_is_not_made_at_the_place_of_another(
    at: Place, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with at.create() as lake:
        at.engine(lake).append("main", "a.t", 1)
        assert owner(lake) == lake.store.lake_id
        with pytest.raises(LakeError, match="already a lake at"):
            other_catalog(at, tmp_path, request).create()
        lake.storage.delete(f"{lake.location}/{MARKER}")  # as an older mere has left it
        with pytest.raises(LakeError, match=r"already a lake at|There are files in .* No lake was made"):
            other_catalog(at, tmp_path, request).create()


def test_the_catalog_of_another_lake_neither_opens_nor_sweeps_a_place(
    at: Place, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Both lakes may be older than the marker; then the first that is used has the place."""
    other = other_catalog(at, tmp_path, request)
    other.create().close()
    first = other.open()
    first.storage.delete(f"{first.location}/{MARKER}")
    with at.create() as second, first:
        file = f"{second.warehouse}/t/metadata/1.json"
        second.storage.write_new(file, b"{}")
        for dry_run in (True, False):
            with pytest.raises(LakeError, match="belongs to another lake"):
                first.gc(dry_run=dry_run, grace=ZERO)
        if at.s3 is None:
            with pytest.raises(LakeError, match="belongs to another lake"):
                other.open()
        assert len(second.gc(grace=ZERO).doomed) == 1
        assert second.storage.exists(file)


def test_files_that_are_there_already_are_nobodys_to_sweep(at: Place) -> None:
    with at.create() as lake:
        storage = lake.storage
    elsewhere = replace(at, path=f"{at.path}-2")
    storage.write_new(f"{elsewhere.path}/warehouse/theirs/x.parquet", b"1")
    with pytest.raises(LakeError, match=r"There are files in .*warehouse, such as .*x\.parquet"):
        elsewhere.create()
    assert storage.exists(f"{elsewhere.path}/warehouse/theirs/x.parquet")
    assert not storage.exists(f"{elsewhere.path}/catalog.db")


@pytest.mark.parametrize("inside", ["warehouse", "warehouse/sub", "warehouse/a/warehouse/b"])
def test_no_lake_is_made_in_the_warehouse_of_another(
    at: Place, inside: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with at.create() as lake:
        nested = replace(other_catalog(at, tmp_path, request), path=f"{at.path}/{inside}")
        with pytest.raises(LakeError, match="in the warehouse of the lake at"):
            nested.create()
        assert lake.gc(grace=ZERO).doomed == ()


def test_a_lake_beside_the_warehouse_of_another_hurts_nobody(tmp_path: Path) -> None:
    with Lake.create(tmp_path) as outer, Lake.create(tmp_path / "beside") as inner:
        assert outer.gc(grace=ZERO).doomed == inner.gc(grace=ZERO).doomed == ()


def test_a_lake_of_an_older_mere_gets_its_marker(at: Place) -> None:
    with at.create() as lake:
        marker, storage = f"{lake.location}/{MARKER}", lake.storage
    storage.delete(marker)
    with at.open() as lake:
        assert storage.exists(marker) is (at.s3 is None)  # to open one on S3 asks only its database
        lake.gc(dry_run=True)
        lake.gc()
        assert owner(lake) == lake.store.lake_id


@pytest.mark.service
def test_a_place_that_is_away_is_not_made_anew(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    at = place(POSTGRES, tmp_path, request)
    at.create().close()
    shutil.rmtree(at.path)  # as a disk that is not mounted
    at.open().close()
    assert not Path(at.path).exists()


def test_a_damaged_marker_is_named(tmp_path: Path) -> None:
    Lake.create(tmp_path / "lake").close()
    (tmp_path / "lake" / MARKER).write_bytes(b"")
    with pytest.raises(LakeUnreadable, match=rf"{MARKER} cannot be read") as caught:
        Lake.open(tmp_path / "lake")
    assert "delete " in str(caught.value.remedy)


# relocate


def test_a_copy_has_a_marker_of_its_own(tmp_path: Path) -> None:
    Lake.create(tmp_path / "one").close()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    relocate(tmp_path / "two")
    with Lake.open(tmp_path / "one") as one, Lake.open(tmp_path / "two") as two:
        assert owner(one) == one.store.lake_id != two.store.lake_id == owner(two)
        one.gc()
        two.gc()


def test_a_lake_that_was_moved_without_its_marker_gets_it_again(tmp_path: Path) -> None:
    Lake.create(tmp_path / "one").close()
    (tmp_path / "one" / MARKER).unlink()
    shutil.move(tmp_path / "one", tmp_path / "two")
    relocate(tmp_path / "two")
    assert (tmp_path / "two" / MARKER).exists()


@pytest.mark.service
def test_a_lake_is_not_relocated_to_the_place_of_another(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    at, theirs = place(POSTGRES, tmp_path, request), Place(str(tmp_path / "theirs"))
    with at.create() as lake, theirs.create():
        with pytest.raises(LakeError, match="belongs to another lake"):
            relocate(theirs.path, catalog=at.catalog)
        assert lake.store.root == at.path
    at.open().close()
