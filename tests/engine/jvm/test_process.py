"""Starting the driver's JVM: its flags, its log, its end."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from mere.engine.jvm import java
from mere.engine.jvm import process as module
from mere.engine.jvm.java import Java
from mere.engine.jvm.process import Jvm, Launch, prepare
from mere.engine.jvm.work import HEAVY_BYTES, PATIENT_COMPILER, STEADY_BYTES, Work
from mere.errors import EngineError
from mere.sparkconfig import SparkSettings


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return Launch(Java(tmp_path / "jdk", "17.0.1"), (tmp_path / "a.jar", tmp_path / "b.jar"))


def flags(launch: Launch) -> list[str]:
    return launch.command(Path("spark.log"), Path("tmp"))


def test_short_work_is_compiled_quickly_and_longer_work_well(launch: Launch) -> None:
    assert Work.of(0) is Work.of(STEADY_BYTES - 1) is Work.SHORT
    assert Work.of(STEADY_BYTES) is Work.of(HEAVY_BYTES - 1) is Work.STEADY
    assert Work.of(HEAVY_BYTES) is Work.HEAVY
    assert {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"} <= set(flags(launch))
    for work, collector in ((Work.STEADY, "-XX:+UseSerialGC"), (Work.HEAVY, "-XX:+UseParallelGC")):
        given = flags(replace(launch, work=work))
        assert {*PATIENT_COMPILER, collector} <= set(given)
        assert "-XX:TieredStopAtLevel=1" not in given


@pytest.mark.service
@pytest.mark.parametrize("work", Work)
def test_every_jvm_reserves_room_for_compiled_code(work: Work) -> None:
    """Without it the JVM stops to compile after a few runs, and then dies."""
    command = [str(java.find().executable), *work.value, "-XX:+PrintFlagsFinal", "-version"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    reserved = next(line.split() for line in printed.splitlines() if " ReservedCodeCacheSize " in line)
    assert int(reserved[3]) >= 240 << 20


def test_an_archive_is_read_or_written_never_both(launch: Launch, tmp_path: Path) -> None:
    archive = tmp_path / "x.jsa"
    assert f"-XX:SharedArchiveFile={archive}" in flags(replace(launch, archive=archive))
    writing = flags(replace(launch, archive=archive, dump_to=archive))
    assert f"-XX:ArchiveClassesAtExit={archive}" in writing
    assert f"-XX:SharedArchiveFile={archive}" not in writing


def test_the_vector_module_is_for_machine_learning_only(launch: Launch) -> None:
    assert "--add-modules=jdk.incubator.vector" not in flags(launch)
    assert "--add-modules=jdk.incubator.vector" in flags(replace(launch, ml=True))


def test_the_users_jars_and_options_are_taken(tmp_path: Path, warm_jvm: None) -> None:
    own = tmp_path / "own.jar"
    own.touch()
    conf = {"spark.jars": str(own), "spark.driver.extraJavaOptions": "-Da=1 '-Db=2 3'"}
    launch = prepare(SparkSettings(memory="3g", conf=conf), HEAVY_BYTES)
    assert (launch.jars[-1], launch.extra) == (own, (own,))
    assert (launch.options, launch.memory, launch.work) == (("-Da=1", "-Db=2 3"), "3g", Work.HEAVY)


def test_what_cannot_work_is_refused_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"do not exist: .*nowhere\.jar"):
        prepare(SparkSettings(conf={"spark.jars": str(tmp_path / "nowhere.jar")}))
    with pytest.raises(EngineError, match="does not start with 300m"):
        prepare(SparkSettings(memory="300m"))


def a_program(folder: Path, script: str) -> Java:
    """A Java that is a shell script."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Java(folder, "17.0.1")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_jvm_that_dies_at_the_start_shows_its_last_words(launch: Launch, home: Path) -> None:
    script = "echo 'Picked up JAVA_TOOL_OPTIONS: x'; echo 'Error: no room' >&2; printf '\\tat a.b.C\\n'; exit 3"
    jvm = Jvm(replace(launch, java=a_program(home / "jdk", script)))
    with pytest.raises(EngineError, match="ended at once, with exit code 3:\n  Error: no room\n") as caught:
        jvm.connect()
    assert str(jvm.log) in str(caught.value.remedy)
    assert jvm.log.parent == home / "logs"
    assert not jvm.scratch.exists()


def test_a_jvm_that_never_answers_is_given_up(launch: Launch, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.2)
    jvm = Jvm(replace(launch, java=a_program(home / "jdk", "exec sleep 60")))
    with pytest.raises(EngineError, match=r"did not answer within 0\.2 s"):
        jvm.connect()
    assert not jvm.alive


def test_a_java_that_cannot_be_run_is_an_error_of_ours(launch: Launch, home: Path) -> None:
    with pytest.raises(EngineError, match="cannot be started: No such file"):
        Jvm(launch)


def test_nothing_that_is_secret_reaches_the_command_line(launch: Launch, home: Path) -> None:
    jvm = Jvm(replace(launch, java=a_program(home / "jdk", 'echo "$@"; echo "$CLASSPATH"; cat')))
    assert jvm.process.stdin is not None
    jvm.process.stdin.close()
    jvm.process.wait()
    arguments, class_path = jvm.log.read_text().splitlines()
    assert ".jar" not in arguments
    assert class_path == os.pathsep.join(map(str, launch.jars))
    jvm.end()


def test_only_the_last_logs_are_kept(launch: Launch, home: Path) -> None:
    (home / "logs").mkdir(parents=True)
    for number in range(30):
        (home / "logs" / f"spark-20260101-0000{number:02d}-1.log").write_text("x")
    jvm = Jvm(replace(launch, java=a_program(home / "jdk", "exit 0")))
    jvm.process.wait()
    jvm.end()
    kept = sorted(path.name for path in (home / "logs").iterdir())
    assert len(kept) == module.KEPT_LOGS  # its own was empty, and is gone
    assert kept[-1] == "spark-20260101-000029-1.log"
