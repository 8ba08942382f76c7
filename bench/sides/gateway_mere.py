"""The trips through the gateway, by psycopg: python gateway_mere.py group_by|fetch|look_up|small.

`mere serve` is a process of its own, as it always is; times are the client's.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.sides import gateway, gateway_client, gateway_small
from bench.sides.answer import answer

MERE = str(Path(sys.executable).with_name("mere"))


@dataclass(frozen=True)
class Served:
    url: str
    process: int

    @property
    def peak(self) -> int:
        """The most memory that the server has held so far, in bytes."""
        status = Path(f"/proc/{self.process}/status").read_text(encoding="utf-8")
        return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) * 1024


@contextmanager
def served() -> Iterator[Served]:
    lake = str(gateway.folder() / "lake")
    command = [
        MERE,
        "--lake",
        lake,
        "serve",
        "--trust",
        "--port",
        "0",
        "--http-port",
        "0",
        "--json",
        "--audit",
        "audit.log",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            text = ""
            while not text.endswith("}\n"):
                line = server.stdout.readline()
                assert line, "mere serve did not start"
                text += line
            yield Served(json.loads(text)["url"], server.pid)
        finally:
            server.terminate()


with served() as server:
    match sys.argv[1]:
        case "group_by":
            result, times = gateway_client.group_by(server.url)
        case "fetch":
            result, times = gateway_client.fetch(server.url)
            gateway_client.read_all(server.url)
            times["server_bytes"] = server.peak
        case "look_up":
            result, times = gateway_client.look_up(server.url)
        case "small":
            result, times = gateway_small.small(server.url)
answer(result, **times)
