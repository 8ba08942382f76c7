"""Hadoop's local files are made without a process for each, and are what they would be with one."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import psutil
import pytest

from mere.lake.lake import Lake
from tests.conftest import OpenSession


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "lake")


def test_a_table_is_written_without_a_process_for_each_file(lake: Lake, spark_on: OpenSession) -> None:
    with lake:
        opened = spark_on(lake, "main")
        jvm = psutil.Process(opened._driver.pid)  # type: ignore[attr-defined]
        before = jvm.cpu_times()
        for statement in ("CREATE NAMESPACE a", "CREATE TABLE a.t USING iceberg AS SELECT id FROM range(9)"):
            opened.spark.sql(statement)
        after = jvm.cpu_times()
    made = [each for each in (Path(lake.location) / "warehouse").rglob("*") if each.is_file()]
    assert len(made) >= 8  # with a checksum beside each
    assert after.children_user + after.children_system == before.children_user + before.children_system


def test_permissions_are_those_that_hadoop_gives(tmp_path: Path, lake: Lake, spark_on: OpenSession) -> None:
    with lake:
        jvm: Any = spark_on(lake, "main").spark._jvm
    hadoop = jvm.org.apache.hadoop.fs
    files = hadoop.FileSystem.get(jvm.java.net.URI("file:///"), jvm.org.apache.hadoop.conf.Configuration())
    stock = hadoop.RawLocalFileSystem()
    stock.initialize(jvm.java.net.URI("file:///"), jvm.org.apache.hadoop.conf.Configuration())
    modes: dict[str, list[int]] = {}
    for name, each in (("ours", files), ("stock", stock)):
        for path in (f"{name}/file", f"{name}/read", f"{name}/sticky"):
            each.create(hadoop.Path(str(tmp_path / path))).close()
        each.setPermission(hadoop.Path(str(tmp_path / name / "read")), hadoop.permission.FsPermission("440"))
        each.setPermission(hadoop.Path(str(tmp_path / name / "sticky")), hadoop.permission.FsPermission("1777"))
        made = (tmp_path / name, *(tmp_path / name / leaf for leaf in ("file", "read", "sticky")))
        modes[name] = [stat.S_IMODE(path.stat().st_mode) for path in made]
    assert files.getRawFileSystem().getClass().getName() == "LocalFiles$Raw"
    assert modes["ours"] == modes["stock"] == [0o755, 0o644, 0o440, 0o1777]
    with pytest.raises(Exception, match="NoSuchFile"):
        files.setPermission(hadoop.Path(str(tmp_path / "nowhere")), hadoop.permission.FsPermission("644"))
