"""Refs and commits, named by the objects that the lake returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mere import session
from mere.api.project import Project
from mere.engine.session import Session
from mere.errors import RefNotFound, UsageError
from mere.lake.lake import Lake
from tests.lake import iceberg_tables

NAMES = {"ref", "at", "on", "branch", "into", "expect", "commit", "old", "new", "source"}
ELSEWHERE = {"adopt": {"source", "into"}}  # another catalog, and a namespace


def methods() -> list[Callable[..., Any]]:
    found = [each for of in (Lake, Project, Session) for each in vars(of).values() if inspect.isfunction(each)]
    return [session, *(each for each in found if not each.__name__.startswith("_"))]


@pytest.mark.parametrize("method", methods(), ids=lambda each: each.__qualname__)
def test_wherever_a_ref_is_named_objects_are_taken(method: Callable[..., Any]) -> None:
    for name, each in inspect.signature(method).parameters.items():
        if name in NAMES and name not in ELSEWHERE.get(method.__name__, ()):
            assert each.annotation in ("RefLike", "RefLike | None"), name


def test_objects_name_what_they_are(tmp_path: Path) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        iceberg_tables.create(lake, "a.t")
        iceberg_tables.append(lake, "a.t", 1)
        first = lake.at().commit
        main = lake.refs()[0]
        dev = lake.branch("dev", at=first)
        tag = lake.tag("v1", at=main)
        iceberg_tables.append(lake, "a.t", 2, ref="dev")
        seen = lake.publish(dev, into=main, dry_run=True)
        assert lake.diff(main, dev).tables
        done = lake.publish(dev, into=main, expect=seen.head)
        assert done.commit is not None
        assert done.commit.message == "publish dev"
        assert next(iter(lake.log(main))) == done.commit == lake.at(main).commit
        assert list(lake.sql("select count(*) from a.t", at=done.commit)) == [(2,)]
        assert lake.show("a.t", at=first).to_dict()
        assert lake.revert(done.commit, on=main) is not None
        assert lake.restore(done.commit, on=main) is not None
        assert lake.restore(tag, on=dev) is not None
        assert lake.catalog_name(main) == "main"
        assert lake.drop("a.t", on=dev) == lake.at("dev").commit
        assert lake.delete(tag) == tag
        with pytest.raises(RefNotFound, match="no branch"):
            lake.publish(first)


@pytest.mark.parametrize("wrong", [1, None, Path("main"), ["main"]])
def test_what_names_no_ref_is_told_apart(tmp_path: Path, wrong: Any) -> None:
    with Lake.create(tmp_path / "lake") as lake:
        asks: list[Callable[[Any], object]] = [
            lake.at, lake.revert, lake.log, lake.publish, lake.delete, lake.pyiceberg, lake.catalog_name
        ]  # fmt: skip
        for ask in asks:
            with pytest.raises(UsageError, match="not a ref") as refused:
                ask(wrong)
            assert "a Ref or a Commit" in str(refused.value.remedy)
