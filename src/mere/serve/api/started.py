"""Runs that were asked for over HTTP, each a process of its own: it goes on when the server ends."""

from __future__ import annotations

import json
import os
import secrets
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

from mere import errors
from mere.errors import ConfigError, MereError, UsageError
from mere.names import MAIN
from mere.serve.engine import memory
from mere.serve.http.errors import HttpError

if TYPE_CHECKING:
    from mere.api.project import Project

_AT_ONCE = 4  # processes; each may start a Spark
_PATIENCE = 30.0  # seconds for a run to begin, until its caller is answered
_LOOK = 0.05  # seconds
_LAST_WORDS = 10.0  # seconds until a process that is ended has ended
_UNTIL_IT_BEGINS = ("starting", "waiting")
_SILENT = "The run ended before it had begun."
_REMEMBERED = 100  # runs that had not begun
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
class Pending:
    """A run that had not begun when its caller was answered: it starts, or waits for another one. Up to its turn, the
    lake knows nothing of it."""

    id: str
    on: str
    author: str
    process: subprocess.Popen[bytes]
    out: int  # the open file with its events
    err: int
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    was_cancelled: bool = False

    def __post_init__(self) -> None:
        for file in (self.out, self.err):
            weakref.finalize(self, os.close, file)

    def to_dict(self) -> dict[str, Any]:
        """In the form of a run's record."""
        status, error, why = "starting", None, None
        has_ended = self.process.poll() is not None
        for event in _events(self.out):
            if event["event"] == "waiting":
                status, why = "waiting", event["for"]
            elif event["event"] == "end":
                status, error = event["state"], event.get("error")
        if self.was_cancelled:
            status = "cancelled"
        elif has_ended and status in ("starting", "waiting"):
            status, error = "failed", _text(self.err) or _SILENT
        return {
            "id": self.id,
            "target": self.on,
            "branch": None,
            "status": status,
            "author": self.author,
            "started_at": self.at.isoformat(timespec="milliseconds"),
            "ended_at": None,
            "for": why,
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

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._patience = patience
        self._going_on: list[subprocess.Popen[bytes]] = []
        self._pending: dict[str, Pending] = {}
        self._lock = threading.Lock()

    def start(self, project: Project, asked: Mapping[str, Any], author: str) -> dict[str, Any]:
        """Returns when the run has begun, waits for another one, has ended without having begun, or takes long to
        begin. Its id is known from the first."""
        id_ = asked.get("resume") or secrets.token_hex(6)
        own = () if asked.get("resume") else (f"--id={id_}",)
        command = [*project.command, "run", "--json", *own, *arguments(asked)]
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = self._started(command, project, author, out, err)
            told = _told(process, out, err, self._patience) or {"status": "starting"}
            if told["status"] in _UNTIL_IT_BEGINS:
                files = os.dup(out.fileno()), os.dup(err.fileno())
                self._remember(Pending(id_, asked.get("on") or MAIN, author, process, *files))
                return {"id": id_, **told}
            return told

    def pending(self, id_: str) -> Pending | None:
        """Also one that has ended without having begun."""
        return self._pending.get(id_)

    def _remember(self, run: Pending) -> None:
        with self._lock:
            self._pending[run.id] = run
            while len(self._pending) > _REMEMBERED:
                self._pending.pop(next(iter(self._pending)))

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


def _told(process: subprocess.Popen[bytes], out: IO[bytes], err: IO[bytes], patience: float) -> dict[str, Any] | None:
    """What has come of it; None if nothing has so far."""
    until = time.monotonic() + patience
    while True:
        has_ended = process.poll() is not None
        for event in _events(out.fileno()):
            if event["event"] == "run":
                return {"id": event["id"], "status": "running", "branch": event["branch"], "on": event["on"]}
            if event["event"] == "end":
                return _ended(event)
            if event["event"] == "waiting":
                return {"status": "waiting", "for": event["for"]}
        if has_ended:
            told = _text(err.fileno()) or _SILENT
            raise UsageError(told) if process.returncode == UsageError.exit_code else MereError(told)
        if time.monotonic() > until:
            return None
        time.sleep(_LOOK)


def _ended(event: Mapping[str, Any]) -> dict[str, Any]:
    if event["state"] in ("failed", "cancelled"):
        raise _error(event.get("error_kind"))(str(event.get("error") or "The run failed before it had begun."))
    return {"id": None, "status": event["state"]}


def _error(kind: str | None) -> type[MereError]:
    """Of which kind the process has said that its error was: that decides how the caller is answered."""
    found = getattr(errors, kind or "", MereError)
    # What is wrong with a project has its places in its text here.
    return MereError if issubclass(found, ConfigError) else found


def _events(out: int) -> Iterator[dict[str, Any]]:
    """All that there are up to now; a line that is still being written is left for the next time."""
    size = os.fstat(out).st_size
    for line in os.pread(out, size, 0).split(b"\n")[:-1]:
        yield json.loads(line)


def _text(err: int) -> str:
    size = os.fstat(err).st_size
    return os.pread(err, min(size, _LONGEST), 0).decode(errors="replace").strip().removeprefix("error: ")
