"""A Postgres for one run of a side, or one whose data stays for the next runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.services.postgres import Postgres


@contextmanager
def running() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="mere-bench-pg-") as folder:
        Path(folder).chmod(0o755)  # the server's own user must get there
        server = Postgres(Path(folder) / "server", durable=True)
        server.start()
        try:
            yield server.new_database("lake")
        finally:
            server.stop()


@contextmanager
def kept(folder: Path) -> Iterator[str]:
    """Its data are in the folder, and stay there. The server's own user must get to it."""
    server = Postgres(folder, durable=True)
    server.start()
    try:
        yield server.url()
    finally:
        server.stop()
