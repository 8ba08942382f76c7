"""Archives of class data: built once, used from then on, never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mere.engine.jvm import archive
from mere.engine.jvm.process import Jvm, Launch, prepare
from mere.engine.lock import exclusive
from mere.sparkconfig import SparkSettings


@pytest.fixture
def launch(warm_jvm: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Launch:
    """As for a real session, but with an empty folder for archives."""
    launch = prepare(SparkSettings(memory="600m"))
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "home"))
    return launch


def test_a_built_archive_is_used_by_the_next_jvm(launch: Launch, tmp_path: Path) -> None:
    def only_start(path: Path) -> None:
        jvm = Jvm(replace(launch, dump_to=path))
        jvm.connect()
        jvm.end(gently=True)

    assert archive.find(launch) is None
    built = archive.build(launch, only_start)
    assert built is not None
    assert archive.find(launch) == built
    assert sorted(path.suffix for path in built.parent.iterdir()) == [".jsa", ".lock"]

    loaded = tmp_path / "classes.txt"
    jvm = Jvm(replace(launch, archive=built, options=(f"-Xlog:class+load:file={loaded}",)))
    jvm.connect()
    jvm.end()
    lines = [line for line in loaded.read_text().splitlines() if "PythonGatewayServer source:" in line]
    assert lines
    assert all("shared objects file (top)" in line for line in lines)


def test_an_archive_that_does_not_fit_is_skipped_without_a_word(launch: Launch, tmp_path: Path) -> None:
    (tmp_path / "broken.jsa").write_bytes(b"not an archive")
    jvm = Jvm(replace(launch, archive=tmp_path / "broken.jsa"))
    jvm.connect()
    jvm.end()
    assert not jvm.log.exists()  # it would be there if anything had been said


def test_another_java_class_path_or_version_is_another_archive(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = {
        archive._path(launch),
        archive._path(replace(launch, java=replace(launch.java, version="17.0.999"))),
        archive._path(replace(launch, jars=launch.jars[1:])),
    }
    monkeypatch.setattr(archive, "_version", lambda: "another")
    paths.add(archive._path(launch))
    assert len(paths) == 4
    # Neither the amount of memory nor the kind of work makes a difference.
    assert archive._path(launch) == archive._path(replace(launch, memory="9g"))


def test_it_is_built_by_one_process_only(launch: Launch) -> None:
    def never(path: Path) -> None:
        raise AssertionError("trained twice")

    path = archive._path(launch)
    with exclusive(path.with_suffix(".lock")):
        assert archive.build(launch, never) is None
    path.write_bytes(b"built by another")
    assert archive.build(launch, never) == path


def test_a_failed_training_is_not_tried_again_on_the_same_day(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise RuntimeError("no luck")

    with pytest.raises(RuntimeError, match="no luck"):
        archive.build(launch, fail)
    path = archive._path(launch)
    assert sorted(each.suffix for each in path.parent.iterdir()) == [".lock", ".tried"]

    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *arguments, **_: started.append(arguments))
    archive.build_in_background(launch)
    assert started == []
    yesterday = time.time() - 2 * archive.DAY
    os.utime(path.with_suffix(".tried"), (yesterday, yesterday))
    archive.build_in_background(launch)
    assert len(started) == 1


def test_it_can_be_switched_off(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    path = archive._path(launch)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    assert archive.find(launch) == path
    monkeypatch.setenv("MERE_ARCHIVE", "off")
    assert archive.find(launch) is None


def test_old_archives_are_forgotten(launch: Launch) -> None:
    folder = archive._path(launch).parent
    folder.mkdir(parents=True)
    for age in range(6):
        (folder / f"{age}.jsa").write_bytes(b"x")
        os.utime(folder / f"{age}.jsa", (1000 - age, 1000 - age))
    built = archive.build(launch, Path.touch)
    assert built is not None
    assert sorted(path.name for path in folder.glob("*.jsa")) == sorted(["0.jsa", "1.jsa", "2.jsa", built.name])


@pytest.mark.long
def test_the_training_covers_what_sessions_do(launch: Launch, tmp_path: Path) -> None:
    cached = tmp_path / "home" / "jars"
    cached.mkdir(parents=True)
    for jar in launch.jars[-2:]:
        (cached / jar.name).symlink_to(jar)
    # In a process of its own: this one has a driver already.
    subprocess.run([sys.executable, "-m", "mere.engine.rehearsal"], check=True)
    (built,) = (tmp_path / "home" / "cds").glob("*.jsa")
    assert built.stat().st_size > 100_000_000
