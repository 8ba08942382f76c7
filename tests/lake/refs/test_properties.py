"""Properties of tables and views that are set without an engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from mere.errors import ReadOnlyRef, TableNotFound, Unguarded
from mere.lake import faults
from mere.lake.lake import Lake
from mere.lake.log.commits import CommitKind, Stats
from mere.lake.storage.port import local_path
from tests.conftest import OpenSession
from tests.lake import iceberg_tables
from tests.lake.foreign import Foreign
from tests.lake.places import LOCAL, POSTGRES, Place, place


@pytest.fixture(params=[LOCAL, POSTGRES])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place(request.param, tmp_path, request)


def properties(lake: Lake, table: str, ref: str = "main") -> dict[str, str]:
    return {name: value for name, value in lake.at(ref).metadata(table).properties.items() if name != "gc.enabled"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("gc.enabled", "true"), ("gc.enabled", None), ("write.metadata.delete-after-commit.enabled", "true")],
)
def test_the_guards_cannot_be_switched_off(lake: Lake, engine: Foreign, name: str, value: str | None) -> None:
    engine.append("main", "a.t", 2)
    before = lake.at().entries
    with pytest.raises(Unguarded, match=rf"{name} of a\.t is a guard and stays false"):
        lake.set_properties({"a.t": {"note": "x", name: value}})
    assert lake.at().entries == before
    lake.set_properties({"a.t": {"gc.enabled": "false"}})


def test_properties_of_many_tables_are_set_in_one_commit(lake: Lake, engine: Foreign) -> None:
    old = engine.append("main", "a.t", 2, kept="yes", gone="soon")
    engine.append("main", "a.u")
    lake.branch("dev")
    commit = lake.set_properties({"a.t": {"mere.state": "{}", "gone": None}, "a.u": {"x": "1"}}, on="dev", author="ann")
    assert commit is not None
    assert (commit.kind, commit.author, commit.message) == (CommitKind.ALTER, "ann", "alter a.t, a.u")
    assert [(str(change.key), change.verb, change.stats) for change in commit.changes] == [
        ("a.t", "changed", Stats()),
        ("a.u", "changed", Stats()),
    ]
    assert properties(lake, "a.t", "dev") == {"kept": "yes", "mere.state": "{}"}
    assert properties(lake, "a.u", "dev") == {"x": "1"}
    assert properties(lake, "a.t") == {"kept": "yes", "gone": "soon"}
    metadata = lake.at("dev").metadata("a.t")
    assert metadata.rows == 2
    assert metadata.raw["metadata-log"][-1]["metadata-file"] == old
    assert next(iter(lake.log("dev"))) == commit


def test_nothing_is_written_if_all_is_so_already(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", x="1")
    files = sorted(file.location for file in lake.storage.files(lake.warehouse))
    head = lake.resolve("main").commit
    assert lake.set_properties({"a.t": {"x": "1", "y": None}}) is None
    assert lake.resolve("main").commit == head
    assert sorted(file.location for file in lake.storage.files(lake.warehouse)) == files


def test_what_an_engine_writes_meanwhile_is_kept(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.t", 1)
    engine.append("main", "a.u", 1)
    written: list[str] = []

    def write(point: str) -> None:
        if point == "properties.written" and len(written) < 3:
            written.append(engine.append("main", "a.t", 10))

    faults.hook = write
    assert lake.set_properties({"a.t": {"x": "1"}, "a.u": {"x": "2"}}) is not None
    assert len(written) == 3
    assert lake.at().metadata("a.t").rows == 31
    assert (properties(lake, "a.t"), properties(lake, "a.u")) == ({"x": "1"}, {"x": "2"})


def test_an_unknown_table_and_a_tag_are_refused(lake: Lake, engine: Foreign) -> None:
    engine.append("main", "a.orders")
    lake.tag("v1")
    with pytest.raises(TableNotFound, match=r"Did you mean a\.orders\? Nothing was changed"):
        lake.set_properties({"a.orders": {"x": "1"}, "a.order": {"x": "1"}})
    with pytest.raises(ReadOnlyRef):
        lake.set_properties({"a.orders": {"x": "1"}}, on="v1")
    assert properties(lake, "a.orders") == {}


def test_engines_read_what_was_set_on_tables_and_views(tmp_path: Path, spark_on: OpenSession) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        iceberg_tables.create(lake, "gold.t")
        iceberg_tables.append(lake, "gold.t", 1, 2)
        spark = spark_on(lake, "main").spark
        spark.sql("CREATE VIEW gold.v AS SELECT id FROM gold.t")
        lake.set_properties({"gold.t": {"mere.state": "one"}, "gold.v": {"mere.state": "two"}})

        def shown(table: str) -> dict[str, Any]:
            return {row[0]: row[1] for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}

        assert (shown("gold.t")["mere.state"], shown("gold.v")["mere.state"]) == ("one", "two")
        assert lake.pyiceberg().load_table("gold.t").properties["mere.state"] == "one"
        spark.sql("INSERT INTO gold.t VALUES (3, 'x', date'2024-01-01')")
        assert spark.sql("SELECT count(*) FROM gold.v").collect()[0][0] == 3
        assert lake.at().metadata("gold.t").properties["mere.state"] == "one"
        assert orjson.loads(local_path(lake.at().pointer("gold.v")).read_bytes())["properties"]["mere.state"] == "two"
