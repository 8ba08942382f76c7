"""A Postgres for one run of a side."""

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
