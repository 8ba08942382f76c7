"""The driver's class path as a list of files. A class data archive needs exactly the same list each time."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from mere.config import mere_home
from mere.errors import EngineError
from mere.installing import pip_install

# Spark's Java compiler for generated code comes signed. The JVM checks the signature of each of its 450 classes at
# every start and refuses to archive signed classes; copies without the signature are archived like all others.
_SIGNED = ("janino-", "commons-compiler-")
_SIGNATURE = re.compile(r"META-INF/[^/]+\.(SF|RSA|DSA|EC)", re.IGNORECASE)

# This jar registers SQL functions for vectors in every new session, by Scala reflection: an eighth of the CPU of a
# small job. Nothing else of Spark needs it.
_ML = ("spark-mllib_",)
_ML_FUNCTIONS = re.compile(r"META-INF/services/org\.apache\.spark\.sql\.SparkSessionExtensionsProvider")


def spark_home() -> Path:
    """The folder of the pyspark that would be imported; found without importing it."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EngineError("pyspark is not installed.", remedy=f"Install it: {pip_install('pyspark==4.1.4')}")
    home = Path(spec.origin).parent
    if not (home / "jars").is_dir():
        raise EngineError(
            f"The pyspark in {home} has no jars: it is only the client.",
            remedy=f"Install the full one: {pip_install('pyspark==4.1.4')}",
        )
    return home


def class_path(extra: Sequence[Path], *, ml: bool) -> list[Path]:
    """Spark's jars and the extra ones, in a fixed order."""
    spark = sorted(path for path in (spark_home() / "jars").iterdir() if path.suffix == ".jar")
    if not ml:
        spark = [path for path in spark if not path.name.startswith(_ML)]
    return [
        *(_without(_SIGNATURE, path, "unsigned") if path.name.startswith(_SIGNED) else path for path in spark),
        *extra,
    ]


def quiet_ml() -> list[Path]:
    """A Connect server needs a class of that jar to end a session: a copy of it that registers no functions."""
    found = (path for path in (spark_home() / "jars").iterdir() if path.name.startswith(_ML))
    return [_without(_ML_FUNCTIONS, path, "quiet") for path in found]


def identity(jars: Sequence[Path]) -> str:
    """Changes when any jar does. The JVM makes the same check, by name, size and time."""
    digest = hashlib.sha256()
    for jar in jars:
        stat = jar.stat()
        digest.update(f"{jar}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def sqlite_library(jar: Path) -> Path | None:
    """SQLite's native library, taken out of the driver's jar once.

    The driver would write it into a temporary folder at every start, and start a process to learn the platform.
    None where the platform is not a plain one: then the driver does as it always does.
    """
    inside = _native_path()
    if inside is None:
        return None
    target = mere_home() / "native" / jar.stem / Path(inside).name
    if not target.is_file():
        try:
            with zipfile.ZipFile(jar) as archive, archive.open(inside) as source, _new_file(target) as copy:
                shutil.copyfileobj(source, copy)
        except (KeyError, OSError, zipfile.BadZipFile):
            return None
    return target


def _native_path() -> str | None:
    machine = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}.get(
        platform.machine().lower()
    )
    if machine is None:
        return None
    if platform.system() == "Linux" and platform.libc_ver()[0] == "glibc":
        return f"org/sqlite/native/Linux/{machine}/libsqlitejdbc.so"
    if platform.system() == "Darwin":
        return f"org/sqlite/native/Mac/{machine}/libsqlitejdbc.dylib"
    return None


def _without(entries: re.Pattern[str], jar: Path, folder: str) -> Path:
    """A copy of the jar without some of its files, made once; the jar itself where none can be made."""
    stat = jar.stat()
    target = mere_home() / folder / f"{stat.st_size}-{stat.st_mtime_ns}" / jar.name
    if target.is_file():
        return target
    try:
        with (
            zipfile.ZipFile(jar) as source,
            _new_file(target, stat.st_mtime_ns) as file,
            zipfile.ZipFile(file, "w") as copy,
        ):
            for entry in source.infolist():
                if not entries.fullmatch(entry.filename):
                    copy.writestr(entry, source.read(entry))
    except (OSError, zipfile.BadZipFile):
        return jar
    return target


@contextmanager
def _new_file(target: Path, mtime_ns: int | None = None) -> Iterator[IO[bytes]]:
    """A file that appears under its name only when it is whole. Two processes may make it at once: a copy that has
    its source's time is the same file to the JVM, whoever comes last."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        temporary.chmod(0o644)
        if mtime_ns is not None:
            os.utime(temporary, ns=(mtime_ns, mtime_ns))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
