"""`mere serve` for one run of a side: a process of its own, as it always is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.services.postgres import free_port

MERE = str(Path(sys.executable).with_name("mere"))


@contextmanager
def rest(lake: Path | None, variables: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of its REST catalog. Without a lake it is that of the mere.yaml here, which needs the variables."""
    chosen = ["--lake", str(lake)] if lake else []
    command = [MERE, *chosen, "serve", "--trust", "--port", "0", "--http-port", str(free_port())]
    command += ["--json", "--audit", "audit.log"]
    environment = {**os.environ, **(variables or {})}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            text = ""
            while not text.endswith("}\n"):
                line = server.stdout.readline()
                assert line, "mere serve did not start"
                text += line
            yield f"http://127.0.0.1:{json.loads(text)['http_port']}/iceberg"
        finally:
            server.terminate()
