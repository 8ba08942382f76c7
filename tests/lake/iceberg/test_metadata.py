"""What a change amounts to, told from metadata files of which the older one is not parsed."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from mere.errors import LakeUnreadable
from mere.lake.iceberg.metadata import _LARGEST, MetadataReader, growth
from mere.lake.log.commits import Stats
from mere.lake.storage.port import LocalStorage


def metadata(*snapshots: int, current: int | None = None, uuid: str = "u1", **more: Any) -> dict[str, Any]:
    """Each snapshot adds ten rows in one file."""
    listed = [
        {
            "snapshot-id": id_,
            "parent-snapshot-id": parent,
            "summary": {"operation": "append", "added-records": "10", "added-data-files": "1", "total-records": "10"},
        }
        for parent, id_ in zip((None, *snapshots), snapshots, strict=False)
    ]
    last = current or (snapshots[-1] if snapshots else None)
    return {"format-version": 2, "table-uuid": uuid, "current-snapshot-id": last, "snapshots": listed, **more}


DECOY = '{"current-snapshot-id": 7, "table-uuid": "x"}'
PAIRS = {
    "appended": (metadata(1), metadata(1, 2, 3), Stats(20, 0, 2, 0)),
    "altered": (metadata(1), metadata(1, schemas=[]), Stats()),
    "rolled back": (metadata(1, 2), metadata(1, 2, current=1), Stats(0, 10, 0, 1)),
    "replaced": (metadata(1), metadata(1, 2, uuid="u2"), None),
    "empty before": (metadata(), metadata(1), Stats(10, 0, 1, 0)),
    "none as engines of old write it": (metadata() | {"current-snapshot-id": -1}, metadata(1), Stats(10, 0, 1, 0)),
    "with a text that looks like a key": (metadata(1, properties={"a": DECOY}), metadata(1, 2), Stats(10, 0, 1, 0)),
    "with a property of that name": (
        metadata(1, properties={"current-snapshot-id": "7", "table-uuid": "u2"}),
        metadata(1, 2),
        Stats(10, 0, 1, 0),
    ),
    "with an object that has the key": (metadata(1, other={"current-snapshot-id": 7}), metadata(1, 2), None),
}


@pytest.mark.parametrize("how", ["compact", "indented", "packed"])
@pytest.mark.parametrize("name", PAIRS)
def test_what_was_added_is_told_alike_whether_the_old_file_is_parsed_or_not(
    tmp_path: Path, name: str, how: str
) -> None:
    old, new, known = PAIRS[name]
    ending = ".gz.metadata.json" if how == "packed" else ".metadata.json"
    for at, raw in enumerate((old, new)):
        content = orjson.dumps(raw, option=orjson.OPT_INDENT_2 if how == "indented" else None)
        (tmp_path / f"{at}{ending}").write_bytes(gzip.compress(content) if how == "packed" else content)
    first, second = (str(tmp_path / f"{at}{ending}") for at in (0, 1))
    reader, other = MetadataReader(LocalStorage()), MetadataReader(LocalStorage())
    found = reader.growth(first, reader.read(second))
    assert found == growth(other.read(first), other.read(second))
    if known:
        assert found == known
    assert reader.growth(first, reader.read(second)) == found


def test_a_compressed_file_is_bounded_and_whole(tmp_path: Path) -> None:
    packed = gzip.compress(orjson.dumps(metadata(1)))
    bomb = gzip.compress(b" " * (_LARGEST + 1), 1)
    for content, why in (
        (bomb, "larger than 256 MB"),
        (packed[:-9], "ended before"),
        (packed[:12] + b"x" * 40, "rror"),
    ):
        (tmp_path / "m.json").write_bytes(content)
        with pytest.raises(LakeUnreadable, match=why):
            MetadataReader(LocalStorage()).read(str(tmp_path / "m.json"))
