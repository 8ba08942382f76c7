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

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the suite in the background lets it ignore Ctrl-C, which some tests are about.
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A shared machine can stall for a second at any moment: time is pytest-timeout's matter, not hypothesis'.
settings.register_profile("mere", deadline=None)
settings.load_profile("mere")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A developer's own MERE_* settings stay out of the tests; MERE_HOME stays, because it has the jars."""
    for name in [name for name in os.environ if name.startswith("MERE_") and name != "MERE_HOME"]:
        monkeypatch.delenv(name)


OpenSession = Callable[..., "Session"]


@pytest.fixture(scope="session")
def warm_jvm(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[None]:
    """One JVM for the whole suite: a session that stays open keeps it from ending with the sessions of single tests.

    On Postgres, so that the driver is there for the tests that need it.
    """
    from mere import Lake, session

    url = postgres_server.new_database("warm")
    lake = Lake.create(tmp_path_factory.mktemp("warm") / "lake", catalog=url)
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
