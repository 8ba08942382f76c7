"""Runs that were asked for over HTTP, each a process of its own: it goes on when the server ends."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from mere.errors import MereError, UsageError
from mere.serve.engine import memory
from mere.serve.http.errors import HttpError, bad_request, of_any

if TYPE_CHECKING:
    from mere.api.project import Project

_AT_ONCE = 4  # processes; each may start a Spark
_PATIENCE = 60.0  # seconds until a run has begun
_LOOK = 0.05  # seconds
_LONGEST = 4000  # of what is told of a process that failed, in letters

# The members of a request, by the flags that say the same; True: the flag stands alone.
_FLAGS: Mapping[str, str] = {
    "on": "--on",
    "start": "--from",
    "end": "--to",
    "limit_windows": "--limit-windows",
    "sample": "--sample",
    "accept": "--accept",
    "if_running": "--if-running",
    "threads": "--threads",
    "message": "--message",
    "resume": "--resume",
    "full_refresh": "--full-refresh",
    "forward_only": "--forward-only",
    "allow_breaking": "--allow-breaking",
}


def arguments(asked: Mapping[str, Any]) -> list[str]:
    """What a run is asked for, as a command line has it. Nothing in it can be taken for another flag."""
    found = []
    for name, flag in _FLAGS.items():
        value = asked.get(name)
        if value is True:
            found.append(flag)
        elif isinstance(value, list):
            found += [f"{flag}={each}" for each in value]
        elif value is not None and value is not False:
            found.append(f"{flag}={value}")
    if asked.get("check") is False:
        found.append("--no-check")
    found += [f"--var={name}={value}" for name, value in (asked.get("vars") or {}).items()]
    return [*found, "--", *asked.get("select", ())]


class Starter:
    """Starts processes, and knows which of them go on."""

    def __init__(self) -> None:
        self._going_on: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()

    def start(self, project: Project, asked: Mapping[str, Any], author: str) -> dict[str, Any]:
        """Returns when the run has begun, waits for another one, or has ended without having begun."""
        command = [*project.command, "run", "--json", *arguments(asked)]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = self._started(command, project, author, out, err)
            return _told(process, out, err)

    def _started(
        self, command: Sequence[str], project: Project, author: str, out: IO[bytes], err: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            self._going_on = [each for each in self._going_on if each.poll() is None]
            if len(self._going_on) >= _AT_ONCE:
                message = f"{_AT_ONCE} runs that were started here are in progress. Try again when one has ended."
                raise HttpError(503, "ServiceUnavailableException", message, {"Retry-After": "30"})
            process = subprocess.Popen(
                command,
                cwd=project.folder,
                env={**os.environ, "MERE_AUTHOR": author},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,  # Ctrl-C is for the server
            )
            memory.unlimited(process.pid)
            self._going_on.append(process)
            return process


def _told(process: subprocess.Popen[bytes], out: IO[bytes], err: IO[bytes]) -> dict[str, Any]:
    until = time.monotonic() + _PATIENCE
    while True:
        has_ended = process.poll() is not None
        for event in _events(out):
            if event["event"] == "run":
                return {"id": event["id"], "state": "running", "branch": event["branch"], "on": event["on"]}
            if event["event"] == "end":
                return _ended(event)
            if event["event"] == "waiting":
                return {"id": None, "state": "waiting", "for": event["for"]}
        if has_ended:
            told = _text(err).removeprefix("error: ") or "The run ended before it had begun."
            raise bad_request(told) if process.returncode == UsageError.exit_code else _failed(told)
        if time.monotonic() > until:
            return {"id": None, "state": "starting"}
        time.sleep(_LOOK)


def _ended(event: Mapping[str, Any]) -> dict[str, Any]:
    if event["state"] in ("failed", "cancelled"):
        raise _failed(str(event.get("error") or "The run failed before it had begun."))
    return {"id": None, "state": event["state"]}


def _failed(message: str) -> HttpError:
    return of_any(MereError(message))


def _events(out: IO[bytes]) -> Iterator[dict[str, Any]]:
    """All that there are up to now; a line that is still being written is left for the next time."""
    size = os.fstat(out.fileno()).st_size
    for line in os.pread(out.fileno(), size, 0).split(b"\n")[:-1]:
        yield json.loads(line)


def _text(err: IO[bytes]) -> str:
    size = os.fstat(err.fileno()).st_size
    return " ".join(os.pread(err.fileno(), min(size, _LONGEST), 0).decode(errors="replace").split())
