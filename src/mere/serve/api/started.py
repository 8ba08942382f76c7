"""Runs that were asked for over HTTP, each a process of its own: it goes on when the server ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

from mere.errors import MereError, UsageError
from mere.names import MAIN
from mere.serve.engine import memory
from mere.serve.http.errors import HttpError, bad_request, of_any

if TYPE_CHECKING:
    from mere.api.project import Project

_AT_ONCE = 4  # processes; each may start a Spark
_PATIENCE = 60.0  # seconds until a run has begun
_LOOK = 0.05  # seconds
_LAST_WORDS = 10.0  # seconds until a process that is ended has ended
_REMEMBERED = 100  # runs that waited
_LONGEST = 4000  # of what is told of a process that failed, in letters

# The members of a request, by the flags that say the same; True: the flag stands alone.
FLAGS: Mapping[str, str] = {
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
    for name, flag in FLAGS.items():
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


@dataclass
class Waiting:
    """A run that waited for another one when it was started: up to its turn, the lake knows nothing of it."""

    id: str
    on: str
    author: str
    why: str
    process: subprocess.Popen[bytes]
    out: int  # the open file with its events
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    was_cancelled: bool = False

    def __post_init__(self) -> None:
        weakref.finalize(self, os.close, self.out)

    def to_dict(self) -> dict[str, Any]:
        """In the form of a run's record."""
        status, error = "waiting", None
        if self.was_cancelled:
            status = "cancelled"
        elif self.process.poll() is not None:
            end = next((each for each in _events(self.out) if each["event"] == "end"), {})
            status, error = end.get("state", "failed"), end.get("error")
        return {
            "id": self.id,
            "target": self.on,
            "branch": None,
            "status": status,
            "author": self.author,
            "started_at": self.at.isoformat(timespec="milliseconds"),
            "ended_at": None,
            "for": self.why,
            "error": error,
            "models": {},
            "attempts": [],
        }

    def cancel(self) -> None:
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)  # it has a session of its own
            self.process.wait(_LAST_WORDS)
            self.was_cancelled = True


class Starter:
    """Starts processes, and knows which of them go on."""

    def __init__(self) -> None:
        self._going_on: list[subprocess.Popen[bytes]] = []
        self._waiting: dict[str, Waiting] = {}
        self._lock = threading.Lock()

    def start(self, project: Project, asked: Mapping[str, Any], author: str) -> dict[str, Any]:
        """Returns when the run has begun, waits for another one, or has ended without having begun."""
        command = [*project.command, "run", "--json", *arguments(asked)]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = self._started(command, project, author, out, err)
            told = _told(process, out, err)
            if told["status"] == "waiting":
                what = (told["id"], asked.get("on") or MAIN, author, told["for"])
                self._remember(Waiting(*what, process, os.dup(out.fileno())))
            return told

    def waiting(self, id_: str) -> Waiting | None:
        """Also one that has ended without having had its turn."""
        return self._waiting.get(id_)

    def _remember(self, run: Waiting) -> None:
        with self._lock:
            self._waiting[run.id] = run
            while len(self._waiting) > _REMEMBERED:
                self._waiting.pop(next(iter(self._waiting)))

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
        for event in _events(out.fileno()):
            if event["event"] == "run":
                return {"id": event["id"], "status": "running", "branch": event["branch"], "on": event["on"]}
            if event["event"] == "end":
                return _ended(event)
            if event["event"] == "waiting":
                return {"id": event["id"], "status": "waiting", "for": event["for"]}
        if has_ended:
            told = _text(err).removeprefix("error: ") or "The run ended before it had begun."
            raise bad_request(told) if process.returncode == UsageError.exit_code else _failed(told)
        if time.monotonic() > until:
            return {"id": None, "status": "starting"}
        time.sleep(_LOOK)


def _ended(event: Mapping[str, Any]) -> dict[str, Any]:
    if event["state"] in ("failed", "cancelled"):
        raise _failed(str(event.get("error") or "The run failed before it had begun."))
    return {"id": None, "status": event["state"]}


def _failed(message: str) -> HttpError:
    return of_any(MereError(message))


def _events(out: int) -> Iterator[dict[str, Any]]:
    """All that there are up to now; a line that is still being written is left for the next time."""
    size = os.fstat(out).st_size
    for line in os.pread(out, size, 0).split(b"\n")[:-1]:
        yield json.loads(line)


def _text(err: IO[bytes]) -> str:
    size = os.fstat(err.fileno()).st_size
    return " ".join(os.pread(err.fileno(), min(size, _LONGEST), 0).decode(errors="replace").split())
