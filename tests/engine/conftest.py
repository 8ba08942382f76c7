"""Sessions on the suite's warm engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mere import Lake, Session
from mere.engine.warm import engine as warm
from mere.engine.warm.discovery import Engine
from mere.sparkconfig import SparkSettings

SETTINGS = SparkSettings(memory="1g")

OpenWarm = Callable[..., Session]


def connected(at: Lake, engine: Engine, lake: Lake, ref: str = "main") -> Session:
    """A session on any lake, by the engine of the lake `at`. The suite's own JVM does not mind: it is not asked."""
    connection = warm.connect(at.location, engine)
    opened = Session(connection, connection.spark, lake, connection.close)
    opened.use(ref)
    return opened


@pytest.fixture
def open_warm(warm_lake: Lake, warm_engine: Engine) -> Iterator[OpenWarm]:
    opened: list[Session] = []

    def open_session(lake: Lake, ref: str = "main") -> Session:
        opened.append(connected(warm_lake, warm_engine, lake, ref))
        return opened[-1]

    yield open_session
    for each in opened:
        each.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        yield lake
