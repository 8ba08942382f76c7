"""The rows that came and went between two snapshots, by DuckDB and by Spark: the same, of any type."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mere.engine.session import session
from mere.lake.diff import changed_rows as changedrows
from mere.lake.lake import Lake
from mere.names import TableName
from mere.pipeline.write.changes import CHANGE, Between, changed_keys, changed_rows, with_updates

TABLE = TableName("s", "t")
COLUMNS = (
    "id bigint, Name string, amount decimal(20, 4), day date, at timestamp, local timestamp_ntz, raw binary,"
    " ratio double, tags array<string>, place struct<city: string, zip: int>, counts map<string, int>"
)


def row(number: int, name: str = "x", count: int = 1) -> str:
    values = (
        f"{number}, '{name}', {number}.5, DATE'2024-02-0{number}', TIMESTAMP'2024-02-01 10:00:00.123456Z'",
        "TIMESTAMP_NTZ'2024-02-01 10:00:00', X'00FF', CAST('NaN' AS double), array('a', NULL)",
        f"named_struct('city', 'Rom', 'zip', {number}), map('a', {count}, 'b', 2)",
    )
    return f"({', '.join(values)})"


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_both_ways_to_compare_find_the_same_rows(
    mode: str, warm_jvm: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lake.create(tmp_path / "lake") as lake, session(lake, "main") as engine:
        spark = engine.spark
        modes = ", ".join(f"'write.{what}.mode'='{mode}'" for what in ("delete", "update", "merge"))
        for statement in (
            "CREATE NAMESPACE s",
            f"CREATE TABLE s.t ({COLUMNS}) USING iceberg TBLPROPERTIES ('format-version'='2', {modes})",
            f"INSERT INTO s.t VALUES {row(1)}, {row(1)}, {row(2)}, {row(3)}, {row(4)}",
        ):
            spark.sql(statement)
        since = lake.at().metadata("s.t").current_id
        for statement in (
            "ALTER TABLE s.t ADD COLUMN late string",
            "ALTER TABLE s.t RENAME COLUMN day TO date",
            "DELETE FROM s.t WHERE id = 2",
            "UPDATE s.t SET counts = map('b', 2, 'a', 7) WHERE id = 3",
            "UPDATE s.t SET late = 'l' WHERE id = 4",
            f"INSERT INTO s.t VALUES {row(1)[:-1]}, NULL), {row(5)[:-1]}, 'new')",
        ):
            spark.sql(statement)
        metadata = lake.at().metadata("s.t")
        between = Between(TABLE, metadata, since, metadata.current_id, lake.storage)

        def found() -> Counter[tuple[Any, ...]]:
            rows = changed_rows(between, spark)
            assert rows.drop(CHANGE).schema.simpleString() == spark.table("s.t").schema.simpleString()
            return Counter(map(tuple, rows.selectExpr(CHANGE, "id", "to_json(struct(*))").collect()))

        assert not between.appends_only
        columns = spark.table("s.t").columns
        assert changedrows.changed_rows("s.t", metadata, since or 0, metadata.current_id or 0, columns, lake.storage)
        by_duckdb = found()
        keys = changed_keys(between, {"k": "Name || ID", "half": "id / 2"}, spark).collect()
        updates = with_updates(changed_rows(between, spark), ["id"])
        told = Counter((each.id, each[CHANGE]) for each in updates.collect())
        monkeypatch.setattr(changedrows, "LIMIT", -1)
        assert found() == by_duckdb
    changes = Counter((id_, change) for (change, id_, _), count in by_duckdb.items() for _ in range(count))
    assert changes == {
        (1, "insert"): 1,
        (2, "delete"): 1,
        **{(number, change): 1 for number in (3, 4) for change in ("delete", "insert")},
        (5, "insert"): 1,
    }
    assert {each.k for each in keys} == {"x1", "x2", "x3", "x4", "x5"}
    assert told == {
        (1, "insert"): 1,
        (2, "delete"): 1,
        **{(number, f"update_{when}"): 1 for number in (3, 4) for when in ("before", "after")},
        (5, "insert"): 1,
    }
