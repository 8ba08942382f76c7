"""Finds a warm engine, by a file that only its owner can read, and by locks.

Who is alive is told by locks on files, which the system frees when their holder ends, however it ends: the engine
holds `alive`, and each client holds a file with the name of its session. A process id could be somebody else's by now.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from mere.config import mere_home
from mere.engine.lock import exclusive

PROBE = ".probe"  # at the end of the name of a session that only asks how the engine is


@dataclass(frozen=True)
class Engine:
    """What the file says of an engine."""

    pid: int
    address: str
    token: str = field(repr=False)
    fits: Mapping[str, str]  # see warm.wanted
    idle: float  # seconds
    since: str
    log: str
    jvm: int  # its process
    failure: str | None = None  # why it ended, if it did not mean to
    ui: str | None = None  # the address of Spark's web UI
    # Where it serves clients that mere has not started, and what they have to show. It may come later.
    front: str | None = field(default=None, compare=False)
    secret: str | None = field(default=None, compare=False, repr=False)
    monitor: str | None = field(default=None, compare=False)

    @classmethod
    def from_json(cls, text: str) -> Engine:
        """ValueError if it is something else."""
        try:
            known = json.loads(text)
            return cls(**{name: known[name] for name in cls.__dataclass_fields__})
        except (TypeError, KeyError) as exc:
            raise ValueError(text) from exc

    def differs(self, fits: Mapping[str, str]) -> str | None:
        """In what it is not the engine that is wanted."""
        return next((name for name in fits if self.fits.get(name) != fits[name]), None)


@dataclass(frozen=True)
class Place:
    """Where the files of a lake's engine are. The lake may be on S3: they belong to the machine, not to the lake."""

    folder: Path

    @classmethod
    def of(cls, location: str, *, shared: bool = False) -> Place:
        """`shared`: of the engine that others use, beside the one of this user."""
        key = hashlib.sha256(f"{os.getuid()}\0{location}".encode()).hexdigest()[:16]
        return cls(mere_home() / "engines" / (f"{key}-shared" if shared else key))

    @property
    def file(self) -> Path:
        return self.folder / "engine.json"

    @property
    def alive(self) -> Path:
        return self.folder / "alive"

    @property
    def pulse(self) -> Path:
        """Written every few seconds; see pulse.py."""
        return self.folder / "pulse.json"

    @property
    def clients(self) -> Path:
        return self.folder / "clients"

    @property
    def wish(self) -> Path:
        """For a front, from whoever wants to give its address to another program."""
        return self.folder / "wish.json"

    @property
    def usage(self) -> Path:
        """Of the front, written with the pulse."""
        return self.folder / "usage.json"

    def make(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        for folder in (self.folder, self.clients):
            folder.mkdir(mode=0o700, exist_ok=True)

    def write(self, engine: Engine) -> None:
        """Never readable by others, not even for a moment."""
        self.put(self.file, asdict(engine))

    def put(self, path: Path, content: Mapping[str, object]) -> None:
        """A file of this folder, which appears when it is whole."""
        unfinished = self.folder / f".{path.stem}.{os.getpid()}"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(content, file)
        unfinished.replace(path)

    def get(self, path: Path) -> dict[str, object]:
        """What is in such a file; nothing if there is none."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def engine(self) -> Engine | None:
        """The engine that is alive."""
        engine = self._known()
        return engine if engine is not None and engine.failure is None and is_held(self.alive) else None

    def dead(self) -> Engine | None:
        """An engine that ended without meaning to: whoever started it still wants one. Not for longer than it would
        have rested: it would have ended by itself, then."""
        engine = self._known()
        if engine is None or (engine.failure is None and is_held(self.alive)):
            return None
        return engine if time.time() - self._last_sign() < engine.idle else None

    def _known(self) -> Engine | None:
        """What the file says, whether it is alive or not."""
        try:
            with self.file.open(encoding="utf-8") as file:
                about = os.fstat(file.fileno())
                if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
                    return None  # whoever else can write it could send us anywhere
                return Engine.from_json(file.read())
        except (OSError, ValueError):
            return None

    def _last_sign(self) -> float:
        """Of life."""
        return max(path.stat().st_mtime for path in (self.file, self.pulse) if path.is_file())

    def withdraw(self, engine: Engine) -> list[str]:
        """Take the file away, unless there are sessions: these are given then. Only who holds `start` may.

        A client locks its own file before it looks for this one a second time: one of the two sees the other.
        """
        self.file.unlink(missing_ok=True)
        if used := self.sessions():
            self.write(engine)
        return used

    @contextmanager
    def unless_starting(self) -> Iterator[bool]:
        """As `starting`, but False at once if another process starts or ends the engine."""
        with exclusive(self.folder / "start", wait=False) as mine:
            yield mine

    def tidy(self) -> None:
        """Remove what tells nothing any more, unless an engine is being started."""
        if self.file.is_file():
            with self.unless_starting() as mine:
                if mine and self.engine() is None and self.dead() is None:
                    self.file.unlink(missing_ok=True)

    def leave_word(self, engine: Engine, failure: str) -> None:
        """Let the file say why the engine ended, unless it tells of another one."""
        with self.unless_starting() as mine:
            known = self._known()
            if mine and (known is None or known.token == engine.token):
                self.write(replace(engine, failure=failure))

    def sessions(self) -> list[str]:
        """Of clients that live; who only asks how the engine is does not count."""
        return [path.name for path in self._named() if not path.name.endswith(PROBE) and is_held(path)]

    def left(self) -> list[str]:
        """Sessions of clients that are gone."""
        return [path.name for path in self._named() if not is_held(path)]

    def _named(self) -> list[Path]:
        try:
            return [path for path in self.clients.iterdir() if not path.name.startswith(".")]
        except OSError:
            return []

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Only one process starts or ends the engine at a time."""
        self.make()
        with exclusive(self.folder / "start"):
            yield


def is_held(path: Path) -> bool:
    """Whether a living process holds the lock on the file. Asked by a shared lock: who asks at once is no holder."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def hold(path: Path) -> int:
    """Make the file and lock it; it appears under its name only when it is locked. Closing what is given frees it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unfinished.replace(path)
    return descriptor
