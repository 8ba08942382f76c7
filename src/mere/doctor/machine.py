"""The machine: Python, memory, disks, Java, DuckDB."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from mere.config import mere_home
from mere.doctor.context import Subject
from mere.doctor.findings import Verdict
from mere.engine.jvm.process import memory_bytes
from mere.errors import MereError
from mere.installing import pip_install
from mere.lake.storage.port import local_path

LEAST_FREE = 1_000_000_000  # a class-data archive and the jars alone take half of it
OLDEST_PYTHON = (3, 11)
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def python(_: Subject) -> Verdict:
    shown = f"Python {platform.python_version()} at {sys.executable}"
    if sys.version_info < OLDEST_PYTHON:
        return Verdict.failed(shown, f"mere needs Python {'.'.join(map(str, OLDEST_PYTHON))} or newer.")
    return Verdict(shown)


def memory(subject: Subject) -> Verdict:
    total = memory_of_machine()
    wanted = memory_bytes(subject.settings.memory)
    cores = os.cpu_count() or 1
    shown = f"{cores} cores, {_gigabytes(total)} of memory, {subject.settings.memory} of it for Spark"
    # Beside its heap a JVM takes some hundred megabytes, and Python has its share.
    if wanted > total * 0.8:
        return Verdict.warn(
            f"{shown}: too much, the system may kill it",
            f"Set `memory:` below `spark:` in mere.yaml to at most {total * 0.6 / 2**20:.0f}m.",
        )
    return Verdict(shown)


def memory_of_machine() -> int:
    """The machine's, or the container's if that has less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(total, int(_CGROUP.read_text()))
    except (OSError, ValueError):
        return total


def disks(subject: Subject) -> Verdict:
    places = {"temporary files": Path(tempfile.gettempdir()), "mere's own folder": mere_home()}
    if (lake := _lake_folder(subject)) is not None:
        places = {"the lake": lake, **places}
    free = {name: shutil.disk_usage(_existing(path)).free for name, path in places.items()}
    shown = ", ".join(f"{_gigabytes(count)} for {name}" for name, count in free.items())
    short = [f"{name} ({places[name]})" for name, count in free.items() if count < LEAST_FREE]
    if short:
        return Verdict.warn(f"free: {shown}", f"Free some space for {', '.join(short)}; old files of the lake: mere gc")
    return Verdict(f"free: {shown}")


def home(_: Subject) -> Verdict:
    folder = mere_home()
    if not os.access(_existing(folder), os.W_OK) or not _existing(folder).is_dir():
        return Verdict.failed(
            f"{folder} cannot be written to: jars and logs are kept there",
            "Set MERE_HOME to a folder that you may write to.",
        )
    return Verdict(str(folder))


def java(subject: Subject) -> Verdict:
    return Verdict(f"Java {subject.java.version} at {subject.java.home}")


def duckdb(_: Subject) -> Verdict:
    import duckdb

    from mere.lake.query.duckdb import opened

    try:
        with opened() as connection:
            connection.execute("SELECT 1").fetchall()
    except duckdb.Error as error:
        return Verdict.failed(
            f"DuckDB {duckdb.__version__} does not load its extensions: {str(error).splitlines()[0]}",
            f"Install mere and what it needs again: {pip_install('--force-reinstall', 'mere')}",
        )
    return Verdict(f"DuckDB {duckdb.__version__} with its extensions for Iceberg")


def _lake_folder(subject: Subject) -> Path | None:
    try:
        return local_path(str(subject.project.lake)) if subject.project else None
    except MereError:
        return None  # on S3, or the file is wrong


def _existing(path: Path) -> Path:
    """The folder, or the nearest one above it that there is."""
    return next(each for each in (path, *path.parents) if each.exists())


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
