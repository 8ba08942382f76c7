"""The class path: a fixed list of files, none of them signed."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from mere.engine.jvm import classpath
from mere.engine.jvm.classpath import class_path, identity, spark_home, sqlite_library


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pyspark with four jars, one of them signed."""
    folder = tmp_path / "pyspark" / "jars"
    folder.mkdir(parents=True)
    for name in ("a.jar", "spark-mllib_2.13-4.jar", "janino-3.jar", "z.jar"):
        with zipfile.ZipFile(folder / name, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
            jar.writestr("META-INF/KEY.SF", "signed")
            jar.writestr("META-INF/KEY.RSA", "signed")
            jar.writestr("a/B.class", "code")
    monkeypatch.setattr(classpath, "spark_home", lambda: folder.parent)
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "home"))
    return folder


def test_the_order_is_fixed_and_the_extra_jars_come_last(spark: Path, tmp_path: Path) -> None:
    names = [path.name for path in class_path([tmp_path / "iceberg.jar"], ml=True)]
    assert names == ["a.jar", "janino-3.jar", "spark-mllib_2.13-4.jar", "z.jar", "iceberg.jar"]


def test_machine_learning_is_left_out_unless_asked_for(spark: Path) -> None:
    assert [path.name for path in class_path([], ml=False)] == ["a.jar", "janino-3.jar", "z.jar"]


def test_a_signed_jar_is_replaced_by_a_copy_without_its_signature(spark: Path) -> None:
    unsigned = class_path([], ml=False)[1]
    assert unsigned.parent != spark
    with zipfile.ZipFile(unsigned) as jar:
        assert jar.namelist() == ["META-INF/MANIFEST.MF", "a/B.class"]
        assert jar.read("a/B.class") == b"code"
    stat = unsigned.stat()
    assert class_path([], ml=False)[1].stat() == stat  # made once
    assert stat.st_mtime_ns == (spark / "janino-3.jar").stat().st_mtime_ns


def test_without_a_place_for_the_copy_the_signed_jar_is_used(spark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MERE_HOME", str(spark / "a.jar"))
    assert class_path([], ml=False)[1] == spark / "janino-3.jar"


def test_the_identity_changes_with_any_jar(spark: Path) -> None:
    jars = class_path([], ml=False)
    before = identity(jars)
    assert identity(class_path([], ml=False)) == before
    os.utime(spark / "z.jar", (1, 1))
    assert identity(jars) != before
    assert identity(jars[:-1]) != before


def test_a_jar_without_the_native_library_is_left_to_the_driver(spark: Path) -> None:
    assert sqlite_library(spark / "a.jar") is None


def test_the_real_spark_is_found_without_importing_it() -> None:
    assert list((spark_home() / "jars").glob("spark-core_*.jar"))
