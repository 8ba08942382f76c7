"""Jars for the tests alone: from their Maven coordinates, by the Ivy that is part of pyspark."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from mere.config import mere_home
from mere.engine.jvm import java
from mere.engine.jvm.classpath import spark_home
from mere.engine.lock import exclusive

_MODULE = """<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="mere" module="tests"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconf="default->runtime,master">{}</dependencies>
</ivy-module>
"""


def fetched(name: str, dependencies: str) -> Path:
    """The folder with the jars: fetched once, under a name that says which."""
    folder = mere_home() / "tests" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                _fetch(Path(scratch), dependencies)
                shutil.move(Path(scratch) / "jars", folder)
    return folder


def _fetch(scratch: Path, dependencies: str) -> None:
    (scratch / "ivy.xml").write_text(_MODULE.format(dependencies))
    (ivy,) = (spark_home() / "jars").glob("ivy-*.jar")
    pattern = str(scratch / "jars" / "[artifact]-[revision](-[classifier]).[ext]")
    command = [str(java.find().executable), "-jar", str(ivy), "-cache", str(scratch / "cache")]
    command += ["-ivy", str(scratch / "ivy.xml"), "-retrieve", pattern]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode or not (scratch / "jars").is_dir():
        raise AssertionError(f"the jars could not be fetched:\n{run.stdout[-2000:]}")
