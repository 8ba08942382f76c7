"""What every test stands on. Fixtures of one part live beside its tests."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from mere import Session
    from tests.services.postgres import Postgres
    from tests.services.rest import RestServer
    from tests.services.s3 import S3Server

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the suite in the background lets it ignore Ctrl-C, which some tests are about.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A shared machine can stall for a second at any moment: time is pytest-timeout's matter, not hypothesis'.
settings.register_profile("mere", deadline=None)
settings.load_profile("mere")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own MERE_* and AWS_* settings stay out of the tests; MERE_HOME stays, because it has the jars."""
    for name in [name for name in os.environ if name.startswith(("MERE_", "AWS_")) and name != "MERE_HOME"]:
        monkeypatch.delenv(name)


OpenSession = Callable[..., "Session"]


@pytest.fixture(scope="session")
def warm_jvm(postgres_server: Postgres, s3_server: S3Server, s3_bucket: str) -> Iterator[None]:
    """One JVM for the whole suite: a session that stays open keeps it from ending with the sessions of single tests.

    On Postgres and S3, so that the jars are there for the tests that need them.
    """
    from mere import Lake, session

    url = postgres_server.new_database("warm")
    lake = Lake.create(f"{s3_bucket}/warm", catalog=url, s3=s3_server.settings)
    with session(lake, "main"):
        yield
    lake.close()


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
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """One Iceberg REST catalog for the whole suite; a test takes a namespace of its own."""
    from tests.services.rest import RestServer

    server = RestServer(tmp_path_factory.mktemp("rest"))
    server.start()
    yield server
    server.stop()
