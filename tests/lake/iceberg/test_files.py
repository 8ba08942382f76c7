from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mere.errors import LakeUnreadable, MereError, MetadataMissing
from mere.lake.iceberg import avro
from mere.lake.iceberg.files import Reach
from mere.lake.lake import Lake
from mere.lake.storage.port import LocalStorage, split_scheme
from tests.lake.iceberg_tables import BY_NAME_AND_DAY, append, create, delete, files, overwrite, read


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        create(lake, "a.t", spec=BY_NAME_AND_DAY)
        append(lake, "a.t", 1, 2, 3)
        yield lake


def pointer(lake: Lake, table: str = "a.t") -> str:
    return lake.at("main").pointer(table)


def metadata_of(location: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(Path(location).read_text())
    return content


def edited(location: str, **changes: Any) -> str:
    path = Path(location).with_name("00009-edited.metadata.json")
    path.write_text(json.dumps({**metadata_of(location), **changes}))
    return str(path)


def reached(pointer: str, storage: LocalStorage) -> set[str]:
    reach = Reach(storage)
    reach.add(pointer)
    return set(reach)


def older_metadata(location: str) -> set[str]:
    return {each["metadata-file"] for each in metadata_of(location)["metadata-log"]}


def test_every_file_of_a_table_is_reached_but_older_metadata(lake: Lake) -> None:
    append(lake, "a.t", 4, 5)
    overwrite(lake, "a.t", 6)
    delete(lake, "a.t", "id = 6")
    found = reached(pointer(lake), LocalStorage())
    assert found == files(lake) - older_metadata(pointer(lake))
    assert any("name=a%3Ab%2Fc" in location for location in found)


def test_a_file_that_a_snapshot_removed_is_reached_as_long_as_an_older_snapshot_is_there(lake: Lake) -> None:
    old, data = pointer(lake), {name for name in files(lake) if name.endswith(".parquet")}
    overwrite(lake, "a.t", 9)
    table = lake.pyiceberg("main").load_table("a.t")
    assert data <= reached(pointer(lake), LocalStorage())
    table.maintenance.expire_snapshots().by_ids(
        [snapshot.snapshot_id for snapshot in table.snapshots() if snapshot != table.current_snapshot()]
    ).commit()
    now = reached(pointer(lake), LocalStorage())
    assert not data & now
    assert {location for location in now if location.endswith(".parquet")}
    assert data <= reached(old, LocalStorage())
    assert [row["id"] for row in read(pointer(lake))] == [9]


def test_statistics_are_reached(lake: Lake) -> None:
    location = edited(
        pointer(lake),
        **{
            "statistics": [{"snapshot-id": 1, "statistics-path": "/x/1.stats"}],
            "partition-statistics": [{"snapshot-id": 1, "statistics-path": "file:///x/1.parquet"}],
        },
    )
    extra = reached(location, LocalStorage()) - reached(pointer(lake), LocalStorage())
    assert extra == {location, "/x/1.stats", "/x/1.parquet"}


def test_the_manifests_of_the_first_format_are_reached(lake: Lake) -> None:
    """It may name them in the snapshot itself, without a list."""
    expected = reached(pointer(lake), LocalStorage())
    (snapshot,) = metadata_of(pointer(lake))["snapshots"]
    listed = snapshot.pop("manifest-list")
    manifests = [entry["manifest_path"] for entry in avro.records(Path(listed).read_bytes(), "manifest_path")]
    location = edited(pointer(lake), **{"format-version": 1, "snapshots": [{**snapshot, "manifests": manifests}]})
    assert reached(location, LocalStorage()) == expected - {pointer(lake), listed} | {location}


def test_a_table_without_a_snapshot_and_a_view_reach_only_their_metadata(lake: Lake, tmp_path: Path) -> None:
    create(lake, "a.empty")
    assert reached(pointer(lake, "a.empty"), LocalStorage()) == {pointer(lake, "a.empty")}
    view = tmp_path / "00000-view.gz.metadata.json"
    view.write_bytes(gzip.compress(json.dumps({"view-uuid": "u", "format-version": 1, "versions": []}).encode()))
    assert reached(str(view), LocalStorage()) == {str(view)}


def test_a_file_is_the_same_file_by_path_by_uri_and_through_a_link(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(lake.warehouse)
    reach = Reach(LocalStorage())
    reach.add(f"file://{pointer(lake)}")
    (data,) = [location for location in reach if "a%3Ab" in location and "day=2026-11-02" in location]
    for spelling in (data, f"file:{data}", f"file://{data}", data.replace(lake.warehouse, str(tmp_path / "link"))):
        assert spelling in reach
    assert data.replace("%3A", ":") not in reach
    assert split_scheme("s3://bucket/file:/x") == ("", "s3://bucket/file:/x")


def test_each_file_is_read_once_however_many_share_it(lake: Lake) -> None:
    class Counting(LocalStorage):
        def __init__(self) -> None:
            self.reads: Counter[str] = Counter()

        def read(self, location: str) -> bytes:
            self.reads[location] += 1
            return super().read(location)

    for number in range(5):
        append(lake, "a.t", number)
    storage = Counting()
    reach = Reach(storage)
    for location in lake.store.pointers():
        reach.add(location)
    assert set(reach) == files(lake)
    assert set(storage.reads.values()) == {1}
    assert len(storage.reads) == 7 + 6 + 6  # metadata, lists, manifests


def manifest_list(lake: Lake) -> str:
    location: str = metadata_of(pointer(lake))["snapshots"][-1]["manifest-list"]
    return location


def manifest(lake: Lake) -> str:
    (entry,) = avro.records(Path(manifest_list(lake)).read_bytes(), "manifest_path")
    location: str = entry["manifest_path"]
    return location


def header_only(content: bytes) -> bytes:
    """Cut where the first block would begin: a well-formed Avro file without records."""
    header, sync, _ = avro._split(content)
    return avro._join(header, sync, b"")


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "garbage": lambda content: b"garbage",
    "half": lambda content: content[: len(content) // 2],
    "last byte": lambda content: content[:-1],
    "between blocks": header_only,
}


PLACES: dict[str, Callable[[Lake], str]] = {"metadata": pointer, "manifest list": manifest_list, "manifest": manifest}
DAMAGED = [
    (place, damage) for place in PLACES for damage in DAMAGES if (place, damage) != ("metadata", "between blocks")
]


@pytest.mark.parametrize(("place", "damage"), DAMAGED)
def test_a_damaged_file_is_an_error_that_names_it(lake: Lake, place: str, damage: str) -> None:
    start, location = pointer(lake), PLACES[place](lake)
    Path(location).write_bytes(DAMAGES[damage](Path(location).read_bytes()))
    with pytest.raises(LakeUnreadable) as caught:
        reached(start, LocalStorage())
    assert location in caught.value.message


@pytest.mark.parametrize("place", PLACES)
def test_a_missing_file_is_an_error_that_names_it(lake: Lake, place: str) -> None:
    start, location = pointer(lake), PLACES[place](lake)
    Path(location).unlink()
    with pytest.raises(MetadataMissing) as caught:
        reached(start, LocalStorage())
    assert location in caught.value.message


@pytest.mark.parametrize(
    "content",
    [b"[]", b"{}", b'{"format-version": 4}', b'{"format-version": 2, "snapshots": [{"snapshot-id": 1}]}'],
    ids=["a list", "nothing", "a newer format", "no manifests"],
)
def test_what_is_not_metadata_is_never_an_empty_table(tmp_path: Path, content: bytes) -> None:
    location = tmp_path / "00000-x.metadata.json"
    location.write_bytes(content)
    with pytest.raises(MereError) as caught:
        reached(str(location), LocalStorage())
    assert str(location) in str(caught.value)
