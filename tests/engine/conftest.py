"""One warm engine for all tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from mere import Lake, Session
from mere.config import SparkSettings
from mere.engine import session as module
from mere.engine.warm import engine as warm
from mere.engine.warm.discovery import Engine

SETTINGS = SparkSettings(memory="1g")

OpenWarm = Callable[..., Session]


@pytest.fixture(scope="session")
def warm_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with Lake.create(tmp_path_factory.mktemp("warm") / "lake") as lake:
        yield lake


@pytest.fixture(scope="session")
def warm_engine(warm_lake: Lake) -> Iterator[Engine]:
    """Of `warm_lake`; a test may use any lake on it through `open_warm`."""
    engine, new = warm.start(warm_lake.location, SETTINGS, idle=timedelta(hours=2))  # longer than a run of the suite
    assert new
    yield engine
    warm.stop(warm_lake.location, now=True)


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
def no_jvm_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: `session` finds no JVM that runs already, and looks for a warm engine."""
    monkeypatch.setattr(module, "_driver", None)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(tmp_path / "lake") as lake:
        yield lake
