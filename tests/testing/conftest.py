"""Projects on the suite's warm JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.pipeline.shop import Shop

MakeShop = Callable[[Mapping[str, str]], Shop]


@pytest.fixture
def shop(tmp_path: Path, warm_jvm: None) -> Iterator[MakeShop]:
    """`shop(files)` makes a project with a lake; they are closed after the test."""
    made: list[Shop] = []

    def make(files: Mapping[str, str]) -> Shop:
        made.append(Shop(tmp_path / f"shop{len(made)}", files))
        return made[-1]

    yield make
    for each in made:
        each.lake.close()
