"""The pinned jars: fetched once by Spark's resolver, checked, then never again."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mere.engine.jvm import jars
from mere.engine.jvm.jars import Jar, fetch
from mere.errors import JarsUnavailable


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_second_start_resolves_nothing(monkeypatch: pytest.MonkeyPatch, warm_jvm: None) -> None:
    def no_process(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", no_process)
    found = fetch()
    assert [path.name for path in found] == [jars.ICEBERG.file_name, jars.SQLITE.file_name]
    for jar, path in zip(jars.LOCAL, found, strict=True):
        assert hashlib.sha256(path.read_bytes()).hexdigest() == jar.sha256


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jar:
    """A Maven repository in a folder, set for Spark as a user would set it, and the one jar that it has."""
    folder = tmp_path / "mirror" / "example" / "mere" / "thing" / "1.0"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "thing-1.0.jar", "w") as archive:
        archive.writestr("hello.txt", "hello")
    (folder / "thing-1.0.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>example.mere</groupId>"
        "<artifactId>thing</artifactId><version>1.0</version></project>"
    )
    settings = tmp_path / "conf"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(f"spark.jars.repositories {(tmp_path / 'mirror').as_uri()}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(settings))
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "home"))
    # The public repositories are out of reach, as on a machine behind a wall.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9")
    sha256 = hashlib.sha256((folder / "thing-1.0.jar").read_bytes()).hexdigest()
    return Jar("example.mere:thing:1.0", sha256)


@pytest.mark.service
def test_a_jar_comes_from_the_users_mirror(mirror: Jar, tmp_path: Path) -> None:
    (path,) = fetch([mirror])
    assert path == tmp_path / "home" / "jars" / "thing-1.0.jar"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == mirror.sha256
    assert names(path.parent) == [".lock", "thing-1.0.jar"]


@pytest.mark.service
def test_a_jar_that_is_not_the_pinned_one_is_not_kept(mirror: Jar, tmp_path: Path) -> None:
    with pytest.raises(JarsUnavailable, match="not the jar that mere was built with") as caught:
        fetch([Jar(mirror.coordinate, "0" * 64)])
    assert f"expected SHA-256 {'0' * 64}" in caught.value.message
    assert f"found    SHA-256 {mirror.sha256}" in caught.value.message
    assert names(tmp_path / "home" / "jars") == [".lock"]


@pytest.mark.service
def test_offline_is_called_so(mirror: Jar, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR")
    with pytest.raises(JarsUnavailable, match="cannot be reached from here") as caught:
        fetch([mirror])
    assert mirror.coordinate in caught.value.message
    assert "offline" in str(caught.value.remedy)
    assert names(tmp_path / "home" / "jars") == [".lock"]


def test_first_starts_at_once_fetch_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    resolved: list[int] = []

    def resolve(wanted: Sequence[Jar], scratch: Path) -> Path:
        resolved.append(len(wanted))
        (scratch / "jars").mkdir()
        (scratch / "jars" / wanted[0].resolved_name).write_bytes(b"jar")
        return scratch / "jars"

    monkeypatch.setenv("MERE_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "_resolve", resolve)
    jar = Jar("a.b:c:1", hashlib.sha256(b"jar").hexdigest())
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: fetch([jar]), range(8)))
    assert found == [[tmp_path / "jars" / "c-1.jar"]] * 8
    assert resolved == [1]


def test_a_home_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "file"))
    with pytest.raises(JarsUnavailable, match=r"cannot be kept in .*file/jars") as caught:
        fetch()
    assert "MERE_HOME" in str(caught.value.remedy)
