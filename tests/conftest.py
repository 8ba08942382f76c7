"""What every test stands on. Fixtures of one part live beside its tests."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.memory import give_back, use_memory

if TYPE_CHECKING:
    from mere import Lake, Session
    from mere.engine.warm.discovery import Engine
    from tests.order import FromBothEnds
    from tests.services.postgres import Postgres
    from tests.services.rest import RestServer
    from tests.services.s3 import S3Server
    from tests.services.trino import Trino

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the suite in the background lets it ignore Ctrl-C, which some tests are about.
    signal.signal(signal.SIGINT, signal.default_int_handler)

use_memory()

# A shared machine can stall for a second at any moment: time is pytest-timeout's matter, not hypothesis'.
settings.register_profile("mere", deadline=None)
settings.load_profile("mere")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """A million objects that stay to the end are not looked at again and again, for what may be garbage among them."""
    gc.disable()
    found = yield
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from tests.order import mark, spark_first

    for item in items:
        mark(item)
    spark_first(items)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not getattr(config, "failed", True):
        give_back()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.failed = exitstatus != pytest.ExitCode.OK  # type: ignore[attr-defined]


def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest) -> None:
    from tests.order import MARKS, is_marked

    test = request._pyfuncitem
    if not is_marked(test, fixturedef.argname):
        pytest.fail(f"mark it with {MARKS[fixturedef.argname]}: it asks for {fixturedef.argname} as it runs")


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FromBothEnds | None:
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.order import FromBothEnds

    return FromBothEnds(config, log)


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own MERE_* and AWS_* settings stay out of the tests; MERE_HOME stays, because it has the jars."""
    for name in [name for name in os.environ if name.startswith(("MERE_", "AWS_")) and name != "MERE_HOME"]:
        monkeypatch.delenv(name)


OpenSession = Callable[..., "Session"]


@pytest.fixture(scope="session")
def warm_jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One JVM for the whole suite: a session that stays open keeps it from ending with the sessions of single tests.

    With the jars of Postgres and S3, for the tests that need them.
    """
    from mere import Lake, session
    from mere.engine.jvm.jars import AWS, POSTGRES

    with Lake.create(tmp_path_factory.mktemp("warm") / "lake") as lake, session(lake, "main", drivers=(POSTGRES, AWS)):
        yield


@pytest.fixture
def spark_on(warm_jvm: None) -> Iterator[OpenSession]:
    """`spark_on(lake, ref)` opens a session on a ref, on the suite's warm JVM; it is stopped after the test."""
    from mere import session

    opened: list[Session] = []

    def open_session(*arguments: Any, **options: Any) -> Session:
        opened.append(session(*arguments, **options))
        return opened[-1]

    yield open_session
    for each in opened:
        each.stop()


@pytest.fixture(scope="session")
def warm_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    from mere import Lake

    with Lake.create(tmp_path_factory.mktemp("warm") / "lake") as lake:
        yield lake


@pytest.fixture(scope="session")
def warm_engine(warm_lake: Lake) -> Iterator[Engine]:
    """One for the whole suite, of `warm_lake`; a test may use any lake on it."""
    from mere.engine.warm import engine as warm
    from mere.sparkconfig import SparkSettings

    # Kept for longer than a run of the suite.
    engine, new = warm.start(warm_lake.location, SparkSettings(memory="1g"), idle=timedelta(hours=2))
    assert new
    yield engine
    warm.stop(warm_lake.location, now=True)


@pytest.fixture
def no_jvm_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: `session` finds no JVM that runs already, and looks for a warm engine."""
    from mere.engine import session as module

    monkeypatch.setattr(module, "_driver", None)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """One Postgres for the whole suite; a test takes a database of its own."""
    from tests.services.postgres import Postgres

    # Not below pytest's own folder, which only its owner may enter.
    with tempfile.TemporaryDirectory(prefix="mere-pg-") as folder:
        Path(folder).chmod(0o755)
        server = Postgres(Path(folder) / "server")
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One S3 server for the whole suite."""
    from tests.services.s3 import S3Server

    with tempfile.TemporaryDirectory(prefix="mere-s3-") as folder:
        server = S3Server(Path(folder))
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="session")
def s3_bucket(s3_server: S3Server) -> str:
    """A bucket, in which a test takes a prefix of its own."""
    return s3_server.new_bucket("mere-tests")


@pytest.fixture(scope="session")
def trino_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    """One Trino for the whole suite; a test creates catalogs of its own. Only `make test-long` has it."""
    from tests.services.trino import Trino

    server = Trino(tmp_path_factory.mktemp("trino"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """One Iceberg REST catalog for the whole suite; a test takes a namespace of its own."""
    from tests.services.rest import RestServer

    server = RestServer(tmp_path_factory.mktemp("rest"))
    server.start()
    yield server
    server.stop()
