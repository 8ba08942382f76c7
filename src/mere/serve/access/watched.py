"""A file that is read again when it has changed."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from mere.errors import ConfigError
from mere.serve.protocol.port import PgError

Content = TypeVar("Content")

_LOG = logging.getLogger(__name__)
_SETTLED = 0.1  # seconds after which a file's times tell that it has changed again


class Watched(Generic[Content]):
    """Threads may use it together. A file that went bad keeps its last content, beside the error."""

    def __init__(self, path: Path, read: Callable[[Path], Content], content: Content) -> None:
        self.path = path
        self.error: ConfigError | None = None
        self._read = read
        self._content = content
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._digest: bytes | None = None

    def last(self) -> Content:
        """The content, or where the file is bad the one before it."""
        self._look()
        return self._content

    def now(self) -> Content:
        """ConfigError where the file is bad."""
        self._look()
        if self.error is not None:
            raise self.error
        return self._content

    def admit(self) -> None:
        """Nobody comes in by what a file said before it went bad. The client is not told where the file is."""
        self._look()
        if self.error is not None:
            raise PgError("57P03", "logins are refused at the moment: who may read what is not known", hint=_ASK)

    def _look(self) -> None:
        with self._lock:
            stamp = self._stamp()
            if stamp is not None and stamp == self._seen:
                return
            digest = self._digest_now()
            if digest is None or digest != self._digest:
                self._take()
            self._seen, self._digest = stamp, digest

    def _take(self) -> None:
        before = self.error
        try:
            self._content = self._read(self.path)
            self.error = None
        except ConfigError as error:
            self.error = error
        if self.error is not None and str(before) != str(self.error):
            _LOG.error("nobody is let in, and connected clients keep their rights: %s", self.error)
        elif self.error is None and before is not None:
            _LOG.warning("%s can be read again", self.path)

    def _stamp(self) -> tuple[int, ...] | None:
        """None while the file may still be changing within one tick of its clock."""
        try:
            about = self.path.stat()
        except OSError:
            return None
        if 0 <= time.time() - about.st_mtime < _SETTLED:
            return None
        return about.st_mtime_ns, about.st_ctime_ns, about.st_ino, about.st_size, about.st_mode

    def _digest_now(self) -> bytes | None:
        """None where the file cannot be read."""
        try:
            content = self.path.read_bytes()
            return hashlib.blake2b(content + oct(self.path.stat().st_mode).encode()).digest()
        except OSError:
            return None


_ASK = "Ask whoever runs the server."
