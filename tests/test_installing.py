"""Remedies that install a package work as typed, whatever made the environment."""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

import mere
from mere import installing
from mere.installing import pip_install


def test_pip_of_the_running_python_is_named_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "find_spec", lambda name: ModuleSpec(name, None))
    assert shlex.split(pip_install("a>=1,<2")) == [sys.executable, "-m", "pip", "install", "a>=1,<2"]


def test_without_pip_it_is_uv_or_pip_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "find_spec", lambda _: None)
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/uv")
    assert pip_install("polars") == f"uv pip install --python {shlex.quote(sys.executable)} polars"
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert pip_install("polars").startswith(f"{shlex.quote(sys.executable)} -m ensurepip && ")


def test_no_remedy_names_a_pip_of_its_own() -> None:
    home = Path(mere.__file__).parent
    found = {file.name for file in home.rglob("*.py") if "pip install" in file.read_text()}
    assert not found
